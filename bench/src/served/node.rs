//! A scratch node: the real program, with a folder and a port of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::share::Share;
use super::wire::{Certificate, Target};
use crate::BenchError;
use crate::clock;

/// The admin token.
const TOKEN: &str = "bench-of-a-scratch-node-0123456789";

/// How a node is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) punctual: PathBuf,
    /// Its data folder.
    pub(crate) folder: PathBuf,
    /// The address of its database; none for the embedded store.
    pub(crate) database: Option<String>,
    /// Its name in a cluster.
    pub(crate) name: Option<String>,
    /// The token of executors.
    pub(crate) executor_token: Option<&'static str>,
    /// Its certificate; none for plain connections.
    pub(crate) certificate: Option<Certificate>,
}

impl Launch {
    pub(crate) fn new(punctual: &Path, folder: PathBuf) -> Launch {
        Launch {
            punctual: punctual.to_owned(),
            folder,
            database: None,
            name: None,
            executor_token: None,
            certificate: None,
        }
    }
}

/// A node that is stopped when this is dropped.
pub(crate) struct Served {
    /// None for a further connection to the node of another value.
    child: Option<Child>,
    target: Target,
    host: HeaderValue,
    bearer: HeaderValue,
    /// None before the first request.
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Served {
    /// Starts a node, and waits until it is ready.
    pub(crate) async fn start(launch: &Launch) -> Result<Served, BenchError> {
        let mut served = Served::begin(launch, None)?;
        served.wait().await?;
        Ok(served)
    }

    /// Starts a node that may be limited to a share of the machine, and waits until it listens.
    pub(crate) fn begin(launch: &Launch, share: Option<&Share>) -> Result<Served, BenchError> {
        let mut command = Command::new(&launch.punctual);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&launch.folder);
        if let Some(database) = &launch.database {
            command.args(["--database", database]);
        }
        if let Some(name) = &launch.name {
            command.args(["--node", name]);
        }
        command.envs(launch.executor_token.map(|token| ("PUNCTUAL_EXECUTOR_TOKEN", token)));
        command.envs(launch.certificate.iter().flat_map(Certificate::variables));
        let mut child = command
            .env("PUNCTUAL_ADMIN_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", launch.punctual.display()))?;
        if let Some(share) = share {
            share.hold(child.id())?;
        }
        let mut lines = BufReader::new(child.stdout.take().ok_or("its output is not there")?);
        let authority = address(&mut lines);
        if authority.is_err() {
            let _ = child.kill();
        }
        let authority = authority?;
        std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
        let (host, bearer) = (HeaderValue::try_from(&authority)?, format!("Bearer {TOKEN}").try_into()?);
        let target = Target::new(authority, launch.certificate.as_ref())?;
        Ok(Served { child: Some(child), target, host, bearer, sender: None })
    }

    /// Waits until it is ready.
    pub(crate) async fn wait(&mut self) -> Result<(), BenchError> {
        while self.ask("GET", "/readyz", &Value::Null).await.is_err() {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                return Err(format!("the node ended with {status}").into());
            }
            clock::sleep(std::time::Duration::from_millis(5)).await;
        }
        Ok(())
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, BenchError> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.ask_text(method, path, body).await?;
        Ok(serde_json::from_slice(&answer)
            .unwrap_or_else(|_| String::from_utf8_lossy(&answer).into_owned().into()))
    }

    /// The same with bodies as text: on a machine that is shared with the node, parsing JSON would take its CPU time.
    pub(crate) async fn ask_text(
        &mut self,
        method: &str,
        path: &str,
        body: String,
    ) -> Result<Bytes, BenchError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.host.clone())
            .header("authorization", self.bearer.clone())
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = self.sender().await?.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(body)
    }

    /// Sends the beat of an executor.
    pub(crate) async fn beat(&mut self, token: &str, beat: &Value) -> Result<(), BenchError> {
        let request = Request::builder()
            .method("POST")
            .uri("/api/registry")
            .header("host", self.host.clone())
            .header("XXL-JOB-ACCESS-TOKEN", token)
            .body(Full::new(Bytes::from(beat.to_string())))?;
        let answer = self.sender().await?.send_request(request).await?;
        let said = answer.into_body().collect().await?.to_bytes();
        let said: Value = serde_json::from_slice(&said)?;
        if said["code"] == 200 { Ok(()) } else { Err(format!("the beat was refused: {said}").into()) }
    }

    /// Opens its connection, so that no request waits for it.
    pub(crate) async fn connect(&mut self) -> Result<(), BenchError> {
        self.sender().await.map(drop)
    }

    /// Number of runs that this node has closed as succeeded since it started.
    pub(crate) async fn succeeded(&mut self) -> Result<u64, BenchError> {
        self.metric("punctual_runs_closed_total{outcome=\"succeeded\"} ").await
    }

    /// Number of shards that this node acts for.
    pub(crate) async fn shards_held(&mut self) -> Result<u64, BenchError> {
        self.metric("punctual_shards_held ").await
    }

    /// A metric of this node alone; 0 while it has none of that name.
    async fn metric(&mut self, name: &str) -> Result<u64, BenchError> {
        let metrics = self.ask("GET", "/metrics", &Value::Null).await?;
        let line = metrics.as_str().and_then(|text| text.lines().find_map(|line| line.strip_prefix(name)));
        Ok(line.and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    /// The same node, over a connection of its own.
    pub(crate) fn another(&self) -> Served {
        let (target, host, bearer) = (self.target.clone(), self.host.clone(), self.bearer.clone());
        Served { child: None, target, host, bearer, sender: None }
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// The admin token.
    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    /// The address that it listens on.
    pub(crate) fn authority(&self) -> &str {
        &self.target.authority
    }

    /// Its address and TLS settings.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// The connection, or a new one if the node has closed it after a time without requests.
    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, BenchError> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let (sender, connection) = http1::handshake(TokioIo::new(self.target.connect().await?)).await?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        self.sender.as_mut().ok_or_else(|| "there is no connection".into())
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}

fn address(lines: &mut impl BufRead) -> Result<String, BenchError> {
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some(url) = line.trim().strip_prefix("address") {
            let url = url.trim();
            return Ok(url.trim_start_matches("https://").trim_start_matches("http://").to_owned());
        }
        line.clear();
    }
    Err("the node ended before it said where it listens".into())
}
