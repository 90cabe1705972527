//! The second half of a verb that writes: everything that has changed, a few statements for any number of rows, and the commit,
//! in one flight.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Attempt, ChangeId, LogId, NewRun, RunId, ShardId};
use punctual_node::ports::ArrivalKind;

use super::Postgres;
use super::ask::{Ask, Columns, Flight, Seat, run_code, text_code};
use super::code::{attempt_outcome_code, decided_code, origin_code, outcome_code, state_code};
use super::line::Line;
use super::sheet::{DayMore, End, Sheet};
use super::trouble::Trouble;

/// What only the server could say.
#[derive(Default)]
pub(super) struct Flushed {
    pub(super) logs: BTreeMap<(RunId, Attempt), LogId>,
    /// The last of the changes.
    pub(super) change: Option<ChangeId>,
}

impl Postgres {
    /// Writes what has changed, and commits.
    pub(super) async fn flush(&self, line: &Line<'_>, sheet: &Sheet) -> Result<Flushed, Trouble> {
        self.flush_after(line, Flight::new(), sheet).await
    }

    /// As [`Postgres::flush`], after some other statements.
    pub(super) async fn flush_after(
        &self,
        line: &Line<'_>,
        mut flight: Flight,
        sheet: &Sheet,
    ) -> Result<Flushed, Trouble> {
        self.check_beside(days_beside(sheet))?;
        let sends = write_runs(&mut flight, sheet);
        write_jobs(&mut flight, sheet);
        let changes = write_changes(&mut flight, sheet);
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
fn days_beside(sheet: &Sheet) -> impl Iterator<Item = u32> {
    let writes = &sheet.writes;
    let attempts = writes.attempts.keys().map(|(run, _)| run.day());
    let sends = writes.sends.iter().map(|gate| gate.run.day());
    let parts = writes.parts.iter().map(|(run, _, _)| run.day());
    let joins = writes.joins.keys().map(|run| run.day());
    attempts.chain(sends).chain(parts).chain(joins)
}

/// Everything about runs; where the numbers of new gates will be.
fn write_runs(flight: &mut Flight, sheet: &Sheet) -> Option<Seat> {
    let writes = &sheet.writes;
    // In the order of their names, so that two who write the same names do not wait for each other.
    let mut runs: Vec<&NewRun> = writes.runs.iter().collect();
    runs.sort_by_key(|run| (run.fire_time, run.job, run.id));
    let (far, near): (Vec<&NewRun>, Vec<&NewRun>) =
        runs.into_iter().partition(|run| sheet.far_days.contains(&run.id.day()));
    for (table, runs) in [("runs", near), ("runs_far", far)] {
        if !runs.is_empty() {
            flight.add(insert_runs(table, &runs));
        }
    }
    write_keys(flight, sheet);
    if !writes.births.is_empty() {
        flight.add(insert_births(&writes.births));
    }
    if !writes.days.is_empty() {
        flight.add(count_days(&writes.days));
    }
    let (far, near): (Vec<&End>, Vec<&End>) = writes.ends.iter().partition(|end| end.is_far);
    for (table, ends) in [("closes", near), ("closes_far", far)] {
        if !ends.is_empty() {
            flight.add(insert_closes(table, &ends));
        }
    }
    if !writes.attempts.is_empty() {
        flight.add(insert_attempts(sheet));
    }
    write_waits(flight, sheet);
    write_holds(flight, sheet);
    write_splits(flight, sheet);
    if !writes.arrivals.is_empty() {
        flight.add(insert_arrivals(&writes.arrivals));
    }
    (!writes.sends.is_empty()).then(|| flight.add(insert_sends(sheet)))
}

pub(super) fn insert_runs(table: &str, runs: &[&NewRun]) -> Ask {
    let numbers = |of: &dyn Fn(&NewRun) -> i64| runs.iter().map(|run| of(run)).collect::<Vec<i64>>();
    Ask::new(format!(
        "insert into {table} (id, job, shard, fire_time, due, origin, decided, priority, key, of, payload)
         select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    ))
    .with(numbers(&|run| run_code(run.id)))
    .with(numbers(&|run| i64::from(run.job.0)))
    .with(numbers(&|run| i64::from(run.shard.0)))
    .with(numbers(&|run| run.fire_time.as_millis()))
    .with(numbers(&|run| run.due.as_millis()))
    .with(numbers(&|run| origin_code(run.origin)))
    .with(numbers(&|run| decided_code(run.decided)))
    .with(numbers(&|run| i64::from(run.priority)))
    .with(runs.iter().map(|run| run.key.as_deref().map(text_code)).collect::<Vec<Option<String>>>())
    .with(runs.iter().map(|run| run.of.map(run_code)).collect::<Vec<Option<i64>>>())
    .with(runs.iter().map(|run| run.payload.as_deref().map(text_code)).collect::<Vec<Option<String>>>())
}

pub(super) fn insert_births(births: &BTreeMap<ShardId, Timestamp>) -> Ask {
    Ask::new("insert into births (shard, due) select * from unnest($1, $2)")
        .with(births.keys().map(|shard| i64::from(shard.0)).collect::<Vec<i64>>())
        .with(births.values().map(|due| due.as_millis()).collect::<Vec<i64>>())
}

/// Each session has a row of its own, so that those who write on the same day do not wait for each other.
pub(super) fn count_days(days: &BTreeMap<u32, DayMore>) -> Ask {
    let numbers = |of: &dyn Fn(&DayMore) -> i64| days.values().map(of).collect::<Vec<i64>>();
    Ask::new(
        "insert into buckets (day, slot, runs, closed, first_due, last_due, first_fire, last_fire)
         select day, pg_backend_pid() % 64, runs, closed, first_due, last_due, first_fire, last_fire
         from unnest($1, $2, $3, $4, $5, $6, $7) as more (day, runs, closed, first_due, last_due, first_fire, last_fire)
         on conflict (day, slot) do update
         set runs = buckets.runs + excluded.runs,
             closed = buckets.closed + excluded.closed,
             first_due = least(buckets.first_due, excluded.first_due),
             last_due = greatest(buckets.last_due, excluded.last_due),
             first_fire = least(buckets.first_fire, excluded.first_fire),
             last_fire = greatest(buckets.last_fire, excluded.last_fire)",
    )
    .with(days.keys().map(|day| i64::from(*day)).collect::<Vec<i64>>())
    .with(numbers(&|day| day.runs))
    .with(numbers(&|day| day.closed))
    .with(numbers(&|day| day.due.0))
    .with(numbers(&|day| day.due.1))
    .with(numbers(&|day| day.fire.0))
    .with(numbers(&|day| day.fire.1))
}

fn write_keys(flight: &mut Flight, sheet: &Sheet) {
    let (mut gone, mut new, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for ((job, key), before) in &sheet.writes.keys {
        let (run, expires_at) = sheet.keys[&(*job, key.clone())];
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

fn insert_closes(table: &str, ends: &[&End]) -> Ask {
    let numbers = |of: &dyn Fn(&End) -> i64| ends.iter().map(|end| of(end)).collect::<Vec<i64>>();
    let maybes = |of: &dyn Fn(&End) -> Option<i64>| ends.iter().map(|end| of(end)).collect::<Vec<Option<i64>>>();
    let texts = |of: &dyn Fn(&End) -> Option<String>| ends.iter().map(|end| of(end)).collect::<Vec<Option<String>>>();
    Ask::new(format!(
        "insert into {table} (run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor,
                              started_at, ended_at, attempt_outcome, message, possible_duplicate)
         select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
    ))
    .with(numbers(&|end| run_code(end.run)))
    .with(numbers(&|end| outcome_code(end.close.outcome)))
    .with(texts(&|end| Some(text_code(&end.close.reason))))
    .with(numbers(&|end| end.close.closed_at.as_millis()))
    .with(maybes(&|end| end.close.range.map(|(until, _)| until.as_millis())))
    .with(maybes(&|end| end.close.range.map(|(_, count)| count as i64)))
    .with(maybes(&|end| end.unsent.map(|attempt| i64::from(attempt.0))))
    .with(maybes(&|end| end.attempt.as_ref().map(|attempt| i64::from(attempt.number.0))))
    .with(maybes(&|end| end.attempt.as_ref().map(|attempt| attempt.token.0 as i64)))
    .with(texts(&|end| end.attempt.as_ref().map(|attempt| text_code(&attempt.executor))))
    .with(maybes(&|end| end.attempt.as_ref().map(|attempt| attempt.started_at.as_millis())))
    .with(maybes(&|end| end.attempt.as_ref().map(|attempt| attempt.ended_at.as_millis())))
    .with(maybes(&|end| end.attempt.as_ref().map(|attempt| attempt_outcome_code(attempt.outcome))))
    .with(texts(&|end| end.attempt.as_ref().map(|attempt| text_code(&attempt.message))))
    .with(
        ends.iter()
            .map(|end| end.attempt.as_ref().map(|attempt| attempt.possible_duplicate))
            .collect::<Vec<Option<bool>>>(),
    )
}

fn insert_attempts(sheet: &Sheet) -> Ask {
    let rows = &sheet.writes.attempts;
    let numbers = |of: &dyn Fn(&RunId, &punctual_core::model::AttemptRecord) -> i64| {
        rows.iter().map(|((run, _), record)| of(run, record)).collect::<Vec<i64>>()
    };
    Ask::new(
        "insert into attempts (run, attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate)
         select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (run, attempt) do update
         set token = excluded.token, executor = excluded.executor, started_at = excluded.started_at,
             ended_at = excluded.ended_at, attempt_outcome = excluded.attempt_outcome, message = excluded.message,
             possible_duplicate = excluded.possible_duplicate",
    )
    .with(numbers(&|run, _| run_code(*run)))
    .with(numbers(&|_, record| i64::from(record.number.0)))
    .with(numbers(&|_, record| record.token.0 as i64))
    .with(rows.values().map(|record| text_code(&record.executor)).collect::<Vec<String>>())
    .with(numbers(&|_, record| record.started_at.as_millis()))
    .with(numbers(&|_, record| record.ended_at.as_millis()))
    .with(numbers(&|_, record| attempt_outcome_code(record.outcome)))
    .with(rows.values().map(|record| text_code(&record.message)).collect::<Vec<String>>())
    .with(rows.values().map(|record| record.possible_duplicate).collect::<Vec<bool>>())
}

/// What waits and what flies, as it is now.
fn write_waits(flight: &mut Flight, sheet: &Sheet) {
    let (mut landed, mut risen, mut shards, mut over) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut waits = Vec::new();
    for id in &sheet.writes.touched {
        let run = &sheet.runs[id];
        match (run.was_flying, run.is_flying()) {
            (false, true) => {
                risen.push(run_code(*id));
                shards.push(i64::from(run.shard.0));
            }
            (true, false) => landed.push(run_code(*id)),
            _ => {}
        }
        match run.wait {
            Some(wait) => waits.push((*id, run, wait)),
            None if run.was_waiting => over.push(run_code(*id)),
            None => {}
        }
    }
    for (runs, sql) in
        [(landed, "delete from flights where run = any($1)"), (over, "delete from waiting where run = any($1)")]
    {
        if !runs.is_empty() {
            flight.add(Ask::new(sql).with(runs));
        }
    }
    if !risen.is_empty() {
        flight.add(Ask::new("insert into flights (run, shard) select * from unnest($1, $2)").with(risen).with(shards));
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

fn write_holds(flight: &mut Flight, sheet: &Sheet) {
    let writes = &sheet.writes;
    if !writes.freed.is_empty() {
        let runs: Vec<i64> = writes.freed.iter().map(|run| run_code(*run)).collect();
        flight.add(Ask::new("delete from holds where run = any($1)").with(runs));
    }
    if !writes.holds.is_empty() {
        flight.add(
            Ask::new("insert into holds (resource, slot, run) select * from unnest($1, $2, $3)")
                .with(writes.holds.iter().map(|(resource, _, _)| text_code(resource)).collect::<Vec<String>>())
                .with(writes.holds.iter().map(|(_, slot, _)| i64::from(*slot)).collect::<Vec<i64>>())
                .with(writes.holds.iter().map(|(_, _, run)| run_code(*run)).collect::<Vec<i64>>()),
        );
    }
}

fn write_splits(flight: &mut Flight, sheet: &Sheet) {
    let parts = &sheet.writes.parts;
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
    for id in sheet.writes.joins.keys() {
        let row = &sheet.joins[id];
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

/// What lies there already is not left twice, and takes no number.
pub(super) fn insert_arrivals(left: &[(ShardId, ArrivalKind)]) -> Ask {
    let wishes: Vec<(i64, RunId, i64)> = left.iter().map(|(_, kind)| wish(*kind)).collect();
    Ask::new(
        "insert into arrivals (id, shard, kind, run, at)
         select nextval('arrival_numbers'), w.shard, w.kind, w.run, w.at
         from unnest($1, $2, $3, $4) as w (shard, kind, run, at)
         where not exists (
             select from arrivals a
             where a.run = w.run and a.kind = w.kind and a.shard = w.shard and a.at = w.at
         )
         on conflict (run, kind, shard, at) do nothing",
    )
    .with(left.iter().map(|(shard, _)| i64::from(shard.0)).collect::<Vec<i64>>())
    .with(wishes.iter().map(|(kind, _, _)| *kind).collect::<Vec<i64>>())
    .with(wishes.iter().map(|(_, run, _)| run_code(*run)).collect::<Vec<i64>>())
    .with(wishes.iter().map(|(_, _, at)| *at).collect::<Vec<i64>>())
}

fn wish(kind: ArrivalKind) -> (i64, RunId, i64) {
    match kind {
        ArrivalKind::Run(run) => (0, run, 0),
        ArrivalKind::Cancel(run) => (1, run, 0),
        ArrivalKind::Reschedule(run, at) => (2, run, at.as_millis()),
    }
}

fn insert_sends(sheet: &Sheet) -> Ask {
    let gates = &sheet.writes.sends;
    Ask::new(
        "insert into sends (run, attempt, token, log, executor, sent_at)
         select run, attempt, token, nextval('send_logs'), executor, sent_at
         from unnest($1, $2, $3, $4, $5) as g (run, attempt, token, executor, sent_at)
         returning run, attempt, log",
    )
    .with(gates.iter().map(|gate| run_code(gate.run)).collect::<Vec<i64>>())
    .with(gates.iter().map(|gate| i64::from(gate.attempt.0)).collect::<Vec<i64>>())
    .with(gates.iter().map(|gate| gate.token.0 as i64).collect::<Vec<i64>>())
    .with(gates.iter().map(|gate| text_code(&gate.executor)).collect::<Vec<String>>())
    .with(gates.iter().map(|gate| gate.sent_at.as_millis()).collect::<Vec<i64>>())
}

/// Clocks, states and counts of jobs.
fn write_jobs(flight: &mut Flight, sheet: &Sheet) {
    let writes = &sheet.writes;
    if !writes.clocks.is_empty() {
        let clocks: Vec<_> = writes.clocks.iter().map(|job| (job, &sheet.clocks[job])).collect();
        flight.add(
            Ask::new(
                "update clocks c
                 set next_fire = n.next_fire, enabled = n.enabled, decided = n.decided, reserved = n.reserved
                 from unnest($1, $2, $3, $4, $5) as n (job, next_fire, enabled, decided, reserved)
                 where c.job = n.job",
            )
            .with(clocks.iter().map(|(job, _)| i64::from(job.0)).collect::<Vec<i64>>())
            .with(clocks.iter().map(|(_, clock)| clock.next_fire.map(Timestamp::as_millis)).collect::<Vec<Option<i64>>>())
            .with(clocks.iter().map(|(_, clock)| clock.is_enabled).collect::<Vec<bool>>())
            .with(clocks.iter().map(|(_, clock)| clock.decided.as_millis()).collect::<Vec<i64>>())
            .with(clocks.iter().map(|(_, clock)| clock.reserved.as_millis()).collect::<Vec<i64>>()),
        );
    }
    if !writes.stops.is_empty() {
        let stopped = |reason: &punctual_core::model::StoppedReason| {
            state_code(&punctual_core::model::JobState::Stopped(reason.clone()))
        };
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
        let jobs: Vec<_> = writes.counts.iter().filter(|(_, had)| **had == had_row).map(|(job, _)| *job).collect();
        if !jobs.is_empty() {
            flight.add(write_counts(sheet, &jobs, had_row));
        }
    }
}

/// A row that was not there is inserted and nothing else, so that of two who begin it one begins again.
fn write_counts(sheet: &Sheet, jobs: &[punctual_core::model::JobId], had_row: bool) -> Ask {
    let rows: Vec<_> = jobs.iter().map(|job| &sheet.counts[job]).collect();
    Ask::new(match had_row {
        false => {
            "insert into counts (job, succeeded, failed, not_run, consecutive_failures, last_outcome, last_success)
             select * from unnest($1, $2, $3, $4, $5, $6, $7)"
        }
        true => {
            "update counts c
             set succeeded = n.succeeded, failed = n.failed, not_run = n.not_run,
                 consecutive_failures = n.consecutive_failures, last_outcome = n.last_outcome, last_success = n.last_success
             from unnest($1, $2, $3, $4, $5, $6, $7)
                 as n (job, succeeded, failed, not_run, consecutive_failures, last_outcome, last_success)
             where c.job = n.job"
        }
    })
    .with(jobs.iter().map(|job| i64::from(job.0)).collect::<Vec<i64>>())
    .with(rows.iter().map(|counts| counts.succeeded as i64).collect::<Vec<i64>>())
    .with(rows.iter().map(|counts| counts.failed as i64).collect::<Vec<i64>>())
    .with(rows.iter().map(|counts| counts.not_run as i64).collect::<Vec<i64>>())
    .with(rows.iter().map(|counts| i64::from(counts.consecutive_failures)).collect::<Vec<i64>>())
    .with(rows.iter().map(|counts| counts.last_outcome.map(outcome_code)).collect::<Vec<Option<i64>>>())
    .with(rows.iter().map(|counts| counts.last_success.map(Timestamp::as_millis)).collect::<Vec<Option<i64>>>())
}

/// The last thing before the commit, because whoever takes a number makes all who come after wait until it has committed:
/// else a node that has seen a later change would never hear of an earlier one.
fn write_changes(flight: &mut Flight, sheet: &Sheet) -> Option<Seat> {
    let jobs: Vec<i64> = sheet.writes.changes.iter().map(|job| i64::from(job.0)).collect();
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
