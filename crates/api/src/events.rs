//! What has happened, kept for a while so that whoever listens can go on where they were cut off.
//!
//! There is one ring for all listeners and no queue for any of them: each has a place in the ring and reads on from it
//! as fast as its connection takes it. Whoever falls behind the ring is told so by a `reset` and goes on from now.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::JobId;
use punctual_core::registry::ChangeKind;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::ledger::Ledger;

/// How many events are kept.
const KEPT_MAX: usize = 10_000;

/// The events of this node, of this run of the process.
#[derive(Clone, Default)]
pub struct EventLog(Arc<Log>);

struct Log {
    ring: Mutex<Ring>,
    ledger: Ledger,
    /// How many there were, and whether there will be more.
    news: watch::Sender<(u64, bool)>,
}

impl Default for Log {
    fn default() -> Log {
        Log { ring: Mutex::default(), ledger: Ledger::default(), news: watch::Sender::new((0, true)) }
    }
}

#[derive(Default)]
struct Ring {
    /// Tells this run of the process from others, whose numbers mean nothing here.
    tag: u64,
    /// The number of the first that is kept.
    first: u64,
    kept: VecDeque<(Timestamp, Event)>,
}

/// What a listener gets when it asks.
pub(crate) struct Told {
    /// Events with their numbers.
    pub(crate) events: Vec<(u64, Timestamp, Event)>,
    /// Where to go on.
    pub(crate) next: u64,
    /// Whether some were missed.
    pub(crate) is_reset: bool,
}

impl EventLog {
    /// An empty log.
    pub fn new() -> EventLog {
        EventLog::default()
    }

    /// Adds what has happened.
    pub fn push(&self, events: &[Event], at: Timestamp) {
        if events.is_empty() {
            return;
        }
        self.0.ledger.take(events, at);
        let count = {
            let mut ring = self.ring();
            for event in events {
                if ring.kept.len() == KEPT_MAX {
                    ring.kept.pop_front();
                    ring.first += 1;
                }
                ring.kept.push_back((at, event.clone()));
            }
            ring.first + ring.kept.len() as u64
        };
        self.0.news.send_modify(|news| news.0 = count);
    }

    /// What they add up to.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// Ends all listening, so that connections can be closed.
    pub fn close(&self) {
        self.0.news.send_modify(|news| news.1 = false);
    }

    /// Names this run of the process.
    pub(crate) fn begin(&self, tag: u64) {
        self.ring().tag = tag;
    }

    /// Whether there will be no more.
    pub(crate) fn is_closed(&self) -> bool {
        !self.0.news.borrow().1
    }

    pub(crate) fn listen(&self) -> watch::Receiver<(u64, bool)> {
        self.0.news.subscribe()
    }

    /// The number of the next event.
    pub(crate) fn now(&self) -> u64 {
        let ring = self.ring();
        ring.first + ring.kept.len() as u64
    }

    /// How an event's number is told.
    pub(crate) fn id(&self, number: u64) -> String {
        format!("{:08x}-{number}", self.ring().tag as u32)
    }

    /// Where to go on after the event that was told last; none if that is not from here.
    pub(crate) fn after(&self, last_id: &str) -> Option<u64> {
        let (tag, number) = last_id.split_once('-')?;
        let is_ours = tag == format!("{:08x}", self.ring().tag as u32);
        let number: u64 = number.parse().ok().filter(|_| is_ours)?;
        number.checked_add(1).filter(|next| *next <= self.now())
    }

    /// At most `max` events from a place on.
    pub(crate) fn read(&self, place: u64, max: usize) -> Told {
        let ring = self.ring();
        let end = ring.first + ring.kept.len() as u64;
        if place < ring.first || place > end {
            return Told { events: Vec::new(), next: end, is_reset: true };
        }
        let skipped = (place - ring.first) as usize;
        let numbered = (place..).zip(ring.kept.iter().skip(skipped).take(max));
        let events: Vec<_> = numbered.map(|(number, (at, event))| (number, *at, event.clone())).collect();
        let next = place + events.len() as u64;
        Told { events, next, is_reset: false }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The job that an event is about, where it says.
pub(crate) fn job_of(event: &Event) -> Option<JobId> {
    match event {
        Event::JobChanged { job, .. }
        | Event::JobStopped { job, .. }
        | Event::Missed { job, .. }
        | Event::Sent { job, .. }
        | Event::KillAsked { job, .. }
        | Event::Progress { job, .. }
        | Event::Delayed { job, .. }
        | Event::Closed { job, .. } => Some(*job),
        _ => None,
    }
}

/// An event's name and what it says.
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

/// Its name is known to those who listen by name, so it is written out.
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

/// The app that an event is about, where it says that and no job.
pub(crate) fn app_of(event: &Event) -> Option<&str> {
    match event {
        Event::Executor { app, .. } | Event::RegistrationRefused { app, .. } => Some(app),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::model::{Outcome, RunId};

    fn closed(run: u64) -> Event {
        let (run, job) = (RunId(run), JobId(17));
        Event::Closed { run, job, outcome: Outcome::Failed, reason: "500".into(), took: None }
    }

    fn numbers(told: &Told) -> Vec<u64> {
        told.events.iter().map(|(number, ..)| *number).collect()
    }

    #[test]
    fn a_listener_goes_on_where_it_was() {
        let log = EventLog::new();
        log.begin(7);
        log.push(&[closed(1), closed(2), closed(3)], Timestamp::from_millis(0));
        let told = log.read(0, 2);
        assert_eq!((numbers(&told), told.next, told.is_reset), (vec![0, 1], 2, false));
        let again = log.after(&log.id(1)).unwrap();
        assert_eq!(numbers(&log.read(again, 9)), [2]);
        assert!(log.read(3, 9).events.is_empty());
    }

    #[test]
    fn who_falls_behind_or_comes_from_elsewhere_is_reset() {
        let log = EventLog::new();
        log.begin(7);
        let many: Vec<Event> = (0..KEPT_MAX as u64 + 5).map(closed).collect();
        log.push(&many, Timestamp::from_millis(0));
        let told = log.read(4, 9);
        assert!(told.is_reset && told.events.is_empty() && told.next == log.now());
        assert_eq!(numbers(&log.read(5, 1)), [5]);
        for id in ["", "5", "00000008-5", "00000007-x", "00000007-99999999"] {
            assert_eq!(log.after(id), None, "{id}");
        }
    }

    #[test]
    fn an_event_is_told_with_its_name_its_time_and_its_job() {
        let (name, data) = show(&closed(5), "2026-03-08T07:00:00Z".parse().unwrap());
        let expected =
            json!({"at": "2026-03-08T07:00:00Z", "job": 17, "run": 5, "state": "failed", "reason": "500"});
        assert_eq!((name, data), ("run.closed", expected));
    }
}
