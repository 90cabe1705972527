//! Nodes that come and go: leaving, coming back, and noticing that another's term is over.

use std::time::Duration;

use punctual_core::model::{AttemptOutcome, Definition, NodeId, Overrides, ScheduleKind, ShardId};
use punctual_core::policy::Block;
use punctual_node::ports::Hint;
use punctual_node::{Node, Submission};

use crate::house::{House, at, definition, every, now_or_never};

const SHARDS: usize = 16;

fn is_drained(node: &Node) -> bool {
    node.nodes().iter().any(|view| view.is_self && view.is_drained)
}

#[test]
fn whoever_leaves_is_not_waited_for_and_the_others_take_all_at_once() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    assert!(first.shards_held() > 0 && second.shards_held() > 0);
    now_or_never(first.leave()).unwrap();
    house.step(&second);
    assert_eq!((first.shards_held(), second.shards_held()), (0, SHARDS), "no time has passed");
    house.step(&first);
    assert_eq!(first.shards_held(), 0, "it does not come back by itself");
    assert_eq!(second.nodes().len(), 1, "nobody counts it among the living");
}

#[test]
fn a_drained_node_is_listed_while_it_lives_and_any_node_can_resume_it() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    let (drained, name) = (second.id(), |node: &Node| -> Vec<(usize, bool)> {
        let others = node.nodes().into_iter().filter(|view| !view.is_self);
        others.map(|view| (view.shards, view.is_drained)).collect()
    });
    assert!(!first.resume(drained), "it is not drained");
    assert!(first.drain(drained));
    deliver_all(&house, &[&second]);
    for second_of_minute in 3..23 {
        house.until(&[&first, &second], &format!("10:00:{second_of_minute:02}"));
        deliver_all(&house, &[&first, &second]);
    }
    assert_eq!((first.shards_held(), name(&first)), (SHARDS, vec![(0, true)]), "it says that it lives");
    assert!(first.resume(drained));
    deliver_all(&house, &[&first, &second]);
    house.until(&[&first, &second], "10:00:25");
    let others = name(&first);
    assert!(second.shards_held() > 0 && others.len() == 1 && !others[0].1, "{others:?}");
    // Drained again, it dies: then it is no longer listed.
    assert!(first.drain(second.id()));
    deliver_all(&house, &[&second]);
    house.until(&[&first, &second], "10:00:26");
    deliver_all(&house, &[&first]);
    drop(second);
    assert_eq!(name(&first), [(0, true)]);
    house.until(&[&first], "10:00:40");
    assert_eq!(name(&first), []);
}

#[test]
fn a_node_that_the_store_never_knew_is_not_listed_as_drained() {
    let house = House::new();
    let node = house.node();
    node.hear(Hint::Drained(NodeId(4_711)));
    assert_eq!(node.nodes().len(), 1);
    assert!(!node.resume(NodeId(4_711)), "its address is unknown");
}

#[test]
fn whoever_gives_shards_to_a_newcomer_tells_it_so_at_once() {
    let house = House::new();
    let first = house.node();
    house.until(&[&first], "10:00:02");
    let second = house.node();
    house.outside.hints.lock().unwrap().clear();
    house.step(&first);
    assert!(first.shards_held() < SHARDS, "it has given some back");
    let told = house.outside.hints.lock().unwrap().clone();
    assert!(told.contains(&(second.id(), Hint::Vacated)), "{told:?}");
}

/// Brings a node what the others have told it.
fn deliver(house: &House, node: &Node) {
    let told = std::mem::take(&mut *house.outside.hints.lock().unwrap());
    told.into_iter().filter(|(whom, _)| *whom == node.id()).for_each(|(_, hint)| node.hear(hint));
}

/// Brings each of these nodes what was told it.
fn deliver_all(house: &House, nodes: &[&Node]) {
    for (whom, hint) in std::mem::take(&mut *house.outside.hints.lock().unwrap()) {
        nodes.iter().filter(|node| node.id() == whom).for_each(|node| node.hear(hint.clone()));
    }
}

/// Two nodes, of which the second has just joined and got its shards from the first. The first does not look at the store again
/// for a second, so it does not know yet where they went.
fn just_moved(house: &House, first: &Node) -> Node {
    let second = house.node();
    now_or_never(first.renew());
    house.step(&second);
    assert_eq!(first.shards_held() + second.shards_held(), SHARDS);
    house.outside.hints.lock().unwrap().clear();
    second
}

