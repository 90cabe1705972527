//! What every request meets on its way in and out, whatever it is about.

mod house;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use house::{Answer, Doorman, MADE, ask, head, open, open_with, request};
use http::Request;
use punctual_api::Peer;
use tokio::sync::Semaphore;

async fn get(path: &str) -> Answer {
    ask(&open().await, request("GET", path, "viewer", "")).await
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_as_problems() {
    let answer = get("/api/v1/nothing").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (404, "application/problem+json"));
    let answer = ask(&open().await, request("DELETE", "/api/v1/jobs", "admin", "")).await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "GET, POST, HEAD"));
    for path in
        ["/api/v1/jobs/x", "/api/v1/jobs/-1", "/api/v1/jobs/4294967296", "/api/v1/runs/9007199254740992"]
    {
        assert_eq!(get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn every_answer_has_its_number_and_is_not_kept_or_guessed_at() {
    let door = open().await;
    let mut asked = request("GET", "/api/v1/jobs/1", "viewer", "");
    asked.headers_mut().insert("x-request-id", "mine-7".parse().unwrap());
    let answer = ask(&door, asked).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-request-id")), (200, "mine-7"));
    let refused = get("/api/v1/jobs/2").await;
    assert_eq!(refused.json()["request_id"], refused.header("x-request-id"));
    for answer in [answer, refused] {
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn head_is_answered_like_get() {
    let (status, headers) = head(&open().await, request("HEAD", "/api/v1/jobs/1", "viewer", "")).await;
    assert_eq!((status.as_u16(), headers["etag"].to_str().unwrap()), (200, "\"1\""));
}

#[tokio::test]
async fn bodies_are_refused_by_their_media_their_length_their_form_and_their_meaning() {
    let door = open().await;
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(3_000));
    for (body, media, status) in [
        ("{}", "text/plain", 415),
        ("{}", "", 415),
        (long.as_str(), "application/json", 413),
        ("{", "application/json", 400),
        ("", "application/json", 400),
        ("{}", "application/json; charset=utf-8", 422),
        ("[]", "application/json", 422),
    ] {
        let mut asked = request("POST", "/api/v1/jobs", "admin", "");
        *asked.body_mut() = Body::from(body.to_owned());
        if !media.is_empty() {
            asked.headers_mut().insert("content-type", media.parse().unwrap());
        }
        assert_eq!(ask(&door, asked).await.status, status, "{body:.20} {media}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_no_fault_of_the_caller() {
    let door = open().await;
    for (method, path, body) in [
        ("POST", "/api/v1/jobs/1/stop", ""),
        ("POST", "/api/v1/runs", r#"{"job": 1}"#),
        ("POST", "/api/v1/runs/1/cancel", ""),
        ("DELETE", "/api/v1/jobs/1", ""),
        ("POST", "/api/v1/tokens", r#"{"name": "x", "role": "viewer"}"#),
    ] {
        let answer = ask(&door, request(method, path, "admin", body)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("retry-after")),
            (503, "1"),
            "{path} {}",
            answer.text
        );
    }
}

fn keyed(path: &str, key: &str, body: &str) -> Request<Body> {
    let mut asked = request("POST", path, "admin", body);
    asked.headers_mut().insert("idempotency-key", key.parse().unwrap());
    asked
}

const PREVIEW: &str = "/api/v1/schedules/preview";
const DAILY: &str = r#"{"schedule": {"kind": "cron", "expression": "@daily"}}"#;
const HOURLY: &str = r#"{"schedule": {"kind": "cron", "expression": "@hourly"}}"#;

#[tokio::test]
async fn a_key_makes_the_second_request_the_first() {
    let door = open().await;
    let first = ask(&door, keyed(PREVIEW, "k", DAILY)).await;
    let again = ask(&door, keyed(PREVIEW, "k", DAILY)).await;
    assert_eq!((first.status, &first.text), (again.status, &again.text));
    assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), ("", "true"));
    assert_eq!(again.header("content-type"), "application/json");
    assert_eq!(ask(&door, keyed(PREVIEW, "k", HOURLY)).await.status, 422);
    assert_eq!(ask(&door, keyed(PREVIEW, &"k".repeat(129), DAILY)).await.status, 400);
}

#[tokio::test]
async fn a_refusal_is_forgotten_and_an_unknown_outcome_is_not() {
    let door = open().await;
    assert_eq!(ask(&door, keyed(PREVIEW, "k", "{}")).await.status, 422);
    assert_eq!(ask(&door, keyed(PREVIEW, "k", DAILY)).await.status, 200);
    // The store did not say whether it took the run: a second try could be a second run.
    let run = r#"{"job": 1}"#;
    assert_eq!(ask(&door, keyed("/api/v1/runs", "r", run)).await.status, 503);
    assert_eq!(ask(&door, keyed("/api/v1/runs", "r", run)).await.status, 409);
}

#[tokio::test]
async fn a_caller_who_hangs_up_while_the_key_is_written_leaves_no_open_key_behind() {
    let lets_go = Arc::new(Semaphore::new(0));
    let doorman = Arc::new(Doorman::held(&lets_go));
    let door = open_with(&doorman).await;
    let mut asking = Box::pin(ask(&door, keyed(PREVIEW, "k", DAILY)));
    let begun = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context))).await;
    assert!(begun.is_pending(), "the key is written, and nobody has said so yet");
    drop(asking);
    lets_go.add_permits(2);
    // One thread, and nothing waits for time: whoever carries the request out has done it after a few turns.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(doorman.answers().len(), 1, "the request was carried out without its caller");
    let again = ask(&door, keyed(PREVIEW, "k", DAILY)).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"));
}

#[tokio::test]
async fn the_answer_with_a_new_token_is_not_kept_and_its_repetition_is_refused() {
    let doorman = Arc::<Doorman>::default();
    let door = open_with(&doorman).await;
    let body = format!(r#"{{"name": "{MADE}", "role": "viewer"}}"#);
    let first = ask(&door, keyed("/api/v1/tokens", "k", &body)).await;
    let token = first.json()["token"].as_str().expect("a token").to_owned();
    assert_eq!(first.status, 201);
    let answers = doorman.answers();
    assert!(answers.len() == 1 && !answers[0].body.contains(&token), "{answers:?}");
    let again = ask(&door, keyed("/api/v1/tokens", "k", &body)).await;
    assert_eq!((again.status.as_u16(), again.text.contains(&token)), (409, false));
    assert!(again.text.contains("shown once and not kept"), "{}", again.text);
}

fn lines(query: &str, body: &str) -> Request<Body> {
    let mut asked = request("POST", &format!("/api/v1/runs{query}"), "admin", "");
    *asked.body_mut() = Body::from(body.to_owned());
    asked.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    asked
}

#[tokio::test]
async fn a_stream_is_answered_up_to_the_line_that_is_wrong() {
    let door = open().await;
    let answer =
        ask(&door, lines("?dry_run=true", "{\"job\": 1}\n\n{\"job\": 1}\n{\"job\": 2}\n{\"job\": 1}\n"))
            .await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/x-ndjson"));
    let told: Vec<serde_json::Value> =
        answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.len(), &told[0]["accepted"], &told[1]["line"]), (2, &2.into(), &4.into()));
    assert_eq!(
        (&told[1]["error"]["status"], &told[1]["error"]["errors"][0]["pointer"]),
        (&404.into(), &"/job".into())
    );
}

