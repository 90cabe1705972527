//! Whoever speaks the protocol wrongly is told why and shown out, and nobody else notices.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::program::{Language, Program, job, run};
use crate::house::{Folder, Server, eventually};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(server: &Server, token: &str) -> Result<Socket, Error> {
    let url = format!("{}/api/v1/executors/connect", server.url.replace("http", "ws"));
    let mut request = url.into_client_request().expect("a request");
    if !token.is_empty() {
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().expect("a header"));
    }
    connect_async(request).await.map(|(socket, _)| socket)
}

fn hello(more: Value) -> Value {
    let mut hello = json!({"type": "hello", "version": 1, "app": "raw", "executor": "raw", "instance": "1",
        "handlers": ["ok"], "capacity": 10, "holds": []});
    for (name, value) in more.as_object().expect("fields") {
        hello[name] = value.clone();
    }
    hello
}

async fn say(socket: &mut Socket, message: &Value) {
    socket.send(Message::text(message.to_string())).await.expect("it is heard");
}

/// The next message; none if the connection ended.
async fn hear(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let said: Value = serde_json::from_str(&text).ok()?;
                // How many wait for credits is a hint that may come at any moment.
                if said["type"] != "want" {
                    return Some(said);
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return None,
        }
    }
}

/// The reason for which a session ends.
async fn shown_out(socket: &mut Socket) -> String {
    while let Some(said) = hear(socket).await {
        if said["type"] == "error" {
            assert!(hear(socket).await.is_none(), "nothing follows");
            return said["code"].as_str().expect("a code").to_owned();
        }
    }
    "closed".into()
}

async fn open(server: &Server, more: Value) -> Socket {
    let mut socket = connect(server, "").await.expect("let in");
    say(&mut socket, &hello(more)).await;
    assert_eq!(hear(&mut socket).await.expect("an answer")["type"], "welcome");
    socket
}

#[tokio::test]
async fn who_greets_wrongly_is_told_why() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    for (first, code) in [
        (hello(json!({"version": 7})), "version"),
        (hello(json!({"app": "a/b"})), "malformed"),
        (hello(json!({"capacity": 0})), "malformed"),
        (hello(json!({"holds": 3})), "malformed"),
        (json!({"type": "credit", "more": 1}), "malformed"),
        (json!([1]), "malformed"),
    ] {
        let mut socket = connect(&server, "").await.expect("let in");
        say(&mut socket, &first).await;
        assert_eq!(shown_out(&mut socket).await, code, "{first}");
    }
}

#[tokio::test]
async fn who_goes_on_wrongly_is_told_why() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    for (message, code) in [
        (Message::text("{"), "malformed"),
        (Message::text(r#"{"type":"credit","more":0}"#), "malformed"),
        (Message::text(hello(json!({})).to_string()), "malformed"),
        (Message::binary(vec![1, 2]), "malformed"),
        (Message::text("x".repeat((4 << 20) + 1)), "too_large"),
    ] {
        let mut socket = open(&server, json!({})).await;
        let _ = socket.send(message).await;
        let told = shown_out(&mut socket).await;
        // What is still on its way when a connection is closed may take the last words with it.
        assert!(told == code || code == "too_large" && told == "closed", "{code}: {told}");
    }
    let mut socket = open(&server, json!({})).await;
    say(&mut socket, &json!({"type": "sing", "song": 1})).await;
    say(&mut socket, &json!({"type": "credit", "more": 1, "colour": "red"})).await;
    let job = server.create(job("raw", "ok", json!({}))).await;
    run(&server, job, Value::Null).await;
    assert_eq!(hear(&mut socket).await.expect("a run")["type"], "runs");
}

#[tokio::test]
async fn reports_about_what_it_does_not_hold_change_nothing() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let job = server.create(job("raw", "ok", json!({}))).await;
    let waiting = run(&server, job, Value::Null).await;
    let mut socket = open(&server, json!({})).await;
    let report = |run: u64, token: u64| {
        json!({"type": "reports", "reports": [
            {"run": run, "attempt": 1, "token": token, "outcome": "succeeded", "message": "made up"}]})
    };
    say(&mut socket, &report(12_345, 1)).await;
    assert_eq!(hear(&mut socket).await.expect("an answer")["type"], "kept");
    say(&mut socket, &json!({"type": "credit", "more": 1})).await;
    let sent = hear(&mut socket).await.expect("a run")["runs"][0].clone();
    assert_eq!(sent["run"], json!(waiting));
    // A token that was never given.
    say(&mut socket, &report(waiting, sent["token"].as_u64().unwrap() + 1_048_576)).await;
    assert_eq!(hear(&mut socket).await.expect("an answer")["type"], "kept");
    assert_ne!(server.run(waiting).await["state"], "succeeded");
    say(&mut socket, &report(waiting, sent["token"].as_u64().unwrap())).await;
    assert_eq!(server.ended(waiting).await["state"], "succeeded");
}

