//! What screens ask for beside jobs and runs: figures, forecasts, actions over many jobs, the configuration.

mod house;

use house::{ELSEWHERE, ask, open, request};
use serde_json::{Value, json};

#[tokio::test]
async fn a_page_says_how_many_there_are_only_where_that_is_asked_for() {
    let door = open().await;
    let get =
        async |query: &str| ask(&door, request("GET", &format!("/api/v1/jobs{query}"), "viewer", "")).await;
    assert_eq!(get("").await.json().get("total"), None);
    assert_eq!(get("?count=true").await.json()["total"], 1);
    let row = &get("").await.json()["items"][0];
    assert_eq!(
        (&row["in_words"], &row["recent"], &row["duration_p50_ms"]),
        (&json!("only when started by hand or by a program"), &json!([]), &Value::Null)
    );
    for (query, said) in [
        ("?sort=name", "?sort: expected id or next_fire_time"),
        ("?failing=yes", "?failing: expected true or false"),
        ("?sort=next_fire_time&cursor=ajE3", "?cursor: is none of this list"),
    ] {
        let answer = get(query).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.json()["detail"].as_str().unwrap().starts_with(said), "{}", answer.text);
    }
    assert_eq!(
        get("?sort=next_fire_time").await.json()["items"],
        json!([]),
        "one that is run by hand has no next time"
    );
}

#[tokio::test]
async fn runs_say_what_their_job_is_called() {
    let door = open().await;
    for path in ["/api/v1/runs", "/api/v1/jobs/1/runs"] {
        let run = &ask(&door, request("GET", path, "viewer", "")).await.json()["items"][0];
        assert_eq!((&run["app"], &run["job_name"]), (&json!("reports"), &json!("nightly")), "{path}");
    }
    let run = ask(&door, request("GET", "/api/v1/runs/1", "viewer", "")).await.json();
    assert_eq!((&run["app"], &run["job_name"]), (&json!("reports"), &json!("nightly")));
}

#[tokio::test]
async fn history_and_forecast_are_bounded_and_for_who_may_see_them() {
    let door = open().await;
    let get = async |path: &str, token: &str| ask(&door, request("GET", path, token, "")).await;
    for (hours, step, count) in [(1, 300_000, 12), (24, 900_000, 96), (168, 7_200_000, 84)] {
        let history = get(&format!("/api/v1/stats/history?hours={hours}"), "viewer").await.json();
        assert_eq!(
            (&history["step_ms"], history["buckets"].as_array().unwrap().len()),
            (&json!(step), count)
        );
    }
    let first = &get("/api/v1/stats/history", "viewer").await.json()["buckets"][95];
    assert_eq!((&first["at"], &first["lag_p50_ms"]), (&json!("2026-03-08T07:00:00Z"), &Value::Null));
    assert_eq!(get("/api/v1/stats/history", ELSEWHERE).await.status, 403);
    for path in ["/api/v1/stats/history", "/api/v1/forecast"] {
        for hours in ["0", "169", "-1", "x"] {
            assert_eq!(get(&format!("{path}?hours={hours}"), "viewer").await.status, 400, "{path} {hours}");
        }
    }
    let forecast = get("/api/v1/forecast?hours=24", "viewer").await.json();
    assert_eq!((&forecast["is_partial"], &forecast["buckets"]), (&json!(false), &json!([])));
    assert_eq!(get("/api/v1/forecast", ELSEWHERE).await.status, 200, "of its own jobs");
}

