//! Events of the other nodes, for clients that listen at this one.
//!
//! While a client listens, and for half a minute afterwards, this node listens to every other node and puts their
//! events into its own ring, where clients read them under this node's numbers. A node hands on only its own events,
//! so nothing goes round in circles. Where events may have been missed, the ring gets a gap, and clients a `reset`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use punctual_core::model::{JobId, NodeId, Text};
use punctual_node::NodeView;
use punctual_observe::Elsewhere;
use punctual_protocol::{EVENTS_PATH, PeerEvent, PeerSaid};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::app::Front;
use crate::clock;

/// How long a client that begins to listen waits for the other nodes. A node that is heard later begins with a gap.
const BEGINS_WITHIN: Duration = Duration::from_millis(700);

/// How long this node goes on listening after its last client: a client whose connection was cut misses nothing.
const LINGERS: Duration = Duration::from_secs(30);

/// How often the list of live nodes and the number of clients are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a node without events sends a sign of life.
pub(crate) const BEAT: Duration = Duration::from_secs(5);

/// How long a node may be silent.
const SILENT: Duration = Duration::from_secs(15);

/// How long opening a stream may take.
const OPENS_WITHIN: Duration = Duration::from_secs(2);

/// Pauses between two tries, the shortest and the longest.
const TRIES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// The longest line.
const LINE_MAX: usize = 256 << 10;

/// Listening to the other nodes.
#[derive(Default)]
pub(crate) struct Relays(Arc<Mutex<Ears>>);

#[derive(Default)]
struct Ears {
    /// How many clients listen.
    clients: usize,
    /// Since when there is none.
    idle_since: Option<Instant>,
    /// Set while this node listens: whether every other node was tried.
    begun: Option<watch::Receiver<bool>>,
}

/// A client that listens. While there is one, this node listens to the others.
pub(crate) struct Listening(Arc<Mutex<Ears>>);

impl Drop for Listening {
    fn drop(&mut self) {
        let mut ears = lock(&self.0);
        ears.clients -= 1;
        if ears.clients == 0 {
            ears.idle_since = Some(clock::instant());
        }
    }
}

fn lock(ears: &Mutex<Ears>) -> MutexGuard<'_, Ears> {
    ears.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relays {
    /// A client begins to listen. Waits until the other nodes are heard too, but not for long.
    pub(crate) async fn listen(&self, front: &Arc<Front>) -> Listening {
        let (listening, mut begun) = self.count(front);
        // A slower node is heard after a gap.
        let _ = timeout(BEGINS_WITHIN, begun.wait_for(|is_begun| *is_begun)).await;
        listening
    }

    fn count(&self, front: &Arc<Front>) -> (Listening, watch::Receiver<bool>) {
        let mut ears = lock(&self.0);
        ears.clients += 1;
        ears.idle_since = None;
        let listening = Listening(Arc::clone(&self.0));
        if let Some(begun) = &ears.begun {
            return (listening, begun.clone());
        }
        let (begin, begun) = watch::channel(false);
        ears.begun = Some(begun.clone());
        drop(ears);
        // A client that resumes has missed the events of other nodes since it was cut off.
        if front.node.nodes().len() > 1 {
            front.events.push_gap();
        }
        // Changes on other nodes were not heard while no client listened.
        front.apps.forget_all();
        let ears = Arc::clone(&self.0);
        tokio::spawn(attend(Arc::clone(front), ears, begin));
        (listening, begun)
    }
}

/// Listens to every other node that lives, until no client has listened for a while.
async fn attend(front: Arc<Front>, ears: Arc<Mutex<Ears>>, begin: watch::Sender<bool>) {
    let began = clock::instant();
    // Dropped with this task, which ends them all.
    let mut listening = JoinSet::new();
    let mut relays: BTreeMap<NodeId, Relay> = BTreeMap::new();
    let mut news = front.events.listen();
    loop {
        let nodes = front.node.nodes();
        let others = nodes.into_iter().filter(|node| !node.is_self && !node.address.is_empty());
        let others: BTreeMap<NodeId, NodeView> = others.map(|node| (node.node, node)).collect();
        leave(&front, &mut relays, &others.keys().copied().collect());
        for (id, node) in others {
            relays.entry(id).or_insert_with(|| Relay::open(&front, node, began, &mut listening));
        }
        tokio::select! {
            () = all_tried(&relays), if !*begin.borrow() => drop(begin.send_replace(true)),
            () = clock::sleep(LOOK_EVERY) => {}
            () = closed(&mut news) => return,
        }
        while listening.try_join_next().is_some() {}
        let mut ears = lock(&ears);
        if ears.idle_since.is_some_and(|since| clock::since(since) >= LINGERS) {
            ears.begun = None;
            return;
        }
    }
}

/// Waits until this node stops.
async fn closed(news: &mut watch::Receiver<(u64, bool)>) {
    let _ = news.wait_for(|(_, goes_on)| !goes_on).await;
}

/// Stops listening to nodes that are gone.
fn leave(front: &Front, relays: &mut BTreeMap<NodeId, Relay>, living: &BTreeSet<NodeId>) {
    relays.retain(|node, relay| {
        let lives = living.contains(node);
        if !lives {
            relay.task.abort();
            // Its last events may not have been heard.
            front.events.push_gap();
        }
        lives
    });
}

