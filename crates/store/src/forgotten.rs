//! What cannot be known any more: whether an instant ran whose day was dropped.

use punctual_core::model::{NewRun, Origin};
use punctual_node::ports::StoreError;

/// Refuses backfills of days before `pruned_to`. After the clock was set back such a day may lie within the retention
/// again, but which of its instants ran is forgotten, and none may run twice.
pub(crate) fn check_remembered(runs: &[NewRun], pruned_to: u32) -> Result<(), StoreError> {
    let is_forgotten = |run: &&NewRun| run.origin == Origin::Backfill && run.id.day() < pruned_to;
    match runs.iter().find(is_forgotten) {
        None => Ok(()),
        Some(run) => {
            let said =
                "the records of its day were dropped, so nobody knows whether it ran; choose a later start";
            Err(StoreError::Conflict(format!("{}: {said}", run.fire_time).into()))
        }
    }
}
