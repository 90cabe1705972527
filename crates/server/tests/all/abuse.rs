//! Clients that hold what they can get: others get in all the same, and a refusal breaks nobody's connection.

#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

use std::time::{Duration, Instant};

use crate::house::{Folder, Server, ask};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Body = Full<&'static [u8]>;

async fn connected(server: &Server) -> SendRequest<Body> {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.expect("a connection");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("it is HTTP");
    tokio::spawn(connection);
    sender
}

/// The status of an answer, and whether it says that the connection ends.
async fn sent(sender: &mut SendRequest<Body>, request: Request<Body>) -> Result<(u16, bool), hyper::Error> {
    sender.ready().await?;
    let answer = sender.send_request(request).await?;
    let said = (answer.status().as_u16(), answer.headers().contains_key("connection"));
    answer.into_body().collect().await?;
    Ok(said)
}

fn request(method: &str, path: &str, body: &'static [u8]) -> Request<Body> {
    let built = Request::builder().method(method).uri(path).header("host", "here");
    built.header("content-type", "application/json").body(Full::new(body)).expect("a request")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_post_leaves_the_connection_as_it_is_or_says_that_it_ends() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let mut sender = connected(&server).await;
    let long: &'static [u8] = vec![b' '; 300 << 10].leak();
    for path in ["/api/v1/runs", "/api/v1/jobs", "/api/v1/nothing", "/api/callback", "/api/v1/session"] {
        let refused = sent(&mut sender, request("POST", path, long)).await.expect("an answer");
        assert!(!refused.1, "{path}: {refused:?}");
        let next = sent(&mut sender, request("GET", "/healthz", b"")).await;
        assert_eq!(next.expect("the same connection"), (200, false), "after {path}");
    }
    let too_long: &'static [u8] = vec![b' '; 3 << 20].leak();
    let refused = sent(&mut sender, request("POST", "/api/v1/runs", too_long)).await;
    assert!(refused.is_ok_and(|(status, says_so)| status == 401 && says_so));
}

/// Connections of which each says something once, and whose answers are not read.
async fn crowd(server: &Server, count: usize, said: &str) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..count {
        let address = server.url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        // Some are sent away again before they have said it.
        let _ = stream.write_all(said.as_bytes()).await;
        all.push(stream);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_a_token_gets_in_where_others_take_every_place() {
    let folder = Folder::new();
    let config = folder.path().join("small.toml");
    let text = "[server]\nconnections = 40\n[executors]\naccess_token = \"s3cret-of-executors\"\n";
    std::fs::write(&config, text).expect("a file");
    let server = Server::start_with(&folder, &["--config", config.to_str().expect("text")]).await;
    let token = &server.token;
    let _silent = crowd(&server, 60, "").await;
    let _idle = crowd(&server, 60, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0").await;
    let listen = format!("GET /api/v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    let _listeners = crowd(&server, 60, &listen).await;
    let beat = r#"{"registryGroup":"EXECUTOR","registryKey":"a","registryValue":"http://127.0.0.1:9/"}"#;
    for _ in 0..10 {
        let asked = Instant::now();
        assert_eq!(server.get("/jobs").await.status, 200);
        let headers = [("XXL-JOB-ACCESS-TOKEN", "s3cret-of-executors")];
        let answer = ask(&server.url, "POST", "/api/registry", &headers, beat).await.expect("an answer");
        assert_eq!(answer.json()["code"], 200);
        assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    }
    let metrics = server.get("/metrics").await.text();
    let evicted = metrics.lines().find_map(|line| line.strip_prefix("punctual_connections_evicted_total "));
    assert!(evicted.and_then(|count| count.parse::<u64>().ok()) > Some(0), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_its_streams_and_loses_them_when_it_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let made = server.post("/tokens", serde_json::json!({"name": "reader", "role": "viewer"})).await.json();
    let (id, token) = (made["id"].as_u64().expect("an id"), made["token"].as_str().expect("a token"));
    let listen = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    let mut listeners = crowd(&server, 101, &listen).await;
    let mut answers = Vec::new();
    for listener in &mut listeners {
        let mut read = [0; 12];
        listener.read_exact(&mut read).await.expect("the beginning of an answer");
        answers.push(String::from_utf8_lossy(&read).into_owned());
    }
    assert_eq!(answers.iter().filter(|answer| answer.ends_with("200")).count(), 100);
    assert_eq!(answers.iter().filter(|answer| answer.ends_with("429")).count(), 1);
    assert_eq!(server.ask("DELETE", &format!("/tokens/{id}"), None).await.status, 204);
    let revoked = Instant::now();
    let mut said = String::new();
    listeners[0].read_to_string(&mut said).await.expect("text");
    assert!(said.contains("revoked") && revoked.elapsed() < Duration::from_secs(15), "{said}");
}
