//! Flow control of a job: which of its runs go first, which never overlap, and how fire times are spread.

use std::fmt;
use std::time::Duration;

use super::{Poison, Text};

/// The longest delay that jitter may add.
pub const JITTER_MAX: Duration = Duration::from_secs(86_400);

/// How many exclusive keys a job or run may have.
pub const KEYS_MAX: usize = 16;

/// The longest name of a class or an exclusive key, in bytes.
const NAME_MAX: usize = 128;

/// The fields of a job that say how its runs share what they use with the runs of other jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowControl {
    /// The class of work, which decides about the order among jobs. A job without one belongs to the unnamed class.
    pub class: Option<Text>,
    /// The greatest delay that is added to a fire time, to spread what is due at one instant.
    pub jitter: Duration,
    /// Runs that share one of these keys never overlap, in the whole cluster.
    pub exclusive: ExclusiveKeys,
}

impl FlowControl {
    pub(super) fn check(&self) -> Result<(), Poison> {
        if self.jitter > JITTER_MAX {
            return Err(Poison::new("/jitter", &"more than 24 hours"));
        }
        match self.class.as_deref().and_then(fault_of) {
            Some(fault) => Err(Poison::new("/class", &fault)),
            None => Ok(()),
        }
    }
}

/// Keys of which a run takes all or none, in sorted order and without repetition. So two runs that share several keys
/// never wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExclusiveKeys(Vec<Text>);

impl ExclusiveKeys {
    /// The keys, or what is wrong with them.
    pub fn new(keys: impl IntoIterator<Item = Text>) -> Result<ExclusiveKeys, String> {
        let mut keys: Vec<Text> = keys.into_iter().collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > KEYS_MAX {
            return Err(format!("{} keys: at most {KEYS_MAX}", keys.len()));
        }
        match keys.iter().find_map(|key| fault_of_key(key)) {
            Some(fault) => Err(fault),
            None => Ok(ExclusiveKeys(keys)),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &Text> {
        self.0.iter()
    }
}

impl fmt::Display for ExclusiveKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// What is wrong with a key. A run's own keys are kept as words of one text, so a key is one word.
fn fault_of_key(key: &str) -> Option<String> {
    let is_split = |letter: char| letter.is_whitespace() || letter == ',';
    let split = key.contains(is_split).then(|| format!("{key:?}: a key has no blanks and no commas"));
    split.or_else(|| fault_of(key))
}

/// What is wrong with a name.
fn fault_of(name: &str) -> Option<String> {
    if name.is_empty() || name.trim() != name || name.chars().any(char::is_control) {
        return Some(format!("{name:?}: expected a name without blanks at its ends or control characters"));
    }
    (name.len() > NAME_MAX).then(|| format!("a name of {} bytes: at most {NAME_MAX}", name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&'static str]) -> Result<ExclusiveKeys, String> {
        ExclusiveKeys::new(keys.iter().map(|key| Text::Borrowed(key)))
    }

    #[test]
    fn keys_are_sorted_and_each_counts_once() {
        assert_eq!(keys(&["b", "a", "b"]).unwrap().to_string(), "a, b");
        assert!(keys(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_key_that_cannot_be_read_back_is_refused() {
        for wrong in ["", " a", "a\n", "a b", "a,b"] {
            assert!(ExclusiveKeys::new([Text::Owned(wrong.to_owned())]).is_err(), "{wrong:?}");
        }
        assert!(ExclusiveKeys::new([Text::Owned("x".repeat(129))]).is_err());
        let many = (0..17).map(|number| Text::Owned(number.to_string()));
        assert!(ExclusiveKeys::new(many).is_err());
    }
}
