//! Callers who mean harm, or whose credential is over: what they may hold, and for how long.

#![expect(clippy::disallowed_methods, reason = "time is paused, and measured")]

mod house;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use house::{APP, Crew, Doorman, RUNNING, ask, open_before, open_to, request, view};
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use punctual_api::{Peer, Place, Seat, Standing};
use punctual_core::registry::Secret;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;
use tower::ServiceExt;

fn crew() -> Arc<Crew> {
    Crew::with(vec![view(APP, None)])
}

/// A body that a test writes piece by piece, and may break.
struct Pieces(Receiver<Result<Bytes, &'static str>>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data).map_err(Into::into)))
    }
}

type Writer = Sender<Result<Bytes, &'static str>>;

/// A stream of lines that nothing is written to the store for.
fn lines() -> (Writer, Request<Body>) {
    let (writer, pieces) = mpsc::channel(1_000);
    let mut asked = request("POST", "/api/v1/runs?dry_run=true", "operator", "");
    *asked.body_mut() = Body::new(Pieces(pieces));
    asked.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    (writer, asked)
}

async fn begin(door: &Router, request: Request<Body>) -> Response {
    door.clone().oneshot(request).await.unwrap()
}

/// All that still comes, and how long it took to end; a minute at most.
async fn rest(answer: Response) -> (String, Duration) {
    let begun = Instant::now();
    let body = tokio::time::timeout(Duration::from_secs(60), answer.into_body().collect()).await;
    let body = body.expect("it ends").unwrap().to_bytes();
    (String::from_utf8(body.to_vec()).unwrap(), begun.elapsed())
}

