//! Messages for an executor that are not sent yet, in their order: acknowledged reports, kills, runs.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::Dispatched;
use punctual_protocol::native::{Cancel, Held, Refusal};
use tokio::sync::Notify;

/// How a session is to end.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The node stops.
    Goodbye(String),
    /// The executor did something wrong, or another session took its place.
    Refused(Refusal),
}

/// What has gathered.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) kept: Vec<Held>,
    pub(super) cancels: Vec<Cancel>,
    pub(super) runs: Vec<Dispatched>,
    /// The addresses of the nodes, if they have changed.
    pub(super) nodes: Option<Vec<String>>,
    /// How many runs wait for credits.
    pub(super) want: Option<u64>,
    /// Messages of other nodes that go through this one, as they came.
    pub(super) carried: Vec<String>,
    pub(super) end: Option<End>,
}

/// A queue with many senders and one writer.
#[derive(Default)]
pub(super) struct Outbox {
    gathered: Mutex<Gathered>,
    news: Notify,
}

impl Outbox {
    pub(super) fn keep(&self, kept: impl Iterator<Item = Held>) {
        self.add(|gathered| gathered.kept.extend(kept));
    }

    pub(super) fn send(&self, runs: Vec<Dispatched>) {
        self.add(|gathered| gathered.runs.extend(runs));
    }

    pub(super) fn tell_nodes(&self, nodes: Vec<String>) {
        self.add(|gathered| gathered.nodes = Some(nodes));
    }

    pub(super) fn want(&self, runs: u64) {
        self.add(|gathered| gathered.want = Some(runs));
    }

    pub(super) fn carry(&self, said: String) {
        self.add(|gathered| gathered.carried.push(said));
    }

    /// Takes a run back if it was not sent yet, and returns whether it could; otherwise the executor is told to end
    /// it.
    pub(super) fn cancel(&self, cancel: Cancel) -> bool {
        let (run, attempt) = (RunId(cancel.run), Attempt(cancel.attempt));
        let mut is_unsent = false;
        self.add(|gathered| {
            let before = gathered.runs.len();
            gathered.runs.retain(|waiting| (waiting.run, waiting.attempt) != (run, attempt));
            is_unsent = gathered.runs.len() < before;
            if !is_unsent {
                gathered.cancels.push(cancel);
            }
        });
        is_unsent
    }

    /// Another session has taken the place of this one: its unsent messages are dropped.
    pub(super) fn drop_runs(&self) {
        let mut gathered = self.locked();
        gathered.runs.clear();
        gathered.carried.clear();
    }

    /// The executor is told the first reason to end.
    pub(super) fn end(&self, end: End) {
        self.add(|gathered| {
            gathered.end.get_or_insert(end);
        });
    }

    /// Waits until there is something to send, and takes all of it.
    pub(super) async fn take(&self) -> Gathered {
        loop {
            let gathered = mem::take(&mut *self.locked());
            if !gathered.is_empty() {
                return gathered;
            }
            self.news.notified().await;
        }
    }

    fn add(&self, change: impl FnOnce(&mut Gathered)) {
        let mut gathered = self.locked();
        let was_empty = gathered.is_empty();
        change(&mut gathered);
        drop(gathered);
        if was_empty {
            self.news.notify_one();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gathered {
    fn is_empty(&self) -> bool {
        let has_news = self.nodes.is_some() || self.want.is_some() || self.end.is_some();
        let has_work = !self.runs.is_empty() || !self.carried.is_empty();
        self.kept.is_empty() && self.cancels.is_empty() && !has_work && !has_news
    }
}
