//! Tokens and files: what lies open on a disk, and who gets in when something went wrong.

#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use crate::house::{Folder, Server, ask, command, eventually};
use serde_json::json;

const GIVEN: &str = "an-admin-token-that-was-given";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Every byte that the store has on the disk.
fn bytes(folder: &Folder) -> Vec<u8> {
    let names = ["punctual.db", "punctual.db-wal", "punctual.db-shm"];
    names.iter().flat_map(|name| fs::read(folder.path().join(name)).unwrap_or_default()).collect()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Starts a server that is to end by itself, and soon; what it says then.
async fn refused(folder: &Folder, token: &str) -> String {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    serve.env("PUNCTUAL_ADMIN_TOKEN", token).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = serve.spawn().expect("the binary starts");
    let started = Instant::now();
    while child.try_wait().expect("it is ours").is_none() {
        if started.elapsed() > Duration::from_secs(30) {
            child.kill().expect("it was running");
            panic!("it serves, and should have refused to");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let output = child.wait_with_output().expect("it has ended");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn reset(folder: &Folder, more: &[&str]) -> Output {
    let mut reset = command();
    reset
        .args(["token", "reset", "--data"])
        .arg(folder.path())
        .args(more)
        .output()
        .expect("the binary starts")
}

async fn lists_jobs(server: &Server, token: &str) -> u16 {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    ask(&server.url, "GET", "/api/v1/jobs", &headers, "").await.expect("an answer").status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_made_with_an_idempotency_key_is_nowhere_on_the_disk() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let authorization = format!("Bearer {}", server.token);
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("idempotency-key", "the-very-key-of-this-test"),
    ];
    let body = json!({"name": "deploy", "role": "viewer"}).to_string();
    let make = async || ask(&server.url, "POST", "/api/v1/tokens", &headers, &body).await.expect("an answer");
    let made = make().await;
    assert_eq!(made.status, 201, "{}", made.text());
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let on_disk = bytes(&folder);
    assert!(holds(&on_disk, "the-very-key-of-this-test"), "what was asked is on the disk");
    assert!(!holds(&on_disk, &token), "and the token is not");
    let again = make().await;
    assert_eq!((again.status, again.text().contains("shown once")), (409, true), "{}", again.text());
    assert_eq!(lists_jobs(&server, &token).await, 200, "the first one stays");
    assert_eq!(server.get("/tokens").await.json()["items"].as_array().map(Vec::len), Some(2));
    assert!(server.stop().success());
    assert!(!holds(&bytes(&folder), &token), "nor after the log was written back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_cannot_write_the_token_locks_nobody_out() {
    let folder = Folder::new();
    let in_the_way = folder.path().join("admin-token");
    fs::create_dir(&in_the_way).unwrap();
    let said = refused(&folder, "").await;
    assert!(said.contains("cannot write") && said.contains("admin-token"), "{said}");
    fs::remove_dir(&in_the_way).unwrap();
    let server = Server::start(&folder).await;
    assert_eq!(server.get("/jobs").await.status, 200, "the next start makes the first token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_token_is_trimmed_and_never_printed() {
    let folder = Folder::new();
    let (out, said) = (folder.path().join("out"), folder.path().join("said"));
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder.path());
    serve.env("PUNCTUAL_ADMIN_TOKEN", format!(" {GIVEN}\n")).stdout(fs::File::create(&out).unwrap());
    let mut child = serve.stderr(fs::File::create(&said).unwrap()).spawn().expect("the binary starts");
    let greeted = async || fs::read_to_string(&out).unwrap().contains("token");
    eventually("it has greeted", greeted).await;
    child.kill().expect("it was running");
    child.wait().expect("it has ended");
    let told = fs::read_to_string(&out).unwrap() + &fs::read_to_string(&said).unwrap();
    assert!(told.contains("as PUNCTUAL_ADMIN_TOKEN says") && !told.contains(GIVEN), "{told}");
    assert_eq!(fs::read_to_string(folder.path().join("admin-token")).unwrap(), GIVEN);
    let server = Server::start(&folder).await;
    assert_eq!(lists_jobs(&server, GIVEN).await, 200, "and it opens the door");
}

#[tokio::test]
async fn a_given_token_that_can_be_guessed_is_refused() {
    let said = refused(&Folder::new(), "short").await;
    assert!(said.contains("expected 16 to 256") && !said.contains("short"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_closed_to_others_also_in_a_folder_that_was_there() {
    let folder = Folder::new();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let server = Server::start(&folder).await;
    let names = ["punctual.db", "punctual.db-wal", "punctual.db-shm", "punctual.db.lock", "admin-token"];
    for name in names {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
    let log = || fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(log().contains(&format!("chmod 700 {}", folder.path().display())), "{}", log());
    assert!(server.stop().success());
    for name in names.map(|name| folder.path().join(name)).iter().filter(|path| path.exists()) {
        fs::set_permissions(name, Permissions::from_mode(0o644)).unwrap();
    }
    let _server = Server::start(&folder).await;
    for name in names {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}, after a restart");
    }
    assert!(log().contains("was readable by others"), "{}", log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_of_the_machine_resets_a_lost_admin_token() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let old = server.token.clone();
    let beside = reset(&folder, &[]);
    let said = String::from_utf8_lossy(&beside.stderr).into_owned();
    assert!(beside.status.code() == Some(1) && said.contains("in use by another process"), "{said}");
    assert!(server.stop().success());
    fs::remove_file(folder.path().join("admin-token")).unwrap();
    let output = reset(&folder, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let token = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert_eq!(fs::read_to_string(folder.path().join("admin-token")).unwrap(), token);
    assert_eq!(mode(&folder.path().join("admin-token")), 0o600);
    let server = Server::start(&folder).await;
    assert_eq!((server.token == token, lists_jobs(&server, &token).await), (true, 200));
    assert_eq!(lists_jobs(&server, &old).await, 200, "nothing else was revoked");
    assert!(server.stop().success());
    let output = reset(&folder, &["--revoke-others", "-o", "json"]);
    let made: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["revoked"], 2);
    let server = Server::start(&folder).await;
    assert_eq!(lists_jobs(&server, made["token"].as_str().unwrap()).await, 200);
    assert_eq!((lists_jobs(&server, &old).await, lists_jobs(&server, &token).await), (401, 401));
}

#[test]
fn a_folder_without_a_database_has_no_token_to_reset() {
    let folder = Folder::new();
    let output = reset(&folder, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("there is no database in"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "and nothing is made");
}
