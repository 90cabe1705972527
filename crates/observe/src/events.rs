//! The recent events of a node, kept so that a listener can go on where its connection was cut.
//!
//! There is one ring for all listeners and no queue for any of them: each listener has a place in the ring and reads
//! on from there as fast as its connection takes it. A listener that falls behind the ring gets a reset and goes on
//! from now.
//!
//! While a client of this node listens, the events of the other nodes are in the ring too. A node hands on only its
//! own events, so nothing goes round in circles.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::JobId;
use tokio::sync::watch;

use crate::rollup::Rollup;

/// How many events are kept.
const KEPT_MAX: usize = 10_000;

/// The events that one process heard of.
#[derive(Clone, Default)]
pub struct EventLog(Arc<EventLogState>);

struct EventLogState {
    ring: Mutex<Ring>,
    rollup: Rollup,
    /// How many events there have been, and whether there will be more.
    news: watch::Sender<(u64, bool)>,
}

impl Default for EventLogState {
    fn default() -> EventLogState {
        EventLogState {
            ring: Mutex::default(),
            rollup: Rollup::default(),
            news: watch::Sender::new((0, true)),
        }
    }
}

#[derive(Default)]
struct Ring {
    /// Tells this run of the process from others, whose numbers mean nothing here.
    tag: u64,
    /// The number of the first event that is kept.
    first: u64,
    kept: VecDeque<RingEntry>,
}

/// An entry of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingEntry {
    /// It happened at this node.
    Here(Timestamp, Event),
    /// It happened at another node.
    Elsewhere(Arc<Elsewhere>),
    /// Events of another node were not heard for a while.
    Gap,
}

/// An event of another node, in the form in which that node shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The name of the event.
    pub name: String,
    /// Its data: a JSON object as text.
    pub data: String,
    /// The app that it is about; none if it names a job instead, or neither.
    pub app: Option<String>,
    /// The job that it is about.
    pub job: Option<JobId>,
}

/// The answer to a listener that reads the ring.
pub struct Told {
    /// Events with their numbers.
    pub events: Vec<(u64, RingEntry)>,
    /// Where to go on.
    pub next: u64,
    /// Whether events were missed.
    pub is_reset: bool,
}

impl EventLog {
    /// An empty log.
    pub fn new() -> EventLog {
        EventLog::default()
    }

    /// Adds events of this node.
    pub fn push(&self, events: &[Event], at: Timestamp) {
        self.0.rollup.take(events, at);
        self.add(events.iter().map(|event| RingEntry::Here(at, event.clone())));
    }

    /// Adds an event of another node.
    pub fn push_elsewhere(&self, event: Elsewhere) {
        self.add([RingEntry::Elsewhere(Arc::new(event))]);
    }

    /// Notes that events of another node may have been missed.
    pub fn push_gap(&self) {
        self.add([RingEntry::Gap]);
    }

    fn add(&self, heard: impl IntoIterator<Item = RingEntry>) {
        let count = {
            let mut ring = self.ring();
            let before = ring.end();
            for one in heard {
                if ring.kept.len() == KEPT_MAX {
                    ring.kept.pop_front();
                    ring.first += 1;
                }
                ring.kept.push_back(one);
            }
            if ring.end() == before {
                return;
            }
            ring.end()
        };
        self.0.news.send_modify(|news| news.0 = news.0.max(count));
    }

    /// The figures of this node's own events.
    pub fn rollup(&self) -> &Rollup {
        &self.0.rollup
    }

    /// Ends all listening, so that connections can be closed.
    pub fn close(&self) {
        self.0.news.send_modify(|news| news.1 = false);
    }

    /// Names this run of the process.
    pub fn begin(&self, tag: u64) {
        self.ring().tag = tag;
    }

    /// Whether there will be no more events.
    pub fn is_closed(&self) -> bool {
        !self.0.news.borrow().1
    }

    /// A receiver that changes with every event, and with the end.
    pub fn listen(&self) -> watch::Receiver<(u64, bool)> {
        self.0.news.subscribe()
    }

    /// The number of the next event.
    pub fn now(&self) -> u64 {
        self.ring().end()
    }

    /// The id of an event, as clients see it.
    pub fn id(&self, number: u64) -> String {
        format!("{:08x}-{number}", self.ring().tag as u32)
    }

    /// Where to go on after the event with this id; none if the id is not from here.
    pub fn after(&self, last_id: &str) -> Option<u64> {
        let (tag, number) = last_id.split_once('-')?;
        let is_ours = tag == format!("{:08x}", self.ring().tag as u32);
        let number: u64 = number.parse().ok().filter(|_| is_ours)?;
        number.checked_add(1).filter(|next| *next <= self.now())
    }

    /// At most `max` events from a place on.
    pub fn read(&self, place: u64, max: usize) -> Told {
        let ring = self.ring();
        let end = ring.end();
        if place < ring.first || place > end {
            return Told { events: Vec::new(), next: end, is_reset: true };
        }
        let skipped = (place - ring.first) as usize;
        let events: Vec<_> = (place..).zip(ring.kept.iter().skip(skipped).take(max).cloned()).collect();
        let next = place + events.len() as u64;
        Told { events, next, is_reset: false }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }
}

/// The job that an event is about, if it names one.
pub fn job_of(event: &Event) -> Option<JobId> {
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

/// The app that an event is about, if it names an app and no job.
pub fn app_of(event: &Event) -> Option<&str> {
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
    fn a_listener_that_falls_behind_or_comes_from_another_process_is_reset() {
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
    fn what_other_nodes_say_stands_in_the_same_order_and_counts_in_no_figure() {
        let log = EventLog::new();
        log.push(&[closed(1)], Timestamp::from_millis(0));
        let other =
            Elsewhere { name: "run.closed".into(), data: "{}".into(), app: None, job: Some(JobId(17)) };
        log.push_elsewhere(other.clone());
        log.push_gap();
        let told = log.read(0, 9);
        assert_eq!(numbers(&told), [0, 1, 2]);
        assert_eq!(told.events[1].1, RingEntry::Elsewhere(Arc::new(other)));
        assert_eq!(told.events[2].1, RingEntry::Gap);
        assert_eq!(log.rollup().recent(JobId(17)).len(), 1, "that node counts its own");
    }
}
