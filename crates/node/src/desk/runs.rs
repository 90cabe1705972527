//! Commands that make runs: run now, submit, backfill, retry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::cluster::{home, spread};
use punctual_core::model::{
    Decided, Epoch, Job, JobId, NewRun, Origin, Overrides, PAYLOAD_MAX, Payload, RunId, ShardId, Text,
};

use super::DeskError;
use super::pause::held_by;
use crate::Node;
use crate::jobs::Known;
use crate::ports::{Accepted, ArrivalKind, Hint, RunRow, StoreError};
use crate::retention::before;

/// How many instants one backfill may name.
const BACKFILL_MAX: u64 = 100_000;

/// How many of them are shown.
const SHOWN_MAX: usize = 1_000;

/// How many runs are written at once.
const CHUNK: usize = 1_000;

/// What a caller sets for a run by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByHand {
    /// The payload, in place of the job's.
    pub payload: Option<Payload>,
    /// The instant that it is for; now, if none is given.
    pub fire_time: Option<Timestamp>,
    /// The one executor that may get it; any that the job's route chooses, if none is given.
    pub executor: Option<Text>,
}

/// A one-shot that a caller submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The job it belongs to.
    pub job: JobId,
    /// When it is due; at once if not said, or past.
    pub at: Option<Timestamp>,
    /// Its payload.
    pub payload: Option<Payload>,
    /// Its key: a later one-shot of the job with the same key is a duplicate.
    pub key: Option<Text>,
    /// Instead of the job's.
    pub priority: Option<u8>,
    /// What else it has in place of the job's. The executor is not among it: only a run by hand may name one.
    pub overrides: Overrides,
}

/// What a backfill would do, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// How many instants the range names.
    pub count: u64,
    /// The first of them.
    pub fire_times: Vec<Timestamp>,
    /// How many runs were written; the others were there.
    pub created: u64,
}

impl Node {
    /// Starts a run of a job at once, whether it is stopped or not.
    pub async fn run_now(&self, job: JobId, brings: ByHand) -> Result<RunId, DeskError> {
        let job = self.knows(job).await?;
        let now = self.told_time()?;
        if brings.executor.is_some() && job.executor().is_none() {
            let why = "the job calls an agent; leave it out";
            return Err(DeskError::Invalid { pointer: "/executor".into(), reason: why.into() });
        }
        let run = Birth {
            origin: Origin::Manual,
            fire_time: brings.fire_time.unwrap_or(now),
            due: now,
            payload: brings.payload,
            overrides: Overrides { executor: brings.executor, ..Overrides::default() }.kept(),
            ..Birth::of(&job, now)
        };
        let accepted = self.accept(vec![(job, run)]).await?;
        Ok(id_of(accepted[0]))
    }

    /// Takes one-shots, all or none. Answered only when they are durable.
    pub async fn submit(&self, submissions: Vec<Submission>) -> Result<Vec<Accepted>, DeskError> {
        let now = self.told_time()?;
        let jobs = self.know_all(submissions.iter().map(|submission| submission.job).collect()).await?;
        let mut births = Vec::with_capacity(submissions.len());
        for (index, submission) in submissions.into_iter().enumerate() {
            let job = known(&jobs, submission.job)?;
            if job.state.is_paused() {
                return Err(held_by(&job.definition.app));
            }
            if !job.state.is_enabled() {
                return Err(DeskError::Conflict(format!("job {} is stopped", job.id).into()));
            }
            if submission.priority.is_some_and(|priority| priority > 9) {
                return Err(invalid(index, "priority", "expected 0 to 9"));
            }
            if submission.overrides.timeout.is_some_and(|timeout| timeout.as_millis() == 0) {
                return Err(invalid(index, "timeout", "an attempt needs some time"));
            }
            if submission.payload.as_ref().is_some_and(|payload| payload.len() > PAYLOAD_MAX) {
                return Err(invalid(index, "payload", &format!("at most {PAYLOAD_MAX} bytes are kept")));
            }
            let due = submission.at.unwrap_or(now).max(now);
            let birth = Birth {
                origin: Origin::OneShot,
                fire_time: due,
                due,
                payload: submission.payload,
                overrides: submission.overrides.kept(),
                key: submission.key,
                priority: submission.priority.unwrap_or(job.definition.priority),
                ..Birth::of(&job, now)
            };
            births.push((job, birth));
        }
        self.accept(births).await
    }

