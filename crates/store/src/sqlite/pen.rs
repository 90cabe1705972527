//! Writing single rows of runs and of their ends, with everything in memory that follows. All verbs write through this.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Attempt, AttemptRecord, Close, JobId, NewRun, RunId, ShardId};
use punctual_node::ports::ArrivalKind;
use rusqlite::{Connection, OptionalExtension, params};

use super::births::Birth;
use super::code::{arrival_code, attempt_outcome_code, outcome_code};
use super::day::{PerDay, Table};
use super::keeper::{Keeper, Side};
use super::known::{Bit, Standing};
use super::run_row::{insert_run, text_bytes, write};

/// What a row costs beside its texts, roughly.
pub(super) const ROW_BYTES: u64 = 48;

/// A pen for one verb: statements at hand for each day that it touches.
pub(super) struct Pen<'k> {
    pub(super) conn: &'k Connection,
    pub(super) side: &'k mut Side,
    now: Timestamp,
    key_ttl: Duration,
    runs: PerDay<'k>,
    closes: PerDay<'k>,
    attempts: PerDay<'k>,
}

/// The end of a run as it is written.
pub(super) struct End<'e> {
    pub(super) run: RunId,
    pub(super) job: JobId,
    pub(super) close: &'e Close,
    /// The attempt whose key the close takes.
    pub(super) unsent: Option<Attempt>,
    /// The last attempt.
    pub(super) attempt: Option<&'e AttemptRecord>,
    /// Whether its job counts it.
    pub(super) is_counted: bool,
}

impl Keeper {
    pub(super) fn pen(&mut self) -> Pen<'_> {
        let now = self.now();
        Pen {
            conn: &self.conn,
            side: &mut self.side,
            now,
            key_ttl: self.key_ttl,
            runs: PerDay::new(&self.conn, insert_run),
            closes: PerDay::new(&self.conn, insert_close),
            attempts: PerDay::new(&self.conn, insert_attempt),
        }
    }
}

