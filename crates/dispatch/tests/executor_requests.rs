//! What executors are sent, byte for byte, and what they are never sent.

mod fake;
mod house;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use fake::{Fake, Out, address, executor_job, http, json, nowhere, ok, run_at, run_for, with_token};
use house::at;
use punctual_core::model::{AttemptOutcome, Executor, Glue, GlueKind, LogId, Origin, Part, Target};
use punctual_core::policy::Block;
use punctual_core::registry::Dialect;
use punctual_dispatch::xxl::Options;
use punctual_dispatch::{Agents, Guard, Setup, Switch};
use punctual_node::ports::{Address, Dispatch, Dispatched, Further, Probe, Receipt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json as value};
use tokio_rustls::TlsAcceptor;

/// What is sent for an attempt.
async fn sent(fake: &Fake, out: &mut Out, run: Dispatched) -> fake::Request {
    let before = fake.diary.count();
    out.send(run);
    fake.diary.until_count(before + 1).await;
    out.is_quiet().await;
    fake.diary.last()
}

fn head(path: &str, host: &str, secrets: &str, body: &str) -> String {
    let (version, length) = (env!("CARGO_PKG_VERSION"), body.len());
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: punctual/{version}\r\n\
         Content-Type: application/json;charset=UTF-8\r\n{secrets}Content-Length: {length}\r\n\r\n{body}"
    )
}

fn body_of(run: &Dispatched, more: &str) -> String {
    let (job, log) = (run.job.id, run.log.unwrap());
    format!(
        "{{\"jobId\":{job},\"executorHandler\":\"demo\",\"executorParams\":\"\",\
         \"executorBlockStrategy\":\"SERIAL_EXECUTION\",\"executorTimeout\":30,\"logId\":{log},\
         \"logDateTime\":1772953200500,\"glueType\":\"BEAN\",\"glueSource\":\"\",\"glueUpdatetime\":0,\
         \"broadcastIndex\":0,\"broadcastTotal\":1{more}}}"
    )
}

#[tokio::test]
async fn every_dialect_gets_its_bytes_in_one_piece() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::new();
    let orth = ",\"executorConcurrency\":1,\"scheduleTime\":1772953200000";
    for (dialect, path, secrets, more) in [
        (Dialect::Classic, "/run", "XXL-JOB-ACCESS-TOKEN: global\r\n", ""),
        (Dialect::Trigger, "/trigger", "XXL-JOB-ACCESS-TOKEN: global\r\nXXL-JOB-APPNAME: reports\r\n", ""),
        (Dialect::Orth, "/run", "ORTH-ACCESS-TOKEN: global\r\n", orth),
    ] {
        let run = run_at(&executor_job(|_| {}), address(&fake.url(), dialect));
        let expected = head(path, &fake.socket.to_string(), secrets, &body_of(&run, more));
        let request = sent(&fake, &mut out, run).await;
        assert_eq!((request.raw, request.pieces), (expected, 1));
    }
    assert_eq!(fake.diary.connections(), 1);
}

#[tokio::test]
async fn an_address_keeps_its_prefix_and_loses_its_slashes() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::new();
    for (suffix, path) in [
        ("", "/run"),
        ("/", "/run"),
        ("//", "/run"),
        ("/job", "/job/run"),
        ("/a/b%20c//?x=1#y", "/a/b%20c/run"),
    ] {
        let run = run_at(&executor_job(|_| {}), address(&(fake.url() + suffix), Dialect::Classic));
        assert_eq!(sent(&fake, &mut out, run).await.path(), path, "{suffix}");
    }
}

#[tokio::test]
async fn what_a_job_says_is_what_its_executor_hears() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::new();
    let limit = |count| Block::Concurrent(NonZeroU32::new(count));
    for (dialect, block, strategy, concurrency) in [
        (Dialect::Classic, Block::Serial, "SERIAL_EXECUTION", Value::Null),
        (Dialect::Classic, Block::Discard, "DISCARD_LATER", Value::Null),
        (Dialect::Classic, Block::Cover, "COVER_EARLY", Value::Null),
        (Dialect::Classic, limit(4), "SERIAL_EXECUTION", Value::Null),
        (Dialect::Trigger, limit(4), "SERIAL_EXECUTION", Value::Null),
        (Dialect::Orth, limit(4), "CONCURRENT", value!(4)),
        (Dialect::Orth, limit(500), "CONCURRENT", value!(64)),
        (Dialect::Orth, limit(0), "SERIAL_EXECUTION", value!(1)),
        (Dialect::Orth, Block::Serial, "SERIAL_EXECUTION", value!(1)),
    ] {
        let run = run_at(&executor_job(|definition| definition.block = block), address(&fake.url(), dialect));
        let body = sent(&fake, &mut out, run).await.body();
        assert_eq!(body["executorBlockStrategy"], strategy, "{block:?}");
        assert_eq!(body["executorConcurrency"], concurrency, "{block:?}");
    }
}

