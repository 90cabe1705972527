//! Scripts that travel with their runs. XXL-JOB calls them GLUE.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A script that is sent along instead of naming a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Glue {
    /// What runs it.
    #[schemars(schema_with = "schema::glue_kind")]
    pub kind: String,
    /// Its text.
    #[schemars(schema_with = "schema::source")]
    pub source: String,
    /// What its author says about this version: 4 to 100 characters, or nothing.
    #[serde(default)]
    #[schemars(schema_with = "schema::remark")]
    pub remark: String,
    /// When kind or source last changed. Not looked at when it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_time")]
    pub changed_at: Option<String>,
}

/// One version of a job's script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlueVersion {
    /// The version of the job that it came with.
    pub version: u64,
    /// What runs it.
    pub kind: String,
    /// What its author says about it.
    pub remark: String,
    /// When it came.
    #[schemars(schema_with = "schema::time")]
    pub at: String,
    /// Who asked for it.
    pub by: String,
    /// Its text.
    pub source: String,
}

/// The versions of a job's script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GlueVersions {
    /// The newest first, at most 30.
    pub items: Vec<GlueVersion>,
}

/// A version of a script that is to be current again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlueRollback {
    /// The version of the job that the script came with.
    #[schemars(range(min = 1))]
    pub version: u64,
    /// What to say about it; that it is a rollback if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::maybe_remark")]
    pub remark: Option<String>,
}
