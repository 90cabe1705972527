//! The migration that gives overrides a column: earlier programs kept them in lines in front of the payload, `!` and the timeout
//! and the retry policy, `@` and the one executor.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;
use rusqlite::{Connection, params};

use super::day::{Table, has_table};
use super::layer::{pack_birth, unpack_births};

/// Splits the rows of all days, and gives the parts of broadcasts what their wholes have.
pub(super) fn migrate(conn: &Connection, days: &[u32]) -> rusqlite::Result<()> {
    let with = |table: Table| -> rusqlite::Result<Vec<u32>> {
        let mut there = Vec::new();
        for day in days {
            if has_table(conn, table, *day)? {
                there.push(*day);
            }
        }
        Ok(there)
    };
    let with_runs = with(Table::Runs)?;
    for day in &with_runs {
        conn.execute_batch(&split_rows(*day))?;
    }
    for day in with(Table::Parts)? {
        inherit(conn, day, &with_runs)?;
    }
    for day in with(Table::Due)? {
        if with_runs.contains(&day) {
            mark_blocks(conn, day)?;
        }
    }
    Ok(())
}

/// Both lines, one after the other.
fn split_rows(day: u32) -> String {
    let line = "substr(payload, 2, instr(payload, char(10)) - 2)";
    let rest = "nullif(substr(payload, instr(payload, char(10)) + 1), '')";
    format!(
        "update runs_{day}
         set overrides = {line}, payload = {rest}
         where substr(payload, 1, 1) = '!' and instr(payload, char(10)) > 0;
         update runs_{day}
         set overrides = iif(overrides is null, '', overrides || ' ') || 'executor=' || {line}, payload = {rest}
         where substr(payload, 1, 1) = '@' and instr(payload, char(10)) > 0;"
    )
}

/// A part may be born on another day than its whole.
fn inherit(conn: &Connection, day: u32, with_runs: &[u32]) -> rusqlite::Result<()> {
    let mut select = conn.prepare(&format!("select run, whole from parts_{day}"))?;
    let id = |run: i64| RunId(run as u64);
    let mut wholes: BTreeMap<RunId, Vec<RunId>> = BTreeMap::new();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        wholes.entry(id(row.get(1)?)).or_default().push(id(row.get(0)?));
    }
    for (whole, parts) in wholes {
        if !with_runs.contains(&whole.day()) || !with_runs.contains(&day) {
            continue;
        }
        let mut update = conn.prepare_cached(&format!(
            "update runs_{day}
             set overrides = (select overrides from runs_{} where id = ?2)
             where id = ?1",
            whole.day()
        ))?;
        for part in parts {
            update.execute(params![part.0 as i64, whole.0 as i64])?;
        }
    }
    Ok(())
}

/// Marks the entries of the due index whose runs have overrides, so that loading reads them.
fn mark_blocks(conn: &Connection, day: u32) -> rusqlite::Result<()> {
    let mut select = conn.prepare(&format!("select id from runs_{day} where overrides is not null"))?;
    let found = select.query_map([], |row| row.get::<_, i64>(0))?;
    let found: BTreeSet<u64> = found.map(|id| Ok(id? as u64)).collect::<rusqlite::Result<_>>()?;
    if found.is_empty() {
        return Ok(());
    }
    let mut select = conn.prepare(&format!("select layer, due, run, entries from due_{day}"))?;
    let mut update = conn.prepare(&format!(
        "update due_{day}
         set entries = ?4
         where layer = ?1 and due = ?2 and run = ?3"
    ))?;
    let mut marked = Vec::new();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        // A block that cannot be read stays as it is: loading complains about it.
        let Some(mut entries) = unpack_births(row.get_ref(3)?.as_blob()?) else { continue };
        if !entries.iter().any(|((_, run), _)| found.contains(run)) {
            continue;
        }
        let mut packed = Vec::new();
        for entry in &mut entries {
            if found.contains(&entry.0.1) {
                entry.1.traits = entry.1.traits.with_overrides();
            }
            pack_birth(&mut packed, entry);
        }
        marked.push((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, packed));
    }
    for (layer, due, run, packed) in marked {
        update.execute(params![layer, due, run, packed])?;
    }
    Ok(())
}
