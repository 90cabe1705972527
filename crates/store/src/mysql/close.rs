//! What follows from closes in the tables that all days share: counts of jobs, tallies of days, ends of keys, free places.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::model::{Attempt, AttemptRecord, Close, JobId, Outcome, RunId};

use super::ask::Moment;
use super::day::Table;
use super::text::{Maybe, Quoted, Script, list, maybe_ms, ms};
use crate::code::{attempt_outcome_code, outcome_code};
use crate::tally::says_how_the_job_is;

/// What one transaction closes and gives birth to.
pub(super) struct Ends {
    key_ttl: Duration,
    slot: u32,
    /// Rows of closes by their homes.
    rows: BTreeMap<u32, Vec<String>>,
    /// Runs and closes by day.
    tallies: BTreeMap<u32, (u64, u64)>,
    counts: BTreeMap<JobId, Tally>,
    /// Runs that give back their places.
    freed: Vec<RunId>,
    /// Runs whose key lives until then.
    keys: Vec<(RunId, i64)>,
}

/// What closes add to the counts of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    succeeded: u64,
    failed: u64,
    not_run: u64,
    /// Failures since the last success among these closes, or since they began.
    streak: u32,
    last_outcome: Option<Outcome>,
    last_success: Option<i64>,
}

impl Tally {
    fn add(&mut self, close: &Close) {
        match close.outcome {
            Outcome::Succeeded => {
                self.succeeded += 1;
                self.streak = 0;
                self.last_success = Some(ms(close.closed_at));
            }
            Outcome::Failed | Outcome::Lost => {
                self.failed += 1;
                self.streak += 1;
            }
            Outcome::Cancelled | Outcome::Skipped => {
                self.not_run += close.range.map_or(1, |(_, instants)| instants);
            }
        }
        if says_how_the_job_is(close) {
            self.last_outcome = Some(close.outcome);
        }
    }

    /// Failures in a row, if there were so many before.
    pub(super) fn streak(&self, before: u32) -> u32 {
        if self.last_success.is_some() { self.streak } else { before + self.streak }
    }
}

impl Ends {
    pub(super) fn new(key_ttl: Duration, slot: u32) -> Ends {
        Ends {
            key_ttl,
            slot,
            rows: BTreeMap::new(),
            tallies: BTreeMap::new(),
            counts: BTreeMap::new(),
            freed: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// Until when the key of a run lives that ends like this.
    pub(super) fn key_end(&self, close: &Close) -> i64 {
        ms(close.closed_at.saturating_add(self.key_ttl))
    }

    pub(super) fn born(&mut self, day: u32) {
        self.tallies.entry(day).or_default().0 += 1;
    }

    /// A close that counts with its job.
    pub(super) fn close(&mut self, at: &Moment, run: RunId, job: JobId, close: &Close, row: String) {
        self.counts.entry(job).or_default().add(close);
        self.shut(at, run, row);
    }

    /// A close that its job does not count.
    pub(super) fn shut(&mut self, at: &Moment, run: RunId, row: String) {
        self.tallies.entry(run.day()).or_default().1 += 1;
        self.rows.entry(at.days.home(run.day())).or_default().push(row);
    }

    pub(super) fn free_places(&mut self, run: RunId) {
        self.freed.push(run);
    }

    pub(super) fn end_key(&mut self, run: RunId, close: &Close) {
        self.keys.push((run, self.key_end(close)));
    }

    /// What was counted for a job so far.
    pub(super) fn tally(&self, job: JobId) -> Tally {
        self.counts.get(&job).copied().unwrap_or_default()
    }

    pub(super) fn counts(&self, job: JobId) -> bool {
        self.counts.contains_key(&job)
    }

    /// Adds all of it; what many transactions write comes last, so that they wait for each other only briefly.
    pub(super) fn write(&self, script: &mut Script) {
        for (home, rows) in &self.rows {
            script.push_rows(
                &format!(
                    "insert into {} (run, outcome, closed_at, range_until, range_count, unsent, attempt, token,
                                     started_at, ended_at, attempt_outcome, possible_duplicate, reason, executor,
                                     message) values ",
                    Table::Closes.of(*home)
                ),
                rows.iter().cloned(),
                "",
            );
        }
        if !self.freed.is_empty() {
            script.push(format!("delete from holds where run in ({})", list(&self.freed)));
        }
        self.write_keys(script);
        let row =
            |(day, (runs, closed)): (&u32, &(u64, u64))| format!("({day}, {}, {runs}, {closed})", self.slot);
        script.push_rows(
            "insert into tallies (day, slot, runs, closed) values ",
            self.tallies.iter().map(row),
            " on duplicate key update runs = runs + values(runs), closed = closed + values(closed)",
        );
        self.write_counts(script);
    }

    fn write_keys(&self, script: &mut Script) {
        let ends = self.keys.iter().map(|(run, at)| format!("select {run} as run, {at} as expires_at"));
        let ends: Vec<String> = ends.collect();
        if !ends.is_empty() {
            script.push(format!(
                "update `keys` k
                 join ({}) v on v.run = k.run
                 set k.expires_at = v.expires_at",
                ends.join(" union all ")
            ));
        }
    }

    fn write_counts(&self, script: &mut Script) {
        let row = |(job, tally): (&JobId, &Tally)| {
            format!(
                "({job}, 0, {}, {}, {}, {}, {}, {})",
                tally.succeeded,
                tally.failed,
                tally.not_run,
                tally.streak,
                Maybe(tally.last_outcome.map(outcome_code)),
                Maybe(tally.last_success),
            )
        };
        // The columns are set from left to right: `prior` keeps what the streak was.
        script.push_rows(
            "insert into counts (job, prior, succeeded, failed, not_run, consecutive_failures, last_outcome,
                                 last_success) values ",
            self.counts.iter().map(row),
            " on duplicate key update
                 prior = consecutive_failures,
                 succeeded = succeeded + values(succeeded),
                 failed = failed + values(failed),
                 not_run = not_run + values(not_run),
                 consecutive_failures = values(consecutive_failures)
                     + if(values(last_success) is null, consecutive_failures, 0),
                 last_outcome = coalesce(values(last_outcome), last_outcome),
                 last_success = coalesce(values(last_success), last_success)",
        );
    }
}

/// The row of a close, with the attempt that it ended and the attempt that it keeps from being sent.
pub(super) fn close_row(
    run: RunId,
    close: &Close,
    attempt: Option<&AttemptRecord>,
    unsent: Option<Attempt>,
) -> String {
    let (until, count) = close.range.unzip();
    let record = attempt;
    format!(
        "({run}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
        outcome_code(close.outcome),
        ms(close.closed_at),
        maybe_ms(until),
        Maybe(count),
        Maybe(unsent),
        Maybe(record.map(|record| record.number)),
        Maybe(record.map(|record| record.token)),
        maybe_ms(record.map(|record| record.started_at)),
        maybe_ms(record.map(|record| record.ended_at)),
        Maybe(record.map(|record| attempt_outcome_code(record.outcome))),
        Maybe(record.map(|record| u8::from(record.possible_duplicate))),
        Quoted(&close.reason),
        Maybe(record.map(|record| Quoted(&record.executor))),
        Maybe(record.map(|record| Quoted(&record.message))),
    )
}
