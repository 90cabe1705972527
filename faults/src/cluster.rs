//! Several nodes on one database, and a client that asks whichever node answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{HttpAnswer, ask};
use crate::clock::until;
use crate::node::{Launch, NodeProcess, TOKEN};
use crate::proxy::Proxy;

/// How long the client waits for one node before it asks the next.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a cluster may take to be healthy after everything was repaired.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// A client that knows every node, and asks the next when one does not answer.
#[derive(Clone)]
pub struct Client {
    addresses: Arc<[String]>,
    next: Arc<AtomicUsize>,
}

impl Client {
    fn new(addresses: Vec<String>) -> Client {
        Client { addresses: addresses.into(), next: Arc::default() }
    }

    /// Repeats a request until a node answers with more than "not now". The request must be safe to repeat.
    pub async fn insist(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<HttpAnswer, String> {
        let started = Instant::now();
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
            let said = ask_node(&self.addresses[turn], method, path, body).await;
            let what = match said {
                Ok(answer) if answer.status < 500 && answer.status != 429 => return Ok(answer),
                Ok(answer) => format!("{} {}", answer.status, answer.text()),
                Err(reason) => reason,
            };
            if started.elapsed() > limit {
                return Err(format!("{method} {path}: nobody answers; the last said {what}"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Sends one request to one node, as the administrator.
pub async fn ask_node(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<HttpAnswer, String> {
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = body.map(Value::to_string).unwrap_or_default();
    ask(address, method, path, &headers, &body, PATIENCE).await
}

/// The cluster as a node sees it: the nodes and the holders of shards.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The id of each node's process, and the node's name.
    pub nodes: Vec<(String, String)>,
    /// The epoch and the holder of each shard. The greater epoch is newer.
    pub owners: Vec<(u64, Option<String>)>,
}

impl View {
    /// The id of a node's process.
    pub fn life_of(&self, name: &str) -> Option<&str> {
        self.nodes.iter().find(|node| node.1 == name).map(|node| node.0.as_str())
    }

    /// Number of shards that a process holds.
    pub fn shards_of(&self, life: &str) -> usize {
        self.owners.iter().filter(|(_, owner)| owner.as_deref() == Some(life)).count()
    }

    /// Whether every shard has a holder.
    pub fn has_no_orphans(&self) -> bool {
        !self.owners.is_empty() && self.owners.iter().all(|(_, owner)| owner.is_some())
    }

    /// Two views merged: for each shard the newer holder.
    fn with(mut self, other: View) -> View {
        for (mine, theirs) in self.owners.iter_mut().zip(other.owners) {
            if (theirs.0, theirs.1.is_some()) > (mine.0, mine.1.is_some()) {
                *mine = theirs;
            }
        }
        self
    }

    /// Whether every shard is held by a node in the list.
    fn is_complete(&self) -> bool {
        let lives: BTreeSet<&str> = self.nodes.iter().map(|node| node.0.as_str()).collect();
        let is_known = |owner: &Option<String>| owner.as_deref().is_none_or(|owner| lives.contains(owner));
        self.has_no_orphans() && self.owners.iter().all(|(_, owner)| is_known(owner))
    }
}

/// Nodes on one database.
pub struct Cluster {
    /// The nodes.
    pub nodes: Vec<NodeProcess>,
    /// A client for all of them.
    pub client: Client,
}

impl Cluster {
    /// Starts nodes, each with a proxy of its own in front of the database, and waits until the cluster is healthy.
    pub async fn start(launch: &Launch, database: Option<&str>, count: usize) -> Result<Cluster, String> {
        let mut nodes = Vec::new();
        for number in 0..count {
            let (database, proxy) = match database {
                Some(url) => through_a_proxy(url).await.map(|(url, proxy)| (Some(url), Some(proxy)))?,
                None => (None, None),
            };
            nodes.push(NodeProcess::new(launch, &format!("node-{number}"), database, proxy)?);
        }
        let client = Client::new(nodes.iter().map(NodeProcess::address).collect());
        let mut cluster = Cluster { nodes, client };
        for node in &mut cluster.nodes {
            node.start()?;
        }
        cluster.whole().await?;
        Ok(cluster)
    }

    /// Whether there is only one node, with the embedded store.
    pub fn is_single(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Waits until every node is ready and has shards, and every shard has a holder. Returns after how long.
    pub async fn whole(&self) -> Result<Duration, String> {
        until("every node is ready and has its share", WHOLE_WITHIN, async || {
            for node in &self.nodes {
                if !self.is_well(node).await {
                    return false;
                }
            }
            true
        })
        .await
        .map_err(|reason| format!("{reason}; {}", self.ends()))
    }

    async fn is_well(&self, node: &NodeProcess) -> bool {
        let ready = ask_node(&node.address(), "GET", "/readyz", None).await;
        if !ready.is_ok_and(|answer| answer.status == 200) {
            return false;
        }
        if self.is_single() {
            return true;
        }
        let Some(view) = view(&node.address()).await else { return false };
        let has_share =
            |node: &NodeProcess| view.life_of(node.name()).is_some_and(|life| view.shards_of(life) > 0);
        view.is_complete() && view.nodes.len() == self.nodes.len() && self.nodes.iter().all(has_share)
    }

    /// The merged view of all running nodes but this one. A node knows at once what it took itself, and a moment later what
    /// others took.
    pub async fn view_beside(&self, index: usize) -> Option<View> {
        let mut known: Option<View> = None;
        let others = self.nodes.iter().enumerate().filter(|(other, node)| *other != index && node.is_up());
        for (_, node) in others {
            if let Some(view) = view(&node.address()).await {
                known = Some(match known {
                    Some(known) => known.with(view),
                    None => view,
                });
            }
        }
        known
    }

    /// The nodes that ended by themselves, with their exit statuses.
    pub fn ends(&self) -> String {
        let ended = |node: &NodeProcess| {
            node.ended().map(|status| format!("{} ended with {status}: {}", node.name(), node.last_words()))
        };
        let ends: Vec<String> = self.nodes.iter().filter_map(ended).collect();
        if ends.is_empty() { "no node ended by itself".into() } else { ends.join(", ") }
    }
}

/// The cluster as a node sees it.
pub async fn view(address: &str) -> Option<View> {
    let items = async |path: &str| {
        let answer = ask_node(address, "GET", path, None).await.ok()?;
        (answer.status == 200).then(|| answer.json()["items"].as_array().cloned()).flatten()
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let nodes = items("/api/v1/nodes").await?;
    let shards = items("/api/v1/shards").await?;
    let named = |node: &Value| Some((text(&node["node"])?, text(&node["name"])?));
    Some(View {
        nodes: nodes.iter().filter_map(named).collect(),
        owners: shards
            .iter()
            .map(|shard| (shard["epoch"].as_u64().unwrap_or(0), text(&shard["node"])))
            .collect(),
    })
}

/// A proxy in front of a database, and the address of the database through it.
async fn through_a_proxy(url: &str) -> Result<(String, Proxy), String> {
    let wrong = || format!("{url:?} names no address of a database");
    let (before, rest) = url.rsplit_once('@').ok_or_else(wrong)?;
    let (address, path) = rest.split_once('/').ok_or_else(wrong)?;
    let server: SocketAddr = address.parse().map_err(|_| wrong())?;
    let proxy = Proxy::start(server).await.map_err(|error| error.to_string())?;
    Ok((format!("{before}@{}/{path}", proxy.address()), proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_views_the_newer_counts_shard_by_shard() {
        let view = |owners: &[(u64, Option<&str>)]| View {
            nodes: vec![("life-a".into(), "a".into()), ("life-b".into(), "b".into())],
            owners: owners.iter().map(|(epoch, owner)| (*epoch, owner.map(str::to_owned))).collect(),
        };
        let one = view(&[(5, Some("life-a")), (3, Some("dead")), (4, None)]);
        let other = view(&[(2, Some("dead")), (6, Some("life-b")), (4, Some("life-b"))]);
        let both = one.clone().with(other);
        assert_eq!((both.shards_of("dead"), both.shards_of("life-b")), (0, 2));
        assert!(both.is_complete() && !one.has_no_orphans());
        assert!(!view(&[(1, Some("dead"))]).is_complete());
    }
}
