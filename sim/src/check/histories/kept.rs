//! Histories that keep every promise.

use std::time::Duration;

use punctual_core::model::{
    Attempt, AttemptOutcome, Decided, Definition, Fence, JobState, Origin, Outcome, Skip, StoppedReason,
    Token,
};

use punctual_core::policy::Misfire;
use punctual_core::policy::misfire::Policy;

use super::story::{
    DOUBT, MINUTE, NODE, OTHER, REPEAT, START, Story, at_most_once, broadcast, definition, executed, serial,
};
use crate::check::{Admitted, Moment, Quiet};
use crate::store::Request;

#[test]
fn runs_that_succeed_one_after_the_other() {
    for definition in [definition(), at_most_once(), serial(), executed()] {
        let mut story = Story::of(definition);
        (0..3).for_each(|_| assert!(story.succeed().0 > 0));
        story.finish().unwrap();
    }
}

#[test]
fn a_failure_that_is_tried_again_after_its_wait() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Failed);
    let end = story.end(run, 1, AttemptOutcome::Failed, story.wait(1_100, 2));
    story.settle(end).unwrap();
    story.at(story.now() + 1_100);
    story.send(run, 2).unwrap();
    story.executed(run, 2, AttemptOutcome::Succeeded);
    let end = story.end(run, 2, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    story.finish().unwrap();
}

#[test]
fn a_takeover_that_sends_again_and_says_so() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.take_over();
    let mut end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    if let Some(record) = &mut end.attempt {
        record.token = Token::SUPPOSED;
    }
    story.settle(end).unwrap();
    let mut send = story.dispatched(run, 2);
    send.possible_duplicate = true;
    story.send_as(OTHER, &send).unwrap();
    story.executed(run, 2, AttemptOutcome::Succeeded);
    let end = story.end(run, 2, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    story.finish().unwrap();
}

#[test]
fn an_outage_whose_instants_are_one_record() {
    let mut story = Story::of(definition());
    story.at(START + 3 * MINUTE + 2_000);
    let mut plan = story.plan(&[START + 3 * MINUTE], START + 4 * MINUTE);
    plan.runs[0].decided = Decided::OnTime;
    plan.skipped = Some(story.skipped(START + MINUTE, START + 2 * MINUTE, 2));
    let run = plan.runs[0].id;
    story.tell(Request::Plan(vec![plan])).unwrap();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Succeeded);
    let end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    story.finish().unwrap();
}

#[test]
fn a_reservation_that_is_missed_when_it_leaves_the_wheel() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.at(story.now() + 5_001);
    let then = story.close(Outcome::Skipped, Skip::Misfire.name());
    let skip = story.settlement(run, Fence::Unsent(punctual_core::model::Attempt(1)), None, then);
    story.settle(skip).unwrap();
    story.finish().unwrap();
}

#[test]
fn a_stop_that_skips_what_was_reserved() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let stop = story.change(JobState::Stopped(StoppedReason::Asked), None);
    story.tell(stop).unwrap();
    story.checker.in_force(story.job, 2);
    let then = story.close(Outcome::Skipped, Skip::JobStopped.name());
    let skip = story.settlement(run, Fence::Unsent(punctual_core::model::Attempt(1)), None, then);
    story.settle(skip).unwrap();
    story.finish().unwrap();
}

#[test]
fn one_shots_with_keys_that_are_kept_and_repeated() {
    let mut story = Story::of(definition());
    let mut run = story.new_run(START + 10, Origin::OneShot);
    run.key = Some("k".into());
    run.payload = Some("p".into());
    let id = run.id;
    story.tell(Request::Accept(vec![run.clone()], vec![])).unwrap();
    story.checker.told_kept(id).unwrap();
    run.id = story.new_run(START + 10, Origin::OneShot).id;
    story.tell(Request::Accept(vec![run], vec![])).unwrap();
    assert_eq!(story.checker.counters.key_repeated, 1);
    story.at(START + 10);
    story.send(id, 1).unwrap();
    story.executed(id, 1, AttemptOutcome::Succeeded);
    let end = story.end(id, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    story.finish().unwrap();
}

#[test]
fn a_one_shot_that_was_moved_into_a_window() {
    let (mut story, run) = Story::moved_by_an_hour("12:30-14:00");
    story.send(run, 1).unwrap();
}

#[test]
fn a_broadcast_run_that_ends_as_its_parts_did() {
    for outcome in [AttemptOutcome::Succeeded, AttemptOutcome::Failed] {
        let mut story = Story::of(broadcast());
        let run = story.planned();
        let parts = story.fall_apart(run, 2);
        let first = story.end_part(parts[0], AttemptOutcome::Succeeded);
        let second = story.end_part(parts[1], outcome);
        story.settle(first).unwrap();
        story.settle(second).unwrap();
        let is_good = outcome == AttemptOutcome::Succeeded;
        let closed = if is_good { Outcome::Succeeded } else { Outcome::Failed };
        let end = story.end(run, 1, outcome, story.close(closed, "all parts have ended"));
        story.settle(end).unwrap();
        story.finish().unwrap();
    }
}

#[test]
fn a_split_that_is_asked_for_twice() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 1);
    let again = story.split(run, 1);
    story.tell(Request::Split(vec![again])).unwrap();
    let end = story.end_part(parts[0], AttemptOutcome::Succeeded);
    story.settle(end).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    story.finish().unwrap();
}

