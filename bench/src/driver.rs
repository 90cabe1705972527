//! The loops around a node's steps: run the step, wake the others it made due, wait until the moment it named.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::event::Event;
use punctual_node::ports::{Boot, Clock};
use punctual_node::{Node, Wakes};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::clock::Watch;
use crate::outside::Ledger;

/// A node whose steps run by themselves.
pub(crate) struct Driver {
    rounds: Arc<Rounds>,
    tasks: JoinSet<()>,
}

/// What the loops have in common.
struct Rounds {
    node: Arc<Node>,
    watch: Arc<Watch>,
    bells: Bells,
    failures: AtomicU64,
}

/// One bell a step.
#[derive(Default)]
struct Bells {
    renew: Notify,
    plan: Notify,
    load: Notify,
    fire: Notify,
    settle: Notify,
    reap: Notify,
    tend: Notify,
}

impl Bells {
    fn ring(&self, wakes: Wakes) {
        let bells = [
            (wakes.renew, &self.renew),
            (wakes.plan, &self.plan),
            (wakes.load, &self.load),
            (wakes.fire, &self.fire),
            (wakes.settle, &self.settle),
            (wakes.reap, &self.reap),
            (wakes.tend, &self.tend),
        ];
        bells.into_iter().filter(|(is_due, _)| *is_due).for_each(|(_, bell)| bell.notify_one());
    }
}

impl Driver {
    /// Starts a loop for each step, and one that brings back what executors say.
    pub(crate) fn start(node: &Arc<Node>, watch: &Arc<Watch>, executors: &Arc<Ledger>) -> Driver {
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

    /// Looks whether somebody was woken from outside of the steps, such as by a submission.
    pub(crate) fn ring(&self) {
        self.rounds.bells.ring(self.rounds.node.take_wakes());
    }

    /// How often the store did not do what it was asked.
    pub(crate) fn failures(&self) -> u64 {
        self.rounds.failures.load(Ordering::Relaxed)
    }

    /// Ends the loops and waits for them.
    pub(crate) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Rounds {
    /// Ends only when its task is ended.
    async fn go<F: Future<Output = Boot>>(&self, bell: &Notify, step: impl Fn() -> F) {
        loop {
            let next = step().await;
            self.bells.ring(self.node.take_wakes());
            self.note(&self.node.take_events());
            let pause = next.since(self.watch.boot());
            if pause.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = bell.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Ends only when its task is ended.
    async fn listen(&self, executors: &Ledger) {
        loop {
            for report in executors.answered().await {
                self.node.report(report);
            }
            self.bells.ring(self.node.take_wakes());
        }
    }

    fn note(&self, events: &[Event]) {
        let is_failure = |event: &&Event| matches!(event, Event::StoreFailed { .. } | Event::Missed { .. });
        let count = events.iter().filter(is_failure).count();
        self.failures.fetch_add(count as u64, Ordering::Relaxed);
    }
}
