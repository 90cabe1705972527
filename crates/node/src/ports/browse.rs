//! Reading, for people: pages of jobs and runs, all of which may be a little behind. The engine asks only how attempts
//! ended that it did not see.

use std::sync::Arc;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Definition, JobId, JobState, LogId, Origin, Outcome, Overrides, Part, Payload,
    RunId, RunState, ShardId, StoppedReason, Text, Token,
};

use super::store::{REVISIONS_MAX, SentRow, StoreError};

/// One page of a list, and where the next begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The rows.
    pub items: Vec<T>,
    /// Where to go on; none at the end.
    pub next: Option<C>,
}

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Of these apps; of all if not said.
    pub apps: Option<Vec<String>>,
    /// With this tag.
    pub tag: Option<String>,
    /// Whose name or description contains this, whatever the case.
    pub text: Option<String>,
    /// Enabled or not.
    pub enabled: Option<bool>,
    /// Only those whose last run failed or was lost.
    pub is_failing: bool,
    /// Only those that stopped without a person's wish.
    pub is_given_up: bool,
}

impl JobFilter {
    /// Whether columns that every store has can decide it, so that no definition has to be read.
    pub fn is_plain(&self) -> bool {
        self.tag.is_none() && self.text.is_none() && !self.is_failing && !self.is_given_up
    }

    /// Whether it lets a job through. Texts are compared here, because each database knows other cases of letters.
    pub fn takes(&self, job: &JobView) -> bool {
        let JobView { definition, state, counts, .. } = job;
        let has_text = |text: &String| {
            let text = text.to_lowercase();
            definition.name.to_lowercase().contains(&text)
                || definition.description.to_lowercase().contains(&text)
        };
        let by_wish = [StoppedReason::Asked, StoppedReason::AppPaused];
        let gave_up = || matches!(state, JobState::Stopped(reason) if !by_wish.contains(reason));
        self.apps.as_ref().is_none_or(|apps| apps.contains(&definition.app))
            && self.tag.as_ref().is_none_or(|tag| definition.tags.contains(tag))
            && self.enabled.is_none_or(|enabled| enabled == state.is_enabled())
            && (!self.is_failing || counts.consecutive_failures > 0)
            && (!self.is_given_up || gave_up())
            && self.text.as_ref().is_none_or(has_text)
    }
}

/// What a job is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName {
    /// Which.
    pub id: JobId,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
}

/// Where a list by the next fire time goes on.
pub type Soonest = (Timestamp, JobId);

/// A job as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its identity.
    pub id: JobId,
    /// Its version.
    pub version: u64,
    /// Whether it fires.
    pub state: JobState,
    /// What people wrote.
    pub definition: Definition,
    /// The next instant that is not yet planned.
    pub next_fire: Option<Timestamp>,
    /// Its shard.
    pub shard: ShardId,
    /// What has become of its runs.
    pub counts: Counts,
}

/// What has become of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Closed as succeeded.
    pub succeeded: u64,
    /// Closed as failed or lost.
    pub failed: u64,
    /// Closed as cancelled or skipped, a range counted as many.
    pub not_run: u64,
    /// Failed or lost ones since the last success.
    pub consecutive_failures: u32,
    /// How the last closed run ended.
    pub last_outcome: Option<Outcome>,
    /// When a run last succeeded.
    pub last_success: Option<Timestamp>,
}

/// Which runs. The times are half open, by fire time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this job.
    pub job: Option<JobId>,
    /// Of jobs of these apps, deleted ones too; of all if not said.
    pub apps: Option<Vec<String>>,
    /// In this state.
    pub state: Option<RunState>,
    /// From this fire time on.
    pub from: Option<Timestamp>,
    /// Before this fire time.
    pub to: Option<Timestamp>,
    /// With this key.
    pub key: Option<String>,
}

/// A run as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunView {
    /// Its identity.
    pub id: RunId,
    /// Its job.
    pub job: JobId,
    /// Its shard.
    pub shard: ShardId,
    /// The instant that was named for it.
    pub fire_time: Timestamp,
    /// From when on it may be started.
    pub due: Timestamp,
    /// Where it comes from.
    pub origin: Origin,
    /// Where it stands.
    pub state: RunState,
    /// Why, where the state alone does not say.
    pub reason: Text,
    /// When it was closed.
    pub closed_at: Option<Timestamp>,
    /// For a range of missed instants: the last of them, and how many they are.
    pub range: Option<(Timestamp, u64)>,
    /// 0 goes first.
    pub priority: u8,
    /// What it brings.
    pub payload: Option<Payload>,
    /// Its key.
    pub key: Option<Text>,
    /// The run that it repeats or follows.
    pub of: Option<RunId>,
    /// When it goes on, if it waits for an instant.
    pub ready_at: Option<Timestamp>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptRow>,
    /// Which part of the run [`RunView::of`] it is.
    pub part: Option<Part>,
    /// Its overrides.
    pub overrides: Option<Arc<Overrides>>,
}

