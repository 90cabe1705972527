//! Sessions: a token sealed into a cookie, so that a browser carries it and no script can read it.
//!
//! A session has no state of its own: showing the cookie is showing the token inside it. So it reaches as far as the
//! token, ends with it, and needs no row in the store. The seal is made with a secret that only the nodes of the
//! cluster know. That secret alone makes no session without a token, and a stolen cookie reveals no token without
//! that secret.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest as sum};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use calendar::Timestamp;
use http::{HeaderMap, HeaderValue, header};
use punctual_node::ports::{Digest, Door, Entropy, StoreError};
use tokio::sync::OnceCell;

use crate::problem::Problem;

/// What the cookie is called.
pub(crate) const COOKIE: &str = "punctual_session";

/// How long a session lasts.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3_600);

/// How many sessions that were ended early are remembered.
const ENDED_MAX: usize = 10_000;

/// Separates the key of sessions from other keys that are derived from the same secret.
const PURPOSE: &[u8] = b"punctual session 1";

type Number = [u8; NONCE_LEN];

/// The key that seals sessions, and the sessions that were ended early.
#[derive(Default)]
pub(crate) struct Sessions {
    key: OnceCell<LessSafeKey>,
    ended: Mutex<BTreeMap<Number, Timestamp>>,
}

/// A session that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    number: Number,
    /// The token in it.
    pub(crate) token: String,
    /// When it ends.
    pub(crate) expires_at: Timestamp,
}

impl Sessions {
    /// Makes sure that there is a key to seal with.
    async fn key(&self, door: &dyn Door, entropy: &dyn Entropy) -> Result<&LessSafeKey, StoreError> {
        let make = async || {
            let mut drawn = Digest::default();
            for eight in drawn.chunks_exact_mut(8) {
                eight.copy_from_slice(&entropy.bits().to_le_bytes());
            }
            let secret = door.peer_secret(drawn).await?;
            let key = sum(&SHA256, &[PURPOSE, &secret].concat());
            let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("a sum is as long as a key");
            Ok(LessSafeKey::new(key))
        };
        self.key.get_or_try_init(make).await
    }

    /// Seals a token until an instant.
    pub(crate) async fn seal(
        &self,
        door: &dyn Door,
        entropy: &dyn Entropy,
        token: &str,
        expires_at: Timestamp,
    ) -> Result<String, StoreError> {
        let key = self.key(door, entropy).await?;
        let mut number = Number::default();
        number[..8].copy_from_slice(&entropy.bits().to_le_bytes());
        number[8..].copy_from_slice(&entropy.bits().to_le_bytes()[..4]);
        let mut content = expires_at.as_millis().to_le_bytes().to_vec();
        content.extend(token.as_bytes());
        let nonce = Nonce::assume_unique_for_key(number);
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut content).expect("a token is short");
        Ok(URL_SAFE_NO_PAD.encode([&number[..], &content].concat()))
    }

    /// Opens a sealed session; none if it was not sealed here, or is over.
    pub(crate) async fn open(
        &self,
        door: &dyn Door,
        entropy: &dyn Entropy,
        sealed: &str,
        now: Timestamp,
    ) -> Result<Option<Session>, StoreError> {
        let key = self.key(door, entropy).await?;
        Ok(unseal(key, sealed).filter(|session| now < session.expires_at && !self.has_ended(&session.number)))
    }

    /// Ends a session before its time. Other nodes are not told: a caller that needs certainty revokes the token.
    pub(crate) fn end(&self, session: &Session, now: Timestamp) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= ENDED_MAX {
            ended.retain(|_, expires_at| now < *expires_at);
        }
        if ended.len() >= ENDED_MAX {
            ended.pop_first();
        }
        ended.insert(session.number, session.expires_at);
    }

    fn has_ended(&self, number: &Number) -> bool {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).contains_key(number)
    }
}

