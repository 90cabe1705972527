//! `punctual job`, and how the server is reached, as a person or a script meets them.

use std::fs;

use crate::scripted::*;
use serde_json::{Value, json};

fn job(id: u32, name: &str, expression: &str) -> Value {
    json!({
        "id": id, "name": name, "app": "reports", "description": "", "tags": [], "enabled": true,
        "schedule": {"kind": "cron", "expression": expression, "dialect": "unix", "zone": "UTC",
                     "gap": "default", "overlap": "default"},
        "target": {"kind": "http", "method": "POST", "url": "http://127.0.0.1:1/", "headers": {}, "body": null},
        "misfire": {"policy": "fire_once", "threshold": "5s"},
        "retry": {"max_attempts": 3, "initial_delay": "1s", "multiplier": 2.0, "max_delay": "30s"},
        "timeout": "30s", "delivery": "at_least_once", "priority": 5, "class": null, "lane": null, "windows": [],
        "calendar": null, "jitter": "0s", "after": [], "failure_limit": 0,
        "version": 4, "next_fire_time": "2026-03-01T09:00:00Z", "stopped_reason": null, "failure_count": 0,
        "consecutive_failures": 0, "last_status": "succeeded", "last_success": "2026-02-28T09:00:00Z",
    })
}

fn page(items: Value) -> Value {
    json!({"items": items, "next_cursor": null})
}

fn run(id: u64, state: &str, reason: &str) -> Value {
    json!({
        "id": id, "job": 17, "fire_time": "2026-03-01T09:00:00Z", "origin": "manual", "state": state,
        "reason": reason, "lag_ms": 3, "possible_duplicate": false, "key": null, "payload": null, "priority": 5,
        "attempts": [{"number": 1, "executor": "http://127.0.0.1:1/", "started_at": "2026-03-01T09:00:00.003Z",
                      "ended_at": "2026-03-01T09:00:00.010Z", "outcome": "failed", "message": "500 from the agent"}],
        "parts": [],
    })
}

// --- reaching the server ---

