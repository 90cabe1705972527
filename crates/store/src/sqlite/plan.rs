//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use calendar::Timestamp;
use punctual_core::model::{Child, JobId, JobState, ShardId, StoppedReason};
use punctual_node::ports::{ClockRow, JobRow, Lease, Plan, Planned, StoreError};
use rusqlite::{Connection, params};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::{state_code, when_from};
use super::keeper::Keeper;
use super::pen::Pen;
use super::trouble::{Trouble, corrupt, readable};
use crate::rows;
use crate::rules::forgotten::Forgotten;
use crate::rules::plan::{names_earlier_instants, remembered};

/// A row, or what is wrong with it.
type Readable<T> = Result<T, StoreError>;

impl Keeper {
    pub(super) fn due(
        &mut self,
        leases: &[Lease],
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<ClockRow>, Trouble> {
        let shards: FxHashSet<ShardId> = leases.iter().map(|lease| lease.shard).collect();
        let mut select = self.conn.prepare_cached(
            "select job, shard, next_fire, version, decided_to, reserved_to
             from clocks
             where enabled = 1 and next_fire is not null and next_fire <= ?1
             order by next_fire, job",
        )?;
        let mut rows = select.query([until.as_millis()])?;
        let mut due = Vec::new();
        while due.len() < max {
            let Some(row) = rows.next()? else { break };
            // A row with impossible ids belongs to no job, and must not keep the others from being planned.
            due.extend(readable(rows::clock_row(row))?.filter(|clock| shards.contains(&clock.shard)));
        }
        Ok(due)
    }

    pub(super) fn jobs(&mut self, ids: &[JobId]) -> Result<Vec<(JobId, Readable<JobRow>)>, Trouble> {
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            jobs.extend(job_row(&self.conn, *id)?.map(|row| (*id, row)));
        }
        Ok(jobs)
    }

    pub(super) fn plan(&mut self, plans: &[Plan]) -> Result<Vec<Planned>, Trouble> {
        let current: FxHashMap<ShardId, Lease> =
            self.current()?.into_iter().map(|lease| (lease.shard, lease)).collect();
        let mut pen = self.pen();
        let mut planned = Vec::with_capacity(plans.len());
        for plan in plans {
            let is_current = current.get(&plan.lease.shard) == Some(&plan.lease);
            planned.push(match is_current {
                true => pen.plan(plan)?,
                false => Planned::Overtaken,
            });
        }
        Ok(planned)
    }
}

impl Pen<'_> {
    fn plan(&mut self, plan: &Plan) -> rusqlite::Result<Planned> {
        let job = plan.clock.job;
        let forgotten = match names_earlier_instants(plan) {
            true => self.side.forgotten(self.conn, [job])?,
            false => Forgotten::default(),
        };
        let (runs, reserved) = remembered(plan, plan.clock.planned.reserved, &forgotten);
        let mut update = self.conn.prepare_cached(
            "update clocks
             set next_fire = ?4, decided_to = max(decided_to, ?5), reserved_to = max(reserved_to, ?6)
             where job = ?1 and next_fire = ?2 and version = ?3 and enabled = 1",
        )?;
        let moved = update.execute(params![
            job.0,
            plan.clock.next_fire.as_millis(),
            plan.clock.version as i64,
            plan.next.map(Timestamp::as_millis),
            plan.decided_to.as_millis(),
            reserved.as_millis(),
        ])?;
        drop(update);
        if moved == 0 {
            return Ok(Planned::Overtaken);
        }
        if let Some(reason) = &plan.stop {
            self.stop(job, reason)?;
        }
        if let Some((run, close)) = &plan.skipped {
            self.write_closed(run, close)?;
        }
        let mut written = Vec::with_capacity(runs.len());
        for run in runs {
            written.extend(self.write_run(run)?.ok());
        }
        Ok(Planned::Moved(written))
    }

    /// Stops a job that no person stopped. The version stays, but the nodes that know the job must hear of it.
    pub(super) fn stop(&mut self, job: JobId, reason: &StoppedReason) -> rusqlite::Result<()> {
        let (code, reason) = state_code(&JobState::Stopped(reason.clone()));
        let mut update = self.conn.prepare_cached(
            "update jobs
             set state = ?2, reason = ?3
             where id = ?1",
        )?;
        update.execute(params![job.0, code, reason])?;
        let mut update = self.conn.prepare_cached(
            "update clocks
             set enabled = 0
             where job = ?1",
        )?;
        update.execute([job.0])?;
        self.log_change(job)?;
        Ok(())
    }

    /// Writes down that a job changed, and says the place of that among all changes.
    pub(super) fn log_change(&mut self, job: JobId) -> rusqlite::Result<u64> {
        self.side.counters.change += 1;
        let change = self.side.counters.change;
        let mut insert = self.conn.prepare_cached(
            "insert into changes (id, job)
             values (?1, ?2)",
        )?;
        insert.execute(params![change as i64, job.0])?;
        Ok(change)
    }
}

/// The row of a job, if there is one, and whatever is wrong with it.
fn job_row(conn: &Connection, id: JobId) -> Result<Option<Readable<JobRow>>, Trouble> {
    let mut select = conn.prepare_cached(
        "select jobs.id, jobs.version, jobs.changed_at, jobs.state, jobs.reason, jobs.definition, clocks.shard,
         clocks.next_fire, clocks.decided_to, clocks.reserved_to
         from jobs
         left join clocks on clocks.job = jobs.id
         where jobs.id = ?1",
    )?;
    let children = children(conn, id)?;
    let mut rows = select.query([id.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    match rows::job_row(row, children) {
        Ok(job) => Ok(Some(Ok(job))),
        Err(Trouble::Refused(error)) => Ok(Some(Err(error))),
        // The columns are strict, so the one thing a value of the right type can still be is text that is no text.
        Err(Trouble::Sql(
            error @ (rusqlite::Error::Utf8Error(..) | rusqlite::Error::FromSqlConversionFailure(..)),
        )) => Ok(Some(Err(corrupt("jobs", i64::from(id.0), error)))),
        Err(trouble) => Err(trouble),
    }
}

fn children(conn: &Connection, parent: JobId) -> rusqlite::Result<Vec<Child>> {
    let mut select = conn.prepare_cached(
        "select child, ends
         from bonds
         where parent = ?1
         order by child, ends",
    )?;
    let mut rows = select.query([parent.0])?;
    let mut children = Vec::new();
    while let Some(row) = rows.next()? {
        let when = when_from(row.get(1)?);
        children.extend(when.map(|when| Child { job: JobId(row.get(0).unwrap_or_default()), when }));
    }
    Ok(children)
}
