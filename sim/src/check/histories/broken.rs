//! Histories that break a promise each.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, Decided, Definition, Fence, JobState, LogId, NodeId, Origin, Outcome, Overrides,
    RunId, ShardId, Skip, StoppedReason, Then, Token,
};
use punctual_core::policy::misfire::Policy;
use punctual_core::policy::{Misfire, Retry};
use punctual_node::ports::{Accepted, Address, Gated, Planned, Settled, Unpark};

use super::story::{
    DOUBT, MINUTE, NODE, OTHER, START, Story, at_most_once, breaks, broadcast, definition, executed, serial,
};
use crate::check::{Admitted, Moment, Quiet, ReceiptFact};
use crate::store::{Request, StoreAnswer as Answer};

pub(super) const DONE: Settled = Settled::Done { consecutive_failures: 0, is_over: false, joined: None };

// --- planning ---

#[test]
fn i1_an_instant_is_decided_twice() {
    let mut story = Story::of(definition());
    story.succeed();
    let run = story.new_run(START + MINUTE, Origin::Backfill);
    let id = run.id;
    let accepted = Answer::Accept(vec![Accepted::New(id)]);
    breaks("I1", story.claim(&Request::Accept(vec![run], vec![]), accepted));
}

#[test]
fn i1_an_instant_that_was_passed_over_runs_all_the_same() {
    let mut story = Story::of(definition());
    story.at(START + 2 * MINUTE + 30_000);
    let mut plan = story.plan(&[], START + 3 * MINUTE);
    plan.skipped = Some(story.skipped(START + MINUTE, START + 2 * MINUTE, 2));
    story.tell(Request::Plan(vec![plan])).unwrap();
    let next = story.change(JobState::Enabled, Some(START + 3 * MINUTE));
    story.tell(next).unwrap();
    let run = story.new_run(START + 2 * MINUTE, Origin::Schedule);
    let id = run.id;
    let accepted = Answer::Accept(vec![Accepted::New(id)]);
    breaks("I1", story.claim(&Request::Accept(vec![run], vec![]), accepted));
}

#[test]
fn i2_the_clock_passes_an_instant_without_a_record() {
    let mut story = Story::of(definition());
    story.at(START + MINUTE);
    let plan = story.plan(&[START + MINUTE], START + 3 * MINUTE);
    breaks("I2", story.tell(Request::Plan(vec![plan])));
}

#[test]
fn i2_a_run_is_planned_and_not_written() {
    let mut story = Story::of(definition());
    story.at(START + MINUTE - 1_000);
    let plan = story.plan(&[START + MINUTE], START + 2 * MINUTE);
    breaks("I2", story.claim(&Request::Plan(vec![plan]), Answer::Plan(vec![Planned::Moved(vec![])])));
}

#[test]
fn l2_a_change_passes_an_instant_without_a_record() {
    let mut story = Story::of(definition());
    story.at(START + MINUTE + 1_000);
    let stop = story.change(JobState::Stopped(StoppedReason::Asked), None);
    breaks("L2", story.tell(stop));
}

#[test]
fn i3_an_instant_is_invented() {
    let mut story = Story::of(definition());
    story.at(START + MINUTE - 1_000);
    let plan = story.plan(&[START + MINUTE], START + 2 * MINUTE + 1);
    breaks("I3", story.tell(Request::Plan(vec![plan])));
}

#[test]
fn i3_a_change_sets_the_clock_to_an_instant_that_is_not_the_next() {
    let mut story = Story::of(definition());
    let change = story.change(JobState::Enabled, Some(START + 2 * MINUTE));
    breaks("I3", story.tell(change));
}

#[test]
fn i4_a_run_is_sent_before_its_time() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.at(START + MINUTE - 6);
    breaks("I4", story.send(run, 1));
}

#[test]
fn i5_an_instant_within_the_threshold_is_skipped() {
    let mut story = Story::of(definition());
    story.at(START + 2 * MINUTE + 5_000);
    let mut plan = story.plan(&[], START + 3 * MINUTE);
    plan.skipped = Some(story.skipped(START + MINUTE, START + 2 * MINUTE, 2));
    breaks("I2", story.tell(Request::Plan(vec![plan])));
}

#[test]
fn i5_the_count_of_a_record_is_off_by_one() {
    let mut story = Story::of(definition());
    story.at(START + 2 * MINUTE + 30_000);
    let mut plan = story.plan(&[], START + 3 * MINUTE);
    plan.skipped = Some(story.skipped(START + MINUTE, START + 2 * MINUTE, 1));
    breaks("I5", story.tell(Request::Plan(vec![plan])));
}

