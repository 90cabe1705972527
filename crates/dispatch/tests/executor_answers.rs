//! What comes of what executors answer, and of what they do not.

mod fake;
mod house;

use std::sync::atomic::Ordering;

use fake::{
    Fake, Out, Reply, SOON, address, bytes, executor_job, http, json, nowhere, ok, quick, run_at, run_for,
};
use house::{PATIENCE, at, kill};
use punctual_core::model::{Attempt, AttemptOutcome, Delivery, JobId, LogId, Payload, RunId};
use punctual_core::policy::Block;
use punctual_core::registry::Dialect;
use punctual_dispatch::xxl::Options;
use punctual_node::ports::{Asked, Dispatch, Dispatched, Further, Heard, Probe, Probed, Report};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// What is told of one attempt at an executor that answers like this; it arrives once.
async fn told(reply: Reply) -> Told {
    let fake = Fake::start(move |_| reply.clone()).await;
    let mut out = Out::with(quick(), None);
    let run = run_for(&fake);
    out.send(run.clone());
    fake.diary.until_count(1).await;
    assert_eq!(out.executors.drain(PATIENCE).await, 0);
    let told = match out.try_hear() {
        None => Told::Nothing,
        Some(Heard::Report(report)) => Told::No(report),
        Some(Heard::Unclear(unclear)) => {
            assert_eq!((unclear.run, unclear.attempt), (run.run, run.attempt));
            Told::Unclear(unclear.said.into_owned())
        }
        other => panic!("{other:?}"),
    };
    out.is_quiet().await;
    assert_eq!(fake.diary.count(), 1);
    if let Told::No(report) = &told {
        assert_eq!((report.run, report.attempt, report.token), (run.run, run.attempt, run.token));
        assert_eq!((&*report.executor, report.started_at), (&*fake.url(), at(house::NOW)));
        assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    }
    told
}

/// What is told of an attempt that was sent.
#[derive(Debug, PartialEq)]
enum Told {
    Nothing,
    No(Report),
    Unclear(String),
}

impl Told {
    fn message(self) -> String {
        match self {
            Told::No(report) => report.message.into_owned(),
            other => panic!("expected a refusal: {other:?}"),
        }
    }
}

#[tokio::test]
async fn who_takes_an_attempt_reports_it_later() {
    for body in [
        r#"{"code":200}"#,
        r#"{"code":200,"msg":"Success","content":null}"#,
        r#"{"code":200,"msg":"Success","data":null,"success":true}"#,
        r#" {"code":200.0,"msg":{"odd":1}} "#,
    ] {
        assert_eq!(told(json(body)).await, Told::Nothing, "{body}");
    }
}

