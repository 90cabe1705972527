//! Packages that tests need from registries, fetched before anything is compiled: an unreachable registry is reported in
//! the first minute and in one sentence, not by a test in the twentieth.

use std::path::Path;

use crate::members::Workspace;
use crate::{console, workspace};

#[path = "../../crates/server/tests/all/packages/install.rs"]
mod of_tests;

use of_tests::{Failure, MAVEN, NPM, PYPI};

/// Makes sure that every package is installed. The registries are used in parallel, each for one package after the other:
/// pip and npm share a cache between installations, and Maven's cache cannot be shared by two processes.
pub(crate) fn fetch() -> Result<(), String> {
    // The folder that cargo gives to tests for temporary files.
    let folder = &Workspace::read()?.target.join("tmp/packages");
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let of_console = || {
        let fetched = console::fetch().map_err(Failure::Fetch);
        judge(fetched, "the packages of the console", NPM, &folder.join("console.log"))
    };
    std::thread::scope(|scope| {
        let registries = [
            scope.spawn(|| of_console().and_then(|()| fetch_from(NPM, folder))),
            scope.spawn(|| fetch_from(PYPI, folder)),
            scope.spawn(|| fetch_from(MAVEN, folder)),
        ];
        let outcomes = registries.map(|registry| registry.join().expect("no panic"));
        outcomes.into_iter().collect()
    })
}

fn fetch_from(registry: &str, folder: &Path) -> Result<(), String> {
    let programs = workspace::root().join("crates/server/tests/executors");
    let missing =
        |package: &of_tests::Package| package.registry() == registry && !package.is_installed(folder);
    for package in of_tests::ALL.into_iter().filter(missing) {
        eprintln!("fetching {} from {registry}", package.title());
        let installed = package.install(&programs, folder).map(|_| ());
        judge(installed, package.title(), registry, &folder.join(format!("{}.log", package.name())))?;
    }
    Ok(())
}

/// Writes the installer's output to a file, and returns one sentence that names it.
fn judge(outcome: Result<(), Failure>, title: &str, registry: &str, log: &Path) -> Result<(), String> {
    let (sentence, said) = match outcome {
        Ok(()) => return Ok(()),
        Err(Failure::Fetch(said)) => (cannot_fetch(title, registry), said),
        Err(Failure::Make(said)) => (format!("cannot install {title}"), said),
    };
    std::fs::write(log, said).map_err(|error| format!("{sentence}, and cannot keep the reason: {error}"))?;
    let log = log.strip_prefix(workspace::root()).unwrap_or(log);
    Err(format!("{sentence}; the reason is in {}", log.display()))
}

fn cannot_fetch(title: &str, registry: &str) -> String {
    let tool = match registry {
        PYPI => "pip",
        MAVEN => "Maven",
        _ => "npm",
    };
    format!(
        "cannot fetch {title} from {registry}: make it reachable, or configure a mirror for {tool}, and start the command \
         again, which keeps what it has fetched"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_is_away_is_one_sentence_and_the_rest_is_in_a_file() {
        let log = std::env::temp_dir().join(format!("punctual-xtask-{}.log", std::process::id()));
        let failure = Err(Failure::Fetch("line one\nline two".into()));
        let sentence = judge(failure, "pyxxl 0.4.8", "PyPI", &log).expect_err("it failed");
        assert!(
            sentence.starts_with("cannot fetch pyxxl 0.4.8 from PyPI: make it reachable, or"),
            "{sentence}"
        );
        assert!(sentence.contains("a mirror for pip") && sentence.lines().count() == 1, "{sentence}");
        assert_eq!(std::fs::read_to_string(&log).expect("it is kept"), "line one\nline two");
        let failure = Err(Failure::Make("javac: no".into()));
        let sentence = judge(failure, "xxl-job-core 2.5.0", "Maven Central", &log).expect_err("it failed");
        assert!(sentence.starts_with("cannot install xxl-job-core 2.5.0; the reason"), "{sentence}");
        std::fs::remove_file(&log).expect("it was there");
        assert_eq!(judge(Ok(()), "x", "PyPI", &log), Ok(()));
        assert!(!log.exists());
    }

    #[test]
    fn every_package_has_a_folder_of_its_own_and_a_place_in_the_list() {
        let mut names: Vec<&str> = of_tests::ALL.iter().map(|package| package.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), of_tests::ALL.len());
        let mut places: Vec<usize> = of_tests::ALL.iter().map(|package| *package as usize).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..of_tests::ALL.len()));
    }
}
