//! Requests about runs: to cancel them, or to let them wait for another time. The holder of a run's shard carries them
//! out; any other node leaves them to the holder as arrivals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    AttemptOutcome, Close, JobId, JobState, Origin, Outcome, RunId, ShardId, Skip, Text, Then,
};
use punctual_core::wheel::Mark;

use super::DeskError;
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run, RunLocation};
use crate::ports::{ArrivalKind, Kill, RunRow, StoreError, Waiting};
use crate::step::Ended;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It came in time: the run is closed as cancelled.
    InTime,
    /// The run had ended.
    TooLate,
    /// The holder of its shard was asked.
    Asked,
}

/// The reason of a run that was cancelled on request.
const CANCELLED: &str = "cancelled";

/// How far the clocks of two nodes may differ for one node to recognise what the other did.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

impl Node {
    /// Ends a run before it ends by itself.
    pub async fn cancel(&self, run: RunId) -> Result<Cancelled, DeskError> {
        let row = self.read_run(run).await?;
        let became = self.cancel_rows(vec![row]).await?;
        Ok(became.get(&run).copied().unwrap_or(Cancelled::TooLate))
    }

    /// Ends many runs, for a few calls of the store. The answers are in the order of the runs; for a run that does not
    /// exist it is too late.
    pub async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
        let wanted: BTreeSet<RunId> = runs.iter().copied().collect();
        let rows = self.ports.store.fetch(&Vec::from_iter(wanted)).await?;
        let became = self.cancel_rows(rows).await?;
        Ok(runs.iter().map(|run| became.get(run).copied().unwrap_or(Cancelled::TooLate)).collect())
    }

    /// Ends the runs of our shards; the holders of the others are asked to. A run that is not among the answers had
    /// ended.
    pub(crate) async fn cancel_rows(
        &self,
        rows: Vec<RunRow>,
    ) -> Result<BTreeMap<RunId, Cancelled>, StoreError> {
        let held = self.held_now();
        let open = rows.into_iter().filter(|row| !row.is_closed);
        let (ours, theirs): (Vec<RunRow>, Vec<RunRow>) =
            open.partition(|row| held.contains(&row.waiting.shard));
        let wish = |row: &RunRow| (row.waiting.shard, ArrivalKind::Cancel(row.waiting.run));
        self.leave_for(theirs.iter().map(wish).collect()).await?;
        let mut became = self.cancel_ours(&ours).await?;
        became.extend(theirs.iter().map(|row| (row.waiting.run, Cancelled::Asked)));
        Ok(became)
    }

    /// Lets a one-shot wait for another time.
    pub async fn reschedule(&self, run: RunId, at: Timestamp) -> Result<Cancelled, DeskError> {
        let row = self.read_run(run).await?;
        if row.waiting.origin != Origin::OneShot {
            let said = format!("run {run} is named by a schedule; only one-shots can be put off");
            return Err(DeskError::Conflict(said.into()));
        }
        let became = self.reschedule_rows(vec![row], &BTreeMap::from([(run, at)])).await?;
        Ok(became.get(&run).copied().unwrap_or(Cancelled::TooLate))
    }

    /// Lets many one-shots wait, each for its own time, for a few calls of the store. The answers are in the order of
    /// the requests; for a run that does not exist, or is no one-shot, it is too late.
    pub async fn reschedule_all(&self, wishes: &[(RunId, Timestamp)]) -> Result<Vec<Cancelled>, DeskError> {
        let wanted: BTreeMap<RunId, Timestamp> = wishes.iter().copied().collect();
        let rows = self.ports.store.fetch(&Vec::from_iter(wanted.keys().copied())).await?;
        let became = self.reschedule_rows(rows, &wanted).await?;
        Ok(wishes.iter().map(|(run, _)| became.get(run).copied().unwrap_or(Cancelled::TooLate)).collect())
    }

    /// The results of requests that were left for holders: whether they came in time; none where that is not decided
    /// yet.
    pub async fn rescheduled(
        &self,
        wishes: &[(RunId, Timestamp)],
    ) -> Result<Vec<Option<Cancelled>>, DeskError> {
        // A holder lets nothing wait for the past, and its clock may be a little ahead of ours.
        let soon = self.told_time()?.saturating_add(CLOCKS_DIFFER);
        let ids: Vec<RunId> = wishes.iter().map(|(run, _)| *run).collect();
        let rows = self.ports.store.fetch(&ids).await?;
        let rows: BTreeMap<RunId, RunRow> = rows.into_iter().map(|row| (row.waiting.run, row)).collect();
        let became = |(run, at): &(RunId, Timestamp)| match rows.get(run) {
            Some(row) if row.is_closed || row.is_gated => Some(Cancelled::TooLate),
            Some(row) => {
                let is_there = *at <= row.waiting.ready_at && row.waiting.ready_at <= soon.max(*at);
                (is_there && !row.is_parked).then_some(Cancelled::InTime)
            }
            None => Some(Cancelled::TooLate),
        };
        Ok(wishes.iter().map(became).collect())
    }

    /// Lets the runs of our shards wait; the holders of the others are asked to. A run that is not among the answers
    /// had ended, or was on its way.
    async fn reschedule_rows(
        &self,
        rows: Vec<RunRow>,
        wanted: &BTreeMap<RunId, Timestamp>,
    ) -> Result<BTreeMap<RunId, Cancelled>, StoreError> {
        let held = self.held_now();
        let may_move =
            |row: &RunRow| row.waiting.origin == Origin::OneShot && !row.is_closed && !row.is_gated;
        let movable = rows.into_iter().filter(may_move);
        let (ours, theirs): (Vec<RunRow>, Vec<RunRow>) =
            movable.partition(|row| held.contains(&row.waiting.shard));
        let wish = |row: &RunRow| {
            let Waiting { run, shard, .. } = row.waiting;
            (shard, ArrivalKind::Reschedule(run, wanted[&run]))
        };
        self.leave_for(theirs.iter().map(wish).collect()).await?;
        let mut became = self.reschedule_ours(&ours, wanted).await?;
        became.extend(theirs.iter().map(|row| (row.waiting.run, Cancelled::Asked)));
        Ok(became)
    }

    /// Carries out requests to end runs of our shards.
    pub(crate) async fn cancel_arrived(&self, runs: &[RunId]) -> Result<(), StoreError> {
        let wanted: BTreeSet<RunId> = runs.iter().copied().collect();
        let mut rows = self.ports.store.fetch(&Vec::from_iter(wanted)).await?;
        rows.retain(|row| !row.is_closed);
        self.cancel_ours(&rows).await.map(drop)
    }

    /// Ends open runs of shards that we hold: all in one call of the store, and then, one by one, those that have parts
    /// or are being sent at this moment.
    async fn cancel_ours(&self, rows: &[RunRow]) -> Result<BTreeMap<RunId, Cancelled>, StoreError> {
        if rows.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut became = BTreeMap::new();
        for id in self.cancel_together(rows, &mut became).await? {
            became.insert(id, self.cancel_whole(id).await?);
        }
        Ok(became)
    }

    /// Ends runs in one call of the store. Returns those that have to be ended one by one.
    async fn cancel_together(
        &self,
        rows: &[RunRow],
        became: &mut BTreeMap<RunId, Cancelled>,
    ) -> Result<BTreeSet<RunId>, StoreError> {
        let close = self.cancelled(Text::Borrowed(CANCELLED))?;
        let deleted = Close { reason: Text::Borrowed(Skip::JobDeleted.name()), ..close.clone() };
        // Until the write is done, these runs may be nowhere in memory.
        let _asking = self.asking();
        self.know_jobs(rows.iter().map(|row| row.waiting.job)).await?;
        let (mut ends, mut kills, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut alone = BTreeSet::new();
        {
            let mut memory = self.memory();
            for row in rows {
                let id = row.waiting.run;
                if memory.may_have_parts(row) {
                    alone.insert(id);
                    continue;
                }
                let close = if memory.is_deleted(row.waiting.job) { &deleted } else { &close };
                let Some((ended, kill)) = memory.end_by_wish(row, close) else {
                    memory.look_up_later(id);
                    alone.insert(id);
                    continue;
                };
                ends.push(ended);
                kills.extend(kill);
                ids.push(id);
            }
        }
        let stale = match self.write_ends(ends).await {
            Ok(stale) => stale,
            Err(error) => {
                let mut memory = self.memory();
                ids.into_iter().chain(alone).for_each(|id| memory.look_up_later(id));
                return Err(error);
            }
        };
        became.extend(ids.into_iter().map(|id| (id, Cancelled::InTime)));
        alone.extend(stale);
        kills.retain(|kill| !alone.contains(&kill.run));
        if !kills.is_empty() {
            self.kill(kills);
        }
        Ok(alone)
    }

    /// Cancels a run of a shard that we hold, and its parts before it.
    async fn cancel_whole(&self, id: RunId) -> Result<Cancelled, StoreError> {
        match self.end_whole(id, Text::Borrowed(CANCELLED)).await? {
            Cancelled::Asked => {
                Err(StoreError::Unknown(Text::Borrowed("it is being sent just now; ask again")))
            }
            ended => Ok(ended),
        }
    }

    /// Ends a run on request, and its parts before it; or says that it could not be done yet.
    pub(crate) async fn end_whole(&self, id: RunId, reason: Text) -> Result<Cancelled, StoreError> {
        let parts = self.ports.store.open_parts(id).await?;
        if parts.is_empty() {
            return Ok(self.cancel_one(id, reason).await?.unwrap_or(Cancelled::Asked));
        }
        self.memory().loaded.parts.end(id);
        let mut is_left = false;
        for part in parts {
            is_left |= self.cancel_one(part, reason.clone()).await?.is_none();
        }
        if is_left {
            // The whole never ends before its parts.
            self.memory().look_up_later(id);
            return Ok(Cancelled::Asked);
        }
        Ok(self.cancel_one(id, reason).await?.unwrap_or(Cancelled::Asked))
    }

    /// A run that was not sent is closed; one that was sent is told to end too. None if a gate was written that is not
    /// known here yet: the run cannot be ended before it is.
    async fn cancel_one(&self, id: RunId, reason: Text) -> Result<Option<Cancelled>, StoreError> {
        let close = self.cancelled(reason)?;
        // Until the write is done, the run may be nowhere in memory.
        let _asking = self.asking();
        // A gate may be on its way while the store is asked; the second round then knows that it was written.
        for _ in 0..3 {
            let rows = self.ports.store.fetch(&[id]).await?;
            let Some(row) = rows.first().filter(|row| !row.is_closed) else {
                return Ok(Some(Cancelled::TooLate));
            };
            self.know_jobs([row.waiting.job]).await?;
            let ended = self.memory().end_by_wish(row, &close);
            let Some((ended, kill)) = ended else {
                self.memory().look_up_later(id);
                continue;
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

    fn cancelled(&self, reason: Text) -> Result<Close, StoreError> {
        let unknown = StoreError::Unknown(Text::Borrowed("the time is not known yet"));
        let closed_at = self.now().ok_or(unknown)?;
        Ok(Close { outcome: Outcome::Cancelled, reason, closed_at, range: None })
    }

    /// Carries out requests to let runs of our shards wait; of two about one run, the later.
    pub(crate) async fn reschedule_arrived(&self, wishes: &[(RunId, Timestamp)]) -> Result<(), StoreError> {
        let wanted: BTreeMap<RunId, Timestamp> = wishes.iter().copied().collect();
        let mut rows = self.ports.store.fetch(&Vec::from_iter(wanted.keys().copied())).await?;
        rows.retain(|row| !row.is_closed && !row.is_gated);
        self.reschedule_ours(&rows, &wanted).await.map(drop)
    }

    /// Lets runs of shards that we hold wait, in one call of the store. Returns those that were not sent before, and
    /// whether the request came in time.
    async fn reschedule_ours(
        &self,
        rows: &[RunRow],
        wanted: &BTreeMap<RunId, Timestamp>,
    ) -> Result<BTreeMap<RunId, Cancelled>, StoreError> {
        if rows.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.know_jobs(rows.iter().map(|row| row.waiting.job)).await?;
        let now = self.now().unwrap_or(Timestamp::MIN);
        let (mut ends, mut moved) = (Vec::new(), Vec::new());
        {
            let mut memory = self.memory();
            for row in rows {
                let Waiting { run, shard, .. } = row.waiting;
                let at = wanted[&run].max(now);
                if let Some(ended) = memory.put_off_by_wish(row, at, self.settings.term_max()) {
                    ends.push(ended);
                    moved.push((run, shard, at));
                }
            }
        }
        let stale: BTreeSet<RunId> = self.write_ends(ends).await?.into_iter().collect();
        let mut memory = self.memory();
        for (run, shard, at) in &moved {
            // A run beyond our reach will be loaded in its time.
            let place = Mark { due: *at, id: run.0 };
            if memory.cluster.held.get(shard).is_some_and(|held| place < held.reach) {
                memory.look_up_later(*run);
            }
        }
        let became = |(run, ..): (RunId, ShardId, Timestamp)| match stale.contains(&run) {
            true => (run, Cancelled::TooLate),
            false => (run, Cancelled::InTime),
        };
        Ok(moved.into_iter().map(became).collect())
    }

    /// The shards that we may act for at this moment.
    fn held_now(&self) -> BTreeSet<ShardId> {
        let boot = self.boot();
        let memory = self.memory();
        match memory.trusted_now(boot) {
            Some(_) => memory.cluster.held.keys().copied().collect(),
            None => BTreeSet::new(),
        }
    }

    async fn leave_for(&self, left: Vec<(ShardId, ArrivalKind)>) -> Result<(), StoreError> {
        if left.is_empty() {
            return Ok(());
        }
        let shards: BTreeSet<ShardId> = left.iter().map(|(shard, _)| *shard).collect();
        self.ports.store.accept(Vec::new(), left).await?;
        shards.into_iter().for_each(|shard| self.tell_holder(shard));
        Ok(())
    }
}

impl Memory {
    /// Takes a run in hand to let it wait; none if it was sent, or may have been.
    fn put_off_by_wish(&mut self, row: &RunRow, at: Timestamp, term: Duration) -> Option<Ended> {
        let id = row.waiting.run;
        let known = self.loaded.runs.get(&id).copied();
        let inherited = self.cluster.held.get(&row.waiting.shard).map(|held| held.inherited);
        let is_gone = |run: &Run| match self.jobs.get(run.job) {
            Some(Known::Job(job)) => self.may_have_been_sent(id, job, run, term),
            _ => true,
        };
        let may_be_sent = match known {
            Some(run) => {
                matches!(run.location, RunLocation::Flight | RunLocation::Busy)
                    || run.flags.is_doubtful && is_gone(&run)
            }
            None => {
                let is_doubtful = inherited.is_none_or(|inherited| row.waiting.ready_at < inherited);
                is_doubtful && !row.is_parked && is_gone(&Run::from(&row.waiting))
            }
        };
        if may_be_sent {
            return None;
        }
        let run = known.unwrap_or_else(|| Run::from(&row.waiting));
        // In hand until it is written, so that it is not sent meanwhile.
        if known.is_some() {
            self.move_to(id, RunLocation::Busy);
        }
        Some(Ended::unsent(id, &run, Then::Wait { ready_at: at, attempt: run.attempt }))
    }

    fn is_deleted(&self, job: JobId) -> bool {
        matches!(self.jobs.get(job), Some(Known::Job(job)) if job.state == JobState::Deleted)
    }

    /// Whether a run may have fallen into parts, which have to end before it does. One that did has a gate.
    fn may_have_parts(&self, row: &RunRow) -> bool {
        match self.in_flight.flights.get(&row.waiting.run) {
            Some(flight) => flight.is_whole(),
            None => row.is_gated,
        }
    }

    /// How a run ends on request: one that was not sent is closed, one that was sent is told to end too. None while its
    /// job is being changed.
    fn end_by_wish(&mut self, row: &RunRow, close: &Close) -> Option<(Ended, Option<Kill>)> {
        let id = row.waiting.run;
        let run = self.loaded.runs.get(&id).copied().unwrap_or_else(|| Run::from(&row.waiting));
        if !self.in_flight.flights.contains_key(&id) {
            // From now on no step of ours can send it.
            self.forget(id);
        }
        let then = Then::Close(close.clone());
        let ended = match self.in_flight.flights.get(&id) {
            None => Ended::unsent(id, &run, then),
            Some(flight) => {
                let (outcome, said) = (AttemptOutcome::Cancelled, close.reason.clone());
                let attempt = self.ended_by_us((id, run.job), flight, outcome, said, close.closed_at);
                Ended::by_us(id, &run, flight, attempt, then)
            }
        };
        let flying = self.in_flight.flights.get(&id).filter(|flight| !flight.is_whole());
        let kill = flying.map(|flight| Kill {
            run: id,
            job: run.job,
            attempt: flight.attempt,
            token: flight.token,
            address: flight.address.as_deref().cloned(),
        });
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) => Some((ended.following(job, &run), kill)),
            Some(Known::Poisoned(_) | Known::Missing) => Some((ended, kill)),
            None => None,
        }
    }
}