#[test]
fn a_run_that_is_handed_to_the_former_holder_of_its_shard_is_not_late() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, definition("job", ScheduleKind::Manual));
    house.until(&[&first], "10:00:02");
    let second = just_moved(&house, &first);
    let one = Submission {
        job,
        at: Some(at("10:00:02.500")),
        payload: None,
        key: None,
        priority: None,
        overrides: Overrides::default(),
    };
    now_or_never(first.submit(vec![one; 64])).unwrap();
    deliver(&house, &second);
    now_or_never(second.tend());
    house.set("10:00:02.500");
    [&first, &second].into_iter().for_each(|node| house.fire(node));
    assert_eq!(house.sent().len(), 64, "no node waits for its next renewal");
}

#[test]
fn what_is_told_to_the_former_holder_of_a_shard_is_passed_on() {
    let house = House::new();
    let first = house.node();
    house.until(&[&first], "10:00:02");
    let second = just_moved(&house, &first);
    (0..SHARDS as u16).for_each(|shard| first.hear(Hint::Arrived(ShardId(shard))));
    let told = house.outside.hints.lock().unwrap().len();
    assert_eq!(told, second.shards_held(), "only what is the second's");
    house.until(&[&first, &second], "10:00:04");
    house.outside.hints.lock().unwrap().clear();
    (0..SHARDS as u16).for_each(|shard| first.hear(Hint::Arrived(ShardId(shard))));
    assert_eq!(house.outside.hints.lock().unwrap().len(), 0, "by now every node knows");
}

#[test]
fn the_end_of_a_call_whose_shard_moved_meanwhile_is_told_to_the_node_that_took_it() {
    let house = House::new();
    let first = house.node();
    for number in 0..8 {
        let serial = definition(&format!("job {number}"), every(10));
        house.create(&first, Definition { block: Block::Serial, ..serial });
    }
    house.until(&[&first], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 8);
    let second = just_moved(&house, &first);
    for send in &sends {
        house.report(&first, send, AttemptOutcome::Succeeded);
    }
    now_or_never(second.tend());
    assert!(second.load_figures().1 > 0, "it waits for calls that have ended, and for their places");
    deliver(&house, &second);
    now_or_never(second.tend());
    assert_eq!(second.load_figures().1, 0, "but not until its next renewal");
}

#[test]
fn what_is_on_its_way_when_a_node_leaves_is_still_settled_by_it() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    for number in 0..8 {
        house.create(&first, definition(&format!("job {number}"), every(10)));
    }
    house.until(&[&first, &second], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 8);
    now_or_never(first.leave()).unwrap();
    house.step(&second);
    for send in &sends {
        let receipt = house.report(&first, send, AttemptOutcome::Succeeded);
        assert!(house.is_acknowledged(receipt));
    }
    house.until(&[&second], "10:00:12");
    assert!(house.sent().is_empty(), "nothing is sent again");
    assert!(house.history().iter().take(8).all(|run| run == "10:00:10 succeeded"), "{:?}", house.history());
}

#[test]
fn a_node_that_was_told_to_drain_gives_everything_back_until_it_is_told_to_come_back() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    assert!(second.drain(second.id()) && !second.drain(punctual_core::model::NodeId(1)));
    house.until(&[&second, &first], "10:00:03");
    assert!(is_drained(&second) && !is_drained(&first));
    assert_eq!((first.shards_held(), second.shards_held()), (SHARDS, 0));
    let before = second.id();
    second.come_back();
    house.until(&[&second, &first], "10:00:05");
    assert_ne!(second.id(), before, "it is another life");
    assert!(!is_drained(&second) && second.shards_held() > 0);
    assert_eq!(first.shards_held() + second.shards_held(), SHARDS);
}

#[test]
fn the_end_of_anothers_term_is_looked_at_when_it_comes_and_not_a_second_later() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    // The first dies right after its renewal at 10:00:02; the second renews at odd moments.
    drop(first);
    house.until(&[&second], "10:00:05.500");
    let asked = house.now();
    let next = now_or_never(second.renew());
    let wait = next.since(punctual_node::ports::Boot(Duration::from_millis(
        u64::try_from(asked.as_millis() - crate::house::at("00:00:00").as_millis()).unwrap(),
    )));
    assert!(wait >= Duration::from_millis(500) && wait < Duration::from_millis(530), "{wait:?}");
    house.set("10:00:06.020");
    house.step(&second);
    assert_eq!(second.shards_held(), SHARDS);
}

#[test]
fn a_hint_that_shards_are_free_makes_a_node_look_at_once() {
    let house = House::new();
    let node = house.node();
    let _ = node.take_wakes();
    node.hear(Hint::Vacated);
    assert!(node.take_wakes().renew);
}
