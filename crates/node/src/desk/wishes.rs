//! Wishes about runs: that they end, or wait for another time. The holder of a run's shard carries them out; to another
//! they are left as arrivals.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, Close, Origin, Outcome, RunId, ShardId, Text, Then};

use super::DeskError;
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Place, Run};
use crate::ports::{ArrivalKind, Kill, RunRow, StoreError};
use crate::step::Ended;

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

/// Why a run ended that somebody wished to end.
const CANCELLED: &str = "cancelled";

impl Node {
    /// Ends a run before it ends by itself.
    pub async fn cancel(&self, run: RunId) -> Result<Cancelled, DeskError> {
        let row = self.read_run(run).await?;
        let became = self.cancel_rows(vec![row]).await?;
        Ok(became.get(&run).copied().unwrap_or(Cancelled::TooLate))
    }

    /// Ends many runs, at the price of a few calls of the store. The answers are in the order of the runs; for one that is
    /// not there it is too late.
    pub async fn cancel_all(&self, runs: &[RunId]) -> Result<Vec<Cancelled>, DeskError> {
        let wanted: BTreeSet<RunId> = runs.iter().copied().collect();
        let rows = self.ports.store.fetch(&Vec::from_iter(wanted)).await?;
        let became = self.cancel_rows(rows).await?;
        Ok(runs.iter().map(|run| became.get(run).copied().unwrap_or(Cancelled::TooLate)).collect())
    }

    /// Ends those of our shards; the holders of the others are asked to. What is not among the answers had ended.
    async fn cancel_rows(&self, rows: Vec<RunRow>) -> Result<BTreeMap<RunId, Cancelled>, StoreError> {
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
        if row.is_closed || row.is_gated {
            return Ok(Cancelled::TooLate);
        }
        let shard = row.waiting.shard;
        if self.held_now().contains(&shard) {
            return Ok(self.reschedule_ours(run, at).await?);
        }
        self.leave_for(vec![(shard, ArrivalKind::Reschedule(run, at))]).await?;
        Ok(Cancelled::Asked)
    }

    /// Carries out wishes that runs of our shards end.
    pub(crate) async fn cancel_arrived(&self, runs: &[RunId]) -> Result<(), StoreError> {
        let wanted: BTreeSet<RunId> = runs.iter().copied().collect();
        let mut rows = self.ports.store.fetch(&Vec::from_iter(wanted)).await?;
        rows.retain(|row| !row.is_closed);
        self.cancel_ours(&rows).await.map(drop)
    }

    /// Ends open runs of shards that we hold: all in one call of the store, and then, one by one, those that have parts or are
    /// being sent at this moment.
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

    /// Ends runs in one call of the store. Which have to be seen to one by one.
    async fn cancel_together(
        &self,
        rows: &[RunRow],
        became: &mut BTreeMap<RunId, Cancelled>,
    ) -> Result<BTreeSet<RunId>, StoreError> {
        let close = self.cancelled(Text::Borrowed(CANCELLED))?;
        // Until it is written, runs may be nowhere in memory.
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
                let Some((ended, kill)) = memory.end_by_wish(row, &close) else {
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
        let close = self.cancelled(reason)?;
        // Until it is written the run may be nowhere in memory.
        let _asking = self.asking();
        // A gate may be on its way while we ask; then the second round knows that it went through.
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

    /// The shards that we may act for at this moment.
    fn held_now(&self) -> BTreeSet<ShardId> {
        let boot = self.boot();
        let mut memory = self.memory();
        match memory.trusted_now(boot) {
            Some(_) => memory.held.keys().copied().collect(),
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
    /// Whether a run may have fallen into parts, which have to end before it does. One that did has a gate.
    fn may_have_parts(&self, row: &RunRow) -> bool {
        match self.flights.get(&row.waiting.run) {
            Some(flight) => flight.is_whole(),
            None => row.is_gated,
        }
    }

    /// How a run ends by a wish: before it is sent it is closed, afterwards it is told to end too. None while its job is being
    /// changed.
    fn end_by_wish(&mut self, row: &RunRow, close: &Close) -> Option<(Ended, Option<Kill>)> {
        let id = row.waiting.run;
        let run = self.runs.get(&id).copied().unwrap_or_else(|| Run::from(&row.waiting));
        if !self.flights.contains_key(&id) {
            // From now on no step of ours can send it.
            self.forget(id);
        }
        let then = Then::Close(close.clone());
        let ended = match self.flights.get(&id) {
            None => Ended::unsent(id, &run, then),
            Some(flight) => {
                let attempt = flight.ended(AttemptOutcome::Cancelled, close.reason.clone(), close.closed_at);
                Ended::sent(id, &run, attempt, then)
            }
        };
        let flying = self.flights.get(&id).filter(|flight| !flight.is_whole());
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