#[test]
fn an_attempt_that_its_executor_denies_twice_or_is_silent_about() {
    for said in [Some(false), None] {
        let mut story = Story::of(executed());
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        story.send(run, 1).unwrap();
        let sent_at = story.now();
        for question in 1..=2 {
            story.at(sent_at + question * DOUBT);
            story.answer(said);
        }
        let lost = story.lost(run, sent_at, AttemptOutcome::Lost, story.wait(1_100, 2));
        story.settle(lost).unwrap();
        story.at(story.now() + 1_100);
        story.tell(story.gate(run, 2)).unwrap();
        let mut send = story.dispatched(run, 2);
        send.possible_duplicate = true;
        story.send_as(NODE, &send).unwrap();
        story.executed(run, 2, AttemptOutcome::Succeeded);
        let end = story.end(run, 2, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
        story.settle(end).unwrap();
        story.finish().unwrap();
    }
}

#[test]
fn an_executor_admits_to_an_attempt_while_its_loss_is_being_written() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let sent_at = story.now();
    for question in 1..=2 {
        story.at(sent_at + question * DOUBT);
        story.answer(Some(false));
    }
    let (asked, lost) =
        (story.moment(), story.lost(run, sent_at, AttemptOutcome::Lost, story.wait(1_100, 2)));
    story.at(story.now() + 5);
    story.answer(Some(true));
    story.settle_late(asked, lost).unwrap();
}

#[test]
fn a_run_is_sent_again_when_its_executor_could_not_be_heard_or_has_spoken_or_its_time_was_up() {
    let admitted = |since| [Admitted { executor: 0, attempt: Attempt(1), since }];
    let mut story = Story::of(executed());
    let (run, _) = story.lose();
    let now = story.moment().now;
    story.checker.check_alone(&story.dispatched(run, 2), &admitted(now)).unwrap();
    story.checker.said(run, Attempt(1), story.token(1), AttemptOutcome::Failed);
    story.checker.check_alone(&story.dispatched(run, 2), &admitted(0)).unwrap();
    let mut story = Story::of(Definition { timeout: Duration::from_secs(20), ..executed() });
    let (run, _) = story.lose();
    story.checker.check_alone(&story.dispatched(run, 2), &admitted(0)).unwrap();
}

#[test]
fn an_attempt_that_was_taken_over_is_timed_out_when_its_executor_had_the_time_to_speak_again() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let (sent_at, sent_by) = (story.now(), story.token(1));
    story.at(sent_at + 30_000);
    story.take_over();
    story.at(sent_at + 30_000 + REPEAT);
    let mut lost = story.lost(run, sent_at, AttemptOutcome::TimedOut, story.wait(1_100, 2));
    lost.fence = Fence::Sent(Attempt(1), sent_by);
    lost.attempt.as_mut().expect("it has one").token = sent_by;
    story.tell_by(OTHER, Request::Settle(vec![lost])).unwrap();
}

#[test]
fn an_instant_is_coalesced_into_a_later_one_that_has_a_record() {
    let once = Misfire { policy: Policy::FireOnce, threshold: Duration::from_secs(5) };
    let mut story = Story::of(Definition { misfire: once, ..definition() });
    let run = story.planned();
    assert!(story.succeed() > run);
    story.at(story.now() + MINUTE / 2);
    let close = story.close(Outcome::Skipped, Skip::Coalesced.name());
    story.settle(story.settlement(run, Fence::Unsent(Attempt(1)), None, close)).unwrap();
    story.finish().unwrap();
}

#[test]
fn an_attempt_is_given_up_whose_end_was_heard_by_a_node_that_is_not_heard_of_any_more() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let heard_at = story.moment().now;
    story.checker.heard(OTHER, run, Attempt(1), heard_at);
    story.at(story.now() + MINUTE / 2);
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    story.settle(end).unwrap();
}

#[test]
fn an_attempt_of_which_only_the_gate_is_known_is_supposed_or_was_turned_back() {
    let mut story = Story::of(at_most_once());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.at(story.now() + 40_000);
    let then = story.close(Outcome::Lost, "nothing was heard of it");
    let mut end = story.end(run, 1, AttemptOutcome::Lost, then);
    end.attempt.as_mut().expect("it has one").token = Token::SUPPOSED;
    story.settle(end).unwrap();
    let mut story = Story::of(at_most_once());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Refused, story.wait(1_100, 2));
    story.settle(end).unwrap();
}

#[test]
fn a_call_that_hangs_does_not_wait_for_a_place_and_one_that_was_lost_with_its_node_is_repeated() {
    let mut story = Story::of(Definition { timeout: Duration::from_secs(600), ..definition() });
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.at(story.now() + MINUTE + 500);
    let rest = Quiet {
        since: Moment::default(),
        healthy: vec![true],
        is_narrow: true,
        moves_at_rest: story.checker.lease_moves(),
        unanswered: 0,
    };
    story.checker.check_places(story.moment(), &rest).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    story.settle(end).unwrap();
    let admitted = Admitted { executor: 0, attempt: Attempt(1), since: 0 };
    story.checker.check_alone(&story.dispatched(run, 2), &[admitted]).unwrap();
}

#[test]
fn an_executor_that_reports_a_timeout_and_then_a_success_has_the_run_tried_again() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::TimedOut);
    story.checker.heard(NODE, run, Attempt(1), 0);
    let end = story.end(run, 1, AttemptOutcome::TimedOut, story.wait(1_100, 2));
    story.settle(end).unwrap();
}
