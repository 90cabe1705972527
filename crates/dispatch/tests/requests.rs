//! What an agent receives: the request with everything that the contract promises beside it.

mod house;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use house::{Agent, House, Seen, job, ok, run, run_of};
use punctual_core::model::{Attempt, AttemptOutcome, Http, Token};
use punctual_node::ports::{Dispatched, Further};

/// Sends one and answers what arrived.
async fn arrives(make: impl FnOnce(String) -> Dispatched) -> Seen {
    let agent = Agent::start(|_| ok()).await;
    let mut house = House::new();
    let report = house.ask(make(agent.url("/agent"))).await;
    assert_eq!(report.outcome, AttemptOutcome::Succeeded, "{report:?}");
    assert_eq!(agent.diary.count(), 1);
    agent.diary.first()
}

fn with_body(url: String, method: &str, body: Option<&str>) -> Http {
    Http { method: method.into(), body: body.map(str::to_owned), ..Http::post(url) }
}

#[tokio::test]
async fn the_request_holds_what_the_contract_promises_and_nothing_else() {
    let mut sent = None;
    let seen = arrives(|url| {
        let mut run = run(with_body(url, "POST", Some(r#"{"type":"daily"}"#)));
        (run.attempt, run.token) = (Attempt(2), Token(987_654_321_987));
        run.fire_time = house::at("2026-03-08T06:59:59.25Z");
        sent = Some(run.clone());
        run
    })
    .await;
    let sent = sent.unwrap();
    assert_eq!(seen.line, "POST /agent HTTP/1.1");
    assert_eq!(seen.body, r#"{"type":"daily"}"#);
    let (run, job) = (sent.run.to_string(), sent.job.id.to_string());
    let agent = format!("punctual/{}", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("content-length", "16"),
        ("content-type", "application/json"),
        ("punctual-attempt", "2"),
        ("punctual-fencing-token", "987654321987"),
        ("punctual-fire-time", "2026-03-08T06:59:59.250Z"),
        ("punctual-job", &job),
        ("punctual-run-id", &run),
        ("traceparent", "00-00000000000000010000000000000003-0000000000000005-01"),
        ("user-agent", &agent),
    ];
    let mut headers = seen.headers.clone();
    assert!(headers.remove("host").unwrap().starts_with("127.0.0.1:"));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn a_possible_duplicate_says_so() {
    let seen = arrives(|url| Dispatched { possible_duplicate: true, ..run(Http::post(url)) }).await;
    assert_eq!(seen.header("punctual-possible-duplicate"), "true");
    assert_eq!(seen.header("punctual-fire-time"), "2026-03-08T07:00:00.000Z");
}

#[tokio::test]
async fn a_payload_goes_before_the_body_and_is_never_filled_in() {
    for (payload, body, kind) in [
        (r#"{"a":"${run.id} ${x}"}"#, r#"{"a":"${run.id} ${x}"}"#, "application/json"),
        (r#""plain \"text\" ${run.id}""#, r#"plain "text" ${run.id}"#, "text/plain; charset=utf-8"),
        ("[1, 2]", "[1, 2]", "application/json"),
        ("12345678901234567890123", "12345678901234567890123", "application/json"),
    ] {
        let seen = arrives(|url| Dispatched {
            payload: Some(payload.into()),
            ..run(with_body(url, "POST", Some(r#"{"never":"seen"}"#)))
        })
        .await;
        assert_eq!((&*seen.body, seen.header("content-type")), (body, kind));
    }
}

#[tokio::test]
async fn a_body_that_is_a_string_goes_out_as_plain_text() {
    let seen = arrives(|url| run(with_body(url, "PUT", Some(r#""line 1\nüber ${job.app}""#)))).await;
    assert_eq!(seen.line, "PUT /agent HTTP/1.1");
    assert_eq!(seen.body, "line 1\nüber reports");
    assert_eq!(seen.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn a_request_without_a_body_says_so_only_where_one_is_expected() {
    for (method, length) in [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("POST", "0"), ("PATCH", "0")] {
        let seen = arrives(|url| run(with_body(url, method, None))).await;
        assert_eq!(seen.line, format!("{method} /agent HTTP/1.1"));
        assert_eq!((seen.header("content-length"), seen.header("content-type")), (length, ""), "{method}");
    }
    let seen = arrives(|url| run(with_body(url, "DELETE", Some("{}")))).await;
    assert_eq!((&*seen.body, seen.header("content-length")), ("{}", "2"));
}

#[tokio::test]
async fn the_jobs_own_headers_go_along() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let seen = arrives(|url| {
        let headers = vec![
            header("Content-Type", "application/cloudevents+json"),
            header("Authorization", "Bearer abc"),
            header("X-About", "${job.app}/${job.name} #${job.id} try ${run.attempt} $${run.id}"),
        ];
        run(Http { headers, body: Some("{}".into()), ..Http::post(url) })
    })
    .await;
    assert_eq!(seen.header("content-type"), "application/cloudevents+json");
    assert_eq!(seen.header("authorization"), "Bearer abc");
    let job = seen.header("punctual-job");
    assert_eq!(seen.header("x-about"), format!("reports/nightly #{job} try 1 ${{run.id}}"));
}

#[tokio::test]
async fn headers_that_open_metadata_services_are_left_out() {
    let header = |name: &str| (name.to_owned(), "Google".to_owned());
    let names =
        ["Metadata-Flavor", "METADATA", "X-aws-ec2-metadata-token", "X-AWS-EC2-Metadata-Token-TTL-Seconds"];
    let seen = arrives(|url| {
        run(Http { headers: names.iter().map(|name| header(name)).collect(), ..Http::post(url) })
    })
    .await;
    assert!(names.iter().all(|name| seen.header(&name.to_lowercase()).is_empty()), "{seen:?}");
}

#[tokio::test]
async fn a_header_that_is_ours_makes_the_job_fail_at_once() {
    for name in
        ["Host", "Punctual-Run-Id", "content-length", "Transfer-Encoding", "webhook-id", "Proxy-Connection"]
    {
        let agent = Agent::start(|_| ok()).await;
        let headers = vec![(name.to_owned(), "x".to_owned())];
        let report = House::new().ask(run(Http { headers, ..Http::post(agent.url("/")) })).await;
        assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless), "{name}");
        assert!(report.message.contains(&format!("/target/headers/{name}")), "{}", report.message);
        assert_eq!(agent.diary.connections(), 0);
    }
}

#[tokio::test]
async fn names_are_filled_in_where_they_stand() {
    let mut id = String::new();
    let seen = arrives(|url| {
        let url =
            format!("{url}/${{job.name}}/${{run.id}}?at=${{run.fire_time}}&n=${{run.attempt}}#${{job.id}}");
        let body = r#"{"run":"${run.id}","by":"${job.name}","${run.id}":1}"#;
        let http = Http { body: Some(body.into()), ..Http::post(url) };
        let run = run_of(&job(http, |definition| definition.name = "a b/\"ü\"".into()));
        id = run.run.to_string();
        run
    })
    .await;
    let path = format!("/agent/a%20b%2F%22%C3%BC%22/{id}?at=2026-03-08T07%3A00%3A00.000Z&n=1");
    assert_eq!(seen.line, format!("POST {path} HTTP/1.1"));
    assert_eq!(seen.body, format!(r#"{{"run":"{id}","by":"a b/\"ü\"","${{run.id}}":1}}"#));
}

#[tokio::test]
async fn a_signature_can_be_verified_with_the_secret() {
    let key = [7; 32];
    let secret = format!("whsec_{}", STANDARD.encode(key));
    let seen = arrives(|url| {
        let http = Http { signing_secret: Some(secret), body: Some(r#"{"a":1}"#.into()), ..Http::post(url) };
        run(http)
    })
    .await;
    assert_eq!(seen.header("webhook-id"), seen.header("punctual-run-id"));
    assert_eq!(seen.header("webhook-timestamp"), "1772953200");
    let signed = format!("{}.{}.{}", seen.header("webhook-id"), seen.header("webhook-timestamp"), seen.body);
    let signature = STANDARD.decode(seen.header("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    hmac::verify(&key, signed.as_bytes(), &signature).expect("the signature fits");
}

#[tokio::test]
async fn a_changed_job_is_sent_as_it_is_now() {
    let agent = Agent::start(|_| ok()).await;
    let mut house = House::new();
    let old = job(Http::post(agent.url("/old")), |_| {});
    let mut new = (*job(Http::post(agent.url("/new")), |_| {})).clone();
    (new.id, new.version) = (old.id, old.version + 1);
    house.ask(run_of(&old)).await;
    house.ask(run_of(&new.into())).await;
    assert_eq!(agent.diary.first().line, "POST /old HTTP/1.1");
    assert_eq!(agent.diary.last().line, "POST /new HTTP/1.1");
}
