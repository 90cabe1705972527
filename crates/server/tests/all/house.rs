//! A real `punctual serve` on a free port with its own folder, a real agent, and somebody who asks.
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

mod agent;
mod asking;
mod window;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use agent::{Agent, Answer, Seen};
pub(crate) use asking::{Reply, ask};
use serde_json::{Value, json};
pub(crate) use window::Window;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder that goes with the value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("punctual-e2e-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for a test");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server. It is killed when the value goes.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    pub(crate) token: String,
}

impl Server {
    /// Starts it on a folder, and waits until it is ready.
    pub(crate) async fn start(folder: &Folder) -> Server {
        Server::start_with(folder, &[]).await
    }

    pub(crate) async fn start_with(folder: &Folder, more: &[&str]) -> Server {
        Server::start_as(folder, more, None).await
    }

    /// The same with a first token that is given, so that several nodes agree on it.
    pub(crate) async fn start_as(folder: &Folder, more: &[&str], token: Option<&str>) -> Server {
        let mut command = command();
        command.envs(token.map(|token| ("PUNCTUAL_ADMIN_TOKEN", token)));
        if !more.contains(&"--listen") {
            command.args(["serve", "--listen", "127.0.0.1:0"]);
        } else {
            command.arg("serve");
        }
        command.arg("--data").arg(folder.path()).args(more);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.path().join("log"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.expect("a log"))
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let url = address(&mut lines);
        std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
        let kept = || std::fs::read_to_string(folder.path().join("admin-token")).expect("the first token");
        let token = token.map_or_else(kept, str::to_owned);
        let server = Server { child, url, token };
        // Behind TLS only those get in who know the authority.
        if server.url.starts_with("http://") {
            eventually("the server is ready", async || server.get("/readyz").await.status == 200).await;
        }
        server
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, Some(body)).await
    }

    /// Asks as the first admin.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let authorization = format!("Bearer {}", self.token);
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        ask(&self.url, method, &api(path), &headers, &body).await.expect("an answer")
    }

    /// Makes a job, and says its number.
    pub(crate) async fn create(&self, job: Value) -> u64 {
        let made = self.post("/jobs", job).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["id"].as_u64().expect("a number")
    }

    /// The runs of a job, oldest first.
    pub(crate) async fn runs(&self, job: u64) -> Vec<Value> {
        let page = self.get(&format!("/jobs/{job}/runs?limit=1000")).await;
        assert_eq!(page.status, 200, "{}", page.text());
        let mut runs = page.json()["items"].as_array().expect("a list").clone();
        runs.reverse();
        runs
    }

    pub(crate) async fn run(&self, id: u64) -> Value {
        let run = self.get(&format!("/runs/{id}")).await;
        assert_eq!(run.status, 200, "{}", run.text());
        run.json()
    }

    /// Waits until a run has ended.
    pub(crate) async fn ended(&self, id: u64) -> Value {
        let is_open = |run: &Value| matches!(run["state"].as_str(), Some("pending" | "running" | "retrying"));
        eventually("the run has ended", async || !is_open(&self.run(id).await)).await;
        self.run(id).await
    }

    /// Pulls the plug.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it has ended");
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        self.child.wait().expect("it has ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, without anything of ours in its environment.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PUNCTUAL_") {
            command.env_remove(name);
        }
    }
    command
}

fn address(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    while lines.read_line(&mut line).expect("it says where it listens") > 0 {
        if let Some(url) = line.trim().strip_prefix("address") {
            return url.trim().replace("0.0.0.0", "127.0.0.1");
        }
        line.clear();
    }
    panic!("it ended before it said where it listens")
}

fn api(path: &str) -> String {
    let is_outside =
        ["/healthz", "/readyz", "/metrics", "/openapi.json"].iter().any(|one| path.starts_with(one));
    if is_outside { path.to_owned() } else { format!("/api/v1{path}") }
}

/// Waits until something holds; a minute is for ever.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(60), "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A job that calls an agent.
pub(crate) fn job(name: &str, schedule: Value, url: &str) -> Value {
    json!({"app": "test", "name": name, "schedule": schedule, "target": {"kind": "http", "url": url}})
}

/// A time from now, as the API wants it.
pub(crate) fn from_now(millis: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let at = now.as_millis() as i64 + millis;
    calendar::Timestamp::from_millis(at).to_string()
}

/// Milliseconds since 1970 of a time as the API says it.
pub(crate) fn millis(time: &Value) -> i64 {
    let time: calendar::Timestamp = time.as_str().expect("a time").parse().expect("RFC 3339");
    time.as_millis()
}
