//! The steps of a node: ask the core what should happen, write it down, then do it.
//!
//! A [`Node`] is a value with steps. Each step is an async function that does one round of work and answers when it wants
//! to be called again; it never waits for time, spawns or selects. Steps of one node may run side by side, each kind at
//! most once at a time. The memory between them is behind a lock that is never held across an await. What reports cause
//! is written to the store before memory changes and before it is acknowledged; `step/fire.rs` says in which order runs
//! are sent.

mod ahead;
mod backlog;
mod bells;
mod checkpoint;
mod desk;
mod doubt;
mod entitled;
mod flow;
mod ids;
mod inbox;
mod jobs;
mod keep;
mod keys;
mod loss;
mod memory;
mod natives;
mod parked;
mod pasts;
mod places;
pub mod ports;
mod reads;
mod reports;
mod retention;
mod run;
mod seek;
mod settings;
mod step;
mod table;
mod time;
mod wakes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::event::Event;
use punctual_core::model::{Attempt, NodeId, RunId, Text};

pub use backlog::Backlog;
pub use bells::Bells;
pub use desk::{
    AccessTokens, AppView, Backfill, BulkChange, BulkMove, BulkProgress, ByHand, Callback, Cancelled,
    DeskError, ExecutorView, Following, NodeView, ShardView, Submission,
};
pub use natives::{Claim, SessionId};
#[cfg(feature = "planted")]
pub use settings::Planted;
pub use settings::{RegistrySettings, Settings};
pub use wakes::Wakes;

use desk::{Cancels, Crowd, PauseWatch};
use memory::Memory;
use ports::{Apps, Boot, Clock, Dispatch, Entropy, FiredMark, Peers, Records, Store};
use time::SharedTime;

/// Everything a node needs from outside.
#[derive(Clone)]
pub struct Ports {
    /// The machine's clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Where apps and executors are kept.
    pub apps: Arc<dyn Apps>,
    /// What is on record of the past.
    pub records: Arc<dyn Records>,
    /// The way to executors and agents.
    pub dispatch: Arc<dyn Dispatch>,
    /// The way to the other nodes.
    pub peers: Arc<dyn Peers>,
    /// How far it has fired.
    pub fired: Arc<dyn FiredMark>,
}

/// One node of the cluster.
pub struct Node {
    ports: Ports,
    settings: Settings,
    zones: Arc<Zones>,
    memory: Mutex<Memory>,
    /// The same value as in memory, for callers that need nothing else.
    time: SharedTime,
    crowd: Crowd,
    cancels: Cancels,
    pauses: PauseWatch,
    /// Random, for as long as the process lives.
    seed: u64,
}

/// The golden ratio in 64 bits: multiplying by it spreads neighbouring numbers over the whole range.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// How long a renewal has to be overdue for the store to count as away.
pub(crate) const AWAY_AFTER: Duration = Duration::from_secs(2);

impl Node {
    /// A node that has not yet joined: its first [`Node::renew`] does that.
    pub fn new(ports: Ports, settings: Settings, zones: Arc<Zones>) -> Node {
        let id = draw_id(&*ports.entropy);
        let memory = Memory::new(id, &settings);
        let time = memory.time.clone();
        let seed = ports.entropy.bits();
        Node {
            ports,
            settings,
            zones,
            memory: Mutex::new(memory),
            time,
            crowd: Crowd::default(),
            cancels: Cancels::default(),
            pauses: PauseWatch::default(),
            seed,
        }
    }

    /// Its present incarnation.
    pub fn id(&self) -> NodeId {
        self.memory().cluster.id
    }

    /// The cluster's time, as far as it is known.
    pub fn now(&self) -> Option<Timestamp> {
        self.time.now(self.boot())
    }

    /// What this node has failed to do for that long whenever it tried, and why: a node that holds shards, renews them and can
    /// neither plan nor fire looks alive and runs nothing.
    pub fn failing_for(&self, span: Duration) -> Option<(&'static str, Text)> {
        let boot = self.boot();
        self.memory().agenda.failing.longest(&["plan", "load", "fire", "settle", "accept"], boot, span)
    }

    /// For how long the cluster's time stands still, because the store's clock was set back; nothing fires meanwhile.
    pub fn time_held(&self) -> Option<Duration> {
        self.time.held(self.boot())
    }

    /// Whether it has left the cluster, because it was drained or is ending.
    pub fn has_left(&self) -> bool {
        self.memory().cluster.has_left
    }

    /// Whether it may act, for whatever it holds.
    pub fn is_in(&self) -> bool {
        let boot = self.boot();
        let memory = self.memory();
        memory.trusted_now(boot).is_some() && !memory.cluster.has_left
    }

    /// Whether it may act, and has asked which executors are there.
    pub fn is_ready(&self) -> bool {
        self.is_in() && self.memory().agenda.looked_at.is_some()
    }

    /// Whether the store has not answered for longer than it should: a request that needs it is not worth waiting for.
    pub fn is_store_away(&self) -> bool {
        let boot = self.boot();
        let memory = self.memory();
        let patience = self.settings.renew_every + AWAY_AFTER;
        !memory.cluster.has_left && memory.cluster.renewed_at.is_some_and(|last| boot.since(last) > patience)
    }

    /// How many shards it acts for.
    pub fn shards_held(&self) -> usize {
        self.memory().cluster.held.len()
    }

    /// Runs that are loaded and not on their way, and runs that are.
    pub fn load_figures(&self) -> (usize, usize) {
        let memory = self.memory();
        (memory.loaded.runs.len() - memory.in_flight.flights.len(), memory.in_flight.flights.len())
    }

    /// What has happened since this was last asked.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.memory().outbox.events)
    }

    /// The steps that have become due by what others did since this was last asked.
    pub fn take_wakes(&self) -> Wakes {
        std::mem::take(&mut self.memory().outbox.wakes)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        if let Ok(memory) = self.memory.lock() {
            return memory;
        }
        // A panic under the lock may have left any of it half updated. All of it can be read again. The id is drawn while
        // no lock is held; if another thread discards the memory meanwhile, that is enough.
        let id = draw_id(&*self.ports.entropy);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if self.memory.is_poisoned() {
            memory.start_over(id, &self.settings);
            self.memory.clear_poison();
        }
        memory
    }

    /// Notes that runs are being asked for that may be nowhere in memory, until the value returned here is dropped.
    pub(crate) fn asking(&self) -> Asking<'_> {
        self.memory().inbox.asking += 1;
        Asking(self)
    }

    pub(crate) fn boot(&self) -> Boot {
        self.ports.clock.boot()
    }

    /// A number for the wait after an attempt, different for each attempt and node. It is computed from what was drawn
    /// once: retries are judged under the lock, which is no place to ask the system for randomness.
    pub(crate) fn jitter(&self, run: RunId, attempt: Attempt) -> u16 {
        let mixed =
            (self.seed ^ run.0).wrapping_mul(MIX).wrapping_add(u64::from(attempt.0)).wrapping_mul(MIX);
        // The upper bits of a product depend on all bits of its factors.
        (mixed >> 48) as u16
    }
}

fn draw_id(entropy: &dyn Entropy) -> NodeId {
    NodeId(u128::from(entropy.bits()) << 64 | u128::from(entropy.bits()))
}

/// While this lives no checkpoint moves.
pub(crate) struct Asking<'a>(&'a Node);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.memory().inbox.asking -= 1;
    }
}
