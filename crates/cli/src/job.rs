//! `punctual job`: make, change, look at, start and stop jobs.

mod apply;
mod backfill;
mod create;
pub(crate) mod find;

use clap::{Args, Subcommand};
use punctual_protocol::Span;
use serde_json::{Value, json};

use self::find::JobReference;
use super::Outcome;
use super::client::Route;
use super::failure::Failure;
use super::file::json_argument;
use super::reach::Reach;
use super::run::{show as runs, wait};
use super::session::{self, ClientSession};
use super::table::{Column, TextTable, cell, details};

#[derive(Args)]
#[command(after_help = "A job is its id, or app/name.

Examples:
  punctual job create --app ops --name ping --every 30s --url http://127.0.0.1:8080/ping
  punctual job apply -f jobs.toml
  punctual job list --app ops
  punctual job run ops/ping --wait")]
pub struct JobArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Subcommand)]
enum JobCommand {
    /// Make a job, from a file or from flags; one of that name must not be there yet.
    #[command(after_help = "Examples:
  punctual job create --app reports --name nightly --cron '0 9 * * *' --zone America/Toronto \\
      --url https://example.com/agent --body '{\"type\": \"daily\"}'
  punctual job create --app ops --name ping --every 30s --url http://127.0.0.1:8080/ping --method GET
  punctual job create --app mail --name send --manual --url http://127.0.0.1:8080/mail
  punctual job create --app reports --name hourly --cron '@hourly' --handler demoJobHandler --route failover --block discard
  punctual job create -f nightly.toml
  punctual job create -f - -o json < jobs.json")]
    Create(Box<create::Create>),
    /// Make jobs be what a file says: creates, changes or leaves alone, and shows what differs.
    #[command(after_help = "A file holds one job, or many: [[job]] in TOML, an array in JSON.

Examples:
  punctual job apply -f jobs.toml --dry-run
  punctual job apply -f jobs.toml
  punctual job get reports/nightly -o json | punctual job apply -f -")]
    Apply(apply::Apply),
    /// List jobs.
    #[command(after_help = "Examples:
  punctual job list
  punctual job list --app reports --tag daily
  punctual job list --enabled false -o json --limit 5000")]
    List(List),
    /// Show a job.
    #[command(after_help = "Examples:
  punctual job get reports/nightly
  punctual job get 17 -o json")]
    Get(One),
    /// Let jobs fire by themselves.
    #[command(after_help = "Examples:
  punctual job start reports/nightly
  punctual job start 17 18 19")]
    Start(Several),
    /// Stop jobs: after the answer they no longer fire by themselves.
    #[command(after_help = "Examples:
  punctual job stop reports/nightly
  punctual job stop 17 18 19")]
    Stop(Several),
    /// Run a job now, whether it is stopped or not, and print the number of the run.
    #[command(after_help = "With --wait the exit code is 1 if the run did not succeed.

Examples:
  punctual job run reports/nightly
  punctual job run reports/nightly --payload '{\"day\": \"2026-03-01\"}' --wait --timeout 60s
  punctual job run 17 --payload @payload.json -o json")]
    Run(RunNow),
    /// Print when a job fires next.
    #[command(after_help = "Examples:
  punctual job next reports/nightly
  punctual job next 17 --count 3 -o json")]
    Next(Next),
    /// List the runs of a job, the latest first.
    #[command(after_help = "Examples:
  punctual job history reports/nightly
  punctual job history 17 --limit 1000 -o json")]
    History(History),
    /// Run the instants of a past range that have no run yet, after showing which.
    #[command(after_help = "Examples:
  punctual job backfill reports/nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --dry-run
  punctual job backfill reports/nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --yes")]
    Backfill(backfill::Backfill),
    /// Delete jobs: pending runs are cancelled, running ones finish, history stays.
    #[command(after_help = "Examples:
  punctual job delete reports/nightly
  punctual job delete 17 18 --yes")]
    Delete(Delete),
}

