//! Jobs, as callers write them and as the API shows them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Glue, RunState, Schedule, Span, schema};

/// A job as callers write it. Read-only fields are ignored here, so that a job that was read can be written back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDraft {
    /// Unique within the app.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The app: the group of executors, or any name to group jobs by.
    #[schemars(schema_with = "schema::app")]
    pub app: String,
    /// A description for people.
    #[serde(default)]
    #[schemars(schema_with = "schema::prose")]
    pub description: String,
    /// Tags to filter by.
    #[serde(default)]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Whether it fires by its schedule.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When the job fires.
    pub schedule: Schedule,
    /// What the job calls.
    pub target: Target,
    /// What happens to missed fire times.
    #[serde(default)]
    pub misfire: Misfire,
    /// When a failed run is tried again.
    #[serde(default)]
    pub retry: Retry,
    /// How long an attempt may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Span,
    /// How often a run may be delivered.
    #[serde(default)]
    pub delivery: Delivery,
    /// The priority: 0 goes first, 9 last.
    #[serde(default = "middle")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: u8,
    /// The class of work: `output`, `source`, `query` or another that the nodes are configured with; null is the unnamed
    /// class. Classes go before priorities.
    #[serde(default)]
    #[schemars(schema_with = "schema::maybe_name")]
    pub class: Option<String>,
    /// A lane with a rate limit. Only null for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::only_null")]
    pub lane: Option<String>,
    /// Windows of time in which the job may run; always if there are none.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub windows: Vec<Window>,
    /// A calendar of dates. Only null for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::only_null")]
    pub calendar: Option<String>,
    /// The greatest delay that is added to a fire time, to spread what is due at one instant; at most 24 hours. The delay of
    /// a job at a fire time is always the same.
    #[serde(default)]
    pub jitter: Span,
    /// Keys of resources that are not to be used twice at the same time: runs that share a key never overlap, in the whole
    /// cluster. A key has 1 to 128 bytes, no blanks and no commas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::keys")]
    pub exclusive: Vec<String>,
    /// Jobs whose runs start this one when they end.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub after: Vec<After>,
    /// The job is stopped after this many failed runs in a row; 0 means never.
    #[serde(default)]
    pub failure_limit: u32,
}

fn yes() -> bool {
    true
}

fn half_a_minute() -> Span {
    Span(std::time::Duration::from_secs(30))
}

fn middle() -> u8 {
    5
}

/// A job as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: u32,
    /// The definition, with every default.
    #[serde(flatten)]
    pub draft: JobDraft,
    /// The version; grows with every change and is the ETag.
    pub version: u64,
    /// When it fires next; null if no fire time is known.
    #[schemars(schema_with = "schema::maybe_time")]
    pub next_fire_time: Option<String>,
    /// Why it does not fire by its schedule.
    pub stopped_reason: Option<String>,
    /// Runs that failed or were lost.
    pub failure_count: u64,
    /// Failed or lost runs since the last success.
    pub consecutive_failures: u32,
    /// The state in which the last run ended.
    pub last_status: Option<String>,
    /// When a run last succeeded.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_success: Option<String>,
    /// The schedule in words.
    #[serde(default)]
    pub in_words: String,
    /// Its last runs known to the answering node, oldest first; at most 20.
    #[serde(default)]
    pub recent: Vec<RecentRun>,
    /// Median duration of those runs.
    #[serde(default)]
    pub duration_p50_ms: Option<u64>,
    /// 95th percentile of the durations of those runs.
    #[serde(default)]
    pub duration_p95_ms: Option<u64>,
}

