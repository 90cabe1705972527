//! Wiring: the one place that knows every crate and connects them.

mod figures;
mod reach;

use std::net::SocketAddr;
use std::sync::Arc;

use calendar::{Timestamp, Zones};
use punctual_api::{App, Logbook};
use punctual_core::event::Event;
use punctual_core::model::{Http, Text};
use punctual_core::policy::Limits;
use punctual_dispatch::Switch;
use punctual_node::ports::{Browse, Digest, Door, FiredMark, Logs, Unmarked};
use punctual_node::{Node, Ports, RegistrySettings, Settings};
use punctual_observe::{EventLog, Figures, Metrics};

use self::reach::{LateRounds, Reach};
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

/// A node with all its parts, ready to run.
pub(crate) struct Assembly {
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

/// This node's addresses, and the secret that it shares with the other nodes.
pub(crate) struct NodeIdentity {
    /// The address on which it listens.
    pub(crate) listens_on: SocketAddr,
    /// The address at which others reach it; empty if they cannot.
    pub(crate) address: String,
    /// The secret that nodes show each other; none if there are no others.
    pub(crate) peer_secret: Option<Digest>,
}

/// The cluster's time; this machine's time until the node has heard the cluster's.
pub(crate) type ClusterClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Builds the server from the inside out: its outgoing connections, the node, its rounds, and the API in front of
/// them.
pub(crate) fn build(
    config: &Config,
    kept: &Kept,
    identity: &NodeIdentity,
    places: &Arc<Places>,
) -> Result<Assembly, String> {
    let rounds = LateRounds::default();
    let (inlet, archive) = archive::open();
    let reach = Reach::build(config, kept, identity, &rounds, &inlet)?;
    let zones = Arc::new(Zones::bundled());
    let node = node(config, kept, identity, &reach, &zones);
    let (metrics, events) = (Arc::new(Metrics::new()), EventLog::new());
    let footing = Arc::new(Footing::new(Settings::default().term));
    let listeners = Listeners {
        metrics: Arc::clone(&metrics),
        events: events.clone(),
        now: Arc::clone(&reach.now),
        inlet,
        footing: Arc::clone(&footing),
        operators: OperatorLog::default(),
    };
    let rounds = rounds.set(Rounds::new(Arc::clone(&node), Box::new(move |events| listeners.tell(events))));
    let places = Arc::clone(places);
    let parts =
        Parts { config, kept, identity, places, reach, zones, node, rounds, metrics, events, footing };
    parts.assemble(archive)
}

fn node(
    config: &Config,
    kept: &Kept,
    identity: &NodeIdentity,
    reach: &Reach,
    zones: &Arc<Zones>,
) -> Arc<Node> {
    let machine = Arc::new(Machine);
    let ports = Ports {
        clock: Arc::clone(&machine) as _,
        entropy: machine,
        store: Arc::clone(&kept.store),
        apps: Arc::clone(&kept.apps),
        records: Arc::new(Arc::clone(&kept.browse)),
        dispatch: Arc::clone(&reach.switch) as _,
        peers: Arc::clone(&reach.peers),
        fired: fired(config, kept),
    };
    Arc::new(Node::new(ports, settings(config, identity), Arc::clone(zones)))
}

/// The receivers of the node's events.
struct Listeners {
    metrics: Arc<Metrics>,
    events: EventLog,
    now: ClusterClock,
    inlet: Inlet,
    footing: Arc<Footing>,
    operators: OperatorLog,
}

impl Listeners {
    fn tell(&self, happened: &[Event]) {
        self.metrics.record(happened);
        self.events.push(happened, (self.now)());
        for event in happened {
            self.inlet.take(event);
            self.footing.take(event, clock::instant());
            self.operators.take(event, clock::instant());
        }
    }
}

/// All parts except the API, which uses some of each.
struct Parts<'a> {
    config: &'a Config,
    kept: &'a Kept,
    identity: &'a NodeIdentity,
    places: Arc<Places>,
    reach: Reach,
    zones: Arc<Zones>,
    node: Arc<Node>,
    rounds: Arc<Rounds>,
    metrics: Arc<Metrics>,
    events: EventLog,
    footing: Arc<Footing>,
}

