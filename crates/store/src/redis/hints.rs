//! Hints through Redis: each node listens on a channel of its own, named by its address. A node that cannot be
//! told this way is told over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use punctual_core::model::NodeId;
use punctual_node::ports::{Hint, NodeRow, Peers};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::Redis;
use crate::clock;
use crate::hint;

/// How long a listener waits before it listens again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a node that leaves waits for its last hints to be sent.
const TOLD_WITHIN: Duration = Duration::from_millis(300);

/// How many hints wait to be told; more are found by looking.
const WAITING_MAX: usize = 10_000;

/// The listener for hints.
pub type Heed = Arc<dyn Fn(Hint) + Send + Sync>;

/// The way to other nodes through Redis, with another way for when it is away.
pub struct RedisPeers {
    addresses: Mutex<BTreeMap<NodeId, String>>,
    letters: UnboundedSender<Letter>,
    on_their_way: Arc<watch::Sender<usize>>,
    other_way: Arc<dyn Peers>,
}

/// One hint on its way.
struct Letter {
    node: NodeId,
    address: String,
    hint: Hint,
}

impl RedisPeers {
    /// Tells others through Redis, and hears what they tell at this address.
    pub fn new(redis: Arc<Redis>, address: String, heed: Heed, other_way: Arc<dyn Peers>) -> Arc<RedisPeers> {
        let (letters, taken) = unbounded_channel();
        let on_their_way = Arc::new(watch::Sender::new(0));
        let runtime = Handle::current();
        runtime.spawn(listen(Arc::clone(&redis), address, heed));
        runtime.spawn(carry(redis, taken, Arc::clone(&on_their_way), Arc::clone(&other_way)));
        Arc::new(RedisPeers { addresses: Mutex::default(), letters, on_their_way, other_way })
    }

    fn addresses(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Peers for RedisPeers {
    fn tell(&self, node: NodeId, hint: Hint) {
        let address = self.addresses().get(&node).cloned();
        match address.filter(|address| !address.is_empty() && hint::is_open(&hint)) {
            Some(address) => {
                self.on_their_way.send_modify(|count| *count += 1);
                let _ = self.letters.send(Letter { node, address, hint });
            }
            None => self.other_way.tell(node, hint),
        }
    }

    fn meet(&self, nodes: &[NodeRow]) {
        let of = |row: &NodeRow| (row.node, row.address.clone().into_owned());
        *self.addresses() = nodes.iter().map(of).collect();
        self.other_way.meet(nodes);
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.other_way.reaches(node)
    }

    async fn told(&self) {
        let mut left = self.on_their_way.subscribe();
        let gone = left.wait_for(|count| *count == 0);
        let _ = tokio::time::timeout(TOLD_WITHIN, gone).await;
        self.other_way.told().await;
    }
}

async fn carry(
    redis: Arc<Redis>,
    mut letters: UnboundedReceiver<Letter>,
    on_their_way: Arc<watch::Sender<usize>>,
    other_way: Arc<dyn Peers>,
) {
    let mut batch = Vec::new();
    while letters.recv_many(&mut batch, WAITING_MAX).await > 0 {
        let count = batch.len();
        let mut pipe = ::redis::pipe();
        for letter in &batch {
            pipe.cmd("PUBLISH").arg(redis.channel(&letter.address)).arg(hint::write(&letter.hint));
        }
        let heard = redis.link.ask::<Vec<i64>>(&pipe).await.unwrap_or_default();
        // No node listens there, or Redis is away.
        let unheard =
            batch.drain(..).enumerate().filter(|(place, _)| heard.get(*place).is_none_or(|n| *n == 0));
        for (_, letter) in unheard {
            other_way.tell(letter.node, letter.hint);
        }
        on_their_way.send_modify(|left| *left -= count);
    }
}

async fn listen(redis: Arc<Redis>, address: String, heed: Heed) {
    if address.is_empty() {
        return;
    }
    loop {
        if let Ok(mut heard) = redis.link.client().get_async_pubsub().await
            && heard.subscribe(redis.channel(&address)).await.is_ok()
        {
            let mut messages = heard.on_message();
            while let Some(message) = messages.next().await {
                if let Some(hint) = message.get_payload::<String>().ok().as_deref().and_then(hint::read) {
                    heed(hint);
                }
            }
        }
        clock::sleep(AGAIN_AFTER).await;
    }
}
