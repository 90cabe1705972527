//! The accept loop: how many connections may be open, how slow they may be, and how they end.
//!
//! A client that sends nothing, or one byte at a time, holds one connection for a bounded time and nothing else:
//! there are deadlines for a handshake, the first bytes after it, the head and the body of a request, an answer that
//! is not read, and a connection without requests. How many connections there may be, and which one makes room for
//! another, is decided in `places.rs`.

mod patience;
mod places;
mod tls;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use punctual_api::{Peer, Seat};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

use patience::{Patient, READ_WITHIN};
use places::Entered;
pub(crate) use places::{PlaceLimits, Places};
pub(crate) use tls::{Tls, load as load_tls};
use traffic::Traffic;

use crate::clock;
use crate::console::Site;

/// How long a client may take to send the head of a request, and how long a connection may be idle between two.
const HEAD_WITHIN: Duration = Duration::from_secs(20);

/// How long a connection may be without a request. HTTP/1 has a shorter deadline, that of the next head.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// How long a client may take to close a connection after it was told to.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// TCP keep-alive: after how much silence a client is probed, how often, and how many times. A client that has lost
/// its network sends nothing, and its connection would otherwise stay open for ever.
const ALIVE_AFTER: Duration = Duration::from_secs(60);
const ALIVE_EVERY: Duration = Duration::from_secs(15);
const ALIVE_ASKS: u32 = 4;

/// The longest head of a request, and how much of a body is read at once.
const BUFFER_MAX: usize = 32 << 10;

/// How much a client may send ahead over HTTP/2: for one request, and for all of a connection.
const AHEAD: u32 = 128 << 10;
const AHEAD_IN_ALL: u32 = 512 << 10;

/// How many connections may wait to be accepted. A client beyond that is not refused: its packets are dropped, and it
/// tries again a second later. The system may allow fewer.
const BACKLOG: u32 = 4_096;

/// How long to wait before accepting again when the system has no room for another connection.
const BREATH: Duration = Duration::from_millis(50);

/// The listening socket for people, programs and nodes.
pub(crate) struct Listener {
    listener: TcpListener,
    tls: Option<Tls>,
}

impl Listener {
    /// Binds the address, or says that it is taken.
    pub(crate) fn bind(address: SocketAddr, tls: Option<Tls>) -> Result<Listener, String> {
        let listener = listen(address).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{address} is taken by another program: choose another address with --listen")
            }
            _ => format!("cannot listen on {address}: {error}; choose another address with --listen"),
        })?;
        Ok(Listener { listener, tls })
    }

    /// The address that was bound.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until told to stop, then lets requests finish for at most `bound`.
    pub(crate) async fn serve(
        self,
        site: Site,
        places: Arc<Places>,
        mut stop: watch::Receiver<bool>,
        bound: Duration,
    ) {
        // Every connection holds a sender, so nothing more can be received once all are gone.
        let (open, mut gone) = mpsc::channel::<()>(1);
        let until = stop.clone();
        let accepting = async {
            loop {
                let (stream, peer) = self.accept().await;
                // Answers are written whole, so Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                keep_alive(&stream);
                let entered = places.enter(punctual_api::network(peer.ip())).await;
                let (site, tls, stop) = (site.clone(), self.tls.clone(), until.clone());
                let open = open.clone();
                tokio::spawn(async move {
                    serve_one(stream, peer, site, tls, entered, stop).await;
                    drop(open);
                });
            }
        };
        tokio::select! {
            never = accepting => never,
            _ = stop.wait_for(|stop| *stop) => {}
        }
        drop((self.listener, open));
        if tokio::time::timeout(bound, gone.recv()).await.is_err() {
            tracing::warn!("some connections were still open and are cut");
        }
    }

    async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    // Most often the process is out of file descriptors. They become free again.
                    tracing::warn!(%error, "cannot accept a connection");
                    clock::sleep(BREATH).await;
                }
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restarted node can bind its port although connections of the last process are still closing. On other systems
    // than Unix this would let two programs share one port.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Turns on TCP keep-alive. If that fails, a dead connection only lasts longer.
fn keep_alive(stream: &TcpStream) {
    let set = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, ALIVE_AFTER))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, ALIVE_EVERY))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, ALIVE_ASKS));
    if let Err(error) = set {
        tracing::debug!(%error, "a connection is not asked whether it is alive");
    }
}

