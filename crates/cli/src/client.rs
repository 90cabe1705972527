//! The HTTP client of the command line.
//!
//! Each request has a connection of its own: a person's commands are few, and a new connection cannot be stale.
//! Redirects are not followed, so a token goes only to the server that the person named.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, IF_MATCH, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;

use super::failure::Failure;
use super::reach::Surroundings;
use super::trust;

/// How long connecting may take, and how long an answer.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest page of runs stays below this.
const ANSWER_MAX: usize = 2 << 30;
/// The most rows that the server gives at once.
const PAGE: usize = 1_000;

const REPEATED: &str = "the server named the same next page twice, so the list cannot be read to its end";

/// What a request carries: JSON, or a stream of lines.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A server, and the token for it.
pub(crate) struct Client {
    base: Url,
    token: Option<HeaderValue>,
    /// How servers are authenticated, where the address says https.
    secured: Option<TlsConnector>,
    advice: Option<String>,
}

/// A path below `/api/v1`, with its parameters.
#[derive(Clone)]
pub(crate) struct Route {
    segments: Vec<String>,
    parameters: Vec<(&'static str, String)>,
}

impl Route {
    pub(crate) fn to<const N: usize>(segments: [&str; N]) -> Route {
        Route { segments: segments.map(String::from).into(), parameters: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Route {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// A parameter that is left out if it has no value.
    pub(crate) fn with_any(self, name: &'static str, value: Option<impl ToString>) -> Route {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }
}

/// Rows of a list, and whether there are more.
pub(crate) struct Rows {
    pub(crate) items: Vec<Value>,
    pub(crate) has_more: bool,
}

impl Client {
    pub(crate) fn new(surroundings: &Surroundings) -> Client {
        let secret = |token: &String| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token is plain text");
            value.set_sensitive(true);
            value
        };
        Client {
            base: surroundings.url.clone(),
            token: surroundings.token.as_ref().map(secret),
            secured: surroundings.secured.clone(),
            advice: surroundings.advice.clone(),
        }
    }

    pub(crate) async fn get(&self, route: Route) -> Result<Value, Failure> {
        self.ask(Method::GET, route, None, None).await
    }

    pub(crate) async fn post(&self, route: Route, body: Value) -> Result<Value, Failure> {
        self.ask(Method::POST, route, Some(body), None).await
    }

    /// Replaces a resource; with a version, only if the resource still has that version.
    pub(crate) async fn put(
        &self,
        route: Route,
        body: Value,
        version: Option<u64>,
    ) -> Result<Value, Failure> {
        self.ask(Method::PUT, route, Some(body), version).await
    }

    pub(crate) async fn delete(&self, route: Route) -> Result<Value, Failure> {
        self.ask(Method::DELETE, route, None, None).await
    }

    /// All rows of a list over as many pages as it takes, up to `limit` rows. Without a limit, the server chooses the
    /// size of a page.
    pub(crate) async fn list(&self, route: Route, limit: Option<usize>) -> Result<Rows, Failure> {
        let most = limit.unwrap_or(usize::MAX);
        let mut rows = Rows { items: Vec::new(), has_more: true };
        let mut cursor: Option<String> = None;
        let mut followed = BTreeSet::new();
        while rows.has_more && rows.items.len() < most {
            let size = limit.map(|limit| (limit - rows.items.len()).min(PAGE));
            let page = route.clone().with_any("limit", size).with_any("cursor", cursor.take());
            let page = self.get(page).await?;
            // A page may be empty and still name a next one: the server looks through a bounded number of rows at a time.
            let (items, next) = read_page(page)?;
            rows.has_more = next.is_some();
            rows.items.extend(items);
            if next.as_ref().is_some_and(|next| !followed.insert(next.clone())) {
                return Err(Failure::Broken(REPEATED.into()));
            }
            cursor = next;
        }
        rows.items.truncate(most);
        Ok(rows)
    }

    /// Sends a stream, however long it takes, and returns the answer as soon as it begins.
    pub(crate) async fn stream(
        &self,
        route: Route,
        kind: &str,
        body: Body,
    ) -> Result<Response<Incoming>, Failure> {
        let request = self.request(Method::POST, &route, Some(kind), body);
        let response = self.send(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response.status(), &self.read(response).await?))
    }

    /// Asks for long work, and returns the answer as soon as it begins: lines with the progress.
    pub(crate) async fn follow(&self, route: Route, body: Value) -> Result<Response<Incoming>, Failure> {
        let bytes = Full::new(Bytes::from(body.to_string())).map_err(|e| match e {}).boxed_unsync();
        let mut request = self.request(Method::POST, &route, Some("application/json"), bytes);
        let lines = HeaderValue::from_static("application/x-ndjson, application/problem+json");
        request.headers_mut().insert(ACCEPT, lines);
        let late = |_| self.unreachable(&format!("no answer within {}s", ANSWER_WITHIN.as_secs()));
        let response = timeout(ANSWER_WITHIN, self.send(request)).await.map_err(late)??;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response.status(), &self.read(response).await?))
    }

