//! `cargo xtask test`: every check in order, timed, stopping at the first that fails.

use std::time::{Duration, Instant};

use crate::arguments::{Outcome, Test};
use crate::servers::Servers;
use crate::{console, tidy, tools, workspace};

type Work<'a> = Box<dyn FnOnce() -> Result<(), String> + 'a>;

struct Finished {
    name: &'static str,
    took: Duration,
    outcome: Result<(), String>,
}

#[expect(clippy::disallowed_methods, reason = "a person is told the time, nothing is decided")]
pub(crate) fn test(wanted: &Test) -> Result<Outcome, String> {
    let clippy = "clippy --workspace --all-targets --locked --profile ci -- -D warnings";
    let test = "test --workspace --locked --profile ci";
    let stages: Vec<(&str, Work)> = vec![
        ("tools", Box::new(|| tools::ensure(&wanted.without))),
        ("fmt", Box::new(|| cargo("fmt --all --check", &[], &[]))),
        ("console", Box::new(console::build)),
        ("clippy", Box::new(|| cargo(clippy, &[], &[]))),
        ("tidy", Box::new(tidy::report)),
        (
            "test",
            Box::new(|| cargo(test, &wanted.for_cargo, &Servers::start(&wanted.without)?.environment())),
        ),
    ];
    let finished = run_in_order(stages, Instant::now);
    eprintln!("\n{}", summary(&finished));
    match finished.into_iter().find(|stage| stage.outcome.is_err()) {
        Some(Finished { name, outcome: Err(reason), .. }) => Err(format!("stopped at {name}: {reason}")),
        _ if wanted.without.is_empty() => Ok(Outcome::All),
        _ => {
            let names: Vec<&str> = wanted.without.iter().map(|kind| kind.name()).collect();
            eprintln!("left out: every test of {}", names.join(", "));
            Ok(Outcome::WithoutSome)
        }
    }
}

fn cargo(arguments: &str, more: &[String], environment: &[(&str, String)]) -> Result<(), String> {
    let mut command = workspace::cargo();
    command.args(arguments.split(' ')).args(more).envs(environment.iter().map(|(name, value)| (name, value)));
    command.envs(console::environment());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`cargo {arguments}` ended with {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

fn run_in_order(stages: Vec<(&'static str, Work)>, now: impl Fn() -> Instant) -> Vec<Finished> {
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
        let stages: Vec<(&str, Work)> = vec![
            ("fmt", Box::new(|| Ok(()))),
            ("clippy", Box::new(|| Err("one warning".into()))),
            ("test", Box::new(|| unreachable!("clippy failed"))),
        ];
        let table = summary(&run_in_order(stages, one_second_a_read));
        assert_eq!(table, "stage     seconds\nfmt           1.0  ok\nclippy        1.0  FAILED");
    }
}
