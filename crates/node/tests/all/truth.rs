//! What is on record after a death or an outage: nothing invented, nothing thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::{Outside, Timestamp};
use punctual_core::event::Event;
use punctual_core::model::{AttemptOutcome, AttemptRecord, Definition, RunState, ScheduleKind, WindowSpec};
use punctual_node::Node;
use punctual_node::ports::{AttemptRow, FiredMark, RunView};

use super::house::{House, at, definition, every, now_or_never};

/// How far nodes have fired, as a file would keep it.
struct Mark(AtomicI64);

impl FiredMark for Mark {
    fn through(&self) -> Option<Timestamp> {
        Some(Timestamp::from_millis(self.0.load(Ordering::Relaxed)))
    }

    fn reach(&self, due: Timestamp) {
        self.0.fetch_max(due.as_millis(), Ordering::Relaxed);
    }
}

fn ended(run: &RunView) -> Vec<&AttemptRecord> {
    let mut records = Vec::new();
    for row in &run.attempts {
        if let AttemptRow::Ended(record) = row {
            records.push(record);
        }
    }
    records
}

/// The lags of sends that count as the first of their run, in milliseconds.
fn first_lags(node: &Node) -> Vec<u128> {
    let lag = |event: &Event| match event {
        Event::Sent { lag, is_first: true, .. } => Some(lag.as_millis()),
        _ => None,
    };
    node.take_events().iter().filter_map(lag).collect()
}

/// An hour that no test comes near.
fn evening() -> WindowSpec {
    let (hours, zone, outside) = ("22:00-23:00".into(), "UTC".into(), Outside::Skip);
    WindowSpec { days: "*".into(), hours, zone, outside }
}

fn once(name: &str, time: &str) -> Definition {
    definition(name, ScheduleKind::Once { at: at(time) })
}

#[test]
fn an_attempt_that_only_may_have_been_sent_says_so_and_lateness_counts_from_the_certain_one() {
    let house = House::new();
    let first = house.node();
    house.create(&first, once("job", "10:00:10"));
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    let sends = house.take_sends();
    assert_eq!((sends.len(), sends[0].attempt.0, sends[0].possible_duplicate), (1, 2, true));
    let lags = first_lags(&second);
    assert!(lags.len() == 1 && lags[0] >= 4_000, "it was first sent for certain four seconds late: {lags:?}");
    house.report(&second, &sends[0], AttemptOutcome::Succeeded);
    let run = &house.runs()[0];
    let supposed: Vec<bool> = ended(run).iter().map(|record| record.is_supposed()).collect();
    assert_eq!(supposed, [true, false]);
}

#[test]
fn with_a_mark_nothing_that_was_due_after_it_is_in_doubt() {
    let house = House::new().marked(Arc::new(Mark(AtomicI64::new(i64::MIN))));
    let first = house.node();
    house.create(&first, once("sent", "10:00:07.500"));
    house.create(&first, once("unsent", "10:00:10"));
    house.until(&[&first], "10:00:08");
    assert_eq!(house.sent(), ["10:00:07 #1"]);
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:15");
    let mut sends = house.take_sends();
    sends.sort_by_key(|send| send.fire_time);
    let told: Vec<_> = sends.iter().map(|send| (send.attempt.0, send.possible_duplicate)).collect();
    assert_eq!(told, [(2, true), (1, false)], "only what was due before the mark may have been sent");
}

#[test]
fn with_a_mark_what_was_missed_follows_its_misfire_policy() {
    let house = House::new().marked(Arc::new(Mark(AtomicI64::new(i64::MIN))));
    let first = house.node();
    house.create(&first, definition("job", every(1)));
    house.until(&[&first], "10:00:08");
    for send in house.take_sends() {
        house.report(&first, &send, AttemptOutcome::Succeeded);
    }
    drop(first);
    house.set("10:00:40");
    let second = house.node();
    house.until(&[&second], "10:00:40.250");
    let repeated = house.take_sends().iter().filter(|send| send.possible_duplicate).count();
    assert_eq!(repeated, 0, "everything that was sent was reported, and nothing else was sent");
    let lost = house.runs().iter().filter(|run| run.state == RunState::Lost).count();
    assert_eq!(lost, 0);
}

