//! Histories that break a promise about what is on record of attempts: of which only the gate is known, and whose end another node
//! has heard.

use punctual_core::model::{Attempt, AttemptOutcome, NodeId, Outcome, Token};

use super::story::{DOUBT, OTHER, Story, breaks, definition, executed};

#[test]
fn h1_a_gate_is_on_record_as_sent_by_a_wish_by_a_job_that_makes_no_sense_or_by_the_word_of_its_executor() {
    for case in ["wish", "poisoned", "admitted"] {
        let mut story = Story::of(executed());
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        let sent_at = story.now();
        story.at(sent_at + 40_000);
        let (outcome, closed) = match case {
            "wish" => (AttemptOutcome::Cancelled, Outcome::Cancelled),
            _ => (AttemptOutcome::TimedOut, Outcome::Lost),
        };
        if case == "poisoned" {
            story.checker.poisoned(story.job);
        }
        if case == "admitted" {
            story.answer(Some(true));
            story.at(story.now() + 1);
        }
        let end = story.lost(run, sent_at, outcome, story.close(closed, "said"));
        breaks("H1", story.settle(end));
    }
}

#[test]
fn x1_an_attempt_is_lost_whose_executor_had_admitted_to_it_before_that_was_asked_for() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let sent_at = story.now();
    for (after, said) in [(DOUBT, Some(false)), (2 * DOUBT, Some(false)), (2 * DOUBT + 1, Some(true))] {
        story.at(sent_at + after);
        story.answer(said);
    }
    story.at(story.now() + 1);
    let mut lost = story.lost(run, sent_at, AttemptOutcome::Lost, story.wait(1_100, 2));
    // Only supposed or not, it is an attempt that the executor may have.
    lost.attempt.as_mut().expect("it has one").token = Token::SUPPOSED;
    breaks("X1", story.settle(lost));
}

#[test]
fn h2_an_attempt_is_given_up_whose_end_another_node_has_heard_and_could_write_down() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let heard_at = story.moment().now;
    story.checker.heard(OTHER, run, Attempt(1), heard_at);
    story.at(story.now() + 11_000);
    story.renew(OTHER, NodeId(8));
    story.at(story.now() + 1);
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    breaks("H2", story.settle(end));
}
