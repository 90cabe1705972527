//! How often a request arrives, and what is told of it: answers good and bad, connections that break, time that
//! runs out, wishes to end.

mod house;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use house::{
    Agent, House, PATIENCE, Reply, Seen, answer, job, job_of, kill, ok, run, run_of, short_run, status,
};
use punctual_core::model::{AttemptOutcome, Delivery, Executor, Http, Target};
use punctual_dispatch::{Guard, Options};
use punctual_node::ports::{Dispatch, Dispatched, Further, Report};
use tokio::sync::watch;

fn loopback() -> Guard {
    Guard::new::<&str>(&[], true).unwrap()
}

/// What is told of one request to an agent that answers like this, and how often it arrived.
async fn told(reply: Reply) -> (Report, usize) {
    let agent = Agent::start(move |_| reply.clone()).await;
    let mut house = House::new();
    let report = house.ask(run(Http::post(agent.url("/")))).await;
    house.is_quiet().await;
    assert_eq!(report.executor, format!("http://{}", agent.address));
    assert_eq!(report.started_at, house::at(house::NOW));
    (report, agent.diary.count())
}

#[tokio::test]
async fn an_answer_decides_and_the_request_arrived_once() {
    for (reply, outcome, further, message) in [
        (ok(), AttemptOutcome::Succeeded, Further::Welcome, "200 OK"),
        (
            status("201 Created", "made 3\n"),
            AttemptOutcome::Succeeded,
            Further::Welcome,
            "201 Created: made 3",
        ),
        (
            status("500 Oops", "it broke"),
            AttemptOutcome::Failed,
            Further::Welcome,
            "500 Internal Server Error: it broke",
        ),
        (status("404 Not Found", ""), AttemptOutcome::Failed, Further::Useless, "404 Not Found"),
        (status("410 Gone", "retired"), AttemptOutcome::Failed, Further::Gone, "410 Gone: retired"),
    ] {
        let (report, count) = told(reply).await;
        assert_eq!((report.outcome, report.further, &*report.message), (outcome, further, message));
        assert_eq!((report.retry_after, count), (None, 1));
    }
}

#[tokio::test]
async fn an_agent_that_asks_for_patience_gets_it() {
    for (headers, seconds) in [
        ("retry-after: 120\r\n", Some(120)),
        // Half a second of the minute has gone by.
        ("retry-after: Sun, 08 Mar 2026 07:01:00 GMT\r\n", Some(60)),
        ("retry-after: 1000000\r\n", Some(86_400)),
        ("retry-after: later\r\n", None),
    ] {
        for code in ["429 Too Many Requests", "503 Service Unavailable"] {
            let (report, count) = told(answer(code, headers, "")).await;
            let told = report.retry_after.map(|told| told.as_secs_f64().ceil() as u64);
            assert_eq!((told, report.further, count), (seconds, Further::Welcome, 1), "{headers}");
        }
    }
}

#[tokio::test]
async fn the_jobs_own_success_codes_are_the_only_ones() {
    let agent = Agent::start(|_| status("404 Not Found", "")).await;
    let http = Http { success_codes: vec![404], ..Http::post(agent.url("/")) };
    assert_eq!(House::new().ask(run(http)).await.outcome, AttemptOutcome::Succeeded);
    let agent = Agent::start(|_| ok()).await;
    let http = Http { success_codes: vec![202], ..Http::post(agent.url("/")) };
    let report = House::new().ask(run(http)).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless));
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let agent = Agent::start(|_| status("200 OK", "some text")).await;
    let mut house = House::new();
    let job = job(Http::post(agent.url("/")), |_| {});
    for _ in 0..20 {
        house.ask(run_of(&job)).await;
    }
    assert_eq!((agent.diary.count(), agent.diary.connections()), (20, 1));
}

#[tokio::test]
async fn a_chunked_answer_keeps_its_connection_too() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let agent = Agent::start(|_| Reply::Say(chunked.to_vec())).await;
    let mut house = House::new();
    for _ in 0..5 {
        assert_eq!(house.ask(run(Http::post(agent.url("/")))).await.message, "200 OK: abcde");
    }
    assert_eq!(agent.diary.connections(), 1);
}

