//! One try of a run, and how it ended.

use calendar::Timestamp;

use super::names::names;
use super::{Attempt, Text, Token};

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptOutcome {
    /// It did what it should.
    Succeeded,
    /// It said that it failed.
    Failed,
    /// It did not end within the job's timeout.
    TimedOut,
    /// It was certainly never taken: a refused connection, an executor that declined.
    Refused,
    /// It is not known how it ended.
    Lost,
    /// It was ended on request, or because a newer run took the place of its run.
    Cancelled,
}

names!(
    AttemptOutcome,
    "attempt outcome",
    Succeeded = "succeeded",
    Failed = "failed",
    TimedOut = "timed_out",
    Refused = "refused",
    Lost = "lost",
    Cancelled = "cancelled",
);

/// A try that has ended, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Which try.
    pub number: Attempt,
    /// The token it was sent with.
    pub token: Token,
    /// The executor or agent it went to.
    pub executor: Text,
    /// When it was sent.
    pub started_at: Timestamp,
    /// When its end was known.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What it said, or what is known of it.
    pub message: Text,
    /// Whether an earlier send of the same run may have arrived too.
    pub possible_duplicate: bool,
}

impl AttemptRecord {
    /// Whether the attempt is only supposed: the node that held the run died, and may have sent it or not.
    pub fn is_supposed(&self) -> bool {
        self.token == Token::SUPPOSED
    }
}
