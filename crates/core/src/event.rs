//! The only list of events. Steps collect events; metrics, the log and the API read them and never call back.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{Attempt, Epoch, JobId, LogId, Outcome, RunId, ShardId, Skip, StoppedReason, Text};
use crate::registry::ChangeKind;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A job was created, edited, started or deleted.
    JobChanged {
        /// The job.
        job: JobId,
        /// Its version from now on.
        version: u64,
    },
    /// A job was stopped, by a caller or by Punctual.
    JobStopped {
        /// The job.
        job: JobId,
        /// The reason.
        reason: StoppedReason,
    },
    /// Fire times were passed over.
    Missed {
        /// The job.
        job: JobId,
        /// The first of them.
        from: Timestamp,
        /// The last of them.
        until: Timestamp,
        /// Number of fire times.
        count: u64,
        /// Why they do not run.
        reason: Skip,
    },
    /// An attempt was sent.
    Sent {
        /// The run.
        run: RunId,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// How long after its due time.
        lag: Duration,
        /// Whether this is the first send of the run that certainly happened.
        is_first: bool,
    },
    /// An attempt ended badly and another will follow.
    Retrying {
        /// The run.
        run: RunId,
        /// When the next attempt is due.
        ready_at: Timestamp,
    },
    /// A run ended.
    Closed {
        /// The run.
        run: RunId,
        /// The job.
        job: JobId,
        /// The outcome.
        outcome: Outcome,
        /// The reason.
        reason: Text,
        /// How long its last attempt took, not counting the time until the store took the result; none if nothing was sent.
        took: Option<Duration>,
    },
    /// An attempt found every connection to its executor in use. Nothing was sent, and it is sent again after a pause.
    Delayed {
        /// The run.
        run: RunId,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// The executor and the limit.
        reason: Text,
    },
    /// A report named an attempt that is no longer current; it changed nothing. Late reports of one executor that are
    /// settled together make one event.
    LateReport {
        /// The run that the first report named.
        run: RunId,
        /// The attempt that the first report named.
        attempt: Attempt,
        /// Number of further reports.
        more: u64,
    },
    /// A report named an attempt that is not open, or its sender was not given that attempt; it changed nothing.
    ReportRefused {
        /// The number of the gate that the report named.
        log: LogId,
        /// The reason.
        reason: Text,
    },
    /// An executor named runs that it was not given; nothing was changed. One message makes one event.
    Overreached {
        /// The app of the executor.
        app: Text,
        /// The executor's address.
        address: Text,
        /// Number of runs that it named.
        count: usize,
        /// What the executor tried to do.
        reason: Text,
    },
    /// Several reports of one message were refused, as in [`Event::ReportRefused`].
    ReportsRefused {
        /// Number of reports.
        count: u64,
        /// The number of the gate that the first of them named.
        first: LogId,
        /// The reason.
        reason: Text,
    },
    /// An executor joined, left, died, or became reachable or unreachable.
    Executor {
        /// The app of the executor.
        app: Text,
        /// The executor's address.
        address: Text,
        /// The change.
        what: ChangeKind,
    },
    /// A caller was not allowed to register an executor or to sign one off.
    RegistrationRefused {
        /// The app that the caller named.
        app: Text,
        /// The address that the caller named.
        address: Text,
        /// The reason.
        reason: Text,
    },
    /// The registry holds more executors than a correct set-up has, such as one address for each start of a process.
    RegistryCrowded {
        /// Number of executors.
        count: usize,
    },
    /// A panic may have left the node's memory half updated: the node discarded it and reads it again from the store.
    MemoryDiscarded,
    /// Applications wrote one-shots into `arrivals` that cannot be run.
    ArrivalsRefused {
        /// Number of one-shots.
        count: usize,
        /// What is wrong with the first of them.
        reason: Text,
    },
    /// An executor reported the progress of an attempt.
    Progress {
        /// The run.
        run: RunId,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
        /// Progress in per cent, 0 to 100.
        percent: u8,
        /// A note for people.
        note: Text,
    },
    /// An executor was told to end an attempt.
    KillAsked {
        /// The run.
        run: RunId,
        /// The job.
        job: JobId,
        /// The attempt.
        attempt: Attempt,
    },
    /// An executor answered to a request to end an attempt.
    KillAnswered {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: Attempt,
        /// Whether the executor confirmed the end.
        is_confirmed: bool,
        /// The executor's answer.
        said: Text,
    },
    /// This node acts for a shard from now on.
    ShardTaken {
        /// The shard.
        shard: ShardId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// This node no longer acts for a shard.
    ShardLeft {
        /// The shard.
        shard: ShardId,
    },
    /// The store's clock was set.
    ClockStepped {
        /// By this many milliseconds; a negative number is a step back.
        millis: i64,
    },
    /// A call to the store failed.
    StoreFailed {
        /// The step that made the call.
        step: &'static str,
        /// The error.
        reason: Text,
    },
}