#[tokio::test]
async fn an_agent_that_keeps_connections_for_a_second_is_left_before_that() {
    let agent = Agent::start(|_| answer("200 OK", "keep-alive: timeout=1, max=100\r\n", "")).await;
    let mut house = House::new();
    house.ask(run(Http::post(agent.url("/")))).await;
    agent.diary.until_closed().await;
    house.ask(run(Http::post(agent.url("/")))).await;
    assert_eq!((agent.diary.count(), agent.diary.connections()), (2, 2));
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_however_long_it_says() {
    let agent =
        Agent::start(|_| Reply::Say(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n".to_vec())).await;
    let mut house = House::new();
    for _ in 0..3 {
        let http = Http { method: "HEAD".into(), ..Http::post(agent.url("/")) };
        assert_eq!(house.ask(run(http)).await.message, "200 OK");
    }
    assert_eq!((agent.diary.count(), agent.diary.connections()), (3, 1));
}

#[tokio::test]
async fn an_agent_that_closes_after_every_answer_gets_every_request_once() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
    ] {
        let agent = Agent::start(|_| Reply::SayAndClose(bytes.to_vec())).await;
        let mut house = House::new();
        for _ in 0..20 {
            assert_eq!(house.ask(run(Http::post(agent.url("/")))).await.outcome, AttemptOutcome::Succeeded);
            // It closes before the next one comes.
            agent.diary.until_closed().await;
        }
        assert_eq!(agent.diary.count(), 20);
    }
}

#[tokio::test]
async fn what_is_read_and_not_answered_is_lost_and_not_sent_again() {
    let agent = Agent::start(|_| Reply::SayAndClose(Vec::new())).await;
    let mut house = House::new();
    let report = house.ask(run(Http::post(agent.url("/")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Lost, Further::Welcome));
    assert!(report.message.contains("whether the work was done is not known"), "{}", report.message);
    house.is_quiet().await;
    assert_eq!((agent.diary.count(), agent.diary.connections()), (1, 1));
}

#[tokio::test]
async fn the_same_on_a_connection_that_was_good_before() {
    let agent = Agent::start(|seen| match &*seen.line {
        "POST /good HTTP/1.1" => ok(),
        _ => Reply::SayAndClose(Vec::new()),
    })
    .await;
    let mut house = House::new();
    assert_eq!(house.ask(run(Http::post(agent.url("/good")))).await.outcome, AttemptOutcome::Succeeded);
    assert_eq!(house.ask(run(Http::post(agent.url("/bad")))).await.outcome, AttemptOutcome::Lost);
    house.is_quiet().await;
    assert_eq!((agent.diary.count(), agent.diary.connections()), (2, 1));
}

#[tokio::test]
async fn garbage_and_half_answers_are_no_success() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 O",
    ] {
        let (report, count) = told(Reply::SayAndClose(bytes.to_vec())).await;
        let text = String::from_utf8_lossy(bytes);
        assert_eq!((report.outcome, count), (AttemptOutcome::Lost, 1), "{text}: {}", report.message);
    }
}

#[tokio::test]
async fn a_refused_connection_is_certainly_not_sent() {
    let agent = Agent::start(|_| ok()).await;
    // Bound and not listening: nobody else gets the port, and connections are refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/", socket.local_addr().unwrap());
    let mut house = House::new();
    let report = house.ask(run(Http::post(url))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("nothing was sent"), "{}", report.message);
    assert_eq!(house.ask(run(Http::post(agent.url("/")))).await.outcome, AttemptOutcome::Succeeded);
}

#[tokio::test]
async fn silence_ends_with_the_timeout_and_the_connection() {
    let agent = Agent::start(|_| Reply::Nothing).await;
    let mut house = House::new();
    let report = house.ask(short_run(Http::post(agent.url("/")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::TimedOut, Further::Welcome));
    assert!(report.message.contains("did not answer within the timeout of 150ms"), "{}", report.message);
    agent.diary.until_closed().await;
    assert_eq!(agent.diary.count(), 1);
    let own = Dispatched { timeout: Duration::from_millis(80), ..run(Http::post(agent.url("/"))) };
    let report = house.ask(own).await;
    assert!(report.message.contains("the timeout of 80ms"), "a run's own, not its job's: {}", report.message);
}

#[tokio::test]
async fn an_answer_that_trickles_ends_with_the_timeout_too() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let agent = Agent::start(move |_| Reply::Trickle(head.clone(), b"1\r\nx\r\n".to_vec())).await;
    let report = House::new().ask(short_run(Http::post(agent.url("/")))).await;
    assert_eq!(report.outcome, AttemptOutcome::TimedOut);
    assert!(report.message.contains("answered 200, but not to the end"), "{}", report.message);
    agent.diary.until_closed().await;
}

