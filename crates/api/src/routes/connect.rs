//! The door of native executors: a WebSocket, as `docs/protocol/executor.md` says. This module checks the token and
//! upgrades the connection; the session itself is the dispatch's.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use punctual_protocol::Role;
use punctual_protocol::native::PATH;

use crate::app::Front;
use crate::badge::Badge;
use crate::caller::bearer;
use crate::executors::Pass;
use crate::place::{Seat, Standing};
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// The suffix that the standard adds to a key, so that a server cannot agree by accident.
const AGREED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get(PATH, "connectExecutor", |front, call| Box::pin(connect(front, call)))
            .about("executors", "Opens a session of a native executor.")
            .needs(Permission::Session)
            .answers_as(101, "The connection is a WebSocket from now on.", vec![], &[]),
    ]
}

async fn connect(front: Arc<Front>, call: Call) -> Answer {
    let accept = accept_key(&call.headers)?;
    let badge = Badge::of(&call.headers, call.peer);
    let token = bearer(&call.headers).map(str::to_owned);
    let pass = Visitor { front: Arc::clone(&front), badge, token, seat: call.seat };
    if !pass.opens_any().await? {
        let said = "send the access token of an app or of all executors, or an API token with the role operator: Authorization: Bearer …";
        return Err(front.strangers.refuse(call.peer, front.settings.strangers_max, said));
    }
    if !front.executors.has_room() {
        return Err(Problem::unavailable("there are as many sessions as this node keeps; try another node"));
    }
    let standing = if pass.is_peer() { Standing::Peer } else { Standing::Executor };
    Seat::introduce(pass.seat.as_ref(), standing);
    let upgrade = call.upgrade.map(|upgrade| upgrade.into_inner().unwrap_or_else(PoisonError::into_inner));
    let Some(upgrade) = upgrade else { return Err(not_a_socket("the connection cannot be upgraded")) };
    tokio::spawn(async move {
        match upgrade.await {
            Ok(socket) => front.executors.attend(socket, Arc::new(pass)),
            Err(error) => tracing::debug!(%error, "an executor left before its connection was upgraded"),
        }
    });
    Ok(switched(&accept))
}

fn switched(accept: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(accept) = HeaderValue::try_from(accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

/// The answer to the key of a WebSocket request; or why the request is none.
fn accept_key(headers: &HeaderMap) -> Result<String, Problem> {
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::UPGRADE, "websocket") || !has(header::CONNECTION, "upgrade") {
        return Err(not_a_socket("this is a WebSocket; connect with a client for one"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(not_a_socket("Sec-WebSocket-Version: expected 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.ok_or_else(|| not_a_socket("Sec-WebSocket-Key is missing"))?;
    let sum = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{}{AGREED}", key.trim()).as_bytes());
    Ok(BASE64_STANDARD.encode(sum.as_ref()))
}

fn not_a_socket(said: &str) -> Problem {
    Problem::malformed(said)
}

/// An executor or node at the door, with its credentials. They are checked again and again during the session.
struct Visitor {
    front: Arc<Front>,
    badge: Badge,
    token: Option<String>,
    /// Held, so that the connection keeps its place for the whole session.
    seat: Option<Seat>,
}

impl Visitor {
    /// Whether it may open a session for some app.
    async fn opens_any(&self) -> Result<bool, Problem> {
        if self.is_peer() {
            return Ok(true);
        }
        let own = self.front.executors.access_tokens().await?;
        let global = self.front.settings.access_token.as_ref();
        Ok(self.badge.covers_any(&own, global) || self.is_operator(None).await?)
    }

    /// Whether the token is an API token that may do so.
    async fn is_operator(&self, app: Option<&str>) -> Result<bool, Problem> {
        let Some(token) = &self.token else { return Ok(false) };
        let caller = self.front.tokens.caller(&*self.front.door, token, self.front.now()?).await?;
        let may = |caller: crate::caller::Caller| {
            caller.check(Permission::Role(Role::Operator)).is_ok()
                && app.is_none_or(|app| caller.reaches(app))
        };
        Ok(caller.is_some_and(may))
    }
}

#[async_trait]
impl Pass for Visitor {
    async fn opens(&self, app: &str) -> Result<bool, String> {
        if self.is_peer() {
            return Ok(true);
        }
        let said = |problem: Problem| problem.detail;
        let own = self.front.executors.access_tokens().await.map_err(|error| error.to_string())?;
        let global = self.front.settings.access_token.as_ref();
        if self.badge.covers(own.get(app), global) {
            return Ok(true);
        }
        self.is_operator(Some(app)).await.map_err(said)
    }

    fn is_peer(&self) -> bool {
        self.token.as_deref().is_some_and(|shown| self.front.is_peer(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_key_is_answered_as_the_standard_says() {
        let asked = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]);
        assert_eq!(accept_key(&asked).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for missing in ["connection", "upgrade", "sec-websocket-version", "sec-websocket-key"] {
            let mut asked = asked.clone();
            asked.remove(missing);
            assert_eq!(accept_key(&asked).unwrap_err().status, StatusCode::BAD_REQUEST, "{missing}");
        }
    }
}
