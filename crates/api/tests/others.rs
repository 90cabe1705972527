//! One node answers for all: figures and events of the others, and what becomes of it where another is away, slow, or says
//! something else than was asked.

#![expect(clippy::disallowed_methods, reason = "nodes answer in real time, or with the clock paused")]

mod house;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use house::{ELSEWHERE, ask, open_among, request};
use http_body::Frame;
use http_body_util::BodyExt;
use punctual_api::{Others, peer_token};
use punctual_core::event::Event;
use punctual_core::model::{Attempt, JobId, Outcome, RunId, ShardId};
use punctual_observe::EventLog;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::ServiceExt;

/// How another node answers a question.
#[derive(Clone)]
enum Answer {
    /// With what a node says, changed as the test wants.
    Figures(fn(&mut Value)),
    Text(&'static str),
    Never,
    Down,
}

/// Other nodes, called by what they do.
#[derive(Default)]
struct Neighbours {
    answers: BTreeMap<&'static str, Answer>,
    asked: Mutex<Vec<String>>,
    /// Every stream that was opened: where, after which event, and the end that a test writes to.
    streams: Mutex<Vec<Stream>>,
}

struct Stream {
    last_id: Option<String>,
    lines: mpsc::Sender<Bytes>,
}

struct Lines(mpsc::Receiver<Bytes>);

impl http_body::Body for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[async_trait]
impl Others for Neighbours {
    async fn ask(&self, address: &str, path: &str, body: Bytes, max: usize) -> Result<Bytes, String> {
        assert_eq!(path, "/api/v1/peers/figures");
        self.asked.lock().unwrap().push(address.to_owned());
        match &self.answers[address] {
            Answer::Down => Err("connection refused".into()),
            Answer::Never => std::future::pending().await,
            Answer::Text(text) => Ok(Bytes::from_static(text.as_bytes())),
            Answer::Figures(change) => {
                let mut told = figures(&serde_json::from_slice(&body).unwrap());
                change(&mut told);
                let told = Bytes::from(told.to_string());
                assert!(told.len() < max);
                Ok(told)
            }
        }
    }

