//! Losing shards, and getting them back: what a node forgets, and which calls go on meanwhile.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::due::DueQueue;
use punctual_core::event::Event;
use punctual_core::model::{ChangeId, NodeId, RunId, ShardId};
use punctual_core::wheel::Wheel;
use rustc_hash::FxHashMap;

use crate::ahead::Ahead;
use crate::memory::{Flight, Memory, Run};
use crate::ports::Boot;
use crate::seek::{Parts, Seekers};
use crate::settings::{Planted, Settings};
use crate::wakes::Wakes;

/// How long after an outage of the store the nodes that come back have to settle what they know. A node may find out by a
/// question that it waits 5 s for, and then has to connect, renew and settle.
pub(crate) const RETURNING: Duration = Duration::from_secs(7);

impl Memory {
    /// Stops acting for shards and forgets what is theirs.
    pub(crate) fn leave(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        let is_held = |shard: &ShardId| self.held.contains_key(shard);
        let left: BTreeSet<ShardId> = shards.into_iter().filter(is_held).collect();
        for shard in &left {
            self.held.remove(shard);
            self.events.push(Event::ShardLeft { shard: *shard });
            self.parked.leave(*shard);
        }
        if left.is_empty() || self.has_planted(Planted::WheelKeptOnLoss) {
            return;
        }
        if self.held.is_empty() {
            return self.forget_all_runs();
        }
        let of_shard = |(id, run): (&RunId, &Run)| left.contains(&run.shard).then_some(*id);
        let ids: Vec<RunId> = self.runs.iter().filter_map(of_shard).collect();
        for id in ids {
            let flight = self.flights.get(&id).cloned();
            self.forget(id);
            self.let_outlive(id, flight);
        }
    }

    /// The same as forgetting each of them. With a million loaded that would keep everybody waiting for a second.
    fn forget_all_runs(&mut self) {
        self.reads.touch_all();
        for (id, flight) in mem::take(&mut self.flights) {
            if let Some(place) = flight.http {
                self.places.give_back(place.pool, place.app, place.job);
            }
            self.let_outlive(id, Some(flight));
        }
        let chosen: Vec<RunId> = self.chosen.keys().copied().collect();
        chosen.into_iter().for_each(|id| self.unchoose(id));
        let runs = mem::take(&mut self.runs);
        self.natives.forget_claims(|id| runs.contains_key(id));
        self.wheel.clear();
        self.owns = FxHashMap::default();
        self.ahead = Ahead::default();
        self.between = BTreeSet::new();
        self.ready = DueQueue::default();
        self.busy = BTreeSet::new();
        self.deadlines = BTreeSet::new();
        self.doubts.forget_all();
        self.supposed = FxHashMap::default();
        self.spared = FxHashMap::default();
        self.active = FxHashMap::default();
        self.seekers = Seekers::default();
        self.parts = Parts::default();
        self.wakes.fire = true;
    }

    /// An HTTP call without a gate goes on when its shard is lost: its answer is worth keeping.
    fn let_outlive(&mut self, id: RunId, flight: Option<Flight>) {
        if let Some(flight) = flight.filter(Flight::is_ungated_call)
            && !self.has_planted(Planted::ResultsForgotten)
        {
            self.outlived.insert(id, flight);
        }
    }

    /// The store has given this node's shards away: a new incarnation begins, with an empty memory.
    pub(crate) fn concede(&mut self, id: NodeId) {
        let shards: Vec<ShardId> = self.held.keys().copied().collect();
        self.leave(shards);
        self.id = id;
        self.tenure = None;
        self.seen = ChangeId(0);
        self.jobs.forget_all();
        self.unsure.clear();
        if !self.has_planted(Planted::WheelKeptOnLoss) {
            self.wheel = Wheel::new(self.wheel_capacity, Timestamp::MIN);
        }
    }

    /// After a panic that may have left anything here half updated: a new incarnation begins. It takes along the time,
    /// the reports that are not settled yet, and the sessions of executors, which nobody would open anew.
    pub(crate) fn start_over(&mut self, id: NodeId, settings: &Settings) {
        let mut fresh = Memory::new(id, settings);
        fresh.time = self.time.clone();
        fresh.inbox = mem::take(&mut self.inbox);
        fresh.natives = mem::take(&mut self.natives);
        fresh.natives.forget_claims(|_| true);
        fresh.events = mem::take(&mut self.events);
        fresh.events.push(Event::MemoryDiscarded);
        (fresh.has_left, fresh.wants_to_leave) = (self.has_left, self.wants_to_leave);
        fresh.wakes = Wakes::all();
        *self = fresh;
    }

    /// The store answers again after an outage: other nodes that come back with this one have some time to settle what
    /// they know, before this one sends again what may have been sent.
    pub(crate) fn come_back_from_outage(&mut self, boot: Boot) {
        self.returning_until = Some(boot.plus(RETURNING));
        self.natives.listen_until(boot.plus(RETURNING));
    }

    /// Whether other nodes may still be on their way back from an outage.
    pub(crate) fn is_returning(&self, boot: Boot) -> bool {
        self.returning_until.is_some_and(|until| boot < until)
    }

    /// Executors that could not report while the store was away say it again: silence counts only after that.
    pub(crate) fn wait_for_repetitions(&mut self, boot: Boot, repeat: Duration) {
        let Some(until) = self.time.now(boot).map(|now| now.saturating_add(repeat)) else { return };
        let is_due = |flight: &Flight| flight.address.is_some() && flight.deadline < until;
        for (id, flight) in self.flights.iter_mut().filter(|(_, flight)| is_due(flight)) {
            self.deadlines.remove(&(flight.deadline, *id));
            flight.deadline = until;
            self.deadlines.insert((until, *id));
        }
    }

    /// A run comes back whose call this node has kept in flight all the time, while its shard was lost: it goes on as if
    /// nothing had been.
    pub(crate) fn fly_on(&mut self, id: RunId) -> bool {
        let Some(run) = self.runs.get(&id).copied() else { return false };
        let Some(flight) = self.outlived.remove(&id).filter(|flight| flight.attempt == run.attempt) else {
            return false;
        };
        self.active.entry(run.job).or_default().running.insert(id);
        self.fly(id, flight);
        true
    }
}
