//! Apps, executors, scripts and logs, as people ask for them.

mod house;

use std::sync::Arc;

use axum::Router;
use house::{APP, BROADCAST, Crew, ELSEWHERE, EXECUTOR, FAILED, PARTS, RUNNING, ask, open_to, request, view};
use punctual_api::LogPage;
use punctual_core::registry::Secret;
use serde_json::{Value, json};

async fn open() -> (Arc<Crew>, Router) {
    let crew = Crew::with(vec![view(APP, None)]);
    let door = open_to(&crew, |settings| settings.access_token = Some(Secret::new("global"))).await;
    (crew, door)
}

async fn send(door: &Router, method: &str, path: &str, token: &str, body: Value) -> (u16, Value) {
    let answer = ask(door, request(method, path, token, &body.to_string())).await;
    (answer.status.as_u16(), answer.json())
}

async fn get(door: &Router, path: &str) -> Value {
    let answer = ask(door, request("GET", path, "viewer", "")).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.json()
}

// --- apps ---

#[tokio::test]
async fn an_app_is_shown_with_its_executors() {
    let (_, door) = open().await;
    let app = get(&door, "/api/v1/apps/reports").await;
    let expected = json!({
        "name": "reports", "title": "", "addresses": "auto", "access_token": null, "retention": null,
        "executors": 1, "routable": 1, "version": 1,
        "paused": false, "paused_since": null, "paused_by": null, "paused_reason": null,
    });
    assert_eq!(app, expected);
    assert_eq!(get(&door, "/api/v1/apps").await, json!({"items": [expected]}));
    let executors = json!({"items": [{
        "address": EXECUTOR, "dialect": "classic", "last_beat": null, "routable": true, "suspect": false, "in_flight": 1,
        "handlers": null,
    }]});
    assert_eq!(get(&door, "/api/v1/apps/reports/executors").await, executors);
}

#[tokio::test]
async fn an_app_is_made_changed_and_removed() {
    let (crew, door) = open().await;
    let put = async |path: &str, body: Value| send(&door, "PUT", path, "admin", body).await;
    let (status, made) = put("/api/v1/apps/mail", json!({"title": "Mail", "access_token": "s3cret"})).await;
    assert_eq!((status, &made["version"], &made["access_token"]), (201, &json!(1), &json!("…")));
    // Whoever leaves it out keeps it.
    let (status, changed) = put("/api/v1/apps/mail", json!({"addresses": ["http://10.0.0.5:9999"]})).await;
    assert_eq!((status, &changed["version"], &changed["access_token"]), (200, &json!(2), &json!("…")));
    use punctual_api::Executors;
    assert_eq!(crew.app("mail").unwrap().row.access_token, Some(Secret::new("s3cret")));
    let answer = ask(&door, request("DELETE", "/api/v1/apps/mail", "admin", "")).await;
    assert_eq!(answer.status, 204);
    assert_eq!(ask(&door, request("GET", "/api/v1/apps/mail", "viewer", "")).await.status, 404);
}

#[tokio::test]
async fn how_long_an_app_keeps_its_runs_is_set_kept_and_taken_back() {
    let (_, door) = open().await;
    let put = async |body: Value| send(&door, "PUT", "/api/v1/apps/mail", "admin", body).await;
    let (status, made) = put(json!({"retention": "7d"})).await;
    assert_eq!((status, &made["retention"]), (201, &json!("7d")));
    assert_eq!(get(&door, "/api/v1/apps/mail").await["retention"], json!("7d"));
    let (_, changed) = put(json!({"title": "Mail"})).await;
    assert_eq!(changed["retention"], json!("7d"), "whoever leaves it out keeps it");
    let (status, refused) = put(json!({"retention": "59m"})).await;
    assert_eq!((status, &refused["errors"][0]["pointer"]), (422, &json!("/retention")));
    assert!(refused.to_string().contains("at least 1h"), "{refused}");
    let (_, changed) = put(json!({"retention": null})).await;
    assert_eq!(changed["retention"], Value::Null);
}

