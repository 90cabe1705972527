//! Executors: who is there, who gets what, and what becomes of work that they took.

use std::time::Duration;

use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, Definition, Executor, JobId, LogId, RunState, ScheduleKind, Target,
};
use punctual_core::policy::{Block, Retry, Route};
use punctual_core::registry::{ChangeKind, Dialect};
use punctual_node::ports::{
    AttemptRow, Beat, Browse, Dispatched, Further, Heard, Probe, Probed, Report, RunView, Unclear,
};
use punctual_node::{ByHand, Cancelled, Node, RegistrySettings, Settings};

use crate::house::{House, at, definition, every, now_or_never};
use crate::truth::first_lags;

pub(crate) const ONE: &str = "http://one:9999/";
const TWO: &str = "http://two:9999/";

pub(crate) fn routed(schedule: ScheduleKind, route: Route) -> Definition {
    let target = Target::Executor(Executor { route, ..Executor::of("demo") });
    let retry = Retry { max_attempts: 2, ..Retry::default() };
    Definition { target, retry, ..definition("job", schedule) }
}

pub(crate) fn beat(node: &Node, address: &str) {
    let beat = Beat { app: "app".into(), address: address.to_owned().into(), dialect: Dialect::Classic };
    now_or_never(node.beat(beat)).unwrap();
}

fn leave(node: &Node, address: &str) {
    now_or_never(node.executor_left("app", address)).unwrap();
}

fn places(sends: &[Dispatched]) -> Vec<String> {
    sends.iter().map(|send| send.address.as_ref().unwrap().url.to_string()).collect()
}

/// Lets time pass while these executors beat, and answer every node that asks whether they are there.
pub(crate) fn until(house: &House, node: &Node, beating: &[&str], time: &str) {
    while house.now() < at(time) {
        beating.iter().for_each(|address| beat(node, address));
        answer(house, node, |_| Some(true));
        house.until(&[node], &house.later(Duration::from_secs(1)).min(time.to_owned()));
    }
}

/// Answers every probe: an executor is there if `is_there` says so.
pub(crate) fn answer(house: &House, node: &Node, is_there: impl Fn(&str) -> Option<bool>) {
    for probe in house.take_probes() {
        let heard = match probe {
            Probe::Alive { address } => Probed::Alive {
                app: address.app,
                is_there: is_there(&address.url).is_some(),
                url: address.url,
            },
            Probe::Has { job, address } => {
                Probed::Has { job, app: address.app, has: is_there(&address.url), url: address.url }
            }
            Probe::Choose { run, attempt, addresses, .. } => {
                let mut urls = addresses.into_iter().map(|address| address.url);
                let url = urls.find(|url| is_there(url).is_some());
                Probed::Chosen { run, attempt, url, said: "".into() }
            }
        };
        node.heard(vec![Heard::Probed(heard)]);
    }
}

pub(crate) fn log_of(house: &House, run: &RunView) -> LogId {
    now_or_never(house.store.sends(run.id)).unwrap().last().unwrap().log
}

fn attempts(run: &RunView) -> Vec<String> {
    let show = |attempt: &AttemptRow| match attempt {
        AttemptRow::Ended(record) => format!("{}: {}", record.outcome, record.message),
        AttemptRow::Open { .. } => "open".into(),
    };
    run.attempts.iter().map(show).collect()
}

// --- who is there ---

#[test]
fn an_executor_that_is_silent_for_80_seconds_is_kept_and_after_100_it_is_gone() {
    let house = House::new();
    let node = house.node();
    let timeout = Duration::from_secs(3_600);
    house.create(&node, Definition { timeout, ..routed(every(10), Route::First) });
    beat(&node, ONE);
    house.until(&[&node], "10:01:20");
    assert_eq!(places(&house.take_sends()), [ONE; 8]);
    house.until(&[&node], "10:01:40");
    assert_eq!(places(&house.take_sends()), [ONE], "the one at 90 seconds, and none at 100");
    beat(&node, ONE);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE], "what waited goes at once when it returns");
    let told = |event: Event| match event {
        Event::Executor { what, .. } => Some(what),
        _ => None,
    };
    let told: Vec<_> = node.take_events().into_iter().filter_map(told).collect();
    assert_eq!(told, [ChangeKind::Joined, ChangeKind::Missed, ChangeKind::Died, ChangeKind::Joined]);
}

