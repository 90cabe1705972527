//! Callbacks: what executors that are called say about attempts, by the numbers of their gates, and when they are answered.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use punctual_core::event::Event;
use punctual_core::model::{AttemptOutcome, Definition, LogId, ScheduleKind};
use punctual_core::policy::Route;
use punctual_node::ports::AttemptRow;
use punctual_node::{Callback, DeskError, Node};

use crate::executors::{ONE, beat, log_of, one_run, routed, until};
use crate::house::{House, at, now_or_never};

#[test]
fn a_callback_finds_its_run_by_the_number_and_what_nobody_knows_is_told() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let log = log_of(&house, &house.runs()[0]);
    let callback = |log| Callback { log, outcome: AttemptOutcome::Succeeded, message: "fine".into() };
    let callbacks = [callback(log), callback(LogId(4_711))];
    node.take_events();
    let reports = now_or_never(node.reports_of(&callbacks, &|_| true)).unwrap();
    assert_eq!(reports.len(), 1);
    drop(node.keep(reports));
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
    let refused = |event: &Event| matches!(event, Event::ReportRefused { log: LogId(4_711), .. });
    assert!(node.take_events().iter().any(refused));
}

#[test]
fn many_results_that_nobody_knows_are_one_event() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let log = log_of(&house, &house.runs()[0]);
    let callback = |log| Callback { log, outcome: AttemptOutcome::Succeeded, message: "fine".into() };
    let unknown = (100_000..109_000).map(|log| callback(LogId(log)));
    let callbacks: Vec<Callback> = unknown.chain([callback(log)]).collect();
    node.take_events();
    let reports = now_or_never(node.reports_of(&callbacks, &|_| true)).unwrap();
    assert_eq!(reports.len(), 1, "what is known is taken");
    let events = node.take_events();
    let refused =
        |event: &&Event| matches!(event, Event::ReportRefused { .. } | Event::ReportsRefused { .. });
    let refused: Vec<&Event> = events.iter().filter(refused).collect();
    let first = LogId(100_000);
    assert!(
        matches!(refused[..], [Event::ReportsRefused { count: 9_000, first: named, .. }] if *named == first),
        "{refused:?}"
    );
}

/// The answer to a callback that says how these attempts ended.
struct Answer(Pin<Box<dyn Future<Output = Result<(), DeskError>>>>);

impl Answer {
    fn to(node: &Node, logs: &[LogId]) -> Answer {
        let callback =
            |log: &LogId| Callback { log: *log, outcome: AttemptOutcome::Succeeded, message: "fine".into() };
        let callbacks: Vec<Callback> = logs.iter().map(callback).collect();
        let reports = now_or_never(node.reports_of(&callbacks, &|_| true)).unwrap();
        Answer(Box::pin(node.keep(reports)))
    }

    fn poll(&mut self) -> Poll<Result<(), DeskError>> {
        self.0.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }
}

#[test]
fn a_callback_is_answered_when_all_its_results_are_kept_or_come_too_late() {
    let house = House::new();
    let node = house.node();
    for name in ["first", "second"] {
        let schedule = ScheduleKind::Once { at: at("10:00:10") };
        house.create(&node, Definition { name: name.into(), ..routed(schedule, Route::First) });
    }
    beat(&node, ONE);
    until(&house, &node, &[ONE], "10:00:10");
    assert_eq!(house.take_sends().len(), 2);
    let logs: Vec<LogId> = house.runs().iter().map(|run| log_of(&house, run)).collect();
    let mut first = Answer::to(&node, &logs[..1]);
    assert_eq!(first.poll(), Poll::Pending);
    house.step(&node);
    assert_eq!(first.poll(), Poll::Ready(Ok(())));
    let mut both = Answer::to(&node, &logs);
    assert_eq!(both.poll(), Poll::Pending);
    house.step(&node);
    assert_eq!(both.poll(), Poll::Ready(Ok(())), "the first of them came again");
    assert_eq!(house.history(), ["10:00:10 succeeded"; 2]);
    assert_eq!(Answer::to(&node, &[]).poll(), Poll::Ready(Ok(())), "nothing has to be kept");
    assert_eq!(*house.outside.receipts.lock().unwrap(), [], "dispatch has no part in it");
}

#[test]
fn a_callback_whose_sender_hangs_up_is_kept_all_the_same() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let log = log_of(&house, &house.runs()[0]);
    drop(Answer::to(&node, &[log]));
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
}

#[test]
fn a_callback_waits_while_the_node_has_lost_its_shards() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let mut answer = Answer::to(&node, &[log_of(&house, &house.runs()[0])]);
    // No step reaches the store for longer than a lease lasts.
    house.set("10:00:20");
    assert_eq!(answer.poll(), Poll::Pending);
    house.until(&[&node], "10:00:24");
    assert_eq!(answer.poll(), Poll::Ready(Ok(())));
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
}

#[test]
fn a_callback_that_a_node_cannot_keep_before_it_ends_is_answered_so() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let mut answer = Answer::to(&node, &[log_of(&house, &house.runs()[0])]);
    drop(node);
    assert!(matches!(answer.poll(), Poll::Ready(Err(DeskError::Unknown(_)))));
}

#[test]
fn a_callback_from_another_app_changes_nothing() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let log = log_of(&house, &house.runs()[0]);
    let callback = Callback { log, outcome: AttemptOutcome::Succeeded, message: "mine".into() };
    let reports = now_or_never(node.reports_of(&[callback], &|app| app == "other")).unwrap();
    assert!(reports.is_empty());
}

#[test]
fn an_attempt_ends_when_its_callback_came_and_not_when_the_store_found_its_run() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 60);
    let log = log_of(&house, &house.runs()[0]);
    let callback = Callback { log, outcome: AttemptOutcome::Succeeded, message: "fine".into() };
    house.set("10:00:10.050");
    let reports = now_or_never(node.reports_of(&[callback], &|_| true)).unwrap();
    // The store takes two seconds to find the run.
    house.set("10:00:12.050");
    drop(node.keep(reports));
    house.step(&node);
    let run = &house.runs()[0];
    let [AttemptRow::Ended(record)] = &run.attempts[..] else { panic!("{run:?}") };
    assert_eq!(record.ended_at, at("10:00:10.050"));
}
