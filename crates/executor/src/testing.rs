//! Runs a handler in a test, without a node.
//!
//! ```
//! use punctual_executor::{Context, Executor, Outcome, testing};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let executor = Executor::new("reports").typed("double", |context: Context, number: u32| async move {
//!     context.log("doubling");
//!     Ok((number * 2).to_string())
//! });
//! let ran = testing::Run::new("double").payload(21).run(&executor).await;
//! assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::Succeeded, "42"));
//! assert_eq!(ran.log, ["doubling"]);
//! # }
//! ```

use std::time::Duration;

use punctual_protocol::native::{Held, Outcome, Part};
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc::unbounded_channel;

use crate::attempt;
use crate::context::{Context, EndReason, ReceivedRun};
use crate::coordinator::Event;
use crate::executor::Executor;
use crate::surroundings;

/// A run made up by a test.
#[derive(Clone, Debug)]
pub struct Run {
    handler: String,
    payload: Option<Value>,
    attempt: u32,
    token: u64,
    fire_time: String,
    timeout: Option<Duration>,
    part: Option<Part>,
    possible_duplicate: bool,
    cancel_after: Option<Duration>,
}

/// The result of a run made up by a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    /// The outcome.
    pub outcome: Outcome,
    /// The result, or what went wrong.
    pub message: String,
    /// Whether another attempt may help.
    pub retry: bool,
    /// The lines that it logged.
    pub log: Vec<String>,
    /// The progress that it reported: percentages with their notes.
    pub progress: Vec<(u8, String)>,
}

impl Run {
    /// A first attempt for a handler, without a payload.
    pub fn new(handler: impl Into<String>) -> Run {
        Run {
            handler: handler.into(),
            payload: None,
            attempt: 1,
            token: 1,
            fire_time: "2026-11-15T09:00:00.000Z".into(),
            timeout: None,
            part: None,
            possible_duplicate: false,
            cancel_after: None,
        }
    }

    /// Sets the payload.
    pub fn payload(mut self, payload: impl Into<Value>) -> Run {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the number of the attempt and its token.
    pub fn attempt(mut self, attempt: u32, token: u64) -> Run {
        (self.attempt, self.token) = (attempt, token);
        self
    }

    /// Sets the fire time; RFC 3339.
    pub fn fire_time(mut self, fire_time: impl Into<String>) -> Run {
        self.fire_time = fire_time.into();
        self
    }

    /// Sets the timeout. With tokio's time paused, a test need not wait for it.
    pub fn timeout(mut self, timeout: Duration) -> Run {
        self.timeout = Some(timeout);
        self
    }

    /// Makes it a part of a broadcast.
    pub fn part(mut self, index: u32, total: u32) -> Run {
        self.part = Some(Part { index, total });
        self
    }

    /// Marks it as a possible duplicate of an earlier attempt.
    pub fn possible_duplicate(mut self) -> Run {
        self.possible_duplicate = true;
        self
    }

    /// Cancels it after this time.
    pub fn cancel_after(mut self, wait: Duration) -> Run {
        self.cancel_after = Some(wait);
        self
    }

    /// Runs it with the executor's hooks and grace. A run for an unknown handler is refused.
    pub async fn run(self, executor: &Executor) -> Ran {
        let Some(handler) = executor.rules.handlers.get(&self.handler).cloned() else {
            let message = format!("no handler `{}`", self.handler);
            return Ran {
                outcome: Outcome::Refused,
                message,
                retry: true,
                log: Vec::new(),
                progress: Vec::new(),
            };
        };
        let (events, mut told) = unbounded_channel();
        let cancel_after = self.cancel_after;
        let mut work = self.work();
        work.handler = Ok(handler.clone());
        let context = Context::new(work, handler, surroundings::instant(), events);
        let cancelled = async {
            if let Some(wait) = cancel_after {
                surroundings::sleep(wait).await;
                context.end(EndReason::Asked, "cancelled by the test");
            }
            std::future::pending().await
        };
        let end = tokio::select! {
            biased;
            end = attempt::run(&context, &executor.rules) => end,
            () = cancelled => unreachable!("it is never ready"),
        };
        let mut ran = Ran {
            outcome: end.outcome,
            message: end.message,
            retry: end.retry,
            log: Vec::new(),
            progress: Vec::new(),
        };
        while let Ok(event) = told.try_recv() {
            match event {
                Event::Log { line, .. } => ran.log.extend(line.split('\n').map(String::from)),
                Event::Progress { percent, note, .. } => ran.progress.push((percent, note)),
                _ => {}
            }
        }
        ran
    }

    fn work(self) -> ReceivedRun {
        let raw = |value: Value| to_raw_value(&value).expect("a JSON value is JSON");
        ReceivedRun {
            held: Held { run: 1, attempt: self.attempt, token: self.token },
            job: 1,
            name: self.handler.clone(),
            handler: Err(self.handler),
            fire_time: self.fire_time,
            timeout_ms: self.timeout.map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            payload: self.payload.map(raw),
            possible_duplicate: self.possible_duplicate,
            part: self.part,
        }
    }
}
