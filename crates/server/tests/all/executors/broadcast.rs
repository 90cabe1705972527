//! One run for all executors of an app.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::kind::Kind;
use super::stage::{Stage, state};

#[tokio::test]
async fn a_broadcast_is_one_run_with_a_part_for_every_executor() {
    let stage = Stage::new().await;
    let (one, two, three) = tokio::join!(
        stage.hire_for(Kind::Pyxxl, "all"),
        stage.hire_for(Kind::XxlJob, "all"),
        stage.hire_for(Kind::XxlJobExecutor, "all"),
    );
    let executors = [one, two, three];
    let job = stage.job("all", "ok", json!({"target": {"route": "sharding_broadcast"}})).await;
    let run = stage.run(job, "7").await;
    assert_eq!(state(&run), "succeeded", "{run:#}");
    let parts = run["parts"].as_array().expect("parts");
    assert_eq!(parts.len(), 3, "{run:#}");
    // Each executor is told the place that it has in the list.
    let mut urls: Vec<&str> = executors.iter().map(|executor| executor.url.as_str()).collect();
    urls.sort_unstable();
    for executor in &executors {
        let place = urls.iter().position(|url| *url == executor.url).expect("it is there");
        let calls = executor.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        assert_eq!((&calls[0]["shard"], &calls[0]["params"]), (&json!(format!("{place}/3")), &json!("7")));
        let part = &parts[place];
        assert_eq!(
            (&part["executor"], &part["state"]),
            (&json!(executor.url), &json!("succeeded")),
            "{part}"
        );
        assert!(part["attempts"][0]["message"].as_str().expect("text").contains("did 7"), "{part}");
    }
    let logs: BTreeMap<String, ()> =
        executors.iter().map(|executor| (executor.calls()[0]["logId"].to_string(), ())).collect();
    assert_eq!(logs.len(), 3, "each part reports under a number of its own");
    assert_eq!(stage.server.runs(job).await.len(), 1, "its parts are no runs of the job");
    // Whoever comes later is a part of the next one.
    let four = stage.hire_for(Kind::PyxxlOld, "all").await;
    let run = stage.run(job, "8").await;
    assert_eq!((state(&run), run["parts"].as_array().map(Vec::len)), ("succeeded", Some(4)), "{run:#}");
    assert!(four.calls()[0]["shard"].as_str().expect("text").ends_with("/4"));
}

#[tokio::test]
async fn a_broadcast_fails_with_any_of_its_parts_and_says_which() {
    let stage = Stage::new().await;
    let (one, two) = tokio::join!(stage.hire_for(Kind::PyxxlOld, "all"), stage.hire_for(Kind::XxlJob, "all"));
    let busy = stage.job("all", "sleep", json!({"target": {"route": "sharding_broadcast"}})).await;
    let first = stage.start(busy, "1").await;
    tokio::join!(one.called(1), two.called(1));
    // One of them queues what it is busy with, and the other refuses it.
    let second = stage.run(busy, "1").await;
    assert_eq!(state(&second), "failed", "{second:#}");
    let of = |url: &str| -> Value {
        let parts = second["parts"].as_array().expect("parts");
        parts.iter().find(|part| part["executor"] == url).expect("its part").clone()
    };
    assert_eq!(of(&one.url)["state"], "succeeded", "{second:#}");
    assert_eq!(of(&two.url)["attempts"][0]["outcome"], "refused", "{second:#}");
    assert_eq!(state(&stage.server.ended(first).await), "succeeded");
}
