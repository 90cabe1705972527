//! `punctual executor`: runs commands of this machine as the handlers of an app.

mod command;
mod settings;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use punctual_executor::{Context, Executor, Notice};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};

use super::{Outcome, trust};
use crate::environment;
use command::{Command, Endings};

/// The handler that runs the command in its payload.
const ANY: &str = "command";
/// Longer than a command may take to end when it is told to, so that its real end is reported.
const GRACE: Duration = Duration::from_secs(command::END_WITHIN.as_secs() + 5);

#[derive(Args)]
#[command(
    after_help = "Only the commands that are named here are run, each for the handler of its name. What a run brings is in the
environment (PUNCTUAL_PAYLOAD, PUNCTUAL_RUN_ID, PUNCTUAL_FIRE_TIME, PUNCTUAL_ATTEMPT, PUNCTUAL_FENCING_TOKEN …), and its payload
on stdin as well. Exit code 0 is success, and the last line of stdout the result; all output is in the run's log.
The access token is in PUNCTUAL_EXECUTOR_TOKEN or in a file, because other users can read command lines.

Examples:
  punctual executor --app reports --command 'nightly=/usr/bin/report --all'
  punctual executor --app reports --config commands.toml --concurrency 4
  punctual executor --app ops --admin http://10.0.0.5:7070 --admin http://10.0.0.6:7070 --command 'backup=sh -c \"tar cz /data\"'

In the configuration file:
  [commands.nightly]
  run = [\"/usr/bin/report\", \"--all\"]
  dir = \"/var/lib/reports\"
  env = { LANG = \"C\" }"
)]
pub struct ExecutorArguments {
    /// The app whose handlers these are
    #[arg(long, value_name = "NAME")]
    app: String,
    /// A node; may be repeated, but the others are learned from one [default: PUNCTUAL_URL, else http://127.0.0.1:7070]
    #[arg(long, value_name = "URL")]
    admin: Vec<String>,
    /// A file that holds the access token [default: PUNCTUAL_EXECUTOR_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Refused with advice: other users of the machine can read command lines.
    #[arg(long, hide = true)]
    token: Option<String>,
    /// A file with certificate authorities to trust beyond the public ones, PEM [default: PUNCTUAL_CA]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// What people see [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How many commands run at once
    #[arg(long, value_name = "N", default_value_t = 10)]
    concurrency: u32,
    /// A handler and its command, in words as a shell has them; may be repeated
    #[arg(long = "command", value_name = "HANDLER=COMMAND")]
    commands: Vec<String>,
    /// A file with commands (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Run what a payload says, {"command": ["prog", …]}, for the handler `command`: every caller that may start runs
    /// of the app may then do anything here
    #[arg(long)]
    allow_any: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Anything {
    command: Vec<String>,
}

pub fn run(asked: &ExecutorArguments) -> Outcome {
    let endings = Endings::default();
    let executor = match prepare(asked, &environment::variables(), &endings) {
        Ok(executor) => executor,
        Err(error) => return Outcome::usage_error(error),
    };
    match serve(executor, &endings) {
        Ok(()) => Outcome::default(),
        Err(error) => Outcome { messages: format!("error: {error}\n"), code: 1, ..Outcome::default() },
    }
}

fn serve(executor: Executor, endings: &Endings) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
        let (mut terminate, mut interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        let told_to_stop = async {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            say("stopping; what runs may end");
        };
        let ended = executor.run_until(told_to_stop).await.map_err(|error| error.to_string());
        endings.wait().await;
        ended
    })
}

