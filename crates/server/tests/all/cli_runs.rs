//! `punctual run`, `punctual token` and the rest of the client, as a person or a script meets them.

use crate::scripted::*;
use serde_json::{Value, json};

fn run(id: u64, state: &str, reason: &str) -> Value {
    json!({
        "id": id, "job": 17, "fire_time": "2026-03-01T09:00:00Z", "origin": "manual", "state": state,
        "reason": reason, "lag_ms": 3, "possible_duplicate": false, "key": null, "payload": null, "priority": 5,
        "attempts": [{"number": 1, "executor": "http://127.0.0.1:1/", "started_at": "2026-03-01T09:00:00.003Z",
                      "ended_at": "2026-03-01T09:00:00.010Z", "outcome": "failed", "message": "500 from the agent"}],
        "parts": [],
    })
}

// --- runs ---

#[test]
fn one_run_is_handed_over_by_flags() {
    let accepted = json!({"accepted": 0, "duplicates": 1, "ids": [4711]});
    let server = Server::start(vec![answers("POST /api/v1/runs", 200, accepted)]);
    let arguments = ["run", "submit", "--job", "mail/send", "--at", "2026-12-24T18:00:00Z", "--key", "k"];
    let output = punctual(&server.url, &[&arguments[..], &["--priority", "2", "--payload", "[1]"]].concat());
    assert_eq!(told(&output), (Some(0), "4711\n", "a run with this key was there already\n"));
    let expected =
        json!({"job": "mail/send", "at": "2026-12-24T18:00:00Z", "key": "k", "priority": 2, "payload": [1]});
    assert_eq!(server.requests()[0].json(), expected);
}

#[test]
fn a_run_is_handed_over_with_its_own_timeout_and_retry() {
    let accepted = json!({"accepted": 1, "duplicates": 0, "ids": [4711]});
    let request = "POST /api/v1/runs";
    let server =
        Server::start(vec![answers(request, 200, accepted.clone()), answers(request, 200, accepted)]);
    let submit = ["run", "submit", "--job", "mail/send"];
    let all = ["--attempt-timeout", "90s", "--retry-max", "5", "--retry-delay", "2s"];
    let rest = ["--retry-multiplier", "1.5", "--retry-delay-max", "1h"];
    let output = punctual(&server.url, &[&submit[..], &all, &rest].concat());
    assert_eq!(told(&output), (Some(0), "4711\n", ""));
    let output = punctual(&server.url, &[&submit[..], &["--retry-max", "1"]].concat());
    assert_eq!(told(&output), (Some(0), "4711\n", ""));
    let requests = server.requests();
    let retry = json!({"max_attempts": 5, "initial_delay": "2s", "multiplier": 1.5, "max_delay": "1h"});
    assert_eq!(requests[0].json(), json!({"job": "mail/send", "timeout": "90s", "retry": retry}));
    assert_eq!(requests[1].json(), json!({"job": "mail/send", "retry": {"max_attempts": 1}}));
}

