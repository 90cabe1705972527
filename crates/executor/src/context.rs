//! What a handler is told about its run, and what it can say while it runs.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use punctual_protocol::native::{Held, Part, Run};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::desk::Event;
use crate::handler::{Failure, Handler, Rules};

/// A run, as it came. The message that brought it is not kept.
pub(crate) struct Work {
    pub(crate) held: Held,
    pub(crate) job: u32,
    pub(crate) name: String,
    /// Its handler, or the name of one that is not there.
    pub(crate) handler: Result<Arc<Handler>, String>,
    pub(crate) fire_time: String,
    pub(crate) timeout_ms: u64,
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) possible_duplicate: bool,
    pub(crate) part: Option<Part>,
}

impl Work {
    pub(crate) fn of(run: &Run<'_>, rules: &Rules) -> Work {
        let handler = rules.handlers.get(run.handler.as_ref()).cloned();
        Work {
            held: run.held(),
            job: run.job,
            name: run.name.as_ref().to_owned(),
            handler: handler.ok_or_else(|| run.handler.as_ref().to_owned()),
            fire_time: run.fire_time.as_ref().to_owned(),
            timeout_ms: run.timeout_ms,
            payload: run.payload.map(ToOwned::to_owned),
            possible_duplicate: run.possible_duplicate,
            part: run.part,
        }
    }
}

/// Why an attempt should end before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody asked for it.
    Asked,
    /// This process stops.
    Stopping,
    /// It is somebody else's by now, and nobody wants to hear of it.
    Stale,
}

/// What a handler knows of its run, and how it speaks while it runs. Cloning it costs nothing much.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    work: Work,
    handler: Arc<Handler>,
    deadline: Option<Instant>,
    end: OnceLock<(Why, String)>,
    ending: Notify,
    events: UnboundedSender<Event>,
}

impl Context {
    pub(crate) fn new(
        work: Work,
        handler: Arc<Handler>,
        now: Instant,
        events: UnboundedSender<Event>,
    ) -> Context {
        // Without a limit it is none; a limit beyond what the clock can tell is none either.
        let limit = Some(Duration::from_millis(work.timeout_ms)).filter(|limit| !limit.is_zero());
        let deadline = limit.and_then(|limit| now.checked_add(limit));
        let (end, ending) = (OnceLock::new(), Notify::new());
        Context { inner: Arc::new(Inner { work, handler, deadline, end, ending, events }) }
    }

    /// The run's number.
    pub fn run(&self) -> u64 {
        self.inner.work.held.run
    }

    /// The job's number.
    pub fn job(&self) -> u32 {
        self.inner.work.job
    }

    /// The job's name.
    pub fn job_name(&self) -> &str {
        &self.inner.work.name
    }

    /// The name of this handler.
    pub fn handler(&self) -> &str {
        &self.inner.handler.name
    }

    /// The instant that was named for the run, not the one at which it began; RFC 3339 in UTC.
    pub fn fire_time(&self) -> &str {
        &self.inner.work.fire_time
    }

    /// Which try of the run this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.work.held.attempt
    }

    /// The fencing token: greater than that of any earlier attempt of the run. Whatever the handler changes can refuse
    /// an attempt whose token is smaller than one that it has seen.
    pub fn token(&self) -> u64 {
        self.inner.work.held.token
    }

    /// What the run brings, as it was sent.
    pub fn payload(&self) -> Option<&RawValue> {
        self.inner.work.payload.as_deref()
    }

    /// What the run brings as JSON text; `null` if it brings nothing.
    pub fn payload_text(&self) -> &str {
        self.payload().map_or("null", RawValue::get)
    }

    /// What the run brings as a type. What does not fit will not fit the next time either, so it is not retried.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.payload_text())
            .map_err(|error| Failure::new(format!("the payload does not fit: {error}")).no_retry())
    }

    /// Which part of a broadcast the run is, if it is one.
    pub fn part(&self) -> Option<Part> {
        self.inner.work.part
    }

    /// Whether an earlier attempt may have run without our knowing how it ended.
    pub fn possible_duplicate(&self) -> bool {
        self.inner.work.possible_duplicate
    }

    /// How long the attempt may take, from when it came.
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.deadline.map(|_| Duration::from_millis(self.inner.work.timeout_ms))
    }

    /// When the attempt is given up: its future is dropped at the next `await`.
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.deadline
    }

    /// Adds to the log of the attempt; each line of a longer text is one there. It does not wait, and what cannot be
    /// sent is lost.
    pub fn log(&self, line: impl Into<String>) {
        let _ = self.inner.events.send(Event::Log { held: self.held(), line: line.into() });
    }

    /// Says how far the attempt is, 0 to 100, and something for people.
    pub fn progress(&self, percent: u8, note: impl Into<String>) {
        let (percent, note) = (percent.min(100), note.into());
        let _ = self.inner.events.send(Event::Progress { held: self.held(), percent, note });
    }

    /// Whether the attempt should end.
    pub fn is_cancelled(&self) -> bool {
        self.inner.end.get().is_some()
    }

    /// Why the attempt should end, once it should.
    pub fn cancel_reason(&self) -> Option<&str> {
        self.inner.end.get().map(|(_, reason)| reason.as_str())
    }

    /// Waits until the attempt should end. A handler that then returns [`Failure::cancelled`] leaves in order; one that
    /// does not is dropped after the grace.
    pub async fn cancelled(&self) {
        loop {
            let ending = self.inner.ending.notified();
            tokio::pin!(ending);
            // Listening has to begin before the look, or what is said in between would be missed.
            ending.as_mut().enable();
            if self.is_cancelled() {
                return;
            }
            ending.await;
        }
    }

    pub(crate) fn held(&self) -> Held {
        self.inner.work.held
    }

    pub(crate) fn called(&self) -> Arc<Handler> {
        self.inner.handler.clone()
    }

    /// Tells the handler to end. The first reason counts.
    pub(crate) fn end(&self, why: Why, reason: impl Into<String>) {
        if self.inner.end.set((why, reason.into())).is_ok() {
            self.inner.ending.notify_waiters();
        }
    }

    pub(crate) fn why(&self) -> Option<Why> {
        self.inner.end.get().map(|(why, _)| *why)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { run, attempt, token } = self.held();
        let mut shown = f.debug_struct("Context");
        shown.field("handler", &self.handler()).field("run", &run);
        shown.field("attempt", &attempt).field("token", &token).finish_non_exhaustive()
    }
}
