//! The API's interface to apps and executors. Its implementation knows the node and the dispatch; the API knows only
//! these traits.

use std::sync::Arc;

use async_trait::async_trait;
use calendar::Timestamp;
use hyper::upgrade::Upgraded;
use punctual_core::model::{Attempt, LogId, RunId};
use punctual_node::ports::{Address, AppRow, Beat};
use punctual_node::{AccessTokens, AppView, Callback, DeskError};

/// A page of an attempt's log, as its executor gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, each with its end.
    pub text: String,
    /// The line to ask for next, from 1.
    pub next: u64,
    /// Whether the executor says that the log has ended. Many never do.
    pub is_end: bool,
}

/// Whether a caller may report for an app.
pub type MayReport<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// The credentials of an executor that opens a session.
#[async_trait]
pub trait Pass: Send + Sync {
    /// Whether it lets in executors of an app right now; or why that cannot be decided.
    async fn opens(&self, app: &str) -> Result<bool, String>;

    /// Whether it is the token of another node of this cluster, which carries for executors.
    fn is_peer(&self) -> bool;
}

/// Apps, their executors, and the messages of executors.
#[async_trait]
pub trait Executors: Send + Sync {
    /// All apps, by name.
    fn apps(&self) -> Vec<AppView>;

    /// One of them.
    fn app(&self, name: &str) -> Option<AppView>;

    /// The tokens of the apps that have one of their own. While they cannot be read, no executor is let in.
    async fn access_tokens(&self) -> Result<Arc<AccessTokens>, DeskError>;

    /// Creates or replaces an app, if it has this version (0: it must not exist; none: any version). Returns its new
    /// version.
    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, DeskError>;

    /// Deletes an app with its executors; returns whether it existed.
    async fn remove_app(&self, name: &str) -> Result<bool, DeskError>;

    /// Why an address cannot be an executor's: it is malformed, or this node may not call it.
    fn check_address(&self, address: &str) -> Result<(), String>;

    /// Whether an executor that shows a token may have this address. It may be in a private network, where executors are.
    fn check_registered(&self, address: &str) -> Result<(), String>;

    /// Takes a beat. Returns when it is stored.
    async fn beat(&self, beat: Beat) -> Result<(), DeskError>;

    /// An executor leaves; returns whether it was known.
    async fn leave(&self, app: &str, address: &str) -> Result<bool, DeskError>;

    /// A caller was refused as an executor: logs and counts it.
    fn tell_refused(&self, app: &str, address: &str, reason: &str);

    /// Executors report how attempts ended. Returns when all reports about known attempts of apps that `may` allows
    /// are stored.
    async fn call_back(&self, callbacks: Vec<Callback>, may: MayReport<'_>) -> Result<(), DeskError>;

    /// An attempt's log from a line on; or why its executor does not give it.
    async fn log(
        &self,
        address: &Address,
        log: LogId,
        sent_at: Timestamp,
        from: u64,
    ) -> Result<LogPage, String>;

    /// Whether another session with a native executor can be opened.
    fn has_room(&self) -> bool;

    /// Holds the session of a native executor over a WebSocket, until one side ends it.
    fn attend(&self, socket: Upgraded, pass: Arc<dyn Pass>);

    /// What an attempt at a native executor has written so far, from a line on, and the number of the next line; none
    /// if the attempt is not known here.
    fn running_log(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)>;
}
