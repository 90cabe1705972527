//! Signing in: a browser gets a cookie for a token, and the cookie opens what the token opens, until either is over.

mod house;

use axum::Router;
use axum::body::Body;
use house::{APP, Answer, ELSEWHERE, ask, open, request};
use http::Request;
use serde_json::json;

const SESSION: &str = "/api/v1/session";

/// A request with headers.
fn with(mut asked: Request<Body>, headers: &[(&'static str, &str)]) -> Request<Body> {
    for (name, value) in headers {
        asked.headers_mut().insert(*name, value.parse().unwrap());
    }
    asked
}

async fn sign_in(door: &Router, token: &str) -> Answer {
    ask(door, request("POST", SESSION, "", &json!({"token": token}).to_string())).await
}

/// What a browser sends back of the cookie that it was given.
fn kept(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_becomes_a_cookie_that_opens_what_the_token_opens() {
    let door = open().await;
    let signed_in = sign_in(&door, "operator").await;
    assert_eq!(signed_in.status, 200, "{}", signed_in.text);
    let cookie = signed_in.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("operator"), "the token is not to be read from it");
    let get = async |path: &str| {
        ask(&door, with(request("GET", path, "", ""), &[("cookie", &kept(&signed_in))])).await
    };
    let who = get(SESSION).await;
    assert_eq!(who.status, 200, "{}", who.text);
    let who = who.json();
    assert_eq!(
        (&who["name"], &who["role"], &who["by"]),
        (&json!("operator"), &json!("operator"), &json!("session"))
    );
    assert_eq!((&who["apps"], &who["expires_at"]), (&json!(["*"]), &json!("2026-03-08T19:00:00Z")));
    let may = |id: &str| who["permissions"].as_array().unwrap().contains(&json!(id));
    assert!(may("listJobs") && may("startJob") && may("changeJobs"));
    assert!(!may("deleteJob") && !may("listTokens"), "{who}");
    assert_eq!(get("/api/v1/jobs").await.status, 200);
    assert_eq!(get("/api/v1/tokens").await.status, 403);
}

#[tokio::test]
async fn a_token_in_the_request_says_who_it_is_too_and_goes_before_a_cookie() {
    let door = open().await;
    let who = ask(&door, request("GET", SESSION, ELSEWHERE, "")).await.json();
    assert_eq!(
        (&who["role"], &who["apps"], &who["by"]),
        (&json!("admin"), &json!(["billing"]), &json!("token"))
    );
    assert_eq!(who["expires_at"], json!(null));
    let may = |id: &str| who["permissions"].as_array().unwrap().contains(&json!(id));
    assert!(may("createJob") && !may("listTokens"), "an admin of some apps makes no tokens");
    let signed_in = sign_in(&door, "admin").await;
    let both = with(request("GET", SESSION, "viewer", ""), &[("cookie", &kept(&signed_in))]);
    assert_eq!(ask(&door, both).await.json()["role"], "viewer");
}

#[tokio::test]
async fn what_opens_nothing_signs_nobody_in() {
    let door = open().await;
    for token in ["wrong", "expired", ""] {
        let answer = sign_in(&door, token).await;
        assert_eq!((answer.status.as_u16(), answer.header("set-cookie")), (401, ""), "{token}");
    }
    for (body, pointer) in [
        (json!({}), "/token"),
        (json!({"token": 7}), "/token"),
        (json!({"token": "viewer", "remember": true}), "/remember"),
        (json!({"token": "x".repeat(600)}), "/token"),
    ] {
        let answer = ask(&door, request("POST", SESSION, "", &body.to_string())).await;
        assert_eq!(answer.status, 422, "{body}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{body}");
    }
    assert_eq!(ask(&door, request("GET", SESSION, "", "")).await.status, 401);
    for cookie in ["punctual_session=abc", "punctual_session=viewer"] {
        let answer = ask(&door, with(request("GET", SESSION, "", ""), &[("cookie", cookie)])).await;
        assert_eq!(answer.status, 401, "{cookie}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("sign in again"));
    }
}

#[tokio::test]
async fn a_page_of_another_site_can_do_nothing_with_it() {
    let door = open().await;
    let cookie = kept(&sign_in(&door, "admin").await);
    let run = |headers: &[(&'static str, &str)]| {
        let asked = with(
            request("POST", "/api/v1/runs/cancel", "", r#"{"filter": {"job": 1}, "dry_run": true}"#),
            headers,
        );
        with(asked, &[("cookie", &cookie)])
    };
    let ours = [("sec-fetch-site", "same-origin")];
    assert_eq!(ask(&door, run(&ours)).await.status, 200);
    for theirs in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "http://evil.example"), ("host", "127.0.0.1:7070")],
    ] {
        let answer = ask(&door, run(&theirs)).await;
        assert_eq!(answer.status, 403, "{theirs:?}");
        let signing = with(request("POST", SESSION, "", r#"{"token": "admin"}"#), &theirs);
        assert_eq!(ask(&door, signing).await.status, 403, "nor sign somebody in: {theirs:?}");
        let out = with(request("DELETE", SESSION, "", ""), &theirs);
        assert_eq!(ask(&door, out).await.status, 403, "nor out: {theirs:?}");
    }
    let by_token = with(
        request("GET", &format!("/api/v1/jobs?app={APP}"), "admin", ""),
        &[("origin", "http://evil.example")],
    );
    assert_eq!(
        ask(&door, by_token).await.status,
        200,
        "who has the token needs no browser to keep the rules"
    );
}

#[tokio::test]
async fn signing_out_ends_the_session_and_takes_the_cookie_away() {
    let door = open().await;
    let cookie = kept(&sign_in(&door, "viewer").await);
    let other = kept(&sign_in(&door, "viewer").await);
    let out = ask(&door, with(request("DELETE", SESSION, "", ""), &[("cookie", &cookie)])).await;
    assert_eq!(out.status, 204);
    assert!(
        out.header("set-cookie").starts_with("punctual_session=; ")
            && out.header("set-cookie").contains("Max-Age=0")
    );
    let get = async |cookie: &str| {
        ask(&door, with(request("GET", SESSION, "", ""), &[("cookie", cookie)])).await.status
    };
    assert_eq!(get(&cookie).await, 401, "also for who kept a copy");
    assert_eq!(get(&other).await, 200, "another browser stays signed in");
    assert_eq!(
        ask(&door, request("DELETE", SESSION, "", "")).await.status,
        204,
        "nobody is signed out already"
    );
}