#[test]
fn a_missing_server_is_a_failure_with_advice() {
    let port = punctual_scratch::free_port();
    let url = format!("http://127.0.0.1:{port}");
    let output = punctual(&url, &["job", "list"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    let said = format!("error: cannot reach {url}: connection refused\nis `punctual serve` running?");
    assert!(stderr(&output).starts_with(&said), "{}", stderr(&output));
}

#[test]
fn an_address_that_is_none_is_a_usage_error() {
    let output = punctual("localhost:7070", &["job", "list"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("write it like http://127.0.0.1:7070"), "{}", stderr(&output));
}

#[test]
fn the_token_comes_from_the_environment_and_a_file_goes_before_it() {
    let path = file("token", "pt_from_file\n");
    for (arguments, header) in [
        (vec!["job", "list"], "authorization: Bearer pt_test"),
        (vec!["job", "list", "--token-file", &path], "authorization: Bearer pt_from_file"),
    ] {
        let server = Server::start(vec![answers("GET /api/v1/jobs?limit=100", 200, page(json!([])))]);
        let output = punctual(&server.url, &arguments);
        assert_eq!(told(&output), (Some(0), "", "no jobs\n"));
        assert!(server.requests()[0].has(header), "{header}");
    }
}

#[test]
fn a_local_server_is_opened_with_its_own_token() {
    let data = folder("data-with-token");
    fs::write(data.join("admin-token"), "pt_admin\n").unwrap();
    let server = Server::start(vec![answers("GET /api/v1/jobs?limit=100", 200, page(json!([])))]);
    let mut command = command(&server.url, &["job", "list"]);
    let output = command.env_remove("PUNCTUAL_TOKEN").env("PUNCTUAL_DATA", &data).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(server.requests()[0].has("authorization: Bearer pt_admin"));
}

#[test]
fn without_any_token_the_refusal_says_where_one_was_looked_for() {
    let refusal = problem(401, "a token is needed", json!([]));
    let server = Server::start(vec![answers("GET /api/v1/jobs?limit=100", 401, refusal)]);
    let output = command(&server.url, &["job", "list"]).env_remove("PUNCTUAL_TOKEN").output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    for word in ["error: a token is needed\n", "admin-token", "PUNCTUAL_TOKEN", "--token-file"] {
        assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
    }
    assert!(!server.requests()[0].headers.iter().any(|header| header.starts_with("authorization")));
}

#[test]
fn a_token_on_the_command_line_is_refused() {
    let output = punctual("http://127.0.0.1:1", &["job", "list", "--token", "pt_secret"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--token-file") && !stderr(&output).contains("pt_secret"));
    let output = punctual("http://127.0.0.1:1", &["job", "list", "--token-file", "no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no/such/file"), "{}", stderr(&output));
}

// --- refusals ---

#[test]
fn every_refusal_has_its_exit_code() {
    for (status, code) in
        [(400, 2), (401, 5), (403, 5), (404, 3), (409, 4), (412, 4), (422, 2), (500, 1), (503, 1)]
    {
        let refusal = problem(status, "no", json!([]));
        let server = Server::start(vec![answers("GET /api/v1/jobs/17", status, refusal)]);
        let output = punctual(&server.url, &["job", "get", "17"]);
        assert_eq!(told(&output), (Some(code), "", "error: no\n"), "{status}");
        server.requests();
    }
}

#[test]
fn every_field_error_has_a_line() {
    let errors = json!([
        {"pointer": "/schedule/expression", "detail": "position 3, hour: 25 is out of range"},
        {"pointer": "/target/url", "detail": "no host"},
    ]);
    let server = Server::start(vec![answers("POST /api/v1/jobs", 422, problem(422, "not a job", errors))]);
    let arguments =
        ["job", "create", "--app", "a", "--name", "b", "--cron", "0 25 * * *", "--url", "http://"];
    let output = punctual(&server.url, &arguments);
    let said = "error: not a job\n  /schedule/expression: position 3, hour: 25 is out of range\n  /target/url: no host\n";
    assert_eq!(told(&output), (Some(2), "", said));
    server.requests();
}

#[test]
fn an_answer_that_is_not_ours_is_a_failure() {
    let script = Exchange { request: "GET /api/v1/jobs/17", status: 200, answer: "<html>hello".into() };
    let server = Server::start(vec![script]);
    let output = punctual(&server.url, &["job", "get", "17"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("not JSON"), "{}", stderr(&output));
    server.requests();
}

// --- jobs ---

#[test]
fn lists_are_gathered_over_pages_up_to_the_limit() {
    let first: Vec<Value> = (1..=1_000).map(|id| json!({"id": id})).collect();
    let second: Vec<Value> = (1_001..=1_200).map(|id| json!({"id": id})).collect();
    let script = vec![
        answers("GET /api/v1/jobs?app=a%26b&limit=1000", 200, json!({"items": first, "next_cursor": "c1"})),
        answers(
            "GET /api/v1/jobs?app=a%26b&limit=200&cursor=c1",
            200,
            json!({"items": second, "next_cursor": "c2"}),
        ),
    ];
    let server = Server::start(script);
    let output = punctual(&server.url, &["job", "list", "--app", "a&b", "--limit", "1200", "-o", "json"]);
    let items = json_of(&output);
    assert_eq!((items.as_array().unwrap().len(), &items[1_199]["id"]), (1_200, &json!(1_200)));
    assert_eq!(stderr(&output), "the first 1200 jobs; --limit shows more\n");
    server.requests();
}

#[test]
fn pages_without_rows_are_followed_to_the_end_of_the_list() {
    let empty = |next: &str| json!({"items": [], "next_cursor": next});
    let server = Server::start(vec![
        answers("GET /api/v1/runs?state=failed&limit=100", 200, empty("c1")),
        answers("GET /api/v1/runs?state=failed&limit=100&cursor=c1", 200, empty("c2")),
        answers(
            "GET /api/v1/runs?state=failed&limit=100&cursor=c2",
            200,
            json!({"items": [run(3, "failed", "500")], "next_cursor": "c3"}),
        ),
        answers("GET /api/v1/runs?state=failed&limit=99&cursor=c3", 200, page(json!([]))),
    ]);
    let output = punctual(&server.url, &["run", "list", "--state", "failed", "-o", "json"]);
    assert_eq!(
        (output.status.code(), json_of(&output)[0]["id"].as_u64(), stderr(&output)),
        (Some(0), Some(3), "")
    );
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_next_page_that_is_named_twice_ends_in_an_error_and_not_in_a_loop() {
    let same = || json!({"items": [], "next_cursor": "c1"});
    let server = Server::start(vec![
        answers("GET /api/v1/jobs?limit=100", 200, same()),
        answers("GET /api/v1/jobs?limit=100&cursor=c1", 200, same()),
    ]);
    let output = punctual(&server.url, &["job", "list"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert!(stderr(&output).contains("the same next page twice"), "{}", stderr(&output));
    server.requests();
}

#[test]
fn a_list_is_a_table_for_people() {
    let jobs = json!([job(17, "nightly", "0 9 * * *"), job(4, "hourly-summary", "0 * * * *")]);
    let server = Server::start(vec![answers("GET /api/v1/jobs?limit=100", 200, page(jobs))]);
    let output = punctual(&server.url, &["job", "list"]);
    let expected = "\
ID  JOB                     SCHEDULE       TARGET                    STATE    NEXT                  LAST
17  reports/nightly         0 9 * * * UTC  POST http://127.0.0.1:1/  started  2026-03-01T09:00:00Z  succeeded
 4  reports/hourly-summary  0 * * * * UTC  POST http://127.0.0.1:1/  started  2026-03-01T09:00:00Z  succeeded
";
    assert_eq!(told(&output), (Some(0), expected, ""));
    server.requests();
}

#[test]
fn a_job_can_be_called_by_its_exact_name() {
    let lookup = "GET /api/v1/jobs/by-name/reports/nightly";
    let server = Server::start(vec![
        answers(lookup, 200, job(17, "nightly", "0 9 * * *")),
        answers("POST /api/v1/jobs/17/stop", 200, json!({})),
    ]);
    let output = punctual(&server.url, &["job", "stop", "reports/nightly"]);
    assert_eq!(told(&output), (Some(0), "", "stopped reports/nightly\n"));
    server.requests();
    let server = Server::start(vec![answers(lookup, 404, problem(404, "no", json!([])))]);
    let output = punctual(&server.url, &["job", "get", "reports/nightly"]);
    assert_eq!(told(&output), (Some(3), "", "error: there is no job reports/nightly\n"));
    server.requests();
    assert_eq!(punctual("http://127.0.0.1:1", &["job", "get", "nightly"]).status.code(), Some(2));
}

#[test]
fn flags_make_a_job() {
    let server = Server::start(vec![answers("POST /api/v1/jobs", 201, job(17, "nightly", "0 9 * * *"))]);
    let arguments = [
        ["job", "create", "--app", "reports", "--name", "nightly", "--cron", "0 9 * * *"].as_slice(),
        &["--zone", "America/Toronto", "--url", "https://example.com/agent", "--header", "X-A: b: c"],
        &[
            "--body",
            r#"{"type": "daily"}"#,
            "--retry-max",
            "5",
            "--timeout",
            "90s",
            "--tag",
            "x",
            "--tag",
            "y",
        ],
    ];
    let output = punctual(&server.url, &arguments.concat());
    assert_eq!(told(&output), (Some(0), "17\n", "created reports/nightly\n"));
    let expected = json!({
        "app": "reports", "name": "nightly",
        "schedule": {"kind": "cron", "expression": "0 9 * * *", "zone": "America/Toronto"},
        "target": {"kind": "http", "url": "https://example.com/agent", "headers": {"X-A": "b: c"},
                   "body": {"type": "daily"}},
        "retry": {"max_attempts": 5}, "timeout": "90s", "tags": ["x", "y"],
    });
    assert_eq!(server.requests()[0].json(), expected);
}

#[test]
fn a_dry_run_makes_nothing_and_says_when_it_would_fire() {
    let mut plan = job(0, "nightly", "0 9 * * *");
    plan["next_fire_times"] = json!(["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z"]);
    plan["warnings"] = json!(["crontab refuses it"]);
    let server = Server::start(vec![answers("POST /api/v1/jobs?dry_run=true", 200, plan)]);
    let arguments = ["job", "create", "--app", "reports", "--name", "nightly", "--cron", "0 9 * * *"];
    let output = punctual(&server.url, &[&arguments[..], &["--url", "http://x/", "--dry-run"]].concat());
    let said = "warning: reports/nightly: crontab refuses it\nwould create reports/nightly\n";
    assert_eq!(told(&output), (Some(0), "2026-03-01T09:00:00Z\n2026-03-02T09:00:00Z\n", said));
    server.requests();
}

#[test]
fn each_kind_of_schedule_has_its_flag() {
    for (flags, schedule) in [
        (["--every", "30s"].as_slice(), json!({"kind": "every", "interval": "30s"})),
        (&["--delay", "2m"], json!({"kind": "delay", "delay": "2m"})),
        (&["--at", "2026-03-01T09:00:00Z"], json!({"kind": "once", "at": "2026-03-01T09:00:00Z"})),
        (&["--manual"], json!({"kind": "manual"})),
    ] {
        let server = Server::start(vec![answers("POST /api/v1/jobs", 201, job(1, "b", "x"))]);
        let rest = ["job", "create", "--app", "a", "--name", "b", "--handler", "h"];
        let output = punctual(&server.url, &[&rest, flags].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let request = &server.requests()[0];
        assert_eq!(request.json()["schedule"], schedule);
        assert_eq!(request.json()["target"], json!({"kind": "executor", "handler": "h"}));
    }
}

#[test]
fn contradictions_are_usage_errors() {
    let nobody = "http://127.0.0.1:1";
    let base = ["job", "create", "--app", "a", "--name", "b", "--url", "http://x"];
    for flags in [
        [].as_slice(),
        &["--every", "30s", "--manual"],
        &["--every", "soon"],
        &["--manual", "--zone", "UTC"],
        &["--manual", "--body", "not json"],
        &["--manual", "-f", "x.toml"],
        &["--manual", "--handler", "h"],
    ] {
        let output = punctual(nobody, &[&base, flags].concat());
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{flags:?}");
    }
    for arguments in [
        ["job", "create", "-f", "no/such/file.toml"].as_slice(),
        &["job", "delete", "17"],
        &["job", "backfill", "17", "--from", "x"],
        &["run", "cancel"],
        &["run", "submit"],
        &["run", "submit", "--job", "a/b", "--at", "x", "--in", "5m"],
        &["run", "submit", "-f", "-", "--retry-max", "3"],
        &["run", "submit", "--job", "a/b", "--attempt-timeout", "soon"],
        &["run", "reschedule", "5"],
        &["run", "reschedule", "5", "--by", "1h"],
        &["run", "reschedule", "--by", "1h"],
        &["run", "reschedule", "--app", "a", "--by", "1h", "--in", "1h"],
        &["run", "reschedule", "--app", "a", "--by", "soon"],
        &["token", "create", "--name", "x", "--role", "king"],
        &["completions", "tcsh"],
    ] {
        assert_eq!(punctual(nobody, arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn files_hold_one_job_or_many_in_either_format() {
    let toml = file("one.toml", "app = \"a\"\nname = \"b\"\n[schedule]\nkind = \"manual\"\n");
    let server = Server::start(vec![answers("POST /api/v1/jobs", 201, job(1, "b", "x"))]);
    let output = punctual(&server.url, &["job", "create", "-f", &toml, "-o", "json"]);
    assert_eq!(json_of(&output)["id"], 1);
    let expected = json!({"app": "a", "name": "b", "schedule": {"kind": "manual"}});
    assert_eq!(server.requests()[0].json(), expected);

    let server = Server::start(vec![
        answers("POST /api/v1/jobs", 201, job(1, "b", "x")),
        answers("POST /api/v1/jobs", 201, job(2, "c", "x")),
    ]);
    // What the server once answered can be written back: the fields that only an answer has are left out.
    let list = json!([job(1, "b", "x"), job(2, "c", "x")]).to_string();
    let output = fed(&server.url, &["job", "create", "-f", "-", "-o", "json"], &list);
    assert_eq!(json_of(&output).as_array().unwrap().len(), 2);
    let requests = server.requests();
    assert!(requests[1].json().get("id").is_none() && requests[1].json()["name"] == "c");
}

#[test]
fn apply_creates_changes_or_leaves_alone_and_shows_a_diff() {
    let text = r#"
        [[job]]
        app = "reports"
        name = "new"
        schedule = { kind = "every", interval = "60s" }
        target = { kind = "http", url = "http://127.0.0.1:1/" }
        [[job]]
        app = "reports"
        name = "nightly"
        schedule = { kind = "cron", expression = "0 10 * * *" }
        target = { kind = "http", url = "http://127.0.0.1:1/" }
        [[job]]
        app = "reports"
        name = "same"
        timeout = "30s"
        schedule = { kind = "cron", expression = "0 9 * * *" }
        target = { kind = "http", url = "http://127.0.0.1:1/" }
    "#;
    let path = file("apply.toml", text);
    let plan = |id, name, expression| {
        let mut plan = job(id, name, expression);
        plan["next_fire_times"] = json!(["2026-03-01T09:00:00Z"]);
        plan["warnings"] = json!([]);
        plan
    };
    let nightly = (job(17, "nightly", "0 9 * * *"), plan(17, "nightly", "0 10 * * *"));
    let same = (job(18, "same", "0 9 * * *"), plan(18, "same", "0 9 * * *"));
    let looks = || {
        vec![
            answers("GET /api/v1/jobs/by-name/reports/new", 404, problem(404, "no", json!([]))),
            answers("PUT /api/v1/jobs/by-name/reports/new?dry_run=true", 200, plan(0, "new", "x")),
            answers("GET /api/v1/jobs/by-name/reports/nightly", 200, nightly.0.clone()),
            answers("PUT /api/v1/jobs/by-name/reports/nightly?dry_run=true", 200, nightly.1.clone()),
            answers("GET /api/v1/jobs/by-name/reports/same", 200, same.0.clone()),
            answers("PUT /api/v1/jobs/by-name/reports/same?dry_run=true", 200, same.1.clone()),
        ]
    };
    let diff = "\
+ reports/new
  + app: \"reports\"
  + name: \"new\"
  + schedule.interval: \"60s\"
  + schedule.kind: \"every\"
  + target.kind: \"http\"
  + target.url: \"http://127.0.0.1:1/\"
~ reports/nightly
  - schedule.expression: \"0 9 * * *\"
  + schedule.expression: \"0 10 * * *\"
";
    let server = Server::start(looks());
    let output = punctual(&server.url, &["job", "apply", "-f", &path, "--dry-run"]);
    let summary = "1 created, 1 changed, 1 unchanged (dry run: nothing was changed)\n";
    assert_eq!(told(&output), (Some(0), diff, summary));
    server.requests();

    let mut script = looks();
    script.push(answers("PUT /api/v1/jobs/by-name/reports/new", 201, job(19, "new", "x")));
    script.push(answers("PUT /api/v1/jobs/by-name/reports/nightly", 200, job(17, "nightly", "x")));
    let server = Server::start(script);
    let output = punctual(&server.url, &["job", "apply", "-f", &path, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let results = json_of(&output);
    let words: Vec<&Value> = results.as_array().unwrap().iter().map(|one| &one["result"]).collect();
    assert_eq!(words, ["created", "changed", "unchanged"]);
    assert_eq!((&results[0]["id"], &results[1]["changes"][0]["after"]), (&json!(19), &json!("0 10 * * *")));
    let requests = server.requests();
    assert!(requests[7].has("if-match: \"4\""), "{:?}", requests[7].headers);
}

#[test]
fn a_secret_that_changes_is_written_and_not_shown() {
    let (current, mut plan) = (job(17, "nightly", "0 9 * * *"), job(17, "nightly", "0 9 * * *"));
    plan["version"] = json!(5);
    let server = Server::start(vec![
        answers("GET /api/v1/jobs/by-name/reports/nightly", 200, current),
        answers("PUT /api/v1/jobs/by-name/reports/nightly?dry_run=true", 200, plan.clone()),
        answers("PUT /api/v1/jobs/by-name/reports/nightly", 200, plan),
    ]);
    let wanted = json!({"app": "reports", "name": "nightly", "target": {"signing_secret": "whsec_new"}});
    let output = fed(&server.url, &["job", "apply", "-f", "-"], &wanted.to_string());
    let diff =
        "~ reports/nightly\n  - target.signing_secret: \"whsec_…\"\n  + target.signing_secret: \"whsec_…\"\n";
    assert_eq!(told(&output), (Some(0), diff, "0 created, 1 changed, 0 unchanged\n"));
    assert_eq!(server.requests()[2].json(), wanted);
}

#[test]
fn apply_changes_nothing_if_one_job_of_the_file_is_refused() {
    let jobs = json!([{"app": "a", "name": "good"}, {"app": "a", "name": "bad"}]).to_string();
    let errors = json!([{"pointer": "/schedule", "detail": "missing"}]);
    let server = Server::start(vec![
        answers("GET /api/v1/jobs/by-name/a/good", 404, problem(404, "no", json!([]))),
        answers("PUT /api/v1/jobs/by-name/a/good?dry_run=true", 200, json!({})),
        answers("GET /api/v1/jobs/by-name/a/bad", 404, problem(404, "no", json!([]))),
        answers("PUT /api/v1/jobs/by-name/a/bad?dry_run=true", 422, problem(422, "not a job", errors)),
    ]);
    let output = fed(&server.url, &["job", "apply", "-f", "-"], &jobs);
    assert_eq!(told(&output), (Some(2), "", "error: a/bad: not a job\n  /schedule: missing\n"));
    server.requests();
    for jobs in [r#"[{"app": "a"}]"#, r#"[{"app": "a", "name": "b"}, {"app": "a", "name": "b"}]"#] {
        let output = fed("http://127.0.0.1:1", &["job", "apply", "-f", "-"], jobs);
        assert_eq!(output.status.code(), Some(2), "{jobs}");
    }
}

#[test]
fn a_run_that_is_waited_for_decides_the_exit_code() {
    for (state, code) in [("succeeded", 0), ("failed", 1), ("lost", 1), ("cancelled", 1)] {
        let server = Server::start(vec![
            answers("POST /api/v1/jobs/17/run", 202, json!({"run": 4711})),
            answers("GET /api/v1/runs/4711", 200, run(4711, "running", "")),
            answers("GET /api/v1/runs/4711", 503, problem(503, "restarting", json!([]))),
            answers("GET /api/v1/runs/4711", 200, run(4711, state, "")),
        ]);
        let arguments = ["job", "run", "17", "--payload", "{\"a\": 1}", "--wait", "--timeout", "60s"];
        let output = punctual(&server.url, &arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(code), "4711\n"), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("run 4711 {state}")));
        assert_eq!(server.requests()[0].json(), json!({"payload": {"a": 1}}));
    }
}

#[test]
fn patience_ends_with_the_timeout() {
    let server = Server::start(vec![
        answers("POST /api/v1/jobs/17/run", 202, json!({"run": 4711})),
        answers("GET /api/v1/runs/4711", 200, run(4711, "pending", "")),
    ]);
    let output = punctual(&server.url, &["job", "run", "17", "--wait", "--timeout", "20ms"]);
    assert_eq!(told(&output), (Some(1), "4711\n", "error: run 4711 has not ended within 20ms\n"));
}

#[test]
fn deleting_wants_a_yes() {
    let output = punctual("http://127.0.0.1:1", &["job", "delete", "reports/nightly"]);
    let said = "error: delete reports/nightly: there is nobody to ask, so say it with --yes\n";
    assert_eq!(told(&output), (Some(2), "", said));
    let server = Server::start(vec![
        answers("GET /api/v1/jobs/17", 200, job(17, "nightly", "x")),
        answers("DELETE /api/v1/jobs/17", 204, json!(null)),
    ]);
    let output = punctual(&server.url, &["job", "delete", "17", "--yes"]);
    assert_eq!(told(&output), (Some(0), "", "deleted reports/nightly\n"));
    server.requests();
}

#[test]
fn a_backfill_is_shown_before_it_is_made() {
    let preview =
        json!({"count": 2, "fire_times": ["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z"], "created": 0});
    let request = "POST /api/v1/jobs/17/backfill";
    let range = ["job", "backfill", "17", "--from", "2026-03-01T00:00:00Z", "--to", "2026-03-03T00:00:00Z"];
    let server = Server::start(vec![answers(request, 200, preview.clone())]);
    let output = punctual(&server.url, &range);
    let said = "2026-03-01T09:00:00Z\n2026-03-02T09:00:00Z\n\
                error: run 2 instants of 17: there is nobody to ask, so say it with --yes\n";
    assert_eq!(told(&output), (Some(2), "", said));
    assert_eq!(server.requests()[0].json()["dry_run"], true);
    let done = json!({"count": 2, "fire_times": [], "created": 1});
    let server = Server::start(vec![answers(request, 200, preview), answers(request, 200, done)]);
    let output = punctual(&server.url, &[&range[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(json_of(&output)["count"], 2);
    let output = punctual(&server.url, &[&range[..], &["--yes"]].concat());
    assert_eq!(told(&output), (Some(0), "", "1 runs created, 1 were there\n"));
    assert_eq!(server.requests()[1].json()["dry_run"], false);
}

#[test]
fn the_next_fire_times_are_lines() {
    let times = json!({"fire_times": ["2026-03-01T09:00:00Z", "2026-03-02T09:00:00Z"]});
    let request = "GET /api/v1/jobs/17/next?count=2";
    let server =
        Server::start(vec![answers(request, 200, times.clone()), answers(request, 200, times.clone())]);
    let arguments = ["job", "next", "17", "--count", "2"];
    let output = punctual(&server.url, &arguments);
    assert_eq!(told(&output), (Some(0), "2026-03-01T09:00:00Z\n2026-03-02T09:00:00Z\n", ""));
    let output = punctual(&server.url, &[&arguments[..], &["-o", "json"]].concat());
    assert_eq!(json_of(&output), times);
    server.requests();
}
