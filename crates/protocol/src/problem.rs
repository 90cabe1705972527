//! Refusals as problem details (RFC 9457).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The kind of refusal, for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of refusal, for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong, why, and what to do about it.
    pub detail: String,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The number of the request, as in the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldError {
    /// A JSON pointer into the body, or `?name` for a parameter.
    pub pointer: String,
    /// What is wrong with the field, and what is expected.
    pub detail: String,
}
