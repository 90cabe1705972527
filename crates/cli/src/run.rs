//! `punctual run`: hand over runs, look at them, and change what becomes of them.

mod cancel;
mod log;
mod many;
mod reschedule;
pub(crate) mod show;
mod submit;
pub(crate) mod wait;

use clap::{Args, Subcommand};
use punctual_protocol::Span;
use serde_json::{Value, json};

use super::Outcome;
use super::client::Route;
use super::failure::Failure;
use super::job::find::{self, JobReference};
use super::job::span;
use super::reach::Reach;
use super::session::{self, ClientSession};
use crate::clock;

#[derive(Args)]
#[command(after_help = "Examples:
  punctual run submit --job mail/send --in 5m --payload '{\"to\": \"ann@example.com\"}'
  punctual run list --job mail/send --state failed
  punctual run why 4711")]
pub struct RunArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: RunCommand,
}

#[derive(Subcommand)]
enum RunCommand {
    /// Hand over one run, or a stream of them.
    #[command(
        after_help = "A stream is NDJSON: one object a line, with job, at, payload, key, priority, timeout, retry. It is sent while it
is read, and what was stored is counted on stderr. -o json prints the server's answers with the runs' numbers.

Examples:
  punctual run submit --job mail/send --in 5m --payload '{\"to\": \"ann@example.com\"}'
  punctual run submit --job mail/send --at 2026-12-24T18:00:00Z --key greeting-2026
  punctual run submit --job mail/send --attempt-timeout 5m --retry-max 10 --retry-delay 30s
  punctual run submit --job mail/send --wait
  punctual run submit -f runs.ndjson
  generate | punctual run submit -f -"
    )]
    Submit(submit::Submit),
    /// List runs, the latest first.
    #[command(after_help = "Examples:
  punctual run list --job reports/nightly --state failed
  punctual run list --app reports --from 2026-03-01T00:00:00Z --to 2026-03-02T00:00:00Z -o json --limit 5000")]
    List(List),
    /// Show a run with its attempts.
    #[command(after_help = "Examples:
  punctual run get 4711
  punctual run get 4711 -o json")]
    Get(One),
    /// Cancel runs by number, or all that a filter names, after saying how many they are.
    #[command(after_help = "Exit code 4 if a run could not be cancelled because it had ended.

Examples:
  punctual run cancel 4711 4712
  punctual run cancel --job mail/send --key greeting-2026
  punctual run cancel --job mail/send --state pending --dry-run
  punctual run cancel --job mail/send --state pending --yes")]
    Cancel(cancel::Cancel),
    /// Run a settled run again, as a new run with the old fire time.
    #[command(after_help = "Examples:
  punctual run retry 4711
  punctual run retry 4711 --wait --timeout 5m")]
    Retry(Retry),
    /// Give a one-shot that has not begun another time; or all that a filter names, after saying how many they are.
    #[command(
        after_help = "--by counts from the time that each of them waits for. Said twice, it moves them twice; with --unmoved
only those are moved that nobody has moved before, so that a command that was broken off can be said again.

Examples:
  punctual run reschedule 4711 --at 2026-12-24T18:00:00Z
  punctual run reschedule 4711 --in 2h
  punctual run reschedule --job mail/send --key greeting-2026 --at 2026-12-24T18:00:00Z
  punctual run reschedule --app mail --by 1h --dry-run
  punctual run reschedule --app mail --by -30m --unmoved --yes"
    )]
    Reschedule(reschedule::Reschedule),
    /// Print the log of a run.
    #[command(after_help = "Examples:
  punctual run log 4711
  punctual run log 4711 --attempt 2
  punctual run log 4711 --part 0
  punctual run log 4711 --follow")]
    Log(log::LogArguments),
    /// Say why a run ran, waits, was late or was skipped.
    #[command(after_help = "Examples:
  punctual run why 4711
  punctual run why 4711 -o json")]
    Why(One),
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    filter: Filter,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Which runs.
#[derive(Args)]
struct Filter {
    /// Of this job: its id, or app/name
    #[arg(long)]
    job: Option<JobReference>,
    /// Of this app
    #[arg(long)]
    app: Option<String>,
    /// In this state: pending, running, retrying, succeeded, failed, lost, cancelled or skipped
    #[arg(long)]
    state: Option<String>,
    /// From this fire time on (RFC 3339)
    #[arg(long, value_name = "T")]
    from: Option<String>,
    /// Before this fire time (RFC 3339)
    #[arg(long, value_name = "T")]
    to: Option<String>,
    /// With this key
    #[arg(long)]
    key: Option<String>,
}

