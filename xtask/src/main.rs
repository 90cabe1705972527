//! `cargo xtask`: the project's own commands, so that nothing else has to be installed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "xtask talks to a terminal")]

mod sim;
mod stages;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [-- ARGS]   check fmt, clippy and tidy, then run every test; ARGS go to `cargo test`
  sim ARGS         simulate clusters: `--seed N` replays one world, `--seeds N` runs many, `--from N --minutes M`
                   runs on and on; `sim --help` says more
  tidy             check the rules of the house that no compiler knows
  help             print this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["test"] => stages::test(&[]),
        ["test", "--", ref for_cargo_test @ ..] => stages::test(for_cargo_test),
        ["sim", ref for_sim @ ..] => sim::run(for_sim),
        ["tidy"] => tidy::report(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("cannot make sense of `{}`\n\n{USAGE}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}
