//! The buckets: one set of tables for each day on which runs are born, and what is kept in memory about them.
//!
//! Rows are appended and never moved: `runs_D` by id, `closes_D` in the order of closing, `attempts_D` and `sends_D` by
//! run. Beside them lies what few runs have: `parts_D`, `joins_D`, `logs_D` and `kills_D`.
//!
//! Two indexes are written late (`super::flush`): `due_D`, which finds open runs by due time, and `closed_D`, which finds
//! the close of a run. Each flush appends a layer, sorted in itself; a lookup reads every layer
//! that may have the run. Measured on 2 million runs with due times in random order: a live due index holds inserts
//! below 60,000 a second; one index that every flush is merged into rewrites all of itself each time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use punctual_core::model::RunId;
use rusqlite::{CachedStatement, Connection, params};
use rustc_hash::FxHashSet;

use super::run_row::create_runs;

/// The tables that a day may have. Each is made when it is first needed: a day far ahead that only waits for one run
/// should not cost them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Runs,
    Due,
    /// `closes_D` and `closed_D`.
    Closes,
    Attempts,
    Sends,
    /// Which part of which run a run is.
    Parts,
    /// What has become of the parts of a run.
    Joins,
    /// What attempts wrote.
    Logs,
    Kills,
}

impl Table {
    const ALL: [Table; 9] = [
        Table::Runs,
        Table::Due,
        Table::Closes,
        Table::Attempts,
        Table::Sends,
        Table::Parts,
        Table::Joins,
        Table::Logs,
        Table::Kills,
    ];

    fn name(self) -> &'static str {
        match self {
            Table::Runs => "runs",
            Table::Due => "due",
            Table::Closes => "closes",
            Table::Attempts => "attempts",
            Table::Sends => "sends",
            Table::Parts => "parts",
            Table::Joins => "joins",
            Table::Logs => "logs",
            Table::Kills => "kills",
        }
    }

    /// Its name for a day.
    pub(super) fn of(self, day: u32) -> String {
        format!("{}_{day}", self.name())
    }
}

/// Which index a layer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Due = 0,
    Closed = 1,
}

/// A sorted part of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    pub(super) number: i64,
    /// The least and the greatest value in it: due times, or runs.
    pub(super) low: i64,
    pub(super) high: i64,
}

/// The layer of [`Day::strays`].
const STRAYS: i64 = 0;

/// A day as it is known in memory.
#[derive(Clone, Debug)]
pub(super) struct Day {
    pub(super) runs: u64,
    pub(super) closed: u64,
    pub(super) bytes: u64,
    /// The first and the last instant that a run was named for; none if that is not known.
    fires: Option<(i64, i64)>,
    /// The first and the last number that a gate of its runs was given.
    logs: Option<(u64, u64)>,
    /// The layers of the due index, the one that is being written included.
    pub(super) due_layers: Vec<Layer>,
    next_layer: [i64; 2],
    /// The layers that the flush under way is writing.
    building: [Option<Layer>; 2],
    /// Runs that came when the index was past their ids already: layer 0, written at once.
    strays: Option<Layer>,
    /// Every run below is in the due index, closed, waiting or gated.
    pub(super) due_mark: u64,
    /// Every close up to here is in the index of closes.
    pub(super) close_mark: i64,
    /// Above every run that was ever written.
    pub(super) next_run: u64,
    pub(super) next_close: i64,
    /// The lowest run that came into the tail since the last flush began.
    pub(super) young_from: u64,
    /// Where the marks go when the flush that is under way is done.
    pub(super) due_mark_then: u64,
    pub(super) close_mark_then: i64,
    has: [bool; Table::ALL.len()],
    is_dirty: bool,
}

impl Day {
    fn new() -> Day {
        Day {
            runs: 0,
            closed: 0,
            bytes: 0,
            fires: Some((i64::MAX, i64::MIN)),
            logs: None,
            due_layers: Vec::new(),
            next_layer: [1; 2],
            building: [None; 2],
            strays: None,
            due_mark: 0,
            close_mark: 0,
            next_run: 0,
            next_close: 1,
            young_from: u64::MAX,
            due_mark_then: 0,
            close_mark_then: 0,
            has: [false; Table::ALL.len()],
            is_dirty: true,
        }
    }

    pub(super) fn has(&self, table: Table) -> bool {
        self.has[table as usize]
    }

    pub(super) fn has_open(&self) -> bool {
        self.closed < self.runs
    }

    /// Counts a run that was written.
    pub(super) fn count_run(&mut self, run: RunId, fire_time: i64, bytes: u64) {
        self.runs += 1;
        self.bytes += bytes;
        self.next_run = self.next_run.max(run.0 + 1);
        self.fires = self.fires.map(|(first, last)| (first.min(fire_time), last.max(fire_time)));
    }

