//! Circles of jobs that come after each other: one would start itself for ever. Every database looks for them inside the
//! transaction that would close one, because two changes at the same time would each see only half of it.

use punctual_core::model::{JobId, JobState};
use punctual_node::ports::{Change, StoreError};

/// The job that a change lets come after others, and those others; none where no circle can be closed. No job comes after
/// a new job yet.
pub(crate) fn closed_by(change: &Change) -> Option<(JobId, Vec<JobId>)> {
    let (job, _) = change.job.filter(|_| change.state != JobState::Deleted)?;
    let parents: Vec<JobId> = change.definition.as_ref()?.after.iter().map(|parent| parent.job).collect();
    (!parents.is_empty()).then_some((job, parents))
}

/// The refusal of a change that would close a circle.
pub(crate) fn refusal(job: JobId) -> StoreError {
    StoreError::Conflict(format!("job {job} would come after itself, directly or through other jobs").into())
}
