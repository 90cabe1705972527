//! Runs, as they are handed over and as they are shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Retry, Span, schema};

/// A one-shot that is handed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSubmission {
    /// The job: `app/name`, or a number.
    #[schemars(schema_with = "schema::job")]
    pub job: serde_json::Value,
    /// When; at once if not said, or past.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub at: Option<String>,
    /// Any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// What makes a repetition of it a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_name")]
    pub key: Option<String>,
    /// Instead of the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<u8>,
    /// How long an attempt may take, instead of the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How often it is tried, instead of the job's. What it leaves out is as in a job that leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// A stream with a rate limit. Only null for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::only_null")]
    pub lane: Option<String>,
}

/// One run or many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Runs {
    /// At most 10,000, all or none.
    Many {
        /// They.
        #[schemars(length(max = 10_000))]
        runs: Vec<RunSubmission>,
    },
    /// One.
    One(RunSubmission),
}

/// What became of runs that were handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// How many are new.
    pub accepted: u64,
    /// How many were there.
    pub duplicates: u64,
    /// Their numbers in the order of the request; a duplicate has the first one's.
    pub ids: Vec<u64>,
}

/// The last line of a stream that could not be read to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamError {
    /// The line, from 1. Everything before it was answered.
    pub line: u64,
    /// What is wrong with it.
    pub error: crate::Problem,
}

/// A run that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCreated {
    /// Its number.
    pub run: u64,
}

/// What became of a wish about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WishDone {
    /// The run.
    pub run: u64,
    /// `done`, `too_late` because it had ended or was on its way, or `asked` when another node sees to it.
    pub result: String,
}

/// Another time for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// When.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
}

/// Runs to be cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkCancel {
    /// Which.
    pub filter: BulkFilter,
    /// Whether only to count them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1))]
