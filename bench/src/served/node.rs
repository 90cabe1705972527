//! A scratch node: the real program, in a folder and on a port of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::Failure;

/// A node that is stopped when the value goes.
pub(crate) struct Served {
    child: Child,
    authority: String,
    token: String,
    /// None until something is asked.
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Served {
    pub(crate) async fn start(punctual: &Path, folder: &Path) -> Result<Served, Failure> {
        let mut child = Command::new(punctual)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", punctual.display()))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("its output is not there")?);
        let authority = address(&mut lines)?;
        std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
        let token = std::fs::read_to_string(folder.join("admin-token"))?;
        let mut served = Served { child, authority, token, sender: None };
        while served.ask("GET", "/readyz", &Value::Null).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Ok(served)
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.authority)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let answer = self.sender().await?.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            return Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// What the first admin shows.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Where it listens.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The connection, or another where the node has closed it: it does so when nothing is asked for a while.
    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Failure> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let stream = TcpStream::connect(&self.authority).await?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        self.sender.as_mut().ok_or_else(|| "there is no connection".into())
    }

    /// The process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(lines: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if let Some(url) = line.trim().strip_prefix("address") {
            return Ok(url.trim().trim_start_matches("http://").to_owned());
        }
        line.clear();
    }
    Err("the node ended before it said where it listens".into())
}
