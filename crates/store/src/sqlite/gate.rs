//! Gates: the key (run, attempt), and the places that a send needs. The rules decide; here is how their rows are read and
//! written.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text, Token};
use punctual_node::ports::{Gate, Gated, SentRow};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::code::{bits, instant_or_none};
use super::day::{Table, has_table};
use super::keeper::{Keeper, Side};
use super::known::{Bit, Standing};
use super::layer::indexed_close;
use super::reader::Reader;
use super::trouble::Trouble;
use crate::rows::sent_row;
use crate::rules::{GateOwner, HoldSlots, Look, Refusal, RunProgress, WaitRow, free_slot, line_of};

impl Keeper {
    pub(super) fn gate(&mut self, gates: &[Gate]) -> Result<Vec<Gated>, Trouble> {
        let gated = gates.iter().map(|gate| gate_one(&self.conn, &mut self.side, gate));
        Ok(gated.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn sent(&mut self, logs: &[LogId]) -> Result<Vec<SentRow>, Trouble> {
        let mut sent = Vec::with_capacity(logs.len());
        for log in logs {
            for (number, _) in self.side.days.iter().filter(|(_, day)| day.may_have_log(log.0)) {
                sent.extend(sent_with(&self.conn, number, *log)?);
            }
        }
        Ok(sent)
    }
}

impl Reader {
    pub(super) fn sends(&self, run: RunId) -> Result<Vec<SentRow>, Trouble> {
        // In one snapshot, or the table could go after it was seen.
        let transaction = self.conn.unchecked_transaction()?;
        if !has_table(&transaction, Table::Sends, run.day())? {
            return Ok(Vec::new());
        }
        let mut select = transaction.prepare_cached(&format!(
            "select {SENT_COLUMNS}
             from sends_{0} as sends
             join runs_{0} as runs on runs.id = sends.run
             where sends.run = ?1
             order by sends.attempt",
            run.day()
        ))?;
        let mut rows = select.query([run.0 as i64])?;
        let mut sent = Vec::new();
        while let Some(row) = rows.next()? {
            sent.push(sent_row(row)?);
        }
        Ok(sent)
    }
}

const SENT_COLUMNS: &str =
    "sends.log, sends.run, runs.job, sends.attempt, sends.token, sends.sent_at, sends.executor";

/// The gate of a day that has this number; the day must have gates.
fn sent_with(conn: &Connection, day: u32, log: LogId) -> Result<Option<SentRow>, Trouble> {
    let mut select = conn.prepare_cached(&format!(
        "select {SENT_COLUMNS}
         from sends_{day} as sends indexed by sends_{day}_log
         join runs_{day} as runs on runs.id = sends.run
         where sends.log = ?1"
    ))?;
    let mut rows = select.query([log.0 as i64])?;
    rows.next()?.map(sent_row).transpose()
}

fn gate_one(conn: &Connection, side: &mut Side, gate: &Gate) -> rusqlite::Result<Gated> {
    match meet(conn, side, gate)? {
        Ok(places) => write(conn, side, gate, &places).map(Gated::Through),
        Err(gated) => Ok(gated),
    }
}

/// The places for a gate that can be written, or the answer to one that cannot, or exists already.
pub(super) fn meet(
    conn: &Connection,
    side: &mut Side,
    gate: &Gate,
) -> rusqlite::Result<Result<HoldSlots, Gated>> {
    if !side.is_there(conn, gate.run)? {
        return Ok(Err(Gated::Closed));
    }
    let standing = side.known.of(conn, &side.days, gate.run)?;
    let mut progress = progress(conn, side, gate.run, standing)?;
    if let Some(verdict) = progress.verdict(gate) {
        // Every gate that was read has its number.
        return Ok(Err(verdict.answer(&BTreeMap::new())));
    }
    if !gate.holds.is_empty() && (standing.is_engaged || side.in_line.contains(&gate.run)) {
        progress.holds = held_by(conn, gate.run)?;
    }
    match progress.places(&gate.holds, |hold| look(conn, hold, gate.run))? {
        Ok(places) => Ok(Ok(places)),
        Err(Refusal { gated, lines }) => {
            if !lines.is_empty() {
                write_places(conn, gate.run, &lines)?;
                side.in_line.insert(gate.run);
            }
            Ok(Err(gated))
        }
    }
}

fn write_places(conn: &Connection, run: RunId, places: &[(Text, u32)]) -> rusqlite::Result<()> {
    for (resource, slot) in places {
        let mut insert = conn.prepare_cached(
            "insert into holds (resource, slot, run)
             values (?1, ?2, ?3)",
        )?;
        insert.execute(params![resource.as_ref(), slot, run.0 as i64])?;
    }
    Ok(())
}

/// Writes a gate that can be written; its number.
pub(super) fn write(
    conn: &Connection,
    side: &mut Side,
    gate: &Gate,
    places: &[(Text, u32)],
) -> rusqlite::Result<LogId> {
    let (run, number) = (gate.run.0 as i64, gate.run.day());
    write_places(conn, gate.run, places)?;
    side.days.ensure(conn, number, Table::Sends)?;
    side.counters.log += 1;
    let log = LogId(side.counters.log);
    let mut insert = conn.prepare_cached(&format!(
        "insert into sends_{number} (run, attempt, token, log, executor, sent_at, is_open)
         values (?1, ?2, ?3, ?4, ?5, ?6, 1)"
    ))?;
    insert.execute(params![
        run,
        gate.attempt.0,
        gate.token.0 as i64,
        log.0 as i64,
        gate.executor.as_ref(),
        gate.sent_at.as_millis(),
    ])?;
    side.days.note_log(number, log.0);
    // What the run waited for has come.
    if side.known.of(conn, &side.days, gate.run)?.is_engaged {
        conn.prepare_cached("delete from waiting where run = ?1")?.execute([run])?;
    }
    side.known.note(conn, &side.days, gate.run, Bit::Engaged)?;
    Ok(log)
}

/// How far a run has come, without its holds. Most runs never waited, have no gate and are open: for those nothing is read.
pub(super) fn progress(
    conn: &Connection,
    side: &Side,
    run: RunId,
    standing: Standing,
) -> rusqlite::Result<RunProgress> {
    let mut progress = RunProgress { is_closed: standing.is_closed, ..RunProgress::default() };
    if standing.is_engaged {
        progress.wait = wait_of(conn, run)?;
        progress.gates = gates_of(conn, side, run)?;
    }
    if standing.is_closed
        && let Some(attempt) = unsent(conn, side, run)?
    {
        progress.gates.insert(attempt, GateOwner::Unsent);
    }
    Ok(progress)
}

fn wait_of(conn: &Connection, run: RunId) -> rusqlite::Result<Option<WaitRow>> {
    let mut select = conn.prepare_cached(
        "select ready_at, attempt, is_called_back
         from waiting
         where run = ?1",
    )?;
    let read = |row: &Row<'_>| {
        let (ready_at, attempt) = (instant_or_none(row, 0)?, Attempt(row.get(1)?));
        Ok(WaitRow { ready_at, attempt, is_called_back: row.get(2)? })
    };
    select.query_row([run.0 as i64], read).optional()
}

fn gates_of(conn: &Connection, side: &Side, run: RunId) -> rusqlite::Result<BTreeMap<Attempt, GateOwner>> {
    let number = run.day();
    if !side.days.has(number, Table::Sends) {
        return Ok(BTreeMap::new());
    }
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, log
         from sends_{number}
         where run = ?1"
    ))?;
    let read = |row: &Row<'_>| {
        let (token, log) = (Token(bits(row, 1)?), LogId(bits(row, 2)?));
        Ok((Attempt(row.get(0)?), GateOwner::Sent(token, Some(log))))
    };
    select.query_map([run.0 as i64], read)?.collect()
}