    async fn listen(&self, _: &str, path: &str, last_id: Option<&str>) -> Result<Body, String> {
        assert_eq!(path, "/api/v1/peers/events");
        let (lines, rest) = mpsc::channel(16);
        self.streams.lock().unwrap().push(Stream { last_id: last_id.map(str::to_owned), lines });
        Ok(Body::new(Lines(rest)))
    }
}

/// What a node says that has run 7 of job 1 behind it, three more in hand, and counted two.
fn figures(asked: &Value) -> Value {
    let count = asked["stretches"]["count"].as_u64().unwrap_or(0) as usize;
    let mut counted = vec![json!({}); count];
    if let Some(last) = counted.last_mut() {
        *last = json!({"succeeded": 1, "failed": 1, "sent": 2, "late": 1, "lag_max_ms": 2_500, "lags": [[22, 1], [8, 1]]});
    }
    let seven = json!({"run": 7, "outcome": "failed", "at": 1_772_953_000_000_u64, "took_ms": 30});
    json!({
        "began": 1_772_900_000_000_u64, "since": 1_772_900_000_000_u64, "counted": counted, "restored": vec![json!({}); count],
        "recent": if asked["jobs"] == json!([1]) { json!({"1": [seven]}) } else { json!({}) },
        "load": {"loaded": 2, "running": 3, "shards": 64, "due": 5, "oldest_due_ms": 700},
    })
}

fn neighbours(answers: &[(&'static str, Answer)]) -> (Vec<&'static str>, Arc<Neighbours>) {
    let names = answers.iter().map(|(name, _)| *name).collect();
    (names, Arc::new(Neighbours { answers: answers.iter().cloned().collect(), ..Neighbours::default() }))
}

async fn get(door: &Router, path: &str) -> Value {
    let answer = ask(door, request("GET", path, "viewer", "")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

const HISTORY: &str = "/api/v1/stats/history?hours=1";

#[tokio::test(start_paused = true)]
async fn figures_are_those_of_all_nodes_and_one_that_does_not_answer_is_named() {
    let (names, others) = neighbours(&[
        ("good", Answer::Figures(|_| {})),
        ("good too", Answer::Figures(|_| {})),
        ("slow", Answer::Never),
        ("down", Answer::Down),
    ]);
    let events = EventLog::new();
    let door = open_among(&names, others, &events).await;
    let own = Event::Closed {
        run: RunId(9),
        job: JobId(1),
        outcome: Outcome::Succeeded,
        reason: "".into(),
        took: None,
    };
    events.push(&[own], "2026-03-08T07:00:00Z".parse().unwrap());

    let began = Instant::now();
    let history = get(&door, HISTORY).await;
    assert!(began.elapsed() <= Duration::from_millis(1_100), "{:?}", began.elapsed());
    assert_eq!((&history["nodes"], &history["missing"]), (&json!(5), &json!(["down", "slow"])));
    let last = &history["buckets"][11];
    let figure = |name: &str| last[name].as_u64().unwrap();
    assert_eq!((figure("succeeded"), figure("failed"), figure("sent"), figure("late")), (3, 2, 4, 2));
    assert_eq!(
        (figure("lag_p50_ms"), figure("lag_max_ms")),
        (23, 2_500),
        "lags are added up before they are ranked"
    );

    let stats = get(&door, "/api/v1/stats").await;
    let figures = ["loaded", "running", "due", "shards", "oldest_due_ms"].map(|name| stats[name].clone());
    assert_eq!(figures, [4, 6, 10, 128, 700].map(|figure| json!(figure)));
    let rows = get(&door, "/api/v1/jobs").await;
    let runs = |job: &Value| -> Vec<Value> {
        job["recent"].as_array().unwrap().iter().map(|run| run["run"].clone()).collect()
    };
    assert_eq!(runs(&rows["items"][0]), [json!(7), json!(9)], "each once, whoever ended it");
    assert_eq!(runs(&get(&door, "/api/v1/jobs/1").await), [json!(7), json!(9)]);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_once_a_second_and_a_silent_node_less_often() {
    let (names, others) = neighbours(&[("good", Answer::Figures(|_| {})), ("slow", Answer::Never)]);
    let door = open_among(&names, Arc::clone(&others) as _, &EventLog::new()).await;
    let asked = |name: &str| others.asked.lock().unwrap().iter().filter(|one| *one == name).count();
    let both = tokio::join!(get(&door, HISTORY), get(&door, HISTORY));
    assert_eq!(both.0, both.1);
    assert_eq!((asked("good"), asked("slow")), (1, 1), "who asks at the same time shares the answer");
    tokio::time::advance(Duration::from_millis(1_001)).await;
    let began = Instant::now();
    assert_eq!(get(&door, HISTORY).await["missing"], json!(["slow"]));
    assert_eq!((asked("good"), asked("slow")), (2, 1));
    assert!(began.elapsed() < Duration::from_millis(100), "nobody waits for it again");
    tokio::time::advance(Duration::from_secs(5)).await;
    get(&door, HISTORY).await;
    assert_eq!((asked("good"), asked("slow")), (3, 2));
}

#[tokio::test]
async fn what_is_no_answer_is_left_out_whole() {
    let wrong: [(&str, Answer); 7] = [
        ("no json", Answer::Text("<html>")),
        ("nothing", Answer::Text("")),
        ("other stretches", Answer::Figures(|told| _ = told["counted"].as_array_mut().unwrap().pop())),
        ("other lags", Answer::Figures(|told| told["counted"][0] = json!({"lags": [[56, 1]]}))),
        ("negative", Answer::Figures(|told| told["counted"][0] = json!({"failed": -1}))),
        ("other times", Answer::Figures(|told| told["since"] = json!(i64::MAX))),
        (
            "other runs",
            Answer::Figures(|told| told["recent"] = json!({"1": [{"run": 1, "outcome": "fine", "at": 0}]})),
        ),
    ];
    let (mut names, others) = neighbours(&wrong);
    let door = open_among(&names, others, &EventLog::new()).await;
    let history = get(&door, HISTORY).await;
    names.sort_unstable();
    assert_eq!(history["missing"], json!(names));
    assert_eq!(history["buckets"][11]["failed"], 0);
}

#[tokio::test]
async fn only_nodes_ask_each_other_and_each_answers_for_itself() {
    let (names, others) = neighbours(&[("good", Answer::Figures(|_| {}))]);
    let events = EventLog::new();
    let door = open_among(&names, Arc::clone(&others) as _, &events).await;
    let asked = json!({"stretches": {"first": 0, "step": 1, "count": 3}, "jobs": [1]}).to_string();
    for token in ["", "admin"] {
        for (method, path) in [("POST", "/api/v1/peers/figures"), ("GET", "/api/v1/peers/events")] {
            assert_eq!(ask(&door, request(method, path, token, &asked)).await.status, 401, "{path}");
        }
    }
    let secret = peer_token(&[7; 32]);
    let told = ask(&door, request("POST", "/api/v1/peers/figures", &secret, &asked)).await.json();
    assert_eq!((told["counted"].as_array().unwrap().len(), &told["load"]["running"]), (3, &json!(0)));
    assert!(others.asked.lock().unwrap().is_empty(), "it asks no other");
    for wrong in [
        json!({"stretches": {"first": 0, "step": 1, "count": 100_000}, "jobs": []}),
        json!({"stretches": {"first": i64::MAX, "step": 2, "count": 1}, "jobs": []}),
        json!({"stretches": null, "jobs": vec![1; 1_001]}),
        json!([]),
    ] {
        let answer = ask(&door, request("POST", "/api/v1/peers/figures", &secret, &wrong.to_string())).await;
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

/// A client that listens, and what it has heard and not yet looked at.
struct Client {
    body: Body,
    text: String,
}

impl Client {
    async fn of(door: &Router, token: &str, last_id: Option<&str>) -> Client {
        let mut asked = request("GET", "/api/v1/events", token, "");
        if let Some(last_id) = last_id {
            asked.headers_mut().insert("last-event-id", last_id.parse().unwrap());
        }
        let answer = door.clone().oneshot(asked).await.unwrap();
        assert_eq!(answer.status(), 200);
        let mut client = Client { body: answer.into_body(), text: String::new() };
        client.until("retry: 2000").await;
        client
    }

    /// Reads until this was said, and gives everything up to there.
    async fn until(&mut self, said: &str) -> String {
        let late = Instant::now() + Duration::from_secs(20);
        while !self.text.contains(said) {
            let piece = tokio::time::timeout_at(late, self.body.frame()).await;
            let piece = piece.unwrap_or_else(|_| panic!("never said {said:?}, but {:?}", self.text));
            let piece = piece.expect("it goes on").unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        let end = self.text.find(said).unwrap();
        let end = self.text[end..].find("\n\n").map_or(self.text.len(), |more| end + more + 2);
        self.text.drain(..end).collect()
    }
}

fn line(said: Value) -> Bytes {
    Bytes::from(format!("{said}\n"))
}

fn begin(id: &str, is_reset: bool) -> Bytes {
    line(json!({"begin": {"id": id, "is_reset": is_reset}}))
}

/// An event of another node about an app, a job, or the node itself.
fn event(number: u64, name: &str, app: Option<&str>, job: Option<u32>) -> Bytes {
    let data = json!({"number": number, "job": job});
    line(json!({"event": {"id": format!("b-{number}"), "name": name, "app": app, "job": job, "data": data}}))
}

/// The stream that a node has opened last; waits for the one with this number.
async fn stream(others: &Neighbours, number: usize) -> (Option<String>, mpsc::Sender<Bytes>) {
    while others.streams.lock().unwrap().len() < number {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let streams = others.streams.lock().unwrap();
    (streams[number - 1].last_id.clone(), streams[number - 1].lines.clone())
}

/// A door with one other node, and a client of it that is heard.
async fn heard(token: &str) -> (Router, Arc<Neighbours>, EventLog, Client, mpsc::Sender<Bytes>) {
    let (names, others) = neighbours(&[("b", Answer::Down)]);
    let events = EventLog::new();
    let door = open_among(&names, Arc::clone(&others) as _, &events).await;
    let beginning = async {
        let (last, lines) = stream(&others, 1).await;
        assert_eq!(last, None);
        lines.send(begin("b-0", false)).await.unwrap();
        lines
    };
    let (client, lines) = tokio::join!(Client::of(&door, token, None), beginning);
    (door, others, events, client, lines)
}

#[tokio::test(start_paused = true)]
async fn what_happens_at_another_node_is_told_here_without_a_reset() {
    let (door, others, events, mut client, lines) = heard("viewer").await;
    lines.send(event(1, "run.closed", None, Some(1))).await.unwrap();
    let said = client.until("\"number\":1").await;
    assert!(said.contains("event: run.closed\n") && said.contains("\"node\":\"b\""), "{said}");
    assert!(!said.contains("event: reset"), "{said}");
    // With a number of this node, from which it can be resumed here.
    let id = said.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    drop(client);
    let mut client = Client::of(&door, "viewer", Some(&id)).await;
    let sent = Event::Sent {
        run: RunId(4),
        job: JobId(1),
        attempt: Attempt::FIRST,
        lag: Duration::ZERO,
        is_first: true,
    };
    events.push(&[sent], "2026-03-08T07:00:00Z".parse().unwrap());
    lines.send(event(2, "node.shard_taken", None, None)).await.unwrap();
    let said = client.until("\"number\":2").await;
    assert!(said.contains("run.sent") && !said.contains("event: reset"), "{said}");
    assert_eq!(others.streams.lock().unwrap().len(), 1, "all clients share one stream");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_one_app_hears_nothing_of_others_through_another_node() {
    let (_door, _others, _events, mut client, lines) = heard(ELSEWHERE).await;
    // The app of the job is looked up here, not believed.
    for (number, name, app, job) in [
        (1, "executor.joined", Some("reports"), None),
        (2, "run.closed", None, Some(1)),
        (3, "run.closed", None, Some(4_711)),
        (4, "node.shard_taken", None, None),
        (5, "executor.joined", Some("*"), None),
        (6, "executor.joined", Some("billing"), None),
    ] {
        lines.send(event(number, name, app, job)).await.unwrap();
    }
    let said = client.until("\"number\":6").await;
    assert_eq!(said.matches("event: ").count(), 1, "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_goes_on_where_it_was_and_a_gap_is_told() {
    let (_door, others, _events, mut client, lines) = heard("viewer").await;
    lines.send(event(1, "run.closed", None, Some(1))).await.unwrap();
    client.until("\"number\":1").await;
    others.streams.lock().unwrap().clear();
    drop(lines);
    let (last, lines) = stream(&others, 1).await;
    assert_eq!(last.as_deref(), Some("b-1"));
    lines.send(begin("b-1", false)).await.unwrap();
    lines.send(event(2, "run.closed", None, Some(1))).await.unwrap();
    let said = client.until("\"number\":2").await;
    assert!(!said.contains("event: reset"), "{said}");
    // It was too slow, or the other was away for too long.
    lines.send(line(json!({"missed": {"id": "b-9"}}))).await.unwrap();
    client.until("event: reset").await;
    others.streams.lock().unwrap().clear();
    drop(lines);
    let (last, lines) = stream(&others, 1).await;
    assert_eq!(last.as_deref(), Some("b-9"));
    lines.send(begin("c-0", true)).await.unwrap();
    client.until("event: reset").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_something_else_is_listened_to_anew_after_a_gap() {
    let endless = Bytes::from(vec![b'x'; 300 << 10]);
    for garbage in [
        Bytes::from_static(b"<html>\n"),
        Bytes::from_static(b"\xff\xfe\n"),
        endless,
        line(json!({"event": {"id": "b-1", "name": "run.closed"}})),
        event(2, "run.closed\n\nevent: reset", None, None),
        line(json!({"begin": {"id": "b\r\nx: y", "is_reset": false}})),
    ] {
        let (_door, others, _events, mut client, lines) = heard("viewer").await;
        lines.send(garbage).await.unwrap();
        let (last, lines) = stream(&others, 2).await;
        assert_eq!(last, None, "what it said last is not believed");
        lines.send(begin("b-7", false)).await.unwrap();
        lines.send(event(8, "run.closed", None, Some(1))).await.unwrap();
        let said = client.until("\"number\":8").await;
        let names: Vec<&str> = said.lines().filter(|line| line.starts_with("event: ")).collect();
        assert_eq!(names, ["event: reset", "event: run.closed"], "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_answer_keeps_nobody_waiting_and_is_told_as_a_gap_when_it_does() {
    let (names, others) = neighbours(&[("b", Answer::Down)]);
    let door = open_among(&names, Arc::clone(&others) as _, &EventLog::new()).await;
    let began = Instant::now();
    let mut client = Client::of(&door, "viewer", None).await;
    assert!(began.elapsed() <= Duration::from_millis(750), "{:?}", began.elapsed());
    let (_, lines) = stream(&others, 1).await;
    lines.send(begin("b-0", false)).await.unwrap();
    client.until("event: reset").await;
}

#[tokio::test(start_paused = true)]
async fn other_nodes_are_listened_to_only_while_a_client_listens() {
    let (door, others, _events, client, lines) = heard("viewer").await;
    assert!(!lines.is_closed());
    drop(client);
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        lines.send(line(json!("beat"))).await.unwrap();
    }
    assert!(!lines.is_closed(), "a client that comes back finds everything");
    tokio::time::sleep(Duration::from_secs(13)).await;
    assert!(lines.is_closed(), "nobody listens");
    // What happened meanwhile is missing for a client that goes on; one that begins has missed nothing.
    let (mut again, ()) = tokio::join!(Client::of(&door, "viewer", Some("00000000-0")), async {
        let (_, lines) = stream(&others, 2).await;
        lines.send(begin("b-5", false)).await.unwrap();
        std::mem::forget(lines);
    });
    again.until("event: reset").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_hands_on_what_happened_at_itself_and_nothing_else() {
    let (door, _others, events, mut client, lines) = heard("viewer").await;
    let secret = peer_token(&[7; 32]);
    let answer = door.clone().oneshot(request("GET", "/api/v1/peers/events", &secret, "")).await.unwrap();
    let mut peer = Client { body: answer.into_body(), text: String::new() };
    lines.send(event(1, "run.closed", None, Some(1))).await.unwrap();
    client.until("\"number\":1").await;
    events.push(&[Event::ShardLeft { shard: ShardId(3) }], "2026-03-08T07:00:00Z".parse().unwrap());
    let said = peer.until("shard_left").await;
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert_eq!(lines[0]["begin"]["is_reset"], false);
    assert_eq!(
        (&lines[1]["event"]["name"], &lines[1]["event"]["data"]["shard"]),
        (&json!("node.shard_left"), &json!(3))
    );
}