fn told(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const SECONDS: Duration = Duration::from_secs(6);

#[tokio::test(start_paused = true)]
async fn refused_calls_are_counted_by_reason() {
    let doorman = Arc::<Doorman>::default();
    let door = open_before(&crew(), &doorman, |settings| settings.strangers_max = 4).await;
    let count = async || ask(&door, request("GET", "/metrics", "admin", "")).await.text;
    let counted = |unauthenticated, too_often, too_large, too_slow| {
        let reasons = [
            ("unauthenticated", unauthenticated),
            ("too_often", too_often),
            ("too_large", too_large),
            ("too_slow", too_slow),
        ];
        let reasons = reasons.map(|(reason, count): (&str, u64)| format!("{reason}: {count}"));
        format!("CallsRefused {{ {} }}", reasons.join(", "))
    };
    let knock = |method: &str, path: &str, headers: &[(&'static str, &'static str)]| {
        let mut asked = request(method, path, "", "");
        for (name, value) in headers {
            asked.headers_mut().insert(*name, value.parse().unwrap());
        }
        asked.extensions_mut().insert(Peer("192.0.2.7:9".parse().unwrap()));
        asked
    };
    let socket = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ];
    ask(&door, knock("GET", "/api/v1/jobs", &[])).await;
    ask(&door, knock("GET", "/api/v1/executors/connect", &socket)).await;
    let mut callback = knock("POST", "/api/callback", &[]);
    *callback.body_mut() = Body::from(r#"[{"logId":1,"logDateTim":1,"handleCode":200}]"#);
    ask(&door, callback).await;
    assert_eq!(count().await, counted(3, 0, 0, 0));
    let mut borrowed = knock("POST", "/api/registry", &[("via", "1.1 proxy")]);
    *borrowed.body_mut() =
        Body::from(r#"{"registryGroup":"EXECUTOR","registryKey":"a","registryValue":"http://e"}"#);
    borrowed.extensions_mut().insert(Peer("127.0.0.1:9".parse().unwrap()));
    ask(&door, borrowed).await;
    ask(&door, knock("GET", "/api/v1/jobs", &[])).await;
    ask(&door, knock("GET", "/api/v1/jobs", &[])).await;
    assert_eq!(count().await, counted(5, 1, 0, 0));
    let mut long = request("POST", "/api/v1/jobs", "admin", "{}");
    long.headers_mut().insert("content-length", "100000000".parse().unwrap());
    assert_eq!(ask(&door, long).await.status, 413);
    let (_writer, slow) = lines();
    let (mut parts, body) = slow.into_parts();
    parts.uri = "/api/v1/jobs".parse().unwrap();
    parts.headers.insert("content-type", "application/json".parse().unwrap());
    parts.headers.insert("authorization", "Bearer admin".parse().unwrap());
    assert_eq!(ask(&door, Request::from_parts(parts, body)).await.status, 400);
    assert_eq!(count().await, counted(5, 1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn streams_end_within_seconds_of_their_token() {
    let (doorman, crew) = (Arc::<Doorman>::default(), crew());
    let door = open_before(&crew, &doorman, |_| {}).await;
    let events = begin(&door, request("GET", "/api/v1/events", "operator", "")).await;
    let path = format!("/api/v1/runs/{RUNNING}/log?follow=true");
    let log = begin(&door, request("GET", &path, "operator", "")).await;
    let (writer, asked) = lines();
    let stream = begin(&door, asked).await;
    for answer in [&events, &log, &stream] {
        assert_eq!(answer.status(), StatusCode::OK);
    }
    doorman.revoke("operator");
    writer.send(Ok(Bytes::from_static(b"{\"job\": 1}\n"))).await.unwrap();
    let ((events, took), (log, log_took), (stream, stream_took)) =
        tokio::join!(rest(events), rest(log), rest(stream));
    for (text, took) in [(&events, took), (&log, log_took), (&stream, stream_took)] {
        assert!(took <= SECONDS && text.contains("revoked"), "{took:?} {text}");
    }
    assert!(log.contains("event: cut"), "{log}");
    let last = told(&stream).pop().unwrap();
    assert_eq!((&last["line"], &last["error"]["status"]), (&2.into(), &401.into()), "{stream}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_for_as_long_as_it_comes() {
    let door = open_to(&crew(), |_| {}).await;
    let (writer, asked) = lines();
    let answer = begin(&door, asked).await;
    let sending = async move {
        for _ in 0..30 {
            tokio::time::sleep(Duration::from_secs(19)).await;
            writer.send(Ok(Bytes::from_static(b"{\"job\": 1}\n"))).await.unwrap();
        }
    };
    let (text, ()) = tokio::join!(answer.into_body().collect(), sending);
    let text = String::from_utf8(text.unwrap().to_bytes().to_vec()).unwrap();
    assert_eq!(told(&text).iter().filter_map(|line| line["accepted"].as_u64()).sum::<u64>(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_or_stops_is_answered_with_the_line_that_is_missing() {
    let door = open_to(&crew(), |_| {}).await;
    for (piece, said) in [(Some("gone"), "ended before it was complete"), (None, "came too slowly")] {
        let (writer, asked) = lines();
        let answer = begin(&door, asked).await;
        writer.send(Ok(Bytes::from_static(b"{\"job\": 1}\n{\"job\":"))).await.unwrap();
        if let Some(broken) = piece {
            writer.send(Err(broken)).await.unwrap();
        }
        let (text, _) = rest(answer).await;
        let lines = told(&text);
        assert_eq!(
            (lines.len(), &lines[0]["accepted"], &lines[1]["line"]),
            (2, &1.into(), &2.into()),
            "{text}"
        );
        assert!(lines[1]["error"]["detail"].as_str().unwrap().contains(said), "{text}");
        drop(writer);
    }
}

#[tokio::test]
async fn a_token_has_so_many_streams_and_the_next_is_refused() {
    let door = open_to(&crew(), |settings| settings.limits.streams_per_token = 2).await;
    let listen = async |token: &str| begin(&door, request("GET", "/api/v1/events", token, "")).await;
    let first = listen("viewer").await;
    let _second = listen("viewer").await;
    let refused = listen("viewer").await;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(listen("operator").await.status(), StatusCode::OK, "others have their own");
    drop(first);
    // The writer learns from its next word that nobody listens.
    for _ in 0..1_000 {
        if listen("viewer").await.status() == StatusCode::OK {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("a place that was given back is not to be had");
}

#[tokio::test]
async fn a_body_is_only_as_long_as_its_caller_and_operation_allow() {
    let door = open_to(&crew(), |settings| settings.body_max = 1 << 20).await;
    let long = format!(r#"{{"token": "{}"}}"#, "x".repeat(5_000));
    assert_eq!(ask(&door, request("POST", "/api/v1/session", "", &long)).await.status, 413);
    let door = open_to(&crew(), |settings| {
        settings.limits.buffered = 1_000;
        settings.limits.buffered_per_caller = 500;
    })
    .await;
    let answer = ask(&door, request("POST", "/api/v1/jobs", "editor", &" ".repeat(501))).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, "1"), "{}", answer.text);
}

/// A place that remembers whom it was introduced to.
#[derive(Default)]
struct Hall(Mutex<Vec<Standing>>);

impl Place for Hall {
    fn introduce(&self, standing: Standing) {
        self.0.lock().unwrap().push(standing);
    }
}

#[tokio::test]
async fn a_connection_is_introduced_when_its_caller_is_known() {
    let crew = crew();
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("s3cret"))).await;
    let hall = Arc::new(Hall::default());
    let meet = async |mut asked: Request<Body>| {
        asked.extensions_mut().insert(Seat(Arc::clone(&hall) as _));
        asked.extensions_mut().insert(Peer("192.0.2.7:9".parse().unwrap()));
        ask(&door, asked).await;
        std::mem::take(&mut *hall.0.lock().unwrap())
    };
    assert_eq!(meet(request("GET", "/api/v1/jobs", "wrong", "")).await, []);
    assert_eq!(meet(request("GET", "/healthz", "", "")).await, []);
    assert_eq!(meet(request("GET", "/api/v1/jobs", "viewer", "")).await, [Standing::Caller(1)]);
    let hints = request("POST", "/api/v1/peers/hints", &punctual_api::peer_token(&[7; 32]), "{}");
    assert_eq!(meet(hints).await, [Standing::Peer]);
    let beat = r#"{"registryGroup":"EXECUTOR","registryKey":"a","registryValue":"http://e:1/"}"#;
    assert_eq!(meet(request("POST", "/api/registry", "wrong", beat)).await, []);
    assert_eq!(meet(request("POST", "/api/registry", "s3cret", beat)).await, [Standing::Executor]);
    assert_eq!(meet(request("POST", "/api/callback", "s3cret", "[]")).await, [Standing::Executor]);
}

#[tokio::test]
async fn a_stranger_at_the_door_of_executors_is_not_read_for_long() {
    let door = open_to(&crew(), |settings| settings.access_token = Some(Secret::new("s3cret"))).await;
    let padding = " ".repeat(5_000);
    let beat =
        format!(r#"{{"registryGroup":"EXECUTOR",{padding}"registryKey":"a","registryValue":"http://e:1/"}}"#);
    let knock = async |token: &str| {
        let mut asked = request("POST", "/api/registry", token, &beat);
        asked.extensions_mut().insert(Peer("192.0.2.7:9".parse().unwrap()));
        ask(&door, asked).await.json()
    };
    let refused = knock("wrong").await;
    assert_eq!(refused["code"], 500);
    assert!(refused["msg"].as_str().unwrap().contains("longer than 4096 bytes"), "{refused}");
    assert_eq!(knock("s3cret").await["code"], 200);
}

#[tokio::test]
async fn a_callback_names_ten_thousand_attempts_at_most() {
    let crew = crew();
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("s3cret"))).await;
    for (count, code) in [(10_000, 200), (10_001, 500), (300_000, 500)] {
        let items = vec![r#"{"logId":7}"#; count].join(",");
        let answer = ask(&door, request("POST", "/api/callback", "s3cret", &format!("[{items}]"))).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (200, &code.into()), "{count}");
        assert_eq!(crew.said().len(), if code == 200 { count } else { 0 });
        if code != 200 {
            assert!(answer.text.contains("At most 10000 results"), "{}", answer.text);
        }
    }
}
