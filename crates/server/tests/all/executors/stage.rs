//! A server, and executors in front of it.

use std::cell::RefCell;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};
use tokio::task::{Id, JoinSet, LocalSet};

use super::kind::{KINDS, Kind, Release};
use crate::house::{Folder, Reply, Server, ask, eventually};

/// The token that executors and the server show each other.
pub(super) const TOKEN: &str = "the-token-of-all-executors";

/// What opens every node over a database that several share.
const ADMIN: &str = "pct_executors_test_0123456789abcdefghi";

/// A server, and a folder for everything around it.
pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) folder: Folder,
    listen: String,
    /// The database that it shares with others; its own file if there is none.
    database: Option<String>,
}

impl Stage {
    /// One where everybody has the token.
    pub(super) async fn new() -> Rc<Stage> {
        Stage::with(&format!("[executors]\naccess_token = {TOKEN:?}\n")).await
    }

    /// One with a configuration.
    pub(super) async fn with(config: &str) -> Rc<Stage> {
        Rc::new(Stage::open(port(), config, None).await)
    }

    /// One over a database that others may share, where everybody has the token.
    pub(super) async fn over(database: &str, port: u16) -> Stage {
        Stage::open(port, &format!("[executors]\naccess_token = {TOKEN:?}\n"), Some(database)).await
    }

    async fn open(port: u16, config: &str, database: Option<&str>) -> Stage {
        let (folder, listen) = (Folder::new(), format!("127.0.0.1:{port}"));
        std::fs::write(folder.path().join("punctual.toml"), config).expect("a file");
        let server = serve(&folder, &listen, database).await;
        Stage { server, folder, listen, database: database.map(str::to_owned) }
    }

    /// Ends the server by a signal, and starts it again at the same address after something was done.
    pub(super) async fn restart(self: Rc<Stage>, how: How, meanwhile: impl Future<Output = ()>) -> Rc<Stage> {
        let stage = Rc::into_inner(self).expect("nobody else is on the stage");
        match how {
            How::Asked => assert!(stage.server.stop().success()),
            How::Killed => stage.server.kill(),
        }
        meanwhile.await;
        let Stage { folder, listen, database, .. } = stage;
        let server = serve(&folder, &listen, database.as_deref()).await;
        Rc::new(Stage { server, folder, listen, database })
    }

    /// Starts an executor for the app of its name, and waits until it is listed.
    pub(super) async fn hire(&self, kind: Kind) -> Executor {
        self.hire_for(kind, kind.name()).await
    }

    pub(super) async fn hire_for(&self, kind: Kind, app: &str) -> Executor {
        let executor = self.start_executor(kind, app, TOKEN).await;
        self.listed(&executor).await;
        executor
    }

    /// Starts an executor; whether it is let in is another matter.
    pub(super) async fn start_executor(&self, kind: Kind, app: &str, token: &str) -> Executor {
        self.start_at(port(), kind, app, token).await
    }

    /// Starts an executor at a port.
    pub(super) async fn start_at(&self, port: u16, kind: Kind, app: &str, token: &str) -> Executor {
        self.start_for(&self.admin(), port, kind, app, token).await
    }

    /// Where executors look for us.
    pub(super) fn admin(&self) -> String {
        format!("{}/xxl-job-admin", self.server.url)
    }

    /// Starts an executor that looks for us at an address, or at several.
    pub(super) async fn start_for(
        &self,
        admin: &str,
        port: u16,
        kind: Kind,
        app: &str,
        token: &str,
    ) -> Executor {
        let command = move || kind.command();
        self.launch(admin, port, kind, app, token, command).await
    }

    /// Starts a release of XXL-JOB's own executor that looks for us at an address, or at several, and waits until it is
    /// listed.
    pub(super) async fn hire_release(&self, release: Release, admin: &str, app: &str) -> Executor {
        let command = move || release.command();
        let executor = self.launch(admin, port(), Kind::Java, app, TOKEN, command).await;
        self.listed(&executor).await;
        executor
    }

