//! Runs of one job that meet: what the job says is passed on and enforced by each executor for itself; only a number of runs
//! side by side is enforced by us.

use std::rc::Rc;

use serde_json::{Value, json};

use super::kind::Kind;
use super::stage::{Executor, Stage, all, assert_run, attempt, each, state};
use crate::house::eventually;

/// When the handlers of executors were called, in milliseconds, earliest first.
fn begins(executors: &[&Executor]) -> Vec<i64> {
    let at = |call: Value| call["at"].as_i64().expect("a time");
    let mut begins: Vec<i64> = executors.iter().flat_map(|one| one.calls()).map(at).collect();
    begins.sort_unstable();
    begins
}

/// Two runs of a job that sleeps for a second, the second started while the first is with the executor.
async fn two_that_meet(stage: &Rc<Stage>, executor: &Executor, more: Value) -> (Value, Value) {
    let job = stage.job(&executor.app, "sleep", more).await;
    let first = stage.start(job, "1").await;
    executor.called(1).await;
    let second = stage.start(job, "1").await;
    tokio::join!(stage.server.ended(first), stage.server.ended(second))
}

/// Two runs that meet at an executor which queues, or refuses: some do one, some the other.
async fn assert_the_executor_decides<const IS_SERIAL: bool>() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let more = if IS_SERIAL { json!({"target": {"block": "serial"}}) } else { json!({}) };
        let (first, second) = two_that_meet(&stage, &executor, more).await;
        assert_run(kind, &first, ("succeeded", "succeeded", "slept 1"));
        let expected = match kind {
            // These queue.
            Kind::Pyxxl | Kind::PyxxlOld | Kind::Java => ("succeeded", "succeeded", "slept 1"),
            // This one refuses, and that one takes it and then says that it did not.
            Kind::XxlJob => ("failed", "refused", "already have a same job"),
            Kind::XxlJobExecutor => ("failed", "failed", "already have a same job"),
        };
        assert_run(kind, &second, expected);
    })
    .await;
}

#[tokio::test]
async fn without_a_word_from_the_job_the_executor_decides() {
    assert_the_executor_decides::<false>().await;
}

#[tokio::test]
async fn serial_is_left_to_the_executor() {
    assert_the_executor_decides::<true>().await;
}

#[tokio::test]
async fn a_refusal_is_retried_until_the_executor_is_free() {
    let stage = Stage::new().await;
    let executor = stage.hire(Kind::XxlJob).await;
    let retry = json!({"retry": {"max_attempts": 10, "initial_delay": "300ms", "multiplier": 1.0}});
    let (_, second) = two_that_meet(&stage, &executor, retry).await;
    assert_eq!((state(&second), attempt(&second, 0).0), ("succeeded", "refused"), "{second:#}");
    assert_eq!(executor.calls().len(), 2, "a refusal calls no handler");
}

#[tokio::test]
async fn serial_runs_that_meet_go_to_three_executors_by_busyover() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let (one, two, three) = tokio::join!(stage.hire(kind), stage.hire(kind), stage.hire(kind));
        let serial = json!({"target": {"block": "serial", "route": "busyover"}});
        let job = stage.job(kind.name(), "sleep", serial).await;
        let mut ids = Vec::new();
        for count in 1..=3 {
            ids.push(stage.start(job, "5").await);
            let has_begun = async || begins(&[&one, &two, &three]).len() == count;
            eventually("it has begun", has_begun).await;
        }
        let calls = [&one, &two, &three].map(|executor| executor.calls().len());
        assert_eq!(calls, [1, 1, 1], "{}: each found the busy ones busy", kind.name());
        for id in ids {
            assert_run(kind, &stage.server.ended(id).await, ("succeeded", "succeeded", "slept 5"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_newcomer_is_discarded_by_the_executor_and_not_tried_again() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let executor = stage.hire(kind).await;
        let retry = json!({"max_attempts": 3, "initial_delay": "100ms"});
        let discard = json!({"target": {"block": "discard"}, "retry": retry});
        let (first, second) = two_that_meet(&stage, &executor, discard).await;
        assert_run(kind, &first, ("succeeded", "succeeded", "slept 1"));
        // This one takes it, and reports later that it did not run it: that is a failure like any other.
        let is_tried_again = kind == Kind::XxlJobExecutor;
        if !is_tried_again {
            assert_eq!(state(&second), "failed", "{}: {second:#}", kind.name());
            let attempts = second["attempts"].as_array().map_or(0, Vec::len);
            assert_eq!((executor.calls().len(), attempts), (1, 1), "{}: {second:#}", kind.name());
        }
    })
    .await;
}

