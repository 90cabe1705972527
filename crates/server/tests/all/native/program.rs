//! The program that offers handlers, in two languages, and what it says it does.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::{Value, json};

use crate::house::{Server, eventually};
use crate::packages::{self, Package, succeed};

/// What it is written in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Language {
    Rust,
    Python,
}

impl Language {
    fn command(self) -> Command {
        match self {
            Language::Rust => Command::new(Language::example("scenarios")),
            Language::Python => {
                let mut command = Command::new(Language::python());
                command.arg(Language::clients().join("python/examples/scenarios.py"));
                command
            }
        }
    }

    /// One of the SDK's examples.
    pub(super) fn example(name: &str) -> PathBuf {
        static RUST: OnceLock<PathBuf> = OnceLock::new();
        RUST.get_or_init(build_rust).join(name)
    }

    /// A Python that has the client.
    pub(super) fn python() -> &'static Path {
        static PYTHON: OnceLock<PathBuf> = OnceLock::new();
        PYTHON.get_or_init(install_python)
    }

    pub(super) fn clients() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
    }
}

/// The examples beside the binary; they are built with the tests of their package, or now.
fn build_rust() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_punctual"));
    let profile = binary.parent().expect("a folder");
    let target = profile.parent().expect("the target folder");
    let name = profile.file_name().expect("a name").to_str().expect("text");
    let name = if name == "debug" { "dev" } else { name };
    let mut build = Command::new(env!("CARGO"));
    // With the server's package, so that the features are those of the whole workspace and nothing is compiled twice.
    build.args([
        "build",
        "--quiet",
        "--profile",
        name,
        "-p",
        "punctual-executor",
        "-p",
        "punctual",
        "--examples",
    ]);
    build.arg("--target-dir").arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    succeed(&mut build).unwrap_or_else(|output| panic!("{output}"));
    profile.join("examples")
}

/// The client as it is now, in an environment that has what it needs: nothing is fetched for it.
fn install_python() -> PathBuf {
    let folder = packages::folder(Package::PythonClient);
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-index"]);
    pip.args(["--no-build-isolation", "--no-deps"]).arg(Language::clients().join("python"));
    succeed(&mut pip).unwrap_or_else(|output| panic!("{output}"));
    folder.join("bin/python")
}

/// A running executor. It is killed when the value goes.
pub(super) struct Program {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Program {
    /// Starts it and waits until it has a session.
    pub(super) async fn start(language: Language, server: &Server, app: &str) -> Program {
        Program::start_at(language, &server.url, app, &[]).await
    }

    pub(super) async fn start_at(language: Language, url: &str, app: &str, more: &[&str]) -> Program {
        let program = Program::begin(language, url, app, more, "");
        eventually("the executor has a session", async || program.count("connected") > 0).await;
        program
    }

    pub(super) fn begin(language: Language, url: &str, app: &str, more: &[&str], token: &str) -> Program {
        let mut command = language.command();
        command.args(["--url", url, "--app", app]).args(more);
        command.env("PUNCTUAL_EXECUTOR_TOKEN", token);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the executor starts");
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (said, lines) = (Arc::clone(&events), BufReader::new(child.stdout.take().expect("piped")));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
                said.lock().expect("nobody panics here").push(event);
            }
        });
        Program { child, events }
    }

    /// Everything that it said of this kind.
    pub(super) fn said(&self, kind: &str) -> Vec<Value> {
        let events = self.events.lock().expect("nobody panics here");
        events.iter().filter(|event| event["event"] == kind).cloned().collect()
    }

    pub(super) fn count(&self, kind: &str) -> usize {
        self.said(kind).len()
    }

    /// Waits until it has started so many runs.
    pub(super) async fn started(&self, count: usize) -> Vec<Value> {
        eventually("so many runs have started", async || self.count("start") >= count).await;
        self.said("start")
    }

    /// Pulls the plug.
    pub(super) fn kill(&mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it has ended");
    }

    pub(super) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill").success());
    }

    /// Asks it to stop, and waits until it has.
    pub(super) async fn stop(mut self) -> ExitStatus {
        self.signal("TERM");
        tokio::task::spawn_blocking(move || self.child.wait().expect("it has ended")).await.expect("waited")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job for a handler, that is started by hand.
pub(super) fn job(app: &str, handler: &str, more: Value) -> Value {
    let mut job = json!({
        "app": app, "name": handler, "schedule": {"kind": "manual"},
        "target": {"kind": "executor", "handler": handler, "route": "round"},
        "retry": {"max_attempts": 1, "initial_delay": "100ms"}
    });
    for (name, value) in more.as_object().expect("fields") {
        match value.as_object() {
            Some(fields) => fields.iter().for_each(|(field, value)| job[name][field] = value.clone()),
            None => job[name] = value.clone(),
        }
    }
    job
}

/// Starts a run and says its number.
pub(super) async fn run(server: &Server, job: u64, payload: Value) -> u64 {
    let made = server.post(&format!("/jobs/{job}/run"), json!({"payload": payload})).await;
    assert_eq!(made.status, 202, "{}", made.text());
    made.json()["run"].as_u64().expect("a number")
}

/// Its outcomes, attempt by attempt.
pub(super) fn outcomes(run: &Value) -> Vec<&str> {
    let attempts = run["attempts"].as_array().expect("attempts");
    attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap_or("open")).collect()
}

pub(super) fn message(run: &Value) -> &str {
    let attempts = run["attempts"].as_array().expect("attempts");
    attempts.last().and_then(|attempt| attempt["message"].as_str()).unwrap_or("")
}
