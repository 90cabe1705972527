//! The bare limit of native executors: messages of the same length, back and forth over a WebSocket, without parsing them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::BenchError;
use crate::clock::Watch;

/// Runs in a message, as many as a node sends at most.
const BATCH: u64 = 500;

/// Messages in flight, as many as a full executor has.
const IN_FLIGHT: usize = 10;

/// The cost of the same bytes without parsing them.
pub(crate) struct EchoResult {
    pub(crate) took: Duration,
    pub(crate) count: u64,
    /// Bytes sent and received for each run, if known.
    pub(crate) wire: Option<f64>,
}

/// Sends messages with `count` runs in all; each message is answered with one of reports.
pub(crate) async fn echo(watch: &Arc<Watch>, count: u64) -> Result<EchoResult, BenchError> {
    let (runs, reports, kept) = (list("runs", RUN), list("reports", REPORT), list("reports", KEPT));
    let wire = (runs.len() + reports.len() + kept.len()) as f64 / BATCH as f64;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let messages = count.div_ceil(BATCH);
    let executor = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (mut sink, mut stream) =
            WebSocketStream::from_raw_socket(stream, Role::Client, None).await.split();
        // Each `runs` is answered, each `kept` only read.
        let mut is_runs = true;
        while let Some(Ok(_)) = stream.next().await {
            if is_runs {
                sink.send(Message::text(reports.clone())).await.map_err(std::io::Error::other)?;
            }
            is_runs = !is_runs;
        }
        Ok::<(), std::io::Error>(())
    });
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sink, mut stream) = WebSocketStream::from_raw_socket(stream, Role::Server, None).await.split();
    let started = watch.elapsed();
    let credits = Arc::new(Semaphore::new(IN_FLIGHT));
    let given = Arc::clone(&credits);
    let heard = tokio::spawn(async move {
        let mut heard = 0;
        while heard < messages && stream.next().await.is_some_and(|said| said.is_ok()) {
            heard += 1;
            given.add_permits(1);
        }
        heard
    });
    for _ in 0..messages {
        credits.acquire().await?.forget();
        sink.feed(Message::text(runs.clone())).await?;
        sink.send(Message::text(kept.clone())).await?;
    }
    let heard = heard.await?;
    let took = watch.elapsed() - started;
    executor.abort();
    if heard < messages {
        return Err("the echo was cut".into());
    }
    Ok(EchoResult { took, count: messages * BATCH, wire: Some(wire) })
}

const RUN: &str = r#"{"run":43083124736001,"job":1,"name":"native","handler":"bench","fire_time":"2026-11-15T09:00:00.000Z","attempt":1,"token":1048577,"timeout_ms":30000,"payload":"1794819600000"}"#;
const REPORT: &str = r#"{"run":43083124736001,"attempt":1,"token":1048577,"outcome":"succeeded","started_at":"2026-11-15T09:00:00.004Z"}"#;
const KEPT: &str = r#"{"run":43083124736001,"attempt":1,"token":1048577}"#;

fn list(kind: &str, one: &str) -> String {
    let all = vec![one; BATCH as usize].join(",");
    format!(r#"{{"type":"{kind}","{kind}":[{all}]}}"#)
}
