//! Outgoing connections of a node: to agents and executors, and to the other nodes.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_api::{Others, peer_token};
use punctual_cli::trust;
use punctual_core::model::NodeId;
use punctual_dispatch::{Agents, Executors, Guard, Natives, Options, Setup, Sink, Switch, stream, xxl};
use punctual_node::ports::{Entropy, Heard, Hint, NodeRow, Peers};
use punctual_peers::{Hints, Questions};
use punctual_store::postgres::PostgresPeers;
use punctual_store::redis::RedisPeers;
use tokio::runtime::Handle;

use super::{ClusterClock, NodeIdentity};
use crate::archive::Inlet;
use crate::clock::{self, Machine};
use crate::config::Config;
use crate::keep::Kept;
use crate::loops::Rounds;
use crate::others::{ALONE, Cluster, NoOthers};

/// The networks in which executors usually are. An executor shows a token when it registers, so these need no rule of
/// their own.
const PRIVATE: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

/// The node's rounds, which are built last: they hold the node, the node holds the outgoing connections, and messages
/// that come in over those go into the rounds. Nothing is sent before they are set.
#[derive(Clone, Default)]
pub(super) struct LateRounds(Arc<OnceLock<Arc<Rounds>>>);

impl LateRounds {
    pub(super) fn set(&self, rounds: Rounds) -> Arc<Rounds> {
        Arc::clone(self.0.get_or_init(|| Arc::new(rounds)))
    }

    fn get(&self) -> Option<&Rounds> {
        self.0.get().map(|rounds| &**rounds)
    }

    fn now(&self) -> Timestamp {
        self.get().and_then(Rounds::now).unwrap_or_else(clock::now)
    }

    fn hear(&self, heard: Vec<Heard>) {
        if let Some(rounds) = self.get() {
            rounds.hear(heard);
        }
    }

    /// Takes a hint for one node, or for all.
    fn heed(&self, node: Option<NodeId>, hint: Hint) {
        if let Some(rounds) = self.get()
            && node.is_none_or(|node| rounds.is_of(node))
        {
            rounds.heed(hint);
        }
    }
}

/// The outgoing connections of a node, with their guards.
pub(super) struct Reach {
    pub(super) switch: Arc<Switch>,
    pub(super) peers: Arc<dyn Peers>,
    pub(super) now: ClusterClock,
    /// Judges addresses that people set.
    pub(super) strict: Guard,
    /// Judges addresses of executors.
    pub(super) near: Guard,
}

impl Reach {
    pub(super) fn build(
        config: &Config,
        kept: &Kept,
        identity: &NodeIdentity,
        rounds: &LateRounds,
        inlet: &Inlet,
    ) -> Result<Reach, String> {
        let (strict, near) = (guard(config, identity, &[])?, guard(config, identity, &PRIVATE)?);
        let sink: Sink = {
            let rounds = rounds.clone();
            Arc::new(move |heard: Vec<Heard>| rounds.hear(heard))
        };
        let now: ClusterClock = {
            let rounds = rounds.clone();
            Arc::new(move || rounds.now())
        };
        let switch = Arc::new(Switch {
            agents: Arc::new(agents(config, &strict, &sink, &now)?),
            executors: Arc::new(executors(config, &strict, &near, &sink, &now)?),
            natives: Arc::new(natives(config, inlet, sink, &now, dial(config, identity)?)),
        });
        let mut peers = peers(config, kept, identity, rounds)?;
        if kept.is_shared {
            peers = Arc::new(Meeting { peers, natives: Arc::clone(&switch.natives) });
        }
        Ok(Reach { switch, peers, now, strict, near })
    }
}

fn agents(config: &Config, guard: &Guard, sink: &Sink, now: &ClusterClock) -> Result<Agents, String> {
    Agents::new(Setup {
        runtime: Handle::current(),
        options: agent_options(config),
        guard: guard.clone(),
        now: Arc::clone(now),
        entropy: Arc::new(Machine),
        sink: Arc::clone(sink),
    })
}

/// One connection for every call that the node's pools have a place for. With fewer connections, calls that were
/// given a place would compete again, and the first to come would win.
fn agent_options(config: &Config) -> Options {
    let connections = config.calls_max();
    let extra_roots = config.authorities.clone();
    Options { connections, connections_per_host: connections, extra_roots, ..Options::default() }
}

fn executors(
    config: &Config,
    strict: &Guard,
    near: &Guard,
    sink: &Sink,
    now: &ClusterClock,
) -> Result<Executors, String> {
    Executors::new(xxl::Setup {
        runtime: Handle::current(),
        options: xxl::Options { extra_roots: config.authorities.clone(), ..xxl::Options::default() },
        guard: near.clone(),
        listed: strict.clone(),
        now: Arc::clone(now),
        sink: Arc::clone(sink),
        access_token: config.executor_token.clone(),
    })
}

