//! An agent that records when each run arrived, and answers at once, except to calls of `/hang`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use calendar::Timestamp;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};

use crate::BenchError;
use crate::clock::{self, Watch};

/// The backlog of connections that are not accepted yet.
const BACKLOG: u32 = 1_024;

/// A run that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) run: u64,
    /// The due time in milliseconds since 1970; 0 if it is not known.
    pub(crate) due: i64,
    /// When it arrived, since 1970.
    pub(crate) at: Duration,
}

/// How an agent answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It answers at once.
    Quick,
    /// It answers at once, and reads the fire time of each run.
    Timed,
    /// It answers after a while.
    Slow(Duration),
}

/// An agent on a free port.
pub(crate) struct Agent {
    pub(crate) address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    hanging: Arc<AtomicUsize>,
}

/// The path whose calls are never answered.
pub(crate) const HANG: &str = "/hang";

impl Agent {
    pub(crate) async fn start(watch: &Arc<Watch>) -> Result<Agent, BenchError> {
        Agent::with(watch, Manner::Quick).await
    }

    pub(crate) async fn with(watch: &Arc<Watch>, manner: Manner) -> Result<Agent, BenchError> {
        // With the usual backlog of 128, some of a node's 200 connections are dropped while both cores are busy, and TCP retries
        // a second later: that would be measured instead of the node.
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let arrived: Arc<Mutex<Vec<Arrived>>> = Arc::default();
        let hanging: Arc<AtomicUsize> = Arc::default();
        let noted = (Arc::clone(&arrived), Arc::clone(&hanging));
        tokio::spawn(serve(listener, Arc::clone(watch), noted, manner));
        Ok(Agent { address, arrived, hanging })
    }

    /// Number of calls of `/hang` so far.
    pub(crate) fn hanging(&self) -> usize {
        self.hanging.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> usize {
        self.arrived.lock().expect("nobody panics while holding it").len()
    }

    /// The arrivals since the last call.
    pub(crate) fn take(&self) -> Vec<Arrived> {
        std::mem::take(&mut *self.arrived.lock().expect("nobody panics while holding it"))
    }
}

/// The arrivals, and the number of hanging calls.
type Noted = (Arc<Mutex<Vec<Arrived>>>, Arc<AtomicUsize>);

async fn serve(listener: TcpListener, watch: Arc<Watch>, (arrived, hanging): Noted, manner: Manner) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (watch, arrived, hanging) = (Arc::clone(&watch), Arc::clone(&arrived), Arc::clone(&hanging));
        let service = service_fn(move |request: Request<Incoming>| {
            let (at, run) = (watch.date(), run_of(&request));
            let due = if manner == Manner::Timed { due_of(&request) } else { 0 };
            if request.uri().path() == HANG {
                hanging.fetch_add(1, Ordering::Relaxed);
            } else {
                arrived.lock().expect("nobody panics while holding it").push(Arrived { run, due, at });
            }
            answer(request, manner)
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn run_of(request: &Request<Incoming>) -> u64 {
    let run = request.headers().get("punctual-run-id").and_then(|run| run.to_str().ok());
    run.and_then(|run| run.parse().ok()).unwrap_or(0)
}

fn due_of(request: &Request<Incoming>) -> i64 {
    let due = request.headers().get("punctual-fire-time").and_then(|due| due.to_str().ok());
    due.and_then(|due| due.parse().ok()).map_or(0, Timestamp::as_millis)
}

async fn answer(request: Request<Incoming>, manner: Manner) -> Result<Response<Empty<Bytes>>, hyper::Error> {
    let hangs = request.uri().path() == HANG;
    request.into_body().collect().await?;
    if hangs {
        std::future::pending::<()>().await;
    }
    match manner {
        Manner::Quick | Manner::Timed => {}
        Manner::Slow(takes) => clock::sleep(takes).await,
    }
    Ok(Response::new(Empty::new()))
}
