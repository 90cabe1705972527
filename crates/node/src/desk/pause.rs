//! Pausing an app: its jobs stop, what is stored for them waits, and a job that would start meanwhile does not.
//!
//! First the node writes that the app is paused, and then it stops the app's jobs, one change each. A command that enables a
//! job looks at the app after its own write. So of the two, the later one sees the other, and no job slips through.
//!
//! The row of the app holds the wish, and the jobs follow it: where a crash or a silent store cut that short, a node
//! finishes it ([`Node::finish_pauses`]). Resuming works the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::model::{ChangeId, Epoch, JobId, JobMove, JobState, NodeId, ShardId, StoppedReason, Text};

use super::DeskError;
use super::few::few_at_once;
use crate::Node;
use crate::memory::Memory;
use crate::ports::{AppRow, Boot, Browse, Changed, JobFilter, JobView, Paused};

/// How many jobs are read at once.
const PAGE: usize = 1_000;

/// How many of them are changed at once: enough that a store writes them together, few enough that others get their turn.
const AT_ONCE: usize = 32;

/// How often a node looks whether it may have to finish a pause.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// When it tries again if the store did not answer.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How far the jobs have followed their app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Following {
    /// Jobs that were changed.
    pub jobs: u64,
    /// Jobs that could not be changed, in the last round.
    pub refused: u64,
    /// The last change.
    pub latest: Option<ChangeId>,
}

/// What a node has seen of pauses.
#[derive(Default)]
pub(crate) struct PauseWatch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    /// The cluster as it was when nothing was left to finish. A node that crashed in the middle is not in the next one.
    finished: Option<Tenure>,
    /// Whether this node itself was cut in the middle.
    is_cut: bool,
}

/// The nodes that live, and the shards that this one holds.
type Tenure = (BTreeSet<NodeId>, BTreeMap<ShardId, Epoch>);

impl PauseWatch {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped before the jobs have all followed their app: this node has to finish that.
struct Cut<'a>(Option<&'a PauseWatch>);

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.0 {
            watch.seen().is_cut = true;
        }
    }
}

impl Node {
    /// Writes down that an app is paused. From now on no job of it starts; [`Node::follow_app`] stops those that are enabled.
    pub async fn pause_app(&self, name: &str, by: Text, reason: Text) -> Result<AppRow, DeskError> {
        let paused = Paused { since: self.told_time()?, by, reason };
        self.set_paused(name, Some(paused)).await
    }

    /// Writes down that an app is not paused. Its jobs may start from now on; [`Node::follow_app`] starts those that the pause
    /// has stopped.
    pub async fn resume_app(&self, name: &str) -> Result<AppRow, DeskError> {
        self.set_paused(name, None).await
    }

    async fn set_paused(&self, name: &str, paused: Option<Paused>) -> Result<AppRow, DeskError> {
        let written = self.ports.apps.pause_app(name, paused).await;
        // It may have been written all the same.
        self.pauses.seen().is_cut |= written.is_err();
        let app = written?;
        let app = app.ok_or_else(|| DeskError::NotFound(format!("app {name}").into()))?;
        self.note_app(&app);
        Ok(app)
    }

    /// Stops the enabled jobs of an app that was paused, or starts the jobs of a resumed app that its pause had
    /// stopped. Tells its progress after every page, and ends early when its caller says that it is not wanted any
    /// more; then, as after an error, a node finishes it later.
    pub async fn follow_app(
        &self,
        browse: &dyn Browse,
        app: &str,
        is_paused: bool,
        by: Text,
        is_wanted: &(dyn Fn(Following) -> bool + Sync),
    ) -> Result<Following, DeskError> {
        let mut cut = Cut(Some(&self.pauses));
        let filter =
            JobFilter { apps: Some(vec![app.to_owned()]), enabled: Some(is_paused), ..JobFilter::default() };
        let mut done = Following::default();
        // Jobs that came while others were read are found by the next round; the last round finds none.
        let mut before = u64::MAX;
        while before != done.jobs {
            before = done.jobs;
            done.refused = 0;
            let mut after = None;
            loop {
                let page = browse.job_list(&filter, after, PAGE).await?;
                let jobs = page.items.iter().filter(|view| view.state == followed_from(is_paused));
                self.move_jobs(jobs.map(|view| view.id).collect(), is_paused, by.clone(), &mut done).await?;
                after = page.next;
                if !is_wanted(done) {
                    return Ok(done);
                }
                if after.is_none() {
                    break;
                }
            }
        }
        cut.0 = None;
        Ok(done)
    }

    /// Finishes pauses and resumptions that were cut short: jobs of paused apps that are enabled, and jobs that are
    /// stopped for a pause that is over. A node looks for both when it takes shards and when another node comes or
    /// goes, among the jobs of its own shards, so that all nodes together have looked at all jobs. Like a step, it does
    /// one round and answers when it wants to be called again.
    pub async fn finish_pauses(&self, browse: &dyn Browse) -> Boot {
        let boot = self.boot();
        let Some(tenure) = self.unfinished() else { return boot.plus(LOOK_EVERY) };
        self.pauses.seen().is_cut = false;
        match self.finish(browse, &tenure.1).await {
            Ok(()) => {
                self.pauses.seen().finished = Some(tenure);
                boot.plus(LOOK_EVERY)
            }
            Err(_) => {
                self.pauses.seen().is_cut = true;
                boot.plus(AGAIN_AFTER)
            }
        }
    }

