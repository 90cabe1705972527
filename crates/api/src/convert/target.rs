//! Targets: from JSON to the model, and back without the secrets.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};
use punctual_core::model::{Http, PAYLOAD_MAX, Target};
use punctual_core::policy::Block;
use punctual_protocol as wire;
use punctual_protocol::{MASKED_HEADER, MASKED_SECRET, is_secret_header};

use super::executor::{self, Scripts};
use super::fields::{Object, Spot, suggest};
use crate::app::CheckTarget;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];

/// How many headers a request may have beyond ours.
const HEADERS_MAX: usize = 64;

/// Checks what only the dispatch can check: the address.
pub(crate) type CheckHttp<'a> = &'a CheckTarget;

/// Reads a target and its block strategy; `before` has the secrets that masked text stands for.
pub(crate) fn read(
    spot: Spot<'_>,
    before: Option<&Target>,
    check: CheckHttp<'_>,
    scripts: Scripts<'_>,
) -> Option<(Target, Block)> {
    let object = spot.object()?;
    let kind = object.must("kind")?;
    let target = match kind.text()? {
        "http" => http(&object, before, check).map(Target::Http),
        "executor" => executor::read(&object, scripts).map(Target::Executor),
        other => return kind.refuse(format!("unknown kind {other:?}: expected http or executor")),
    };
    let block = block(&object);
    object.end();
    Some((target?, block?))
}

fn block(object: &Object<'_>) -> Option<Block> {
    let named = object.may_null("block").map(|spot| spot.word::<Block>());
    let limit = object.may_null("concurrency").map(|spot| {
        let limit = spot.number(1..=u64::from(u32::MAX));
        limit.and_then(|limit| NonZeroU32::new(limit as u32)).map(|limit| (limit, spot))
    });
    let (named, limit) = match (named, limit) {
        (None, None) => return Some(Block::default()),
        (Some(named), None) => return named,
        (named, Some(limit)) => (named.unwrap_or(Some(Block::Concurrent(None)))?, limit?),
    };
    let (limit, spot) = limit;
    match named {
        Block::Concurrent(None) => Some(Block::Concurrent(Some(limit))),
        Block::Concurrent(Some(other)) if other == limit => Some(named),
        Block::Serial | Block::Discard | Block::Cover if limit.get() == 1 => Some(named),
        _ => spot.refuse(format!("{limit} does not go with the block {named}")),
    }
}

fn http(object: &Object<'_>, before: Option<&Target>, check: CheckHttp<'_>) -> Option<Http> {
    let method = object.may("method").map_or(Some("POST".into()), |spot| method(&spot));
    let url = object.must("url").and_then(|spot| {
        let url = spot.prose(8_192)?;
        if url.is_empty() {
            spot.refuse("is empty; expected an address such as https://example.com/agent")
        } else {
            Some(url)
        }
    });
    let kept = KeptTarget::of(before, url.as_deref());
    let headers = object.may("headers").map_or(Some(Vec::new()), |spot| headers(&spot, &kept));
    let body = object.may_null("body").map(|spot| json(&spot));
    let success_codes = object.may("success_codes").map_or(Some(Vec::new()), |spot| codes(&spot));
    let follows_redirects = object.may("follow_redirects").map_or(Some(false), |spot| spot.flag());
    let secret = object.may_null("signing_secret").map(|spot| secret(&spot, &kept));
    let http = Http {
        method: method?,
        url: url?,
        headers: headers?,
        body: body.map_or(Some(None), |body| body.map(Some))?,
        success_codes: success_codes?,
        follows_redirects: follows_redirects?,
        signing_secret: secret.map_or(Some(None), |secret| secret.map(Some))?,
    };
    let wrong = check(&http);
    for (pointer, reason) in &wrong {
        object.spot.faults_at(pointer, reason);
    }
    wrong.is_empty().then_some(http)
}

fn method(spot: &Spot<'_>) -> Option<String> {
    let text = spot.text()?;
    if METHODS.contains(&text) {
        return Some(text.into());
    }
    let hint = suggest(text, &METHODS).unwrap_or("one of them");
    spot.refuse(format!("unknown method; known are {}; write {hint} in capitals", METHODS.join(", ")))
}

