//! The way to native executors: processes that keep a WebSocket to this node open, as `docs/protocol/executor.md` says.
//!
//! ```text
//! send ─► hub ─► outbox (a queue per session) ─► writer ─► executor
//!                                                             │
//! sink ◄──────── reader ◄── reports, credits, progress ◄──────┘      log ─► scrolls
//! acknowledge ─► outbox ─► writer ─► kept
//! ```
//!
//! Where an executor cannot reach another node, this node carries for it ([`carry`]).
//!
//! Messages go in batches: the writer takes what has gathered while it was writing. The node counts an executor's
//! credits and sends nothing beyond them, so an outbox never holds more runs than that.

mod budget;
mod carry;
mod hub;
mod outbox;
mod progress;
mod refusals;
mod scroll;
mod session;
#[cfg(test)]
mod tests;
mod write;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{Attempt, RunId, Text};
use punctual_node::ports::{Dispatch, Dispatched, Heard, KeptLog, Kill, Probe, Receipt, SessionKey};
use punctual_protocol::native::{Held, Hello, Refusal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio_tungstenite::WebSocketStream;

use crate::http::ledger::Sink;
use crate::unheard;
pub use budget::SessionLimits;
use hub::Hub;
pub(crate) use hub::is_native;

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a new connection may take to say who it is.
    pub hello: Duration,
    /// How often executors are pinged.
    pub ping: Duration,
    /// How long a silence ends a session.
    pub silence: Duration,
    /// How long an executor may take to read what was sent.
    pub unread: Duration,
    /// How long a broken session may be resumed, for the executor to know.
    pub resume: Duration,
    /// How often the reception is asked whether it would still let the executor in.
    pub check: Duration,
    /// How many sessions there may be.
    pub sessions_max: usize,
    /// How many bytes they may hold.
    pub limits: SessionLimits,
}

impl Default for Options {
    fn default() -> Options {
        let seconds = Duration::from_secs;
        Options {
            hello: seconds(5),
            ping: seconds(2),
            silence: seconds(6),
            unread: seconds(10),
            resume: seconds(3),
            check: seconds(10),
            sessions_max: 10_000,
            limits: SessionLimits::default(),
        }
    }
}

/// What sessions need from outside.
pub struct Setup {
    /// Where the tasks run.
    pub runtime: Handle,
    /// Bounds and habits.
    pub options: Options,
    /// What time it is.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Called with what was heard. It is called from a task and must not block.
    pub sink: Sink,
    /// Called with the log of an attempt that has ended; returns whether there was room to keep it. It must not
    /// block.
    pub keep: Arc<dyn Fn(RunId, Attempt, KeptLog) -> bool + Send + Sync>,
    /// This node's name.
    pub node: String,
    /// The way to the door of another node.
    pub dial: Dial,
}

/// Opens a WebSocket at the executors' door of the node at an address, as a node.
pub type Dial = Arc<dyn Fn(Text) -> Dialling + Send + Sync>;

/// The WebSocket, or why there is none.
pub type Dialling = Pin<Box<dyn Future<Output = Result<PeerSocket, String>> + Send>>;

/// A WebSocket to another node.
pub type PeerSocket = WebSocketStream<Box<dyn ByteStream>>;

/// Any connection: plain, encrypted or in memory.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Lets executors in, and is told when they leave.
#[async_trait]
pub trait Reception: Send + Sync {
    /// Lets an executor in and registers it. Returns those of its claims that are stale, or why it is refused.
    async fn welcome(&self, hello: &Hello) -> Result<Vec<Held>, Refusal>;

    /// Whether the other end is a node that carries for an executor.
    fn is_carrier(&self) -> bool;

    /// Whether its token would still let it in.
    async fn is_welcome(&self, app: &str) -> bool;

    /// Its session is over; after a goodbye it holds no attempts any more.
    async fn farewell(&self, app: &str, url: &str, is_final: bool);
}

/// The way to native executors.
pub struct Natives {
    hub: Arc<Hub>,
}

impl Natives {
    /// Without sessions yet.
    pub fn new(setup: Setup) -> Natives {
        Natives { hub: Arc::new(Hub::new(setup)) }
    }

    /// How many sessions were refused, or ended for what was sent over them, since the start.
    pub fn sessions_refused(&self) -> u64 {
        self.hub.refusals.all()
    }

    /// Whether another session can be opened.
    pub fn has_room(&self) -> bool {
        self.hub.has_room()
    }

    /// Holds the session of an executor, or of a node that carries for one, until it ends. The WebSocket handshake is
    /// done.
    pub fn attend<S>(&self, socket: S, reception: Arc<dyn Reception>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let hub = Arc::clone(&self.hub);
        self.hub.runtime().spawn(session::attend(hub, socket, reception));
    }

    /// What a running attempt has written so far, from a line on, and the number of the next line; none if the
    /// attempt is not known here.
    pub fn log(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)> {
        self.hub.scrolls().read(run, attempt, from)
    }

    /// Sets the addresses of the nodes. Open sessions are told, and so is every session that opens later.
    pub fn know_nodes(&self, nodes: Vec<String>) {
        self.hub.know_nodes(nodes);
    }

    /// The log of an ended attempt is kept elsewhere now.
    pub fn forget_log(&self, run: RunId, attempt: Attempt) {
        self.hub.scrolls().forget(run, attempt);
    }

    /// Says goodbye to all executors, and waits until they have heard it, at most for `bound`.
    pub async fn close(&self, bound: Duration) {
        self.hub.close(bound).await;
    }
}

impl Dispatch for Natives {
    fn send(&self, sends: Vec<Dispatched>) {
        self.hub.send(sends);
    }

    fn kill(&self, kills: Vec<Kill>) {
        let heard: Vec<Heard> = kills.iter().flat_map(|kill| self.hub.kill(kill)).collect();
        self.hub.tell(heard);
    }

    /// An executor with a session is known to be there, so it is not asked.
    fn probe(&self, probes: Vec<Probe>) {
        let unheard = |probe| Heard::Probed(unheard(probe, "an executor with a session is not asked"));
        self.hub.tell(probes.into_iter().map(unheard).collect());
    }

    /// Executors list their attempts when they open a session, so they are asked to open another.
    fn ask_for_holds(&self) {
        self.hub.end_all("say what you hold: shards were taken over");
    }

    fn want(&self, wants: Vec<(SessionKey, u64)>) {
        self.hub.want(&wants);
    }

    fn carry(&self, of: SessionKey, node: Text) {
        carry::start(&self.hub, of, node);
    }

    fn lend(&self, of: SessionKey, places: u32) {
        self.hub.lend(&of, places);
    }

    fn acknowledge(&self, reports: Vec<Receipt>) {
        self.hub.acknowledge(&reports);
    }
}