#[tokio::test]
async fn a_stale_tag_of_an_app_is_refused() {
    let (_, door) = open().await;
    let put = async |path: &str, tag: &str| {
        let mut asked = request("PUT", path, "admin", r#"{"title": "x"}"#);
        asked.headers_mut().insert("if-match", tag.parse().unwrap());
        let answer = ask(&door, asked).await;
        (answer.status.as_u16(), answer.header("etag").to_owned())
    };
    assert_eq!(put("/api/v1/apps/reports", "\"7\"").await.0, 412);
    assert_eq!(put("/api/v1/apps/reports", "\"1\"").await, (200, "\"2\"".into()));
    assert_eq!(put("/api/v1/apps/reports", "*").await, (200, "\"3\"".into()));
    assert_eq!(put("/api/v1/apps/unknown", "*").await.0, 412);
}

#[tokio::test]
async fn nobody_gets_the_token_of_all_apps_by_listing_addresses() {
    let (_, door) = open().await;
    let put = async |body: Value| send(&door, "PUT", "/api/v1/apps/billing", ELSEWHERE, body).await;
    let (status, problem) = put(json!({"addresses": ["http://mine"]})).await;
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("/addresses")));
    assert_eq!(put(json!({"addresses": ["http://mine"], "access_token": "own"})).await.0, 201);
    let (status, _) = put(json!({"addresses": ["http://mine"], "access_token": null})).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn what_is_wrong_with_an_app_is_said_with_its_place() {
    let (_, door) = open().await;
    for (body, pointer) in [
        (json!({"addresses": ["http://169.254.0.1"]}), "/addresses/0"),
        (json!({"access_token": "default_token"}), "/access_token"),
        (json!({"name": "x", "tokne": 1}), "/tokne"),
    ] {
        let (status, problem) = send(&door, "PUT", "/api/v1/apps/x", "admin", body).await;
        assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!(pointer)));
    }
}

// --- jobs ---

fn job(target: Value) -> Value {
    json!({"name": "x", "app": APP, "schedule": {"kind": "manual"}, "target": target})
}

#[tokio::test]
async fn a_script_is_taken_only_where_scripts_are_allowed() {
    let target =
        json!({"kind": "executor", "glue": {"kind": "shell", "source": "echo 1\r\n", "remark": "first one"}});
    let (_, door) = open().await;
    let (status, problem) =
        send(&door, "POST", "/api/v1/jobs?dry_run=true", "editor", job(target.clone())).await;
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("/target/glue")));
    assert!(problem["detail"].as_str().unwrap().contains("scripts = true"), "{problem}");
    let crew = Crew::with(vec![view(APP, None)]);
    let door = open_to(&crew, |settings| settings.allows_scripts = true).await;
    let (status, plan) = send(&door, "POST", "/api/v1/jobs?dry_run=true", "editor", job(target)).await;
    let expected = json!({
        "kind": "executor", "route": "round",
        "glue": {"kind": "shell", "source": "echo 1\n", "remark": "first one", "changed_at": "2026-03-08T07:00:00Z"},
    });
    assert_eq!((status, &plan["target"]), (200, &expected));
}

#[tokio::test]
async fn going_back_to_a_script_that_never_was_says_where_they_are_listed() {
    let crew = Crew::with(vec![]);
    let door = open_to(&crew, |settings| settings.allows_scripts = true).await;
    let (status, problem) =
        send(&door, "POST", "/api/v1/jobs/20/glue/rollback", "editor", json!({"version": 7})).await;
    assert_eq!((status, &problem["errors"][0]["pointer"]), (422, &json!("/version")));
    assert_eq!(get(&door, "/api/v1/jobs/20/glue").await, json!({"items": []}));
}

// --- runs ---