/// The values that masked text stands for.
struct KeptTarget<'a> {
    headers: &'a [(String, String)],
    secret: Option<&'a String>,
    /// Whether they would be sent to the same receiver as before.
    is_same_receiver: bool,
}

impl<'a> KeptTarget<'a> {
    fn of(before: Option<&'a Target>, url: Option<&str>) -> KeptTarget<'a> {
        match before {
            Some(Target::Http(http)) => {
                let is_same_receiver = url.is_some_and(|url| receiver(url) == receiver(&http.url));
                KeptTarget { headers: &http.headers, secret: http.signing_secret.as_ref(), is_same_receiver }
            }
            _ => KeptTarget { headers: &[], secret: None, is_same_receiver: false },
        }
    }

    /// A caller that may change a job but not see its secrets must not be able to have them sent to an address of its
    /// own.
    fn value(&self, name: &str) -> Result<String, &'static str> {
        let is_it = |(kept, _): &&(String, String)| kept.eq_ignore_ascii_case(name) && is_secret_header(name);
        match self.headers.iter().find(is_it) {
            None => Err("stands for a value that is set, and none is; write the value itself"),
            Some(_) if !self.is_same_receiver => {
                Err("stands for a value that was for another address; write the value itself")
            }
            Some((_, value)) => Ok(value.clone()),
        }
    }

    /// The same for the signing secret.
    fn secret(&self) -> Result<String, &'static str> {
        match self.secret {
            None => Err("stands for a secret that is set, and none is; write the secret itself"),
            Some(_) if !self.is_same_receiver => {
                Err("stands for a secret that was for another address; write the secret itself")
            }
            Some(secret) => Ok(secret.clone()),
        }
    }
}

/// Scheme, host and port as they are written; none where they cannot be separated from the path.
fn receiver(url: &str) -> Option<[&str; 3]> {
    let mut parts = url.splitn(4, '/');
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    (parts[1].is_empty() && !parts[2].is_empty()).then_some(parts)
}

fn headers(spot: &Spot<'_>, kept: &KeptTarget<'_>) -> Option<Vec<(String, String)>> {
    let fields = spot.raw().as_object();
    let Some(fields) = fields else { return spot.refuse("expected an object of texts") };
    if fields.len() > HEADERS_MAX {
        return spot.refuse(format!("has {} headers; at most {HEADERS_MAX} are sent", fields.len()));
    }
    let read: Vec<Option<(String, String)>> =
        spot.entries().into_iter().map(|(name, spot)| header(name, &spot, kept)).collect();
    read.into_iter().collect()
}

fn header(name: &str, spot: &Spot<'_>, kept: &KeptTarget<'_>) -> Option<(String, String)> {
    let text = spot.text()?;
    if name.len() > 128 || HeaderName::try_from(name).is_err() {
        return spot.refuse("its name is no name of a header");
    }
    if text == MASKED_HEADER {
        return match kept.value(name) {
            Ok(value) => Some((name.into(), value)),
            Err(reason) => spot.refuse(reason),
        };
    }
    let is_plain =
        text.len() <= 8_192 && text.bytes().all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte));
    if !is_plain || HeaderValue::try_from(text).is_err() {
        return spot.refuse("is no value of a header: expected at most 8192 visible ASCII characters");
    }
    Some((name.into(), text.into()))
}

/// Any JSON that is sent, as text.
pub(super) fn json(spot: &Spot<'_>) -> Option<String> {
    let text = spot.raw().to_string();
    match text.len() > PAYLOAD_MAX {
        true => spot.refuse(format!("has {} bytes; at most {PAYLOAD_MAX} are sent", text.len())),
        false => Some(text),
    }
}

fn codes(spot: &Spot<'_>) -> Option<Vec<u16>> {
    let items = spot.list(100)?;
    items.iter().map(|item| item.number(200..=599).map(|code| code as u16)).collect()
}

fn secret(spot: &Spot<'_>, kept: &KeptTarget<'_>) -> Option<String> {
    let text = spot.text()?;
    if text == MASKED_SECRET {
        return kept.secret().map_or_else(|reason| spot.refuse(reason), Some);
    }
    let bytes = text.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
    match bytes.is_some_and(|bytes| (24..=64).contains(&bytes.len())) {
        true => Some(text.into()),
        false => spot.refuse("expected whsec_ and the base64 of 24 to 64 bytes"),
    }
}