#[test]
fn i5_a_missed_instant_counts_as_on_time() {
    let mut definition = definition();
    definition.misfire.policy = punctual_core::policy::misfire::Policy::FireOnce;
    let mut story = Story::of(definition);
    story.at(START + MINUTE + 5_001);
    let mut plan = story.plan(&[START + MINUTE], START + 2 * MINUTE);
    plan.runs[0].decided = Decided::OnTime;
    breaks("I5", story.tell(Request::Plan(vec![plan])));
}

#[test]
fn i5_a_reservation_at_the_threshold_is_taken_for_missed() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.at(story.now() + 5_000);
    let then = story.close(Outcome::Skipped, Skip::Misfire.name());
    let skip = story.settlement(run, Fence::Unsent(Attempt(1)), None, then);
    breaks("I5", story.settle(skip));
}

#[test]
fn i18_a_stopped_job_is_planned() {
    let mut story = Story::of(definition());
    let plan = story.plan(&[START + MINUTE], START + 2 * MINUTE);
    let stop = story.change(JobState::Stopped(StoppedReason::Asked), None);
    story.tell(stop).unwrap();
    let moved = Story::moved(&plan);
    story.checker.poisoned(story.job);
    breaks("I18", story.claim(&Request::Plan(vec![plan]), moved));
}

// --- gates and sends ---

#[test]
fn w1_a_run_is_sent_outside_its_windows() {
    let window = punctual_core::model::WindowSpec {
        days: "mon-sun".into(),
        hours: "13:00-14:00".into(),
        zone: "Etc/UTC".into(),
        outside: calendar::Outside::Skip,
    };
    let mut story = Story::of(punctual_core::model::Definition { windows: vec![window], ..definition() });
    let run = story.planned();
    breaks("W1", story.send(run, 1));
}

#[test]
fn w1_a_run_is_sent_at_a_time_outside_its_windows_that_it_was_moved_to() {
    let (mut story, run) = Story::moved_by_an_hour("12:00-12:30");
    breaks("W1", story.send(run, 1));
}

#[test]
fn i6_one_token_is_sent_twice() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let mut again = story.dispatched(run, 1);
    again.possible_duplicate = true;
    breaks("I6", story.send_as(NODE, &again));
}

#[test]
fn i7_an_attempt_is_left_out() {
    let mut story = Story::of(definition());
    let run = story.planned();
    breaks("I7", story.tell(story.gate(run, 2)));
}

#[test]
fn i7_the_next_attempt_begins_before_the_last_has_ended() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    breaks("I7", story.send(run, 2));
}

#[test]
fn i9_at_most_once_is_sent_twice() {
    let mut story = Story::of(at_most_once());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(2_000, 2));
    story.settle(end).unwrap();
    story.at(story.now() + 2_000);
    story.tell(story.gate(run, 2)).unwrap();
    breaks("I9", story.send(run, 2));
}

#[test]
fn i11_a_second_send_does_not_say_that_it_is_one() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    story.settle(end).unwrap();
    breaks("I11", story.send(run, 2));
}

#[test]
fn i12_an_executor_takes_an_older_token() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let receipt = |token| ReceiptFact {
        executor: 0,
        attempt: Attempt(1),
        token: Token(token),
        is_marked: true,
        checks_tokens: true,
        is_copy: false,
    };
    story.checker.received(run, receipt(9)).unwrap();
    breaks("I12", story.checker.received(run, receipt(8)));
}

#[test]
fn i13_an_epoch_is_given_twice() {
    let mut story = Story::of(definition());
    let acquired = story.acquired(1);
    breaks("I13", story.claim(&Request::Acquire(NodeId(7), vec![ShardId(0)]), acquired));
}

#[test]
fn i13_a_node_acts_under_an_epoch_that_is_not_its_own() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let send = story.dispatched(run, 1);
    breaks("I13", story.send_as(OTHER, &send));
}

#[test]
fn l9_a_node_acts_after_another_has_taken_over() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let send = story.dispatched(run, 1);
    story.take_over();
    breaks("L9", story.send_as(NODE, &send));
}

#[test]
fn l3_a_gated_run_is_sent_before_its_gate() {
    let mut story = Story::of(at_most_once());
    let run = story.planned();
    breaks("L3", story.send(run, 1));
}

