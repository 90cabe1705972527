//! SQLite without Punctual: one prepared statement in a loop, with the pragmas of the store.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, params};

use crate::BenchError;
use crate::clock::Watch;
use crate::rows::OneShots;

/// A database without any index.
pub(crate) struct BareSqlite {
    conn: Connection,
}

impl BareSqlite {
    pub(crate) fn open(path: &Path) -> Result<BareSqlite, BenchError> {
        let conn = Connection::open(path)?;
        conn.execute_batch(
            "pragma page_size = 8192;
             pragma journal_mode = wal;
             pragma synchronous = full;
             pragma temp_store = memory;
             pragma cache_size = -65536;
             create table runs (
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
                 payload text
             ) strict;
             create table closes (
                 place integer primary key,
                 run integer not null,
                 outcome integer not null,
                 reason text not null,
                 closed_at integer not null,
                 range_until integer,
                 range_count integer,
                 unsent integer,
                 attempt integer,
                 token integer,
                 executor text,
                 started_at integer,
                 ended_at integer,
                 attempt_outcome integer,
                 message text,
                 possible_duplicate integer
             ) strict;
             create table clocks (
                 job integer primary key,
                 shard integer not null,
                 next_fire integer,
                 version integer not null,
                 enabled integer not null
             ) strict;",
        )?;
        Ok(BareSqlite { conn })
    }

    /// Inserts one-shots.
    pub(crate) fn insert(&self, shots: &OneShots, batch: u64, watch: &Watch) -> Result<Duration, BenchError> {
        let started = watch.elapsed();
        let mut insert = self.conn.prepare(INSERT_RUN)?;
        let mut from = 0;
        while from < shots.count {
            let until = shots.count.min(from + batch);
            self.conn.execute_batch("begin immediate")?;
            for index in from..until {
                let due = shots.due(index).as_millis();
                let payload = shots.payload.as_deref();
                insert.execute(params![
                    index as i64,
                    shots.job.0,
                    (index % 64) as i64,
                    due,
                    due,
                    2,
                    0,
                    5,
                    None::<&str>,
                    None::<i64>,
                    payload
                ])?;
            }
            self.conn.execute_batch("commit")?;
            from = until;
        }
        Ok(watch.elapsed() - started)
    }

    /// Reads the earliest one-shots by row id, and writes an end for each.
    pub(crate) fn load_and_close(
        &self,
        ids: &[i64],
        batch: usize,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let started = watch.elapsed();
        let mut select = self.conn.prepare(
            "select job, shard, fire_time, due, origin, decided, priority, payload is not null
             from runs
             where id = ?1",
        )?;
        let mut insert = self.conn.prepare(
            "insert into closes
                 (run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor,
                  started_at, ended_at, attempt_outcome, message, possible_duplicate)
             values (?1, 0, '', ?2, null, null, null, 1, ?3, 'bench', ?2, ?2, 0, '', 0)",
        )?;
        for batch in ids.chunks(batch) {
            self.conn.execute_batch("begin immediate")?;
            for id in batch {
                let mut columns = [0_i64; 8];
                select.query_row([*id], |row| {
                    let mut numbered = columns.iter_mut().enumerate();
                    numbered.try_for_each(|(index, column)| row.get(index).map(|value| *column = value))
                })?;
                insert.execute(params![*id, columns[3], 1_i64 << 20])?;
            }
            self.conn.execute_batch("commit")?;
        }
        Ok(watch.elapsed() - started)
    }

    /// Moves the clocks of `due` jobs a tick and writes a run for each. Returns the duration of each tick.
    pub(crate) fn plan(
        &self,
        stored: u64,
        due: u64,
        ticks: u64,
        watch: &Watch,
    ) -> Result<Vec<Duration>, BenchError> {
        let slots = stored / due;
        let mut insert = self.conn.prepare(
            "insert into clocks (job, shard, next_fire, version, enabled)
             values (?1, ?2, ?3, 1, 1)",
        )?;
        self.conn.execute_batch("begin immediate")?;
        for job in 0..stored {
            insert.execute(params![job as i64, (job % 64) as i64, (job % slots * 1_000) as i64])?;
        }
        self.conn.execute_batch("commit")?;
        let mut update = self.conn.prepare(
            "update clocks
             set next_fire = ?3
             where job = ?1 and next_fire = ?2 and version = 1 and enabled = 1",
        )?;
        let mut insert = self.conn.prepare(INSERT_RUN)?;
        let (mut took, mut id) = (Vec::new(), 0_i64);
        for tick in 0..ticks {
            let started = watch.elapsed();
            self.conn.execute_batch("begin immediate")?;
            let at = (tick * 1_000) as i64;
            for job in (tick % slots..stored).step_by(usize::try_from(slots)?) {
                update.execute(params![job as i64, at, at + (slots * 1_000) as i64])?;
                insert.execute(params![
                    id,
                    job as i64,
                    (job % 64) as i64,
                    at,
                    at,
                    0,
                    0,
                    5,
                    None::<&str>,
                    None::<i64>,
                    None::<&str>
                ])?;
                id += 1;
            }
            self.conn.execute_batch("commit")?;
            took.push(watch.elapsed() - started);
        }
        Ok(took)
    }
}

const INSERT_RUN: &str = "\
    insert into runs (id, job, shard, fire_time, due, origin, decided, priority, key, of, payload)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
