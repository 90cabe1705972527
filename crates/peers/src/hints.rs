//! Hints to other nodes, in a queue per node. A lost hint only delays what it is about: the other node finds it out
//! by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use punctual_core::model::{NodeId, RunId, ShardId, Text};
use punctual_node::ports::{Hint, NodeRow, Peers};
use punctual_protocol::{HINTS_PATH, PeerHint};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::connection::{connect_http, path_of};

/// How long one message may take. Leases are renewed every second, and the other node then finds out by itself.
const SEND_WITHIN: Duration = Duration::from_secs(1);

/// How many hints a queue holds, and how many go into one message.
const HINTS_MAX: usize = 10_000;

/// Sends hints to other nodes, each through its queue.
pub struct Hints {
    runtime: Handle,
    token: String,
    tls: TlsConnector,
    queues: Mutex<BTreeMap<NodeId, Arc<HintQueue>>>,
}

/// The hints for one node that are not sent yet.
struct HintQueue {
    address: Url,
    waiting: Mutex<WaitingHints>,
    /// Rung when there are hints to send, and when the queue is closed.
    bell: Notify,
    /// Whether hints wait or are being sent.
    is_busy: watch::Sender<bool>,
    /// Whether the last message failed.
    has_failed: AtomicBool,
}

/// Hints of each kind, without repetitions.
#[derive(Default)]
struct WaitingHints {
    arrived: BTreeSet<ShardId>,
    /// The last change of each job.
    changed: BTreeMap<u32, u64>,
    settled: BTreeSet<RunId>,
    has_vacated: bool,
    wants_drain: bool,
    wants_resume: bool,
    drained: Option<NodeId>,
    missing: BTreeSet<Text>,
    carry: BTreeMap<Text, NodeId>,
    is_closed: bool,
}

impl Hints {
    /// Sends with this token, from tasks of the current runtime.
    pub fn new(token: String, tls: TlsConnector) -> Hints {
        Hints { runtime: Handle::current(), token, tls, queues: Mutex::default() }
    }

    fn queues(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<HintQueue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue for the node at an address, and the task that empties it.
    fn open(&self, address: Url) -> Arc<HintQueue> {
        let queue = Arc::new(HintQueue {
            address,
            waiting: Mutex::default(),
            bell: Notify::new(),
            is_busy: watch::Sender::new(false),
            has_failed: AtomicBool::new(false),
        });
        let sender = HintSender {
            queue: Arc::clone(&queue),
            token: self.token.clone(),
            tls: self.tls.clone(),
            connection: None,
        };
        self.runtime.spawn(sender.run());
        queue
    }
}

#[async_trait]
impl Peers for Hints {
    fn tell(&self, node: NodeId, hint: Hint) {
        if let Some(queue) = self.queues().get(&node) {
            queue.put(hint);
        }
    }

    fn meet(&self, nodes: &[NodeRow]) {
        let mut queues = self.queues();
        queues.retain(|node, queue| {
            let lives = nodes.iter().any(|row| row.node == *node);
            if !lives {
                queue.close();
            }
            lives
        });
        for row in nodes {
            if let Ok(address) = Url::parse(&row.address)
                && !queues.contains_key(&row.node)
            {
                queues.insert(row.node, self.open(address));
            }
        }
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.queues().get(&node).is_some_and(|queue| !queue.has_failed.load(Ordering::Relaxed))
    }

    async fn told(&self) {
        let queues: Vec<Arc<HintQueue>> = self.queues().values().cloned().collect();
        let all = async {
            for queue in queues {
                queue.emptied().await;
            }
        };
        // A node that does not answer in time finds out by itself.
        let _ = timeout(SEND_WITHIN / 2, all).await;
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.queues().values().for_each(|queue| queue.close());
    }
}

impl HintQueue {
    fn waiting(&self) -> MutexGuard<'_, WaitingHints> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, hint: Hint) {
        let mut waiting = self.waiting();
        waiting.put(hint);
        self.is_busy.send_replace(true);
        drop(waiting);
        self.bell.notify_one();
    }

    /// Called when a message has been sent or has failed. Hints that came meanwhile have rung the bell.
    fn note_sent(&self) {
        // Under the lock, so that no hint is put in between.
        let waiting = self.waiting();
        self.is_busy.send_replace(!waiting.is_empty());
    }

    async fn emptied(&self) {
        // It cannot fail: the queue owns the sender of this channel.
        let _ = self.is_busy.subscribe().wait_for(|is_busy| !is_busy).await;
    }

    fn close(&self) {
        self.waiting().is_closed = true;
        self.bell.notify_one();
    }
}

