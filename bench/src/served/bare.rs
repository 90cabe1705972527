//! The bare limit: so many connections, each asking again as soon as it was answered.

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

use crate::Failure;
use crate::clock::Watch;

/// What an agent of a benchmark is sent.
pub(crate) const HELLO: &str = r#"{"hello":"agent"}"#;

/// How long `count` requests with such a body take over so many connections.
pub(crate) async fn call_in_a_loop(
    watch: &Watch,
    agent: SocketAddr,
    connections: usize,
    count: u64,
    body: impl Into<Bytes>,
) -> Result<Duration, Failure> {
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

async fn call(stream: TcpStream, left: Arc<AtomicU64>, body: Bytes) -> Result<(), Failure> {
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
    // One that came too late for any request has nothing to end well.
    connection.abort();
    Ok(())
}
