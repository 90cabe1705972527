//! `punctual app`: apps, and the executors that belong to them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Outcome;
use super::client::Route;
use super::failure::Failure;
use super::file::read_text;
use super::lines;
use super::reach::Reach;
use super::session::{self, ClientSession};
use super::table::{Column, TextTable, cell, details};

#[derive(Args)]
#[command(after_help = "Examples:
  punctual app list
  punctual app set reports --title 'Nightly reports'
  punctual app executors reports")]
pub struct AppArguments {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(Subcommand)]
enum AppCommand {
    /// List apps.
    #[command(after_help = "Examples:
  punctual app list
  punctual app list -o json")]
    List,
    /// Show an app.
    #[command(after_help = "Examples:
  punctual app get reports
  punctual app get reports -o json")]
    Get(One),
    /// Make an app, or change what is said; what is not said stays.
    #[command(
        after_help = "Executors register themselves, unless their addresses are listed. The access token is what they show, and
are shown, instead of the server's; it is read from a file because other users can read command lines.

Examples:
  punctual app set reports --title 'Nightly reports'
  punctual app set reports --address http://10.0.0.5:9999 --address http://10.0.0.6:9999
  punctual app set reports --auto
  punctual app set reports --retention 90d
  punctual app set reports --access-token-file reports-token
  openssl rand -hex 24 | punctual app set reports --access-token-file -"
    )]
    Set(Set),
    /// List the executors of an app, in the order in which they are chosen from.
    #[command(after_help = "Examples:
  punctual app executors reports
  punctual app executors reports -o json")]
    Executors(One),
    /// Stop every job of an app until it is resumed; what is stored for them waits.
    #[command(
        after_help = "Jobs that are stopped already stay so when it is resumed. Running runs end as they do.

Examples:
  punctual app pause reports
  punctual app pause reports --reason 'the warehouse is being moved'"
    )]
    Pause(Pause),
    /// Go on with an app: start the jobs that its pause has stopped, and no others.
    #[command(after_help = "What waited follows the misfire policy of its job.

Examples:
  punctual app resume reports")]
    Resume(One),
    /// Forget an app that has no jobs, with its executors.
    #[command(after_help = "Examples:
  punctual app delete reports
  punctual app delete reports --yes")]
    Delete(Delete),
}

#[derive(Args)]
struct One {
    /// Its name
    app: String,
}

#[derive(Args)]
struct Set {
    /// Its name
    app: String,
    /// For people
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Let executors register themselves
    #[arg(long, conflicts_with = "addresses")]
    auto: bool,
    /// Where an executor is; may be repeated, and the order counts
    #[arg(long = "address", id = "addresses", value_name = "URL")]
    addresses: Vec<String>,
    /// A file with the token of its executors; - is stdin
    #[arg(long, value_name = "FILE")]
    access_token_file: Option<PathBuf>,
    /// Take its token away, so that the server's counts
    #[arg(long, conflicts_with = "access_token_file")]
    no_access_token: bool,
    /// How long its finished runs are kept after their day, such as 7d
    #[arg(long, value_name = "DURATION")]
    retention: Option<String>,
    /// Keep its runs for as long as the node keeps others
    #[arg(long, conflicts_with = "retention")]
    no_retention: bool,
}

