//! The agent's receipts: only existing runs, no more often than allowed, and marked where they may be repetitions.

use std::collections::BTreeMap;

use super::{CLOCKS_APART, Judge, Rule};
use crate::history::{AttemptRecord, JobFact, Receipt, RunRecord};

pub(super) fn check(judge: &mut Judge) {
    for receipt in &judge.history.receipts {
        judge.verdict.covered.receipts += 1;
        judge.verdict.covered.refused += usize::from(receipt.is_refused);
        check_belongs(judge, receipt);
    }
    for run in &judge.history.runs {
        let receipts = judge.receipts_of(run);
        let Some(job) = judge.jobs.get(&run.job).copied() else { continue };
        check_count(judge, job, run, &receipts);
        check_repetitions(judge, run, &receipts);
        check_attempts(judge, run, &receipts);
    }
    check_instants_once(judge);
    check_serial(judge);
}

/// A receipt is of an existing run, with the run's fire time, and not before it.
fn check_belongs(judge: &mut Judge, receipt: &Receipt) {
    let Some(run) = judge.runs.get(&receipt.run).copied() else {
        return judge
            .broken(Rule::NothingInvented, format!("run {} was received and is nowhere", receipt.run));
    };
    if (run.job, run.fire_time) != (receipt.job, receipt.fire_time) {
        let what = format!("run {} was received as job {} at {}", run.id, receipt.job, receipt.fire_time);
        judge.broken(Rule::NothingInvented, what);
    }
    let early = receipt.fire_time - receipt.received_at;
    if early > CLOCKS_APART {
        judge.broken(Rule::NeverEarly, format!("run {} came {early} ms early", run.id));
    }
}

fn check_count(judge: &mut Judge, job: &JobFact, run: &RunRecord, receipts: &[&Receipt]) {
    if job.at_most_once && receipts.len() > 1 {
        judge.broken(Rule::AtMostOnce, format!("run {} was received {} times", run.id, receipts.len()));
    }
    if run.is_skipped() && !receipts.is_empty() {
        judge
            .broken(Rule::NothingInvented, format!("run {} is recorded as skipped and was received", run.id));
    }
    let ended_badly = matches!(run.state.as_str(), "failed" | "lost" | "cancelled");
    if ended_badly && !job.at_most_once && !judge.was_stopped(run) {
        let what = format!("run {} of {} is {}: {}", run.id, job.name, run.state, run.reason);
        judge.broken(Rule::AtLeastOnce, what);
    }
    let succeeded = run.attempts.iter().find(|attempt| attempt.outcome.as_deref() == Some("succeeded"));
    let was_received = |attempt: &AttemptRecord| receipts.iter().any(|one| one.attempt == attempt.number);
    if run.state == "succeeded" && !succeeded.is_some_and(was_received) {
        judge.broken(Rule::SucceededWasReceived, format!("run {} succeeded and was not received", run.id));
    }
}

/// A repeated receipt is marked and has a greater token.
fn check_repetitions(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    let taken: Vec<&Receipt> = receipts.iter().filter(|one| !one.is_refused).copied().collect();
    judge.verdict.covered.duplicates += usize::from(taken.len() > 1);
    for pair in taken.windows(2) {
        if pair[1].token <= pair[0].token {
            let what = format!("run {}: token {} after {}", run.id, pair[1].token, pair[0].token);
            judge.broken(Rule::TokensRise, what);
        }
        // The next attempt after an answered failure is no duplicate.
        let has_failed =
            run.attempt(pair[0].attempt).and_then(|attempt| attempt.outcome.as_deref()) == Some("failed");
        if !pair[1].possible_duplicate && !has_failed {
            let what = format!("run {}, attempt {} came again unmarked", run.id, pair[1].attempt);
            judge.broken(Rule::DuplicatesMarked, what);
        }
    }
    if taken.len() > 1 && taken[1..].iter().any(|one| one.possible_duplicate) && !run.possible_duplicate {
        judge.broken(
            Rule::DuplicatesMarked,
            format!("run {} came twice and its record does not say so", run.id),
        );
    }
    if taken.len() < receipts.len() && !judge.history.had_pauses {
        let what = format!("run {} was sent late, though no sender was ever stopped", run.id);
        judge.broken(Rule::TokensRise, what);
    }
}

fn check_attempts(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    let numbers: Vec<u32> = run.attempts.iter().map(|attempt| attempt.number).collect();
    if !numbers.iter().copied().eq(1..=numbers.len() as u32) {
        judge.broken(Rule::AttemptsInOrder, format!("run {} has the attempts {numbers:?}", run.id));
    }
    // A skipped run may show the attempt that was about to be sent when its job was stopped.
    let was_never_sent = run.is_skipped() && receipts.is_empty();
    for attempt in &run.attempts {
        let has_ended = attempt.outcome.is_some() && attempt.ended_at.is_some();
        if !has_ended && !run.is_open() && !was_never_sent {
            let what = format!("run {}, attempt {} has not ended and the run has", run.id, attempt.number);
            judge.broken(Rule::AttemptsInOrder, what);
        }
    }
}

/// At most once also holds for the instant, whichever run it is received as.
fn check_instants_once(judge: &mut Judge) {
    let mut runs_of: BTreeMap<(u64, i64), u64> = BTreeMap::new();
    for receipt in &judge.history.receipts {
        let has_schedule = judge.jobs.get(&receipt.job).is_some_and(|job| job.every.is_some());
        let first = *runs_of.entry((receipt.job, receipt.fire_time)).or_insert(receipt.run);
        if has_schedule && first != receipt.run {
            let what = format!("runs {first} and {} are of one fire time", receipt.run);
            judge.broken(Rule::DecidedOnce, what);
        }
    }
}

/// A run of a serial job begins after the run before it has ended, as the agent saw it, unless no node could know any
/// more that it was running.
fn check_serial(judge: &mut Judge) {
    let mut by_job: BTreeMap<u64, Vec<&Receipt>> = BTreeMap::new();
    for receipt in judge.history.receipts.iter().filter(|receipt| !receipt.is_refused) {
        if judge.jobs.get(&receipt.job).is_some_and(|job| job.is_serial) {
            by_job.entry(receipt.job).or_default().push(receipt);
        }
    }
    for (job, mut receipts) in by_job {
        receipts.sort_by_key(|receipt| receipt.received_at);
        for (index, later) in receipts.iter().enumerate() {
            let overlaps = |earlier: &&&Receipt| earlier.done_at.is_none_or(|done| done > later.received_at);
            for earlier in receipts[..index].iter().filter(overlaps) {
                if is_known(judge, earlier) {
                    let what = format!("job {job}: run {} came while {} was at work", later.run, earlier.run);
                    judge.broken(Rule::SerialHolds, what);
                }
            }
        }
    }
}

/// Whether a node knew the end of the attempt, so that an overlap has no excuse.
fn is_known(judge: &Judge, receipt: &Receipt) -> bool {
    let run = judge.runs.get(&receipt.run);
    let outcome =
        run.and_then(|run| run.attempt(receipt.attempt)).and_then(|attempt| attempt.outcome.as_deref());
    matches!(outcome, Some("succeeded" | "failed"))
}