#[tokio::test]
async fn who_refuses_is_told_with_its_reason() {
    let array = r#"[{"logId":7,"executeResult":{"code":500,"msg":"no"},"handleCode":500,"handleMsg":"Task not registered"}]"#;
    for (reply, message) in [
        (json(r#"{"code":500,"msg":"handler nope not found."}"#), "code 500: handler nope not found."),
        (json(r#"{"code":500,"msg":null}"#), "code 500"),
        (json(r#"{"code":401,"msg":["x"]}"#), "code 401: [\"x\"]"),
        (json(array), "code 500: Task not registered"),
        (http("401 Unauthorized", r#"{"code":401,"msg":"token"}"#), "code 401: token"),
        (
            http("500 Oops", "Server got itself in trouble"),
            "500 Internal Server Error: the answer is no JSON: Server got itself in trouble",
        ),
        (http("404 Not Found", ""), "404 Not Found: the answer is empty"),
        (http("302 Found", "<html>"), "302 Found: the answer is a web page: <html>"),
    ] {
        assert_eq!(told(reply).await.message(), message);
    }
    let long = format!(r#"{{"code":500,"msg":"{}"}}"#, "x".repeat(60_000));
    assert!(told(json(&long)).await.message().len() < 5_000);
}

#[tokio::test]
async fn a_newcomer_that_an_executor_discards_is_not_tried_again() {
    let discarded = r#"{"code":500,"msg":"block strategy effect：Discard Later"}"#;
    let missing = r#"{"code":500,"msg":"job handler [x] not found."}"#;
    for (block, said, outcome, further) in [
        (Block::Discard, discarded, AttemptOutcome::Failed, Further::Useless),
        (Block::Discard, missing, AttemptOutcome::Refused, Further::Welcome),
        (Block::Serial, discarded, AttemptOutcome::Refused, Further::Welcome),
    ] {
        let fake = Fake::start(move |_| json(said)).await;
        let mut out = Out::new();
        out.send(run_at(&executor_job(|definition| definition.block = block), fake.address()));
        let report = out.report().await;
        assert_eq!((report.outcome, report.further), (outcome, further), "{block}: {said}");
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_told_as_neither_yes_nor_no() {
    for (reply, said) in [
        (json("<html>welcome</html>"), "a web page: <html>welcome</html>"),
        (json("ok"), "no JSON: ok"),
        (json(""), "empty"),
        (json("[]"), "[]"),
        (json(r#"{"msg":"no code"}"#), "no code"),
        (json(r#"{"code":200,"msg":"#), "no JSON"),
        (http("502 Bad Gateway", "<html>"), "502 Bad Gateway"),
        (http("504 Gateway Timeout", "<html>"), "504 Gateway Timeout"),
        (http("500 Oops", r#"{"code":200}"#), "both yes and no"),
        (Reply::Say(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()), ""),
        (Reply::Say(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n".to_vec()), ""),
        (Reply::SayAndClose(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"code\"".to_vec()), ""),
        (Reply::SayAndClose(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec()), ""),
        (Reply::SayAndClose(vec![]), ""),
        (Reply::Nothing, ""),
        (Reply::Say(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n".to_vec()), ""),
    ] {
        match told(reply).await {
            Told::Unclear(reason) => assert!(!reason.is_empty() && reason.contains(said), "{reason}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn answers_come_in_every_frame() {
    let no = r#"{"code":500,"msg":"no"}"#;
    let length = no.len();
    for answer in [
        format!("HTTP/1.1 200 OK\n content-length: {length}\nconnection: keep-alive\n\n{no}"),
        format!("HTTP/1.1 200 OK\n connection: keep-alive\ncontent-length: {length}\n\n{no}"),
        format!(
            "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n{length:x};x=y\r\n{no}\r\n0\r\nt: 1\r\n\r\n"
        ),
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{no}"),
        format!("HTTP/1.0 200 OK\r\n\r\n{no}"),
        format!("HTTP/1.1 200 OK\r\n\r\n{no}"),
    ] {
        assert_eq!(told(Reply::Say(answer.clone().into())).await.message(), "code 500: no", "{answer}");
    }
    let to_the_end = format!("HTTP/1.1 200 OK\r\n\r\n{no} \n");
    assert_eq!(told(Reply::SayAndClose(to_the_end.into())).await.message(), "code 500: no");
}

#[tokio::test]
async fn an_answer_without_end_is_cut_and_costs_the_connection() {
    let piece = || vec![b'x'; 8 << 10];
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n40000000\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffff1\r\n",
        "HTTP/1.1 200 OK\r\nx-long: ",
        "",
    ] {
        let flood = Reply::Flood(head.into(), piece());
        let fake = Fake::start(move |_| flood.clone()).await;
        let other = Fake::start(|_| ok()).await;
        // Nothing here waits for a timeout: the answer is cut because it is long.
        let mut out = Out::new();
        out.send(run_for(&fake));
        out.send(run_for(&other));
        assert!(matches!(out.hear().await, Heard::Unclear(_)), "{head}");
        out.is_quiet().await;
        fake.diary.until_closed().await;
        assert_eq!((fake.diary.count(), other.diary.count()), (1, 1), "{head}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_told_at_once() {
    let (address, _socket) = nowhere();
    let mut out = Out::new();
    out.send(run_at(&executor_job(|_| {}), address));
    let report = out.report().await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("nothing was sent"), "{}", report.message);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_nothing() {
    let fake = Fake::start(|_| Reply::SayAndClose(bytes(ok()))).await;
    let mut out = Out::new();
    for count in 1..=5 {
        out.send(run_for(&fake));
        fake.diary.until_count(count).await;
        out.is_quiet().await;
    }
    assert_eq!((fake.diary.count(), fake.diary.connections()), (5, 5));
}

#[tokio::test]
async fn what_was_written_is_never_written_again() {
    // The second request on a connection is read and not answered.
    let fake = Fake::start(|request| match request.path() {
        "/run" if request.raw.contains("\"executorParams\":\"die\"") => Reply::SayAndClose(vec![]),
        _ => ok(),
    })
    .await;
    let mut out = Out::new();
    out.send(run_for(&fake));
    out.is_quiet().await;
    let deadly = punctual_node::ports::Dispatched { payload: Some("\"die\"".into()), ..run_for(&fake) };
    out.send(deadly);
    fake.diary.until_count(2).await;
    assert!(matches!(out.hear().await, Heard::Unclear(_)));
    out.is_quiet().await;
    out.send(run_for(&fake));
    out.is_quiet().await;
    assert_eq!((fake.diary.count(), fake.diary.connections()), (3, 2));
}

#[tokio::test]
async fn the_same_attempt_is_not_sent_twice_while_it_is_on_its_way() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |_| Reply::Hold(gate.clone(), bytes(ok()))).await;
    let mut out = Out::new();
    let run = run_for(&fake);
    out.executors.send(vec![run.clone(), run.clone()]);
    fake.diary.until_count(1).await;
    out.send(run);
    assert_eq!(out.executors.in_flight(), 1);
    open.send_replace(true);
    out.is_quiet().await;
    assert_eq!(fake.diary.count(), 1);
}

#[tokio::test]
async fn attempts_queue_behind_the_connections_of_their_host() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |_| Reply::Hold(gate.clone(), bytes(ok()))).await;
    let other = Fake::start(|_| ok()).await;
    let mut out = Out::with(Options { connections_per_host: 3, ..Options::default() }, None);
    let job = executor_job(|_| {});
    out.executors.send((0..50).map(|_| run_at(&job, fake.address())).collect());
    fake.diary.until_count(3).await;
    // Neither another host nor a question waits for them.
    out.send(run_for(&other));
    other.diary.until_count(1).await;
    let address = fake.address();
    let log = out.executors.log(&address, LogId(1), at(house::NOW), 1);
    let asked = async {
        fake.diary.until_count(4).await;
        open.send_replace(true);
    };
    tokio::join!(log, asked).0.ok();
    out.is_quiet().await;
    assert_eq!((fake.diary.count(), fake.diary.peak.load(Ordering::SeqCst)), (51, 4));
}

#[tokio::test]
async fn who_waits_too_long_for_a_connection_was_not_sent() {
    let fake = Fake::start(|_| Reply::Nothing).await;
    let options = Options { connections_per_host: 1, queue_timeout: SOON, ..Options::default() };
    let mut out = Out::with(options, None);
    out.send(run_for(&fake));
    fake.diary.until_count(1).await;
    out.send(run_for(&fake));
    let report = out.report().await;
    assert_eq!(report.outcome, AttemptOutcome::Refused);
    assert!(report.message.contains("nothing was sent"), "{}", report.message);
    assert_eq!((fake.diary.count(), out.executors.in_flight()), (1, 1));
}

#[tokio::test]
async fn an_executor_that_takes_no_new_connection_delays_its_runs() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let there = listener.local_addr().unwrap();
    // Nobody accepts, so the system takes a few connections and then no more.
    let mut taken = Vec::new();
    while let Ok(connection) = timeout(SOON, TcpStream::connect(there)).await {
        taken.push(connection.unwrap());
    }
    let mut out = Out::with(Options { connect_timeout: SOON, ..Options::default() }, None);
    let there = format!("http://{there}/");
    out.send(run_at(&executor_job(|_| {}), address(&there, Dialect::Classic)));
    let report = out.report().await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Unsent));
    assert!(report.retry_after.is_some() && report.message.contains("nothing was sent"), "{report:?}");
}

#[tokio::test]
async fn an_executor_that_stops_reading_in_the_middle_of_a_request_delays_its_run() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = format!("http://{}/", listener.local_addr().unwrap());
    let mut out = Out::with(quick(), None);
    // More than the system buffers for a receiver that does not read.
    let payload = Some(Payload::from(format!("[{}]", "1,".repeat(8 << 20))));
    let run = Dispatched { payload, ..run_at(&executor_job(|_| {}), address(&there, Dialect::Classic)) };
    out.send(run);
    let report = out.report().await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Unsent));
    assert!(
        report.retry_after.is_some() && report.message.contains("did not take the request"),
        "{report:?}"
    );
}

#[tokio::test]
async fn what_must_not_be_lost_takes_no_old_connection() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::new();
    let job = executor_job(|definition| definition.delivery = Delivery::AtMostOnce);
    for _ in 0..3 {
        out.send(run_at(&job, fake.address()));
        out.is_quiet().await;
    }
    assert_eq!(fake.diary.connections(), 1);
}

#[tokio::test]
async fn an_idle_connection_is_given_up() {
    let fake = Fake::start(|_| ok()).await;
    let mut out = Out::with(Options { idle_timeout: SOON, ..Options::default() }, None);
    out.send(run_for(&fake));
    out.is_quiet().await;
    fake.diary.until_closed().await;
    out.send(run_for(&fake));
    out.is_quiet().await;
    assert_eq!((fake.diary.count(), fake.diary.connections()), (2, 2));
}

#[tokio::test]
async fn dropping_it_drops_every_connection() {
    let fake = Fake::start(|request| if request.path() == "/run" { Reply::Nothing } else { ok() }).await;
    let mut out = Out::new();
    out.probe(Probe::Alive { address: fake.address() }).await;
    out.send(run_for(&fake));
    fake.diary.until_count(2).await;
    drop(out);
    fake.diary.until_closed().await;
}

#[tokio::test]
async fn nothing_of_a_job_is_sent_before_its_kill_is_answered() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |request| match request.path() {
        "/kill" => Reply::Hold(gate.clone(), bytes(ok())),
        _ => ok(),
    })
    .await;
    let mut out = Out::new();
    let (job, other) = (executor_job(|_| {}), executor_job(|_| {}));
    let first = run_at(&job, fake.address());
    out.send(first.clone());
    fake.diary.until_count(1).await;
    out.is_quiet().await;
    out.executors.kill(vec![kill(&first)]);
    fake.diary.until_count(2).await;
    out.executors.send(vec![run_at(&job, fake.address()), run_at(&other, fake.address())]);
    fake.diary.until_count(3).await;
    assert_eq!(fake.diary.last().body()["jobId"], other.id.0);
    open.send_replace(true);
    let killed = out.killed().await;
    assert_eq!((killed.run, killed.attempt, killed.is_confirmed), (first.run, first.attempt, true));
    out.is_quiet().await;
    assert_eq!(fake.diary.paths(), ["/run", "/kill", "/run", "/run"]);
    let raw = fake.diary.requests()[1].raw.clone();
    assert!(raw.ends_with(&format!("\r\n\r\n{{\"jobId\":{}}}", job.id)), "{raw}");
}

#[tokio::test]
async fn a_kill_without_an_answer_holds_nothing_up_for_long() {
    let fake = Fake::start(|request| if request.path() == "/kill" { Reply::Nothing } else { ok() }).await;
    let mut out = Out::with(quick(), None);
    let job = executor_job(|_| {});
    let first = run_at(&job, fake.address());
    out.executors.kill(vec![kill(&first)]);
    out.send(run_at(&job, fake.address()));
    let killed = out.killed().await;
    assert!(!killed.is_confirmed && killed.said.contains("no answer"), "{killed:?}");
    out.is_quiet().await;
    assert_eq!(fake.diary.paths(), ["/kill", "/run"]);
}

#[tokio::test]
async fn a_kill_waits_until_the_attempt_was_answered() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |request| match request.path() {
        "/run" => Reply::Hold(gate.clone(), bytes(ok())),
        _ => json(r#"{"code":500,"msg":"not yet support"}"#),
    })
    .await;
    let mut out = Out::new();
    let run = run_for(&fake);
    out.send(run.clone());
    fake.diary.until_count(1).await;
    out.executors.kill(vec![kill(&run)]);
    // A question of another kind gets through, so the kill would have, too.
    out.executors.probe(vec![Probe::Alive { address: fake.address() }]);
    assert!(matches!(out.hear().await, Heard::Probed(_)));
    assert_eq!(fake.diary.paths(), ["/run", "/beat"]);
    open.send_replace(true);
    let killed = out.killed().await;
    assert_eq!((killed.is_confirmed, &*killed.said), (false, "code 500: not yet support"));
    out.is_quiet().await;
}

#[tokio::test]
async fn what_was_not_sent_yet_is_never_sent_after_its_kill() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |_| Reply::Hold(gate.clone(), bytes(ok()))).await;
    let mut out = Out::with(Options { connections_per_host: 1, ..Options::default() }, None);
    let job = executor_job(|_| {});
    let (first, second) = (run_at(&job, fake.address()), run_at(&job, fake.address()));
    out.executors.send(vec![first, second.clone()]);
    fake.diary.until_count(1).await;
    out.executors.kill(vec![kill(&second)]);
    let killed = out.killed().await;
    assert_eq!((killed.run, killed.is_confirmed, &*killed.said), (second.run, true, "it was not sent yet"));
    open.send_replace(true);
    out.is_quiet().await;
    assert_eq!(fake.diary.paths(), ["/run"]);
}

#[tokio::test]
async fn kills_of_one_job_are_one_kill_and_each_is_answered() {
    let (open, gate) = watch::channel(false);
    let fake = Fake::start(move |_| Reply::Hold(gate.clone(), bytes(ok()))).await;
    let mut out = Out::new();
    let job = executor_job(|_| {});
    let runs: Vec<_> = (0..3).map(|_| run_at(&job, fake.address())).collect();
    out.executors.kill(vec![kill(&runs[0]), kill(&runs[1])]);
    fake.diary.until_count(1).await;
    out.executors.kill(vec![kill(&runs[2])]);
    open.send_replace(true);
    for run in &runs {
        assert_eq!(out.killed().await.run, run.run);
    }
    out.is_quiet().await;
    assert_eq!(fake.diary.paths(), ["/kill", "/kill"]);
    let (address, _socket) = nowhere();
    out.executors.kill(vec![kill(&run_at(&job, address))]);
    assert!(!out.killed().await.is_confirmed);
    let mut unknown = kill(&runs[0]);
    unknown.address = None;
    out.executors.kill(vec![unknown]);
    assert!(!out.killed().await.is_confirmed);
}

fn choose(by: Asked, addresses: Vec<punctual_node::ports::Address>) -> Probe {
    Probe::Choose { run: RunId(7), attempt: Attempt(2), job: JobId(9), by, addresses }
}

#[tokio::test]
async fn the_first_that_says_yes_is_chosen() {
    let busy = Fake::start(|request| match request.path() {
        "/idleBeat" => json(r#"{"code":500,"msg":"busy"}"#),
        _ => ok(),
    })
    .await;
    let silent = Fake::start(|_| Reply::Nothing).await;
    let idle = Fake::start(|_| ok()).await;
    let spare = Fake::start(|_| ok()).await;
    let (gone, _socket) = nowhere();
    let all = || vec![gone.clone(), silent.address(), busy.address(), idle.address(), spare.address()];
    let mut out = Out::with(quick(), Some("global"));
    for (by, chosen) in [(Asked::Beat, busy.url()), (Asked::Idle, idle.url())] {
        match out.probe(choose(by, all())).await {
            Probed::Chosen { run: RunId(7), attempt: Attempt(2), url, said } => {
                assert_eq!(url.as_deref(), Some(&*chosen), "{said}");
                assert!(said.contains("cannot connect") && said.contains("no answer within"), "{said}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        (spare.diary.count(), busy.diary.paths()),
        (0, vec!["/beat".to_owned(), "/idleBeat".to_owned()])
    );
    let requests = busy.diary.requests();
    assert!(requests[0].raw.ends_with("\r\n\r\n{}") && requests[1].raw.ends_with("\r\n\r\n{\"jobId\":9}"));
    assert!(requests.iter().all(|request| request.has_header("XXL-JOB-ACCESS-TOKEN: global")));
    assert!(
        requests.iter().all(|request| request.has_header("Content-Type: application/json;charset=UTF-8"))
    );
    for addresses in [vec![], vec![gone.clone(), address("nonsense", Dialect::Classic)]] {
        let nobody = out.probe(choose(Asked::Beat, addresses)).await;
        assert!(matches!(nobody, Probed::Chosen { url: None, .. }), "{nobody:?}");
    }
}

#[tokio::test]
async fn an_executor_is_there_if_it_answers_like_one() {
    let mut out = Out::with(quick(), None);
    for (reply, expected) in [
        (ok(), true),
        (json(r#"{"code":500,"msg":"no"}"#), false),
        (json("<html>"), false),
        (http("404 Not Found", ""), false),
        (Reply::Nothing, false),
        (Reply::SayAndClose(vec![]), false),
    ] {
        let fake = Fake::start(move |_| reply.clone()).await;
        match out.probe(Probe::Alive { address: fake.address() }).await {
            Probed::Alive { app, url, is_there } => {
                assert_eq!((&*app, &*url, is_there), ("reports", &*fake.url(), expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_executor_has_a_job_if_it_says_so() {
    let mut out = Out::with(quick(), None);
    for (reply, expected) in [
        (ok(), Some(false)),
        (json(r#"{"code":500,"msg":"job thread is running or has trigger queue."}"#), Some(true)),
        (json(r#"{"code":500,"msg":"busy"}"#), Some(true)),
        (json(r#"{"code":500,"msg":"The access token is wrong."}"#), None),
        (json(r#"{"code":500,"msg":"invalid request, uri-mapping(/idleBeat) not found."}"#), None),
        (http("404 Not Found", "404"), None),
        (json("<html>"), None),
        (Reply::Nothing, None),
    ] {
        let fake = Fake::start(move |_| reply.clone()).await;
        match out.probe(Probe::Has { job: JobId(9), address: fake.address() }).await {
            Probed::Has { job: JobId(9), has, .. } => assert_eq!(has, expected),
            other => panic!("{other:?}"),
        }
    }
    let (address, _socket) = nowhere();
    let nobody = out.probe(Probe::Has { job: JobId(9), address }).await;
    assert!(matches!(nobody, Probed::Has { has: None, .. }), "{nobody:?}");
}

#[tokio::test]
async fn a_log_is_read_page_by_page() {
    let fake = Fake::start(|_| {
        json(r#"{"code":200,"content":{"fromLineNum":3,"toLineNum":4,"logContent":"three\nfour\n","isEnd":true}}"#)
    })
    .await;
    let out = Out::new();
    let page = out.executors.log(&fake.address(), LogId(42), at(house::NOW), 3).await.unwrap();
    assert_eq!((page.from_line, page.to_line, &*page.content, page.is_end), (3, 4, "three\nfour\n", true));
    let raw = fake.diary.last().raw;
    let body = r#"{"logDateTim":1772953200500,"logDateTime":1772953200500,"logId":42,"fromLineNum":3}"#;
    assert!(raw.starts_with("POST /log HTTP/1.1\r\n") && raw.ends_with(body), "{raw}");
}

#[tokio::test]
async fn a_log_that_is_not_there_is_said() {
    let out = Out::with(quick(), None);
    for (reply, reason) in [
        (json(r#"{"code":500,"msg":"Log not found"}"#), "Log not found"),
        (json("<html>"), "web page"),
        (http("500 Oops", "x"), "500 Internal Server Error"),
        (Reply::Nothing, "no answer"),
    ] {
        let fake = Fake::start(move |_| reply.clone()).await;
        let said = out.executors.log(&fake.address(), LogId(1), at(house::NOW), 1).await.unwrap_err();
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn the_beginning_of_a_log_that_is_too_long_is_read() {
    let line = "0123456789abcdef\\n".repeat(1_000);
    let head = r#"HTTP/1.1 200 OK
content-length: 1000000000

{"code":200,"data":{"fromLineNum":11,"toLineNum":99999999,"logContent":""#;
    let flood = Reply::Flood(head.into(), line.into());
    let fake = Fake::start(move |_| flood.clone()).await;
    let out = Out::new();
    let page = out.executors.log(&fake.address(), LogId(1), at(house::NOW), 11).await.unwrap();
    let lines = page.content.lines().count() as u64;
    assert!(lines > 50_000 && page.content.lines().all(|line| line == "0123456789abcdef"));
    assert_eq!((page.from_line, page.to_line, page.is_end), (11, 10 + lines, false));
    fake.diary.until_closed().await;
}
