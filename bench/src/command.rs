//! The command: runs scenarios and prints what they gave.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::machine::Machine;
use crate::scenarios::{ALL, Setup, fill_timers};
use crate::{Failure, Figure, Sizes};

const USAGE: &str = "\
usage: punctual bench SCENARIO|all [OPTIONS]

of the store and the engine: insert, load_close, plan, wheel, timers, cron, engine
of a whole node with an agent: herd, execute
of a whole node with an executor: xxl, native

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

/// Does what the words ask for. `leading` is what this program wants to hear before them, when it is started again.
pub fn run(words: &[String], leading: &[&str]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match (&words[..], read(&words)) {
        // The part of a scenario that wants a process of its own.
        (["fill", path, count], _) => fill(path, count),
        (_, Ok(asked)) => measure(&asked, &words, leading),
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
fn measure(asked: &Asked, words: &[&str], leading: &[&str]) -> Result<bool, Failure> {
    if !asked.is_part {
        let machine = Machine::describe(&asked.dir);
        if asked.is_json {
            println!("{}", serde_json::to_string(&machine)?);
        } else {
            println!("{machine}\n\n{}", Figure::heading());
        }
    }
    if asked.scenario == "all" {
        return run_all(words, leading);
    }
    let setup = Setup {
        sizes: if asked.is_quick { Sizes::quick() } else { Sizes::full() },
        dir: asked.dir.clone(),
        program: leading.is_empty().then(std::env::current_exe).transpose()?,
        punctual: Some(std::env::current_exe()?.with_file_name("punctual")),
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
fn run_all(words: &[&str], leading: &[&str]) -> Result<bool, Failure> {
    let options: Vec<&&str> = words.iter().filter(|word| **word != "all").collect();
    let mut is_right = true;
    for (name, _) in ALL {
        let status = Command::new(std::env::current_exe()?)
            .args(leading)
            .arg(name)
            .arg("--part")
            .args(&options)
            .status()?;
        is_right &= status.success();
    }
    Ok(is_right)
}

fn fill(path: &str, count: &str) -> Result<bool, Failure> {
    fill_timers(Path::new(path), count.parse()?)?;
    Ok(true)
}
