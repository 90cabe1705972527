//! The counts of a job: how its runs ended.

use punctual_core::model::{Close, Outcome, Skip};
use punctual_node::ports::Counts;

/// Counts one more run that was closed.
pub(super) fn count(counts: &mut Counts, close: &Close) {
    let has_failed = matches!(close.outcome, Outcome::Failed | Outcome::Lost);
    let has_succeeded = close.outcome == Outcome::Succeeded;
    if has_succeeded {
        counts.succeeded += 1;
        counts.last_success = Some(close.closed_at);
        counts.consecutive_failures = 0;
    } else if has_failed {
        counts.failed += 1;
        counts.consecutive_failures += 1;
    } else {
        // One record may stand for a whole range of instants.
        let instants = close.range.map_or(1, |(_, instants)| instants);
        counts.not_run += instants;
    }
    // A run that was skipped because its job was stopped says nothing about how the job is.
    let is_stopped = close.outcome == Outcome::Skipped && close.reason == Skip::JobStopped.name();
    if !is_stopped {
        counts.last_outcome = Some(close.outcome);
    }
}
