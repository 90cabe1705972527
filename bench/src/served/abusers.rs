//! Clients that exhaust a node's resources: connections, streams, memory and time. Each comes back after it was rejected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::wire::Target;
use crate::BenchError;
use crate::clock;

/// The pause before an abuser comes back.
const REST: Duration = Duration::from_secs(1);

/// The span over which they arrive.
const COMING: Duration = Duration::from_secs(2);

/// Bytes of a body that is sent without a token.
const BODY: usize = 1_250_000;

/// Bytes of the line that a stream never ends.
const HALF_LINE: usize = 64 << 10;

/// Attempts named in a callback.
const NAMED: usize = 300_000;

/// A kind of abuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Abuse {
    /// Connects and sends nothing.
    Silence,
    /// Speaks HTTP/2, answers pings, and sends no request.
    Idle,
    /// Streams events.
    Listen,
    /// Sends all but the last byte of a long body, without a token.
    Body,
    /// Streams a line that never ends.
    HalfLine,
    /// Reports hundreds of thousands of unknown attempts.
    Callback,
}

/// The abusers of a node, until this is dropped.
pub(crate) struct Abusers {
    tasks: JoinSet<()>,
    rounds: Arc<AtomicU64>,
}

impl Abusers {
    pub(crate) fn new() -> Abusers {
        Abusers { tasks: JoinSet::new(), rounds: Arc::default() }
    }

    /// Starts `count` clients that repeat one kind of abuse.
    pub(crate) fn join(&mut self, count: u64, abuse: Abuse, target: &Target, tokens: AbuserTokens) {
        // Built once: abusers on the same machine must not use up its cores.
        let said: Arc<[u8]> = words(abuse, &target.authority, tokens).into();
        for number in 0..count {
            // Not all at once, which would measure how fast this machine opens connections.
            let begins_after =
                COMING * u32::try_from(number).unwrap_or(0) / u32::try_from(count).unwrap_or(1);
            let (target, rounds, said) = (target.clone(), Arc::clone(&self.rounds), Arc::clone(&said));
            self.tasks.spawn(async move {
                clock::sleep(begins_after).await;
                loop {
                    // Repeated whatever the result: that makes it abuse.
                    let _ = match abuse {
                        Abuse::Idle => idle(&target).await,
                        _ => write_and_wait(&target, &said).await,
                    };
                    rounds.fetch_add(1, Ordering::Relaxed);
                    clock::sleep(REST).await;
                }
            });
        }
    }

    /// Number of connections that were rejected or given up.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

/// The tokens of abusers that have one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AbuserTokens {
    pub(crate) api: &'static str,
    pub(crate) executor: &'static str,
}

/// The bytes that an abuser sends over HTTP/1.
fn words(abuse: Abuse, host: &str, tokens: AbuserTokens) -> Vec<u8> {
    let post =
        |path: &str, headers: String| format!("POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n\r\n");
    let bearer = format!("authorization: Bearer {}", tokens.api);
    match abuse {
        Abuse::Silence | Abuse::Idle => Vec::new(),
        Abuse::Listen => {
            format!("GET /api/v1/events HTTP/1.1\r\nhost: {host}\r\n{bearer}\r\n\r\n").into_bytes()
        }
        Abuse::Body => {
            let headers = format!("content-type: application/json\r\ncontent-length: {}", BODY + 1);
            [post("/api/v1/session", headers).as_bytes(), &vec![b' '; BODY]].concat()
        }
        Abuse::HalfLine => {
            let headers =
                format!("{bearer}\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked");
            let size = format!("{HALF_LINE:x}\r\n");
            [post("/api/v1/runs", headers).as_bytes(), size.as_bytes(), &vec![b' '; HALF_LINE], b"\r\n"]
                .concat()
        }
        Abuse::Callback => {
            let ids: Vec<String> = (1..=NAMED).map(|id| format!("{{\"logId\":{id}}}")).collect();
            let body = format!("[{}]", ids.join(","));
            let (token, length) = (tokens.executor, body.len());
            let headers =
                format!("XXL-JOB-ACCESS-TOKEN: {token}\r\nconnection: close\r\ncontent-length: {length}");
            [post("/api/callback", headers).as_bytes(), body.as_bytes()].concat()
        }
    }
}

/// Sends bytes, then reads until the node closes the connection.
async fn write_and_wait(target: &Target, said: &[u8]) -> Result<(), BenchError> {
    let mut stream = target.connect().await?;
    stream.write_all(said).await?;
    stream.flush().await?;
    let mut read = [0; 4 << 10];
    while stream.read(&mut read).await? > 0 {}
    Ok(())
}

async fn idle(target: &Target) -> Result<(), BenchError> {
    let stream = TokioIo::new(target.connect().await?);
    let (sender, connection) = http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), stream).await?;
    connection.await?;
    drop(sender);
    Ok(())
}