    /// Runs a settled run again, as a new run for the same fire time.
    pub async fn retry(&self, run: RunId) -> Result<RunId, DeskError> {
        let row = self.read_run(run).await?;
        if !row.is_closed {
            return Err(DeskError::Conflict(format!("run {run} has not ended").into()));
        }
        let job = self.knows(row.waiting.job).await?;
        let now = self.told_time()?;
        let birth = Birth {
            origin: Origin::Retry,
            fire_time: row.waiting.fire_time,
            due: now,
            payload: row.payload,
            of: Some(run),
            overrides: row.waiting.overrides,
            ..Birth::of(&job, now)
        };
        let accepted = self.accept(vec![(job, birth)]).await?;
        Ok(id_of(accepted[0]))
    }

    /// Runs the instants of a past range that have no run, or says how many there would be.
    pub async fn backfill(
        &self,
        job: JobId,
        from: Timestamp,
        to: Timestamp,
        is_preview: bool,
    ) -> Result<Backfill, DeskError> {
        let job = self.knows(job).await?;
        let now = self.told_time()?;
        let to = to.min(now);
        let own = self.memory().executors.retentions.get(&*job.definition.app).copied();
        if from < before(now, own.unwrap_or(self.settings.retention)) {
            let reason = "is older than what is kept: which of its instants ran is forgotten";
            return Err(DeskError::Invalid {
                pointer: Text::Borrowed("/from"),
                reason: Text::Borrowed(reason),
            });
        }
        let count = job.rule.count(from, to);
        if count > BACKFILL_MAX {
            let reason = format!("the range names {count} instants; at most {BACKFILL_MAX} are run at once");
            return Err(DeskError::Invalid { pointer: Text::Borrowed("/to"), reason: reason.into() });
        }
        let fire_times: Vec<Timestamp> = job.rule.between(from, to).take(SHOWN_MAX).collect();
        let mut backfill = Backfill { count, fire_times, created: 0 };
        if is_preview {
            return Ok(backfill);
        }
        let all: Vec<Timestamp> = job.rule.between(from, to).collect();
        for chunk in all.chunks(CHUNK) {
            let birth = |at: &Timestamp| {
                let birth = Birth {
                    origin: Origin::Backfill,
                    fire_time: *at,
                    due: now,
                    decided: Decided::CaughtUp,
                    ..Birth::of(&job, now)
                };
                (Arc::clone(&job), birth)
            };
            let accepted = self.accept(chunk.iter().map(birth).collect()).await;
            let accepted = accepted.map_err(DeskError::after_others)?;
            backfill.created += accepted.iter().filter(|one| matches!(one, Accepted::New(_))).count() as u64;
        }
        Ok(backfill)
    }

    pub(super) fn tell_holder(&self, shard: ShardId) {
        let whom = self.memory().whom_to_tell(shard);
        if let Some(node) = whom {
            self.ports.peers.tell(node, Hint::Arrived(shard));
        }
    }

    pub(super) async fn read_run(&self, run: RunId) -> Result<RunRow, DeskError> {
        let rows = self.ports.store.fetch(&[run]).await?;
        rows.into_iter().next().ok_or_else(|| DeskError::NotFound(format!("run {run}").into()))
    }

    async fn knows(&self, job: JobId) -> Result<Arc<Job>, DeskError> {
        known(&self.know_all(BTreeSet::from([job])).await?, job)
    }

    /// Jobs, as they are known at one moment. One that is changed at that very moment is read again.
    async fn know_all(&self, ids: BTreeSet<JobId>) -> Result<BTreeMap<JobId, Known>, DeskError> {
        loop {
            self.know_jobs(ids.iter().copied()).await?;
            let known: BTreeMap<JobId, Known> = {
                let memory = self.memory();
                ids.iter().filter_map(|id| Some((*id, memory.jobs.get(*id)?.clone()))).collect()
            };
            if known.len() == ids.len() {
                return Ok(known);
            }
        }
    }

