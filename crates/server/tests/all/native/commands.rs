//! The built-in executor, the examples of the SDK, and the Python client's own tests.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::program::{Language, job, message, outcomes, run};
use crate::house::{self, Folder, Server, eventually};

/// A program that goes with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut command: Command) -> Running {
    Running(
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"),
    )
}

async fn is_there(server: &Server, app: &str) {
    eventually("the executor has a session", async || {
        let executors = server.get(&format!("/apps/{app}/executors")).await;
        executors.status == 200 && executors.json()["items"].as_array().is_some_and(|all| !all.is_empty())
    })
    .await;
}

fn executor(server: &Server, commands: &[&str]) -> Command {
    let mut command = house::command();
    command.args(["executor", "--app", "ops", "--admin", &server.url]);
    for one in commands {
        command.args(["--command", one]);
    }
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_handlers() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let greet = r#"greet=sh -c "echo for the log >&2; echo attempt $PUNCTUAL_ATTEMPT of $PUNCTUAL_JOB_NAME: $PUNCTUAL_PAYLOAD""#;
    let _executor = start(executor(&server, &[greet, "break=sh -c 'echo it hurts >&2; exit 3'"]));
    is_there(&server, "ops").await;
    let greeting = server.create(job("ops", "greet", json!({}))).await;
    let id = run(&server, greeting, json!({"a": 1})).await;
    let ended = server.ended(id).await;
    assert_eq!(
        (outcomes(&ended), message(&ended)),
        (vec!["succeeded"], r#"attempt 1 of greet: {"a":1}"#),
        "{ended}"
    );
    let log = server.get(&format!("/runs/{id}/log")).await.json();
    assert!(log["text"].as_str().unwrap().contains("for the log"), "{log}");
    let breaking = server.create(job("ops", "break", json!({}))).await;
    let ended = server.ended(run(&server, breaking, Value::Null).await).await;
    assert_eq!(outcomes(&ended), ["failed"]);
    assert!(message(&ended).contains("exit code 3") && message(&ended).contains("it hurts"), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_see_no_variable_of_ours_but_what_their_run_is_told() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let list = r#"list=sh -c "env | cut -d= -f1 | grep ^PUNCTUAL_ | sort | xargs""#;
    let mut command = executor(&server, &[list]);
    for name in ["ADMIN_TOKEN", "EXECUTOR_TOKEN", "EXECUTORS__ACCESS_TOKEN", "DATABASE__URL", "PART_INDEX"] {
        command.env(format!("PUNCTUAL_{name}"), "a secret of this machine");
    }
    let _executor = start(command);
    is_there(&server, "ops").await;
    let list = server.create(job("ops", "list", json!({}))).await;
    let ended = server.ended(run(&server, list, Value::Null).await).await;
    let told = [
        "ATTEMPT",
        "FENCING_TOKEN",
        "FIRE_TIME",
        "JOB",
        "JOB_NAME",
        "PAYLOAD",
        "POSSIBLE_DUPLICATE",
        "RUN_ID",
    ];
    assert_eq!(message(&ended), told.map(|name| format!("PUNCTUAL_{name}")).join(" "), "{ended}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_ends_with_everything_that_it_started() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let mark = folder.path().join("child");
    let tree = format!(r#"tree=sh -c "sleep 600 & echo $! > {}; wait""#, mark.display());
    let _executor = start(executor(&server, &[&tree]));
    is_there(&server, "ops").await;
    let job = server.create(job("ops", "tree", json!({"timeout": "5m"}))).await;
    let id = run(&server, job, Value::Null).await;
    let child = || std::fs::read_to_string(&mark).unwrap_or_default().trim().to_owned();
    eventually("the command runs", async || !child().is_empty()).await;
    server.post(&format!("/runs/{id}/cancel"), json!({})).await;
    let process = format!("/proc/{}/stat", child());
    // Who has ended and was not waited for yet is a zombie.
    let is_gone = || std::fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "));
    eventually("its child is gone", async || is_gone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_do_what_they_show() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    for (example, app, handler, payload, said) in [
        ("hello", "hello", "greet", Value::Null, "hello, greet"),
        ("orders", "shop", "send", json!({"number": 7, "items": ["tea"]}), "order 7: 1 items"),
    ] {
        let mut command = Command::new(Language::example(example));
        command.env("PUNCTUAL_URL", &server.url);
        let _running = start(command);
        is_there(&server, app).await;
        let job = server.create(job(app, handler, json!({}))).await;
        let ended = server.ended(run(&server, job, payload).await).await;
        assert_eq!((outcomes(&ended), message(&ended)), (vec!["succeeded"], said), "{ended}");
    }
    let mut command = Command::new(Language::python());
    command.arg(Language::clients().join("python/examples/hello.py"));
    command.env("PUNCTUAL_URL", &server.url).env("PUNCTUAL_EXECUTOR_TOKEN", "any");
    let _running = start(command);
    let job = server.create(job("hello", "hello", json!({}))).await;
    let ended = server.ended(run(&server, job, Value::Null).await).await;
    assert_eq!((outcomes(&ended), message(&ended)), (vec!["succeeded"], "hello, world"), "{ended}");
}

#[tokio::test]
async fn the_python_client_passes_its_own_tests() {
    let tests = Language::clients().join("python");
    let mut command = Command::new(Language::python());
    command.args(["-m", "unittest", "-q"]).current_dir(tests);
    let output = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("OK"), "{said}");
}