    /// The shards that are to be looked through; none if that is done.
    fn unfinished(&self) -> Option<Tenure> {
        let tenure: Tenure = {
            let memory = self.memory();
            let nodes = memory.cluster.nodes.iter().map(|row| row.node).collect();
            (nodes, memory.cluster.held.iter().map(|(shard, held)| (*shard, held.epoch)).collect())
        };
        let seen = self.pauses.seen();
        let is_finished = !seen.is_cut && seen.finished.as_ref() == Some(&tenure);
        (!tenure.1.is_empty() && !is_finished).then_some(tenure)
    }

    async fn finish(&self, browse: &dyn Browse, shards: &BTreeMap<ShardId, Epoch>) -> Result<(), DeskError> {
        let apps = self.ports.apps.registered().await?.apps;
        let (paused, others): (Vec<AppRow>, Vec<AppRow>) =
            apps.into_iter().partition(|app| app.paused.is_some());
        let names = |apps: Vec<AppRow>| apps.into_iter().map(|app| app.name.into_owned());
        let by = Text::Borrowed("punctual");
        let is_ours = |view: &JobView| shards.contains_key(&view.shard);
        if !paused.is_empty() {
            let apps = Some(names(paused).collect());
            let filter = JobFilter { apps, enabled: Some(true), ..JobFilter::default() };
            self.finish_those(browse, &filter, true, by.clone(), is_ours).await?;
        }
        // Nothing says which app's resumption was cut short, so every stopped job is looked at, once for each change of
        // the cluster.
        let resumed: BTreeSet<String> = names(others).collect();
        let filter = JobFilter { enabled: Some(false), ..JobFilter::default() };
        let is_left = |view: &JobView| {
            view.state.is_paused() && resumed.contains(&view.definition.app) && is_ours(view)
        };
        self.finish_those(browse, &filter, false, by, is_left).await
    }

    async fn finish_those(
        &self,
        browse: &dyn Browse,
        filter: &JobFilter,
        is_paused: bool,
        by: Text,
        is_left: impl Fn(&JobView) -> bool,
    ) -> Result<(), DeskError> {
        let mut after = None;
        loop {
            let page = browse.job_list(filter, after, PAGE).await?;
            let jobs = page.items.iter().filter(|view| is_left(view)).map(|view| view.id).collect();
            self.move_jobs(jobs, is_paused, by.clone(), &mut Following::default()).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Stops jobs for the pause of their app, or starts them again, a few at a time.
    async fn move_jobs(
        &self,
        jobs: Vec<JobId>,
        is_paused: bool,
        by: Text,
        done: &mut Following,
    ) -> Result<(), DeskError> {
        let mut failed = None;
        let change = async |job| {
            let asked = if is_paused { JobMove::Stop(StoppedReason::AppPaused) } else { JobMove::Resume };
            self.edit(job, None, None, Some(asked), by.clone()).await
        };
        few_at_once(jobs, AT_ONCE, change, |changed| match changed {
            Ok(changed) => {
                done.jobs += 1;
                done.latest = done.latest.max(Some(changed.change));
            }
            // It was deleted meanwhile.
            Err(DeskError::NotFound(_)) => {}
            Err(DeskError::Conflict(_) | DeskError::Invalid { .. }) => done.refused += 1,
            Err(error) => failed = Some(error),
        })
        .await;
        failed.map_or(Ok(()), Err)
    }

    /// Whether an app is paused. Memory learns late that it is no longer, so the store has the last word.
    pub(super) async fn is_paused(&self, app: &str) -> Result<bool, DeskError> {
        let may_be = self.memory().executors.paused.contains_key(app);
        Ok(may_be && self.is_surely_paused(app).await?)
    }

    async fn is_surely_paused(&self, app: &str) -> Result<bool, DeskError> {
        Ok(self.ports.apps.app(app).await?.is_some_and(|app| app.paused.is_some()))
    }

    /// After a job of an app was written in a state: the app may have been paused or resumed meanwhile, by a command that could
    /// not see the job yet.
    pub(super) async fn follow_own_app(
        &self,
        app: &str,
        state: &JobState,
        changed: Changed,
        by: Text,
    ) -> Result<Changed, DeskError> {
        if !state.is_enabled() && !state.is_paused() {
            return Ok(changed);
        }
        let asked = match self.is_surely_paused(app).await? {
            true if state.is_enabled() => JobMove::Stop(StoppedReason::AppPaused),
            false if state.is_paused() => JobMove::Resume,
            _ => return Ok(changed),
        };
        let (changed, _) = self.write_change(changed.job, None, None, Some(asked), by).await?;
        Ok(changed)
    }
}

/// The state of jobs that have not followed their app yet.
fn followed_from(is_paused: bool) -> JobState {
    if is_paused { JobState::Enabled } else { JobState::Stopped(StoppedReason::AppPaused) }
}

impl Memory {
    /// Takes note of whether an app is paused.
    pub(super) fn note_paused(&mut self, app: &AppRow) {
        match &app.paused {
            Some(paused) => self.executors.paused.insert(app.name.clone(), paused.clone()),
            None => self.executors.paused.remove(&app.name),
        };
    }
}

/// What keeps a job of a paused app from starting.
pub(super) fn held_by(app: &str) -> DeskError {
    DeskError::Conflict(format!("app {app} is paused; resume it first, and its jobs go on").into())
}
