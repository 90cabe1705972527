//! Callers: which token a request shows, how far it reaches, and how often callers without a token may ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use calendar::Timestamp;
use http::{HeaderMap, HeaderValue, header};
use punctual_core::model::Text;
use punctual_node::ports::{Digest, Door, StoreError, TokenRow};
use punctual_protocol::Role;
use tokio::time::Instant;

use crate::approach::Approach;
use crate::budget::{Budgets, CallRefusal};
use crate::clock;
use crate::problem::Problem;
use crate::table::Permission;
use crate::token::digest;

/// The other end of a connection; the accept loop puts it into the extensions of each request.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) id: u32,
    pub(crate) name: Text,
    pub(crate) role: Role,
    /// The apps whose jobs it may see and touch; none here means all apps.
    pub(crate) apps: Option<Vec<String>>,
    /// When its credential expires.
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether a browser asks, with a session cookie.
    pub(crate) is_session: bool,
}

impl Caller {
    /// The caller of an operation that needs no token.
    pub(crate) fn nobody() -> Caller {
        Caller {
            id: 0,
            name: Text::Borrowed("nobody"),
            role: Role::Viewer,
            apps: Some(Vec::new()),
            expires_at: None,
            is_session: false,
        }
    }

    fn of(row: &TokenRow) -> Option<Caller> {
        let is_all = row.apps.iter().any(|app| app == "*");
        let apps = (!is_all).then(|| row.apps.clone());
        Some(Caller {
            id: row.id,
            name: row.name.clone(),
            role: Role::named(&row.role)?,
            apps,
            expires_at: row.expires_at,
            is_session: false,
        })
    }

    /// Whether it may see and touch the jobs of an app.
    pub(crate) fn reaches(&self, app: &str) -> bool {
        self.apps.as_ref().is_none_or(|apps| apps.iter().any(|own| own == app))
    }

    /// Whether it may see and touch all jobs.
    pub(crate) fn reaches_all(&self) -> bool {
        self.apps.is_none()
    }

    /// The apps that a list may show: those it reaches, or only the requested one if it reaches that.
    pub(crate) fn apps_of(&self, asked: Option<&str>) -> Option<Vec<String>> {
        match asked {
            Some(app) if self.reaches(app) => Some(vec![app.to_owned()]),
            Some(_) => Some(Vec::new()),
            None => self.apps.clone(),
        }
    }

    /// Refuses to touch the jobs of an app that the token does not reach.
    pub(crate) fn check_app(&self, app: &str) -> Result<(), Problem> {
        let said = || format!("the token `{}` does not reach the app `{app}`", self.name);
        self.reaches(app).then_some(()).ok_or_else(|| Problem::forbidden(said()))
    }

    /// Refuses what the role does not allow.
    pub(crate) fn check(&self, permission: Permission) -> Result<(), Problem> {
        let (needed, needs_all) = match permission {
            Permission::Open | Permission::Executor | Permission::Session | Permission::Peer => {
                return Ok(());
            }
            Permission::Role(role) => (role, false),
            Permission::Whole(role) => (role, true),
        };
        if self.role < needed {
            let (own, needed) = (self.role.name(), needed.name());
            return Err(Problem::forbidden(format!(
                "the token is a {own}'s; this needs an {needed} or more"
            )));
        }
        if needs_all && !self.reaches_all() {
            return Err(Problem::forbidden(
                "the token reaches some apps only; this needs one that reaches all",
            ));
        }
        Ok(())
    }
}

/// The token that a request brings.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// How old the cached tokens may be before they are read again.
const FRESH: Duration = Duration::from_secs(3);

/// How old they may be for a token that is not among them, so that guesses do not become queries to the store.
const FRESH_FOR_UNKNOWN: Duration = Duration::from_secs(1);

/// How old they may be when the store does not answer. A revoked token must stop working soon, but a store that is
/// away for a moment must not lock out every caller.
const FRESH_WITHOUT_STORE: Duration = Duration::from_secs(30);