#[tokio::test]
async fn a_broadcast_is_shown_with_its_parts_and_an_attempt_with_its_kill() {
    let (_, door) = open().await;
    let run = get(&door, &format!("/api/v1/runs/{BROADCAST}")).await;
    let parts = run["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    let one = &parts[1];
    assert_eq!((&one["index"], &one["total"], &one["run"]), (&json!(1), &json!(2), &json!(PARTS[1])));
    assert_eq!((&one["executor"], &one["state"]), (&json!(EXECUTOR), &json!("running")));
    assert_eq!(one["attempts"].as_array().unwrap().len(), 1);
    let part = get(&door, &format!("/api/v1/runs/{}", PARTS[0])).await;
    assert_eq!((&part["origin"], &part["part"]["run"]), (&json!("part"), &json!(BROADCAST)));
    let kill = json!({"state": "confirmed", "at": "2026-03-08T07:00:01Z", "said": "done"});
    assert_eq!(get(&door, &format!("/api/v1/runs/{FAILED}")).await["attempts"][0]["kill"], kill);
}

// --- logs ---

fn page(text: &str, next: u64) -> Result<LogPage, String> {
    Ok(LogPage { text: text.into(), next, is_end: false })
}

#[tokio::test]
async fn the_log_of_a_running_attempt_comes_page_by_page_from_its_executor() {
    let (crew, door) = open().await;
    crew.will_tell(vec![page("a\nb\n", 3), page("", 3)]);
    let log = get(&door, &format!("/api/v1/runs/{RUNNING}/log")).await;
    assert_eq!(log, json!({"text": "a\nb\n", "next": 3, "end": false, "attempt": 1}));
    let log = get(&door, &format!("/api/v1/runs/{RUNNING}/log?from=3&attempt=1")).await;
    assert_eq!((&log["text"], &log["next"], &log["end"]), (&json!(""), &json!(3), &json!(false)));
    assert_eq!(crew.said(), [format!("log {EXECUTOR} {RUNNING} 1"), format!("log {EXECUTOR} {RUNNING} 3")]);
    assert_eq!(crew.kept(RUNNING), None, "it has not ended");
    // An executor that knows of no log yet is no fault: the run was sent just now.
    let log = get(&door, &format!("/api/v1/runs/{RUNNING}/log?from=3")).await;
    assert_eq!((&log["text"], &log["next"], &log["end"]), (&json!(""), &json!(3), &json!(false)));
}

#[tokio::test]
async fn the_log_of_an_ended_attempt_is_fetched_once_and_kept() {
    let (crew, door) = open().await;
    crew.will_tell(vec![page("a\nb\n", 3), page("c", 4), page("", 4)]);
    let path = format!("/api/v1/runs/{FAILED}/log");
    let whole = json!({"text": "a\nb\nc\n", "next": 4, "end": true, "attempt": 1});
    assert_eq!(get(&door, &path).await, whole);
    assert_eq!(crew.said().len(), 3);
    assert_eq!(get(&door, &path).await, whole);
    assert_eq!(get(&door, &format!("{path}?from=3")).await["text"], "c\n");
    assert!(crew.said().is_empty(), "what is kept is not asked for");
    let mut text = request("GET", &path, "viewer", "");
    text.headers_mut().insert("accept", "text/plain".parse().unwrap());
    assert_eq!(ask(&door, text).await.text, "a\nb\nc\n");
}

#[tokio::test]
async fn an_executor_that_tells_nothing_leaves_what_we_know_ourselves() {
    let (crew, door) = open().await;
    crew.will_tell(vec![Err("connection refused".into())]);
    let log = get(&door, &format!("/api/v1/runs/{FAILED}/log")).await;
    let text = log["text"].as_str().unwrap();
    assert!(text.contains("no database") && text.contains("connection refused"), "{text}");
    assert_eq!((&log["end"], crew.kept(FAILED)), (&json!(true), None));
}

#[tokio::test]
async fn a_log_is_followed_to_its_end() {
    let (crew, door) = open().await;
    crew.will_tell(vec![page("a\n", 2), page("", 2)]);
    let path = format!("/api/v1/runs/{FAILED}/log?follow=true");
    let answer = ask(&door, request("GET", &path, "viewer", "")).await;
    assert_eq!(answer.header("content-type"), "text/event-stream");
    let expected = "event: log\ndata: {\"text\":\"a\\n\",\"next\":2,\"end\":true,\"attempt\":1}\n\n";
    assert_eq!(answer.text, expected);
}

#[tokio::test]
async fn whose_part_is_meant_has_to_be_said() {
    let (crew, door) = open().await;
    let path = format!("/api/v1/runs/{BROADCAST}/log");
    for query in ["", "?part=2"] {
        let answer = ask(&door, request("GET", &format!("{path}{query}"), "viewer", "")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("from 0 to 1"), "{}", answer.text);
    }
    crew.will_tell(vec![page("a\n", 2)]);
    assert_eq!(get(&door, &format!("{path}?part=1")).await["text"], "a\n");
    assert_eq!(crew.said(), [format!("log {EXECUTOR} {} 1", PARTS[1])]);
}