#[derive(Args)]
struct Pause {
    /// Its name
    app: String,
    /// Why, for people
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args)]
struct Delete {
    /// Its name
    app: String,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub fn run(arguments: AppArguments) -> Outcome {
    let AppArguments { reach, command } = arguments;
    session::hold(&reach, async |session| match command {
        AppCommand::List => list(session).await,
        AppCommand::Get(one) => get(session, &one.app).await,
        AppCommand::Set(set) => set.answer(session).await,
        AppCommand::Executors(one) => executors(session, &one.app).await,
        AppCommand::Pause(pause) => pause.answer(session).await,
        AppCommand::Resume(one) => switch(session, &one.app, "resume", json!({})).await,
        AppCommand::Delete(delete) => delete.answer(session).await,
    })
}

async fn list(session: &mut ClientSession) -> Result<(), Failure> {
    let rows = session.client.list(Route::to(["apps"]), None).await?;
    session.print_rows(rows, "apps", |apps| {
        let columns = [
            Column::Cut("APP"),
            Column::Cut("TITLE"),
            Column::Whole("EXECUTORS"),
            Column::Whole("ROUTABLE"),
            Column::Whole("ADDRESSES"),
            Column::Whole("TOKEN"),
        ];
        let mut table = TextTable::new(&columns);
        for app in apps {
            let fields = ["/name", "/title", "/executors", "/routable"];
            let [name, title, executors, routable] = fields.map(|field| cell(app, field));
            table.row([name, title, executors, routable, addresses(app).0, token(app)]);
        }
        table
    });
    Ok(())
}

/// The addresses in one word, and in full.
fn addresses(app: &Value) -> (String, String) {
    match app["addresses"].as_array() {
        Some(listed) => (format!("{} listed", listed.len()), cell(app, "/addresses")),
        None => ("auto".into(), "auto: executors register themselves".into()),
    }
}

fn token(app: &Value) -> String {
    if app["access_token"].is_null() { "the server's".into() } else { "its own".into() }
}

fn retention(app: &Value) -> String {
    app["retention"].as_str().map_or_else(|| "the server's".into(), str::to_owned)
}

fn paused(app: &Value) -> String {
    if app["paused"] != true {
        return "no".into();
    }
    let (since, by) = (cell(app, "/paused_since"), cell(app, "/paused_by"));
    let why = app["paused_reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
    format!("since {since}, by {by}{why}")
}

async fn get(session: &mut ClientSession, app: &str) -> Result<(), Failure> {
    let app = session.client.get(Route::to(["apps", app])).await?;
    if session.wants_json() {
        session.print_json(&app);
        return Ok(());
    }
    let text = details(&[
        ("app", cell(&app, "/name")),
        ("title", cell(&app, "/title")),
        ("addresses", addresses(&app).1),
        ("executors", cell(&app, "/executors")),
        ("routable", cell(&app, "/routable")),
        ("token", token(&app)),
        ("retention", retention(&app)),
        ("paused", paused(&app)),
        ("version", cell(&app, "/version")),
    ]);
    session.print_text(&text);
    Ok(())
}

async fn executors(session: &mut ClientSession, app: &str) -> Result<(), Failure> {
    let rows = session.client.list(Route::to(["apps", app, "executors"]), None).await?;
    session.print_rows(rows, "executors", |executors| {
        let columns = [
            Column::Cut("ADDRESS"),
            Column::Whole("DIALECT"),
            Column::Whole("STATE"),
            Column::Whole("LAST BEAT"),
            Column::Whole("IN FLIGHT"),
            Column::Cut("HANDLERS"),
        ];
        let mut table = TextTable::new(&columns);
        for executor in executors {
            let fields = ["/address", "/dialect", "/last_beat", "/in_flight"];
            let [address, dialect, beat, in_flight] = fields.map(|field| cell(executor, field));
            let handlers = executor["handlers"].as_array().map(Vec::as_slice).unwrap_or_default();
            let handlers: Vec<&str> = handlers.iter().filter_map(Value::as_str).collect();
            table.row([address, dialect, state(executor).into(), beat, in_flight, handlers.join(" ")]);
        }
        table
    });
    Ok(())
}

fn state(executor: &Value) -> &'static str {
    match (executor["routable"] == true, executor["suspect"] == true) {
        (true, _) => "routable",
        (false, true) => "does not answer",
        (false, false) => "not chosen from",
    }
}

impl Set {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let route = Route::to(["apps", &self.app]);
        let before = match session.client.get(route.clone()).await {
            Ok(before) => Some(before),
            Err(Failure::Refused { status: 404, .. }) => None,
            Err(failure) => return Err(failure),
        };
        let version = before.as_ref().and_then(|before| before["version"].as_u64());
        let made = session.client.put(route, self.body(before.as_ref())?, version).await?;
        if session.wants_json() {
            session.print_json(&made);
        }
        let word = if before.is_some() { "changed" } else { "made" };
        session.say(format!("{word} app {}", self.app));
        Ok(())
    }

    /// The app as it was, with the given fields replaced. The token and the retention are left out unless they are
    /// given: the server then keeps them.
    fn body(&self, before: Option<&Value>) -> Result<Value, Failure> {
        let old = |name: &str, none: Value| before.map_or(none, |before| before[name].clone());
        let mut body =
            json!({"title": old("title", json!("")), "addresses": old("addresses", json!("auto"))});
        if let Some(title) = &self.title {
            body["title"] = json!(title);
        }
        match (self.auto, self.addresses.is_empty()) {
            (true, _) => body["addresses"] = json!("auto"),
            (false, false) => body["addresses"] = json!(self.addresses),
            (false, true) => {}
        }
        if let Some(path) = &self.access_token_file {
            body["access_token"] = json!(secret(path)?);
        }
        if self.no_access_token {
            body["access_token"] = Value::Null;
        }
        if let Some(retention) = &self.retention {
            body["retention"] = json!(retention);
        }
        if self.no_retention {
            body["retention"] = Value::Null;
        }
        Ok(body)
    }
}

fn secret(path: &Path) -> Result<String, Failure> {
    let text = read_text(path)?;
    match text.trim() {
        "" => Err(Failure::usage(format!("{} holds no token", path.display()))),
        token => Ok(token.to_owned()),
    }
}

impl Pause {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        switch(session, &self.app, "pause", json!({"reason": self.reason})).await
    }
}

/// Pauses or resumes an app, and says how many jobs that stopped or started.
async fn switch(session: &mut ClientSession, app: &str, verb: &str, body: Value) -> Result<(), Failure> {
    let word = if verb == "pause" { "stopped" } else { "started" };
    let sentence = |told: &Value| format!("{} jobs {word}", told["jobs"].as_u64().unwrap_or_default());
    let done = lines::follow(session, Route::to(["apps", app, verb]), body, sentence).await?;
    if session.wants_json() {
        session.print_json(&done);
    }
    session.say(format!("app {app} is {verb}d: {}", sentence(&done)));
    match done["refused"].as_u64() {
        None | Some(0) => Ok(()),
        Some(refused) => Err(Failure::conflict(format!(
            "{refused} jobs could not be {word}; `punctual job list --app {app}` shows them"
        ))),
    }
}

impl Delete {
    async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let question = format!("forget app {} with its executors", self.app);
        session.confirm(self.yes, &question)?;
        session.client.delete(Route::to(["apps", &self.app])).await?;
        session.say(format!("app {} is forgotten", self.app));
        Ok(())
    }
}
