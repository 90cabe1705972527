//! The binary `bench`: the same as `punctual bench`, without the server around it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    punctual_bench::command::run(&words, &[])
}
