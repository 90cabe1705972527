//! Executors against a node that does what each test says.

mod node;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use node::{Node, Session, one, runs, soon, told, welcome};
use punctual_executor::{Context, Executor, Failure, Notice, Outcome};
use punctual_protocol::native::{Code, FromExecutor, Held, Report};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

/// An executor that runs, and how to stop it.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    /// Runs of `gated` that have begun.
    started: UnboundedReceiver<u64>,
    /// Lets that many of them end.
    gate: Arc<Semaphore>,
    notices: UnboundedReceiver<Notice>,
}

impl Running {
    async fn started(&mut self) -> u64 {
        soon("a start", self.started.recv()).await.unwrap()
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    async fn gone(self) {
        soon("the end", self.task).await.unwrap();
    }
}

/// An executor with handlers for every taste.
fn start(capacity: u32, urls: &[String]) -> Running {
    let (begin, started) = unbounded_channel();
    let (tell, notices) = unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let opened = gate.clone();
    let mut executor = Executor::new("reports")
        .name("worker-7")
        .capacity(capacity)
        .grace(Duration::from_millis(50))
        .handler("ok", |_| async { Ok("done") })
        .handler("echo", |context: Context| async move { Ok(context.payload_text().to_owned()) })
        .handler("fail", |_| async { Err::<(), _>(Failure::new("it failed")) })
        .handler("useless", |_| async { Err::<(), _>(Failure::new("it is of no use").no_retry()) })
        .handler("panic", |_| async { if true { panic!("it {}", "broke") } else { Ok(()) } })
        .handler("forever", |_| async { std::future::pending::<Result<(), Failure>>().await })
        .handler("polite", |context: Context| async move {
            context.cancelled().await;
            Err::<(), _>(Failure::cancelled())
        })
        .handler("chatty", |context: Context| async move {
            context.log("line 1");
            context.log("line 2\nline 3");
            context.progress(50, "half");
            context.log("line 4");
            Ok(())
        })
        .typed("typed", |_: Context, number: u32| async move { Ok((number + 1).to_string()) })
        .handler("gated", move |context: Context| {
            let (begin, gate) = (begin.clone(), opened.clone());
            async move {
                begin.send(context.run()).unwrap();
                gate.acquire().await.unwrap().forget();
                Ok("through")
            }
        })
        .notice(move |notice| drop(tell.send(notice)));
    for url in urls {
        executor = executor.url(url);
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        executor.run_until(async { drop(stopped.await) }).await.unwrap();
    });
    Running { stop: Some(stop), task, started, gate, notices }
}

async fn one_node(capacity: u32) -> (Node, Running, Session) {
    let node = Node::new().await;
    let running = start(capacity, &[node.url()]);
    let mut session = node.welcome().await;
    assert_eq!(session.credit().await, capacity, "one node gets everything");
    (node, running, session)
}

/// The end of one run.
async fn check(handler: &str, payload: Value, outcome: Outcome, message: &str, retry: bool) {
    let (_node, _running, mut session) = one_node(10).await;
    session.run(7, handler, payload).await;
    let report = session.report().await;
    assert_eq!((told(&report), report.retry), ((7, outcome, message), retry));
}

