//! `punctual demo`: a scratch node with jobs, executors and history, to look at.

use clap::Args;
use punctual_cli::Outcome;

use crate::config::LogFormat;
use crate::{demo, logs};

/// What can be said about a demo.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Where to listen [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// How many hours of history it begins with
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=72))]
    hours: u32,
}

pub(crate) fn run(asked: &DemoArguments) -> Outcome {
    let lines = match logs::start("warn", LogFormat::Text) {
        Ok(lines) => lines,
        Err(error) => return Outcome::usage_error(error),
    };
    let wish = demo::Wish { listen: asked.listen.clone(), hours: asked.hours };
    match demo::run(&wish, lines) {
        Ok(()) => Outcome::default(),
        Err(error) => Outcome { messages: format!("error: {error}\n"), code: 1, ..Outcome::default() },
    }
}
