//! Statistics: past runs and forecasts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What happened in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Past {
    /// The beginning of the interval.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped, and fire times that were missed and not caught up.
    pub not_run: u64,
    /// Attempts that were sent.
    pub sent: u64,
    /// First attempts that were sent a second or more after the due time.
    pub late: u64,
    /// Median lateness of first attempts; null if there were none.
    pub lag_p50_ms: Option<u64>,
    /// 99th percentile of the lateness of first attempts.
    pub lag_p99_ms: Option<u64>,
    /// Greatest lateness of a first attempt.
    pub lag_max_ms: Option<u64>,
}

/// Runs of the last hours, as counted by the living nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The length of an interval.
    pub step_ms: u64,
    /// Since when all nodes that answered have counted; null if nothing happened yet.
    #[schemars(schema_with = "schema::maybe_time")]
    pub since: Option<String>,
    /// The name of the answering node.
    pub node: String,
    /// Number of living nodes.
    pub nodes: u64,
    /// Names of the nodes that did not answer within a second; their runs are not counted here.
    pub missing: Vec<String>,
    /// All intervals, oldest first; the last one is the current one.
    pub buckets: Vec<Past>,
}

/// The runs due in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Due {
    /// The beginning of the interval.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Number of runs due in it.
    pub count: u64,
}

/// A job that fires in a given second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DueJob {
    /// Its number.
    pub id: u32,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
    /// Number of its fire times in that second.
    pub count: u64,
}

/// One of the busiest seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Busy {
    /// The second.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Number of runs due in it.
    pub count: u64,
    /// Some of the jobs that fire in it.
    pub jobs: Vec<DueJob>,
}

/// The stored one-shots of one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingDay {
    /// The day, as a date in UTC.
    pub day: String,
    /// Number of one-shots stored for that day that have not ended.
    pub count: u64,
}

/// A forecast of the next hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// The length of an interval.
    pub step_ms: u64,
    /// The beginning of the forecast.
    #[schemars(schema_with = "schema::time")]
    pub from: String,
    /// The end of the forecast.
    #[schemars(schema_with = "schema::time")]
    pub until: String,
    /// When it was computed; it is cached for some seconds.
    #[schemars(schema_with = "schema::time")]
    pub made_at: String,
    /// Number of jobs whose schedules were evaluated.
    pub jobs: u64,
    /// Whether the time budget ran out before all schedules were evaluated.
    pub is_partial: bool,
    /// Intervals in which enabled jobs fire.
    pub buckets: Vec<Due>,
    /// The seconds in which most runs are due, busiest first.
    pub busiest: Vec<Busy>,
    /// Waiting one-shots by day. Stores count them by day, so they are not part of the intervals. Only for tokens that reach
    /// all apps.
    pub waiting: Vec<WaitingDay>,
}
