//! An executor that answers anything but what it should, beside one that does.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::kind::Kind;
use super::stage::{Stage, TOKEN, all, attempt, state};
use crate::house::eventually;

/// How late a run of a well-behaved app may be on a machine that does other things too.
const SOON_MS: i64 = 1_500;

/// What is said to a request for a run.
#[derive(Clone)]
enum Saying {
    /// These bytes, whatever they are.
    Bytes(Vec<u8>),
    /// Nothing, and the connection is closed.
    Nothing,
    /// Nothing, for longer than anybody waits.
    Silence,
}

use Saying::{Bytes, Nothing, Silence};

/// A whole answer.
fn http(status: &str, media: &str, body: &str) -> Saying {
    let length = body.len();
    Bytes(
        format!("HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n{body}")
            .into(),
    )
}

fn ok(body: &str) -> Saying {
    http("200 OK", "application/json", body)
}

/// An executor that does as it likes when it is to run something, and as it should otherwise.
struct Fake {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Fake {
    async fn saying(saying: Saying) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let task = tokio::spawn(serve(listener, saying, Arc::clone(&asked)));
        Fake { address, asked, task }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often something was asked.
    fn count(&self, path: &str) -> usize {
        self.asked.lock().expect("no panic").iter().filter(|one| *one == path).count()
    }

