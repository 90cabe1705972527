//! Native executors: how much they get, and what becomes of what they have when a connection or a node breaks.

use std::time::Duration;

use calendar::Outside;
use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, Definition, Executor, JobId, RunState, ScheduleKind, Target, Text, Token,
    WindowSpec,
};
use punctual_core::policy::{Block, Retry, Route};
use punctual_node::ports::{AttemptRow, Dispatched, Heard, Report, RunView, SessionKey};
use punctual_node::{Claim, Node, SessionId, Settings};

use crate::house::{House, at, definition, every, now_or_never};

const ONE: &str = "native:one/1";
const TWO: &str = "native:two/2";

fn job(route: Route) -> Definition {
    let target = Target::Executor(Executor { route, ..Executor::of("demo") });
    let retry = Retry { max_attempts: 2, ..Retry::default() };
    Definition { target, retry, ..definition("job", ScheduleKind::Manual) }
}

pub(crate) fn come(
    node: &Node,
    url: &str,
    handlers: &[&'static str],
    holds: Vec<Claim>,
) -> (SessionId, Vec<Claim>) {
    let handlers = handlers.iter().map(|name| Text::Borrowed(*name)).collect();
    now_or_never(node.native_came("app", url, handlers, holds, false)).unwrap()
}

fn go(node: &Node, url: &str, session: SessionId, is_final: bool) {
    now_or_never(node.native_went("app", url, session, is_final)).unwrap();
}

pub(crate) fn credit(node: &Node, url: &'static str, more: u32) {
    node.heard(vec![Heard::Credit { of: SessionKey::new("app", url), more }]);
}

fn start(node: &Node, job: JobId, count: usize) {
    for _ in 0..count {
        now_or_never(node.run_now(job, Default::default())).unwrap();
    }
}

fn places(sends: &[Dispatched]) -> Vec<String> {
    sends.iter().map(|send| send.address.as_ref().unwrap().url.to_string()).collect()
}

pub(crate) fn claim(send: &Dispatched) -> Claim {
    Claim { run: send.run, attempt: send.attempt, token: send.token }
}

fn attempts(run: &RunView) -> Vec<String> {
    let show = |attempt: &AttemptRow| match attempt {
        AttemptRow::Ended(record) => format!("{}: {}", record.outcome, record.message),
        AttemptRow::Open { .. } => "open".into(),
    };
    run.attempts.iter().map(show).collect()
}

fn states(house: &House) -> Vec<RunState> {
    house.runs().iter().map(|run| run.state).collect()
}

fn often() -> Retry {
    Retry { max_attempts: 10, ..Retry::default() }
}

/// What an executor of an app says about an attempt.
fn said(house: &House, send: &Dispatched, (app, url): (&'static str, &'static str)) -> Report {
    Report { app: Some(app.into()), executor: url.into(), ..house.said(send, AttemptOutcome::Failed) }
}

/// An attempt of a node that did not see the first attempt end.
fn later_attempt(house: &House) -> (Node, JobId, Dispatched) {
    let first = house.node();
    let job = house.create(&first, Definition { retry: often(), ..job(Route::Round) });
    come(&first, ONE, &[], vec![]);
    credit(&first, ONE, 10);
    start(&first, job, 1);
    house.step(&first);
    first.report(said(house, &house.take_sends().remove(0), ("app", ONE)));
    now_or_never(first.settle());
    drop(first);
    let second = house.node();
    come(&second, ONE, &[], vec![]);
    credit(&second, ONE, 10);
    house.until(&[&second], "10:00:20");
    let send = house.take_sends().remove(0);
    assert!(send.attempt > Attempt::FIRST);
    (second, job, send)
}

#[test]
fn an_executor_of_another_app_has_no_records_read() {
    let house = House::new();
    let (second, _, send) = later_attempt(&house);
    house.until(&[&second], "10:00:23");
    drop(second);
    let node = house.node();
    come(&node, ONE, &[], vec![claim(&send)]);
    house.step(&node);
    let before = house.record_reads();
    node.report(said(&house, &send, ("evil", ONE)));
    assert!(!house.settles_on(&node), "it is refused, and not judged again and again");
    assert_eq!((house.record_reads(), states(&house)), (before, vec![RunState::Running]));
    node.report(said(&house, &send, ("app", ONE)));
    now_or_never(node.settle());
    assert_eq!((house.record_reads(), states(&house)), (before + 1, vec![RunState::Retrying]));
}

#[test]
fn while_the_store_is_away_runs_go_that_need_nothing_from_it_behind_many_that_their_jobs_do_not_want() {
    let house = House::with(Settings { pause: Duration::from_secs(4), ..Settings::default() });
    let (second, _, send) = later_attempt(&house);
    drop(second);
    // A node that has not sent this attempt has not read how the one before it ended.
    house.set("10:00:30");
    let node = house.node();
    come(&node, ONE, &[], vec![claim(&send)]);
    house.step(&node);
    for number in 0..440 {
        let hours = if number < 400 { "22:00-23:00" } else { "00:00-22:00" };
        let (days, zone, outside) = ("*".into(), "UTC".into(), Outside::Skip);
        let windows = vec![WindowSpec { days, hours: hours.into(), zone, outside }];
        house.create(&node, Definition { windows, ..definition(&format!("job {number}"), every(4)) });
    }
    house.until(&[&node], "10:00:32");
    let sends = house.take_sends();
    assert_eq!(sends.len(), 40);
    for send in sends {
        house.report(&node, &send, AttemptOutcome::Succeeded);
    }
    house.until(&[&node], "10:00:34");
    node.take_events();
    house.set_records_away(true);
    node.report(said(&house, &send, ("app", ONE)));
    now_or_never(node.settle());
    assert!(matches!(node.take_events()[..], [Event::StoreFailed { .. }]));
    house.set("10:00:36.010");
    now_or_never(node.fire());
    assert_eq!(house.take_sends().len(), 40);
    house.set_records_away(false);
    house.until(&[&node], "10:00:37");
    let is_skipped = |run: &&RunView| run.state == RunState::Skipped && run.fire_time == at("10:00:36");
    assert_eq!(house.runs().iter().filter(is_skipped).count(), 400, "the others waited for the store");
}

#[test]
fn a_job_that_moves_to_another_app_still_hears_how_its_attempt_ended() {
    let house = House::new();
    let (node, job_id, send) = later_attempt(&house);
    let moved = Definition { app: "other".into(), retry: often(), ..job(Route::Round) };
    now_or_never(node.change(job_id, None, moved, "test".into())).unwrap();
    node.report(said(&house, &send, ("app", ONE)));
    assert!(!house.settles_on(&node), "it is settled, and not judged again and again");
    assert_eq!(states(&house), [RunState::Retrying]);
}

#[test]
fn an_executor_gets_what_it_has_credits_for_and_the_rest_when_it_takes_more() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    come(&node, ONE, &[], vec![]);
    start(&node, job, 5);
    house.step(&node);
    assert!(house.take_sends().is_empty(), "it has given no credit yet");
    credit(&node, ONE, 2);
    house.step(&node);
    let first = house.take_sends();
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|send| send.log.is_none()), "nothing is written before");
    assert_eq!(first[0].run.min(first[1].run), first[0].run, "in their order");
    credit(&node, ONE, 10);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 3);
}

