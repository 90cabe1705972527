//! One request on one connection.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    headers: http::HeaderMap,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// Asks, and waits at most 30 seconds for the whole answer.
pub(crate) async fn ask(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reply, String> {
    tokio::time::timeout(Duration::from_secs(30), ask_once(url, method, path, headers, body))
        .await
        .map_err(|_| format!("no answer to {method} {path}"))?
}

async fn ask_once(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reply, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let authority = url.trim_start_matches("http://").to_owned();
    let stream = TcpStream::connect(&authority).await.map_err(|error| told(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| told(&error))?;
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", authority);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())));
    let request = request.map_err(|error| told(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| told(&error))?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|error| told(&error))?.to_bytes().to_vec();
    connection.abort();
    Ok(Reply { status: head.status.as_u16(), body, headers: head.headers })
}
