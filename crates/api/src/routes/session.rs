//! The session: signing in, signing out, and which token is signed in.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_protocol::{Role, Session, SignIn, SignedBy};

use super::ok;
use crate::app::Front;
use crate::body;
use crate::budget::STRANGER_BODY_MAX;
use crate::caller::Caller;
use crate::convert::fields::{Faults, Spot};
use crate::problem::Problem;
use crate::session::{LASTS, check_origin, cookie, set_cookie};
use crate::table::{Answer, Call, Operation, Permission};

/// The longest token that is checked.
const TOKEN_MAX: usize = 512;

pub(super) fn operations() -> Vec<Operation> {
    let cookie = &[("Set-Cookie", "The session, for a browser to keep.")];
    vec![
        Operation::post("/api/v1/session", "signIn", |front, call| Box::pin(sign_in(front, call)))
            .about("session", "Signs a browser in with a token: the answer brings a cookie that carries it.")
            .needs(Permission::Open)
            .takes::<SignIn>()
            .body_max(STRANGER_BODY_MAX)
            .answers_with::<Session>(200, "The identity and permissions of the new session.", cookie)
            .refuses(&[401, 403, 429]),
        Operation::get("/api/v1/session", "getSession", |front, call| Box::pin(show(front, call)))
            .about("session", "Returns the identity and the permissions of the caller's token or session.")
            .needs(Permission::Role(Role::Viewer))
            .answers::<Session>(200, "The caller's identity and permissions."),
        Operation::delete("/api/v1/session", "signOut", |front, call| Box::pin(sign_out(front, call)))
            .about("session", "Ends the session of a browser, if it has one.")
            .needs(Permission::Open)
            .answers_nothing(204, "The session has ended.")
            .refuses(&[403]),
    ]
}

async fn sign_in(front: Arc<Front>, call: Call) -> Answer {
    check_origin(&call.headers)?;
    let value = body::json(&call.body)?;
    let faults = Faults::default();
    let token = Spot::whole(&value, &faults).object().and_then(|object| {
        let token = object.must("token").and_then(|spot| spot.prose(TOKEN_MAX));
        object.end();
        token
    });
    let token = faults.unless(token)?;
    let now = front.now()?;
    let Some(caller) = front.tokens.caller(&*front.door, token.trim(), now).await? else {
        let said = "the token is unknown, expired or revoked; an admin can make another";
        return Err(front.strangers.refuse(call.peer, front.settings.strangers_max, said));
    };
    let end = now.saturating_add(LASTS);
    let end = caller.expires_at.map_or(end, |expires_at| expires_at.min(end));
    let lasts = Duration::from_millis(u64::try_from(end.as_millis() - now.as_millis()).unwrap_or(0));
    let sealed = front.sessions.seal(&*front.door, &*front.entropy, token.trim(), end).await?;
    let caller = Caller { expires_at: Some(end), is_session: true, ..caller };
    let mut response = ok(&shown(&front, &caller));
    response.headers_mut().insert(header::SET_COOKIE, set_cookie(&call.headers, &sealed, lasts));
    Ok(response)
}

async fn show(front: Arc<Front>, call: Call) -> Answer {
    Ok(ok(&shown(&front, &call.caller)))
}

fn shown(front: &Front, caller: &Caller) -> Session {
    let may = |(_, permission): &&(&str, Permission)| caller.check(*permission).is_ok();
    Session {
        name: caller.name.to_string(),
        role: caller.role,
        apps: caller.apps.clone().unwrap_or_else(|| vec!["*".into()]),
        by: if caller.is_session { SignedBy::Session } else { SignedBy::Token },
        expires_at: caller.expires_at.map(|at| at.to_string()),
        permissions: front.operations.iter().filter(may).map(|(id, _)| (*id).to_owned()).collect(),
    }
}

async fn sign_out(front: Arc<Front>, call: Call) -> Answer {
    check_origin(&call.headers)?;
    if let Some(sealed) = cookie(&call.headers) {
        end(&front, sealed).await?;
    }
    let mut response: Response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(header::SET_COOKIE, set_cookie(&call.headers, "", Duration::ZERO));
    Ok(response)
}

async fn end(front: &Front, sealed: &str) -> Result<(), Problem> {
    let now = front.now()?;
    if let Some(session) = front.sessions.open(&*front.door, &*front.entropy, sealed, now).await? {
        front.sessions.end(&session, now);
    }
    Ok(())
}
