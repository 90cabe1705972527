//! Loopback that is borrowed: web pages, proxies and jobs of the node itself connect from the same machine, and are not
//! its owner.

use serde_json::{Value, json};

use crate::house::{Folder, Reply, Server, ask, job};

const REGISTRATION: &str =
    r#"{"registryGroup":"EXECUTOR","registryKey":"reports","registryValue":"http://127.0.0.1:9"}"#;

async fn register(server: &Server, headers: &[(&str, &str)]) -> Reply {
    ask(&server.url, "POST", "/api/registry", headers, REGISTRATION).await.unwrap()
}

async fn connect(server: &Server, headers: &[(&str, &str)]) -> u16 {
    let mut all = vec![
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    all.extend(headers);
    ask(&server.url, "GET", "/api/v1/executors/connect", &all, "").await.unwrap().status
}

async fn executors(server: &Server) -> usize {
    let app = server.get("/apps/reports").await;
    if app.status == 404 { 0 } else { app.json()["executors"].as_array().map_or(0, Vec::len) }
}

#[tokio::test]
async fn a_web_page_and_whoever_comes_through_a_proxy_need_a_token() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    for header in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("x-forwarded-for", "198.51.100.7"),
        ("forwarded", "for=198.51.100.7"),
        ("x-real-ip", "198.51.100.7"),
        ("via", "1.1 proxy"),
    ] {
        assert_eq!(register(&server, &[header]).await.json()["code"], 500, "{header:?}");
        assert_eq!(connect(&server, &[header]).await, 401, "{header:?}");
    }
    assert_eq!(executors(&server).await, 0);
    assert_eq!(register(&server, &[]).await.json()["code"], 200, "an executor of this machine is taken");
}

#[tokio::test]
async fn the_trust_in_loopback_can_be_switched_off() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("punctual.toml"), "[executors]\ntrust_loopback = false\n").unwrap();
    let config = folder.path().join("punctual.toml");
    let server = Server::start_with(&folder, &["--config", config.to_str().unwrap()]).await;
    assert_eq!(register(&server, &[]).await.json()["code"], 500);
    assert_eq!(connect(&server, &[]).await, 401);
}

#[tokio::test]
async fn a_node_that_others_reach_trusts_no_loopback() {
    let folder = Folder::new();
    let server = Server::start_with(&folder, &["--listen", "0.0.0.0:0", "--insecure"]).await;
    assert_eq!(register(&server, &[]).await.json()["code"], 500);
}

/// A run of a new job that sends a registration there.
async fn run_once(server: &Server, name: &str, url: &str) -> Value {
    let mut job = job(name, json!({"kind": "manual"}), url);
    job["target"]["method"] = if url.ends_with("/healthz") { "GET".into() } else { "POST".into() };
    if job["target"]["method"] == "POST" {
        job["target"]["body"] = REGISTRATION.into();
    }
    job["retry"] = json!({"max_attempts": 1});
    let made = server.post("/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let id = made.json()["id"].as_u64().unwrap();
    let started = server.post(&format!("/jobs/{id}/run"), json!({})).await;
    assert!(started.status < 300, "{}", started.text());
    server.ended(started.json()["run"].as_u64().unwrap()).await
}

#[tokio::test]
async fn a_job_cannot_call_the_doors_of_its_own_node() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let port = server.url.rsplit(':').next().unwrap().to_owned();
    for (name, host) in [("ip", "127.0.0.1"), ("other", "127.0.0.2"), ("name", "localhost"), ("six", "[::1]")]
    {
        let url = format!("http://{host}:{port}/api/registry");
        let ended = run_once(&server, name, &url).await;
        assert_eq!(ended["state"], "failed", "{ended}");
        assert!(ended.to_string().contains("this node itself"), "{ended}");
    }
    // Whether it is well a job may ask, and the connection that was opened for it is used for nothing else.
    let well = run_once(&server, "well", &format!("http://127.0.0.1:{port}/healthz")).await;
    assert_eq!(well["state"], "succeeded", "{well}");
    let door = run_once(&server, "door", &format!("http://127.0.0.1:{port}/api/registry")).await;
    assert!(door.to_string().contains("this node itself"), "{door}");
    assert_eq!(executors(&server).await, 0);
}
