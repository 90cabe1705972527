//! The binary `bench`: runs scenarios and prints what they gave.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use punctual_bench::machine::Machine;
use punctual_bench::scenarios::{ALL, Setup, fill_timers};
use punctual_bench::{Failure, Figure, Sizes};

const USAGE: &str = "\
usage: bench SCENARIO|all [OPTIONS]

scenarios: insert, load_close, plan, wheel, timers, cron, herd

  --quick      smaller, for a look in between
  --json       one object a line; the first is the machine
  --dir PATH   where databases are made (the system's folder for temporary files)";

/// What was asked.
struct Asked {
    scenario: String,
    is_quick: bool,
    is_json: bool,
    /// Whether the machine was told already.
    is_part: bool,
    dir: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match (&words[..], read(&words)) {
        // The part of a scenario that wants a process of its own.
        (["fill", path, count], _) => fill(path, count),
        (_, Ok(asked)) => run(&asked, &words),
        (_, Err(complaint)) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: &[&str]) -> Result<Asked, String> {
    let mut asked = Asked {
        scenario: String::new(),
        is_quick: false,
        is_json: false,
        is_part: false,
        dir: std::env::temp_dir(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--quick" => asked.is_quick = true,
            "--json" => asked.is_json = true,
            "--part" => asked.is_part = true,
            "--dir" => asked.dir = words.next().ok_or("--dir wants a folder")?.into(),
            name if asked.scenario.is_empty() => asked.scenario = name.to_owned(),
            other => return Err(format!("what is {other}?")),
        }
    }
    let is_known = asked.scenario == "all" || ALL.iter().any(|(name, _)| *name == asked.scenario);
    match asked.scenario.as_str() {
        "" => Err("which scenario?".to_owned()),
        _ if is_known => Ok(asked),
        name => Err(format!("there is no scenario {name}")),
    }
}

/// Runs what was asked; whether every figure is right.
fn run(asked: &Asked, words: &[&str]) -> Result<bool, Failure> {
    if !asked.is_part {
        let machine = Machine::describe(&asked.dir);
        if asked.is_json {
            println!("{}", serde_json::to_string(&machine)?);
        } else {
            println!("{machine}\n\n{}", Figure::heading());
        }
    }
    if asked.scenario == "all" {
        return run_all(words);
    }
    let setup = Setup {
        sizes: if asked.is_quick { Sizes::quick() } else { Sizes::full() },
        dir: asked.dir.clone(),
        program: Some(std::env::current_exe()?),
    };
    let scenarios = ALL.iter().filter(|(name, _)| *name == asked.scenario);
    let mut is_right = true;
    for (_, scenario) in scenarios {
        for figure in scenario(&setup)? {
            is_right &= figure.is_right();
            println!("{}", if asked.is_json { figure.to_json() } else { figure.to_string() });
        }
    }
    Ok(is_right)
}

/// Each in a process of its own, so that none measures what another left in memory.
fn run_all(words: &[&str]) -> Result<bool, Failure> {
    let options: Vec<&&str> = words.iter().filter(|word| **word != "all").collect();
    let mut is_right = true;
    for (name, _) in ALL {
        let status =
            Command::new(std::env::current_exe()?).arg(name).arg("--part").args(&options).status()?;
        is_right &= status.success();
    }
    Ok(is_right)
}

fn fill(path: &str, count: &str) -> Result<bool, Failure> {
    fill_timers(Path::new(path), count.parse()?)?;
    Ok(true)
}
