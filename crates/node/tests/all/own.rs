//! One-shots that have their own timeout and retry: those count in place of the job's, on the node that sends them, on
//! the node that hears of them, and on the node that takes them over.

use std::time::Duration;

use punctual_core::model::{
    AttemptOutcome, Definition, Executor, JobId, Overrides, RunId, RunState, ScheduleKind, Target,
};
use punctual_core::policy::{Retry, Route};
use punctual_node::ports::{Accepted, AttemptRow, Dispatched};
use punctual_node::{DeskError, Node, Submission};

use crate::executors::until;
use crate::house::{House, at, definition, now_or_never};
use crate::natives::{claim, come, credit};

const ONE: &str = "http://one:9999/";
const NATIVE: &str = "native:one/1";

/// A job that tries twice and gives an attempt half a minute, for an agent.
fn for_agent() -> Definition {
    let retry = Retry { max_attempts: 2, ..Retry::default() };
    Definition { retry, ..definition("job", ScheduleKind::Manual) }
}

/// The same for executors.
fn for_executors(route: Route) -> Definition {
    let target = Target::Executor(Executor { route, ..Executor::of("demo") });
    Definition { target, ..for_agent() }
}

fn tries(max_attempts: u32) -> Overrides {
    Overrides { retry: Some(Retry { max_attempts, ..Retry::default() }), ..Overrides::default() }
}

fn takes(seconds: u64) -> Overrides {
    Overrides { timeout: Some(Duration::from_secs(seconds)), ..tries(1) }
}

fn shot(job: JobId, overrides: Overrides) -> Submission {
    Submission {
        job,
        at: Some(at("10:00:10")),
        payload: Some("{}".into()),
        key: None,
        priority: None,
        overrides,
    }
}

fn submit(node: &Node, job: JobId, overrides: Overrides) -> RunId {
    match now_or_never(node.submit(vec![shot(job, overrides)])).unwrap()[0] {
        Accepted::New(id) | Accepted::Duplicate(id) => id,
    }
}

/// The one attempt that was sent.
fn only(house: &House) -> Dispatched {
    let mut sends = house.take_sends();
    assert_eq!(sends.len(), 1, "{sends:?}");
    sends.remove(0)
}

fn outcomes(house: &House, run: RunId) -> Vec<AttemptOutcome> {
    let ended = |row: AttemptRow| match row {
        AttemptRow::Ended(record) => Some(record.outcome),
        AttemptRow::Open { .. } => None,
    };
    house.run(run).attempts.into_iter().filter_map(ended).collect()
}

/// Another node, after the term of the one that died.
fn successor(house: &House, beating: &[&str]) -> Node {
    let node = house.node();
    while node.shards_held() == 0 {
        until(house, &node, beating, &house.later(Duration::from_millis(250)));
    }
    node
}

#[test]
fn it_is_tried_as_often_as_it_says_and_waits_as_long() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_agent());
    let once = submit(&node, job, tries(1));
    house.until(&[&node], "10:00:10");
    house.report(&node, &only(&house), AttemptOutcome::Failed);
    assert_eq!(house.run(once).state, RunState::Failed, "its job would try again");
    let initial_delay = Duration::from_secs(5);
    let retry = Some(Retry { max_attempts: 3, initial_delay, ..Retry::default() });
    let thrice = submit(&node, job, Overrides { retry, ..Overrides::default() });
    house.step(&node);
    for (attempt, by) in [(1, "10:00:16.250"), (2, "10:00:28.750")] {
        let send = only(&house);
        assert_eq!(send.attempt.0, attempt);
        house.report(&node, &send, AttemptOutcome::Failed);
        house.until(&[&node], &house.later(Duration::from_millis(4_750)));
        assert!(house.take_sends().is_empty(), "it waits for five seconds, and then for ten");
        house.until(&[&node], by);
    }
    house.report(&node, &only(&house), AttemptOutcome::Failed);
    assert_eq!(outcomes(&house, thrice), [AttemptOutcome::Failed; 3]);
    assert_eq!(house.run(thrice).state, RunState::Failed);
}

