//! A job's request, parsed once: the template of every run's request.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use punctual_core::model::{Http, Job};
use url::{Position, Url};

use super::sign::Signer;
use super::template::{Escape, Mark, Template};
use crate::guard;

const USER_AGENT: &str = concat!("punctual/", env!("CARGO_PKG_VERSION"));

/// What is wrong with a request, with the place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer into the job as people write it.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

impl Fault {
    fn new(pointer: &str, reason: impl Into<String>) -> Fault {
        Fault { pointer: format!("/target/{pointer}"), reason: reason.into() }
    }
}

/// Everything that is wrong with a request. A request without faults can be sent.
pub fn check(http: &Http) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    faults.extend(method(http).err());
    faults.extend(AgentAddress::parse(http).err());
    faults.extend(http.headers.iter().filter_map(|(name, value)| read_header(name, value).err()));
    faults.extend(Content::parse(http).err());
    faults.extend(signer(http).err());
    faults.extend(http.success_codes.iter().enumerate().filter_map(|(at, code)| success_code(at, *code)));
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// A job's request with everything filled in that is the same for all its runs.
pub(crate) struct Blueprint {
    pub(crate) method: Method,
    /// Where it goes; the path is in `path`.
    pub(crate) url: Url,
    pub(crate) path: Path,
    /// What is the same for all runs.
    pub(crate) headers: HeaderMap,
    /// What has names to fill in.
    pub(crate) filled_headers: Vec<(HeaderName, Template)>,
    pub(crate) content: Content,
    pub(crate) signer: Option<Signer>,
    pub(crate) success_codes: Vec<u16>,
    pub(crate) follows_redirects: bool,
}

/// The path and query that are asked for.
pub(crate) enum Path {
    /// The same for all runs.
    Fixed(Uri),
    /// With names to fill in.
    Filled(Template),
}

/// How bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Text,
}

impl Kind {
    pub(crate) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Kind::Json => "application/json",
            Kind::Text => "text/plain; charset=utf-8",
        })
    }
}

/// What a job sends when the run brings nothing.
#[derive(Debug)]
pub(crate) enum Content {
    Nothing,
    /// The same for all runs.
    Fixed(Bytes, Kind),
    /// With names to fill in.
    Filled(Template, Kind),
}

impl Blueprint {
    /// Understands a job's request, or says the first thing that is wrong with it.
    pub(crate) fn new(job: &Job, http: &Http) -> Result<Blueprint, Fault> {
        let address = AgentAddress::parse(http)?;
        let path = Path::new(address.path.bind(job, Escape::Percent))?;
        let content = Content::parse(http)?.bind(job);
        let mut headers = own_headers(job, &address.url)?;
        let mut filled_headers = Vec::new();
        for (name, value) in &http.headers {
            if is_credential_of_metadata(name) {
                continue;
            }
            let (name, template) = read_header(name, value)?;
            let template = template.bind(job, Escape::Plain);
            match template.as_text().map(header_value) {
                Some(Some(value)) => drop(headers.append(name, value)),
                Some(None) => return Err(Fault::new(&header_pointer(name.as_str()), NO_VALUE)),
                None => filled_headers.push((name, template)),
            }
        }
        Ok(Blueprint {
            method: method(http)?,
            url: address.url,
            path,
            headers,
            filled_headers,
            content,
            signer: signer(http)?,
            success_codes: http.success_codes.clone(),
            follows_redirects: http.follows_redirects,
        })
    }
}

impl Path {
    fn new(template: Template) -> Result<Path, Fault> {
        let Some(text) = template.as_text() else { return Ok(Path::Filled(template)) };
        text.parse().map(Path::Fixed).map_err(|_| Fault::new("url", NO_PATH))
    }
}

impl Content {
    fn parse(http: &Http) -> Result<Content, Fault> {
        let Some(json) = &http.body else { return Ok(Content::Nothing) };
        let fault = |reason| Fault::new("body", reason);
        let (template, kind) = match json.trim_start().starts_with('"') {
            true => {
                let text: String =
                    serde_json::from_str(json).map_err(|error| fault(format!("this is no JSON: {error}")))?;
                (Template::parse(&text).map_err(fault)?, Kind::Text)
            }
            false => (Template::parse_json(json).map_err(fault)?, Kind::Json),
        };
        Ok(Content::settled(template, kind))
    }

