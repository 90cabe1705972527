//! The ports: everything a node needs from outside, in its own words.
//!
//! Edges implement these; the simulator implements them with faults. What a port promises is in its comments, and
//! the conformance suite in `store` holds every store to it.

mod apps;
mod browse;
mod door;
mod logs;
mod store;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
pub use punctual_core::cluster::Boot;
use punctual_core::model::{
    Attempt, AttemptOutcome, ChangeId, Job, JobId, LogId, NodeId, Origin, Part, Payload, RunId, ShardId,
    Text, Token,
};
use punctual_core::registry::{Dialect, Secret};

pub use apps::{AppRow, Apps, Beat, ExecutorRow, Paused, Registered};
pub use browse::{
    AttemptRow, Browse, Bucket, Counts, JobFilter, JobName, JobView, Page, Records, Revision, RunFilter,
    RunView, Soonest,
};
pub use door::{Begun, Digest, Door, KeptAnswer, Remain, RequestKey, TokenRow};
pub use logs::{KeptLog, KillNote, Logs};
pub use store::{
    Accepted, Acquired, Adopted, Arrival, ArrivalKind, Change, Changed, ClockEdit, ClockRow, DOOR_KEEPER,
    Enqueued, Gate, Gated, JobRow, Keep, Lease, Loaded, NODES_KEPT, NodeRow, OldDay, OpenRuns, OpenSend,
    Plan, Planned, PlannedTo, Pruned, REVISIONS_MAX, Renewal, Renewed, RunRow, SentRow, Settled, ShardRow,
    Split, Store, StoreError, THIN_LOOK, Thinned, Unpark, Waiting,
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

/// How far a node that shares its store with no other node has fired. The mark outlives the process and not the
/// machine, so after a kill it says what the dead process cannot have sent.
pub trait FiredMark: Send + Sync {
    /// Nothing that is due later was ever sent without a gate; none if that is not known.
    fn through(&self) -> Option<Timestamp>;

    /// Runs that are due up to here may be sent without a gate from now on.
    fn reach(&self, due: Timestamp);

    /// An earlier process may have sent what is due up to here. If it left no mark, this one leaves that: it stays in
    /// doubt for the next process, however soon this one ends.
    fn cover(&self, due: Timestamp) {
        if self.through().is_none() {
            self.reach(due);
        }
    }
}

/// For nodes that share their store: how far another machine has fired cannot be read here.
#[derive(Clone, Copy, Debug)]
pub struct Unmarked;

impl FiredMark for Unmarked {
    fn through(&self) -> Option<Timestamp> {
        None
    }

    fn reach(&self, _due: Timestamp) {}
}

/// The way to executors and agents. Nothing here waits: answers come back as reports through the inbox.
pub trait Dispatch: Send + Sync {
    /// Takes attempts and sends each at most once; a caller that wants another try asks again.
    fn send(&self, sends: Vec<Dispatched>);

    /// Asks for attempts to end. They may be gone already, and may not obey. An executor is sent nothing of the same
    /// job before it has answered, or had its time to.
    fn kill(&self, kills: Vec<Kill>);

    /// Asks executors something. Every probe is answered through the inbox, at the latest after a few seconds.
    fn probe(&self, probes: Vec<Probe>);

    /// Asks executors that have a session to list again what they hold: shards were taken over.
    fn ask_for_holds(&self) {}

    /// Tells executors that have a session how many runs wait for them to take more.
    fn want(&self, _wants: Vec<(SessionKey, u64)>) {}

    /// Carries runs and reports between an executor that has a session here and the node at this address, which has none.
    fn carry(&self, _of: SessionKey, _node: Text) {}

    /// Leaves places of an executor to the nodes that it is carried to: the answer to [`Heard::Borrow`].
    fn lend(&self, _of: SessionKey, _places: u32) {}

    /// Says that reports are kept, so that their senders may forget them.
    fn acknowledge(&self, reports: Vec<Receipt>);
}

/// An executor, in most places one with a session. Its address alone does not identify it: executors choose their
/// addresses, and executors of two apps may have chosen the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// The app that its token speaks for.
    pub app: Text,
    /// Its address.
    pub url: Text,
}

impl SessionKey {
    /// The executor with this address of this app.
    pub fn new(app: &str, url: &str) -> SessionKey {
        SessionKey { app: Text::Owned(app.to_owned()), url: Text::Owned(url.to_owned()) }
    }
}

impl From<&Address> for SessionKey {
    fn from(address: &Address) -> SessionKey {
        SessionKey { app: address.app.clone(), url: address.url.clone() }
    }
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
    /// The fencing token that its receiver compares.
    pub token: Token,
    /// The number of the gate, if it went through one.
    pub log: Option<LogId>,
    /// Whether an earlier send of the run may have arrived.
    pub possible_duplicate: bool,
    /// The payload of the run.
    pub payload: Option<Payload>,
    /// How long the attempt may take: the run's own time, or else its job's.
    pub timeout: Duration,
    /// Where the run comes from.
    pub origin: Origin,
    /// When it was gated, or else decided to be sent.
    pub sent_at: Timestamp,
    /// The executor that was chosen; none for an agent.
    pub address: Option<Arc<Address>>,
    /// Which part of a broadcast run it is.
    pub part: Option<Part>,
}