/// An attempt: ended, or on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptRow {
    /// It has ended.
    Ended(AttemptRecord),
    /// It was gated and has not ended.
    Open {
        /// Which try.
        number: Attempt,
        /// Its token.
        token: Token,
        /// Its number.
        log: LogId,
        /// When it was gated.
        started_at: Timestamp,
        /// Where it went.
        executor: Text,
    },
}

/// A day of runs as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Days since 2020.
    pub day: u32,
    /// Runs in it.
    pub runs: u64,
    /// Those that are closed.
    pub closed: u64,
    /// Bytes, as far as the store can say; 0 if it cannot.
    pub bytes: u64,
}

/// One version of a job's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The version it came with.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// The person or program that asked for it.
    pub by: Text,
    /// What it was.
    pub definition: Definition,
}

/// Reading, for people.
#[async_trait]
pub trait Browse: Send + Sync {
    /// Whether there is a copy to read from while the store is away.
    fn has_copy(&self) -> bool {
        false
    }

    /// Whether the last answer came from it, and may be behind.
    fn is_copy(&self) -> bool {
        false
    }

    /// A job that is not deleted.
    async fn job(&self, id: JobId) -> Result<Option<JobView>, StoreError>;

    /// A job that is not deleted, by its name.
    async fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, StoreError>;

    /// Jobs that are not deleted, by id, after `after`.
    async fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, StoreError>;

    /// How many jobs are not deleted, and how many of them are enabled. Walks over them page by page; a store that can
    /// count does better.
    async fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
        let (mut all, mut enabled, mut after) = (0, 0, None);
        loop {
            let page = self.job_list(filter, after, 1_000).await?;
            all += page.items.len() as u64;
            enabled += page.items.iter().filter(|job| job.state.is_enabled()).count() as u64;
            after = page.next;
            if after.is_none() {
                return Ok((all, enabled));
            }
        }
    }

    /// Enabled jobs whose clock names an instant, by that instant and then by id, after `after`. Walks over all of them; a
    /// store that has them in this order does better.
    async fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, StoreError> {
        let place = |job: &JobView| job.next_fire.map(|at| (at, job.id));
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = self.job_list(filter, from, 1_000).await?;
            found.extend(page.items.into_iter().filter(|job| {
                job.state.is_enabled() && place(job).is_some_and(|place| after.is_none_or(|it| it < place))
            }));
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        found.sort_by_key(place);
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).and_then(place);
        Ok(Page { items: found, next })
    }

    /// The names of jobs, in any order; of a deleted job the last one. Ids that never were a job's are left out.
    async fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, StoreError> {
        let mut names = Vec::new();
        for id in ids {
            let definition = match self.job(*id).await? {
                Some(view) => Some(view.definition),
                None => {
                    self.revisions(*id, 0, REVISIONS_MAX).await?.pop().map(|revision| revision.definition)
                }
            };
            names.extend(definition.map(|Definition { app, name, .. }| JobName { id: *id, app, name }));
        }
        Ok(names)
    }

    /// Earlier and present definitions of a job, oldest first: those of versions after `after`, at most `max`.
    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError>;

    /// The parts of a broadcast run, by index.
    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError>;

    /// The gates of a run, by attempt, also of attempts that have ended.
    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError>;

    /// One run, with its attempts.
    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError>;

    /// Runs by id, highest first, below `before`. Parts are not among them.
    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError>;

    /// The run that a key of a job belongs to; none if the key was forgotten, and perhaps none if that run has ended.
    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError>;

    /// What has become of all runs that were ever closed, of one job or of all.
    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError>;

    /// The days that are stored, oldest first.
    async fn storage(&self) -> Result<Vec<Bucket>, StoreError>;
}

/// What nodes read of the past: how attempts ended while another node held the run.
#[async_trait]
pub trait Records: Send + Sync {
    /// The attempts of a run that have ended, by number; none if there is no such run.
    async fn ended(&self, run: RunId) -> Result<Vec<AttemptRecord>, StoreError>;
}

#[async_trait]
impl<B: Browse> Records for B {
    async fn ended(&self, run: RunId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.run(run).await?.map(RunView::into_ended).unwrap_or_default())
    }
}

#[async_trait]
impl Records for Arc<dyn Browse> {
    async fn ended(&self, run: RunId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.run(run).await?.map(RunView::into_ended).unwrap_or_default())
    }
}

impl RunView {
    fn into_ended(self) -> Vec<AttemptRecord> {
        let ended = |row| match row {
            AttemptRow::Ended(record) => Some(record),
            AttemptRow::Open { .. } => None,
        };
        self.attempts.into_iter().filter_map(ended).collect()
    }
}
