//! A small correct history, and for every rule a violation that the checker must find.
#![cfg(test)]

use super::{CheckResult, Covered, Rule, check};
use crate::history::{AttemptRecord, Every, History, JobFact, Receipt, RunRecord, Submission};

/// The index of the first job.
const TICK: usize = 0;

fn job(id: u64, name: &str) -> JobFact {
    let every = Some(Every { anchor: 0, interval: 1_000 });
    JobFact {
        id,
        name: name.into(),
        every,
        at_most_once: false,
        is_serial: false,
        fires_all: true,
        created: (500, 600),
        stopped: Some((4_500, 4_600)),
    }
}

fn run(id: u64, job: u64, fire_time: i64) -> RunRecord {
    let attempt = AttemptRecord {
        number: 1,
        started_at: fire_time,
        ended_at: Some(fire_time + 100),
        outcome: Some("succeeded".into()),
        possible_duplicate: false,
        supposed: false,
    };
    RunRecord {
        id,
        job,
        fire_time,
        origin: "schedule".into(),
        state: "succeeded".into(),
        reason: String::new(),
        possible_duplicate: false,
        lag_ms: Some(2),
        key: None,
        count: None,
        until: None,
        attempts: vec![attempt],
    }
}

fn receipt(run: &RunRecord) -> Receipt {
    Receipt {
        run: run.id,
        job: run.job,
        fire_time: run.fire_time,
        attempt: 1,
        token: 1,
        possible_duplicate: false,
        received_at: run.fire_time + 5,
        is_refused: false,
        done_at: Some(run.fire_time + 95),
    }
}

/// Runs at 1, 2, 3 and 4 s of three jobs, skipped ones after the stop, and one one-shot.
fn good() -> History {
    let jobs = vec![
        job(1, "tick"),
        JobFact { at_most_once: true, ..job(2, "once") },
        JobFact { is_serial: true, ..job(3, "serial") },
        JobFact { every: None, ..job(4, "shots") },
    ];
    let instants = |job: u64| (1..=4).map(move |second| run(job * 10 + second, job, second as i64 * 1_000));
    let mut runs: Vec<RunRecord> = (1..=3).flat_map(instants).collect();
    runs.push(RunRecord { origin: "one_shot".into(), key: Some("k1".into()), ..run(41, 4, 2_500) });
    let receipts = runs.iter().map(receipt).collect();
    let skipped = |id, job| RunRecord {
        state: "skipped".into(),
        reason: "job stopped".into(),
        attempts: Vec::new(),
        ..run(id, job, 5_000)
    };
    runs.extend([skipped(15, 1), skipped(25, 2)]);
    let submissions = vec![
        Submission { key: "k1".into(), job: 4, at: 2_500, id: Some(41) },
        Submission { key: "never".into(), job: 4, at: 2_600, id: None },
    ];
    History { jobs, submissions, receipts, runs, had_pauses: false, had_losses: false, had_holds: false }
}

impl History {
    fn run(&mut self, id: u64) -> &mut RunRecord {
        self.runs.iter_mut().find(|run| run.id == id).expect("a run of the example")
    }

    fn receipt(&mut self, run: u64) -> &mut Receipt {
        self.receipts.iter_mut().find(|receipt| receipt.run == run).expect("a receipt of the example")
    }

    /// Run 12 was in doubt because its node was killed, and was correctly sent again.
    fn repeat(&mut self) {
        self.had_losses = true;
        let run = self.run(12);
        run.possible_duplicate = true;
        let again = AttemptRecord { number: 2, possible_duplicate: true, ..run.attempts[0].clone() };
        run.attempts[0].outcome = Some("lost".into());
        run.attempts.push(again);
        let first = self.receipt(12).clone();
        self.receipts.push(Receipt {
            attempt: 2,
            token: 2,
            possible_duplicate: true,
            received_at: 9_000,
            done_at: Some(9_090),
            ..first
        });
    }
}

fn judged(spoil: impl FnOnce(&mut History)) -> CheckResult {
    let mut history = good();
    spoil(&mut history);
    check(&history)
}

