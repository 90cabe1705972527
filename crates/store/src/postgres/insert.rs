//! The statements that write many rows at once: each a list of columns, so that one plan serves any number of rows.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Attempt, AttemptRecord, JobId, RunId, ShardId};
use punctual_node::ports::{ArrivalKind, Gate};

use super::ask::{Ask, run_code, text_code};
use super::code::{arrival_code, attempt_outcome_code, outcome_code};
use crate::rules::{CloseRow, DayDelta, UnitOfWork};

/// Whole texts, so that they can be prepared.
macro_rules! into_closes {
    ($table:literal) => {
        concat!(
            "insert into ",
            $table,
            " (run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor,
               started_at, ended_at, attempt_outcome, message, possible_duplicate)
             select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
        )
    };
}

pub(super) fn insert_births(births: &BTreeMap<ShardId, Timestamp>) -> Ask {
    Ask::new("insert into births (shard, due) select * from unnest($1, $2)")
        .with(births.keys().map(|shard| i64::from(shard.0)).collect::<Vec<i64>>())
        .with(births.values().map(|due| due.as_millis()).collect::<Vec<i64>>())
}

/// Each session has a row of its own, so that transactions that write on the same day do not wait for each other.
pub(super) fn count_days(days: &BTreeMap<u32, DayDelta>) -> Ask {
    let numbers = |of: &dyn Fn(&DayDelta) -> i64| days.values().map(of).collect::<Vec<i64>>();
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

pub(super) fn insert_closes(is_far: bool, closes: &[CloseRow<'_>]) -> Ask {
    let numbers = |of: &dyn Fn(&CloseRow<'_>) -> i64| closes.iter().map(of).collect::<Vec<i64>>();
    let maybes =
        |of: &dyn Fn(&CloseRow<'_>) -> Option<i64>| closes.iter().map(of).collect::<Vec<Option<i64>>>();
    let texts =
        |of: &dyn Fn(&CloseRow<'_>) -> Option<String>| closes.iter().map(of).collect::<Vec<Option<String>>>();
    Ask::new(if is_far { into_closes!("closes_far") } else { into_closes!("closes") })
        .with(numbers(&|row| run_code(row.run)))
        .with(numbers(&|row| outcome_code(row.close.outcome)))
        .with(texts(&|row| Some(text_code(&row.close.reason))))
        .with(numbers(&|row| row.close.closed_at.as_millis()))
        .with(maybes(&|row| row.close.range.map(|(until, _)| until.as_millis())))
        .with(maybes(&|row| row.close.range.map(|(_, count)| count as i64)))
        .with(maybes(&|row| row.unsent.map(|attempt| i64::from(attempt.0))))
        .with(maybes(&|row| row.attempt.map(|attempt| i64::from(attempt.number.0))))
        .with(maybes(&|row| row.attempt.map(|attempt| attempt.token.0 as i64)))
        .with(texts(&|row| row.attempt.map(|attempt| text_code(&attempt.executor))))
        .with(maybes(&|row| row.attempt.map(|attempt| attempt.started_at.as_millis())))
        .with(maybes(&|row| row.attempt.map(|attempt| attempt.ended_at.as_millis())))
        .with(maybes(&|row| row.attempt.map(|attempt| attempt_outcome_code(attempt.outcome))))
        .with(texts(&|row| row.attempt.map(|attempt| text_code(&attempt.message))))
        .with(
            closes
                .iter()
                .map(|row| row.attempt.map(|attempt| attempt.possible_duplicate))
                .collect::<Vec<Option<bool>>>(),
        )
}

pub(super) fn insert_attempts(rows: &BTreeMap<(RunId, Attempt), &AttemptRecord>) -> Ask {
    let numbers = |of: &dyn Fn(&RunId, &AttemptRecord) -> i64| {
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

/// What lies there already is not left twice, and takes no number. Numbers follow the order in which they are left, however
/// the planner goes about the question.
pub(super) fn insert_arrivals(left: &[(ShardId, ArrivalKind)]) -> Ask {
    let codes: Vec<(i64, RunId, i64)> = left.iter().map(|(_, kind)| arrival_code(*kind)).collect();
    Ask::new(
        "insert into arrivals (id, shard, kind, run, at)
         select nextval('arrival_numbers'), shard, kind, run, at
         from (
             select w.shard, w.kind, w.run, w.at
             from unnest($1, $2, $3, $4) with ordinality as w (shard, kind, run, at, place)
             where not exists (
                 select from arrivals a
                 where a.run = w.run and a.kind = w.kind and a.shard = w.shard and a.at = w.at
             )
             order by w.place
         ) as new
         on conflict (run, kind, shard, at) do nothing",
    )
    .with(left.iter().map(|(shard, _)| i64::from(shard.0)).collect::<Vec<i64>>())
    .with(codes.iter().map(|(kind, _, _)| *kind).collect::<Vec<i64>>())
    .with(codes.iter().map(|(_, run, _)| run_code(*run)).collect::<Vec<i64>>())
    .with(codes.iter().map(|(_, _, at)| *at).collect::<Vec<i64>>())
}

pub(super) fn insert_sends(gates: &[&Gate]) -> Ask {
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

/// A row that was not there is inserted and nothing else, so that of two transactions that begin it one begins again.
pub(super) fn write_counts(unit: &UnitOfWork<'_>, jobs: &[JobId], had_row: bool) -> Ask {
    let rows: Vec<_> = jobs.iter().map(|job| &unit.counts[job]).collect();
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
