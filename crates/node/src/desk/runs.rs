//! Commands about runs: run now, submit, cancel, reschedule, backfill, retry.

use std::collections::BTreeMap;
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::cluster::{home, spread};
use punctual_core::model::{
    AttemptOutcome, Close, Decided, Epoch, Job, JobId, NewRun, NodeId, Origin, Outcome, PAYLOAD_MAX, Payload,
    RunId, ShardId, Text, Then, direct,
};

use super::DeskError;
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Place, Run};
use crate::ports::{Accepted, ArrivalKind, Hint, Kill, RunRow, StoreError};
use crate::retention::before;
use crate::step::Ended;

/// How many instants one backfill may name.
const BACKFILL_MAX: u64 = 100_000;

/// How many of them are shown.
const SHOWN_MAX: usize = 1_000;

/// How many runs are written at once.
const CHUNK: usize = 1_000;

/// What a run by hand brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByHand {
    /// Instead of what the job has.
    pub payload: Option<Payload>,
    /// The instant that it is for; now, if not said.
    pub fire_time: Option<Timestamp>,
    /// The one executor that it is for; whichever the job's route names, if not said.
    pub executor: Option<Text>,
}

impl ByHand {
    fn payload(self) -> Option<Payload> {
        match self.executor {
            Some(executor) => Some(direct(&executor, self.payload.as_deref())),
            None => self.payload,
        }
    }
}

/// A one-shot that is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The job it belongs to.
    pub job: JobId,
    /// When; at once if not said, or past.
    pub at: Option<Timestamp>,
    /// What it brings.
    pub payload: Option<Payload>,
    /// What makes a repetition of it a duplicate.
    pub key: Option<Text>,
    /// Instead of the job's.
    pub priority: Option<u8>,
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