#[tokio::test]
async fn an_action_over_many_jobs_is_counted_before_it_is_begun() {
    let door = open().await;
    let post = async |token: &str, body: Value| {
        ask(&door, request("POST", "/api/v1/jobs/bulk", token, &body.to_string())).await
    };
    let preview = post("operator", json!({"action": "stop", "filter": {}, "dry_run": true})).await;
    assert_eq!(preview.status, 200, "{}", preview.text);
    let sample = json!([{"id": 1, "app": "reports", "name": "nightly"}]);
    assert_eq!(preview.json(), json!({"matched": 1, "sample": sample}));
    let named = post("operator", json!({"action": "run", "ids": [1, 1, 99], "dry_run": true})).await;
    assert_eq!(named.json()["matched"], 1, "each once, and only what is there");
    let other = post(ELSEWHERE, json!({"action": "stop", "ids": [1], "dry_run": true})).await;
    assert_eq!(other.json()["matched"], 0, "what belongs to another app is not there");
    let stale = post("operator", json!({"action": "stop", "filter": {}, "expect": 2})).await;
    assert_eq!((stale.status.as_u16(), &stale.json()["errors"][0]["pointer"]), (409, &json!("/expect")));
    let delete = json!({"action": "delete", "filter": {}, "dry_run": true});
    assert_eq!(
        post("operator", delete.clone()).await.status,
        403,
        "who may not delete one may not delete many"
    );
    assert_eq!(post("editor", delete).await.status, 200);
}

#[tokio::test]
async fn an_action_that_makes_no_sense_is_refused_by_field() {
    let door = open().await;
    for (body, pointer) in [
        (json!({"filter": {}}), "/action"),
        (json!({"action": "pause", "filter": {}}), "/action"),
        (json!({"action": "stop"}), ""),
        (json!({"action": "stop", "ids": [1], "filter": {}}), ""),
        (json!({"action": "stop", "ids": []}), "/ids"),
        (json!({"action": "stop", "ids": [0]}), "/ids/0"),
        (json!({"action": "stop", "ids": ["1"]}), "/ids/0"),
        (json!({"action": "stop", "filter": {"name": "x"}}), "/filter/name"),
        (json!({"action": "stop", "filter": {"failing": "yes"}}), "/filter/failing"),
        (json!({"action": "stop", "filter": {}, "expect": -1}), "/expect"),
        (json!({"action": "stop", "filter": {}, "dryrun": true}), "/dryrun"),
    ] {
        let answer = ask(&door, request("POST", "/api/v1/jobs/bulk", "admin", &body.to_string())).await;
        assert_eq!(answer.status, 422, "{body}");
        assert_eq!(answer.json()["errors"][0]["pointer"], pointer, "{}", answer.text);
    }
}

#[tokio::test]
async fn an_action_that_the_store_does_not_answer_ends_and_says_so() {
    let door = open().await;
    let stop = json!({"action": "stop", "filter": {}}).to_string();
    let begun = ask(&door, request("POST", "/api/v1/jobs/bulk", "operator", &stop)).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    let bulk = begun.json();
    assert_eq!(
        (&bulk["state"], &bulk["done"], &bulk["refused_count"]),
        (&json!("failed"), &json!(1), &json!(1))
    );
    assert!(bulk["reason"].as_str().unwrap().contains("did not answer"), "{bulk}");
    let path = format!("/api/v1/jobs/bulk/{}", bulk["id"]);
    let get = async |token: &str| ask(&door, request("GET", &path, token, "")).await;
    assert_eq!(get("viewer").await.json(), bulk);
    assert_eq!(get(ELSEWHERE).await.status, 404, "it names jobs of others");
    let list = ask(&door, request("GET", "/api/v1/jobs/bulk", "viewer", "")).await.json();
    assert_eq!(list["items"], json!([bulk]));
}

#[tokio::test]
async fn what_is_kept_says_for_how_long() {
    let door = open().await;
    let storage = ask(&door, request("GET", "/api/v1/storage", "viewer", "")).await.json();
    assert_eq!(storage["retention"], json!({"runs": "30d", "keys": "1d"}));
    let configuration = ask(&door, request("GET", "/api/v1/config", "admin", "")).await;
    assert_eq!((configuration.status.as_u16(), configuration.json()), (200, json!({"items": []})));
}
