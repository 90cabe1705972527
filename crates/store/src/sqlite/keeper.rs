//! What the writer thread owns: the one connection that writes, and everything that is known beside it in memory.
//!
//! Memory follows the database: after a rollback all of it is thrown away and read again, as when the file is opened. So
//! there is no second way of undoing things that could be wrong, and a full disk is as ordinary as a restart.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Close, JobId, RunId};
use punctual_node::ports::Counts;
use rusqlite::{Connection, OptionalExtension, params};
use rustc_hash::{FxHashMap, FxHashSet};

use super::births::Births;
use super::code::{instant_or_none, outcome_code, outcome_from};
use super::day::{Days, Table};
use super::floor::Floors;
use super::known::{Bit, Known};
use super::run_row::{birth, select_births};
use super::tail::{CloseTail, SharedCloses};
use crate::StoreClock;
use crate::rules::counts::count;

/// Tallies beyond these are written back and forgotten.
const TALLIES_MAX: usize = 65_536;

/// The writer's hands.
pub(super) struct Keeper {
    pub(super) conn: Connection,
    pub(super) clock: StoreClock,
    pub(super) key_ttl: Duration,
    pub(super) shards: u16,
    pub(super) side: Side,
}

/// What is known beside the tables.
pub(super) struct Side {
    pub(super) days: Days,
    pub(super) known: Known,
    pub(super) births: Births,
    pub(super) closes: CloseTail,
    pub(super) counters: Counters,
    pub(super) tallies: Tallies,
    pub(super) floors: Floors,
    /// Runs that were refused a place and have their turn in a line instead. Nothing else makes them differ from runs that
    /// only wait for their due time, so loading finds them as such.
    pub(super) in_line: FxHashSet<RunId>,
}

impl Keeper {
    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Reads everything again that memory knows.
    pub(super) fn refresh(&mut self) -> rusqlite::Result<()> {
        self.side = Side::read(&self.conn, self.side.closes.shared())?;
        Ok(())
    }
}

impl Side {
    /// What the database says; the readers go on with `shared`, filled anew.
    pub(super) fn read(conn: &Connection, shared: SharedCloses) -> rusqlite::Result<Side> {
        let mut side = Side {
            days: Days::read(conn)?,
            known: Known::default(),
            births: Births::default(),
            closes: CloseTail::with_shared(shared),
            counters: Counters::read(conn)?,
            tallies: Tallies::default(),
            floors: Floors::read(conn)?,
            in_line: read_in_line(conn)?,
        };
        side.read_closes(conn)?;
        side.read_births(conn)?;
        Ok(side)
    }

    /// The closes that are not in their index.
    fn read_closes(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let mut young = FxHashMap::default();
        for (number, day) in self.days.iter().filter(|(_, day)| day.has(Table::Closes)) {
            let mut select = conn.prepare(&format!(
                "select run, place
                 from closes_{number}
                 where place > ?1"
            ))?;
            let mut rows = select.query([day.close_mark])?;
            while let Some(row) = rows.next()? {
                let run = RunId(row.get::<_, i64>(0)? as u64);
                young.insert(run.0, row.get(1)?);
                self.known.note(conn, &self.days, run, Bit::Closed)?;
            }
        }
        let mut shared = self.closes.lock();
        shared.young = young;
        shared.old = FxHashMap::default();
        Ok(())
    }

    /// The open runs that are not in the due index.
    fn read_births(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        for number in self.days.numbers() {
            let Some(day) = self.days.get(number).filter(|day| day.has_open() && day.has(Table::Runs)) else {
                continue;
            };
            let mut select = conn.prepare(&select_births(number))?;
            let mut young_from = u64::MAX;
            let mut rows = select.query([day.due_mark as i64])?;
            while let Some(row) = rows.next()? {
                let run = RunId(row.get::<_, i64>(0)? as u64);
                self.known.note(conn, &self.days, run, Bit::There)?;
                let standing = self.known.of(conn, &self.days, run)?;
                if standing.is_closed || standing.is_engaged {
                    continue;
                }
                // A row that cannot be read is not fired; it is found by its id, with what is wrong.
                if let Some(birth) = birth(row) {
                    self.births.push((row.get(4)?, run.0), birth);
                    young_from = young_from.min(run.0);
                }
            }
            self.days.edit(number).young_from = young_from;
        }
        Ok(())
    }

    /// Writes back what the round changed in memory only.
    pub(super) fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        self.days.write_back(conn)?;
        self.counters.write_back(conn)?;
        self.tallies.write_back(conn)
    }

    /// Lets go of what can be read again. Called between rounds.
    pub(super) fn shrink(&mut self) {
        self.tallies.shrink();
        let Side { known, closes, .. } = self;
        let shared = closes.read();
        known.shrink(shared.young.keys().chain(shared.old.keys()).copied());
    }
}

