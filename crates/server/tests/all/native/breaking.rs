//! What becomes of work when somebody goes: the executor, the node, or the wire between them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Language, Program, job, outcomes, run};
use super::proxy::Proxy;
use super::scenarios;
use crate::house::{Folder, Server, eventually};

scenarios!(
    one_that_drains_ends_what_it_has,
    what_a_killed_one_had_is_found_within_ten_seconds,
    a_restarted_node_finds_what_is_still_running,
    what_ended_while_the_node_was_away_is_told_when_it_is_back,
    a_wire_cut_in_the_middle_of_a_batch_loses_nothing,
    one_that_is_frozen_is_found_and_its_late_result_changes_nothing,
    a_slow_one_holds_up_nobody_else,
);

async fn one_that_drains_ends_what_it_has(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "sleep", json!({}))).await;
    let busy = run(&server, job, json!({"ms": 1_500})).await;
    program.started(1).await;
    assert!(program.stop().await.success());
    let run = server.run(busy).await;
    assert_eq!((run["state"].as_str(), outcomes(&run)), (Some("succeeded"), vec!["succeeded"]), "{run}");
}

async fn what_a_killed_one_had_is_found_within_ten_seconds(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let mut program = Program::start(language, &server, "native").await;
    let again = json!({"retry": {"max_attempts": 2}, "timeout": "5m"});
    let job = server.create(job("native", "sleep", again)).await;
    let id = run(&server, job, json!({"ms": 700})).await;
    program.started(1).await;
    program.kill();
    let killed = Instant::now();
    let other = Program::start_at(language, &server.url, "native", &["--name", "other"]).await;
    let started = other.started(1).await;
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!((&started[0]["attempt"], &started[0]["possible_duplicate"]), (&json!(2), &json!(true)));
    let run = server.ended(id).await;
    assert_eq!(outcomes(&run), ["lost", "succeeded"], "{run}");
}

/// A server on a port that stays the same when it is started again.
async fn server_at(folder: &Folder, port: u16) -> Server {
    Server::start_with(folder, &["--listen", &format!("127.0.0.1:{port}")]).await
}

async fn a_restarted_node_finds_what_is_still_running(language: Language) {
    let (folder, port) = (Folder::new(), punctual_scratch::free_port());
    let server = server_at(&folder, port).await;
    let program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "sleep", json!({"timeout": "5m"}))).await;
    let id = run(&server, job, json!({"ms": 9_000})).await;
    program.started(1).await;
    server.kill();
    let server = server_at(&folder, port).await;
    let run = server.ended(id).await;
    assert_eq!((run["state"].as_str(), outcomes(&run)), (Some("succeeded"), vec!["succeeded"]), "{run}");
    assert_eq!(program.count("start"), 1, "it was not started again");
}

async fn what_ended_while_the_node_was_away_is_told_when_it_is_back(language: Language) {
    let (folder, port) = (Folder::new(), punctual_scratch::free_port());
    let server = server_at(&folder, port).await;
    let program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "sleep", json!({"timeout": "5m"}))).await;
    let id = run(&server, job, json!({"ms": 800})).await;
    program.started(1).await;
    server.kill();
    eventually("it has ended", async || program.count("end") == 1).await;
    let server = server_at(&folder, port).await;
    let run = server.ended(id).await;
    assert_eq!((run["state"].as_str(), outcomes(&run)), (Some("succeeded"), vec!["succeeded"]), "{run}");
    assert_eq!(program.count("start"), 1, "it was not started again");
}

async fn a_wire_cut_in_the_middle_of_a_batch_loses_nothing(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let proxy = Proxy::to(&server.url).await;
    let program = Program::start_at(language, &proxy.url, "native", &["--capacity", "200"]).await;
    let again = json!({"retry": {"max_attempts": 3}, "timeout": "5m"});
    let job = server.create(job("native", "sleep", again)).await;
    proxy.cut_after(9_000);
    let runs: Vec<Value> = (0..150).map(|_| json!({"job": job, "payload": {"ms": 20}})).collect();
    let taken = server.post("/runs", json!({"runs": runs})).await;
    assert_eq!(taken.json()["accepted"], 150, "{}", taken.text());
    eventually("all have ended", async || {
        let runs = server.runs(job).await;
        runs.len() == 150 && runs.iter().all(|run| run["state"] == "succeeded")
    })
    .await;
    proxy.cut();
    assert!(program.count("connected") >= 2, "the wire was cut");
    // No send was started twice: each has a token of its own.
    let mut starts: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for start in program.said("start") {
        let key = (start["run"].as_u64().unwrap(), start["token"].as_u64().unwrap());
        *starts.entry(key).or_default() += 1;
    }
    assert!(starts.values().all(|count| *count == 1));
    // A run that was started again says that it may be a duplicate.
    for start in program.said("start") {
        let earlier = starts.range((start["run"].as_u64().unwrap(), 0)..).next().unwrap().0.1;
        if start["token"].as_u64().unwrap() > earlier {
            assert_eq!(start["possible_duplicate"], true, "{start}");
        }
    }
}

async fn one_that_is_frozen_is_found_and_its_late_result_changes_nothing(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let program = Program::start(language, &server, "native").await;
    let again = json!({"retry": {"max_attempts": 2}, "timeout": "5m"});
    let job = server.create(job("native", "sleep", again)).await;
    let id = run(&server, job, json!({"ms": 500})).await;
    program.started(1).await;
    program.signal("STOP");
    let frozen = Instant::now();
    let other = Program::start_at(language, &server.url, "native", &["--name", "other"]).await;
    other.started(1).await;
    assert!(frozen.elapsed() < Duration::from_secs(15), "{:?}", frozen.elapsed());
    program.signal("CONT");
    let run = server.ended(id).await;
    assert_eq!(outcomes(&run), ["lost", "succeeded"], "{run}");
    eventually("it is back", async || program.count("connected") == 2).await;
    assert_eq!(outcomes(&server.run(id).await), ["lost", "succeeded"]);
}

async fn a_slow_one_holds_up_nobody_else(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let slow = Program::start_at(language, &server.url, "slow", &["--capacity", "1"]).await;
    let _quick = Program::start(language, &server, "quick").await;
    let held = server.create(job("slow", "sleep", json!({}))).await;
    let free = server.create(job("quick", "ok", json!({}))).await;
    let runs: Vec<Value> = (0..2_000).map(|_| json!({"job": held, "payload": {"ms": 500}})).collect();
    assert_eq!(server.post("/runs", json!({"runs": runs})).await.json()["accepted"], 2_000);
    slow.started(2).await;
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.ended(run(&server, free, Value::Null).await).await["state"], "succeeded");
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let starts = slow.count("start");
    assert!(slow.count("end") + 1 >= starts && starts < 100, "never more than one at a time");
}