#[test]
fn one_that_says_goodbye_gets_nothing_from_then_on() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(every(10), Route::Round));
    beat(&node, ONE);
    beat(&node, TWO);
    house.until(&[&node], "10:00:20");
    let mut both = places(&house.take_sends());
    both.sort();
    assert_eq!(both, [ONE, TWO]);
    house.until(&[&node], "10:00:29.750");
    leave(&node, ONE);
    house.until(&[&node], "10:00:40");
    assert_eq!(places(&house.take_sends()), [TWO, TWO]);
}

#[test]
fn a_registry_or_an_app_that_is_full_takes_no_new_executor_and_says_so() {
    let house = House::new();
    let node = house.node();
    house.until(&[&node], "10:00:05");
    let beat_as = |app: &str, address: String| {
        let (app, address) = (app.to_owned().into(), address.into());
        now_or_never(node.beat(Beat { app, address, dialect: Dialect::Classic }))
    };
    let address = |number: u32| format!("http://executor-{number}:9999/");
    let refused = |app: &str| {
        node.take_events();
        let said = beat_as(app, ONE.into()).expect_err("it is full").to_string();
        let is_told =
            |event: &Event| matches!(event, Event::RegistrationRefused { address, .. } if address == ONE);
        assert!(node.take_events().iter().any(is_told));
        said
    };
    (0..25_000).for_each(|number| beat_as("one", address(number)).unwrap());
    assert!(refused("one").contains("all one app may have"));
    for app in ["two", "three", "four"] {
        (0..25_000).for_each(|number| beat_as(app, address(number)).unwrap());
    }
    assert!(refused("five").contains("all this cluster keeps"));
    beat_as("one", address(7)).expect("it is known");
}

#[test]
fn what_another_node_heard_is_known_within_seconds() {
    let house = House::new();
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:05");
    house.create(&first, routed(every(10), Route::First));
    beat(&second, ONE);
    house.until(&[&first, &second], "10:00:12");
    assert_eq!(places(&house.take_sends()), [ONE]);
}

#[test]
fn one_that_does_not_answer_is_passed_over_before_its_beats_are_missed() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(every(30), Route::First));
    beat(&node, ONE);
    beat(&node, TWO);
    while house.now() < at("10:00:20") {
        house.until(&[&node], &house.later(Duration::from_secs(1)));
        answer(&house, &node, |url| (url == TWO).then_some(false));
    }
    house.until(&[&node], "10:00:30");
    assert_eq!(places(&house.take_sends()), [TWO]);
}

#[test]
fn without_an_executor_a_run_waits_a_minute_and_then_fails_with_that_reason() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(ScheduleKind::Once { at: at("10:00:10") }, Route::Round));
    house.until(&[&node], "10:01:09");
    assert_eq!(house.history(), ["10:00:10 pending"]);
    house.until(&[&node], "10:01:11");
    assert_eq!(house.history(), ["10:00:10 failed (no executor: none of app app is registered)"]);
    assert!(house.runs()[0].attempts.is_empty());
}

#[test]
fn one_that_comes_within_the_minute_gets_what_waited() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(ScheduleKind::Once { at: at("10:00:10") }, Route::Round));
    house.until(&[&node], "10:00:50");
    beat(&node, ONE);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE]);
}

// --- who gets what ---

#[test]
fn failover_asks_them_in_order_and_takes_the_first_that_answers() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(every(10), Route::Failover));
    beat(&node, ONE);
    beat(&node, TWO);
    house.until(&[&node], "10:00:10");
    assert!(house.take_sends().is_empty(), "nobody was asked yet");
    let choosing = |probe: &Probe| matches!(probe, Probe::Choose { addresses, .. } if addresses.len() == 2);
    assert_eq!(house.probes().iter().filter(|probe| choosing(probe)).count(), 1);
    answer(&house, &node, |url| (url == TWO).then_some(false));
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [TWO]);
}