#[tokio::test]
async fn a_chunk_that_cannot_be_written_names_the_first_line_that_was_not_taken() {
    let answer = ask(&open().await, lines("", "\n{\"job\": 1}\n\n{\"job\": 1}")).await;
    let told: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!((&told["line"], &told["error"]["status"]), (&2.into(), &503.into()));
}

#[tokio::test]
async fn a_stream_has_no_key_because_it_is_answered_while_it_is_read() {
    let mut asked = lines("", "{\"job\": 1}\n");
    asked.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    assert_eq!(ask(&open().await, asked).await.status, 400);
}

#[tokio::test]
async fn a_stranger_may_knock_a_hundred_times() {
    let door = open().await;
    let knock = async |token: &str| {
        let mut asked = request("GET", "/api/v1/jobs", token, "");
        asked.extensions_mut().insert(Peer("192.0.2.7:9".parse().unwrap()));
        ask(&door, asked).await
    };
    for _ in 0..100 {
        assert_eq!(knock("wrong").await.status, 401);
    }
    let refused = knock("").await;
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").parse::<u32>().unwrap() > 800);
    assert_eq!(knock("viewer").await.status, 200, "who has a token is no stranger");
}

#[tokio::test]
async fn a_stale_tag_is_refused_and_a_current_one_is_not() {
    let door = open().await;
    let patch = async |tag: &str| {
        let mut asked = request("PATCH", "/api/v1/jobs/1?dry_run=true", "editor", r#"{"description": "x"}"#);
        asked.headers_mut().insert("if-match", tag.parse().unwrap());
        ask(&door, asked).await
    };
    assert_eq!(patch("\"2\"").await.status, 412);
    assert_eq!(patch("two").await.status, 400);
    for tag in ["\"1\"", "*", "\"7\", \"1\""] {
        let answer = patch(tag).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["description"]), (200, &"x".into()), "{tag}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reschedule_is_acknowledged_only_when_the_run_waits_for_the_new_time() {
    let door = open().await;
    let path = format!("/api/v1/runs/{}/reschedule", house::MOVED);
    let moved = async |at: &str| {
        let body = format!(r#"{{"at": "{at}"}}"#);
        ask(&door, request("POST", &path, "operator", &body)).await.status
    };
    assert_eq!(moved("2027-01-01T00:00:00Z").await, 503, "it waits for another time still");
    assert_eq!(moved(house::MOVED_TO).await, 202);
}

#[tokio::test]
async fn the_last_token_of_an_admin_is_not_revoked() {
    let door = open().await;
    let answer = ask(&door, request("DELETE", "/api/v1/tokens/4", "admin", "")).await;
    assert_eq!(answer.status, 409);
    assert!(answer.json()["detail"].as_str().unwrap().contains("last token of an admin"));
}

#[tokio::test]
async fn the_versions_of_a_job_come_page_by_page() {
    let door = open().await;
    let page = async |query: &str| {
        let path = format!("/api/v1/jobs/1/revisions{query}");
        let page = ask(&door, request("GET", &path, "viewer", "")).await.json();
        let items = page["items"].as_array().unwrap().iter();
        let versions: Vec<u64> = items.map(|item| item["version"].as_u64().unwrap()).collect();
        (versions, page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(page("").await, (vec![1, 2, 3, 4, 5], None));
    let (first, next) = page("?limit=2").await;
    assert_eq!(first, [1, 2]);
    let (second, next) = page(&format!("?limit=2&cursor={}", next.unwrap())).await;
    assert_eq!(second, [3, 4]);
    assert_eq!(page(&format!("?limit=2&cursor={}", next.unwrap())).await, (vec![5], None));
}