fn unseal(key: &LessSafeKey, sealed: &str) -> Option<Session> {
    let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let (number, content) = bytes.split_at_checked(NONCE_LEN)?;
    let number = Number::try_from(number).ok()?;
    let mut content = content.to_vec();
    let opened = key.open_in_place(Nonce::assume_unique_for_key(number), Aad::empty(), &mut content).ok()?;
    let (expires_at, token) = opened.split_at_checked(8)?;
    let expires_at = Timestamp::from_millis(i64::from_le_bytes(expires_at.try_into().ok()?));
    Some(Session { number, token: String::from_utf8(token.to_vec()).ok()?, expires_at })
}

/// The value of the session cookie.
pub(crate) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value).filter(|value| !value.is_empty())
}

/// The header that gives a browser the cookie, or takes it away if `sealed` is empty. Only the browser knows how it
/// reaches this server: behind a proxy that ends TLS it says `https`, while we are asked over plain HTTP.
pub(crate) fn set_cookie(headers: &HeaderMap, sealed: &str, lasts: Duration) -> HeaderValue {
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    let is_secure = origin.is_some_and(|origin| origin.starts_with("https://"));
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!(
        "{COOKIE}={sealed}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        if sealed.is_empty() { 0 } else { lasts.as_secs() }
    );
    HeaderValue::try_from(text).expect("a sealed session is plain text")
}

/// Refuses requests that a page of another site made a browser send. A browser says where a request comes from; a
/// request that does not say it comes from no browser, or from one so old that the cookie's own rule has to do.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_ours = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            authority.is_some() && authority == text("host")
        }
        (None, None) => true,
    };
    let said = "a page of another site asked for this; with a session only the console itself may";
    is_ours.then_some(()).ok_or_else(|| Problem::forbidden(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn key(byte: u8) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[byte; 32]).unwrap())
    }

    #[test]
    fn what_was_sealed_elsewhere_or_touched_on_the_way_opens_nothing() {
        let mut content = 5_i64.to_le_bytes().to_vec();
        content.extend(b"pct_x");
        let number = Number::default();
        key(1)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(number), Aad::empty(), &mut content)
            .unwrap();
        let sealed = URL_SAFE_NO_PAD.encode([&number[..], &content].concat());
        let opened = unseal(&key(1), &sealed).unwrap();
        assert_eq!((opened.token.as_str(), opened.expires_at), ("pct_x", Timestamp::from_millis(5)));
        assert_eq!(unseal(&key(2), &sealed), None);
        for touched in [format!("B{}", &sealed[1..]), sealed[..20].to_owned(), "pct_x".into(), String::new()]
        {
            assert_eq!(unseal(&key(1), &touched), None, "{touched}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |text: &str| cookie(&headers(&[("cookie", text)])).map(str::to_owned);
        assert_eq!(found("a=1; punctual_session=xyz; b=2"), Some("xyz".into()));
        for text in ["a=1", "punctual_session=", "xpunctual_session=1", "punctual_session"] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn only_pages_of_this_server_write_with_a_session() {
        for (said, is_ours) in [
            (vec![], true),
            (vec![("sec-fetch-site", "same-origin")], true),
            (vec![("sec-fetch-site", "none")], true),
            (vec![("sec-fetch-site", "same-site")], false),
            (vec![("sec-fetch-site", "cross-site"), ("origin", "http://h"), ("host", "h")], false),
            (vec![("origin", "http://h:7070"), ("host", "h:7070")], true),
            (vec![("origin", "http://evil"), ("host", "h:7070")], false),
            (vec![("origin", "null"), ("host", "h:7070")], false),
        ] {
            assert_eq!(check_origin(&headers(&said)).is_ok(), is_ours, "{said:?}");
        }
    }

    #[test]
    fn a_browser_that_came_by_tls_keeps_the_cookie_to_it() {
        let given = |origin: &str| {
            let value = set_cookie(&headers(&[("origin", origin)]), "x", Duration::from_secs(60));
            value.to_str().unwrap().to_owned()
        };
        assert_eq!(given("http://h"), "punctual_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=60");
        assert!(given("https://h").ends_with("; Secure"));
        let gone = set_cookie(&HeaderMap::new(), "", LASTS);
        assert!(gone.to_str().unwrap().contains("Max-Age=0"));
    }
}
