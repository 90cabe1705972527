//! Accepting: numbers for runs, runs that are handed over, and what is left for holders.

use calendar::Timestamp;
use punctual_core::model::{NewRun, Origin, RunId, ShardId};
use punctual_node::ports::{Accepted, Arrival, ArrivalKind, Lease, StoreError};

use super::leases::shards_of;
use super::merge::least;
use super::state::{State, Wish};

impl State {
    pub(super) fn allot(&mut self, day: u32, count: u64) -> Result<u64, StoreError> {
        let last = self.sequences.get(&day).copied().unwrap_or(0);
        let after = last.checked_add(count).filter(|after| *after < RunId::PER_DAY);
        let after = after.ok_or_else(|| StoreError::Full(format!("no more run ids for day {day}").into()))?;
        self.sequences.insert(day, after);
        Ok(last + 1)
    }

    pub(super) fn accept(
        &mut self,
        now: Timestamp,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.check_remembered(&runs)?;
        for (shard, kind) in left {
            self.leave(shard, kind);
        }
        let accepted = |run| match self.insert(now, run) {
            Ok(id) => Accepted::New(id),
            Err(there) => Accepted::Duplicate(there),
        };
        Ok(runs.into_iter().map(accepted).collect())
    }

    /// Refuses backfills of days of which records were dropped: an instant of such a day may have run already.
    fn check_remembered(&self, runs: &[NewRun]) -> Result<(), StoreError> {
        let is_refused = |run: &&NewRun| run.origin == Origin::Backfill && self.is_forgotten(run);
        let Some(run) = runs.iter().find(is_refused) else { return Ok(()) };
        let said = "the records of its day were dropped, so it may have run already; choose a later start";
        Err(StoreError::Conflict(format!("{}: {said}", run.fire_time).into()))
    }

    /// Leaves a message, unless there is the same one: a caller that asks again, because an answer was lost, adds nothing.
    pub(super) fn leave(&mut self, shard: ShardId, kind: ArrivalKind) {
        if self.left.insert((shard, wish(kind))) {
            self.last_arrival += 1;
            let id = self.last_arrival;
            self.arrivals.insert(id, Arrival { id, shard, kind });
            self.arrivals_by_shard.insert((shard, id));
        }
    }

    pub(super) fn arrivals(&self, leases: &[Lease], max: usize) -> Vec<Arrival> {
        let of_shard =
            |shard| self.arrivals_by_shard.range((shard, 0)..=(shard, u64::MAX)).map(|(_, id)| *id);
        let sources = shards_of(leases).into_iter().map(of_shard).collect();
        least(sources, max).iter().map(|id| self.arrivals[id]).collect()
    }

    pub(super) fn consume(&mut self, arrivals: &[u64]) {
        for id in arrivals {
            if let Some(arrival) = self.arrivals.remove(id) {
                self.arrivals_by_shard.remove(&(arrival.shard, *id));
                self.left.remove(&(arrival.shard, wish(arrival.kind)));
            }
        }
    }
}

/// What is left, as something that can be ordered.
fn wish(kind: ArrivalKind) -> Wish {
    match kind {
        ArrivalKind::Run(run) => (0, run, None),
        ArrivalKind::Cancel(run) => (1, run, None),
        ArrivalKind::Reschedule(run, at) => (2, run, Some(at)),
        ArrivalKind::Deleted(job) => (3, RunId(u64::from(job.0)), None),
    }
}
