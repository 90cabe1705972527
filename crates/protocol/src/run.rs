//! Runs, as callers submit them and as the API shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Retry, Span, schema};

/// A one-shot to submit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSubmission {
    /// The job: `app/name`, or a number.
    #[schemars(schema_with = "schema::job")]
    pub job: serde_json::Value,
    /// The fire time; now by default. A time in the past means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub at: Option<String>,
    /// The payload: any JSON value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// An idempotency key: a second submission with the same key and job is a duplicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_name")]
    pub key: Option<String>,
    /// The priority, in place of the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: Option<u8>,
    /// How long an attempt may take, in place of the job's timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// When a failed attempt is followed by another, in place of the job's policy. Fields left out have the defaults of a
    /// job, not the job's own values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Exclusive keys, in place of the job's; an empty list shares nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_keys")]
    pub exclusive: Option<Vec<String>>,
    /// A lane with a rate limit. Only null for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::only_null")]
    pub lane: Option<String>,
}

/// One run or many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Runs {
    /// At most 10,000; all or none are accepted.
    Many {
        /// The runs.
        #[schemars(length(max = 10_000))]
        runs: Vec<RunSubmission>,
    },
    /// One run.
    One(Box<RunSubmission>),
}

/// The result of a submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// Number of new runs.
    pub accepted: u64,
    /// Number of duplicates.
    pub duplicates: u64,
    /// The ids in the order of the request; a duplicate has the id of the first submission.
    pub ids: Vec<u64>,
}

/// The last line of the answer to a stream that was not read to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamError {
    /// The number of the offending line, from 1. The lines before it were answered.
    pub line: u64,
    /// What is wrong with it.
    pub error: crate::Problem,
}

/// A run that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunCreated {
    /// Its number.
    pub run: u64,
}

/// The result of a request about one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WishDone {
    /// The run.
    pub run: u64,
    /// `done`, `too_late` because the run had ended or was in flight, or `asked` because another node carries it out.
    pub result: String,
}

/// A new time for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// The new time.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
}

/// Runs to cancel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkCancel {
    /// The filter.
    pub filter: BulkFilter,
    /// Only count the runs; nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A filter for runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("minProperties" = 1))]
