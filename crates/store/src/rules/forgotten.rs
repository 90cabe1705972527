//! What cannot be known any more: whether an instant ran whose records were dropped.

use std::collections::BTreeMap;

use punctual_core::model::{JobId, NewRun, Origin};
use punctual_node::ports::StoreError;

/// Up to which days records were dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forgotten {
    /// Whole days before this one, of every job.
    pub(crate) days: u32,
    /// Days before these, of jobs whose apps keep their runs for another time. Only of jobs that were asked for.
    pub(crate) jobs: BTreeMap<JobId, u32>,
}

impl Forgotten {
    /// Whether what became of a run of this job and day may be forgotten.
    pub(crate) fn has(&self, run: &NewRun) -> bool {
        run.id.day() < self.days.max(self.jobs.get(&run.job).copied().unwrap_or(0))
    }

    /// Refuses backfills of days that are forgotten. Such a day may be kept again, after the clock was set back or an app was
    /// given a longer retention; but no record says which of its instants ran, and none may run twice.
    pub(crate) fn check(&self, runs: &[NewRun]) -> Result<(), StoreError> {
        match runs.iter().find(|run| run.origin == Origin::Backfill && self.has(run)) {
            None => Ok(()),
            Some(run) => {
                let said =
                    "the records of its day were dropped, so it may have run already; choose a later start";
                Err(StoreError::Conflict(format!("{}: {said}", run.fire_time).into()))
            }
        }
    }
}
