//! The router: made from the table of operations. It refuses to start if an operation lacks a permission.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use tower::ServiceExt;

use crate::app::{App, Front};
use crate::budget::Budgets;
use crate::bulk::Bulks;
use crate::caller::{Strangers, Tokens};
use crate::convert::apps::{AppNames, JobNames};
use crate::forecast::Forecasts;
use crate::others::AllFigures;
use crate::problem::Problem;
use crate::relay::Relays;
use crate::remainder::Remainder;
use crate::routes::doors;
use crate::session::Sessions;
use crate::table::{Answer, Operation};
use crate::{gate, openapi, routes};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The routes of the API. Refuses if an operation has no permission, or if two have the same name. Any other path is
/// answered with 404; a server that has more to offer sets another fallback.
pub fn router(app: App) -> Result<Router, String> {
    let operations = routes::all();
    check(&operations)?;
    let document = Bytes::from(openapi::written(&operations));
    app.events.begin(app.entropy.bits());
    let peoples = operations.iter().filter(|operation| operation.is_documented());
    let permissions = peoples.filter_map(|operation| Some((operation.id, operation.permission?)));
    let request_ids = RequestIds::from(app.entropy.bits());
    let budgets = Budgets::new(app.settings.limits);
    let strangers = Strangers::counted_by(Arc::clone(&budgets));
    let front = Arc::new(Front {
        app,
        budgets,
        request_ids,
        tokens: Tokens::default(),
        strangers,
        apps: AppNames::default(),
        document,
        sessions: Sessions::default(),
        operations: permissions.collect(),
        names: JobNames::default(),
        forecasts: Forecasts::default(),
        bulks: Bulks::default(),
        figures: AllFigures::default(),
        relays: Relays::default(),
    });
    let mut by_path: BTreeMap<&'static str, Vec<Arc<Operation>>> = BTreeMap::new();
    for operation in operations {
        by_path.entry(operation.path).or_default().push(Arc::new(operation));
    }
    let mut router = Router::new();
    for (path, operations) in by_path {
        let (front, operations): (_, Arc<[_]>) = (Arc::clone(&front), operations.into());
        let serve = move |request| serve(Arc::clone(&front), Arc::clone(&operations), request);
        router = router.route(path, any(serve));
    }
    // A path that is no route of ours must not look like a door of executors.
    let lost = Arc::clone(&front);
    router = router.route("/api/v1", any(move |request| nowhere(Arc::clone(&lost), request)));
    let doors = router.clone();
    Ok(router.fallback(move |request| elsewhere(Arc::clone(&front), doors.clone(), request)))
}

fn check(operations: &[Operation]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut routes = BTreeSet::new();
    for Operation { id, method, path, permission, .. } in operations {
        if permission.is_none() {
            return Err(format!("{method} {path} does not say who may use it"));
        }
        if !ids.insert(*id) {
            return Err(format!("two operations are called {id}"));
        }
        if !routes.insert((method.as_str(), *path)) {
            return Err(format!("{method} {path} is there twice"));
        }
    }
    Ok(())
}

async fn serve(front: Arc<Front>, operations: Arc<[Arc<Operation>]>, request: Request) -> Response {
    let request_id = request_id(&front, &request);
    let (request, remainder) = Remainder::lend(request);
    let asked = request.method().clone();
    let method = if asked == Method::HEAD { Method::GET } else { asked.clone() };
    let found = operations.iter().find(|operation| operation.method == method);
    let is_door = operations.iter().any(|operation| operation.is_for_executors());
    let answer: Answer = match found {
        None if is_door => Ok(doors::wrong_method()),
        None => Err(not_allowed(&operations)),
        Some(operation) => gate::admit(&front, operation, request, &request_id).await,
    };
    let name = found.map_or("none", |operation| operation.id);
    let answer = if is_door { answer.or_else(|problem| Ok(doors::refusal(&problem))) } else { answer };
    remainder.settle(finish(answer, &request_id, name)).await
}