/// Shows a target, its secrets masked.
pub(crate) fn show(target: &Target, block: Block) -> wire::Target {
    let shown = (block != Block::default()).then(|| block.to_string());
    let concurrency = match block {
        Block::Concurrent(limit) => limit.map(NonZeroU32::get),
        _ => None,
    };
    match target {
        Target::Executor(target) => wire::Target::Executor(executor::show(target, shown, concurrency)),
        Target::Http(http) => wire::Target::Http(wire::Http {
            method: http.method.clone(),
            url: http.url.clone(),
            headers: http.headers.iter().map(shown_header).collect(),
            body: http.body.as_deref().and_then(|body| serde_json::from_str(body).ok()),
            success_codes: http.success_codes.clone(),
            follow_redirects: http.follows_redirects,
            signing_secret: http.signing_secret.as_ref().map(|_| MASKED_SECRET.into()),
            block: shown,
            concurrency,
        }),
    }
}

fn shown_header((name, value): &(String, String)) -> (String, String) {
    let shown = if is_secret_header(name) { MASKED_HEADER } else { value };
    (name.clone(), shown.into())
}

#[cfg(test)]
mod tests {
    use super::super::fields::Faults;
    use super::*;
    use serde_json::{Value, json};

    const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

    fn try_read(value: &Value, before: Option<&Target>) -> Result<(Target, Block), Vec<String>> {
        let faults = Faults::default();
        let guard = |http: &Http| match http.url.contains("metadata") {
            true => vec![("/target/url".into(), "is not allowed".into())],
            false => vec![],
        };
        let scripts = Scripts { are_allowed: false, before, now: calendar::Timestamp::from_millis(0) };
        let read = read(Spot::whole(value, &faults), before, &guard, scripts);
        faults.unless(read).map_err(|problem| problem.errors.into_iter().map(|error| error.pointer).collect())
    }

    #[test]
    fn what_is_shown_is_what_was_read() {
        for value in [
            json!({"kind": "http", "method": "POST", "url": "http://a/", "headers": {"X-A": "b"}, "body": {"n": [1, null]}}),
            json!({"kind": "http", "method": "GET", "url": "http://a/", "headers": {}, "body": "text", "block": "serial",
                   "success_codes": [204], "follow_redirects": true}),
            json!({"kind": "http", "method": "GET", "url": "http://a/", "headers": {}, "body": null,
                   "block": "concurrent(3)", "concurrency": 3}),
            json!({"kind": "executor", "handler": "demo", "route": "first", "block": "discard"}),
        ] {
            let (target, block) = try_read(&value, None).unwrap();
            assert_eq!(serde_json::to_value(show(&target, block)).unwrap(), value);
        }
    }

    #[test]
    fn a_limit_is_written_in_two_ways() {
        let block = |value| try_read(&value, None).unwrap().1.to_string();
        assert_eq!(
            block(json!({"kind": "executor", "handler": "h", "block": "concurrent(3)"})),
            "concurrent(3)"
        );
        assert_eq!(
            block(json!({"kind": "executor", "handler": "h", "block": "concurrent", "concurrency": 3})),
            "concurrent(3)"
        );
        assert_eq!(block(json!({"kind": "executor", "handler": "h", "concurrency": 3})), "concurrent(3)");
        assert_eq!(
            block(
                json!({"kind": "executor", "handler": "h", "block": "serial", "concurrency": 1, "route": "round"})
            ),
            "serial"
        );
        let bad = json!({"kind": "executor", "handler": "h", "block": "serial", "concurrency": 2});
        assert_eq!(try_read(&bad, None).unwrap_err(), ["/concurrency"]);
    }

    #[test]
    fn a_secret_is_masked_and_the_mask_stands_for_it() {
        let value = json!({"kind": "http", "url": "http://a/", "signing_secret": SECRET});
        let (target, block) = try_read(&value, None).unwrap();
        let shown = serde_json::to_value(show(&target, block)).unwrap();
        assert_eq!(shown["signing_secret"], MASKED_SECRET);
        assert_eq!(try_read(&shown, Some(&target)).unwrap().0, target);
        assert_eq!(try_read(&shown, None).unwrap_err(), ["/signing_secret"]);
    }