impl Pen<'_> {
    /// Writes a run, or says which run has its identity already.
    pub(super) fn write_run(&mut self, run: &NewRun) -> rusqlite::Result<Result<RunId, RunId>> {
        let number = run.id.day();
        // Ids mostly rise, and one above all others needs no lookup.
        let is_highest = self.side.days.get(number).is_none_or(|day| day.next_run <= run.id.0);
        if !is_highest && self.is_there(run.id)? {
            return Ok(Err(run.id));
        }
        if let Some(there) = self.holder_of_key(run)? {
            return Ok(Err(there));
        }
        self.side.days.ensure(self.conn, number, Table::Runs)?;
        let inserted = write(self.runs.of(number)?, run)?;
        if inserted == 0 {
            return self.named(run).map(Err);
        }
        if let Some(key) = &run.key {
            self.write_key(run, key)?;
        }
        self.side.known.note(self.conn, &self.side.days, run.id, Bit::There)?;
        self.side.floors.note(self.conn, run.shard, run.due)?;
        self.arm(run)?;
        Ok(Ok(run.id))
    }

    /// Makes a run that was written known to the loader: in the tail, or in the index if its id lies among those that are
    /// there already, since a restart would not look for it in the tail's place.
    fn arm(&mut self, run: &NewRun) -> rusqlite::Result<()> {
        let day = self.side.days.edit(run.id.day());
        day.count_run(run.id, run.fire_time.as_millis(), ROW_BYTES + text_bytes(run) as u64);
        let (place, birth) = ((run.due.as_millis(), run.id.0), Birth::of(&run.into()));
        if run.id.0 < day.due_mark {
            return self.side.index_stray(self.conn, &(place, birth));
        }
        day.young_from = day.young_from.min(run.id.0);
        self.side.births.push(place, birth);
        Ok(())
    }

    /// Writes a run that is closed from the start, unless it is there.
    pub(super) fn write_closed(&mut self, run: &NewRun, close: &Close) -> rusqlite::Result<()> {
        if let Ok(id) = self.write_run(run)? {
            let standing = self.standing(id)?;
            let (unsent, attempt, is_counted) = (None, None, true);
            self.write_close(standing, End { run: id, job: run.job, close, unsent, attempt, is_counted })?;
        }
        Ok(())
    }

    /// Closes an open run with all that follows in the store: counters, free holds, the end of its key. How many runs of
    /// the job have failed in a row.
    pub(super) fn write_close(&mut self, standing: Standing, end: End<'_>) -> rusqlite::Result<u32> {
        let End { run, job, close, unsent, attempt, is_counted } = end;
        let number = run.day();
        self.side.days.ensure(self.conn, number, Table::Closes)?;
        let place = self.side.days.edit(number).next_close;
        self.closes.of(number)?.execute(params![
            place,
            run.0 as i64,
            outcome_code(close.outcome),
            close.reason.as_ref(),
            close.closed_at.as_millis(),
            close.range.map(|(until, _)| until.as_millis()),
            close.range.map(|(_, count)| count as i64),
            unsent.map(|attempt| attempt.0),
            attempt.map(|attempt| attempt.number.0),
            attempt.map(|attempt| attempt.token.0 as i64),
            attempt.map(|attempt| attempt.executor.as_ref()),
            attempt.map(|attempt| attempt.started_at.as_millis()),
            attempt.map(|attempt| attempt.ended_at.as_millis()),
            attempt.map(|attempt| attempt_outcome_code(attempt.outcome)),
            attempt.map(|attempt| attempt.message.as_ref()),
            attempt.map(|attempt| attempt.possible_duplicate),
        ])?;
        let said = attempt.map_or(0, |attempt| attempt.executor.len() + attempt.message.len());
        let day = self.side.days.edit(number);
        day.next_close += 1;
        day.closed += 1;
        day.bytes += ROW_BYTES + (close.reason.len() + said) as u64;
        self.side.closes.pending.push((run.0, place));
        self.side.known.note(self.conn, &self.side.days, run, Bit::Closed)?;
        if standing.is_engaged || self.side.in_line.contains(&run) {
            self.disengage(run)?;
        }
        if standing.is_keyed {
            self.expire_key(run, close.closed_at.saturating_add(self.key_ttl))?;
        }
        match is_counted {
            true => self.side.tallies.count(self.conn, job, close),
            false => self.side.tallies.failures(self.conn, job),
        }
    }

    /// An attempt that is not the run's last.
    pub(super) fn write_attempt(&mut self, run: RunId, attempt: &AttemptRecord) -> rusqlite::Result<()> {
        let number = run.day();
        self.side.days.ensure(self.conn, number, Table::Attempts)?;
        self.attempts.of(number)?.execute(params![
            run.0 as i64,
            attempt.number.0,
            attempt.token.0 as i64,
            attempt.executor.as_ref(),
            attempt.started_at.as_millis(),
            attempt.ended_at.as_millis(),
            attempt_outcome_code(attempt.outcome),
            attempt.message.as_ref(),
            attempt.possible_duplicate,
        ])?;
        Ok(())
    }

    /// What is known of a run.
    pub(super) fn standing(&mut self, run: RunId) -> rusqlite::Result<Standing> {
        self.side.known.of(self.conn, &self.side.days, run)
    }

    /// Whether a run was ever written, and its day not dropped.
    pub(super) fn is_there(&mut self, run: RunId) -> rusqlite::Result<bool> {
        self.side.is_there(self.conn, run)
    }

    /// Leaves something for the holder of a shard. What lies there already is not left twice.
    pub(super) fn leave(&mut self, shard: ShardId, kind: ArrivalKind) -> rusqlite::Result<()> {
        let (code, run, at) = arrival_code(kind);
        let mut insert = self.conn.prepare_cached(
            "insert or ignore into arrivals (id, shard, kind, run, at)
             values (?1, ?2, ?3, ?4, ?5)",
        )?;
        let id = self.side.counters.arrival + 1;
        if insert.execute(params![id as i64, shard.0, code, run.0 as i64, at])? == 1 {
            self.side.counters.arrival = id;
        }
        Ok(())
    }

    /// The run that has the key which this one brings, if the key lives.
    fn holder_of_key(&self, run: &NewRun) -> rusqlite::Result<Option<RunId>> {
        let Some(key) = &run.key else { return Ok(None) };
        let mut select = self.conn.prepare_cached(
            "select run
             from keys
             where job = ?1 and key = ?2 and (expires_at is null or expires_at > ?3)",
        )?;
        let holder = select.query_row(params![run.job.0, key.as_ref(), self.now.as_millis()], |row| {
            Ok(RunId(row.get::<_, i64>(0)? as u64))
        });
        holder.optional()
    }

    fn write_key(&mut self, run: &NewRun, key: &str) -> rusqlite::Result<()> {
        let mut upsert = self.conn.prepare_cached(
            "insert or replace into keys (job, key, run, expires_at)
             values (?1, ?2, ?3, null)",
        )?;
        upsert.execute(params![run.job.0, key, run.id.0 as i64])?;
        self.side.known.note(self.conn, &self.side.days, run.id, Bit::Keyed)
    }

    fn expire_key(&mut self, run: RunId, at: Timestamp) -> rusqlite::Result<()> {
        let mut update = self.conn.prepare_cached(
            "update keys
             set expires_at = ?2
             where run = ?1",
        )?;
        update.execute(params![run.0 as i64, at.as_millis()])?;
        Ok(())
    }

    /// The run that the schedule named for the same instant.
    fn named(&self, run: &NewRun) -> rusqlite::Result<RunId> {
        let mut select = self.conn.prepare_cached(&format!(
            "select id
             from runs_{}
             where fire_time = ?1 and job = ?2 and origin in (0, 3) and decided <> 4",
            run.id.day()
        ))?;
        select.query_row(params![run.fire_time.as_millis(), run.job.0], |row| {
            Ok(RunId(row.get::<_, i64>(0)? as u64))
        })
    }

    /// Gives back the places that a run has, and its turns.
    pub(super) fn free_holds(&mut self, run: RunId) -> rusqlite::Result<()> {
        self.side.in_line.remove(&run);
        self.conn.prepare_cached("delete from holds where run = ?1")?.execute([run.0 as i64])?;
        Ok(())
    }

    /// Takes a closed run out of everything that open runs are found by.
    fn disengage(&mut self, run: RunId) -> rusqlite::Result<()> {
        let id = run.0 as i64;
        self.conn.prepare_cached("delete from waiting where run = ?1")?.execute([id])?;
        self.free_holds(run)?;
        let number = run.day();
        if self.side.days.has(number, Table::Sends) {
            let mut update = self.conn.prepare_cached(&format!(
                "update sends_{number}
                 set is_open = 0
                 where run = ?1"
            ))?;
            update.execute([id])?;
        }
        Ok(())
    }
}

impl Side {
    /// Whether a run was ever written, and its day not dropped.
    pub(super) fn is_there(&mut self, conn: &Connection, run: RunId) -> rusqlite::Result<bool> {
        if self.known.of(conn, &self.days, run)?.is_there {
            return Ok(true);
        }
        let number = run.day();
        if !self.days.has(number, Table::Runs) {
            return Ok(false);
        }
        let mut select = conn.prepare_cached(&format!("select 1 from runs_{number} where id = ?1"))?;
        let is_there = select.exists([run.0 as i64])?;
        if is_there {
            self.known.note(conn, &self.days, run, Bit::There)?;
        }
        Ok(is_there)
    }
}

fn insert_close(day: u32) -> String {
    format!(
        "insert into closes_{day}
             (place, run, outcome, reason, closed_at, range_until, range_count, unsent, attempt, token, executor,
              started_at, ended_at, attempt_outcome, message, possible_duplicate)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
    )
}

fn insert_attempt(day: u32) -> String {
    format!(
        "insert or replace into attempts_{day}
             (run, attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
    )
}