#[derive(Args)]
struct One {
    /// Its number
    run: u64,
}

#[derive(Args)]
struct Retry {
    /// Its number
    run: u64,
    #[command(flatten)]
    wait: wait::Wait,
}

/// An instant, or so long from now.
#[derive(Args)]
struct DueTime {
    /// At this instant (RFC 3339)
    #[arg(long, value_name = "T", conflicts_with = "after")]
    at: Option<String>,
    /// So long from now
    #[arg(long = "in", id = "after", value_name = "SPAN", value_parser = span)]
    after: Option<Span>,
}

pub fn run(arguments: RunArguments) -> Outcome {
    let RunArguments { reach, command } = arguments;
    session::hold(&reach, async |session| match command {
        RunCommand::Submit(submit) => submit.answer(session).await,
        RunCommand::List(list) => list.answer(session).await,
        RunCommand::Get(one) => show::run(session, one.run).await,
        RunCommand::Cancel(cancel) => cancel.answer(session).await,
        RunCommand::Retry(retry) => retry.answer(session).await,
        RunCommand::Reschedule(reschedule) => reschedule.answer(session).await,
        RunCommand::Log(log) => log.answer(session).await,
        RunCommand::Why(one) => show::why(session, one.run).await,
    })
}

impl DueTime {
    fn text(&self) -> Option<String> {
        let from_now = |span: Span| clock::now().saturating_add(span.0).to_string();
        self.at.clone().or_else(|| self.after.map(from_now))
    }
}

impl Filter {
    /// The filter as a query. Names of jobs are looked up, so that a wrong one is noticed.
    async fn route(self, session: &ClientSession) -> Result<Route, Failure> {
        let job = self.job_id(session).await?;
        Ok(Route::to(["runs"])
            .with_any("job", job)
            .with_any("app", self.app)
            .with_any("state", self.state)
            .with_any("from", self.from)
            .with_any("to", self.to)
            .with_any("key", self.key))
    }

    async fn job_id(&self, session: &ClientSession) -> Result<Option<u32>, Failure> {
        match &self.job {
            Some(job) => find::id(&session.client, job).await.map(Some),
            None => Ok(None),
        }
    }

    /// The filter as the fields of a body.
    async fn fields(&self, session: &ClientSession) -> Result<Value, Failure> {
        let job = self.job_id(session).await?;
        let Filter { app, state, from, to, key, .. } = self;
        let mut fields = json!({"job": job, "app": app, "state": state, "from": from, "to": to, "key": key});
        if let Some(fields) = fields.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        Ok(fields)
    }

    fn is_empty(&self) -> bool {
        let Filter { job, app, state, from, to, key } = self;
        job.is_none() && [app, state, from, to, key].iter().all(|field| field.is_none())
    }
}

impl List {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let route = self.filter.route(session).await?;
        let rows = session.client.list(route, Some(self.limit)).await?;
        session.print_rows(rows, "runs", show::table);
        Ok(())
    }
}

impl Retry {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let made = session.client.post(wish(self.run, "retry"), json!({})).await?;
        wait::made(session, &made, &self.wait).await
    }
}

fn wish(run: u64, verb: &str) -> Route {
    Route::to(["runs", &run.to_string(), verb])
}

/// Tells the result of a request about a run. One that came too late is a conflict.
fn tell_wish(session: &mut ClientSession, run: u64, done: &Value, word: &str) -> Result<(), Failure> {
    if session.wants_json() && !done.is_null() {
        session.print_json(done);
    }
    match done["result"].as_str() {
        Some("too_late") => Err(Failure::conflict(format!(
            "run {run} was not {word}: it had ended or was on its way; `punctual run why {run}` says more"
        ))),
        Some("asked") => {
            session.say(format!("run {run} will be {word} by the node that has it"));
            Ok(())
        }
        _ => {
            session.say(format!("run {run} {word}"));
            Ok(())
        }
    }
}
