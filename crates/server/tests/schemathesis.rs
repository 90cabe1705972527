//! The whole API, asked everything its document allows and much that it does not, by schemathesis.

mod house;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use house::{Folder, Server};

/// What is installed, from PyPI.
const TOOL: &str = "schemathesis==4.32.5";

/// The tool in a folder of its own, so that nothing of the machine is touched.
fn tool() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemathesis");
    let program = folder.join("bin/st");
    if !program.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder));
        succeed(Command::new(folder.join("bin/pip")).args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            TOOL,
        ]));
    }
    program
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}\n{}", said(&output.stdout), said(&output.stderr));
    output
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_the_document_allows_breaks_the_server_or_the_document() {
    let program = tool();
    let folder = Folder::new();
    // It makes jobs with any address it can think of: none of them may be called.
    let config = folder.path().join("punctual.toml");
    std::fs::write(&config, "[targets]\npublic = false\n").expect("a file");
    let server = Server::start_with(&folder, &["--config", config.to_str().expect("text")]).await;
    let report = folder.path().join("report");
    // Now and then the tool stumbles over itself while it makes up cases. Then it is asked again with other dice; what it
    // has to say against us is believed the first time.
    let mut said = String::new();
    for seed in ["1", "2", "3"] {
        let mut command = Command::new(&program);
        command
            .args(["run", &format!("{}/openapi.json", server.url)])
            .args(["--header", &format!("Authorization: Bearer {}", server.token)])
            // A schema cannot say what a cron expression or a cursor is, so not everything that fits it is accepted. A
            // stream of events has no end, and whoever revokes tokens at random soon has none.
            .args(["--checks", "all", "--exclude-checks", "positive_data_acceptance"])
            .args(["--exclude-path", "/api/v1/events", "--exclude-operation-id", "revokeToken"])
            .args(["--max-examples", "15", "--workers", "1", "--seed", seed])
            .args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "10", "--no-color"])
            .current_dir(folder_for(&report));
        let output = tokio::task::spawn_blocking(move || command.output().expect("it starts")).await;
        let output = output.expect("it ends");
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("= FAILURES ="), "{said}");
        if output.status.success() {
            said.clear();
            break;
        }
    }
    assert!(said.is_empty(), "the tool could not do its work: {said}");
    assert_eq!(server.get("/jobs").await.status, 200, "it lives on");
}

fn folder_for(path: &Path) -> PathBuf {
    std::fs::create_dir_all(path).expect("a folder");
    path.to_owned()
}
