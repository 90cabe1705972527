//! Herds: more is due than can go at once.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    AttemptOutcome, Definition, Executor, JobId, Origin, RunState, ScheduleKind, Target,
};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Block, Limits, Misfire};
use punctual_core::registry::Dialect;
use punctual_node::ports::{Accepted, Beat, Store};
use punctual_node::{Node, Settings};

use crate::house::{House, at, definition, every, now_or_never};
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

const HOUR: Duration = Duration::from_secs(3_600);

/// Reports everything that is sent, and lets steps be taken, until nothing more is sent.
fn work_off(house: &House, node: &Node, mut sends: Vec<punctual_node::ports::Dispatched>) {
    while !sends.is_empty() {
        for send in sends.drain(..) {
            house.report(node, &send, AttemptOutcome::Succeeded);
        }
        for _ in 0..4 {
            house.step(node);
        }
        sends = house.take_sends();
    }
}

fn count(house: &House, state: RunState) -> usize {
    house.runs().iter().filter(|run| run.state == state).count()
}

#[test]
fn what_waits_behind_a_full_due_queue_is_in_time_whatever_the_policy() {
    let house = House::with(Settings { due_max: 10, ..narrow() });
    let node = house.node();
    let misfire = Misfire { policy: Policy::Skip, ..Misfire::default() };
    let hung = Definition { misfire, timeout: HOUR, ..definition("hung", ScheduleKind::Manual) };
    let hung = house.create(&node, hung);
    now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 60])).unwrap();
    house.until(&[&node], "10:02:00");
    let hanging = house.take_sends();
    assert!(hanging.len() <= 3, "no place became free");
    work_off(&house, &node, hanging);
    assert_eq!((count(&house, RunState::Succeeded), count(&house, RunState::Skipped)), (60, 0));
}

#[test]
fn fire_times_that_wait_behind_a_full_due_queue_are_not_coalesced() {
    let house = House::with(Settings { due_max: 10, ..narrow() });
    let node = house.node();
    house.create(&node, Definition { timeout: HOUR, ..definition("ticking", every(2)) });
    house.until(&[&node], "10:02:00");
    let hanging = house.take_sends();
    assert!(hanging.len() <= 3, "no place became free");
    let due = house.runs().iter().filter(|run| run.fire_time <= house.now()).count();
    work_off(&house, &node, hanging);
    let (done, skipped) = (count(&house, RunState::Succeeded), count(&house, RunState::Skipped));
    assert!(done >= due && due > 50 && skipped == 0, "{done} of {due}, {skipped} skipped");
}

/// A node with memory for few runs, full of what cannot go, so that much of it is parked.
fn clogged(jobs: impl FnOnce(&House, &Node)) -> (House, Node) {
    clogged_beyond(10, jobs)
}

/// The same with room for `due_max` runs in the due queue.
fn clogged_beyond(due_max: usize, jobs: impl FnOnce(&House, &Node)) -> (House, Node) {
    let house = House::with(Settings { wheel_capacity: due_max * 8 / 5, due_max, ..narrow() });
    let node = house.node();
    jobs(&house, &node);
    for second in 11..40 {
        house.until(&[&node], &format!("10:00:{second}"));
    }
    (house, node)
}

fn parked_runs(house: &House) -> Vec<punctual_node::ports::RunRow> {
    let ids: Vec<_> = house.runs().iter().map(|run| run.id).collect();
    let rows = now_or_never(house.store.fetch(&ids)).unwrap();
    rows.into_iter().filter(|row| row.is_parked).collect()
}

#[test]
fn what_was_parked_for_room_is_in_time_after_a_takeover() {
    let misfire = Misfire { policy: Policy::Skip, ..Misfire::default() };
    let (house, node) = clogged(|house, node| {
        let hung = Definition { misfire, timeout: HOUR, ..definition("hung", ScheduleKind::Manual) };
        let hung = house.create(node, hung);
        now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 60])).unwrap();
    });
    let parked: Vec<_> = parked_runs(&house).iter().map(|row| row.waiting.run).collect();
    assert!(parked.len() > 10, "{}", parked.len());
    house.take_sends();
    drop(node);
    house.set("10:05:00");
    let node = house.node();
    house.until(&[&node], "10:05:05");
    work_off(&house, &node, house.take_sends());
    let states: Vec<_> = parked.iter().map(|run| house.run(*run).state).collect();
    assert!(states.iter().all(|state| *state == RunState::Succeeded), "{states:?}");
}

#[test]
fn of_what_waits_for_executors_too_the_apps_with_the_most_are_parked_from_and_schedules_last() {
    let (house, _node) = clogged(|house, node| {
        let for_executors = |app: &str, schedule| Definition {
            app: app.into(),
            target: Target::Executor(Executor::of("job")),
            block: Block::Concurrent(None),
            ..definition("job", schedule)
        };
        let large = house.create(node, for_executors("large", ScheduleKind::Manual));
        let every = ScheduleKind::Every { interval: HOUR, anchor: at("10:00:12") };
        house.create(node, for_executors("small", every));
        for app in ["large", "small"] {
            // Executors that are there and take nothing more.
            now_or_never(node.native_came(app, "native:one/1", vec![], vec![], false)).unwrap();
        }
        now_or_never(node.submit(vec![one_shot(large, "10:00:10"); 60])).unwrap();
    });
    let parked = parked_runs(&house);
    assert!(parked.len() > 10, "{}", parked.len());
    assert!(parked.iter().all(|row| row.waiting.origin == Origin::OneShot), "a schedule's was parked");
}

#[test]
fn a_scheduled_run_of_a_serial_job_is_not_parked_behind_its_one_shots() {
    let house = House::with(Settings { queue_max: 5, ..Settings::default() });
    let node = house.node();
    let every = ScheduleKind::Every { interval: HOUR, anchor: at("10:00:20") };
    let serial = Definition { block: Block::Serial, timeout: HOUR, ..definition("serial", every) };
    let serial = house.create(&node, serial);
    now_or_never(node.submit(vec![one_shot(serial, "10:00:10"); 20])).unwrap();
    house.until(&[&node], "10:00:25");
    let parked = parked_runs(&house);
    assert!(parked.len() > 10, "{}", parked.len());
    assert!(parked.iter().all(|row| row.waiting.origin == Origin::OneShot));
}

#[test]
fn parked_runs_are_called_back_by_due_time_over_all_shards() {
    // Each shard has more parked runs than the due queue has room for, and some shards have many more than others.
    let (house, node) = clogged_beyond(100, |house, node| {
        let hung = Definition { timeout: HOUR, ..definition("hung", ScheduleKind::Manual) };
        let hung = house.create(node, hung);
        let shots = (0..800).map(|number| one_shot(hung, &format!("10:00:10.{number:03}")));
        now_or_never(node.submit(shots.collect())).unwrap();
    });
    let mut parked: Vec<_> = parked_runs(&house).iter().map(|row| row.waiting.fire_time).collect();
    parked.sort_unstable();
    assert!(parked.len() > 500, "{}", parked.len());
    let mut sends = house.take_sends();
    let mut times = Vec::new();
    while !sends.is_empty() {
        for send in sends.drain(..) {
            times.extend(parked.binary_search(&send.fire_time));
            house.report(&node, &send, AttemptOutcome::Succeeded);
        }
        for _ in 0..4 {
            house.step(&node);
        }
        sends = house.take_sends();
    }
    assert_eq!(times.len(), parked.len());
    let furthest = times.iter().enumerate().map(|(place, time)| place.abs_diff(*time)).max();
    assert!(furthest.is_some_and(|furthest| furthest <= 100), "{furthest:?}: {times:?}");
}
