//! Blocking: what a run does that becomes due while other runs of its job are open.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use calendar::UnknownName;

/// A job's policy for runs that would overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// One after the other.
    Serial,
    /// Skip the new run.
    Discard,
    /// Cancel what is running and start the new run.
    Cover,
    /// Side by side, up to a number if there is one.
    Concurrent(Option<NonZeroU32>),
}

impl Default for Block {
    fn default() -> Block {
        Block::Concurrent(None)
    }
}

/// What a run may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Start beside whatever is running.
    Start,
    /// Stay until a run of the job is done, then ask again.
    Wait,
    /// Close as skipped.
    Skip,
    /// Cancel what is running, then start.
    Replace,
}

/// Decides about a run of a job of which `running` others are running, and `waiting_ahead` were told to
/// [`Admission::Wait`] and come first.
pub fn admit(block: Block, running: u32, waiting_ahead: u32) -> Admission {
    let is_busy = running > 0;
    match block {
        Block::Serial => start_below(1, running, waiting_ahead),
        Block::Concurrent(Some(limit)) => start_below(limit.get(), running, waiting_ahead),
        Block::Concurrent(None) => Admission::Start,
        // Nothing waits under these two. A run that waits since an edit of the job is asked again anyway.
        Block::Discard if is_busy => Admission::Skip,
        Block::Cover if is_busy => Admission::Replace,
        Block::Discard | Block::Cover => Admission::Start,
    }
}

/// Runs that wait already have the first claim on free slots, so a new run never overtakes them.
fn start_below(limit: u32, running: u32, waiting_ahead: u32) -> Admission {
    if running.saturating_add(waiting_ahead) < limit { Admission::Start } else { Admission::Wait }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Block::Serial => f.write_str("serial"),
            Block::Discard => f.write_str("discard"),
            Block::Cover => f.write_str("cover"),
            Block::Concurrent(None) => f.write_str("concurrent"),
            Block::Concurrent(Some(limit)) => write!(f, "concurrent({limit})"),
        }
    }
}

impl FromStr for Block {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Block, UnknownName> {
        let known = &["serial", "discard", "cover", "concurrent", "concurrent(n) with n from 1"];
        match name {
            "serial" => Ok(Block::Serial),
            "discard" => Ok(Block::Discard),
            "cover" => Ok(Block::Cover),
            "concurrent" => Ok(Block::Concurrent(None)),
            _ => limited(name).ok_or_else(|| UnknownName::new("block", name, known)),
        }
    }
}

fn limited(name: &str) -> Option<Block> {
    let digits = name.strip_prefix("concurrent(")?.strip_suffix(')')?;
    // The parser of numbers would take a sign too.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let limit = digits.parse().ok().filter(|_| is_plain)?;
    Some(Block::Concurrent(Some(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(name: &str) -> Block {
        name.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_run_is_admitted_by_what_runs_and_what_waits_before_it() {
        use Admission::{Replace, Skip, Start, Wait};
        for (name, running, waiting_ahead, admission) in [
            ("serial", 0, 0, Start),
            ("serial", 1, 0, Wait),
            ("serial", 0, 1, Wait),
            ("discard", 0, 0, Start),
            ("discard", 1, 0, Skip),
            ("discard", 2, 5, Skip),
            ("cover", 0, 0, Start),
            ("cover", 1, 0, Replace),
            ("cover", 2, 5, Replace),
            ("concurrent", 0, 0, Start),
            ("concurrent", u32::MAX, u32::MAX, Start),
            ("concurrent(1)", 1, 0, Wait),
            ("concurrent(3)", 2, 0, Start),
            ("concurrent(3)", 3, 0, Wait),
            ("concurrent(3)", 1, 1, Start),
            ("concurrent(3)", 1, 2, Wait),
            // Its limit was 5 before an edit.
            ("concurrent(3)", 5, 0, Wait),
            ("concurrent(3)", u32::MAX, u32::MAX, Wait),
        ] {
            assert_eq!(
                admit(block(name), running, waiting_ahead),
                admission,
                "{name} {running} {waiting_ahead}"
            );
        }
    }

    #[test]
    fn serial_admits_exactly_as_concurrent_one_does() {
        for (running, waiting_ahead) in (0..4).flat_map(|running| (0..4).map(move |ahead| (running, ahead))) {
            let answers = ["serial", "concurrent(1)"].map(|name| admit(block(name), running, waiting_ahead));
            assert_eq!(answers[0], answers[1]);
        }
    }

    #[test]
    fn blocks_are_read_by_the_names_they_print() {
        for name in ["serial", "discard", "cover", "concurrent", "concurrent(1)", "concurrent(4294967295)"] {
            assert_eq!(block(name).to_string(), name);
        }
        assert_eq!(Block::default(), block("concurrent"));
    }

    #[test]
    fn other_names_are_refused_with_those_that_exist() {
        for name in ["", "Serial", "concurrent()", "concurrent(0)", "concurrent(+3)", "concurrent(-1)"] {
            assert!(name.parse::<Block>().is_err(), "{name}");
        }
        for name in
            ["concurrent(3", "concurrent 3", "concurrent( 3)", "concurrent(4294967296)", "concurrent(٣)"]
        {
            assert!(name.parse::<Block>().is_err(), "{name}");
        }
        let error = "parallel".parse::<Block>().unwrap_err().to_string();
        assert!(error.starts_with("unknown block \"parallel\": expected serial, "), "{error}");
    }
}