#[test]
fn l4_a_gate_is_granted_for_a_closed_run() {
    let mut story = Story::of(definition());
    let run = story.succeed();
    let through = Answer::Gate(vec![Gated::Through(LogId(9))]);
    breaks("L4", story.claim(&story.gate(run, 2), through));
}

#[test]
fn l4_a_gate_is_granted_whose_key_another_has() {
    let mut story = Story::of(at_most_once());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.take_over();
    let through = Answer::Gate(vec![Gated::Through(LogId(9))]);
    breaks("L4", story.claim(&story.gate(run, 1), through));
}

#[test]
fn l8_what_was_sent_is_skipped() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let then = story.close(Outcome::Skipped, Skip::JobStopped.name());
    let skip = story.settlement(run, Fence::Unsent(Attempt(1)), None, then);
    breaks("L8", story.settle(skip));
}

#[test]
fn l10_a_send_begins_under_a_version_that_was_changed_and_answered() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let send = story.dispatched(run, 1);
    let stop = story.change(JobState::Stopped(StoppedReason::Asked), None);
    story.tell(stop).unwrap();
    story.checker.in_force(story.job, 2);
    breaks("L10", story.send_as(NODE, &send));
}

#[test]
fn l11_a_run_is_sent_that_was_closed() {
    let mut story = Story::of(definition());
    let run = story.succeed();
    let mut send = story.dispatched(run, 1);
    send.possible_duplicate = true;
    breaks("L11", story.send_as(NODE, &send));
}

#[test]
fn i18_a_job_that_is_stopped_or_deleted_sends() {
    for state in [JobState::Stopped(StoppedReason::Asked), JobState::Deleted] {
        let mut story = Story::of(definition());
        let run = story.planned();
        story.tell(story.change(state, None)).unwrap();
        breaks("I18", story.send(run, 1));
    }
}

#[test]
fn i19_two_runs_of_a_serial_job_are_under_way() {
    let mut story = Story::of(serial());
    for is_second in [false, true] {
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        let sent = story.send(run, 1);
        if is_second { breaks("I19", sent) } else { sent.unwrap() }
    }
}

// --- ends ---

#[test]
fn i8_a_closed_run_is_settled_again() {
    let mut story = Story::of(definition());
    let run = story.succeed();
    let late = story.end(run, 1, AttemptOutcome::Failed, story.close(Outcome::Failed, "late"));
    breaks("I8", story.claim(&Request::Settle(vec![late]), Answer::Settle(vec![DONE])));
}

#[test]
fn i8_a_run_succeeds_whose_attempt_failed() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Failed);
    let end = story.end(run, 1, AttemptOutcome::Failed, story.close(Outcome::Succeeded, ""));
    breaks("I8", story.settle(end));
}

#[test]
fn i21_a_result_is_recorded_that_nobody_gave() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    let end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    breaks("I21", story.settle(end));
}

#[test]
fn i21_a_report_is_acknowledged_that_is_not_kept() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Succeeded);
    breaks("I21", story.checker.acknowledged(NODE, run, Attempt(1), AttemptOutcome::Succeeded));
}

#[test]
fn i26_an_attempt_ends_before_it_begins_or_in_the_future() {
    for shift in [-20, 2_000] {
        let mut story = Story::of(definition());
        let run = story.planned();
        story.send(run, 1).unwrap();
        story.executed(run, 1, AttemptOutcome::Succeeded);
        let mut end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
        end.attempt.as_mut().unwrap().ended_at = Timestamp::from_millis(story.now() + shift);
        breaks("I26", story.settle(end));
    }
}

#[test]
fn i30_an_attempt_follows_too_soon_or_once_too_often() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Failed);
    let end = story.end(run, 1, AttemptOutcome::Failed, story.wait(500, 2));
    breaks("I30", story.settle(end));
    let mut definition = definition();
    definition.retry.max_attempts = 1;
    let mut story = Story::of(definition);
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.executed(run, 1, AttemptOutcome::Failed);
    let end = story.end(run, 1, AttemptOutcome::Failed, story.wait(60_000, 2));
    breaks("I30", story.settle(end));
}

