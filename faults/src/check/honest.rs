//! The recorded history against the agent's: no known result is forgotten, no send is made up, and times are those of the
//! events.

use super::{Judge, ON_ITS_WAY, Rule};
use crate::history::{AttemptRecord, Receipt, RunRecord};

pub(super) fn check(judge: &mut Judge) {
    for run in &judge.history.runs {
        let receipts = judge.receipts_of(run);
        check_known(judge, run, &receipts);
        check_sends(judge, run, &receipts);
        check_lateness(judge, run, &receipts);
        check_ends(judge, run, &receipts);
    }
}

/// The node that received an answer and did not die writes it down when it can.
fn check_known(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    check_not_lost(judge, run, receipts);
    let answered = receipts.iter().filter(|one| !one.is_refused).filter_map(|one| one.done_at).min();
    let Some(answered) = answered else { return };
    let Some(again) = receipts.iter().find(|one| one.received_at > answered) else { return };
    judge.verdict.covered.known_again += 1;
    if !judge.history.had_losses {
        let later = again.received_at - answered;
        let what =
            format!("run {} was answered, and attempt {} came {later} ms later", run.id, again.attempt);
        judge.broken(Rule::KnownKept, what);
    }
}

fn check_not_lost(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    let was_answered = |number: u32| {
        receipts.iter().any(|one| one.attempt == number && !one.is_refused && one.done_at.is_some())
    };
    let is_lost = |attempt: &&AttemptRecord| attempt.outcome.as_deref() == Some("lost");
    for attempt in run.attempts.iter().filter(is_lost).filter(|attempt| was_answered(attempt.number)) {
        if !judge.history.had_losses {
            let what = format!(
                "run {}, attempt {} was answered and is recorded as lost ({})",
                run.id, attempt.number, run.reason
            );
            judge.broken(Rule::KnownKept, what);
        }
    }
}

/// Every recorded send was received, since the agent is always reachable. Successful runs are checked elsewhere.
fn check_sends(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    let claims_a_send = |attempt: &&AttemptRecord| {
        let is_other = |outcome: &str| matches!(outcome, "refused" | "succeeded");
        attempt.outcome.as_deref().is_some_and(|outcome| !is_other(outcome)) && !attempt.supposed
    };
    for attempt in run.attempts.iter().filter(claims_a_send) {
        if !receipts.iter().any(|one| one.attempt == attempt.number) {
            let outcome = attempt.outcome.as_deref().unwrap_or_default();
            let what = format!(
                "run {}, attempt {} is recorded as {outcome} and nobody received it",
                run.id, attempt.number
            );
            judge.broken(Rule::HonestRecord, what);
        }
    }
}

/// The recorded lateness is at least the observed one.
fn check_lateness(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    let Some(first) = receipts.iter().map(|one| one.received_at).min() else { return };
    let seen = first - run.fire_time;
    let recorded = run.lag_ms.unwrap_or(0);
    if recorded < seen - ON_ITS_WAY && !judge.history.had_holds {
        let what = format!("run {} was first received {seen} ms late and says {:?} ms", run.id, run.lag_ms);
        judge.broken(Rule::HonestRecord, what);
    }
}

/// An attempt ended when its answer came, however long the database was away by then. A node that is held hears it later.
fn check_ends(judge: &mut Judge, run: &RunRecord, receipts: &[&Receipt]) {
    for attempt in run.attempts.iter().filter(|attempt| attempt.outcome.as_deref() == Some("succeeded")) {
        let of_attempt = receipts.iter().filter(|one| one.attempt == attempt.number && !one.is_refused);
        let answered = of_attempt.filter_map(|one| one.done_at).max();
        let (Some(answered), Some(ended_at)) = (answered, attempt.ended_at) else { continue };
        let later = ended_at - answered;
        if later > ON_ITS_WAY && !judge.history.had_holds {
            let what = format!(
                "run {}, attempt {} is recorded as ended {later} ms after it was answered",
                run.id, attempt.number
            );
            judge.broken(Rule::HonestRecord, what);
        }
    }
}
