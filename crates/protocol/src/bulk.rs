//! Actions over many jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    /// Lets it fire by itself.
    Start,
    /// Stops it from firing by itself.
    Stop,
    /// Runs it now.
    Run,
    /// Deletes it.
    Delete,
}

/// Which jobs; all that are not deleted if nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkJobFilter {
    /// Of this app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// With this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Whose name or description contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Enabled ones, or stopped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Those whose last run failed.
    #[serde(default)]
    pub failing: bool,
    /// Those that stopped without a person's wish.
    #[serde(default)]
    pub stopped: bool,
}

/// One action over many jobs: either `ids` or `filter` says which.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkAsked {
    /// What is done to each.
    pub action: BulkAction,
    /// These jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10_000))]
    pub ids: Option<Vec<u32>>,
    /// Those that the filter lets through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<BulkJobFilter>,
    /// Only counts them and names some.
    #[serde(default)]
    pub dry_run: bool,
    /// How many it should be; refused if it is another number by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<u64>,
}

/// A job by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkJob {
    /// Its number.
    pub id: u32,
    /// Its app.
    pub app: String,
    /// Its name.
    pub name: String,
}

/// What an action would be done to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkPreview {
    /// How many jobs.
    pub matched: u64,
    /// Some of them.
    pub sample: Vec<BulkJob>,
}

/// Where an action over many jobs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkState {
    /// It goes on.
    Running,
    /// Every job was dealt with.
    Done,
    /// Somebody stopped it before that.
    Stopped,
    /// The store did not answer, so the rest was left as it was.
    Failed,
}

/// A job that was left as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRefusal {
    /// Which.
    #[serde(flatten)]
    pub job: BulkJob,
    /// Why.
    pub reason: String,
}

/// An action over many jobs and how far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bulk {
    /// Its number, on the node that carries it out.
    pub id: u64,
    /// What is done to each.
    pub action: BulkAction,
    /// Where it stands.
    pub state: BulkState,
    /// How many jobs it is about.
    pub matched: u64,
    /// How many were dealt with, refused ones among them.
    pub done: u64,
    /// How many were left as they were.
    pub refused_count: u64,
    /// The first of those.
    pub refused: Vec<BulkRefusal>,
    /// Why it ended before all were dealt with.
    pub reason: Option<String>,
    /// Who asked for it.
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
    /// The newest first.
    pub items: Vec<Bulk>,
}
