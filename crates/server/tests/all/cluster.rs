//! Several nodes over one database, as processes: sharing, handing over, draining, and telling each other.
#![expect(clippy::disallowed_methods, reason = "real programs live in real time")]

mod applications;
mod carried;
mod change;
pub(crate) mod database;
mod outage;
mod refusals;
mod standby;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::house::{Agent, Folder, Server, command, eventually, from_now, job, millis};
use applications::what_an_application_commits_runs_once_and_what_it_takes_back_never;
use carried::an_executor_that_reaches_one_node_works_for_all;
use change::one_shots_on_all_nodes_are_moved_and_an_app_is_paused_by_one;
use database::{Database, Engine};
use upgrade::old_programs_outlive_an_additive_migration_and_stop_at_a_breaking_one;

/// What opens every node of a test.
const TOKEN: &str = "pct_cluster_test_0123456789abcdefghij";

/// Nodes that share a database.
struct Cluster {
    // Before the database, which cannot be dropped while somebody uses it.
    nodes: Vec<(Folder, Server)>,
    database: Database,
}

impl Cluster {
    async fn of(engine: Engine, count: usize) -> Cluster {
        let mut cluster = Cluster { nodes: Vec::new(), database: Database::new(engine) };
        for _ in 0..count {
            cluster.add().await;
        }
        cluster.settle().await;
        cluster
    }

    async fn add(&mut self) {
        let name = format!("node-{}", self.nodes.len() + 1);
        let folder = Folder::new();
        let server = start(&folder, self.database.url(), &["--node", &name]).await;
        self.nodes.push((folder, server));
    }

    fn node(&self, index: usize) -> &Server {
        &self.nodes[index].1
    }

    /// Waits until every shard has a living node, and every node has some.
    async fn settle(&self) {
        eventually("the nodes share the shards", async || {
            let shares = shares(self.node(0)).await;
            shares.len() == self.nodes.len() && shares.values().sum::<usize>() == 64
        })
        .await;
    }
}

async fn start(folder: &Folder, url: &str, more: &[&str]) -> Server {
    let arguments = [&["--database", url], more].concat();
    Server::start_as(folder, &arguments, Some(TOKEN)).await
}

/// How many shards each node acts for.
async fn shares(server: &Server) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for shard in server.get("/shards").await.json()["items"].as_array().expect("a list") {
        if let Some(node) = shard["node"].as_str() {
            *shares.entry(node.to_owned()).or_default() += 1;
        }
    }
    shares
}

async fn named(server: &Server, name: &str) -> Option<Value> {
    let nodes = server.get("/nodes").await.json();
    nodes["items"].as_array().expect("a list").iter().find(|node| node["name"] == name).cloned()
}

macro_rules! on_both {
    ($($test:ident)+) => {
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    if super::Engine::Postgres.is_wanted() {
                        super::$test(super::Engine::Postgres).await;
                    }
                }
            )+
        }

        mod mariadb {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    if super::Engine::MariaDb.is_wanted() {
                        super::$test(super::Engine::MariaDb).await;
                    }
                }
            )+
        }
    };
}

on_both! {
    three_nodes_share_the_work_and_nothing_happens_twice
    a_node_that_stops_hands_over_at_once
    a_node_that_is_drained_does_nothing_until_it_is_resumed
    what_one_node_takes_another_starts_at_once
    after_the_answer_to_a_stop_no_node_sends
    an_executor_that_reaches_one_node_works_for_all
    old_programs_outlive_an_additive_migration_and_stop_at_a_breaking_one
    what_an_application_commits_runs_once_and_what_it_takes_back_never
    one_shots_on_all_nodes_are_moved_and_an_app_is_paused_by_one
}

async fn three_nodes_share_the_work_and_nothing_happens_twice(engine: Engine) {
    let cluster = Cluster::of(engine, 3).await;
    let agent = Agent::content().await;
    for number in 0..30 {
        let every = json!({"kind": "every", "interval": "1s"});
        cluster.node(number % 3).create(job(&format!("job {number}"), every, &agent.url("/"))).await;
    }
    eventually("all have run several times", async || agent.count() >= 150).await;
    let mut runs = BTreeSet::new();
    for seen in agent.seen() {
        let key = (seen.header("punctual-job").to_owned(), seen.header("punctual-fire-time").to_owned());
        assert!(runs.insert(key), "{} came twice", seen.run());
    }
    let shares = shares(cluster.node(1)).await;
    assert_eq!(shares.len(), 3);
    assert!(shares.values().all(|share| *share >= 10), "{shares:?}");
    let metrics = cluster.node(2).get("/metrics").await.text();
    assert!(metrics.contains("punctual_nodes 3"), "{metrics}");
}

