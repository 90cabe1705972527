//! The way to the other nodes over HTTP: hints, gathered while one message is on its way and sent with the next, and questions.
//! A hint that does not arrive is found by the other node itself, only later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use punctual_api::Others;
use punctual_core::model::{NodeId, RunId, ShardId, Text};
use punctual_dispatch::stream::{Dial, Line, PeerSocket};
use punctual_node::ports::{Hint, NodeRow, Peers};
use punctual_protocol::native::{FRAME_MAX, PATH};
use punctual_protocol::{HINTS_PATH, PeerHint};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use url::Url;

/// How long one message may take. A lease is renewed every second, so later it is no news.
const WITHIN: Duration = Duration::from_secs(1);

/// How many hints wait for one node; more are found by looking.
const WAITING_MAX: usize = 10_000;

/// Tells other nodes. What each is to hear lies in its box until its carrier takes it.
pub(crate) struct Post {
    runtime: Handle,
    /// What this node shows.
    token: String,
    secured: TlsConnector,
    boxes: Mutex<BTreeMap<NodeId, Arc<Letterbox>>>,
}

/// What one node is to hear.
struct Letterbox {
    address: Url,
    inside: Mutex<Inside>,
    bell: Notify,
    /// Whether something is in it, or on its way.
    is_busy: watch::Sender<bool>,
    /// Whether the last that was carried did not arrive.
    has_failed: AtomicBool,
}

/// Each kind once, however often it was said.
#[derive(Default)]
struct Inside {
    arrived: BTreeSet<ShardId>,
    changed: BTreeMap<u32, u64>,
    settled: BTreeSet<RunId>,
    has_vacated: bool,
    wants_drain: bool,
    missing: BTreeSet<Text>,
    carry: BTreeMap<Text, NodeId>,
    is_closed: bool,
}

impl Post {
    pub(crate) fn new(token: String, secured: TlsConnector) -> Post {
        Post { runtime: Handle::current(), token, secured, boxes: Mutex::default() }
    }

    fn boxes(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, Arc<Letterbox>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, address: Url) -> Arc<Letterbox> {
        let letterbox = Arc::new(Letterbox {
            address,
            inside: Mutex::default(),
            bell: Notify::new(),
            is_busy: watch::Sender::new(false),
            has_failed: AtomicBool::new(false),
        });
        let carrier = Carrier {
            letterbox: Arc::clone(&letterbox),
            token: self.token.clone(),
            secured: self.secured.clone(),
            line: None,
        };
        self.runtime.spawn(carrier.carry());
        letterbox
    }
}

#[async_trait]
impl Peers for Post {
    fn tell(&self, node: NodeId, hint: Hint) {
        if let Some(letterbox) = self.boxes().get(&node) {
            letterbox.put(hint);
        }
    }

    fn meet(&self, nodes: &[NodeRow]) {
        let mut boxes = self.boxes();
        boxes.retain(|node, letterbox| {
            let lives = nodes.iter().any(|row| row.node == *node);
            if !lives {
                letterbox.close();
            }
            lives
        });
        for row in nodes {
            if let Ok(address) = Url::parse(&row.address)
                && !boxes.contains_key(&row.node)
            {
                boxes.insert(row.node, self.open(address));
            }
        }
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.boxes().get(&node).is_some_and(|letterbox| !letterbox.has_failed.load(Ordering::Relaxed))
    }

    async fn told(&self) {
        let boxes: Vec<Arc<Letterbox>> = self.boxes().values().cloned().collect();
        let all = async {
            for letterbox in boxes {
                letterbox.emptied().await;
            }
        };
        // A node that does not answer finds out by itself.
        let _ = tokio::time::timeout(WITHIN / 2, all).await;
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.boxes().values().for_each(|letterbox| letterbox.close());
    }
}

impl Letterbox {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, hint: Hint) {
        let mut inside = self.inside();
        inside.put(hint);
        self.is_busy.send_replace(true);
        drop(inside);
        self.bell.notify_one();
    }

    /// The carrier has nothing in its hands; whether something new lies in the box, the bell says.
    fn come_back(&self) {
        // Under the lock, so that nothing is put in between.
        let inside = self.inside();
        self.is_busy.send_replace(!inside.is_empty());
    }

    async fn emptied(&self) {
        // It cannot fail: the box itself sends.
        let _ = self.is_busy.subscribe().wait_for(|is_busy| !is_busy).await;
    }

    fn close(&self) {
        self.inside().is_closed = true;
        self.bell.notify_one();
    }
}