#[tokio::test]
async fn a_runs_own_things_travel_with_it() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::new();
    for (payload, params) in [
        (r#""as it is: \"ü\"\n""#, "as it is: \"ü\"\n"),
        (r#"{"a":[1,2]}"#, r#"{"a":[1,2]}"#),
        ("7", "7"),
        ("null", "null"),
    ] {
        let run = Dispatched { payload: Some(payload.into()), ..run_for(&fake) };
        assert_eq!(sent(&fake, &mut out, run).await.body()["executorParams"], params);
    }
    let part = Some(Part { index: 2, total: 5, address: fake.url().into() });
    let timeout = Duration::from_millis(1_001);
    let job = executor_job(|definition| definition.timeout = timeout);
    let body = sent(&fake, &mut out, Dispatched { part, ..run_at(&job, fake.address()) }).await.body();
    assert_eq!((&body["broadcastIndex"], &body["broadcastTotal"]), (&value!(2), &value!(5)));
    assert_eq!(body["executorTimeout"], 2);
    let own = Dispatched { timeout: Duration::from_secs(7), ..run_at(&job, fake.address()) };
    assert_eq!(sent(&fake, &mut out, own).await.body()["executorTimeout"], 7, "not its job's");
    let by_hand = Dispatched {
        origin: Origin::Manual,
        ..run_at(&executor_job(|_| {}), address(&fake.url(), Dialect::Orth))
    };
    let body = sent(&fake, &mut out, by_hand).await.body();
    assert!(body["scheduleTime"].is_null() && body.as_object().unwrap().contains_key("scheduleTime"));
}

#[tokio::test]
async fn a_script_travels_with_its_version() {
    let fake = Fake::start(|_| ok()).await;
    let changed_at = at("2026-01-01T00:00:00.123Z");
    let glue =
        Glue { kind: GlueKind::Python, source: "print('hi')\n".into(), remark: "first".into(), changed_at };
    let target = Target::Executor(Executor { glue: Some(glue), ..Executor::of("ignored") });
    let run = run_at(&house::job_of(target, |_| {}), fake.address());
    let body = sent(&fake, &mut Out::new(), run).await.body();
    assert_eq!((&body["glueType"], &body["glueSource"]), (&value!("GLUE_PYTHON"), &value!("print('hi')\n")));
    assert_eq!(
        (&body["executorHandler"], &body["glueUpdatetime"]),
        (&value!(""), &value!(1_767_225_600_123_u64))
    );
}

#[tokio::test]
async fn a_large_script_arrives_whole() {
    let fake = Fake::start(|_| ok()).await;
    let source = "# no\n".repeat(150_000);
    let glue = Glue {
        kind: GlueKind::Shell,
        source: source.clone(),
        remark: String::new(),
        changed_at: at(house::NOW),
    };
    let target = Target::Executor(Executor { glue: Some(glue), ..Executor::of("") });
    let mut out = Out::new();
    let run = run_at(&house::job_of(target, |_| {}), fake.address());
    assert_eq!(sent(&fake, &mut out, run).await.body()["glueSource"], source);
    sent(&fake, &mut out, run_for(&fake)).await;
    assert_eq!(fake.diary.connections(), 1);
}

#[tokio::test]
async fn an_apps_own_token_goes_before_everybodys() {
    let fake = Fake::start(|_| ok()).await;
    for (global, own, shown) in [
        (Some("global"), Some("own"), Some("own")),
        (Some("global"), Some(""), Some("global")),
        (Some("global"), None, Some("global")),
        (None, Some("own"), Some("own")),
        (Some(""), None, None),
        (None, None, None),
    ] {
        let mut out = Out::with(Options::default(), global);
        let address = own.map_or(fake.address(), |own| with_token(fake.address(), own));
        let request = sent(&fake, &mut out, run_at(&executor_job(|_| {}), address)).await;
        match shown {
            Some(token) => assert!(request.has_header(&format!("XXL-JOB-ACCESS-TOKEN: {token}"))),
            None => assert!(!request.raw.contains("TOKEN"), "{}", request.raw),
        }
    }
}

#[tokio::test]
async fn who_is_not_registered_is_shown_no_token() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::with(Options::default(), Some("global"));
    let stranger = Address { is_known: false, ..with_token(fake.address(), "own") };
    let request = sent(&fake, &mut out, run_at(&executor_job(|_| {}), stranger)).await;
    assert!(!request.raw.contains("TOKEN"), "{}", request.raw);
}

