//! Broadcast runs: a whole that falls into parts, and the count of the parts that have not ended.
//!
//! What a part is lies beside the part, in the day of its birth; the count lies beside the whole. Parts are written at
//! once and mostly born on one day, so the count names the lowest and the highest of them, and only the days between
//! are looked into.

use punctual_core::model::{Join, Outcome, Part, RunId};
use punctual_node::ports::{Gated, Split, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::code::bits;
use super::day::Table;
use super::gate::{meet, write};
use super::keeper::Keeper;
use super::pen::Pen;
use super::trouble::{Trouble, corrupt};

/// The lowest and the highest part of a run.
pub(super) type Span = (RunId, RunId);

impl Keeper {
    pub(super) fn split(&mut self, splits: &[Split]) -> Result<Vec<Gated>, Trouble> {
        let mut pen = self.pen();
        let gated = splits.iter().map(|split| pen.split(split));
        Ok(gated.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn open_parts(&mut self, whole: RunId) -> Result<Vec<RunId>, Trouble> {
        let Keeper { conn, side, .. } = self;
        if !side.days.has(whole.day(), Table::Joins) {
            return Ok(Vec::new());
        }
        let Some((first, last)) = span(conn, whole)? else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for (number, _) in side.days.iter().filter(|(_, day)| day.has(Table::Parts)) {
            if (first.day()..=last.day()).contains(&number) {
                parts.extend(parts_on(conn, number, whole)?);
            }
        }
        parts.sort_unstable();
        let mut open = Vec::new();
        for (_, run) in parts {
            if !side.known.of(conn, &side.days, run)?.is_closed {
                open.push(run);
            }
        }
        Ok(open)
    }
}

impl Pen<'_> {
    fn split(&mut self, split: &Split) -> rusqlite::Result<Gated> {
        let places = match meet(self.conn, self.side, &split.gate)? {
            Ok(places) => places,
            Err(said) => return Ok(said),
        };
        let whole = split.gate.run;
        let log = write(self.conn, self.side, &split.gate, &places)?;
        let mut parts = Vec::with_capacity(split.parts.len());
        for (run, part) in &split.parts {
            if let Ok(id) = self.write_run(run)? {
                self.write_part(whole, id, part)?;
                parts.push(id);
            }
        }
        self.write_join(whole, &parts)?;
        Ok(Gated::Through(log))
    }

    fn write_part(&mut self, whole: RunId, run: RunId, part: &Part) -> rusqlite::Result<()> {
        let number = run.day();
        self.side.days.ensure(self.conn, number, Table::Parts)?;
        let mut insert = self.conn.prepare_cached(&format!(
            "insert into parts_{number} (run, whole, part, total, address)
             values (?1, ?2, ?3, ?4, ?5)"
        ))?;
        insert.execute(params![
            run.0 as i64,
            whole.0 as i64,
            part.index,
            part.total,
            part.address.as_ref()
        ])?;
        Ok(())
    }

    fn write_join(&mut self, whole: RunId, parts: &[RunId]) -> rusqlite::Result<()> {
        let number = whole.day();
        self.side.days.ensure(self.conn, number, Table::Joins)?;
        // Parts of an earlier split that have not ended are waited for too.
        let mut upsert = self.conn.prepare_cached(&format!(
            "insert into joins_{number} (run, total, open, succeeded, first_part, last_part)
             values (?1, ?2, ?2, 0, ?3, ?4)
             on conflict (run) do update
             set total = open + excluded.total, open = open + excluded.open, succeeded = 0,
                 first_part = min(first_part, excluded.first_part), last_part = max(last_part, excluded.last_part)"
        ))?;
        let [first, last] =
            [parts.iter().min(), parts.iter().max()].map(|part| part.unwrap_or(&whole).0 as i64);
        upsert.execute(params![whole.0 as i64, parts.len() as i64, first, last])?;
        Ok(())
    }

    /// Counts the end of a part; the whole, if nothing of it is open any more.
    pub(super) fn count_part(
        &mut self,
        whole: RunId,
        outcome: Outcome,
    ) -> rusqlite::Result<Option<(RunId, Join)>> {
        let number = whole.day();
        if !self.side.days.has(number, Table::Joins) {
            return Ok(None);
        }
        let mut update = self.conn.prepare_cached(&format!(
            "update joins_{number}
             set open = open - 1, succeeded = succeeded + ?2
             where run = ?1 and open > 0
             returning total, open, succeeded"
        ))?;
        let counted = update.query_row(params![whole.0 as i64, outcome == Outcome::Succeeded], join);
        Ok(counted.optional()?.filter(|join| join.open == 0).map(|join| (whole, join)))
    }
}

/// What has become of the parts of a run, if it was split; its day must have the table.
pub(super) fn join_of(conn: &Connection, whole: RunId) -> rusqlite::Result<Option<Join>> {
    let mut select = conn.prepare_cached(&format!(
        "select total, open, succeeded
         from joins_{}
         where run = ?1",
        whole.day()
    ))?;
    select.query_row([whole.0 as i64], join).optional()
}

/// The run that a run is a part of, and which; its day must have the table.
pub(super) fn part_of(
    conn: &Connection,
    run: RunId,
) -> rusqlite::Result<Option<Result<(RunId, Part), StoreError>>> {
    let mut select = conn.prepare_cached(&format!(
        "select whole, part, total, address
         from parts_{}
         where run = ?1",
        run.day()
    ))?;
    let read = |row: &Row<'_>| {
        let small = |column: usize| row.get::<_, i64>(column);
        let (Ok(index), Ok(total)) = (u32::try_from(small(1)?), u32::try_from(small(2)?)) else {
            return Ok(Err(corrupt("parts", run.0 as i64, "no such part")));
        };
        Ok(Ok((RunId(bits(row, 0)?), Part { index, total, address: row.get::<_, String>(3)?.into() })))
    };
    select.query_row([run.0 as i64], read).optional()
}

/// Where the parts of a run lie, if it was split; its day must have the table of counts.
pub(super) fn span(conn: &Connection, whole: RunId) -> rusqlite::Result<Option<Span>> {
    let mut select = conn.prepare_cached(&format!(
        "select first_part, last_part
         from joins_{}
         where run = ?1",
        whole.day()
    ))?;
    let read = |row: &Row<'_>| Ok((RunId(bits(row, 0)?), RunId(bits(row, 1)?)));
    select.query_row([whole.0 as i64], read).optional()
}

/// The parts of a run that were born on a day, with their indexes; the day must have the table.
pub(super) fn parts_on(conn: &Connection, day: u32, whole: RunId) -> rusqlite::Result<Vec<(i64, RunId)>> {
    let mut select = conn.prepare_cached(&format!(
        "select part, run
         from parts_{day}
         where whole = ?1"
    ))?;
    select.query_map([whole.0 as i64], |row| Ok((row.get(0)?, RunId(bits(row, 1)?))))?.collect()
}

/// Numbers that cannot be are as near as can be to what they say: the end of a part is written all the same.
fn join(row: &Row<'_>) -> rusqlite::Result<Join> {
    let small =
        |column: usize| row.get::<_, i64>(column).map(|number| number.clamp(0, i64::from(u32::MAX)) as u32);
    Ok(Join { total: small(0)?, open: small(1)?, succeeded: small(2)? })
}
