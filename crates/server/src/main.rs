//! The binary `punctual`: the command line, and from there everything else.

mod archive;
mod chores;
mod cli;
mod clock;
mod config;
mod console;
mod demo;
mod executors;
mod fired;
mod first;
mod footing;
mod keep;
mod listen;
mod logs;
mod loops;
mod operators;
mod others;
mod private;
mod serve;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
