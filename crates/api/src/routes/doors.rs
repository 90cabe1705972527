//! The doors of executors: XXL-JOB and its kin register here, leave, and say how attempts ended.
//!
//! They expect one status (200), one media type, and a `code` inside; whatever else they get, some of them fail on it. So
//! refusals are told that way too, also those of the gate. Their shapes are in `protocol::xxl`, what
//! their tokens open in `badge.rs`.

use std::sync::{Arc, PoisonError};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, Uri, header};
use punctual_core::model::{AttemptOutcome, LogId};
use punctual_node::Callback;
use punctual_node::ports::Beat;
use punctual_protocol::xxl::answer::{self, ILLEGAL_ARGUMENT, NOT_POST, WRONG_TOKEN};
use punctual_protocol::xxl::{self, Callbacks, Ending, Registration};

use crate::app::Front;
use crate::badge::{self, Badge};
use crate::body;
use crate::budget::{Owner, STRANGER_BODY_MAX};
use crate::caller::network;
use crate::convert::fields::check_name;
use crate::place::{Seat, Standing};
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// The longest registration.
const REGISTRATION_MAX: usize = 64 << 10;

/// The longest callback: some executors send everything that has gathered at once.
const CALLBACK_MAX: usize = 4 << 20;

/// The longest address of an executor.
const ADDRESS_MAX: usize = 1_024;

/// Where executors look for us, by what their configuration says before it.
const DOORS: [(&str, &str); 3] = [
    ("/api", "/api/{uri}"),
    ("/xxl-job-admin/api", "/xxl-job-admin/api/{uri}"),
    (ORTH, "/orth-admin/api/{uri}"),
];
const ORTH: &str = "/orth-admin/api";

pub(super) fn operations() -> Vec<Operation> {
    let door = |path, id, handler| {
        Operation::post(path, id, handler)
            .about("executors", "Takes what executors say.")
            .needs(Permission::Executor)
            .takes_anything()
            .answers_as(200, "What became of it.", vec![("application/json", None)], &[])
    };
    vec![
        door(DOORS[0].1, "executorDoor", |front, call| Box::pin(serve(front, call, false))),
        door(DOORS[1].1, "executorDoorXxlJob", |front, call| Box::pin(serve(front, call, false))),
        door(DOORS[2].1, "executorDoorOrth", |front, call| Box::pin(serve(front, call, true))),
    ]
}

/// The door that was meant by a path with slashes too many; none if it is no door's, or has none too many.
pub(crate) fn meant(path: &str) -> Option<Uri> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (_, front) = parts.split_last()?;
    let squeezed = format!("/{}", parts.join("/"));
    let front = format!("/{}", front.join("/"));
    let is_door = DOORS.iter().any(|(door, _)| *door == front);
    (is_door && squeezed != path).then(|| squeezed.parse().ok())?
}

/// The answer to another method than POST.
pub(crate) fn wrong_method() -> Response {
    refused(NOT_POST)
}

/// A refusal of the gate or of the house, as executors read it.
pub(crate) fn refusal(problem: &Problem) -> Response {
    if problem.status.is_server_error() {
        tracing::warn!(detail = %problem.detail, "an executor could not be answered well");
    }
    refused(&problem.detail)
}

fn refused(said: &str) -> Response {
    told(answer::refused(said))
}

fn accepted() -> Response {
    told(answer::ACCEPTED.to_owned())
}

fn told(body: String) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}

async fn serve(front: Arc<Front>, call: Call, is_orth: bool) -> Answer {
    let uri = call.path.get("uri").cloned().unwrap_or_default();
    match uri.as_str() {
        "registry" => register(&front, call, is_orth).await,
        "registryRemove" => leave(&front, call).await,
        "callback" => call_back(&front, call).await,
        other => {
            let shown: String = other.chars().filter(|c| !c.is_control()).take(40).collect();
            Ok(refused(&answer::unknown_path(&shown)))
        }
    }
}

async fn read(call: &mut Call, max: usize) -> Result<Bytes, Problem> {
    let stream = call.stream.take().map(|stream| stream.into_inner().unwrap_or_else(PoisonError::into_inner));
    body::read(&call.headers, stream.unwrap_or_default(), max, &mut call.room).await
}

/// Lets an executor that showed its token have more room than strangers, and a place that is kept for executors.
fn introduce(front: &Front, call: &mut Call) {
    call.room = front.budgets.room(Owner::Executors(call.peer.ip().map(network)));
    Seat::introduce(call.seat.as_ref(), Standing::Executor);
}

async fn register(front: &Front, mut call: Call, is_orth: bool) -> Answer {
    let (app, address) = registration(front, &mut call).await?;
    if let Err(problem) = check(front, &call, &app).await.and_then(|()| check_address(front, &address)) {
        // Whoever knocks too often with a wrong token is not told of again and again.
        if problem.status != StatusCode::TOO_MANY_REQUESTS {
            front.executors.tell_refused(&app, &address, &problem.detail);
        }
        return Err(problem);
    }
    let dialect = badge::dialect(&call.headers, is_orth);
    front.executors.beat(Beat { app: app.into(), address: address.into(), dialect }).await?;
    (front.nudge)();
    Ok(accepted())
}