#[tokio::test]
async fn a_token_is_never_sent_where_the_guard_forbids_it_nor_inside_out() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::guarded(Options::default(), Some("secret"), Guard::new::<&str>(&[], false).unwrap());
    out.send(run_for(&fake));
    let report = out.report().await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("--allow-target 127.0.0.1"), "{}", report.message);
    out.probe(Probe::Alive { address: fake.address() }).await;
    assert!(out.executors.log(&fake.address(), LogId(1), at(house::NOW), 1).await.is_err());
    let mut out = Out::new();
    let broken = with_token(fake.address(), "x\r\nHost: elsewhere");
    out.send(run_at(&executor_job(|_| {}), broken.clone()));
    assert!(out.report().await.message.contains("cannot be sent in a header"));
    out.probe(Probe::Alive { address: broken }).await;
    assert_eq!(fake.diary.count(), 0);
}

#[tokio::test]
async fn an_address_that_people_set_is_judged_more_strictly_also_by_what_its_name_leads_to() {
    let fake = Fake::start(|_| ok()).await;
    let url = fake.url().replace("127.0.0.1", "localhost");
    let [registered, listed] =
        [false, true].map(|is_listed| Address { is_listed, ..address(&url, Dialect::Classic) });
    let mut out = Out::new();
    sent(&fake, &mut out, run_at(&executor_job(|_| {}), registered)).await;
    let count = fake.diary.count();
    out.send(run_at(&executor_job(|_| {}), listed.clone()));
    let report = out.report().await;
    assert_eq!(report.outcome, AttemptOutcome::Refused);
    assert!(report.message.contains("--allow-target"), "{}", report.message);
    out.probe(Probe::Alive { address: listed.clone() }).await;
    assert!(out.executors.log(&listed, LogId(1), at(house::NOW), 1).await.is_err());
    assert_eq!(fake.diary.count(), count, "nothing came, also not over the connection that was there");
}

#[tokio::test]
async fn what_is_no_address_is_refused_with_the_reason() {
    let mut out = Out::new();
    for (url, reason) in [
        ("10.0.0.7:9999", "expected http://host:port"),
        ("ftp://10.0.0.7/", "only http and https"),
        ("http://user:pw@10.0.0.7/", "user or password"),
        ("", "expected http://host:port"),
        ("http://169.254.169.254/", "metadata"),
    ] {
        out.send(run_at(&executor_job(|_| {}), address(url, Dialect::Classic)));
        let report = out.report().await;
        assert_eq!((report.outcome, &*report.executor), (AttemptOutcome::Refused, url));
        assert!(report.message.contains(reason), "{url}: {}", report.message);
    }
    out.send(Dispatched { address: None, ..run_at(&executor_job(|_| {}), nowhere().0) });
    assert!(out.report().await.message.contains("no executor was chosen"));
    out.send(run_at(&executor_job(|_| {}), address("http://127.0.0.1:1", Dialect::Native)));
    assert!(out.report().await.message.contains("native"));
    out.is_quiet().await;
}

