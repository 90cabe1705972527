//! Actions over many jobs: carried out in the background, a few at a time, with their progress kept for whoever asks.
//! Each job is a change of its own, so what was stopped half way has done half, and nothing is half done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calendar::Timestamp;
use punctual_core::model::{ChangeId, JobId, JobMove, StoppedReason, Text};
use punctual_node::ports::JobName;
use punctual_node::{ByHand, DeskError};
use punctual_protocol::{Bulk, BulkAction, BulkJob, BulkRefusal, BulkState};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::Front;
use crate::caller::Caller;

/// How many jobs are dealt with at once: enough that a store writes them together, few enough that others get their turn.
const AT_ONCE: usize = 32;

/// After how many jobs the loops are told to look.
const NUDGE_EVERY: usize = 256;

/// How many refusals are kept word by word.
const REFUSALS_MAX: usize = 100;

/// How many actions a node remembers.
const KEPT_MAX: usize = 100;

/// The actions of this node, of this run of the process.
#[derive(Default)]
pub(crate) struct Bulks(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: u64,
    works: BTreeMap<u64, Arc<Work>>,
}

/// One action over many jobs.
pub(crate) struct Work {
    id: u64,
    action: BulkAction,
    by: Text,
    /// The token that asked for it.
    owner: u32,
    began_at: Timestamp,
    jobs: Vec<JobName>,
    is_stopped: AtomicBool,
    progress: Mutex<Progress>,
    end: watch::Sender<bool>,
}

#[derive(Clone)]
struct Progress {
    state: BulkState,
    done: u64,
    refused_count: u64,
    refused: Vec<BulkRefusal>,
    reason: Option<String>,
    ended_at: Option<Timestamp>,
    latest: Option<ChangeId>,
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
    ) -> Arc<Work> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let work = Arc::new(Work {
            id: kept.last,
            action,
            by: caller.name.clone(),
            owner: caller.id,
            began_at: now,
            jobs,
            is_stopped: AtomicBool::new(false),
            progress: Mutex::new(Progress {
                state: BulkState::Running,
                done: 0,
                refused_count: 0,
                refused: Vec::new(),
                reason: None,
                ended_at: None,
                latest: None,
            }),
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

    /// How many go on.
    pub(crate) fn running(&self) -> usize {
        self.kept().works.values().filter(|work| !work.is_over()).count()
    }

    /// An action that the caller may see.
    pub(crate) fn get(&self, caller: &Caller, id: u64) -> Option<Arc<Work>> {
        self.kept().works.get(&id).filter(|work| work.is_seen_by(caller)).cloned()
    }

    /// Those that the caller may see, the newest first.
    pub(crate) fn all(&self, caller: &Caller) -> Vec<Arc<Work>> {
        self.kept().works.values().rev().filter(|work| work.is_seen_by(caller)).cloned().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    /// It names jobs, so it is for who asked, and for who reaches all of them.
    fn is_seen_by(&self, caller: &Caller) -> bool {
        caller.reaches_all() || caller.id == self.owner
    }

    fn is_over(&self) -> bool {
        self.progress().state != BulkState::Running
    }

    /// Ends it after what is under way.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns when it is over.
    pub(crate) async fn over(&self) {
        let mut end = self.end.subscribe();
        // The sender lives as long as this does.
        let _ = end.wait_for(|is_over| *is_over).await;
    }

    pub(crate) fn show(&self) -> Bulk {
        let progress = self.progress().clone();
        Bulk {
            id: self.id,
            action: self.action,
            state: progress.state,
            matched: self.jobs.len() as u64,
            done: progress.done,
            refused_count: progress.refused_count,
            refused: progress.refused,
            reason: progress.reason,
            by: self.by.to_string(),
            began_at: self.began_at.to_string(),
            ended_at: progress.ended_at.map(|at| at.to_string()),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what became of one job. What the store did not answer ends everything: the rest would fare no better.
    fn note(&self, job: &JobName, done: Result<Option<ChangeId>, DeskError>) {
        let mut progress = self.progress();
        match done {
            Ok(change) => progress.latest = progress.latest.max(change),
            Err(error) => {
                if matches!(error, DeskError::Unknown(_) | DeskError::Away(_) | DeskError::Full(_)) {
                    progress.reason.get_or_insert_with(|| error.to_string());
                    self.stop();
                }
                progress.refused_count += 1;
                if progress.refused.len() < REFUSALS_MAX {
                    progress.refused.push(BulkRefusal { job: named(job), reason: error.to_string() });
                }
            }
        }
        progress.done += 1;
    }
}

pub(crate) fn named(job: &JobName) -> BulkJob {
    BulkJob { id: job.id.0, app: job.app.clone(), name: job.name.clone() }
}

async fn carry_out(front: Arc<Front>, work: Arc<Work>) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut hands = JoinSet::new();
    for _ in 0..AT_ONCE.min(work.jobs.len()) {
        let (front, work, next) = (Arc::clone(&front), Arc::clone(&work), Arc::clone(&next));
        hands.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = work.jobs.get(index) else { return };
                if work.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                let done = act(&front, &work, job.id).await;
                work.note(job, done);
                if index % NUDGE_EVERY == 0 {
                    (front.nudge)();
                }
            }
        });
    }
    let mut has_bug = false;
    while let Some(hand) = hands.join_next().await {
        has_bug |= hand.is_err();
    }
    (front.nudge)();
    let latest = work.progress().latest;
    let in_force = match latest {
        Some(change) => front.wait_in_force(change).await,
        None => Ok(()),
    };
    let mut progress = work.progress();
    progress.ended_at = front.node.now();
    progress.state = match () {
        () if has_bug || progress.reason.is_some() => BulkState::Failed,
        () if progress.done < work.jobs.len() as u64 => BulkState::Stopped,
        () => BulkState::Done,
    };
    if let Err(problem) = in_force {
        progress.reason.get_or_insert(problem.detail);
    }
    drop(progress);
    work.end.send_replace(true);
}

async fn act(front: &Front, work: &Work, job: JobId) -> Result<Option<ChangeId>, DeskError> {
    let asked = match work.action {
        BulkAction::Start => JobMove::Start,
        BulkAction::Stop => JobMove::Stop(StoppedReason::Asked),
        BulkAction::Delete => JobMove::Delete,
        BulkAction::Run => return front.node.run_now(job, ByHand::default()).await.map(|_| None),
    };
    let changed = front.node.edit(job, None, None, Some(asked), work.by.clone()).await?;
    Ok(Some(changed.change))
}
