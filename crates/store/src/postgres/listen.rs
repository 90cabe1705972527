//! Hints through the database itself. `LISTEN` hears what applications leave in their own transactions, and what nodes say
//! that do not reach each other otherwise. It needs a connection of its own, and no pooler in between. Whatever is not heard
//! is found by the next renewal.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use punctual_core::model::NodeId;
use punctual_node::ports::{DOOR_KEEPER, Hint, NodeRow, Peers};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout_at;
use tokio_postgres::AsyncMessage;

use super::Postgres;
use super::ask::Ask;
use super::trouble::Trouble;
use crate::clock;
use crate::hint;

/// How long a listener waits before it listens again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long what is said is gathered, so that a thousand rows do not wake a node a thousand times.
const GATHERED_FOR: Duration = Duration::from_millis(5);

/// Where it is said. An application says nothing but the name: that something lies in `arrivals`.
const CHANNEL: &str = "punctual";

/// How many hints are said in one go; more are found by looking.
const SAID_MAX: usize = 1_000;

/// The listener for hints: for which node, if it is for one, and what.
pub type Hark = Arc<dyn Fn(Option<NodeId>, Hint) + Send + Sync>;

/// The way to other nodes through the database, for those that the first way does not reach.
pub struct PostgresPeers {
    letters: UnboundedSender<(NodeId, Hint)>,
    first_way: Arc<dyn Peers>,
}

impl PostgresPeers {
    /// Listens in a database, and tells others through it.
    pub fn new(store: Arc<Postgres>, hark: Hark, first_way: Arc<dyn Peers>) -> Arc<PostgresPeers> {
        let (letters, taken) = unbounded_channel();
        let runtime = Handle::current();
        runtime.spawn(listen(Arc::clone(&store), hark));
        runtime.spawn(carry(store, taken));
        Arc::new(PostgresPeers { letters, first_way })
    }
}

#[async_trait]
impl Peers for PostgresPeers {
    fn tell(&self, node: NodeId, hint: Hint) {
        if !self.first_way.reaches(node) && hint::is_open(&hint) {
            let _ = self.letters.send((node, hint.clone()));
        }
        // Also if it failed lately: that is how it is found to work again.
        self.first_way.tell(node, hint);
    }

    fn meet(&self, nodes: &[NodeRow]) {
        self.first_way.meet(nodes);
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.first_way.reaches(node)
    }

    async fn told(&self) {
        self.first_way.told().await;
    }
}

/// Says what was gathered in one statement. Each notification takes a lock of the whole server at commit, so none is said
/// where HTTP does.
async fn carry(store: Arc<Postgres>, mut letters: UnboundedReceiver<(NodeId, Hint)>) {
    let mut batch = Vec::new();
    while letters.recv_many(&mut batch, SAID_MAX).await > 0 {
        let texts = batch.drain(..).map(|(node, hint)| format!("{node} {}", hint::write(&hint)));
        let texts: BTreeSet<String> = texts.collect();
        // A node that is not told finds the work by polling.
        let _ = store.say(texts.into_iter().collect()).await;
    }
}

async fn listen(store: Arc<Postgres>, hark: Hark) {
    loop {
        // Meanwhile the next renewal finds what is there.
        let _ = store.hear(&hark).await;
        clock::sleep(AGAIN_AFTER).await;
    }
}

impl Postgres {
    async fn say(&self, texts: Vec<String>) -> Result<(), Trouble> {
        let line = self.readers.line().await?;
        let ask = Ask::new("select pg_notify($1, text) from unnest($2) as text");
        line.ask(ask.with(CHANNEL.to_owned()).with(texts)).await?;
        line.give_back();
        Ok(())
    }

    /// Hears until the connection ends.
    async fn hear(&self, hark: &Hark) -> Result<(), Trouble> {
        let stamp = self.readers.stamp();
        let (client, mut connection) = self.readers.connect_bare().await?;
        let (said, mut heard) = unbounded_channel();
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(said_there) = message {
                    let _ = said.send(said_there.payload().to_owned());
                }
            }
        });
        let ended = async {
            client.batch_execute(&format!("listen {CHANNEL}")).await?;
            while let Some(first) = heard.recv().await {
                gather(first, &mut heard)
                    .await
                    .iter()
                    .filter_map(|text| read(text))
                    .for_each(|(node, hint)| hark(node, hint));
            }
            Ok(())
        };
        // On a server that was left no notification comes any more.
        let ended = match select(pin!(ended), pin!(self.readers.given_up(stamp))).await {
            Either::Left((ended, _)) => ended,
            Either::Right(((), _)) => Ok(()),
        };
        driver.abort();
        ended
    }
}

/// The first, and whatever comes soon after it, each once.
async fn gather(first: String, heard: &mut UnboundedReceiver<String>) -> BTreeSet<String> {
    let mut gathered = BTreeSet::from([first]);
    let until = clock::instant() + GATHERED_FOR;
    while let Ok(Some(text)) = timeout_at(until, heard.recv()).await {
        gathered.insert(text);
    }
    gathered
}

fn read(text: &str) -> Option<(Option<NodeId>, Hint)> {
    if text.is_empty() {
        return Some((None, Hint::Arrived(DOOR_KEEPER)));
    }
    let (node, hint) = text.split_once(' ')?;
    Some((Some(node.parse().ok()?), hint::read(hint)?))
}

#[cfg(test)]
mod tests {
    use punctual_core::model::ShardId;

    use super::*;

    #[test]
    fn what_is_for_all_and_what_is_for_one_is_told_apart() {
        assert_eq!(read(""), Some((None, Hint::Arrived(ShardId(0)))));
        let node = NodeId(0xabc);
        assert_eq!(read(&format!("{node} vacated")), Some((Some(node), Hint::Vacated)));
        for text in [" ", "arrived 0", &format!("{node} drain"), "xyz vacated"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
