//! Work as it should be, and work that fails.

use serde_json::{Value, json};

use super::program::{Language, Program, job, message, outcomes, run};
use super::scenarios;
use crate::house::{Folder, Server, eventually};

scenarios!(
    runs_end_as_their_handlers_say,
    a_run_takes_no_longer_than_it_may,
    a_cancelled_run_ends_and_says_so,
    what_a_handler_writes_can_be_read,
    a_broadcast_has_a_part_for_everyone,
    a_serial_job_runs_one_after_the_other,
    a_handler_that_nobody_has_is_waited_for,
    a_megabyte_arrives_whole_and_ten_thousand_handlers_are_known,
);

async fn runs_end_as_their_handlers_say(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let program = Program::start(language, &server, "native").await;
    let again = json!({"retry": {"max_attempts": 2}});
    for (handler, more, payload, outcome, said) in [
        ("ok", json!({}), Value::Null, vec!["succeeded"], "done"),
        ("echo", json!({}), json!({"a": [1, "ü"]}), vec!["succeeded"], r#"{"a":[1,"ü"]}"#),
        ("fail", again.clone(), Value::Null, vec!["failed", "failed"], "it failed"),
        ("useless", again.clone(), Value::Null, vec!["failed"], "it is of no use"),
        ("panic", again, Value::Null, vec!["failed", "failed"], "it broke"),
    ] {
        let job = server.create(job("native", handler, more)).await;
        let run = server.ended(run(&server, job, payload).await).await;
        assert_eq!(outcomes(&run), outcome, "{handler}: {run}");
        assert!(message(&run).contains(said), "{handler}: {run}");
        assert!(run["attempts"][0]["executor"].as_str().unwrap().starts_with("native:"), "{run}");
    }
    assert_eq!(program.count("start"), 7);
    let executors = server.get("/apps/native/executors").await.json();
    assert_eq!(executors["items"][0]["dialect"], "native", "{executors}");
}

async fn a_run_takes_no_longer_than_it_may(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let program = Program::start(language, &server, "native").await;
    let brief = server.create(job("native", "sleep", json!({"timeout": "1s"}))).await;
    let run = server.ended(run(&server, brief, json!({"ms": 60_000})).await).await;
    assert_eq!(outcomes(&run), ["timed_out"], "{run}");
    eventually("the handler has ended", async || program.count("end") == 1).await;
    let patient = json!({"name": "patient", "timeout": "5m", "retry": {"max_attempts": 3}});
    let patient = server.create(job("native", "sleep", patient)).await;
    let own =
        json!({"job": patient, "payload": {"ms": 60_000}, "timeout": "1s", "retry": {"max_attempts": 1}});
    let accepted = server.post("/runs", own).await.json();
    let run = server.ended(accepted["ids"][0].as_u64().expect("an id")).await;
    assert_eq!(outcomes(&run), ["timed_out"], "its own time, and its own tries: {run}");
    eventually("the handler has ended", async || program.count("end") == 2).await;
}

async fn a_cancelled_run_ends_and_says_so(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "sleep", json!({"timeout": "5m"}))).await;
    let id = run(&server, job, json!({"ms": 600_000})).await;
    program.started(1).await;
    assert_eq!(server.post(&format!("/runs/{id}/cancel"), json!({})).await.status, 202);
    assert_eq!(server.ended(id).await["state"], "cancelled");
    eventually("the handler has ended", async || program.count("end") == 1).await;
    assert_eq!(program.said("end")[0]["outcome"], "cancelled");
    eventually("the kill is confirmed", async || {
        server.run(id).await["attempts"][0]["kill"]["state"] == "confirmed"
    })
    .await;
}

async fn what_a_handler_writes_can_be_read(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let _program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "chatty", json!({}))).await;
    let id = run(&server, job, json!({"lines": 2_000})).await;
    server.ended(id).await;
    let page = server.get(&format!("/runs/{id}/log")).await.json();
    let lines: Vec<&str> = page["text"].as_str().unwrap().lines().collect();
    assert_eq!((lines.len(), lines[0], lines[1_999]), (2_000, "line 1", "line 2000"));
    assert_eq!((&page["next"], &page["end"]), (&json!(2_001), &json!(true)));
    let page = server.get(&format!("/runs/{id}/log?from=1999")).await.json();
    assert_eq!(page["text"], "line 1999\nline 2000\n");
}

async fn a_broadcast_has_a_part_for_everyone(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let _one = Program::start_at(language, &server.url, "native", &["--name", "one"]).await;
    let _two = Program::start_at(language, &server.url, "native", &["--name", "two"]).await;
    let broadcast = json!({"target": {"route": "sharding_broadcast"}});
    let job = server.create(job("native", "part", broadcast)).await;
    let run = server.ended(run(&server, job, Value::Null).await).await;
    assert_eq!(run["state"], "succeeded", "{run}");
    let parts = run["parts"].as_array().unwrap();
    let mut said: Vec<&str> =
        parts.iter().map(|part| part["attempts"][0]["message"].as_str().unwrap()).collect();
    said.sort_unstable();
    assert_eq!(said, ["0/2", "1/2"], "{run}");
}

async fn a_serial_job_runs_one_after_the_other(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let _program = Program::start(language, &server, "native").await;
    let _other = Program::start_at(language, &server.url, "native", &["--name", "other"]).await;
    let job = server.create(job("native", "sleep", json!({"target": {"block": "serial"}}))).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(run(&server, job, json!({"ms": 150})).await);
    }
    let mut times = Vec::new();
    for id in runs {
        let run = server.ended(id).await;
        assert_eq!(run["state"], "succeeded", "{run}");
        let attempt = &run["attempts"][0];
        times
            .push((crate::house::millis(&attempt["started_at"]), crate::house::millis(&attempt["ended_at"])));
    }
    times.sort_unstable();
    assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{times:?}");
}

async fn a_handler_that_nobody_has_is_waited_for(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let _program = Program::start(language, &server, "native").await;
    let job = server.create(job("native", "h7", json!({}))).await;
    let id = run(&server, job, Value::Null).await;
    let _late = Program::start_at(language, &server.url, "native", &["--more-handlers", "10"]).await;
    assert_eq!(server.ended(id).await["state"], "succeeded");
}

async fn a_megabyte_arrives_whole_and_ten_thousand_handlers_are_known(language: Language) {
    let folder = Folder::new();
    let server = Server::start(&folder).await;
    let many = ["--more-handlers", "10000"];
    let _program = Program::start_at(language, &server.url, "native", &many).await;
    let job_size = server.create(job("native", "size", json!({}))).await;
    let text = "x".repeat((1 << 20) - 2);
    let run_size = server.ended(run(&server, job_size, json!(text)).await).await;
    assert_eq!(message(&run_size), "1048576", "{}", run_size["state"]);
    let last = server.create(job("native", "h9999", json!({}))).await;
    assert_eq!(server.ended(run(&server, last, Value::Null).await).await["state"], "succeeded");
}
