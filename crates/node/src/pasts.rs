//! What earlier attempts of a run say about the next: those that never reached an executor do not count against its job, and
//! as long as all are only supposed, the next send is the first. A node knows this of attempts that it sees end; how earlier
//! ones ended it reads from their records, once.

use calendar::Timestamp;
use punctual_core::engine::settle::uncounted;
use punctual_core::model::{Attempt, AttemptOutcome, AttemptRecord, RunId};

use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run};
use crate::ports::{Further, Report, StoreError};

/// How many runs are read in one step. Each is a question of its own, and everything else that ended waits meanwhile.
const READ_MAX: usize = 100;

/// How many of the runs that are sent in one round have their records read first. Each is a question of its own, and what the
/// records say there is only how late the run is: if there are more of them, the others are not delayed for that.
const READ_BEFORE_SENDS: usize = 16;

/// What the records of a run's attempts say.
pub(crate) struct RunPast {
    /// How many attempts do not count against the job.
    pub(crate) spared: u32,
    /// When the run was due, as far as its records say, if all of its attempts are only supposed.
    supposed_since: Option<Timestamp>,
}

impl Node {
    /// What is on record about the attempts of these runs; of the first runs, where they are many.
    pub(crate) async fn read_pasts(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, RunPast)>, StoreError> {
        let mut pasts = Vec::new();
        for run in runs.into_iter().take(READ_MAX) {
            pasts.push((run, RunPast::of(&self.ports.records.ended(run).await?)));
        }
        Ok(pasts)
    }

    /// The same for runs in memory: it is known from then on.
    pub(crate) async fn know_pasts(&self, runs: Vec<RunId>) -> Result<(), StoreError> {
        let read = self.read_pasts(runs).await?;
        let mut memory = self.memory();
        for (id, RunPast { spared, supposed_since }) in read {
            let Some(run) = memory.loaded.runs.get_mut(&id) else { continue };
            run.flags.has_unread_past = false;
            memory.loaded.spared.insert(id, spared);
            if let Some(due) = supposed_since {
                memory.loaded.supposed.insert(id, due);
            }
        }
        Ok(())
    }

    /// Reads the records of runs that are about to be sent again after attempts that this node did not see end: if all of those
    /// are only supposed, the run is as late as this send.
    pub(crate) async fn know_pasts_of_picked(&self, picked: &[RunId]) -> Result<(), StoreError> {
        let unread: Vec<RunId> = {
            let memory = self.memory();
            let is_unread =
                |id: &RunId| memory.loaded.runs.get(id).is_some_and(|run| run.flags.has_unread_past);
            picked.iter().copied().filter(is_unread).take(READ_BEFORE_SENDS).collect()
        };
        self.know_pasts(unread).await
    }
}

impl RunPast {
    fn of(ended: &[AttemptRecord]) -> RunPast {
        let is_supposed = !ended.is_empty() && ended.iter().all(AttemptRecord::is_supposed);
        let began = ended.iter().map(|record| record.started_at).min();
        RunPast { spared: uncounted(ended), supposed_since: began.filter(|_| is_supposed) }
    }
}

impl Memory {
    /// Notes from when the lateness of a run's next send counts: as long as all attempts are only supposed, from when the run
    /// was first due.
    pub(crate) fn note_whether_supposed(&mut self, id: RunId, ended: &AttemptRecord) {
        let Some(run) = self.loaded.runs.get(&id) else { return };
        if !ended.is_supposed() {
            self.loaded.supposed.remove(&id);
        } else if ended.number == Attempt::FIRST {
            self.loaded.supposed.insert(id, run.ready_at);
        }
    }

    /// How many earlier attempts of a run do not count; none if that has to be read first.
    pub(crate) fn spared_of(&self, id: RunId, run: &Run) -> Option<u32> {
        let is_for_executors =
            matches!(self.jobs.get(run.job), Some(Known::Job(job)) if job.executor().is_some());
        // Only executors are found to have no room.
        let is_known = !run.flags.has_unread_past || !is_for_executors;
        is_known.then(|| self.loaded.spared.get(&id).copied().unwrap_or(0))
    }
}

/// Whether what follows from a report depends on how many attempts there were.
pub(crate) fn counts_attempts(report: &Report) -> bool {
    use AttemptOutcome::{Failed, Lost, Refused, TimedOut};
    report.further == Further::Welcome && matches!(report.outcome, Failed | Refused | TimedOut | Lost)
}
