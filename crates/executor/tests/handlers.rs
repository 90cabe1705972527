//! Handlers without a node: hooks, ends and what they are told. Time is paused, so nothing waits.

#![expect(clippy::disallowed_methods, reason = "time is paused, and measured")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_executor::testing::Run;
use punctual_executor::{AttemptEnd, Context, Executor, Failure, Outcome, Part};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

fn sleepy() -> Executor {
    Executor::new("a").handler("sleep", |context: Context| async move {
        let wait = Duration::from_millis(context.payload_as::<u64>()?);
        sleep(wait).await;
        Ok("slept")
    })
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_ended_when_its_time_is_over() {
    let began = Instant::now();
    let run = Run::new("sleep").payload(2_000).timeout(Duration::from_secs(1));
    let ran = run.run(&sleepy()).await;
    assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::TimedOut, "not done after 1000 ms"));
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_has_five_seconds() {
    for (wait_ms, ends_ms, outcome) in
        [(60_000, 6_000, Outcome::Cancelled), (3_000, 3_000, Outcome::Succeeded)]
    {
        let began = Instant::now();
        let run = Run::new("sleep").payload(wait_ms).cancel_after(Duration::from_secs(1));
        assert_eq!(run.run(&sleepy()).await.outcome, outcome);
        assert_eq!(began.elapsed(), Duration::from_millis(ends_ms));
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_counts_during_the_grace_too() {
    let run = Run::new("sleep").payload(60_000).timeout(Duration::from_secs(2));
    let ran = run.cancel_after(Duration::from_secs(1)).run(&sleepy()).await;
    assert_eq!(ran.outcome, Outcome::TimedOut);
}

#[tokio::test]
async fn a_failure_after_a_cancellation_is_one() {
    let executor = Executor::new("a").handler("h", |context: Context| async move {
        context.cancelled().await;
        assert!(context.is_cancelled());
        Err::<(), _>(Failure::new(context.cancel_reason().unwrap_or_default()))
    });
    let ran = Run::new("h").cancel_after(Duration::ZERO).run(&executor).await;
    assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::Cancelled, "cancelled by the test"));
}

#[tokio::test]
async fn hooks_come_before_and_after_whatever_happens() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (before, after) = (seen.clone(), seen.clone());
    let executor = Executor::new("a")
        .before(move |context: Context| {
            before.lock().unwrap().push(format!("before {}", context.handler()));
            async move {
                match context.attempt() {
                    9 => Err(Failure::new("not today")),
                    _ => Ok(()),
                }
            }
        })
        .after(move |_, end: AttemptEnd| {
            after.lock().unwrap().push(format!("after {:?}", end.outcome));
            async { panic!("a hook that breaks breaks nothing") }
        })
        .handler("ok", |_| async { Ok(()) })
        .handler("panic", |_| async { if true { panic!("broken") } else { Ok(()) } });
    assert_eq!(Run::new("ok").run(&executor).await.outcome, Outcome::Succeeded);
    assert_eq!(Run::new("panic").run(&executor).await.outcome, Outcome::Failed);
    let ran = Run::new("ok").attempt(9, 9).run(&executor).await;
    assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::Failed, "not today"));
    let seen = seen.lock().unwrap();
    let expected =
        ["before ok", "after Succeeded", "before panic", "after Failed", "before ok", "after Failed"];
    assert_eq!(*seen, expected);
}

#[tokio::test]
async fn a_handler_knows_everything_about_its_run() {
    #[derive(Deserialize)]
    struct Order {
        number: u64,
    }
    let executor = Executor::new("a").typed("h", |context: Context, order: Order| async move {
        assert_eq!((context.run(), context.job(), context.job_name()), (1, 1, "h"));
        assert_eq!((context.attempt(), context.token(), context.possible_duplicate()), (2, 40, true));
        assert_eq!(context.part(), Some(Part { index: 1, total: 3 }));
        assert_eq!(context.fire_time(), "2026-01-01T00:00:00.000Z");
        assert_eq!(context.timeout(), Some(Duration::from_secs(9)));
        assert!(context.deadline().is_some() && !context.is_cancelled());
        context.log("a\nb");
        context.progress(200, "all");
        Ok(order.number.to_string())
    });
    let run = Run::new("h").payload(json!({"number": 5})).attempt(2, 40).part(1, 3).possible_duplicate();
    let run = run.fire_time("2026-01-01T00:00:00.000Z").timeout(Duration::from_secs(9));
    let ran = run.run(&executor).await;
    assert_eq!((ran.outcome, ran.message.as_str()), (Outcome::Succeeded, "5"));
    assert_eq!((ran.log, ran.progress), (vec!["a".into(), "b".into()], vec![(100, "all".into())]));
}

#[tokio::test]
async fn a_payload_that_is_missing_is_null() {
    let executor = Executor::new("a").typed("h", |_: Context, number: Option<u32>| async move {
        Ok(number.map_or("none".into(), |number| number.to_string()))
    });
    assert_eq!(Run::new("h").run(&executor).await.message, "none");
    assert_eq!(Run::new("absent").run(&executor).await.outcome, Outcome::Refused);
}

#[tokio::test]
async fn what_cannot_run_says_why() {
    let with = || Executor::new("a").handler("h", |_| async { Ok(()) });
    for (executor, why) in [
        (Executor::new("a"), "there are no handlers"),
        (with().url("node:7070"), "no address of a node"),
        (with().capacity(0), "capacity: 0"),
        (with().name("a b"), "executor: expected"),
        (with().token("a\nb"), "the token has characters"),
        (Executor::new("a/b").handler("h", |_| async { Ok(()) }), "app: has a `/`"),
        (with().handler("", |_| async { Ok(()) }), "handlers: expected"),
    ] {
        let error = executor.run().await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
