//! The second half of a verb that writes: the differences of a unit of work, a few statements for any number of rows.
//!
//! Rows that many transactions write come last, so that these wait for each other only briefly. Counts of jobs are for that
//! reason not read before: the statement adds up what the unit of work has counted.

use std::collections::BTreeMap;

use punctual_core::model::{Attempt, AttemptRecord, JobId, JobState, LogId, NewRun, RunId};

use super::accept::leave;
use super::ask::Moment;
use super::day::{self, Table};
use super::gather::{CLOCK_COLUMNS, Gathered};
use super::run_row::{insert_runs, insert_waits};
use super::text::{Maybe, Quoted, Script, Sum, list, maybe_ms, ms};
use crate::code::{attempt_outcome_code, outcome_code, state_code};
use crate::rules::{CloseRow, LockedClock};

/// Numbers of gates that are written.
pub(super) type Logs = BTreeMap<(RunId, Attempt), LogId>;

impl Gathered<'_> {
    /// Adds the statements that write all differences but gates and the numbers of changes. `slot` is the row of a day's
    /// tallies that this connection writes.
    pub(super) fn write(&self, script: &mut Script, at: &Moment, slot: u32) {
        self.write_waits(script);
        self.write_attempts(script);
        leave(script, &self.unit.writes.arrivals);
        self.write_keys(script);
        self.write_runs(script, at);
        self.write_joins(script);
        self.write_clocks(script);
        self.write_stops(script);
        self.write_closes(script, at);
        self.write_key_ends(script);
        self.write_tallies(script, slot);
        self.write_counts(script);
    }

    /// Adds the gates with their places, each with the next of these numbers.
    pub(super) fn write_sends(&self, script: &mut Script, numbers: &mut Vec<u64>) -> Logs {
        let mut places: Vec<String> = self.unit.writes.holds.iter().map(place_row).collect();
        places.sort_unstable();
        script.push_rows("insert into holds (resource_key, slot, run, resource) values ", places, "");
        let (mut logs, mut days) = (Logs::new(), ByDay::new());
        for gate in &self.unit.writes.sends {
            let log = LogId(numbers.pop().unwrap_or_default());
            logs.insert((gate.run, gate.attempt), log);
            let row = format!(
                "({}, {}, {}, {}, {log}, {}, {})",
                gate.run,
                gate.attempt,
                self.unit.runs[&gate.run].job,
                gate.token,
                ms(gate.sent_at),
                Quoted(&gate.executor),
            );
            days.entry(gate.run.day()).or_default().push(row);
        }
        let columns = "(run, attempt, job, token, log, sent_at, executor)";
        push_by_day(script, Table::Sends, columns, days, "");
        logs
    }

    /// What waits and what is in flight, as far as that has changed.
    fn write_waits(&self, script: &mut Script) {
        let (mut over, mut waits, mut begun, mut ended) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for id in &self.unit.writes.touched {
            let run = &self.unit.runs[id];
            match run.progress.wait {
                Some(wait) => waits.extend(self.born(*id).map(|born| (born, run.due, wait))),
                None if run.was_waiting => over.push(*id),
                None => {}
            }
            match (run.was_flying, run.progress.is_flying()) {
                (false, true) => begun.push(format!("({id}, {})", run.shard)),
                (true, false) => ended.push(*id),
                _ => {}
            }
        }
        if !over.is_empty() {
            script.push(format!("delete from waiting where run in ({})", list(&over)));
        }
        insert_waits(script, &waits);
        script.push_rows("insert into flights (run, shard) values ", begun, "");
        if !ended.is_empty() {
            script.push(format!("delete from flights where run in ({})", list(&ended)));
        }
    }

    /// Attempts that ended while their run goes on.
    fn write_attempts(&self, script: &mut Script) {
        let mut days = ByDay::new();
        for ((run, _), record) in &self.unit.writes.attempts {
            days.entry(run.day()).or_default().push(attempt_row(*run, record));
        }
        let columns =
            "(run, attempt, token, started_at, ended_at, attempt_outcome, possible_duplicate, executor,
                        message)";
        let update = " on duplicate key update
             token = values(token),
             started_at = values(started_at),
             ended_at = values(ended_at),
             attempt_outcome = values(attempt_outcome),
             possible_duplicate = values(possible_duplicate),
             executor = values(executor),
             message = values(message)";
        push_by_day(script, Table::Attempts, columns, days, update);
    }

    /// Keys of new runs. An expired key of another run is taken from it.
    fn write_keys(&self, script: &mut Script) {
        let mut rows = Vec::new();
        for ((job, key), before) in &self.unit.writes.keys {
            let (run, expires_at) = self.unit.keys[&(*job, key.clone())];
            match before {
                Some((owner, _)) if *owner == run => continue,
                Some(_) => {
                    script.push(format!("delete from `keys` where job = {job} and name_key = {}", Sum(key)));
                }
                None => {}
            }
            rows.push(format!("({job}, {}, {run}, {})", Sum(key), maybe_ms(expires_at)));
        }
        script.push_rows("insert into `keys` (job, name_key, run, expires_at) values ", rows, "");
    }

    /// Keys that expire from now on, because their runs end.
    fn write_key_ends(&self, script: &mut Script) {
        let mut ends = Vec::new();
        for (key, before) in &self.unit.writes.keys {
            let (run, expires_at) = self.unit.keys[key];
            if before.is_some_and(|(owner, _)| owner == run) {
                ends.push(format!("select {run} as run, {} as expires_at", maybe_ms(expires_at)));
            }
        }
        if !ends.is_empty() {
            script.push(format!(
                "update `keys` k
                 join ({}) v on v.run = k.run
                 set k.expires_at = v.expires_at",
                ends.join(" union all ")
            ));
        }
    }

    fn write_runs(&self, script: &mut Script, at: &Moment) {
        let writes = &self.unit.writes;
        let mut homes: BTreeMap<u32, Vec<&NewRun>> = BTreeMap::new();
        for run in &writes.runs {
            homes.entry(at.days.home(run.id.day())).or_default().push(run);
        }
        for (home, runs) in &mut homes {
            // In the order of the rows, which is also the order in which other transactions lock them.
            runs.sort_unstable_by_key(|run| run.id);
            insert_runs(script, *home, runs);
            widen(script, *home, runs);
        }
        let mut days = ByDay::new();
        for (run, whole, part) in &writes.parts {
            let (index, total, address) = (part.index, part.total, Quoted(&part.address));
            let row = format!("({run}, {whole}, {index}, {total}, {address})");
            days.entry(run.day()).or_default().push(row);
        }
        push_by_day(script, Table::Parts, "(run, whole, place, total, address)", days, "");
        // One row for each shard, so that no row of the shard itself has to be locked.
        let births = writes.births.iter().map(|(shard, due)| format!("({shard}, {})", ms(*due)));
        script.push_rows("insert into births (shard, due) values ", births, "");
    }

    fn write_joins(&self, script: &mut Script) {
        let mut days = ByDay::new();
        for whole in &self.unit.writes.joins {
            let row = &self.unit.joins[whole];
            let (first, last) = (row.first_part.day(), row.last_part.day());
            let (total, open, succeeded) = (row.join.total, row.join.open, row.join.succeeded);
            let row = format!("({whole}, {total}, {open}, {succeeded}, {first}, {last})");
            days.entry(whole.day()).or_default().push(row);
        }
        let columns = "(run, total, open, succeeded, first_day, last_day)";
        let update = " on duplicate key update
             total = values(total),
             open = values(open),
             succeeded = values(succeeded),
             first_day = least(first_day, values(first_day)),
             last_day = greatest(last_day, values(last_day))";
        push_by_day(script, Table::Joins, columns, days, update);
    }

    fn write_clocks(&self, script: &mut Script) {
        let clocks = self.unit.writes.clocks.iter().map(|job| clock_row(*job, &self.unit.clocks[job]));
        script.push_rows(
            &format!("insert into clocks ({CLOCK_COLUMNS}, due_at) values "),
            clocks,
            " on duplicate key update
                 next_fire = values(next_fire),
                 enabled = values(enabled),
                 decided_to = values(decided_to),
                 reserved_to = values(reserved_to),
                 due_at = values(due_at)",
        );
    }

    fn write_stops(&self, script: &mut Script) {
        for (job, reason) in &self.unit.writes.stops {
            let (code, reason) = state_code(&JobState::Stopped(reason.clone()));
            let reason = Quoted(&reason);
            script.push(format!("update jobs set state = {code}, reason = {reason} where id = {job}"));
        }
    }

    fn write_closes(&self, script: &mut Script, at: &Moment) {
        let mut homes = ByDay::new();
        for row in &self.unit.writes.closes {
            homes.entry(at.days.home(row.run.day())).or_default().push(close_row(row));
        }
        let columns =
            "(run, outcome, closed_at, range_until, range_count, unsent, attempt, token, started_at,
                        ended_at, attempt_outcome, possible_duplicate, reason, executor, message)";
        push_by_day(script, Table::Closes, columns, homes, "");
        let freed = &self.unit.writes.freed;
        if !freed.is_empty() {
            script.push(format!("delete from holds where run in ({})", list(freed)));
        }
    }

    fn write_tallies(&self, script: &mut Script, slot: u32) {
        let days = self.unit.writes.days.iter();
        script.push_rows(
            "insert into tallies (day, slot, runs, closed) values ",
            days.map(|(day, more)| format!("({day}, {slot}, {}, {})", more.runs, more.closed)),
            " on duplicate key update runs = runs + values(runs), closed = closed + values(closed)",
        );
    }

    fn write_counts(&self, script: &mut Script) {
        let row = |job: &JobId| {
            let more = &self.unit.counts[job];
            format!(
                "({job}, 0, {}, {}, {}, {}, {}, {})",
                more.succeeded,
                more.failed,
                more.not_run,
                more.consecutive_failures,
                Maybe(more.last_outcome.map(outcome_code)),
                maybe_ms(more.last_success),
            )
        };
        // The columns are set from left to right: `prior` keeps how many failures in a row there were before.
        script.push_rows(
            "insert into counts (job, prior, succeeded, failed, not_run, consecutive_failures, last_outcome,
                                 last_success) values ",
            self.unit.writes.counts.keys().map(row),
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

/// Rows by the days of their tables.
type ByDay = BTreeMap<u32, Vec<String>>;

fn push_by_day(script: &mut Script, table: Table, columns: &str, days: ByDay, tail: &str) {
    for (day, rows) in days {
        script.push_rows(&format!("insert into {} {columns} values ", table.of(day)), rows, tail);
    }
}

fn place_row((resource, slot, run): &(punctual_core::model::Text, u32, RunId)) -> String {
    format!("({}, {slot}, {run}, {})", Sum(resource), Quoted(resource))
}

/// A run that is due on another day than it was born for must still be found by loading.
fn widen(script: &mut Script, home: u32, runs: &[&NewRun]) {
    let (low, high) = day::bounds(home);
    let dues = || runs.iter().map(|run| ms(run.due));
    let (first, last) = (dues().min().unwrap_or(low), dues().max().unwrap_or(high));
    if first < low || high < last {
        script.push(format!(
            "update days
             set low = least(low, {first}), high = greatest(high, {last})
             where day = {home} and (low > {first} or high < {last})"
        ));
    }
}

fn attempt_row(run: RunId, record: &AttemptRecord) -> String {
    format!(
        "({run}, {}, {}, {}, {}, {}, {}, {}, {})",
        record.number,
        record.token,
        ms(record.started_at),
        ms(record.ended_at),
        attempt_outcome_code(record.outcome),
        u8::from(record.possible_duplicate),
        Quoted(&record.executor),
        Quoted(&record.message),
    )
}

fn clock_row(job: JobId, clock: &LockedClock) -> String {
    format!(
        "({job}, {}, {}, {}, {}, {}, {}, {})",
        clock.shard,
        maybe_ms(clock.next_fire),
        clock.version,
        u8::from(clock.is_enabled),
        ms(clock.decided),
        ms(clock.reserved),
        maybe_ms(clock.next_fire.filter(|_| clock.is_enabled)),
    )
}

/// The row of a close, with the attempt that it ended and the attempt that it keeps from being sent.
fn close_row(CloseRow { run, close, unsent, attempt: record }: &CloseRow<'_>) -> String {
    let (until, count) = close.range.unzip();
    format!(
        "({run}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
        outcome_code(close.outcome),
        ms(close.closed_at),
        maybe_ms(until),
        Maybe(count),
        Maybe(*unsent),
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
