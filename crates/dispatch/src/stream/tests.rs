//! Sessions over connections in memory: what an executor says beyond measure costs neither memory nor other listeners.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use futures_util::{SinkExt, StreamExt};
use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{Dispatch, Heard, Receipt};
use punctual_protocol::native::{FromExecutor, FromNode, Held, Hello, Log, Outcome, Progress, Refusal};
use punctual_protocol::native::{Report, Reports, VERSION};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{Natives, Options, Reception, SessionLimits, Setup};
use crate::clock;

/// Lets every executor in, and believes it.
struct OpenDoor;

#[async_trait]
impl Reception for OpenDoor {
    async fn welcome(&self, _: &Hello) -> Result<Vec<Held>, Refusal> {
        Ok(Vec::new())
    }

    fn is_carrier(&self) -> bool {
        false
    }

    async fn is_welcome(&self, _: &str) -> bool {
        true
    }

    async fn farewell(&self, _: &str, _: &str, _: bool) {}
}

/// Sessions, and what was heard over them.
struct House {
    natives: Natives,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl House {
    fn new(limits: SessionLimits) -> House {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        let natives = Natives::new(Setup {
            runtime: Handle::current(),
            options: Options { limits, ..Options::default() },
            now: Arc::new(|| Timestamp::from_millis(0)),
            sink: Arc::new(move |said| ears.lock().unwrap().extend(said)),
            keep: Arc::new(|_, _, _| true),
            node: "node".into(),
            dial: Arc::new(|_| Box::pin(async { Err("there is no other node".into()) })),
        });
        House { natives, heard }
    }

    /// An executor that holds this many attempts, with the runs 1, 2, 3 and so on.
    async fn executor(&self, app: &str, instance: &str, holds: u64) -> WebSocketStream<DuplexStream> {
        let (here, there) = duplex(64 << 10);
        self.natives.attend(there, Arc::new(OpenDoor));
        let mut socket = WebSocketStream::from_raw_socket(here, Role::Client, None).await;
        let hello = Hello {
            version: VERSION,
            app: app.into(),
            executor: "executor".into(),
            instance: instance.into(),
            capacity: 1,
            holds: (1..=holds).map(held).collect(),
            ..Hello::default()
        };
        say(&mut socket, &FromExecutor::Hello(hello)).await;
        let welcome = socket.next().await.unwrap().unwrap();
        assert!(matches!(FromNode::read(welcome.to_text().unwrap()), Ok(FromNode::Welcome(_))));
        socket
    }

    fn progress(&self) -> Vec<(u64, u8)> {
        let told = |heard: &Heard| match heard {
            Heard::Progress(progress) => Some((progress.run.0, progress.percent)),
            _ => None,
        };
        self.heard.lock().unwrap().iter().filter_map(told).collect()
    }

    fn receipts(&self) -> Vec<Receipt> {
        let receipt = |heard: &Heard| match heard {
            Heard::Report(report) => Some(report.receipt),
            _ => None,
        };
        self.heard.lock().unwrap().iter().filter_map(receipt).collect()
    }
}

fn held(run: u64) -> Held {
    Held { run, attempt: 1, token: 7 }
}

async fn say(socket: &mut WebSocketStream<DuplexStream>, said: &FromExecutor) {
    socket.send(Message::text(serde_json::to_string(said).unwrap())).await.unwrap();
}

fn progress(run: u64, percent: u8) -> FromExecutor {
    FromExecutor::Progress(Progress { run, attempt: 1, percent, note: String::new() })
}

/// A message with one report of this length.
fn report(length: usize) -> Message {
    let report = Report {
        run: 1,
        attempt: 1,
        token: 7,
        outcome: Outcome::Failed,
        message: "x".repeat(length),
        started_at: None,
        ended_ms_ago: None,
        retry: true,
    };
    let said = FromExecutor::Reports(Reports { reports: vec![report], credits: 0 });
    Message::text(serde_json::to_string(&said).unwrap())
}

/// Why the node ends the session.
async fn refusal(socket: &mut WebSocketStream<DuplexStream>) -> String {
    loop {
        let said = timeout(Duration::from_secs(5), socket.next()).await.expect("it is not ended");
        let said = said.expect("a reason comes before the end").unwrap();
        if let Message::Text(text) = said
            && let Ok(FromNode::Error(refusal)) = FromNode::read(&text)
        {
            return refusal.reason;
        }
    }
}

/// Lets the tasks of the sessions run for a moment.
async fn settle() {
    clock::sleep(Duration::from_millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_tells_its_progress_twice_a_second_at_most_and_the_latest_is_told() {
    let house = House::new(SessionLimits::default());
    let mut socket = house.executor("app", "1", 2).await;
    for round in 0..100 {
        say(&mut socket, &progress(1, round)).await;
    }
    say(&mut socket, &progress(2, 7)).await;
    settle().await;
    assert_eq!(house.progress(), [(1, 0), (2, 7)], "another attempt does not wait");
    clock::sleep(Duration::from_millis(600)).await;
    assert_eq!(house.progress()[2..], [(1, 99)]);
    clock::sleep(Duration::from_millis(600)).await;
    say(&mut socket, &progress(1, 100)).await;
    settle().await;
    assert_eq!(house.progress()[3..], [(1, 100)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_reports_are_not_kept_is_ended_before_they_fill_memory() {
    let house = House::new(SessionLimits { session: 100_000, app: 150_000, all: 250_000 });
    let mut first = house.executor("app", "1", 1).await;
    first.send(report(50_000)).await.unwrap();
    first.send(report(60_000)).await.unwrap();
    let reason = refusal(&mut first).await;
    assert!(reason.contains("this session's reports that are not kept yet"), "{reason}");
    let mut second = house.executor("app", "2", 1).await;
    second.send(report(60_000)).await.unwrap();
    settle().await;
    let mut third = house.executor("app", "3", 1).await;
    third.send(report(60_000)).await.unwrap();
    let reason = refusal(&mut third).await;
    assert!(reason.contains("the sessions of app `app` hold 150000 bytes"), "{reason}");
    let mut other = house.executor("other", "1", 1).await;
    other.send(report(60_000)).await.unwrap();
    settle().await;
    assert_eq!(house.receipts().len(), 3, "the other app has room");
    assert_eq!(house.natives.sessions_refused(), 2);
    // What is kept is given back.
    house.natives.acknowledge(house.receipts());
    let mut again = house.executor("app", "4", 1).await;
    again.send(report(60_000)).await.unwrap();
    settle().await;
    assert_eq!(house.receipts().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_never_finished_are_counted_and_their_sessions_ended() {
    let house = House::new(SessionLimits { session: 1 << 20, app: 300_000, all: 1 << 20 });
    let mut sockets = Vec::new();
    for instance in ["1", "2"] {
        let mut socket = house.executor("app", instance, 0).await;
        // The head of a text of 250,000 bytes, its mask, and most of it.
        let mut frame = vec![0x81, 0xff];
        frame.extend(250_000_u64.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend([b' '; 200_000]);
        // The node may hang up before it has read all.
        let _ = socket.get_mut().write_all(&frame).await;
        settle().await;
        sockets.push(socket);
    }
    let reason = refusal(&mut sockets[1]).await;
    assert!(reason.contains("hold 300000 bytes of unfinished messages"), "{reason}");
    let mut calm = house.executor("other", "1", 1).await;
    calm.send(report(60_000)).await.unwrap();
    settle().await;
    assert_eq!(house.receipts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_finishes_its_messages_may_say_any_number_of_them() {
    let house = House::new(SessionLimits { session: 1 << 20, app: 150_000, all: 150_000 });
    let mut socket = house.executor("app", "1", 1).await;
    for number in 0..20 {
        let lines = vec!["x".repeat(5_000); 20];
        let log = Log { run: 1, attempt: 1, from: 1 + number * 20, lines };
        say(&mut socket, &FromExecutor::Log(log)).await;
        socket.send(Message::Ping(vec![0; 100].into())).await.unwrap();
    }
    socket.send(report(10)).await.unwrap();
    settle().await;
    assert_eq!((house.receipts().len(), house.natives.sessions_refused()), (1, 0));
    assert!(house.natives.log(RunId(1), Attempt(1), 1).is_some_and(|(_, next)| next == 401));
}
