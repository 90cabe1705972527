//! Wiring: the one place that knows everyone, and hands each what it needs.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use calendar::{Timestamp, Zones};
use punctual_api::{App, Logbook, Others, peer_token};
use punctual_cli::trust;
use punctual_core::event::Event;
use punctual_core::model::{Http, NodeId, Text};
use punctual_core::policy::Limits;
use punctual_dispatch::{Agents, Executors, Guard, Natives, Options, Setup, Sink, Switch, stream, xxl};
use punctual_node::ports::{
    Browse, Digest, Door, Entropy, FiredMark, Heard, Hint, Logs, NodeRow, Peers, Unmarked,
};
use punctual_node::{Node, Ports, RegistrySettings, Settings};
use punctual_observe::{EventLog, Figures, Metrics};
use punctual_peers::{Hints, Questions};
use punctual_store::postgres::PostgresPeers;
use punctual_store::redis::{Redis, RedisPeers};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::archive::{self, Archive, Inlet};
use crate::clock::{self, Machine};
use crate::config::Config;
use crate::console::Site;
use crate::executors::Crew;
use crate::fired::FiredFile;
use crate::footing::Footing;
use crate::keep::Kept;
use crate::listen::Places;
use crate::loops::Rounds;
use crate::operators::OperatorLog;
use crate::others::{ALONE, Cluster, NoOthers};

/// A node with everything around it, ready to run.
pub(crate) struct House {
    pub(crate) node: Arc<Node>,
    pub(crate) rounds: Arc<Rounds>,
    pub(crate) site: Site,
    pub(crate) switch: Arc<Switch>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) events: EventLog,
    pub(crate) archive: Archive,
    pub(crate) logs: Arc<dyn Logs>,
    pub(crate) logbook: Logbook,
    pub(crate) browse: Arc<dyn Browse>,
}

/// Who this node is among the others.
pub(crate) struct Place {
    /// Where it listens.
    pub(crate) listens_on: SocketAddr,
    /// Where others reach it; empty if they cannot.
    pub(crate) address: String,
    /// What nodes show each other; none if there are no others.
    pub(crate) peer_secret: Option<Digest>,
}

