//! The database goes away while a node runs: nothing that was acknowledged is lost, no process ends, and people are told.

use punctual_scratch::{MariaDb, Postgres};
use serde_json::json;

use super::TOKEN;
use super::database::Engine;
use crate::house::{Agent, Folder, Server, eventually, job};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_outlives_its_postgres() {
    if Engine::Postgres.is_wanted() {
        outlives(Postgres { fsync: true, ..Postgres::default() }.start().expect("a server")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_outlives_its_mariadb() {
    if Engine::MariaDb.is_wanted() {
        outlives(MariaDb { fsync: true, ..MariaDb::default() }.start().expect("a server")).await;
    }
}

async fn outlives(mut database: punctual_scratch::Server) {
    let folder = Folder::new();
    let url = database.database("punctual").expect("a database");
    let server = Server::start_as(&folder, &["--database", &url], Some(TOKEN)).await;
    let agent = Agent::content().await;
    let every = json!({"kind": "every", "interval": "500ms"});
    server.create(job("steady", every, &agent.url("/"))).await;
    let manual = server.create(job("manual", json!({"kind": "manual"}), &agent.url("/"))).await;
    eventually("it runs", async || agent.count() >= 2).await;
    let taken =
        server.post("/runs", json!({"job": manual, "key": "before", "at": "2100-01-01T00:00:00Z"})).await;
    let first = taken.json()["ids"][0].clone();

    database.kill();
    eventually("people are told", async || {
        let refused = server.post("/runs", json!({"job": manual})).await;
        refused.status == 503 && refused.header("retry-after").is_some()
    })
    .await;
    eventually("it is not ready", async || server.get("/readyz").await.status == 503).await;
    assert_eq!(server.get("/healthz").await.status, 200);

    database.start().expect("it starts again");
    let before = agent.count();
    eventually("it goes on by itself", async || agent.count() >= before + 3).await;
    let again = server.post("/runs", json!({"job": manual, "key": "before"})).await;
    assert_eq!((again.status, &again.json()["ids"][0]), (200, &first), "what was acknowledged is there");
    assert!(server.stop().success());
}