#[test]
fn an_attempt_ends_when_its_executor_says_within_what_the_node_knows() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 3);
    start(&node, job, 3);
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(sends.len(), 3);
    let sent_at = node.now().unwrap();
    house.set("10:00:03");
    // An executor that was away says it later, and two lie.
    let came_at = node.now().unwrap();
    let times = [("10:00:01", at("10:00:01")), ("09:00:00", sent_at), ("11:00:00", came_at)];
    for (send, (said_at, _)) in sends.iter().zip(times) {
        let outcome = AttemptOutcome::Succeeded;
        node.report(Report { ended_at: Some(at(said_at)), outcome, ..said(&house, send, ("app", ONE)) });
    }
    now_or_never(node.settle());
    for (send, (_, expected)) in sends.iter().zip(times) {
        let run = house.run(send.run);
        let [AttemptRow::Ended(record)] = &run.attempts[..] else { panic!("{run:?}") };
        assert_eq!(record.ended_at, expected);
        assert!(record.started_at <= record.ended_at, "{record:?}");
    }
}

#[test]
fn who_waits_for_credits_waits_without_end_and_holds_nobody_up() {
    let house = House::new();
    let node = house.node();
    let slow = house.create(&node, job(Route::Round));
    let other = Target::Executor(Executor { route: Route::Round, ..Executor::of("other") });
    let other = house.create(&node, Definition { target: other, name: "other".into(), ..job(Route::Round) });
    come(&node, ONE, &["demo"], vec![]);
    come(&node, TWO, &["other"], vec![]);
    credit(&node, TWO, 100);
    start(&node, slow, 3);
    start(&node, other, 3);
    house.step(&node);
    let others = house.take_sends();
    assert_eq!(places(&others), [TWO, TWO, TWO]);
    for send in &others {
        house.report(&node, send, AttemptOutcome::Succeeded);
    }
    house.until(&[&node], "10:05:00");
    assert!(house.take_sends().is_empty());
    assert!(states(&house).iter().all(|state| *state != RunState::Failed));
    credit(&node, ONE, 100);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE, ONE, ONE]);
}

