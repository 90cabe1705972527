//! The command line: what can be asked, and how answers and refusals reach people.
//!
//! Data goes to stdout, messages to stderr. Exit code 0 is ok, 1 failure, 2 usage.

mod cron;

use std::io::{self, Write};
use std::process::ExitCode;

use calendar::Zones;
use clap::{Parser, Subcommand};

/// A distributed job scheduler that fires on the dot, exactly once per fire time.
#[derive(Parser)]
#[command(name = "punctual", version = version(), max_term_width = 110)]
#[command(after_help = "Examples:
  punctual cron next '0 9 * * 1-5' --zone Europe/Berlin
  punctual cron explain '0 0 12 ? * 6L' --dialect quartz

Exit codes: 0 ok, 1 failure, 2 usage.")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the console, the API and the executors' door (what `punctual` alone does).
    Serve,
    /// Ask what a cron expression means and when it fires.
    #[command(subcommand)]
    Cron(cron::CronCommand),
    /// Print the version of the program and of the zone data in it.
    Version,
}

/// What a command has to say: data, messages, and the exit code.
#[derive(Default)]
struct Outcome {
    data: String,
    messages: String,
    code: u8,
}

impl Outcome {
    fn data(data: String) -> Outcome {
        Outcome { data, ..Outcome::default() }
    }

    fn usage_error(message: impl std::fmt::Display) -> Outcome {
        Outcome { messages: format!("error: {message}\n"), code: 2, ..Outcome::default() }
    }

    fn warn(&mut self, message: impl std::fmt::Display) {
        self.messages.push_str(&format!("warning: {message}\n"));
    }
}

pub(crate) fn run() -> ExitCode {
    let outcome = match Arguments::parse().command.unwrap_or(Command::Serve) {
        Command::Serve => serve(),
        Command::Cron(command) => cron::run(command),
        Command::Version => Outcome::data(format!("punctual {}\n", version())),
    };
    tell(&outcome)
}

/// Serving is what the next version brings; until then the binary says so instead of pretending.
fn serve() -> Outcome {
    Outcome::data(format!(
        "punctual {}\n\n\
         Serving comes next. What works today is asking when things are due:\n\n  \
         punctual cron next '0 9 * * 1-5' --zone Europe/Berlin\n  \
         punctual --help\n",
        version(),
    ))
}

fn version() -> String {
    format!("{} (zone data {})", env!("CARGO_PKG_VERSION"), Zones::version())
}

fn tell(outcome: &Outcome) -> ExitCode {
    let told = io::stderr()
        .write_all(outcome.messages.as_bytes())
        .and_then(|()| io::stdout().write_all(outcome.data.as_bytes()))
        .and_then(|()| io::stdout().flush());
    match told {
        // A reader that has read enough, such as `head`, is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(1),
        _ => ExitCode::from(outcome.code),
    }
}
