//! The bare limit: connections that each send the next request as soon as the last one was answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::BenchError;
use crate::clock::Watch;

/// The body that agents are sent.
pub(crate) const HELLO: &str = r#"{"hello":"agent"}"#;

/// The duration of `count` requests with this body over a number of connections.
pub(crate) async fn call_in_a_loop(
    watch: &Watch,
    agent: SocketAddr,
    connections: usize,
    count: u64,
    body: impl Into<Bytes>,
) -> Result<Duration, BenchError> {
    let body = body.into();
    let left = Arc::new(AtomicU64::new(count));
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(TcpStream::connect(agent).await?);
    }
    let started = watch.elapsed();
    let mut callers = JoinSet::new();
    for stream in streams {
        callers.spawn(call(stream, Arc::clone(&left), body.clone()));
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    Ok(watch.elapsed() - started)
}

async fn call(stream: TcpStream, left: Arc<AtomicU64>, body: Bytes) -> Result<(), BenchError> {
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let request = Request::post("/")
            .header("host", "agent")
            .header("content-type", "application/json")
            .header("punctual-run-id", "1")
            .body(Full::new(body.clone()))?;
        sender.ready().await?;
        sender.send_request(request).await?.into_body().collect().await?;
    }
    // A connection that was opened too late for any request needs no clean end.
    connection.abort();
    Ok(())
}
