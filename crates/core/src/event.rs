//! Everything that can happen, as it is told: the only list of events. Steps collect them; whoever observes reads
//! them and never calls back.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{Attempt, Epoch, JobId, LogId, Outcome, RunId, ShardId, Skip, StoppedReason, Text};
use crate::registry::ChangeKind;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was created, edited, started or deleted.
    JobChanged {
        /// Which.
        job: JobId,
        /// Its version from now on.
        version: u64,
    },
    /// A job stopped, by wish or by itself.
    JobStopped {
        /// Which.
        job: JobId,
        /// Why.
        reason: StoppedReason,
    },
    /// Fire times were passed over.
    Missed {
        /// Whose.
        job: JobId,
        /// The first.
        from: Timestamp,
        /// The last.
        until: Timestamp,
        /// How many.
        count: u64,
        /// Why they do not run.
        reason: Skip,
    },
    /// An attempt went out.
    Sent {
        /// Of which run.
        run: RunId,
        /// Of which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// How long after it was due.
        lag: Duration,
        /// Whether it is the first send of the run that is certain.
        is_first: bool,
    },
    /// An attempt ended badly and another will follow.
    Retrying {
        /// Of which run.
        run: RunId,
        /// When.
        ready_at: Timestamp,
    },
    /// A run ended.
    Closed {
        /// Which.
        run: RunId,
        /// Of which job.
        job: JobId,
        /// How.
        outcome: Outcome,
        /// Why.
        reason: Text,
        /// How long its last attempt took, whenever the store heard of it; none if it was not sent.
        took: Option<Duration>,
    },
    /// An attempt found every connection to its executor in use. Nothing was sent, and it is sent again after a pause.
    Delayed {
        /// Of which run.
        run: RunId,
        /// Of which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
        /// What was in use.
        reason: Text,
    },
    /// A report came for an attempt that is no longer current; it changed nothing. Told once for all of one executor that
    /// were judged together.
    LateReport {
        /// The run of the first.
        run: RunId,
        /// Its attempt.
        attempt: Attempt,
        /// How many more there were.
        more: u64,
    },
    /// A report came that nobody waits for, or from somebody who has no say; it changed nothing.
    ReportRefused {
        /// The number of the gate that it named.
        log: LogId,
        /// Why.
        reason: Text,
    },
    /// An executor spoke of runs that are not its own; nothing came of it. Told once for all that it said at a time.
    Overreached {
        /// Of which app it is.
        app: Text,
        /// Its address.
        address: Text,
        /// How many runs it named.
        count: usize,
        /// What it did.
        reason: Text,
    },
    /// Reports of one message named attempts that are not open, or came from a sender that was not given them; they changed nothing.
    ReportsRefused {
        /// How many.
        count: u64,
        /// The number of the gate that the first of them named.
        first: LogId,
        /// Why.
        reason: Text,
    },
    /// Something became of an executor.
    Executor {
        /// Of which app.
        app: Text,
        /// Its address.
        address: Text,
        /// What.
        what: ChangeKind,
    },
    /// Somebody wanted to register, or to leave, and may not.
    RegistrationRefused {
        /// Under which app.
        app: Text,
        /// With which address.
        address: Text,
        /// Why.
        reason: Text,
    },
    /// There are so many executors that something must be wrong.
    RegistryCrowded {
        /// How many.
        count: usize,
    },
    /// A panic may have left the node's memory half updated: it was thrown away, and is read again from the store.
    MemoryDiscarded,
    /// Applications left one-shots that cannot be run.
    ArrivalsRefused {
        /// How many.
        count: usize,
        /// What is wrong with the first.
        reason: Text,
    },
    /// An executor says how far an attempt is.
    Progress {
        /// The run.
        run: RunId,
        /// Its job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// 0 to 100.
        percent: u8,
        /// For people.
        note: Text,
    },
    /// An executor was told to end an attempt.
    KillAsked {
        /// Of which run.
        run: RunId,
        /// Of which job.
        job: JobId,
        /// Which try.
        attempt: Attempt,
    },
    /// What the executor made of that.
    KillAnswered {
        /// Of which run.
        run: RunId,
        /// Which try.
        attempt: Attempt,
        /// Whether it says that it obeyed.
        is_confirmed: bool,
        /// What it said.
        said: Text,
    },
    /// This node acts for a shard from now on.
    ShardTaken {
        /// Which.
        shard: ShardId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// This node no longer acts for a shard.
    ShardLeft {
        /// Which.
        shard: ShardId,
    },
    /// The store's clock was set.
    ClockStepped {
        /// By this many milliseconds; negative is back.
        millis: i64,
    },
    /// The store did not do what it was asked.
    StoreFailed {
        /// In which step.
        step: &'static str,
        /// What it said.
        reason: Text,
    },
}