/// Runs that may have a turn in a line: those that have a place are among them, which does no harm.
fn read_in_line(conn: &Connection) -> rusqlite::Result<FxHashSet<RunId>> {
    let mut select = conn.prepare("select distinct run from holds")?;
    select.query_map([], |row| Ok(RunId(row.get::<_, i64>(0)? as u64)))?.collect()
}

/// The last number given of each kind; that of tokens is left to their verb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) epoch: u64,
    pub(super) job: u64,
    pub(super) log: u64,
    pub(super) change: u64,
    pub(super) arrival: u64,
    /// Of days before this one, something was dropped.
    pub(super) pruned_to: u64,
    written: [u64; Counters::NAMES.len()],
}

impl Counters {
    const NAMES: [&'static str; 6] = ["epoch", "job", "log", "change", "arrival", "pruned_to"];

    fn read(conn: &Connection) -> rusqlite::Result<Counters> {
        let mut select = conn.prepare_cached("select value from counters where name = ?1")?;
        let mut written = [0; Counters::NAMES.len()];
        for (name, value) in Counters::NAMES.iter().zip(&mut written) {
            *value = select.query_row([name], |row| row.get::<_, i64>(0)).optional()?.unwrap_or(0) as u64;
        }
        let [epoch, job, log, change, arrival, pruned_to] = written;
        Ok(Counters { epoch, job, log, change, arrival, pruned_to, written })
    }

    fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        let values = [self.epoch, self.job, self.log, self.change, self.arrival, self.pruned_to];
        for ((name, value), written) in Counters::NAMES.iter().zip(values).zip(self.written) {
            if value != written {
                let mut upsert =
                    conn.prepare_cached("insert or replace into counters (name, value) values (?1, ?2)")?;
                upsert.execute(params![name, value as i64])?;
            }
        }
        self.written = values;
        Ok(())
    }
}

/// What became of the runs of jobs: read once, counted in memory, written once a round.
#[derive(Default)]
pub(super) struct Tallies {
    jobs: FxHashMap<JobId, Tally>,
    dirty: Vec<JobId>,
}

#[derive(Default)]
struct Tally {
    counts: Counts,
    is_dirty: bool,
}

impl Tallies {
    /// Counts a close; how many runs of the job have failed in a row.
    pub(super) fn count(&mut self, conn: &Connection, job: JobId, close: &Close) -> rusqlite::Result<u32> {
        let tally = tally(&mut self.jobs, conn, job)?;
        if !tally.is_dirty {
            tally.is_dirty = true;
            self.dirty.push(job);
        }
        count(&mut tally.counts, close);
        Ok(tally.counts.consecutive_failures)
    }

    /// How many runs of the job have failed in a row.
    pub(super) fn failures(&mut self, conn: &Connection, job: JobId) -> rusqlite::Result<u32> {
        Ok(tally(&mut self.jobs, conn, job)?.counts.consecutive_failures)
    }

    fn write_back(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let mut upsert = conn.prepare_cached(
            "insert or replace into tallies
                 (job, succeeded, failed, not_run, consecutive_failures, last_outcome, last_success)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for job in self.dirty.drain(..) {
            let Some(tally) = self.jobs.get_mut(&job) else { continue };
            let counts = &tally.counts;
            upsert.execute(params![
                job.0,
                counts.succeeded as i64,
                counts.failed as i64,
                counts.not_run as i64,
                counts.consecutive_failures,
                counts.last_outcome.map(outcome_code),
                counts.last_success.map(Timestamp::as_millis),
            ])?;
            tally.is_dirty = false;
        }
        Ok(())
    }

    fn shrink(&mut self) {
        if self.jobs.len() > TALLIES_MAX {
            self.jobs = FxHashMap::default();
        }
    }
}

fn tally<'t>(
    jobs: &'t mut FxHashMap<JobId, Tally>,
    conn: &Connection,
    job: JobId,
) -> rusqlite::Result<&'t mut Tally> {
    use std::collections::hash_map::Entry;
    match jobs.entry(job) {
        Entry::Occupied(there) => Ok(there.into_mut()),
        Entry::Vacant(gap) => {
            let counts = counts_of(conn, job)?;
            Ok(gap.insert(Tally { counts, is_dirty: false }))
        }
    }
}

/// What the table says of a job.
pub(super) fn counts_of(conn: &Connection, job: JobId) -> rusqlite::Result<Counts> {
    let mut select = conn.prepare_cached(
        "select succeeded, failed, not_run, consecutive_failures, last_outcome, last_success
         from tallies
         where job = ?1",
    )?;
    let counts = select
        .query_row([job.0], |row| {
            Ok(Counts {
                succeeded: row.get::<_, i64>(0)? as u64,
                failed: row.get::<_, i64>(1)? as u64,
                not_run: row.get::<_, i64>(2)? as u64,
                consecutive_failures: row.get(3)?,
                last_outcome: row.get::<_, Option<i64>>(4)?.and_then(outcome_from),
                last_success: instant_or_none(row, 5)?,
            })
        })
        .optional()?;
    Ok(counts.unwrap_or_default())
}