pub(crate) fn build(
    config: &Config,
    kept: &Kept,
    place: &Place,
    places: &Arc<Places>,
) -> Result<House, String> {
    let zones = Arc::new(Zones::bundled());
    let machine = Arc::new(Machine);
    // Agents and executors answer into the rounds, and the rounds hold the node, which holds the way to them.
    let inbox: Arc<OnceLock<Arc<Rounds>>> = Arc::default();
    let (strict, near) = (guard(config, place, &[])?, guard(config, place, &PRIVATE)?);
    let (inlet, archive) = archive::open();
    let now = cluster_now(&inbox);
    let switch = Arc::new(switch(config, &strict, &near, &inbox, &inlet, &now, dial(config, place)?)?);
    let ports = Ports {
        clock: Arc::clone(&machine) as _,
        entropy: Arc::clone(&machine) as _,
        store: Arc::clone(&kept.store),
        apps: Arc::clone(&kept.apps),
        records: Arc::new(Arc::clone(&kept.browse)),
        dispatch: Arc::clone(&switch) as _,
        peers: {
            let (peers, natives) = (peers(config, kept, place, &inbox)?, Arc::clone(&switch.natives));
            if kept.is_shared { Arc::new(Meeting { peers, natives }) } else { peers }
        },
        fired: fired(config, kept),
    };
    let node = Arc::new(Node::new(ports, settings(config, place), Arc::clone(&zones)));
    let (metrics, events) = (Arc::new(Metrics::new()), EventLog::new());
    let footing = Arc::new(Footing::new(Settings::default().term));
    let rounds = {
        let footing = Arc::clone(&footing);
        let (metrics, events, now) = (Arc::clone(&metrics), events.clone(), Arc::clone(&now));
        let operators = OperatorLog::default();
        let tell = move |happened: &[Event]| {
            metrics.record(happened);
            events.push(happened, now());
            for event in happened {
                inlet.take(event);
                footing.take(event, Instant::now());
                operators.take(event, Instant::now());
            }
        };
        Arc::new(Rounds::new(Arc::clone(&node), Box::new(tell)))
    };
    let _ = inbox.set(Arc::clone(&rounds));
    let (door, logs) = (Arc::clone(&kept.door), Arc::clone(&kept.logs));
    let crew: Arc<dyn punctual_api::Executors> = {
        let (rounds, executors) = (Arc::clone(&rounds), Arc::clone(&switch.executors));
        let (node, natives) = (Arc::clone(&node), Arc::clone(&switch.natives));
        Arc::new(Crew { node, rounds, executors, natives, guard: strict, near })
    };
    let logbook = {
        let now = Arc::clone(&now);
        Logbook::new(
            Arc::clone(&kept.browse),
            Arc::clone(&logs),
            Arc::clone(&crew),
            Arc::new(move || Some(now())),
        )
    };
    let own = Arc::clone(&node);
    let router = punctual_api::router(App {
        node: Arc::clone(&node),
        browse: Arc::clone(&kept.browse),
        door: Arc::clone(&door),
        logs: Arc::clone(&logs),
        executors: crew,
        zones,
        entropy: machine,
        nudge: {
            let rounds = Arc::clone(&rounds);
            Arc::new(move || rounds.nudge())
        },
        check_target: Arc::new(check_target),
        metrics: {
            let (node, places, redis) = (Arc::clone(&node), Arc::clone(places), kept.redis.clone());
            let natives = Arc::clone(&switch.natives);
            Arc::new(move |load| {
                let figures = figures(&node, &places, redis.as_deref(), load);
                metrics.text(Figures { sessions_refused: natives.sessions_refused(), ..figures })
            })
        },
        is_ready: Arc::new(move || is_ready(&node, &footing)),
        others: others(config, place)?,
        peer_secret: place.peer_secret,
        settings: punctual_api::Settings {
            payload_max: config.payload,
            body_max: config.payload + (1 << 18),
            batch_max: config.batch,
            limits: budgets(config),
            opens_metrics: config.opens_metrics,
            opens_document: config.opens_metrics,
            access_token: config.executor_token.clone(),
            // Where others reach the node, what comes from loopback may come for them.
            trusts_loopback: config.trusts_loopback && config.listen.ip().is_loopback(),
            proxies: config.proxies.clone(),
            allows_default_token: config.allows_default_token,
            allows_scripts: config.allows_scripts,
            keeps_runs: config.keep_runs,
            keeps_keys: config.keep_keys,
            configuration: config.shown(),
            ..punctual_api::Settings::default()
        },
        events: events.clone(),
    })?;
    let (site, browse) = (Site::new(router), Arc::clone(&kept.browse));
    Ok(House { node: own, rounds, site, switch, door, events, archive, logs, logbook, browse })
}

/// Forgets answers that were kept long enough, now and then.
pub(crate) async fn forget_answers(
    door: Arc<dyn Door>,
    every: Duration,
    kept: Duration,
    mut end: watch::Receiver<bool>,
) {
    while !*end.borrow_and_update() {
        let before = clock::now().as_millis().saturating_sub(kept.as_millis() as i64);
        if let Err(error) = door.forget_requests(Timestamp::from_millis(before)).await {
            tracing::warn!(%error, "old answers could not be forgotten; that is tried again");
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = end.changed() => {}
        }
    }
}

/// Finishes pauses of apps that a crash, or a store that did not answer, cut in half.
pub(crate) async fn finish_pauses(
    rounds: Arc<Rounds>,
    browse: Arc<dyn Browse>,
    mut end: watch::Receiver<bool>,
) {
    while !*end.borrow_and_update() {
        let pause = rounds.finish_pauses(&*browse).await;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = end.changed() => {}
        }
    }
}

/// What time it is: for the cluster, or for this machine as long as the cluster was not heard.
pub(crate) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

fn cluster_now(rounds: &Arc<OnceLock<Arc<Rounds>>>) -> Now {
    let rounds = Arc::clone(rounds);
    Arc::new(move || rounds.get().and_then(|rounds| rounds.now()).unwrap_or_else(clock::now))
}

/// The way to the other nodes, if there may be any.
fn peers(
    config: &Config,
    kept: &Kept,
    place: &Place,
    rounds: &Arc<OnceLock<Arc<Rounds>>>,
) -> Result<Arc<dyn Peers>, String> {
    let Some(secret) = &place.peer_secret else { return Ok(Arc::new(Alone)) };
    let tls = trust::connector(config.authorities.as_deref())?;
    let mut peers: Arc<dyn Peers> = Arc::new(Hints::new(peer_token(secret), tls));
    if let Some(database) = &kept.listened {
        let rounds = Arc::clone(rounds);
        let hark = Arc::new(move |node: Option<NodeId>, hint| {
            if let Some(rounds) = rounds.get()
                && node.is_none_or(|node| rounds.is_of(node))
            {
                rounds.heed(hint);
            }
        });
        peers = PostgresPeers::new(Arc::clone(database), hark, peers);
    }
    let Some(redis) = &kept.redis else { return Ok(peers) };
    let rounds = Arc::clone(rounds);
    let heed = Arc::new(move |hint| {
        if let Some(rounds) = rounds.get() {
            rounds.heed(hint);
        }
    });
    Ok(RedisPeers::new(Arc::clone(redis), place.address.clone(), heed, peers))
}

