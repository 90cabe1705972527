//! `punctual app`, and executors where other commands speak of them, as a person or a script meets them.

use crate::scripted::*;
use serde_json::{Value, json};

fn app(addresses: Value, token: Value) -> Value {
    json!({
        "name": "reports", "title": "Nightly reports", "addresses": addresses, "access_token": token, "executors": 2,
        "routable": 1, "version": 3,
    })
}

#[test]
fn apps_are_listed_and_shown() {
    let items = json!([app(json!("auto"), json!("…"))]);
    let listed = json!({"items": items});
    let server = Server::start(vec![
        answers("GET /api/v1/apps", 200, listed.clone()),
        answers("GET /api/v1/apps", 200, listed),
        answers("GET /api/v1/apps/reports", 200, app(json!(["http://a", "http://b"]), Value::Null)),
    ]);
    let output = punctual(&server.url, &["app", "list"]);
    let expected = "\
APP      TITLE            EXECUTORS  ROUTABLE  ADDRESSES  TOKEN
reports  Nightly reports          2         1  auto       its own
";
    assert_eq!(told(&output), (Some(0), expected, ""));
    assert_eq!(json_of(&punctual(&server.url, &["app", "list", "-o", "json"])), items);
    let output = punctual(&server.url, &["app", "get", "reports"]);
    let expected = "\
app        reports
title      Nightly reports
addresses  http://a, http://b
executors  2
routable   1
token      the server's
retention  the server's
paused     no
version    3
";
    assert_eq!(told(&output), (Some(0), expected, ""));
    server.requests();
}

#[test]
fn what_is_not_said_of_an_app_stays() {
    let server = Server::start(vec![
        answers("GET /api/v1/apps/reports", 200, app(json!(["http://a"]), json!("…"))),
        answers("PUT /api/v1/apps/reports", 200, app(json!(["http://a"]), json!("…"))),
    ]);
    let output = punctual(&server.url, &["app", "set", "reports", "--title", "New"]);
    assert_eq!(told(&output), (Some(0), "", "changed app reports\n"));
    let requests = server.requests();
    assert_eq!(requests[1].json(), json!({"title": "New", "addresses": ["http://a"]}));
    assert!(requests[1].has("if-match: \"3\""));
}

