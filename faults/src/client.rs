//! Requests to nodes over HTTP: one request on one connection, with a time limit.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Sends one request. After an error it is unknown whether it was carried out.
pub async fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
    patience: Duration,
) -> Result<HttpAnswer, String> {
    let mut request = Request::builder().method(method).uri(path).header("host", address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    let request = request.map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(patience, send(address, request)).await;
    answer.map_err(|_| format!("no answer to {method} {path} within {patience:?}"))?
}

async fn send(address: &str, request: Request<Full<Bytes>>) -> Result<HttpAnswer, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let answered = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes().to_vec();
        Ok(HttpAnswer { status: head.status.as_u16(), body })
    };
    let answered = answered.await.map_err(|error: hyper::Error| error.to_string());
    connection.abort();
    answered
}
