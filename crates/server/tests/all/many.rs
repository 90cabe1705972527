//! What the console asks of a server with many jobs: actions over all of them, lists by what matters, figures.

use crate::house::{Agent, Answer, Folder, Server, ask, eventually, job};
use serde_json::{Value, json};

/// Enough to need several pages.
const JOBS: usize = 1_200;

async fn fill(server: &Server) {
    let mut making = tokio::task::JoinSet::new();
    for part in 0..8 {
        let (url, token) = (server.url.clone(), server.token.clone());
        making.spawn(async move {
            let authorization = format!("Bearer {token}");
            let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
            for number in (part..JOBS).step_by(8) {
                let every = json!({"kind": "cron", "expression": "0 3 * * *"});
                let mut made = job(&format!("job {number}"), every, "http://127.0.0.1:9/");
                made["tags"] = json!([if number % 3 == 0 { "third" } else { "other" }]);
                let reply =
                    ask(&url, "POST", "/api/v1/jobs", &headers, &made.to_string()).await.expect("an answer");
                assert_eq!(reply.status, 201, "{}", reply.text());
            }
        });
    }
    while let Some(made) = making.join_next().await {
        made.expect("made");
    }
}

/// Begins an action, and waits until it is over.
async fn bulk(server: &Server, body: Value) -> Value {
    let begun = server.post("/jobs/bulk", body).await;
    assert_eq!(begun.status, 202, "{}", begun.text());
    let path = format!("/jobs/bulk/{}", begun.json()["id"]);
    eventually("the action is over", async || server.get(&path).await.json()["state"] != "running").await;
    server.get(&path).await.json()
}