#[tokio::test]
async fn a_head_that_trickles_ends_with_the_timeout_too() {
    let agent =
        Agent::start(move |_| Reply::Trickle(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x: y\r\n".to_vec())).await;
    let mut house = House::new();
    let report = house
        .ask(run_of(&job(Http::post(agent.url("/")), |definition| {
            definition.timeout = Duration::from_millis(80);
        })))
        .await;
    assert_ne!(report.outcome, AttemptOutcome::Succeeded, "{}", report.message);
    agent.diary.until_closed().await;
}

#[tokio::test]
async fn a_huge_answer_is_cut_and_costs_its_connection() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n".to_vec();
    let agent = Agent::start(move |_| Reply::Trickle(head.clone(), vec![b'x'; 65_536])).await;
    let mut house = House::new();
    let report = house.ask(run(Http::post(agent.url("/")))).await;
    assert_eq!(report.outcome, AttemptOutcome::Succeeded);
    assert_eq!(report.message, format!("200 OK: {}…", "x".repeat(4096)));
    agent.diary.until_closed().await;
    assert_eq!(agent.diary.count(), 1);
}

#[tokio::test]
async fn a_long_answer_is_kept_in_part_and_keeps_its_connection() {
    let agent = Agent::start(|_| status("200 OK", &"y".repeat(10_000))).await;
    let mut house = House::new();
    for _ in 0..3 {
        let report = house.ask(run(Http::post(agent.url("/")))).await;
        assert_eq!(report.message.matches('y').count(), 4096);
    }
    assert_eq!(agent.diary.connections(), 1);
}

#[tokio::test]
async fn a_killed_attempt_drops_its_connection_and_is_not_told() {
    let agent = Agent::start(|_| Reply::Nothing).await;
    let mut house = House::new();
    let run = run(Http::post(agent.url("/")));
    house.send(run.clone());
    agent.diary.until(|diary| diary.count() == 1).await;
    assert_eq!(house.agents.in_flight(), 1);
    house.agents.kill(vec![kill(&run)]);
    agent.diary.until_closed().await;
    house.is_quiet().await;
    // A wish for what is gone is no harm.
    house.agents.kill(vec![kill(&run)]);
    assert_eq!(house.agents.in_flight(), 0);
}

fn one_line() -> Options {
    Options { connections_per_host: 1, ..Options::default() }
}

#[tokio::test]
async fn an_attempt_killed_while_it_waits_is_never_sent() {
    let (open, gate) = watch::channel(false);
    let agent =
        Agent::start(move |_| Reply::Hold(gate.clone(), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())).await;
    let mut house = House::with(one_line(), loopback());
    let (first, second, third) = (
        run(Http::post(agent.url("/1"))),
        run(Http::post(agent.url("/2"))),
        run(Http::post(agent.url("/3"))),
    );
    house.agents.send(vec![first.clone(), second.clone(), third.clone()]);
    agent.diary.until(|diary| diary.count() == 1).await;
    house.agents.kill(vec![kill(&second)]);
    open.send(true).unwrap();
    let told = [house.report().await.run, house.report().await.run];
    assert_eq!(told, [first.run, third.run]);
    house.is_quiet().await;
    assert_eq!((agent.diary.count(), &*agent.diary.last().line), (2, "POST /3 HTTP/1.1"));
}

#[tokio::test]
async fn what_waits_too_long_for_a_connection_is_certainly_not_sent() {
    let agent = Agent::start(|_| Reply::Nothing).await;
    let mut house = House::with(one_line(), loopback());
    let blocking = run(Http::post(agent.url("/blocking")));
    house.send(blocking.clone());
    agent.diary.until(|diary| diary.count() == 1).await;
    let report = house.ask(short_run(Http::post(agent.url("/late")))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Refused, Further::Welcome));
    assert!(report.message.contains("nothing was sent"), "{}", report.message);
    house.agents.kill(vec![kill(&blocking)]);
    house.is_quiet().await;
    assert_eq!(agent.diary.count(), 1);
}

