//! An executor that speaks XXL-JOB's protocol: it accepts every run at once, and calls back in batches like the Java one.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::agent::Arrived;
use crate::BenchError;
use crate::clock::{self, Watch};

/// Results in one request, as many as the Java executor sends.
const BATCH: usize = 50;

/// The interval between beats.
const BEAT: Duration = Duration::from_secs(30);

/// Callbacks in flight at once.
const CALLERS: usize = 4;

/// An executor on a free port.
pub(crate) struct XxlExecutor {
    pub(crate) address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    kept: Arc<AtomicU64>,
    results: mpsc::UnboundedSender<u64>,
}

/// The executor's connection to the node.
struct Admin {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl XxlExecutor {
    /// Starts an executor and registers it with the node.
    pub(crate) async fn start(watch: &Arc<Watch>, node: &str, app: &str) -> Result<XxlExecutor, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (results, queue) = mpsc::unbounded_channel();
        let (arrived, kept): (Arc<Mutex<Vec<Arrived>>>, Arc<AtomicU64>) = Default::default();
        let executor = XxlExecutor { address, arrived, kept, results };
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        for _ in 0..CALLERS {
            let admin = Admin::reach(node).await?;
            tokio::spawn(call_back(admin, Arc::clone(&queue), Arc::clone(&executor.kept)));
        }
        tokio::spawn(serve(
            listener,
            Arc::clone(watch),
            Arc::clone(&executor.arrived),
            executor.results.clone(),
        ));
        let mut admin = Admin::reach(node).await?;
        let url = format!("http://{address}/");
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": app, "registryValue": url});
        if !admin.post("registry", &body).await? {
            return Err("the node refused the registration".into());
        }
        tokio::spawn(beat(node.to_owned(), body));
        Ok(executor)
    }

    /// Number of runs that have arrived, and number of stored results.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let arrived = self.arrived.lock().expect("nobody panics while holding it").len() as u64;
        (arrived, self.kept.load(Ordering::Relaxed))
    }

    /// The arrivals since the last call. The log id identifies the run, and the payload holds its due time.
    pub(crate) fn take(&self) -> Vec<Arrived> {
        self.kept.store(0, Ordering::Relaxed);
        std::mem::take(&mut *self.arrived.lock().expect("nobody panics while holding it"))
    }
}

impl Admin {
    async fn reach(authority: &str) -> Result<Admin, BenchError> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Admin { sender, authority: authority.to_owned() })
    }

    /// Whether the node accepted the request.
    async fn post(&mut self, verb: &str, body: &Value) -> Result<bool, BenchError> {
        let request = Request::post(format!("/xxl-job-admin/api/{verb}"))
            .header("host", &self.authority)
            .header("content-type", "application/json;charset=UTF-8")
            .body(Full::new(Bytes::from(body.to_string())))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice::<Value>(&answer)?["code"] == 200)
    }
}

/// Sends beats for ever, each over a new connection, because the node closes idle ones.
async fn beat(node: String, body: Value) {
    loop {
        clock::sleep(BEAT).await;
        if let Ok(mut admin) = Admin::reach(&node).await {
            let _ = admin.post("registry", &body).await;
        }
    }
}

/// Sends results, and repeats them until they are accepted.
async fn call_back(
    mut admin: Admin,
    queue: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<u64>>>,
    kept: Arc<AtomicU64>,
) {
    loop {
        let mut logs = Vec::with_capacity(BATCH);
        if queue.lock().await.recv_many(&mut logs, BATCH).await == 0 {
            return;
        }
        let result = |log: &u64| json!({"logId": log, "logDateTim": 0, "handleCode": 200, "handleMsg": ""});
        let body = Value::Array(logs.iter().map(result).collect());
        while !admin.post("callback", &body).await.unwrap_or(false) {
            clock::sleep(Duration::from_millis(100)).await;
        }
        kept.fetch_add(logs.len() as u64, Ordering::Relaxed);
    }
}

async fn serve(
    listener: TcpListener,
    watch: Arc<Watch>,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    results: mpsc::UnboundedSender<u64>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (watch, arrived, results) = (Arc::clone(&watch), Arc::clone(&arrived), results.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (at, arrived, results) = (watch.date(), Arc::clone(&arrived), results.clone());
            take(request, at, arrived, results)
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(
    request: Request<Incoming>,
    at: Duration,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    results: mpsc::UnboundedSender<u64>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let is_run = request.uri().path() == "/run";
    let body = request.into_body().collect().await?.to_bytes();
    if is_run {
        let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let due = body["executorParams"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
        let run = body["logId"].as_u64().unwrap_or(0);
        arrived.lock().expect("nobody panics while holding it").push(Arrived { run, due, at });
        let _ = results.send(body["logId"].as_u64().unwrap_or(0));
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"code\":200,\"msg\":null}"))))
}
