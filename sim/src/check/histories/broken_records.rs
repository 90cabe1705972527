//! Histories that break a promise about attempts of which only the gate is known.

use punctual_core::model::{AttemptOutcome, Outcome, Token};

use super::story::{DOUBT, Story, breaks, executed};

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