#[tokio::test]
async fn no_host_gets_more_connections_than_allowed() {
    let (open, gate) = watch::channel(false);
    let agent =
        Agent::start(move |_| Reply::Hold(gate.clone(), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())).await;
    let mut house = House::with(Options { connections_per_host: 4, ..Options::default() }, loopback());
    let job = job(Http::post(agent.url("/")), |_| {});
    house.agents.send((0..40).map(|_| run_of(&job)).collect());
    agent.diary.until(|diary| diary.count() == 4).await;
    open.send(true).unwrap();
    for _ in 0..40 {
        assert_eq!(house.report().await.outcome, AttemptOutcome::Succeeded);
    }
    house.is_quiet().await;
    assert_eq!((agent.diary.count(), agent.diary.connections()), (40, 4));
    assert_eq!(agent.diary.peak.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn a_connection_without_work_makes_room_for_another_host() {
    let (one, two) = (Agent::start(|_| ok()).await, Agent::start(|_| ok()).await);
    let mut house = House::with(Options { connections: 1, ..Options::default() }, loopback());
    for _ in 0..5 {
        for agent in [&one, &two] {
            let report = house.ask(run(Http::post(agent.url("/")))).await;
            assert_eq!(report.outcome, AttemptOutcome::Succeeded);
        }
    }
    // Both at once: one of them waits for the other.
    house.agents.send((0..10).map(|at| run(Http::post([&one, &two][at % 2].url("/")))).collect());
    for _ in 0..10 {
        assert_eq!(house.report().await.outcome, AttemptOutcome::Succeeded);
    }
    assert_eq!(one.diary.count() + two.diary.count(), 20);
    assert_eq!((one.diary.peak.load(Ordering::SeqCst), two.diary.peak.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_thousand_at_once_arrive_once_each_and_are_told_in_few_batches() {
    let agent = Agent::start(|_| ok()).await;
    let mut house = House::with(Options { connections_per_host: 50, ..Options::default() }, loopback());
    let job = job(Http::post(agent.url("/")), |_| {});
    let runs: Vec<_> = (0..1000).map(|_| run_of(&job)).collect();
    house.agents.send(runs.clone());
    let mut told = Vec::new();
    for _ in 0..1000 {
        let report = house.report().await;
        assert_eq!(report.outcome, AttemptOutcome::Succeeded);
        told.push((report.run, report.receipt));
    }
    house.is_quiet().await;
    let mut receipts: Vec<_> = told.iter().map(|told| told.1).collect();
    receipts.sort();
    receipts.dedup();
    assert_eq!(receipts.len(), 1000);
    let mut told: Vec<_> = told.into_iter().map(|told| told.0.to_string()).collect();
    let mut seen: Vec<String> =
        agent.diary.seen.lock().unwrap().iter().map(|seen| seen.header("punctual-run-id").into()).collect();
    told.sort();
    seen.sort();
    assert_eq!(told, runs.iter().map(|run| run.run.to_string()).collect::<Vec<_>>());
    assert_eq!(told, seen);
    assert!(house.batches < 500, "{} batches", house.batches);
}

/// Good answers, bad ones, none, and connections that close before, after and in the middle, by the run's number.
fn moody(seen: &Seen) -> Reply {
    let number: u64 = seen.header("punctual-run-id").parse().unwrap();
    let closing = |bytes: &[u8]| Reply::SayAndClose(bytes.to_vec());
    match number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 {
        0 => closing(b""),
        1 => closing(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        2 => closing(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
        3 => closing(b"nonsense"),
        4 => status("503 Service Unavailable", "busy"),
        5 => answer("200 OK", "keep-alive: timeout=1\r\n", "x"),
        _ => ok(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_agent_does_nothing_arrives_twice_and_everything_is_told_once() {
    let agent = Agent::start(moody).await;
    let mut house = House::with(Options { connections_per_host: 20, ..Options::default() }, loopback());
    let job = job(Http::post(agent.url("/")), |_| {});
    let mut seen_at_least = 0;
    for _ in 0..20 {
        let runs: Vec<_> = (0..200).map(|_| run_of(&job)).collect();
        house.agents.send(runs.clone());
        let mut told = BTreeMap::new();
        for _ in 0..runs.len() {
            let report = house.report().await;
            let is_sent = report.outcome != AttemptOutcome::Refused;
            assert_eq!(told.insert(report.run.to_string(), is_sent), None, "told twice");
        }
        house.is_quiet().await;
        seen_at_least += told.values().filter(|is_sent| **is_sent).count();
        let certainly_not = told.iter().filter(|(_, is_sent)| !**is_sent).map(|(run, _)| run.clone());
        let mut seen = BTreeSet::new();
        for request in &*agent.diary.seen.lock().unwrap() {
            assert!(seen.insert(request.header("punctual-run-id").to_owned()), "arrived twice");
        }
        certainly_not.for_each(|run| assert!(!seen.contains(&run), "it arrived after all"));
    }
    // What was lost because the agent closed at that very moment may not have been read.
    assert!(agent.diary.count() <= seen_at_least && agent.diary.count() > 3_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_any_moment_leave_nothing_behind() {
    let agent = Agent::start(moody).await;
    let mut house = House::with(Options { connections_per_host: 5, ..Options::default() }, loopback());
    let job = job(Http::post(agent.url("/")), |_| {});
    for round in 0..50 {
        let runs: Vec<_> = (0..40).map(|_| run_of(&job)).collect();
        house.agents.send(runs.clone());
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        house.agents.kill(runs.iter().map(kill).collect());
        assert_eq!(house.agents.in_flight(), 0);
    }
    let last = run_of(&job);
    house.send(last.clone());
    while house.report().await.run != last.run {}
    house.is_quiet().await;
}

#[tokio::test]
async fn what_is_on_its_way_is_not_sent_a_second_time() {
    let (open, gate) = watch::channel(false);
    let agent =
        Agent::start(move |_| Reply::Hold(gate.clone(), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())).await;
    let mut house = House::new();
    let run = run(Http::post(agent.url("/")));
    house.agents.send(vec![run.clone(), run.clone()]);
    agent.diary.until(|diary| diary.count() == 1).await;
    house.send(run.clone());
    open.send(true).unwrap();
    house.report().await;
    house.is_quiet().await;
    assert_eq!(agent.diary.count(), 1);
    // Who asks again after the end is obeyed.
    house.ask(run).await;
    assert_eq!(agent.diary.count(), 2);
}

#[tokio::test]
async fn at_most_once_is_sent_like_the_rest() {
    let agent = Agent::start(|_| ok()).await;
    let mut house = House::new();
    let job = job(Http::post(agent.url("/")), |definition| definition.delivery = Delivery::AtMostOnce);
    for _ in 0..3 {
        assert_eq!(house.ask(run_of(&job)).await.outcome, AttemptOutcome::Succeeded);
    }
    assert_eq!(agent.diary.count(), 3);
}

#[tokio::test]
async fn draining_waits_for_the_end_and_not_beyond_its_bound() {
    let (open, gate) = watch::channel(false);
    let agent =
        Agent::start(move |_| Reply::Hold(gate.clone(), b"HTTP/1.1 204 No Content\r\n\r\n".to_vec())).await;
    let mut house = House::new();
    house.send(run(Http::post(agent.url("/"))));
    agent.diary.until(|diary| diary.count() == 1).await;
    assert_eq!(house.agents.drain(Duration::from_millis(10)).await, 1);
    let (left, ()) = tokio::join!(house.agents.drain(PATIENCE), async { open.send(true).unwrap() });
    assert_eq!(left, 0);
    assert_eq!(house.report().await.outcome, AttemptOutcome::Succeeded);
}

#[tokio::test]
async fn dropping_it_drops_every_connection() {
    let agent = Agent::start(|seen| if seen.line.contains("/idle") { ok() } else { Reply::Nothing }).await;
    let mut house = House::new();
    house.ask(run(Http::post(agent.url("/idle")))).await;
    house.send(run(Http::post(agent.url("/1"))));
    house.send(run(Http::post(agent.url("/2"))));
    agent.diary.until(|diary| diary.count() == 3).await;
    drop(house);
    agent.diary.until_closed().await;
}

#[tokio::test]
async fn a_job_for_executors_is_not_for_agents() {
    let mut house = House::new();
    let report = house.ask(run_of(&job_of(Target::Executor(Executor::of("demo")), |_| {}))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless));
    assert!(report.message.contains("for executors"), "{}", report.message);
}

#[tokio::test]
async fn a_job_that_cannot_be_sent_fails_at_once_with_the_place() {
    let mut house = House::new();
    let report = house.ask(run(Http::post("ftp://example.com/"))).await;
    assert_eq!((report.outcome, report.further), (AttemptOutcome::Failed, Further::Useless));
    assert!(report.message.contains("/target/url"), "{}", report.message);
}
