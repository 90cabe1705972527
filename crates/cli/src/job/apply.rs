//! `punctual job apply`: makes jobs what a file says, and shows the changes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::create::{at, warnings, writable};
use super::find::{self, by_name};
use crate::client::Client;
use crate::diff::{self, Change, Fate};
use crate::failure::Failure;
use crate::file::read_jobs;
use crate::session::ClientSession;

#[derive(Args)]
pub(super) struct Apply {
    /// A file in TOML or JSON with one job or many; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

/// The change to one job.
struct Step {
    app: String,
    name: String,
    wanted: Value,
    /// The job as it is, if it exists.
    current: Option<Value>,
    changes: Vec<Change>,
    warnings: Vec<String>,
}

#[derive(Default)]
struct ApplyTally {
    created: usize,
    changed: usize,
    unchanged: usize,
}

impl Apply {
    /// Reads and checks all jobs before it changes the first one: a mistake in the last job of a file changes
    /// nothing.
    pub(super) async fn answer(self, session: &mut ClientSession) -> Result<(), Failure> {
        let jobs = read_jobs(&self.file)?.jobs;
        let names = names(&jobs)?;
        let mut steps = Vec::new();
        for (job, (app, name)) in jobs.into_iter().zip(names) {
            let step = plan(&session.client, app, name, writable(job)).await?;
            steps.push(step);
        }
        let mut tally = ApplyTally::default();
        let mut results = Vec::new();
        for step in steps {
            step.show(session);
            let taken = if self.dry_run { Ok(step.id()) } else { step.take(&session.client).await };
            let id = taken.inspect_err(|_| session.say(tally.in_words(false)))?;
            tally.count(&step);
            results.push(step.result(id));
            session.flush()?;
        }
        if session.wants_json() {
            session.print_json(&Value::Array(results));
        }
        session.say(tally.in_words(self.dry_run));
        Ok(())
    }
}

/// The name of every job; a missing or repeated name is refused before the server is asked.
fn names(jobs: &[Value]) -> Result<Vec<(String, String)>, Failure> {
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let text = |field: &str| {
            let text = job[field].as_str().filter(|text| !text.is_empty()).map(String::from);
            text.ok_or_else(|| {
                Failure::usage(format!("job {} has no {field}\n  /{field}: missing", index + 1))
            })
        };
        let name = (text("app")?, text("name")?);
        if !seen.insert(name.clone()) {
            return Err(Failure::usage(format!("{}/{} is twice in the file", name.0, name.1)));
        }
        names.push(name);
    }
    Ok(names)
}

/// Reads a job as it is, and asks the server whether the wanted job is valid and what it is in full: only the server
/// knows every default, and which fields stay as they were.
async fn plan(client: &Client, app: String, name: String, wanted: Value) -> Result<Step, Failure> {
    let current = find::named(client, &app, &name).await?;
    let judged = client.put(by_name(&app, &name).with("dry_run", true), wanted.clone(), None).await;
    let judged = judged.map_err(|failure| at(&format!("{app}/{name}: "), failure))?;
    let warnings = warnings(&judged);
    let changes = match &current {
        Some(current) => changes(current, judged, &wanted),
        None => diff::between(&json!({}), &wanted),
    };
    Ok(Step { app, name, wanted, current, changes, warnings })
}

/// The fields that differ. A version that would grow although no field seems to differ means a changed secret, which
/// is never shown.
fn changes(current: &Value, judged: Value, wanted: &Value) -> Vec<Change> {
    let is_newer = judged["version"].as_u64() > current["version"].as_u64();
    let changes = diff::between(&writable(current.clone()), &writable(judged));
    if changes.is_empty() && is_newer { Change::of_secrets(wanted) } else { changes }
}

impl Step {
    fn full_name(&self) -> String {
        format!("{}/{}", self.app, self.name)
    }

    fn fate(&self) -> Option<Fate> {
        match &self.current {
            None => Some(Fate::Created),
            Some(_) if self.changes.is_empty() => None,
            Some(_) => Some(Fate::Changed),
        }
    }

    /// The diff is the data of this command; beside JSON it is a message.
    fn show(&self, session: &mut ClientSession) {
        let name = self.full_name();
        self.warnings.iter().for_each(|warning| session.say(format!("warning: {name}: {warning}")));
        let Some(fate) = self.fate() else { return };
        let is_coloured = session.surroundings.is_coloured && !session.wants_json();
        let text = diff::show(&name, fate, &self.changes, is_coloured);
        if session.wants_json() { session.say(text.trim_end()) } else { session.print_text(&text) }
    }

    /// Writes the job if it differs. A change by another caller meanwhile is a conflict.
    async fn take(&self, client: &Client) -> Result<Option<u64>, Failure> {
        if self.fate().is_none() {
            return Ok(self.id());
        }
        let version = self.current.as_ref().and_then(|current| current["version"].as_u64());
        let written = client.put(by_name(&self.app, &self.name), self.wanted.clone(), version).await;
        let written = written.map_err(|failure| at(&format!("{}: ", self.full_name()), failure))?;
        Ok(written["id"].as_u64())
    }

    fn id(&self) -> Option<u64> {
        self.current.as_ref()?["id"].as_u64()
    }

    fn result(&self, id: Option<u64>) -> Value {
        let word = match self.fate() {
            Some(Fate::Created) => "created",
            Some(Fate::Changed) => "changed",
            None => "unchanged",
        };
        let changes: Vec<Value> = self.changes.iter().map(Change::as_json).collect();
        json!({"job": self.full_name(), "id": id, "result": word, "changes": changes})
    }
}

impl ApplyTally {
    fn count(&mut self, step: &Step) {
        match step.fate() {
            Some(Fate::Created) => self.created += 1,
            Some(Fate::Changed) => self.changed += 1,
            None => self.unchanged += 1,
        }
    }

    fn in_words(&self, is_dry: bool) -> String {
        let ApplyTally { created, changed, unchanged } = self;
        let would = if is_dry { " (dry run: nothing was changed)" } else { "" };
        format!("{created} created, {changed} changed, {unchanged} unchanged{would}")
    }
}
