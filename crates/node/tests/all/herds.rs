//! Herds: more is due than can go at once.

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, Definition, Executor, JobId, ScheduleKind, Target};
use punctual_core::policy::Limits;
use punctual_core::registry::Dialect;
use punctual_node::Settings;
use punctual_node::ports::{Accepted, Beat, Store};

use crate::house::{House, at, definition, now_or_never};
use crate::steps::{id, one_shot};

/// A node that has room for ten runs which are due, and sends two at once.
fn narrow() -> Settings {
    let limits = Limits { fast_open: 2, fast_queue: 5, slow_open: 1, slow_queue: 5 };
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

#[test]
fn what_cannot_go_makes_way_for_what_could_after_a_second() {
    let house = House::with(narrow());
    let node = house.node();
    let hung = house.create(&node, definition("hung", ScheduleKind::Manual));
    let target = Target::Executor(Executor::of("other"));
    let (app, address) = ("app".into(), "http://one/".into());
    now_or_never(node.beat(Beat { app, address, dialect: Dialect::Classic })).unwrap();
    let other = house.create(&node, Definition { target, ..definition("other", ScheduleKind::Manual) });
    let herd = now_or_never(node.submit(vec![one_shot(hung, "10:00:10"); 30])).unwrap();
    now_or_never(node.submit(vec![one_shot(other, "10:00:10.500")])).unwrap();
    house.until(&[&node], "10:00:10");
    assert!(!house.sent().is_empty());
    assert_eq!(parked(&house, &herd), 0);
    // It asks to be called again by then, though nothing ends that would wake it.
    let boot = house.now().as_millis() - at("00:00:00").as_millis();
    let asked = now_or_never(node.fire()).0.as_millis() as i64;
    assert!((1..=1_000).contains(&(asked - boot)), "{asked} at {boot}");
    house.until(&[&node], "10:00:12");
    assert_eq!(house.sent(), ["10:00:10 #1"]);
    assert!(parked(&house, &herd) > 0);
}