fn natives(config: &Config, inlet: &Inlet, sink: Sink, now: &ClusterClock, dial: stream::Dial) -> Natives {
    let inlet = inlet.clone();
    Natives::new(stream::Setup {
        runtime: Handle::current(),
        options: stream::Options::default(),
        now: Arc::clone(now),
        sink,
        keep: Arc::new(move |run, attempt, log| {
            let is_taken = inlet.take_log(run, attempt, log);
            if !is_taken {
                tracing::warn!(%run, "there is no room to keep a log");
            }
            is_taken
        }),
        // Executors tell nodes apart by this name, so it has to be unique.
        node: format!("{}-{:016x}", config.node.as_deref().unwrap_or("node"), Machine.bits()),
        dial,
    })
}

/// A guard that allows public addresses, the configured rules, and `more`.
fn guard(config: &Config, identity: &NodeIdentity, more: &[&str]) -> Result<Guard, String> {
    let allows_loopback = config.listen.ip().is_loopback();
    let rules: Vec<String> =
        config.allow.iter().cloned().chain(more.iter().map(ToString::to_string)).collect();
    let guard = Guard::new(&rules, allows_loopback).map_err(|error| format!("targets.allow: {error}"))?;
    let guard = guard.apart_from(identity.listens_on, &identity.address);
    Ok(if config.allows_public { guard } else { guard.closed() })
}

/// Opens connections to the executors' door of other nodes, if there are any.
fn dial(config: &Config, identity: &NodeIdentity) -> Result<stream::Dial, String> {
    let Some(secret) = &identity.peer_secret else {
        return Ok(Arc::new(|_| Box::pin(async { Err(ALONE.to_owned()) })));
    };
    let token: Arc<str> = peer_token(secret).into();
    let tls = trust::connector(config.authorities.as_deref())?;
    Ok(Arc::new(move |address| {
        let (token, tls) = (Arc::clone(&token), tls.clone());
        let wrap = |connection| Box::new(connection) as Box<dyn stream::ByteStream>;
        Box::pin(async move { punctual_peers::open_session(&address, &token, &tls, wrap).await })
    }))
}

/// Sends hints to the other nodes, if there may be any.
fn peers(
    config: &Config,
    kept: &Kept,
    identity: &NodeIdentity,
    rounds: &LateRounds,
) -> Result<Arc<dyn Peers>, String> {
    let Some(secret) = &identity.peer_secret else { return Ok(Arc::new(Alone)) };
    let tls = trust::connector(config.authorities.as_deref())?;
    let mut peers: Arc<dyn Peers> = Arc::new(Hints::new(peer_token(secret), tls));
    if let Some(database) = &kept.listened {
        let rounds = rounds.clone();
        let heed = Arc::new(move |node, hint| rounds.heed(node, hint));
        peers = PostgresPeers::new(Arc::clone(database), heed, peers);
    }
    if let Some(redis) = &kept.redis {
        let rounds = rounds.clone();
        let heed = Arc::new(move |hint| rounds.heed(None, hint));
        peers = RedisPeers::new(Arc::clone(redis), identity.address.clone(), heed, peers);
    }
    Ok(peers)
}

/// Asks the other nodes, if there may be any.
pub(super) fn others(config: &Config, identity: &NodeIdentity) -> Result<Arc<dyn Others>, String> {
    let Some(secret) = &identity.peer_secret else { return Ok(Arc::new(NoOthers)) };
    let tls = trust::connector(config.authorities.as_deref())?;
    Ok(Arc::new(Cluster(Questions::new(peer_token(secret), tls))))
}

/// Passes hints on to the nodes, and tells executors that have a session the addresses of the nodes.
struct Meeting {
    peers: Arc<dyn Peers>,
    natives: Arc<Natives>,
}

#[async_trait]
impl Peers for Meeting {
    fn tell(&self, node: NodeId, hint: Hint) {
        self.peers.tell(node, hint);
    }

    fn meet(&self, nodes: &[NodeRow]) {
        self.peers.meet(nodes);
        let mut addresses: Vec<String> = nodes.iter().map(|row| row.address.to_string()).collect();
        addresses.retain(|address| !address.is_empty());
        addresses.sort_unstable();
        self.natives.know_nodes(addresses);
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.peers.reaches(node)
    }

    async fn told(&self) {
        self.peers.told().await;
    }
}

/// A node without others.
struct Alone;

impl Peers for Alone {
    fn tell(&self, _: NodeId, _: Hint) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_has_a_place_has_a_connection() {
        let mut config = Config::with_data("unused".into());
        for (fast, slow, overflow) in [(200, 100, 1_000), (5, 0, 0), (4_000, 300, 20)] {
            (config.fast, config.slow, config.overflow) = (fast, slow, overflow);
            let (options, places) = (agent_options(&config), (fast + slow + overflow) as usize);
            assert!(options.connections >= places && options.connections_per_host >= places);
        }
    }
}