#[test]
fn when_nobody_is_free_it_asks_again_until_its_patience_ends() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(ScheduleKind::Once { at: at("10:00:10") }, Route::Busyover));
    beat(&node, ONE);
    let mut asked = 0;
    while house.now() < at("10:01:12") {
        house.until(&[&node], &house.later(Duration::from_secs(1)));
        beat(&node, ONE);
        for probe in house.take_probes() {
            if let Probe::Choose { run, attempt, .. } = probe {
                asked += 1;
                let said = "busy".into();
                node.heard(vec![Heard::Probed(Probed::Chosen { run, attempt, url: None, said })]);
            }
        }
    }
    assert!((6..=20).contains(&asked), "{asked}: every few seconds, no storm");
    assert_eq!(house.history(), ["10:00:10 failed (no executor: none of app app was free: busy)"]);
}

#[test]
fn a_run_by_hand_goes_to_the_executor_that_was_named_or_nowhere() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, routed(ScheduleKind::Manual, Route::First));
    beat(&node, ONE);
    beat(&node, TWO);
    let by_hand = |executor: &'static str| ByHand {
        payload: Some("[1]".into()),
        executor: Some(executor.into()),
        ..ByHand::default()
    };
    now_or_never(node.run_now(job, by_hand("http://two:9999"))).unwrap();
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(places(&sends), [TWO]);
    assert_eq!(sends[0].payload.as_deref(), Some("[1]"));
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    now_or_never(node.run_now(job, by_hand("http://three:9999"))).unwrap();
    until(&house, &node, &[ONE, TWO], "10:01:02");
    assert!(house.take_sends().is_empty());
    let reason = "none of app app was free: http://three:9999, which it was started for, is not there";
    assert!(house.history().iter().any(|run| run.contains(reason)), "{:?}", house.history());
}

#[test]
fn an_unclear_answer_is_told_when_the_attempt_is_given_up() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 30);
    let (run, attempt) = (house.runs()[0].id, Attempt::FIRST);
    node.heard(vec![Heard::Unclear(Unclear { run, attempt, said: "a web page".into() })]);
    answering(&house, &node, "10:01:00", Some(true), true);
    let said = "timed_out: the executor reported no end within the timeout; when it was sent, the answer was unclear: a web page";
    assert_eq!(attempts(&house.runs()[0])[0], said);
}

#[test]
fn covering_tells_an_executor_with_a_session_to_end_what_it_runs_and_then_sends_the_new_one() {
    const NATIVE: &str = "native:one/1";
    let house = House::new();
    let node = house.node();
    let definition = Definition { block: Block::Cover, ..routed(every(10), Route::First) };
    house.create(&node, definition);
    crate::natives::come(&node, NATIVE, &[], vec![]);
    crate::natives::credit(&node, NATIVE, 5);
    house.until(&[&node], "10:00:20");
    assert_eq!(house.sent(), ["10:00:10 #1", "10:00:20 #1"]);
    let kills = house.outside.kills.lock().unwrap().clone();
    assert_eq!(kills.iter().map(|kill| &*kill.address.as_ref().unwrap().url).collect::<Vec<_>>(), [NATIVE]);
    let asked = |event: &Event| matches!(event, Event::KillAsked { .. });
    assert_eq!(node.take_events().iter().filter(|event| asked(event)).count(), 1);
}

#[test]
fn what_is_to_happen_when_runs_meet_is_left_to_executors_that_are_called() {
    for block in [Block::Serial, Block::Discard, Block::Cover] {
        let house = House::new();
        let node = house.node();
        house.create(&node, Definition { block, ..routed(every(10), Route::First) });
        beat(&node, ONE);
        house.until(&[&node], "10:00:20");
        let sends = house.take_sends();
        assert_eq!(places(&sends), [ONE, ONE], "{block}: the second is sent beside the first");
        assert!(sends.iter().all(|send| send.job.definition.block == block && send.log.is_some()), "{block}");
        assert_eq!(house.outside.kills.lock().unwrap().len(), 0, "{block}");
        assert_eq!(house.history(), ["10:00:10 running", "10:00:20 running"], "{block}");
    }
}

