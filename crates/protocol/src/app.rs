//! Apps and their executors, as callers write them and as the API shows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::span::Span;

/// An app as callers write it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppDraft {
    /// A title for people.
    #[serde(default)]
    #[schemars(schema_with = "schema::prose")]
    pub title: String,
    /// `auto` if executors register themselves, or the addresses of its executors in the order in which routes choose.
    #[serde(default)]
    pub addresses: Addresses,
    /// The access token that nodes and executors of this app show each other, in place of the token for all apps. Never
    /// shown: `…` stands for a token that is set. Leave it out to keep it; null removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::access_token")]
    pub access_token: Option<String>,
    /// How long finished runs are kept after their day, at least `1h`; null for the node's own setting. Leave it out to keep
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
}

/// How the addresses of an app's executors are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Addresses {
    /// Executors register themselves: the word `auto`.
    Auto(Auto),
    /// A list written by people.
    Listed(Vec<String>),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// The word.
    #[default]
    Auto,
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses::Auto(Auto::Auto)
    }
}

/// An app as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct App {
    /// Its name.
    #[schemars(schema_with = "schema::app")]
    pub name: String,
    /// A title for people.
    pub title: String,
    /// `auto` if executors register themselves, or their addresses.
    pub addresses: Addresses,
    /// `…` if the app has an access token of its own.
    pub access_token: Option<String>,
    /// How long finished runs are kept after their day; null for the node's own setting.
    pub retention: Option<Span>,
    /// Whether the app is paused: its jobs are stopped until it is resumed.
    pub paused: bool,
    /// Since when it is paused.
    #[schemars(schema_with = "schema::maybe_time")]
    pub paused_since: Option<String>,
    /// The name of the token that paused it.
    pub paused_by: Option<String>,
    /// The reason that was given for the pause.
    pub paused_reason: Option<String>,
    /// Number of known executors.
    pub executors: u64,
    /// Number of executors that may be sent runs now.
    pub routable: u64,
    /// The version; grows with every change and is the ETag.
    pub version: u64,
}

impl App {
    /// The read-only fields.
    pub const READ_ONLY: [&'static str; 8] =
        ["name", "paused", "paused_since", "paused_by", "paused_reason", "executors", "routable", "version"];
}

/// The reason for a pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AppPause {
    /// The reason, for people.
    #[schemars(schema_with = "schema::maybe_prose")]
    pub reason: Option<String>,
}

/// The result of pausing or resuming an app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppPaused {
    /// Whether the app is paused now.
    pub paused: bool,
    /// Number of jobs that this request stopped or started.
    pub jobs: u64,
    /// Number of jobs that could not be started, such as those with a definition that is no longer valid.
    pub refused: u64,
}

/// An app to create or replace: an [`AppDraft`]. Read-only fields of an [`App`] are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PutApp(pub serde_json::Map<String, serde_json::Value>);

/// All apps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Apps {
    /// By name.
    pub items: Vec<App>,
}

/// An executor as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppExecutor {
    /// Its address, exactly as it was registered or listed.
    pub address: String,
    /// The protocol that it speaks.
    pub dialect: ExecutorDialect,
    /// When its last beat was received; null if it never registered.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_beat: Option<String>,
    /// Whether it may be sent runs now.
    pub routable: bool,
    /// Whether it is registered and does not answer probes.
    pub suspect: bool,
    /// Attempts that the answering node has in flight there.
    pub in_flight: u64,
    /// The handlers that it offers; null if it has no session with the answering node, or takes any handler.
    pub handlers: Option<Vec<String>>,
}

/// The protocol that an executor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorDialect {
    /// XXL-JOB up to 3.4.
    Classic,
    /// XXL-JOB from 3.5 on.
    Trigger,
    /// Orth.
    Orth,
    /// Punctual's native protocol.
    Native,
}

/// The executors of an app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppExecutors {
    /// The executors, in the order in which routes choose.
    pub items: Vec<AppExecutor>,
}