/// The way to ask the other nodes, if there may be any.
fn others(config: &Config, place: &Place) -> Result<Arc<dyn Others>, String> {
    let Some(secret) = &place.peer_secret else { return Ok(Arc::new(NoOthers)) };
    let tls = trust::connector(config.authorities.as_deref())?;
    Ok(Arc::new(Cluster(Questions::new(peer_token(secret), tls))))
}

/// A clock that differs by more from the cluster's is worth a word.
const SKEW_MS: i64 = 500;

/// How often clocks are compared.
const CLOCK_EVERY: Duration = Duration::from_secs(5);

/// Where executors mostly are. Whoever may register shows a token, so these need no rule of their own.
const PRIVATE: [&str; 3] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

/// How far this node has fired; known only where it shares its store with nobody.
fn fired(config: &Config, kept: &Kept) -> Arc<dyn FiredMark> {
    if kept.is_shared {
        return Arc::new(Unmarked);
    }
    match FiredFile::open(&config.data.join("punctual.fired")) {
        Ok(file) => Arc::new(file),
        Err(error) => {
            tracing::warn!(%error, "cannot keep a fired mark: after a kill more runs count as possibly sent");
            Arc::new(Unmarked)
        }
    }
}

/// Which addresses may be called for others, beyond public ones: those that are allowed, and `more`.
fn guard(config: &Config, place: &Place, more: &[&str]) -> Result<Guard, String> {
    let allows_loopback = config.listen.ip().is_loopback();
    let rules: Vec<String> =
        config.allow.iter().cloned().chain(more.iter().map(ToString::to_string)).collect();
    let guard = Guard::new(&rules, allows_loopback).map_err(|error| format!("targets.allow: {error}"))?;
    let guard = guard.apart_from(place.listens_on, &place.address);
    Ok(if config.allows_public { guard } else { guard.closed() })
}

/// The way to the executors' door of other nodes, if there are any.
fn dial(config: &Config, place: &Place) -> Result<stream::Dial, String> {
    let Some(secret) = &place.peer_secret else {
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

/// The way to agents and executors.
fn switch(
    config: &Config,
    strict: &Guard,
    near: &Guard,
    inbox: &Arc<OnceLock<Arc<Rounds>>>,
    inlet: &Inlet,
    now: &Now,
    dial: stream::Dial,
) -> Result<Switch, String> {
    let inbox = Arc::clone(inbox);
    let sink: Sink = Arc::new(move |heard: Vec<Heard>| {
        if let Some(rounds) = inbox.get() {
            rounds.hear(heard);
        }
    });
    let agents = Agents::new(Setup {
        runtime: Handle::current(),
        options: agent_options(config),
        guard: strict.clone(),
        now: Arc::clone(now),
        entropy: Arc::new(Machine),
        sink: Arc::clone(&sink),
    })?;
    let executors = Executors::new(xxl::Setup {
        runtime: Handle::current(),
        options: xxl::Options { extra_roots: config.authorities.clone(), ..xxl::Options::default() },
        guard: near.clone(),
        listed: strict.clone(),
        now: Arc::clone(now),
        sink: Arc::clone(&sink),
        access_token: config.executor_token.clone(),
    })?;
    let inlet = inlet.clone();
    let natives = Natives::new(stream::Setup {
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
        // Executors tell nodes apart by it, so it has to be one of a kind.
        node: format!("{}-{:016x}", config.node.as_deref().unwrap_or("node"), Machine.bits()),
        dial,
    });
    let (agents, executors, natives) = (Arc::new(agents), Arc::new(executors), Arc::new(natives));
    Ok(Switch { agents, executors, natives })
}

/// A connection for every call that the node's pools have a place for: where one is short, what is decided by places would be
/// decided again by who comes first.
fn agent_options(config: &Config) -> Options {
    let connections = config.calls_max();
    let extra_roots = config.authorities.clone();
    Options { connections, connections_per_host: connections, extra_roots, ..Options::default() }
}

fn check_target(http: &Http) -> Vec<(String, String)> {
    let faults = punctual_dispatch::check(http).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.pointer, fault.reason)).collect()
}

