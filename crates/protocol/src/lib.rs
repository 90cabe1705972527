//! The wire formats that Punctual promises: the REST API, for servers and clients, the native executor protocol
//! ([`native`]), and the protocol of XXL-JOB and Orth executors ([`xxl`]).
//!
//! Shapes only: the meaning of a value, and whether it is valid, is decided where it is used. Times are RFC 3339 text,
//! durations are text with units ([`Span`]).

mod app;
mod bulk;
mod cluster;
mod config;
mod figures;
mod glue;
mod job;
pub mod native;
mod peers;
mod problem;
mod run;
mod schedule;
mod schema;
mod secret;
mod span;
mod token;
pub mod xxl;

pub use app::{
    Addresses, App, AppDraft, AppExecutor, AppExecutors, AppPause, AppPaused, Apps, Auto, ExecutorDialect,
    PutApp,
};
pub use bulk::{
    Bulk, BulkAction, BulkAsked, BulkJob, BulkJobFilter, BulkList, BulkPreview, BulkRefusal, BulkState,
};
pub use cluster::{
    BucketInfo, HINTS_PATH, NodeInfo, Nodes, PeerHint, RetentionInfo, ShardInfo, Shards, Storage,
};
pub use config::{Configuration, Setting, SettingOrigin};
pub use figures::{Busy, Due, DueJob, Forecast, History, Past, WaitingDay};
pub use glue::{Glue, GlueRollback, GlueVersion, GlueVersions};
pub use job::{
    After, Backfilled, Body, Delivery, Executor, Http, Job, JobByName, JobDraft, JobPage, JobPatch, JobPlan,
    JobStats, Misfire, MisfirePolicy, NewJob, RecentRun, Retry, Revision, Revisions, RunNow, Target, When,
    Window,
};
pub use peers::{
    EVENTS_PATH, FIGURES_PATH, PeerEnded, PeerEvent, PeerFigures, PeerFiguresAsked, PeerLoad, PeerSaid,
    PeerStretches, PeerTally,
};
pub use problem::{FieldError, Problem};
pub use run::{
    Accepted, Attempt, AttemptOutcome, BulkCancel, BulkCancelled, BulkFilter, BulkReschedule,
    BulkRescheduled, Evidence, Kill, KillState, Log, Origin, PartOf, Reschedule, RescheduleFilter, Run,
    RunCreated, RunPart, RunState, RunSubmission, Runs, StreamError, Why, WishDone,
};
pub use schedule::{BackfillRange, Dialect, FireTimes, Gap, Overlap, Preview, PreviewAsked, Schedule};
pub use secret::{MASKED_HEADER, MASKED_SECRET, is_secret_header};
pub use span::{Span, SpanError};
pub use token::{NewToken, Role, Session, SignIn, SignedBy, Token, TokenMade, Tokens};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The rows. A page may be empty and not be the last, because the server reads a bounded number of rows for one page.
    pub items: Vec<T>,
    /// The `cursor` of the next page. Only null means that there are no more rows.
    pub next_cursor: Option<String>,
}

/// The statistics of all jobs and runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Jobs that are not deleted.
    pub jobs: u64,
    /// Jobs that are enabled, with a schedule or without.
    pub jobs_enabled: u64,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped.
    pub not_run: u64,
    /// Runs that the nodes have loaded and not started; null for a token of some apps.
    pub loaded: Option<u64>,
    /// Attempts that the nodes have in flight; null for a token of some apps.
    pub running: Option<u64>,
    /// Shards that the nodes hold; null for a token of some apps.
    pub shards: Option<u64>,
    /// Runs that are due and not started, on all nodes; null for a token of some apps.
    pub due: Option<u64>,
    /// How long the oldest of those runs has been due; null if there is none, and if `due` is null.
    pub oldest_due_ms: Option<u64>,
    /// Names of living nodes that did not answer within a second: what they have in hand is not in the figures.
    pub missing: Vec<String>,
    /// The cluster's time.
    pub now: String,
}

/// The health of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// The status in one word.
    pub status: String,
}
