//! Redirects: whether one is followed, and which parts of the request go along.

use http::StatusCode;
use url::Url;

use crate::guard::Guard;

const HOPS_MAX: u8 = 3;

/// Where a request goes instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) url: Url,
    /// How many redirects led here.
    pub(crate) count: u8,
    /// Whether any of them led to another scheme, host or port. What was meant for the first origin is then left out.
    pub(crate) has_left_origin: bool,
    /// Whether one of them was a 303, which asks for the result of the work and not for the work again.
    pub(crate) without_body: bool,
}

/// Whether a status is a redirect.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The next hop, or why there is none. `here` is the address that answered.
pub(crate) fn follow(
    guard: &Guard,
    here: &Url,
    before: Option<&Hop>,
    status: StatusCode,
    location: Option<&str>,
) -> Result<Hop, String> {
    let count = before.map_or(0, |hop| hop.count) + 1;
    if count > HOPS_MAX {
        return Err(format!("{HOPS_MAX} redirects were followed and another came: call the final url"));
    }
    let location = location.ok_or("the redirect does not say where to")?;
    let url = here.join(location).map_err(|_| "the redirect leads to something that is no url")?;
    if here.scheme() == "https" && url.scheme() == "http" {
        return Err("the redirect leads from https to http, which is not followed: call the final url".into());
    }
    guard.judge_url(&url).map_err(|refusal| format!("the redirect is not followed: {refusal}"))?;
    let has_left_origin = url.origin() != here.origin() || before.is_some_and(|hop| hop.has_left_origin);
    let without_body = status == StatusCode::SEE_OTHER || before.is_some_and(|hop| hop.without_body);
    Ok(Hop { url, count, has_left_origin, without_body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(here: &str, before: Option<&Hop>, status: u16, location: Option<&str>) -> Result<Hop, String> {
        let guard = Guard::new::<&str>(&[], false).unwrap();
        follow(&guard, &here.parse().unwrap(), before, StatusCode::from_u16(status).unwrap(), location)
    }

    #[test]
    fn a_redirect_is_read_relative_to_what_answered() {
        let hop = check("https://a.example/x/y?z", None, 307, Some("../w?q")).unwrap();
        assert_eq!(hop.url.as_str(), "https://a.example/w?q");
        assert!(!hop.has_left_origin && !hop.without_body);
        let hop = check("https://a.example/", None, 303, Some("//b.example/")).unwrap();
        assert!(hop.has_left_origin && hop.without_body);
    }

    #[test]
    fn what_was_left_behind_stays_behind() {
        let out = check("http://a.example/", None, 303, Some("http://b.example/")).unwrap();
        let back = check("http://b.example/", Some(&out), 307, Some("http://a.example/")).unwrap();
        assert!(back.has_left_origin && back.without_body && back.count == 2);
    }

    #[test]
    fn what_is_not_followed_says_why() {
        let third = Hop {
            url: "http://a.example/".parse().unwrap(),
            count: 3,
            has_left_origin: false,
            without_body: false,
        };
        for (here, before, location, part) in [
            ("http://a.example/", Some(&third), Some("/"), "3 redirects"),
            ("http://a.example/", None, None, "does not say where"),
            ("http://a.example/", None, Some("http://"), "no url"),
            ("https://a.example/", None, Some("http://a.example/"), "from https to http"),
            ("http://a.example/", None, Some("http://10.0.0.1/"), "a private address"),
            ("http://a.example/", None, Some("http://169.254.169.254/latest"), "metadata"),
            ("http://a.example/", None, Some("http://2130706433/"), "a loopback address"),
            ("http://a.example/", None, Some("http://u:p@b.example/"), "Authorization header"),
            ("http://a.example/", None, Some("file:///etc/passwd"), "only http and https"),
        ] {
            let reason = check(here, before, 302, location).unwrap_err();
            assert!(reason.contains(part), "{location:?}: {reason}");
        }
    }
}
