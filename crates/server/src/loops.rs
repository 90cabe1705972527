//! The loops around a node's steps: run the step, ring the bells of steps that it made due, wait until the instant it
//! named.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::NodeId;
use punctual_node::ports::{Boot, Browse, Clock, Heard, Hint};
use punctual_node::{Bells, Node};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::clock::{self, Machine};

/// Called with the node's events.
pub(crate) type Listener = Box<dyn Fn(&[Event]) + Send + Sync>;

/// A node with a bell for each of its steps.
pub(crate) struct Rounds {
    node: Arc<Node>,
    bells: Bells<Notify>,
    listener: Listener,
}

impl Rounds {
    pub(crate) fn new(node: Arc<Node>, listener: Listener) -> Rounds {
        Rounds { node, bells: Bells::default(), listener }
    }

    /// The cluster's time, if it is known.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.node.now()
    }

    /// Whether these are the rounds of this node.
    pub(crate) fn is_of(&self, node: NodeId) -> bool {
        self.node.id() == node
    }

    /// Takes messages of agents and executors.
    pub(crate) fn hear(&self, heard: Vec<Heard>) {
        self.node.heard(heard);
        self.nudge();
    }

    /// Takes a hint of another node.
    pub(crate) fn heed(&self, hint: Hint) {
        self.node.hear(hint);
        self.nudge();
    }

    /// Rings the bell of every step that has become due, and passes on the events.
    pub(crate) fn nudge(&self) {
        self.bells.due(self.node.take_wakes()).for_each(Notify::notify_one);
        let events = self.node.take_events();
        if !events.is_empty() {
            (self.listener)(&events);
        }
    }

    /// Starts a loop for each step. Loops that begin work end when `stop` is set; the others when `end` is.
    pub(crate) fn start(
        self: &Arc<Self>,
        beginning: &mut JoinSet<()>,
        keeping: &mut JoinSet<()>,
        stop: &watch::Receiver<bool>,
        end: &watch::Receiver<bool>,
    ) {
        macro_rules! start {
            ($tasks:expr, $until:expr; $($step:ident),*) => {
                $({
                    let (rounds, until) = (Arc::clone(self), $until.clone());
                    $tasks.spawn(async move {
                        rounds.go(&rounds.bells.$step, || rounds.node.$step(), until).await;
                    });
                })*
            };
        }
        start!(beginning, stop; plan, load, fire);
        start!(keeping, end; renew, settle, reap, tend, watch);
    }

    async fn go<F: Future<Output = Boot>>(
        &self,
        bell: &Notify,
        step: impl Fn() -> F,
        mut until: watch::Receiver<bool>,
    ) {
        while !*until.borrow_and_update() {
            let next = step().await;
            self.nudge();
            let pause = next.since(Machine.boot());
            if pause.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = bell.notified() => {}
                () = clock::sleep(pause) => {}
                _ = until.changed() => {}
            }
        }
    }

    /// Finishes pauses that were interrupted, and returns how long to wait before the next look.
    pub(crate) async fn finish_pauses(&self, browse: &dyn Browse) -> Duration {
        let next = self.node.finish_pauses(browse).await;
        self.nudge();
        next.since(Machine.boot())
    }

    /// Settles pending reports, for a clean stop.
    pub(crate) async fn finish(&self, bound: Duration) {
        if tokio::time::timeout(bound, self.node.settle()).await.is_err() {
            tracing::warn!("stopped with reports that are not settled; executors will deliver them again");
        }
    }

    /// Gives all shards back, so that other nodes go on at once. Attempts that are on their way are settled as they
    /// end.
    pub(crate) async fn leave(&self, bound: Duration) {
        match tokio::time::timeout(bound, self.node.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the shards could not be given back; they run out by themselves")
            }
            Err(_) => tracing::warn!("the shards were not given back in time; they run out by themselves"),
        }
        self.nudge();
    }
}