    fn bind(self, job: &Job) -> Content {
        match self {
            Content::Filled(template, Kind::Json) => {
                Content::settled(template.bind(job, Escape::Json), Kind::Json)
            }
            Content::Filled(template, Kind::Text) => {
                Content::settled(template.bind(job, Escape::Plain), Kind::Text)
            }
            settled => settled,
        }
    }

    fn settled(template: Template, kind: Kind) -> Content {
        match template.as_text() {
            Some(text) => Content::Fixed(Bytes::copy_from_slice(text.as_bytes()), kind),
            None => Content::Filled(template, kind),
        }
    }
}

/// A url with names in its path and query.
struct AgentAddress {
    url: Url,
    path: Template,
}

const NO_PATH: &str = "the path or query holds a character that cannot be sent: write it as %XX";

impl AgentAddress {
    fn parse(http: &Http) -> Result<AgentAddress, Fault> {
        AgentAddress::read(&http.url).map_err(|reason| Fault::new("url", reason))
    }

    fn read(text: &str) -> Result<AgentAddress, String> {
        // The parser would drop them, so the called url would differ from the shown one.
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err("a url holds no blanks or control characters: write them as %XX".into());
        }
        let template = Template::parse(text)?;
        let mark = Mark::unlike(text);
        let expected = "expected one such as https://example.com/agent";
        let url = Url::parse(&template.mark(&mark)).map_err(|error| format!("{error}: {expected}"))?;
        guard::judge_shape(&url).map_err(|refusal| refusal.to_string())?;
        if mark.is_in(&url[..Position::BeforePath]) {
            return Err("names are filled in only in the path and the query: write the host out".into());
        }
        if url.port() == Some(0) {
            return Err("nobody listens on port 0".into());
        }
        let path = &url[Position::BeforePath..Position::AfterQuery];
        path.parse::<Uri>().map_err(|_| NO_PATH)?;
        Ok(AgentAddress { path: template.at_marks(path, &mark), url })
    }
}

fn method(http: &Http) -> Result<Method, Fault> {
    let fault = |reason: &str| Err(Fault::new("method", reason));
    let is_word = !http.method.is_empty() && http.method.bytes().all(|byte| byte.is_ascii_uppercase());
    match (Method::from_bytes(http.method.as_bytes()), is_word) {
        (Ok(Method::CONNECT | Method::TRACE), _) => {
            fault("CONNECT and TRACE are for proxies, not for agents")
        }
        (Ok(method), true) => Ok(method),
        _ => fault("expected GET, HEAD, POST, PUT, PATCH, DELETE or another method in capital letters"),
    }
}

fn signer(http: &Http) -> Result<Option<Signer>, Fault> {
    let secret = http.signing_secret.as_deref();
    secret.map(Signer::parse).transpose().map_err(|reason| Fault::new("signing_secret", reason))
}

fn success_code(at: usize, code: u16) -> Option<Fault> {
    let reason = || format!("{code} is no final status: expected 200 to 599");
    (!(200..=599).contains(&code)).then(|| Fault::new(&format!("success_codes/{at}"), reason()))
}

const NO_VALUE: &str = "a header's value holds no control characters";

/// Headers that a job may not set: they belong to the connection, or we promise their values to agents.
#[rustfmt::skip]
const RESERVED: &[HeaderName] = &[
    header::CONNECTION, header::CONTENT_LENGTH, header::EXPECT, header::HOST, header::TE, header::TRAILER,
    header::TRANSFER_ENCODING, header::UPGRADE, header::USER_AGENT,
];
const RESERVED_NAMES: &[&str] = &["keep-alive", "traceparent"];
const RESERVED_PREFIXES: &[&str] = &["proxy-", "punctual-", "webhook-"];

/// Headers that metadata services demand as proof that a request is no accident.
const METADATA_HEADERS: &[&str] = &["metadata-flavor", "metadata", "x-aws-ec2-metadata-token"];
const METADATA_PREFIX: &str = "x-aws-ec2-metadata-token";

fn is_credential_of_metadata(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    METADATA_HEADERS.contains(&&*name) || name.starts_with(METADATA_PREFIX)
}

fn read_header(name: &str, value: &str) -> Result<(HeaderName, Template), Fault> {
    let fault = |reason: &str| Fault::new(&header_pointer(name), reason);
    if is_credential_of_metadata(name) {
        return Err(fault("this header opens cloud metadata services and is never sent"));
    }
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault("this is no header name"))?;
    let is_reserved = RESERVED.contains(&parsed)
        || RESERVED_NAMES.contains(&parsed.as_str())
        || RESERVED_PREFIXES.iter().any(|prefix| parsed.as_str().starts_with(prefix));
    if is_reserved {
        return Err(fault("this header is set by Punctual or by the connection: leave it out"));
    }
    let template = Template::parse(value).map_err(|reason| fault(&reason))?;
    header_value(value).ok_or_else(|| fault(NO_VALUE))?;
    Ok((parsed, template))
}

