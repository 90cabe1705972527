//! Actions over many jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// Start the job: it fires by its schedule.
    Start,
    /// Stop the job: it no longer fires by its schedule.
    Stop,
    /// Run the job now.
    Run,
    /// Delete the job.
    Delete,
}

/// A filter for jobs. Without a field it matches every job that is not deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkJobFilter {
    /// Jobs of this app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// Jobs with this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Jobs whose name or description contains this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Only enabled jobs, or only stopped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Jobs whose last run failed.
    #[serde(default)]
    pub failing: bool,
    /// Jobs that Punctual stopped, not a person.
    #[serde(default)]
    pub stopped: bool,
}

/// One action over many jobs, selected by either `ids` or `filter`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkAsked {
    /// The action.
    pub action: BulkAction,
    /// The jobs by number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10_000))]
    pub ids: Option<Vec<u32>>,
    /// The jobs by a filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<BulkJobFilter>,
    /// Only count the jobs and name some of them; nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
    /// The expected number of jobs. The request is refused if another number matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
}

/// A job by its number and its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkJob {
    /// Its number.
    pub id: u32,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
}

/// The jobs that an action would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkPreview {
    /// Number of jobs.
    pub matched: u64,
    /// Some of the jobs.
    pub sample: Vec<BulkJob>,
}

/// The state of an action over many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkState {
    /// In progress.
    Running,
    /// Every job was processed.
    Done,
    /// Stopped by a request before every job was processed.
    Stopped,
    /// The store did not answer; the remaining jobs were not changed.
    Failed,
}

/// A job that was not changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRefusal {
    /// The job.
    #[serde(flatten)]
    pub job: BulkJob,
    /// The reason.
    pub reason: String,
}

/// An action over many jobs and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bulk {
    /// Its number on the node that carries it out.
    pub id: u64,
    /// The action.
    pub action: BulkAction,
    /// Its state.
    pub state: BulkState,
    /// Number of jobs that were selected.
    pub matched: u64,
    /// Number of jobs processed so far, including refused ones.
    pub done: u64,
    /// Number of jobs that were not changed.
    pub refused_count: u64,
    /// The first of the jobs that were not changed.
    pub refused: Vec<BulkRefusal>,
    /// Why it ended before every job was processed.
    pub reason: Option<String>,
    /// The name of the token that asked for it.
    pub by: String,
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    pub began_at: String,
    /// When it ended.
    #[schemars(schema_with = "schema::maybe_time")]
    pub ended_at: Option<String>,
}

/// The actions that a node remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkList {
    /// The actions, newest first.
    pub items: Vec<Bulk>,
}
