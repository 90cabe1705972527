//! Ends that somebody wishes for, and ends that are told twice, too late, or by the wrong one.

use serde_json::{Value, json};

use super::kind::Kind;
use super::stage::{Stage, TOKEN, assert_run, each, state};

/// What an executor says of an attempt, in its own shape.
fn report(kind: Kind, log: u64, code: u16, message: &str) -> Value {
    let mut report =
        json!({"logId": log, "logDateTim": 1_794_773_736_014_i64, "handleCode": code, "handleMsg": message});
    match kind {
        Kind::Pyxxl => report["executeResult"] = json!({"code": code, "msg": message}),
        Kind::PyxxlOld | Kind::Java => {}
        Kind::XxlJob | Kind::XxlJobExecutor => report["handleMsg"] = json!(json!(message).to_string()),
    }
    json!([report])
}

#[tokio::test]
async fn a_cancelled_run_is_killed_and_whether_it_was_is_told_apart() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "sleep", json!({})).await;
        let id = stage.start(job, "4").await;
        executor.called(1).await;
        let answer = stage.server.post(&format!("/runs/{id}/cancel"), json!({})).await;
        assert!((200..=202).contains(&answer.status), "{}", answer.text());
        let run = stage.server.run(id).await;
        assert_eq!(state(&run), "cancelled", "{}: the run is cancelled at once: {run:#}", kind.name());
        let kill = stage.kill_of(id).await;
        match kind {
            Kind::XxlJobExecutor => {
                assert_eq!(kill["state"], "refused", "{kill}");
                assert!(kill["said"].as_str().expect("text").contains("not yet support"), "{kill}");
            }
            _ => assert_eq!(kill["state"], "confirmed", "{}: {kill}", kind.name()),
        }
        executor.idle(job).await;
        let after = stage.server.run(id).await;
        let outcome = after["attempts"][0]["outcome"].as_str();
        assert_eq!((state(&after), outcome), ("cancelled", Some("cancelled")), "{after:#}");
        // The same job goes on as if nothing had been.
        let again = stage.job(kind.name(), "ok", json!({})).await;
        assert_run(kind, &stage.run(again, "7").await, ("succeeded", "succeeded", "did 7"));
        executor.assert_alive();
    })
    .await;
}

#[tokio::test]
async fn an_end_that_is_told_again_or_otherwise_changes_nothing() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "ok", json!({})).await;
        let run = stage.run(job, "7").await;
        let log = executor.latest_log();
        for (code, message) in [(200, "did 7"), (500, "killed"), (502, "too late")] {
            let answer = stage.call_back(TOKEN, report(kind, log, code, message)).await;
            let said = (answer.status, &answer.json()["code"] == 200);
            assert_eq!(said, (200, true), "{}: {}", kind.name(), answer.text());
        }
        let id = run["id"].as_u64().expect("an id");
        assert_eq!(stage.server.run(id).await, run, "{}", kind.name());
        assert_eq!(stage.server.runs(job).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_end_that_comes_before_that_of_the_executor_counts() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "sleep", json!({})).await;
        let id = stage.start(job, "1").await;
        executor.called(1).await;
        let answer =
            stage.call_back(TOKEN, report(kind, executor.latest_log(), 500, "so said another")).await;
        assert_eq!(&answer.json()["code"], 200, "{}", answer.text());
        let run = stage.server.run(id).await;
        assert_run(kind, &run, ("failed", "failed", "so said another"));
        // Its own, answered well, comes too late; or else it would end itself or send it for ever.
        executor.idle(job).await;
        assert_eq!(stage.server.run(id).await, run, "{}", kind.name());
        executor.assert_alive();
    })
    .await;
}

#[tokio::test]
async fn an_end_of_nothing_that_we_know_is_taken_and_dropped() {
    let stage = Stage::new().await;
    for body in [
        report(Kind::Pyxxl, 4_711, 200, "well"),
        report(Kind::XxlJob, (1 << 53) - 1, 200, "well"),
        json!([]),
        json!([{"handleCode": 200}]),
        json!({"callbackList": [{"logId": 4_711, "handleCode": 200}]}),
        json!([{"logId": "4711", "handleCode": "200", "handleMsg": {"any": "thing"}}]),
    ] {
        let answer = stage.call_back(TOKEN, body.clone()).await;
        assert_eq!((answer.status, &answer.json()["code"]), (200, &json!(200)), "{body}: {}", answer.text());
    }
}

#[tokio::test]
async fn results_that_name_nothing_do_not_fill_the_log() {
    let stage = Stage::new().await;
    for _ in 0..300 {
        assert_eq!(stage.call_back(TOKEN, json!([{"handleCode": 200}])).await.status, 200);
    }
    let log = std::fs::read_to_string(stage.folder.path().join("log")).expect("the log");
    let lines = log.lines().filter(|line| line.contains("results that name no attempt were dropped")).count();
    assert!((1..=20).contains(&lines), "{lines} lines");
}

#[tokio::test]
async fn nobody_ends_the_runs_of_an_app_whose_token_it_does_not_have() {
    let stage = Stage::new().await;
    for (app, token) in [("one", "the-token-of-one"), ("other", "the-token-of-other")] {
        let made =
            stage.server.ask("PUT", &format!("/apps/{app}"), Some(json!({"access_token": token}))).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let executor = stage.start_executor(Kind::Pyxxl, "one", "the-token-of-one").await;
    stage.listed(&executor).await;
    let job = stage.job("one", "sleep", json!({})).await;
    let id = stage.start(job, "1").await;
    executor.called(1).await;
    let log = executor.latest_log();
    // A token of another app opens the door, and its holder does not learn whether the number is one of somebody's.
    for (token, code) in [("the-token-of-other", 200), (TOKEN, 200), ("", 500), ("nonsense", 500)] {
        let answer = stage.call_back(token, report(Kind::Pyxxl, log, 500, "a lie")).await;
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (200, &json!(code)),
            "{token}: {}",
            answer.text()
        );
        assert_eq!(answer.text().contains("token is wrong"), code == 500, "{}", answer.text());
    }
    assert_run(Kind::Pyxxl, &stage.server.ended(id).await, ("succeeded", "succeeded", "slept 1"));
}