    /// Counts closed runs that were removed. How long each was is not known, so each counts as one like the others.
    pub(super) fn uncount(&mut self, removed: u64) {
        self.bytes -= (u128::from(self.bytes) * u128::from(removed) / u128::from(self.runs.max(1))) as u64;
        (self.runs, self.closed) = (self.runs - removed, self.closed - removed);
    }

    /// Whether a gate of this number may be one of its runs. Runs are mostly sent on their day, so few days may have it.
    pub(super) fn may_have_log(&self, log: u64) -> bool {
        self.logs.is_some_and(|(first, last)| (first..=last).contains(&log))
    }

    /// The layers of the due index that may hold something due from `from` on and before `until`.
    pub(super) fn layers_between(&self, from: i64, until: i64) -> impl Iterator<Item = i64> {
        let building = self.building[Kind::Due as usize];
        let layers = self.due_layers.iter().chain(&self.strays).copied().chain(building);
        layers.filter(move |layer| layer.low < until && from <= layer.high).map(|layer| layer.number)
    }

    /// The layer that the flush under way writes; it holds `value` from now on.
    pub(super) fn build(&mut self, kind: Kind, value: i64) -> i64 {
        let next = &mut self.next_layer[kind as usize];
        let layer = self.building[kind as usize].get_or_insert_with(|| {
            *next += 1;
            Layer { number: *next - 1, low: value, high: value }
        });
        layer.include(value);
        layer.number
    }

    /// The layer of runs that came late; it holds a run due then from now on.
    pub(super) fn stray(&mut self, due: i64) -> i64 {
        self.strays.get_or_insert(Layer { number: STRAYS, low: due, high: due }).include(due);
        STRAYS
    }
}

impl Layer {
    fn include(&mut self, value: i64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }
}

/// All days that have a bucket.
#[derive(Debug, Default)]
pub(super) struct Days {
    days: BTreeMap<u32, Day>,
}

