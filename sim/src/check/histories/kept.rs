//! Histories that keep every promise.

use punctual_core::model::{
    AttemptOutcome, Decided, Fence, JobState, Origin, Outcome, Skip, StoppedReason, Token,
};

use super::story::{
    DOUBT, MINUTE, NODE, OTHER, START, Story, URL, at_most_once, broadcast, definition, executed, serial,
};
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
            story.checker.answered(NODE, Some(story.now()), story.job, &URL, said);
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