    /// Writes runs; those of our shards come into memory, the holders of the others are told.
    async fn accept(&self, births: Vec<(Arc<Job>, Birth)>) -> Result<Vec<Accepted>, DeskError> {
        let _place = self.crowd.enter(births.len())?;
        let today = RunId::day_of(self.told_time()?);
        // What a schedule names is identified by its fire time, and lies where that is.
        let day = |birth: &Birth| match birth.origin {
            Origin::OneShot => self.ports.store.birth_day(birth.day(), today),
            _ => birth.day(),
        };
        let days: Vec<u32> = births.iter().map(|(_, birth)| day(birth)).collect();
        let ids = self.draw_ids(&days).await?;
        let now = self.told_time()?;
        let (runs, left, epochs, read) = {
            let mut memory = self.memory();
            let shards = memory.shard_count();
            if shards == 0 {
                return Err(DeskError::Unknown(Text::Borrowed("this node has not joined yet")));
            }
            let runs: Vec<NewRun> =
                births.into_iter().zip(ids).map(|((job, birth), id)| birth.named(&job, id, shards)).collect();
            // A run that its holder's loading may have passed already is left for the holder; later runs it will load
            // by itself.
            let soon = now.saturating_add(self.settings.load_ahead * 2);
            let is_left = |run: &&NewRun| run.due <= soon && !memory.cluster.held.contains_key(&run.shard);
            let left: Vec<_> =
                runs.iter().filter(is_left).map(|run| (run.shard, ArrivalKind::Run(run.id))).collect();
            let epoch = |run: &NewRun| memory.cluster.held.get(&run.shard).map(|held| held.epoch);
            let epochs: Vec<Option<Epoch>> = runs.iter().map(epoch).collect();
            (runs, left, epochs, memory.loaded.reads.begin())
        };
        let shards: Vec<ShardId> = left.iter().map(|(shard, _)| *shard).collect();
        let accepted = self.ports.store.accept(runs.clone(), left).await;
        let mut moved = Vec::new();
        {
            let boot = self.boot();
            let mut memory = self.memory();
            match &accepted {
                Ok(accepted) => {
                    memory.agenda.failing.worked("accept");
                    for ((run, epoch), one) in runs.iter().zip(epochs).zip(accepted) {
                        if !matches!(one, Accepted::New(_)) {
                            continue;
                        }
                        if epoch.is_some() && memory.lease(run.shard).is_none() {
                            // The shard was given away meanwhile, and the next holder may have loaded it before this
                            // run was written.
                            moved.extend(memory.whom_to_tell(run.shard).map(|node| (node, run.id)));
                        }
                        memory.take_in_new(read, &run.into(), epoch);
                        if let Some(payload) = &run.payload {
                            memory.bring_ahead(run.id, payload, now);
                        }
                    }
                }
                Err(error) => {
                    if !matches!(error, StoreError::Conflict(_)) {
                        memory.agenda.failing.failed("accept", boot, error.to_string().into());
                    }
                    runs.iter().for_each(|run| memory.read_again(run.shard, run.due));
                }
            }
            memory.loaded.reads.end(read);
        }
        let accepted = accepted.map_err(|error| match error {
            StoreError::Away(reason) => DeskError::Away(reason),
            error => error.into(),
        })?;
        for (node, run) in moved {
            self.ports.peers.tell(node, Hint::Settled(run));
        }
        let mut told: Option<ShardId> = None;
        for shard in shards {
            if told != Some(shard) {
                self.tell_holder(shard);
                told = Some(shard);
            }
        }
        Ok(accepted)
    }
}

/// The job, if there is one that can be read.
fn known(jobs: &BTreeMap<JobId, Known>, id: JobId) -> Result<Arc<Job>, DeskError> {
    let not_found = || DeskError::NotFound(format!("job {id}").into());
    match jobs.get(&id) {
        Some(Known::Job(job)) if job.state == punctual_core::model::JobState::Deleted => Err(not_found()),
        Some(Known::Job(job)) => Ok(Arc::clone(job)),
        Some(Known::Poisoned(reason)) => Err(DeskError::Conflict(format!("job {id}: {reason}").into())),
        Some(Known::Missing) | None => Err(not_found()),
    }
}

/// A run that is to be written, without its id.
struct Birth {
    origin: Origin,
    fire_time: Timestamp,
    due: Timestamp,
    decided: Decided,
    priority: u8,
    payload: Option<Payload>,
    key: Option<Text>,
    of: Option<RunId>,
    overrides: Option<Arc<Overrides>>,
}

impl Birth {
    fn of(job: &Job, now: Timestamp) -> Birth {
        Birth {
            origin: Origin::Manual,
            fire_time: now,
            due: now,
            decided: Decided::NotYet,
            priority: job.definition.priority,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        }
    }

    fn day(&self) -> u32 {
        NewRun::birth_day(self.origin, self.fire_time, self.due)
    }

    fn named(self, job: &Job, id: RunId, shards: u16) -> NewRun {
        let Birth { origin, fire_time, due, decided, priority, payload, key, of, overrides } = self;
        // A run that a limit counts lives on its job's shard, and so does a run that (job, fire time) identifies.
        let is_home = job.is_limited() || origin.is_named_by_schedule();
        let shard = if is_home { home(job.id, shards) } else { spread(id, shards) };
        NewRun {
            id,
            job: job.id,
            shard,
            fire_time,
            due,
            origin,
            decided,
            priority,
            payload,
            key,
            of,
            overrides,
        }
    }
}

fn id_of(accepted: Accepted) -> RunId {
    match accepted {
        Accepted::New(id) | Accepted::Duplicate(id) => id,
    }
}

fn invalid(index: usize, field: &str, reason: &str) -> DeskError {
    DeskError::Invalid { pointer: format!("/runs/{index}/{field}").into(), reason: reason.to_owned().into() }
}
