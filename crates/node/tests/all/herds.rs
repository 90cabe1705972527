//! Herds: more is due than can go at once.

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, Definition, Executor, JobId, ScheduleKind, Target};
use punctual_core::policy::Limits;
use punctual_core::registry::Dialect;
use punctual_node::ports::{Accepted, Beat, Store};
use punctual_node::{Node, Settings};

use crate::house::{House, at, definition, now_or_never};
use crate::steps::{id, one_shot};

/// A node that has room for ten runs which are due, and sends two at once.
fn narrow() -> Settings {
    let limits = Limits { fast_open: 2, fast_queue: 5, slow_open: 1, slow_queue: 5, overflow: 0 };
    Settings { limits, fire_max: 5, ..Settings::default() }
}

fn parked(house: &House, runs: &[Accepted]) -> usize {
    let ids: Vec<_> = runs.iter().map(|run| id(&[*run])).collect();
    let rows = now_or_never(house.store.fetch(&ids)).unwrap();
    rows.iter().filter(|row| row.is_parked).count()
}

#[test]
fn a_herd_after_a_quiet_second_is_not_put_aside() {
    let house = House::with(narrow());
    let node = house.node();
    let job = house.create(&node, definition("herd", ScheduleKind::Manual));
    let herd = now_or_never(node.submit(vec![one_shot(job, "10:00:10.500"); 30])).unwrap();
    house.until(&[&node], "10:00:10.500");
    assert_eq!(parked(&house, &herd), 0, "nobody knows yet how fast they go");
    let mut sent = 0;
    while sent < 30 {
        let sends = house.take_sends();
        assert!(!sends.is_empty(), "{sent} were sent");
        sent += sends.len();
        for send in &sends {
            house.report(&node, send, AttemptOutcome::Succeeded);
        }
        house.step(&node);
        assert_eq!(parked(&house, &herd), 0);
    }
}

#[test]
fn a_herd_of_one_app_does_not_keep_another_app_waiting_and_goes_in_order() {
    let house = House::with(narrow());
    let first = house.node();
    let herd = house.create(&first, definition("herd", ScheduleKind::Manual));
    let other = Definition { app: "other".into(), ..definition("fresh", ScheduleKind::Manual) };
    let other = house.create(&first, other);
    let shots = (0..200).map(|number| one_shot(herd, &format!("10:00:10.{number:03}")));
    now_or_never(first.submit(shots.collect())).unwrap();
    // Another node finds them in the store, and knows no job yet.
    drop(first);
    house.set("10:00:06");
    let node = house.node();
    house.until(&[&node], "10:00:10.250");
    now_or_never(node.submit(vec![one_shot(other, "10:00:10.250")])).unwrap();
    let mut sent: Vec<(JobId, Timestamp)> = Vec::new();
    while sent.len() < 201 {
        house.step(&node);
        let sends = house.take_sends();
        assert!(!sends.is_empty(), "{} were sent", sent.len());
        for send in &sends {
            sent.push((send.job.id, send.fire_time));
            house.report(&node, send, AttemptOutcome::Succeeded);
        }
    }
    let place = sent.iter().position(|(job, _)| *job == other).unwrap();
    assert!(place <= 25, "the fresh one was sent as number {place}");
    sent.remove(place);
    assert!(sent.is_sorted_by_key(|(_, at)| *at), "{sent:?}");
}

/// A job for executors, one of which is there.
fn for_executor(house: &House, node: &Node) -> JobId {
    let target = Target::Executor(Executor::of("other"));
    let (app, address) = ("app".into(), "http://one/".into());
    now_or_never(node.beat(Beat { app, address, dialect: Dialect::Classic })).unwrap();
    house.create(node, Definition { target, ..definition("other", ScheduleKind::Manual) })
}

#[test]
fn what_cannot_go_keeps_nothing_waiting_that_can_and_is_not_written_again() {
    let house = House::with(narrow());
    let node = house.node();
    let hung = house.create(&node, definition("hung", ScheduleKind::Manual));
    let other = for_executor(&house, &node);
    let herd = now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 30])).unwrap();
    now_or_never(node.submit(vec![one_shot(other, "10:00:10.250")])).unwrap();
    let jobs = || house.take_sends().iter().map(|send| send.job.id).collect::<Vec<_>>();
    house.until(&[&node], "10:00:10");
    assert_eq!(jobs(), [hung, hung]);
    house.until(&[&node], "10:00:10.250");
    assert_eq!(jobs(), [other]);
    assert_eq!(parked(&house, &herd), 0);
}