#[test]
fn how_long_runs_are_kept_is_set_and_taken_back() {
    let shown = |retention: Value| {
        let mut app = app(json!("auto"), Value::Null);
        app["retention"] = retention;
        app
    };
    let server = Server::start(vec![
        answers("GET /api/v1/apps/reports", 200, shown(Value::Null)),
        answers("PUT /api/v1/apps/reports", 200, shown(json!("90d"))),
        answers("GET /api/v1/apps/reports", 200, shown(json!("90d"))),
        answers("GET /api/v1/apps/reports", 200, shown(json!("90d"))),
        answers("PUT /api/v1/apps/reports", 200, shown(Value::Null)),
    ]);
    let output = punctual(&server.url, &["app", "set", "reports", "--retention", "90d"]);
    assert_eq!(told(&output), (Some(0), "", "changed app reports\n"));
    let output = punctual(&server.url, &["app", "get", "reports"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("retention  90d\n"), "{output:?}");
    punctual(&server.url, &["app", "set", "reports", "--no-retention"]);
    let requests = server.requests();
    let title = "Nightly reports";
    assert_eq!(requests[1].json(), json!({"title": title, "addresses": "auto", "retention": "90d"}));
    assert_eq!(requests[4].json(), json!({"title": title, "addresses": "auto", "retention": null}));
}

#[test]
fn an_app_is_made_with_a_token_from_a_file() {
    let path = file("reports-token", "s3cret\n");
    let gone = problem(404, "app reports is not there", json!([]));
    let server = Server::start(vec![
        answers("GET /api/v1/apps/reports", 404, gone),
        answers("PUT /api/v1/apps/reports", 201, app(json!("auto"), json!("…"))),
    ]);
    let output = punctual(&server.url, &["app", "set", "reports", "--auto", "--access-token-file", &path]);
    assert_eq!(told(&output), (Some(0), "", "made app reports\n"));
    let requests = server.requests();
    assert_eq!(requests[1].json(), json!({"title": "", "addresses": "auto", "access_token": "s3cret"}));
    assert!(!requests[1].headers.iter().any(|header| header.starts_with("if-match")));
}

#[test]
fn executors_are_listed_with_what_is_known_of_them() {
    let executor = |address: &str, routable: bool, handlers: Value| {
        json!({"address": address, "dialect": "classic", "last_beat": "2026-03-01T09:00:00Z", "routable": routable,
               "suspect": !routable, "in_flight": 7, "handlers": handlers})
    };
    let known = json!(["fail", "slow"]);
    let items =
        json!([executor("http://a:9999/", true, known), executor("http://b:9999/", false, Value::Null)]);
    let server =
        Server::start(vec![answers("GET /api/v1/apps/reports/executors", 200, json!({"items": items}))]);
    let output = punctual(&server.url, &["app", "executors", "reports"]);
    let expected = "\
ADDRESS         DIALECT  STATE            LAST BEAT             IN FLIGHT  HANDLERS
http://a:9999/  classic  routable         2026-03-01T09:00:00Z          7  fail slow
http://b:9999/  classic  does not answer  2026-03-01T09:00:00Z          7
";
    assert_eq!(told(&output), (Some(0), expected, ""));
    server.requests();
}

#[test]
fn what_is_not_there_or_has_jobs_has_its_exit_code() {
    let gone = problem(404, "app x is not there", json!([]));
    let busy = problem(409, "app x has jobs", json!([]));
    let server = Server::start(vec![
        answers("GET /api/v1/apps/x/executors", 404, gone),
        answers("DELETE /api/v1/apps/x", 409, busy),
    ]);
    assert_eq!(punctual(&server.url, &["app", "executors", "x"]).status.code(), Some(3));
    assert_eq!(punctual(&server.url, &["app", "delete", "x", "--yes"]).status.code(), Some(4));
    server.requests();
    let output = punctual("http://127.0.0.1:1", &["app", "set", "x", "--auto", "--address", "http://a"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_app_is_paused_and_resumed_with_the_number_of_its_jobs() {
    let done = |paused: bool, refused: u64| json!({"paused": paused, "jobs": 3, "refused": refused});
    let server = Server::start(vec![
        answers("POST /api/v1/apps/reports/pause", 200, done(true, 0)),
        answers("POST /api/v1/apps/reports/resume", 200, done(false, 1)),
    ]);
    let output = punctual(&server.url, &["app", "pause", "reports", "--reason", "moving"]);
    assert_eq!(told(&output), (Some(0), "", "app reports is paused: 3 jobs stopped\n"));
    let output = punctual(&server.url, &["app", "resume", "reports"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output)
            .contains("app reports is resumed: 3 jobs started\nerror: 1 jobs could not be started")
    );
    assert_eq!(server.requests()[0].json(), json!({"reason": "moving"}));
}

#[test]
fn flags_make_a_job_for_executors() {
    let made = json!({"id": 17, "app": "reports", "name": "hourly"});
    let server = Server::start(vec![answers("POST /api/v1/jobs", 201, made)]);
    let arguments =
        ["job", "create", "--app", "reports", "--name", "hourly", "--manual", "--handler", "demo"];
    let output = punctual(
        &server.url,
        &[&arguments[..], &["--route", "failover", "--block", "cover", "--params", "a b"]].concat(),
    );
    assert_eq!(told(&output), (Some(0), "17\n", "created reports/hourly\n"));
    let target = json!({"kind": "executor", "handler": "demo", "params": "a b", "route": "failover", "block": "cover"});
    assert_eq!(server.requests()[0].json()["target"], target);
}

#[test]
fn a_log_stays_with_the_attempt_and_the_part_that_it_began_with() {
    let piece =
        |text: &str, next: u64, end: bool| json!({"text": text, "next": next, "end": end, "attempt": 2});
    let server = Server::start(vec![
        answers("GET /api/v1/runs/9/log?part=1&from=1", 200, piece("one\n", 2, false)),
        answers("GET /api/v1/runs/9/log?attempt=2&part=1&from=2", 200, piece("two\n", 3, true)),
    ]);
    let output = punctual(&server.url, &["run", "log", "9", "--follow", "--part", "1"]);
    assert_eq!(told(&output), (Some(0), "one\ntwo\n", ""));
    server.requests();
}

#[test]
fn a_broadcast_is_shown_with_its_parts_and_its_kills() {
    let kill = json!({"state": "refused", "at": "2026-03-01T09:00:02Z", "said": "not running"});
    let attempt = json!({"number": 1, "executor": "", "started_at": "2026-03-01T09:00:00Z", "ended_at": null,
                         "outcome": null, "message": "", "kill": kill});
    let part = json!({"index": 0, "total": 1, "run": 10, "executor": "http://a", "state": "failed", "reason": "500",
                      "attempts": [attempt]});
    let run = json!({"id": 9, "job": 17, "state": "running", "attempts": [attempt], "parts": [part]});
    let server = Server::start(vec![answers("GET /api/v1/runs/9", 200, run)]);
    let output = punctual(&server.url, &["run", "get", "9"]);
    let text = stdout(&output);
    assert!(text.contains("kill of attempt 1 refused at 2026-03-01T09:00:02Z: not running\n"), "{text}");
    assert!(
        text.contains("PART  RUN  STATE   TRIES  EXECUTOR  REASON\n   0   10  failed      1  http://a"),
        "{text}"
    );
    server.requests();
}