/// The checker finds that `spoil` breaks this rule and no other.
fn spoiled(rule: Rule, spoil: impl FnOnce(&mut History)) {
    let violations = judged(spoil).violations;
    assert!(!violations.is_empty(), "nothing was found, and {rule:?} is broken");
    assert!(violations.iter().all(|one| one.rule == rule), "{violations:?}");
}

fn fine(spoil: impl FnOnce(&mut History)) -> Covered {
    let verdict = judged(spoil);
    assert_eq!(verdict.violations, []);
    verdict.covered
}

#[test]
fn a_good_history_is_accepted_and_counted() {
    let covered = fine(|_| {});
    assert_eq!((covered.fires, covered.one_shots, covered.receipts), (12, 1, 13));
    assert_eq!((covered.skipped, covered.duplicates, covered.lost), (0, 0, 0));
}

#[test]
fn a_range_of_skipped_instants_stands_for_all_of_them() {
    let covered = fine(|history| {
        history.jobs[TICK].fires_all = false;
        history.runs.retain(|run| !(run.id == 12 || run.id == 13));
        history.receipts.retain(|receipt| !(receipt.run == 11 || receipt.run == 12 || receipt.run == 13));
        let run = history.run(11);
        (run.state, run.reason) = ("skipped".into(), "misfire: coalesced".into());
        (run.count, run.until, run.attempts) = (Some(3), Some(3_000), Vec::new());
    });
    assert_eq!((covered.fires, covered.skipped), (12, 3));
}

#[test]
fn a_marked_repetition_is_accepted() {
    assert_eq!(fine(History::repeat).duplicates, 1);
}

#[test]
fn a_late_send_of_a_stopped_sender_is_accepted_where_it_was_refused() {
    let late = |history: &mut History| {
        history.repeat();
        let first = history.receipt(12).clone();
        history.receipts.push(Receipt { received_at: 9_500, is_refused: true, ..first });
    };
    let covered = fine(|history| {
        late(history);
        history.had_pauses = true;
    });
    assert_eq!(covered.refused, 1);
    spoiled(Rule::TokensRise, late);
}

#[test]
fn an_instant_that_is_decided_twice_is_found() {
    spoiled(Rule::DecidedOnce, |history| {
        let mut again = history.run(12).clone();
        again.id = 99;
        history.receipts.push(receipt(&again));
        history.runs.push(again);
    });
    spoiled(Rule::DecidedOnce, |history| {
        let skipped = RunRecord { attempts: Vec::new(), state: "skipped".into(), ..run(98, 1, 4_000) };
        let range = RunRecord { reason: "x".into(), count: Some(2), until: Some(5_000), ..skipped };
        history.jobs[TICK].fires_all = false;
        history.runs.retain(|run| run.id != 15);
        history.runs.push(range);
    });
}

#[test]
fn an_instant_without_a_record_is_found() {
    spoiled(Rule::NothingMissing, |history| {
        history.runs.retain(|run| run.id != 13);
        history.receipts.retain(|receipt| receipt.run != 13);
    });
    spoiled(Rule::NothingMissing, |history| {
        history.jobs[TICK].fires_all = false;
        history.receipts.retain(|receipt| receipt.run != 13);
        let run = history.run(13);
        (run.state, run.attempts) = ("skipped".into(), Vec::new());
    });
}

#[test]
fn an_instant_that_nobody_named_is_found() {
    let add = |history: &mut History, id: u64, job: u64, at: i64| {
        history.runs.push(RunRecord {
            state: "skipped".into(),
            reason: "x".into(),
            attempts: Vec::new(),
            ..run(id, job, at)
        })
    };
    spoiled(Rule::NothingInvented, |history| add(history, 97, 1, 2_001));
    spoiled(Rule::NothingInvented, |history| add(history, 97, 1, 0));
    spoiled(Rule::NothingInvented, |history| add(history, 97, 9, 1_000));
    spoiled(Rule::NothingInvented, |history| history.run(15).count = Some(2));
    spoiled(Rule::NothingInvented, |history| history.run(25).state = "lost".into());
    spoiled(Rule::NothingInvented, |history| {
        history.submissions.remove(0);
    });
    spoiled(Rule::NothingInvented, |history| history.receipts.push(receipt(&run(96, 4, 1_000))));
    spoiled(Rule::NothingInvented, |history| history.receipt(41).fire_time = 2_501);
    spoiled(Rule::NothingInvented, |history| {
        let received = receipt(history.run(15));
        history.receipts.push(received);
    });
}

