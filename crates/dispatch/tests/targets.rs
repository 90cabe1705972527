//! Where requests go: the guard at work on real connections, redirects, TLS.

mod house;

use std::sync::Arc;

use house::{Agent, House, Seen, answer, ok, run};
use punctual_core::model::{AttemptOutcome, Http};
use punctual_dispatch::{Guard, Options};
use punctual_node::ports::{Further, Report};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

fn guarded(rules: &[&str]) -> House {
    House::with(Options::default(), Guard::new(rules, false).unwrap())
}

fn assert_refused(report: &Report, part: &str) {
    assert_eq!(
        (report.outcome, report.further),
        (AttemptOutcome::Failed, Further::Useless),
        "{}",
        report.message
    );
    assert!(report.message.contains(part), "{}", report.message);
    assert!(report.message.contains("--allow-target"), "{}", report.message);
    assert!(report.message.contains("[targets] allow"), "{}", report.message);
}

#[tokio::test]
async fn loopback_is_refused_in_every_spelling_before_a_connection_is_made() {
    let agent = Agent::start(|_| ok()).await;
    let port = agent.address.port();
    let mut house = guarded(&[]);
    for host in ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let report = house.ask(run(Http::post(format!("http://{host}:{port}/")))).await;
        assert_refused(&report, "a loopback address");
    }
    assert_eq!(agent.diary.connections(), 0);
}

#[tokio::test]
async fn a_rule_opens_exactly_what_it_names() {
    let agent = Agent::start(|_| ok()).await;
    let port = agent.address.port();
    let url = format!("http://localhost:{port}/");
    for (rule, is_open) in [
        ("localhost".to_owned(), true),
        (format!("localhost:{port}"), true),
        (format!("LOCALHOST.:{port}"), true),
        // The address that the name resolves to may be either, and all of them are asked for.
        ("127.0.0.0/8,::1".to_owned(), true),
        ("localhost:1".to_owned(), false),
        ("10.0.0.0/8".to_owned(), false),
        ("*.localhost".to_owned(), false),
    ] {
        let rules: Vec<&str> = rule.split(',').collect();
        let report = guarded(&rules).ask(run(Http::post(&*url))).await;
        match is_open {
            true => assert_eq!(report.outcome, AttemptOutcome::Succeeded, "{rule}: {}", report.message),
            false => assert_refused(&report, "(an address of localhost) is a loopback address"),
        }
    }
    assert_eq!(agent.diary.count(), 4);
}