#[test]
fn a_handler_that_nobody_offers_is_waited_for_a_minute() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    come(&node, ONE, &["other"], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.until(&[&node], "10:01:02");
    let reason =
        "no executor: none of app app was free: nobody who has a session here offers the handler demo";
    assert!(house.history()[0].contains(reason), "{:?}", house.history());
}

#[test]
fn a_bound_route_waits_for_its_own_executor_and_a_free_one_takes_the_next() {
    let house = House::new();
    let node = house.node();
    let bound = house.create(&node, job(Route::First));
    come(&node, ONE, &[], vec![]);
    come(&node, TWO, &[], vec![]);
    credit(&node, TWO, 10);
    start(&node, bound, 1);
    house.step(&node);
    assert!(house.take_sends().is_empty(), "only the first may have it");
    let free = house.create(&node, Definition { name: "free".into(), ..job(Route::Round) });
    start(&node, free, 2);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [TWO, TWO]);
    credit(&node, ONE, 1);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE]);
}

#[test]
fn a_limit_is_ours_and_goes_through_a_gate() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, Definition { block: Block::Serial, ..job(Route::Round) });
    come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 10);
    start(&node, job, 2);
    house.step(&node);
    let first = house.take_sends();
    assert_eq!(first.len(), 1, "one at a time");
    assert!(first[0].log.is_some());
    house.report(&node, &first[0], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 1);
}

#[test]
fn what_a_broken_session_had_is_lost_after_three_seconds_and_goes_elsewhere() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (session, _) = come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE]);
    come(&node, TWO, &[], vec![]);
    credit(&node, TWO, 1);
    let broken = house.now();
    go(&node, ONE, session, false);
    house.until(&[&node], &house.later(Duration::from_secs(2)));
    assert!(house.take_sends().is_empty(), "it may come back");
    house.until(&[&node], &house.later(Duration::from_secs(6)));
    assert!(house.now() <= broken.saturating_add(Duration::from_secs(10)));
    let again = house.take_sends();
    assert_eq!(places(&again), [TWO]);
    assert!(again[0].possible_duplicate && again[0].attempt == Attempt(2));
    assert_eq!(attempts(&house.runs()[0])[0], "lost: the executor is gone");
}

#[test]
fn after_a_goodbye_nobody_waits() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (session, _) = come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    house.take_sends();
    go(&node, ONE, session, true);
    house.step(&node);
    assert_eq!(attempts(&house.runs()[0])[0], "lost: the executor is gone");
}

#[test]
fn what_never_arrived_is_sent_again_and_what_is_held_goes_on() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (session, _) = come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 2);
    start(&node, job, 2);
    house.step(&node);
    let sends = house.take_sends();
    go(&node, ONE, session, false);
    assert!(come(&node, ONE, &[], vec![claim(&sends[0])]).1.is_empty());
    credit(&node, ONE, 1);
    house.until(&[&node], &house.later(Duration::from_secs(5)));
    let again = house.take_sends();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].run, again[0].attempt), (sends[1].run, Attempt(2)));
    let run = house.run(sends[1].run);
    assert_eq!(attempts(&run)[0], "refused: not counted: the connection broke before it arrived");
    house.report(&node, &sends[0], AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.run(sends[0].run).state, RunState::Succeeded);
}

