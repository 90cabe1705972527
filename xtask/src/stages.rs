//! `cargo xtask test`: every check in order, timed, stopping at the first that fails.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::arguments::{Completeness, Test};
use crate::programs::{self, Program, Times};
use crate::servers::Servers;
use crate::{console, packages, tidy, tools, workspace};

pub(crate) type StageFn<'a> = Box<dyn FnOnce() -> Result<(), String> + 'a>;

const CLIPPY: &str = "clippy --locked --profile ci --all-targets";

struct Finished {
    name: &'static str,
    took: Duration,
    outcome: Result<(), String>,
}

pub(crate) fn test(wanted: &Test) -> Result<Completeness, String> {
    let (built, times) = (RefCell::new(Vec::new()), RefCell::new(Times::new()));
    let stages: Vec<(&str, StageFn)> = vec![
        ("tools", Box::new(|| tools::ensure(&wanted.without))),
        ("packages", Box::new(packages::fetch)),
        ("fmt", Box::new(fmt)),
        ("console", Box::new(console::build_and_check)),
        ("clippy", Box::new(|| clippy(&["--workspace"]))),
        ("tidy", Box::new(tidy::report)),
        ("build", Box::new(|| build(wanted).map(|programs| *built.borrow_mut() = programs))),
        ("test", Box::new(|| run(wanted, &built.borrow(), &mut times.borrow_mut()))),
    ];
    let (outcome, _) = report(stages, &times);
    outcome?;
    if wanted.without.is_empty() {
        return Ok(Completeness::All);
    }
    let names: Vec<&str> = wanted.without.iter().map(|kind| kind.name()).collect();
    eprintln!("left out: every test of {}", names.join(", "));
    Ok(Completeness::WithoutSome)
}

/// Runs the stages, then prints the durations of the stages and of the slowest programs. Returns the time of all stages.
#[expect(clippy::disallowed_methods, reason = "a person is told the time, nothing is decided")]
pub(crate) fn report(
    stages: Vec<(&'static str, StageFn)>,
    times: &RefCell<Times>,
) -> (Result<(), String>, Duration) {
    let finished = run_in_order(stages, Instant::now);
    eprintln!("\n{}", summary(&finished));
    if let Some(table) = programs::slowest(&times.borrow()) {
        eprintln!("\n{table}");
    }
    let took = finished.iter().map(|stage| stage.took).sum();
    let failed = |stage: Finished| Some(format!("stopped at {}: {}", stage.name, stage.outcome.err()?));
    (finished.into_iter().find_map(failed).map_or(Ok(()), Err), took)
}

pub(crate) fn fmt() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])
}

/// Clippy on everything in these packages, with warnings denied.
pub(crate) fn clippy(packages: &[&str]) -> Result<(), String> {
    let words: Vec<&str> = CLIPPY.split(' ').chain(packages.iter().copied()).collect();
    cargo(&[&words[..], &["--", "-D", "warnings"]].concat())
}

/// Builds before running, so that both times are known.
fn build(wanted: &Test) -> Result<Vec<Program>, String> {
    // `--no-run` may be among them, and cargo refuses to hear it twice.
    let more = wanted.for_cargo.iter().map(String::as_str).filter(|word| *word != "--no-run");
    let words: Vec<&str> = ["--workspace"].into_iter().chain(more).collect();
    programs::build(&words)
}

fn run(wanted: &Test, built: &[Program], times: &mut Times) -> Result<(), String> {
    let servers = Servers::start(&wanted.without)?;
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--locked", "--profile", "ci"]).args(wanted.for_run());
    command.envs(servers.environment()).envs(console::environment());
    programs::watch(&mut command, built, times)
}

fn cargo(words: &[&str]) -> Result<(), String> {
    let mut command = workspace::cargo();
    match command.args(words).envs(console::environment()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {}` ended with {status}", words.join(" "))),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

fn run_in_order(stages: Vec<(&'static str, StageFn)>, now: impl Fn() -> Instant) -> Vec<Finished> {
    let mut finished = Vec::new();
    for (name, work) in stages {
        eprintln!("\n== {name} ==");
        let started = now();
        let outcome = work();
        let took = now().duration_since(started);
        eprintln!("-- {name} took {:.1} s", took.as_secs_f64());
        let has_failed = outcome.is_err();
        finished.push(Finished { name, took, outcome });
        if has_failed {
            break;
        }
    }
    finished
}

fn summary(finished: &[Finished]) -> String {
    let mut table = format!("{:<8} {:>8}", "stage", "seconds");
    for Finished { name, took, outcome } in finished {
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        table += &format!("\n{name:<8} {:>8.1}  {verdict}", took.as_secs_f64());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only the clock makes an Instant; the rest is steered")]
    fn a_failing_stage_stops_the_ones_after_it_and_is_in_the_summary() {
        let (start, reads) = (Instant::now(), Cell::new(0));
        let one_second_a_read = || {
            reads.set(reads.get() + 1);
            start + Duration::from_secs(reads.get())
        };
        let stages: Vec<(&str, StageFn)> = vec![
            ("fmt", Box::new(|| Ok(()))),
            ("clippy", Box::new(|| Err("one warning".into()))),
            ("test", Box::new(|| unreachable!("clippy failed"))),
        ];
        let table = summary(&run_in_order(stages, one_second_a_read));
        assert_eq!(table, "stage     seconds\nfmt           1.0  ok\nclippy        1.0  FAILED");
    }
}