/// The tokens, as last read from the store.
#[derive(Default)]
pub(crate) struct Tokens {
    known: Mutex<Known>,
    /// Held by the request that reads them.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct Known {
    by_digest: Arc<BTreeMap<Digest, TokenRow>>,
    read_at: Option<Instant>,
}

impl Known {
    fn is_younger_than(&self, age: Duration) -> bool {
        self.read_at.is_some_and(|at| clock::since(at) < age)
    }
}

impl Tokens {
    /// The caller with this token; none if the token is unknown or expired.
    pub(crate) async fn caller(
        &self,
        door: &dyn Door,
        token: &str,
        now: Timestamp,
    ) -> Result<Option<Caller>, Problem> {
        let digest = digest(token);
        let mut known = self.known();
        let fresh = if find(&known, &digest).is_some() { FRESH } else { FRESH_FOR_UNKNOWN };
        if !known.is_younger_than(fresh) {
            match self.refresh(door, fresh).await {
                Ok(()) => known = self.known(),
                Err(_) if known.is_younger_than(FRESH_WITHOUT_STORE) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let row = find(&known, &digest).filter(|row| row.expires_at.is_none_or(|at| now < at));
        Ok(row.and_then(Caller::of))
    }

    /// Reads the tokens again, unless another request just did.
    async fn refresh(&self, door: &dyn Door, fresh: Duration) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        if self.known().is_younger_than(fresh) {
            return Ok(());
        }
        let rows = door.tokens().await?;
        let by_digest = Arc::new(rows.into_iter().map(|row| (row.digest, row)).collect());
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) =
            Known { by_digest, read_at: Some(clock::instant()) };
        Ok(())
    }

    /// Makes the next request read them again.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).read_at = None;
    }

    fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The lookup is by a digest of the secret, which tells nothing about the secret; the final comparison takes equally
/// long for every value.
fn find<'a>(known: &'a Known, digest: &Digest) -> Option<&'a TokenRow> {
    known.by_digest.get(digest).filter(|row| verify_slices_are_equal(&row.digest, digest).is_ok())
}

/// The window in which calls without a valid token are counted.
const WINDOW: Duration = Duration::from_secs(15 * 60);

/// How many addresses are counted at once.
const ADDRESSES_MAX: usize = 10_000;

/// Calls without a valid token, by address.
#[derive(Default)]
pub(crate) struct Strangers {
    calls: Mutex<BTreeMap<IpAddr, (Instant, u32)>>,
    budgets: Arc<Budgets>,
}

impl Strangers {
    /// Refusals are counted with these budgets.
    pub(crate) fn counted_by(budgets: Arc<Budgets>) -> Strangers {
        Strangers { calls: Mutex::default(), budgets }
    }

    /// Counts a call without a valid token, and returns the refusal.
    pub(crate) fn refuse(&self, from: Approach, max: u32, detail: &str) -> Problem {
        match from.counted().map(network).and_then(|ip| self.count(ip, max, clock::instant())) {
            None => {
                self.budgets.note_refused_call(CallRefusal::Unauthenticated);
                Problem::unauthenticated(detail)
            }
            Some(wait) => {
                self.budgets.note_refused_call(CallRefusal::TooOften);
                let seconds = wait.as_secs().max(1);
                let said = format!("this address made {max} calls without a valid token; wait {seconds} s");
                Problem::new(http::StatusCode::TOO_MANY_REQUESTS, said)
                    .with(header::RETRY_AFTER, HeaderValue::from(seconds))
            }
        }
    }

    /// How long to wait, if the address has called too often.
    fn count(&self, ip: IpAddr, max: u32, now: Instant) -> Option<Duration> {
        let mut counts = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&ip) {
            counts.retain(|_, (began, _)| now.duration_since(*began) < WINDOW);
            // So many addresses at once are no honest mistakes: better to forget the counts than to grow.
            if counts.len() >= ADDRESSES_MAX {
                counts.clear();
            }
        }
        let (began, calls) = counts.entry(ip).or_insert((now, 0));
        if now.duration_since(*began) >= WINDOW {
            (*began, *calls) = (now, 0);
        }
        *calls = calls.saturating_add(1);
        (*calls > max).then(|| WINDOW.saturating_sub(now.duration_since(*began)))
    }
}