/// The attempt whose key the close of a run took.
fn unsent(conn: &Connection, side: &Side, run: RunId) -> rusqlite::Result<Option<Attempt>> {
    let number = run.day();
    let place = match side.closes.place(run) {
        Some(place) => Some(place),
        None => indexed_close(conn, run)?,
    };
    let Some(place) = place else { return Ok(None) };
    let mut select = conn.prepare_cached(&format!("select unsent from closes_{number} where place = ?1"))?;
    let unsent = select.query_row([place], |row| row.get::<_, Option<u32>>(0)).optional()?;
    Ok(unsent.flatten().map(Attempt))
}

/// The resources that a run has a place of.
fn held_by(conn: &Connection, run: RunId) -> rusqlite::Result<BTreeSet<Text>> {
    let mut select = conn.prepare_cached("select resource from holds where run = ?1")?;
    select.query_map([run.0 as i64], |row| row.get::<_, String>(0).map(Text::from))?.collect()
}

/// What a run finds at a resource.
fn look(conn: &Connection, hold: &Hold, id: RunId) -> rusqlite::Result<Look> {
    if !hold.takes_turns {
        return Ok(Look { free: free_place(conn, hold)?, before: None, next_in_line: 0 });
    }
    let taken = slots(conn, &hold.resource)?;
    let free = free_slot(hold.slots, taken.iter().map(|(slot, _)| *slot));
    let line = slots(conn, &line_of(&hold.resource))?;
    let has_place = |run: RunId| taken.iter().any(|(_, holder)| *holder == run);
    let ahead = line.iter().map(|(_, run)| *run).take_while(|run| *run != id);
    let first = ahead.into_iter().find(|run| !has_place(*run));
    Ok(Look {
        free: free.filter(|_| first.is_none()),
        before: first.or_else(|| taken.first().map(|(_, run)| *run)),
        next_in_line: line.last().map_or(0, |(slot, _)| slot + 1),
    })
}

/// The free place of a resource, if there is one. Its slots are read up to the first gap.
fn free_place(conn: &Connection, hold: &Hold) -> rusqlite::Result<Option<u32>> {
    let mut select = conn.prepare_cached(
        "select slot
         from holds
         where resource = ?1
         order by slot",
    )?;
    let mut failed = Ok(());
    let slots = select.query_map([hold.resource.as_ref()], |row| row.get::<_, u32>(0))?;
    let slots = slots.map_while(|slot| slot.map_err(|error| failed = Err(error)).ok());
    let free = free_slot(hold.slots, slots);
    failed.map(|()| free)
}

/// The slots of a resource that are taken, in order, and the runs that have them.
fn slots(conn: &Connection, resource: &Text) -> rusqlite::Result<Vec<(u32, RunId)>> {
    let mut select = conn.prepare_cached(
        "select slot, run
         from holds
         where resource = ?1
         order by slot",
    )?;
    select
        .query_map([resource.as_ref()], |row| Ok((row.get(0)?, RunId(row.get::<_, i64>(1)? as u64))))?
        .collect()
}