#[tokio::test]
async fn every_end_of_a_handler_has_its_report() {
    check("ok", json!(null), Outcome::Succeeded, "done", true).await;
    check("echo", json!({"a": [1]}), Outcome::Succeeded, r#"{"a":[1]}"#, true).await;
    check("typed", json!(41), Outcome::Succeeded, "42", true).await;
    check("fail", json!(null), Outcome::Failed, "it failed", true).await;
    check("useless", json!(null), Outcome::Failed, "it is of no use", false).await;
    check("panic", json!(null), Outcome::Failed, "the handler panicked: it broke", true).await;
    check("absent", json!(null), Outcome::Refused, "no handler `absent`", true).await;
    let misfit = "the payload does not fit: invalid type: string \"x\", expected u32 at line 1 column 3";
    check("typed", json!("x"), Outcome::Failed, misfit, false).await;
}

#[tokio::test]
async fn a_hello_says_who_it_is_and_what_it_offers() {
    let node = Node::new().await;
    let _running = start(10, &[node.url()]);
    let hello = node.greet().await.hello;
    assert_eq!((hello.app.as_str(), hello.executor.as_str(), hello.capacity), ("reports", "worker-7", 10));
    assert!(hello.handlers.contains(&"echo".into()) && hello.instance.len() == 16 && hello.holds.is_empty());
}

#[tokio::test]
async fn what_takes_too_long_is_ended_and_reported() {
    let (_node, _running, mut session) = one_node(10).await;
    let mut run = one(7, "forever", json!(null));
    run["timeout_ms"] = json!(20);
    session.send(runs(&[run])).await;
    let report = session.report().await;
    assert_eq!(told(&report), (7, Outcome::TimedOut, "not done after 20 ms"));
    assert!(report.started_at.unwrap().ends_with('Z'));
}

#[tokio::test]
async fn what_is_cancelled_ends_by_itself_or_by_force() {
    let (_node, _running, mut session) = one_node(10).await;
    session.run(7, "polite", json!(null)).await;
    session.cancel(7).await;
    assert_eq!(told(&session.report().await), (7, Outcome::Cancelled, "cancelled"));
    session.run(8, "forever", json!(null)).await;
    session.cancel(8).await;
    assert_eq!(told(&session.report().await), (8, Outcome::Cancelled, "cancelled, and ended by force"));
    session.cancel(9).await; // Never heard of it.
    session.run(10, "ok", json!(null)).await;
    assert_eq!(session.report().await.run, 10);
}

#[tokio::test]
async fn a_log_comes_before_the_report_and_its_lines_are_numbered() {
    let (_node, _running, mut session) = one_node(10).await;
    session.run(7, "chatty", json!(null)).await;
    let (mut lines, mut percent) = (Vec::new(), None);
    loop {
        match session.next().await {
            FromExecutor::Log(log) => {
                assert_eq!(log.from, lines.len() as u64 + 1);
                lines.extend(log.lines);
            }
            FromExecutor::Progress(progress) => percent = Some((progress.percent, progress.note)),
            FromExecutor::Reports(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lines, ["line 1", "line 2", "line 3", "line 4"]);
    assert_eq!(percent, Some((50, "half".into())));
}

#[tokio::test]
async fn a_token_that_is_not_newer_starts_nothing() {
    let (_node, mut running, mut session) = one_node(10).await;
    let with = |token: u64, attempt: u32| {
        let mut run = one(7, "gated", json!(null));
        (run["token"], run["attempt"]) = (json!(token), json!(attempt));
        runs(&[run])
    };
    session.send(with(7, 1)).await;
    running.started().await;
    // While it is held, nothing is said about an equal or an older one, and their credits come back.
    session.send(with(7, 1)).await;
    assert_eq!(session.credit().await, 1);
    session.send(with(6, 1)).await;
    assert_eq!(session.credit().await, 1);
    running.gate.add_permits(1);
    let report = session.report().await;
    assert_eq!(told(&report), (7, Outcome::Succeeded, "through"));
    session.send(with(7, 1)).await; // Its report is not kept yet.
    assert_eq!(session.credit().await, 1);
    session.keep(&[report]).await;
    // It has ended, so a node that sends it again has to be sent a refusal.
    session.send(with(7, 1)).await;
    let refused = session.report().await;
    assert_eq!((refused.outcome, refused.token), (Outcome::Refused, 7));
    session.send(with(8, 2)).await;
    running.started().await;
    running.gate.add_permits(1);
    assert_eq!(session.report().await.token, 8);
    assert!(running.started.try_recv().is_err(), "nothing else was started");
}

#[tokio::test]
async fn a_report_is_repeated_after_every_welcome_until_it_is_kept() {
    let (node, _running, mut session) = one_node(10).await;
    session.run(7, "ok", json!(null)).await;
    let first = session.report().await;
    drop(session);
    let mut session = node.welcome().await;
    assert_eq!(told(&session.report().await), told(&first));
    drop(session);
    let mut session = node.welcome().await;
    let again = session.report().await;
    assert_eq!((again.held(), told(&again)), (first.held(), told(&first)));
    session.keep(&[again]).await;
    session.run(8, "ok", json!(null)).await;
    session.report().await;
    drop(session);
    let mut session = node.welcome().await;
    assert_eq!(session.report().await.run, 8, "the first was kept");
}

#[tokio::test]
async fn what_is_held_is_told_and_goes_on_when_a_connection_breaks() {
    let (node, mut running, mut session) = one_node(10).await;
    session.run(7, "gated", json!(null)).await;
    running.started().await;
    let instance = session.hello.instance.clone();
    drop(session);
    let mut session = node.greet().await;
    assert_eq!(session.hello.holds, [Held { run: 7, attempt: 1, token: 7 }]);
    assert_eq!(session.hello.instance, instance);
    session.send(welcome()).await;
    assert_eq!(session.credit().await, 9, "one is taken by what goes on");
    running.gate.add_permits(1);
    assert_eq!(told(&session.report().await), (7, Outcome::Succeeded, "through"));
}

#[tokio::test]
async fn what_ends_while_nobody_listens_is_reported_with_the_next_welcome() {
    let (node, mut running, mut session) = one_node(10).await;
    session.run(7, "gated", json!(null)).await;
    running.started().await;
    drop(session);
    let mut session = node.greet().await;
    running.gate.add_permits(1);
    session.send(welcome()).await;
    assert_eq!(session.report().await.run, 7);
}

#[tokio::test]
async fn what_is_stale_ends_and_nothing_is_said_of_it() {
    let (node, mut running, mut session) = one_node(2).await;
    session.run(7, "gated", json!(null)).await;
    session.run(8, "ok", json!(null)).await;
    running.started().await;
    session.report().await;
    drop(session);
    let mut session = node.greet().await;
    let mut told = welcome();
    told["stale"] = json!(session.hello.holds);
    assert_eq!(session.hello.holds.len(), 2, "a report that nobody kept is held as well");
    session.send(told).await;
    // The whole capacity comes back, though nothing is reported: 1 is free, 1 is freed by force.
    assert_eq!(session.credit().await + session.credit().await, 2);
}

#[tokio::test]
async fn credits_and_what_runs_are_never_more_than_the_capacity() {
    const CAPACITY: u32 = 20;
    let (_node, running, mut session) = one_node(CAPACITY).await;
    running.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    let (mut credits, mut sent, mut ended) = (CAPACITY, 0_u64, BTreeSet::new());
    while ended.len() < 2_000 {
        let batch: Vec<Value> =
            (0..credits).map(|index| one(sent + u64::from(index), "gated", json!(1))).collect();
        if !batch.is_empty() {
            sent += u64::from(credits);
            credits = 0;
            session.send(runs(&batch)).await;
        }
        match session.next().await {
            FromExecutor::Credit(credit) => credits += credit.more,
            FromExecutor::Reports(said) => {
                credits += said.credits;
                session.keep(&said.reports).await;
                for report in said.reports {
                    assert!(report.outcome == Outcome::Succeeded && ended.insert(report.run));
                }
            }
            other => panic!("{other:?}"),
        }
        assert!(u64::from(credits) + (sent - ended.len() as u64) <= u64::from(CAPACITY));
    }
}

#[tokio::test]
async fn what_comes_without_a_credit_is_refused() {
    let (_node, mut running, mut session) = one_node(1).await;
    session.send(runs(&[one(7, "gated", json!(1)), one(8, "gated", json!(1))])).await;
    assert_eq!(told(&session.report().await), (8, Outcome::Refused, "there was no credit for it"));
    assert_eq!(running.started().await, 7);
}

#[tokio::test]
async fn a_process_that_stops_ends_what_it_has_and_waits_until_it_is_kept() {
    let (_node, mut running, mut session) = one_node(10).await;
    session.run(7, "gated", json!(null)).await;
    running.started().await;
    running.stop();
    assert_eq!(session.next().await, FromExecutor::Drain);
    session.run(8, "ok", json!(null)).await; // It was on its way.
    let refused = session.report().await;
    assert_eq!(told(&refused), (8, Outcome::Refused, "the executor stops"));
    running.gate.add_permits(1);
    let report = session.report().await;
    assert_eq!(told(&report), (7, Outcome::Succeeded, "through"));
    assert!(!running.task.is_finished(), "nothing is kept yet");
    session.keep(&[refused, report]).await;
    assert_eq!(session.next().await, FromExecutor::Goodbye);
    assert_eq!(session.hear().await, None);
    running.gone().await;
}

#[tokio::test]
async fn a_process_that_stops_takes_its_reports_to_a_node_that_comes_back() {
    let (node, mut running, mut session) = one_node(10).await;
    session.run(7, "gated", json!(null)).await;
    running.started().await;
    running.stop();
    assert_eq!(session.next().await, FromExecutor::Drain);
    drop(session);
    running.gate.add_permits(1);
    let mut session = node.welcome().await;
    let report = session.report().await;
    session.keep(&[report]).await;
    while session.next().await != FromExecutor::Goodbye {}
    running.gone().await;
}

#[tokio::test]
async fn several_nodes_share_the_capacity_and_the_rest_is_for_who_wants_it() {
    let nodes = [Node::new().await, Node::new().await];
    // The second is learned from the first.
    let mut running = start(30, &[nodes[0].url()]);
    let mut first = nodes[0].greet().await;
    let mut told = welcome();
    told["nodes"] = json!([nodes[0].url(), nodes[1].url()]);
    first.send(told).await;
    assert_eq!(first.credit().await, 10);
    let mut second = nodes[1].welcome().await;
    assert_eq!(second.credit().await, 10);
    second.send(json!({"type": "want", "runs": 300})).await;
    assert_eq!(second.credit().await, 10);
    // All of it is promised. What is freed goes to whom it belongs.
    let batch: Vec<Value> = (0..20).map(|run| one(run, "gated", json!(1))).collect();
    second.send(runs(&batch)).await;
    for _ in 0..20 {
        running.started().await;
    }
    running.gate.add_permits(20);
    let (mut reported, mut credits) = (0, 0);
    while reported < 20 {
        if let FromExecutor::Reports(said) = second.next().await {
            (reported, credits) = (reported + said.reports.len(), credits + said.credits);
        }
    }
    assert_eq!(credits, 20, "it still wants more than there is");
    // When the second is gone, the first can have everything it wants.
    drop(second);
    first.send(json!({"type": "want", "runs": 300})).await;
    let mut more = 0;
    while more < 20 {
        match first.next().await {
            FromExecutor::Credit(credit) => more += credit.more,
            FromExecutor::Reports(said) => {
                more += said.credits;
                let runs: BTreeSet<u64> = said.reports.iter().map(|report| report.run).collect();
                assert_eq!(runs.len(), 20, "what nobody has kept goes to the other node");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(more, 20);
}

#[tokio::test]
async fn what_means_nothing_ends_the_session_and_it_comes_back() {
    let bad = [
        Message::text("{"),
        Message::text(r#"{"type":"runs"}"#),
        Message::text(r#"{"type":"kept","reports":7}"#),
        Message::text(welcome().to_string()),
        Message::binary(vec![1, 2, 3]),
    ];
    let (node, _running, mut session) = one_node(10).await;
    for message in bad {
        session.send_raw(message).await;
        let FromExecutor::Error(refusal) = session.next().await else { panic!("no error") };
        assert_eq!(refusal.code, Code::Malformed);
        assert_eq!(session.hear().await, None);
        session = node.welcome().await;
        session.credit().await;
    }
    session.send(json!({"type": "sing", "song": 1})).await;
    session.run(7, "ok", json!(null)).await;
    assert_eq!(session.report().await.run, 7, "what is newer is ignored");
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_session() {
    let (node, _running, mut session) = one_node(10).await;
    // It need not be read to its end to be too long.
    session.try_send(&format!(r#"{{"type":"sing","song":"{}"}}"#, "a".repeat(5 << 20))).await;
    while let Some(said) = session.hear().await {
        let FromExecutor::Error(refusal) = said else { panic!("no error") };
        assert_eq!(refusal.code, Code::TooLarge);
    }
    node.welcome().await;
}

#[tokio::test]
async fn a_first_message_that_is_no_welcome_ends_the_session() {
    let node = Node::new().await;
    let _running = start(10, &[node.url()]);
    let mut session = node.greet().await;
    session.run(7, "ok", json!(null)).await;
    let FromExecutor::Error(refusal) = session.next().await else { panic!("no error") };
    assert!(refusal.reason.contains("no welcome"));
    node.welcome().await;
}

#[tokio::test]
async fn a_node_that_falls_silent_is_left() {
    let node = Node::new().await;
    let mut running = start(10, &[node.url()]);
    let mut session = node.greet().await;
    let mut told = welcome();
    told["silence_ms"] = json!(100);
    session.send(told).await;
    node.welcome().await;
    assert!(matches!(running.notices.recv().await, Some(Notice::Connected { .. })));
    let Some(Notice::Disconnected { reason, .. }) = running.notices.recv().await else { panic!() };
    assert_eq!(reason, "nothing was heard for 100 ms");
}

#[tokio::test]
async fn a_node_that_says_no_is_told_to_the_program() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let node = Node::new().await;
    let mut running = start(10, &[node.url()]);
    let mut stream = node.accept().await;
    let mut request = [0; 16];
    stream.read_exact(&mut request).await.unwrap();
    stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let Some(Notice::Unreachable { url, reason }) = soon("a notice", running.notices.recv()).await else {
        panic!()
    };
    assert!(url == node.url() && reason.contains("is the token right?"), "{reason}");
    running.stop();
    running.gone().await;
}

#[tokio::test]
async fn a_node_that_leaves_in_order_is_asked_again() {
    let (node, mut running, mut session) = one_node(10).await;
    session.send(json!({"type": "goodbye", "reason": "an update"})).await;
    node.welcome().await;
    running.notices.recv().await;
    let Some(Notice::Disconnected { reason, .. }) = running.notices.recv().await else { panic!() };
    assert_eq!(reason, "the node stops: an update");
}

#[tokio::test]
async fn many_runs_are_reported_in_few_messages() {
    let (_node, running, mut session) = one_node(5_000).await;
    running.gate.add_permits(5_000);
    for batch in 0..10 {
        let batch: Vec<Value> = (0..500).map(|run| one(batch * 500 + run, "ok", json!({"a": 1}))).collect();
        session.send(runs(&batch)).await;
    }
    let (mut messages, mut reports): (usize, Vec<Report>) = (0, Vec::new());
    while reports.len() < 5_000 {
        reports.extend(session.reports().await);
        messages += 1;
    }
    assert!(messages <= 100, "{messages} messages for 5,000 reports");
}
