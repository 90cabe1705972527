//! Changing much at once: one-shots put off by filter, and apps paused and resumed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::house::{Agent, Folder, Server, ask, command, eventually, from_now, job, millis};

/// As many as a batch may hold.
const MANY: usize = 10_000;

const HOUR: i64 = 3_600_000;

/// Hands over one-shots of a job, an hour from now, a millisecond apart.
async fn submit(server: &Server, job: u64, count: usize) -> Vec<u64> {
    let due = millis(&json!(from_now(HOUR)));
    let one = |number: usize| {
        let at = calendar::Timestamp::from_millis(due + number as i64).to_string();
        json!({"job": job, "at": at, "key": format!("key {number}")})
    };
    let runs: Vec<Value> = (0..count).map(one).collect();
    let accepted = server.post("/runs", json!({"runs": runs})).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    accepted.json()["ids"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect()
}

async fn reschedule(server: &Server, body: Value) -> Value {
    let done = server.post("/runs/reschedule", body).await;
    assert_eq!(done.status, 200, "{}", done.text());
    done.json()
}

/// What open runs of a job wait for, by their numbers.
async fn waits(server: &Server, job: u64) -> BTreeMap<u64, i64> {
    let (mut waits, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let page = server.get(&format!("/jobs/{job}/runs?state=pending&limit=1000{cursor}")).await.json();
        for run in page["items"].as_array().expect("a list") {
            let due = if run["ready_at"].is_null() { &run["fire_time"] } else { &run["ready_at"] };
            waits.insert(run["id"].as_u64().expect("a number"), millis(due));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return waits,
        }
    }
}

fn punctual(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let mut command = command();
    command.args(words).env("PUNCTUAL_URL", &server.url).env("PUNCTUAL_TOKEN", &server.token);
    let said = command.output().expect("it runs");
    (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_one_shots_are_moved_by_filter_while_others_run() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), &agent.url("/shots"))).await;
    let other = server.create(job("other", json!({"kind": "manual"}), &agent.url("/other"))).await;
    let every = json!({"kind": "every", "interval": "50ms"});
    server.create(job("tick", every, &agent.url("/tick"))).await;
    submit(&server, shots, MANY).await;
    submit(&server, other, 5).await;
    let (before, others) = (waits(&server, shots).await, waits(&server, other).await);
    assert_eq!(before.len(), MANY);
    let filter = json!({"job": "test/shots"});
    let preview = reschedule(&server, json!({"filter": filter, "by": "1h", "dry_run": true})).await;
    assert_eq!(preview, json!({"matched": MANY, "rescheduled": 0}));
    assert_eq!(waits(&server, shots).await, before, "to count them moves nothing");
    eventually("others run", async || agent.count() > 5).await;
    let ticks = agent.count();
    let done = reschedule(&server, json!({"filter": filter, "by": "1h"})).await;
    assert_eq!(done, json!({"matched": MANY, "rescheduled": MANY}));
    let later: BTreeMap<u64, i64> = before.iter().map(|(run, due)| (*run, due + HOUR)).collect();
    assert_eq!(waits(&server, shots).await, later, "each exactly once, by exactly so much");
    assert_eq!(waits(&server, other).await, others, "and no other");
    eventually("others went on", async || agent.count() > ticks).await;
    let unmoved = json!({"job": shots, "moved": false});
    let again = reschedule(&server, json!({"filter": unmoved, "by": "1h"})).await;
    assert_eq!(again, json!({"matched": 0, "rescheduled": 0}), "what was moved can be left out");
    let done = reschedule(&server, json!({"filter": filter, "by": "-59m59s"})).await;
    assert_eq!(done["rescheduled"], MANY);
    let at = from_now(300);
    let done = reschedule(&server, json!({"filter": {"app": "test", "key": "key 3"}, "at": at})).await;
    assert_eq!(done["rescheduled"], 2, "a key is one of each job");
    eventually("both have run", async || {
        ["/shots", "/other"].iter().all(|path| agent.seen().iter().any(|seen| seen.path == *path))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_told_in_lines_to_who_asks_for_lines() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), "http://127.0.0.1:9/")).await;
    submit(&server, shots, 3_500).await;
    let authorization = format!("Bearer {}", server.token);
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/x-ndjson"),
    ];
    let told = async |path: &str, body: Value| {
        let reply = ask(&server.url, "POST", path, &headers, &body.to_string()).await.expect("an answer");
        assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
        let text = reply.text();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    let lines = told("/api/v1/runs/reschedule", json!({"filter": {"app": "test"}, "by": "5m"})).await;
    let (last, before) = lines.split_last().expect("some");
    assert_eq!(*last, json!({"matched": 3_500, "rescheduled": 3_500, "done": true}));
    assert!(before.iter().any(|line| line["matched"] == 1_000), "{before:?}");
    let lines = told("/api/v1/runs/cancel", json!({"filter": {"job": shots}})).await;
    let (last, before) = lines.split_last().expect("some");
    assert_eq!(*last, json!({"matched": 3_500, "cancelled": 3_500, "done": true}));
    assert!(before.len() >= 3, "{before:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_cancelled_and_moved_by_key_on_the_command_line() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), &agent.url("/"))).await;
    let ids = submit(&server, shots, 3).await;
    let key = |number: usize| format!("key {number}");
    let said = punctual(&server, &["run", "cancel", "--job", "test/shots", "--key", &key(0), "--yes"]);
    assert_eq!(said, (Some(0), "1 of 1 runs cancelled\n".into()));
    assert_eq!(server.run(ids[0]).await["state"], "cancelled");
    let moved = ["run", "reschedule", "--job", "test/shots", "--key", &key(1), "--at"];
    let (code, said) = punctual(&server, &[&moved[..], &[&from_now(0), "--yes"]].concat());
    assert_eq!((code, said.as_str()), (Some(0), "1 of 1 runs rescheduled\n"));
    assert_eq!(server.ended(ids[1]).await["state"], "succeeded");
    let filter = ["run", "reschedule", "--app", "test", "--by", "-30m"];
    let said = punctual(&server, &[&filter[..], &["--dry-run"]].concat());
    assert_eq!(said, (Some(0), "1 runs would be rescheduled\n".into()));
    let said = punctual(&server, &filter);
    assert_eq!(said.0, Some(2), "nobody is there to be asked: {}", said.1);
    let due = waits(&server, shots).await[&ids[2]];
    let said = punctual(&server, &[&filter[..], &["--unmoved", "--yes"]].concat());
    assert_eq!(said, (Some(0), "1 of 1 runs rescheduled\n".into()));
    assert_eq!(waits(&server, shots).await[&ids[2]], due - HOUR / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_makes_no_sense_is_refused_and_moves_nothing() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), "http://127.0.0.1:9/")).await;
    submit(&server, shots, 2).await;
    let before = waits(&server, shots).await;
    let at = from_now(0);
    for (body, pointer) in [
        (json!({"filter": {}, "by": "1h"}), "/filter"),
        (json!({"filter": {"from": at}, "by": "1h"}), "/filter"),
        (json!({"filter": {"job": shots}, "by": "1h", "at": at}), ""),
        (json!({"filter": {"job": shots}}), ""),
        (json!({"filter": {"job": shots}, "by": "soon"}), "/by"),
        (json!({"filter": {"job": shots, "state": "running"}, "by": "1h"}), "/filter/state"),
        (json!({"by": "1h"}), "/filter"),
    ] {
        let refused = server.post("/runs/reschedule", body.clone()).await;
        assert_eq!(refused.status, 422, "{body}");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{body}: {}", refused.text());
    }
    assert_eq!(waits(&server, shots).await, before);
    let none = reschedule(&server, json!({"filter": {"job": "test/nobody"}, "by": "1h"})).await;
    assert_eq!(none, json!({"matched": 0, "rescheduled": 0}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_killed_in_the_middle_leaves_each_old_or_new_and_can_be_repeated() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), &agent.url("/"))).await;
    for _ in 0..3 {
        let runs: Vec<Value> = (0..MANY).map(|_| json!({"job": shots, "at": from_now(HOUR)})).collect();
        assert_eq!(server.post("/runs", json!({"runs": runs})).await.status, 200);
    }
    let before = waits(&server, shots).await;
    let body = json!({"filter": {"job": shots, "moved": false}, "by": "1h"});
    let (url, token, asked) = (server.url.clone(), server.token.clone(), body.clone());
    let moving = tokio::spawn(async move {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        ask(&url, "POST", "/api/v1/runs/reschedule", &headers, &asked.to_string()).await
    });
    let newest = format!("/jobs/{shots}/runs?limit=1");
    eventually("some are moved", async || {
        !server.get(&newest).await.json()["items"][0]["ready_at"].is_null()
    })
    .await;
    server.kill();
    drop(moving.await);
    let server = Server::start(&folder).await;
    let halfway = waits(&server, shots).await;
    assert_eq!(halfway.len(), before.len(), "none is lost");
    let is_whole = |run: &u64| halfway[run] == before[run] || halfway[run] == before[run] + HOUR;
    assert!(before.keys().all(is_whole), "each is where it was, or an hour later");
    let left = before.iter().filter(|(run, due)| halfway[run] == **due).count();
    let done = reschedule(&server, body).await;
    assert_eq!(done, json!({"matched": left, "rescheduled": left}), "the rest follows");
    let later: BTreeMap<u64, i64> = before.iter().map(|(run, due)| (*run, due + HOUR)).collect();
    assert_eq!(waits(&server, shots).await, later, "and none twice");
    assert_eq!(agent.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_app_keeps_what_is_stored_and_goes_on_where_it_was() {
    let (folder, agent) = (Folder::new(), Agent::content().await);
    let server = Server::start(&folder).await;
    let shots = server.create(job("shots", json!({"kind": "manual"}), &agent.url("/shots"))).await;
    let every = json!({"kind": "every", "interval": "50ms"});
    let tick = server.create(job("tick", every.clone(), &agent.url("/tick"))).await;
    let stopped = server.create(job("stopped", every.clone(), &agent.url("/stopped"))).await;
    server.post(&format!("/jobs/{stopped}/stop"), json!({})).await;
    let mut apart = job("apart", every.clone(), &agent.url("/apart"));
    apart["app"] = json!("another");
    server.create(apart).await;
    let count = |path: &str| agent.seen().iter().filter(|seen| seen.path == path).count();
    eventually("it runs", async || count("/tick") > 3).await;
    submit(&server, shots, 100).await;

    let (code, said) = punctual(&server, &["app", "pause", "test", "--reason", "moving"]);
    assert_eq!((code, said.as_str()), (Some(0), "app test is paused: 2 jobs stopped\n"));
    let answered = millis(&json!(from_now(0)));
    let app = server.get("/apps/test").await.json();
    assert_eq!((&app["paused"], &app["paused_reason"]), (&json!(true), &json!("moving")), "{app}");
    let shown = server.get(&format!("/jobs/{tick}")).await.json();
    assert_eq!((&shown["enabled"], &shown["stopped_reason"]), (&json!(false), &json!("app paused")));
    for (path, body) in
        [("/runs".to_owned(), json!({"job": shots})), (format!("/jobs/{tick}/start"), json!({}))]
    {
        let refused = server.post(&path, body).await;
        assert!(refused.status == 409 && refused.text().contains("resume"), "{}", refused.text());
    }
    let born = server.create(job("born", every, &agent.url("/born"))).await;
    assert_eq!(server.get(&format!("/jobs/{born}")).await.json()["stopped_reason"], "app paused");
    let put = server.ask("PUT", "/apps/test", Some(json!({"title": "Test"}))).await;
    assert_eq!((put.status, &put.json()["paused"]), (200, &json!(true)), "{}", put.text());

    let due = json!({"filter": {"job": shots}, "at": from_now(0)});
    assert_eq!(reschedule(&server, due).await["rescheduled"], 100, "what is stored can still be moved");
    server.kill();
    let server = Server::start(&folder).await;
    let before = count("/apart");
    eventually("the other app goes on", async || count("/apart") > before + 40).await;
    assert_eq!((count("/shots"), count("/born")), (0, 0));
    let late = |seen: &&crate::house::Seen| seen.path == "/tick" && seen.at > answered + 100;
    assert_eq!(agent.seen().iter().filter(late).count(), 0, "nothing is sent after the answer");
    // A node that died may have sent what was due, as far as the next can know; so some may wait for a second attempt.
    let open = json!({"filter": {"job": shots}, "dry_run": true});
    assert_eq!(server.post("/runs/cancel", open).await.json()["matched"], 100, "what is stored waits");

    let resumed = server.post("/apps/test/resume", json!({})).await;
    assert_eq!(resumed.json(), json!({"paused": false, "jobs": 3, "refused": 0}), "{}", resumed.text());
    eventually("what waited runs", async || count("/shots") == 100).await;
    eventually("and so does the rest", async || count("/born") > 3).await;
    assert_eq!(server.get(&format!("/jobs/{stopped}")).await.json()["stopped_reason"], "asked");
    let again = server.post("/apps/test/resume", json!({})).await;
    assert_eq!(again.json(), json!({"paused": false, "jobs": 0, "refused": 0}), "repeating is safe");
    let app = server.get("/apps/test").await;
    assert_eq!(app.json()["paused"], false, "{}", app.text());
    assert_eq!(server.post("/apps/nobody/pause", json!({})).await.status, 404);
    let wrong = server.post("/apps/test/pause", json!({"why": "x"})).await;
    assert_eq!((wrong.status, &wrong.json()["errors"][0]["pointer"]), (422, &json!("/why")));
}
