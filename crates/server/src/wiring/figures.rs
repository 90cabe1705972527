//! What monitoring sees: the figures of `/metrics`, and the answer of `/readyz`.

use std::time::Duration;

use punctual_node::Node;
use punctual_observe::Figures;
use punctual_store::redis::Redis;

use crate::chores::skew;
use crate::clock;
use crate::footing::Footing;
use crate::listen::Places;

pub(super) fn figures(
    node: &Node,
    places: &Places,
    redis: Option<&Redis>,
    load: punctual_api::Load,
) -> Figures {
    let (loaded, running) = node.load_figures();
    let (backlog, connections) = (node.backlog(), places.counts());
    Figures {
        loaded: loaded as u64,
        running: running as u64,
        due: backlog.due,
        oldest_due_ms: backlog.oldest.map_or(0, |age| age.as_millis() as u64),
        time_held_ms: node.time_held().map_or(0, |held| held.as_millis() as u64),
        shards: node.shards_held() as u64,
        nodes: node.nodes().iter().filter(|one| one.is_self || !one.is_drained).count() as u64,
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
        calls_unauthenticated: load.calls_refused.unauthenticated,
        calls_too_often: load.calls_refused.too_often,
        calls_too_large: load.calls_refused.too_large,
        calls_too_slow: load.calls_refused.too_slow,
    }
}

/// A node whose time stands still for longer than this is not ready. Shorter halts come from comparing clocks.
const HELD_LONG: Duration = Duration::from_secs(5);

pub(super) fn is_ready(node: &Node, footing: &Footing) -> Result<(), String> {
    if !node.is_in() {
        let is_drained = node.nodes().iter().any(|one| one.is_self && one.is_drained);
        return Err(footing.absence(is_drained, clock::instant()));
    }
    if !node.is_ready() {
        return Err("the node has not yet read which executors are there".into());
    }
    if let Some(held) = node.time_held().filter(|held| *held >= HELD_LONG) {
        let seconds = held.as_secs();
        return Err(format!("the database's clock was set back: nothing fires for another {seconds} s"));
    }
    if let Some((step, reason)) = node.failing_for(footing.patience()) {
        let seconds = footing.patience().as_secs();
        return Err(format!(
            "for {seconds} s and longer the database has refused every attempt to {step}: {reason}"
        ));
    }
    let complaint = footing.complaint(clock::instant());
    complaint.filter(|_| node.shards_held() == 0).map_or(Ok(()), Err)
}
