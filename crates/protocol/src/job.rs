//! Jobs, as they are written and as they are shown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Glue, RunState, Schedule, Span, schema};

/// A job as people write it. Fields that only the answer has are ignored here, so that what was read can be written
/// back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobDraft {
    /// Unique within the app.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The group of executors, or any name that jobs are grouped by.
    #[schemars(schema_with = "schema::app")]
    pub app: String,
    /// For people.
    #[serde(default)]
    #[schemars(schema_with = "schema::prose")]
    pub description: String,
    /// For people to filter by.
    #[serde(default)]
    #[schemars(schema_with = "schema::tags")]
    pub tags: Vec<String>,
    /// Whether it fires by itself.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When.
    pub schedule: Schedule,
    /// Where.
    pub target: Target,
    /// What becomes of missed instants.
    #[serde(default)]
    pub misfire: Misfire,
    /// How often it is tried.
    #[serde(default)]
    pub retry: Retry,
    /// How long an attempt may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Span,
    /// How often an attempt may arrive.
    #[serde(default)]
    pub delivery: Delivery,
    /// 0 goes first, 9 last.
    #[serde(default = "middle")]
    #[schemars(range(min = 0, max = 9))]
    pub priority: u8,
    /// A class of work that goes before or after others. Only null for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::only_null")]
    pub class: Option<String>,
    /// A stream with a rate limit. Only null for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::only_null")]
    pub lane: Option<String>,
    /// When it is allowed to run at all; always if there are none.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub windows: Vec<Window>,
    /// A calendar of dates. Only null for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::only_null")]
    pub calendar: Option<String>,
    /// A random part of every fire time. Only `0s` for now.
    #[serde(default)]
    #[schemars(schema_with = "schema::no_time")]
    pub jitter: Span,
    /// Jobs whose end starts this one.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub after: Vec<After>,
    /// How many failed runs in a row stop it; 0 means never.
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

/// A job as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its number.
    pub id: u32,
    /// What people wrote, with every default.
    #[serde(flatten)]
    pub draft: JobDraft,
    /// Grows with every change; the ETag.
    pub version: u64,
    /// When it fires next, as far as is known.
    #[schemars(schema_with = "schema::maybe_time")]
    pub next_fire_time: Option<String>,
    /// Why it does not fire by itself.
    pub stopped_reason: Option<String>,
    /// Runs that failed or were lost.
    pub failure_count: u64,
    /// Those since the last success.
    pub consecutive_failures: u32,
    /// How the last run ended.
    pub last_status: Option<String>,
    /// When a run last succeeded.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_success: Option<String>,
    /// The schedule in words.
    #[serde(default)]
    pub in_words: String,
    /// Its last runs that the node which is asked knows of, the oldest first; at most 20.
    #[serde(default)]
    pub recent: Vec<RecentRun>,
    /// How long half of those took at most.
    #[serde(default)]
    pub duration_p50_ms: Option<u64>,
    /// How long 95 of 100 of those took at most.
    #[serde(default)]
    pub duration_p95_ms: Option<u64>,
}

/// A run that has ended, in a row of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecentRun {
    /// Its number.
    pub run: u64,
    /// How it ended.
    pub state: RunState,
    /// When.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// How long its last attempt took; null if there was none.
    pub duration_ms: Option<u64>,
}

/// A page of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPage {
    /// The rows. A page may be empty and not be the last: the server looks through a bounded number of rows for one page.
    pub items: Vec<Job>,
    /// What to send as `cursor` for the next page; null at the end. Only null means that there is no more.
    pub next_cursor: Option<String>,
    /// How many the filter lets through, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

impl Job {
    /// The fields that only the answer has.
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

/// A job as it would be: the answer to `dry_run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobPlan {
    /// The job; its number is 0 if it is not there yet.
    #[serde(flatten)]
    pub job: Job,
    /// Its next fire times.
    pub next_fire_times: Vec<String>,
    /// What may be not meant so.
    pub warnings: Vec<String>,
}

/// A change of some fields: what is given replaces what was, by RFC 7396.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobPatch(pub serde_json::Map<String, serde_json::Value>);

