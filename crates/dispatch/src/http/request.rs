//! The request of one attempt: the job's blueprint, completed with the run's own values.

use bytes::Bytes;
use calendar::Timestamp;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use punctual_core::model::Origin;
use punctual_node::ports::{Dispatched, Entropy};
use punctual_protocol::is_secret_header;
use url::Url;

use super::blueprint::{Blueprint, Content, Kind, Path, header_value, host_header};
use super::redirect::Hop;
use super::template::{Escape, Facts, Parent};

/// What is sent.
pub(crate) type Outgoing = Request<Full<Bytes>>;

const RUN_ID: HeaderName = HeaderName::from_static("punctual-run-id");
const FIRE_TIME: HeaderName = HeaderName::from_static("punctual-fire-time");
const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");
const FENCING_TOKEN: HeaderName = HeaderName::from_static("punctual-fencing-token");
const POSSIBLE_DUPLICATE: HeaderName = HeaderName::from_static("punctual-possible-duplicate");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

impl Blueprint {
    /// The request of an attempt, at the first address or at one that it was redirected to.
    pub(crate) fn request(
        &self,
        run: &Dispatched,
        hop: Option<&Hop>,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Result<Outgoing, String> {
        let facts = facts(run);
        let without_body = hop.is_some_and(|hop| hop.without_body);
        let (body, kind) = if without_body { (Bytes::new(), None) } else { self.body(run, &facts)? };
        let mut headers = self.headers(run, &facts, entropy)?;
        let method =
            if without_body && self.method != Method::HEAD { Method::GET } else { self.method.clone() };
        describe_body(&mut headers, &method, &body, kind);
        self.sign(&mut headers, run, &body, now);
        let uri = match hop {
            Some(hop) => hop.prepare(&mut headers)?,
            None => self.path(&facts)?,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The full url of a run's first request, which redirects are relative to.
    pub(crate) fn whole_url(&self, run: &Dispatched) -> Url {
        let mut url = self.url.clone();
        // Not by joining: a path that begins with two slashes would be read as a host.
        if let Ok(path) = self.path(&facts(run)) {
            url.set_path(path.path());
            url.set_query(path.query());
        }
        url
    }

    fn path(&self, facts: &Facts) -> Result<Uri, String> {
        match &self.path {
            Path::Fixed(uri) => Ok(uri.clone()),
            Path::Filled(template) => {
                let path = template.fill(facts, Escape::Percent);
                path.parse().map_err(|_| "the url cannot be sent once its names are filled in".to_owned())
            }
        }
    }

    /// The run's payload as it is, or the job's body with its names filled in.
    fn body(&self, run: &Dispatched, facts: &Facts) -> Result<(Bytes, Option<Kind>), String> {
        // If the job has a body of its own, the payload that a parent handed on only fills in its names.
        let is_filled_in = run.origin == Origin::Parent && !matches!(self.content, Content::Nothing);
        if let Some(payload) = run.payload.as_ref().filter(|_| !is_filled_in) {
            if !payload.starts_with('"') {
                return Ok((Bytes::copy_from_slice(payload.as_bytes()), Some(Kind::Json)));
            }
            let text: String = serde_json::from_str(payload)
                .map_err(|error| format!("the run's payload is no JSON: {error}"))?;
            return Ok((text.into(), Some(Kind::Text)));
        }
        Ok(match &self.content {
            Content::Nothing => (Bytes::new(), None),
            Content::Fixed(bytes, kind) => (bytes.clone(), Some(*kind)),
            Content::Filled(template, kind) => {
                let escape = if *kind == Kind::Json { Escape::Json } else { Escape::Plain };
                (template.fill(facts, escape).into(), Some(*kind))
            }
        })
    }

    fn headers(&self, run: &Dispatched, facts: &Facts, entropy: &dyn Entropy) -> Result<HeaderMap, String> {
        let mut headers = self.headers.clone();
        for (name, template) in &self.filled_headers {
            let value = header_value(&template.fill(facts, Escape::Plain));
            headers.append(name, value.ok_or_else(|| format!("the header {name} cannot be sent"))?);
        }
        headers.insert(RUN_ID, HeaderValue::from(run.run.0));
        headers.insert(FIRE_TIME, text_value(&facts.fire_time));
        headers.insert(ATTEMPT, HeaderValue::from(run.attempt.0));
        headers.insert(FENCING_TOKEN, HeaderValue::from(run.token.0));
        if run.possible_duplicate {
            headers.insert(POSSIBLE_DUPLICATE, HeaderValue::from_static("true"));
        }
        headers.insert(TRACEPARENT, text_value(&traceparent(entropy)));
        Ok(headers)
    }

    fn sign(&self, headers: &mut HeaderMap, run: &Dispatched, body: &[u8], now: Timestamp) {
        let Some(signer) = &self.signer else { return };
        let (id, seconds) = (run.run.to_string(), now.as_millis().div_euclid(1_000).to_string());
        headers.insert(WEBHOOK_SIGNATURE, text_value(&signer.sign(&id, &seconds, body)));
        headers.insert(WEBHOOK_ID, text_value(&id));
        headers.insert(WEBHOOK_TIMESTAMP, text_value(&seconds));
    }
}

impl Hop {
    /// Adapts the headers to the redirect's target, and returns the path to ask for there.
    fn prepare(&self, headers: &mut HeaderMap) -> Result<Uri, String> {
        let cannot = || "the redirect leads to a url that cannot be sent".to_owned();
        headers.insert(header::HOST, host_header(&self.url).ok_or_else(cannot)?);
        if self.has_left_origin {
            let is_signature = |name: &HeaderName| name.as_str().contains("webhook-");
            let stays = |name: &HeaderName| {
                is_secret_header(name.as_str()) && *name != FENCING_TOKEN || is_signature(name)
            };
            let secrets: Vec<HeaderName> = headers.keys().filter(|name| stays(name)).cloned().collect();
            secrets.iter().for_each(|name| drop(headers.remove(name)));
        }
        self.url[url::Position::BeforePath..url::Position::AfterQuery].parse().map_err(|_| cannot())
    }
}

fn facts(run: &Dispatched) -> Facts {
    let (fire_time, parent) = (with_millis(run.fire_time), Parent::of(run));
    Facts { run: run.run.0, fire_time, attempt: run.attempt.0, parent }
}

fn describe_body(headers: &mut HeaderMap, method: &Method, body: &Bytes, kind: Option<Kind>) {
    match kind {
        Some(kind) => {
            headers.entry(header::CONTENT_TYPE).or_insert_with(|| kind.content_type());
        }
        None => drop(headers.remove(header::CONTENT_TYPE)),
    }
    // A method that usually has a body states its length even if there is none.
    let says_length = kind.is_some() || matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    if says_length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}

/// RFC 3339, always with milliseconds, so that all instants have one shape.
pub(crate) fn with_millis(at: Timestamp) -> String {
    let mut text = at.to_string();
    if !text.contains('.') && text.ends_with('Z') {
        text.truncate(text.len() - 1);
        text.push_str(".000Z");
    }
    text
}

/// A trace that begins here. An id of zeros means "none" and must not occur.
fn traceparent(entropy: &dyn Entropy) -> String {
    let (high, low, span) = (entropy.bits(), entropy.bits() | 1, entropy.bits() | 1);
    format!("00-{high:016x}{low:016x}-{span:016x}-01")
}

fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("digits, letters and signs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fire_time_always_shows_its_milliseconds() {
        let at = |text: &str| with_millis(text.parse().unwrap());
        assert_eq!(at("2026-03-08T07:00:00Z"), "2026-03-08T07:00:00.000Z");
        assert_eq!(at("2026-03-08T07:00:00.25Z"), "2026-03-08T07:00:00.250Z");
    }
}
