//! A node that does what a test says, to try executors on.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use punctual_protocol::native::{FromExecutor, Held, Hello, Outcome, Report};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, accept_async};

/// Nothing takes this long unless it will never come.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("in vain: {what}"))
}

pub(crate) struct Node {
    listener: TcpListener,
}

impl Node {
    pub(crate) async fn new() -> Node {
        Node { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The next executor that connects, after its hello.
    pub(crate) async fn greet(&self) -> Session {
        let (stream, _) = soon("a connection", self.listener.accept()).await.unwrap();
        let socket = soon("a WebSocket", accept_async(stream)).await.unwrap();
        let mut session = Session { socket, hello: Hello::default() };
        let FromExecutor::Hello(hello) = session.next().await else {
            panic!("the first message is no hello")
        };
        session.hello = hello;
        session
    }

    /// The next executor that connects, with its session open.
    pub(crate) async fn welcome(&self) -> Session {
        let mut session = self.greet().await;
        session.send(welcome()).await;
        session
    }

    /// A raw connection, to be treated badly.
    pub(crate) async fn accept(&self) -> TcpStream {
        soon("a connection", self.listener.accept()).await.unwrap().0
    }
}

pub(crate) fn welcome() -> Value {
    json!({"type": "welcome", "version": 1, "node": "n1", "ping_ms": 20_000, "silence_ms": 60_000,
           "resume_ms": 3_000, "frame_max": 4_194_304})
}

pub(crate) struct Session {
    socket: WebSocketStream<TcpStream>,
    pub(crate) hello: Hello,
}

impl Session {
    pub(crate) async fn send(&mut self, message: Value) {
        self.send_raw(Message::text(message.to_string())).await;
    }

    /// Sends what the executor may hang up on.
    pub(crate) async fn try_send(&mut self, text: &str) {
        let _ = self.socket.send(Message::text(text)).await;
    }

    pub(crate) async fn send_raw(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// What the executor says next; none if it has gone.
    pub(crate) async fn hear(&mut self) -> Option<FromExecutor> {
        loop {
            match soon("a message", self.socket.next()).await? {
                Ok(Message::Text(text)) => return Some(FromExecutor::read(&text).unwrap()),
                // A close is answered by reading on.
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    pub(crate) async fn next(&mut self) -> FromExecutor {
        self.hear().await.expect("the executor has gone")
    }

    /// The next message, which gives credits and nothing else.
    pub(crate) async fn credit(&mut self) -> u32 {
        match self.next().await {
            FromExecutor::Credit(credit) => credit.more,
            other => panic!("no credit: {other:?}"),
        }
    }

    /// The next reports, whatever else is said meanwhile.
    pub(crate) async fn reports(&mut self) -> Vec<Report> {
        loop {
            if let FromExecutor::Reports(said) = self.next().await {
                return said.reports;
            }
        }
    }

    /// The next report, which comes alone.
    pub(crate) async fn report(&mut self) -> Report {
        let reports = self.reports().await;
        let [report] = &reports[..] else { panic!("not one report: {reports:?}") };
        report.clone()
    }

    pub(crate) async fn run(&mut self, run: u64, handler: &str, payload: Value) {
        self.send(runs(&[one(run, handler, payload)])).await;
    }

    pub(crate) async fn keep(&mut self, reports: &[Report]) {
        let held: Vec<Held> = reports.iter().map(Report::held).collect();
        self.send(json!({"type": "kept", "reports": held})).await;
    }

    pub(crate) async fn cancel(&mut self, run: u64) {
        let runs = json!([{"run": run, "attempt": 1, "token": 7, "reason": "asked"}]);
        self.send(json!({"type": "cancel", "runs": runs})).await;
    }
}

pub(crate) fn one(run: u64, handler: &str, payload: Value) -> Value {
    json!({"run": run, "job": 1, "name": "j", "handler": handler, "fire_time": "2026-11-15T09:00:00.000Z",
           "attempt": 1, "token": 7, "timeout_ms": 60_000, "payload": payload})
}

pub(crate) fn runs(runs: &[Value]) -> Value {
    json!({"type": "runs", "runs": runs})
}

/// How a report says that it ended.
pub(crate) fn told(report: &Report) -> (u64, Outcome, &str) {
    (report.run, report.outcome, report.message.as_str())
}