/// The address under which a caller is counted. An IPv6 user has billions of addresses, so those of one network (/64)
/// count as one.
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        ip @ IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let mut bytes = ip.octets();
            bytes[8..].fill(0);
            IpAddr::from(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(role: Role, apps: &[&str]) -> Caller {
        let row = TokenRow {
            id: 1,
            name: "t".into(),
            digest: Digest::default(),
            role: role.name().into(),
            apps: apps.iter().map(|app| (*app).into()).collect(),
            created_at: Timestamp::MIN,
            expires_at: None,
        };
        Caller::of(&row).unwrap()
    }

    #[test]
    fn each_role_may_do_what_those_below_it_may() {
        let roles = [Role::Viewer, Role::Operator, Role::Editor, Role::Admin];
        for (own_rank, own) in roles.into_iter().enumerate() {
            for (needed_rank, needed) in roles.into_iter().enumerate() {
                let allowed = caller(own, &["*"]).check(Permission::Role(needed)).is_ok();
                assert_eq!(allowed, own_rank >= needed_rank, "{own:?} {needed:?}");
            }
        }
    }

    #[test]
    fn a_token_of_some_apps_reaches_these_and_never_the_whole() {
        let some = caller(Role::Admin, &["a", "b"]);
        assert!(some.reaches("a") && !some.reaches("c"));
        assert_eq!(some.apps_of(None), Some(vec!["a".into(), "b".into()]));
        assert_eq!(some.apps_of(Some("b")), Some(vec!["b".into()]));
        assert_eq!(some.apps_of(Some("c")), Some(vec![]));
        assert!(some.check(Permission::Whole(Role::Admin)).is_err());
        assert_eq!(caller(Role::Viewer, &["a", "*"]).apps_of(None), None);
    }

    #[test]
    fn a_bearer_is_read_whatever_the_case_of_its_scheme() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, text.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(read("Bearer abc"), Some("abc".into()));
        assert_eq!(read("bearer  abc "), Some("abc".into()));
        for text in ["abc", "Basic abc", "Bearer", "Bearer "] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1", "an old address in the new writing");
        assert_eq!(of("2001:db8:1:2:aaaa::1"), of("2001:db8:1:2:bbbb::2"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }

    #[tokio::test]
    async fn strangers_are_counted_by_address_and_window_and_neighbours_are_not() {
        let (strangers, now) = (Strangers::default(), clock::instant());
        let ip = |text: &str| network(text.parse().unwrap());
        assert_eq!(strangers.count(ip("192.0.2.1"), 2, now), None);
        assert_eq!(strangers.count(ip("192.0.2.1"), 2, now), None);
        assert_eq!(strangers.count(ip("192.0.2.1"), 2, now), Some(WINDOW));
        assert_eq!(strangers.count(ip("192.0.2.2"), 2, now), None);
        assert_eq!(strangers.count(ip("192.0.2.1"), 2, now + WINDOW), None);
        assert_eq!(ip("2001:db8::1"), ip("2001:db8::2"));
        let status = |text: &str, headers: &HeaderMap| {
            let proxies = crate::approach::Proxies::default();
            let from = Approach::of(Some(Peer(text.parse().unwrap())), headers, &proxies, true);
            strangers.refuse(from, 0, "").status.as_u16()
        };
        assert_eq!(status("127.0.0.1:1", &HeaderMap::new()), 401);
        assert_eq!(status("192.0.2.9:1", &HeaderMap::new()), 429);
        let proxied = HeaderMap::from_iter([(header::VIA, HeaderValue::from_static("1.1 proxy"))]);
        assert_eq!(status("127.0.0.1:1", &proxied), 429, "whoever comes through a proxy is counted");
    }
}