#[test]
fn i30_a_run_has_its_own_policy_and_is_held_to_its_jobs() {
    let timeout = std::time::Duration::from_secs(3);
    let retry = Retry { max_attempts: 1, ..Retry::default() };
    let none = Overrides::default;
    for overrides in
        [Overrides { timeout: Some(timeout), ..none() }, Overrides { retry: Some(retry), ..none() }]
    {
        let mut story = Story::of(definition());
        let mut run = story.new_run(START + 10, Origin::OneShot);
        let has_timeout = overrides.timeout.is_some();
        run.overrides = overrides.kept();
        let id = run.id;
        story.tell(Request::Accept(vec![run], vec![])).unwrap();
        story.at(START + 10);
        if has_timeout {
            breaks("I30", story.send(id, 1));
            continue;
        }
        story.send(id, 1).unwrap();
        story.executed(id, 1, AttemptOutcome::Failed);
        let end = story.end(id, 1, AttemptOutcome::Failed, story.wait(60_000, 2));
        breaks("I30", story.settle(end));
    }
}

// --- executors ---

#[test]
fn x1_an_attempt_is_lost_after_one_answer() {
    for answers in [&[Some(false)][..], &[None], &[Some(false), Some(true)], &[Some(false), None]] {
        let mut story = Story::of(executed());
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        story.send(run, 1).unwrap();
        let sent_at = story.now();
        for said in answers {
            story.at(story.now() + DOUBT);
            story.answer(*said);
        }
        let lost = story.lost(run, sent_at, AttemptOutcome::Lost, story.wait(1_100, 2));
        breaks("X1", story.settle(lost));
    }
}

#[test]
fn x2_a_run_is_sent_to_the_executor_of_another_app_or_to_none() {
    for address in [None, Some("http://x1")] {
        let mut story = Story::of(executed());
        story.checker.lives_at(&"a1".into(), &"http://x1".into());
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        let mut send = story.dispatched(run, 1);
        let moved = |(there, url): (Arc<Address>, &'static str)| {
            Arc::new(Address { url: url.into(), ..(*there).clone() })
        };
        send.address = send.address.zip(address).map(moved);
        breaks("X2", story.send_as(NODE, &send));
    }
}

#[test]
fn x3_an_attempt_is_given_up_before_its_time_is() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let sent_at = story.now();
    story.at(sent_at + 29_999);
    let lost = story.lost(run, sent_at, AttemptOutcome::TimedOut, story.wait(1_100, 2));
    breaks("X3", story.settle(lost));
}

#[test]
fn x4_there_is_no_executor_although_there_is_one() {
    let mut story = Story::of(executed());
    story.checker.executors_are_well(Moment::default(), vec![true]);
    let run = story.planned();
    let then = story.close(Outcome::Failed, "no executor: none of app a0 is registered");
    let end = story.settlement(run, Fence::Unsent(Attempt(1)), None, then);
    breaks("X4", story.settle(end));
}

#[test]
fn x5_an_attempt_ends_by_the_word_of_an_executor_of_another_app() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let mut forged =
        story.lost(run, story.now(), AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    if let Some(record) = &mut forged.attempt {
        record.executor = crate::check::INTRUDER.into();
    }
    breaks("X5", story.settle(forged));
}

#[test]
fn x6_a_run_is_sent_again_beside_an_attempt_that_its_executor_admits_to() {
    let mut story = Story::of(executed());
    let (run, _) = story.lose();
    let admitted = Admitted { executor: 0, attempt: Attempt(1), since: 0 };
    breaks("X6", story.checker.check_alone(&story.dispatched(run, 2), &[admitted]));
}

#[test]
fn x7_an_attempt_is_timed_out_before_its_executor_could_say_again_what_nobody_heard() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let sent_at = story.now();
    let sent_by = story.token(1);
    story.at(sent_at + 30_000);
    story.take_over();
    story.at(sent_at + 60_000);
    let mut lost = story.lost(run, sent_at, AttemptOutcome::TimedOut, story.wait(1_100, 2));
    lost.fence = Fence::Sent(Attempt(1), sent_by);
    lost.attempt.as_mut().expect("it has one").token = sent_by;
    breaks("X7", story.tell_by(OTHER, Request::Settle(vec![lost])));
}

#[test]
fn i33_an_instant_is_coalesced_and_no_later_one_has_a_record() {
    let once = Misfire { policy: Policy::FireOnce, threshold: Duration::from_secs(5) };
    let mut story = Story::of(Definition { misfire: once, ..definition() });
    let run = story.planned();
    story.at(story.now() + 2 * MINUTE);
    let fence = Fence::Unsent(Attempt(1));
    let close = story.close(Outcome::Skipped, Skip::Coalesced.name());
    story.settle(story.settlement(run, fence, None, close)).unwrap();
    breaks("I33", story.finish());
}

#[test]
fn h1_an_attempt_is_on_record_that_nobody_sent() {
    let mut story = Story::of(definition());
    let run = story.planned();
    let end = story.end(run, 1, AttemptOutcome::Lost, story.wait(0, 2));
    breaks("H1", story.settle(end));
}

