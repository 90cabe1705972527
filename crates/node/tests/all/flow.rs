//! Flow control: which runs go first, which never overlap, and how fire times are spread.

use std::time::Duration;

use punctual_core::model::{
    AttemptOutcome, Definition, ExclusiveKeys, Executor, FlowControl, JobId, Overrides, RunId, ScheduleKind,
    Target, Text,
};
use punctual_core::policy::{Classes, Limits};
use punctual_node::ports::Dispatched;
use punctual_node::{Node, Settings, Submission};

use crate::house::{House, at, definition, every, now_or_never};
use crate::steps::{id, one_shot};

/// A node that makes one call at a time.
fn single() -> Settings {
    let limits = Limits { fast_open: 1, fast_queue: 100, slow_open: 1, slow_queue: 100, overflow: 0 };
    Settings { limits, ..Settings::default() }
}

fn of_class(name: &str, class: Option<&'static str>) -> Definition {
    let flow = FlowControl { class: class.map(Text::Borrowed), ..FlowControl::default() };
    Definition { flow, ..definition(name, ScheduleKind::Manual) }
}

fn with_keys(name: &str, keys: &[&'static str]) -> Definition {
    let exclusive = ExclusiveKeys::new(keys.iter().map(|key| Text::Borrowed(key))).unwrap();
    Definition {
        flow: FlowControl { exclusive, ..FlowControl::default() },
        ..definition(name, ScheduleKind::Manual)
    }
}

fn submit(node: &Node, job: JobId, time: &str) -> RunId {
    id(&now_or_never(node.submit(vec![one_shot(job, time)])).unwrap())
}

/// Ends what is sent, one call after the other, until nothing is sent any more.
fn one_by_one(house: &House, node: &Node) -> Vec<Dispatched> {
    let mut all = Vec::new();
    loop {
        house.step(node);
        let sends = house.take_sends();
        assert!(sends.len() <= 1, "{} at once", sends.len());
        let Some(send) = sends.into_iter().next() else { return all };
        house.report(node, &send, AttemptOutcome::Succeeded);
        all.push(send);
    }
}

#[test]
fn runs_go_by_class_then_by_priority_then_by_due_time() {
    let house = House::with(single());
    let node = house.node();
    let urgent = Definition { priority: 0, ..of_class("urgent query", Some("query")) };
    let jobs = [
        of_class("query", Some("query")),
        urgent,
        of_class("unnamed", None),
        of_class("source", Some("source")),
        of_class("output", Some("output")),
    ];
    let jobs = jobs.map(|job| house.create(&node, job));
    for (number, job) in jobs.iter().enumerate() {
        submit(&node, *job, &format!("10:00:10.{number}00"));
        submit(&node, *job, &format!("10:00:11.{number}00"));
    }
    // All of them are due before the node looks.
    house.step(&node);
    house.set("10:00:12");
    let order: Vec<String> =
        one_by_one(&house, &node).iter().map(|send| send.job.definition.name.clone()).collect();
    let expected = ["output", "source", "unnamed", "urgent query", "query"];
    assert_eq!(order, expected.map(|name| [name; 2]).concat());
}

#[test]
fn a_job_whose_class_is_edited_goes_by_the_new_one_although_its_runs_are_due() {
    let house = House::with(single());
    let node = house.node();
    let (first, second) = (
        house.create(&node, of_class("a", Some("output"))),
        house.create(&node, of_class("b", Some("query"))),
    );
    house.create(&node, definition("other", ScheduleKind::Manual));
    for job in [first, first, second, second] {
        submit(&node, job, "10:00:10");
    }
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1, "one call at a time: {sends:?}");
    for (job, edited) in [(first, of_class("a", Some("query"))), (second, of_class("b", Some("output")))] {
        now_or_never(node.change(job, None, edited, "test".into())).unwrap();
    }
    house.step(&node);
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    let order: Vec<JobId> = one_by_one(&house, &node).iter().map(|send| send.job.id).collect();
    assert_eq!(order, [second, second, first]);
}

#[test]
fn no_more_runs_of_a_class_are_under_way_than_its_limit() {
    let mut classes = Classes::default();
    assert!(classes.limit("query", 2));
    let house = House::with(Settings { classes, ..Settings::default() });
    let node = house.node();
    let queries = ["a", "b", "c"].map(|name| house.create(&node, of_class(name, Some("query"))));
    let other = house.create(&node, of_class("other", None));
    for job in queries.into_iter().chain([other, other, other]) {
        submit(&node, job, "10:00:10");
    }
    house.until(&[&node], "10:00:12");
    let sends = house.take_sends();
    let is_query = |send: &&Dispatched| send.job.definition.flow.class.is_some();
    assert_eq!((sends.len(), sends.iter().filter(is_query).count()), (5, 2));
    let first = sends.iter().find(is_query).unwrap();
    house.report(&node, first, AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 1);
}