/// How much callers may hold at once. Streams hold connections, and half of those are for others.
fn budgets(config: &Config) -> punctual_api::Limits {
    punctual_api::Limits {
        buffered: config.buffered,
        buffered_per_caller: config.buffered_per_caller,
        streams: config.streams.min(config.connections.div_ceil(2)),
        streams_per_token: config.streams_per_token,
    }
}

fn figures(node: &Node, places: &Places, redis: Option<&Redis>, load: punctual_api::Load) -> Figures {
    let (loaded, running) = node.load_figures();
    let (backlog, connections) = (node.backlog(), places.counts());
    Figures {
        loaded: loaded as u64,
        running: running as u64,
        due: backlog.due,
        oldest_due_ms: backlog.oldest.map_or(0, |age| age.as_millis() as u64),
        time_held_ms: node.time_held().map_or(0, |held| held.as_millis() as u64),
        shards: node.shards_held() as u64,
        nodes: node.nodes().len() as u64,
        skew_ms: skew(node),
        redis_overruled: redis.map_or(0, |redis| redis.figures().overruled),
        strangers: connections.strangers,
        connections: connections.strangers + connections.callers + connections.kept,
        connections_evicted: connections.evicted,
        sessions_refused: 0,
        streams: load.streams,
        buffered: load.buffered,
        bodies_refused: load.bodies_refused,
        streams_refused: load.streams_refused,
        streams_ended: load.streams_ended,
        callbacks_refused: load.callbacks_refused,
    }
}

/// By how much this machine's clock is ahead of the cluster's. Nothing is decided by it.
fn skew(node: &Node) -> i64 {
    node.now().map_or(0, |now| clock::now().as_millis() - now.as_millis())
}

/// Says when this machine's clock and the database's disagree, and when they agree again.
pub(crate) async fn watch_clock(node: Arc<Node>, mut end: watch::Receiver<bool>) {
    let mut was_off = false;
    while !*end.borrow_and_update() {
        let skew = skew(&node);
        let is_off = skew.abs() > SKEW_MS;
        if is_off && !was_off {
            tracing::warn!(
                millis = skew,
                "this machine's clock and the database's disagree: let both follow a time server. Runs follow the database's"
            );
        } else if was_off && !is_off {
            tracing::info!("this machine's clock and the database's agree again");
        }
        was_off = is_off;
        tokio::select! {
            () = tokio::time::sleep(CLOCK_EVERY) => {}
            _ = end.changed() => {}
        }
    }
}

/// A node whose time stands still for longer than this is not ready. Shorter halts are those of clocks that are compared.
const HELD_LONG: Duration = Duration::from_secs(5);

fn is_ready(node: &Node, footing: &Footing) -> Result<(), String> {
    if !node.is_in() {
        let is_drained = node.nodes().iter().any(|one| one.is_self && one.is_drained);
        return Err(footing.absence(is_drained, Instant::now()));
    }
    if !node.is_ready() {
        return Err("the node has not yet read which executors are there".into());
    }
    if let Some(held) = node.time_held().filter(|held| *held >= HELD_LONG) {
        let seconds = held.as_secs();
        return Err(format!("the database's clock was set back: nothing fires for another {seconds} s"));
    }
    let complaint = footing.complaint(Instant::now());
    complaint.filter(|_| node.shards_held() == 0).map_or(Ok(()), Err)
}

fn settings(config: &Config, place: &Place) -> Settings {
    Settings {
        horizon: config.plan,
        look_every: config.look_every,
        load_ahead: config.load,
        load_max: config.load_max,
        limits: Limits {
            fast_open: config.fast,
            fast_queue: config.fast_queue,
            slow_open: config.slow,
            slow_queue: config.slow_queue,
            overflow: config.overflow,
        },
        registry: RegistrySettings {
            beat: config.beat,
            dead: config.dead,
            sweep: config.sweep,
            wait: config.wait,
            ..RegistrySettings::default()
        },
        retention: config.keep_runs,
        name: Text::Owned(config.node.clone().unwrap_or_else(clock::host_name)),
        address: Text::Owned(place.address.clone()),
        ..Settings::default()
    }
}

/// Tells executors that have a session where the nodes are, beside whoever tells the nodes.
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

/// The only node there is.
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
