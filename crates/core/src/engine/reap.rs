//! Reaping: when silence about an attempt means that it is lost.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{Job, Overrides};

/// Until when something may still be heard of an attempt: the timeout is the target's to keep, the grace covers the
/// way there and back.
pub fn deadline(job: &Job, overrides: &Overrides, sent_at: Timestamp, grace: Duration) -> Timestamp {
    sent_at.saturating_add(overrides.timeout(&job.definition)).saturating_add(grace)
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
}
