//! One-shots for days that are far ahead: how many tables they cost, and that each runs in its time.

use std::fs;

use crate::house::{Agent, Answer, Folder, Server, eventually, from_now, job};
use serde_json::{Value, json};

const DAY_MS: i64 = 86_400_000;

/// How many tables the file has: each is in the schema by a statement of its own.
fn tables(folder: &Folder) -> usize {
    let bytes = fs::read(folder.path().join("punctual.db")).expect("the file");
    let create = b"CREATE TABLE runs_";
    bytes.windows(create.len()).filter(|window| window == create).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_days_cost_few_tables_and_what_is_due_on_them_runs() {
    let folder = Folder::new();
    let agent = Agent::scripted(|_, _| Answer::status(200)).await;
    let server = Server::start(&folder).await;
    let id = server.create(job("remind", json!({"kind": "manual"}), &agent.url("/"))).await;
    let run = |day: i64| json!({"job": id, "at": from_now(day * DAY_MS), "key": format!("day {day}")});
    let batch: Vec<Value> = (1..=10_000).map(run).collect();
    let taken = server.post("/runs", json!({"runs": batch})).await;
    assert!(taken.status < 300, "{}", taken.text());
    let buckets = |storage: &Value| storage["buckets"].as_array().expect("a list").len();
    let storage = server.get("/storage").await.json();
    assert_eq!(storage["runs"], 10_000);
    assert!(buckets(&storage) < 200, "{} days have tables", buckets(&storage));
    assert!(server.stop().success());
    assert!(tables(&folder) < 200, "{} tables for runs", tables(&folder));
    let server = Server::start(&folder).await;
    assert_eq!(server.get("/storage").await.json()["runs"], 10_000, "a restart reads them");
    // Brought forward, one from each kind of day runs; the others wait.
    let mut moved = Vec::new();
    for day in [30, 100, 1_000, 9_999] {
        let found = server.get(&format!("/runs?job={id}&key=day%20{day}")).await.json();
        let run = found["items"][0]["id"].as_u64().unwrap_or_else(|| panic!("day {day}: {found}"));
        let path = format!("/runs/{run}/reschedule");
        let asked = server.post(&path, json!({"at": from_now(200)})).await;
        assert!(asked.status < 300, "{}", asked.text());
        moved.push(run);
    }
    for run in moved {
        assert_eq!(server.ended(run).await["state"], "succeeded");
    }
    let left = async || server.get(&format!("/runs?job={id}&state=pending&limit=1000")).await.json();
    eventually("the others wait", async || left().await["items"].as_array().map(Vec::len) == Some(1_000))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_job_leaves_nothing_that_waits_for_years() {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let id = server.create(job("remind", json!({"kind": "manual"}), "http://127.0.0.1:9/")).await;
    let run = |number: i64| json!({"job": id, "at": from_now((1 + number % 2_000) * DAY_MS)});
    let batch: Vec<Value> = (0..5_000).map(run).collect();
    assert!(server.post("/runs", json!({"runs": batch})).await.status < 300);
    assert!(server.ask("DELETE", &format!("/jobs/{id}"), None).await.status < 300);
    // Killed at once: whoever holds the shard next goes on.
    server.kill();
    let server = Server::start(&folder).await;
    let count = async |state: &str| {
        let page = server.get(&format!("/runs?job={id}&state={state}&limit=1000")).await.json();
        page["items"].as_array().expect("a list").len()
    };
    eventually("nothing is pending", async || count("pending").await == 0).await;
    let page = server.get(&format!("/runs?job={id}&state=cancelled&limit=1000")).await.json();
    let items = page["items"].as_array().expect("a list");
    assert!(items.len() == 1_000 && items.iter().all(|run| run["reason"] == "job deleted"), "{}", items[0]);
    let storage = server.get("/storage").await.json();
    assert_eq!((&storage["runs"], &storage["closed"]), (&json!(5_000), &json!(5_000)), "all of them");
}
