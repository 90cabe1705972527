//! Questions to other nodes.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::connection::{connect_http, path_of};

/// Asks other nodes. Each question has a connection of its own, because questions are few.
pub struct Questions {
    token: String,
    tls: TlsConnector,
}

impl Questions {
    /// Asks with this token.
    pub fn new(token: String, tls: TlsConnector) -> Questions {
        Questions { token, tls }
    }

    /// Posts JSON to a path of a node, and gives the answer, which is refused if it is longer than `max`.
    pub async fn ask(&self, address: &str, path: &str, body: Bytes, max: usize) -> Result<Bytes, String> {
        let request =
            Request::builder().method(Method::POST).header(header::CONTENT_TYPE, "application/json");
        let answer = self.call(address, path, request, body).await?;
        let answer = Limited::new(answer, max).collect().await.map_err(|error| error.to_string())?;
        Ok(answer.to_bytes())
    }

    /// Opens a stream of events of a node, after the event with this id.
    pub async fn listen(&self, address: &str, path: &str, last_id: Option<&str>) -> Result<Incoming, String> {
        let mut request = Request::builder().method(Method::GET);
        if let Some(last_id) = last_id {
            request = request.header("last-event-id", last_id);
        }
        self.call(address, path, request, Bytes::new()).await
    }

    /// Sends a request, and gives the body of a successful answer.
    async fn call(
        &self,
        address: &str,
        path: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Incoming, String> {
        let address = Url::parse(address).map_err(|error| error.to_string())?;
        let mut sender = connect_http(&address, &self.tls).await?;
        let request = request
            .uri(path_of(&address, path))
            .header(header::HOST, address.authority())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if status.is_success() { Ok(answer.into_body()) } else { Err(format!("it answered {status}")) }
    }
}
