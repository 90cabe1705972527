//! What runs bring is fetched before they are due, never between the due time and the send.

use punctual_core::model::{JobId, Overrides, ScheduleKind};
use punctual_core::policy::Limits;
use punctual_node::{Node, Settings, Submission};

use crate::house::{House, at, definition, now_or_never};

fn submit(node: &Node, job: JobId, time: &str, count: usize) {
    let shot = |number: usize| Submission {
        job,
        at: Some(at(time)),
        payload: Some(format!(r#"{{"number":{number}}}"#).into()),
        key: None,
        priority: None,
        overrides: Overrides::default(),
    };
    now_or_never(node.submit((0..count).map(shot).collect())).unwrap();
}

/// What was sent since this was last asked, in the order in which it was handed in.
fn brought(house: &House) -> Vec<String> {
    let mut sends = house.take_sends();
    sends.sort_unstable_by_key(|send| send.run);
    sends.iter().map(|send| send.payload.as_deref().unwrap_or("nothing").to_owned()).collect()
}

#[test]
fn it_is_there_when_its_run_is_due() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    submit(&node, job, "10:00:10", 3);
    house.until(&[&node], "10:00:09");
    assert_eq!(house.store.fetched(), 0, "memory is for what is due in a moment");
    house.until(&[&node], "10:00:09.750");
    assert_eq!(house.store.fetched(), 3);
    house.set("10:00:10");
    now_or_never(node.fire());
    assert_eq!(brought(&house), [r#"{"number":0}"#, r#"{"number":1}"#, r#"{"number":2}"#]);
    assert_eq!(house.store.fetched(), 3, "nothing was read on the way");
}

#[test]
fn what_is_handed_over_for_now_is_not_read_back() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    submit(&node, job, "10:00:00", 1);
    now_or_never(node.fire());
    assert_eq!((brought(&house), house.store.fetched()), (vec![r#"{"number":0}"#.to_owned()], 0));
}

#[test]
fn of_more_than_can_be_held_every_one_has_what_it_brings() {
    // None may wait in the store, where it would be read again.
    let limits = Limits { fast_open: 20_000, fast_queue: 20_000, ..Limits::default() };
    let house = House::with(Settings { limits, ..Settings::default() });
    let node = house.node();
    let job = house.create(&node, definition("job", ScheduleKind::Manual));
    (0..3).for_each(|_| submit(&node, job, "10:00:10", 4_000));
    house.until(&[&node], "10:00:10");
    let brought = brought(&house);
    assert_eq!(brought.len(), 12_000);
    for (place, payload) in brought.iter().enumerate() {
        assert_eq!(*payload, format!(r#"{{"number":{}}}"#, place % 4_000));
    }
    assert_eq!(house.store.fetched(), 12_000, "each is read once");
}
