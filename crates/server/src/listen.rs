//! The accept loop: how many may come in, how long they may dawdle, and how it ends.
//!
//! A client that says nothing, or says it a byte at a time, holds one connection for a bounded time and nothing else:
//! the first bytes, the head and the body of a request each have a deadline, and so has an answer that nobody reads.

mod body;
mod patience;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use punctual_api::Peer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use body::Deadlined;
use patience::Patient;
pub(crate) use tls::{Tls, load as load_tls};

use crate::console::Site;

/// How long a client may take to send the head of a request, and how long a connection may be idle between two.
const HEAD_WITHIN: Duration = Duration::from_secs(20);

/// How many may have connected and wait to be taken up. Whoever finds no room is not refused but not heard: it asks again a
/// second later. The system may allow fewer.
const BACKLOG: u32 = 4_096;

/// How long to wait before accepting again when the system has no room for another connection.
const BREATH: Duration = Duration::from_millis(50);

/// Where people and programs come in.
pub(crate) struct Listener {
    listener: TcpListener,
    tls: Option<Tls>,
    connections: usize,
}

impl Listener {
    /// Takes the address, or says who has it.
    pub(crate) fn bind(
        address: SocketAddr,
        tls: Option<Tls>,
        connections: usize,
    ) -> Result<Listener, String> {
        let listener = listen(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{address} is taken by another program: choose another address with --listen")
            }
            _ => format!("cannot listen on {address}: {error}; choose another address with --listen"),
        })?;
        Ok(Listener { listener, tls, connections })
    }

    /// The address that was taken.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until told to stop, then lets requests finish for at most `bound`.
    pub(crate) async fn serve(self, site: Site, mut stop: watch::Receiver<bool>, bound: Duration) {
        let places = Arc::new(Semaphore::new(self.connections));
        let graceful = Graceful::default();
        loop {
            let place = tokio::select! {
                place = Arc::clone(&places).acquire_owned() => place.expect("never closed"),
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most often: no file descriptors are left. They become free.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            let (site, tls, watcher) = (site.clone(), self.tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                serve_one(stream, peer, site, tls, watcher).await;
                drop(place);
            });
        }
        drop(self.listener);
        graceful.wait(bound).await;
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A node that starts again takes its port though connections of the one before are still fading. Elsewhere than on
    // Unix this would let two programs have one port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// All open connections, to be told that it is over.
#[derive(Default)]
struct Graceful(GracefulShutdown);

impl Graceful {
    fn watcher(&self) -> hyper_util::server::graceful::Watcher {
        self.0.watcher()
    }

    async fn wait(self, bound: Duration) {
        if tokio::time::timeout(bound, self.0.shutdown()).await.is_err() {
            tracing::warn!("some connections were still open and are cut");
        }
    }
}

async fn serve_one(
    stream: TcpStream,
    peer: SocketAddr,
    site: Site,
    tls: Option<Tls>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Answers are written whole, so waiting for more of them only delays.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream);
    let service = site.map_request(move |request: Request<Incoming>| {
        let mut request = request.map(|body| Body::new(Deadlined::new(body)));
        let is_stream = request.headers().get(http::header::CONTENT_TYPE).is_some_and(is_ndjson);
        if is_stream {
            request = request.map(|body| Body::new(Deadlined::endless(body)));
        }
        request.extensions_mut().insert(Peer(peer));
        request
    });
    let service = hyper_util::service::TowerToHyperService::new(service);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_headers(128);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256).keep_alive_interval(HEAD_WITHIN);
    let ended = match tls {
        None => {
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            watcher.watch(connection.into_owned()).await
        }
        Some(tls) => {
            let accepted = tokio::time::timeout(HEAD_WITHIN, tls.accept(stream)).await;
            let Ok(Ok(stream)) = accepted else { return };
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
            watcher.watch(connection.into_owned()).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended badly");
    }
}

fn is_ndjson(kind: &http::HeaderValue) -> bool {
    kind.as_bytes().starts_with(b"application/x-ndjson")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the usual room of 128, fewer than the files that a process may have open.
    const CROWD: usize = 300;

    #[tokio::test]
    async fn a_crowd_is_let_in_while_the_node_is_busy() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None, 1).unwrap();
        let address = listener.address().unwrap();
        let crowd = async {
            let mut connected = Vec::new();
            while connected.len() < CROWD {
                connected.push(TcpStream::connect(address).await.unwrap());
            }
        };
        // Nobody takes anybody up, so whoever finds no room waits for ever.
        tokio::time::timeout(Duration::from_secs(10), crowd).await.expect("there is room for all");
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_said_to_be() {
        let first = Listener::bind("127.0.0.1:0".parse().unwrap(), None, 1).unwrap();
        let address = first.address().unwrap();
        let second = Listener::bind(address, None, 1).err().expect("it is taken");
        assert_eq!(
            second,
            format!("{address} is taken by another program: choose another address with --listen")
        );
    }
}