#[test]
fn an_executor_without_a_free_connection_delays_a_run_and_costs_it_no_attempt() {
    let house = House::new();
    let node = house.node();
    house.create(&node, routed(ScheduleKind::Once { at: at("10:00:10") }, Route::First));
    node.take_events();
    let next = |time: &str| {
        until(&house, &node, &[ONE], time);
        let mut sends = house.take_sends();
        assert_eq!(sends.len(), 1, "at {time}");
        sends.remove(0)
    };
    let mut send = next("10:00:10");
    for time in ["10:00:15", "10:00:20", "10:00:25", "10:00:30"] {
        let crowded = Report {
            message: "no connection was free in time; nothing was sent".into(),
            executor: ONE.into(),
            further: Further::Unsent,
            retry_after: Some(Duration::from_secs(5)),
            ..house.said(&send, AttemptOutcome::Refused)
        };
        node.report(crowded);
        now_or_never(node.settle());
        assert_eq!(house.history(), ["10:00:10 retrying"]);
        until(&house, &node, &[ONE], &house.later(Duration::from_secs(4)));
        assert_eq!(house.take_sends().len(), 0, "it is left alone until {time}");
        send = next(time);
    }
    let delayed = |event: &Event| matches!(event, Event::Delayed { .. });
    assert_eq!(node.take_events().iter().filter(|event| delayed(event)).count(), 4);
    // What fails now is the first of the job's two attempts that counts.
    house.report(&node, &send, AttemptOutcome::Failed);
    assert_eq!(house.history(), ["10:00:10 retrying"]);
    let last = next("10:00:33");
    house.report(&node, &last, AttemptOutcome::Failed);
    assert_eq!(house.history(), ["10:00:10 failed (said so)"]);
}

#[test]
fn attempts_that_found_no_room_do_not_count_after_a_takeover_either() {
    let house = House::new();
    let first = house.node();
    house.create(&first, routed(ScheduleKind::Once { at: at("10:00:10") }, Route::First));
    until(&house, &first, &[ONE], "10:00:10");
    for time in ["10:00:16", "10:00:22"] {
        let send = house.take_sends().remove(0);
        let crowded = Report {
            message: "no connection was free in time; nothing was sent".into(),
            executor: ONE.into(),
            further: Further::Unsent,
            retry_after: Some(Duration::from_secs(5)),
            ..house.said(&send, AttemptOutcome::Refused)
        };
        first.report(crowded);
        now_or_never(first.settle());
        until(&house, &first, &[ONE], time);
    }
    // The third attempt is on its way when the node dies, and fails at the next one.
    let send = house.take_sends().remove(0);
    drop(first);
    let second = house.node();
    until(&house, &second, &[ONE], "10:00:30");
    house.report(&second, &send, AttemptOutcome::Failed);
    assert_eq!(
        house.history(),
        ["10:00:10 retrying"],
        "it is the first of the job's two attempts that counts"
    );
    until(&house, &second, &[ONE], "10:00:35");
    let last = house.take_sends().remove(0);
    house.report(&second, &last, AttemptOutcome::Failed);
    assert_eq!(house.history(), ["10:00:10 failed (said so)"]);
}

#[test]
fn a_number_of_runs_side_by_side_is_kept_for_executors_that_are_called_too() {
    let house = House::new();
    let node = house.node();
    let block = Block::Concurrent(std::num::NonZeroU32::new(2));
    house.create(&node, Definition { block, timeout: HOUR, ..routed(every(10), Route::First) });
    beat(&node, ONE);
    house.until(&[&node], "10:00:40");
    assert_eq!(house.sent(), ["10:00:10 #1", "10:00:20 #1"]);
}

#[test]
fn runs_of_a_serial_job_that_meet_go_to_three_executors_by_busyover() {
    let three = [ONE, TWO, "http://three:9999/"];
    let house = House::new();
    let node = house.node();
    let route = routed(ScheduleKind::Manual, Route::Busyover);
    let job = house.create(&node, Definition { block: Block::Serial, ..route });
    three.iter().for_each(|address| beat(&node, address));
    let mut busy: Vec<String> = Vec::new();
    for _ in 0..3 {
        now_or_never(node.run_now(job, ByHand::default())).unwrap();
        house.step(&node);
        answer(&house, &node, |url| (!busy.iter().any(|busy| busy == url)).then_some(true));
        house.step(&node);
        busy.extend(places(&house.take_sends()));
    }
    assert_eq!(busy.len(), 3);
    let mut different = busy.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 3, "{busy:?}");
}

const HOUR: Duration = Duration::from_secs(3_600);

// --- in parts ---

fn broadcast(schedule: ScheduleKind) -> Definition {
    routed(schedule, Route::ShardingBroadcast)
}