    async fn ask(
        &self,
        method: Method,
        route: Route,
        body: Option<Value>,
        version: Option<u64>,
    ) -> Result<Value, Failure> {
        let kind = body.as_ref().map(|_| "application/json");
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let mut request =
            self.request(method, &route, kind, Full::new(bytes).map_err(|e| match e {}).boxed_unsync());
        if let Some(version) = version {
            let tag = HeaderValue::from_str(&format!("\"{version}\"")).expect("a number in quotes");
            request.headers_mut().insert(IF_MATCH, tag);
        }
        let asked = async {
            let response = self.send(request).await?;
            Ok((response.status(), self.read(response).await?))
        };
        let late = |_| self.unreachable(&format!("no answer within {}s", ANSWER_WITHIN.as_secs()));
        let (status, bytes) = timeout(ANSWER_WITHIN, asked).await.map_err(late)??;
        if !status.is_success() {
            return Err(self.refusal(status, &bytes));
        }
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::Broken(format!(
                "{} answered something that is not JSON ({error}): is it Punctual?",
                self.base
            ))
        })
    }

    fn request(&self, method: Method, route: &Route, kind: Option<&str>, body: Body) -> Request<Body> {
        let url = self.url(route);
        let target =
            url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let authority = match url.port() {
            Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
            None => url.host_str().unwrap_or_default().to_owned(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, authority)
            .header(USER_AGENT, concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json, application/problem+json, application/x-ndjson");
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(body).expect("a parsed URL gives a valid request")
    }

    fn url(&self, route: &Route) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("http and https addresses have paths")
            .pop_if_empty()
            .extend(["api", "v1"])
            .extend(&route.segments);
        if !route.parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(&route.parameters);
        }
        url
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.base.port_or_known_default().unwrap_or(80);
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect((host, port))).await;
        let late = |_| self.unreachable(&format!("no connection within {}s", CONNECT_WITHIN.as_secs()));
        let socket = connected.map_err(late)?.map_err(|error| self.unreachable(&in_words(&error)))?;
        socket.set_nodelay(true).ok();
        let Some(secured) = &self.secured else { return self.exchange(socket, request).await };
        let name = rustls::pki_types::ServerName::try_from(host.to_owned())
            .map_err(|_| Failure::usage(format!("`{host}` is no name that a certificate can be for")))?;
        let shaken = timeout(CONNECT_WITHIN, secured.connect(name, socket)).await.map_err(late)?;
        let socket = shaken.map_err(|error| match trust::doubt(&error, host) {
            Some(doubt) => Failure::Broken(format!("cannot trust {}: {doubt}", self.shown())),
            None => self.unreachable(&error.to_string()),
        })?;
        self.exchange(socket, request).await
    }

    async fn exchange<S>(&self, socket: S, request: Request<Body>) -> Result<Response<Incoming>, Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let broken = |error: hyper::Error| match error.is_parse() && self.secured.is_none() {
            true => {
                Failure::Broken(format!("{} does not speak HTTP: is its address https://…?", self.shown()))
            }
            false => self.unreachable(&chain(&error)),
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
        // It ends with the answer, and the reader of the answer gets every error, so the task needs no join.
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(broken)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Bytes, Failure> {
        let body = Limited::new(response.into_body(), ANSWER_MAX).collect().await;
        body.map(|body| body.to_bytes())
            .map_err(|error| self.unreachable(&format!("the answer broke off: {error}")))
    }

    fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        let failure = Failure::refused(status, body);
        match &self.advice {
            Some(advice) if status == StatusCode::UNAUTHORIZED && self.token.is_none() => {
                failure.advising(advice)
            }
            _ => failure,
        }
    }

    pub(crate) fn unreachable(&self, reason: &str) -> Failure {
        Failure::Unreachable(format!(
            "cannot reach {}: {reason}\n\
             is `punctual serve` running? --server or PUNCTUAL_URL name another address",
            self.shown()
        ))
    }

    fn shown(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }
}

/// A list is a page, or a plain array.
fn read_page(page: Value) -> Result<(Vec<Value>, Option<String>), Failure> {
    match page {
        Value::Array(items) => Ok((items, None)),
        Value::Object(mut page) => {
            let next = page.remove("next_cursor").and_then(|next| next.as_str().map(String::from));
            match page.remove("items") {
                Some(Value::Array(items)) => Ok((items, next)),
                _ => Err(Failure::Broken("the server answered a list without items".into())),
            }
        }
        _ => Err(Failure::Broken("the server answered something that is no list".into())),
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        _ => error.to_string(),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(base: &str) -> Client {
        Client { base: Url::parse(base).unwrap(), token: None, secured: None, advice: None }
    }

    #[test]
    fn names_and_parameters_arrive_as_they_are() {
        let route =
            Route::to(["jobs", "by-name", "a b", "c/d%"]).with("q", "x&y=z").with_any("app", None::<u8>);
        let url = client("https://example.com/punctual/").url(&route);
        let expected = "https://example.com/punctual/api/v1/jobs/by-name/a%20b/c%2Fd%25?q=x%26y%3Dz";
        assert_eq!(url.as_str(), expected);
        assert_eq!(
            client("http://[::1]:7070").url(&Route::to(["runs"])).as_str(),
            "http://[::1]:7070/api/v1/runs"
        );
    }

    #[test]
    fn a_list_is_a_page_or_an_array() {
        let read = |value| read_page(value).map(|(items, next)| (items.len(), next));
        assert_eq!(read(serde_json::json!([1, 2])), Ok((2, None)));
        assert_eq!(read(serde_json::json!({"items": [1], "next_cursor": null})), Ok((1, None)));
        assert_eq!(read(serde_json::json!({"items": [], "next_cursor": "x"})), Ok((0, Some("x".into()))));
        assert!(read(serde_json::json!({"x": 1})).is_err());
    }
}