#[tokio::test]
async fn an_executor_of_another_app_learns_nothing_and_changes_nothing() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    // Nobody of its app is there, so the run waits.
    let victim = server.create(job("victim", "ok", json!({}))).await;
    let open_run = run(&server, victim, json!(null)).await;
    let before = server.run(open_run).await;
    for attempt in [1, 2] {
        let held = |run: u64| json!({"run": run, "attempt": attempt, "token": (1 << 20) + attempt});
        let holds = json!([held(open_run), held(open_run + 1_000)]);
        let mut socket = connect(&server, "").await.expect("let in");
        say(&mut socket, &hello(json!({"app": "evil", "holds": holds}))).await;
        let welcome = hear(&mut socket).await.expect("an answer");
        assert_eq!(welcome["stale"], holds, "an open number looks like a free one");
        say(
            &mut socket,
            &json!({"type": "log", "run": open_run, "attempt": attempt, "from": 1, "lines": ["forged"]}),
        )
        .await;
        let mut report = held(open_run);
        report["outcome"] = "succeeded".into();
        say(&mut socket, &json!({"type": "reports", "reports": [report]})).await;
        let kept = hear(&mut socket).await.expect("an answer");
        assert_eq!(kept, json!({"type": "kept", "reports": [held(open_run)]}));
    }
    assert_eq!(server.run(open_run).await, before);
    eventually("two hellos and two reports are counted", async || {
        server.get("/metrics").await.text().contains("punctual_reports_refused_total 4")
    })
    .await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_a_revoked_one_ends_the_session() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("c.toml"), "[executors]\naccess_token = \"right\"\n").unwrap();
    let config = folder.path().join("c.toml");
    let server = Server::start_with(&folder, &["--config", config.to_str().unwrap()]).await;
    for token in ["", "wrong"] {
        match connect(&server, token).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 401),
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    let mut socket = connect(&server, "right").await.expect("let in");
    say(&mut socket, &hello(json!({}))).await;
    assert_eq!(hear(&mut socket).await.expect("an answer")["type"], "welcome");
    let made =
        server.post("/tokens", json!({"name": "e", "role": "operator", "apps": ["mine"]})).await.json();
    let (id, token) = (made["id"].as_u64().unwrap(), made["token"].as_str().unwrap().to_owned());
    let mut socket = connect(&server, &token).await.expect("let in");
    say(&mut socket, &hello(json!({"app": "other", "instance": "2"}))).await;
    assert_eq!(shown_out(&mut socket).await, "refused");
    let mut socket = connect(&server, &token).await.expect("let in");
    say(&mut socket, &hello(json!({"app": "mine", "instance": "2"}))).await;
    assert_eq!(hear(&mut socket).await.expect("an answer")["type"], "welcome");
    assert_eq!(server.ask("DELETE", &format!("/tokens/{id}"), None).await.status, 204);
    assert_eq!(shown_out(&mut socket).await, "refused");
}

#[tokio::test]
async fn a_second_session_of_an_instance_ends_the_first() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let mut first = open(&server, json!({})).await;
    let mut second = open(&server, json!({})).await;
    assert_eq!(shown_out(&mut first).await, "replaced");
    say(&mut second, &json!({"type": "credit", "more": 1})).await;
    let job = server.create(job("raw", "ok", json!({}))).await;
    run(&server, job, Value::Null).await;
    assert_eq!(hear(&mut second).await.expect("a run")["type"], "runs");
}

/// Noise from a seed, so that what fails once fails again.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A message with something wrong in it.
fn noisy(noise: &mut Noise) -> Message {
    let good = [
        hello(json!({})).to_string(),
        r#"{"type":"credit","more":5}"#.into(),
        r#"{"type":"reports","credits":1,"reports":[{"run":1,"attempt":1,"token":1,"outcome":"failed"}]}"#
            .into(),
        r#"{"type":"log","run":1,"attempt":1,"from":1,"lines":["a","b"]}"#.into(),
        r#"{"type":"progress","run":1,"attempt":1,"percent":5}"#.into(),
        r#"{"type":"drain"}"#.to_owned(),
    ];
    let mut bytes = good[noise.next() as usize % good.len()].clone().into_bytes();
    for _ in 0..noise.next() % 4 {
        let place = noise.next() as usize % bytes.len();
        match noise.next() % 3 {
            0 => bytes[place] = (noise.next() % 128) as u8,
            1 => bytes.truncate(place.max(1)),
            _ => bytes.insert(place, b"0{}[]\",:9-"[noise.next() as usize % 10]),
        }
    }
    Message::text(String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_and_a_crowd_at_the_door_are_noticed_by_nobody() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let _program = Program::start(Language::Rust, &server, "native").await;
    let job = server.create(job("native", "ok", json!({}))).await;
    let mut crowd = tokio::task::JoinSet::new();
    for seed in 1..=8_u64 {
        let url = server.url.clone();
        crowd.spawn(async move {
            let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            for number in 0..250 {
                let url = format!("{}/api/v1/executors/connect", url.replace("http", "ws"));
                let Ok((mut socket, _)) = connect_async(url).await else { continue };
                let name = format!("{seed}-{number}");
                let _ = socket.send(Message::text(hello(json!({"instance": name})).to_string())).await;
                for _ in 0..noise.next() % 6 {
                    let _ = socket.send(noisy(&mut noise)).await;
                }
            }
        });
    }
    let mut done = 0;
    while !crowd.is_empty() {
        let run = server.ended(run(&server, job, Value::Null).await).await;
        assert_eq!(run["state"], "succeeded", "{run}");
        done += 1;
        while let Some(one) = crowd.try_join_next() {
            one.expect("nobody in the crowd panics");
        }
    }
    assert!(done > 0);
    eventually("the crowd is gone", async || {
        let executors = server.get("/apps/raw/executors").await.json();
        executors["items"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
    assert_eq!(server.get("/readyz").await.status, 200);
}
