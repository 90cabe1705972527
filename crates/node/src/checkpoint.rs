//! The checkpoint: how far back a holder has to look when it takes a shard over.

use calendar::Timestamp;
use punctual_core::model::RunId;
use punctual_core::wheel::Mark;

use crate::memory::Memory;

impl Memory {
    /// A place below which nothing is open and ungated, in memory or on its way into the store, nor will be: what passed
    /// is planned up to there. Trails the present by a minute, because what others write takes time to arrive.
    pub(crate) fn checkpoint(&self, now: Timestamp) -> Mark {
        const TRAIL_MS: i64 = 60_000;
        let of_run = |id: &RunId| self.loaded.runs.get(id).map(|run| run.ready_at);
        let ungated = self
            .in_flight
            .flights
            .iter()
            .filter(|(_, flight)| !flight.is_gated)
            .filter_map(|(id, _)| of_run(id));
        let queued =
            self.loaded.active.values().flat_map(|active| active.queue.iter().map(|rank| rank.ready_at));
        let keyed = self.loaded.keys.ranks().iter().map(|rank| rank.ready_at);
        let busy = self.loaded.busy.iter().filter_map(of_run);
        let seeking = self.loaded.seekers.ids().filter_map(|id| of_run(&id));
        let due = [
            Some(Timestamp::from_millis(now.as_millis().saturating_sub(TRAIL_MS))),
            Some(self.agenda.planned_through),
            self.loaded.wheel.earliest(),
            self.loaded.ready.earliest(),
            ungated.min(),
            queued.min(),
            keyed.min(),
            busy.min(),
            seeking.min(),
        ];
        Mark { due: due.into_iter().flatten().min().unwrap_or(Timestamp::MIN), id: 0 }
    }
}