#[test]
fn it_is_sent_with_its_own_time_and_nobody_sees_how_that_is_kept() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_agent());
    let run = submit(&node, job, takes(3));
    let bare = Submission { payload: None, ..shot(job, takes(4)) };
    now_or_never(node.submit(vec![bare, shot(job, Overrides::default())])).unwrap();
    house.until(&[&node], "10:00:10");
    let mut sends = house.take_sends();
    sends.sort_by_key(|send| send.run);
    let seen: Vec<_> = sends.iter().map(|send| (send.timeout.as_secs(), send.payload.as_deref())).collect();
    assert_eq!(seen, [(3, Some("{}")), (4, None), (30, Some("{}"))]);
    house.until(&[&node], "10:00:22.750");
    assert_eq!(house.run(run).state, RunState::Running, "three seconds, and ten for the way");
    house.until(&[&node], "10:00:23.500");
    assert_eq!(house.run(run).state, RunState::Lost, "it is not tried again");
}

#[test]
fn a_job_that_changes_does_not_change_what_it_brought() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_agent());
    let run = submit(&node, job, takes(3));
    let changed = Definition { timeout: Duration::from_secs(70), retry: Retry::default(), ..for_agent() };
    now_or_never(node.change(job, None, changed, "me".into())).unwrap();
    house.until(&[&node], "10:00:10");
    let send = only(&house);
    assert_eq!(send.timeout.as_secs(), 3);
    house.report(&node, &send, AttemptOutcome::Failed);
    assert_eq!(house.run(run).state, RunState::Failed);
}

#[test]
fn running_it_again_by_hand_carries_it_over() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_agent());
    let run = submit(&node, job, takes(3));
    house.until(&[&node], "10:00:10");
    house.report(&node, &only(&house), AttemptOutcome::Failed);
    let again = now_or_never(node.retry(run)).unwrap();
    house.step(&node);
    let send = only(&house);
    assert_eq!((send.run, send.timeout.as_secs(), send.payload.as_deref()), (again, 3, Some("{}")));
    house.report(&node, &send, AttemptOutcome::Failed);
    assert_eq!(house.run(again).state, RunState::Failed);
    assert_eq!(house.run(again).overrides.as_deref(), Some(&takes(3)));
}

#[test]
fn time_is_needed_and_without_it_nothing_is_taken() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, for_agent());
    let refused = now_or_never(node.submit(vec![shot(job, tries(1)), shot(job, takes(0))]));
    let Err(DeskError::Invalid { pointer, reason }) = refused else { panic!("{refused:?}") };
    assert_eq!((&*pointer, &*reason), ("/runs/1/timeout", "an attempt needs some time"));
    assert!(house.runs().is_empty());
}

#[test]
fn a_node_that_did_not_send_it_judges_it_by_what_it_brought() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:05");
    let job = house.create(&first, for_agent());
    let shots = (0..20).map(|_| shot(job, tries(1))).collect();
    now_or_never(first.submit(shots)).unwrap();
    house.until(&[&first, &second], "10:00:12");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 20);
    assert!(first.shards_held() > 0 && second.shards_held() > 0);
    sends.iter().for_each(|send| _ = house.report(&second, send, AttemptOutcome::Failed));
    house.until(&[&first, &second], "10:00:20");
    assert!(house.take_sends().is_empty(), "none is tried again");
    assert!(house.runs().iter().all(|run| run.state == RunState::Failed), "{:?}", house.history());
}

#[test]
fn after_a_hand_over_a_failure_is_judged_by_what_it_brought() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, for_agent());
    let run = submit(&first, job, tries(1));
    house.until(&[&first], "10:00:10");
    let send = only(&house);
    now_or_never(first.leave()).unwrap();
    drop(first);
    let second = house.node();
    house.until(&[&second], "10:00:10.500");
    house.report(&second, &send, AttemptOutcome::Failed);
    house.until(&[&second], "10:00:20");
    assert!(house.take_sends().is_empty());
    assert_eq!(
        (house.run(run).state, outcomes(&house, run)),
        (RunState::Failed, vec![AttemptOutcome::Failed])
    );
}

