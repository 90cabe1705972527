//! Actions over many jobs: carried out in the background by the node, and remembered with their progress for callers that ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calendar::Timestamp;
use punctual_core::model::{JobId, Text};
use punctual_node::ports::JobName;
use punctual_node::{BulkChange, BulkMove};
use punctual_protocol::{Bulk, BulkAction, BulkJob, BulkRefusal, BulkState};
use tokio::sync::watch;

use crate::app::Front;
use crate::caller::Caller;

/// How many actions a node remembers.
const KEPT_MAX: usize = 100;

/// The actions of this node since its process started.
#[derive(Default)]
pub(crate) struct Bulks(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: u64,
    works: BTreeMap<u64, Arc<BulkWork>>,
}

/// One action over many jobs.
pub(crate) struct BulkWork {
    id: u64,
    action: BulkAction,
    by: Text,
    /// The token that asked for it.
    owner: u32,
    began_at: Timestamp,
    jobs: Vec<JobName>,
    change: BulkChange,
    ending: Mutex<Ending>,
    end: watch::Sender<bool>,
}

/// How it ended, once it has.
#[derive(Clone)]
struct Ending {
    state: BulkState,
    reason: Option<String>,
    at: Option<Timestamp>,
}

impl Bulks {
    /// Begins an action.
    pub(crate) fn begin(
        &self,
        front: &Arc<Front>,
        caller: &Caller,
        action: BulkAction,
        jobs: Vec<JobName>,
        now: Timestamp,
    ) -> Arc<BulkWork> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let work = Arc::new(BulkWork {
            id: kept.last,
            action,
            by: caller.name.clone(),
            owner: caller.id,
            began_at: now,
            change: BulkChange::new(
                asked(action),
                jobs.iter().map(|job| job.id).collect(),
                caller.name.clone(),
            ),
            jobs,
            ending: Mutex::new(Ending { state: BulkState::Running, reason: None, at: None }),
            end: watch::Sender::new(false),
        });
        if kept.works.len() >= KEPT_MAX {
            let over = kept.works.iter().find(|(_, work)| work.is_over()).map(|(id, _)| *id);
            over.and_then(|id| kept.works.remove(&id));
        }
        kept.works.insert(work.id, Arc::clone(&work));
        tokio::spawn(carry_out(Arc::clone(front), Arc::clone(&work)));
        work
    }

    /// How many actions are still running.
    pub(crate) fn running(&self) -> usize {
        self.kept().works.values().filter(|work| !work.is_over()).count()
    }

    /// An action that the caller may see.
    pub(crate) fn get(&self, caller: &Caller, id: u64) -> Option<Arc<BulkWork>> {
        self.kept().works.get(&id).filter(|work| work.is_seen_by(caller)).cloned()
    }

    /// The actions that the caller may see, the newest first.
    pub(crate) fn all(&self, caller: &Caller) -> Vec<Arc<BulkWork>> {
        self.kept().works.values().rev().filter(|work| work.is_seen_by(caller)).cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BulkWork {
    /// It names jobs, so only its owner and callers that reach all jobs may see it.
    fn is_seen_by(&self, caller: &Caller) -> bool {
        caller.reaches_all() || caller.id == self.owner
    }

    fn is_over(&self) -> bool {
        self.ending().state != BulkState::Running
    }

    /// Ends it after the work that is under way.
    pub(crate) fn stop(&self) {
        self.change.stop();
    }

    /// Returns when it is over.
    pub(crate) async fn over(&self) {
        let mut end = self.end.subscribe();
        // The sender lives as long as this does.
        let _ = end.wait_for(|is_over| *is_over).await;
    }

    pub(crate) fn show(&self) -> Bulk {
        let (progress, ending) = (self.change.progress(), self.ending().clone());
        let refused = progress.refused.into_iter().map(|(id, reason)| {
            let job = self.jobs.iter().find(|job| job.id == id).map_or_else(|| unnamed(id), named);
            BulkRefusal { job, reason }
        });
        Bulk {
            id: self.id,
            action: self.action,
            state: ending.state,
            matched: self.jobs.len() as u64,
            done: progress.done,
            refused_count: progress.refused_count,
            refused: refused.collect(),
            reason: progress.reason.or(ending.reason),
            by: self.by.to_string(),
            began_at: self.began_at.to_string(),
            ended_at: ending.at.map(|at| at.to_string()),
        }
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn named(job: &JobName) -> BulkJob {
    BulkJob { id: job.id.0, app: job.app.clone(), name: job.name.clone() }
}

fn unnamed(id: JobId) -> BulkJob {
    BulkJob { id: id.0, app: String::new(), name: String::new() }
}

fn asked(action: BulkAction) -> BulkMove {
    match action {
        BulkAction::Start => BulkMove::Start,
        BulkAction::Stop => BulkMove::Stop,
        BulkAction::Delete => BulkMove::Delete,
        BulkAction::Run => BulkMove::Run,
    }
}

async fn carry_out(front: Arc<Front>, work: Arc<BulkWork>) {
    // In a task of its own, so that a bug in the work ends the action but not the record of it.
    let changing = {
        let (front, work) = (Arc::clone(&front), Arc::clone(&work));
        tokio::spawn(async move { front.node.change_jobs(&work.change, &|| (front.nudge)()).await })
    };
    let has_bug = changing.await.is_err();
    let progress = work.change.progress();
    let in_force = match progress.latest {
        Some(change) => front.wait_in_force(change).await,
        None => Ok(()),
    };
    let state = match () {
        () if has_bug || progress.reason.is_some() => BulkState::Failed,
        () if progress.done < work.jobs.len() as u64 => BulkState::Stopped,
        () => BulkState::Done,
    };
    let reason = in_force.err().map(|problem| problem.detail);
    *work.ending() = Ending { state, reason, at: front.node.now() };
    work.end.send_replace(true);
}