impl Days {
    /// What the database says.
    pub(super) fn read(conn: &Connection) -> rusqlite::Result<Days> {
        let mut days = BTreeMap::new();
        let mut select = conn.prepare(
            "select day, runs, closed, bytes, due_mark, close_mark, first_fire, last_fire
             from buckets",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let day = Day {
                runs: row.get::<_, i64>(1)? as u64,
                closed: row.get::<_, i64>(2)? as u64,
                bytes: row.get::<_, i64>(3)? as u64,
                due_mark: row.get::<_, i64>(4)? as u64,
                close_mark: row.get(5)?,
                fires: row.get::<_, Option<i64>>(6)?.zip(row.get(7)?),
                is_dirty: false,
                ..Day::new()
            };
            days.insert(row.get(0)?, day);
        }
        let mut select = conn.prepare(
            "select day, layer, low, high
             from layers
             where kind = ?1",
        )?;
        let mut rows = select.query([Kind::Due as i64])?;
        while let Some(row) = rows.next()? {
            let layer = Layer { number: row.get(1)?, low: row.get(2)?, high: row.get(3)? };
            match days.get_mut(&row.get(0)?) {
                Some(day) if layer.number == STRAYS => day.strays = Some(layer),
                Some(day) => day.due_layers.push(layer),
                None => {}
            }
        }
        let tables = tables(conn)?;
        for (number, day) in &mut days {
            day.has = Table::ALL.map(|table| tables.contains(&table.of(*number)));
            if day.has(Table::Sends) {
                day.logs = logs(conn, *number)?;
            }
            if day.has(Table::Runs) {
                day.next_run =
                    next(conn, &format!("select coalesce(max(id), -1) from runs_{number}"))? as u64;
            }
            if day.has(Table::Closes) {
                let last = next(conn, &format!("select coalesce(max(place), 0) from closes_{number}"))?;
                // The last of them may have been removed: what comes after must still lie above the mark.
                day.next_close = last.max(day.close_mark + 1);
                day.next_layer[Kind::Closed as usize] =
                    next(conn, &format!("select coalesce(max(layer), 0) from closed_{number}"))?;
            }
            // Above those that a crash left half written: they are in no list, and so no lookup reads them.
            if day.has(Table::Due) {
                day.next_layer[Kind::Due as usize] =
                    next(conn, &format!("select coalesce(max(layer), 0) from due_{number}"))?;
            }
        }
        Ok(Days { days })
    }

    pub(super) fn get(&self, day: u32) -> Option<&Day> {
        self.days.get(&day)
    }

    /// Whether a day has a table.
    pub(super) fn has(&self, day: u32, table: Table) -> bool {
        self.days.get(&day).is_some_and(|day| day.has(table))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Day)> {
        self.days.iter().map(|(number, day)| (*number, day))
    }

    /// A day to be changed; it is written back with the round.
    pub(super) fn edit(&mut self, day: u32) -> &mut Day {
        let day = self.days.entry(day).or_insert_with(Day::new);
        day.is_dirty = true;
        day
    }

    /// Notes the number of a gate of a day. Numbers rise, and nothing has to be written back: the gates say it.
    pub(super) fn note_log(&mut self, day: u32, log: u64) {
        if let Some(day) = self.days.get_mut(&day) {
            day.logs = Some((day.logs.map_or(log, |(first, _)| first), log));
        }
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.days.keys().copied().collect()
    }

    /// Makes a table of a day if it is not there.
    pub(super) fn ensure(&mut self, conn: &Connection, number: u32, table: Table) -> rusqlite::Result<()> {
        let day = match self.days.entry(number) {
            Entry::Occupied(there) if there.get().has(table) => return Ok(()),
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(gap) => gap.insert(Day::new()),
        };
        conn.execute_batch(&schema(number, table))?;
        day.has[table as usize] = true;
        day.is_dirty = true;
        Ok(())
    }

    /// Drops all tables of a day.
    pub(super) fn drop(&mut self, conn: &Connection, number: u32) -> rusqlite::Result<()> {
        let Some(day) = self.days.remove(&number) else { return Ok(()) };
        for table in Table::ALL.into_iter().filter(|table| day.has(*table)) {
            conn.execute_batch(&format!("drop table {}", table.of(number)))?;
            if table == Table::Closes {
                conn.execute_batch(&format!("drop table closed_{number}"))?;
            }
        }
        conn.execute("delete from layers where day = ?1", [number])?;
        conn.execute("delete from buckets where day = ?1", [number])?;
        Ok(())
    }

    /// Ends the layers that a flush has written: from now on they are looked into after a restart too.
    pub(super) fn finish_layers(&mut self, conn: &Connection, kind: Kind) -> rusqlite::Result<()> {
        for (number, day) in &mut self.days {
            if let Some(layer) = day.building[kind as usize].take() {
                write_layer(conn, *number, kind, layer)?;
                if kind == Kind::Due {
                    day.due_layers.push(layer);
                }
            }
        }
        Ok(())
    }

    /// Writes back what the round changed.
    pub(super) fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        for (number, day) in self.days.iter_mut().filter(|(_, day)| day.is_dirty) {
            let mut upsert = conn.prepare_cached(
                "insert or replace into buckets
                     (day, runs, closed, bytes, due_mark, close_mark, first_fire, last_fire)
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?;
            upsert.execute(params![
                number,
                day.runs as i64,
                day.closed as i64,
                day.bytes as i64,
                day.due_mark as i64,
                day.close_mark,
                day.fires.map(|(first, _)| first),
                day.fires.map(|(_, last)| last),
            ])?;
            if let Some(strays) = day.strays {
                write_layer(conn, *number, Kind::Due, strays)?;
            }
            day.is_dirty = false;
        }
        Ok(())
    }
}

fn write_layer(conn: &Connection, day: u32, kind: Kind, layer: Layer) -> rusqlite::Result<()> {
    let mut upsert = conn.prepare_cached(
        "insert or replace into layers (day, kind, layer, low, high)
         values (?1, ?2, ?3, ?4, ?5)",
    )?;
    upsert.execute(params![day, kind as i64, layer.number, layer.low, layer.high])?;
    Ok(())
}

/// The names of all tables, in one go: SQLite has no index of them.
fn tables(conn: &Connection) -> rusqlite::Result<FxHashSet<String>> {
    let mut select = conn.prepare_cached(
        "select name
         from sqlite_schema
         where type = 'table'",
    )?;
    select.query_map([], |row| row.get(0))?.collect()
}

/// Whether a day has a table, by the schema.
pub(super) fn has_table(conn: &Connection, table: Table, day: u32) -> rusqlite::Result<bool> {
    let mut select = conn.prepare_cached(
        "select 1
         from sqlite_schema
         where type = 'table' and name = ?1",
    )?;
    select.exists([table.of(day)])
}

/// The first and the last number that a gate of a day's runs was given. Asked for one by one: for both together, SQLite
/// would walk over the whole index.
fn logs(conn: &Connection, day: u32) -> rusqlite::Result<Option<(u64, u64)>> {
    let log = |end: &str| -> rusqlite::Result<Option<i64>> {
        conn.query_row(&format!("select {end}(log) from sends_{day}"), [], |row| row.get(0))
    };
    Ok(log("min")?.zip(log("max")?).map(|(first, last)| (first as u64, last as u64)))
}