async fn total(server: &Server, query: &str) -> Value {
    server.get(&format!("/jobs?limit=1&count=true&{query}")).await.json()["total"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_over_a_filter_is_done_to_all_that_match_and_to_no_other() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    fill(&server).await;
    let filter = json!({"tag": "third"});
    let preview =
        server.post("/jobs/bulk", json!({"action": "stop", "filter": filter, "dry_run": true})).await.json();
    assert_eq!(
        (&preview["matched"], preview["sample"].as_array().expect("some").len()),
        (&json!(JOBS / 3), 10)
    );
    let done = bulk(&server, json!({"action": "stop", "filter": filter, "expect": JOBS / 3})).await;
    assert_eq!(
        (&done["state"], &done["done"], &done["refused_count"]),
        (&json!("done"), &json!(JOBS / 3), &json!(0)),
        "{done}"
    );
    assert_eq!(total(&server, "enabled=false").await, json!(JOBS / 3));
    assert_eq!(total(&server, "enabled=false&tag=other").await, json!(0));
    assert_eq!(total(&server, "stopped=true").await, json!(0), "a person wished it");
    let soonest = server.get("/jobs?sort=next_fire_time&limit=5").await.json();
    assert_eq!(soonest["items"].as_array().expect("some").len(), 5);
    let cursor = soonest["next_cursor"].as_str().expect("there are more").to_owned();
    let next = server.get(&format!("/jobs?sort=next_fire_time&limit=5&cursor={cursor}")).await.json();
    assert!(next["items"][0]["id"].as_u64() > soonest["items"][4]["id"].as_u64(), "{next}");
    let started = bulk(&server, json!({"action": "start", "filter": filter})).await;
    assert_eq!(started["refused_count"], 0);
    let deleted = bulk(&server, json!({"action": "delete", "filter": {}})).await;
    assert_eq!(deleted["done"], json!(JOBS));
    assert_eq!(total(&server, "app=test").await, json!(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_is_seen_in_the_row_of_its_job_in_the_history_and_after_a_restart() {
    let folder = Folder::new();
    let agent =
        Agent::scripted(|_, seen| Answer::status(if seen.path.contains("bad") { 400 } else { 200 })).await;
    let server = Server::start(&folder).await;
    let good = server.create(job("good", json!({"kind": "manual"}), &agent.url("/good"))).await;
    let bad = server.create(job("bad", json!({"kind": "manual"}), &agent.url("/bad"))).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        for id in [good, bad] {
            let run = server.post(&format!("/jobs/{id}/run"), json!({})).await.json()["run"]
                .as_u64()
                .expect("a run");
            server.ended(run).await;
            runs.push(run);
        }
    }
    let states = |row: &Value| -> Vec<String> {
        let recent = row["recent"].as_array().expect("a list");
        recent.iter().map(|run| run["state"].as_str().expect("a state").to_owned()).collect()
    };
    eventually("both rows know their runs", async || {
        let page = server.get("/jobs").await.json();
        page["items"].as_array().expect("two").iter().all(|row| states(row).len() == 3)
    })
    .await;
    let failing = server.get("/jobs?failing=true").await.json();
    assert_eq!(failing["items"].as_array().expect("one").len(), 1);
    assert_eq!(states(&failing["items"][0]), ["failed"; 3]);
    assert!(failing["items"][0]["duration_p50_ms"].is_u64(), "{failing}");
    let history = server.get("/stats/history?hours=1").await.json();
    let sum = |field: &str| -> u64 {
        let buckets = history["buckets"].as_array().expect("a list");
        buckets.iter().map(|bucket| bucket[field].as_u64().expect("a number")).sum()
    };
    assert_eq!((sum("succeeded"), sum("failed"), sum("sent")), (3, 3, 6));
    assert!(server.stop().success());
    let server = Server::start(&folder).await;
    eventually("the rows are known again", async || {
        let row = server.get(&format!("/jobs/{good}")).await.json();
        let page = server.get("/jobs").await.json();
        page["items"].as_array().expect("two").iter().all(|row| states(row).len() == 3)
            && states(&row).len() == 3
    })
    .await;
    let history = server.get("/stats/history?hours=1").await.json();
    let failed = history["buckets"].as_array().expect("a list").iter();
    let failed: u64 = failed.map(|bucket| bucket["failed"].as_u64().expect("a number")).sum();
    assert_eq!(failed, 3, "and the history too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_signs_in_and_the_session_outlives_the_server() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let token = json!({"token": server.token}).to_string();
    let json_body = [("content-type", "application/json"), ("sec-fetch-site", "same-origin")];
    let signed_in = ask(&server.url, "POST", "/api/v1/session", &json_body, &token).await.expect("an answer");
    assert_eq!(signed_in.status, 200, "{}", signed_in.text());
    let cookie =
        signed_in.header("set-cookie").expect("a cookie").split(';').next().expect("a pair").to_owned();
    assert!(server.stop().success());
    let server = Server::start(&folder).await;
    let headers = [("cookie", cookie.as_str()), ("sec-fetch-site", "same-origin")];
    let who = ask(&server.url, "GET", "/api/v1/session", &headers, "").await.expect("an answer");
    assert_eq!((who.status, &who.json()["role"]), (200, &json!("admin")));
    let configuration =
        ask(&server.url, "GET", "/api/v1/config", &headers, "").await.expect("an answer").json();
    let items = configuration["items"].as_array().expect("settings");
    let listen = items.iter().find(|one| one["key"] == "listen").expect("the address");
    assert_eq!((&listen["value"], &listen["origin"]), (&json!("127.0.0.1:0"), &json!("flag")));
    let tokens = server.get("/tokens").await.json();
    let mine = tokens["items"][0]["id"].clone();
    server.post("/tokens", json!({"name": "another", "role": "admin"})).await;
    assert_eq!(server.ask("DELETE", &format!("/tokens/{mine}"), None).await.status, 204);
    let who = ask(&server.url, "GET", "/api/v1/session", &headers, "").await.expect("an answer");
    assert_eq!(who.status, 401, "a session ends with its token");
}
