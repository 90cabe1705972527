//! What is kept beside runs, for people: what attempts wrote, and what came of kills. The engine never asks for it.

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{Attempt, RunId, Text};

use super::store::StoreError;

/// What an attempt wrote, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptLog {
    /// The lines, each with its end.
    pub text: String,
    /// The number of the line after the last kept one; the first has 1.
    pub next_line: u64,
    /// Whether nothing more will come: the attempt has ended and everything was fetched, or there was no room for more.
    pub is_complete: bool,
}

/// A wish to end an attempt, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillNote {
    /// The attempt.
    pub attempt: Attempt,
    /// When it was asked for, or answered.
    pub at: Timestamp,
    /// Whether the executor said that it obeyed; none while it has not answered.
    pub is_confirmed: Option<bool>,
    /// What it said.
    pub said: Text,
}

/// Keeping what attempts wrote. It goes with the day of its run.
#[async_trait]
pub trait Logs: Send + Sync {
    /// What was kept of an attempt.
    async fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, StoreError>;

    /// Keeps what an attempt wrote, in place of what was kept of it.
    async fn keep_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> Result<(), StoreError>;

    /// Notes a wish to end an attempt, in place of an earlier note about the same attempt.
    async fn note_kill(&self, run: RunId, note: KillNote) -> Result<(), StoreError>;

    /// The notes about a run, by attempt.
    async fn kills(&self, run: RunId) -> Result<Vec<KillNote>, StoreError>;
}
