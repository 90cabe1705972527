//! Losing shards, and getting them back: what a node forgets, and which calls go on meanwhile.

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{ChangeId, NodeId, RunId, ShardId};
use punctual_core::wheel::Wheel;

use crate::memory::{Memory, Run};
use crate::settings::Planted;

impl Memory {
    /// Stops acting for a shard and forgets what is its.
    pub(crate) fn leave(&mut self, shard: ShardId) {
        if self.held.remove(&shard).is_none() {
            return;
        }
        self.events.push(Event::ShardLeft { shard });
        self.parked.leave(shard);
        if self.has_planted(Planted::WheelKeptOnLoss) {
            return;
        }
        let of_shard = |(id, run): (&RunId, &Run)| (run.shard == shard).then_some(*id);
        let ids: Vec<RunId> = self.runs.iter().filter_map(of_shard).collect();
        for id in ids {
            let flight = self.flights.get(&id).filter(|flight| flight.is_ungated_call()).cloned();
            self.forget(id);
            if !self.has_planted(Planted::ResultsForgotten) {
                self.outlived.extend(flight.map(|flight| (id, flight)));
            }
        }
    }

    /// The store has given this node's shards away: a new incarnation begins, with an empty memory.
    pub(crate) fn concede(&mut self, id: NodeId) {
        let shards: Vec<ShardId> = self.held.keys().copied().collect();
        for shard in shards {
            self.leave(shard);
        }
        self.id = id;
        self.tenure = None;
        self.seen = ChangeId(0);
        self.jobs.forget_all();
        self.unsure.clear();
        if !self.has_planted(Planted::WheelKeptOnLoss) {
            self.wheel = Wheel::new(self.wheel_capacity, Timestamp::MIN);
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
