//! What a run brings, as it is kept: one text, which every store keeps whole. In front of the payload, where no JSON
//! begins, may stand what the run has of its own, and the one executor that it is meant for, each on a line: nobody pays
//! for them who does not use them.

use super::{Own, Payload};

/// Begins the line of what a run has of its own.
const OWN: char = '!';

/// Begins the line of the one executor.
const ONLY: char = '@';

/// What a run brings, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought<'a> {
    /// What it has in place of its job's.
    pub own: Own,
    /// The one executor that it is meant for.
    pub executor: Option<&'a str>,
    /// What its handler gets.
    pub payload: Option<&'a str>,
}

impl<'a> Brought<'a> {
    /// Reads what [`keep`] made.
    pub fn read(kept: &'a str) -> Brought<'a> {
        let own = headed(kept, OWN);
        let rest = own.map_or(kept, |(_, rest)| rest);
        let executor = headed(rest, ONLY);
        let rest = executor.map_or(rest, |(_, rest)| rest);
        let is_plain = own.is_none() && executor.is_none();
        Brought {
            own: own.map(|(line, _)| Own::read(line)).unwrap_or_default(),
            executor: executor.map(|(line, _)| line),
            payload: Some(rest).filter(|rest| is_plain || !rest.is_empty()),
        }
    }
}

/// What is kept of what a run brings: the payload as it is, where that is all.
pub fn keep(own: &Own, executor: Option<&str>, payload: Option<Payload>) -> Option<Payload> {
    if own.is_nothing() && executor.is_none() {
        return payload;
    }
    let mut kept = String::new();
    if !own.is_nothing() {
        kept = format!("{OWN}{own}\n");
    }
    if let Some(executor) = executor {
        kept.extend([ONLY.encode_utf8(&mut [0; 4]), executor, "\n"]);
    }
    kept.push_str(payload.as_deref().unwrap_or_default());
    Some(kept.into())
}

/// The line that a text begins with, if it begins with this mark; and what follows.
fn headed(text: &str, mark: char) -> Option<(&str, &str)> {
    text.strip_prefix(mark)?.split_once('\n')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::policy::Retry;

    #[test]
    fn what_is_kept_is_read_again_whatever_it_is() {
        let (timeout, retry) = (Some(Duration::from_millis(1_500)), Some(Retry::default()));
        let owns = [
            Own::default(),
            Own { timeout, retry: None },
            Own { timeout: None, retry },
            Own { timeout, retry },
        ];
        for own in owns {
            for executor in [None, Some("http://10.0.0.5:9999/")] {
                for payload in [None, Some("{}"), Some("\"@a\\n!b\""), Some("[\n1]")] {
                    let kept = keep(&own, executor, payload.map(Payload::from));
                    let read = kept.as_deref().map(Brought::read).unwrap_or_default();
                    assert_eq!(read, Brought { own, executor, payload }, "{kept:?}");
                }
            }
        }
    }

    #[test]
    fn a_payload_alone_is_kept_as_it_is() {
        let payload = Payload::from("{\"a\":1}");
        let kept = keep(&Own::default(), None, Some(payload.clone())).unwrap();
        assert!(std::sync::Arc::ptr_eq(&kept, &payload), "nothing is copied");
        assert_eq!(Brought::read("").payload, Some(""), "nothing is not the same as an empty text");
    }

    #[test]
    fn what_earlier_versions_kept_is_read_too() {
        let read = Brought::read("@http://10.0.0.5:9999/\n{}");
        assert_eq!((read.executor, read.payload), (Some("http://10.0.0.5:9999/"), Some("{}")));
    }
}
