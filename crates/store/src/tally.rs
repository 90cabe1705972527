//! What a close does to the counts of its job, in every store alike.

use punctual_core::model::{Close, Outcome};
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
    counts.last_outcome = Some(close.outcome);
}