/// A header's value; text beyond ASCII goes out as UTF-8.
pub(crate) fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

fn header_pointer(name: &str) -> String {
    format!("headers/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn own_headers(job: &Job, url: &Url) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(header::HOST, host_header(url).ok_or_else(|| Fault::new("url", "it names no host"))?);
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers.insert("punctual-job", HeaderValue::from(job.id.0));
    Ok(headers)
}

/// The value of `Host`: with the port where it is not the scheme's default.
pub(crate) fn host_header(url: &Url) -> Option<HeaderValue> {
    header_value(&url[Position::BeforeHost..Position::AfterPort]).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(http: &Http) -> Vec<String> {
        check(http).err().unwrap_or_default().into_iter().map(|fault| fault.pointer).collect()
    }

    fn url_fault(url: &str) -> String {
        match check(&Http::post(url)) {
            Ok(()) => String::new(),
            Err(faults) => faults[0].reason.clone(),
        }
    }

    #[test]
    fn a_good_request_has_no_faults() {
        let http = Http {
            method: "PATCH".into(),
            headers: vec![
                ("Authorization".into(), "Bearer x".into()),
                ("X-Run".into(), "${run.id} of ${job.name}".into()),
                ("Content-Type".into(), "text/csv".into()),
            ],
            body: Some(r#"{"run": "${run.id}"}"#.into()),
            success_codes: vec![200, 404, 599],
            signing_secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()),
            ..Http::post("https://example.com/${job.app}/x?run=${run.id}#part")
        };
        assert_eq!(check(&http), Ok(()));
    }

    #[test]
    fn all_faults_are_found_at_once_each_with_its_place() {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let http = Http {
            method: "post".into(),
            url: "ftp://example.com".into(),
            headers: vec![
                header("Host", "x"),
                header("Punctual-Run-Id", "1"),
                header("a/b~c", "x"),
                header("X-Bad", "a\nb"),
                header("X-Unknown", "${run.nothing}"),
                header("Metadata-Flavor", "Google"),
                header("X-Good", "x"),
                header("proxy-authorization", "x"),
            ],
            body: Some("{".into()),
            success_codes: vec![200, 100, 600],
            signing_secret: Some("secret".into()),
            ..Http::post("")
        };
        assert_eq!(
            faults(&http),
            [
                "/target/method",
                "/target/url",
                "/target/headers/Host",
                "/target/headers/Punctual-Run-Id",
                "/target/headers/a~1b~0c",
                "/target/headers/X-Bad",
                "/target/headers/X-Unknown",
                "/target/headers/Metadata-Flavor",
                "/target/headers/proxy-authorization",
                "/target/body",
                "/target/signing_secret",
                "/target/success_codes/1",
                "/target/success_codes/2",
            ]
        );
    }

    #[test]
    fn a_url_is_refused_with_the_reason() {
        for (url, part) in [
            ("", "expected one such as https"),
            ("/agent", "expected one such as https"),
            ("example.com/agent", "expected one such as https"),
            ("ftp://example.com", "only http and https"),
            ("http://a:b@example.com", "Authorization header"),
            ("http://exa mple.com", "no blanks"),
            ("http://example.com/\t", "no blanks"),
            ("http://example.com:0/", "port 0"),
            ("http://example.com:99999/", "expected one such as https"),
            ("http://${job.name}.example.com/", "write the host out"),
            ("http://example.com:${run.id}/", "expected one such as https"),
            ("http://example.com/${run.x}", "is not known"),
            ("http://example.com/${run.id", "has no `}`"),
        ] {
            let reason = url_fault(url);
            assert!(reason.contains(part), "{url}: {reason}");
        }
    }

    #[test]
    fn every_url_that_people_write_can_be_sent() {
        for url in [
            "http://example.com",
            "http://example.com?x=1",
            "http://example.com/a b".replace(' ', "%20").as_str(),
            "http://example.com/ü/{x}?q={y}|^`\"<>&z=ü",
            "http://example.com/a;b=1,2/[x]?a[]=1",
            "http://bücher.example/",
            "http://[2606:4700::1]:8080/",
        ] {
            assert_eq!(url_fault(url), "", "{url}");
        }
    }
}
