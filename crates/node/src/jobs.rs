//! The jobs that a node knows. What is known is current up to the last change that the node has said it has seen; a
//! job that changed is forgotten and read again before anything is done for it.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use punctual_core::due::AppNumber;
use punctual_core::event::Event;
use punctual_core::model::{Job, JobId, JobState, StoppedReason, Text};
use punctual_core::policy::{ClassOrdinal, Classes};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::ports::{Change, ClockEdit, JobRow, StoreError};
use crate::reads::Reads;

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

/// The app number of jobs that are not known, or whose rows make no sense.
pub(crate) const UNKNOWN_APP: AppNumber = 0;

/// The jobs that a node knows, within a bound. They are kept in two halves: when the recent half is full, the older one
/// is dropped, and what was asked for since then is still there.
#[derive(Debug)]
pub(crate) struct Jobs {
    recent: FxHashMap<JobId, Entry>,
    older: FxHashMap<JobId, Entry>,
    half: usize,
    reads: Reads<JobId>,
    /// The number of each app that ever had a known job. Numbers are never reused: places in the pools count by them.
    apps: FxHashMap<Box<str>, AppNumber>,
    classes: Classes,
}

#[derive(Debug)]
struct Entry {
    known: Known,
    /// Looked up once, when the job is read: the firing step asks for it several times a run.
    app: AppNumber,
    class: ClassOrdinal,
}

impl Jobs {
    pub(crate) fn new(bound: usize, classes: Classes) -> Jobs {
        let (recent, older, apps) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Jobs { recent, older, half: (bound / 2).max(1), reads: Reads::default(), apps, classes }
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&Known> {
        self.entry(id).map(|entry| &entry.known)
    }

    /// The number of a job's app; none while the job is not known.
    pub(crate) fn app_number(&self, id: JobId) -> Option<AppNumber> {
        self.entry(id).map(|entry| entry.app)
    }

    /// The class of a job; the unnamed one while the job is not known.
    pub(crate) fn class_of(&self, id: JobId) -> ClassOrdinal {
        self.entry(id).map_or_else(|| self.classes.ordinal(None), |entry| entry.class)
    }

    /// How many runs of a class may be under way on this node.
    pub(crate) fn limit_of(&self, class: ClassOrdinal) -> Option<u32> {
        self.classes.limit_of(class)
    }

    fn entry(&self, id: JobId) -> Option<&Entry> {
        self.recent.get(&id).or_else(|| self.older.get(&id))
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.recent.remove(&id);
        self.older.remove(&id);
        self.reads.touch(id);
    }

    pub(crate) fn forget_all(&mut self) {
        self.recent.clear();
        self.older.clear();
        self.reads.touch_all();
    }

    /// Whether a job is known; if so, it counts as recent.
    fn is_known(&mut self, id: JobId) -> bool {
        if self.recent.contains_key(&id) {
            return true;
        }
        match self.older.remove(&id) {
            Some(entry) => {
                self.keep(id, entry);
                true
            }
            None => false,
        }
    }

    fn insert(&mut self, id: JobId, known: Known) {
        let (app, class) = match &known {
            Known::Job(job) => (self.number_of(&job.definition.app), job.definition.flow.class.as_deref()),
            Known::Poisoned(_) | Known::Missing => (UNKNOWN_APP, None),
        };
        let class = self.classes.ordinal(class);
        self.keep(id, Entry { known, app, class });
    }

    fn keep(&mut self, id: JobId, entry: Entry) {
        if self.recent.len() >= self.half {
            self.older = mem::take(&mut self.recent);
        }
        self.recent.insert(id, entry);
    }

    fn number_of(&mut self, app: &str) -> AppNumber {
        let next = self.apps.len() as AppNumber + 1;
        match self.apps.get(app) {
            Some(number) => *number,
            None => *self.apps.entry(app.into()).or_insert(next),
        }
    }
}

impl Node {
    /// Reads the jobs among these that are not known. They are current when this returns. A caller that acts on one
    /// later has to check that it is still known, because it may have changed or made room for others.
    pub(crate) async fn know_jobs(&self, ids: impl IntoIterator<Item = JobId>) -> Result<(), StoreError> {
        let ids: BTreeSet<JobId> = ids.into_iter().collect();
        let ids: Vec<JobId> = ids.into_iter().collect();
        // No more at a time than stay known together.
        let half = self.memory().jobs.half;
        for ids in ids.chunks(half) {
            while self.read_unknown(ids).await? {}
        }
        Ok(())
    }

    /// Reads the jobs among these that are not known; whether there were any.
    async fn read_unknown(&self, ids: &[JobId]) -> Result<bool, StoreError> {
        let (unknown, read) = {
            let jobs = &mut self.memory().jobs;
            let unknown: Vec<JobId> = ids.iter().copied().filter(|id| !jobs.is_known(*id)).collect();
            if unknown.is_empty() {
                return Ok(false);
            }
            (unknown, jobs.reads.begin())
        };
        let answer = self.ports.store.jobs(&unknown).await;
        // Parsing schedules and zones takes long enough to keep it out of the lock.
        let answer = answer.map(|rows| {
            let mut known: FxHashMap<JobId, Known> = unknown.iter().map(|id| (*id, Known::Missing)).collect();
            known.extend(rows.into_iter().map(|(id, row)| (id, self.understand(row))));
            known
        });
        let mut memory = self.memory();
        let outcome = answer.map(|mut known| {
            // Jobs that changed while their rows were on their way are read again.
            known.retain(|id, _| !memory.jobs.reads.is_stale(read, *id));
            known.into_iter().for_each(|(id, known)| memory.jobs.insert(id, known));
        });
        memory.jobs.reads.end(read);
        outcome.map(|()| true)
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

    /// Quarantines a job whose row makes no sense, so that the others run on. Its clock was read as it is given here.
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
            // Another caller changed the job first; the next look reads the new row.
            Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                let mut memory = self.memory();
                memory.jobs.forget(clock.job);
                memory.outbox.events.push(Event::JobStopped { job: clock.job, reason: stopped });
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_memory_forgets_the_jobs_that_were_not_asked_for_lately() {
        let mut jobs = Jobs::new(4, Classes::default());
        for id in 1..=3 {
            jobs.insert(JobId(id), Known::Missing);
        }
        assert!(jobs.is_known(JobId(1)), "it is in the older half");
        jobs.insert(JobId(4), Known::Missing);
        let known: Vec<u32> = (1..=4).filter(|id| jobs.get(JobId(*id)).is_some()).collect();
        assert_eq!(known, [1, 3, 4], "the second was the last that anybody asked for");
    }
}
