//! The programs that cargo builds for tests, and how long each ran.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{console, workspace};

/// How many programs the table of times names.
const SLOWEST: usize = 10;

/// How long to wait for the last lines of cargo after it has ended. A process that a test left behind may hold the pipe
/// open for longer.
const LAST_LINES: Duration = Duration::from_secs(2);

/// A program that cargo built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) package: String,
    /// The name of the library, the binary or the integration test.
    pub(crate) target: String,
    /// Whether the tests are those inside the sources, and not in a folder `tests`.
    pub(crate) is_unit: bool,
    /// Whether it runs tests. A binary that tests start does not.
    pub(crate) is_test: bool,
    /// The folder of its crate, in which cargo starts it.
    pub(crate) folder: PathBuf,
    pub(crate) executable: PathBuf,
}

impl Program {
    /// Its name for people, such as `punctual-store all`.
    pub(crate) fn name(&self) -> String {
        match (self.is_test, self.is_unit) {
            (true, true) => format!("{} unit tests", self.package),
            _ => format!("{} {}", self.package, self.target),
        }
    }

    /// The program in a line that cargo wrote as JSON, if the line is about one.
    fn of(line: &str) -> Option<Program> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" {
            return None;
        }
        let manifest = Path::new(message["manifest_path"].as_str()?);
        Some(Program {
            package: package(message["package_id"].as_str()?).to_owned(),
            target: message["target"]["name"].as_str()?.to_owned(),
            is_unit: message["target"]["kind"][0] != "test",
            is_test: message["profile"]["test"].as_bool()?,
            folder: manifest.parent()?.to_owned(),
            executable: message["executable"].as_str()?.into(),
        })
    }
}

/// The name in a package id: `path+file:///a/core#punctual-core@0.1.0`, or `path+file:///a/xtask#0.1.0` where the folder
/// has the same name.
fn package(id: &str) -> &str {
    let (folder, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    }
}

/// Builds the programs that `cargo test` with these words would run, and lists them.
pub(crate) fn build(words: &[&str]) -> Result<Vec<Program>, String> {
    let mut command = workspace::cargo();
    command.args(["test", "--locked", "--profile", "ci", "--no-run"]);
    // The programs come as JSON on the standard output; what is for people stays on the standard error.
    command.args(["--message-format", "json-render-diagnostics"]).args(words);
    command.envs(console::environment()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start cargo: {error}"))?;
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let programs = output.lines().map_while(Result::ok).filter_map(|line| Program::of(&line)).collect();
    match child.wait() {
        Ok(status) if status.success() => Ok(programs),
        Ok(status) => Err(format!("`cargo test --no-run {}` ended with {status}", words.join(" "))),
        Err(error) => Err(format!("cannot wait for cargo: {error}")),
    }
}

/// The durations of programs, in the order in which they ran.
pub(crate) type Times = Vec<(String, Duration)>;

/// The slowest of them as a table; empty if none ran.
pub(crate) fn slowest(times: &Times) -> Option<String> {
    let mut times: Vec<&(String, Duration)> = times.iter().collect();
    times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    times.truncate(SLOWEST);
    let width = times.iter().map(|(name, _)| name.len()).max()?;
    let head = format!("{:<width$} {:>8}", "slowest", "seconds");
    let row = |(name, took): &&(String, Duration)| format!("\n{name:<width$} {:>8.1}", took.as_secs_f64());
    Some(head + &times.iter().map(row).collect::<String>())
}

/// Runs cargo, passes on its lines as they come, and notes when it starts each of the programs.
///
/// Only the standard error is read, because cargo names the programs there. The output of tests is inherited.
#[expect(clippy::disallowed_methods, reason = "a person is told the time, nothing is decided")]
pub(crate) fn watch(command: &mut Command, programs: &[Program], times: &mut Times) -> Result<(), String> {
    if std::io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cannot start cargo: {error}"))?;
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            // A closed terminal does not stop the tests.
            let _ = std::io::stderr().write_all(&line);
            let began = began(&String::from_utf8_lossy(&line));
            if began.is_some_and(|path| tell.send((path, Instant::now())).is_err()) {
                return;
            }
            line.clear();
        }
    });
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    let ended = Instant::now();
    let mut began = Vec::new();
    while let Ok(one) = told.recv_timeout(LAST_LINES) {
        began.push(one);
    }
    times.extend(durations(&began, ended).map(|(path, took)| (name(path, programs), took)));
    if status.success() { Ok(()) } else { Err(format!("`cargo test` ended with {status}")) }
}

