//! An executor that reaches one node only works for all of them: that node carries for the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{Cluster, TOKEN, start};
use crate::house::{Folder, Server, eventually};
use database::Engine;

use super::database;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// How many runs it takes at once.
const CAPACITY: usize = 4;

/// An executor that knows one node, and hears of no other. It ends everything at once, except what `wait` is to do: that
/// ends when it is cancelled.
struct Loner {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// How often each run came.
    runs: BTreeMap<u64, usize>,
    /// How many it held at once at most.
    most: usize,
    sessions: usize,
}

impl Loner {
    fn at(server: &Server) -> Loner {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let life = Life { url: server.url.clone(), seen: Arc::clone(&seen), held: BTreeMap::new() };
        Loner { seen, task: tokio::spawn(life.live()) }
    }

    fn counts(&self) -> BTreeMap<u64, usize> {
        self.seen.lock().unwrap().runs.clone()
    }
}

impl Drop for Loner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Life {
    url: String,
    seen: Arc<Mutex<Seen>>,
    /// What it has, and how it ended if it did.
    held: BTreeMap<u64, (Value, Option<&'static str>)>,
}

impl Life {
    async fn live(mut self) {
        loop {
            if let Ok(mut socket) = connect(&self.url).await {
                self.seen.lock().unwrap().sessions += 1;
                self.session(&mut socket).await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends with the session.
    async fn session(&mut self, socket: &mut Socket) -> Option<()> {
        let holds: Vec<&Value> = self.held.values().map(|(held, _)| held).collect();
        let hello = json!({"type": "hello", "version": 1, "app": "far", "executor": "loner", "instance": "1",
            "handlers": ["ok", "wait"], "capacity": CAPACITY, "holds": holds});
        say(socket, &hello).await?;
        let running = self.held.values().filter(|(_, outcome)| outcome.is_none()).count();
        if running < CAPACITY {
            say(socket, &json!({"type": "credit", "more": CAPACITY - running})).await?;
        }
        let ended: Vec<Value> =
            self.held.values().filter_map(|(held, outcome)| Some(report(held, (*outcome)?))).collect();
        if !ended.is_empty() {
            // A log is not acknowledged: lines that were in flight when the last session ended are sent again.
            for report in ended.iter().filter(|report| report["outcome"] == "succeeded") {
                say(socket, &log_of(report)).await?;
            }
            say(socket, &json!({"type": "reports", "reports": ended})).await?;
        }
        loop {
            let said = hear(socket).await?;
            match said["type"].as_str()? {
                "runs" => self.take(socket, &said).await?,
                "kept" => {
                    for held in said["reports"].as_array()? {
                        self.held.remove(&held["run"].as_u64()?);
                    }
                }
                "cancel" => {
                    for run in said["runs"].as_array()? {
                        self.end(socket, run["run"].as_u64()?, "cancelled").await?;
                    }
                }
                "goodbye" => return None,
                _ => {}
            }
        }
    }

    async fn take(&mut self, socket: &mut Socket, said: &Value) -> Option<()> {
        for run in said["runs"].as_array()? {
            let id = run["run"].as_u64()?;
            let held = json!({"run": id, "attempt": run["attempt"], "token": run["token"]});
            self.held.insert(id, (held, None));
            {
                let mut seen = self.seen.lock().unwrap();
                *seen.runs.entry(id).or_default() += 1;
                seen.most = seen.most.max(self.held.values().filter(|(_, end)| end.is_none()).count());
            }
            if run["handler"] == "ok" {
                say(socket, &log_of(run)).await?;
                self.end(socket, id, "succeeded").await?;
            }
        }
        Some(())
    }

    async fn end(&mut self, socket: &mut Socket, run: u64, outcome: &'static str) -> Option<()> {
        let Some((held, end)) = self.held.get_mut(&run).filter(|(_, end)| end.is_none()) else {
            return Some(());
        };
        *end = Some(outcome);
        say(socket, &json!({"type": "reports", "reports": [report(held, outcome)], "credits": 1})).await
    }
}

fn log_of(run: &Value) -> Value {
    json!({"type": "log", "run": run["run"], "attempt": run["attempt"], "from": 1, "lines": ["done far away"]})
}

fn report(held: &Value, outcome: &str) -> Value {
    let mut report = held.clone();
    report["outcome"] = outcome.into();
    report["message"] = "".into();
    report
}

async fn connect(url: &str) -> Result<Socket, tokio_tungstenite::tungstenite::Error> {
    let url = format!("{}/api/v1/executors/connect", url.replace("http", "ws"));
    let mut request = url.into_client_request()?;
    request.headers_mut().insert("authorization", format!("Bearer {TOKEN}").parse().expect("a header"));
    connect_async(request).await.map(|(socket, _)| socket)
}

async fn say(socket: &mut Socket, message: &Value) -> Option<()> {
    socket.send(Message::text(message.to_string())).await.ok()
}

async fn hear(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).ok(),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return None,
        }
    }
}

/// Jobs that are spread over all nodes.
async fn jobs(server: &Server, handler: &str, count: usize) -> Vec<u64> {
    let mut jobs = Vec::new();
    for number in 0..count {
        let job = json!({"app": "far", "name": format!("{handler} {number}"), "schedule": {"kind": "manual"},
            "target": {"kind": "executor", "handler": handler}});
        jobs.push(server.create(job).await);
    }
    jobs
}

async fn run_all(server: &Server, jobs: &[u64]) -> Vec<u64> {
    let mut runs = Vec::new();
    for job in jobs {
        let answer = server.post(&format!("/jobs/{job}/run"), json!({})).await.json();
        runs.push(answer["run"].as_u64().expect("a run"));
    }
    runs
}

pub(super) async fn an_executor_that_reaches_one_node_works_for_all(engine: Engine) {
    let mut cluster = Cluster::of(engine, 2).await;
    let loner = Loner::at(cluster.node(0));
    let quick = jobs(cluster.node(0), "ok", 24).await;
    let runs = run_all(cluster.node(1), &quick).await;
    for run in &runs {
        assert_eq!(cluster.node(1).ended(*run).await["state"], "succeeded");
    }
    let once: BTreeMap<u64, usize> = runs.iter().map(|run| (*run, 1)).collect();
    assert_eq!(loner.counts(), once, "each came once");
    assert!(loner.seen.lock().unwrap().most <= CAPACITY, "no more at once than it takes");
    let shared: BTreeSet<u64> = runs.iter().copied().collect();
    assert_eq!(shared.len(), runs.len());
    eventually("what it wrote is kept", async || {
        let logs = runs.iter().map(|run| format!("/runs/{run}/log"));
        for log in logs {
            if !cluster.node(1).get(&log).await.json()["text"]
                .as_str()
                .unwrap_or("")
                .contains("done far away")
            {
                return false;
            }
        }
        true
    })
    .await;

    let slow = jobs(cluster.node(0), "wait", 12).await;
    let waiting = run_all(cluster.node(0), &slow).await;
    let running = async || {
        let counts = loner.counts();
        waiting.iter().filter(|run| counts.contains_key(run)).count()
    };
    eventually("it has as much as it takes", async || running().await == CAPACITY).await;
    for run in &waiting {
        cluster.node(0).post(&format!("/runs/{run}/cancel"), json!({})).await;
    }
    for run in &waiting {
        assert_eq!(cluster.node(1).ended(*run).await["state"], "cancelled");
    }

    // The node that it does not know starts anew.
    let (folder, gone) = cluster.nodes.pop().expect("two");
    gone.kill();
    drop(folder);
    let folder = Folder::new();
    let anew = start(&folder, cluster.database.url(), &["--node", "node-2"]).await;
    cluster.nodes.push((folder, anew));
    cluster.settle().await;
    for run in run_all(cluster.node(1), &quick).await {
        assert_eq!(cluster.node(1).ended(run).await["state"], "succeeded");
        assert_eq!(loner.counts()[&run], 1);
    }
}
