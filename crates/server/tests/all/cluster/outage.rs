//! The database goes away while a node runs: nothing that was acknowledged is lost, no process ends, and people are told.

use std::time::{Duration, Instant};

use punctual_faults::proxy::{Proxy, Way};
use punctual_scratch::{MariaDb, Postgres};
use serde_json::json;

use super::TOKEN;
use super::database::{Database, Engine};
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

/// The database is not gone, it only says nothing any more: nobody may wait for it for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_falls_silent_is_told_soon() {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let database = Database::new(Engine::Postgres);
    let mut url = url::Url::parse(database.url()).expect("a URL");
    let port = url.port().expect("a port");
    let proxy = Proxy::start(([127, 0, 0, 1], port).into()).await.expect("a proxy");
    url.set_port(Some(proxy.address().port())).expect("a port");
    let folder = Folder::new();
    let server = Server::start_as(&folder, &["--database", url.as_str()], Some(TOKEN)).await;
    assert_eq!(server.get("/jobs").await.status, 200);

    proxy.set(Way::Silent, Way::Silent);
    let asked = Instant::now();
    let refused = server.get("/jobs").await;
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    assert!(asked.elapsed() < Duration::from_secs(7), "after {:?}", asked.elapsed());
    let asked = Instant::now();
    assert_eq!(server.post("/runs", json!({"job": 1})).await.status, 503);
    assert!(asked.elapsed() < Duration::from_secs(1), "by then it is known: after {:?}", asked.elapsed());
    proxy.heal();
    eventually("it goes on", async || server.get("/jobs").await.status == 200).await;
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
