//! Attempts that do not count against their job, because they never reached an executor. A node counts those that it sees end;
//! how earlier ones ended it reads from their records, once, before it judges an attempt that counts.

use punctual_core::engine::settle::uncounted;
use punctual_core::model::{AttemptOutcome, RunId};

use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run};
use crate::ports::{Further, Report, StoreError};

/// How many runs are read in one step. Each is a question of its own, and everything else that ended waits meanwhile.
const READ_MAX: usize = 100;

impl Node {
    /// How many attempts of these runs are on record that do not count; of the first runs, where they are many.
    pub(crate) async fn read_spared(&self, runs: Vec<RunId>) -> Result<Vec<(RunId, u32)>, StoreError> {
        let mut spared = Vec::new();
        for run in runs.into_iter().take(READ_MAX) {
            spared.push((run, uncounted(&self.ports.records.ended(run).await?)));
        }
        Ok(spared)
    }

    /// The same for runs in memory: it is known from then on.
    pub(crate) async fn know_spared(&self, runs: Vec<RunId>) -> Result<(), StoreError> {
        let read = self.read_spared(runs).await?;
        let mut memory = self.memory();
        for (id, spared) in read {
            let Some(run) = memory.loaded.runs.get_mut(&id) else { continue };
            run.flags.has_unread_past = false;
            memory.loaded.spared.insert(id, spared);
        }
        Ok(())
    }
}

impl Memory {
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
