//! The report of a campaign: the result of the check, and figures such as takeover times and lateness around faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use crate::check::{Covered, check};
use crate::history::{History, Millis, Receipt, RunRecord};

/// Durations by name.
pub type Samples = BTreeMap<&'static str, Sample>;

/// The report of a campaign.
#[derive(Clone, Debug)]
pub struct CampaignReport {
    pub covered: Covered,
    pub samples: Samples,
    /// Number of broken promises.
    pub broken: usize,
    /// The whole report, for people.
    pub text: String,
}

impl CampaignReport {
    /// Checks a history. Misbehaviour of nodes counts as a broken promise too.
    pub fn of(
        history: &History,
        samples: Samples,
        misbehaved: Vec<String>,
        took: Duration,
    ) -> CampaignReport {
        let verdict = check(history);
        let mut broken: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
        broken.extend(misbehaved);
        let mut text = format!("{}\n", verdict.covered);
        for (what, sample) in &samples {
            text += &format!("{what}: {sample}\n");
        }
        text += &format!("{} s in all\n", took.as_secs());
        for what in &broken {
            text += &format!("BROKEN {what}\n");
        }
        CampaignReport { covered: verdict.covered, samples, broken: broken.len(), text }
    }
}

/// Adds how long work was interrupted after nodes were killed and stopped.
pub fn measure_work(samples: &mut Samples, history: &History, kills: &[Millis], stops: &[Millis]) {
    // Serial runs wait for a lost attempt of their job, which says nothing about takeover.
    let waits: BTreeSet<u64> = history.jobs.iter().filter(|job| job.is_serial).map(|job| job.id).collect();
    let mut free = history.receipts.clone();
    free.retain(|receipt| !waits.contains(&receipt.job));
    for moment in kills {
        samples.entry("work of a killed node goes on").or_default().add(work_resumed(&free, *moment));
    }
    let lags = history.receipts.iter().filter(|receipt| receipt.attempt == 1);
    let lag = |receipt: &Receipt| receipt.received_at - receipt.fire_time;
    samples.insert("lateness of all first attempts", Sample::of(lags.map(lag).map(span).collect()));
    for moment in stops {
        samples.entry("lateness at a clean stop").or_default().add(lateness(&free, *moment));
    }
}

/// Adds how late runs were while nodes came back and shards moved to them.
pub fn measure_returns(samples: &mut Samples, history: &History, returns: &[(Millis, Millis)]) {
    let waits: BTreeSet<u64> = history.jobs.iter().filter(|job| job.is_serial).map(|job| job.id).collect();
    let is_within = |at: Millis| returns.iter().any(|(from, to)| (*from..*to).contains(&at));
    let mut first: BTreeMap<u64, &Receipt> = BTreeMap::new();
    let free = history.receipts.iter().filter(|receipt| !waits.contains(&receipt.job));
    for receipt in free.filter(|receipt| is_within(receipt.fire_time)) {
        first.entry(receipt.run).or_insert(receipt);
    }
    if !returns.is_empty() {
        let late = first.into_values().map(|receipt| span(receipt.received_at - receipt.fire_time));
        samples.insert("lateness while a node returns", Sample::of(late.collect()));
    }
}

/// Adds how late runs of serial jobs were while shards moved as planned. A run that waits for an earlier run of its job with
/// a lost attempt is late because of that loss.
pub fn measure_serial_moves(samples: &mut Samples, history: &History, moves: &[(Millis, Millis)]) {
    let serial: BTreeSet<u64> = history.jobs.iter().filter(|job| job.is_serial).map(|job| job.id).collect();
    let lost: Vec<(&RunRecord, Millis)> = history.runs.iter().filter_map(lost_until).collect();
    let waits_for_lost = |receipt: &Receipt| {
        let is_awaited = |(run, until): &&(&RunRecord, Millis)| {
            run.job == receipt.job && run.fire_time <= receipt.fire_time && *until > receipt.fire_time
        };
        lost.iter().any(|lost| is_awaited(&lost))
    };
    let is_within = |at: Millis| moves.iter().any(|(from, to)| (*from..*to).contains(&at));
    let mut first: BTreeMap<u64, &Receipt> = BTreeMap::new();
    let of_jobs = history.receipts.iter().filter(|receipt| serial.contains(&receipt.job));
    for receipt in of_jobs.filter(|receipt| is_within(receipt.fire_time) && !waits_for_lost(receipt)) {
        first.entry(receipt.run).or_insert(receipt);
    }
    if !moves.is_empty() {
        let late = first.into_values().map(|receipt| span(receipt.received_at - receipt.fire_time));
        samples.insert("lateness of serial jobs at planned moves", Sample::of(late.collect()));
    }
}

/// A run with a lost attempt, and when its last attempt ended.
fn lost_until(run: &RunRecord) -> Option<(&RunRecord, Millis)> {
    let is_lost = run.attempts.iter().any(|attempt| attempt.outcome.as_deref() == Some("lost"));
    let ended = run.attempts.iter().map(|attempt| attempt.ended_at.unwrap_or(Millis::MAX)).max();
    ended.filter(|_| is_lost).map(|ended| (run, ended))
}

/// Durations of one kind.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<Duration>);

impl Sample {
    fn of(mut durations: Vec<Duration>) -> Sample {
        durations.sort();
        Sample(durations)
    }