#[derive(Args)]
struct List {
    /// Only of this app
    #[arg(long)]
    app: Option<String>,
    /// Only with this tag
    #[arg(long)]
    tag: Option<String>,
    /// Only with this text in the name
    #[arg(long = "search", visible_alias = "q", value_name = "TEXT")]
    text: Option<String>,
    /// Only those that fire by themselves, or only those that do not
    #[arg(long, value_name = "true|false")]
    enabled: Option<bool>,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

#[derive(Args)]
struct One {
    /// Its id, or app/name
    job: JobReference,
}

#[derive(Args)]
struct Several {
    /// Their ids, or app/name
    #[arg(required = true)]
    jobs: Vec<JobReference>,
}

#[derive(Args)]
struct RunNow {
    /// Its id, or app/name
    job: JobReference,
    /// What the run brings: JSON, or @file
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// The fire time that it is told [default: now]
    #[arg(long, value_name = "T")]
    fire_time: Option<String>,
    /// The one executor that is to have it, by its address [default: as the job's route says]
    #[arg(long, value_name = "ADDRESS")]
    executor: Option<String>,
    #[command(flatten)]
    wait: wait::Wait,
}

#[derive(Args)]
struct Next {
    /// Its id, or app/name
    job: JobReference,
    /// How many instants
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    count: u32,
}

#[derive(Args)]
struct History {
    /// Its id, or app/name
    job: JobReference,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Args)]
struct Delete {
    /// Their ids, or app/name
    #[arg(required = true)]
    jobs: Vec<JobReference>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub fn run(arguments: JobArguments) -> Outcome {
    let JobArguments { reach, command } = arguments;
    session::hold(&reach, async |session| match command {
        JobCommand::Create(create) => create.answer(session).await,
        JobCommand::Apply(apply) => apply.answer(session).await,
        JobCommand::List(list) => list.answer(session).await,
        JobCommand::Get(one) => show(session, &one.job).await,
        JobCommand::Start(several) => switch(session, &several.jobs, "start", "started").await,
        JobCommand::Stop(several) => switch(session, &several.jobs, "stop", "stopped").await,
        JobCommand::Run(now) => now.answer(session).await,
        JobCommand::Next(next) => next.answer(session).await,
        JobCommand::History(history) => history.answer(session).await,
        JobCommand::Backfill(backfill) => backfill.answer(session).await,
        JobCommand::Delete(delete) => delete.answer(session).await,
    })
}

impl List {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let route = Route::to(["jobs"])
            .with_any("app", self.app)
            .with_any("tag", self.tag)
            .with_any("q", self.text)
            .with_any("enabled", self.enabled);
        let rows = session.client.list(route, Some(self.limit)).await?;
        session.print_rows(rows, "jobs", table);
        Ok(())
    }
}

fn table(jobs: &[Value]) -> TextTable {
    let columns = [
        Column::Whole("ID"),
        Column::Cut("JOB"),
        Column::Cut("SCHEDULE"),
        Column::Cut("TARGET"),
        Column::Whole("STATE"),
        Column::Whole("NEXT"),
        Column::Whole("LAST"),
    ];
    let mut table = TextTable::new(&columns);
    for job in jobs {
        table.row([
            cell(job, "/id"),
            find::name(job),
            schedule(job),
            target(job),
            if is_enabled(job) { "started".into() } else { "stopped".into() },
            cell(job, "/next_fire_time"),
            cell(job, "/last_status"),
        ]);
    }
    table
}

fn is_enabled(job: &Value) -> bool {
    job["enabled"] != json!(false)
}

/// A schedule in a few words.
fn schedule(job: &Value) -> String {
    let part = |name: &str| cell(job, &format!("/schedule/{name}"));
    match part("kind").as_str() {
        "cron" => {
            let dialect = if part("dialect") == "quartz" { " (quartz)" } else { "" };
            format!("{}{dialect} {}", part("expression"), part("zone")).trim_end().to_owned()
        }
        "every" => format!("every {}", part("interval")),
        "delay" => format!("{} after the last", part("delay")),
        "once" => format!("once {}", part("at")),
        other => other.to_owned(),
    }
}

