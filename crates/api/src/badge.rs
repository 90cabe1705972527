//! Badges: the credentials that executors show, and which apps they open.

use http::HeaderMap;
use punctual_core::registry::{Dialect, Secret};
use punctual_node::AccessTokens;
use punctual_protocol::xxl::{ACCESS_TOKEN as CLASSIC, APP_NAME as APP, ORTH_ACCESS_TOKEN as ORTH};

use crate::approach::Approach;
use crate::caller::bearer;

/// The token that XXL-JOB ships with. It is public.
pub const DEFAULT_TOKEN: &str = "default_token";

/// Sent by pyxxl beside the usual header.
const OLD: &str = "XXL-RPC-ACCESS-TOKEN";

/// The credentials of an executor.
pub(crate) struct Badge {
    token: Option<String>,
    is_local: bool,
}

impl Badge {
    pub(crate) fn of(headers: &HeaderMap, from: Approach) -> Badge {
        let shown = [CLASSIC, ORTH, OLD].into_iter().filter_map(|name| text(headers, name));
        let token = shown.chain(bearer(headers)).find(|token| !token.is_empty()).map(str::to_owned);
        Badge { token, is_local: from.is_local() }
    }

    /// Whether it lets in an executor of an app with this token of its own, or without one, where all other apps use
    /// `global`. Where no token is set at all, only this machine is trusted.
    pub(crate) fn covers(&self, own: Option<&Secret>, global: Option<&Secret>) -> bool {
        match own.or(global) {
            Some(secret) => self.token.as_deref().is_some_and(|token| secret.matches(token)),
            None => self.is_local,
        }
    }

    /// Whether it lets in an executor of any app.
    pub(crate) fn covers_any(&self, own: &AccessTokens, global: Option<&Secret>) -> bool {
        // Every token is compared, whatever the result so far, so that the time it takes tells nothing about the
        // tokens.
        let by_app = own.values().filter(|own| self.covers(Some(own), global)).count();
        by_app > 0 || self.covers(None, global)
    }
}

/// The dialect of an executor, by its headers. An Orth executor without a token is recognized by its path only.
pub(crate) fn dialect(headers: &HeaderMap, is_orth_path: bool) -> Dialect {
    let has = |name: &str| headers.contains_key(name);
    match () {
        () if has(APP) => Dialect::Trigger,
        () if has(ORTH) => Dialect::Orth,
        () if is_orth_path && !has(CLASSIC) && !has(OLD) => Dialect::Orth,
        () => Dialect::Classic,
    }
}

/// The app that an executor names in a header.
pub(crate) fn app(headers: &HeaderMap) -> Option<&str> {
    text(headers, APP)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approach::Proxies;
    use crate::caller::Peer;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn badge(token: &str, peer: &str) -> Badge {
        let headers = if token.is_empty() { HeaderMap::new() } else { headers(&[(CLASSIC, token)]) };
        let from = Approach::of(Some(Peer(peer.parse().unwrap())), &headers, &Proxies::default(), true);
        Badge::of(&headers, from)
    }

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret::new(text))
    }

    #[test]
    fn an_apps_own_token_stands_in_the_place_of_the_one_for_all() {
        let (own, global) = (secret("own"), secret("global"));
        for (token, with_own, without_own) in
            [("own", true, false), ("global", false, true), ("", false, false), ("globa", false, false)]
        {
            let badge = badge(token, "127.0.0.1:9");
            assert_eq!(badge.covers(own.as_ref(), global.as_ref()), with_own, "{token}");
            assert_eq!(badge.covers(None, global.as_ref()), without_own, "{token}");
        }
    }

    #[test]
    fn without_any_token_only_the_own_machine_is_trusted_whatever_it_shows() {
        for (peer, is_taken) in
            [("127.0.0.1:9", true), ("[::1]:9", true), ("[::ffff:127.0.0.1]:9", true), ("192.0.2.7:9", false)]
        {
            assert_eq!(badge("", peer).covers(None, None), is_taken, "{peer}");
            assert_eq!(badge("anything", peer).covers(None, None), is_taken, "{peer}");
        }
        assert!(
            !Badge::of(&HeaderMap::new(), Approach::default()).covers(None, None),
            "nobody knows who that is"
        );
    }

    #[test]
    fn a_callback_is_read_for_whoever_may_speak_for_some_app() {
        let apps = AccessTokens::from([("a".into(), Secret::new("own"))]);
        assert!(badge("own", "192.0.2.7:9").covers_any(&apps, None));
        assert!(badge("global", "192.0.2.7:9").covers_any(&apps, secret("global").as_ref()));
        assert!(!badge("other", "192.0.2.7:9").covers_any(&apps, secret("global").as_ref()));
    }

    #[test]
    fn the_dialect_is_what_the_headers_say() {
        for (pairs, is_orth_path, expected) in [
            (vec![(CLASSIC, "t")], false, Dialect::Classic),
            (vec![(CLASSIC, "t"), (OLD, "t")], false, Dialect::Classic),
            (vec![(CLASSIC, "t"), (APP, "a")], false, Dialect::Trigger),
            (vec![(ORTH, "t")], false, Dialect::Orth),
            (vec![], false, Dialect::Classic),
            (vec![], true, Dialect::Orth),
            (vec![(CLASSIC, "t")], true, Dialect::Classic),
        ] {
            assert_eq!(dialect(&headers(&pairs), is_orth_path), expected, "{pairs:?} {is_orth_path}");
        }
    }

    #[test]
    fn an_empty_header_does_not_hide_another() {
        let headers = headers(&[(CLASSIC, ""), (ORTH, "t")]);
        assert!(Badge::of(&headers, Approach::default()).covers(secret("t").as_ref(), None));
    }
}