#[test]
fn when_memory_is_full_of_what_cannot_go_some_of_it_is_parked_and_later_called_back_by_due_time() {
    let house = House::with(Settings { wheel_capacity: 16, due_max: 10, ..narrow() });
    let node = house.node();
    let hung = house.create(&node, definition("hung", ScheduleKind::Manual));
    let shots = (0..60).map(|number| one_shot(hung, &format!("10:00:10.{number:03}")));
    let herd = now_or_never(node.submit(shots.collect())).unwrap();
    let other = for_executor(&house, &node);
    now_or_never(node.submit(vec![one_shot(other, "10:00:10.500")])).unwrap();
    house.until(&[&node], "10:00:10.100");
    let mut hanging = house.take_sends();
    assert_eq!((hanging.len(), parked(&house, &herd)), (2, 0), "nobody knows yet how fast they go");
    let mut sent = Vec::new();
    for second in 11..40 {
        house.until(&[&node], &format!("10:00:{second}"));
        sent.extend(house.take_sends());
    }
    assert!(parked(&house, &herd) > 0);
    assert!(sent.iter().any(|send| send.job.id == other), "it is not behind what cannot go");
    // What hung ends, and everything is called back and goes.
    hanging.extend(sent.into_iter().filter(|send| send.job.id == hung));
    let mut times: Vec<Timestamp> = Vec::new();
    while times.len() < 60 {
        assert!(!hanging.is_empty(), "{} of 60 were sent", times.len());
        for send in hanging.drain(..) {
            times.push(send.fire_time);
            house.report(&node, &send, AttemptOutcome::Succeeded);
        }
        for _ in 0..4 {
            house.step(&node);
        }
        hanging.extend(house.take_sends());
    }
    assert_eq!(parked(&house, &herd), 0);
}

#[test]
fn calls_that_hang_leave_the_fast_pool_and_other_apps_are_called_at_once() {
    let house = House::with(Settings::default());
    let node = house.node();
    let hung = house.create(&node, definition("hung", ScheduleKind::Manual));
    let mut others = Vec::new();
    for app in 0..8 {
        let other = Definition { app: format!("app-{app}"), ..definition("other", ScheduleKind::Manual) };
        others.push(house.create(&node, other));
    }
    now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 300])).unwrap();
    house.until(&[&node], "10:00:10");
    let hanging = house.take_sends();
    assert_eq!(hanging.len(), 150, "a job holds three quarters of the pool, and the rest is free for others");
    for quarter in 1..20 {
        let due = format!("10:00:1{}.{:03}", quarter / 4, quarter % 4 * 250);
        let shots = others.iter().flat_map(|job| vec![one_shot(*job, &due); 5]);
        now_or_never(node.submit(shots.collect())).unwrap();
        house.until(&[&node], &due);
        let sends = house.take_sends();
        assert_eq!(sends.iter().filter(|send| send.job.id != hung).count(), 40, "{due}");
        for send in sends.iter().filter(|send| send.job.id != hung) {
            house.report(&node, send, AttemptOutcome::Succeeded);
        }
    }
}

#[test]
fn a_slow_job_that_hangs_leaves_room_in_the_slow_pool_for_another_one() {
    let house = House::with(Settings::default());
    let node = house.node();
    let hung = house.create(&node, definition("hung", ScheduleKind::Manual));
    let slow = Definition { app: "slow".into(), ..definition("slow", ScheduleKind::Manual) };
    let slow = house.create(&node, slow);
    now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 1_000])).unwrap();
    now_or_never(node.submit(vec![one_shot(slow, "10:00:11"); 12])).unwrap();
    house.until(&[&node], "10:00:13");
    let sends = house.take_sends();
    let of = |job: JobId| sends.iter().filter(|send| send.job.id == job).count();
    assert_eq!((of(hung), of(slow)), (150, 12), "what hangs is slow, and holds its share of the slow pool");
    // Now the other one is slow too, and has its place beside what hangs.
    now_or_never(node.submit(vec![one_shot(slow, "10:00:14"); 1])).unwrap();
    house.until(&[&node], "10:00:14");
    let sends = house.take_sends();
    assert_eq!(sends.iter().map(|send| send.job.id).collect::<Vec<_>>(), [slow]);
}

#[test]
fn a_fire_time_that_waited_for_a_place_runs_and_is_not_coalesced() {
    let house = House::with(Settings { due_max: 1_000, ..narrow() });
    let node = house.node();
    let hour = std::time::Duration::from_secs(3_600);
    let hung = Definition { timeout: hour, ..definition("hung", ScheduleKind::Manual) };
    let hung = house.create(&node, hung);
    now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 9])).unwrap();
    house.until(&[&node], "10:00:12");
    let hanging = house.take_sends();
    assert_eq!(hanging.len(), 3, "two in the fast pool, one in the slow one, and no overflow");
    let every = ScheduleKind::Every { interval: std::time::Duration::from_secs(60), anchor: at("10:00:15") };
    house.create(&node, definition("ticking", every));
    house.until(&[&node], "10:05:30");
    assert_eq!(house.sent().len(), 0, "no place became free");
    let mut sent = hanging;
    for _ in 0..10 {
        for send in sent.drain(..) {
            house.report(&node, &send, AttemptOutcome::Succeeded);
        }
        house.step(&node);
        sent.extend(house.take_sends());
        if let Some(first) = sent.iter().find(|send| send.job.id != hung) {
            assert_eq!(first.fire_time, at("10:00:15"));
            return;
        }
    }
    panic!("the first fire time never ran");
}