#[tokio::test]
async fn an_executor_that_knows_the_path_by_its_other_name_is_asked_by_it_from_then_on() {
    let fake = Fake::start(|request| match request.path() {
        "/run" => json(r#"{"code":500,"msg":"invalid request, uri-mapping(/run) not found."}"#),
        _ => ok(),
    })
    .await;
    let mut out = Out::new();
    out.send(run_for(&fake));
    fake.diary.until_count(2).await;
    out.is_quiet().await;
    sent(&fake, &mut out, run_for(&fake)).await;
    assert_eq!(fake.diary.paths(), ["/run", "/trigger", "/trigger"]);
    let requests = fake.diary.requests();
    assert!(!requests[0].raw.contains("APPNAME") && requests[1].has_header("XXL-JOB-APPNAME: reports"));
    assert_eq!(requests[0].body(), requests[1].body());
    out.probe(Probe::Alive { address: fake.address() }).await;
    assert!(fake.diary.last().has_header("XXL-JOB-APPNAME: reports"));
}

#[tokio::test]
async fn an_executor_that_knows_neither_name_refuses() {
    let fake =
        Fake::start(|_| json(r#"{"code":500,"msg":"invalid request, uri-mapping(x) not found."}"#)).await;
    let mut out = Out::new();
    for _ in 0..2 {
        out.send(run_for(&fake));
        assert_eq!(out.report().await.outcome, AttemptOutcome::Refused);
    }
    assert_eq!(fake.diary.paths(), ["/run", "/trigger", "/run", "/trigger"]);
    // Who says it with a status of its own is no such executor.
    let fake = Fake::start(|_| http("404 Not Found", "404: Not Found")).await;
    out.send(run_for(&fake));
    assert_eq!(out.report().await.outcome, AttemptOutcome::Refused);
    assert_eq!(fake.diary.count(), 1);
}

#[tokio::test]
async fn tls_is_spoken_to_whom_the_certificates_are_trusted() {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("data/loopback.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("data/loopback-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let settings = builder.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let fake = Fake::start_with(Arc::new(|_| ok()), Some(TlsAcceptor::from(Arc::new(settings)))).await;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/root.pem");
    let mut out = Out::with(Options { extra_roots: Some(root.into()), ..Options::default() }, Some("global"));
    for _ in 0..3 {
        let request = sent(&fake, &mut out, run_for(&fake)).await;
        assert!(request.has_header("XXL-JOB-ACCESS-TOKEN: global"), "{}", request.raw);
    }
    assert_eq!(fake.diary.connections(), 1);
    let mut distrusting = Out::new();
    distrusting.send(run_for(&fake));
    assert!(distrusting.report().await.message.contains("certificate"));
    assert_eq!(fake.diary.count(), 3);
}

#[tokio::test]
async fn the_switch_sends_everything_its_way() {
    let fake = Fake::start(|_| ok()).await;
    let agent = house::Agent::start(|_| house::ok()).await;
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let sink: punctual_dispatch::Sink = Arc::new(move |heard| drop(sender.send(heard)));
    let guard = || Guard::new::<&str>(&[], true).unwrap();
    let (runtime, now) = (tokio::runtime::Handle::current(), Arc::new(|| at(house::NOW)));
    let setup = Setup {
        runtime: runtime.clone(),
        options: punctual_dispatch::Options::default(),
        guard: guard(),
        now: now.clone(),
        entropy: house::entropy(),
        sink: sink.clone(),
    };
    let agents = Arc::new(Agents::new(setup).unwrap());
    let natives_sink = sink.clone();
    let setup = punctual_dispatch::xxl::Setup {
        runtime,
        options: Options::default(),
        guard: guard(),
        listed: guard(),
        now,
        sink,
        access_token: None,
    };
    let executors = Arc::new(punctual_dispatch::Executors::new(setup).unwrap());
    let natives = Arc::new(punctual_dispatch::Natives::new(punctual_dispatch::stream::Setup {
        runtime: tokio::runtime::Handle::current(),
        options: punctual_dispatch::stream::Options::default(),
        now: Arc::new(|| at(house::NOW)),
        sink: natives_sink,
        keep: Arc::new(|_, _, _| true),
        node: String::new(),
        dial: Arc::new(|_| Box::pin(async { Err("there is no other node".to_owned()) })),
    }));
    let switch = Switch { agents, executors, natives };
    let to_agent = house::run(punctual_core::model::Http::post(agent.url("/")));
    switch.send(vec![run_for(&fake), to_agent]);
    switch.probe(vec![Probe::Alive { address: fake.address() }]);
    switch.acknowledge(vec![Receipt(1)]);
    assert_eq!((switch.drain(house::PATIENCE).await, switch.in_flight()), (0, 0));
    let mut told = 0;
    while let Ok(heard) = heard.try_recv() {
        told += heard.len();
    }
    assert_eq!((fake.diary.count(), agent.diary.count(), told), (2, 1, 2));
}