impl WaitingHints {
    fn put(&mut self, hint: Hint) {
        match hint {
            Hint::Arrived(shard) => drop(self.arrived.insert(shard)),
            Hint::Changed(change, job) => drop(self.changed.insert(job.0, change.0)),
            Hint::Settled(run) if self.settled.len() < HINTS_MAX => drop(self.settled.insert(run)),
            Hint::Settled(_) => {}
            Hint::Vacated => self.has_vacated = true,
            // The last of these two is meant.
            Hint::Drain => (self.wants_drain, self.wants_resume) = (true, false),
            Hint::Resume => (self.wants_drain, self.wants_resume) = (false, true),
            Hint::Drained(node) => self.drained = Some(node),
            Hint::Missing(url) => drop(self.missing.insert(url)),
            Hint::Carry { url, to } => drop(self.carry.insert(url, to)),
        }
    }

    fn is_empty(&self) -> bool {
        let has_lists = !self.arrived.is_empty()
            || !self.changed.is_empty()
            || !self.settled.is_empty()
            || !self.missing.is_empty()
            || !self.carry.is_empty();
        let has_wishes = self.wants_drain || self.wants_resume;
        !has_lists && !self.has_vacated && !has_wishes && self.drained.is_none()
    }

    fn take(&mut self) -> Vec<PeerHint> {
        let WaitingHints {
            arrived,
            changed,
            settled,
            has_vacated,
            wants_drain,
            wants_resume,
            drained,
            missing,
            carry,
            ..
        } = std::mem::take(self);
        let arrived = arrived.into_iter().map(|shard| PeerHint::Arrived(shard.0));
        let changed = changed.into_iter().map(|(job, change)| PeerHint::Changed { change, job });
        let settled = settled.into_iter().map(|run| PeerHint::Settled(run.0));
        let vacated = has_vacated.then_some(PeerHint::Vacated);
        let drain = wants_drain.then_some(PeerHint::Drain);
        let resume = wants_resume.then_some(PeerHint::Resume);
        let drained = drained.map(|node| PeerHint::Drained(node.to_string()));
        let missing = missing.into_iter().map(|url| PeerHint::Missing(url.into_owned()));
        let carry =
            carry.into_iter().map(|(url, to)| PeerHint::Carry { url: url.into_owned(), to: to.to_string() });
        let hints = arrived
            .chain(changed)
            .chain(settled)
            .chain(vacated)
            .chain(drain)
            .chain(resume)
            .chain(drained)
            .chain(missing);
        hints.chain(carry).take(HINTS_MAX).collect()
    }
}

/// Sends the hints of one queue to its node.
struct HintSender {
    queue: Arc<HintQueue>,
    token: String,
    tls: TlsConnector,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl HintSender {
    /// Runs until the queue is closed, and sends what is in it then.
    async fn run(mut self) {
        loop {
            self.queue.bell.notified().await;
            let (hints, is_closed) = {
                let mut waiting = self.queue.waiting();
                let is_closed = waiting.is_closed;
                (waiting.take(), is_closed)
            };
            if !hints.is_empty() {
                self.deliver(&hints).await;
            }
            self.queue.note_sent();
            if is_closed {
                return;
            }
        }
    }

    /// Sends a message, and once more over a new connection if that fails: the other node may have closed one that was idle.
    async fn deliver(&mut self, hints: &[PeerHint]) {
        let body = Bytes::from(serde_json::to_vec(hints).expect("hints are plain data"));
        for is_last in [false, true] {
            let error = match timeout(SEND_WITHIN, self.send(body.clone())).await {
                Ok(Ok(())) => {
                    self.queue.has_failed.store(false, Ordering::Relaxed);
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => "no answer in time".into(),
            };
            self.connection = None;
            if is_last {
                self.queue.has_failed.store(true, Ordering::Relaxed);
                let address = self.queue.address.as_str();
                tracing::debug!(address, error, "hints did not reach a node; it finds out by itself");
            }
        }
    }

    async fn send(&mut self, body: Bytes) -> Result<(), String> {
        let address = &self.queue.address;
        if self.connection.as_ref().is_none_or(SendRequest::is_closed) {
            self.connection = Some(connect_http(address, &self.tls).await?);
        }
        let Some(connection) = self.connection.as_mut() else { return Err("there is no connection".into()) };
        connection.ready().await.map_err(|error| error.to_string())?;
        let request = Request::post(path_of(address, HINTS_PATH))
            .header(header::HOST, address.authority())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let answer = connection.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        // A connection is used again only after the whole answer was read.
        answer.into_body().collect().await.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::model::{ChangeId, JobId};

    use super::*;

    #[test]
    fn a_repeated_hint_is_sent_once() {
        let mut waiting = WaitingHints::default();
        for hint in [
            Hint::Arrived(ShardId(3)),
            Hint::Settled(RunId(9)),
            Hint::Changed(ChangeId(1), JobId(7)),
            Hint::Arrived(ShardId(3)),
            Hint::Changed(ChangeId(2), JobId(7)),
            Hint::Vacated,
        ] {
            waiting.put(hint);
        }
        let sent = [
            PeerHint::Arrived(3),
            PeerHint::Changed { change: 2, job: 7 },
            PeerHint::Settled(9),
            PeerHint::Vacated,
        ];
        assert_eq!(waiting.take(), sent);
        assert_eq!(waiting.take(), []);
    }
}