/// The names of programs with the time until the next one began or cargo ended.
fn durations(began: &[(String, Instant)], ended: Instant) -> impl Iterator<Item = (&str, Duration)> {
    let ends = began.iter().skip(1).map(|(_, at)| *at).chain([ended]);
    began.iter().zip(ends).map(|((path, at), end)| (&**path, end.saturating_duration_since(*at)))
}

/// The program that cargo says it starts in this line: the path of the executable, or the crate of doc tests.
fn began(line: &str) -> Option<String> {
    let line = plain(line);
    if let Some(running) = line.trim().strip_prefix("Running ") {
        let (_, path) = running.strip_suffix(')')?.rsplit_once(" (")?;
        return Some(path.to_owned());
    }
    let doc = line.trim().strip_prefix("Doc-tests ")?;
    Some(format!("{} doc tests", doc.replace('_', "-")))
}

/// The line without colour codes.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// The name of the program that cargo called by this path, which is relative to the root where it can be.
fn name(path: &str, programs: &[Program]) -> String {
    let program = programs.iter().find(|program| program.executable.ends_with(path));
    program.map_or_else(|| path.to_owned(), Program::name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn artifact(id: &str, kind: &str, name: &str, is_test: bool) -> String {
        json!({
            "reason": "compiler-artifact",
            "package_id": id,
            "manifest_path": "/a/crates/store/Cargo.toml",
            "target": {"kind": [kind], "name": name},
            "profile": {"test": is_test},
            "executable": format!("/a/target/ci/deps/{name}-0f"),
        })
        .to_string()
    }

    #[test]
    fn programs_are_read_from_what_cargo_prints() {
        let program = |id, kind, name, is_test| Program::of(&artifact(id, kind, name, is_test));
        let all = program("path+file:///a/crates/store#punctual-store@0.1.0", "test", "all", true);
        let all = all.expect("a program");
        assert_eq!((all.name(), all.folder), ("punctual-store all".into(), "/a/crates/store".into()));
        let unit = program("path+file:///a/xtask#0.1.0", "bin", "xtask", true).expect("a program");
        assert_eq!(unit.name(), "xtask unit tests");
        let binary = program("path+file:///a/sim#punctual-sim@0.1.0", "bin", "sim", false);
        assert_eq!(binary.expect("a program").name(), "punctual-sim sim");
        for line in ["", "{}", r#"{"reason":"build-finished","success":true}"#, "not JSON"] {
            assert_eq!(Program::of(line), None, "{line}");
        }
        let library = artifact("path+file:///a#b@0.1.0", "lib", "b", false)
            .replace("\"/a/target/ci/deps/b-0f\"", "null");
        assert_eq!(Program::of(&library), None, "a library cannot be started");
    }

    #[test]
    fn the_line_with_which_a_program_begins_is_known_in_colour_too() {
        let path = Some("target/ci/deps/all-0f".to_owned());
        assert_eq!(began("     Running tests/all/main.rs (target/ci/deps/all-0f)\n"), path);
        let coloured =
            "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m unittests src/lib.rs (target/ci/deps/all-0f)\n";
        assert_eq!(began(coloured), path);
        assert_eq!(began("   Doc-tests punctual_core\n"), Some("punctual-core doc tests".into()));
        for other in ["   Compiling libc v0.2.0\n", "Running away\n", "test a ... ok\n", ""] {
            assert_eq!(began(other), None, "{other}");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only the clock makes an Instant; the rest is steered")]
    fn a_program_takes_until_the_next_one_begins_or_cargo_ends() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let began = [("a".to_owned(), after(0)), ("b".to_owned(), after(3))];
        let took: Vec<_> = durations(&began, after(10)).collect();
        assert_eq!(took, [("a", Duration::from_secs(3)), ("b", Duration::from_secs(7))]);
    }

    #[test]
    fn the_ten_slowest_are_told_slowest_first() {
        let times: Times = (1..=12).map(|n| (format!("crate-{n}"), Duration::from_secs(n))).collect();
        let table = slowest(&times).expect("a table");
        assert_eq!(table.lines().count(), 1 + SLOWEST);
        assert!(table.starts_with("slowest   seconds\ncrate-12     12.0\ncrate-11     11.0\n"), "{table}");
        assert_eq!(slowest(&Times::new()), None);
    }

    #[test]
    fn a_program_is_called_by_its_crate_and_one_that_is_not_known_by_its_path() {
        let id = "path+file:///a/crates/store#punctual-store@0.1.0";
        let programs = [Program::of(&artifact(id, "test", "all", true)).expect("a program")];
        assert_eq!(name("target/ci/deps/all-0f", &programs), "punctual-store all");
        assert_eq!(name("target/ci/deps/all-1f", &programs), "target/ci/deps/all-1f");
    }
}
