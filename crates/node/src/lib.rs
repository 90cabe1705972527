//! The steps of a node: ask the core what should happen, write it down, then do it.
//!
//! A [`Node`] is a value with steps. Each step is an async function that does one round of work in the order store,
//! memory, network, and answers when it wants to be called again; it never waits for time, spawns or selects. Steps of
//! one node may run side by side, each kind at most once at a time. The memory between them is behind a lock that is
//! never held across an await.

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
mod loss;
mod memory;
mod natives;
mod own;
mod parked;
mod places;
pub mod ports;
mod reads;
mod retention;
mod run;
mod seek;
mod settings;
mod step;
mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::{Timestamp, Zones};
use punctual_core::event::Event;
use punctual_core::model::NodeId;

pub use backlog::Backlog;
pub use bells::Bells;
pub use desk::{
    AccessTokens, AppView, Backfill, ByHand, Callback, Cancelled, DeskError, ExecutorView, NodeView,
    ShardView, Submission,
};
pub use memory::Wakes;
pub use natives::{Claim, SessionId};
pub use settings::{Planted, RegistrySettings, Settings};

use desk::Crowd;
use memory::Memory;
use ports::{Apps, Boot, Clock, Dispatch, Entropy, FiredMark, Peers, Store};

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
    crowd: Crowd,
}

/// How much later than expected a store that does not answer is away.
const AWAY_AFTER: Duration = Duration::from_secs(2);

impl Node {
    /// A node that has not yet joined: its first [`Node::renew`] does that.
    pub fn new(ports: Ports, settings: Settings, zones: Arc<Zones>) -> Node {
        let id = draw_id(&*ports.entropy);
        let memory = Mutex::new(Memory::new(id, &settings));
        Node { ports, settings, zones, memory, crowd: Crowd::default() }
    }

    /// Its present incarnation.
    pub fn id(&self) -> NodeId {
        self.memory().id
    }

    /// The cluster's time, as far as it is known.
    pub fn now(&self) -> Option<Timestamp> {
        let boot = self.boot();
        self.memory().time.now(boot)
    }

    /// Whether it may act, for whatever it holds.
    pub fn is_in(&self) -> bool {
        let boot = self.boot();
        let mut memory = self.memory();
        memory.trusted_now(boot).is_some() && !memory.has_left
    }

    /// Whether it may act, and has asked who is there.
    pub fn is_ready(&self) -> bool {
        self.is_in() && self.memory().looked_at.is_some()
    }

    /// Whether the store has not answered for longer than it should: what is asked of it now is not worth waiting for.
    pub fn is_store_away(&self) -> bool {
        let boot = self.boot();
        let memory = self.memory();
        let patience = self.settings.renew_every + AWAY_AFTER;
        !memory.has_left && memory.renewed_at.is_some_and(|last| boot.since(last) > patience)
    }

    /// How many shards it acts for.
    pub fn shards_held(&self) -> usize {
        self.memory().held.len()
    }

    /// Runs that are loaded and not on their way, and runs that are.
    pub fn load_figures(&self) -> (usize, usize) {
        let memory = self.memory();
        (memory.runs.len() - memory.flights.len(), memory.flights.len())
    }

    /// What has happened since this was last asked.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.memory().events)
    }

    /// The steps that have become due by what others did since this was last asked.
    pub fn take_wakes(&self) -> Wakes {
        std::mem::take(&mut self.memory().wakes)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        // Whoever panicked while holding the lock had a bug; what it left is no worse than before.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something is being asked for that may be nowhere in memory, until what this returns is dropped.
    pub(crate) fn asking(&self) -> Asking<'_> {
        self.memory().asking += 1;
        Asking(self)
    }

    pub(crate) fn boot(&self) -> Boot {
        self.ports.clock.boot()
    }

    pub(crate) fn jitter(&self) -> u16 {
        self.ports.entropy.bits() as u16
    }
}

fn draw_id(entropy: &dyn Entropy) -> NodeId {
    NodeId(u128::from(entropy.bits()) << 64 | u128::from(entropy.bits()))
}

/// While this lives no checkpoint moves.
pub(crate) struct Asking<'a>(&'a Node);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.memory().asking -= 1;
    }
}
