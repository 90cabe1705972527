//! Registering, getting a run, and saying what became of it.

use serde_json::json;

use super::kind::Kind;
use super::stage::{Stage, assert_run, each};
use crate::house::eventually;

#[tokio::test]
async fn whoever_registers_is_listed() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let listed = stage.executors(kind.name()).await;
        let [one] = listed.as_slice() else { panic!("{}: {listed:?}", kind.name()) };
        assert_eq!((&one["dialect"], &one["suspect"]), (&json!("classic"), &json!(false)), "{one}");
        assert!(one["last_beat"].is_string(), "{one}");
        let app = stage.server.get(&format!("/apps/{}", kind.name())).await.json();
        assert_eq!((&app["executors"], &app["routable"]), (&json!(1), &json!(1)), "{app}");
        executor.assert_alive();
    })
    .await;
}

#[tokio::test]
async fn a_run_brings_its_params_and_its_result_comes_back() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "ok", json!({})).await;
        let run = stage.run(job, "7").await;
        assert_run(kind, &run, ("succeeded", "succeeded", "did 7"));
        assert_eq!(run["attempts"][0]["executor"], json!(executor.url));
        let other = stage.server.post(&format!("/jobs/{job}/run"), json!({"payload": {"a": [1, "ü"]}})).await;
        let other = stage.server.ended(other.json()["run"].as_u64().expect("an id")).await;
        assert_run(kind, &other, ("succeeded", "succeeded", "did "));
        // A run that brings nothing gets what its job has for it.
        let own = stage.job(kind.name(), "ok", json!({"target": {"params": "8"}})).await;
        let third = stage.server.post(&format!("/jobs/{own}/run"), json!({})).await;
        let third = stage.server.ended(third.json()["run"].as_u64().expect("an id")).await;
        assert_run(kind, &third, ("succeeded", "succeeded", "did 8"));
        let calls = executor.calls();
        let params: Vec<_> = calls.iter().map(|call| call["params"].as_str().expect("text")).collect();
        assert_eq!(params, ["7", r#"{"a":[1,"ü"]}"#, "8"], "{}", kind.name());
        let jobs: Vec<_> = calls.iter().map(|call| call["jobId"].as_u64().expect("a number")).collect();
        assert_eq!(jobs, [job, job, own], "{}", kind.name());
        for call in &calls {
            assert_eq!(call["shard"], "0/1", "{call}");
            assert!(call["logId"].as_u64().is_some_and(|log| log < 1 << 31), "{call}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_told_in_the_words_of_the_handler_and_tried_again() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "fail", json!({})).await;
        assert_run(kind, &stage.run(job, "7").await, ("failed", "failed", "cannot do 7"));
        let retry = json!({"retry": {"max_attempts": 2, "initial_delay": "100ms"}});
        let stubborn = stage.job(kind.name(), "fail", retry).await;
        let run = stage.run(stubborn, "8").await;
        assert_eq!(run["attempts"].as_array().map(Vec::len), Some(2), "{}: {run:#}", kind.name());
        let calls = executor.calls();
        let logs: Vec<_> =
            calls.iter().filter(|call| call["params"] == "8").map(|call| &call["logId"]).collect();
        assert!(logs.len() == 2 && logs[0] != logs[1], "each attempt has a number of its own: {calls:?}");
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_nobody_has_is_refused_in_the_words_of_the_executor() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "nope", json!({})).await;
        let said = match kind {
            Kind::Pyxxl | Kind::PyxxlOld => "handler nope not found.",
            Kind::XxlJob => "No matched jobHandler: nope",
            Kind::XxlJobExecutor => "no matched jobHandler(nope)",
            Kind::Java => "job handler [nope] not found.",
        };
        assert_run(kind, &stage.run(job, "7").await, ("failed", "refused", said));
        assert!(executor.calls().is_empty(), "{}", kind.name());
    })
    .await;
}

#[tokio::test]
async fn what_takes_too_long_is_ended_by_the_executor() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let job = stage.job(kind.name(), "sleep", json!({"timeout": "1s"})).await;
        let id = stage.start(job, "3").await;
        let run = stage.server.ended(id).await;
        let (outcome, said) = match kind {
            Kind::Pyxxl | Kind::PyxxlOld => ("failed", "TimeoutError"),
            Kind::XxlJob => ("failed", "Timeout"),
            // It goes on all the same, and reports a success at the end.
            Kind::XxlJobExecutor => ("failed", "timeout"),
            Kind::Java => ("timed_out", "timeout"),
        };
        assert_run(kind, &run, ("failed", outcome, said));
        executor.idle(job).await;
        assert_eq!(stage.server.run(id).await, run, "{}: what has ended stays as it is", kind.name());
    })
    .await;
}

#[tokio::test]
async fn an_executor_that_falls_over_its_params_costs_one_attempt_and_nobody_else() {
    let stage = Stage::new().await;
    let (fragile, other) = tokio::join!(stage.hire(Kind::XxlJobExecutor), stage.hire(Kind::Pyxxl));
    let short = json!({"timeout": "1s"});
    let job = stage.job(&fragile.app, "ok", short).await;
    // This one wants JSON, and ends its process when it gets something else.
    let id = stage.start(job, "no JSON").await;
    let fine = stage.job(&other.app, "ok", json!({})).await;
    assert_run(other.kind, &stage.run(fine, "7").await, ("succeeded", "succeeded", "did 7"));
    let run = stage.server.ended(id).await;
    assert!(["timed_out", "lost", "refused"].contains(&super::stage::attempt(&run, 0).0), "{run:#}");
    eventually("it is not sent anything", async || {
        stage.executors(&fragile.app).await.iter().all(|one| one["routable"] == json!(false))
    })
    .await;
}
