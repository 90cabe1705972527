//! `cargo xtask quick`: the checks between two edits, without servers, browsers and package managers.

use std::cell::RefCell;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::arguments::Quick;
use crate::members::Member;
use crate::programs::{self, Program, Times};
use crate::servers::Servers;
use crate::stages::{self, StageFn};
use crate::{console, sim, tidy};

/// The time that it may take on 2 cores when everything is compiled.
const BUDGET: Duration = Duration::from_secs(120);

/// The seeds are those that `test` begins with.
const WORLDS: &str = "10";

/// The crates that the simulator runs, and the simulator.
const SIMULATED: &[&str] =
    &["punctual-calendar", "punctual-core", "punctual-node", "punctual-store", "punctual-sim"];

/// Integration tests that start servers, browsers or the executors of others, or take minutes: crate and test.
const LEFT_OUT: &[(&str, &str)] = &[
    ("punctual", "bench"),
    ("punctual", "browser"),
    ("punctual", "faults"),
    ("punctual", "server"),
    ("punctual-bench", "quick"),
    ("punctual-scratch", "servers"),
    ("punctual-sim", "ci"),
    ("punctual-sim", "planted"),
];

/// Tests that need a server, by a part of their names, inside integration tests that need none otherwise.
const SKIPPED: &[(&str, &str, &[&str])] =
    &[("punctual-store", "all", &["postgres", "mysql", "mariadb", "redis"])];

pub(crate) fn run(wanted: &Quick, members: &[Member]) -> Result<(), String> {
    let times = RefCell::new(Times::new());
    let built = RefCell::new(Vec::new());
    let (packages, targets) = match &wanted.only {
        None => (vec!["--workspace"], targets(members)),
        Some(member) => (packages(member), targets(std::slice::from_ref(member))),
    };
    let is_wanted = |program: &Program| is_wanted(program, wanted.only.as_ref());
    let build = || {
        let words: Vec<&str> = packages.iter().copied().chain(targets.iter().map(String::as_str)).collect();
        let mut programs = programs::build(&words)?;
        programs.retain(is_wanted);
        *built.borrow_mut() = programs;
        Ok(())
    };
    let test = || built.borrow().iter().try_for_each(|program| start(program, &mut times.borrow_mut()));
    let mut stages: Vec<(&str, StageFn)> = Vec::new();
    if wanted.only.is_none() {
        stages.push(("fmt", Box::new(stages::fmt)));
        stages.push(("tidy", Box::new(tidy::report)));
    }
    stages.push(("console", Box::new(console::build)));
    stages.push(("clippy", Box::new(|| stages::clippy(&packages))));
    stages.push(("build", Box::new(build)));
    stages.push(("test", Box::new(test)));
    if wanted.only.as_ref().is_none_or(|member| SIMULATED.contains(&&*member.package)) {
        stages.push(("worlds", Box::new(|| sim::run(&["--seeds", WORLDS]))));
    }
    let (outcome, took) = stages::report(stages, &times);
    eprintln!("\n{}", total(took));
    outcome
}

fn total(took: Duration) -> String {
    format!("quick: {:.0} s (budget {} s)", took.as_secs_f64(), BUDGET.as_secs())
}

/// The arguments that select one crate. The server is named with it because features are then those of the whole
/// workspace; otherwise cargo would compile third-party crates again for this crate alone.
fn packages(member: &Member) -> Vec<&str> {
    let server = (member.package != "punctual").then_some(["--package", "punctual"]);
    ["--package", &member.package].into_iter().chain(server.into_iter().flatten()).collect()
}

/// The arguments that select the programs to build.
fn targets(members: &[Member]) -> Vec<String> {
    let library = members.iter().any(|member| member.has_library).then(|| "--lib".to_owned());
    let named = |word: &str, name: &String| [word.to_owned(), name.clone()];
    let binaries = members.iter().flat_map(|member| &member.binaries).flat_map(|name| named("--bin", name));
    let tests = members.iter().flat_map(|member| {
        let wanted = member.tests.iter().filter(|test| !is_left_out(&member.package, test));
        wanted.flat_map(|name| named("--test", name))
    });
    library.into_iter().chain(binaries).chain(tests).collect()
}

/// Whether to run a program that was built. Cargo also builds programs with the same names in other crates, and binaries
/// that tests start.
fn is_wanted(program: &Program, only: Option<&Member>) -> bool {
    let is_asked_for = only.is_none_or(|member| member.package == program.package);
    let is_left_out = !program.is_unit && is_left_out(&program.package, &program.target);
    program.is_test && is_asked_for && !is_left_out
}