async fn leave(front: &Front, mut call: Call) -> Answer {
    let (app, address) = registration(front, &mut call).await?;
    check(front, &call, &app).await?;
    front.executors.leave(&app, &address).await?;
    (front.nudge)();
    Ok(accepted())
}

/// The app and the address of an executor.
async fn registration(front: &Front, call: &mut Call) -> Result<(String, String), Problem> {
    // The app is named in the body, so what a stranger says is read too, but no more of it than an app and an address take.
    let tokens = front.executors.access_tokens().await?;
    let badge = Badge::of(&call.headers, call.peer);
    let is_known = badge.covers_any(&tokens, front.settings.access_token.as_ref());
    if is_known {
        introduce(front, call);
    }
    let body = read(call, if is_known { REGISTRATION_MAX } else { STRANGER_BODY_MAX }).await?;
    let Registration { app, address, .. } = Registration::read(&body).map_err(Problem::malformed)?;
    check_name(&app).map_err(|why| Problem::malformed(format!("{ILLEGAL_ARGUMENT} registryKey {why}")))?;
    if app.contains('/') {
        return Err(illegal("registryKey has a `/`; an app's name has none"));
    }
    if address.len() > ADDRESS_MAX {
        return Err(illegal(&format!("registryValue is longer than {ADDRESS_MAX} bytes")));
    }
    Ok((app, address))
}

/// Whether the badge lets in an executor of an app.
async fn check(front: &Front, call: &Call, app: &str) -> Result<(), Problem> {
    if badge::app(&call.headers).is_some_and(|said| said != app) {
        return Err(illegal("registryKey is not what XXL-JOB-APPNAME says"));
    }
    let tokens = front.executors.access_tokens().await?;
    let own = tokens.get(app);
    let badge = Badge::of(&call.headers, call.peer);
    let is_covered = badge.covers(own, front.settings.access_token.as_ref());
    is_covered.then_some(()).ok_or_else(|| stranger(front, call, own.is_some()))
}

fn stranger(front: &Front, call: &Call, has_own: bool) -> Problem {
    let said = match front.settings.access_token.is_none() && !has_own {
        true if front.settings.trusts_loopback => format!(
            "{WRONG_TOKEN} This server has none, so it takes executors of its own machine only, and nothing that comes through a browser, a proxy or a job: set [executors] access_token"
        ),
        true => {
            format!("{WRONG_TOKEN} This server has none, so it takes nobody: set [executors] access_token")
        }
        false => WRONG_TOKEN.to_owned(),
    };
    front.strangers.refuse(call.peer, front.settings.strangers_max, &said)
}

fn check_address(front: &Front, address: &str) -> Result<(), Problem> {
    front.executors.check_registered(address).map_err(|why| illegal(&format!("registryValue: {why}")))
}

fn illegal(said: &str) -> Problem {
    Problem::malformed(format!("{ILLEGAL_ARGUMENT} {said}"))
}

async fn call_back(front: &Front, mut call: Call) -> Answer {
    let global = front.settings.access_token.clone();
    let badge = Badge::of(&call.headers, call.peer);
    let own = front.executors.access_tokens().await?;
    // A long body is read only for those who may speak at all.
    if !badge.covers_any(&own, global.as_ref()) {
        return Err(stranger(front, &call, false));
    }
    introduce(front, &mut call);
    let body = read(&mut call, CALLBACK_MAX).await?;
    let said = match Callbacks::read(&body) {
        Ok(said) => said,
        Err(refusal) => {
            if refusal == answer::TOO_MANY {
                front.budgets.note_refused_callback();
            }
            return Err(Problem::malformed(refusal));
        }
    };
    if said.unreadable > 0 {
        tracing::warn!(count = said.unreadable, "results that name no attempt were dropped");
    }
    // It is asked while the node looks at its memory, so it looks at nothing but what is here.
    let may = |app: &str| badge.covers(own.get(app), global.as_ref());
    front.executors.call_back(said.items.into_iter().map(understood).collect(), &may).await?;
    // What is of another app is answered like what is long dropped: a number tells nothing about others. The node's log
    // and its events say that it was refused.
    Ok(accepted())
}

fn understood(said: xxl::Callback) -> Callback {
    let outcome = match said.ending() {
        Ending::Succeeded => AttemptOutcome::Succeeded,
        Ending::TimedOut => AttemptOutcome::TimedOut,
        Ending::Failed => AttemptOutcome::Failed,
    };
    Callback { log: LogId(said.log), outcome, message: said.message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_too_many_are_forgiven_at_doors_only() {
        for (path, door) in [
            ("//api/registry", Some("/api/registry")),
            ("/xxl-job-admin//api/registry", Some("/xxl-job-admin/api/registry")),
            ("/orth-admin/api//callback/", Some("/orth-admin/api/callback")),
            ("/api/registry", None),
            ("//api/v1/jobs", None),
            ("//healthz", None),
            ("/", None),
        ] {
            assert_eq!(meant(path).map(|uri| uri.to_string()).as_deref(), door, "{path}");
        }
    }
}