#[test]
fn a_run_in_doubt_is_not_sent_against_a_window() {
    let house = House::new();
    let first = house.node();
    let shut = Definition { windows: vec![evening()], ..once("job", "10:00:10") };
    house.create(&first, shut);
    house.until(&[&first], "10:00:08");
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:16");
    assert_eq!(house.sent(), Vec::<String>::new());
    assert_eq!(house.history(), ["10:00:10 skipped (outside windows)"]);
    assert!(house.runs()[0].attempts.is_empty(), "nobody has sent it, so there is no attempt");
}

#[test]
fn a_run_in_doubt_whose_job_was_deleted_is_cancelled_and_not_failed() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, definition("job", every(1)));
    house.until(&[&first], "10:00:06.500");
    for send in house.take_sends() {
        house.report(&first, &send, AttemptOutcome::Succeeded);
    }
    now_or_never(first.delete(job, "test".into())).unwrap();
    drop(first);
    house.set("10:00:14");
    let second = house.node();
    house.until(&[&second], "10:00:16");
    assert_eq!(house.sent(), Vec::<String>::new());
    let states: Vec<RunState> = house.runs().iter().map(|run| run.state).collect();
    let is_told =
        |state: &RunState| matches!(state, RunState::Succeeded | RunState::Cancelled | RunState::Skipped);
    assert!(states.iter().all(is_told), "{:?}", house.history());
    assert!(states.contains(&RunState::Cancelled), "{:?}", house.history());
}

#[test]
fn an_answer_that_came_while_the_store_was_away_is_kept_and_nothing_is_sent_again() {
    let house = House::new();
    let node = house.node();
    house.create(&node, once("answered", "10:00:10"));
    house.create(&node, once("hangs", "10:00:10"));
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 2);
    node.report(house.said(&sends[0], AttemptOutcome::Succeeded));
    // No step reaches the store for longer than a lease lasts.
    house.set("10:00:20");
    house.until(&[&node], "10:00:24");
    assert_eq!(house.sent(), Vec::<String>::new(), "one is answered, the other is still in flight");
    assert_eq!(house.run(sends[0].run).state, RunState::Succeeded);
    house.report(&node, &sends[1], AttemptOutcome::Succeeded);
    let run = house.run(sends[1].run);
    assert_eq!((run.state, run.attempts.len()), (RunState::Succeeded, 1));
}

#[test]
fn an_attempt_lasts_until_it_was_reported_and_not_until_the_store_heard_of_it() {
    let house = House::new();
    let node = house.node();
    house.create(&node, once("job", "10:00:10"));
    house.until(&[&node], "10:00:10");
    let send = house.take_sends().remove(0);
    house.set("10:00:10.050");
    node.report(house.said(&send, AttemptOutcome::Succeeded));
    house.set("10:00:12.050");
    now_or_never(node.settle());
    let run = house.run(send.run);
    assert_eq!((run.state, ended(&run)[0].ended_at), (RunState::Succeeded, at("10:00:10.050")));
}

#[test]
fn silence_does_not_count_while_a_report_is_in_hand() {
    let house = House::new();
    let node = house.node();
    let brief = Definition { timeout: Duration::from_millis(500), ..once("job", "10:00:10") };
    house.create(&node, brief);
    house.until(&[&node], "10:00:10");
    let send = house.take_sends().remove(0);
    node.report(house.said(&send, AttemptOutcome::Succeeded));
    // Longer than its timeout and the grace, and within a lease that is renewed.
    for second in 11..30 {
        house.set(&format!("10:00:{second}"));
        now_or_never(node.renew());
        now_or_never(node.reap());
    }
    house.step(&node);
    let run = house.run(send.run);
    assert_eq!((run.state, run.attempts.len()), (RunState::Succeeded, 1), "{run:?}");
}