/// Paths that match no route. Executors whose configured address ends with a slash send double slashes.
async fn elsewhere(front: Arc<Front>, doors: Router, mut request: Request) -> Response {
    let Some(path) = doors::meant(request.uri().path()) else { return nowhere(front, request).await };
    *request.uri_mut() = path;
    match doors.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

async fn nowhere(front: Arc<Front>, request: Request) -> Response {
    let request_id = request_id(&front, &request);
    let path: String = request.uri().path().chars().take(200).collect();
    let (request, remainder) = Remainder::lend(request);
    drop(request);
    remainder.settle(finish(Err(Problem::not_found(format!("the path {path}"))), &request_id, "none")).await
}

fn not_allowed(operations: &[Arc<Operation>]) -> Problem {
    let mut methods: Vec<&str> = operations.iter().map(|operation| operation.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    let methods = methods.join(", ");
    let allow = HeaderValue::try_from(&methods).expect("methods are plain text");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("this path knows {methods}"))
        .with(header::ALLOW, allow)
}

/// The id of a request in the log: the caller's, if it is short and plain.
fn request_id(front: &Front, request: &Request) -> String {
    let is_plain =
        |text: &&str| (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(is_plain);
    given.map_or_else(|| front.request_ids.next(), str::to_owned)
}

/// Ids for requests without one. They are no secrets, so only the first is drawn at random.
pub(crate) struct RequestIds(AtomicU64);

impl RequestIds {
    /// Large, so that neighbours look different; odd, so that all numbers occur before the first repeats.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    fn from(drawn: u64) -> RequestIds {
        RequestIds(AtomicU64::new(drawn))
    }

    fn next(&self) -> String {
        format!("{:016x}", self.0.fetch_add(RequestIds::STEP, Ordering::Relaxed))
    }
}

fn finish(answer: Answer, request_id: &str, operation: &'static str) -> Response {
    let mut response = match answer {
        Ok(response) => response,
        Err(problem) => {
            if problem.status.is_server_error() {
                tracing::warn!(request_id, operation, status = problem.status.as_u16(), detail = %problem.detail);
            }
            problem.answer(request_id)
        }
    };
    tracing::debug!(request_id, operation, status = response.status().as_u16(), "answered");
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(request_id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.insert(header::CONTENT_SECURITY_POLICY, nothing);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Permission;

    fn operation(id: &'static str) -> Operation {
        Operation::get("/x", id, |_, _| Box::pin(async { Err(Problem::not_found("x")) }))
    }

    #[test]
    fn the_table_as_it_stands_is_complete() {
        check(&routes::all()).unwrap();
    }

    #[test]
    fn a_route_without_a_permission_or_with_a_doubled_name_does_not_start() {
        let said = check(&[operation("a")]).unwrap_err();
        assert_eq!(said, "GET /x does not say who may use it");
        let twice = ["a", "a"].map(|id| operation(id).needs(Permission::Open));
        assert_eq!(check(&twice).unwrap_err(), "two operations are called a");
    }

    #[test]
    fn only_health_is_open_to_anybody() {
        let is_open = |operation: &&Operation| operation.permission == Some(Permission::Open);
        let all = routes::all();
        let open: Vec<&str> = all.iter().filter(is_open).map(|operation| operation.path).collect();
        assert_eq!(
            open,
            ["/api/v1/session", "/api/v1/session", "/healthz", "/readyz"],
            "and signing in and out"
        );
    }

    #[test]
    fn whatever_writes_needs_more_than_a_viewer() {
        use punctual_protocol::Role;
        let asks_only = ["previewSchedule"];
        for operation in routes::all() {
            let is_viewers = operation.permission == Some(Permission::Role(Role::Viewer));
            let writes = operation.method != Method::GET && !asks_only.contains(&operation.id);
            assert!(!(is_viewers && writes), "{}", operation.id);
        }
    }
}