#[test]
fn h1_an_attempt_is_on_record_as_sent_of_which_only_the_gate_is_known() {
    for definition in [at_most_once(), executed()] {
        let mut story = Story::of(definition);
        let run = story.planned();
        story.tell(story.gate(run, 1)).unwrap();
        story.at(story.now() + 40_000);
        let then = story.close(Outcome::Lost, "nothing was heard of it");
        let end = story.end(run, 1, AttemptOutcome::Lost, then);
        breaks("H1", story.settle(end));
    }
}

#[test]
fn h2_an_attempt_is_given_up_whose_end_the_node_has_heard() {
    for is_last in [false, true] {
        let mut story = Story::of(definition());
        let run = story.planned();
        story.send(run, 1).unwrap();
        story.checker.heard(NODE, run, Attempt(1), 0);
        let lost = story.close(Outcome::Lost, "nothing was heard of it");
        let then = if is_last { lost } else { story.wait(0, 2) };
        let end = story.end(run, 1, AttemptOutcome::Lost, then);
        breaks("H2", story.settle(end));
    }
}

#[test]
fn h2_a_part_is_given_up_whose_end_the_node_has_heard() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 2);
    story.checker.heard(NODE, parts[0], Attempt(1), 0);
    let mut end = story.end_part(parts[0], AttemptOutcome::Succeeded);
    let record = end.attempt.as_mut().expect("it has one");
    (record.outcome, end.then) =
        (AttemptOutcome::Lost, story.close(Outcome::Lost, "nothing was heard of it"));
    breaks("H2", story.settle(end));
}

#[test]
fn i11_what_was_given_up_is_sent_again_and_does_not_say_so() {
    let mut story = Story::of(executed());
    let run = story.planned();
    story.tell(story.gate(run, 1)).unwrap();
    story.send(run, 1).unwrap();
    let sent_at = story.now();
    story.at(sent_at + 40_000);
    let lost = story.lost(run, sent_at, AttemptOutcome::TimedOut, story.wait(1_100, 2));
    story.settle(lost).unwrap();
    story.at(story.now() + 1_100);
    story.tell(story.gate(run, 2)).unwrap();
    breaks("I11", story.send(run, 2));
}

// --- people and programs ---

#[test]
fn i15_a_change_is_written_over_another_version() {
    let mut story = Story::of(definition());
    let change = story.change(JobState::Enabled, Some(START + MINUTE));
    story.tell(change.clone()).unwrap();
    let changed = story.changed(3);
    breaks("I15", story.claim(&change, changed));
}

#[test]
fn i15_a_deleted_job_comes_back() {
    let mut story = Story::of(definition());
    story.tell(story.change(JobState::Deleted, None)).unwrap();
    let change = story.change(JobState::Enabled, Some(START + MINUTE));
    let changed = story.changed(3);
    breaks("I15", story.claim(&change, changed));
}

#[test]
fn i16_a_key_belongs_to_two_runs() {
    let mut story = Story::of(definition());
    let mut first = story.new_run(START + 10, Origin::OneShot);
    first.key = Some("k".into());
    let mut second = story.new_run(START + 10, Origin::OneShot);
    second.key = Some("k".into());
    let id = second.id;
    story.tell(Request::Accept(vec![first], vec![])).unwrap();
    let accepted = Answer::Accept(vec![Accepted::New(id)]);
    breaks("I16", story.claim(&Request::Accept(vec![second], vec![]), accepted));
}

#[test]
fn i16_a_client_is_told_of_a_run_that_is_not_there() {
    let mut story = Story::of(definition());
    let run = story.new_run(START + 10, Origin::OneShot).id;
    breaks("I16", story.checker.told_kept(run));
}

#[test]
fn i17_one_submission_is_two_runs() {
    let mut story = Story::of(definition());
    for is_second in [false, true] {
        let mut run = story.new_run(START + 10, Origin::OneShot);
        run.payload = Some("p".into());
        let checked = story.tell(Request::Accept(vec![run], vec![]));
        if is_second { breaks("I17", checked) } else { checked.unwrap() }
    }
}

#[test]
fn i17_a_client_was_told_no_and_it_is_there() {
    let mut story = Story::of(definition());
    let mut run = story.new_run(START + 10, Origin::OneShot);
    run.payload = Some("p".into());
    story.tell(Request::Accept(vec![run], vec![])).unwrap();
    story.checker.told_refused("p".into());
    breaks("I17", story.finish());
}

