//! Changes of jobs by people: whether a change may be written, and what follows from it besides the job's own rows.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::model::{Definition, JobId, JobState, Text};
use punctual_node::ports::{ArrivalKind, Change, PlannedTo, StoreError};

use super::unit_of_work::UnitOfWork;

/// The version and the clock of a job before a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobBefore {
    pub(crate) version: u64,
    /// None if the job has no clock.
    pub(crate) clock: Option<(Option<Timestamp>, PlannedTo)>,
}

impl<'v> UnitOfWork<'v> {
    /// Writes what follows from a change of a job: records of the instants that had passed, a message if the job is
    /// deleted, and that the job and its parents changed.
    pub(crate) fn change(&mut self, id: JobId, change: &'v Change, parents: BTreeSet<JobId>) {
        for (run, close) in &change.clock.passed {
            self.insert_closed(run, close);
        }
        if change.state == JobState::Deleted {
            self.leave(home(id, self.shards), ArrivalKind::Deleted(id));
        }
        self.writes.changes.extend(parents);
        self.writes.changes.push(id);
    }
}

/// A new job has to say what it is.
pub(crate) fn check_definition(change: &Change) -> Result<(), StoreError> {
    if change.job.is_none() {
        definition_of_new(change)?;
    }
    Ok(())
}

/// What a new job is.
pub(crate) fn definition_of_new(change: &Change) -> Result<&Definition, StoreError> {
    change.definition.as_ref().ok_or_else(|| conflict("a new job needs a definition"))
}

/// The version after a change of a job that is not deleted, if the job is as the change expects.
pub(crate) fn next_version(
    id: JobId,
    expected: u64,
    change: &Change,
    before: Option<JobBefore>,
) -> Result<u64, StoreError> {
    let Some(JobBefore { version, clock }) = before else {
        return Err(conflict(format!("there is no job {id}")));
    };
    if version != expected {
        return Err(conflict(format!("job {id} has version {version}, not {expected}")));
    }
    if clock != Some((change.clock.expected, change.clock.planned)) {
        return Err(conflict(format!("the clock of job {id} was moved")));
    }
    Ok(version + 1)
}

/// Refuses a name that another job has.
pub(crate) fn check_name(change: &Change, owner: Option<JobId>) -> Result<(), StoreError> {
    let id = change.job.map(|(id, _)| id);
    match (owner.filter(|owner| Some(*owner) != id), &change.definition) {
        (Some(owner), Some(definition)) => {
            Err(conflict(format!("job {owner} is named {}/{}", definition.app, definition.name)))
        }
        _ => Ok(()),
    }
}

/// The jobs that a job comes after, or came after before a change: they have other children from now on.
pub(crate) fn parents(change: &Change, before: impl IntoIterator<Item = JobId>) -> BTreeSet<JobId> {
    let is_moved = change.definition.is_some() || change.state == JobState::Deleted;
    let before = before.into_iter().filter(|_| is_moved);
    let after = change.definition.iter().flat_map(|definition| &definition.after);
    before.chain(after.map(|parent| parent.job)).collect()
}

fn conflict(said: impl Into<Text>) -> StoreError {
    StoreError::Conflict(said.into())
}