/// The number after the one that a query finds.
fn next(conn: &Connection, sql: &str) -> rusqlite::Result<i64> {
    conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|last| last + 1)
}

fn schema(day: u32, table: Table) -> String {
    match table {
        Table::Runs => create_runs(day),
        // Both indexes hold blocks of entries (`super::layer`), by the place of the last.
        Table::Due => format!(
            "create table due_{day} (
                 layer integer not null,
                 due integer not null,
                 run integer not null,
                 entries blob not null,
                 primary key (layer, due, run)
             ) strict, without rowid;"
        ),
        // The last attempt lies inside. `unsent` is the attempt whose key the close took: the row is the gate's
        // marker too, since no gate is given for a closed run.
        Table::Closes => format!(
            "create table closes_{day} (
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
             create table closed_{day} (
                 layer integer not null,
                 run integer not null,
                 entries blob not null,
                 primary key (layer, run)
             ) strict, without rowid;"
        ),
        Table::Attempts => format!(
            "create table attempts_{day} (
                 run integer not null,
                 attempt integer not null,
                 token integer not null,
                 executor text not null,
                 started_at integer not null,
                 ended_at integer not null,
                 attempt_outcome integer not null,
                 message text not null,
                 possible_duplicate integer not null,
                 primary key (run, attempt)
             ) strict, without rowid;"
        ),
        // `is_open` as long as the run is: what a takeover has to adopt is found without walking over the day.
        Table::Sends => format!(
            "create table sends_{day} (
                 run integer not null,
                 attempt integer not null,
                 token integer not null,
                 log integer not null,
                 executor text not null,
                 sent_at integer not null,
                 is_open integer not null,
                 primary key (run, attempt)
             ) strict, without rowid;
             create index sends_{day}_open on sends_{day} (run, attempt) where is_open = 1;
             {}",
            index_of_logs(day)
        ),
        Table::Parts => format!(
            "create table parts_{day} (
                 run integer primary key,
                 whole integer not null,
                 part integer not null,
                 total integer not null,
                 address text not null
             ) strict;
             create index parts_{day}_whole on parts_{day} (whole, part);"
        ),
        // `first_part` and `last_part` are the lowest and the highest of its parts' ids.
        Table::Joins => format!(
            "create table joins_{day} (
                 run integer primary key,
                 total integer not null,
                 open integer not null,
                 succeeded integer not null,
                 first_part integer not null,
                 last_part integer not null
             ) strict;"
        ),
        // With row ids, because a text may be long.
        Table::Logs => format!(
            "create table logs_{day} (
                 id integer primary key,
                 run integer not null,
                 attempt integer not null,
                 next_line integer not null,
                 is_complete integer not null,
                 text text not null
             ) strict;
             create unique index logs_{day}_once on logs_{day} (run, attempt);"
        ),
        Table::Kills => format!(
            "create table kills_{day} (
                 run integer not null,
                 attempt integer not null,
                 at integer not null,
                 is_confirmed integer,
                 said text not null,
                 primary key (run, attempt)
             ) strict, without rowid;"
        ),
    }
}

/// Finds gates by their numbers, for executors that report nothing else. Numbers rise, so it only grows at its end:
/// measured, a microsecond for each gate, and nothing for an end.
pub(super) fn index_of_logs(day: u32) -> String {
    format!("create index sends_{day}_log on sends_{day} (log);")
}

/// Finds the runs of a job, for lists and for what a deleted job left. Entries of a job lie in the order of their ids, so that it
/// grows at one place for each job: measured in bare SQLite, 0.3 µs for each run of one job, 2 to 3 µs where jobs take turns.
pub(super) fn index_of_jobs(day: u32) -> String {
    format!("create index runs_{day}_job on runs_{day} (job);")
}

/// One statement for each day that a batch touches, kept at hand while the batch lasts.
pub(super) struct PerDay<'c> {
    conn: &'c Connection,
    sql: fn(u32) -> String,
    open: Vec<(u32, CachedStatement<'c>)>,
}

impl<'c> PerDay<'c> {
    /// More than these go back to the connection's cache.
    const OPEN_MAX: usize = 32;

    pub(super) fn new(conn: &'c Connection, sql: fn(u32) -> String) -> PerDay<'c> {
        PerDay { conn, sql, open: Vec::new() }
    }

    /// The statement for a day, whose table must be there.
    pub(super) fn of(&mut self, day: u32) -> rusqlite::Result<&mut CachedStatement<'c>> {
        let found = self.open.iter().position(|(open, _)| *open == day);
        let index = match found {
            Some(index) => index,
            None => {
                if self.open.len() == PerDay::OPEN_MAX {
                    self.open.clear();
                }
                self.open.push((day, self.conn.prepare_cached(&(self.sql)(day))?));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[index].1)
    }
}
