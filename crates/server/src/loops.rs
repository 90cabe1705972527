//! The loops around a node's steps: run the step, ring for the others that it made due, wait until the moment it named.

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

/// Whoever is told what happened.
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

    /// The cluster's time, as far as it is known.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.node.now()
    }

    /// Whether they are those of this node.
    pub(crate) fn is_of(&self, node: NodeId) -> bool {
        self.node.id() == node
    }

    /// Takes what agents and executors said.
    pub(crate) fn hear(&self, heard: Vec<Heard>) {
        self.node.heard(heard);
        self.nudge();
    }

    /// Takes a hint of another node.
    pub(crate) fn heed(&self, hint: Hint) {
        self.node.hear(hint);
        self.nudge();
    }

    /// Rings for whatever has become due, and tells what happened.
    pub(crate) fn nudge(&self) {
        self.bells.due(self.node.take_wakes()).for_each(Notify::notify_one);
        let events = self.node.take_events();
        if !events.is_empty() {
            (self.listener)(&events);
        }
    }

    /// Starts a loop for each step. Those that begin work end when `stop` says so; the others when `end` does.
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

    /// Finishes pauses that were cut in half, and says when to look again.
    pub(crate) async fn finish_pauses(&self, browse: &dyn Browse) -> Duration {
        let next = self.node.finish_pauses(browse).await;
        self.nudge();
        next.since(Machine.boot())
    }

    /// Settles what was reported, for a clean stop.
    pub(crate) async fn finish(&self, bound: Duration) {
        if tokio::time::timeout(bound, self.node.settle()).await.is_err() {
            tracing::warn!(
                "not everything that was reported could be settled; whoever said it says it again"
            );
        }
    }

    /// Gives everything back, so that other nodes go on at once. What is on its way is settled as it ends.
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
