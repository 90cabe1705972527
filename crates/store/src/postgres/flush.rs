//! The second half of a verb that writes: everything that has changed, a few statements for any number of rows, and the commit,
//! in one flight.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Attempt, ChangeId, JobId, JobState, LogId, NewRun, RunId, StoppedReason};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, Seat, run_code, text_code};
use super::code::state_code;
use super::gather::Gathered;
use super::insert::{
    count_days, insert_arrivals, insert_attempts, insert_births, insert_closes, insert_sends, write_counts,
};
use super::line::Line;
use super::run_row::insert_runs;
use super::trouble::Trouble;
use crate::rules::{CloseRow, UnitOfWork};

/// What only the server could say.
#[derive(Default)]
pub(super) struct Flushed {
    pub(super) logs: BTreeMap<(RunId, Attempt), LogId>,
    /// The last of the changes.
    pub(super) change: Option<ChangeId>,
}

impl Postgres {
    /// Writes what has changed, and commits.
    pub(super) async fn flush(&self, line: &Line<'_>, gathered: &Gathered<'_>) -> Result<Flushed, Trouble> {
        self.flush_after(line, Pipeline::new(), gathered).await
    }

    /// As [`Postgres::flush`], after some other statements.
    pub(super) async fn flush_after(
        &self,
        line: &Line<'_>,
        mut flight: Pipeline,
        gathered: &Gathered<'_>,
    ) -> Result<Flushed, Trouble> {
        let unit = &gathered.unit;
        self.check_beside(days_beside(unit))?;
        let sends = write_runs(&mut flight, gathered);
        write_jobs(&mut flight, unit);
        let changes = write_changes(&mut flight, unit);
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut flushed = Flushed::default();
        for row in sends.map(|seat| landed.take(seat)).unwrap_or_default() {
            flushed.logs.insert((row.run(0)?, row.attempt(1)?), LogId(row.bits(2)?));
        }
        for row in changes.map(|seat| landed.take(seat)).unwrap_or_default() {
            flushed.change = Some(ChangeId(row.bits(0)?));
        }
        Ok(flushed)
    }
}

/// Days whose tables beside those of runs and closes are written to.
fn days_beside(unit: &UnitOfWork<'_>) -> impl Iterator<Item = u32> {
    let writes = &unit.writes;
    let attempts = writes.attempts.keys().map(|(run, _)| run.day());
    let sends = writes.sends.iter().map(|gate| gate.run.day());
    let parts = writes.parts.iter().map(|(run, _, _)| run.day());
    let joins = writes.joins.iter().map(|run| run.day());
    attempts.chain(sends).chain(parts).chain(joins)
}

/// Everything about runs; where the numbers of new gates will be.
fn write_runs(flight: &mut Pipeline, gathered: &Gathered<'_>) -> Option<Seat> {
    let unit = &gathered.unit;
    let writes = &unit.writes;
    // In the order of their names, so that two transactions that write the same names do not deadlock.
    let mut runs: Vec<&NewRun> = writes.runs.clone();
    runs.sort_by_key(|run| (run.fire_time, run.job, run.id));
    let (far, near): (Vec<&NewRun>, Vec<&NewRun>) = runs.into_iter().partition(|run| gathered.is_far(run.id));
    for (is_far, runs) in [(false, near), (true, far)] {
        if !runs.is_empty() {
            flight.add(insert_runs(is_far, &runs));
        }
    }
    write_keys(flight, unit);
    if !writes.births.is_empty() {
        flight.add(insert_births(&writes.births));
    }
    if !writes.days.is_empty() {
        flight.add(count_days(&writes.days));
    }
    let (far, near): (Vec<CloseRow<'_>>, Vec<CloseRow<'_>>) =
        writes.closes.iter().partition(|row| gathered.is_far(row.run));
    for (is_far, closes) in [(false, near), (true, far)] {
        if !closes.is_empty() {
            flight.add(insert_closes(is_far, &closes));
        }
    }
    if !writes.attempts.is_empty() {
        flight.add(insert_attempts(&writes.attempts));
    }
    write_waits(flight, unit);
    write_holds(flight, unit);
    write_splits(flight, unit);
    if !writes.arrivals.is_empty() {
        flight.add(insert_arrivals(&writes.arrivals));
    }
    (!writes.sends.is_empty()).then(|| flight.add(insert_sends(&writes.sends)))
}