/// Where a job's work is done.
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
    /// Its name; left out where a script is sent instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::name")]
    pub handler: String,
    /// What the handler gets when the run brings no payload: text as it is, anything else as JSON. A run that another job's
    /// end brought about fills in `${parent.run}`, `${parent.job}` and `${parent.result}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Body,
    /// Which executor has a run.
    #[serde(default = "round")]
    #[schemars(schema_with = "schema::route")]
    pub route: String,
    /// A script that is sent along instead of naming a handler. Refused unless the node allows scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glue: Option<Glue>,
    /// What becomes of runs that meet: serial, discard, cover, concurrent, or `concurrent(n)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::block")]
    pub block: Option<String>,
    /// The n of `concurrent(n)`, in a field of its own.
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
    /// The whole address.
    #[schemars(length(min = 1, max = 8192))]
    pub url: String,
    /// Beyond those that we add. Values whose names speak of keys, tokens, passwords and the like are shown as `…`.
    #[serde(default)]
    #[schemars(schema_with = "schema::headers")]
    pub headers: BTreeMap<String, String>,
    /// What is sent when the run brings no payload: text as it is, anything else as JSON. Texts may hold `${run.id}`,
    /// `${run.fire_time}`, `${run.attempt}`, `${job.id}`, `${job.name}`, `${job.app}`, and `${parent.run}`, `${parent.job}` and
    /// `${parent.result}` of the run whose end brought this one about.
    #[serde(default)]
    pub body: Body,
    /// Answers that count as success; any 2xx if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(range(min = 200, max = 599)))]
    pub success_codes: Vec<u16>,
    /// Whether up to three redirects are followed.
    #[serde(default, skip_serializing_if = "is_not")]
    pub follow_redirects: bool,
    /// What requests are signed with: `whsec_` and base64 of 24 to 64 bytes. Shown as `whsec_…` when it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret")]
    pub signing_secret: Option<String>,
    /// What becomes of runs that meet: serial, discard, cover, concurrent, or `concurrent(n)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::block")]
    pub block: Option<String>,
    /// The n of `concurrent(n)`, in a field of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<u32>,
}

/// Any JSON.
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

/// What becomes of missed instants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Misfire {
    /// Which of them run.
    #[serde(default)]
    pub policy: MisfirePolicy,
    /// How late a run may be before it counts as missed.
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

/// Which of the missed instants run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MisfirePolicy {
    /// None.
    Skip,
    /// The latest.
    #[default]
    FireOnce,
    /// All, up to 1,000.
    FireAll,
}

/// How often a run is tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// The first one included.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_attempts: u32,
    /// How long after the first failure.
    pub initial_delay: Span,
    /// How much longer after each further one.
    #[schemars(range(min = 1, max = 1000))]
    pub multiplier: f64,
    /// But never longer than this.
    pub max_delay: Span,
}

impl Default for Retry {
    fn default() -> Retry {
        let seconds = |seconds| Span(std::time::Duration::from_secs(seconds));
        Retry { max_attempts: 3, initial_delay: seconds(1), multiplier: 2.0, max_delay: seconds(30) }
    }
}

/// How often an attempt may arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Once or more: what may have been lost is sent again.
    #[default]
    AtLeastOnce,
    /// Once or not at all: what may have arrived is never sent again.
    AtMostOnce,
}

/// Hours of some days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Such as `mon-fri`; every day if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<String>,
    /// Such as `09:00-17:00`; the whole day if not said.
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
    /// The zone's IANA name; the schedule's if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What becomes of instants outside: `skip` or `defer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::outside")]
    pub outside: Option<String>,
}

/// Another job whose end starts this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct After {
    /// `app/name`, or a number.
    #[schemars(schema_with = "schema::job")]
    pub job: serde_json::Value,
    /// Which of its ends count.
    #[serde(default)]
    pub when: When,
}

/// Which ends count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// It succeeded.
    #[default]
    Succeeded,
    /// It failed, or nobody knows.
    Failed,
    /// It ended, whatever the outcome.
    Ended,
}

/// One version of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// The version it came with.
    pub version: u64,
    /// When.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Who asked for it.
    pub by: String,
    /// What it was.
    pub job: JobDraft,
}

/// What has become of a job's runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStats {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped.
    pub not_run: u64,
    /// Failed ones since the last success.
    pub consecutive_failures: u32,
    /// How the last run ended.
    pub last_status: Option<String>,
    /// When a run last succeeded.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_success: Option<String>,
}

/// What a run that is started by hand brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunNow {
    /// Any JSON.
    pub payload: Option<serde_json::Value>,
    /// The fire time that it is told; now if not said.
    #[schemars(schema_with = "schema::maybe_time")]
    pub fire_time: Option<String>,
    /// The address of the one executor that is to have it; whichever the job's route names if not said. If it is not there,
    /// the run waits for it as for any executor.
    #[schemars(length(min = 1, max = 1024))]
    pub executor: Option<String>,
}

/// What a backfill did, or would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backfilled {
    /// How many instants the range names.
    pub count: u64,
    /// The first 1,000 of them.
    pub fire_times: Vec<String>,
    /// How many runs were made; the others were there.
    pub created: u64,
}

/// A job that is to be made: a [`JobDraft`], and fields of a [`Job`] that are not looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewJob(pub serde_json::Map<String, serde_json::Value>);

/// A job whose app and name stand in the path, so that the body need not repeat them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobByName(pub serde_json::Map<String, serde_json::Value>);

/// The versions of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revisions {
    /// Oldest first.
    pub items: Vec<Revision>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}
