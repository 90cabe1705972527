//! Waiting for the end of a run that was just made.

use std::time::Duration;

use clap::Args;
use punctual_protocol::Span;
use serde_json::Value;

use crate::client::{Client, Route};
use crate::clock;
use crate::failure::Failure;
use crate::job::span;
use crate::session::ClientSession;
use crate::table::cell;

/// The pauses between two requests: short at first, because most runs are.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many requests in a row may fail: a server that restarts is back by then.
const MISSES: u32 = 30;

#[derive(Args)]
pub(crate) struct Wait {
    /// Wait until it has ended; exit code 1 if it did not succeed
    #[arg(long)]
    wait: bool,
    /// How long to wait at most [default: as long as it takes]
    #[arg(long, value_name = "SPAN", requires = "wait", value_parser = span)]
    timeout: Option<Span>,
}

impl Wait {
    pub(super) fn is_wanted(&self) -> bool {
        self.wait
    }
}

/// Prints the number of a run that was created, and waits for its end if asked to.
pub(crate) async fn made(session: &mut ClientSession, made: &Value, wait: &Wait) -> Result<(), Failure> {
    let run = made["run"].as_u64();
    let run = run.ok_or_else(|| Failure::Broken("the server answered no number of a run".into()))?;
    if !session.wants_json() {
        session.print(run.to_string());
    } else if !wait.is_wanted() {
        session.print_json(made);
    }
    if wait.is_wanted() { until_ended(session, run, wait).await } else { Ok(()) }
}

/// Waits, and then says how the run ended. Programs get the whole run.
pub(super) async fn until_ended(session: &mut ClientSession, run: u64, wait: &Wait) -> Result<(), Failure> {
    session.flush()?;
    let limit = wait.timeout.map_or(Duration::MAX, |timeout| timeout.0);
    let Ok(ended) = tokio::time::timeout(limit, look_until_ended(&session.client, run)).await else {
        session.end_badly(format!("error: run {run} has not ended within {}", Span(limit)));
        return Ok(());
    };
    let ended = ended?;
    if session.wants_json() {
        session.print_json(&ended);
    }
    let (state, reason) = (cell(&ended, "/state"), cell(&ended, "/reason"));
    let separator = if reason.is_empty() { "" } else { ": " };
    let sentence = format!("run {run} {state}{separator}{reason}");
    if state == "succeeded" {
        session.say(sentence)
    } else {
        session.end_badly(format!("error: {sentence}"))
    }
    Ok(())
}

/// Ends with the run, when the caller's timeout is over, or when the server is gone for good.
async fn look_until_ended(client: &Client, run: u64) -> Result<Value, Failure> {
    let (mut pause, mut misses) = (FIRST_PAUSE, 0);
    loop {
        match client.get(Route::to(["runs", &run.to_string()])).await {
            Ok(run) if has_ended(&run) => return Ok(run),
            Ok(_) => misses = 0,
            Err(failure) if failure.may_pass() && misses < MISSES => misses += 1,
            Err(failure) => return Err(failure),
        }
        clock::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn has_ended(run: &Value) -> bool {
    !matches!(run["state"].as_str(), Some("pending" | "running" | "retrying"))
}