impl Inside {
    fn put(&mut self, hint: Hint) {
        match hint {
            Hint::Arrived(shard) => drop(self.arrived.insert(shard)),
            Hint::Changed(change, job) => drop(self.changed.insert(job.0, change.0)),
            Hint::Settled(run) if self.settled.len() < WAITING_MAX => drop(self.settled.insert(run)),
            Hint::Settled(_) => {}
            Hint::Vacated => self.has_vacated = true,
            Hint::Drain => self.wants_drain = true,
            Hint::Missing(url) => drop(self.missing.insert(url)),
            Hint::Carry { url, to } => drop(self.carry.insert(url, to)),
        }
    }

    fn is_empty(&self) -> bool {
        let has_lists = !self.arrived.is_empty()
            || !self.changed.is_empty()
            || !self.settled.is_empty()
            || !self.missing.is_empty()
            || !self.carry.is_empty();
        !has_lists && !self.has_vacated && !self.wants_drain
    }

    fn take(&mut self) -> Vec<PeerHint> {
        let Inside { arrived, changed, settled, has_vacated, wants_drain, missing, carry, .. } =
            std::mem::take(self);
        let arrived = arrived.into_iter().map(|shard| PeerHint::Arrived(shard.0));
        let changed = changed.into_iter().map(|(job, change)| PeerHint::Changed { change, job });
        let settled = settled.into_iter().map(|run| PeerHint::Settled(run.0));
        let vacated = has_vacated.then_some(PeerHint::Vacated);
        let drain = wants_drain.then_some(PeerHint::Drain);
        let missing = missing.into_iter().map(|url| PeerHint::Missing(url.into_owned()));
        let carry =
            carry.into_iter().map(|(url, to)| PeerHint::Carry { url: url.into_owned(), to: to.to_string() });
        let hints = arrived.chain(changed).chain(settled).chain(vacated).chain(drain).chain(missing);
        hints.chain(carry).take(WAITING_MAX).collect()
    }
}

/// Carries what lies in one box to its node.
struct Carrier {
    letterbox: Arc<Letterbox>,
    token: String,
    secured: TlsConnector,
    line: Option<SendRequest<Full<Bytes>>>,
}

impl Carrier {
    async fn carry(mut self) {
        loop {
            self.letterbox.bell.notified().await;
            let (hints, is_closed) = {
                let mut inside = self.letterbox.inside();
                let is_closed = inside.is_closed;
                (inside.take(), is_closed)
            };
            if !hints.is_empty() {
                self.deliver(&hints).await;
            }
            self.letterbox.come_back();
            if is_closed {
                return;
            }
        }
    }

    /// A line that was quiet may have been closed, so there is one more try, over a new one.
    async fn deliver(&mut self, hints: &[PeerHint]) {
        let body = Bytes::from(serde_json::to_vec(hints).expect("hints are plain data"));
        for is_last in [false, true] {
            let error = match tokio::time::timeout(WITHIN, self.send(body.clone())).await {
                Ok(Ok(())) => {
                    self.letterbox.has_failed.store(false, Ordering::Relaxed);
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => "no answer in time".into(),
            };
            self.line = None;
            if is_last {
                self.letterbox.has_failed.store(true, Ordering::Relaxed);
                let address = self.letterbox.address.as_str();
                tracing::debug!(address, error, "a node was not told; it finds out by itself");
            }
        }
    }

    async fn send(&mut self, body: Bytes) -> Result<(), String> {
        if self.line.as_ref().is_none_or(SendRequest::is_closed) {
            self.line = Some(self.connect().await?);
        }
        let Some(line) = self.line.as_mut() else { return Err("there is no line".into()) };
        line.ready().await.map_err(|error| error.to_string())?;
        let address = &self.letterbox.address;
        let host = address.authority().to_owned();
        let path = format!("{}{HINTS_PATH}", address.path().trim_end_matches('/'));
        let request = Request::post(path)
            .header(header::HOST, host)
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let answer = line.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        // The line is used again only when the whole answer was read.
        answer.into_body().collect().await.map_err(|error| error.to_string())?;
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        connect(&self.letterbox.address, &self.secured).await
    }
}

async fn connect(address: &Url, secured: &TlsConnector) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = reach(address, secured).await?;
    let (line, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // It ends with the line, and the request that uses the line fails with the reason.
        let _ = connection.await;
    });
    Ok(line)
}

