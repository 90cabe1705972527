//! What a close does to the counts of its job.

use punctual_core::model::{Close, Outcome, Skip};
use punctual_node::ports::Counts;

pub(crate) fn count(counts: &mut Counts, close: &Close) {
    match close.outcome {
        Outcome::Succeeded => {
            counts.succeeded += 1;
            counts.consecutive_failures = 0;
            counts.last_success = Some(close.closed_at);
        }
        Outcome::Failed | Outcome::Lost => {
            counts.failed += 1;
            counts.consecutive_failures += 1;
        }
        Outcome::Cancelled | Outcome::Skipped => {
            counts.not_run += close.range.map_or(1, |(_, instants)| instants);
        }
    }
    if says_how_the_job_is(close) {
        counts.last_outcome = Some(close.outcome);
    }
}

/// Whether a close says something about its job. A run that was skipped because a person stopped the job does not: the last
/// outcome stays that of the last run that could be sent.
fn says_how_the_job_is(close: &Close) -> bool {
    close.outcome != Outcome::Skipped || close.reason != Skip::JobStopped.name()
}
