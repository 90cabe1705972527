//! Events as they are shown to callers.

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::registry::ChangeKind;
use punctual_observe::job_of;
use serde_json::{Value, json};

/// An event's name and its data.
pub(crate) fn show(event: &Event, at: Timestamp) -> (&'static str, Value) {
    let (name, mut data) = told(event);
    data["at"] = json!(at.to_string());
    if let Some(job) = job_of(event) {
        data["job"] = json!(job.0);
    }
    (name, data)
}

fn told(event: &Event) -> (&'static str, Value) {
    match event {
        Event::JobChanged { version, .. } => ("job.changed", json!({"version": version})),
        Event::JobStopped { reason, .. } => ("job.stopped", json!({"reason": reason.to_string()})),
        Event::Missed { from, until, count, reason, .. } => {
            let (from, until) = (from.to_string(), until.to_string());
            ("job.missed", json!({"from": from, "until": until, "count": count, "reason": reason.name()}))
        }
        Event::Sent { run, attempt, lag, .. } => {
            let lag = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
            ("run.sent", json!({"run": run.0, "attempt": attempt.0, "lag_ms": lag}))
        }
        Event::Retrying { run, ready_at } => {
            ("run.retrying", json!({"run": run.0, "ready_at": ready_at.to_string()}))
        }
        Event::Closed { run, outcome, reason, .. } => {
            ("run.closed", json!({"run": run.0, "state": outcome.name(), "reason": reason}))
        }
        Event::Delayed { run, attempt, reason, .. } => {
            ("run.delayed", json!({"run": run.0, "attempt": attempt.0, "reason": reason}))
        }
        Event::LateReport { run, attempt, more } => {
            ("run.late_report", json!({"run": run.0, "attempt": attempt.0, "more": more}))
        }
        Event::ReportRefused { log, reason } => {
            ("executor.report_refused", json!({"log": log.0, "reason": reason}))
        }
        Event::Overreached { app, address, count, reason } => {
            let said = json!({"app": app, "address": address, "count": count, "reason": reason});
            ("executor.overreached", said)
        }
        Event::ReportsRefused { count, first, reason } => {
            ("executor.report_refused", json!({"log": first.0, "count": count, "reason": reason}))
        }
        Event::Executor { app, address, what } => {
            (happened_to(*what), json!({"app": app, "address": address}))
        }
        Event::RegistrationRefused { app, address, reason } => {
            ("executor.refused", json!({"app": app, "address": address, "reason": reason}))
        }
        Event::RegistryCrowded { count } => ("executor.crowded", json!({"count": count})),
        Event::MemoryDiscarded => ("node.memory_discarded", json!({})),
        Event::ArrivalsRefused { count, reason } => {
            ("arrivals.refused", json!({"count": count, "reason": reason}))
        }
        Event::Progress { run, attempt, percent, note, .. } => {
            let said = json!({"run": run.0, "attempt": attempt.0, "percent": percent, "note": note});
            ("run.progress", said)
        }
        Event::KillAsked { run, attempt, .. } => {
            ("run.kill_asked", json!({"run": run.0, "attempt": attempt.0}))
        }
        Event::KillAnswered { run, attempt, is_confirmed, said } => {
            let state = if *is_confirmed { "confirmed" } else { "refused" };
            ("run.kill_answered", json!({"run": run.0, "attempt": attempt.0, "state": state, "said": said}))
        }
        Event::ShardTaken { shard, epoch } => {
            ("node.shard_taken", json!({"shard": shard.0, "epoch": epoch.0}))
        }
        Event::ShardLeft { shard } => ("node.shard_left", json!({"shard": shard.0})),
        Event::ClockStepped { millis } => ("node.clock_stepped", json!({"millis": millis})),
        Event::StoreFailed { step, reason } => ("node.store_failed", json!({"step": step, "reason": reason})),
    }
}

/// Clients match these names, so they are spelled out here.
fn happened_to(what: ChangeKind) -> &'static str {
    match what {
        ChangeKind::Joined => "executor.joined",
        ChangeKind::Left => "executor.left",
        ChangeKind::Died => "executor.died",
        ChangeKind::Missed => "executor.missed",
        ChangeKind::Suspected => "executor.suspected",
        ChangeKind::Recovered => "executor.recovered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::model::{JobId, Outcome, RunId};

    #[test]
    fn an_event_is_told_with_its_name_its_time_and_its_job() {
        let (run, job) = (RunId(5), JobId(17));
        let closed = Event::Closed { run, job, outcome: Outcome::Failed, reason: "500".into(), took: None };
        let (name, data) = show(&closed, "2026-03-08T07:00:00Z".parse().unwrap());
        let expected =
            json!({"at": "2026-03-08T07:00:00Z", "job": 17, "run": 5, "state": "failed", "reason": "500"});
        assert_eq!((name, data), ("run.closed", expected));
    }
}