fn is_left_out(package: &str, test: &str) -> bool {
    LEFT_OUT.contains(&(package, test))
}

/// The tests that a program has to skip.
fn skips(program: &Program) -> Vec<&'static str> {
    let is_it = |(package, test): (&str, &str)| {
        !program.is_unit && program.package == package && program.target == test
    };
    let words =
        SKIPPED.iter().filter(|(package, test, _)| is_it((package, test))).flat_map(|(_, _, words)| *words);
    words.flat_map(|word| ["--skip", word]).collect()
}

/// Starts a test program as cargo does.
#[expect(clippy::disallowed_methods, reason = "a person is told the time, nothing is decided")]
fn start(program: &Program, times: &mut Times) -> Result<(), String> {
    eprintln!("\n{}", program.name());
    let began = Instant::now();
    let mut command = Command::new(&program.executable);
    command.arg("--quiet").args(skips(program)).current_dir(&program.folder);
    let status = command.envs(Servers::none().environment()).status();
    times.push((program.name(), began.elapsed()));
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", program.name())),
        Err(error) => Err(format!("cannot start {}: {error}", program.executable.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Workspace;

    fn member(package: &str, binaries: &[&str], tests: &[&str]) -> Member {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (package, short) = (package.to_owned(), String::new());
        Member { package, short, has_library: true, binaries: owned(binaries), tests: owned(tests) }
    }

    fn program(package: &str, target: &str, is_unit: bool) -> Program {
        Program {
            package: package.into(),
            target: target.into(),
            is_unit,
            is_test: true,
            folder: "".into(),
            executable: "".into(),
        }
    }

    #[test]
    fn every_test_is_asked_for_but_those_that_are_left_out() {
        let members =
            [member("punctual-sim", &["sim"], &["ci", "planted", "new"]), member("a", &[], &["ci"])];
        let words = ["--lib", "--bin", "sim", "--test", "new", "--test", "ci"];
        assert_eq!(targets(&members), words);
    }

    #[test]
    fn one_crate_is_built_with_the_features_of_all() {
        assert_eq!(
            packages(&member("punctual-core", &[], &[])),
            ["--package", "punctual-core", "--package", "punctual"]
        );
        assert_eq!(packages(&member("punctual", &[], &[])), ["--package", "punctual"]);
    }

    #[test]
    fn a_program_of_another_crate_or_one_that_is_left_out_or_no_test_does_not_run() {
        let node = member("punctual-node", &[], &["all"]);
        assert!(is_wanted(&program("punctual-node", "all", false), Some(&node)));
        assert!(!is_wanted(&program("punctual-store", "all", false), Some(&node)));
        assert!(is_wanted(&program("punctual-store", "all", false), None));
        assert!(!is_wanted(&program("punctual-sim", "ci", false), None));
        assert!(is_wanted(&program("punctual-bench", "bench", true), None), "unit tests are never left out");
        assert!(!is_wanted(&Program { is_test: false, ..program("punctual-sim", "sim", true) }, None));
    }

    #[test]
    fn only_tests_of_the_stores_are_skipped_by_name() {
        let words = ["--skip", "postgres", "--skip", "mysql", "--skip", "mariadb", "--skip", "redis"];
        assert_eq!(skips(&program("punctual-store", "all", false)), words);
        assert!(skips(&program("punctual-store", "all", true)).is_empty());
        assert!(skips(&program("punctual-node", "all", false)).is_empty());
    }

    #[test]
    fn every_name_in_the_tables_exists() {
        let members = Workspace::read().expect("cargo knows").members;
        let has = |package: &str, test: &str| {
            let is_it =
                |member: &Member| member.package == package && member.tests.iter().any(|name| name == test);
            members.iter().any(is_it)
        };
        for (package, test) in LEFT_OUT.iter().copied().chain(SKIPPED.iter().map(|(a, b, _)| (*a, *b))) {
            assert!(has(package, test), "{package} has no test {test}");
        }
        for package in SIMULATED {
            assert!(members.iter().any(|member| member.package == *package), "{package} is no crate");
        }
    }

    #[test]
    fn the_last_line_says_the_time_beside_the_budget() {
        assert_eq!(total(Duration::from_millis(83_600)), "quick: 84 s (budget 120 s)");
    }
}
