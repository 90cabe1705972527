//! Connections: resolve the name, ask the guard, connect to exactly the address that the guard judged, and add TLS
//! where the url asks for it.
//!
//! No proxy is ever used, whatever the environment says: it would resolve and connect for us, unguarded.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

use crate::clock;
use crate::guard::{Guard, HEALTH, Refusal};

/// The longest head of an answer that is read.
const HEAD_MAX: usize = 64 << 10;

/// How many names are looked up at the same time. A lookup cannot be cancelled: behind a name server that does not
/// answer it keeps its thread long after the last caller gave up, and these threads are shared with the rest of the
/// process.
const LOOKUPS_MAX: usize = 16;

/// Looks a name up, and blocks its thread until the answer is there.
type Lookup = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The machine behind a url: what a connection is made to, and kept for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    is_tls: bool,
    host: Host<String>,
    port: u16,
    /// Whether the stricter of two guards judges it. Such a connection is never shared with calls that the other
    /// guard judges.
    is_strict: bool,
}

impl Origin {
    pub(crate) fn of(url: &Url) -> Option<Origin> {
        let host = url.host()?.to_owned();
        let port = url.port_or_known_default()?;
        Some(Origin { is_tls: url.scheme() == "https", host, port, is_strict: false })
    }

    /// The same, judged by the stricter guard.
    pub(crate) fn strict(self, is_strict: bool) -> Origin {
        Origin { is_strict, ..self }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Why there is no connection. In every case nothing was sent.
#[derive(Debug)]
pub(crate) enum Unconnected {
    /// The guard refused it.
    Refused(Refusal),
    /// It could not be made.
    Failed(String),
    /// The connection was not accepted in time: the machine is gone, or its queue of new connections is full.
    Late(String),
}

/// What moves an open connection on; it has to be polled while anything is asked of the connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection, whatever it is wrapped in.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Makes connections.
pub(crate) struct Connector {
    guard: Guard,
    /// The same guard with this node itself allowed, for the one request that it may be asked.
    health_guard: Guard,
    /// For origins that are to be judged more strictly.
    strict_guard: Guard,
    tls: TlsConnector,
    connect_timeout: Duration,
    resolve_timeout: Duration,
    lookup: Lookup,
    /// One permit per lookup, held until the lookup has really ended.
    lookups: Arc<Semaphore>,
}

impl Connector {
    /// `extra_roots` are certificates (PEM) that are trusted beside the public ones.
    pub(crate) fn new(
        guard: Guard,
        connect_timeout: Duration,
        resolve_timeout: Duration,
        extra_roots: Option<&Path>,
    ) -> Result<Connector, String> {
        let tls = TlsConnector::from(Arc::new(tls_settings(extra_roots)?));
        let health_guard = guard.clone().with_self();
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        let strict_guard = guard.clone();
        Ok(Connector {
            guard,
            health_guard,
            strict_guard,
            tls,
            connect_timeout,
            resolve_timeout,
            lookup,
            lookups,
        })
    }

    /// The same with another guard for what is judged more strictly.
    pub(crate) fn with_strict(self, strict_guard: Guard) -> Connector {
        Connector { strict_guard, ..self }
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// A new connection, ready for a request to this path.
    pub(crate) async fn connect(
        &self,
        origin: &Origin,
        path: &str,
    ) -> Result<(SendRequest<Full<Bytes>>, Driver), Unconnected> {
        let guard = if path == HEALTH { &self.health_guard } else { &self.guard };
        let spoken = match self.reach_within(guard, origin).await? {
            Stream::Plain(stream) => speak(stream).await,
            Stream::Tls(stream) => speak(stream).await,
        };
        let failed =
            |error| Unconnected::Failed(format!("cannot speak to {origin}: {error}; nothing was sent"));
        spoken.map_err(failed)
    }

    /// A new connection on which nothing was sent yet.
    pub(crate) async fn reach(&self, origin: &Origin) -> Result<Stream, Unconnected> {
        let guard = if origin.is_strict { &self.strict_guard } else { &self.guard };
        self.reach_within(guard, origin).await
    }

    async fn reach_within(&self, guard: &Guard, origin: &Origin) -> Result<Stream, Unconnected> {
        // The name is judged first, before a name server learns of it.
        guard.judge(&origin.host, origin.port, &[]).map_err(Unconnected::Refused)?;
        let addresses = self.resolve(origin).await?;
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        guard.judge(&origin.host, origin.port, &ips).map_err(Unconnected::Refused)?;
        let mut failure =
            Unconnected::Failed(format!("{origin} has no address; check the name; nothing was sent"));
        for address in addresses {
            let attempt = timeout(self.connect_timeout, self.open(origin, address)).await;
            let at = address.ip();
            failure = match attempt {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => Unconnected::Failed(format!(
                    "cannot connect to {origin} at {at}: {error}; nothing was sent"
                )),
                Err(_) => {
                    let bound = self.connect_timeout;
                    Unconnected::Late(format!(
                        "cannot connect to {origin} at {at}: no connection within {bound:?}; nothing was sent"
                    ))
                }
            };
        }
        Err(failure)
    }

    async fn resolve(&self, origin: &Origin) -> Result<Vec<SocketAddr>, Unconnected> {
        let name = match &origin.host {
            Host::Ipv4(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            Host::Ipv6(address) => return Ok(vec![SocketAddr::new((*address).into(), origin.port)]),
            Host::Domain(name) => name,
        };
        let failed = |reason: &dyn fmt::Display| {
            Unconnected::Failed(format!("cannot resolve {name}: {reason}; nothing was sent"))
        };
        let deadline = clock::instant() + self.resolve_timeout;
        let place = timeout_at(deadline, Arc::clone(&self.lookups).acquire_owned()).await;
        let place = place.map_err(|_| failed(&"too many lookups are pending"))?;
        let (lookup, asked, port) = (self.lookup, name.clone(), origin.port);
        let found = tokio::task::spawn_blocking(move || {
            let found = lookup(&asked, port);
            drop(place);
            found
        });
        match timeout_at(deadline, found).await {
            Ok(Ok(Ok(addresses))) => Ok(addresses),
            Ok(Ok(Err(error))) => Err(failed(&error)),
            Ok(Err(error)) => Err(failed(&error)),
            Err(_) => Err(failed(&format!("no answer within {:?}", self.resolve_timeout))),
        }
    }

    async fn open(&self, origin: &Origin, address: SocketAddr) -> io::Result<Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        if origin.is_tls {
            let name = server_name(&origin.host)?;
            return Ok(Stream::Tls(Box::new(self.tls.connect(name, stream).await?)));
        }
        Ok(Stream::Plain(stream))
    }
}

fn lookup(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((name, port).to_socket_addrs()?.collect())
}

async fn speak<S>(stream: S) -> io::Result<(SendRequest<Full<Bytes>>, Driver)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut settings = http1::Builder::new();
    settings.max_buf_size(HEAD_MAX);
    let (sender, connection) = settings.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    Ok((sender, Box::pin(connection)))
}

fn server_name(host: &Host<String>) -> io::Result<ServerName<'static>> {
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name).to_owned();
            ServerName::try_from(name).map_err(io::Error::other)
        }
        Host::Ipv4(address) => Ok(IpAddr::from(*address).into()),
        Host::Ipv6(address) => Ok(IpAddr::from(*address).into()),
    }
}

