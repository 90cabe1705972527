//! The jobs that a node knows. What is known is current up to the last change that the node has said it has seen; a
//! job that changed is forgotten and read again before anything is done for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::event::Event;
use punctual_core::model::{Job, JobId, JobState, StoppedReason, Text};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::ports::{Change, ClockEdit, JobRow, StoreError};

/// More than this are not kept in memory; the next that is asked for is read again.
const KNOWN_MAX: usize = 200_000;

/// What is known of a job.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It can be asked.
    Job(Arc<Job>),
    /// Its row makes no sense.
    Poisoned(Text),
    /// There is no such job.
    Missing,
}

/// The jobs that a node knows.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    known: FxHashMap<JobId, Known>,
    /// Grows whenever something is forgotten, so that an answer which was on its way meanwhile is not believed.
    generation: u64,
}

impl Jobs {
    pub(crate) fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.known.remove(&id);
        self.generation += 1;
    }

    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
        self.generation += 1;
    }

    fn insert(&mut self, id: JobId, known: Known) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(id, known);
    }
}

impl Node {
    /// Makes sure that these jobs are known. They are current when this returns; whoever acts on one later looks again
    /// whether it still is known.
    pub(crate) async fn know_jobs(&self, ids: impl IntoIterator<Item = JobId>) -> Result<(), StoreError> {
        let ids: BTreeSet<JobId> = ids.into_iter().collect();
        loop {
            let (unknown, generation) = {
                let memory = self.memory();
                let is_unknown = |id: &JobId| memory.jobs.get(*id).is_none();
                (ids.iter().copied().filter(is_unknown).collect::<Vec<_>>(), memory.jobs.generation)
            };
            if unknown.is_empty() {
                return Ok(());
            }
            let rows = self.ports.store.jobs(&unknown).await?;
            let mut memory = self.memory();
            // A change was noted while the rows were on their way: they may be older than it.
            if memory.jobs.generation != generation {
                continue;
            }
            let missing: BTreeSet<JobId> = unknown.into_iter().collect();
            let mut left = missing;
            for (id, row) in rows {
                left.remove(&id);
                memory.jobs.insert(id, self.understand(row));
            }
            for id in left {
                memory.jobs.insert(id, Known::Missing);
            }
        }
    }

    fn understand(&self, row: Result<JobRow, StoreError>) -> Known {
        match row {
            Ok(row) => match self.compile(row) {
                Ok(job) => Known::Job(Arc::new(job)),
                Err(poison) => Known::Poisoned(poison.to_string().into()),
            },
            Err(error) => Known::Poisoned(error.to_string().into()),
        }
    }

    pub(crate) fn compile(&self, row: JobRow) -> Result<Job, punctual_core::model::Poison> {
        let JobRow { id, version, changed_at, state, definition, children, .. } = row;
        Job::compile(id, version, changed_at, state, definition, children, &self.zones)
    }

    /// Sets a job aside whose row makes no sense, so that the others run on. Its clock was read as it is given here.
    pub(crate) async fn quarantine(
        &self,
        clock: &crate::ports::ClockRow,
        reason: &Text,
    ) -> Result<(), StoreError> {
        let Some(now) = self.now() else { return Ok(()) };
        let stopped = StoppedReason::Quarantined(reason.clone());
        let changed = self
            .ports
            .store
            .change(Change {
                job: Some((clock.job, clock.version)),
                definition: None,
                state: JobState::Stopped(stopped.clone()),
                clock: ClockEdit { expected: Some(clock.next_fire), next_fire: None, passed: vec![] },
                unparks: false,
                by: Text::Borrowed("punctual"),
                at: now,
            })
            .await;
        match changed {
            // Somebody changed it first; the next look sees what they made of it.
            Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                let mut memory = self.memory();
                memory.jobs.forget(clock.job);
                memory.events.push(Event::JobStopped { job: clock.job, reason: stopped });
                Ok(())
            }
        }
    }
}
