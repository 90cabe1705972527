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
use crate::keys::KeyWaits;
use crate::memory::{ClassesInFlight, Flight, Memory, Run};
use crate::ports::Boot;
use crate::seek::{Parts, Seekers};
use crate::settings::{Planted, Settings};
use crate::wakes::Wakes;

/// How long after an outage of the store the nodes that come back have to settle what they know. A node may notice the
/// end of the outage by a question that it waits 5 s for, and then has to connect, renew and settle.
pub(crate) const RETURNING: Duration = Duration::from_secs(7);

impl Memory {
    /// Stops acting for shards and forgets what is theirs.
    pub(crate) fn leave(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        let is_held = |shard: &ShardId| self.cluster.held.contains_key(shard);
        let left: BTreeSet<ShardId> = shards.into_iter().filter(is_held).collect();
        for shard in &left {
            self.cluster.held.remove(shard);
            self.outbox.events.push(Event::ShardLeft { shard: *shard });
            self.loaded.parked.leave(*shard);
        }
        if left.is_empty() || self.has_planted(Planted::WheelKeptOnLoss) {
            return;
        }
        if self.cluster.held.is_empty() {
            return self.forget_all_runs();
        }
        let of_shard = |(id, run): (&RunId, &Run)| left.contains(&run.shard).then_some(*id);
        let ids: Vec<RunId> = self.loaded.runs.iter().filter_map(of_shard).collect();
        for id in ids {
            let flight = self.in_flight.flights.get(&id).cloned();
            self.forget(id);
            self.let_outlive(id, flight);
        }
    }

    /// The same as forgetting each of them, which would block every step for a second with a million loaded runs.
    fn forget_all_runs(&mut self) {
        self.loaded.reads.touch_all();
        for (id, flight) in mem::take(&mut self.in_flight.flights) {
            if let Some(place) = flight.http {
                self.in_flight.places.give_back(place.pool, place.app, place.job);
            }
            self.let_outlive(id, Some(flight));
        }
        let chosen: Vec<RunId> = self.loaded.chosen.keys().copied().collect();
        chosen.into_iter().for_each(|id| self.unchoose(id));
        let runs = mem::take(&mut self.loaded.runs);
        self.executors.natives.forget_claims(|id| runs.contains_key(id));
        self.loaded.wheel.clear();
        self.loaded.overrides = FxHashMap::default();
        self.loaded.ahead = Ahead::default();
        self.loaded.between = BTreeSet::new();
        self.loaded.ready = DueQueue::default();
        self.loaded.keys = KeyWaits::default();
        self.loaded.busy = BTreeSet::new();
        self.in_flight.deadlines = BTreeSet::new();
        self.in_flight.classes = ClassesInFlight::default();
        self.executors.doubts.forget_all();
        self.loaded.supposed = FxHashMap::default();
        self.loaded.spared = FxHashMap::default();
        self.loaded.active = FxHashMap::default();
        self.loaded.seekers = Seekers::default();
        self.loaded.parts = Parts::default();
        self.outbox.wakes.fire = true;
    }

    /// An HTTP call without a gate goes on when its shard is lost: its answer is worth keeping.
    fn let_outlive(&mut self, id: RunId, flight: Option<Flight>) {
        if let Some(flight) = flight.filter(Flight::is_ungated_call)
            && !self.has_planted(Planted::ResultsForgotten)
        {
            self.in_flight.outlived.insert(id, flight);
        }
    }

    /// The store has given this node's shards away: a new incarnation begins, with an empty memory.
    pub(crate) fn concede(&mut self, id: NodeId) {
        let shards: Vec<ShardId> = self.cluster.held.keys().copied().collect();
        self.leave(shards);
        self.cluster.id = id;
        self.cluster.tenure = None;
        self.cluster.seen = ChangeId(0);
        self.jobs.forget_all();
        self.loaded.unsure.clear();
        if !self.has_planted(Planted::WheelKeptOnLoss) {
            self.loaded.wheel = Wheel::new(self.loaded.wheel_capacity, Timestamp::MIN);
        }
    }

    /// After a panic that may have left anything here half updated: a new incarnation begins. It takes along the time,
    /// the reports that are not settled yet, and the sessions of executors, which would not be opened anew.
    pub(crate) fn start_over(&mut self, id: NodeId, settings: &Settings) {
        let mut fresh = Memory::new(id, settings);
        fresh.time = self.time.clone();
        fresh.inbox.reports = mem::take(&mut self.inbox.reports);
        fresh.executors.natives = mem::take(&mut self.executors.natives);
        fresh.executors.natives.forget_claims(|_| true);
        fresh.outbox.events = mem::take(&mut self.outbox.events);
        fresh.outbox.events.push(Event::MemoryDiscarded);
        (fresh.cluster.has_left, fresh.cluster.wants_to_leave) =
            (self.cluster.has_left, self.cluster.wants_to_leave);
        fresh.cluster.is_drained = self.cluster.is_drained;
        fresh.outbox.wakes = Wakes::all();
        *self = fresh;
    }

    /// The store answers again after an outage: other nodes that come back with this one have some time to settle what
    /// they know, before this one sends again what may have been sent.
    pub(crate) fn come_back_from_outage(&mut self, boot: Boot) {
        self.cluster.returning_until = Some(boot.plus(RETURNING));
        self.executors.natives.listen_until(boot.plus(RETURNING));
    }

    /// Whether other nodes may still be on their way back from an outage.
    pub(crate) fn is_returning(&self, boot: Boot) -> bool {
        self.cluster.returning_until.is_some_and(|until| boot < until)
    }

    /// Executors that could not report while the store was away say it again: silence counts only after that.
    pub(crate) fn wait_for_repetitions(&mut self, boot: Boot, repeat: Duration) {
        let Some(until) = self.time.now(boot).map(|now| now.saturating_add(repeat)) else { return };
        let is_due = |flight: &Flight| flight.address.is_some() && flight.deadline < until;
        for (id, flight) in self.in_flight.flights.iter_mut().filter(|(_, flight)| is_due(flight)) {
            self.in_flight.deadlines.remove(&(flight.deadline, *id));
            flight.deadline = until;
            self.in_flight.deadlines.insert((until, *id));
        }
    }

    /// The shard of a run comes back whose call this node has kept in flight meanwhile: the run goes on as if nothing
    /// had happened.
    pub(crate) fn fly_on(&mut self, id: RunId) -> bool {
        let Some(run) = self.loaded.runs.get(&id).copied() else { return false };
        let Some(flight) = self.in_flight.outlived.remove(&id).filter(|flight| flight.attempt == run.attempt)
        else {
            return false;
        };
        self.loaded.active.entry(run.job).or_default().running.insert(id);
        self.fly(id, flight);
        true
    }
}