fn write_keys(flight: &mut Pipeline, unit: &UnitOfWork<'_>) {
    let (mut gone, mut new, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for ((job, key), before) in &unit.writes.keys {
        let (run, expires_at) = unit.keys[&(*job, key.clone())];
        let row = (i64::from(job.0), text_code(key), run_code(run), expires_at.map(Timestamp::as_millis));
        match before {
            Some((holder, _)) if *holder == run => ended.push(row),
            Some((holder, _)) => {
                gone.push((row.0, row.1.clone(), run_code(*holder), None));
                new.push(row);
            }
            None => new.push(row),
        }
    }
    let statements = [
        (
            gone,
            "delete from keys k using unnest($1, $2, $3, $4) as g (job, key, run, expires_at)
             where k.job = g.job and k.key = g.key and k.run = g.run",
        ),
        (new, "insert into keys (job, key, run, expires_at) select * from unnest($1, $2, $3, $4)"),
        (
            ended,
            "update keys k set expires_at = e.expires_at
             from unnest($1, $2, $3, $4) as e (job, key, run, expires_at)
             where k.job = e.job and k.key = e.key and k.run = e.run",
        ),
    ];
    for (rows, sql) in statements {
        if rows.is_empty() {
            continue;
        }
        let (mut jobs, mut keys, mut runs, mut expiries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (job, key, run, expires_at) in rows {
            jobs.push(job);
            keys.push(key);
            runs.push(run);
            expiries.push(expires_at);
        }
        flight.add(Ask::new(sql).with(jobs).with(keys).with(runs).with(expiries));
    }
}

/// What waits and what flies, as it is now.
fn write_waits(flight: &mut Pipeline, unit: &UnitOfWork<'_>) {
    let (mut landed, mut risen, mut shards, mut over) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut waits = Vec::new();
    for id in &unit.writes.touched {
        let run = &unit.runs[id];
        match (run.was_flying, run.progress.is_flying()) {
            (false, true) => {
                risen.push(run_code(*id));
                shards.push(i64::from(run.shard.0));
            }
            (true, false) => landed.push(run_code(*id)),
            _ => {}
        }
        match run.progress.wait {
            Some(wait) => waits.push((*id, run, wait)),
            None if run.was_waiting => over.push(run_code(*id)),
            None => {}
        }
    }
    for (runs, sql) in [
        (landed, "delete from flights where run = any($1)"),
        (over, "delete from waiting where run = any($1)"),
    ] {
        if !runs.is_empty() {
            flight.add(Ask::new(sql).with(runs));
        }
    }
    if !risen.is_empty() {
        flight.add(
            Ask::new("insert into flights (run, shard) select * from unnest($1, $2)")
                .with(risen)
                .with(shards),
        );
    }
    if !waits.is_empty() {
        flight.add(
            Ask::new(
                "insert into waiting (run, shard, job, due, ready_at, attempt, is_called_back)
                 select * from unnest($1, $2, $3, $4, $5, $6, $7)
                 on conflict (run) do update
                 set ready_at = excluded.ready_at, attempt = excluded.attempt, is_called_back = excluded.is_called_back",
            )
            .with(waits.iter().map(|(id, _, _)| run_code(*id)).collect::<Vec<i64>>())
            .with(waits.iter().map(|(_, run, _)| i64::from(run.shard.0)).collect::<Vec<i64>>())
            .with(waits.iter().map(|(_, run, _)| i64::from(run.job.0)).collect::<Vec<i64>>())
            .with(waits.iter().map(|(_, run, _)| run.due.as_millis()).collect::<Vec<i64>>())
            .with(waits.iter().map(|(_, _, wait)| wait.ready_at.map(Timestamp::as_millis)).collect::<Vec<Option<i64>>>())
            .with(waits.iter().map(|(_, _, wait)| i64::from(wait.attempt.0)).collect::<Vec<i64>>())
            .with(waits.iter().map(|(_, _, wait)| wait.is_called_back).collect::<Vec<bool>>()),
        );
    }
}

fn write_holds(flight: &mut Pipeline, unit: &UnitOfWork<'_>) {
    let writes = &unit.writes;
    if !writes.freed.is_empty() {
        let runs: Vec<i64> = writes.freed.iter().map(|run| run_code(*run)).collect();
        flight.add(Ask::new("delete from holds where run = any($1)").with(runs));
    }
    if !writes.holds.is_empty() {
        flight.add(
            Ask::new("insert into holds (resource, slot, run) select * from unnest($1, $2, $3)")
                .with(
                    writes.holds.iter().map(|(resource, _, _)| text_code(resource)).collect::<Vec<String>>(),
                )
                .with(writes.holds.iter().map(|(_, slot, _)| i64::from(*slot)).collect::<Vec<i64>>())
                .with(writes.holds.iter().map(|(_, _, run)| run_code(*run)).collect::<Vec<i64>>()),
        );
    }
}

fn write_splits(flight: &mut Pipeline, unit: &UnitOfWork<'_>) {
    let parts = &unit.writes.parts;
    if !parts.is_empty() {
        flight.add(
            Ask::new("insert into parts (run, whole, part, total, address) select * from unnest($1, $2, $3, $4, $5)")
                .with(parts.iter().map(|(run, _, _)| run_code(*run)).collect::<Vec<i64>>())
                .with(parts.iter().map(|(_, whole, _)| run_code(*whole)).collect::<Vec<i64>>())
                .with(parts.iter().map(|(_, _, part)| i64::from(part.index)).collect::<Vec<i64>>())
                .with(parts.iter().map(|(_, _, part)| i64::from(part.total)).collect::<Vec<i64>>())
                .with(parts.iter().map(|(_, _, part)| text_code(&part.address)).collect::<Vec<String>>()),
        );
    }
    let (mut ids, mut columns) = (Vec::new(), [const { Vec::new() }; 5]);
    for id in &unit.writes.joins {
        let row = &unit.joins[id];
        ids.push(run_code(*id));
        let values = [
            i64::from(row.join.total),
            i64::from(row.join.open),
            i64::from(row.join.succeeded),
            run_code(row.first_part),
            run_code(row.last_part),
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    if !ids.is_empty() {
        let ask = Ask::new(
            "insert into joins (run, total, open, succeeded, first_part, last_part)
             select * from unnest($1, $2, $3, $4, $5, $6)
             on conflict (run) do update
             set total = excluded.total, open = excluded.open, succeeded = excluded.succeeded,
                 first_part = excluded.first_part, last_part = excluded.last_part",
        );
        flight.add(columns.into_iter().fold(ask.with(ids), Ask::with));
    }
}

/// Clocks, states and counts of jobs.
fn write_jobs(flight: &mut Pipeline, unit: &UnitOfWork<'_>) {
    let writes = &unit.writes;
    if !writes.clocks.is_empty() {
        let clocks: Vec<_> = writes.clocks.iter().map(|job| (job, &unit.clocks[job])).collect();
        flight.add(
            Ask::new(
                "update clocks c
                 set next_fire = n.next_fire, enabled = n.enabled, decided = n.decided, reserved = n.reserved
                 from unnest($1, $2, $3, $4, $5) as n (job, next_fire, enabled, decided, reserved)
                 where c.job = n.job",
            )
            .with(clocks.iter().map(|(job, _)| i64::from(job.0)).collect::<Vec<i64>>())
            .with(
                clocks
                    .iter()
                    .map(|(_, clock)| clock.next_fire.map(Timestamp::as_millis))
                    .collect::<Vec<Option<i64>>>(),
            )
            .with(clocks.iter().map(|(_, clock)| clock.is_enabled).collect::<Vec<bool>>())
            .with(clocks.iter().map(|(_, clock)| clock.decided.as_millis()).collect::<Vec<i64>>())
            .with(clocks.iter().map(|(_, clock)| clock.reserved.as_millis()).collect::<Vec<i64>>()),
        );
    }
    if !writes.stops.is_empty() {
        let stopped = |reason: &StoppedReason| state_code(&JobState::Stopped(reason.clone()));
        flight.add(
            Ask::new(
                "update jobs j set state = s.state, reason = s.reason
                 from unnest($1, $2, $3) as s (id, state, reason)
                 where j.id = s.id",
            )
            .with(writes.stops.keys().map(|job| i64::from(job.0)).collect::<Vec<i64>>())
            .with(writes.stops.values().map(|reason| stopped(reason).0).collect::<Vec<i64>>())
            .with(writes.stops.values().map(|reason| stopped(reason).1).collect::<Vec<String>>()),
        );
    }
    for had_row in [true, false] {
        let jobs: Vec<JobId> =
            writes.counts.iter().filter(|(_, had)| **had == had_row).map(|(job, _)| *job).collect();
        if !jobs.is_empty() {
            flight.add(write_counts(unit, &jobs, had_row));
        }
    }
}

/// The last thing before the commit, because a transaction that takes a number makes all later ones wait until it has committed:
/// else a node that has seen a later change would never hear of an earlier one.
fn write_changes(flight: &mut Pipeline, unit: &UnitOfWork<'_>) -> Option<Seat> {
    let jobs: Vec<i64> = unit.writes.changes.iter().map(|job| i64::from(job.0)).collect();
    if jobs.is_empty() {
        return None;
    }
    let count = jobs.len() as i64;
    Some(flight.add(
        Ask::new(
            "with taken as (update counters set value = value + $2 where name = 'change' returning value),
                  written as (
                      insert into changes (id, job)
                      select taken.value - $2 + number, job
                      from taken, unnest($1) with ordinality as n (job, number)
                  )
             select value from taken",
        )
        .with(jobs)
        .with(count),
    ))
}
