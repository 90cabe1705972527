//! A run as people see it: its row, its end, what it waits for and its attempts, gathered from the tables of its day.

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, JobId, LogId, Origin, Outcome, Payload, RunId, RunState, ShardId, Text, Token,
};
use punctual_node::ports::{AttemptRow, RunView};
use rusqlite::{Connection, OptionalExtension, Row};

use super::code::{
    attempt_outcome_from, bits, decided_from, instant, instant_or_none, origin_from, outcome_from,
};
use super::layer::indexed_close;
use super::split::part_of;
use super::trouble::{Trouble, corrupt};

/// Which tables a day has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tables {
    closes: bool,
    attempts: bool,
    sends: bool,
    parts: bool,
}

/// Asked once for many runs: SQLite has no index of its tables, and walks over those of all days.
pub(super) fn tables_of(conn: &Connection, day: u32) -> rusqlite::Result<Tables> {
    let mut select = conn.prepare_cached(
        "select name
         from sqlite_schema
         where type = 'table' and name in (?1, ?2, ?3, ?4)",
    )?;
    let names = ["closes", "attempts", "sends", "parts"].map(|table| format!("{table}_{day}"));
    let found: Vec<String> =
        select.query_map(names.each_ref(), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let [closes, attempts, sends, parts] = names.map(|name| found.contains(&name));
    Ok(Tables { closes, attempts, sends, parts })
}

pub(super) fn view(
    conn: &Connection,
    tables: Tables,
    id: RunId,
    place: Option<i64>,
) -> Result<Option<RunView>, Trouble> {
    let mut select = conn.prepare_cached(&format!(
        "select job, shard, fire_time, due, origin, decided, priority, key, of, payload
         from runs_{}
         where id = ?1",
        id.day()
    ))?;
    let mut rows = select.query([id.0 as i64])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let end = end_of(conn, tables, id, place)?;
    let wait = wait_of(conn, id)?;
    let attempts = attempts_of(conn, tables, id, end.as_ref())?;
    let is_gated = attempts.iter().any(|(_, is_gated)| *is_gated);
    let outcome = end.as_ref().map(|end| end.outcome);
    let state = RunState::of(outcome, wait.as_ref().map(|wait| wait.attempt), is_gated);
    let bad = |reason: &str| corrupt("runs", id.0 as i64, reason);
    let small = |column: usize| row.get::<_, i64>(column);
    let origin = origin_from(small(4)?).ok_or_else(|| bad("no such origin"))?;
    let part = match origin == Origin::Part && tables.parts {
        true => part_of(conn, id)?.transpose()?,
        false => None,
    };
    decided_from(small(5)?).ok_or_else(|| bad("no such decision"))?;
    Ok(Some(RunView {
        id,
        job: JobId(u32::try_from(small(0)?).map_err(|_| bad("no such job"))?),
        shard: ShardId(u16::try_from(small(1)?).map_err(|_| bad("no such shard"))?),
        fire_time: instant(row, 2)?,
        due: instant(row, 3)?,
        origin,
        state,
        closed_at: end.as_ref().map(|end| end.closed_at),
        range: end.as_ref().and_then(|end| end.range),
        reason: end.map(|end| end.reason).unwrap_or_default(),
        priority: u8::try_from(small(6)?).map_err(|_| bad("no such priority"))?,
        payload: row.get::<_, Option<String>>(9)?.map(Payload::from),
        key: row.get::<_, Option<String>>(7)?.map(Text::from),
        of: row.get::<_, Option<i64>>(8)?.map(|of| RunId(of as u64)),
        ready_at: wait.and_then(|wait| wait.ready_at),
        attempts: attempts.into_iter().map(|(row, _)| row).collect(),
        part: part.map(|(_, part)| part),
    }))
}

pub(super) fn state_of(
    conn: &Connection,
    tables: Tables,
    id: RunId,
    place: Option<i64>,
) -> Result<RunState, Trouble> {
    let end = end_of(conn, tables, id, place)?.map(|end| end.outcome);
    let wait = wait_of(conn, id)?;
    let is_gated = end.is_none() && wait.is_none() && !gates_of(conn, tables, id)?.is_empty();
    Ok(RunState::of(end, wait.map(|wait| wait.attempt), is_gated))
}

/// The end of a run as it is kept.
struct End {
    outcome: Outcome,
    reason: Text,
    closed_at: Timestamp,
    range: Option<(Timestamp, u64)>,
    attempt: Option<AttemptRecord>,
}

/// What a run waits for.
struct Wait {
    ready_at: Option<Timestamp>,
    attempt: Attempt,
}

fn end_of(conn: &Connection, tables: Tables, id: RunId, place: Option<i64>) -> Result<Option<End>, Trouble> {
    let number = id.day();
    if !tables.closes {
        return Ok(None);
    }
    let place = match place {
        Some(place) => Some(place),
        None => indexed_close(conn, id)?,
    };
    let Some(place) = place else { return Ok(None) };
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate,
                outcome, reason, closed_at, range_until, range_count
         from closes_{number}
         where place = ?1"
    ))?;
    let mut rows = select.query([place])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let outcome = outcome_from(row.get(8)?);
    let attempt = match row.get::<_, Option<u32>>(0)? {
        Some(_) => Some(record(row, number)?),
        None => None,
    };
    Ok(Some(End {
        outcome: outcome.ok_or_else(|| corrupt("closes", place, "no such outcome"))?,
        reason: row.get::<_, String>(9)?.into(),
        closed_at: instant(row, 10)?,
        range: instant_or_none(row, 11)?.zip(row.get::<_, Option<i64>>(12)?.map(|count| count as u64)),
        attempt,
    }))
}

