//! A run as people see it: its row, its end, what it waits for and its attempts, gathered from the tables of its day.

use std::collections::BTreeMap;

use punctual_core::model::{Attempt, AttemptRecord, Close, Origin, RunId, RunState};
use punctual_node::ports::{AttemptRow, RunView};
use rusqlite::Connection;

use super::code::origin_code;
use super::layer::indexed_close;
use super::run_row::select_view;
use super::split::part_of;
use super::trouble::Trouble;
use crate::rows::{Cells, OfRun, attempt_record, close, open_attempt, run_view, wait};
use crate::rules::WaitRow;

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
    let mut select = conn.prepare_cached(&select_view(id.day()))?;
    let mut rows = select.query([id.0 as i64])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let end = end_of(conn, tables, id, place)?;
    let mut of_run = OfRun {
        wait: wait_of(conn, id)?,
        sent: gates_of(conn, tables, id)?,
        ended: attempts_of(conn, tables, id)?,
        ..OfRun::default()
    };
    // A row of a part is asked for where the run says that it is one: there is no table of parts on most days.
    if tables.parts && row.number(5)? == origin_code(Origin::Part) {
        of_run.part = part_of(conn, id)?.transpose()?.map(|(_, part)| part);
    }
    if let Some(EndedRow { close, attempt }) = end {
        of_run.close = Some(close);
        // The last word about an attempt is the one in the close.
        of_run.ended.extend(attempt.map(|record| (record.number, record)));
    }
    run_view(row, of_run).map(Some)
}

pub(super) fn state_of(
    conn: &Connection,
    tables: Tables,
    id: RunId,
    place: Option<i64>,
) -> Result<RunState, Trouble> {
    let end = end_of(conn, tables, id, place)?.map(|end| end.close.outcome);
    let wait = wait_of(conn, id)?;
    let is_gated = end.is_none() && wait.is_none() && !gates_of(conn, tables, id)?.is_empty();
    Ok(RunState::of(end, wait.map(|wait| wait.attempt), is_gated))
}

/// The end of a run as it is kept.
struct EndedRow {
    close: Close,
    attempt: Option<AttemptRecord>,
}

fn end_of(
    conn: &Connection,
    tables: Tables,
    id: RunId,
    place: Option<i64>,
) -> Result<Option<EndedRow>, Trouble> {
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
    let attempt = match row.maybe(0)? {
        Some(_) => Some(attempt_record(row, 0)?),
        None => None,
    };
    Ok(Some(EndedRow { close: close(row, 8)?, attempt }))
}

/// What a run waits for.
fn wait_of(conn: &Connection, id: RunId) -> Result<Option<WaitRow>, Trouble> {
    let mut select = conn.prepare_cached(
        "select ready_at, attempt, is_called_back
         from waiting
         where run = ?1",
    )?;
    let mut rows = select.query([id.0 as i64])?;
    rows.next()?.map(|row| wait(row, 0)).transpose()
}

/// The attempts of a run that ended, but for the one that its close may have.
fn attempts_of(
    conn: &Connection,
    tables: Tables,
    id: RunId,
) -> Result<BTreeMap<Attempt, AttemptRecord>, Trouble> {
    let mut ended = BTreeMap::new();
    if !tables.attempts {
        return Ok(ended);
    }
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate
         from attempts_{}
         where run = ?1",
        id.day()
    ))?;
    let mut rows = select.query([id.0 as i64])?;
    while let Some(row) = rows.next()? {
        let record = attempt_record(row, 0)?;
        ended.insert(record.number, record);
    }
    Ok(ended)
}

fn gates_of(conn: &Connection, tables: Tables, id: RunId) -> Result<BTreeMap<Attempt, AttemptRow>, Trouble> {
    let mut sent = BTreeMap::new();
    if !tables.sends {
        return Ok(sent);
    }
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, log, sent_at, executor
         from sends_{}
         where run = ?1",
        id.day()
    ))?;
    let mut rows = select.query([id.0 as i64])?;
    while let Some(row) = rows.next()? {
        sent.extend([open_attempt(row, 0)?]);
    }
    Ok(sent)
}
