//! The files that a browser gets, and those that it does not.

use super::*;

fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

fn script() -> &'static str {
    let asset = ASSETS.iter().find(|asset| asset.path.ends_with(".js")).expect("the console has a script");
    asset.path
}

fn said<'a>(response: &'a Response<&[u8]>, name: header::HeaderName) -> &'a str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn the_root_and_every_visited_address_give_the_page() {
    let visit = headers(&[(header::ACCEPT, "text/html,application/xhtml+xml,*/*;q=0.8")]);
    for path in ["/", "/jobs", "/jobs/17/edit", "/runs/1"] {
        let page = page(&Method::GET, path, &visit).expect(path);
        assert_eq!(said(&page, header::CONTENT_TYPE), "text/html; charset=utf-8", "{path}");
        assert_eq!(said(&page, header::CACHE_CONTROL), "no-cache");
        assert!(page.body().starts_with(b"<!doctype html>"));
    }
    assert!(page(&Method::GET, "/", &HeaderMap::new()).is_some());
}

#[test]
fn programs_and_missing_files_do_not_get_the_page() {
    let visit = headers(&[(header::ACCEPT, "text/html")]);
    let program = headers(&[(header::ACCEPT, "application/json")]);
    assert!(page(&Method::GET, "/jobs", &program).is_none());
    assert!(page(&Method::GET, "/assets/gone-1234.js", &visit).is_none());
    assert!(page(&Method::POST, "/", &visit).is_none());
    assert!(file(&Method::GET, "/assets/gone-1234.js", &visit).is_none());
    assert!(file(&Method::GET, "/../Cargo.toml", &visit).is_none());
}

#[test]
fn a_hashed_file_is_kept_for_good_and_comes_in_the_smallest_form() {
    let path = format!("/{}", script());
    let both = headers(&[(header::ACCEPT_ENCODING, "gzip, deflate, br")]);
    let small = file(&Method::GET, &path, &both).unwrap();
    assert_eq!(said(&small, header::CONTENT_ENCODING), "br");
    assert_eq!(said(&small, header::CACHE_CONTROL), "public, max-age=31536000, immutable");
    assert_eq!(said(&small, header::VARY), "Accept-Encoding");
    let only_gzip = headers(&[(header::ACCEPT_ENCODING, "br;q=0, gzip;q=0.5")]);
    let middling = file(&Method::GET, &path, &only_gzip).unwrap();
    assert_eq!(said(&middling, header::CONTENT_ENCODING), "gzip");
    let plain = file(&Method::GET, &path, &HeaderMap::new()).unwrap();
    assert_eq!(said(&plain, header::CONTENT_ENCODING), "");
    assert!(small.body().len() < plain.body().len() && middling.body().len() < plain.body().len());
}

#[test]
fn what_is_known_is_not_sent_again() {
    let first = page(&Method::GET, "/", &HeaderMap::new()).unwrap();
    let tag = said(&first, header::ETAG).to_owned();
    let again = page(&Method::GET, "/", &headers(&[(header::IF_NONE_MATCH, &tag)])).unwrap();
    assert_eq!((again.status(), again.body().len()), (StatusCode::NOT_MODIFIED, 0));
    let other = page(&Method::GET, "/", &headers(&[(header::IF_NONE_MATCH, "\"0\"")])).unwrap();
    assert_eq!(other.status(), StatusCode::OK);
}

#[test]
fn the_page_allows_nothing_but_this_server() {
    let page = page(&Method::GET, "/", &HeaderMap::new()).unwrap();
    let policy = said(&page, header::CONTENT_SECURITY_POLICY);
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{part}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains("http"));
    let text = std::str::from_utf8(page.body()).unwrap();
    assert!(!text.contains("<style") && !text.contains("<script>") && !text.contains("://"));
}

#[test]
fn no_file_names_another_host() {
    let allowed = ["http://www.w3.org/", "https://react.dev/", "https://example.com/"];
    for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js") || asset.path.ends_with(".css")) {
        let text = String::from_utf8_lossy(asset.raw);
        for scheme in ["http://", "https://"] {
            for (at, _) in text.match_indices(scheme) {
                let rest: String = text[at..].chars().take(60).collect();
                let is_host = rest[scheme.len()..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
                assert!(
                    !is_host || allowed.iter().any(|one| rest.starts_with(one)),
                    "{}: {rest}",
                    asset.path
                );
            }
        }
    }
}

#[test]
fn the_first_load_needs_little_script() {
    let page = page(&Method::GET, "/", &HeaderMap::new()).unwrap();
    let text = std::str::from_utf8(page.body()).unwrap();
    let names =
        text.split('"').filter(|word| word.ends_with(".js")).filter_map(|word| word.strip_prefix('/'));
    let sizes: Vec<usize> = names.map(|name| find(name).unwrap().gz.expect("a small form").len()).collect();
    let sum: usize = sizes.iter().sum();
    assert!(!sizes.is_empty() && sum <= 150 * 1024, "{sum} bytes of script, gzip: {sizes:?}");
}