async fn show(session: &mut ClientSession, job: &JobReference) -> Result<(), Failure> {
    let job = find::job(&session.client, job).await?;
    if session.wants_json() {
        session.print_json(&job);
        return Ok(());
    }
    let state = match (is_enabled(&job), cell(&job, "/stopped_reason")) {
        (true, _) => "started".into(),
        (false, reason) if reason.is_empty() => "stopped".into(),
        (false, reason) => format!("stopped: {reason}"),
    };
    let text = details(&[
        ("id", cell(&job, "/id")),
        ("job", find::name(&job)),
        ("description", cell(&job, "/description")),
        ("tags", cell(&job, "/tags")),
        ("state", state),
        ("schedule", schedule(&job)),
        ("target", target(&job)),
        ("timeout", cell(&job, "/timeout")),
        ("attempts", cell(&job, "/retry/max_attempts")),
        ("misfire", cell(&job, "/misfire/policy")),
        ("delivery", cell(&job, "/delivery")),
        ("priority", cell(&job, "/priority")),
        ("next", cell(&job, "/next_fire_time")),
        ("last status", cell(&job, "/last_status")),
        ("last success", cell(&job, "/last_success")),
        ("failures", failures(&job)),
        ("version", cell(&job, "/version")),
    ]);
    session.print_text(&text);
    Ok(())
}

fn target(job: &Value) -> String {
    let part = |name: &str| cell(job, &format!("/target/{name}"));
    match part("kind").as_str() {
        "http" => format!("{} {}", part("method"), part("url")),
        "executor" => {
            let what = match (part("handler"), part("glue/kind")) {
                (handler, kind) if kind.is_empty() => handler,
                (_, kind) => format!("{kind} script"),
            };
            let block = Some(part("block")).filter(|block| !block.is_empty());
            let block = block.map(|block| format!(", {block}")).unwrap_or_default();
            format!("executors: {what} by {}{block}", part("route"))
        }
        kind => kind.to_owned(),
    }
}

fn failures(job: &Value) -> String {
    match (cell(job, "/failure_count").as_str(), cell(job, "/consecutive_failures")) {
        ("" | "0", _) => String::new(),
        (count, in_a_row) => format!("{count}, {in_a_row} since the last success"),
    }
}

async fn switch(
    session: &mut ClientSession,
    jobs: &[JobReference],
    verb: &str,
    done: &str,
) -> Result<(), Failure> {
    for job in jobs {
        let id = find::id(&session.client, job).await?.to_string();
        let answer = session.client.post(Route::to(["jobs", &id, verb]), json!({})).await?;
        if session.wants_json() && !answer.is_null() {
            session.print_json(&answer);
        }
        session.say(format!("{done} {job}"));
    }
    Ok(())
}

impl RunNow {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let mut body = json!({});
        if let Some(payload) = &self.payload {
            body["payload"] = json_argument("--payload", payload)?;
        }
        if let Some(fire_time) = self.fire_time {
            body["fire_time"] = fire_time.into();
        }
        if let Some(executor) = self.executor {
            body["executor"] = executor.into();
        }
        let id = find::id(&session.client, &self.job).await?.to_string();
        let made = session.client.post(Route::to(["jobs", &id, "run"]), body).await?;
        wait::made(session, &made, &self.wait).await
    }
}

impl Next {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let id = find::id(&session.client, &self.job).await?.to_string();
        let route = Route::to(["jobs", &id, "next"]).with("count", self.count);
        let answer = session.client.get(route).await?;
        let times = answer["fire_times"].as_array().cloned().unwrap_or_default();
        if times.is_empty() {
            session.say(format!("{} does not fire by itself any more", self.job));
        }
        if session.wants_json() {
            session.print_json(&answer);
            return Ok(());
        }
        times.iter().filter_map(Value::as_str).for_each(|at| session.print(at));
        Ok(())
    }
}

impl History {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let id = find::id(&session.client, &self.job).await?.to_string();
        let rows = session.client.list(Route::to(["jobs", &id, "runs"]), Some(self.limit)).await?;
        session.print_rows(rows, "runs", runs::table);
        Ok(())
    }
}

impl Delete {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let asked: Vec<String> = self.jobs.iter().map(ToString::to_string).collect();
        session.check_attended(self.yes, &format!("delete {}", asked.join(", ")))?;
        let mut doomed = Vec::new();
        for job in &self.jobs {
            let job = find::job(&session.client, job).await?;
            doomed.push((cell(&job, "/id"), find::name(&job)));
        }
        let names: Vec<String> = doomed.iter().map(|(id, name)| format!("{name} ({id})")).collect();
        session.confirm(self.yes, &format!("delete {}", names.join(", ")))?;
        for (id, name) in doomed {
            session.client.delete(Route::to(["jobs", &id])).await?;
            session.say(format!("deleted {name}"));
        }
        Ok(())
    }
}

/// A duration such as 90s or 1h30m.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    text.parse().map_err(|error: punctual_protocol::SpanError| error.to_string())
}
