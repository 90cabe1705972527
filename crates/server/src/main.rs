//! The binary `punctual`: the command line, and from there everything else.

mod cli;
mod clock;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