    pub fn add(&mut self, duration: Duration) {
        self.0.push(duration);
        self.0.sort();
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn max(&self) -> Duration {
        self.0.last().copied().unwrap_or_default()
    }

    /// The smallest value that `percent` per cent do not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let millis = |duration: Duration| duration.as_millis();
        let (p50, p99) = (millis(self.percentile(50)), millis(self.percentile(99)));
        write!(f, "n {}, p50 {p50} ms, p99 {p99} ms, max {} ms", self.count(), millis(self.max()))
    }
}

/// The first receipts of runs that were due in the second after a moment.
fn due_after(receipts: &[Receipt], moment: Millis) -> impl Iterator<Item = &Receipt> {
    let mut first: BTreeMap<u64, &Receipt> = BTreeMap::new();
    for receipt in receipts {
        if (moment..moment + 1_000).contains(&receipt.fire_time) {
            first.entry(receipt.run).or_insert(receipt);
        }
    }
    first.into_values()
}

/// How long after a moment the last run due in the following second was received: until then work of a node that was lost
/// at that moment waited.
fn work_resumed(receipts: &[Receipt], moment: Millis) -> Duration {
    longest(due_after(receipts, moment).map(|receipt| receipt.received_at - moment))
}

/// The greatest lateness of runs that were due in the second after a moment.
fn lateness(receipts: &[Receipt], moment: Millis) -> Duration {
    longest(due_after(receipts, moment).map(|receipt| receipt.received_at - receipt.fire_time))
}

fn longest(spans: impl Iterator<Item = Millis>) -> Duration {
    span(spans.max().unwrap_or(0))
}

fn span(millis: Millis) -> Duration {
    Duration::from_millis(millis.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{AttemptRecord, JobFact};

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let mut sample = Sample::default();
        assert_eq!(sample.percentile(99), Duration::ZERO);
        for millis in [30, 10, 20, 40] {
            sample.add(Duration::from_millis(millis));
        }
        assert_eq!(sample.to_string(), "n 4, p50 20 ms, p99 40 ms, max 40 ms");
    }

    fn receipt(run: u64, fire_time: Millis, received_at: Millis) -> Receipt {
        Receipt {
            run,
            job: 1,
            fire_time,
            attempt: 1,
            token: 1,
            possible_duplicate: false,
            received_at,
            is_refused: false,
            done_at: None,
        }
    }

    #[test]
    fn only_what_came_due_while_a_node_returned_counts_and_only_its_first_receipt() {
        let receipts = vec![
            receipt(1, 9_999, 20_000),
            receipt(2, 10_000, 10_040),
            receipt(2, 10_000, 19_000),
            receipt(3, 12_999, 13_009),
            receipt(4, 13_000, 18_000),
        ];
        let history = History { receipts, ..History::default() };
        let mut samples = Samples::new();
        measure_returns(&mut samples, &history, &[(10_000, 13_000)]);
        let late = &samples["lateness while a node returns"];
        assert_eq!(late.to_string(), "n 2, p50 10 ms, p99 40 ms, max 40 ms");
    }

    #[test]
    fn serial_runs_count_at_planned_moves_unless_they_wait_for_a_lost_attempt() {
        let attempt = |number, outcome: &str, ended_at| AttemptRecord {
            number,
            started_at: 10_000,
            ended_at: Some(ended_at),
            outcome: Some(outcome.into()),
            possible_duplicate: false,
            supposed: false,
        };
        let lost = RunRecord {
            id: 3,
            job: 2,
            fire_time: 9_000,
            origin: "schedule".into(),
            state: "succeeded".into(),
            reason: String::new(),
            possible_duplicate: true,
            lag_ms: None,
            key: None,
            count: None,
            until: None,
            attempts: vec![attempt(1, "lost", 40_000), attempt(2, "succeeded", 40_500)],
        };
        let job = |id, is_serial| JobFact {
            id,
            name: String::new(),
            every: None,
            at_most_once: false,
            is_serial,
            fires_all: true,
            created: (0, 0),
            stopped: None,
        };
        let of = |job, receipt| Receipt { job, ..receipt };
        let receipts = vec![
            receipt(1, 10_000, 10_700),
            receipt(1, 10_000, 19_000),
            of(2, receipt(4, 10_000, 41_000)),
            of(2, receipt(5, 41_000, 41_010)),
            of(3, receipt(6, 10_000, 10_900)),
        ];
        let jobs = vec![job(1, true), job(2, true), job(3, false)];
        let history = History { jobs, receipts, runs: vec![lost], ..History::default() };
        let mut samples = Samples::new();
        measure_serial_moves(&mut samples, &history, &[(9_500, 11_000), (40_900, 42_000)]);
        let late = &samples["lateness of serial jobs at planned moves"];
        assert_eq!(late.to_string(), "n 2, p50 10 ms, p99 700 ms, max 700 ms");
    }

    #[test]
    fn only_what_came_due_in_the_second_after_counts_and_only_its_first_receipt() {
        let receipts = [
            receipt(1, 9_999, 20_000),
            receipt(2, 10_000, 13_000),
            receipt(2, 10_000, 19_000),
            receipt(3, 10_900, 13_500),
            receipt(4, 11_000, 18_000),
        ];
        assert_eq!(work_resumed(&receipts, 10_000), Duration::from_millis(3_500));
        assert_eq!(lateness(&receipts, 10_000), Duration::from_millis(3_000));
    }
}
