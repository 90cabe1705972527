//! Histories that break a promise about broadcast runs each.

use punctual_core::model::{AttemptOutcome, Origin, Outcome, Settlement};
use punctual_node::ports::Split;

use super::broken::DONE;
use super::story::{Story, breaks, broadcast};
use crate::store::{Request, StoreAnswer as Answer};

#[test]
fn b1_a_part_is_there_twice_or_is_of_another_run() {
    let edits: [fn(&mut Split); 3] = [
        |split| split.parts[1].1.index = 0,
        |split| split.parts[1].0.of = None,
        |split| split.parts[1].0.origin = Origin::Manual,
    ];
    for edit in edits {
        let mut story = Story::of(broadcast());
        let run = story.planned();
        let mut split = story.split(run, 2);
        edit(&mut split);
        breaks("B1", story.tell(Request::Split(vec![split])));
    }
}

#[test]
fn b2_a_part_counts_as_a_run_of_its_own_or_brings_something_about() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 2);
    let end = story.end_part(parts[0], AttemptOutcome::Succeeded);
    let counted = Settlement { part_of: None, ..end.clone() };
    breaks("B2", story.claim(&Request::Settle(vec![counted]), Answer::Settle(vec![DONE])));
    let child = story.new_run(story.now(), Origin::Parent);
    let fruitful = Settlement { children: vec![child], ..end };
    breaks("B2", story.claim(&Request::Settle(vec![fruitful]), Answer::Settle(vec![DONE])));
}

#[test]
fn b3_a_run_is_closed_before_its_parts() {
    for outcome in [Outcome::Succeeded, Outcome::Cancelled] {
        let mut story = Story::of(broadcast());
        let run = story.planned();
        let parts = story.fall_apart(run, 2);
        let end = story.end_part(parts[0], AttemptOutcome::Succeeded);
        story.settle(end).unwrap();
        let end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(outcome, ""));
        breaks("B3", story.settle(end));
    }
}

#[test]
fn b3_a_run_ends_otherwise_than_its_parts() {
    for (part, whole) in
        [(AttemptOutcome::Failed, Outcome::Succeeded), (AttemptOutcome::Succeeded, Outcome::Failed)]
    {
        let mut story = Story::of(broadcast());
        let run = story.planned();
        let parts = story.fall_apart(run, 1);
        let end = story.end_part(parts[0], part);
        story.settle(end).unwrap();
        let is_good = whole == Outcome::Succeeded;
        let said = if is_good { AttemptOutcome::Succeeded } else { AttemptOutcome::Failed };
        let end = story.end(run, 1, said, story.close(whole, "said"));
        breaks("B3", story.settle(end));
    }
}

#[test]
fn b3_a_run_that_fell_into_parts_is_tried_again() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 1);
    let end = story.end_part(parts[0], AttemptOutcome::Failed);
    story.settle(end).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Failed, story.wait(1_100, 2));
    breaks("B3", story.settle(end));
}

#[test]
fn b4_nobody_is_told_that_the_last_part_has_ended() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 1);
    let end = story.end_part(parts[0], AttemptOutcome::Succeeded);
    breaks("B4", story.claim(&Request::Settle(vec![end]), Answer::Settle(vec![DONE])));
}