#[test]
fn a_skipped_instant_of_a_job_that_runs_all_is_found() {
    spoiled(Rule::PolicyFollowed, |history| {
        history.receipts.retain(|receipt| receipt.run != 13);
        let run = history.run(13);
        (run.state, run.reason, run.attempts) = ("skipped".into(), "misfire".into(), Vec::new());
    });
}

#[test]
fn an_acknowledged_one_shot_that_is_gone_or_another_or_there_twice_is_found() {
    spoiled(Rule::AcknowledgedKept, |history| {
        history.runs.retain(|run| run.id != 41);
        history.receipts.retain(|receipt| receipt.run != 41);
    });
    spoiled(Rule::AcknowledgedKept, |history| history.submissions[0].id = Some(42));
    spoiled(Rule::AcknowledgedKept, |history| history.submissions[0].at = 9_000);
    spoiled(Rule::AcknowledgedKept, |history| {
        let again = RunRecord { id: 42, ..history.run(41).clone() };
        history.receipts.push(receipt(&again));
        history.runs.push(again);
    });
    spoiled(Rule::AcknowledgedKept, |history| {
        for id in [43, 44] {
            let other =
                RunRecord { id, key: Some("never".into()), fire_time: 2_600, ..history.run(41).clone() };
            history.receipts.push(receipt(&other));
            history.runs.push(other);
        }
    });
}

#[test]
fn a_one_shot_that_was_never_answered_may_be_there() {
    fine(|history| {
        let other =
            RunRecord { id: 43, key: Some("never".into()), fire_time: 2_600, ..history.run(41).clone() };
        history.receipts.push(receipt(&other));
        history.runs.push(other);
    });
}

#[test]
fn a_second_receipt_of_what_is_sent_at_most_once_is_found_even_if_it_was_refused() {
    spoiled(Rule::AtMostOnce, |history| {
        history.had_pauses = true;
        let again = Receipt { is_refused: true, ..history.receipt(22).clone() };
        history.receipts.push(again);
    });
}

#[test]
fn what_is_sent_at_least_once_and_ends_badly_is_found_unless_its_job_was_just_stopped() {
    let lose = |history: &mut History, id: u64, reason: &str| {
        let run = history.run(id);
        (run.state, run.reason) = ("failed".into(), reason.into());
        run.attempts[0].outcome = Some("lost".into());
    };
    let lose_with_node = |history: &mut History, id: u64, reason: &str| {
        lose(history, id, reason);
        history.had_losses = true;
    };
    spoiled(Rule::AtLeastOnce, |history| lose_with_node(history, 14, "no executor"));
    spoiled(Rule::AtLeastOnce, |history| lose_with_node(history, 11, "job stopped"));
    fine(|history| lose_with_node(history, 14, "job stopped"));
    let covered = fine(|history| lose_with_node(history, 24, "nobody knows"));
    assert_eq!(covered.failed, 1);
}

#[test]
fn a_success_that_nobody_received_is_found() {
    spoiled(Rule::SucceededWasReceived, |history| history.receipts.retain(|receipt| receipt.run != 13));
    spoiled(Rule::SucceededWasReceived, |history| history.receipt(13).attempt = 2);
}

#[test]
fn an_unmarked_repetition_is_found() {
    spoiled(Rule::DuplicatesMarked, |history| {
        history.repeat();
        history.receipts.last_mut().expect("the second").possible_duplicate = false;
    });
    spoiled(Rule::DuplicatesMarked, |history| {
        history.repeat();
        history.run(12).possible_duplicate = false;
    });
}

#[test]
fn an_attempt_after_an_answered_failure_needs_no_mark() {
    fine(|history| {
        history.repeat();
        history.run(12).attempts[0].outcome = Some("failed".into());
        history.receipts.last_mut().expect("the second").possible_duplicate = false;
    });
}

#[test]
fn a_token_that_does_not_rise_is_found() {
    spoiled(Rule::TokensRise, |history| {
        history.repeat();
        history.receipts.last_mut().expect("the second").token = 1;
    });
}

#[test]
fn what_comes_early_is_found() {
    spoiled(Rule::NeverEarly, |history| history.receipt(13).received_at = 2_900);
    fine(|history| history.receipt(13).received_at = 2_990);
}

