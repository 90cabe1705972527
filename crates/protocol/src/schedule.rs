//! Schedules, and questions about them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Span, schema};

/// When a job fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Wall times in a zone.
    Cron {
        /// Five fields, or six with seconds, or a nickname such as `@daily`.
        #[schemars(length(min = 1, max = 1024))]
        expression: String,
        /// How weekdays and odd signs are read.
        #[serde(default)]
        dialect: Dialect,
        /// The zone's IANA name.
        #[serde(default = "utc")]
        zone: String,
        /// What becomes of wall times that the clock jumps over.
        #[serde(default)]
        gap: Gap,
        /// What becomes of wall times that happen twice.
        #[serde(default)]
        overlap: Overlap,
        /// No instant before this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No instant after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// A fixed rate.
    Every {
        /// From one instant to the next; at least 10ms.
        interval: Span,
        /// One of the instants; when the job was made if not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        anchor: Option<String>,
        /// No instant before this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No instant after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// A fixed delay after the end of the last run.
    #[serde(alias = "after")]
    Delay {
        /// From the end to the next fire time.
        #[serde(alias = "after")]
        delay: Span,
        /// No instant before this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No instant after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// One instant.
    Once {
        /// That instant; one that is past means now.
        #[schemars(schema_with = "schema::time")]
        at: String,
        /// No instant before this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No instant after this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// None: people and programs start it.
    Manual {
        /// Means nothing here, and is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// Means nothing here, and is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
}

fn utc() -> String {
    "UTC".into()
}

/// How a cron expression is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// 1 is Monday.
    #[default]
    Unix,
    /// 1 is Sunday.
    Quartz,
}

/// What becomes of wall times that the clock jumps over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Fixed times run when the gap ends, recurring ones are skipped.
    #[default]
    Default,
    /// They are skipped.
    Skip,
    /// They run when the gap ends.
    Shift,
}

/// What becomes of wall times that happen twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Fixed times run the first time, recurring ones both times.
    #[default]
    Default,
    /// The first time.
    First,
    /// The second time.
    Last,
    /// Both times.
    Both,
}

/// A question about a schedule that need not belong to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewAsked {
    /// The schedule.
    pub schedule: Schedule,
    /// After which instant; now if not said.
    #[serde(default)]
    #[schemars(schema_with = "schema::maybe_time")]
    pub after: Option<String>,
    /// How many fire times.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub count: Option<u32>,
}

/// What a schedule means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The next fire times.
    pub fire_times: Vec<String>,
    /// The schedule as a sentence.
    pub in_words: String,
    /// What may be not meant so.
    pub warnings: Vec<String>,
}

/// Fire times of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FireTimes {
    /// In order.
    pub fire_times: Vec<String>,
}

/// A range of past fire times to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRange {
    /// The first instant of the range.
    #[schemars(schema_with = "schema::time")]
    pub from: String,
    /// The first instant behind it.
    #[schemars(schema_with = "schema::time")]
    pub to: String,
    /// Whether only to say what would be done.
    #[serde(default)]
    pub dry_run: bool,
}