/// A finished run in the short history of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecentRun {
    /// Its number.
    pub run: u64,
    /// Its state.
    pub state: RunState,
    /// When it ended.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// How long its last attempt took; null if there was none.
    pub duration_ms: Option<u64>,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPage {
    /// The rows. A page may be empty and not be the last, because the server reads a bounded number of rows for one page.
    pub items: Vec<Job>,
    /// The `cursor` of the next page. Only null means that there are no more rows.
    pub next_cursor: Option<String>,
    /// Number of rows that match the filter, if `count` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl Job {
    /// The read-only fields.
    pub const READ_ONLY: [&'static str; 12] = [
        "id",
        "version",
        "next_fire_time",
        "stopped_reason",
        "failure_count",
        "consecutive_failures",
        "last_status",
        "last_success",
        "in_words",
        "recent",
        "duration_p50_ms",
        "duration_p95_ms",
    ];
}

/// A job as it would be saved: the answer to `dry_run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPlan {
    /// The job; its number is 0 if it does not exist yet.
    #[serde(flatten)]
    pub job: Job,
    /// Its next fire times.
    pub next_fire_times: Vec<String>,
    /// Warnings about settings that are valid and may not be intended.
    pub warnings: Vec<String>,
}

/// A change of some fields by JSON Merge Patch (RFC 7396).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobPatch(pub serde_json::Map<String, serde_json::Value>);

/// What a job calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Target {
    /// An HTTP endpoint.
    Http(Http),
    /// A handler of the app's executors.
    Executor(Executor),
}

/// A handler of the app's executors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Executor {
    /// The handler's name; left out if a script is sent instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::name")]
    pub handler: String,
    /// The parameter for runs without a payload: text as it is, anything else as JSON. In a run started by the end of
    /// another job, `${parent.run}`, `${parent.job}` and `${parent.result}` are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Body,
    /// How the executor of a run is chosen.
    #[serde(default = "round")]
    #[schemars(schema_with = "schema::route")]
    pub route: String,
    /// A script that is sent with the run, in place of a handler's name. Refused unless the node allows scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glue: Option<Glue>,
    /// What a due run does while another run of the job is open: serial, discard, cover, concurrent, or `concurrent(n)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::block")]
    pub block: Option<String>,
    /// The n of `concurrent(n)`, as a field of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
}

/// A request to an HTTP endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// GET, POST, PUT, PATCH, DELETE or HEAD.
    #[serde(default = "post")]
    #[schemars(schema_with = "schema::method")]
    pub method: String,
    /// The URL.
    #[schemars(length(min = 1, max = 8192))]
    pub url: String,
    /// Further headers. Values of headers whose names suggest keys, tokens or passwords are shown as `…`.
    #[serde(default)]
    #[schemars(schema_with = "schema::headers")]
    pub headers: BTreeMap<String, String>,
    /// The body for runs without a payload: text as it is, anything else as JSON. Texts may contain `${run.id}`,
    /// `${run.fire_time}`, `${run.attempt}`, `${job.id}`, `${job.name}`, `${job.app}`, and `${parent.run}`, `${parent.job}` and
    /// `${parent.result}` of the run whose end started this one.
    #[serde(default)]
    pub body: Body,
    /// The status codes that count as success; any 2xx if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(range(min = 200, max = 599)))]
    pub success_codes: Vec<u16>,
    /// Whether up to three redirects are followed.
    #[serde(default, skip_serializing_if = "is_not")]
    pub follow_redirects: bool,
    /// The signing secret: `whsec_` and base64 of 24 to 64 bytes. Shown as `whsec_…` if it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret")]
    pub signing_secret: Option<String>,
    /// What a due run does while another run of the job is open: serial, discard, cover, concurrent, or `concurrent(n)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::block")]
    pub block: Option<String>,
    /// The n of `concurrent(n)`, as a field of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
}

/// Any JSON value.
pub type Body = Option<serde_json::Value>;

fn post() -> String {
    "POST".into()
}

fn round() -> String {
    "round".into()
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// What happens to missed fire times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Misfire {
    /// Which of the missed fire times run.
    #[serde(default)]
    pub policy: MisfirePolicy,
    /// The lateness beyond which a fire time counts as missed.
    #[serde(default = "five_seconds")]
    pub threshold: Span,
}

