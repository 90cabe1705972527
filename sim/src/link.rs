//! The link between the nodes and the world: calls of a node's ports leave here, and answers come back here.
//!
//! The world polls a node on one thread. While it is polled, a node can only put calls into the outbox; the world empties
//! the outbox afterwards and decides about each call. So nothing that a node does has an effect outside it until the world
//! decides, and a node can be dropped at any await without undoing its requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::NodeId;
use punctual_node::ports::{
    Boot, Clock, Dispatch, Dispatched, Entropy, Hint, Kill, Peers, Probe, Receipt, StoreError,
};
use rustc_hash::FxHashMap;

use crate::dice::{Stream, named};
use crate::store::{Request, StoreAnswer};

/// Virtual time in microseconds since the world began. No part of the world can read it.
pub type Micros = u64;

/// The store's answer.
pub type Reply = Result<StoreAnswer, StoreError>;

/// A call of a port by a node.
#[derive(Debug)]
pub enum Outgoing {
    /// A request to the store, with its number.
    Request(u64, Request),
    /// Attempts to be sent.
    Send(Vec<Dispatched>),
    /// Attempts to be ended.
    Kill(Vec<Kill>),
    /// Questions to executors.
    Probe(Vec<Probe>),
    /// Reports that are kept.
    Acknowledge(Vec<Receipt>),
    /// A hint to another node.
    Tell(NodeId, Hint),
}

/// The state that all ports of a world share.
#[derive(Debug, Default)]
pub struct WorldLink {
    now: AtomicU64,
    store_now: AtomicI64,
    last_request: AtomicU64,
    outbox: Mutex<Vec<Outgoing>>,
    replies: Mutex<FxHashMap<u64, Reply>>,
}

impl WorldLink {
    /// Virtual time.
    pub fn now(&self) -> Micros {
        self.now.load(Ordering::Relaxed)
    }

    /// Moves virtual time, and with it what the store's clock shows.
    pub fn set_now(&self, now: Micros, store_now: i64) {
        self.now.store(now, Ordering::Relaxed);
        self.store_now.store(store_now, Ordering::Relaxed);
    }

    /// What the store's clock shows.
    pub fn store_now(&self) -> Timestamp {
        Timestamp::from_millis(self.store_now.load(Ordering::Relaxed))
    }

    /// Moves all calls since the last time to `into`.
    pub fn empty_outbox(&self, into: &mut Vec<Outgoing>) {
        into.append(&mut held(&self.outbox));
    }

    /// Leaves the answer to a request for the task that waits for it.
    pub fn answer(&self, request: u64, reply: Reply) {
        held(&self.replies).insert(request, reply);
    }

    /// Drops the answer to a request that no task waits for any more.
    pub fn forget(&self, request: u64) {
        held(&self.replies).remove(&request);
    }

    fn put(&self, outgoing: Outgoing) {
        held(&self.outbox).push(outgoing);
    }

    /// Sends a request to the store, and waits for the answer that the world decides on.
    pub fn ask(self: &Arc<WorldLink>, request: Request) -> PendingReply {
        let number = self.last_request.fetch_add(1, Ordering::Relaxed) + 1;
        self.put(Outgoing::Request(number, request));
        PendingReply { link: self.clone(), number }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that waits for its answer. The world polls it again when there is one.
pub struct PendingReply {
    link: Arc<WorldLink>,
    number: u64,
}

impl Future for PendingReply {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Reply> {
        match held(&self.link.replies).remove(&self.number) {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        }
    }
}

/// A machine's clock: it drifts, and never stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// What it showed when the world began.
    pub offset_us: u64,
    /// How many parts in a million it is too fast.
    pub ppm: i64,
}

impl Drift {
    /// What it shows at a moment of virtual time.
    pub fn shows(&self, now: Micros) -> u64 {
        let extra = now as i64 * self.ppm / 1_000_000;
        self.offset_us + (now as i64 + extra) as u64
    }

    /// The first moment of virtual time at which it shows this.
    pub fn moment_of(&self, shown: u64) -> Micros {
        let ahead = shown.saturating_sub(self.offset_us);
        let mut now = (u128::from(ahead) * 1_000_000 / (1_000_000 + self.ppm) as u128) as Micros;
        while self.shows(now) < shown {
            now += 1;
        }
        now
    }
}

/// A node's ports: its clock, its randomness, and the way to executors and to other nodes.
#[derive(Debug)]
pub struct NodePorts {
    link: Arc<WorldLink>,
    drift: Drift,
    entropy: u64,
    drawn: AtomicU64,
}

impl NodePorts {
    /// The ports of one life of a node.
    pub fn new(link: Arc<WorldLink>, drift: Drift, seed: u64, life: u64) -> NodePorts {
        let entropy = named(seed, Stream::Entropy, life, 0);
        NodePorts { link, drift, entropy, drawn: AtomicU64::new(0) }
    }
}

impl Clock for NodePorts {
    fn boot(&self) -> Boot {
        Boot(Duration::from_micros(self.drift.shows(self.link.now())))
    }
}

impl Entropy for NodePorts {
    fn bits(&self) -> u64 {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        named(self.entropy, Stream::Entropy, 1, drawn)
    }
}

impl Dispatch for NodePorts {
    fn send(&self, sends: Vec<Dispatched>) {
        self.link.put(Outgoing::Send(sends));
    }

    fn kill(&self, kills: Vec<Kill>) {
        self.link.put(Outgoing::Kill(kills));
    }

    fn probe(&self, probes: Vec<Probe>) {
        self.link.put(Outgoing::Probe(probes));
    }

    fn acknowledge(&self, reports: Vec<Receipt>) {
        self.link.put(Outgoing::Acknowledge(reports));
    }
}

impl Peers for NodePorts {
    fn tell(&self, node: NodeId, hint: Hint) {
        self.link.put(Outgoing::Tell(node, hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drifting_clock_names_the_first_moment_at_which_it_shows_something() {
        for ppm in [-200, -1, 0, 1, 200] {
            let drift = Drift { offset_us: 77, ppm };
            for shown in [0, 78, 1_000_077, 3_600_000_000, 86_400_000_123] {
                let moment = drift.moment_of(shown);
                assert!(drift.shows(moment) >= shown);
                assert!(moment == 0 || drift.shows(moment - 1) < shown, "{ppm} {shown}");
            }
        }
    }
}