/// What became of a wish to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It came in time: the run is closed as cancelled.
    InTime,
    /// The run had ended.
    TooLate,
    /// The holder of its shard was asked.
    Asked,
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
            payload: brings.payload(),
            ..Birth::of(&job, now)
        };
        let accepted = self.accept(vec![(job, run)]).await?;
        Ok(id_of(accepted[0]))
    }

    /// Takes one-shots, all or none. Answered only when they are durable.
    pub async fn submit(&self, submissions: Vec<Submission>) -> Result<Vec<Accepted>, DeskError> {
        let now = self.told_time()?;
        self.know_jobs(submissions.iter().map(|submission| submission.job)).await?;
        let mut births = Vec::with_capacity(submissions.len());
        for (index, submission) in submissions.into_iter().enumerate() {
            let job = self.known(submission.job)?;
            if !job.state.is_enabled() {
                return Err(DeskError::Conflict(format!("job {} is stopped", job.id).into()));
            }
            if submission.priority.is_some_and(|priority| priority > 9) {
                return Err(invalid(index, "priority", "expected 0 to 9"));
            }
            let due = submission.at.unwrap_or(now).max(now);
            let birth = Birth {
                origin: Origin::OneShot,
                fire_time: due,
                due,
                payload: submission.payload,
                key: submission.key,
                priority: submission.priority.unwrap_or(job.definition.priority),
                ..Birth::of(&job, now)
            };
            if birth.payload.as_ref().is_some_and(|payload| payload.len() > PAYLOAD_MAX) {
                return Err(invalid(index, "payload", &format!("at most {PAYLOAD_MAX} bytes are kept")));
            }
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
        let own = self.memory().retentions.get(&*job.definition.app).copied();
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
            let accepted = self.accept(chunk.iter().map(birth).collect()).await?;
            backfill.created += accepted.iter().filter(|one| matches!(one, Accepted::New(_))).count() as u64;
        }
        Ok(backfill)
    }

    /// Ends a run before it ends by itself.
    pub async fn cancel(&self, run: RunId) -> Result<Cancelled, DeskError> {
        let row = self.read_run(run).await?;
        if row.is_closed {
            return Ok(Cancelled::TooLate);
        }
        let shard = row.waiting.shard;
        if self.is_ours(shard) {
            let outcome = self.cancel_ours(run).await?;
            self.ports.peers.tell(self.id(), Hint::Settled(run));
            return Ok(outcome);
        }
        self.leave_for(shard, ArrivalKind::Cancel(run)).await?;
        Ok(Cancelled::Asked)
    }

    /// Lets a one-shot wait for another time.
    pub async fn reschedule(&self, run: RunId, at: Timestamp) -> Result<Cancelled, DeskError> {
        let row = self.read_run(run).await?;
        if row.waiting.origin != Origin::OneShot {
            let said = format!("run {run} is named by a schedule; only one-shots can be put off");
            return Err(DeskError::Conflict(said.into()));
        }
        if row.is_closed || row.is_gated {
            return Ok(Cancelled::TooLate);
        }
        let shard = row.waiting.shard;
        if self.is_ours(shard) {
            return Ok(self.reschedule_ours(run, at).await?);
        }
        self.leave_for(shard, ArrivalKind::Reschedule(run, at)).await?;
        Ok(Cancelled::Asked)
    }

    /// Cancels a run of a shard that we hold, and its parts before it.
    pub(crate) async fn cancel_ours(&self, id: RunId) -> Result<Cancelled, StoreError> {
        match self.end_whole(id, Text::Borrowed("cancelled")).await? {
            Cancelled::Asked => {
                Err(StoreError::Unknown(Text::Borrowed("a part of it was sent just now; ask again")))
            }
            ended => Ok(ended),
        }
    }

    /// Ends a run by wish, and its parts before it; or says that it could not be done yet.
    pub(crate) async fn end_whole(&self, id: RunId, reason: Text) -> Result<Cancelled, StoreError> {
        let parts = self.ports.store.open_parts(id).await?;
        if parts.is_empty() {
            return Ok(self.cancel_one(id, reason).await?.unwrap_or(Cancelled::TooLate));
        }
        self.memory().parts.end(id);
        let mut is_left = false;
        for part in parts {
            is_left |= self.cancel_one(part, reason.clone()).await?.is_none();
        }
        if is_left {
            // The whole never ends before its parts.
            self.memory().look_up_later(id);
            return Ok(Cancelled::Asked);
        }
        Ok(self.cancel_one(id, reason).await?.unwrap_or(Cancelled::TooLate))
    }

    /// Before it is sent it is closed, afterwards it is told to end too. None if a gate went through that is not known here
    /// yet: then it cannot be ended before it is.
    async fn cancel_one(&self, id: RunId, reason: Text) -> Result<Option<Cancelled>, StoreError> {
        let unknown = StoreError::Unknown(Text::Borrowed("the time is not known yet"));
        let now = self.now().ok_or(unknown)?;
        let close =
            Close { outcome: Outcome::Cancelled, reason: reason.clone(), closed_at: now, range: None };
        // Until it is written the run may be nowhere in memory.
        let _asking = self.asking();
        // A gate may be on its way while we ask; then the second round knows that it went through.
        for _ in 0..3 {
            let rows = self.ports.store.fetch(&[id]).await?;
            let Some(row) = rows.first().filter(|row| !row.is_closed) else {
                return Ok(Some(Cancelled::TooLate));
            };
            self.know_jobs([row.waiting.job]).await?;
            let (ended, kill) = {
                let mut memory = self.memory();
                let run = memory.runs.get(&id).copied().unwrap_or_else(|| Run::from(&row.waiting));
                if !memory.flights.contains_key(&id) {
                    // From now on no step of ours can send it.
                    memory.forget(id);
                }
                let ended = match memory.flights.get(&id) {
                    None => Ended::unsent(id, &run, Then::Close(close.clone())),
                    Some(flight) => {
                        let attempt = flight.ended(AttemptOutcome::Cancelled, reason.clone(), now);
                        Ended::sent(id, &run, attempt, Then::Close(close.clone()))
                    }
                };
                let flying = memory.flights.get(&id).filter(|flight| !flight.is_whole());
                let kill = flying.map(|flight| Kill {
                    run: id,
                    job: run.job,
                    attempt: flight.attempt,
                    token: flight.token,
                    address: flight.address.as_deref().cloned(),
                });
                let ended = match memory.jobs.get(run.job) {
                    Some(Known::Job(job)) => ended.following(job, &run),
                    Some(Known::Poisoned(_) | Known::Missing) => ended,
                    // It changed while we were asking.
                    None => {
                        memory.look_up_later(id);
                        continue;
                    }
                };
                (ended, kill)
            };
            let stale = match self.write_ends(vec![ended]).await {
                Ok(stale) => stale,
                Err(error) => {
                    self.memory().look_up_later(id);
                    return Err(error);
                }
            };
            if let Some(kill) = kill {
                self.kill(vec![kill]);
            }
            if stale.is_empty() {
                return Ok(Some(Cancelled::InTime));
            }
        }
        self.memory().look_up_later(id);
        Ok(None)
    }

    /// Puts off a run of a shard that we hold, unless it was sent.
    pub(crate) async fn reschedule_ours(&self, id: RunId, at: Timestamp) -> Result<Cancelled, StoreError> {
        let at = at.max(self.now().unwrap_or(at));
        let rows = self.ports.store.fetch(&[id]).await?;
        let open = rows.first().filter(|row| !row.is_closed && !row.is_gated);
        let Some(row) = open else { return Ok(Cancelled::TooLate) };
        let ended = {
            let mut memory = self.memory();
            let known = memory.runs.get(&id).copied();
            let inherited = memory.held.get(&row.waiting.shard).map(|held| held.inherited);
            let is_gone = |run: &Run| match memory.jobs.get(run.job) {
                Some(Known::Job(job)) => memory.may_have_been_sent(job, run, self.settings.term_max()),
                _ => true,
            };
            let may_be_sent = match known {
                Some(run) => {
                    matches!(run.place, Place::Flight | Place::Busy) || run.flags.is_doubtful && is_gone(&run)
                }
                None => {
                    let is_doubtful = inherited.is_none_or(|inherited| row.waiting.ready_at < inherited);
                    is_doubtful && !row.is_parked && is_gone(&Run::from(&row.waiting))
                }
            };
            if may_be_sent {
                return Ok(Cancelled::TooLate);
            }
            let run = known.unwrap_or_else(|| Run::from(&row.waiting));
            // In hand until it is written, so that it is not sent meanwhile.
            if memory.runs.contains_key(&id) {
                memory.wheel.cancel(id.0);
                memory.make_busy(id);
            }
            Ended::unsent(id, &run, Then::Wait { ready_at: at, attempt: run.attempt })
        };
        let stale = self.write_ends(vec![ended]).await?;
        self.memory().look_up_later(id);
        Ok(if stale.is_empty() { Cancelled::InTime } else { Cancelled::TooLate })
    }

    fn is_ours(&self, shard: ShardId) -> bool {
        let boot = self.boot();
        let mut memory = self.memory();
        memory.held.contains_key(&shard) && memory.trusted_now(boot).is_some()
    }

    async fn leave_for(&self, shard: ShardId, kind: ArrivalKind) -> Result<(), DeskError> {
        self.ports.store.accept(Vec::new(), vec![(shard, kind)]).await?;
        self.tell_holder(shard);
        Ok(())
    }

    fn tell_holder(&self, shard: ShardId) {
        let (me, owner): (NodeId, Option<NodeId>) = {
            let memory = self.memory();
            (memory.id, memory.owners.get(usize::from(shard.0)).copied().flatten())
        };
        if let Some(owner) = owner.filter(|owner| *owner != me) {
            self.ports.peers.tell(owner, Hint::Arrived(shard));
        }
    }

    async fn read_run(&self, run: RunId) -> Result<RunRow, DeskError> {
        let rows = self.ports.store.fetch(&[run]).await?;
        rows.into_iter().next().ok_or_else(|| DeskError::NotFound(format!("run {run}").into()))
    }

    async fn knows(&self, job: JobId) -> Result<Arc<Job>, DeskError> {
        self.know_jobs([job]).await?;
        self.known(job)
    }

    fn known(&self, id: JobId) -> Result<Arc<Job>, DeskError> {
        let not_found = || DeskError::NotFound(format!("job {id}").into());
        match self.memory().jobs.get(id) {
            Some(Known::Job(job)) if job.state == punctual_core::model::JobState::Deleted => Err(not_found()),
            Some(Known::Job(job)) => Ok(Arc::clone(job)),
            Some(Known::Poisoned(reason)) => Err(DeskError::Conflict(format!("job {id}: {reason}").into())),
            Some(Known::Missing) => Err(not_found()),
            None => Err(DeskError::Unknown(Text::Borrowed("the job is being changed; try again"))),
        }
    }

    /// Writes runs; those of our shards come into memory, the holders of the others are told.
    async fn accept(&self, births: Vec<(Arc<Job>, Birth)>) -> Result<Vec<Accepted>, DeskError> {
        let _place = self.crowd.enter(births.len())?;
        let days: Vec<u32> = births.iter().map(|(_, birth)| birth.day()).collect();
        let ids = self.draw_ids(&days).await?;
        let now = self.told_time()?;
        let (runs, left) = {
            let memory = self.memory();
            let shards = memory.shard_count();
            if shards == 0 {
                return Err(DeskError::Unknown(Text::Borrowed("this node has not joined yet")));
            }
            let runs: Vec<NewRun> =
                births.into_iter().zip(ids).map(|((job, birth), id)| birth.named(&job, id, shards)).collect();
            // What a holder may have passed over already is left for it; the rest it will load by itself.
            let soon = now.saturating_add(self.settings.load_ahead * 2);
            let is_left = |run: &&NewRun| run.due <= soon && !memory.held.contains_key(&run.shard);
            let left: Vec<_> =
                runs.iter().filter(is_left).map(|run| (run.shard, ArrivalKind::Run(run.id))).collect();
            (runs, left)
        };
        let shards: Vec<ShardId> = left.iter().map(|(shard, _)| *shard).collect();
        let (read, epochs) = {
            let mut memory = self.memory();
            let epochs: BTreeMap<ShardId, Epoch> =
                memory.held.iter().map(|(shard, held)| (*shard, held.epoch)).collect();
            (memory.reads.begin(), epochs)
        };
        let accepted = self.ports.store.accept(runs.clone(), left).await;
        {
            let mut memory = self.memory();
            match &accepted {
                Ok(accepted) => {
                    let is_new = |(_, one): &(&NewRun, &Accepted)| matches!(one, Accepted::New(_));
                    for (run, _) in runs.iter().zip(accepted).filter(is_new) {
                        let epoch = epochs.get(&run.shard).copied();
                        memory.take_in_new(read, &crate::step::waiting(run), epoch);
                    }
                }
                Err(_) => runs.iter().for_each(|run| memory.read_again(run.shard, run.due)),
            }
            memory.reads.end(read);
        }
        let accepted = accepted?;
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
        }
    }

    fn day(&self) -> u32 {
        NewRun::birth_day(self.origin, self.fire_time, self.due)
    }

    fn named(self, job: &Job, id: RunId, shards: u16) -> NewRun {
        let Birth { origin, fire_time, due, decided, priority, payload, key, of } = self;
        // What must be counted lives on its job's shard, and so does what (job, fire time) identifies.
        let is_home = job.is_limited() || origin.is_named_by_schedule();
        let shard = if is_home { home(job.id, shards) } else { spread(id, shards) };
        NewRun { id, job: job.id, shard, fire_time, due, origin, decided, priority, payload, key, of }
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
