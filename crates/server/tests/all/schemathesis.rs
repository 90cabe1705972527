//! The whole API, asked everything its document allows and much that it does not, by schemathesis.
//!
//! Three operations have passes of their own: a stream of events has no end, whoever drains the node has none that fires, and whoever revokes tokens at random soon
//! has none.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::house::{Folder, Server, Window, ask};
use crate::packages::{self, Package};
use serde_json::{Value, json};

/// The operations that have passes of their own.
const EVENTS: &str = "listen";
const REVOKING: &str = "revokeToken";
const DRAINING: &str = "drainNode";

/// The tool in a folder of its own, so that nothing of the machine is touched.
fn tool() -> PathBuf {
    packages::folder(Package::Schemathesis).join("bin/st")
}

/// A server, and its document in a file: from where it was loaded, the tool would not ask again. Jobs are made with any
/// address that the tool can think of, and none of them may be called.
async fn server(folder: &Folder) -> Server {
    let config = folder.path().join("punctual.toml");
    std::fs::write(&config, "[targets]\npublic = false\n").expect("a file");
    let server = Server::start_with(folder, &["--config", config.to_str().expect("text")]).await;
    std::fs::write(folder.path().join("openapi.json"), server.get("/openapi.json").await.body)
        .expect("a file");
    server
}

/// How many operations the document has.
fn operations(folder: &Folder) -> usize {
    let document = std::fs::read(folder.path().join("openapi.json")).expect("the document");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    paths.values().map(|path| path.as_object().map_or(0, serde_json::Map::len)).sum()
}

/// One pass: who asks, by which way, and which operations.
struct Pass<'a> {
    folder: &'a Folder,
    document: PathBuf,
    by_way_of: String,
    token: &'a str,
    chosen: Vec<&'a str>,
}

impl<'a> Pass<'a> {
    fn new(folder: &'a Folder, server: &'a Server, chosen: &[&'a str]) -> Pass<'a> {
        Pass {
            folder,
            document: folder.path().join("openapi.json"),
            by_way_of: server.url.clone(),
            token: &server.token,
            chosen: chosen.to_vec(),
        }
    }

    /// Asks, and says how many operations it asked. Now and then the tool stumbles over itself
    /// while it makes up cases. Then it is asked again with other dice; what it has to say against us is believed the
    /// first time.
    async fn go(&self) -> usize {
        let program = tokio::task::spawn_blocking(tool).await.expect("it is there");
        let mut said = String::new();
        for seed in ["1", "2", "3"] {
            let mut command = self.command(&program, seed);
            let output = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await;
            let output = output.expect("it ends");
            said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!said.contains("= FAILURES ="), "{said}");
            if output.status.success() {
                return asked(&said);
            }
        }
        panic!("the tool could not do its work: {said}");
    }

    fn command(&self, program: &Path, seed: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg(&self.document)
            .args(["--url", &self.by_way_of])
            .args(["--header", &format!("Authorization: Bearer {}", self.token)])
            // A schema cannot say what a cron expression or a cursor is, so not everything that fits it is accepted.
            .args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"])
            .args(&self.chosen)
            .args(["--max-examples", "15", "--workers", "1", "--seed", seed])
            .args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "10", "--no-color"])
            // It leaves files where it runs.
            .current_dir(self.folder.path());
        command
    }
}

/// How many operations the tool tested.
fn asked(said: &str) -> usize {
    let tested = said.lines().find_map(|line| line.trim().strip_prefix("Tested:"));
    let count = tested.and_then(|count| count.trim().parse().ok());
    count.unwrap_or_else(|| panic!("it does not say what it tested: {said}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_the_document_allows_breaks_the_server_or_the_document() {
    let folder = Folder::new();
    let server = server(&folder).await;
    let all_others = [EVENTS, REVOKING, DRAINING].map(|id| ["--exclude-operation-id", id]).concat();
    let tested = Pass::new(&folder, &server, &all_others).go().await;
    assert_eq!(tested, operations(&folder) - 3, "those that are left out have passes of their own");
    assert_eq!(server.get("/jobs").await.status, 200, "it lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_to_events_is_as_the_document_says() {
    let folder = Folder::new();
    let server = server(&folder).await;
    let window = Window::on(&server.url).await;
    let pass = Pass::new(&folder, &server, &["--include-operation-id", EVENTS]);
    assert_eq!(Pass { by_way_of: window.url(), ..pass }.go().await, 1);
    assert_eq!(server.get("/jobs").await.status, 200, "it lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_is_as_the_document_says() {
    let folder = Folder::new();
    let server = server(&folder).await;
    assert_eq!(Pass::new(&folder, &server, &["--include-operation-id", DRAINING]).go().await, 1);
    assert_eq!(server.get("/jobs").await.status, 200, "it lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_tokens_is_as_the_document_says() {
    let folder = Folder::new();
    let server = server(&folder).await;
    // Small numbers are tried most, and the first of them is the server's own. So the one who asks comes late. Should it
    // revoke itself all the same, what follows is answered with 401, as the document says.
    let mut tokens = Vec::new();
    for number in 0..50 {
        let made = server.post("/tokens", json!({"name": format!("t{number}"), "role": "admin"})).await;
        tokens.push(made.json()["token"].as_str().expect("a token").to_owned());
    }
    let pass = Pass::new(&folder, &server, &["--include-operation-id", REVOKING]);
    assert_eq!(Pass { token: &tokens[49], ..pass }.go().await, 1);
    let mut opened = 0;
    for token in &tokens {
        let authorization = format!("Bearer {token}");
        let answer = ask(&server.url, "GET", "/api/v1/jobs", &[("authorization", &authorization)], "").await;
        let status = answer.expect("it lives on").status;
        assert!(matches!(status, 200 | 401), "{status}");
        opened += usize::from(status == 200);
    }
    assert!(opened > 0, "somebody can still come in");
    assert_eq!(server.get("/jobs").await.status, 401, "the first was tried and revoked");
}
