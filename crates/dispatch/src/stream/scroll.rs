//! The logs of running attempts. Each log has a size limit, and so have all of them together.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::KeptLog;

/// How much of one log is kept.
const LOG_MAX: usize = 4 << 20;

/// How much of all logs together.
const ALL_MAX: usize = 64 << 20;

/// How long a line may be.
const LINE_MAX: usize = 16 << 10;

const CUT: &str = "[the log is longer than what is kept]\n";

/// What one attempt wrote.
#[derive(Default)]
struct Scroll {
    text: String,
    /// Where each line ends, in bytes.
    ends: Vec<u32>,
    is_cut: bool,
    /// Whether its attempt has ended and the log was handed over to be kept.
    is_whole: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Scrolls {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    scrolls: BTreeMap<(RunId, Attempt), Scroll>,
    /// How long they are together.
    bytes: usize,
}

impl Scrolls {
    /// Takes lines, and skips those that are there already.
    pub(super) fn write(&self, run: RunId, attempt: Attempt, from: u64, lines: &[String]) {
        let mut open = self.locked();
        let Open { scrolls, bytes } = &mut *open;
        let scroll = scrolls.entry((run, attempt)).or_default();
        let before = scroll.size();
        let known = (scroll.ends.len() as u64 + 1).saturating_sub(from);
        for line in lines.iter().skip(usize::try_from(known).unwrap_or(usize::MAX)) {
            scroll.push(line);
        }
        *bytes += scroll.size() - before;
        // The oldest goes first: most likely the end of its attempt was never reported.
        while *bytes > ALL_MAX {
            let Some((_, oldest)) = scrolls.pop_first() else { break };
            *bytes -= oldest.size();
        }
    }

    /// The lines from a number on, and the number of the next.
    pub(super) fn read(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)> {
        let open = self.locked();
        let scroll = open.scrolls.get(&(run, attempt))?;
        let skipped = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX).min(scroll.ends.len());
        let start = skipped.checked_sub(1).map_or(0, |last| scroll.ends[last] as usize);
        Some((scroll.text[start..].to_owned(), scroll.ends.len() as u64 + 1))
    }

    /// The log of an attempt that has ended; handed out once. It stays readable until it is kept elsewhere.
    pub(super) fn whole(&self, run: RunId, attempt: Attempt) -> Option<KeptLog> {
        let mut open = self.locked();
        let scroll = open.scrolls.get_mut(&(run, attempt)).filter(|scroll| !scroll.is_whole)?;
        scroll.is_whole = true;
        let next_line = scroll.ends.len() as u64 + 1;
        Some(KeptLog { text: scroll.text.clone(), next_line, is_complete: true })
    }

    pub(super) fn forget(&self, run: RunId, attempt: Attempt) {
        let mut open = self.locked();
        if let Some(scroll) = open.scrolls.remove(&(run, attempt)) {
            open.bytes -= scroll.size();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scroll {
    fn size(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<u32>()
    }

    fn push(&mut self, line: &str) {
        if self.is_cut || self.is_whole {
            return;
        }
        let line = &line[..line.floor_char_boundary(LINE_MAX)];
        if self.size() + line.len() > LOG_MAX {
            self.is_cut = true;
            self.text.push_str(CUT);
        } else {
            // A line is one line, whatever is in it.
            self.text.extend(line.chars().map(|c| if c == '\n' { ' ' } else { c }));
            self.text.push('\n');
        }
        self.ends.push(self.text.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: (RunId, Attempt) = (RunId(7), Attempt(1));

    fn lines(from: u64, to: u64) -> Vec<String> {
        (from..=to).map(|number| format!("line {number}")).collect()
    }

    #[test]
    fn lines_that_come_again_are_known() {
        let scrolls = Scrolls::default();
        scrolls.write(RUN.0, RUN.1, 1, &lines(1, 3));
        scrolls.write(RUN.0, RUN.1, 2, &lines(2, 5));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 4), Some(("line 4\nline 5\n".into(), 6)));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 9), Some((String::new(), 6)));
        let kept = scrolls.whole(RUN.0, RUN.1).unwrap();
        scrolls.forget(RUN.0, RUN.1);
        assert_eq!((kept.text.lines().count(), kept.next_line, kept.is_complete), (5, 6, true));
        assert_eq!(scrolls.read(RUN.0, RUN.1, 1), None);
    }

    #[test]
    fn a_log_without_end_is_cut_and_says_so() {
        let scrolls = Scrolls::default();
        let long = vec!["x".repeat(LINE_MAX + 9); 1_000];
        for round in 0..3 {
            scrolls.write(RUN.0, RUN.1, 1 + round * 1_000, &long);
        }
        let kept = scrolls.whole(RUN.0, RUN.1).unwrap();
        scrolls.forget(RUN.0, RUN.1);
        assert!(kept.text.len() <= LOG_MAX + CUT.len() && kept.text.ends_with(CUT));
        assert_eq!(scrolls.locked().bytes, 0);
    }
}