fn five_seconds() -> Span {
    Span(std::time::Duration::from_secs(5))
}

impl Default for Misfire {
    fn default() -> Misfire {
        Misfire { policy: MisfirePolicy::default(), threshold: five_seconds() }
    }
}

/// Which of the missed fire times run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// None of them.
    Skip,
    /// The latest one.
    #[default]
    FireOnce,
    /// All of them, up to 1,000.
    FireAll,
}

/// When a failed run is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts in all, including the first.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_attempts: u32,
    /// The wait after the first failure.
    pub initial_delay: Span,
    /// The factor by which each further wait is longer.
    #[schemars(range(min = 1, max = 1000))]
    pub multiplier: f64,
    /// The longest wait.
    pub max_delay: Span,
}

impl Default for Retry {
    fn default() -> Retry {
        let seconds = |seconds| Span(std::time::Duration::from_secs(seconds));
        Retry { max_attempts: 3, initial_delay: seconds(1), multiplier: 2.0, max_delay: seconds(30) }
    }
}

/// How often a run may be delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Once or more: a send that may have been lost is repeated.
    #[default]
    AtLeastOnce,
    /// Once or not at all: a send that may have arrived is never repeated.
    AtMostOnce,
}

/// A window of hours on some days of the week.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The days, such as `mon-fri`; every day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<String>,
    /// The hours, such as `09:00-17:00`; the whole day by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<String>,
    /// The days as numbers, 1 for Monday: another way to write `days`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::days_of_week")]
    pub days_of_week: Option<Vec<u8>>,
    /// Whole hours: another way to write `hours`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::hours_of_day")]
    pub hours_of_day: Option<Vec<u8>>,
    /// The zone's IANA name; the schedule's zone by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What happens to fire times outside the windows: `skip` or `defer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::outside")]
    pub outside: Option<String>,
}

/// Another job whose runs start this one when they end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// The job: `app/name`, or a number.
    #[schemars(schema_with = "schema::job")]
    pub job: serde_json::Value,
    /// Which ends start this job.
    #[serde(default)]
    pub when: When,
}

/// Which ends of a run start the next job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// The run succeeded.
    #[default]
    Succeeded,
    /// The run failed or was lost.
    Failed,
    /// The run ended with any outcome.
    Ended,
}

/// One version of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// The version.
    pub version: u64,
    /// When it was saved.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// The name of the token that saved it, or `punctual` if a node did.
    pub by: String,
    /// The definition.
    pub job: JobDraft,
}

/// The statistics of a job's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStats {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped.
    pub not_run: u64,
    /// Failed or lost runs since the last success.
    pub consecutive_failures: u32,
    /// The state in which the last run ended.
    pub last_status: Option<String>,
    /// When a run last succeeded.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_success: Option<String>,
}

/// A run to start by hand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunNow {
    /// The payload: any JSON value.
    pub payload: Option<serde_json::Value>,
    /// The fire time of the run; now by default.
    #[schemars(schema_with = "schema::maybe_time")]
    pub fire_time: Option<String>,
    /// The address of the executor to send it to; chosen by the job's route by default. If that executor is absent, the run
    /// waits for it.
    #[schemars(length(min = 1, max = 1024))]
    pub executor: Option<String>,
}

/// The result of a backfill, or of its dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backfilled {
    /// Number of fire times in the range.
    pub count: u64,
    /// The first 1,000 fire times.
    pub fire_times: Vec<String>,
    /// Number of runs created; for the other fire times a run existed already.
    pub created: u64,
}

/// A job to create: a [`JobDraft`]. Read-only fields of a [`Job`] are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewJob(pub serde_json::Map<String, serde_json::Value>);

/// A job whose app and name are in the path, so that the body need not repeat them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobByName(pub serde_json::Map<String, serde_json::Value>);

/// The versions of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revisions {
    /// The versions, oldest first.
    pub items: Vec<Revision>,
    /// The `cursor` of the next page; null at the end.
    pub next_cursor: Option<String>,
}
