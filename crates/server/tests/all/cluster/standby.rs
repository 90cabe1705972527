//! Databases of several hosts, databases that let nodes take nothing, and clusters that share a Redis.

use std::time::Duration;

use punctual_scratch::{MariaDb, Postgres};
use serde_json::json;

use super::TOKEN;
use super::database::{Database, Engine};
use crate::house::{Agent, Folder, Server, command, eventually, job};

/// A job runs, so somebody writes.
async fn works(server: &Server) {
    let agent = Agent::content().await;
    let every = json!({"kind": "every", "interval": "500ms"});
    server.create(job("steady", every, &agent.url("/"))).await;
    eventually("it runs", async || agent.count() >= 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_takes_no_writes_is_passed_over_where_the_url_names_another() {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let primary = Postgres::default().start().expect("a server");
    primary.database("punctual").expect("a database");
    let standby =
        Postgres { primary: Some(primary.port()), ..Postgres::default() }.start().expect("a standby");
    let url =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/punctual", standby.port(), primary.port());
    let folder = Folder::new();
    works(&Server::start_as(&folder, &["--database", &url], Some(TOKEN)).await).await;
    let looked = doctor(&url);
    assert!(looked.0, "{}", looked.1);
    let looked = doctor(&format!("postgres://postgres@127.0.0.1:{}/punctual", standby.port()));
    assert!(!looked.0 && looked.1.contains("takes no writes"), "{}", looked.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_takes_no_writes_is_passed_over_where_the_url_names_another() {
    if !Engine::MariaDb.is_wanted() {
        return;
    }
    let read_only = vec![("read-only".to_owned(), "1".to_owned())];
    let closed = MariaDb { settings: read_only, ..MariaDb::default() }.start().expect("a server");
    let open = MariaDb::default().start().expect("a server");
    for server in [&closed, &open] {
        server.database("punctual").expect("a database");
    }
    let url = format!("mysql://root@127.0.0.1:{},127.0.0.1:{}/punctual", closed.port(), open.port());
    let folder = Folder::new();
    works(&Server::start_as(&folder, &["--database", &url], Some(TOKEN)).await).await;
    let looked = doctor(&format!("mysql://root@127.0.0.1:{}/punctual", closed.port()));
    assert!(!looked.0 && looked.1.contains("read-only"), "{}", looked.1);
}

/// Whether `punctual doctor` is content, and what it says.
fn doctor(url: &str) -> (bool, String) {
    let said = command().args(["doctor", "--database", url]).output().expect("it runs");
    (said.status.success(), String::from_utf8_lossy(&said.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_can_take_no_shard_is_not_ready_and_says_why() {
    if !Engine::Postgres.is_wanted() {
        return;
    }
    let database = Database::new(Engine::Postgres);
    let migrated = command().args(["migrate", "--database", database.url()]).output().expect("it runs");
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    database.tell(
        "create function refuse() returns trigger language plpgsql as
             $$ begin raise exception 'no shard for anybody'; end $$;
         create trigger refuse before update of owner on shards for each row execute function refuse()",
    );
    let folder = Folder::new();
    let server = Server::start_as(&folder, &["--database", database.url()], Some(TOKEN)).await;
    eventually("it says so", async || server.get("/readyz").await.status == 503).await;
    let said = server.get("/readyz").await.text();
    assert!(said.contains("can take no shard") && said.contains("no shard for anybody"), "{said}");
    database.tell("drop trigger refuse on shards");
    eventually("it is ready again", async || server.get("/readyz").await.status == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clusters_on_one_redis_both_fire() {
    let redis = std::env::var("PUNCTUAL_TEST_REDIS").expect("`cargo xtask test` starts the servers");
    if !Engine::Postgres.is_wanted() || redis == "without" {
        return;
    }
    let databases = [Database::new(Engine::Postgres), Database::new(Engine::Postgres)];
    let folders = [Folder::new(), Folder::new()];
    let mut servers = Vec::new();
    for (folder, database) in folders.iter().zip(&databases) {
        let arguments = ["--database", database.url(), "--redis", &redis];
        servers.push(Server::start_as(folder, &arguments, Some(TOKEN)).await);
    }
    for server in &servers {
        let both = tokio::time::timeout(Duration::from_secs(30), works(server));
        both.await.expect("neither keeps the other from its shards");
    }
    let metrics = servers[1].get("/metrics").await.text();
    assert!(metrics.contains("punctual_redis_overruled_total 0"), "{metrics}");
}
