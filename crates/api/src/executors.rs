//! The way from the front door to executors and the apps that they belong to. The house behind it knows the node and
//! those who speak to executors; the front door knows only this.

use std::sync::Arc;

use async_trait::async_trait;
use calendar::Timestamp;
use hyper::upgrade::Upgraded;
use punctual_core::model::{Attempt, LogId, RunId};
use punctual_node::ports::{Address, AppRow, Beat};
use punctual_node::{AccessTokens, AppView, Callback, DeskError};

/// A piece of what an attempt wrote, as its executor tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, each with its end.
    pub text: String,
    /// The line to ask for next, from 1.
    pub next: u64,
    /// Whether the executor says that nothing more will come. Many never do.
    pub is_end: bool,
}

/// Whether a caller may speak for an app.
pub type MayReport<'a> = &'a (dyn Fn(&str) -> bool + Sync);

/// What somebody showed who opens a session.
#[async_trait]
pub trait Pass: Send + Sync {
    /// Whether it lets in executors of an app, now; or why nobody can say.
    async fn opens(&self, app: &str) -> Result<bool, String>;

    /// Whether it is what another node of this cluster shows, which carries for executors.
    fn is_peer(&self) -> bool;
}

/// Apps, their executors, and what those say.
#[async_trait]
pub trait Executors: Send + Sync {
    /// All apps, by name.
    fn apps(&self) -> Vec<AppView>;

    /// One of them.
    fn app(&self, name: &str) -> Option<AppView>;

    /// The tokens of those apps that have one of their own. While nobody can say, nobody is let in.
    async fn access_tokens(&self) -> Result<Arc<AccessTokens>, DeskError>;

    /// Creates or replaces an app, if it has this version (0: it must not be there; none: whatever it is). Its version
    /// from now on.
    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, DeskError>;

    /// Forgets an app with its executors; whether it was there.
    async fn remove_app(&self, name: &str) -> Result<bool, DeskError>;

    /// What is wrong with the address of an executor: it is none, or not one that this node calls.
    fn check_address(&self, address: &str) -> Result<(), String>;

    /// Whether an executor that shows a token may have this address. It may be in a private network, where executors are.
    fn check_registered(&self, address: &str) -> Result<(), String>;

    /// An executor is there. Answers when that is kept.
    async fn beat(&self, beat: Beat) -> Result<(), DeskError>;

    /// An executor goes; whether it was known.
    async fn leave(&self, app: &str, address: &str) -> Result<bool, DeskError>;

    /// Somebody was not let in as an executor: tells it, and counts it.
    fn tell_refused(&self, app: &str, address: &str, reason: &str);

    /// Executors say how attempts ended. Answers when all of them that are known, and that `may` be reported, are kept.
    async fn call_back(&self, callbacks: Vec<Callback>, may: MayReport<'_>) -> Result<(), DeskError>;

    /// What an attempt wrote, from a line on; or why its executor does not tell.
    async fn log(
        &self,
        address: &Address,
        log: LogId,
        sent_at: Timestamp,
        from: u64,
    ) -> Result<LogPage, String>;

    /// Whether another session with a native executor can be opened.
    fn has_room(&self) -> bool;

    /// Speaks with a native executor over a WebSocket, until one side ends it.
    fn attend(&self, socket: Upgraded, pass: Arc<dyn Pass>);

    /// What an attempt at a native executor has written so far, from a line on, and the number of the next line; none if
    /// nothing is known of it here.
    fn running_log(&self, run: RunId, attempt: Attempt, from: u64) -> Option<(String, u64)>;
}