async fn all_tried(relays: &BTreeMap<NodeId, Relay>) {
    for relay in relays.values() {
        // It cannot fail for long: a relay that has ended is left out the next time.
        let _ = relay.tried.clone().wait_for(|tried| *tried).await;
    }
}

/// Listening to one node.
struct Relay {
    task: AbortHandle,
    /// Whether a first try was made, with success or without.
    tried: watch::Receiver<bool>,
}

impl Relay {
    fn open(front: &Arc<Front>, node: NodeView, began: Instant, listening: &mut JoinSet<()>) -> Relay {
        let (try_it, tried) = watch::channel(false);
        let (front, name) = (Arc::clone(front), crate::others::name_of(&node));
        let ear = Ear { front, name, last: None, began, is_whole: true, try_it };
        let task = listening.spawn(ear.listen(node.address));
        Relay { task, tried }
    }
}

/// Listens to one node.
struct Ear {
    front: Arc<Front>,
    name: String,
    /// The last event that was heard; none if a gap comes next.
    last: Option<String>,
    /// When the clients began to listen.
    began: Instant,
    /// Whether no event was missed since then: a client reads the state that it shows after that.
    is_whole: bool,
    try_it: watch::Sender<bool>,
}

impl Ear {
    async fn listen(mut self, address: Text) {
        let mut pause = TRIES.0;
        loop {
            let opening = self.front.others.listen(&address, EVENTS_PATH, self.last.as_deref());
            let opened =
                timeout(OPENS_WITHIN, opening).await.unwrap_or_else(|_| Err("no answer in time".into()));
            let said = match opened {
                Ok(body) => {
                    let opened_at = clock::instant();
                    let said = self.hear(body).await;
                    if clock::since(opened_at) > TRIES.1 {
                        pause = TRIES.0;
                    }
                    said
                }
                Err(said) => said,
            };
            self.is_whole = false;
            self.try_it.send_replace(true);
            tracing::debug!(node = %self.name, said, "what happens at a node is not heard; that is tried again");
            clock::sleep(pause).await;
            pause = (pause * 2).min(TRIES.1);
        }
    }

    /// Hears a stream to its end, and says why it ended.
    async fn hear(&mut self, mut body: Body) -> String {
        let mut rest = BytesMut::new();
        loop {
            let piece: Bytes = match timeout(SILENT, body.frame()).await {
                Err(_) => return "it was silent for too long".into(),
                Ok(None) => return "it ended".into(),
                Ok(Some(Err(error))) => return error.to_string(),
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            };
            rest.extend_from_slice(&piece);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1);
                if let Err(said) = self.take(&line) {
                    return self.garbled(said);
                }
            }
            if rest.len() > LINE_MAX {
                return self.garbled("it said a line without an end".into());
            }
        }
    }

    /// Forgets the place in the stream: after garbled data, the last events cannot be trusted to be complete.
    fn garbled(&mut self, said: String) -> String {
        self.last = None;
        tracing::warn!(node = %self.name, said, "a node said something that is no event; it is listened to anew");
        said
    }

    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let said: PeerSaid = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        match said {
            PeerSaid::Begin { id, is_reset } => {
                let goes_on = self.last.is_some() && !is_reset;
                // Clients have stopped waiting after that time.
                let is_whole = self.is_whole && clock::since(self.began) < BEGINS_WITHIN;
                if !goes_on && !is_whole {
                    self.miss();
                }
                self.last = Some(short(id)?);
                self.try_it.send_replace(true);
            }
            PeerSaid::Event(event) => {
                self.last = Some(short(event.id.clone())?);
                let event = understand(event, &self.name)?;
                if event.name == "job.changed"
                    && let Some(job) = event.job
                {
                    // It may belong to another app now, and so may its next event.
                    self.front.apps.forget(job);
                    self.front.names.forget(job);
                }
                self.front.events.push_elsewhere(event);
            }
            PeerSaid::Missed { id } => {
                self.last = Some(short(id)?);
                self.miss();
            }
            PeerSaid::Beat => {}
        }
        self.is_whole = false;
        Ok(())
    }

    fn miss(&self) {
        // A missed event may have moved a job to another app.
        self.front.apps.forget_all();
        self.front.events.push_gap();
    }
}

/// A place in a stream, which is sent back as a header.
fn short(id: String) -> Result<String, String> {
    let is_plain = id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain { Ok(id) } else { Err("it named a place that is none".into()) }
}

/// An event as clients get it, with the name of its node.
fn understand(event: PeerEvent, node: &str) -> Result<Elsewhere, String> {
    let PeerEvent { name, app, job, mut data, .. } = event;
    // The name becomes a line of its own in a text stream.
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'.' || byte == b'_';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_name) {
        return Err("it named an event that is none".into());
    }
    data.insert("node".into(), node.into());
    let data = serde_json::to_string(&data).map_err(|error| error.to_string())?;
    Ok(Elsewhere { name, data, app, job: job.map(JobId) })
}