    #[test]
    fn headers_that_open_doors_are_masked_and_the_mask_stands_for_them() {
        let value = json!({"kind": "http", "url": "http://a/x",
                           "headers": {"Authorization": "Bearer b", "X-Api-Key": "c", "X-Tenant": "d"}});
        let (target, block) = try_read(&value, None).unwrap();
        let mut shown = serde_json::to_value(show(&target, block)).unwrap();
        let masked = json!({"Authorization": MASKED_HEADER, "X-Api-Key": MASKED_HEADER, "X-Tenant": "d"});
        assert_eq!(shown["headers"], masked);
        assert_eq!(try_read(&shown, Some(&target)).unwrap().0, target);
        assert_eq!(try_read(&shown, None).unwrap_err(), ["/headers/Authorization", "/headers/X-Api-Key"]);
        // Another path of the same receiver, a header that goes, one that is replaced.
        shown["url"] = json!("http://a/y?z");
        shown["headers"] = json!({"authorization": MASKED_HEADER, "X-Api-Key": "e"});
        let Target::Http(changed) = try_read(&shown, Some(&target)).unwrap().0 else { panic!("{shown}") };
        let expected = [("X-Api-Key", "e"), ("authorization", "Bearer b")];
        assert_eq!(changed.headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        // A header that was never masked cannot be meant.
        shown["headers"] = json!({"X-Tenant": MASKED_HEADER});
        assert_eq!(try_read(&shown, Some(&target)).unwrap_err(), ["/headers/X-Tenant"]);
    }

    #[test]
    fn a_masked_header_goes_to_nobody_but_its_receiver() {
        let value = json!({"kind": "http", "url": "http://a:1/x", "headers": {"Cookie": "b"}});
        let (target, _) = try_read(&value, None).unwrap();
        for url in
            ["http://b:1/x", "http://a:2/x", "https://a:1/x", "http://a:1@b/x", "http://a:1", "http:///b/x"]
        {
            let edit = json!({"kind": "http", "url": url, "headers": {"Cookie": MASKED_HEADER}});
            let is_kept = try_read(&edit, Some(&target)).is_ok();
            assert_eq!(is_kept, url == "http://a:1", "{url}");
        }
    }

    #[test]
    fn a_masked_secret_signs_for_nobody_but_its_receiver() {
        let value = json!({"kind": "http", "url": "http://a:1/x", "signing_secret": SECRET});
        let (target, _) = try_read(&value, None).unwrap();
        for (url, is_kept) in [("http://a:1/y", true), ("http://b:1/x", false), ("https://a:1/x", false)] {
            let edit = json!({"kind": "http", "url": url, "signing_secret": MASKED_SECRET});
            let read = try_read(&edit, Some(&target));
            assert_eq!(read.is_ok(), is_kept, "{url}");
            if let Err(places) = read {
                assert_eq!(places, ["/signing_secret"]);
            }
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused_all_at_once() {
        for (value, places) in [
            (
                json!({"kind": "http", "method": "post", "headers": {"a b": "c", "x": "\n"}, "success_codes": [99]}),
                vec!["/method", "/url", "/headers/a b", "/headers/x", "/success_codes/0"],
            ),
            (
                json!({"kind": "http", "url": "http://a/", "signing_secret": "whsec_short"}),
                vec!["/signing_secret"],
            ),
            (json!({"kind": "http", "url": "http://metadata/"}), vec!["/target/url"]),
            (
                json!({"kind": "http", "url": "http://a/", "block": "parallel", "uri": 1}),
                vec!["/block", "/uri"],
            ),
            (json!({"kind": "executor", "handler": "", "route": "nearest"}), vec!["/route", "/handler"]),
            (json!({"kind": "ssh"}), vec!["/kind"]),
            (json!([]), vec![""]),
        ] {
            assert_eq!(try_read(&value, None).unwrap_err(), places, "{value}");
        }
    }
}