fn tls_settings(extra_roots: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = extra_roots {
        let failed = |reason: &dyn fmt::Display| {
            format!("cannot take certificates from {}: {reason}; expected a PEM file", path.display())
        };
        let pem = std::fs::read(path).map_err(|error| failed(&error))?;
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| failed(&error))?;
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        if roots.len() == before {
            return Err(failed(&"there are none in it"));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("cannot speak TLS: {error}"))?;
    let mut settings = builder.with_root_certificates(roots).with_no_client_auth();
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// Whether the name server answers.
    static ANSWERS: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    fn tarpit(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        let closed = ANSWERS.0.lock().unwrap();
        drop(ANSWERS.1.wait_while(closed, |answers| !*answers).unwrap());
        Ok(Vec::new())
    }

    #[tokio::test]
    async fn lookups_that_hang_take_no_more_than_their_places() {
        let wait = Duration::from_millis(20);
        let mut connector = Connector::new(Guard::default(), wait, wait, None).unwrap();
        connector.lookup = tarpit;
        let origin = Origin::of(&Url::parse("http://tarpit.example/").unwrap()).unwrap();
        let told = async || match connector.resolve(&origin).await {
            Err(Unconnected::Failed(reason) | Unconnected::Late(reason)) => reason,
            other => panic!("{other:?}"),
        };
        for _ in 0..LOOKUPS_MAX {
            assert!(told().await.contains("no answer within"));
        }
        let said = "cannot resolve tarpit.example: too many lookups are pending; nothing was sent";
        assert_eq!(told().await, said, "given up, but not ended");
        *ANSWERS.0.lock().unwrap() = true;
        ANSWERS.1.notify_all();
        let _all_ended = connector.lookups.acquire_many(LOOKUPS_MAX as u32).await.unwrap();
    }
}
