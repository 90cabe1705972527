//! The loops around a node's steps: run the step, wake the steps that it made due, sleep until the moment that it named.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::event::Event;
use punctual_node::ports::{Boot, Clock};
use punctual_node::{Bells, Node};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::clock::{self, Watch};
use crate::outside::InstantExecutors;

/// A node whose steps run by themselves.
pub(crate) struct Driver {
    rounds: Arc<Rounds>,
    tasks: JoinSet<()>,
}

/// What the loops have in common.
struct Rounds {
    node: Arc<Node>,
    watch: Arc<Watch>,
    bells: Bells<Notify>,
    failures: AtomicU64,
}

impl Driver {
    /// Starts a loop for each step, and one that delivers reports.
    pub(crate) fn start(node: &Arc<Node>, watch: &Arc<Watch>, executors: &Arc<InstantExecutors>) -> Driver {
        let (node, watch) = (Arc::clone(node), Arc::clone(watch));
        let rounds = Arc::new(Rounds { node, watch, bells: Bells::default(), failures: AtomicU64::new(0) });
        let mut tasks = JoinSet::new();
        macro_rules! start {
            ($($step:ident),*) => {
                $({
                    let rounds = Arc::clone(&rounds);
                    tasks.spawn(async move { rounds.go(&rounds.bells.$step, || rounds.node.$step()).await });
                })*
            };
        }
        start!(renew, plan, load, fire, settle, reap, tend);
        let (told, executors) = (Arc::clone(&rounds), Arc::clone(executors));
        tasks.spawn(async move { told.listen(&executors).await });
        Driver { rounds, tasks }
    }

    /// Wakes the steps that were made due from outside, such as by a submission.
    pub(crate) fn ring(&self) {
        self.rounds.ring();
    }

    /// Number of failed calls to the store.
    pub(crate) fn failures(&self) -> u64 {
        self.rounds.failures.load(Ordering::Relaxed)
    }

    /// Ends the loops and waits for them.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Rounds {
    fn ring(&self) {
        self.bells.due(self.node.take_wakes()).for_each(Notify::notify_one);
    }

    /// Runs until its task is aborted.
    async fn go<F: Future<Output = Boot>>(&self, bell: &Notify, step: impl Fn() -> F) {
        loop {
            let next = step().await;
            self.ring();
            self.note(&self.node.take_events());
            let pause = next.since(self.watch.boot());
            if pause.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = bell.notified() => {}
                () = clock::sleep(pause) => {}
            }
        }
    }

    /// Runs until its task is aborted.
    async fn listen(&self, executors: &InstantExecutors) {
        loop {
            for report in executors.answered().await {
                self.node.report(report);
            }
            self.ring();
        }
    }

    fn note(&self, events: &[Event]) {
        let is_failure = |event: &&Event| matches!(event, Event::StoreFailed { .. } | Event::Missed { .. });
        let count = events.iter().filter(is_failure).count();
        self.failures.fetch_add(count as u64, Ordering::Relaxed);
    }
}
