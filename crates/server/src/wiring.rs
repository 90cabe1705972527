//! Wiring: the one place that knows everyone, and hands each what it needs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use calendar::{Timestamp, Zones};
use punctual_api::{App, EventLog, FirstAdmin};
use punctual_core::event::Event;
use punctual_core::model::{Http, NodeId, Text};
use punctual_core::policy::Limits;
use punctual_dispatch::{Agents, Guard, Options, Setup};
use punctual_node::ports::{Door, Hint, Peers, Report};
use punctual_node::{Node, Ports, Settings};
use punctual_observe::{Figures, Metrics};
use punctual_store::Sqlite;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::clock::{self, Machine};
use crate::config::Config;
use crate::loops::Rounds;

/// A node with everything around it, ready to run.
pub(crate) struct House {
    pub(crate) rounds: Arc<Rounds>,
    pub(crate) router: Router,
    pub(crate) agents: Arc<Agents>,
    pub(crate) door: Arc<dyn Door>,
    pub(crate) events: EventLog,
}

pub(crate) fn build(config: &Config, store: Arc<Sqlite>) -> Result<House, String> {
    let zones = Arc::new(Zones::bundled());
    let machine = Arc::new(Machine);
    // Agents answer into the rounds, and the rounds hold the node, which holds the agents.
    let inbox: Arc<OnceLock<Arc<Rounds>>> = Arc::default();
    let agents = Arc::new(agents(config, Arc::clone(&inbox))?);
    let ports = Ports {
        clock: Arc::clone(&machine) as _,
        entropy: Arc::clone(&machine) as _,
        store: Arc::clone(&store) as _,
        dispatch: Arc::clone(&agents) as _,
        peers: Arc::new(Alone),
    };
    let node = Arc::new(Node::new(ports, settings(config), Arc::clone(&zones)));
    let (metrics, events) = (Arc::new(Metrics::new()), EventLog::new());
    let rounds = {
        let (metrics, events) = (Arc::clone(&metrics), events.clone());
        let tell = move |happened: &[Event]| {
            metrics.record(happened);
            events.push(happened, clock::now());
            happened.iter().for_each(log);
        };
        Arc::new(Rounds::new(Arc::clone(&node), Box::new(tell)))
    };
    let _ = inbox.set(Arc::clone(&rounds));
    let door: Arc<dyn Door> = Arc::clone(&store) as _;
    let router = punctual_api::router(App {
        node: Arc::clone(&node),
        browse: store,
        door: Arc::clone(&door),
        zones,
        entropy: machine,
        nudge: {
            let rounds = Arc::clone(&rounds);
            Arc::new(move || rounds.nudge())
        },
        check_target: Arc::new(check_target),
        metrics: {
            let node = Arc::clone(&node);
            Arc::new(move || metrics.text(figures(&node)))
        },
        is_ready: Arc::new(move || is_ready(&node)),
        settings: punctual_api::Settings {
            payload_max: config.payload,
            body_max: config.payload + (1 << 18),
            batch_max: config.batch,
            opens_metrics: config.opens_metrics,
            opens_document: config.opens_metrics,
            ..punctual_api::Settings::default()
        },
        events: events.clone(),
    })?;
    Ok(House { rounds, router, agents, door, events })
}

/// The first admin's token, if this start made or was given it.
pub(crate) async fn first_token(store: &Arc<Sqlite>, config: &Config) -> Result<Option<String>, String> {
    let door: Arc<dyn Door> = Arc::clone(store) as _;
    let given = config.admin_token.as_deref();
    let first = punctual_api::first_admin(&door, &Machine, clock::now(), given).await;
    match first.map_err(|error| format!("cannot keep the first token: {error}"))? {
        FirstAdmin::Kept => Ok(None),
        FirstAdmin::Given => Ok(config.admin_token.clone()),
        FirstAdmin::Made(token) => Ok(Some(token)),
    }
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

fn agents(config: &Config, inbox: Arc<OnceLock<Arc<Rounds>>>) -> Result<Agents, String> {
    let allows_loopback = config.listen.ip().is_loopback();
    let guard =
        Guard::new(&config.allow, allows_loopback).map_err(|error| format!("targets.allow: {error}"))?;
    let guard = if config.allows_public { guard } else { guard.closed() };
    let sink = move |reports: Vec<Report>| {
        if let Some(rounds) = inbox.get() {
            rounds.report(reports);
        }
    };
    Agents::new(Setup {
        runtime: Handle::current(),
        options: Options { extra_roots: config.authorities.clone(), ..Options::default() },
        guard,
        now: Arc::new(clock::now),
        entropy: Arc::new(Machine),
        sink: Arc::new(sink),
    })
}

fn check_target(http: &Http) -> Vec<(String, String)> {
    let faults = punctual_dispatch::check(http).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.pointer, fault.reason)).collect()
}

fn figures(node: &Node) -> Figures {
    let (loaded, running) = node.load_figures();
    Figures { loaded: loaded as u64, running: running as u64, shards: node.shards_held() as u64 }
}

fn is_ready(node: &Node) -> Result<(), String> {
    if node.now().is_none() || node.shards_held() == 0 {
        return Err("the node has not joined yet".into());
    }
    Ok(())
}

fn settings(config: &Config) -> Settings {
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
        },
        retention: config.keep_runs,
        address: config.advertise.clone().map_or(Text::Borrowed(""), Text::Owned),
        ..Settings::default()
    }
}

/// What operators should find in the log; everything else is counted.
fn log(event: &Event) {
    match event {
        Event::JobStopped { job, reason } => tracing::info!(%job, %reason, "a job stopped"),
        Event::Missed { job, from, until, count, reason } => {
            tracing::warn!(%job, %from, %until, count, %reason, "fire times were passed over");
        }
        Event::ClockStepped { millis } => tracing::warn!(millis, "the clock was set"),
        Event::StoreFailed { step, reason } => {
            tracing::error!(step, %reason, "the store did not do what it was asked");
        }
        Event::ShardTaken { shard, epoch } => tracing::debug!(%shard, %epoch, "took a shard"),
        Event::ShardLeft { shard } => tracing::debug!(%shard, "left a shard"),
        _ => {}
    }
}

/// The only node there is.
struct Alone;

impl Peers for Alone {
    fn tell(&self, _: NodeId, _: Hint) {}
}
