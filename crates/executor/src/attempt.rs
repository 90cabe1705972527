//! One attempt, from the first hook to the last: whatever a handler does, there is an end to report.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::context::{Context, Why};
use crate::desk::{Ended, Event};
use crate::handler::{Done, End, Failure, Outcome, Rules};
use crate::surroundings;

/// Does the attempt, and tells the desk how it ended.
pub(crate) async fn perform(context: Context, rules: &Rules, events: UnboundedSender<Event>) {
    let mut report = Unreported { context, started_ms: surroundings::now_ms(), events: Some(events) };
    let end = run(&report.context, rules).await;
    report.tell(end);
}

/// An attempt of which nothing was heard yet. It is reported even if its task ends in a way that nobody thought of,
/// such as a panic in what a dropped handler drops: otherwise it would be held for ever.
struct Unreported {
    context: Context,
    started_ms: u64,
    events: Option<UnboundedSender<Event>>,
}

impl Unreported {
    fn tell(&mut self, end: End) {
        if let Some(events) = self.events.take() {
            let _ = events.send(Event::Ended(Ended::new(self.context.held(), end, Some(self.started_ms))));
        }
    }
}

impl Drop for Unreported {
    fn drop(&mut self) {
        self.tell(End::new(Outcome::Failed, "the handler broke while it was ended"));
    }
}

/// Does the attempt, its hooks included.
pub(crate) async fn run(context: &Context, rules: &Rules) -> End {
    let end = outcome(context, rules).await;
    for hook in &rules.after {
        // A hook can neither hold an end back nor break it.
        let hook = AssertUnwindSafe(async { hook(context.clone(), end.clone()).await });
        let _ = timeout(rules.grace, hook.catch_unwind()).await;
    }
    end
}

async fn outcome(context: &Context, rules: &Rules) -> End {
    let body = AssertUnwindSafe(body(context, rules)).catch_unwind();
    tokio::pin!(body);
    // The handler is asked first: one that is done at once costs no timer.
    tokio::select! {
        biased;
        ended = &mut body => return of(context, ended),
        () = deadline(context.deadline()) => return timed_out(context),
        () = context.cancelled() => {}
    }
    tokio::select! {
        biased;
        ended = &mut body => of(context, ended),
        () = deadline(context.deadline()) => timed_out(context),
        () = sleep(rules.grace) => given_up(context, "cancelled, and ended by force"),
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
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn of(context: &Context, ended: Result<Result<Done, Failure>, Box<dyn Any + Send>>) -> End {
    match ended {
        Ok(Ok(Done { message })) => End::new(Outcome::Succeeded, message),
        // What fails after it was told to end, ended because of that.
        Ok(Err(failure)) if context.is_cancelled() => given_up(context, &failure.message),
        Ok(Err(Failure { message, retry })) => End { outcome: Outcome::Failed, message, retry },
        Err(panic) => End::new(Outcome::Failed, format!("the handler panicked: {}", text_of(panic.as_ref()))),
    }
}

/// Somebody's wish ends a run for good. A process that stops is no reason for that, so another may try.
fn given_up(context: &Context, message: &str) -> End {
    match context.why() {
        Some(Why::Stopping) => End::new(Outcome::Failed, "the executor stopped before the handler was done"),
        _ => End::new(Outcome::Cancelled, message),
    }
}

fn timed_out(context: &Context) -> End {
    let limit = context.timeout().unwrap_or_default().as_millis();
    End::new(Outcome::TimedOut, format!("not done after {limit} ms"))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
