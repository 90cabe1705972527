//! Credentials: what a request shows, so that a stream can check again whether it is still valid.

use std::time::Duration;

use http::HeaderMap;

use crate::app::Front;
use crate::caller::{Caller, bearer};
use crate::clock;
use crate::problem::Problem;
use crate::session;

/// How often a stream checks its credential. Cached tokens are at most three seconds old, so a stream ends within
/// five.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The message to a stream whose credential is no longer valid.
pub(crate) const OVER: &str = "the token or session was revoked or has expired; open the stream with another";

/// The credential of a request.
#[derive(Clone)]
pub(crate) enum Credential {
    Nothing,
    Token(String),
    /// The sealed text of a session cookie.
    Session(String),
}

impl Credential {
    pub(crate) fn of(headers: &HeaderMap) -> Credential {
        match (bearer(headers), session::cookie(headers)) {
            (Some(token), _) => Credential::Token(token.to_owned()),
            (None, Some(sealed)) => Credential::Session(sealed.to_owned()),
            (None, None) => Credential::Nothing,
        }
    }

    /// The caller with this credential; none if it is not valid.
    pub(crate) async fn caller(&self, front: &Front) -> Result<Option<Caller>, Problem> {
        match self {
            Credential::Nothing => Ok(None),
            Credential::Token(token) => front.tokens.caller(&*front.door, token, front.now()?).await,
            Credential::Session(sealed) => signed_in(front, sealed).await,
        }
    }

    /// Waits until the credential is no longer valid. A store that does not answer ends no stream, but expiry does.
    pub(crate) async fn over(&self, front: &Front, caller: &Caller) {
        loop {
            clock::sleep(LOOK_EVERY).await;
            let is_expired = |now| caller.expires_at.is_some_and(|at| at <= now);
            let is_over = match self.caller(front).await {
                Ok(known) => known.is_none_or(|known| known.id != caller.id),
                Err(_) => front.now().is_ok_and(is_expired),
            };
            if is_over {
                front.budgets.note_ended_stream();
                return;
            }
        }
    }
}

/// The caller of a session; none if the session or its token is over.
async fn signed_in(front: &Front, sealed: &str) -> Result<Option<Caller>, Problem> {
    let now = front.now()?;
    let session = front.sessions.open(&*front.door, &*front.entropy, sealed, now).await?;
    let Some(session) = session else { return Ok(None) };
    let caller = front.tokens.caller(&*front.door, &session.token, now).await?;
    Ok(caller.map(|caller| Caller { expires_at: Some(session.expires_at), is_session: true, ..caller }))
}