#[test]
fn whoever_takes_it_over_gives_its_executor_the_time_that_it_brought() {
    for (own, over) in [(100, Some("10:02:00")), (2, None)] {
        let house = House::new();
        let first = house.node();
        let job = house.create(&first, for_executors(Route::First));
        let run = submit(&first, job, takes(own));
        until(&house, &first, &[ONE], "10:00:10");
        assert_eq!(only(&house).timeout.as_secs(), own);
        drop(first);
        let second = successor(&house, &[ONE]);
        // Even where that is over by then, the executor has time to say again what it may have said to nobody.
        let over = over.map_or_else(|| house.later(Duration::from_secs(40)), str::to_owned);
        let just_before = at(&over).as_millis() - 250;
        let just_before = calendar::Timestamp::from_millis(just_before).to_string();
        until(&house, &second, &[ONE], just_before[11..].trim_end_matches('Z'));
        assert_eq!(
            house.run(run).state,
            RunState::Running,
            "{own} seconds, and ten for the way, or forty from now"
        );
        until(&house, &second, &[ONE], &house.later(Duration::from_millis(1_000)));
        assert_eq!(house.run(run).state, RunState::Failed, "{own}: it is not tried again");
        assert_eq!(outcomes(&house, run), [AttemptOutcome::TimedOut]);
        assert!(house.take_sends().is_empty());
    }
}

#[test]
fn what_waits_between_two_attempts_is_taken_over_with_what_it_brought() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, for_executors(Route::First));
    let overrides = Overrides { timeout: Some(Duration::from_secs(50)), ..tries(4) };
    let run = submit(&first, job, overrides);
    until(&house, &first, &[ONE], "10:00:10");
    house.report(&first, &only(&house), AttemptOutcome::Failed);
    drop(first);
    let second = successor(&house, &[ONE]);
    // The second attempt has no gate, so it did not go out when its node died.
    let mut sent = 1;
    while house.run(run).state != RunState::Failed {
        until(&house, &second, &[ONE], &house.later(Duration::from_secs(1)));
        for send in house.take_sends() {
            sent += 1;
            assert_eq!((send.attempt.0, send.timeout.as_secs()), (sent, 50));
            house.report(&second, &send, AttemptOutcome::Failed);
        }
        assert!(house.now() < at("10:02:00"), "{:?}", house.history());
    }
    assert_eq!(outcomes(&house, run), [AttemptOutcome::Failed; 4], "its job would have ended at the third");
}

#[test]
fn the_parts_of_a_broadcast_have_what_the_whole_brought() {
    for is_taken_over in [false, true] {
        let house = House::new();
        let first = house.node();
        let job = house.create(&first, for_executors(Route::ShardingBroadcast));
        let run = submit(&first, job, takes(20));
        until(&house, &first, &[ONE], "10:00:10");
        let send = only(&house);
        assert!(send.part.is_some());
        assert_eq!((send.timeout.as_secs(), send.payload.as_deref()), (20, Some("{}")));
        let node = if is_taken_over {
            drop(first);
            successor(&house, &[ONE])
        } else {
            first
        };
        house.report(&node, &send, AttemptOutcome::Failed);
        until(&house, &node, &[ONE], &house.later(Duration::from_secs(5)));
        assert!(house.take_sends().is_empty(), "the part is not tried again");
        assert_eq!(house.run(run).state, RunState::Failed);
    }
}

#[test]
fn what_a_native_executor_holds_after_a_restart_has_the_time_that_it_brought() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, for_executors(Route::First));
    come(&first, NATIVE, &[], vec![]);
    credit(&first, NATIVE, 1);
    let run = submit(&first, job, takes(100));
    house.until(&[&first], "10:00:10");
    let send = only(&house);
    drop(first);
    let second = house.node();
    while second.shards_held() == 0 {
        house.until(&[&second], &house.later(Duration::from_millis(100)));
    }
    assert!(come(&second, NATIVE, &[], vec![claim(&send)]).1.is_empty());
    house.until(&[&second], "10:01:45");
    assert_eq!(house.run(run).state, RunState::Running, "its job would have given it up");
    house.report(&second, &send, AttemptOutcome::Failed);
    house.until(&[&second], "10:01:50");
    assert_eq!((house.run(run).state, house.take_sends().len()), (RunState::Failed, 0));
}