/// Asks other nodes, each question over a connection of its own: they are few.
pub(crate) struct Questions {
    token: String,
    secured: TlsConnector,
}

impl Questions {
    pub(crate) fn new(token: String, secured: TlsConnector) -> Questions {
        Questions { token, secured }
    }

    /// Sends a request, and gives the body of a good answer.
    async fn call(
        &self,
        address: &str,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Incoming, String> {
        let address = Url::parse(address).map_err(|error| error.to_string())?;
        let mut line = connect(&address, &self.secured).await?;
        let request = request
            .uri(format!("{}{path}", address.path().trim_end_matches('/')))
            .header(header::HOST, address.authority())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let answer = line.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if status.is_success() { Ok(answer.into_body()) } else { Err(format!("it answered {status}")) }
    }
}

#[async_trait]
impl Others for Questions {
    async fn ask(&self, address: &str, path: &str, body: Bytes, max: usize) -> Result<Bytes, String> {
        let request =
            Request::builder().method(Method::POST).header(header::CONTENT_TYPE, "application/json");
        let answer = self.call(address, path, request, body).await?;
        let answer = Limited::new(answer, max).collect().await.map_err(|error| error.to_string())?;
        Ok(answer.to_bytes())
    }

    async fn listen(&self, address: &str, path: &str, last_id: Option<&str>) -> Result<Body, String> {
        let mut request = Request::builder().method(Method::GET);
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        Ok(Body::new(self.call(address, path, request, Bytes::new()).await?))
    }
}

/// There are no other nodes.
pub(crate) struct NoOthers;

#[async_trait]
impl Others for NoOthers {
    async fn ask(&self, _: &str, _: &str, _: Bytes, _: usize) -> Result<Bytes, String> {
        Err(ALONE.into())
    }

    async fn listen(&self, _: &str, _: &str, _: Option<&str>) -> Result<Body, String> {
        Err(ALONE.into())
    }
}

const ALONE: &str = "there is no other node";

/// A connection to the node at an address.
async fn reach(address: &Url, secured: &TlsConnector) -> Result<Box<dyn Line>, String> {
    let said = |error: std::io::Error| error.to_string();
    let host = address.host_str().ok_or("the address names no host")?.trim_matches(['[', ']']).to_owned();
    let port = address.port_or_known_default().ok_or("the address names no port")?;
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(said)?;
    let _ = stream.set_nodelay(true);
    if address.scheme() != "https" {
        return Ok(Box::new(stream));
    }
    let name = rustls::pki_types::ServerName::try_from(host).map_err(|error| error.to_string())?;
    Ok(Box::new(secured.connect(name, stream).await.map_err(said)?))
}

/// The way to the executors' door of other nodes.
pub(crate) fn dial(token: String, secured: TlsConnector) -> Dial {
    Arc::new(move |address| Box::pin(knock(address, token.clone(), secured.clone())))
}

async fn knock(address: Text, token: String, secured: TlsConnector) -> Result<PeerSocket, String> {
    let address = Url::parse(&address).map_err(|error| error.to_string())?;
    let stream = reach(&address, &secured).await?;
    let scheme = if address.scheme() == "https" { "wss" } else { "ws" };
    let path = address.path().trim_end_matches('/');
    let mut request = format!("{scheme}://{}{path}{PATH}", address.authority())
        .into_client_request()
        .map_err(|error| error.to_string())?;
    let shown = format!("Bearer {token}").parse().map_err(|_| "the token is no header".to_owned())?;
    request.headers_mut().insert(header::AUTHORIZATION, shown);
    let config = WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX));
    let opened = client_async_with_config(request, stream, Some(config)).await;
    opened.map(|(socket, _)| socket).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use punctual_core::model::{ChangeId, JobId};

    use super::*;

    #[test]
    fn what_is_said_twice_is_told_once() {
        let mut inside = Inside::default();
        for hint in [
            Hint::Arrived(ShardId(3)),
            Hint::Settled(RunId(9)),
            Hint::Changed(ChangeId(1), JobId(7)),
            Hint::Arrived(ShardId(3)),
            Hint::Changed(ChangeId(2), JobId(7)),
            Hint::Vacated,
        ] {
            inside.put(hint);
        }
        let told = [
            PeerHint::Arrived(3),
            PeerHint::Changed { change: 2, job: 7 },
            PeerHint::Settled(9),
            PeerHint::Vacated,
        ];
        assert_eq!(inside.take(), told);
        assert_eq!(inside.take(), []);
    }
}