#[test]
fn after_a_restart_what_an_executor_holds_is_not_sent_again() {
    let house = House::new();
    let first = house.node();
    let job = house.create(&first, job(Route::Round));
    come(&first, ONE, &[], vec![]);
    credit(&first, ONE, 2);
    start(&first, job, 2);
    house.step(&first);
    let sends = house.take_sends();
    assert_eq!(sends.len(), 2);
    drop(first);
    let second = house.node();
    // The lease of the first one has to end.
    while second.shards_held() == 0 {
        house.until(&[&second], &house.later(Duration::from_millis(100)));
    }
    assert!(come(&second, ONE, &[], vec![claim(&sends[0])]).1.is_empty());
    credit(&second, ONE, 5);
    house.until(&[&second], &house.later(Duration::from_secs(10)));
    let again = house.take_sends();
    assert_eq!(again.len(), 1, "only what nobody holds");
    assert!(again[0].run == sends[1].run && again[0].possible_duplicate);
    house.report(&second, &sends[0], AttemptOutcome::Succeeded);
    house.step(&second);
    assert_eq!(house.run(sends[0].run).state, RunState::Succeeded);
    assert_eq!(house.run(sends[0].run).attempts.len(), 1);
}

#[test]
fn what_is_over_is_told_to_whoever_still_holds_it() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (session, _) = come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    let sends = house.take_sends();
    go(&node, ONE, session, false);
    now_or_never(node.cancel(sends[0].run)).unwrap();
    house.step(&node);
    let unknown = Claim { run: punctual_core::model::RunId(7), attempt: Attempt(1), token: Token(1) };
    let stale = come(&node, ONE, &[], vec![claim(&sends[0]), unknown.clone()]).1;
    assert_eq!(stale, [claim(&sends[0]), unknown]);
}

#[test]
fn one_that_drains_gets_nothing_more_and_its_work_goes_on() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    come(&node, ONE, &[], vec![]);
    come(&node, TWO, &[], vec![]);
    credit(&node, ONE, 10);
    credit(&node, TWO, 10);
    start(&node, job, 2);
    house.step(&node);
    let sends = house.take_sends();
    node.heard(vec![Heard::Draining { of: SessionKey::new("app", ONE) }]);
    start(&node, job, 3);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [TWO, TWO, TWO]);
    let its = sends.iter().find(|send| send.address.as_ref().unwrap().url == ONE).unwrap();
    house.report(&node, its, AttemptOutcome::Succeeded);
    house.step(&node);
    assert_eq!(house.run(its.run).state, RunState::Succeeded);
    assert!(house.now() < at("10:01:00"));
}

#[test]
fn only_who_was_given_an_attempt_says_how_it_ended() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::First));
    come(&node, ONE, &[], vec![]);
    come(&node, TWO, &[], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    let sends = house.take_sends();
    let mut report = house.said(&sends[0], AttemptOutcome::Succeeded);
    report.app = Some("app".into());
    for (executor, token) in [(TWO, sends[0].token), (ONE, Token(sends[0].token.0 + 1))] {
        (report.executor, report.token) = (executor.into(), token);
        node.report(report.clone());
        house.step(&node);
        assert_ne!(house.run(sends[0].run).state, RunState::Succeeded, "{executor}");
    }
    (report.executor, report.token) = (ONE.into(), sends[0].token);
    node.report(report);
    house.step(&node);
    assert_eq!(house.run(sends[0].run).state, RunState::Succeeded);
}

#[test]
fn a_goodbye_loses_only_what_its_own_executor_had() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (one, _) = come(&node, ONE, &[], vec![]);
    let (two, _) = come(&node, TWO, &[], vec![]);
    credit(&node, ONE, 1);
    credit(&node, TWO, 1);
    start(&node, job, 2);
    house.step(&node);
    let sends = house.take_sends();
    assert_eq!(sends.len(), 2);
    go(&node, ONE, one, false);
    go(&node, TWO, two, true);
    house.step(&node);
    let held = sends.iter().find(|send| send.address.as_ref().unwrap().url == ONE).unwrap();
    come(&node, ONE, &[], vec![claim(held)]);
    house.until(&[&node], &house.later(Duration::from_secs(10)));
    assert_eq!(attempts(&house.run(held.run)), ["open"]);
}

#[test]
fn an_end_of_an_earlier_session_does_not_end_the_next() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    let (first, _) = come(&node, ONE, &[], vec![]);
    come(&node, ONE, &[], vec![]);
    go(&node, ONE, first, false);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    assert_eq!(places(&house.take_sends()), [ONE]);
}

