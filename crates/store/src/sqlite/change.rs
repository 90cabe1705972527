//! Changes of jobs by people: definition, state, clock and revision together.

use calendar::Timestamp;
use punctual_core::cluster::home;
use punctual_core::model::{ChangeId, JobId, JobState};
use punctual_node::ports::{ArrivalKind, Change, Changed, PlannedTo, REVISIONS_MAX, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::code::{bits, instant, instant_or_none, state_code, when_code};
use super::keeper::Keeper;
use super::session;
use super::trouble::Trouble;
use crate::row::definition_to_text;
use crate::rules::change::{self, JobBefore};
use crate::rules::circle;
use crate::verbs::apps::ensure_app;

/// The number of a deleted job's state.
const DELETED: i64 = 2;

impl Keeper {
    pub(super) fn change(&mut self, change: &Change) -> Result<Changed, Trouble> {
        let parents = change::parents(change, parents_before(&self.conn, change)?);
        let (job, version) = match change.job {
            None => self.create(change)?,
            Some((id, version)) => self.edit(id, version, change)?,
        };
        write_revision(&self.conn, job, version, change)?;
        self.write_clock(job, version, change)?;
        write_bonds(&self.conn, job, change)?;
        if let Some(definition) = change.definition.as_ref().filter(|_| change.state != JobState::Deleted) {
            session::ask(&self.conn, &ensure_app(&definition.app))?;
        }
        let shard = home(job, self.shards);
        let mut pen = self.pen();
        for (run, close) in &change.clock.passed {
            pen.write_closed(run, close)?;
        }
        for parent in parents {
            pen.log_change(parent)?;
        }
        if change.state == JobState::Deleted {
            pen.leave(shard, ArrivalKind::Deleted(job))?;
        }
        let id = pen.log_change(job)?;
        Ok(Changed { job, version, change: ChangeId(id) })
    }

    fn create(&mut self, change: &Change) -> Result<(JobId, u64), Trouble> {
        let definition = change::definition_of_new(change)?;
        change::check_name(change, owner_of_name(&self.conn, change)?)?;
        let id = u32::try_from(self.side.counters.job + 1).ok().filter(|id| *id < 1 << 31);
        let id = id.ok_or_else(|| StoreError::Full("no more job ids".into()))?;
        self.side.counters.job = u64::from(id);
        let (state, reason) = state_code(&change.state);
        let mut insert = self.conn.prepare_cached(
            "insert into jobs (id, version, changed_at, state, reason, app, name, definition)
             values (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        insert.execute(params![
            id,
            change.at.as_millis(),
            state,
            reason,
            definition.app,
            definition.name,
            definition_to_text(definition),
        ])?;
        Ok((JobId(id), 1))
    }

    fn edit(&mut self, id: JobId, expected: u64, change: &Change) -> Result<(JobId, u64), Trouble> {
        let version = change::next_version(id, expected, change, job_before(&self.conn, id)?)?;
        change::check_name(change, owner_of_name(&self.conn, change)?)?;
        check_circle(&self.conn, change)?;
        let (state, reason) = state_code(&change.state);
        let mut update = self.conn.prepare_cached(
            "update jobs
             set version = ?2, changed_at = ?3, state = ?4, reason = ?5
             where id = ?1",
        )?;
        update.execute(params![id.0, version as i64, change.at.as_millis(), state, reason])?;
        if let Some(definition) = &change.definition {
            let mut update = self.conn.prepare_cached(
                "update jobs
                 set app = ?2, name = ?3, definition = ?4
                 where id = ?1",
            )?;
            update.execute(params![id.0, definition.app, definition.name, definition_to_text(definition)])?;
        }
        Ok((id, version))
    }

    /// The shard is decided when the job is made, for good.
    fn write_clock(&self, job: JobId, version: u64, change: &Change) -> rusqlite::Result<()> {
        let mut upsert = self.conn.prepare_cached(
            "insert into clocks (job, shard, next_fire, version, enabled, decided_to, reserved_to)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             on conflict (job) do update
             set next_fire = excluded.next_fire, version = excluded.version, enabled = excluded.enabled,
             decided_to = max(decided_to, excluded.decided_to)",
        )?;
        upsert.execute(params![
            job.0,
            home(job, self.shards).0,
            change.clock.next_fire.map(Timestamp::as_millis),
            version as i64,
            change.state.is_enabled(),
            // What passed before it is recorded with it.
            change.at.as_millis(),
            i64::MIN,
        ])?;
        Ok(())
    }
}

/// The version and the clock of a job that is not deleted.
fn job_before(conn: &Connection, id: JobId) -> rusqlite::Result<Option<JobBefore>> {
    let mut select = conn.prepare_cached(
        "select jobs.version, clocks.next_fire, clocks.decided_to, clocks.reserved_to
         from jobs
         join clocks on clocks.job = jobs.id
         where jobs.id = ?1 and jobs.state <> ?2",
    )?;
    let read = |row: &rusqlite::Row<'_>| {
        let planned = PlannedTo { decided: instant(row, 2)?, reserved: instant(row, 3)? };
        Ok(JobBefore { version: bits(row, 0)?, clock: Some((instant_or_none(row, 1)?, planned)) })
    };
    select.query_row(params![id.0, DELETED], read).optional()
}

/// The job that has the name which a job is given.
fn owner_of_name(conn: &Connection, change: &Change) -> rusqlite::Result<Option<JobId>> {
    let Some(definition) = &change.definition else { return Ok(None) };
    let mut select = conn.prepare_cached(
        "select id
         from jobs
         where app = ?1 and name = ?2 and state <> 2",
    )?;
    select.query_row([&definition.app, &definition.name], |row| row.get(0).map(JobId)).optional()
}

/// Refuses to let a job come after itself, in however many steps.
fn check_circle(conn: &Connection, change: &Change) -> Result<(), Trouble> {
    let Some((job, parents)) = circle::closed_by(change) else { return Ok(()) };
    let parents = serde_json::to_string(&Vec::from_iter(parents.iter().map(|parent| parent.0)));
    let mut select = conn.prepare_cached(
        "with recursive before (job) as (
             select value from json_each(?1)
             union
             select bonds.parent from bonds join before on bonds.child = before.job
         )
         select 1 from before where job = ?2",
    )?;
    match select.exists(params![parents.expect("numbers always serialize"), job.0])? {
        true => Err(circle::refusal(job).into()),
        false => Ok(()),
    }
}

fn write_revision(conn: &Connection, job: JobId, version: u64, change: &Change) -> rusqlite::Result<()> {
    let Some(definition) = &change.definition else { return Ok(()) };
    let mut insert = conn.prepare_cached(
        "insert into revisions (job, version, at, by, definition)
         values (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        job.0,
        version as i64,
        change.at.as_millis(),
        change.by.as_ref(),
        definition_to_text(definition),
    ])?;
    let mut trim = conn.prepare_cached(&format!(
        "delete from revisions
         where job = ?1 and version <= (
             select version from revisions where job = ?1 order by version desc limit 1 offset {REVISIONS_MAX}
         )"
    ))?;
    trim.execute([job.0])?;
    Ok(())
}

/// The jobs that a job comes after before a change.
fn parents_before(conn: &Connection, change: &Change) -> rusqlite::Result<Vec<JobId>> {
    let Some((job, _)) = change.job else { return Ok(Vec::new()) };
    let mut select = conn.prepare_cached("select distinct parent from bonds where child = ?1")?;
    select.query_map([job.0], |row| row.get(0).map(JobId))?.collect()
}

/// Makes a job known to its parents; a deleted one is known to none.
fn write_bonds(conn: &Connection, job: JobId, change: &Change) -> rusqlite::Result<()> {
    let is_deleted = change.state == JobState::Deleted;
    if !is_deleted && change.definition.is_none() {
        return Ok(());
    }
    conn.prepare_cached("delete from bonds where child = ?1")?.execute([job.0])?;
    let parents = change.definition.iter().filter(|_| !is_deleted).flat_map(|definition| &definition.after);
    for parent in parents {
        let mut insert = conn.prepare_cached(
            "insert or ignore into bonds (parent, child, ends)
             values (?1, ?2, ?3)",
        )?;
        insert.execute(params![parent.job.0, job.0, when_code(parent.when)])?;
    }
    Ok(())
}