#[test]
fn a_runs_own_timeout_and_attempts_are_shown() {
    let mut shown = run(9, "pending", "");
    shown["timeout"] = json!("90s");
    shown["retry"] = json!({"max_attempts": 5});
    let server = Server::start(vec![answers("GET /api/v1/runs/9", 200, shown)]);
    let output = punctual(&server.url, &["run", "get", "9"]);
    let lines =
        told(&output).1.lines().filter(|line| line.starts_with("timeout") || line.starts_with("attempts"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    assert_eq!(words, ["timeout", "90s", "attempts", "5"], "{}", told(&output).1);
    server.requests();
}

#[test]
fn a_stream_is_sent_as_it_is_and_counted_on_stderr() {
    let lines = "{\"job\": 17}\n\n{\"job\": 17, \"key\": \"k\"}\n{\"job\": \"mail/send\"}";
    let answer =
        "{\"accepted\":1,\"duplicates\":1,\"ids\":[1,1]}\n{\"accepted\":1,\"duplicates\":0,\"ids\":[2]}\n";
    let path = file("runs.ndjson", lines);
    for output_flag in ["table", "json"] {
        let script = Exchange { request: "POST /api/v1/runs", status: 200, answer: answer.into() };
        let server = Server::start(vec![script]);
        let output = punctual(&server.url, &["run", "submit", "-f", &path, "-o", output_flag]);
        let data = if output_flag == "json" { answer } else { "" };
        assert_eq!(told(&output), (Some(0), data, "2 accepted, 1 duplicates\n"));
        let requests = server.requests();
        assert_eq!(requests[0].body, lines);
        assert!(requests[0].has("content-type: application/x-ndjson"));
    }
}

#[test]
fn a_bad_line_of_a_stream_is_named_with_what_came_before() {
    let stop = json!({"line": 3, "error": problem(422, "no job", json!([{"pointer": "/job", "detail": "unknown"}]))});
    let answer = format!("{{\"accepted\":2,\"duplicates\":0,\"ids\":[1,2]}}\n{stop}\n");
    let script = Exchange { request: "POST /api/v1/runs", status: 200, answer };
    let server = Server::start(vec![script]);
    let output = fed(&server.url, &["run", "submit", "-f", "-"], "{}\n{}\n{}\n{}\n");
    let said = "2 accepted, 0 duplicates\nerror: line 3: no job\n  /job: unknown\n";
    assert_eq!(told(&output), (Some(2), "", said));
    server.requests();
}

#[test]
fn an_answer_that_leaves_lines_out_is_a_failure() {
    let answer = "{\"accepted\":1,\"duplicates\":0,\"ids\":[1]}".to_owned();
    let script = Exchange { request: "POST /api/v1/runs", status: 200, answer };
    let server = Server::start(vec![script]);
    let output = fed(&server.url, &["run", "submit", "-f", "-"], "{}\n{}\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("after 1 of 2 lines"), "{}", stderr(&output));
    server.requests();
}

#[test]
fn cancelling_too_late_is_a_conflict() {
    let server = Server::start(vec![
        answers("POST /api/v1/runs/1/cancel", 200, json!({"run": 1, "result": "too_late"})),
        answers("POST /api/v1/runs/2/cancel", 200, json!({"run": 2, "result": "done"})),
    ]);
    let output = punctual(&server.url, &["run", "cancel", "1", "2"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("run 2 cancelled\nerror: run 1 was not cancelled"),
        "{}",
        stderr(&output)
    );
    server.requests();
}

#[test]
fn cancelling_by_filter_counts_first() {
    let request = "POST /api/v1/runs/cancel";
    let filter = ["run", "cancel", "--job", "17", "--state", "pending"];
    let counted = json!({"matched": 12, "cancelled": 0});
    let server = Server::start(vec![answers(request, 200, counted.clone()), answers(request, 200, counted)]);
    let output = punctual(&server.url, &filter);
    let said = "error: cancel 12 runs: there is nobody to ask, so say it with --yes\n";
    assert_eq!(told(&output), (Some(2), "", said));
    let output = punctual(&server.url, &[&filter[..], &["--dry-run"]].concat());
    assert_eq!(told(&output), (Some(0), "", "12 runs would be cancelled\n"));
    let expected = json!({"filter": {"job": 17, "state": "pending"}, "dry_run": true});
    assert_eq!(server.requests()[0].json(), expected);
    let server = Server::start(vec![answers(request, 200, json!({"matched": 12, "cancelled": 11}))]);
    let output = punctual(&server.url, &[&filter[..], &["--yes"]].concat());
    assert_eq!(told(&output), (Some(0), "", "11 of 12 runs cancelled\n"));
    assert_eq!(server.requests()[0].json()["dry_run"], false);
}

#[test]
fn rescheduling_by_filter_counts_first_and_says_what_was_said() {
    let request = "POST /api/v1/runs/reschedule";
    let filter = ["run", "reschedule", "--job", "17", "--key", "k", "--unmoved", "--by", "-30m"];
    let counted = json!({"matched": 12, "rescheduled": 0});
    let server = Server::start(vec![answers(request, 200, counted)]);
    let output = punctual(&server.url, &[&filter[..], &["--dry-run"]].concat());
    assert_eq!(told(&output), (Some(0), "", "12 runs would be rescheduled\n"));
    let requests = server.requests();
    let expected = json!({"filter": {"job": 17, "key": "k", "moved": false}, "by": "-30m", "dry_run": true});
    assert_eq!(requests[0].json(), expected);
    assert!(requests[0].has("accept: application/x-ndjson, application/problem+json"));
    let server = Server::start(vec![answers(request, 200, json!({"matched": 12, "rescheduled": 11}))]);
    let output =
        punctual(&server.url, &["run", "reschedule", "--app", "mail", "--in", "1h", "-y", "-o", "json"]);
    assert_eq!((output.status.code(), json_of(&output)["rescheduled"].as_u64()), (Some(0), Some(11)));
    let body = server.requests()[0].json();
    assert_eq!((&body["filter"], body["at"].is_string()), (&json!({"app": "mail"}), true));
}

#[test]
fn runs_are_listed_by_filter_as_json_or_as_a_table() {
    let request = "GET /api/v1/runs?job=17&state=failed&from=2026-03-01T00%3A00%3A00Z&limit=100";
    let runs = json!({"items": [run(9, "failed", "500")], "next_cursor": null});
    let server =
        Server::start(vec![answers(request, 200, runs.clone()), answers(request, 200, runs.clone())]);
    let filter = ["run", "list", "--job", "17", "--state", "failed", "--from", "2026-03-01T00:00:00Z"];
    let output = punctual(&server.url, &[&filter[..], &["-o", "json"]].concat());
    assert_eq!((output.status.code(), &json_of(&output)), (Some(0), &runs["items"]));
    let expected = "\
ID  JOB  FIRE TIME             STATE   ORIGIN  LAG  TRIES  REASON
 9   17  2026-03-01T09:00:00Z  failed  manual  3ms      1     500
";
    assert_eq!(told(&punctual(&server.url, &filter)), (Some(0), expected, ""));
    server.requests();
}

#[test]
fn a_run_is_shown_with_its_attempts() {
    let server =
        Server::start(vec![answers("GET /api/v1/runs/9", 200, run(9, "failed", "500 from the agent"))]);
    let output = punctual(&server.url, &["run", "get", "9"]);
    assert!(
        stdout(&output).contains("state      failed\nreason     500 from the agent\n"),
        "{}",
        stdout(&output)
    );
    assert!(
        stdout(&output).contains("failed   http://127.0.0.1:1/  500 from the agent"),
        "{}",
        stdout(&output)
    );
    server.requests();
}

#[test]
fn a_log_is_followed_to_its_end() {
    let server = Server::start(vec![
        answers("GET /api/v1/runs/9/log?from=1", 200, json!({"text": "one\ntwo\n", "next": 3, "end": false})),
        answers("GET /api/v1/runs/9/log?from=3", 200, json!({"text": "", "next": 3, "end": false})),
        answers("GET /api/v1/runs/9/log?from=3", 200, json!({"text": "three", "next": 4, "end": true})),
    ]);
    let output = punctual(&server.url, &["run", "log", "9", "-f"]);
    assert_eq!(told(&output), (Some(0), "one\ntwo\nthree\n", ""));
    server.requests();
}

#[test]
fn why_is_one_sentence_and_what_it_rests_on() {
    let why = json!({"sentence": "it waits for 09:00", "evidence": [{"at": "2026-03-01T08:59:00Z", "what": "planned"}]});
    let server = Server::start(vec![answers("GET /api/v1/runs/9/why", 200, why)]);
    let output = punctual(&server.url, &["run", "why", "9"]);
    let expected = "it waits for 09:00\n  2026-03-01T08:59:00Z      planned\n";
    assert_eq!(told(&output), (Some(0), expected, ""));
    server.requests();
}

#[test]
fn a_settled_run_can_be_retried_and_a_pending_one_rescheduled() {
    let server = Server::start(vec![
        answers("POST /api/v1/runs/9/retry", 202, json!({"run": 10})),
        answers("POST /api/v1/runs/10/reschedule", 200, json!({"run": 10, "result": "done"})),
        answers("POST /api/v1/runs/11/reschedule", 409, problem(409, "it is no one-shot", json!([]))),
    ]);
    let output = punctual(&server.url, &["run", "retry", "9"]);
    assert_eq!(told(&output), (Some(0), "10\n", ""));
    let output = punctual(&server.url, &["run", "reschedule", "10", "--at", "2026-12-24T18:00:00Z"]);
    assert_eq!(told(&output), (Some(0), "", "run 10 rescheduled\n"));
    let output = punctual(&server.url, &["run", "reschedule", "11", "--in", "5m"]);
    assert_eq!(told(&output), (Some(4), "", "error: it is no one-shot\n"));
    assert_eq!(server.requests()[1].json(), json!({"at": "2026-12-24T18:00:00Z"}));
}

// --- tokens, completions, help ---

#[test]
fn a_new_token_is_the_only_thing_on_stdout() {
    let server =
        Server::start(vec![answers("POST /api/v1/tokens", 201, json!({"id": 3, "token": "pt_new"}))]);
    let arguments = ["token", "create", "--name", "deploy", "--role", "editor", "--app", "a", "--app", "b"];
    let output = punctual(&server.url, &[&arguments[..], &["--expires-in", "30d"]].concat());
    assert_eq!(told(&output), (Some(0), "pt_new\n", "token 3 made; it is shown only this once\n"));
    let body = server.requests()[0].json();
    assert_eq!((&body["role"], &body["apps"]), (&json!("editor"), &json!(["a", "b"])));
    assert!(body["expires_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn tokens_are_listed_without_their_secrets() {
    let token = json!({"id": 3, "name": "deploy", "role": "editor", "apps": ["a", "b"],
                       "created_at": "2026-03-01T09:00:00Z", "expires_at": null});
    let script = |request| answers(request, 200, json!({"items": [token], "next_cursor": null}));
    let first = answers("GET /api/v1/tokens", 200, json!({"items": [token], "next_cursor": "c"}));
    let server = Server::start(vec![first, script("GET /api/v1/tokens?cursor=c")]);
    let output = punctual(&server.url, &["token", "list"]);
    let line = " 3  deploy  editor  a, b  2026-03-01T09:00:00Z\n";
    let heading = "ID  NAME    ROLE    APPS  CREATED               EXPIRES\n";
    assert_eq!(told(&output), (Some(0), format!("{heading}{line}{line}").as_str(), ""));
    server.requests();
}

#[test]
fn a_revoked_token_is_deleted() {
    let server = Server::start(vec![answers("DELETE /api/v1/tokens/3", 204, json!(null))]);
    let output = punctual(&server.url, &["token", "revoke", "3"]);
    assert_eq!(told(&output), (Some(0), "", "token 3 revoked\n"));
    server.requests();
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = punctual("http://127.0.0.1:1", &["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("backfill"), "{shell}");
    }
}

#[test]
fn every_help_has_examples() {
    let of_job = "create apply list get start stop run next history backfill delete";
    let of_run = "submit list get cancel retry reschedule log why";
    let (of_app, of_token) = ("list get set executors pause resume delete", "create list revoke reset");
    for (noun, verbs) in [("job", of_job), ("run", of_run), ("app", of_app), ("token", of_token)] {
        for verb in verbs.split(' ').map(Some).chain([None]) {
            let arguments: Vec<&str> = [noun].into_iter().chain(verb).chain(["--help"]).collect();
            let output = punctual("http://127.0.0.1:1", &arguments);
            assert!(stdout(&output).contains("Examples:\n  punctual "), "{arguments:?}: {}", stdout(&output));
        }
    }
}
