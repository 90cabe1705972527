//! Every route, asked by nobody, by every role, and by those of another app. The routes are those of the document, so
//! that one more route is one more case.

mod house;

use house::{ELSEWHERE, ROLES, ask, head, open, request};
use serde_json::Value;

/// A route of the document.
struct Route {
    method: String,
    path: String,
    /// The role that it needs; none if it is open to anybody.
    role: Option<String>,
    needs_all_apps: bool,
}

impl Route {
    /// Its path, with the one job and the one run in it.
    fn filled(&self) -> String {
        let name = if self.path.contains("/apps/") { house::APP } else { "nightly" };
        self.path.replace("{id}", "1").replace("{app}", house::APP).replace("{name}", name)
    }

    fn is_about_one(&self) -> bool {
        let is_app = self.path.contains("/apps/{name}") && self.method != "PUT";
        self.path.contains("/jobs/{id}") || self.path.contains("/runs/{id}") || is_app
    }
}

fn routes() -> Vec<Route> {
    let document: Value = serde_json::from_str(&punctual_api::document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let routes = paths.iter().flat_map(|(path, operations)| {
        operations.as_object().unwrap().iter().map(move |(method, operation)| Route {
            method: method.to_uppercase(),
            path: path.clone(),
            role: operation["x-role"].as_str().map(str::to_owned),
            needs_all_apps: operation["x-all-apps"] == true,
        })
    });
    let routes: Vec<Route> = routes.collect();
    assert!(routes.len() > 30);
    routes
}

fn rank(role: &str) -> usize {
    ROLES.iter().position(|known| *known == role).unwrap()
}

#[tokio::test]
async fn without_a_valid_token_nothing_opens_but_health() {
    let door = open().await;
    for route in routes() {
        for token in ["", "wrong", "expired"] {
            let answer = ask(&door, request(&route.method, &route.filled(), token, "{}")).await;
            let what = format!("{} {} {token}", route.method, route.path);
            if route.role.is_none() {
                let expected = match (route.path.ends_with("/session"), route.method.as_str()) {
                    (false, _) => 200,
                    (true, "DELETE") => 204,
                    // Whoever signs in brings a token in the body; here is none.
                    (true, _) => 422,
                };
                assert_eq!(answer.status, expected, "{what}");
                continue;
            }
            assert_eq!(answer.status, 401, "{what}");
            assert!(answer.header("www-authenticate").starts_with("Bearer"), "{what}");
            assert_eq!(answer.header("content-type"), "application/problem+json", "{what}");
        }
    }
}

#[tokio::test]
async fn a_role_opens_what_it_and_those_below_it_may_do() {
    let door = open().await;
    for route in routes().iter().filter(|route| route.role.is_some()) {
        for role in ROLES {
            let (status, _) = head(&door, request(&route.method, &route.filled(), role, "{}")).await;
            let is_allowed = rank(role) >= rank(route.role.as_ref().unwrap());
            assert_eq!(status != 403, is_allowed, "{} {} as {role}: {status}", route.method, route.path);
            assert_ne!(status, 401, "{} {} as {role}", route.method, route.path);
            assert_ne!(status, 500, "{} {} as {role}", route.method, route.path);
        }
    }
}

/// Bodies that would be taken, so that only the app stands in the way.
fn body_for(path: &str) -> &'static str {
    match path {
        path if path.ends_with("/backfill") => {
            r#"{"from": "2026-03-07T00:00:00Z", "to": "2026-03-08T00:00:00Z"}"#
        }
        path if path.ends_with("/rollback") => r#"{"version": 1}"#,
        path if path.ends_with("/reschedule") => r#"{"at": "2027-01-01T00:00:00Z"}"#,
        _ => "{}",
    }
}

#[tokio::test]
async fn what_belongs_to_another_app_is_not_there() {
    let door = open().await;
    for route in routes() {
        let path = route.filled();
        let answer = head(&door, request(&route.method, &path, ELSEWHERE, body_for(&path)));
        let what = format!("{} {}", route.method, route.path);
        match &route {
            route if route.is_about_one() => assert_eq!(answer.await.0, 404, "{what}"),
            route if route.needs_all_apps => assert_eq!(answer.await.0, 403, "{what}"),
            route if route.path.contains("by-name") && route.method == "GET" => {
                assert_eq!(answer.await.0, 404, "{what}");
            }
            route if route.path.contains("by-name") || route.path.contains("/apps/") => {
                assert_eq!(answer.await.0, 403, "{what}");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn lists_and_sums_hold_only_what_the_token_reaches() {
    let door = open().await;
    let get = async |path: &str, token: &str| ask(&door, request("GET", path, token, "")).await.json();
    let paths = [
        "/api/v1/jobs",
        "/api/v1/runs",
        "/api/v1/jobs?app=reports",
        "/api/v1/runs?app=reports",
        "/api/v1/runs?job=1",
        "/api/v1/apps",
    ];
    for path in paths {
        assert_eq!(get(path, "viewer").await["items"].as_array().unwrap().len(), 1, "{path}");
        assert_eq!(get(path, ELSEWHERE).await["items"].as_array().unwrap().len(), 0, "{path}");
    }
    assert_eq!(get("/api/v1/stats", "viewer").await["jobs"], 1);
    assert_eq!(get("/api/v1/stats", ELSEWHERE).await["jobs"], 0);
    assert_eq!(get("/api/v1/stats", "viewer").await["due"], 0);
    for field in ["due", "oldest_due_ms"] {
        assert_eq!(get("/api/v1/stats", ELSEWHERE).await[field], Value::Null, "{field} is of all apps");
    }
    let cancel = r#"{"filter": {"job": 1}, "dry_run": true}"#;
    let count =
        async |token: &str| ask(&door, request("POST", "/api/v1/runs/cancel", token, cancel)).await.json();
    assert_eq!(count("operator").await["matched"], 3, "the one run in each of the three open states");
    assert_eq!(count(ELSEWHERE).await["matched"], 0);
}

#[tokio::test]
async fn what_is_of_the_whole_node_is_not_told_to_a_token_of_some_apps() {
    let door = open().await;
    let get = async |path: &str, token: &str| ask(&door, request("GET", path, token, "")).await;
    for path in ["/metrics", "/api/v1/nodes", "/api/v1/shards"] {
        assert_eq!(get(path, "viewer").await.status, 200, "{path}");
        assert_eq!(get(path, ELSEWHERE).await.status, 403, "{path}");
    }
    for figure in ["loaded", "running", "shards"] {
        assert!(get("/api/v1/stats", "viewer").await.json()[figure].is_u64(), "{figure}");
        assert!(get("/api/v1/stats", ELSEWHERE).await.json()[figure].is_null(), "{figure}");
    }
}

#[tokio::test]
async fn jobs_are_made_and_runs_handed_over_in_reached_apps_only() {
    let door = open().await;
    let job = |app: &str| {
        let target = r#"{"kind": "http", "url": "http://agent"}"#;
        format!(r#"{{"name": "x", "app": "{app}", "schedule": {{"kind": "manual"}}, "target": {target}}}"#)
    };
    let post = async |path: &str, body: &str| ask(&door, request("POST", path, ELSEWHERE, body)).await.status;
    assert_eq!(post("/api/v1/jobs?dry_run=true", &job("reports")).await, 403);
    assert_eq!(post("/api/v1/jobs?dry_run=true", &job("billing")).await, 200);
    for named in ["1", r#""reports/nightly""#] {
        assert_eq!(post("/api/v1/runs", &format!(r#"{{"job": {named}}}"#)).await, 404);
    }
}