impl Parts<'_> {
    fn assemble(self, archive: Archive) -> Result<Assembly, String> {
        let crew = self.crew();
        let logbook = self.logbook(&crew);
        let site = Site::new(punctual_api::router(self.app(crew)?)?);
        Ok(Assembly {
            site,
            archive,
            logbook,
            node: self.node,
            rounds: self.rounds,
            switch: self.reach.switch,
            door: Arc::clone(&self.kept.door),
            events: self.events,
            logs: Arc::clone(&self.kept.logs),
            browse: Arc::clone(&self.kept.browse),
        })
    }

    fn crew(&self) -> Arc<dyn punctual_api::Executors> {
        Arc::new(Crew {
            node: Arc::clone(&self.node),
            rounds: Arc::clone(&self.rounds),
            executors: Arc::clone(&self.reach.switch.executors),
            natives: Arc::clone(&self.reach.switch.natives),
            guard: self.reach.strict.clone(),
            near: self.reach.near.clone(),
        })
    }

    fn logbook(&self, crew: &Arc<dyn punctual_api::Executors>) -> Logbook {
        let now = Arc::clone(&self.reach.now);
        let (browse, logs) = (Arc::clone(&self.kept.browse), Arc::clone(&self.kept.logs));
        Logbook::new(browse, logs, Arc::clone(crew), Arc::new(move || Some(now())))
    }

    fn app(&self, crew: Arc<dyn punctual_api::Executors>) -> Result<App, String> {
        let rounds = Arc::clone(&self.rounds);
        let (node, footing) = (Arc::clone(&self.node), Arc::clone(&self.footing));
        Ok(App {
            node: Arc::clone(&self.node),
            browse: Arc::clone(&self.kept.browse),
            door: Arc::clone(&self.kept.door),
            logs: Arc::clone(&self.kept.logs),
            executors: crew,
            zones: Arc::clone(&self.zones),
            entropy: Arc::new(Machine),
            nudge: Arc::new(move || rounds.nudge()),
            check_target: Arc::new(check_target),
            metrics: self.metrics_text(),
            is_ready: Arc::new(move || figures::is_ready(&node, &footing)),
            others: reach::others(self.config, self.identity)?,
            peer_secret: self.identity.peer_secret,
            settings: api_settings(self.config),
            events: self.events.clone(),
        })
    }

    fn metrics_text(&self) -> Arc<dyn Fn(punctual_api::Load) -> String + Send + Sync> {
        let (node, places, redis) =
            (Arc::clone(&self.node), Arc::clone(&self.places), self.kept.redis.clone());
        let (natives, metrics) = (Arc::clone(&self.reach.switch.natives), Arc::clone(&self.metrics));
        Arc::new(move |load| {
            let figures = figures::figures(&node, &places, redis.as_deref(), load);
            metrics.text(Figures { sessions_refused: natives.sessions_refused(), ..figures })
        })
    }
}

/// The fired mark; known only if this node is the only one that uses its store.
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

fn settings(config: &Config, identity: &NodeIdentity) -> Settings {
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
        classes: config.classes.clone(),
        registry: RegistrySettings {
            beat: config.beat,
            dead: config.dead,
            sweep: config.sweep,
            wait: config.wait,
            ..RegistrySettings::default()
        },
        retention: config.keep_runs,
        name: Text::Owned(config.node.clone().unwrap_or_else(clock::host_name)),
        address: Text::Owned(identity.address.clone()),
        ..Settings::default()
    }
}

fn api_settings(config: &Config) -> punctual_api::Settings {
    punctual_api::Settings {
        payload_max: config.payload,
        body_max: config.payload + (1 << 18),
        batch_max: config.batch,
        limits: budgets(config),
        opens_metrics: config.opens_metrics,
        opens_document: config.opens_metrics,
        access_token: config.executor_token.clone(),
        // If others can reach the node, a call from loopback may be made on their behalf.
        trusts_loopback: config.trusts_loopback && config.listen.ip().is_loopback(),
        proxies: config.proxies.clone(),
        allows_default_token: config.allows_default_token,
        allows_scripts: config.allows_scripts,
        classes: config.classes.clone(),
        keeps_runs: config.keep_runs,
        keeps_keys: config.keep_keys,
        configuration: config.shown(),
        ..punctual_api::Settings::default()
    }
}

/// How much callers may hold at once. A stream holds a connection, and half of the connections are left for others.
fn budgets(config: &Config) -> punctual_api::Limits {
    punctual_api::Limits {
        buffered: config.buffered,
        buffered_per_caller: config.buffered_per_caller,
        streams: config.streams.min(config.connections.div_ceil(2)),
        streams_per_token: config.streams_per_token,
    }
}

fn check_target(http: &Http) -> Vec<(String, String)> {
    let faults = punctual_dispatch::check(http).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.pointer, fault.reason)).collect()
}
