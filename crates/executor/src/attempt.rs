//! One attempt, from the first hook to the last. Whatever a handler does, the attempt ends with a report.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, timeout};

use crate::context::{Context, EndReason};
use crate::coordinator::{AttemptReport, Event};
use crate::handler::{AttemptEnd, Done, Failure, Outcome, Rules};
use crate::surroundings;

/// Runs the attempt, and reports its end to the coordinator.
pub(crate) async fn perform(context: Context, rules: &Rules, events: UnboundedSender<Event>) {
    let mut report = Unreported { context, started_ms: surroundings::now_ms(), events: Some(events) };
    let end = run(&report.context, rules).await;
    report.tell(end);
}

/// An attempt that is not reported yet. Dropping this reports a failure, so that an attempt whose task ends unexpectedly,
/// such as by a panic in a destructor, is not held for ever.
struct Unreported {
    context: Context,
    started_ms: u64,
    events: Option<UnboundedSender<Event>>,
}

impl Unreported {
    fn tell(&mut self, end: AttemptEnd) {
        if let Some(events) = self.events.take() {
            let _ = events.send(Event::Ended(AttemptReport::new(
                self.context.held(),
                end,
                Some(self.started_ms),
                surroundings::instant(),
            )));
        }
    }
}

impl Drop for Unreported {
    fn drop(&mut self) {
        self.tell(AttemptEnd::new(Outcome::Failed, "the handler broke while it was ended"));
    }
}

/// Runs the attempt with its hooks.
pub(crate) async fn run(context: &Context, rules: &Rules) -> AttemptEnd {
    let end = outcome(context, rules).await;
    for hook in &rules.after {
        // A hook that hangs or panics changes nothing about the end.
        let hook = AssertUnwindSafe(async { hook(context.clone(), end.clone()).await });
        let _ = timeout(rules.grace, hook.catch_unwind()).await;
    }
    end
}

async fn outcome(context: &Context, rules: &Rules) -> AttemptEnd {
    let body = AssertUnwindSafe(body(context, rules)).catch_unwind();
    tokio::pin!(body);
    // The handler is polled first: one that is done at once costs no timer.
    tokio::select! {
        biased;
        ended = &mut body => return end_of(context, ended),
        () = deadline(context.deadline()) => return timed_out(context),
        () = context.cancelled() => {}
    }
    tokio::select! {
        biased;
        ended = &mut body => end_of(context, ended),
        () = deadline(context.deadline()) => timed_out(context),
        () = surroundings::sleep(rules.grace) => given_up(context, "cancelled, and ended by force"),
    }
}

async fn body(context: &Context, rules: &Rules) -> Result<Done, Failure> {
    for hook in &rules.before {
        hook(context.clone()).await?;
    }
    let handler = context.called();
    (handler.call)(context.clone()).await
}

async fn deadline(at: Option<Instant>) {
    match at {
        Some(at) => surroundings::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn end_of(context: &Context, ended: Result<Result<Done, Failure>, Box<dyn Any + Send>>) -> AttemptEnd {
    match ended {
        Ok(Ok(Done { message })) => AttemptEnd::new(Outcome::Succeeded, message),
        // A failure after a request to end counts as a consequence of that request.
        Ok(Err(failure)) if context.is_cancelled() => given_up(context, &failure.message),
        Ok(Err(Failure { message, retry })) => AttemptEnd { outcome: Outcome::Failed, message, retry },
        Err(panic) => {
            AttemptEnd::new(Outcome::Failed, format!("the handler panicked: {}", text_of(panic.as_ref())))
        }
    }
}

/// A cancel ends the run for good. After a stop of this process another attempt may follow.
fn given_up(context: &Context, message: &str) -> AttemptEnd {
    match context.why() {
        Some(EndReason::Stopping) => {
            AttemptEnd::new(Outcome::Failed, "the executor stopped before the handler was done")
        }
        _ => AttemptEnd::new(Outcome::Cancelled, message),
    }
}

fn timed_out(context: &Context) -> AttemptEnd {
    let limit = context.timeout().unwrap_or_default().as_millis();
    AttemptEnd::new(Outcome::TimedOut, format!("not done after {limit} ms"))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
