//! The instants that schedules name: each decided once, none missing, none invented.

use std::collections::BTreeMap;

use super::{CLOCKS_APART, Judge, Rule};
use crate::history::{Every, JobFact, Millis, RunRecord, text};

pub(super) fn check(judge: &mut Judge) {
    let mut planned: BTreeMap<u64, Vec<&RunRecord>> = BTreeMap::new();
    for run in &judge.history.runs {
        if run.is_open() {
            judge.broken(Rule::AllEnded, format!("run {} is still {}", run.id, run.state));
        }
        match run.state.as_str() {
            "lost" => judge.verdict.covered.lost += 1,
            "failed" => judge.verdict.covered.failed += 1,
            _ => {}
        }
        if run.origin == "schedule" {
            planned.entry(run.job).or_default().push(run);
        }
    }
    for job in &judge.history.jobs {
        let mut runs = planned.remove(&job.id).unwrap_or_default();
        runs.sort_by_key(|run| run.fire_time);
        check_job(judge, job, &runs);
    }
    for (job, runs) in planned {
        judge.broken(Rule::NothingInvented, format!("{} runs of job {job}, which nobody made", runs.len()));
    }
}

fn check_job(judge: &mut Judge, job: &JobFact, runs: &[&RunRecord]) {
    for pair in runs.windows(2) {
        if pair[1].fire_time <= pair[0].last() {
            let at = text(pair[1].fire_time);
            let what = format!("{} at {at}: runs {} and {}", job.name, pair[0].id, pair[1].id);
            judge.broken(Rule::DecidedOnce, what);
        }
    }
    let Some(every) = job.every else {
        if !runs.is_empty() {
            judge.broken(Rule::NothingInvented, format!("{} names nothing and has planned runs", job.name));
        }
        return;
    };
    for run in runs {
        if let Some(what) = invented(job, every, run) {
            judge.broken(Rule::NothingInvented, format!("{}, run {}: {what}", job.name, run.id));
        }
    }
    check_expected(judge, job, every, runs);
}

/// Why a run should not exist, if so.
fn invented(job: &JobFact, every: Every, run: &RunRecord) -> Option<String> {
    let (from, to) = (run.fire_time, run.last());
    let instants = every.between(from, to).count() as u64;
    if !every.names(from) || !every.names(to) {
        return Some(format!("{} to {} is not what its schedule names", text(from), text(to)));
    }
    if instants != run.count.unwrap_or(1) {
        return Some(format!("it counts {:?} instants where there are {instants}", run.count));
    }
    // The cluster's clock may be behind that of the client.
    if from < job.created.0 - CLOCKS_APART {
        return Some(format!("{} is {} ms before the job was made", text(from), job.created.0 - from));
    }
    // Runs that were planned ahead of a stop are recorded as skipped.
    let is_over = job.stopped.is_some_and(|(_, answered)| from > answered + CLOCKS_APART);
    (is_over && !run.is_skipped()).then(|| format!("{} is after the job was stopped", text(from)))
}

/// Every instant between the answer to the creation and the request to stop has a record.
fn check_expected(judge: &mut Judge, job: &JobFact, every: Every, runs: &[&RunRecord]) {
    let Some((stop, _)) = job.stopped else {
        judge
            .broken(Rule::NothingMissing, format!("{} was never stopped; what is expected of it?", job.name));
        return;
    };
    for at in every.between(job.created.1 + 1, stop - 1) {
        judge.verdict.covered.fires += 1;
        match record_of(runs, at) {
            None => judge.broken(Rule::NothingMissing, format!("{} at {}", job.name, text(at))),
            Some(run) if run.is_skipped() => check_skipped(judge, job, run, at),
            Some(_) => {}
        }
    }
}

fn check_skipped(judge: &mut Judge, job: &JobFact, run: &RunRecord, at: Millis) {
    judge.verdict.covered.skipped += 1;
    let what = |why: &str| format!("{} at {}: run {} {why}", job.name, text(at), run.id);
    if run.reason.is_empty() {
        judge.broken(Rule::NothingMissing, what("is skipped without a reason"));
    }
    if job.fires_all && !judge.was_stopped(run) {
        judge.broken(Rule::PolicyFollowed, what(&format!("is skipped: {}", run.reason)));
    }
}

/// The record of an instant; `runs` are in the order of their instants.
fn record_of<'a>(runs: &[&'a RunRecord], at: Millis) -> Option<&'a RunRecord> {
    let after = runs.partition_point(|run| run.fire_time <= at);
    let before = runs.get(after.checked_sub(1)?)?;
    (before.last() >= at).then_some(before)
}
