//! How the server starts, refuses to start, listens and stops.

#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::house::{Agent, Answer, Folder, Server, ask, command, eventually, job};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn refused(arguments: &[&str], said: &[&str]) {
    let output: Output = command().args(arguments).output().expect("the binary starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{arguments:?}");
    for said in said {
        assert!(message.contains(said), "{said:?} is not in {message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_start_makes_a_token_that_only_its_user_reads() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let mode = std::fs::metadata(folder.path().join("admin-token")).expect("a token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(server.get("/jobs").await.status, 200);
    for authorization in ["", "Bearer ", "Bearer nonsense", "Basic abc"] {
        let answer = ask(&server.url, "GET", "/api/v1/jobs", &[("authorization", authorization)], "").await;
        assert_eq!(answer.expect("an answer").status, 401, "{authorization}");
    }
    let token = server.token.clone();
    assert!(server.stop().success());
    let again = Server::start(&folder).await;
    assert_eq!((again.get("/jobs").await.status, &again.token), (200, &token), "the second start keeps it");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(!log.contains(&token), "no token in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_a_port_and_an_address_that_cannot_be_had_are_refused_with_the_way_out() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let data = folder.path().to_str().expect("text");
    refused(&["serve", "--listen", "127.0.0.1:0", "--data", data], &["in use by another process", data]);
    let other = Folder::new();
    let (other, taken) = (other.path().to_str().expect("text"), server.url.trim_start_matches("http://"));
    refused(&["serve", "--listen", taken, "--data", other], &["is taken", "--listen"]);
    refused(&["serve", "--listen", "0.0.0.0:0", "--data", other], &["--insecure", "tls.certificate"]);
    refused(&["serve", "--listen", "nowhere", "--data", other], &["127.0.0.1:7070"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_what_is_on_its_way_end() {
    let folder = Folder::new();
    let agent = Agent::scripted(|_, _| Answer { after: Duration::from_secs(1), ..Answer::status(200) }).await;
    let server = Server::start(&folder).await;
    let id = server.create(job("slow", json!({"kind": "manual"}), &agent.url("/"))).await;
    let run = server.post(&format!("/jobs/{id}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    eventually("it is on its way", async || agent.count() == 1).await;
    assert!(server.stop().success());
    let server = Server::start(&folder).await;
    let run = server.run(run).await;
    assert_eq!((run["state"].as_str(), agent.count()), (Some("succeeded"), 1), "{run}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_slow_clients_hold_nobody_up() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let address = server.url.trim_start_matches("http://").to_owned();
    let mut slow = Vec::new();
    for number in 0..1_000 {
        let mut stream = TcpStream::connect(&address).await.expect("a connection");
        let said: &[u8] = match number % 4 {
            0 => b"",
            1 => b"G",
            2 => b"GET /api/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: ",
            _ => b"POST /api/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{",
        };
        stream.write_all(said).await.expect("it takes some bytes");
        slow.push(stream);
    }
    for _ in 0..20 {
        for stream in slow.iter_mut().step_by(7) {
            let _ = stream.write_all(b"a").await;
        }
        let asked = Instant::now();
        assert_eq!(server.get("/jobs").await.status, 200);
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_inside_are_out_of_reach_unless_allowed() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    // A node that listens to the world must not be led to its own house.
    let server = Server::start_with(&folder, &["--listen", "0.0.0.0:0", "--insecure"]).await;
    let id = server.create(job("inside", json!({"kind": "manual"}), &agent.url("/"))).await;
    let run = server.post(&format!("/jobs/{id}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    let run = server.ended(run).await;
    assert_eq!((run["state"].as_str(), agent.count()), (Some("failed"), 0), "{run}");
    assert!(run.to_string().contains("allow"), "{run}");
    server.kill();
    let server = Server::start_with(
        &folder,
        &["--listen", "0.0.0.0:0", "--insecure", "--allow-target", "127.0.0.0/8"],
    )
    .await;
    let run = server.post(&format!("/jobs/{id}/run"), json!({})).await.json()["run"].as_u64().expect("an id");
    assert_eq!(server.ended(run).await["state"], "succeeded");
}

/// Starts the binary without a command, and says what it greets with.
fn greeting(variables: &[(&str, &std::ffi::OsStr)]) -> String {
    let mut child = command()
        .envs(variables.iter().copied())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped"));
    let mut said = String::new();
    while !said.contains("token") && std::io::BufRead::read_line(&mut lines, &mut said).expect("text") > 0 {}
    child.kill().expect("it was started");
    child.wait().expect("it ends");
    said
}

#[test]
fn without_a_command_it_serves() {
    let folder = Folder::new();
    let said = greeting(&[
        ("PUNCTUAL_SERVER__LISTEN", "127.0.0.1:0".as_ref()),
        ("PUNCTUAL_DATA", folder.path().as_os_str()),
    ]);
    assert!(said.contains("http://127.0.0.1:"), "{said}");
}

#[test]
fn without_a_command_it_reads_the_configuration_like_serve_does() {
    let folder = Folder::new();
    let (config, data) = (folder.path().join("punctual.toml"), folder.path().join("elsewhere"));
    let text = format!("[server]\nlisten = \"127.0.0.1:0\"\ndata = {data:?}\n");
    std::fs::write(&config, text).expect("a file");
    // Were the file not read, there would be no folder to keep anything in.
    let said =
        greeting(&[("PUNCTUAL_CONFIG", config.as_os_str()), ("PUNCTUAL_DATA", "/dev/null/nowhere".as_ref())]);
    assert!(said.contains(data.to_str().expect("text")), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demo_that_is_stopped_while_it_prepares_leaves_nothing_behind() {
    let folder = Folder::new();
    let mut demo = command()
        .args(["demo", "--hours", "72"])
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let is_empty = || std::fs::read_dir(folder.path()).expect("a folder").next().is_none();
    eventually("the demo has made its folder", async || !is_empty()).await;
    let pid = rustix::process::Pid::from_child(&demo);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let status = demo.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert!(is_empty(), "its folder is gone");
}

#[test]
fn the_help_of_bench_is_no_mistake() {
    for word in ["--help", "-h"] {
        let output = command().args(["bench", word]).output().expect("it runs");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("usage: punctual bench"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_says_so_when_it_is_asked_whether_it_is_ready() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    assert_eq!(server.post("/nodes/self/drain", json!({})).await.status, 200);
    let answer = ask(&server.url, "GET", "/readyz", &[], "").await.expect("an answer");
    assert_eq!(answer.status, 503);
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.starts_with("the node is drained"), "{detail}");
}
