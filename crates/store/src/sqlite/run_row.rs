//! The row of a run: every statement that names its columns.

use punctual_core::model::{NewRun, Payload, RunId};
use punctual_node::ports::Waiting;
use rusqlite::{CachedStatement, Connection, Row, params};

use super::births::Birth;
use super::code::{decided_code, origin_code};
use super::day::{Days, Table, index_of_jobs};
use super::trouble::Trouble;
use crate::rows::{BORN, born};

/// The columns of [`born`].
const BORN_COLUMNS: &str =
    "id, job, shard, fire_time, due, origin, decided, priority, payload is not null, overrides";

/// Only what a schedule names is identified by (fire time, job); one-shots stay out of that index.
pub(super) fn create_runs(day: u32) -> String {
    format!(
        "create table runs_{day} (
             id integer primary key,
             job integer not null,
             shard integer not null,
             fire_time integer not null,
             due integer not null,
             origin integer not null,
             decided integer not null,
             priority integer not null,
             key text,
             of integer,
             overrides text,
             payload text
         ) strict;
         create unique index runs_{day}_named on runs_{day} (fire_time, job) where origin in (0, 3) and decided <> 4;
         {}",
        index_of_jobs(day)
    )
}

pub(super) fn insert_run(day: u32) -> String {
    format!(
        "insert into runs_{day}
             (id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         on conflict do nothing"
    )
}

/// How many rows [`insert_run`] wrote.
pub(super) fn write(insert: &mut CachedStatement<'_>, run: &NewRun) -> rusqlite::Result<usize> {
    insert.execute(params![
        run.id.0 as i64,
        run.job.0,
        run.shard.0,
        run.fire_time.as_millis(),
        run.due.as_millis(),
        origin_code(run.origin),
        decided_code(run.decided),
        run.priority,
        run.key.as_deref(),
        run.of.map(|of| of.0 as i64),
        run.payload.as_deref(),
        run.overrides.as_ref().map(|overrides| overrides.to_string()),
    ])
}

/// How many bytes the texts of a run have.
pub(super) fn text_bytes(run: &NewRun) -> usize {
    let texts = [run.payload.as_deref(), run.key.as_deref()];
    texts.into_iter().flatten().map(str::len).sum()
}

/// Reads the runs of a day from a number on, for [`birth`].
pub(super) fn select_births(day: u32) -> String {
    format!(
        "select {BORN_COLUMNS}
         from runs_{day}
         where id >= ?1"
    )
}

/// A run as the due index has it, if its row holds what can be.
pub(super) fn birth(row: &Row<'_>) -> Option<Birth> {
    born(row).ok().map(|born| Birth::of(&born))
}

/// What [`crate::rows::run_view`] reads of a run of a day.
pub(super) fn select_view(day: u32) -> String {
    format!(
        "select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides
         from runs_{day}
         where id = ?1"
    )
}

/// Whether what runs bring is read with them.
#[derive(Clone, Copy)]
pub(super) enum Brings {
    Read,
    Left,
}

/// What reads a run of a day, if it has any.
pub(super) fn select_run<'c>(
    conn: &'c Connection,
    days: &Days,
    number: u32,
    brings: Brings,
) -> rusqlite::Result<Option<CachedStatement<'c>>> {
    if !days.has(number, Table::Runs) {
        return Ok(None);
    }
    let payload = match brings {
        Brings::Read => "payload",
        Brings::Left => "null",
    };
    let select = conn.prepare_cached(&format!(
        "select {BORN_COLUMNS}, {payload}
         from runs_{number}
         where id = ?1"
    ))?;
    Ok(Some(select))
}

/// A run as it was born, with what it brings. One that cannot be read is as good as none.
pub(super) fn read_run(
    select: &mut CachedStatement<'_>,
    run: RunId,
) -> rusqlite::Result<Option<(Waiting, Option<Payload>)>> {
    let mut rows = select.query([run.0 as i64])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let payload = row.get_ref(BORN)?.as_str_or_null().ok().flatten().map(Payload::from);
    match born(row) {
        Ok(born) => Ok(Some((born, payload))),
        Err(Trouble::Refused(_)) => Ok(None),
        Err(Trouble::Sql(error)) => Err(error),
    }
}
