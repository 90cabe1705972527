//! Loops beside the node's steps: they forget old answers, finish pauses, compare clocks, and report dropped log
//! lines.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_node::Node;
use punctual_node::ports::{Browse, Door};
use tokio::sync::watch;

use crate::clock;
use crate::logs::{LineBudget, WINDOW};
use crate::loops::Rounds;

/// The difference to the cluster's clock from which a line is logged.
const SKEW_MS: i64 = 500;

/// How often clocks are compared.
const CLOCK_EVERY: Duration = Duration::from_secs(5);

/// Forgets answers that were kept long enough, at intervals.
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
            () = clock::sleep(every) => {}
            _ = end.changed() => {}
        }
    }
}

/// Finishes pauses of apps that were interrupted by a crash, or by a store that did not answer.
pub(crate) async fn finish_pauses(
    rounds: Arc<Rounds>,
    browse: Arc<dyn Browse>,
    mut end: watch::Receiver<bool>,
) {
    while !*end.borrow_and_update() {
        let pause = rounds.finish_pauses(&*browse).await;
        tokio::select! {
            () = clock::sleep(pause) => {}
            _ = end.changed() => {}
        }
    }
}

/// Reports how many log lines were dropped, once for each window.
pub(crate) async fn tell_left_out(budget: LineBudget, mut end: watch::Receiver<bool>) {
    while !*end.borrow_and_update() {
        tokio::select! {
            () = clock::sleep(WINDOW) => {}
            _ = end.changed() => {}
        }
        budget.tell();
    }
}

/// By how much this machine's clock is ahead of the cluster's. No decision depends on it.
pub(crate) fn skew(node: &Node) -> i64 {
    node.now().map_or(0, |now| clock::now().as_millis() - now.as_millis())
}

/// Logs when this machine's clock and the database's disagree, and when they agree again.
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
            () = clock::sleep(CLOCK_EVERY) => {}
            _ = end.changed() => {}
        }
    }
}