fn shares(sends: &[Dispatched]) -> Vec<String> {
    let share = |send: &Dispatched| {
        let part = send.part.as_ref().unwrap();
        format!("{}/{} {}", part.index, part.total, send.address.as_ref().unwrap().url)
    };
    let mut shares: Vec<String> = sends.iter().map(share).collect();
    shares.sort();
    shares
}

fn parts(house: &House, run: &RunView) -> Vec<RunState> {
    now_or_never(house.store.parts(run.id)).unwrap().iter().map(|part| part.state).collect()
}

#[test]
fn a_broadcast_goes_to_everybody_in_parts_and_ends_when_all_have_ended() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, broadcast(ScheduleKind::Once { at: at("10:00:10") }));
    beat(&node, ONE);
    beat(&node, TWO);
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    assert_eq!(shares(&sends), [format!("0/2 {ONE}"), format!("1/2 {TWO}")]);
    assert_eq!(house.history(), ["10:00:10 running"], "one run, whose parts are not listed");
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 running"]);
    house.report(&node, &sends[1], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
    assert_eq!(parts(&house, &house.runs()[0]), [RunState::Succeeded; 2]);
    let counts = now_or_never(house.store.counts(Some(job))).unwrap();
    assert_eq!((counts.succeeded, counts.failed), (1, 0), "parts are not counted");
}

#[test]
fn a_part_that_fails_is_tried_again_alone_and_the_whole_fails_only_if_it_does() {
    let house = House::new();
    let node = house.node();
    house.create(&node, broadcast(every(60)));
    beat(&node, ONE);
    beat(&node, TWO);
    until(&house, &node, &[ONE, TWO], "10:01:00");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Failed);
    house.report(&node, &sends[1], AttemptOutcome::Succeeded);
    until(&house, &node, &[ONE, TWO], "10:01:03");
    let again = house.take_sends();
    assert_eq!(shares(&again), shares(&sends[..1]), "the same part at the same executor");
    assert_eq!(again[0].attempt.0, 2);
    house.report(&node, &again[0], AttemptOutcome::Failed);
    house.step(&node);
    assert_eq!(house.history()[0], "10:01:00 failed (1 of 2 parts succeeded)");
}

#[test]
fn a_part_whose_executor_is_gone_goes_to_another_with_the_same_index() {
    let house = House::new();
    let node = house.node();
    house.create(&node, broadcast(ScheduleKind::Once { at: at("10:00:10") }));
    beat(&node, ONE);
    beat(&node, TWO);
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    leave(&node, TWO);
    let second = sends.iter().find(|send| send.part.as_ref().unwrap().index == 1).unwrap();
    house.report(&node, second, AttemptOutcome::Refused);
    house.until(&[&node], "10:00:13");
    assert_eq!(shares(&house.take_sends()), [format!("1/2 {ONE}")]);
}

#[test]
fn cancelling_a_broadcast_ends_its_parts_and_tells_their_executors() {
    let house = House::new();
    let node = house.node();
    house.create(&node, broadcast(ScheduleKind::Once { at: at("10:00:10") }));
    beat(&node, ONE);
    beat(&node, TWO);
    house.until(&[&node], "10:00:10");
    let sends = house.take_sends();
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    let run = house.runs()[0].clone();
    assert_eq!(now_or_never(node.cancel(run.id)), Ok(Cancelled::InTime));
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 cancelled (cancelled)"]);
    assert_eq!(parts(&house, &run), [RunState::Succeeded, RunState::Cancelled]);
    assert_eq!(house.outside.kills.lock().unwrap().len(), 1);
}

#[test]
fn another_node_goes_on_with_a_broadcast_in_the_middle() {
    let house = House::new();
    let first = house.node();
    house.create(&first, broadcast(ScheduleKind::Once { at: at("10:00:10") }));
    beat(&first, ONE);
    beat(&first, TWO);
    house.until(&[&first], "10:00:10");
    let sends = house.take_sends();
    house.report(&first, &sends[0], AttemptOutcome::Succeeded);
    drop(first);
    let second = house.node();
    until(&house, &second, &[ONE, TWO], "10:00:16");
    assert!(house.take_sends().is_empty(), "what is out is not sent again");
    house.report(&second, &sends[1], AttemptOutcome::Succeeded);
    until(&house, &second, &[ONE, TWO], "10:00:18");
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
}

