//! The log for operators: the events that are worth a line; all others are only counted.
//!
//! Executors, and callers without a token, can cause some events as often as they like, and an outage or a clock that is set
//! causes others for every job. Each kind of event has a budget of lines a minute, per app where the app is known to be the
//! sender's. The log says when a budget is used up, and later how many lines were dropped.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_core::event::Event;
use punctual_core::registry::ChangeKind;
use tokio::time::Instant;

/// The most lines of one kind and app in one window.
const LINES_MAX: u32 = 20;

const WINDOW: Duration = Duration::from_secs(60);

/// How many budgets are kept at once. Apps beyond them share one.
const BUDGETS_MAX: usize = 1_000;

/// Writes events to the log.
#[derive(Default)]
pub(crate) struct OperatorLog {
    budgets: Mutex<BTreeMap<FloodKey, Budget>>,
}

/// The kind of an event, and the app it names.
type FloodKey = (&'static str, String);

struct Budget {
    since: Instant,
    lines: u32,
    left_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// The line is written; this many were dropped before it.
    Write {
        left_out: u64,
    },
    /// The line is written, and it is the last one of this window.
    WriteLast,
    LeaveOut,
}

impl OperatorLog {
    pub(crate) fn take(&self, event: &Event, now: Instant) {
        let Some((kind, app)) = kind_of_flood(event) else { return tell(event) };
        match self.admit(kind, app, now) {
            Admission::LeaveOut => {}
            Admission::Write { left_out } => {
                if left_out > 0 {
                    tracing::warn!(kind, app, left_out, "lines of this kind were left out of the log");
                }
                tell(event);
            }
            Admission::WriteLast => {
                tell(event);
                tracing::warn!(
                    kind,
                    app,
                    "more lines of this kind are left out of the log for a minute; the metrics count them"
                );
            }
        }
    }

    fn admit(&self, kind: &'static str, app: &str, now: Instant) -> Admission {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (kind, app.to_owned());
        if budgets.len() >= BUDGETS_MAX && !budgets.contains_key(&key) {
            budgets.retain(|_, budget| now.duration_since(budget.since) < WINDOW);
            if budgets.len() >= BUDGETS_MAX {
                key.1.clear();
            }
        }
        let budget = budgets.entry(key).or_insert(Budget { since: now, lines: 0, left_out: 0 });
        let mut left_out = 0;
        if now.duration_since(budget.since) >= WINDOW {
            left_out = budget.left_out;
            *budget = Budget { since: now, lines: 0, left_out: 0 };
        }
        budget.lines = budget.lines.saturating_add(1);
        if budget.lines > LINES_MAX {
            budget.left_out += 1;
            return Admission::LeaveOut;
        }
        if budget.lines == LINES_MAX { Admission::WriteLast } else { Admission::Write { left_out } }
    }
}

/// The kind of an event that is worth a line, and its app where it is the app that causes it. Only lines for debugging have
/// no budget.
fn kind_of_flood(event: &Event) -> Option<(&'static str, &str)> {
    match event {
        // An unauthenticated caller chooses the app that it names, so all of these share a budget.
        Event::RegistrationRefused { .. } => Some(("registration refused", "")),
        Event::Overreached { app, .. } => Some(("overreach", app)),
        Event::ReportRefused { .. } | Event::ReportsRefused { .. } => Some(("report refused", "")),
        Event::Executor { app, .. } => Some(("executor", app)),
        Event::RegistryCrowded { .. } => Some(("crowd", "")),
        Event::ArrivalsRefused { .. } => Some(("arrivals refused", "")),
        Event::KillAnswered { .. } => Some(("kill", "")),
        Event::JobStopped { .. } => Some(("job stopped", "")),
        Event::Missed { .. } => Some(("fire times passed over", "")),
        Event::ClockStepped { .. } => Some(("clock set", "")),
        Event::StoreFailed { .. } => Some(("store failed", "")),
        Event::MemoryDiscarded => Some(("memory discarded", "")),
        _ => None,
    }
}

fn tell(event: &Event) {
    match event {
        Event::JobStopped { job, reason } => tracing::info!(%job, %reason, "a job stopped"),
        Event::Missed { job, from, until, count, reason } => {
            tracing::warn!(%job, %from, %until, count, %reason, "fire times were passed over");
        }
        Event::Executor { app, address, what } => told_of_executor(app, address, *what),
        Event::RegistrationRefused { app, address, reason } => {
            tracing::warn!(%app, %address, %reason, "an executor was not let in");
        }
        Event::Overreached { app, address, count, reason } => {
            tracing::warn!(%app, %address, count, %reason, "an executor spoke of runs that are not its own; nothing came of it");
        }
        Event::ReportRefused { log, reason } => {
            tracing::warn!(log = log.0, %reason, "a result was not taken");
        }
        Event::ReportsRefused { count, first, reason } => {
            tracing::warn!(count, first = first.0, %reason, "results of one message were not taken");
        }
        Event::RegistryCrowded { count } => tracing::warn!(count, "there are too many executors"),
        Event::MemoryDiscarded => {
            tracing::error!(
                "a bug was met while the engine's memory was being changed; it is read again from the store"
            );
        }
        Event::ArrivalsRefused { count, reason } => {
            tracing::warn!(count, %reason, "applications left what cannot be run: look for `refused` in the table `arrivals`");
        }
        Event::KillAnswered { run, attempt, is_confirmed: false, said } => {
            tracing::warn!(%run, %attempt, %said, "an executor did not end an attempt");
        }
        Event::ClockStepped { millis } => tracing::warn!(millis, "the clock was set"),
        Event::StoreFailed { step, reason } => {
            tracing::error!(step, %reason, "the store did not do what it was asked");
        }
        Event::ShardTaken { shard, epoch } => tracing::debug!(%shard, %epoch, "took a shard"),
        Event::ShardLeft { shard } => tracing::debug!(%shard, "left a shard"),
        _ => {}
    }
}

fn told_of_executor(app: &str, address: &str, what: ChangeKind) {
    let name = what.name();
    match what {
        ChangeKind::Died | ChangeKind::Suspected => {
            tracing::warn!(app, address, what = name, "an executor is not there");
        }
        ChangeKind::Missed => tracing::debug!(app, address, "a beat of an executor did not come"),
        _ => tracing::info!(app, address, what = name, "an executor came or went"),
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::model::{JobId, Skip, StoppedReason};

    use super::*;
    use crate::clock;

    fn written(log: &OperatorLog, app: &str, times: u32, now: Instant) -> usize {
        let is_written = |_: &u32| log.admit("overreach", app, now) != Admission::LeaveOut;
        (0..times).filter(is_written).count()
    }

    #[test]
    fn a_flood_of_one_app_writes_no_more_lines_than_its_budget_and_takes_none_of_another() {
        let (log, now) = (OperatorLog::default(), clock::instant());
        assert_eq!(written(&log, "loud", 10_000, now), LINES_MAX as usize);
        assert_eq!(written(&log, "calm", 3, now), 3);
    }

    #[test]
    fn strangers_that_name_ever_new_apps_share_one_budget() {
        let refused = |app: &str| Event::RegistrationRefused {
            app: app.to_owned().into(),
            address: "http://127.0.0.1:1".into(),
            reason: "wrong token".into(),
        };
        assert_eq!(kind_of_flood(&refused("one")), kind_of_flood(&refused("two")));
    }

    #[test]
    fn what_an_outage_or_a_clock_causes_for_every_job_has_a_budget_too() {
        let (job, at) = (JobId(7), calendar::Timestamp::MIN);
        for event in [
            Event::JobStopped { job, reason: StoppedReason::Finished },
            Event::Missed { job, from: at, until: at, count: 1, reason: Skip::Misfire },
            Event::ClockStepped { millis: 7 },
            Event::StoreFailed { step: "fire", reason: "gone".into() },
            Event::MemoryDiscarded,
        ] {
            assert!(kind_of_flood(&event).is_some(), "{event:?}");
        }
    }

    #[test]
    fn the_first_line_of_the_next_window_says_how_many_were_left_out() {
        let (log, now) = (OperatorLog::default(), clock::instant());
        assert_eq!(log.admit("overreach", "a", now), Admission::Write { left_out: 0 });
        written(&log, "a", LINES_MAX - 2, now);
        assert_eq!(log.admit("overreach", "a", now), Admission::WriteLast);
        written(&log, "a", 7, now);
        assert_eq!(log.admit("overreach", "a", now + WINDOW), Admission::Write { left_out: 7 });
        assert_eq!(log.admit("overreach", "a", now + WINDOW), Admission::Write { left_out: 0 });
    }

    #[test]
    fn apps_without_end_share_one_budget_and_take_no_memory() {
        let (log, now) = (OperatorLog::default(), clock::instant());
        let apps = (0..BUDGETS_MAX + 500).map(|number| format!("app-{number}"));
        let lines: usize = apps.map(|app| written(&log, &app, 1, now)).sum();
        assert_eq!(lines, BUDGETS_MAX + LINES_MAX as usize);
        assert!(log.budgets.lock().unwrap().len() <= BUDGETS_MAX + 1);
    }
}