#[tokio::test]
async fn a_name_that_is_refused_is_not_even_resolved() {
    // Neither of them exists here; that this is not what is told shows that nobody was asked.
    let report = House::new().ask(run(Http::post("http://metadata.google.internal/"))).await;
    assert_refused(&report, "a cloud metadata service");
    let guard = Guard::new(&["intern.example"], true).unwrap().closed();
    let name = format!("{}.localhost", "a".repeat(64));
    let report = House::with(Options::default(), guard).ask(run(Http::post(format!("http://{name}/")))).await;
    assert_refused(&report, &name);
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_certainly_not_sent() {
    // No name has so long a part, so nobody outside is asked for it.
    let name = "a".repeat(64);
    let report = House::new().ask(run(Http::post(format!("http://{name}.localhost/")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("cannot resolve aaa"), "{}", report.message);
}

fn following(url: String) -> Http {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Http {
        follows_redirects: true,
        body: Some(r#"{"a":1}"#.into()),
        headers: vec![
            header("Authorization", "Bearer abc"),
            header("Cookie", "a=b"),
            header("X-Api-Key", "k"),
            header("X-Plain", "p"),
        ],
        signing_secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()),
        ..Http::post(url)
    }
}

/// An agent that leads from `/` to another place and is happy everywhere else.
async fn leading(status: &'static str, location: String) -> Agent {
    Agent::start(move |seen: &Seen| match seen.line.contains(" / ") {
        true => answer(status, &format!("location: {location}\r\n"), "over there"),
        false => ok(),
    })
    .await
}

#[tokio::test]
async fn a_redirect_is_a_failure_unless_the_job_follows() {
    let agent = leading("302 Found", "/new".into()).await;
    let report = House::new().ask(run(Http::post(agent.url("/")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless));
    assert!(report.message.starts_with("302 Found: ") && report.message.contains("follow_redirects"));
    assert_eq!(agent.diary.count(), 1);
}

#[tokio::test]
async fn a_redirect_within_an_origin_takes_everything_along() {
    let agent = leading("307 Temporary Redirect", "new?x=1".into()).await;
    let mut house = House::new();
    let report = house.ask(run(following(agent.url("/")))).await;
    assert_eq!((report.outcome, &*report.message), (AttemptOutcome::Succeeded, "200 OK"));
    let seen = agent.diary.last();
    assert_eq!((&*seen.line, &*seen.body), ("POST /new?x=1 HTTP/1.1", r#"{"a":1}"#));
    for name in ["authorization", "cookie", "x-api-key", "x-plain", "webhook-signature", "punctual-run-id"] {
        assert!(!seen.header(name).is_empty(), "{name}");
    }
    assert_eq!((agent.diary.count(), agent.diary.connections()), (2, 1));
}

#[tokio::test]
async fn a_redirect_to_another_origin_leaves_secrets_behind() {
    let other = Agent::start(|_| ok()).await;
    let agent = leading("308 Permanent Redirect", other.url("/new")).await;
    let report = House::new().ask(run(following(agent.url("/")))).await;
    assert_eq!(report.outcome, AttemptOutcome::Succeeded);
    assert_eq!(report.executor, format!("http://{}", other.address));
    let seen = other.diary.first();
    for name in
        ["authorization", "cookie", "x-api-key", "webhook-signature", "webhook-id", "webhook-timestamp"]
    {
        assert!(seen.header(name).is_empty(), "{name}");
    }
    assert_eq!((seen.header("x-plain"), &*seen.body), ("p", r#"{"a":1}"#));
    assert_eq!(seen.header("host"), other.address.to_string());
    assert_eq!(seen.header("punctual-fencing-token"), "77");
    assert_eq!((agent.diary.count(), other.diary.count()), (1, 1));
}

#[tokio::test]
async fn see_other_asks_for_the_result_and_brings_nothing() {
    let agent = leading("303 See Other", "/result".into()).await;
    let report = House::new().ask(run(following(agent.url("/")))).await;
    assert_eq!(report.outcome, AttemptOutcome::Succeeded);
    let seen = agent.diary.last();
    assert_eq!((&*seen.line, &*seen.body), ("GET /result HTTP/1.1", ""));
    assert_eq!((seen.header("content-type"), seen.header("content-length")), ("", ""));
}

#[tokio::test]
async fn a_circle_ends_after_three() {
    let agent = leading("307 Temporary Redirect", "/".into()).await;
    let report = House::new().ask(run(following(agent.url("/")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless));
    assert!(report.message.contains("3 redirects were followed"), "{}", report.message);
    assert_eq!(agent.diary.count(), 4);
}

#[tokio::test]
async fn a_redirect_to_where_nobody_may_go_is_refused() {
    for (location, part) in [
        ("http://10.0.0.1/", "a private address"),
        ("http://169.254.169.254/latest/meta-data/", "a cloud metadata service"),
        ("http://metadata.google.internal/", "a cloud metadata service"),
        ("http://[::ffff:192.168.0.1]/", "a private address"),
        ("http://0/", "an unspecified address"),
    ] {
        let agent = leading("302 Found", location.into()).await;
        let report = House::new().ask(run(following(agent.url("/")))).await;
        assert_refused(&report, part);
        assert_eq!(agent.diary.count(), 1);
    }
}

#[tokio::test]
async fn a_redirect_by_a_name_is_judged_by_what_it_resolves_to() {
    let other = Agent::start(|_| ok()).await;
    let agent = leading("302 Found", format!("http://localhost:{}/new", other.address.port())).await;
    let mut house = guarded(&[&agent.address.to_string()]);
    let report = house.ask(run(following(agent.url("/")))).await;
    assert_refused(&report, "(an address of localhost) is a loopback address");
    assert_eq!((agent.diary.count(), other.diary.connections()), (1, 0));
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_is_no_refused_connection() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let agent = leading("302 Found", format!("http://{}/", socket.local_addr().unwrap())).await;
    let report = House::new().ask(run(following(agent.url("/")))).await;
    // The first agent was called, so this may not be told as certainly not sent.
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Welcome));
    assert!(report.message.contains("the redirect leads nowhere"), "{}", report.message);
}

async fn secure_agent() -> Agent {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("data/loopback.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("data/loopback-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut settings =
        builder.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Agent::start_with(Arc::new(|_: &Seen| ok()), Some(TlsAcceptor::from(Arc::new(settings)))).await
}

fn trusting() -> Options {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/root.pem");
    Options { extra_roots: Some(path.into()), ..Options::default() }
}

#[tokio::test]
async fn tls_is_spoken_to_whom_the_certificates_are_trusted() {
    let agent = secure_agent().await;
    let mut house = House::with(trusting(), Guard::new::<&str>(&[], true).unwrap());
    for host in ["localhost", "127.0.0.1", "127.1"] {
        let report = house.ask(run(Http::post(format!("https://{host}:{}/", agent.address.port())))).await;
        assert_eq!(report.outcome, AttemptOutcome::Succeeded, "{host}: {}", report.message);
    }
    assert_eq!(agent.diary.count(), 3);
}

#[tokio::test]
async fn an_unknown_certificate_gets_no_request() {
    let agent = secure_agent().await;
    let report = House::new().ask(run(Http::post(format!("https://{}/", agent.address)))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("certificate"), "{}", report.message);
    assert_eq!(agent.diary.count(), 0);
}

#[tokio::test]
async fn a_certificate_for_another_name_gets_no_request() {
    let agent = secure_agent().await;
    let mut house = House::with(trusting(), Guard::new::<&str>(&[], true).unwrap());
    let report = house.ask(run(Http::post(format!("https://127.0.0.2:{}/", agent.address.port())))).await;
    assert_eq!(report.outcome, AttemptOutcome::Refused, "{}", report.message);
    assert_eq!(agent.diary.count(), 0);
}