#[test]
fn a_broadcast_whose_last_part_ended_while_nobody_watched_is_joined_by_the_next_holder() {
    let house = House::new();
    let first = house.node();
    house.create(&first, broadcast(ScheduleKind::Once { at: at("10:00:10") }));
    beat(&first, ONE);
    house.until(&[&first], "10:00:10");
    let sends = house.take_sends();
    // The part is settled, and the node dies before it gets round to the whole.
    first.report(house.said(&sends[0], AttemptOutcome::Succeeded));
    now_or_never(first.settle());
    drop(first);
    let second = house.node();
    until(&house, &second, &[ONE], "10:00:20");
    assert_eq!(house.history(), ["10:00:10 succeeded"]);
}

// --- what becomes of what they took ---

/// A node that asks soon.
fn doubting() -> House {
    let (doubt, away) = (Duration::from_secs(10), Duration::from_secs(60));
    let registry = RegistrySettings { doubt, away, ..RegistrySettings::default() };
    House::with(Settings { registry, ..Settings::default() })
}

pub(crate) fn one_run(house: &House, node: &Node, timeout: u64) -> JobId {
    let timeout = Duration::from_secs(timeout);
    let schedule = ScheduleKind::Once { at: at("10:00:10") };
    let job = house.create(node, Definition { timeout, ..routed(schedule, Route::First) });
    beat(node, ONE);
    until(house, node, &[ONE], "10:00:10");
    assert_eq!(places(&house.take_sends()), [ONE]);
    job
}

/// Lets time pass while the executor beats and answers so.
fn answering(house: &House, node: &Node, time: &str, has: Option<bool>, beats: bool) {
    while house.now() < at(time) {
        house.until(&[node], &house.later(Duration::from_secs(1)));
        if beats {
            beat(node, ONE);
        }
        answer(house, node, |_| has);
    }
    house.step(node);
}

#[test]
fn an_executor_that_says_it_has_the_run_is_given_its_time_and_then_told_to_end_it() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 300);
    answering(&house, &node, "10:05:19", Some(true), true);
    assert_eq!(house.history(), ["10:00:10 running"]);
    answering(&house, &node, "10:05:22", Some(true), true);
    let run = &house.runs()[0];
    assert_eq!(attempts(run)[0], "timed_out: the executor reported no end within the timeout");
    assert_eq!(house.outside.kills.lock().unwrap().len(), 1);
}

#[test]
fn one_that_always_says_it_is_idle_is_not_believed() {
    let house = doubting();
    let node = house.node();
    one_run(&house, &node, 300);
    answering(&house, &node, "10:04:00", Some(false), true);
    assert_eq!(house.history(), ["10:00:10 running"]);
}

#[test]
fn one_that_was_busy_and_is_idle_twice_without_a_word_has_lost_it() {
    let house = doubting();
    let node = house.node();
    one_run(&house, &node, 300);
    answering(&house, &node, "10:00:35", Some(true), true);
    answering(&house, &node, "10:01:10", Some(false), true);
    let run = &house.runs()[0];
    let lost = "lost: the executor has no such run any more, and reported nothing";
    assert_eq!(attempts(run), [lost, "open"]);
    let again = house.take_sends();
    assert!(again[0].possible_duplicate);
}

#[test]
fn what_a_dead_executor_had_is_lost_within_two_minutes_and_goes_elsewhere() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 3_600);
    while house.now() < at("10:02:10") {
        house.until(&[&node], &house.later(Duration::from_secs(1)));
        beat(&node, TWO);
        answer(&house, &node, |url| (url == TWO).then_some(true));
    }
    assert_eq!(attempts(&house.runs()[0]), ["lost: the executor is gone", "open"]);
    assert_eq!(places(&house.take_sends()), [TWO]);
}

#[test]
fn a_gate_whose_node_died_before_the_first_byte_is_found_by_asking() {
    let house = doubting();
    let first = house.node();
    one_run(&house, &first, 3_600);
    drop(first);
    let second = house.node();
    answering(&house, &second, "10:00:50", Some(false), true);
    let again = house.take_sends();
    assert_eq!(again.len(), 1, "the executor never got it, so it is sent again");
    assert!(again[0].possible_duplicate);
    assert_eq!(supposed(&house), [true], "nobody knows whether the first byte was sent");
    let lags = first_lags(&second);
    assert!(lags.len() == 1 && lags[0] >= 20_000, "it is as late as its first certain send: {lags:?}");
}

