//! The jobs that a node knows. What is known is current up to the last change that the node has said it has seen; a
//! job that changed is forgotten and read again before anything is done for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::event::Event;
use punctual_core::model::{Job, JobId, JobState, StoppedReason, Text};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::ports::{Change, ClockEdit, JobRow, StoreError};
use crate::reads::Reads;

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
    reads: Reads<JobId>,
}

impl Jobs {
    pub(crate) fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.known.remove(&id);
        self.reads.touch(id);
    }

    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
        self.reads.touch_all();
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
            let (unknown, read) = {
                let mut memory = self.memory();
                let is_unknown = |id: &JobId| memory.jobs.get(*id).is_none();
                let unknown: Vec<JobId> = ids.iter().copied().filter(is_unknown).collect();
                if unknown.is_empty() {
                    return Ok(());
                }
                (unknown, memory.jobs.reads.begin())
            };
            let answer = self.ports.store.jobs(&unknown).await;
            let mut memory = self.memory();
            if let Ok(rows) = answer.as_ref() {
                let mut known: FxHashMap<JobId, Known> =
                    unknown.iter().map(|id| (*id, Known::Missing)).collect();
                for (id, row) in rows {
                    known.insert(*id, self.understand(row.clone()));
                }
                // What changed while the rows were on their way is asked for again.
                known.retain(|id, _| !memory.jobs.reads.is_stale(read, *id));
                known.into_iter().for_each(|(id, known)| memory.jobs.insert(id, known));
            }
            memory.jobs.reads.end(read);
            drop(memory);
            answer?;
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
                clock: ClockEdit {
                    expected: Some(clock.next_fire),
                    planned: clock.planned,
                    next_fire: None,
                    passed: vec![],
                },
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