#[test]
fn attempts_with_a_gap_or_without_an_end_are_found() {
    spoiled(Rule::AttemptsInOrder, |history| {
        history.run(13).attempts[0].number = 2;
        history.receipt(13).attempt = 2;
    });
    spoiled(Rule::AttemptsInOrder, |history| {
        history.repeat();
        history.run(12).attempts[0].outcome = None;
    });
}

#[test]
fn what_was_about_to_be_sent_when_its_job_was_stopped_may_show_an_attempt() {
    let skip = |history: &mut History| {
        let run = history.run(24);
        (run.state, run.reason) = ("skipped".into(), "job stopped".into());
        (run.attempts[0].outcome, run.attempts[0].ended_at) = (None, None);
    };
    fine(|history| {
        skip(history);
        history.receipts.retain(|receipt| receipt.run != 24);
    });
    assert!(!judged(skip).violations.is_empty(), "it was received");
}

#[test]
fn serial_runs_that_overlap_are_found_unless_the_earlier_was_lost() {
    let overlap = |history: &mut History| history.receipt(32).done_at = Some(3_500);
    spoiled(Rule::SerialHolds, overlap);
    spoiled(Rule::SerialHolds, |history| history.receipt(32).done_at = None);
    fine(|history| {
        overlap(history);
        (history.jobs[2].at_most_once, history.had_losses) = (true, true);
        let run = history.run(32);
        (run.state, run.attempts[0].outcome) = ("lost".into(), Some("lost".into()));
    });
}

#[test]
fn a_run_that_is_still_open_is_found() {
    spoiled(Rule::AllEnded, |history| history.run(13).state = "running".into());
}

#[test]
fn what_was_answered_and_sent_again_is_found_and_counted_unless_a_node_was_lost() {
    let again = |history: &mut History| {
        history.repeat();
        history.had_losses = false;
    };
    spoiled(Rule::KnownKept, again);
    spoiled(Rule::KnownKept, |history| {
        let run = history.run(24);
        (run.state, run.attempts[0].outcome) = ("lost".into(), Some("lost".into()));
    });
    assert_eq!(judged(again).covered.known_again, 1);
    assert_eq!(fine(History::repeat).known_again, 1);
}

#[test]
fn what_is_sent_again_before_it_was_answered_was_not_known() {
    let covered = fine(|history| {
        history.repeat();
        history.had_losses = false;
        history.receipt(12).done_at = Some(9_500);
        history.run(12).attempts[0].outcome = Some("timed_out".into());
    });
    assert_eq!((covered.duplicates, covered.known_again), (1, 0));
}

#[test]
fn an_attempt_that_nobody_received_is_found_unless_it_is_supposed_or_was_refused() {
    let unsent = |history: &mut History| {
        history.repeat();
        history.receipts.retain(|one| one.run != 12 || one.attempt == 2);
        history.run(12).lag_ms = Some(8_000);
    };
    spoiled(Rule::HonestRecord, unsent);
    fine(|history| {
        unsent(history);
        history.run(12).attempts[0].supposed = true;
    });
    fine(|history| {
        unsent(history);
        history.run(12).attempts[0].outcome = Some("refused".into());
    });
}

#[test]
fn an_end_that_is_later_than_the_answer_is_found_unless_a_node_was_held() {
    let delay = |history: &mut History| history.run(12).attempts[0].ended_at = Some(2_095 + 2_001);
    spoiled(Rule::HonestRecord, delay);
    fine(|history| {
        delay(history);
        history.had_holds = true;
    });
}

#[test]
fn a_lateness_that_is_less_than_what_was_seen_is_found_unless_a_node_was_held() {
    let late = |history: &mut History| {
        let receipt = history.receipt(13);
        (receipt.received_at, receipt.done_at) = (9_000, Some(9_005));
    };
    spoiled(Rule::HonestRecord, late);
    spoiled(Rule::HonestRecord, |history| {
        late(history);
        history.run(13).lag_ms = None;
    });
    fine(|history| {
        late(history);
        history.run(13).lag_ms = Some(5_990);
    });
    fine(|history| {
        late(history);
        history.had_holds = true;
    });
}