#[test]
fn a_gate_whose_node_died_leaves_a_late_run_also_if_the_shard_moves_before_it_is_sent_again() {
    let house = doubting();
    let first = house.node();
    one_run(&house, &first, 3_600);
    drop(first);
    let second = house.node();
    answering(&house, &second, "10:02:10", None, false);
    assert_eq!(supposed(&house), [true], "its executor is gone too, and there is no other");
    assert_eq!(house.take_sends().len(), 0);
    drop(second);
    let third = house.node();
    beat(&third, ONE);
    until(&house, &third, &[ONE], "10:02:20");
    assert_eq!(house.take_sends().len(), 1);
    let lags = first_lags(&third);
    assert!(lags.len() == 1 && lags[0] >= 120_000, "it is two minutes late: {lags:?}");
}

#[test]
fn an_executor_that_admits_to_a_run_of_the_job_says_nothing_about_a_gate_whose_node_died() {
    let house = doubting();
    let first = house.node();
    one_run(&house, &first, 3_600);
    drop(first);
    let second = house.node();
    answering(&house, &second, "10:00:30", Some(true), true);
    answering(&house, &second, "10:01:20", Some(false), true);
    assert_eq!(house.take_sends().len(), 1, "it is sent again");
    assert!(supposed(&house)[0], "what the executor had may have been another run");
}

#[test]
fn an_attempt_of_a_dead_node_that_is_cancelled_is_not_on_record_as_sent() {
    let house = doubting();
    let first = house.node();
    one_run(&house, &first, 3_600);
    drop(first);
    let second = house.node();
    answering(&house, &second, "10:00:20", Some(true), true);
    let run = house.runs()[0].id;
    assert_eq!(now_or_never(second.cancel(run)), Ok(Cancelled::InTime));
    assert_eq!(house.history(), ["10:00:10 cancelled (cancelled)"]);
    assert_eq!(supposed(&house), [true], "only its gate is known");
    assert_eq!(house.outside.kills.lock().unwrap().len(), 1, "it may be there all the same");
}

#[test]
fn an_attempt_that_was_taken_for_lost_goes_on_if_its_executor_admits_to_it_before_that_is_written() {
    let house = doubting();
    let node = house.node();
    let job = one_run(&house, &node, 300);
    answering(&house, &node, "10:00:35", Some(true), true);
    let says = |has| {
        let (app, url) = ("app".into(), ONE.into());
        node.heard(vec![Heard::Probed(Probed::Has { job, app, url, has: Some(has) })]);
    };
    says(false);
    house.until(&[&node], "10:00:46");
    says(false);
    says(true);
    house.step(&node);
    assert_eq!(house.history(), ["10:00:10 running"]);
    answering(&house, &node, "10:05:22", Some(true), true);
    assert_eq!(attempts(&house.runs()[0])[0], "timed_out: the executor reported no end within the timeout");
}

/// Of the attempts that have ended, which are only supposed.
fn supposed(house: &House) -> Vec<bool> {
    let is_supposed = |attempt: &AttemptRow| match attempt {
        AttemptRow::Ended(record) => Some(record.is_supposed()),
        AttemptRow::Open { .. } => None,
    };
    house.runs()[0].attempts.iter().filter_map(is_supposed).collect()
}

#[test]
fn an_executor_is_asked_about_its_first_attempt_within_two_seconds() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 3_600);
    house.take_probes();
    house.until(&[&node], "10:00:12");
    let is_asked = |probe: &Probe| matches!(probe, Probe::Has { address, .. } if address.url == ONE);
    assert_eq!(house.take_probes().iter().filter(|probe| is_asked(probe)).count(), 1);
}

#[test]
fn an_executor_that_could_not_report_while_the_store_was_away_has_time_to_say_it_again() {
    let house = House::new();
    let node = house.node();
    one_run(&house, &node, 1);
    until(&house, &node, &[ONE], "10:00:18");
    // Shorter than a lease, and its report, which nobody could take, comes again after 30 s.
    house.set("10:00:21.500");
    until(&house, &node, &[ONE], "10:00:50");
    assert_eq!(house.take_sends().len(), 0, "it is waited for");
    until(&house, &node, &[ONE], "10:01:10");
    assert_eq!(house.take_sends().len(), 1, "but not for ever");
}

// --- what they say ---