/// An attempt from the first eight columns of a row.
fn record(row: &Row<'_>, day: u32) -> Result<AttemptRecord, Trouble> {
    let outcome = attempt_outcome_from(row.get(5)?);
    Ok(AttemptRecord {
        number: Attempt(row.get(0)?),
        token: Token(bits(row, 1)?),
        executor: row.get::<_, String>(2)?.into(),
        started_at: instant(row, 3)?,
        ended_at: instant(row, 4)?,
        outcome: outcome.ok_or_else(|| corrupt("attempts", i64::from(day), "no such outcome"))?,
        message: row.get::<_, String>(6)?.into(),
        possible_duplicate: row.get(7)?,
    })
}

fn wait_of(conn: &Connection, id: RunId) -> rusqlite::Result<Option<Wait>> {
    let mut select = conn.prepare_cached(
        "select ready_at, attempt
         from waiting
         where run = ?1",
    )?;
    let read = |row: &Row<'_>| Ok(Wait { ready_at: instant_or_none(row, 0)?, attempt: Attempt(row.get(1)?) });
    select.query_row([id.0 as i64], read).optional()
}

/// The attempts of a run, oldest first, each with whether it is one of a gate.
fn attempts_of(
    conn: &Connection,
    tables: Tables,
    id: RunId,
    end: Option<&End>,
) -> Result<Vec<(AttemptRow, bool)>, Trouble> {
    let mut ended = Vec::from_iter(end.and_then(|end| end.attempt.clone()));
    let number = id.day();
    if tables.attempts {
        let mut select = conn.prepare_cached(&format!(
            "select attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate
             from attempts_{number}
             where run = ?1"
        ))?;
        let mut rows = select.query([id.0 as i64])?;
        while let Some(row) = rows.next()? {
            let record = record(row, number)?;
            // The last word about an attempt is the one in the close.
            if ended.iter().all(|last| last.number != record.number) {
                ended.push(record);
            }
        }
    }
    let gates = gates_of(conn, tables, id)?;
    let is_gated = |number: Attempt| gates.iter().any(|(gated, _)| *gated == number);
    let has_ended = |number: Attempt| ended.iter().any(|record| record.number == number);
    let open = gates.iter().filter(|(number, _)| !has_ended(*number));
    let mut rows: Vec<(Attempt, AttemptRow, bool)> =
        open.map(|(number, row)| (*number, row.clone(), true)).collect();
    rows.extend(ended.iter().map(|end| (end.number, AttemptRow::Ended(end.clone()), is_gated(end.number))));
    rows.sort_by_key(|(number, _, _)| *number);
    Ok(rows.into_iter().map(|(_, row, is_gated)| (row, is_gated)).collect())
}

fn gates_of(conn: &Connection, tables: Tables, id: RunId) -> rusqlite::Result<Vec<(Attempt, AttemptRow)>> {
    if !tables.sends {
        return Ok(Vec::new());
    }
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, log, sent_at, executor
         from sends_{}
         where run = ?1
         order by attempt",
        id.day()
    ))?;
    let read = |row: &Row<'_>| {
        let number = Attempt(row.get(0)?);
        let open = AttemptRow::Open {
            number,
            token: Token(bits(row, 1)?),
            log: LogId(bits(row, 2)?),
            started_at: instant(row, 3)?,
            executor: row.get::<_, String>(4)?.into(),
        };
        Ok((number, open))
    };
    select.query_map([id.0 as i64], read)?.collect()
}
