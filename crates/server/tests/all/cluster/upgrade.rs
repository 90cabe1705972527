//! Programs of two versions on one database: what a newer one leaves behind when it migrates is done here in its place, for
//! there is no newer one yet.

use serde_json::json;

use super::database::{Database, Engine};
use super::{Cluster, TOKEN, shares, start};
use crate::house::{Agent, Folder, command, eventually, job};

/// What a migration of a newer program writes, and the oldest program that may work with it.
fn migrate(database: &Database, version: u32, min_reader: u32, change: &str) {
    database.tell(change);
    let columns = "(version, name, checksum, min_reader, applied_at)";
    let now = match database.engine() {
        Engine::Postgres => "now()",
        Engine::MariaDb => "0",
    };
    database.tell(&format!(
        "insert into schema_version {columns} values ({version}, 'test_{version}', '1', {min_reader}, {now})"
    ));
}

pub(super) async fn old_programs_outlive_an_additive_migration_and_stop_at_a_breaking_one(engine: Engine) {
    let mut cluster = Cluster::of(engine, 2).await;
    let agent = Agent::content().await;
    let every = json!({"kind": "every", "interval": "200ms"});
    let steady = cluster.node(0).create(job("steady", every.clone(), &agent.url("/"))).await;
    eventually("it runs", async || agent.count() >= 3).await;

    migrate(&cluster.database, 900, 1, "alter table jobs add column noted_by_a_test varchar(20)");
    let before = agent.count();
    eventually("the old ones go on", async || agent.count() >= before + 10).await;
    cluster.add().await;
    cluster.settle().await;
    assert_eq!(shares(cluster.node(0)).await.len(), 3, "and another one starts");
    let second = cluster.node(2).create(job("second", every, &agent.url("/second"))).await;
    eventually("what it is told is done", async || !cluster.node(0).runs(second).await.is_empty()).await;
    assert_eq!(cluster.node(2).get(&format!("/jobs/{steady}")).await.status, 200);

    migrate(&cluster.database, 901, 901, "alter table jobs add column broken_by_a_test varchar(20)");
    for node in 0..3 {
        let node = cluster.node(node);
        eventually("the old ones stop", async || node.get("/readyz").await.status == 503).await;
        let refused = node.post("/runs", json!({"job": steady})).await;
        assert_eq!(refused.status, 503, "and say so: {}", refused.text());
    }
    let after = agent.count();
    let asked = cluster.node(0).get("/healthz").await.status;
    assert_eq!((asked, agent.count()), (200, after), "none of them ends, and none acts");
    let folder = Folder::new();
    let mut refused = command();
    refused.args(["serve", "--listen", "127.0.0.1:0", "--database", cluster.database.url(), "--data"]);
    let said = refused.arg(folder.path()).env("PUNCTUAL_ADMIN_TOKEN", TOKEN).output().expect("it runs");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(1) && text.contains("newer"), "{text}");

    // The newer program would go on from here; without it, the change is taken back.
    cluster.database.tell("delete from schema_version where version = 901");
    eventually("they go on by themselves", async || agent.count() > after + 5).await;
    drop(start(&folder, cluster.database.url(), &["--node", "last"]).await);
}
