//! Apps, and the addresses of their executors.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_node::ports::AppRow;
use punctual_node::{AppView, DeskError};
use punctual_protocol::{App, AppExecutors, Apps, PutApp, Role};
use serde_json::Value;

use super::{WantedVersions, etag, json, ok};
use crate::app::Front;
use crate::body;
use crate::convert::app::{AppContext, read, show, show_executor};
use crate::convert::fields::check_name;
use crate::problem::Problem;
use crate::table::{Answer, Call, Operation, Permission};

/// The header of answers with an app.
const TAG: (&str, &str) = ("ETag", "The version of the app.");

/// How often the write of an app is tried while others change it.
const TRIES: usize = 3;

pub(super) fn operations() -> Vec<Operation> {
    let (viewer, admin) = (Permission::Role(Role::Viewer), Permission::Role(Role::Admin));
    vec![
        Operation::get("/api/v1/apps", "listApps", |front, call| Box::pin(list(front, call)))
            .about("apps", "Lists apps by name.")
            .needs(viewer)
            .answers::<Apps>(200, "All apps that the token reaches."),
        Operation::get("/api/v1/apps/{name}", "getApp", |front, call| Box::pin(get(front, call)))
            .about("apps", "Shows an app.")
            .needs(viewer)
            .answers_with::<App>(200, "The app.", &[TAG]),
        Operation::put("/api/v1/apps/{name}", "putApp", |front, call| Box::pin(put(front, call)))
            .about(
                "apps",
                "Makes an app or replaces it. A token for some apps may list addresses only together with an access_token \
                 of the app's own: they would be sent the one for all apps.",
            )
            .needs(admin)
            .if_match()
            .takes::<PutApp>()
            .answers_with::<App>(200, "The app as it is now.", &[TAG])
            .answers_with::<App>(201, "The app was made.", &[TAG])
            .refuses(&[409]),
        Operation::delete("/api/v1/apps/{name}", "deleteApp", |front, call| Box::pin(delete(front, call)))
            .about("apps", "Forgets an app with its executors. One that has jobs stays.")
            .needs(admin)
            .if_match()
            .answers_nothing(204, "It is gone, until an executor registers for it again.")
            .refuses(&[409]),
        Operation::get("/api/v1/apps/{name}/executors", "listExecutors", |front, call| {
            Box::pin(executors(front, call))
        })
        .about("apps", "Lists the executors of an app in the order in which they are chosen from.")
        .needs(viewer)
        .answers::<AppExecutors>(200, "Its executors, as the asked node knows them."),
    ]
}

pub(super) fn name(call: &Call) -> String {
    call.path.get("name").cloned().unwrap_or_default()
}

/// The app in the path, if the caller may see it.
fn app(front: &Front, call: &Call) -> Result<AppView, Problem> {
    let name = name(call);
    let view = front.executors.app(&name).filter(|_| call.caller.reaches(&name));
    view.ok_or_else(|| no_app(&name))
}

/// The refusal for an app that does not exist, or that the caller may not see.
pub(super) fn no_app(name: &str) -> Problem {
    let shown: String = name.chars().take(128).collect();
    Problem::not_found(format!("app {shown}"))
}

fn shown(status: StatusCode, view: &AppView) -> Response {
    let mut response = json(status, &show(view));
    let tag = etag(view.row.version).try_into().expect("a tag is plain text");
    response.headers_mut().insert(header::ETAG, tag);
    response
}

async fn list(front: Arc<Front>, call: Call) -> Answer {
    let apps = front.executors.apps();
    let items = apps.iter().filter(|view| call.caller.reaches(&view.row.name)).map(show).collect();
    Ok(ok(&Apps { items }))
}

async fn get(front: Arc<Front>, call: Call) -> Answer {
    Ok(shown(StatusCode::OK, &app(&front, &call)?))
}

async fn executors(front: Arc<Front>, call: Call) -> Answer {
    let view = app(&front, &call)?;
    Ok(ok(&AppExecutors { items: view.executors.iter().map(show_executor).collect() }))
}

async fn put(front: Arc<Front>, call: Call) -> Answer {
    let name = name(&call);
    check_name(&name).map_err(|detail| Problem::field("", format!("the app in the path {detail}")))?;
    if name.contains('/') {
        return Err(Problem::field("", "the app in the path has a `/`, which stands between app and name"));
    }
    call.caller.check_app(&name)?;
    let wanted = WantedVersions::read(&call.headers)?;
    let value = body::json(&call.body)?;
    for _ in 0..TRIES {
        let before = front.executors.app(&name);
        // First, faults that no version could make right.
        let row = understand(&front, &call, &name, &value, before.as_ref())?;
        match (&wanted, &before) {
            (Some(_), None) => {
                return Err(Problem::stale(format!("there is no app {name} that If-Match could match")));
            }
            (Some(wanted), Some(view)) => wanted.check(&format!("app {name}"), view.row.version)?,
            (None, _) => {}
        }
        match write(&front, &row, before, &value, wanted.is_some()).await {
            Err(DeskError::Conflict(reason)) if wanted.is_some() => {
                return Err(Problem::stale(format!(
                    "app {name} was changed meanwhile: {reason}; read it again"
                )));
            }
            Err(DeskError::Conflict(_)) => {}
            written => return Ok(written?),
        }
    }
    Err(Problem::conflict(format!("app {name} is being changed by others; try again")))
}

fn understand(
    front: &Front,
    call: &Call,
    name: &str,
    value: &Value,
    before: Option<&AppView>,
) -> Result<AppRow, Problem> {
    let check = |address: &str| front.executors.check_address(address);
    let allows_default_token = front.settings.allows_default_token;
    let before = before.map(|view| &view.row);
    let row = read(value, &AppContext { name, before, allows_default_token, check: &check })?;
    let gives_away =
        row.addresses.is_some() && row.access_token.is_none() && front.settings.access_token.is_some();
    if gives_away && !call.caller.reaches_all() {
        let said = "these would be sent the access token of all apps, and your token reaches some apps only; give the \
                    app an access_token of its own";
        return Err(Problem::field("/addresses", said));
    }
    Ok(row)
}

/// Writes an app in the place of the one that was read. A request that keeps neither the token nor the retention of
/// that app does not depend on its version.
async fn write(
    front: &Front,
    row: &AppRow,
    before: Option<AppView>,
    value: &Value,
    is_guarded: bool,
) -> Result<Response, DeskError> {
    let keeps_token =
        row.access_token.is_some() && value.get("access_token").is_none_or(|said| said == "\u{2026}");
    let keeps_retention = row.retention.is_some() && value.get("retention").is_none();
    let expected = match &before {
        // An executor created it a moment ago, and its version is not known yet.
        Some(view) if view.row.version == 0 => None,
        Some(view) => (is_guarded || keeps_token || keeps_retention).then_some(view.row.version),
        None => None,
    };
    let version = front.executors.put_app(row.clone(), expected).await?;
    (front.nudge)();
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let view = front.executors.app(&row.name).filter(|view| view.row.version >= version);
    let executors = before.map(|view| view.executors).unwrap_or_default();
    let written = AppView { row: AppRow { version, ..row.clone() }, executors };
    Ok(shown(status, &view.unwrap_or(written)))
}

async fn delete(front: Arc<Front>, call: Call) -> Answer {
    let view = app(&front, &call)?;
    if let Some(wanted) = WantedVersions::read(&call.headers)? {
        wanted.check(&format!("app {}", view.row.name), view.row.version)?;
    }
    front.executors.remove_app(&view.row.name).await?;
    (front.nudge)();
    Ok(StatusCode::NO_CONTENT.into_response())
}
