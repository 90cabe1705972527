//! The gate: every request to a known route passes it. The caller is checked against the operation that was matched,
//! never against the text of a path.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use hyper::upgrade::OnUpgrade;
use tokio::time::timeout;

use crate::app::Front;
use crate::body::LINES;
use crate::budget::{Owner, Room};
use crate::caller::{Caller, bearer, network};
use crate::credential::Credential;
use crate::place::{Seat, Standing};
use crate::problem::Problem;
use crate::query::Query;
use crate::repeat;
use crate::table::{Answer, Call, Operation, Permission, Takes};
use crate::uncut::uncut;
use crate::{body, session};

/// Whether an answer was read from a copy, because the database was away.
const STALE: HeaderName = HeaderName::from_static("punctual-stale");

/// How often a waiting request checks whether the store is away.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Lets a request through, but stops waiting when the store is away. Work that was begun then goes on by itself.
pub(crate) async fn admit(
    front: &Arc<Front>,
    operation: &Arc<Operation>,
    request: Request,
    request_id: &str,
) -> Answer {
    let is_away = || operation.needs_store(front.browse.has_copy()) && front.node.is_store_away();
    if is_away() {
        return Err(away());
    }
    let mut passing = std::pin::pin!(pass(front, operation, request, request_id));
    loop {
        match timeout(LOOK_EVERY, &mut passing).await {
            Ok(answer) => return answer.map(|answer| mark(front, operation, answer)),
            Err(_) if is_away() => return Err(Problem { may_be_done: true, ..away() }),
            Err(_) => {}
        }
    }
}

fn away() -> Problem {
    Problem::unavailable("the database does not answer; what is stored is safe, and this node tries again")
}

/// Marks an answer that was read from a copy, which may be behind.
fn mark(front: &Front, operation: &Operation, mut answer: Response) -> Response {
    if operation.method == Method::GET && operation.needs_store(false) && front.browse.is_copy() {
        answer.headers_mut().insert(STALE, HeaderValue::from_static("true"));
    }
    answer
}

/// Lets a request through to its handler, or says why not.
async fn pass(front: &Arc<Front>, operation: &Arc<Operation>, request: Request, request_id: &str) -> Answer {
    let (mut parts, body) = request.into_parts();
    let peer = front.approach(&parts);
    let credential = Credential::of(&parts.headers);
    let caller = caller_of(front, operation, &parts, &credential).await?;
    let seat = parts.extensions.get::<Seat>().cloned();
    let owner = introduce(operation, &caller, seat.as_ref(), peer.ip());
    let query = match operation.is_for_executors() {
        true => Query::default(),
        false => Query::read(&parts.uri, operation.query)?,
    };
    let path = path_of(&mut parts).await?;
    let key = match operation.has_idempotency() {
        true => repeat::key_of(&parts.headers, &caller)?,
        false => None,
    };
    let mut room = front.budgets.room(owner);
    let (body, stream) = take(front, operation, &parts.headers, body, &mut room).await?;
    if stream.is_some() && key.is_some() {
        let said = "Idempotency-Key: a stream is answered while it is read; give its lines keys of their own";
        return Err(Problem::malformed(said));
    }
    // The body is hashed only for requests that may be repeated.
    let key = key.map(|key| (key, repeat::sum(&parts.method, &parts.uri, &body)));
    let request_id = request_id.to_owned();
    let call = Call {
        caller,
        credential,
        path,
        query,
        headers: parts.headers,
        body,
        stream: stream.map(Mutex::new),
        room,
        request_id,
        peer,
        seat,
        upgrade: parts.extensions.remove::<OnUpgrade>().map(Mutex::new),
    };
    match key {
        None => carry_out(front, operation, call).await,
        Some((key, digest)) => {
            let (front, operation) = (Arc::clone(front), Arc::clone(operation));
            // Storing the key belongs to the work: if the caller could interrupt the two, the key would stay open for
            // a day.
            uncut(async move { repeat::once(&front, &operation, key, digest, call).await }).await
        }
    }
}

