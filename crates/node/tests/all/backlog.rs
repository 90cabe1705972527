//! The backlog: what is due and not started is counted wherever it waits.

use std::time::Duration;

use punctual_core::model::{AttemptOutcome, Definition, Executor, Http, ScheduleKind, Target};
use punctual_core::policy::{Block, Limits};
use punctual_node::{Backlog, Settings};

use crate::house::{House, definition, now_or_never};
use crate::steps::one_shot;

#[test]
fn what_is_due_later_is_no_backlog() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("later", ScheduleKind::Manual));
    now_or_never(node.submit(vec![one_shot(job, "10:00:20"); 5])).unwrap();
    house.until(&[&node], "10:00:05");
    assert_eq!(node.backlog(), Backlog { due: 0, oldest: None });
}

#[test]
fn runs_that_wait_for_an_executor_are_counted_and_the_oldest_says_since_when() {
    let house = House::new();
    let node = house.node();
    let target = Target::Executor(Executor::of("nobody"));
    let job = house.create(&node, Definition { target, ..definition("lonely", ScheduleKind::Manual) });
    now_or_never(node.submit(vec![one_shot(job, "10:00:10"), one_shot(job, "10:00:20")])).unwrap();
    house.until(&[&node], "10:00:30");
    assert_eq!(node.backlog(), Backlog { due: 2, oldest: Some(Duration::from_secs(20)) });
}

#[test]
fn runs_that_wait_for_another_run_of_their_job_are_counted() {
    let house = House::new();
    let node = house.node();
    let job =
        house.create(&node, Definition { block: Block::Serial, ..definition("one", ScheduleKind::Manual) });
    now_or_never(node.submit(vec![one_shot(job, "10:00:10"); 4])).unwrap();
    house.until(&[&node], "10:00:25");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    assert_eq!(node.backlog(), Backlog { due: 3, oldest: Some(Duration::from_millis(14_001)) });
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(node.backlog().due, 2);
}

#[test]
fn runs_that_find_no_room_in_memory_are_counted_until_they_go() {
    let limits = Limits { fast_open: 2, fast_queue: 5, slow_open: 1, slow_queue: 5, overflow: 0 };
    let house = House::with(Settings { limits, fire_max: 5, due_max: 10, ..Settings::default() });
    let node = house.node();
    let target = Target::Http(Http::post("http://hangs"));
    let job = house.create(&node, Definition { target, ..definition("hung", ScheduleKind::Manual) });
    now_or_never(node.submit(vec![one_shot(job, "10:00:10"); 60])).unwrap();
    let mut sent = Vec::new();
    for second in 11..25 {
        house.until(&[&node], &format!("10:00:{second}"));
        sent.extend(house.take_sends());
        assert_eq!(node.backlog().due + sent.len() as u64, 60, "at second {second}");
    }
    let mut ended = 0;
    while ended < 60 {
        assert!(!sent.is_empty(), "{ended} of 60 ended");
        for send in sent.drain(..) {
            ended += 1;
            house.report(&node, &send, AttemptOutcome::Succeeded);
        }
        for _ in 0..4 {
            house.step(&node);
        }
        sent.extend(house.take_sends());
        assert_eq!(node.backlog().due as usize, 60 - ended - sent.len());
    }
    assert_eq!(node.backlog(), Backlog { due: 0, oldest: None });
}

#[test]
fn runs_of_a_stopped_job_are_no_backlog() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("stopped", ScheduleKind::Manual));
    now_or_never(node.submit(vec![one_shot(job, "10:00:10"); 3])).unwrap();
    now_or_never(node.stop(job, "test".into())).unwrap();
    house.until(&[&node], "10:00:20");
    assert!(house.take_sends().is_empty());
    assert_eq!(node.backlog(), Backlog { due: 0, oldest: None });
}
