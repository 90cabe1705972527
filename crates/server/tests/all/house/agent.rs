//! A real HTTP agent: it remembers what it was asked, and answers as the test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    pub(crate) fn run(&self) -> u64 {
        self.header("punctual-run-id").parse().expect("a run id")
    }
}

/// What it says.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: &'static str,
    pub(crate) after: Duration,
}

impl Answer {
    pub(crate) fn status(status: u16) -> Answer {
        Answer { status, headers: Vec::new(), body: "", after: Duration::ZERO }
    }
}

type Script = dyn Fn(usize, &Seen) -> Answer + Send + Sync;

/// An agent that lives as long as the value.
pub(crate) struct Agent {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Agent {
    /// One that is always content.
    pub(crate) async fn content() -> Agent {
        Agent::scripted(|_, _| Answer::status(200)).await
    }

    /// One that answers by the number of the request, from 0, and by the request.
    pub(crate) async fn scripted(script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let task = tokio::spawn(serve(listener, Arc::clone(&seen), script));
        Agent { address, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().expect("no panic").len()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, seen: Arc<Mutex<Vec<Seen>>>, script: Arc<Script>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (seen, script) = (Arc::clone(&seen), Arc::clone(&script));
        let service = service_fn(move |request| answer(request, Arc::clone(&seen), Arc::clone(&script)));
        let serving =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(serving);
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Script>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let (head, body) = request.into_parts();
    let body = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
    let one = Seen {
        at: now.as_millis() as i64,
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: head.headers,
        body,
    };
    let said = {
        let mut seen = seen.lock().expect("no panic");
        let said = script(seen.len(), &one);
        seen.push(one);
        said
    };
    if !said.after.is_zero() {
        tokio::time::sleep(said.after).await;
    }
    let mut response = Response::builder().status(said.status);
    for (name, value) in said.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from_static(said.body.as_bytes()))).expect("a response"))
}