pub struct BulkFilter {
    /// Of this job: `app/name`, or a number.
    #[schemars(schema_with = "schema::maybe_job")]
    pub job: Option<serde_json::Value>,
    /// Of this app.
    #[schemars(schema_with = "schema::maybe_name")]
    pub app: Option<String>,
    /// In this state: pending, running or retrying; all three if not said.
    #[schemars(schema_with = "schema::open_state")]
    pub state: Option<RunState>,
    /// From this fire time on.
    #[schemars(schema_with = "schema::maybe_time")]
    pub from: Option<String>,
    /// Before this fire time.
    #[schemars(schema_with = "schema::maybe_time")]
    pub to: Option<String>,
    /// With this key.
    #[schemars(schema_with = "schema::maybe_name")]
    pub key: Option<String>,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkCancelled {
    /// How many there were.
    pub matched: u64,
    /// How many were cancelled.
    pub cancelled: u64,
}

/// One-shots to be put off: either to `at` or by `by`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["at"]}, {"required": ["by"]}]))]
pub struct BulkReschedule {
    /// Which.
    pub filter: RescheduleFilter,
    /// When all of them are due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<String>,
    /// How much later each of them is due than it is now; with a `-` before it, how much sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::shift")]
    pub by: Option<String>,
    /// Whether only to count them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which one-shots, among those that have not begun. One of job, app and key must be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("anyOf" = [{"required": ["job"]}, {"required": ["app"]}, {"required": ["key"]}]))]
pub struct RescheduleFilter {
    /// Of this job: `app/name`, or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::job")]
    pub job: Option<serde_json::Value>,
    /// Of this app.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub app: Option<String>,
    /// With this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub key: Option<String>,
    /// From this fire time on: the one that they were handed over with.
    #[schemars(schema_with = "schema::maybe_time")]
    pub from: Option<String>,
    /// Before this fire time.
    #[schemars(schema_with = "schema::maybe_time")]
    pub to: Option<String>,
    /// Only those that wait for another time than their fire time, or only those that do not.
    pub moved: Option<bool>,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRescheduled {
    /// How many there were.
    pub matched: u64,
    /// How many wait for their new time. The others had begun, or ended, meanwhile.
    pub rescheduled: u64,
}

/// A run as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Its number, below 2^53.
    pub id: u64,
    /// Its job's number.
    pub job: u32,
    /// Its job's name, of a deleted one the last; null if nothing is known of it any more.
    #[serde(default)]
    pub job_name: Option<String>,
    /// The app of its job.
    #[serde(default)]
    pub app: Option<String>,
    /// The instant that was named for it.
    #[schemars(schema_with = "schema::time")]
    pub fire_time: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Where it stands.
    pub state: RunState,
    /// Why, where the state alone does not say.
    pub reason: String,
    /// How long after it was due its first attempt began that is certain.
    pub lag_ms: Option<i64>,
    /// Whether an attempt may have arrived more than once.
    pub possible_duplicate: bool,
    /// What made a repetition of it a duplicate.
    pub key: Option<String>,
    /// What it brings.
    pub payload: Option<serde_json::Value>,
    /// 0 goes first.
    pub priority: u8,
    /// How long an attempt may take, where the run has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// How often it is tried, where the run has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The run that this one repeats.
    pub retry_of: Option<u64>,
    /// The run whose end brought this one about.
    pub parent: Option<u64>,
    /// When it goes on, if it waits for an instant.
    #[schemars(schema_with = "schema::maybe_time")]
    pub ready_at: Option<String>,
    /// When it ended.
    #[schemars(schema_with = "schema::maybe_time")]
    pub closed_at: Option<String>,
    /// For a range of missed instants: how many they are.
    pub count: Option<u64>,
    /// For a range of missed instants: the last of them.
    #[schemars(schema_with = "schema::maybe_time")]
    pub until: Option<String>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
    /// The parts of a broadcast, one for each executor; lists leave them out.
    pub parts: Vec<RunPart>,
    /// What it is a part of, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
}

/// One part of a broadcast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPart {
    /// Counted from 0.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// The number of the run that is this part.
    pub run: u64,
    /// The executor that it was made for.
    pub executor: String,
    /// Where it stands.
    pub state: RunState,
    /// Why, where the state alone does not say.
    pub reason: String,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

/// Which part of which run a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartOf {
    /// The whole.
    pub run: u64,
    /// Counted from 0.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// The executor that it was made for.
    pub executor: String,
}

/// Where a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The schedule named its instant.
    Schedule,
    /// A person said "now".
    Manual,
    /// A program handed it over.
    OneShot,
    /// A person asked for the instants of a range.
    Backfill,
    /// A settled run was asked for again.
    Retry,
    /// Another job ended.
    Parent,
    /// A broadcast was split: this one is for one of the executors.
    Part,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Written down, not begun.
    Pending,
    /// An attempt is on its way.
    Running,
    /// An attempt failed, and another will follow.
    Retrying,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended in the dark.
    Lost,
    /// Ended by wish.
    Cancelled,
    /// Decided not to run.
    Skipped,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Where it went.
    pub executor: String,
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    pub started_at: String,
    /// When it ended.
    #[schemars(schema_with = "schema::maybe_time")]
    pub ended_at: Option<String>,
    /// How it ended.
    pub outcome: Option<AttemptOutcome>,
    /// What was said.
    pub message: String,
    /// Whether it may have arrived before.
    pub possible_duplicate: bool,
    /// Whether nobody knows that it was sent: the node that held the run died, and may have sent it at `started_at` or not.
    #[serde(default)]
    pub supposed: bool,
    /// What came of a wish to end it, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
}

/// A wish to end an attempt, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kill {
    /// How far it came.
    pub state: KillState,
    /// When it was asked for, or answered.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// What the executor said.
    pub said: String,
}

/// How far a wish to end an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KillState {
    /// The executor has not answered.
    Requested,
    /// The executor said that it obeyed.
    Confirmed,
    /// The executor said that it did not, or could not be asked.
    Refused,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Well.
    Succeeded,
    /// Badly.
    Failed,
    /// Too late.
    TimedOut,
    /// It was not taken.
    Refused,
    /// Nobody knows.
    Lost,
    /// By wish.
    Cancelled,
}

/// A piece of a run's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The lines.
    pub text: String,
    /// The line to ask for next, from 1.
    pub next: u64,
    /// Whether nothing will follow.
    pub end: bool,
    /// Whose lines they are, where they are those of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// Why a run is as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// One sentence.
    pub sentence: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
}

/// Something that was written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// When, where that is known.
    #[schemars(schema_with = "schema::maybe_time")]
    pub at: Option<String>,
    /// What.
    pub what: String,
}