/// The caller, if the operation admits it.
async fn caller_of(
    front: &Front,
    operation: &Operation,
    parts: &Parts,
    credential: &Credential,
) -> Result<Caller, Problem> {
    // The router does not start with an operation that has no permission; if it did, only admins could use it.
    let permission = operation.permission.unwrap_or(Permission::Whole(punctual_protocol::Role::Admin));
    let is_asked_later = matches!(permission, Permission::Executor | Permission::Session);
    if permission == Permission::Open || is_asked_later || (operation.is_opened)(&front.settings) {
        return Ok(Caller::nobody());
    }
    let peer = front.approach(parts);
    if permission == Permission::Peer {
        let is_known = bearer(&parts.headers).is_some_and(|shown| front.is_peer(shown));
        let refusal = "this door is for the nodes of this cluster";
        return if is_known {
            Ok(Caller::nobody())
        } else {
            Err(front.strangers.refuse(peer, front.settings.strangers_max, refusal))
        };
    }
    let refuse = |detail| front.strangers.refuse(peer, front.settings.strangers_max, detail);
    let known = credential.caller(front).await?;
    let caller = match (credential, known) {
        (Credential::Nothing, _) => return Err(refuse("send a token: Authorization: Bearer pct_…")),
        (Credential::Token(_), None) => {
            return Err(refuse("the token is unknown, expired or revoked; an admin can make another"));
        }
        (Credential::Session(_), None) => return Err(refuse("the session is over; sign in again")),
        (_, Some(caller)) => caller,
    };
    if caller.is_session && parts.method != Method::GET && parts.method != Method::HEAD {
        session::check_origin(&parts.headers)?;
    }
    caller.check(permission)?;
    Ok(caller)
}

/// Moves the connection to the places of its authenticated caller, and returns whose budget the body counts against.
fn introduce(operation: &Operation, caller: &Caller, seat: Option<&Seat>, peer: Option<IpAddr>) -> Owner {
    let (owner, standing) = match operation.permission {
        Some(Permission::Peer) => (Owner::Peers, Standing::Peer),
        _ if caller.id == 0 => return Owner::Strangers(peer.map(network)),
        _ => (Owner::Token(caller.id), Standing::Caller(caller.id)),
    };
    Seat::introduce(seat, standing);
    owner
}

async fn path_of(parts: &mut Parts) -> Result<BTreeMap<String, String>, Problem> {
    let unreadable = |_| Problem::malformed("the path is no text");
    let params = RawPathParams::from_request_parts(parts, &()).await.map_err(unreadable)?;
    Ok(params.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}

/// Reads the body; a stream is left to the handler.
async fn take(
    front: &Front,
    operation: &Operation,
    headers: &HeaderMap,
    body: Body,
    room: &mut Room,
) -> Result<(Bytes, Option<Body>), Problem> {
    let settings = &front.settings;
    let body_max = operation.body_max.unwrap_or(settings.body_max);
    match operation.takes {
        Takes::Nothing => Ok((Bytes::new(), None)),
        Takes::Anything => Ok((Bytes::new(), Some(body))),
        Takes::Batch { .. } => {
            body::check_media(headers, &["application/json", LINES])?;
            if body::media(headers).as_deref() == Some(LINES) {
                return Ok((Bytes::new(), Some(body)));
            }
            Ok((body::read(headers, body, settings.batch_max, room).await?, None))
        }
        Takes::Json { media, is_optional, .. } => {
            if !is_optional {
                body::check_media(headers, media)?;
            }
            let body = body::read(headers, body, body_max, room).await?;
            if is_optional && !body.is_empty() {
                body::check_media(headers, media)?;
            }
            Ok((body, None))
        }
    }
}

async fn carry_out(front: &Arc<Front>, operation: &Arc<Operation>, call: Call) -> Answer {
    let work = (operation.handler)(Arc::clone(front), call);
    if operation.method == Method::GET { work.await } else { uncut(work).await }
}