    async fn launch(
        &self,
        admin: &str,
        port: u16,
        kind: Kind,
        app: &str,
        token: &str,
        command: impl FnOnce() -> Command + Send + 'static,
    ) -> Executor {
        let folder = self.folder.path().join(format!("{app}-{port}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut command = tokio::task::spawn_blocking(command).await.expect("it is installed");
        command
            .env("ADMIN", admin)
            .env("APP", app)
            .env("HOST", "127.0.0.1")
            .env("PORT", port.to_string())
            .env("TOKEN", token)
            .env("LOGS", folder.join("logs"))
            .env("RECORD", folder.join("record"))
            .current_dir(&folder);
        let output = std::fs::File::create(folder.join("output")).expect("a file");
        let errors = output.try_clone().expect("a file");
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let url = format!("http://127.0.0.1:{port}{}", kind.prefix());
        Executor { kind, app: app.to_owned(), port, url, folder, child: child.into() }
    }

    /// Waits until runs can be sent to an executor.
    pub(super) async fn listed(&self, executor: &Executor) {
        let what = format!("{} is listed", executor.url);
        eventually(&what, async || {
            executor.assert_alive();
            self.executors(&executor.app)
                .await
                .iter()
                .any(|one| one["address"] == json!(executor.url) && one["routable"] == json!(true))
        })
        .await;
    }

    /// The executors of an app; none of one that is not known.
    pub(super) async fn executors(&self, app: &str) -> Vec<Value> {
        let answer = self.server.get(&format!("/apps/{app}/executors")).await;
        if answer.status == 404 {
            return Vec::new();
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["items"].as_array().expect("a list").clone()
    }

    /// Makes a job that tries once and is started by hand, with whatever else is said.
    pub(super) async fn job(&self, app: &str, handler: &str, more: Value) -> u64 {
        static JOBS: AtomicU16 = AtomicU16::new(0);
        let number = JOBS.fetch_add(1, Ordering::Relaxed);
        let mut job = json!({
            "app": app, "name": format!("{handler}-{number}"), "schedule": {"kind": "manual"},
            "target": {"kind": "executor", "handler": handler}, "retry": {"max_attempts": 1},
        });
        merge(&mut job, more);
        self.server.create(job).await
    }

    /// Starts a run, and says its number.
    pub(super) async fn start(&self, job: u64, params: &str) -> u64 {
        let run = self.server.post(&format!("/jobs/{job}/run"), json!({"payload": params})).await;
        assert_eq!(run.status, 202, "{}", run.text());
        run.json()["run"].as_u64().expect("an id")
    }

    /// Starts a run, and waits until it has ended.
    pub(super) async fn run(&self, job: u64, params: &str) -> Value {
        self.server.ended(self.start(job, params).await).await
    }

    /// What came of the wish to end the first attempt of a run, once the executor was asked.
    pub(super) async fn kill_of(&self, run: u64) -> Value {
        let kill = async || self.server.run(run).await["attempts"][0]["kill"].clone();
        let is_answered = |kill: &Value| kill["state"].is_string() && kill["state"] != "requested";
        eventually("the kill is answered", async || is_answered(&kill().await)).await;
        kill().await
    }

    /// Says how an attempt ended, in the place of the executor that has it.
    pub(super) async fn call_back(&self, token: &str, body: Value) -> Reply {
        self.door("callback", token, body).await
    }

    /// Speaks at the door of executors.
    pub(super) async fn door(&self, uri: &str, token: &str, body: Value) -> Reply {
        let headers = [("XXL-JOB-ACCESS-TOKEN", token), ("content-type", "application/json")];
        let path = format!("/xxl-job-admin/api/{uri}");
        ask(&self.server.url, "POST", &path, &headers, &body.to_string()).await.expect("an answer")
    }

    /// What the server wrote down.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }
}

async fn serve(folder: &Folder, listen: &str, database: Option<&str>) -> Server {
    let config = folder.path().join("punctual.toml");
    let mut arguments = vec!["--listen", listen, "--config", config.to_str().expect("text")];
    if let Some(database) = database {
        arguments.extend(["--node", listen, "--database", database]);
    }
    Server::start_as(folder, &arguments, database.map(|_| ADMIN)).await
}

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Asked,
    Killed,
}

/// Plays a scenario with every executor at the same time; all of them are played to their end.
pub(super) async fn each<F>(stage: &Rc<Stage>, scenario: impl Fn(Rc<Stage>, Kind) -> F)
where
    F: Future<Output = ()> + 'static,
{
    all(KINDS.map(|kind| (kind.name(), scenario(Rc::clone(stage), kind)))).await;
}

/// Waits for all, and fails with the names of those that failed.
pub(super) async fn all<F>(scenarios: impl IntoIterator<Item = (&'static str, F)>)
where
    F: Future<Output = ()> + 'static,
{
    let mut failed = Vec::new();
    let played = async {
        let (mut playing, mut names) = (JoinSet::new(), Vec::new());
        for (name, scenario) in scenarios {
            names.push((playing.spawn_local(scenario).id(), name));
        }
        while let Some(played) = playing.join_next().await {
            let is_it = |(id, _): &&(Id, &str)| played.as_ref().is_err_and(|error| error.id() == *id);
            failed.extend(names.iter().find(is_it).map(|(_, name)| *name));
        }
    };
    LocalSet::new().run_until(played).await;
    assert!(failed.is_empty(), "it went wrong with {failed:?}; see above");
}

/// An executor that runs until the value goes.
pub(super) struct Executor {
    pub(super) kind: Kind,
    pub(super) app: String,
    pub(super) port: u16,
    /// What it registers.
    pub(super) url: String,
    folder: PathBuf,
    child: RefCell<Child>,
}

impl Executor {
    /// Which of its handlers were called, and how, in order.
    pub(super) fn calls(&self) -> Vec<Value> {
        let record = std::fs::read_to_string(self.folder.join("record")).unwrap_or_default();
        let whole = record.rfind('\n').map_or("", |end| &record[..=end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// Waits until handlers were called so many times.
    pub(super) async fn called(&self, count: usize) {
        let what = format!("{} was called {count} times", self.url);
        eventually(&what, async || self.calls().len() >= count).await;
    }

    /// The number that its latest call is reported under.
    pub(super) fn latest_log(&self) -> u64 {
        self.calls().last().expect("a call")["logId"].as_u64().expect("a number")
    }

    /// What it says to whoever asks it.
    pub(super) async fn asked(&self, path: &str, body: Value) -> Reply {
        let host = format!("http://127.0.0.1:{}", self.port);
        let headers = [("XXL-JOB-ACCESS-TOKEN", TOKEN), ("content-type", "application/json")];
        ask(
            &host,
            "POST",
            &format!("{}{path}", self.kind.prefix().trim_end_matches('/')),
            &headers,
            &body.to_string(),
        )
        .await
        .expect("an answer")
    }

    /// Waits until it has nothing of a job any more, its report answered.
    pub(super) async fn idle(&self, job: u64) {
        let what = format!("{} is idle", self.url);
        eventually(&what, async || {
            self.asked("/idleBeat", json!({"jobId": job})).await.json()["code"] == json!(200)
        })
        .await;
    }

    pub(super) fn assert_alive(&self) {
        let ended = self.child.borrow_mut().try_wait().expect("it was started");
        assert!(ended.is_none(), "{} has ended: {}", self.url, self.said());
    }

    /// What it wrote to its terminal.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.join("output")).unwrap_or_default()
    }

    /// Pulls the plug.
    pub(super) fn kill(&self) {
        let mut child = self.child.borrow_mut();
        child.kill().expect("it was running");
        child.wait().expect("it has ended");
    }

    /// Asks it to stop, and waits until it has.
    pub(super) async fn stop(&self) -> ExitStatus {
        let id = self.child.borrow().id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
        let ended = || self.child.borrow_mut().try_wait().expect("it was started");
        eventually("it has stopped", async || ended().is_some()).await;
        ended().expect("it has stopped")
    }
}

impl Drop for Executor {
    #[expect(clippy::print_stderr, reason = "whoever reads why a test failed wants to know")]
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("--- {} for {} said last:\n{last}\n---", self.kind.name(), self.app);
        }
    }
}

/// A port that nobody has, and that nobody gets by chance: those are higher.
pub(super) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let number = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + std::process::id() * 61;
        let port = u16::try_from(10_000 + number % 20_000).expect("below 30,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Lays one object over another.
fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                merge(below.entry(name).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

/// The state of a run.
pub(super) fn state(run: &Value) -> &str {
    run["state"].as_str().expect("a state")
}

/// How an attempt of a run ended, and what was said, from 0.
pub(super) fn attempt(run: &Value, number: usize) -> (&str, &str) {
    let attempt = &run["attempts"][number];
    (attempt["outcome"].as_str().unwrap_or("open"), attempt["message"].as_str().unwrap_or_default())
}

/// What a run became, with the outcome and the message of its only attempt.
#[track_caller]
pub(super) fn assert_run(kind: Kind, run: &Value, expected: (&str, &str, &str)) {
    let (outcome, message) = attempt(run, 0);
    let is_it = (state(run), outcome) == (expected.0, expected.1) && message.contains(expected.2);
    assert!(is_it, "{}: expected {expected:?}, got {run:#}", kind.name());
    assert_eq!(run["attempts"].as_array().map(Vec::len), Some(1), "{}: {run:#}", kind.name());
}
