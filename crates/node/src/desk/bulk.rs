//! One command for many jobs, carried out for a few at a time. Each job is changed on its own, so a command that is
//! stopped half way has changed some jobs, and no job by half.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::model::{ChangeId, JobId, JobMove, StoppedReason, Text};

use super::few::few_at_once;
use super::{ByHand, DeskError};
use crate::Node;

/// How many jobs are changed at once: enough that a store writes them together, few enough that others get their turn.
const AT_ONCE: usize = 32;

/// After how many jobs the steps are told to look.
const NUDGE_EVERY: u64 = 256;

/// How many refusals are kept word by word.
const REFUSALS_MAX: usize = 100;

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkMove {
    /// It fires again.
    Start,
    /// It stops firing.
    Stop,
    /// It goes.
    Delete,
    /// It runs once, now.
    Run,
}

/// A command for many jobs, and its progress.
#[derive(Debug)]
pub struct BulkChange {
    asked: BulkMove,
    by: Text,
    jobs: Vec<JobId>,
    is_stopped: AtomicBool,
    progress: Mutex<BulkProgress>,
}

/// The progress of a command.
#[derive(Clone, Debug, Default)]
pub struct BulkProgress {
    /// Jobs that were dealt with, whether changed or refused.
    pub done: u64,
    /// Those of them that were refused.
    pub refused_count: u64,
    /// The first of those, with the reason.
    pub refused: Vec<(JobId, String)>,
    /// Why the command ended early: the store did not answer, and the remaining jobs would fare no better.
    pub reason: Option<String>,
    /// The last change.
    pub latest: Option<ChangeId>,
}

impl BulkChange {
    /// One that is not begun yet.
    pub fn new(asked: BulkMove, jobs: Vec<JobId>, by: Text) -> BulkChange {
        BulkChange { asked, by, jobs, is_stopped: AtomicBool::new(false), progress: Mutex::default() }
    }

    /// Ends the command after the jobs that are under way.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// The progress so far.
    pub fn progress(&self) -> BulkProgress {
        self.state().clone()
    }

    fn state(&self) -> MutexGuard<'_, BulkProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the result of one job; returns how many jobs are done.
    fn note(&self, job: JobId, done: Result<Option<ChangeId>, DeskError>) -> u64 {
        let mut progress = self.state();
        match done {
            Ok(change) => progress.latest = progress.latest.max(change),
            Err(error) => {
                if matches!(error, DeskError::Unknown(_) | DeskError::Away(_) | DeskError::Full(_)) {
                    progress.reason.get_or_insert_with(|| error.to_string());
                    self.stop();
                }
                progress.refused_count += 1;
                if progress.refused.len() < REFUSALS_MAX {
                    progress.refused.push((job, error.to_string()));
                }
            }
        }
        progress.done += 1;
        progress.done
    }
}

impl Node {
    /// Carries out a command for many jobs, until all are done, it is stopped, or the store does not answer. `nudge`
    /// lets the steps look now and then.
    pub async fn change_jobs(&self, bulk: &BulkChange, nudge: &(dyn Fn() + Sync)) {
        let goes_on = |_: &JobId| !bulk.is_stopped.load(Ordering::Relaxed);
        let jobs = bulk.jobs.iter().copied().take_while(goes_on);
        let change = async |job| (job, self.change_one(bulk, job).await);
        few_at_once(jobs, AT_ONCE, change, |(job, done)| {
            if bulk.note(job, done).is_multiple_of(NUDGE_EVERY) {
                nudge();
            }
        })
        .await;
        nudge();
    }

    async fn change_one(&self, bulk: &BulkChange, job: JobId) -> Result<Option<ChangeId>, DeskError> {
        let asked = match bulk.asked {
            BulkMove::Start => JobMove::Start,
            BulkMove::Stop => JobMove::Stop(StoppedReason::Asked),
            BulkMove::Delete => JobMove::Delete,
            BulkMove::Run => return self.run_now(job, ByHand::default()).await.map(|_| None),
        };
        let changed = self.edit(job, None, None, Some(asked), bulk.by.clone()).await?;
        Ok(Some(changed.change))
    }
}
