//! Figures: what has become of runs, and what is due.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What happened in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Past {
    /// When the stretch begins.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped, and fire times that were passed over.
    pub not_run: u64,
    /// Attempts that were sent.
    pub sent: u64,
    /// First attempts that were sent a second or more after they were due.
    pub late: u64,
    /// How long after they were due half of the first attempts were sent at the latest; null if there were none.
    pub lag_p50_ms: Option<u64>,
    /// The same for 99 of 100.
    pub lag_p99_ms: Option<u64>,
    /// The largest.
    pub lag_max_ms: Option<u64>,
}

/// What has become of runs in the last hours, as far as this node saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// How long a stretch is.
    pub step_ms: u64,
    /// From when on this node has counted; null if nothing happened yet.
    #[schemars(schema_with = "schema::maybe_time")]
    pub since: Option<String>,
    /// The name of this node.
    pub node: String,
    /// How many nodes live; what the others did is not counted here.
    pub nodes: u64,
    /// Every stretch, the oldest first; the last is the present one.
    pub buckets: Vec<Past>,
}

/// How much is due in a stretch of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Due {
    /// When the stretch begins.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// How many runs are due in it.
    pub count: u64,
}

/// A job that fires in a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DueJob {
    /// Its number.
    pub id: u32,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
    /// How often it fires in that second.
    pub count: u64,
}

/// One of the busiest seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Busy {
    /// The second.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// How many runs are due in it.
    pub count: u64,
    /// Some of the jobs that fire in it.
    pub jobs: Vec<DueJob>,
}

/// One-shots that wait for a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingDay {
    /// The day, as a date in UTC.
    pub day: String,
    /// How many runs that were handed over are stored for it and have not ended.
    pub count: u64,
}

/// What is due in the next hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// How long a stretch is.
    pub step_ms: u64,
    /// Its beginning.
    #[schemars(schema_with = "schema::time")]
    pub from: String,
    /// Its end.
    #[schemars(schema_with = "schema::time")]
    pub until: String,
    /// When it was made; it is told again for some seconds.
    #[schemars(schema_with = "schema::time")]
    pub made_at: String,
    /// How many jobs were asked when they fire.
    pub jobs: u64,
    /// Whether the time that a forecast may take was over before all jobs were asked.
    pub is_partial: bool,
    /// Stretches in which something is due, by the schedules of enabled jobs.
    pub buckets: Vec<Due>,
    /// The seconds in which most is due, the busiest first.
    pub busiest: Vec<Busy>,
    /// What was handed over and waits, day by day. Stores count it by day, so it is in no stretch. Only for tokens that
    /// reach all apps.
    pub waiting: Vec<WaitingDay>,
}
