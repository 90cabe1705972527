//! Changing much at once, asked of a node that holds a part of it only.

use serde_json::{Value, json};

use super::Cluster;
use super::database::Engine;
use crate::house::{Agent, eventually, from_now, job};

/// Enough for several pages.
const COUNT: usize = 3_000;

pub(super) async fn one_shots_on_all_nodes_are_moved_and_an_app_is_paused_by_one(engine: Engine) {
    let cluster = Cluster::of(engine, 2).await;
    let agent = Agent::content().await;
    let shots = cluster.node(0).create(job("shots", json!({"kind": "manual"}), &agent.url("/"))).await;
    let runs: Vec<Value> = (0..COUNT).map(|_| json!({"job": shots, "at": from_now(3_600_000)})).collect();
    let taken = cluster.node(1).post("/runs", json!({"runs": runs})).await;
    assert_eq!(taken.status, 200, "{}", taken.text());

    let body = json!({"filter": {"app": "test", "moved": false}, "by": "1h"});
    let moved = cluster.node(0).post("/runs/reschedule", body.clone()).await;
    assert_eq!(moved.json(), json!({"matched": COUNT, "rescheduled": COUNT}), "{}", moved.text());
    let again = cluster.node(1).post("/runs/reschedule", body).await;
    assert_eq!(again.json(), json!({"matched": 0, "rescheduled": 0}), "all of them are moved");

    let paused = cluster.node(0).post("/apps/test/pause", json!({"reason": "moving"})).await;
    assert_eq!(paused.json(), json!({"paused": true, "jobs": 1, "refused": 0}), "{}", paused.text());
    let refused = cluster.node(1).post("/runs", json!({"job": shots})).await;
    assert!(refused.status == 409 && refused.text().contains("resume"), "{}", refused.text());
    let every = json!({"kind": "every", "interval": "100ms"});
    let born = cluster.node(1).create(job("born", every, &agent.url("/born"))).await;
    let shown = cluster.node(0).get(&format!("/jobs/{born}")).await.json();
    assert_eq!(shown["stopped_reason"], "app paused", "also where the pause was not heard of yet");
    let due = json!({"filter": {"job": shots}, "at": from_now(0)});
    let moved = cluster.node(1).post("/runs/reschedule", due).await;
    assert_eq!(moved.json()["rescheduled"], COUNT, "{}", moved.text());
    let app = async || cluster.node(1).get("/apps/test").await.json();
    eventually("every node knows of it", async || app().await["paused"] == true).await;
    assert_eq!(agent.count(), 0, "nothing of it is sent");

    let resumed = cluster.node(1).post("/apps/test/resume", json!({})).await;
    assert_eq!(resumed.json(), json!({"paused": false, "jobs": 2, "refused": 0}), "{}", resumed.text());
    eventually("all have run", async || {
        let seen = agent.seen();
        seen.iter().filter(|seen| seen.path == "/").count() == COUNT
            && seen.iter().any(|it| it.path == "/born")
    })
    .await;
}