/// Serves one connection until it ends, or has to make room for another.
async fn serve_one<S>(
    stream: S,
    peer: SocketAddr,
    site: Site,
    tls: Option<Tls>,
    entered: Arc<Entered>,
    stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let leave = entered.leave();
    let served = async {
        match tls {
            None => converse(stream, peer, site, entered, stop).await,
            Some(tls) => {
                let accepted = tokio::time::timeout(HEAD_WITHIN, tls.accept(stream)).await;
                let Ok(Ok(stream)) = accepted else { return };
                converse(stream, peer, site, entered, stop).await;
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = leave.notified() => tracing::debug!(%peer, "a connection made room for another"),
    }
}

/// Speaks HTTP over a connection, until it ends or was without a request for too long.
async fn converse<S>(
    stream: S,
    peer: SocketAddr,
    site: Site,
    entered: Arc<Entered>,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let traffic = Traffic::new();
    let service = {
        let traffic = Arc::clone(&traffic);
        service_fn(move |request: Request<Incoming>| {
            let (site, under_way, version) = (site.clone(), traffic.begin(), request.version());
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(Seat(Arc::clone(&entered) as _));
            async move {
                let answer = site.oneshot(request).await;
                answer.map(|answer| answer.map(|body| under_way.until(body, version)))
            }
        })
    };
    let builder = builder();
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(Patient::new(stream)), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        _ = stop.wait_for(|stop| *stop) => None,
        () = traffic.idle(IDLE_FOR) => None,
        () = traffic.unread(READ_WITHIN) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // Requests under way are answered, and the client is told to send no new ones.
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(CLOSES_WITHIN, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "a connection ended badly");
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(128)
        .max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .initial_stream_window_size(AHEAD)
        .initial_connection_window_size(AHEAD_IN_ALL)
        .max_send_buf_size(BUFFER_MAX)
        .keep_alive_interval(HEAD_WITHIN);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than the usual backlog of 128, fewer than the files that a process may open.
    const CROWD: usize = 300;

    #[tokio::test]
    async fn a_crowd_is_let_in_while_the_node_is_busy() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = listener.address().unwrap();
        let crowd = async {
            let mut connected = Vec::new();
            while connected.len() < CROWD {
                connected.push(TcpStream::connect(address).await.unwrap());
            }
        };
        // No connection is accepted here, so a client that finds no room in the backlog would wait for ever.
        tokio::time::timeout(Duration::from_secs(10), crowd).await.expect("there is room for all");
    }

    /// A connection to a server with one route, and the task that serves it.
    fn connected(tls: Option<Tls>) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<()>) {
        let (client, stream) = tokio::io::duplex(64 << 10);
        let site = Site::new(axum::Router::new().route("/", axum::routing::get(|| async { "here" })));
        let served = tokio::spawn(async move {
            let places = Places::new(PlaceLimits::of(10, 10, 10, 10, 10));
            let peer = SocketAddr::from(([192, 0, 2, 7], 9));
            let entered = places.enter(peer.ip()).await;
            let (_stop, stopped) = watch::channel(false);
            serve_one(stream, peer, site, tls, entered, stopped).await;
        });
        (client, served)
    }

    /// How long it took until the connection was ended.
    async fn ended_after(served: tokio::task::JoinHandle<()>) -> Duration {
        let begun = clock::instant();
        tokio::time::timeout(Duration::from_secs(600), served).await.expect("it is ended").unwrap();
        clock::since(begun)
    }

    fn certificate(file: &str) -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dispatch/tests/data").join(file)
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection_also_after_a_handshake() {
        let (_silent, served) = connected(None);
        assert!(ended_after(served).await <= HEAD_WITHIN);
        let tls = load_tls(&certificate("loopback.pem"), &certificate("loopback-key.pem")).unwrap();
        let (client, served) = connected(Some(tls));
        let connector = punctual_cli::trust::connector(Some(&certificate("root.pem"))).unwrap();
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let _silent = connector.connect(name, client).await.expect("a handshake");
        assert!(ended_after(served).await <= HEAD_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn an_http2_connection_without_requests_is_ended_and_one_with_them_is_not() {
        use http_body_util::{BodyExt, Empty};
        let (client, served) = connected(None);
        let handshake = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .handshake::<_, Empty<bytes::Bytes>>(TokioIo::new(client));
        let (mut sender, connection) = handshake.await.unwrap();
        // This client answers every keep-alive ping.
        let connection = tokio::spawn(connection);
        for _ in 0..5 {
            clock::sleep(IDLE_FOR * 9 / 10).await;
            let request = Request::get("http://here/").body(Empty::new()).unwrap();
            let answer = sender.send_request(request).await.expect("it is not idle");
            assert_eq!(&answer.into_body().collect().await.unwrap().to_bytes()[..], b"here");
        }
        let took = ended_after(served).await;
        assert!((IDLE_FOR..=IDLE_FOR + CLOSES_WITHIN).contains(&took), "{took:?}");
        drop((sender, connection));
    }

    #[tokio::test(start_paused = true)]
    async fn an_http2_connection_whose_answers_are_not_read_is_ended() {
        use http_body_util::Empty;
        let (client, served) = connected(None);
        let handshake = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(0)
            .handshake::<_, Empty<bytes::Bytes>>(TokioIo::new(client));
        let (mut sender, connection) = handshake.await.unwrap();
        // This client reads the connection and answers pings, but gives the answer no room.
        let connection = tokio::spawn(connection);
        let request = Request::get("http://here/").body(Empty::new()).unwrap();
        let answer = sender.send_request(request).await.expect("the head needs no room");
        let took = ended_after(served).await;
        assert!((READ_WITHIN..=READ_WITHIN * 2 + CLOSES_WITHIN).contains(&took), "{took:?}");
        drop((sender, connection, answer));
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_said_to_be() {
        let first = Listener::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let address = first.address().unwrap();
        let second = Listener::bind(address, None).err().expect("it is taken");
        assert_eq!(
            second,
            format!("{address} is taken by another program: choose another address with --listen")
        );
    }
}
