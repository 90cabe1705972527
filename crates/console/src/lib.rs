//! The console: its files, embedded in the binary, and how each of them is served.
//!
//! The console is a client of the REST API like any other; this crate knows nothing about what it shows.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

/// A file of the console.
pub(crate) struct Asset {
    /// Its path from the root of the site, without the first slash.
    path: &'static str,
    /// Its tag, which changes with its bytes.
    tag: &'static str,
    raw: &'static [u8],
    br: Option<&'static [u8]>,
    gz: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The page that every screen begins with.
const INDEX: &str = "index.html";

/// The folder of files whose names change with their bytes.
const HASHED: &str = "assets/";

/// Only files of this server: no inline code or style, no other hosts, no frames, no forms to elsewhere, and no way
/// to run text as code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The file of that path, if the console has one.
pub fn file(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<&'static [u8]>> {
    let path = path.strip_prefix('/').filter(|path| *path != INDEX)?;
    let is_read = method == Method::GET || method == Method::HEAD;
    is_read.then(|| find(path)).flatten().map(|asset| hand_out(asset, headers))
}

/// The page, if a browser asks for it: at the root, or at an address that a person visits. The server calls this when
/// it has nothing else at that address.
pub fn page(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<&'static [u8]>> {
    let is_read = method == Method::GET || method == Method::HEAD;
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let is_visit = path == "/" || accepts.contains("text/html") && !is_file;
    (is_read && is_visit).then(|| find(INDEX)).flatten().map(|asset| hand_out(asset, headers))
}

fn find(path: &str) -> Option<&'static Asset> {
    let index = ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
    ASSETS.get(index)
}

fn hand_out(asset: &Asset, headers: &HeaderMap) -> Response<&'static [u8]> {
    let (encoding, body) = encoded(asset, headers);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|tags| names(tags, asset.tag));
    let mut response = Response::new(if is_known { &[][..] } else { body });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let lasting = match asset.path.starts_with(HASHED) {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let fixed = [
        (header::CONTENT_TYPE, media(asset.path)),
        (header::ETAG, asset.tag),
        (header::CACHE_CONTROL, lasting),
        (header::VARY, "Accept-Encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let opener = header::HeaderName::from_static("cross-origin-opener-policy");
    response.headers_mut().insert(opener, HeaderValue::from_static("same-origin"));
    if let Some(encoding) = encoding.filter(|_| !is_known) {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// The smallest encoding that the client accepts.
fn encoded(asset: &Asset, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let forms = [("br", asset.br), ("gzip", asset.gz)];
    let usable = forms
        .into_iter()
        .find_map(|(name, bytes)| bytes.filter(|_| takes(accepted, name)).map(|bytes| (name, bytes)));
    usable.map_or((None, asset.raw), |(name, bytes)| (Some(name), bytes))
}

/// Whether `Accept-Encoding` names a coding and does not rule it out.
fn takes(accepted: &str, coding: &str) -> bool {
    accepted.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let weight =
            parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |text| text.parse().unwrap_or(0.0));
        is_it && weight > 0.0
    })
}

fn names(tags: &HeaderValue, tag: &str) -> bool {
    let tags = tags.to_str().unwrap_or_default();
    tags == "*" || tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

fn media(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