pub struct BulkFilter {
    /// Runs of this job: `app/name`, or a number.
    #[schemars(schema_with = "schema::maybe_job")]
    pub job: Option<serde_json::Value>,
    /// Runs of this app.
    #[schemars(schema_with = "schema::maybe_name")]
    pub app: Option<String>,
    /// Runs in this state: pending, running or retrying; all three by default.
    #[schemars(schema_with = "schema::open_state")]
    pub state: Option<RunState>,
    /// Runs from this fire time on.
    #[schemars(schema_with = "schema::maybe_time")]
    pub from: Option<String>,
    /// Runs before this fire time.
    #[schemars(schema_with = "schema::maybe_time")]
    pub to: Option<String>,
    /// Runs with this key.
    #[schemars(schema_with = "schema::maybe_name")]
    pub key: Option<String>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkCancelled {
    /// Number of runs that matched.
    pub matched: u64,
    /// Number of runs that were cancelled.
    pub cancelled: u64,
}

/// One-shots to reschedule: either to `at` or by `by`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["at"]}, {"required": ["by"]}]))]
pub struct BulkReschedule {
    /// The filter.
    pub filter: RescheduleFilter,
    /// The new due time of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub at: Option<String>,
    /// How much later than now each of them is due; with a leading `-`, how much sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::shift")]
    pub by: Option<String>,
    /// Only count the runs; nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A filter for one-shots that have not begun. One of `job`, `app` and `key` is required.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("anyOf" = [{"required": ["job"]}, {"required": ["app"]}, {"required": ["key"]}]))]
pub struct RescheduleFilter {
    /// Runs of this job: `app/name`, or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::job")]
    pub job: Option<serde_json::Value>,
    /// Runs of this app.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub app: Option<String>,
    /// Runs with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::name")]
    pub key: Option<String>,
    /// Runs from this original fire time on.
    #[schemars(schema_with = "schema::maybe_time")]
    pub from: Option<String>,
    /// Runs before this fire time.
    #[schemars(schema_with = "schema::maybe_time")]
    pub to: Option<String>,
    /// Only runs that were rescheduled before, or only those that were not.
    pub moved: Option<bool>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRescheduled {
    /// Number of runs that matched.
    pub matched: u64,
    /// Number of runs that wait for their new time. The others had begun or ended meanwhile.
    pub rescheduled: u64,
}

/// A run as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// Its number, below 2^53.
    pub id: u64,
    /// The number of its job.
    pub job: u32,
    /// The name of its job, also after the job was deleted; null if the job is no longer known.
    #[serde(default)]
    pub job_name: Option<String>,
    /// The app of its job.
    #[serde(default)]
    pub app: Option<String>,
    /// The fire time.
    #[schemars(schema_with = "schema::time")]
    pub fire_time: String,
    /// What created it.
    pub origin: Origin,
    /// The state.
    pub state: RunState,
    /// The reason for the state; empty if there is nothing to add.
    pub reason: String,
    /// How long after the due time the first certain attempt began.
    pub lag_ms: Option<i64>,
    /// Whether it may have been delivered more than once.
    pub possible_duplicate: bool,
    /// The idempotency key.
    pub key: Option<String>,
    /// The payload.
    pub payload: Option<serde_json::Value>,
    /// The priority; 0 goes first.
    pub priority: u8,
    /// The run's own timeout, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// The run's own retry policy, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The run's own exclusive keys, if it has some in place of its job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<Vec<String>>,
    /// The run that this one repeats.
    pub retry_of: Option<u64>,
    /// The run whose end started this one.
    pub parent: Option<u64>,
    /// When it may be sent next, if it waits for an instant.
    #[schemars(schema_with = "schema::maybe_time")]
    pub ready_at: Option<String>,
    /// When it ended.
    #[schemars(schema_with = "schema::maybe_time")]
    pub closed_at: Option<String>,
    /// For a range of missed fire times: their number.
    pub count: Option<u64>,
    /// For a range of missed fire times: the last of them.
    #[schemars(schema_with = "schema::maybe_time")]
    pub until: Option<String>,
    /// The attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// The parts of a broadcast, one for each executor; left out in lists.
    pub parts: Vec<RunPart>,
    /// The broadcast that it is a part of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOf>,
}

/// One part of a broadcast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunPart {
    /// The number of the part, from 0.
    pub index: u32,
    /// Number of parts.
    pub total: u32,
    /// The id of this part's run.
    pub run: u64,
    /// The executor that the part was created for.
    pub executor: String,
    /// The state.
    pub state: RunState,
    /// The reason for the state; empty if there is nothing to add.
    pub reason: String,
    /// The attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// The broadcast that a run is a part of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartOf {
    /// The id of the whole run.
    pub run: u64,
    /// The number of the part, from 0.
    pub index: u32,
    /// Number of parts.
    pub total: u32,
    /// The executor that the part was created for.
    pub executor: String,
}

/// What created a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The schedule.
    Schedule,
    /// A request to run the job now.
    Manual,
    /// A submission of a one-shot.
    OneShot,
    /// A backfill.
    Backfill,
    /// A request to repeat a settled run.
    Retry,
    /// The end of a run of another job.
    Parent,
    /// A broadcast: the run is for one of the executors.
    Part,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Stored, not begun.
    Pending,
    /// An attempt is in flight.
    Running,
    /// An attempt failed, and another will follow.
    Retrying,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// Ended with an unknown outcome.
    Lost,
    /// Cancelled by a request.
    Cancelled,
    /// Not run, for the reason given.
    Skipped,
}

/// An attempt at a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// Its number, from 1.
    pub number: u32,
    /// The address that it was sent to.
    pub executor: String,
    /// When it was sent.
    #[schemars(schema_with = "schema::time")]
    pub started_at: String,
    /// When it ended.
    #[schemars(schema_with = "schema::maybe_time")]
    pub ended_at: Option<String>,
    /// Its outcome.
    pub outcome: Option<AttemptOutcome>,
    /// The result, or what went wrong.
    pub message: String,
    /// Whether an earlier send of the run may have arrived.
    pub possible_duplicate: bool,
    /// Whether it is unknown if it was sent: the node that held the run died, and may have sent it at `started_at`.
    #[serde(default)]
    pub supposed: bool,
    /// The request to end it and the executor's answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill: Option<Kill>,
}

/// A request to end an attempt, and the executor's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kill {
    /// The state of the request.
    pub state: KillState,
    /// When it was requested or answered.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// The executor's answer.
    pub said: String,
}

/// The state of a request to end an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KillState {
    /// The executor has not answered.
    Requested,
    /// The executor confirmed that it ended the attempt.
    Confirmed,
    /// The executor refused, or could not be reached.
    Refused,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// Took longer than its timeout.
    TimedOut,
    /// Not taken by the executor.
    Refused,
    /// Unknown.
    Lost,
    /// Cancelled by a request.
    Cancelled,
}

/// A piece of a run's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Log {
    /// The lines of the log.
    pub text: String,
    /// The number of the line to ask for next, from 1.
    pub next: u64,
    /// Whether no more lines will follow.
    pub end: bool,
    /// The attempt that wrote the lines, if they are those of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// Why a run is in its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// The explanation in one sentence.
    pub sentence: String,
    /// The records that it is based on.
    pub evidence: Vec<Evidence>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// When it happened, if that is known.
    #[schemars(schema_with = "schema::maybe_time")]
    pub at: Option<String>,
    /// What happened.
    pub what: String,
}
