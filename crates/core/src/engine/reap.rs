//! Reaping: when silence about an attempt means that it is lost.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{Attempt, AttemptOutcome, AttemptRecord, Job, Overrides, Text, Token};

/// An attempt of which nothing was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Which try.
    pub number: Attempt,
    /// Its token.
    pub token: Token,
    /// Where it went.
    pub executor: Text,
    /// When it was sent, or gated.
    pub sent_at: Timestamp,
    /// Whether an earlier send may have arrived too.
    pub possible_duplicate: bool,
}

/// Until when something may still be heard of an attempt: the timeout is the target's to keep, the grace covers the
/// way there and back.
pub fn deadline(job: &Job, overrides: &Overrides, sent_at: Timestamp, grace: Duration) -> Timestamp {
    sent_at.saturating_add(overrides.timeout(&job.definition)).saturating_add(grace)
}

/// The record of an attempt whose deadline has passed.
pub fn lost(silent: Silent, now: Timestamp) -> AttemptRecord {
    let Silent { number, token, executor, sent_at, possible_duplicate } = silent;
    let message = Text::Borrowed("nothing was heard of it in time");
    let (started_at, ended_at, outcome) = (sent_at, now.max(sent_at), AttemptOutcome::Lost);
    AttemptRecord { number, token, executor, started_at, ended_at, outcome, message, possible_duplicate }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{at, every, job};
    use super::*;

    #[test]
    fn silence_is_loss_only_after_the_timeout_and_the_grace() {
        let until =
            |overrides| deadline(&job(every(60)), &overrides, at("10:00:00"), Duration::from_secs(10));
        assert_eq!(until(Overrides::default()), at("10:00:40"));
        assert_eq!(
            until(Overrides { timeout: Some(Duration::from_secs(5)), ..Overrides::default() }),
            at("10:00:15")
        );
    }

    #[test]
    fn no_attempt_ends_before_it_began() {
        let silent = Silent {
            number: Attempt::FIRST,
            token: Token(1),
            executor: "".into(),
            sent_at: at("10:00:00"),
            possible_duplicate: false,
        };
        assert_eq!(lost(silent, at("09:00:00")).ended_at, at("10:00:00"));
    }
}