#[test]
fn a_spread_run_is_sent_later_and_keeps_its_fire_time() {
    let house = House::new();
    let node = house.node();
    let flow = FlowControl { jitter: Duration::from_secs(20), ..FlowControl::default() };
    let job = house.create(&node, Definition { flow, ..definition("spread", every(60)) });
    let fire_time = at("10:01:00");
    let due = punctual_core::policy::jitter::delay(job, fire_time, Duration::from_secs(20));
    let due = fire_time.saturating_add(due);
    assert!(due > fire_time.saturating_add(Duration::from_secs(1)), "an instant that is delayed: {due}");
    while house.now() < due.saturating_add(Duration::from_secs(1)) {
        assert!(house.now() >= due || house.outside.sends.lock().unwrap().is_empty());
        let next = house.later(Duration::from_millis(250));
        house.until(&[&node], &next);
    }
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    assert_eq!(sends[0].fire_time, fire_time);
    assert!(sends[0].sent_at >= due && sends[0].sent_at < due.saturating_add(Duration::from_millis(300)));
}

#[test]
fn runs_that_share_a_key_never_overlap_on_any_node() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    let jobs: Vec<JobId> =
        (0..6).map(|number| house.create(&first, with_keys(&format!("{number}"), &["a"]))).collect();
    let free = house.create(&first, definition("free", ScheduleKind::Manual));
    for job in jobs.iter().chain([&free]) {
        submit(&first, *job, "10:00:10");
    }
    let mut sent = Vec::new();
    while sent.len() < 6 {
        let next = house.later(Duration::from_millis(250));
        house.until(&[&first, &second], &next);
        assert!(house.now() < at("10:00:30"), "{} were sent", sent.len());
        for send in house.take_sends() {
            if send.job.id == free {
                house.report(&first, &send, AttemptOutcome::Succeeded);
                continue;
            }
            let quiet = house.later(Duration::from_secs(1));
            house.until(&[&first, &second], &quiet);
            let others = house.take_sends();
            assert!(others.iter().all(|other| other.job.id == free), "{send:?} and {others:?}");
            // Either node may take the report; the holder of the shard hears of it.
            house.report(&first, &send, AttemptOutcome::Succeeded);
            sent.push(send.job.id);
        }
    }
    sent.sort_unstable();
    assert_eq!(sent, jobs);
}

#[test]
fn a_run_keeps_its_keys_between_two_attempts_and_gives_them_back_when_it_is_cancelled() {
    let house = House::new();
    let node = house.node();
    let (first, second) = (
        house.create(&node, with_keys("first", &["a", "b"])),
        house.create(&node, with_keys("second", &["b"])),
    );
    let run = submit(&node, first, "10:00:10");
    submit(&node, second, "10:00:10.250");
    house.until(&[&node], "10:00:11");
    let sends = house.take_sends();
    assert_eq!(sends.iter().map(|send| send.job.id).collect::<Vec<_>>(), [first]);
    house.report(&node, &sends[0], AttemptOutcome::Failed);
    house.until(&[&node], "10:00:11.750");
    assert_eq!(house.sent(), Vec::<String>::new(), "its second attempt is a second later");
    now_or_never(node.cancel(run)).unwrap();
    house.until(&[&node], "10:00:12.500");
    assert_eq!(house.take_sends().iter().map(|send| send.job.id).collect::<Vec<_>>(), [second]);
}

#[test]
fn keys_of_a_run_count_in_place_of_those_of_its_job() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, with_keys("job", &["a"]));
    let own = |keys: &[&'static str]| {
        let exclusive = ExclusiveKeys::new(keys.iter().map(|key| Text::Borrowed(key))).ok();
        let overrides = Overrides { exclusive, ..Overrides::default() };
        Submission { overrides, ..one_shot(job, "10:00:10") }
    };
    let runs = vec![own(&["b"]), own(&[]), own(&["b"]), one_shot(job, "10:00:10"), one_shot(job, "10:00:10")];
    now_or_never(node.submit(runs)).unwrap();
    house.until(&[&node], "10:00:12");
    assert_eq!(house.take_sends().len(), 3, "one with b, one without a key, one with a");
}

#[test]
fn a_key_stays_with_a_run_whose_node_died_until_that_run_has_ended() {
    let house = House::new();
    let first = house.node();
    let jobs = ["one", "two"].map(|name| house.create(&first, with_keys(name, &["a"])));
    for job in jobs {
        submit(&first, job, "10:00:10");
    }
    house.until(&[&first], "10:00:11");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    drop(first);
    house.until(&[], "10:00:20");
    let second = house.node();
    house.until(&[&second], "10:00:40");
    assert_eq!(house.take_sends().len(), 0, "the first may still be running");
    house.report(&second, &sends[0], AttemptOutcome::Succeeded);
    house.until(&[&second], "10:00:41");
    let after = house.take_sends();
    assert_eq!(after.len(), 1);
    assert_ne!(after[0].job.id, sends[0].job.id);
}

#[test]
fn a_run_that_is_called_and_does_not_ask_keeps_no_other_from_its_key() {
    let house = House::new();
    let node = house.node();
    let first = house.create(&node, with_keys("first", &["a"]));
    let target = Target::Executor(Executor::of("nobody has this"));
    let second = house.create(&node, Definition { target, ..with_keys("second", &["a"]) });
    let third = house.create(&node, with_keys("third", &["a"]));
    for (job, time) in [(first, "10:00:10"), (second, "10:00:10.250"), (third, "10:00:10.500")] {
        submit(&node, job, time);
    }
    house.until(&[&node], "10:00:11");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.until(&[&node], "10:00:13");
    let jobs: Vec<JobId> = house.take_sends().iter().map(|send| send.job.id).collect();
    assert_eq!(jobs, [third], "the second waits for an executor, and has no key meanwhile");
}
