//! The context of a handler: its run, its log and progress, and whether it should end.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use punctual_protocol::native::{Held, Part, Run};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::coordinator::Event;
use crate::handler::{Failure, Handler, Rules};

/// A run as a node sent it, copied out of the message.
pub(crate) struct ReceivedRun {
    pub(crate) held: Held,
    pub(crate) job: u32,
    pub(crate) name: String,
    /// Its handler, or the name of an unknown one.
    pub(crate) handler: Result<Arc<Handler>, String>,
    pub(crate) fire_time: String,
    pub(crate) timeout_ms: u64,
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) possible_duplicate: bool,
    pub(crate) part: Option<Part>,
}

impl ReceivedRun {
    pub(crate) fn of(run: &Run<'_>, rules: &Rules) -> ReceivedRun {
        let handler = rules.handlers.get(run.handler.as_ref()).cloned();
        ReceivedRun {
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

/// EndReason an attempt should end before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The run was cancelled.
    Asked,
    /// This process is stopping.
    Stopping,
    /// Another attempt has taken over, and no node takes a report of this one.
    Stale,
}

/// A handler's view of its run: what it brings, where to log and report progress, and whether to end. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    work: ReceivedRun,
    handler: Arc<Handler>,
    deadline: Option<Instant>,
    end: OnceLock<(EndReason, String)>,
    ending: Notify,
    events: UnboundedSender<Event>,
}

impl Context {
    pub(crate) fn new(
        work: ReceivedRun,
        handler: Arc<Handler>,
        now: Instant,
        events: UnboundedSender<Event>,
    ) -> Context {
        // 0 means no limit, and so does a limit beyond the range of the clock.
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

    /// The fire time of the run, not the time at which it began; RFC 3339 in UTC.
    pub fn fire_time(&self) -> &str {
        &self.inner.work.fire_time
    }

    /// Which try of the run this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.work.held.attempt
    }

    /// The fencing token: greater than that of any earlier attempt of the run. A system that the handler changes can refuse
    /// an attempt whose token is smaller than one that it has seen.
    pub fn token(&self) -> u64 {
        self.inner.work.held.token
    }

    /// The payload as it was sent.
    pub fn payload(&self) -> Option<&RawValue> {
        self.inner.work.payload.as_deref()
    }

    /// The payload as JSON text; `null` if the run has none.
    pub fn payload_text(&self) -> &str {
        self.payload().map_or("null", RawValue::get)
    }

    /// The payload as a type. A payload that does not fit fails the attempt without a retry, because it would not fit the
    /// next time either.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_str(self.payload_text())
            .map_err(|error| Failure::new(format!("the payload does not fit: {error}")).no_retry())
    }

    /// Which part of a broadcast the run is, if it is one.
    pub fn part(&self) -> Option<Part> {
        self.inner.work.part
    }

    /// Whether an earlier attempt may have run with an unknown end.
    pub fn possible_duplicate(&self) -> bool {
        self.inner.work.possible_duplicate
    }

    /// How long the attempt may take, counted from when this process received it.
    pub fn timeout(&self) -> Option<Duration> {
        self.inner.deadline.map(|_| Duration::from_millis(self.inner.work.timeout_ms))
    }

    /// When the attempt times out: its future is dropped at the next `await`.
    pub fn deadline(&self) -> Option<Instant> {
        self.inner.deadline
    }

    /// Adds a line to the log of the attempt, or several if the text has several. It does not wait; lines that cannot be
    /// sent are lost.
    pub fn log(&self, line: impl Into<String>) {
        let _ = self.inner.events.send(Event::Log { held: self.held(), line: line.into() });
    }

    /// Reports the progress of the attempt, 0 to 100, with a note for people.
    pub fn progress(&self, percent: u8, note: impl Into<String>) {
        let (percent, note) = (percent.min(100), note.into());
        let _ = self.inner.events.send(Event::Progress { held: self.held(), percent, note });
    }

    /// Whether the attempt should end.
    pub fn is_cancelled(&self) -> bool {
        self.inner.end.get().is_some()
    }

    /// EndReason the attempt should end; none while it need not.
    pub fn cancel_reason(&self) -> Option<&str> {
        self.inner.end.get().map(|(_, reason)| reason.as_str())
    }

    /// Waits until the attempt should end. Return [`Failure::cancelled`] then; a handler that goes on is dropped after the
    /// grace.
    pub async fn cancelled(&self) {
        loop {
            let ending = self.inner.ending.notified();
            tokio::pin!(ending);
            // Registered before the check, or a notification in between would be missed.
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
    pub(crate) fn end(&self, why: EndReason, reason: impl Into<String>) {
        if self.inner.end.set((why, reason.into())).is_ok() {
            self.inner.ending.notify_waiters();
        }
    }

    pub(crate) fn why(&self) -> Option<EndReason> {
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
