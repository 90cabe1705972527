//! An executor made with the SDK, whose handler records when it began. The number of stored results is read from the node.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use calendar::Timestamp;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use punctual_executor::{Context, Executor};
use serde_json::Value;
use tokio::net::TcpStream;

use super::agent::Arrived;
use crate::BenchError;
use crate::clock::{self, Watch};

/// Its capacity. Its handler does nothing, so this is the number of runs in flight.
const CAPACITY: u32 = 5_000;

/// The interval between reads of the number of ended runs: from an idle node, and from one limited to a small share.
pub(crate) const LOOK_OFTEN: Duration = Duration::from_millis(10);
pub(crate) const LOOK_SELDOM: Duration = Duration::from_millis(100);

/// A native executor.
pub(crate) struct Native {
    arrived: Arc<Mutex<Vec<Arrived>>>,
    ended: Arc<AtomicU64>,
    /// Ended runs at the last read.
    before: AtomicU64,
}

impl Native {
    pub(crate) async fn start(
        watch: &Arc<Watch>,
        node: &str,
        token: &str,
        app: &str,
        look_every: Duration,
    ) -> Result<Native, BenchError> {
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let (noted, clock) = (Arc::clone(&arrived), Arc::clone(watch));
        let note = move |context: Context| {
            let at = clock.date();
            let due = context.fire_time().parse().map_or(0, |due: Timestamp| due.as_millis());
            noted.lock().expect("nobody panics while holding it").push(Arrived {
                run: context.run(),
                due,
                at,
            });
            async { Ok(()) }
        };
        let executor = Executor::new(app).url(format!("http://{node}")).name("bench").capacity(CAPACITY);
        tokio::spawn(executor.handler("bench", note).run());
        let ended: Arc<AtomicU64> = Arc::default();
        tokio::spawn(look(node.to_owned(), token.to_owned(), Arc::clone(&ended), look_every));
        Ok(Native { arrived, ended, before: AtomicU64::new(0) })
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        let arrived = self.arrived.lock().expect("nobody panics while holding it").len() as u64;
        let ended = self.ended.load(Ordering::Relaxed);
        (arrived, ended.saturating_sub(self.before.load(Ordering::Relaxed)))
    }

    pub(crate) fn take(&self) -> Vec<Arrived> {
        self.before.store(self.ended.load(Ordering::Relaxed), Ordering::Relaxed);
        std::mem::take(&mut *self.arrived.lock().expect("nobody panics while holding it"))
    }
}

/// Reads the number of succeeded runs from the node, again and again.
async fn look(node: String, token: String, ended: Arc<AtomicU64>, every: Duration) -> Result<(), BenchError> {
    let stream = TcpStream::connect(&node).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    loop {
        let request = Request::get("/api/v1/stats")
            .header("host", &node)
            .header("authorization", format!("Bearer {token}"))
            .body(Empty::<Bytes>::new())?;
        sender.ready().await?;
        let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        let stats: Value = serde_json::from_slice(&answer)?;
        ended.store(stats["succeeded"].as_u64().unwrap_or(0), Ordering::Relaxed);
        clock::sleep(every).await;
    }
}
