//! A run by hand may be meant for one executor and no other. That is kept with what it brings, in front of it, where no
//! JSON begins: every store keeps it, and nobody pays for it who does not use it.

use super::Payload;

const MARK: char = '@';

/// What a run brings that is meant for one executor.
pub fn direct(executor: &str, payload: Option<&str>) -> Payload {
    format!("{MARK}{executor}\n{}", payload.unwrap_or_default()).into()
}

/// The executor that a run is meant for, and what it brings.
pub fn directed(brought: &str) -> (Option<&str>, Option<&str>) {
    let Some((executor, payload)) = brought.strip_prefix(MARK).and_then(|rest| rest.split_once('\n')) else {
        return (None, Some(brought));
    };
    (Some(executor), Some(payload).filter(|payload| !payload.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_it_is_meant_for_does_not_change_what_it_brings() {
        for payload in [None, Some("{}"), Some("\"@a\\nb\""), Some("[\n1]")] {
            assert_eq!(
                directed(&direct("http://10.0.0.5:9999/", payload)),
                (Some("http://10.0.0.5:9999/"), payload)
            );
            if let Some(payload) = payload {
                assert_eq!(directed(payload), (None, Some(payload)));
            }
        }
    }
}
