//! One command's session: the server on one side, the person or script on the other.

use std::future::Future;
use std::io::{self, BufRead, Write};

use serde_json::Value;

use super::Outcome;
use super::client::{Client, Rows};
use super::failure::Failure;
use super::reach::{Output, Reach, Surroundings};
use super::table::TextTable;

pub(crate) struct ClientSession {
    pub(crate) client: Client,
    pub(crate) surroundings: Surroundings,
    outcome: Outcome,
}

/// Opens a session, lets the command use it, and collects its output.
pub(crate) fn hold<C>(reach: &Reach, command: C) -> Outcome
where
    C: AsyncFnOnce(&mut ClientSession) -> Result<(), Failure>,
{
    let surroundings = match reach.surroundings() {
        Ok(surroundings) => surroundings,
        Err(failure) => return Outcome::default().failed(&failure),
    };
    let client = Client::new(&surroundings);
    let mut session = ClientSession { client, surroundings, outcome: Outcome::default() };
    let done = block_on(command(&mut session));
    match done {
        Ok(()) => session.outcome,
        Err(failure) => session.outcome.failed(&failure),
    }
}

fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Broken(format!("cannot start: {error}")))?;
    runtime.block_on(command)
}

impl Outcome {
    fn failed(mut self, failure: &Failure) -> Outcome {
        self.messages.push_str(&failure.message());
        self.code = failure.code();
        self
    }
}

impl ClientSession {
    pub(crate) fn wants_json(&self) -> bool {
        self.surroundings.output == Output::Json
    }

    /// Data, for stdout.
    pub(crate) fn print(&mut self, data: impl AsRef<str>) {
        self.outcome.data.push_str(data.as_ref());
        self.outcome.data.push('\n');
    }

    /// A message, for stderr.
    pub(crate) fn say(&mut self, message: impl AsRef<str>) {
        self.outcome.messages.push_str(message.as_ref());
        self.outcome.messages.push('\n');
    }

    /// JSON as the API gave it.
    pub(crate) fn print_json(&mut self, value: &Value) {
        let text = serde_json::to_string_pretty(value).expect("a value is always JSON");
        self.print(text);
    }

    /// Text that is laid out already.
    pub(crate) fn print_text(&mut self, text: &str) {
        self.outcome.data.push_str(text);
    }

    /// Fails without a refusal, for example because a run failed.
    pub(crate) fn end_badly(&mut self, message: impl AsRef<str>) {
        self.say(message);
        self.outcome.code = 1;
    }

    /// A list: an array for programs, a table for people.
    pub(crate) fn print_rows(&mut self, rows: Rows, what: &str, table: impl FnOnce(&[Value]) -> TextTable) {
        if rows.has_more {
            let shown = rows.items.len();
            self.say(format!("the first {shown} {what}; --limit shows more"));
        }
        if self.wants_json() {
            return self.print_json(&Value::Array(rows.items));
        }
        if rows.items.is_empty() {
            return self.say(format!("no {what}"));
        }
        let text = table(&rows.items).show(self.surroundings.width);
        self.print_text(&text);
    }

    /// Writes the output so far, because the rest takes a while.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let told = io::stderr()
            .write_all(self.outcome.messages.as_bytes())
            .and_then(|()| io::stdout().write_all(self.outcome.data.as_bytes()))
            .and_then(|()| io::stdout().flush());
        self.outcome.messages.clear();
        self.outcome.data.clear();
        told.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Broken(format!("cannot write the output: {error}")),
        })
    }

    /// Fails if the command needs a confirmation and there is no person to ask.
    pub(crate) fn check_attended(&self, is_confirmed: bool, question: &str) -> Result<(), Failure> {
        if is_confirmed || self.surroundings.is_attended {
            return Ok(());
        }
        Err(Failure::Usage(format!("{question}: there is nobody to ask, so say it with --yes")))
    }

    /// Goes on only if a person said yes, here or in advance.
    pub(crate) fn confirm(&mut self, is_confirmed: bool, question: &str) -> Result<(), Failure> {
        if is_confirmed {
            return Ok(());
        }
        self.check_attended(is_confirmed, question)?;
        self.flush()?;
        let mut answer = String::new();
        let asked = io::stderr()
            .write_all(format!("{question}? [y/N] ").as_bytes())
            .and_then(|()| io::stdin().lock().read_line(&mut answer));
        asked.map_err(|error| Failure::Broken(format!("cannot ask: {error}")))?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::Broken("nothing was done".into())),
        }
    }
}