#[test]
fn room_that_is_not_taken_is_offered_to_the_next() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    come(&node, ONE, &[], vec![]);
    start(&node, job, 2);
    house.step(&node);
    let first = house.runs().iter().map(|run| run.id).min().unwrap();
    credit(&node, ONE, 1);
    // It goes away between the credit and its turn.
    now_or_never(node.cancel(first)).unwrap();
    house.until(&[&node], &house.later(Duration::from_secs(1)));
    let sends = house.take_sends();
    assert_eq!(sends.len(), 1);
    assert_ne!(sends[0].run, first);
}

#[test]
fn a_claim_counts_only_for_what_may_have_been_sent_and_in_its_own_app() {
    let house = House::new();
    let node = house.node();
    let job = house.create(&node, job(Route::Round));
    start(&node, job, 1);
    house.step(&node);
    let run = house.runs()[0].id;
    let made_up = Claim { run, attempt: Attempt(1), token: Token(1) };
    come(&node, ONE, &[], vec![made_up]);
    credit(&node, ONE, 1);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 1, "nobody was given it before, so it is sent");
    let made_up = Claim { run, attempt: Attempt(1), token: Token(1) };
    let other = now_or_never(node.native_came("other", ONE, vec![], vec![made_up.clone()], false)).unwrap();
    assert_eq!(
        other.1,
        [made_up],
        "an executor of another app has nothing of this one, whatever its name is"
    );
}

#[test]
fn what_never_arrived_was_no_try() {
    let house = House::new();
    let node = house.node();
    let once = Retry { max_attempts: 1, ..Retry::default() };
    let job = house.create(&node, Definition { retry: once, ..job(Route::Round) });
    let (session, _) = come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 1);
    start(&node, job, 1);
    house.step(&node);
    assert_eq!(house.take_sends().len(), 1);
    go(&node, ONE, session, false);
    come(&node, ONE, &[], vec![]);
    credit(&node, ONE, 1);
    house.until(&[&node], &house.later(Duration::from_secs(5)));
    assert_eq!(house.take_sends().len(), 1);
}

/// Two nodes with which an executor has a session each, and what one of them has sent to it: the sender, the other, the
/// sender's session, the send.
fn given_by_one_of_two(house: &House) -> (Node, Node, SessionId, Dispatched) {
    let (first, second) = (house.node(), house.node());
    house.until(&[&first, &second], "10:00:02");
    let job = house.create(&first, job(Route::First));
    let sessions = [&first, &second].map(|node| {
        let session = come(node, ONE, &["demo"], vec![]).0;
        credit(node, ONE, 1);
        session
    });
    start(&first, job, 1);
    house.until(&[&first, &second], "10:00:04");
    let send = house.take_sends().remove(0);
    let [of_first, of_second] = sessions;
    match first.load_figures().1 {
        1 => (first, second, of_first, send),
        _ => (second, first, of_second, send),
    }
}

#[test]
fn an_executor_that_another_node_has_a_session_with_is_not_gone() {
    let house = House::new();
    let (sender, other, session, send) = given_by_one_of_two(&house);
    go(&sender, ONE, session, false);
    house.step(&sender);
    for time in ["10:00:08", "10:00:10"] {
        // What the sender tells the other, again and again.
        other.hear(punctual_node::ports::Hint::Missing(ONE.into()));
        house.until(&[&other, &sender], time);
    }
    assert_eq!(states(&house), [RunState::Running], "it is waited for, beyond the time to resume");
    assert!(house.take_sends().is_empty());
    house.report(&other, &send, AttemptOutcome::Succeeded);
    house.until(&[&other, &sender], "10:00:11");
    assert_eq!(states(&house), [RunState::Succeeded]);
}

#[test]
fn an_executor_that_no_node_has_a_session_with_is_gone() {
    let house = House::new();
    let (sender, other, session, _) = given_by_one_of_two(&house);
    go(&sender, ONE, session, false);
    house.until(&[&sender], "10:00:10");
    assert_eq!(
        house.runs()[0].attempts.len(),
        1,
        "nobody said that it is there, so it is lost: {:?}",
        house.runs()
    );
    assert!(attempts(&house.runs()[0])[0].starts_with("lost"));
    drop(other);
}
