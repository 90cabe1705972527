//! Scripts that are sent with their runs. XXL-JOB calls them GLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A script that is sent with the run, in place of a handler's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Glue {
    /// The kind of the script.
    #[schemars(schema_with = "schema::glue_kind")]
    pub kind: String,
    /// The script.
    #[schemars(schema_with = "schema::source")]
    pub source: String,
    /// The author's remark about this version: 4 to 100 characters, or none.
    #[serde(default)]
    #[schemars(schema_with = "schema::remark")]
    pub remark: String,
    /// When kind or source last changed. Ignored in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub changed_at: Option<String>,
}

/// One version of a job's script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlueVersion {
    /// The version of the job that introduced it.
    pub version: u64,
    /// The kind of the script.
    pub kind: String,
    /// The author's remark.
    pub remark: String,
    /// When it was saved.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// The name of the token that saved it, or `punctual` if a node did.
    pub by: String,
    /// The script.
    pub source: String,
}

/// The versions of a job's script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlueVersions {
    /// The versions, newest first, at most 30.
    pub items: Vec<GlueVersion>,
}

/// An earlier version of a script to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlueRollback {
    /// The version of the job that introduced the script.
    #[schemars(range(min = 1))]
    pub version: u64,
    /// A remark; by default that it is a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_remark")]
    pub remark: Option<String>,
}