    async fn register(&self, stage: &Stage, app: &str) {
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": app, "registryValue": self.url()});
        let answer = stage.door("registry", TOKEN, body).await;
        assert_eq!((answer.status, &answer.json()["code"]), (200, &json!(200)), "{}", answer.text());
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, saying: Saying, asked: Arc<Mutex<Vec<String>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(converse(stream, saying.clone(), Arc::clone(&asked)));
    }
}

async fn converse(mut stream: TcpStream, saying: Saying, asked: Arc<Mutex<Vec<String>>>) -> Option<()> {
    loop {
        let path = request(&mut stream).await?;
        asked.lock().expect("no panic").push(path.clone());
        let said = if path == "/run" { saying.clone() } else { ok(r#"{"code":200,"msg":null}"#) };
        match said {
            Bytes(bytes) => stream.write_all(&bytes).await.ok()?,
            Nothing => return None,
            Silence => tokio::time::sleep(Duration::from_secs(600)).await,
        }
    }
}

/// Reads a request to its end, and says its path.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
    stream.read_exact(&mut vec![0; length.parse().ok()?]).await.ok()?;
    head.split(' ').nth(1).map(str::to_owned)
}

/// What is said, how the attempt ends, and what is told of it.
fn sayings() -> Vec<(&'static str, Saying, &'static str, &'static str)> {
    let huge = format!(r#"{{"code":500,"msg":"{}"}}"#, "x".repeat(2 << 20));
    let array =
        r#"[{"logId":1,"executeResult":{"code":500,"msg":"There are tasks running"},"handleCode":500}]"#;
    vec![
        // These say no, in whichever words.
        ("another code", ok(r#"{"code":404,"msg":"what?"}"#), "refused", "what?"),
        ("a list", ok(array), "refused", "There are tasks running"),
        ("a page", http("404 Not Found", "text/html", "<html>no</html>"), "refused", "404"),
        (
            "trouble",
            http("500 Internal Server Error", "text/plain", "got itself in trouble"),
            "refused",
            "trouble",
        ),
        (
            "a door",
            http("401 Unauthorized", "application/json", r#"{"code":401,"msg":"who?"}"#),
            "refused",
            "who?",
        ),
        // After these nobody knows whether it has the run, and it never says so.
        ("garbage", Bytes(b"\x00\xff\x7fwhat\n\n\n".to_vec()), "timed_out", ""),
        ("another page", http("200 OK", "text/html", "<html>yes</html>"), "timed_out", ""),
        ("an empty list", ok("[]"), "timed_out", ""),
        ("an empty answer", ok(""), "timed_out", ""),
        (
            "half an answer",
            Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"code\"".to_vec()),
            "timed_out",
            "",
        ),
        ("too much", ok(&huge), "timed_out", ""),
        ("nothing", Nothing, "timed_out", ""),
        ("silence", Silence, "timed_out", ""),
        ("yes", ok(r#"{"code":200,"msg":"never to be heard of again"}"#), "timed_out", ""),
    ]
}

async fn misbehaves(stage: Rc<Stage>, number: usize) {
    let (name, saying, outcome, said) = sayings().swap_remove(number);
    let (fake, app) = (Fake::saying(saying).await, format!("fake-{number}"));
    fake.register(&stage, &app).await;
    let job = stage.job(&app, "any", json!({"timeout": "1s"})).await;
    let run = stage.run(job, "7").await;
    let (became, message) = attempt(&run, 0);
    assert_eq!((state(&run), became), ("failed", outcome), "{name}: {run:#}");
    assert!(!message.is_empty() && message.contains(said), "{name}: {run:#}");
    assert_eq!(fake.count("/run"), 1, "{name}: nothing is sent twice");
    if outcome == "timed_out" {
        eventually("it is told to end it", async || fake.count("/kill") == 1).await;
        // What it answered is nobody's result. Whoever wonders finds it in the log.
        let told = stage
            .log()
            .lines()
            .any(|line| line.contains(&fake.url()) && line.contains("may have an attempt"));
        assert_eq!(told, name != "yes", "{name}");
    }
}

#[tokio::test]
async fn bad_answers_are_told_with_a_reason_and_keep_nobody_else_waiting() {
    let stage = Stage::new().await;
    let good = stage.hire(Kind::Pyxxl).await;
    let every = json!({"schedule": {"kind": "every", "interval": "500ms"}});
    let job = stage.job(&good.app, "ok", every).await;
    let names: Vec<&str> = sayings().iter().map(|(name, ..)| *name).collect();
    let scenarios = names.into_iter().enumerate();
    all(scenarios.map(|(number, name)| (name, misbehaves(Rc::clone(&stage), number)))).await;
    let stopped = stage.server.post(&format!("/jobs/{job}/stop"), json!({})).await;
    assert_eq!(stopped.status, 200, "{}", stopped.text());
    let runs = stage.server.runs(job).await;
    let done: Vec<&Value> =
        runs.iter().filter(|run| run["closed_at"].is_string() && state(run) != "skipped").collect();
    assert!(done.len() > 10, "{} runs", done.len());
    for run in done {
        assert_eq!(state(run), "succeeded", "{run:#}");
        assert!(run["lag_ms"].as_i64().expect("a lag") < SOON_MS, "{run:#}");
    }
}

#[tokio::test]
async fn what_is_reported_after_its_time_counts_no_more() {
    let stage = Stage::new().await;
    let fake = Fake::saying(ok(r#"{"code":200}"#)).await;
    fake.register(&stage, "late").await;
    let job = stage.job("late", "any", json!({"timeout": "1s"})).await;
    let run = stage.run(job, "7").await;
    assert_eq!(attempt(&run, 0).0, "timed_out", "{run:#}");
    let report = json!([{"logId": 1, "handleCode": 200, "handleMsg": "done after all"}]);
    let answer = stage.call_back(TOKEN, report).await;
    assert_eq!((answer.status, &answer.json()["code"]), (200, &json!(200)), "{}", answer.text());
    let id = run["id"].as_u64().expect("an id");
    let after = stage.server.run(id).await;
    assert_eq!((state(&after), attempt(&after, 0)), (state(&run), attempt(&run, 0)));
}

#[tokio::test]
async fn registrations_that_make_no_sense_are_refused_in_words_that_executors_read() {
    let stage = Stage::new().await;
    let of = |app: &str, address: &str| json!({"registryGroup": "EXECUTOR", "registryKey": app, "registryValue": address});
    for body in [
        of("", "http://127.0.0.1:1"),
        of("app", ""),
        of("a/b", "http://127.0.0.1:1"),
        of("app", "ftp://127.0.0.1:1"),
        of("app", "nowhere"),
        json!({"registryKey": "app"}),
        json!([]),
        json!("text"),
    ] {
        let answer = stage.door("registry", TOKEN, body.clone()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (200, &json!(500)), "{body}: {}", answer.text());
        assert!(answer.json()["msg"].as_str().is_some_and(|said| !said.is_empty()), "{}", answer.text());
    }
    assert_eq!(stage.door("nonsense", TOKEN, json!({})).await.json()["code"], 500);
    assert!(stage.executors("app").await.is_empty());
}
