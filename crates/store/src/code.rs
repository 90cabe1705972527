//! The small numbers that stand for words in rows, the same in every database. They are in databases, so a number is never
//! given a new meaning.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    AttemptOutcome, Decided, JobId, JobState, Origin, Outcome, RunId, StoppedReason, Text, When,
};
use punctual_node::ports::{ArrivalKind, Paused};
use serde_json::{Value, json};

macro_rules! code {
    ($to:ident, $from:ident, $type:ident, $($value:ident = $code:literal),+ $(,)?) => {
        pub(crate) fn $to(value: $type) -> i64 {
            match value {
                $($type::$value => $code,)+
            }
        }

        pub(crate) fn $from(code: i64) -> Option<$type> {
            match code {
                $($code => Some($type::$value),)+
                _ => None,
            }
        }
    };
}

// The partial index of a day's runs names 0 and 3.
code!(
    origin_code,
    origin_from,
    Origin,
    Schedule = 0,
    Manual = 1,
    OneShot = 2,
    Backfill = 3,
    Retry = 4,
    Parent = 5,
    Part = 6
);
code!(decided_code, decided_from, Decided, NotYet = 0, OnTime = 1, Late = 2, CaughtUp = 3, PassedOver = 4);
code!(outcome_code, outcome_from, Outcome, Succeeded = 0, Failed = 1, Lost = 2, Cancelled = 3, Skipped = 4);
code!(
    attempt_outcome_code,
    attempt_outcome_from,
    AttemptOutcome,
    Succeeded = 0,
    Failed = 1,
    TimedOut = 2,
    Refused = 3,
    Lost = 4,
    Cancelled = 5
);
code!(when_code, when_from, When, Succeeded = 0, Failed = 1, Ended = 2);

/// How long an app keeps its runs, in milliseconds.
pub(crate) fn retention_code(kept: Duration) -> i64 {
    i64::try_from(kept.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn retention_from(kept: i64) -> Duration {
    Duration::from_millis(u64::try_from(kept).unwrap_or(0))
}

/// That an app is paused, as the JSON text that it is kept as.
pub(crate) fn paused_code(paused: &Paused) -> String {
    let Paused { since, by, reason } = paused;
    json!({"since": since.as_millis(), "by": by, "reason": reason}).to_string()
}

/// What [`paused_code`] wrote. A text that is not readable still says that the app is paused.
pub(crate) fn paused_from(text: &str) -> Paused {
    let form: Value = serde_json::from_str(text).unwrap_or_default();
    let said = |field: &str| Text::from(form[field].as_str().unwrap_or_default().to_owned());
    Paused {
        since: Timestamp::from_millis(form["since"].as_i64().unwrap_or_default()),
        by: said("by"),
        reason: said("reason"),
    }
}

/// The number of a deleted job's state.
pub(crate) const DELETED: i64 = 2;

/// A state as a number, with the reason as text.
pub(crate) fn state_code(state: &JobState) -> (i64, String) {
    match state {
        JobState::Enabled => (0, String::new()),
        JobState::Stopped(reason) => (1, reason.to_string()),
        JobState::Deleted => (DELETED, String::new()),
    }
}

pub(crate) fn state_from(code: i64, reason: &str) -> Option<JobState> {
    match code {
        0 => Some(JobState::Enabled),
        1 => Some(JobState::Stopped(StoppedReason::from_text(reason))),
        DELETED => Some(JobState::Deleted),
        _ => None,
    }
}

/// A message for the holder of a shard: its kind, the run or job that it is about, and an instant.
pub(crate) fn arrival_code(kind: ArrivalKind) -> (i64, RunId, i64) {
    match kind {
        ArrivalKind::Run(run) => (0, run, 0),
        ArrivalKind::Cancel(run) => (1, run, 0),
        ArrivalKind::Reschedule(run, at) => (2, run, at.as_millis()),
        ArrivalKind::Deleted(job) => (3, RunId(u64::from(job.0)), 0),
    }
}

pub(crate) fn arrival_from(code: i64, about: RunId, at: i64) -> Option<ArrivalKind> {
    match code {
        0 => Some(ArrivalKind::Run(about)),
        1 => Some(ArrivalKind::Cancel(about)),
        2 => Some(ArrivalKind::Reschedule(about, Timestamp::from_millis(at))),
        3 => u32::try_from(about.0).ok().map(|job| ArrivalKind::Deleted(JobId(job))),
        _ => None,
    }
}
