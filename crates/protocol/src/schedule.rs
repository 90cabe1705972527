//! Schedules and previews of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Span, schema};

/// When a job fires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// A cron expression: wall times in a zone.
    Cron {
        /// Five fields, or six with seconds, or a nickname such as `@daily`.
        #[schemars(length(min = 1, max = 1024))]
        expression: String,
        /// The dialect: how weekdays and special characters are read.
        #[serde(default)]
        dialect: Dialect,
        /// The zone's IANA name.
        #[serde(default = "utc")]
        zone: String,
        /// What happens to wall times that the clock jumps over.
        #[serde(default)]
        gap: Gap,
        /// What happens to wall times that occur twice.
        #[serde(default)]
        overlap: Overlap,
        /// No fire time before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No fire time after this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// A fixed rate.
    Every {
        /// The time from one fire time to the next; at least 10ms.
        interval: Span,
        /// One of the fire times; the creation of the job by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        anchor: Option<String>,
        /// No fire time before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No fire time after this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// A fixed delay after the end of the last run.
    #[serde(alias = "after")]
    Delay {
        /// The time from the end of a run to the next fire time.
        #[serde(alias = "after")]
        delay: Span,
        /// No fire time before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No fire time after this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// A single fire time.
    Once {
        /// The fire time; an instant in the past means now.
        #[schemars(schema_with = "schema::time")]
        at: String,
        /// No fire time before this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// No fire time after this instant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
    /// No schedule: the job runs when a person or program starts it.
    Manual {
        /// Has no effect here, and is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        from: Option<String>,
        /// Has no effect here, and is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "schema::maybe_time")]
        until: Option<String>,
    },
}

fn utc() -> String {
    "UTC".into()
}

/// The dialect of a cron expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// As in a crontab: weekday 1 is Monday.
    #[default]
    Unix,
    /// As in Quartz and XXL-JOB: weekday 1 is Sunday.
    Quartz,
}

/// What happens to wall times that the clock jumps over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Fixed times run when the gap ends, intervals skip it.
    #[default]
    Default,
    /// Skipped.
    Skip,
    /// Run when the gap ends.
    Shift,
}

/// What happens to wall times that occur twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Fixed times run the first time, intervals both times.
    #[default]
    Default,
    /// The first time.
    First,
    /// The second time.
    Last,
    /// Both times.
    Both,
}

/// A preview of a schedule, which need not belong to a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewAsked {
    /// The schedule.
    pub schedule: Schedule,
    /// Fire times after this instant; now by default.
    #[serde(default)]
    #[schemars(schema_with = "schema::maybe_time")]
    pub after: Option<String>,
    /// Number of fire times.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub count: Option<u32>,
}

/// The preview of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The next fire times.
    pub fire_times: Vec<String>,
    /// The schedule as a sentence.
    pub in_words: String,
    /// Warnings about settings that are valid and may not be intended.
    pub warnings: Vec<String>,
}

/// Fire times of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FireTimes {
    /// The fire times in order.
    pub fire_times: Vec<String>,
}

/// A range of past fire times to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRange {
    /// The first instant of the range.
    #[schemars(schema_with = "schema::time")]
    pub from: String,
    /// The first instant after the range.
    #[schemars(schema_with = "schema::time")]
    pub to: String,
    /// Only report what would be done; nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
}