#[tokio::test]
async fn a_newcomer_covers_what_the_executor_runs() {
    let stage = Stage::new().await;
    let executor = stage.hire(Kind::Java).await;
    let (first, second) = two_that_meet(&stage, &executor, json!({"target": {"block": "cover"}})).await;
    assert_eq!((state(&first), attempt(&first, 0).0), ("failed", "failed"), "{first:#}");
    assert_run(Kind::Java, &second, ("succeeded", "succeeded", "slept 1"));
}

#[tokio::test]
async fn of_three_runs_two_are_beside_each_other_and_one_waits() {
    let stage = Stage::new().await;
    each(&stage, async |stage, kind| {
        let (one, other) = tokio::join!(stage.hire(kind), stage.hire(kind));
        // None of them has two runs of a job at a time, so it matters that the free one is asked.
        let two = json!({"target": {"block": "concurrent", "concurrency": 2, "route": "busyover"}});
        let job = stage.job(kind.name(), "sleep", two).await;
        let mut ids = Vec::new();
        for count in 1..=2 {
            ids.push(stage.start(job, "3").await);
            eventually("it has begun", async || begins(&[&one, &other]).len() == count).await;
        }
        ids.push(stage.start(job, "0").await);
        for id in ids {
            let run = stage.server.ended(id).await;
            assert_eq!(state(&run), "succeeded", "{}: {run:#}", kind.name());
        }
        let begins = begins(&[&one, &other]);
        let waits = (begins[1] - begins[0], begins[2] - begins[0]);
        assert!(waits.0 < 3_000 && waits.1 >= 3_000, "{}: {begins:?}", kind.name());
    })
    .await;
}

#[tokio::test]
async fn what_a_kill_takes_along_from_the_queue_of_an_executor_is_tried_again() {
    let stage = Stage::new().await;
    // Those for Node have no queue, and the old one for Python answers nobody after this until it is started again.
    let scenario = async |kind: Kind, stage: Rc<Stage>| {
        let executor = stage.hire(kind).await;
        let retry = json!({"timeout": "5s", "retry": {"max_attempts": 3, "initial_delay": "100ms"}});
        let job = stage.job(kind.name(), "sleep", retry).await;
        let first = stage.start(job, "4").await;
        executor.called(1).await;
        let second = stage.start(job, "0").await;
        let has_both = async || stage.executors(kind.name()).await[0]["in_flight"] == json!(2);
        eventually("both are there", has_both).await;
        let cancelled = stage.server.post(&format!("/runs/{first}/cancel"), json!({})).await;
        assert!((200..=202).contains(&cancelled.status), "{}", cancelled.text());
        let run = stage.server.ended(second).await;
        assert_eq!(state(&run), "succeeded", "{}: {run:#}", kind.name());
        assert_eq!(executor.calls().len(), 2, "{}", kind.name());
        match kind {
            Kind::Java => assert_eq!(attempt(&run, 0).0, "failed", "it says so: {run:#}"),
            _ => assert_ne!(attempt(&run, 0).0, "succeeded", "it says nothing: {run:#}"),
        }
    };
    all([Kind::Pyxxl, Kind::Java].map(|kind| (kind.name(), scenario(kind, Rc::clone(&stage))))).await;
}
