//! The backlog: how many runs are due and not started, and for how long the oldest of them has waited.
//!
//! The console and Prometheus ask every few seconds, so nothing here walks over runs: it adds up lengths, and asks each
//! queue for its oldest run.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::rank_set::RankSet;

use crate::Node;
use crate::memory::Memory;

/// Runs on the shards of a node that are due and not started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many. Runs of stopped jobs are not counted; where memory is full, neither is what has not been loaded.
    pub due: u64,
    /// For how long the oldest has been due, at least; none if nothing is due. It is exact to the second. A run that was
    /// parked counts from when it was called back.
    pub oldest: Option<Duration>,
}

impl Node {
    /// How many runs are due and not started.
    pub fn backlog(&self) -> Backlog {
        let boot = self.boot();
        let memory = self.memory();
        let now = memory.time.now(boot);
        now.map_or(Backlog::default(), |now| memory.backlog(now))
    }
}

impl Memory {
    fn backlog(&self, now: Timestamp) -> Backlog {
        let queues =
            || self.loaded.active.values().map(|active| &active.queue).filter(|queue| !queue.is_empty());
        let (overdue, overdue_since) = self.loaded.wheel.overdue();
        let queued: usize = queues().map(RankSet::len).sum();
        let due =
            self.loaded.ready.len() + overdue + queued + self.loaded.keys.len() + self.loaded.seekers.len();
        let seeking =
            self.loaded.seekers.longest().and_then(|id| self.loaded.runs.get(&id)).map(|run| run.ready_at);
        let since = [
            // The due queue knows the second only; its last millisecond makes the age too small rather than too great.
            self.loaded.ready.earliest().map(|second| second.saturating_add(Duration::from_millis(999))),
            overdue_since,
            queues().filter_map(RankSet::oldest).min(),
            self.loaded.keys.ranks().oldest(),
            seeking,
            self.loaded.seekers.earliest_stalled(),
            self.loaded.parked.earliest(),
        ];
        let age = |since: Timestamp| {
            let millis = now.as_millis().saturating_sub(since.as_millis());
            Duration::from_millis(u64::try_from(millis).unwrap_or(0))
        };
        let due = due as u64 + self.loaded.parked.waiting();
        Backlog { due, oldest: since.into_iter().flatten().min().map(age).filter(|_| due > 0) }
    }
}
