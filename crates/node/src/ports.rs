//! The ports: everything a node needs from outside, in its own words.
//!
//! Edges implement these; the simulator implements them with faults. What a port promises is in its comments, and
//! the conformance suite in `store` holds every store to it.

mod browse;
mod door;
mod store;

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
pub use punctual_core::cluster::Boot;
use punctual_core::model::{
    Attempt, AttemptOutcome, ChangeId, Job, JobId, LogId, NodeId, Payload, RunId, ShardId, Text, Token,
};

pub use browse::{
    AttemptRow, Browse, Bucket, Counts, JobFilter, JobView, Page, Revision, RunFilter, RunView,
};
pub use door::{Begun, Digest, Door, KeptAnswer, RequestKey, TokenRow};
pub use store::{
    Accepted, Acquired, Adopted, Arrival, ArrivalKind, Change, Changed, ClockEdit, ClockRow, Gate, Gated,
    JobRow, Lease, Loaded, NodeRow, OpenSend, Plan, Planned, PlannedTo, Pruned, Renewal, Renewed, RunRow,
    Settled, ShardRow, Store, StoreError, Waiting,
};

/// The machine's clock. The cluster's time is the store's; a node counts it forward by this.
pub trait Clock: Send + Sync {
    /// Time since the machine started, suspend included.
    fn boot(&self) -> Boot;
}

/// Where randomness comes from.
pub trait Entropy: Send + Sync {
    /// 64 random bits.
    fn bits(&self) -> u64;
}

/// The way to executors and agents. Nothing here waits: answers come back as reports through the inbox.
pub trait Dispatch: Send + Sync {
    /// Takes attempts and sends each at most once by itself; whoever wants another try asks again.
    fn send(&self, sends: Vec<Dispatched>);

    /// Wishes attempts to end. They may be gone already, and may not obey.
    fn kill(&self, kills: Vec<Kill>);

    /// Says that reports are kept, so that their senders may forget them.
    fn acknowledge(&self, reports: Vec<Receipt>);
}

/// An attempt on its way.
#[derive(Clone, Debug)]
pub struct Dispatched {
    /// The run.
    pub run: RunId,
    /// Its job as it stands now.
    pub job: Arc<Job>,
    /// The instant that was named for it.
    pub fire_time: Timestamp,
    /// Which try this is.
    pub attempt: Attempt,
    /// What a receiver compares.
    pub token: Token,
    /// The number of the gate, if it went through one.
    pub log: Option<LogId>,
    /// Whether an earlier send of the run may have arrived.
    pub possible_duplicate: bool,
    /// What the run brings.
    pub payload: Option<Payload>,
}

/// An attempt that should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
}

/// What an executor or agent says about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose acknowledgement it waits for; chosen by dispatch.
    pub receipt: Receipt,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: Attempt,
    /// The token it was sent with.
    pub token: Token,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What it said.
    pub message: Text,
    /// Where it ran.
    pub executor: Text,
    /// When it began there, as far as is known.
    pub started_at: Timestamp,
    /// How long the target asks to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether another try could help.
    pub further: Further,
}

/// What the target says about further tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Further {
    /// Another may help.
    #[default]
    Welcome,
    /// None helps: it was refused for what it is.
    Useless,
    /// The target is gone for good, so its job is of no use either.
    Gone,
}

/// The name of a report between dispatch and the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub u64);

/// The way to the other nodes: hints, never the truth. Every hint may be lost, doubled or late.
pub trait Peers: Send + Sync {
    /// Tells a node something that it would find out by itself, only later.
    fn tell(&self, node: NodeId, hint: Hint);
}

/// What nodes tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Something was written for a shard: runs that are due soon, or wishes.
    Arrived(ShardId),
    /// A job was changed.
    Changed(ChangeId, JobId),
    /// An attempt was settled by somebody who does not hold its shard.
    Settled(RunId),
}