/// An executor, with what is needed to speak to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its base address, as it was registered.
    pub url: Text,
    /// How it wants to be spoken to.
    pub dialect: Dialect,
    /// The app it belongs to.
    pub app: Text,
    /// The token that it expects, if its app has one of its own.
    pub access_token: Option<Arc<Secret>>,
    /// Whether it is registered, or set by people. No other address is shown any token.
    pub is_known: bool,
    /// Whether people set it. No executor has shown a token from there, so only addresses that the configuration allows
    /// are called.
    pub is_listed: bool,
}

/// A question to executors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Which of these may have a run: they are asked in order, and the first that says yes has it.
    Choose {
        /// The run.
        run: RunId,
        /// The attempt that is to be made.
        attempt: Attempt,
        /// The run's job.
        job: JobId,
        /// The question to them.
        by: Asked,
        /// In which order.
        addresses: Vec<Address>,
    },
    /// Whether it is there.
    Alive {
        /// The executor.
        address: Address,
    },
    /// Whether it has a run of this job.
    Has {
        /// Of which job.
        job: JobId,
        /// The executor.
        address: Address,
    },
}

/// What executors are asked when one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Whether they are there.
    Beat,
    /// Whether they are idle.
    Idle,
}

/// What came of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probed {
    /// The executor that has the run; none if none said yes.
    Chosen {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: Attempt,
        /// The address of the executor.
        url: Option<Text>,
        /// What they said, for people.
        said: Text,
    },
    /// Whether it is there.
    Alive {
        /// Of which app.
        app: Text,
        /// The executor's address.
        url: Text,
        /// Whether it answered as an executor does.
        is_there: bool,
    },
    /// Whether it has a run of the job.
    Has {
        /// Of which job.
        job: JobId,
        /// Of which app.
        app: Text,
        /// The executor's address.
        url: Text,
        /// Whether it says so; none if it did not answer.
        has: Option<bool>,
    },
}

/// What came of a kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: Attempt,
    /// Whether the executor said that it obeyed.
    pub is_confirmed: bool,
    /// What it said.
    pub said: Text,
}

/// An attempt that should end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// The executor that has it; none for an agent.
    pub address: Option<Address>,
}

/// What an executor or agent says about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Names the report when it is acknowledged; chosen by dispatch.
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
    /// The app whose session it came over; none for senders without a session.
    pub app: Option<Text>,
    /// When it began there, as far as is known.
    pub started_at: Timestamp,
    /// When it ended there, where that is known to be before the report came to the inbox.
    pub ended_at: Option<Timestamp>,
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
    /// It reached no receiver that could take it, so it was no try.
    Unsent,
}

/// What dispatch hears, on its way to the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// How an attempt ended.
    Report(Report),
    /// What came of a probe.
    Probed(Probed),
    /// What came of a kill.
    Killed(Killed),
    /// An executor may have taken an attempt or not.
    Unclear(Unclear),
    /// A native executor takes more.
    Credit {
        /// The executor.
        of: SessionKey,
        /// How many more.
        more: u32,
    },
    /// Another node has this many runs waiting for a native executor that is carried to it.
    Borrow {
        /// The executor.
        of: SessionKey,
        /// How many runs.
        runs: u64,
    },
    /// A native executor takes nothing more, and ends what it has.
    Draining {
        /// The executor.
        of: SessionKey,
    },
    /// How far an attempt is.
    Progress(Progress),
}

/// How far an attempt is, as its executor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: Attempt,
    /// 0 to 100.
    pub percent: u8,
    /// For people.
    pub note: Text,
}

/// An answer to an attempt that is neither yes nor no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: Attempt,
    /// What came instead.
    pub said: Text,
}

/// The name of a report between dispatch and the inbox. The default names none: its sender does not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub u64);

/// The way to the other nodes: hints, never the truth. Every hint may be lost, doubled or late.
#[async_trait]
pub trait Peers: Send + Sync {
    /// Tells a node something that it would find out by itself, only later.
    fn tell(&self, node: NodeId, hint: Hint);

    /// Tells which nodes live, and where: with every renewal.
    fn meet(&self, _nodes: &[NodeRow]) {}

    /// Whether a node can be told, as far as is known.
    fn reaches(&self, _node: NodeId) -> bool {
        true
    }

    /// Waits until the hints have left, within reason: a node that goes wants to be heard.
    async fn told(&self) {}
}

/// What nodes tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Something was written for a shard: runs that are due soon, or wishes.
    Arrived(ShardId),
    /// A job was changed.
    Changed(ChangeId, JobId),
    /// An attempt was settled by a node that does not hold its shard.
    Settled(RunId),
    /// A node gave shards back, and they are free to be taken.
    Vacated,
    /// The node is asked to give its shards back and take none.
    Drain,
    /// This node is drained and lives on.
    Drained(NodeId),
    /// The node, which is drained, is asked to take shards again.
    Resume,
    /// The node that tells this has no session with a native executor; a node that has one may say that it is there.
    Missing(Text),
    /// A node that has no session with a native executor asks a node that has one to carry for it.
    Carry {
        /// The executor.
        url: Text,
        /// The node that asks.
        to: NodeId,
    },
}
