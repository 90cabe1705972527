//! The command line as a client: commands that ask a server, and how its answers and refusals reach people. The
//! commands that serve, migrate and measure are in the binary.
//!
//! Data goes to stdout, messages to stderr. Exit code 0 is ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not
//! allowed.

pub mod app;
mod client;
mod clock;
pub mod cron;
mod diff;
pub mod environment;
pub mod executor;
mod failure;
mod file;
pub mod job;
mod lines;
pub mod node;
pub mod reach;
pub mod run;
mod session;
mod table;
pub mod token;
pub mod trust;

use std::io::{self, Write};
use std::process::ExitCode;

/// The result of a command: data, messages, and the exit code.
#[derive(Default)]
pub struct Outcome {
    /// The data that was asked for.
    pub data: String,
    /// Messages for people.
    pub messages: String,
    /// The exit code.
    pub code: u8,
}

impl Outcome {
    /// Data alone.
    pub fn data(data: String) -> Outcome {
        Outcome { data, ..Outcome::default() }
    }

    /// A command that makes no sense.
    pub fn usage_error(message: impl std::fmt::Display) -> Outcome {
        Outcome { messages: format!("error: {message}\n"), code: 2, ..Outcome::default() }
    }

    /// Adds a warning.
    pub fn warn(&mut self, message: impl std::fmt::Display) {
        self.messages.push_str(&format!("warning: {message}\n"));
    }

    /// Writes it to stdout and stderr, and returns its exit code.
    pub fn tell(&self) -> ExitCode {
        let told = io::stderr()
            .write_all(self.messages.as_bytes())
            .and_then(|()| io::stdout().write_all(self.data.as_bytes()))
            .and_then(|()| io::stdout().flush());
        match told {
            // A reader that has read enough, such as `head`, is no failure.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(1),
            _ => ExitCode::from(self.code),
        }
    }
}