// --- the end ---

#[test]
fn i10_a_run_succeeded_that_nobody_received() {
    let mut story = Story::of(definition());
    let run = story.planned();
    story.send(run, 1).unwrap();
    story.checker.said(run, Attempt(1), story.token(1), AttemptOutcome::Succeeded);
    let end = story.end(run, 1, AttemptOutcome::Succeeded, story.close(Outcome::Succeeded, ""));
    story.settle(end).unwrap();
    breaks("I10", story.finish());
}

#[test]
fn i22_a_run_that_was_written_is_gone() {
    let mut story = Story::of(definition());
    let run = story.new_run(START + 10, Origin::OneShot);
    let id = run.id;
    let accepted = Answer::Accept(vec![Accepted::New(id)]);
    story.claim(&Request::Accept(vec![run], vec![]), accepted).unwrap();
    breaks("I22", story.finish());
}

#[test]
fn i23_something_due_is_left_over() {
    let mut story = Story::of(definition());
    story.planned();
    story.at(story.now() + 2 * MINUTE + 1);
    breaks("I23 clock", story.finish());
    let mut story = Story::of(definition());
    story.planned();
    story.at(story.now() + MINUTE + 500);
    breaks("I23", story.finish());
}

#[test]
fn i23_a_run_is_left_over_whose_parts_have_ended() {
    let mut story = Story::of(broadcast());
    let run = story.planned();
    let parts = story.fall_apart(run, 1);
    let end = story.end_part(parts[0], AttemptOutcome::Succeeded);
    story.settle(end).unwrap();
    let moved = story.change(JobState::Stopped(StoppedReason::Asked), None);
    story.tell(moved).unwrap();
    story.at(story.now() + MINUTE + 500);
    breaks("I23 whole", story.finish());
}

#[test]
fn i32_a_run_waits_for_a_place_though_few_are_sent() {
    let mut story = Story::of(definition());
    story.planned();
    story.at(story.now() + MINUTE + 500);
    let rest = Quiet {
        since: Moment::default(),
        healthy: vec![true],
        is_narrow: true,
        moves_at_rest: story.checker.lease_moves(),
        unanswered: 0,
    };
    breaks("I32", story.checker.check_places(story.moment(), &rest));
    breaks("I32", story.finish_as(&rest));
}

// --- parked runs ---

/// Two one-shots that were due one after the other, both parked.
fn two_parked(story: &mut Story) -> [RunId; 2] {
    [1, 2].map(|seconds| {
        let run = story.new_run(START + seconds * 1_000, Origin::OneShot);
        let id = run.id;
        story.tell(Request::Accept(vec![run], vec![])).unwrap();
        let fence = Fence::Unsent(Attempt::FIRST);
        let then = Then::Park { attempt: Attempt::FIRST, version: 1 };
        story.settle(story.settlement(id, fence, None, then)).unwrap();
        id
    })
}

#[test]
fn i31_the_later_of_two_parked_runs_is_called_back() {
    let mut story = Story::of(definition());
    let [_, late] = two_parked(&mut story);
    let unpark = Unpark::of(story.lease, story.job, 1, Timestamp::from_millis(START + 9_000));
    let called = Answer::Unpark(vec![(story.job, late)]);
    breaks("I31", story.claim(&Request::Unpark(unpark), called));
}

#[test]
fn i31_a_parked_run_stays_though_there_is_room() {
    let mut story = Story::of(definition());
    let [early, _] = two_parked(&mut story);
    let unpark = Unpark::of(story.lease, story.job, 9, Timestamp::from_millis(START + 9_000));
    let called = Answer::Unpark(vec![(story.job, early)]);
    breaks("I31", story.claim(&Request::Unpark(unpark), called));
}

#[test]
fn i23_leases_move_when_all_is_well() {
    let mut story = Story::of(definition());
    let rest = Quiet {
        since: Moment::default(),
        healthy: vec![true],
        is_narrow: false,
        moves_at_rest: 0,
        unanswered: 0,
    };
    breaks("I23 leases", story.finish_as(&rest));
}

#[test]
fn l12_a_change_is_never_answered() {
    let mut story = Story::of(definition());
    let moves_at_rest = story.checker.lease_moves();
    let rest = Quiet {
        since: Moment::default(),
        healthy: vec![true],
        is_narrow: false,
        moves_at_rest,
        unanswered: 1,
    };
    breaks("L12", story.finish_as(&rest));
}
