//! Acknowledged one-shots: each exists once, and has ended.

use std::collections::BTreeMap;

use super::{Judge, Rule};
use crate::history::{RunRecord, Submission};

pub(super) fn check(judge: &mut Judge) {
    let mut by_key: BTreeMap<(u64, &str), Vec<&RunRecord>> = BTreeMap::new();
    for run in &judge.history.runs {
        match (run.origin.as_str(), &run.key) {
            ("one_shot", Some(key)) => by_key.entry((run.job, key)).or_default().push(run),
            ("one_shot", None) => judge.broken(Rule::NothingInvented, format!("run {} has no key", run.id)),
            ("schedule", _) => {}
            (origin, _) => judge.broken(Rule::NothingInvented, format!("run {} comes from {origin}", run.id)),
        }
    }
    for submission in &judge.history.submissions {
        let runs = by_key.remove(&(submission.job, submission.key.as_str())).unwrap_or_default();
        check_one(judge, submission, &runs);
    }
    for ((_, key), runs) in by_key {
        judge.broken(
            Rule::NothingInvented,
            format!("{} runs with key {key:?}, which nobody sent", runs.len()),
        );
    }
}

fn check_one(judge: &mut Judge, submission: &Submission, runs: &[&RunRecord]) {
    let Submission { key, id, at, .. } = submission;
    if id.is_some() {
        judge.verdict.covered.one_shots += 1;
    }
    let what = match (runs, id) {
        ([], None) => return,
        ([], Some(id)) => format!("{key:?} was acknowledged as run {id} and is gone"),
        ([run], Some(id)) if run.id != *id => {
            format!("{key:?} was acknowledged as run {id} and is {}", run.id)
        }
        // An instant that had passed when it was accepted becomes the moment of acceptance.
        ([run], _) if run.fire_time < *at => format!("{key:?} was for {at} and has {}", run.fire_time),
        ([run], _) if run.is_skipped() => format!("{key:?} was skipped: {}", run.reason),
        ([_], _) => return,
        _ => format!("{key:?} is there {} times", runs.len()),
    };
    judge.broken(Rule::AcknowledgedKept, what);
}