async fn a_node_that_stops_hands_over_at_once(engine: Engine) {
    let mut cluster = Cluster::of(engine, 2).await;
    let (_folder, leaving) = cluster.nodes.pop().expect("two");
    let started = Instant::now();
    let stopping = std::thread::spawn(move || leaving.stop());
    eventually("the other has all of them", async || {
        shares(cluster.node(0)).await.values().copied().eq([64])
    })
    .await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(3), "a lease would have run out after 4 s; this took {took:?}");
    assert!(stopping.join().expect("it stops").success());
}

async fn a_node_that_is_drained_does_nothing_until_it_is_resumed(engine: Engine) {
    let cluster = Cluster::of(engine, 2).await;
    let (first, second) = (cluster.node(0), cluster.node(1));
    let tell = |server: &Server, words: &[&str]| {
        let mut command = command();
        command.args(words).env("PUNCTUAL_URL", &server.url).env("PUNCTUAL_TOKEN", TOKEN);
        let said = command.output().expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).expect("text")
    };
    // By another node, which only tells it.
    tell(first, &["node", "drain", "node-2"]);
    eventually("the other has all", async || shares(first).await.values().copied().eq([64])).await;
    assert_eq!(named(second, "node-2").await.expect("itself")["state"], "drained");
    assert_eq!(second.get("/readyz").await.status, 503, "no load balancer sends to it");
    let is_listed = async || named(first, "node-2").await.is_some_and(|node| node["state"] == "drained");
    eventually("the other lists it", is_listed).await;
    let listed = tell(first, &["node", "list"]);
    assert!(listed.contains("node-1 *") && listed.contains("drained"), "{listed}");
    // By another node as well.
    tell(first, &["node", "resume", "node-2"]);
    eventually("both have some again", async || shares(first).await.len() == 2).await;
}

async fn what_one_node_takes_another_starts_at_once(engine: Engine) {
    let cluster = Cluster::of(engine, 3).await;
    let agent = Agent::content().await;
    let manual = cluster.node(0).create(job("manual", json!({"kind": "manual"}), &agent.url("/"))).await;
    for round in 0..60 {
        let (due, run) = (from_now(50), json!({"job": manual}));
        let mut run = run;
        run["at"] = due.into();
        let taken = cluster.node(round % 3).post("/runs", run).await;
        assert_eq!(taken.status, 200, "{}", taken.text());
    }
    eventually("all have arrived", async || agent.count() == 60).await;
    let late = |seen: &crate::house::Seen| seen.at - millis(&seen.header("punctual-fire-time").into());
    let mut lags: Vec<i64> = agent.seen().iter().map(late).collect();
    lags.sort_unstable();
    // Without hints a third of them would wait for the next renewal, half a second on average.
    assert!(lags[45] < 400, "{lags:?}");
}

async fn after_the_answer_to_a_stop_no_node_sends(engine: Engine) {
    let cluster = Cluster::of(engine, 3).await;
    let agent = Agent::content().await;
    let mut jobs = Vec::new();
    for number in 0..6 {
        let every = json!({"kind": "every", "interval": "100ms"});
        jobs.push(cluster.node(0).create(job(&format!("quick {number}"), every, &agent.url("/"))).await);
    }
    eventually("they run", async || agent.count() > 60).await;
    for (number, id) in jobs.iter().enumerate() {
        let stopped = cluster.node(number % 3).post(&format!("/jobs/{id}/stop"), json!({})).await;
        assert_eq!(stopped.status, 200, "{}", stopped.text());
        let answered = from_now(0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sent_later = agent.seen().into_iter().filter(|seen| {
            // What was on the wire when the answer came may arrive a moment after it.
            seen.header("punctual-job") == id.to_string() && seen.at > millis(&answered.clone().into()) + 100
        });
        assert_eq!(sent_later.count(), 0, "job {id}");
    }
}
