//! Apps and their executors, as they are set and as they are shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::span::Span;

/// An app as people set it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppDraft {
    /// For people.
    #[serde(default)]
    #[schemars(schema_with = "schema::prose")]
    pub title: String,
    /// Where its executors are: `auto` if they register themselves, or their addresses in the order in which they are
    /// chosen from.
    #[serde(default)]
    pub addresses: Addresses,
    /// What its executors show, and are shown, instead of the token for all apps. It is never shown: `…` stands for one
    /// that is set. Left out, it stays as it is; null removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::access_token")]
    pub access_token: Option<String>,
    /// How long its finished runs are kept after their day, at least `1h`; null for as long as the node keeps others. Left
    /// out, it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Span>,
}

/// Where executors are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Addresses {
    /// Where they say themselves: the word `auto`.
    Auto(Auto),
    /// Where people say.
    Listed(Vec<String>),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auto {
    /// It.
    #[default]
    Auto,
}

impl Default for Addresses {
    fn default() -> Addresses {
        Addresses::Auto(Auto::Auto)
    }
}

/// An app as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct App {
    /// Its name.
    #[schemars(schema_with = "schema::app")]
    pub name: String,
    /// For people.
    pub title: String,
    /// Where its executors are.
    pub addresses: Addresses,
    /// `…` if it has a token of its own.
    pub access_token: Option<String>,
    /// How long its finished runs are kept after their day; null for as long as the node keeps others.
    pub retention: Option<Span>,
    /// Whether it is paused: its jobs are stopped until it is resumed.
    pub paused: bool,
    /// Since when.
    #[schemars(schema_with = "schema::maybe_time")]
    pub paused_since: Option<String>,
    /// Who asked for it.
    pub paused_by: Option<String>,
    /// Why, if they said so.
    pub paused_reason: Option<String>,
    /// How many executors of it are known.
    pub executors: u64,
    /// To how many of them runs are sent now.
    pub routable: u64,
    /// Grows with every change; the ETag.
    pub version: u64,
}

impl App {
    /// The fields that only the answer has.
    pub const READ_ONLY: [&'static str; 8] =
        ["name", "paused", "paused_since", "paused_by", "paused_reason", "executors", "routable", "version"];
}

/// Why an app is to be paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AppPause {
    /// For people.
    #[schemars(schema_with = "schema::maybe_prose")]
    pub reason: Option<String>,
}

/// What became of the jobs of an app that was paused or resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppPaused {
    /// Whether it is paused now.
    pub paused: bool,
    /// How many of its jobs were stopped, or started, by this.
    pub jobs: u64,
    /// How many could not be started, such as those whose definition makes no sense any more.
    pub refused: u64,
}

/// An app that is to be made or replaced: an [`AppDraft`], and fields of an [`App`] that are not looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PutApp(pub serde_json::Map<String, serde_json::Value>);

/// All apps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Apps {
    /// By name.
    pub items: Vec<App>,
}

/// An executor as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppExecutor {
    /// Its address, as it was said.
    pub address: String,
    /// How it speaks.
    pub dialect: ExecutorDialect,
    /// When it was last heard of; null if it never registered.
    #[schemars(schema_with = "schema::maybe_time")]
    pub last_beat: Option<String>,
    /// Whether runs are sent to it now.
    pub routable: bool,
    /// Whether it does not answer although it is registered.
    pub suspect: bool,
    /// How many attempts the asked node has there.
    pub in_flight: u64,
    /// The handlers that it offers; null if it has no session with the asked node, or takes everything.
    pub handlers: Option<Vec<String>>,
}

/// How an executor speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutorDialect {
    /// XXL-JOB up to 3.4.
    Classic,
    /// XXL-JOB from 3.5 on.
    Trigger,
    /// Orth.
    Orth,
    /// Ours.
    Native,
}

/// The executors of an app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppExecutors {
    /// In the order in which they are chosen from.
    pub items: Vec<AppExecutor>,
}
