//! A run as people see it: its row, its end, what it waits for and its attempts, gathered in one snapshot.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Attempt, AttemptRecord, LogId, Outcome, Payload, RunId, RunState, Text, Token};
use punctual_node::ports::{AttemptRow, RunView};
use tokio_postgres::Row;

use super::ask::{Ask, Columns, Flight};
use super::code::{attempt_outcome_from, decided_from, origin_from, outcome_from};
use super::line::Line;
use super::load::{by_run, part};
use super::trouble::{Trouble, corrupt};

/// A state as a number; those of closed runs are the numbers of their outcomes.
pub(super) fn state_number(state: RunState) -> i64 {
    match state {
        RunState::Succeeded => 0,
        RunState::Failed => 1,
        RunState::Lost => 2,
        RunState::Cancelled => 3,
        RunState::Skipped => 4,
        RunState::Pending => 5,
        RunState::Running => 6,
        RunState::Retrying => 7,
    }
}

/// The end of a run as it is kept.
struct End {
    outcome: Outcome,
    reason: Text,
    closed_at: Timestamp,
    range: Option<(Timestamp, u64)>,
    attempt: Option<AttemptRecord>,
}

/// Runs as people see them, those that are there and can be read, in no order.
pub(super) async fn views(line: &Line<'_>, ids: &[RunId]) -> Result<Vec<RunView>, Trouble> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut flight = Flight::snapshot();
    let of_runs = |sql: &'static str| Ask::new(sql).with_runs(ids);
    let runs = flight.add(of_runs(
        "select id, job, shard::bigint, fire_time, due, origin::bigint, decided::bigint, priority::bigint, key, of, payload
         from all_runs
         where id = any($1) and id between $2 and $3",
    ));
    let closes = flight.add(of_runs(
        "select run, attempt, token, executor, started_at, ended_at, attempt_outcome::bigint, message, possible_duplicate,
                outcome::bigint, reason, closed_at, range_until, range_count
         from all_closes
         where run = any($1) and run between $2 and $3",
    ));
    let waits = flight.add(of_runs(
        "select run, ready_at, attempt from waiting where run = any($1) and run between $2 and $3",
    ));
    let attempts = flight.add(of_runs(
        "select run, attempt, token, executor, started_at, ended_at, attempt_outcome::bigint, message, possible_duplicate
         from attempts
         where run = any($1) and run between $2 and $3",
    ));
    let sends = flight.add(of_runs(
        "select run, attempt, token, log, sent_at, executor
         from sends
         where run = any($1) and run between $2 and $3",
    ));
    let parts = flight.add(of_runs(
        "select run, part, total, address from parts where run = any($1) and run between $2 and $3",
    ));
    flight.commit();
    let mut landed = line.fly(flight).await?;
    let closes = by_run(landed.take(closes))?;
    let waits = by_run(landed.take(waits))?;
    let attempts = all_by_run(landed.take(attempts))?;
    let sends = all_by_run(landed.take(sends))?;
    let parts = by_run(landed.take(parts))?;
    let mut found = Vec::new();
    for row in landed.take(runs) {
        let id = row.run(0)?;
        let none = Vec::new();
        let beside = Beside {
            close: closes.get(&id),
            wait: waits.get(&id),
            attempts: attempts.get(&id).unwrap_or(&none),
            sends: sends.get(&id).unwrap_or(&none),
            part: parts.get(&id),
        };
        match view(&row, id, &beside) {
            Ok(view) => found.push(view),
            // One that cannot be read does not take the others with it; asked for alone, it is told about.
            Err(Trouble::Refused(_)) if ids.len() > 1 => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(found)
}

/// The rows that lie beside that of a run.
struct Beside<'r> {
    close: Option<&'r Row>,
    wait: Option<&'r Row>,
    attempts: &'r [Row],
    sends: &'r [Row],
    part: Option<&'r Row>,
}

fn view(row: &Row, id: RunId, beside: &Beside<'_>) -> Result<RunView, Trouble> {
    let bad = |reason: &str| corrupt("runs", id, reason);
    let end = beside.close.map(|row| end(row, id)).transpose()?;
    let wait = match beside.wait {
        Some(row) => Some((row.maybe_instant(1)?, row.attempt(2)?)),
        None => None,
    };
    let state = match (&end, wait) {
        (Some(end), _) => end.outcome.into(),
        (None, Some((_, attempt))) if attempt > Attempt::FIRST => RunState::Retrying,
        (None, Some(_)) => RunState::Pending,
        (None, None) if beside.sends.is_empty() => RunState::Pending,
        (None, None) => RunState::Running,
    };
    decided_from(row.number(6)?).ok_or_else(|| bad("no such decision"))?;
    Ok(RunView {
        id,
        job: row.job(1)?,
        shard: row.shard(2)?,
        fire_time: row.instant(3)?,
        due: row.instant(4)?,
        origin: origin_from(row.number(5)?).ok_or_else(|| bad("no such origin"))?,
        state,
        attempts: attempts(beside, id, end.as_ref())?,
        closed_at: end.as_ref().map(|end| end.closed_at),
        range: end.as_ref().and_then(|end| end.range),
        reason: end.map(|end| end.reason).unwrap_or_default(),
        priority: u8::try_from(row.number(7)?).map_err(|_| bad("no such priority"))?,
        payload: row.maybe_string(10)?.map(Payload::from),
        key: row.maybe_string(8)?.map(Text::from),
        of: row.maybe(9)?.map(|of| RunId(of as u64)),
        ready_at: wait.and_then(|(ready_at, _)| ready_at),
        part: beside.part.map(|row| part(row, 1)).transpose()?,
    })
}

fn end(row: &Row, id: RunId) -> Result<End, Trouble> {
    let attempt = match row.maybe(1)? {
        Some(_) => Some(record(row, id)?),
        None => None,
    };
    let outcome = outcome_from(row.number(9)?);
    Ok(End {
        outcome: outcome.ok_or_else(|| corrupt("closes", id, "no such outcome"))?,
        reason: row.text(10)?,
        closed_at: row.instant(11)?,
        range: row.maybe_instant(12)?.zip(row.maybe(13)?.map(|count| count as u64)),
        attempt,
    })
}

/// An attempt from the columns after the first.
fn record(row: &Row, id: RunId) -> Result<AttemptRecord, Trouble> {
    let outcome = attempt_outcome_from(row.number(6)?);
    Ok(AttemptRecord {
        number: row.attempt(1)?,
        token: Token(row.bits(2)?),
        executor: row.text(3)?,
        started_at: row.instant(4)?,
        ended_at: row.instant(5)?,
        outcome: outcome.ok_or_else(|| corrupt("attempts", id, "no such outcome"))?,
        message: row.text(7)?,
        possible_duplicate: row.flag(8)?,
    })
}

/// The attempts of a run, oldest first. The last word about one is that of the close.
fn attempts(beside: &Beside<'_>, id: RunId, end: Option<&End>) -> Result<Vec<AttemptRow>, Trouble> {
    let mut rows: BTreeMap<Attempt, AttemptRow> = BTreeMap::new();
    for row in beside.sends {
        let number = row.attempt(1)?;
        let open = AttemptRow::Open {
            number,
            token: Token(row.bits(2)?),
            log: LogId(row.bits(3)?),
            started_at: row.instant(4)?,
            executor: row.text(5)?,
        };
        rows.insert(number, open);
    }
    for row in beside.attempts {
        let record = record(row, id)?;
        rows.insert(record.number, AttemptRow::Ended(record));
    }
    if let Some(record) = end.and_then(|end| end.attempt.clone()) {
        rows.insert(record.number, AttemptRow::Ended(record));
    }
    Ok(rows.into_values().collect())
}

fn all_by_run(rows: Vec<Row>) -> Result<BTreeMap<RunId, Vec<Row>>, Trouble> {
    let mut all: BTreeMap<RunId, Vec<Row>> = BTreeMap::new();
    for row in rows {
        all.entry(row.run(0)?).or_default().push(row);
    }
    Ok(all)
}