/// The executor as the arguments describe it, with a handler for each command.
fn prepare(
    asked: &ExecutorArguments,
    variables: &BTreeMap<String, String>,
    endings: &Endings,
) -> Result<Executor, String> {
    let commands = settings::commands(&asked.commands, asked.config.as_deref())?;
    if commands.is_empty() && !asked.allow_any {
        return Err("there is nothing to run: name commands with --command or --config".into());
    }
    if asked.allow_any && commands.contains_key(ANY) {
        return Err(format!("with --allow-any, `{ANY}` is taken"));
    }
    let mut executor = reach(asked, variables)?.capacity(asked.concurrency).grace(GRACE).notice(tell);
    for (handler, command) in commands {
        let endings = endings.clone();
        executor = executor.handler(handler, move |context: Context| {
            let (command, endings) = (command.clone(), endings.clone());
            async move { command.run(context, endings).await }
        });
    }
    if asked.allow_any {
        let endings = endings.clone();
        executor = executor.typed(ANY, move |context: Context, anything: Anything| {
            let endings = endings.clone();
            async move { Command::of(anything.command)?.run(context, endings).await }
        });
    }
    Ok(executor)
}

/// The addresses of the nodes, and the token for them.
fn reach(asked: &ExecutorArguments, variables: &BTreeMap<String, String>) -> Result<Executor, String> {
    if asked.token.is_some() {
        return Err("a token on a command line is there for every user of the machine to read: \
                    set PUNCTUAL_EXECUTOR_TOKEN, or name a file with --token-file"
            .into());
    }
    let said = |name: &str| variables.get(name).filter(|said| !said.is_empty()).cloned();
    let mut executor = Executor::new(&asked.app);
    let urls =
        if asked.admin.is_empty() { Vec::from_iter(said("PUNCTUAL_URL")) } else { asked.admin.clone() };
    for url in urls {
        executor = executor.url(url);
    }
    if let Some(name) = &asked.name {
        executor = executor.name(name);
    }
    let token = match &asked.token_file {
        Some(path) => Some(settings::token(path)?),
        None => said("PUNCTUAL_EXECUTOR_TOKEN"),
    };
    if let Some(token) = token {
        executor = executor.token(token);
    }
    if let Some(authorities) = asked.ca.clone().or_else(|| said("PUNCTUAL_CA").map(PathBuf::from)) {
        let connector = trust::connector(Some(&authorities));
        executor = executor.tls(connector?);
    }
    Ok(executor)
}

fn tell(notice: Notice) {
    match notice {
        Notice::Connected { url, node } if node.is_empty() => say(&format!("connected to {url}")),
        Notice::Connected { url, node } => say(&format!("connected to {url} ({node})")),
        Notice::Disconnected { url, reason } => say(&format!("no longer connected to {url}: {reason}")),
        Notice::Unreachable { url, reason } => say(&format!("cannot reach {url}: {reason}")),
        _ => {}
    }
}

fn say(what: &str) {
    // If stderr is closed, there is no other place for the message.
    let _ = writeln!(io::stderr(), "{what}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        asked: ExecutorArguments,
    }

    fn prepared(words: &[&str]) -> Result<Executor, String> {
        let line = Line::parse_from(["executor", "--app", "ops"].iter().chain(words));
        prepare(&line.asked, &BTreeMap::new(), &Endings::default())
    }

    #[test]
    fn what_cannot_be_served_is_said() {
        for (words, why) in [
            (&[][..], "nothing to run"),
            (&["--command", "true"], "HANDLER=COMMAND"),
            (&["--command", "a=true", "--command", "a=false"], "`a` is named twice"),
            (&["--command", "command=true", "--allow-any"], "is taken"),
            (&["--command", "a=true", "--token", "secret"], "--token-file"),
            (&["--config", "/nowhere/at/all.toml"], "cannot read"),
        ] {
            let error = prepared(words).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
        assert!(prepared(&["--allow-any"]).is_ok());
        assert!(prepared(&["--command", "a=true", "--admin", "http://a:1", "--name", "w"]).is_ok());
    }

    #[tokio::test]
    async fn a_payload_runs_only_where_anything_may() {
        use punctual_executor::{Outcome, testing::Run};
        let run = || Run::new(ANY).payload(serde_json::json!({"command": ["echo", "hi"]}));
        let ran = run().run(&prepared(&["--allow-any"]).unwrap()).await;
        assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::Succeeded, "hi"));
        let ran = run().run(&prepared(&["--command", "a=true"]).unwrap()).await;
        assert_eq!(ran.outcome, Outcome::Refused);
    }
}
