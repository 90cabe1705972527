//! Settling: the end of an attempt or of a run, with all that follows.

use calendar::Timestamp;
use punctual_core::model::{Attempt, Close, JobId, Join, RunId, Settlement, StoppedReason, Then};
use punctual_node::ports::{ArrivalKind, Settled};
use rusqlite::{OptionalExtension, params};

use super::gate::progress;
use super::keeper::Keeper;
use super::known::{Bit, Standing};
use super::pen::{End, Pen};
use super::trouble::Trouble;
use crate::row::definition_from_text;
use crate::rules::settle::{ended_instant, next_of_delay, unsent};

impl Keeper {
    pub(super) fn settle(&mut self, settlements: &[Settlement]) -> Result<Vec<Settled>, Trouble> {
        let mut pen = self.pen();
        let settled = settlements.iter().map(|settlement| pen.settle(settlement));
        Ok(settled.collect::<rusqlite::Result<_>>()?)
    }
}

impl Pen<'_> {
    fn settle(&mut self, settlement: &Settlement) -> rusqlite::Result<Settled> {
        let Settlement { run, job, shard, .. } = *settlement;
        let standing = self.standing(run)?;
        if standing.is_closed || !self.is_there(run)? {
            return Ok(Settled::Stale);
        }
        let progress = progress(self.conn, self.side, run, standing)?;
        if !progress.admits(settlement.fence) {
            return Ok(Settled::Stale);
        }
        let is_unsent = progress.gates.is_empty();
        let (consecutive_failures, joined) = match &settlement.then {
            Then::Close(close) => self.end(standing, settlement, close)?,
            Then::Wait { ready_at, attempt } => {
                if is_unsent && self.side.in_line.contains(&run) {
                    // It has no places, only turns, and others need not wait until it asks again.
                    self.free_holds(run)?;
                }
                (self.put_off(settlement, Some(ready_at.as_millis()), *attempt)?, None)
            }
            Then::Park { version, .. } if self.version(job)? != Some(*version) => return Ok(Settled::Stale),
            Then::Park { attempt, .. } => {
                // When the run is called back, its next gate asks for places again.
                self.free_holds(run)?;
                (self.put_off(settlement, None, *attempt)?, None)
            }
        };
        if settlement.is_foreign {
            self.leave(shard, ArrivalKind::Run(run))?;
        }
        for child in &settlement.children {
            if let Ok(id) = self.write_run(child)? {
                self.leave(child.shard, ArrivalKind::Run(id))?;
            }
        }
        let is_over = match ended_instant(settlement) {
            Some((named, closed_at)) => self.go_on(job, named, closed_at)?,
            None => false,
        };
        Ok(Settled::Done { consecutive_failures, is_over, joined })
    }

    /// Closes a run: how many of its job have failed in a row, and the run that it was the last open part of.
    fn end(
        &mut self,
        standing: Standing,
        settlement: &Settlement,
        close: &Close,
    ) -> rusqlite::Result<(u32, Option<(RunId, Join)>)> {
        let Settlement { run, job, part_of, .. } = *settlement;
        let (unsent, attempt) = (unsent(settlement.fence), settlement.attempt.as_ref());
        let end = End { run, job, close, unsent, attempt, is_counted: part_of.is_none() };
        let failures = self.write_close(standing, end)?;
        let joined = match part_of {
            Some(whole) => self.count_part(whole, close.outcome)?,
            None => None,
        };
        Ok((failures, joined))
    }

    /// Lets a run wait: how many of its job have failed in a row.
    fn put_off(
        &mut self,
        settlement: &Settlement,
        ready_at: Option<i64>,
        attempt: Attempt,
    ) -> rusqlite::Result<u32> {
        if let Some(record) = &settlement.attempt {
            self.write_attempt(settlement.run, record)?;
        }
        self.write_wait(settlement.run, ready_at, attempt)?;
        self.side.tallies.failures(self.conn, settlement.job)
    }

    /// Sets the clock of a fixed delay that waits for the end of just this run, or says that it is over and stops it.
    fn go_on(&mut self, job: JobId, named: Timestamp, closed_at: Timestamp) -> rusqlite::Result<bool> {
        let mut select = self.conn.prepare_cached(
            "select jobs.definition
             from clocks
             join jobs on jobs.id = clocks.job
             where clocks.job = ?1 and clocks.enabled = 1 and clocks.next_fire is null and clocks.reserved_to = ?2",
        )?;
        let text: Option<String> =
            select.query_row(params![job.0, named.as_millis()], |row| row.get(0)).optional()?;
        drop(select);
        // A row that makes no sense is set aside by planning, which reads it too.
        let definition = text.and_then(|text| definition_from_text(&text).ok());
        let next = definition.and_then(|read| next_of_delay(&read.schedule, closed_at));
        let Some(next) = next else { return Ok(false) };
        let Some(next) = next else {
            self.stop(job, &StoppedReason::Finished)?;
            return Ok(true);
        };
        let mut update = self.conn.prepare_cached(
            "update clocks
             set next_fire = ?2
             where job = ?1",
        )?;
        update.execute(params![job.0, next.as_millis()])?;
        Ok(false)
    }

    fn version(&self, job: JobId) -> rusqlite::Result<Option<u64>> {
        let mut select = self.conn.prepare_cached("select version from jobs where id = ?1")?;
        select.query_row([job.0], |row| row.get::<_, i64>(0).map(|version| version as u64)).optional()
    }

    /// A run that goes on leaves the key free: the attempt that was put off is still to be gated.
    fn write_wait(&mut self, run: RunId, ready_at: Option<i64>, attempt: Attempt) -> rusqlite::Result<()> {
        let mut upsert = self.conn.prepare_cached(&format!(
            "insert or replace into waiting (run, job, shard, due, ready_at, attempt, is_called_back)
             select id, job, shard, due, ?2, ?3, 0
             from runs_{}
             where id = ?1",
            run.day()
        ))?;
        upsert.execute(params![run.0 as i64, ready_at, attempt.0])?;
        self.side.known.note(self.conn, &self.side.days, run, Bit::Engaged)
    }
}
