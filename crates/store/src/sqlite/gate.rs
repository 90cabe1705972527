//! Gates: the key (run, attempt), and the places that a send needs.

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text, Token};
use punctual_node::ports::{Gate, Gated, SentRow};
use rusqlite::{Connection, OptionalExtension, params};

use super::code::bits;
use super::day::{Table, has_table};
use super::keeper::{Keeper, Side};
use super::known::Bit;
use super::layer::indexed_close;
use super::reader::Reader;
use super::settle::begun;
use super::trouble::Trouble;
use crate::rows::sent_row;

/// Places of resources.
pub(super) type Places<'g> = Vec<(&'g Text, u32)>;

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
        Err(said) => Ok(said),
    }
}

/// The places for a gate that can be written, or what is said of one that cannot, or is there already.
pub(super) fn meet<'g>(
    conn: &Connection,
    side: &mut Side,
    gate: &'g Gate,
) -> rusqlite::Result<Result<Places<'g>, Gated>> {
    if !side.is_there(conn, gate.run)? {
        return Ok(Err(Gated::Closed));
    }
    let standing = side.known.of(conn, &side.days, gate.run)?;
    // The key is asked before anything else, so whoever comes late learns who was first.
    let mut key = None;
    if standing.is_engaged {
        key = send(conn, side, gate.run, gate.attempt, gate.token)?;
    }
    if standing.is_closed && key.is_none() {
        key =
            unsent(conn, side, gate.run)?.filter(|taken| *taken == gate.attempt).map(|_| Gated::Taken(None));
    }
    if let Some(taken @ Gated::Taken(_)) = key {
        return Ok(Err(taken));
    }
    if standing.is_closed || standing.is_engaged && begun(conn, side, gate.run)?.is_beyond(gate.attempt) {
        return Ok(Err(Gated::Closed));
    }
    if let Some(through) = key {
        return Ok(Err(through));
    }
    Ok(places(conn, gate)?.map_err(Gated::Held))
}

/// Writes a gate that can be written; its number.
pub(super) fn write(
    conn: &Connection,
    side: &mut Side,
    gate: &Gate,
    places: &[(&Text, u32)],
) -> rusqlite::Result<LogId> {
    let (run, number) = (gate.run.0 as i64, gate.run.day());
    for (resource, slot) in places {
        let mut insert = conn.prepare_cached(
            "insert into holds (resource, slot, run)
             values (?1, ?2, ?3)",
        )?;
        insert.execute(params![resource.as_ref(), slot, run])?;
    }
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
    // What it waited for has come.
    conn.prepare_cached("delete from waiting where run = ?1")?.execute([run])?;
    side.known.note(conn, &side.days, gate.run, Bit::Engaged)?;
    Ok(log)
}

/// What a send with this token meets at a key that a gate has.
fn send(
    conn: &Connection,
    side: &Side,
    run: RunId,
    attempt: Attempt,
    token: Token,
) -> rusqlite::Result<Option<Gated>> {
    let number = run.day();
    if !side.days.has(number, Table::Sends) {
        return Ok(None);
    }
    let mut select = conn.prepare_cached(&format!(
        "select token, log
         from sends_{number}
         where run = ?1 and attempt = ?2"
    ))?;
    let met = select.query_row(params![run.0 as i64, attempt.0], |row| {
        let there = Token(bits(row, 0)?);
        let log = LogId(bits(row, 1)?);
        Ok(if there == token { Gated::Through(log) } else { Gated::Taken(Some(there)) })
    });
    met.optional()
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

/// One free place of each resource that the run has no place of yet, or the first resource that has none.
fn places<'g>(conn: &Connection, gate: &'g Gate) -> rusqlite::Result<Result<Places<'g>, Text>> {
    let mut places = Places::new();
    for Hold { resource, slots } in &gate.holds {
        if places.iter().any(|(held, _)| *held == resource) || is_held_by(conn, resource, gate.run)? {
            continue;
        }
        match free_slot(conn, resource, *slots)? {
            Some(slot) => places.push((resource, slot)),
            None => return Ok(Err(resource.clone())),
        }
    }
    Ok(Ok(places))
}

fn is_held_by(conn: &Connection, resource: &str, run: RunId) -> rusqlite::Result<bool> {
    let mut select = conn.prepare_cached(
        "select 1
         from holds
         where run = ?2 and resource = ?1",
    )?;
    select.exists(params![resource, run.0 as i64])
}

fn free_slot(conn: &Connection, resource: &str, slots: u32) -> rusqlite::Result<Option<u32>> {
    let mut select = conn.prepare_cached(
        "select slot
         from holds
         where resource = ?1
         order by slot",
    )?;
    let mut rows = select.query([resource])?;
    let mut free = 0;
    while let Some(row) = rows.next()? {
        if row.get::<_, u32>(0)? != free {
            break;
        }
        free += 1;
    }
    Ok((free < slots).then_some(free))
}
