//! Keeping house: days that are over, runs that are old in days that stay, and keys that have expired.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{JobId, Origin, RunId};
use punctual_node::ports::{Keep, NODES_KEPT, OldDay, Pruned, THIN_LOOK, Thinned};
use rusqlite::{Connection, OptionalExtension, params};

use super::code::origin_from;
use super::day::Table;
use super::keeper::{Keeper, Side};
use super::layer::indexed_close;
use super::split::parts_on;
use super::trouble::Trouble;
use crate::rules::forgotten::Forgotten;
use crate::rules::thin::{Chosen, Found, Kin};

impl Keeper {
    pub(super) fn prune(&mut self, keep: &Keep) -> Result<Pruned, Trouble> {
        let now = self.now();
        let mut pruned = Pruned::default();
        for number in self.side.days.numbers() {
            if !keep.is_old_for_some(number) {
                break;
            }
            let Some((runs, closed)) = self.side.days.get(number).map(|day| (day.runs, day.closed)) else {
                continue;
            };
            match keep.is_dropped(number, runs) {
                true if closed < runs => pruned.kept_open += 1,
                true => {
                    self.drop_day(keep, number)?;
                    pruned.buckets += 1;
                }
                false => pruned.old.push(OldDay { day: number, runs, closed }),
            }
        }
        let mut delete = self.conn.prepare_cached(
            "delete from keys
             where expires_at is not null and expires_at <= ?1",
        )?;
        delete.execute([now.as_millis()])?;
        let mut delete = self.conn.prepare_cached(
            "delete from nodes
             where expires_at <= ?1 and node not in (select owner from shards where owner is not null)",
        )?;
        delete.execute([now.as_millis().saturating_sub(NODES_KEPT.as_millis() as i64)])?;
        let mut delete = self.conn.prepare_cached(
            "delete from changes
             where id <= min(?1, coalesce((select min(seen) from nodes where expires_at > ?2), ?1))",
        )?;
        let old = self.side.counters.change.saturating_sub(keep.changes.max(1));
        delete.execute(params![old.cast_signed(), now.as_millis()])?;
        Ok(pruned)
    }

    /// Gates, attempts, closes and what is kept beside them go with their runs. Clocks stay where they are, so nothing
    /// of the day is planned again.
    fn drop_day(&mut self, keep: &Keep, number: u32) -> Result<(), Trouble> {
        self.side.forget_day(number);
        self.side.days.drop(&self.conn, number)?;
        if keep.is_old_for_others(number) {
            self.side.counters.pruned_to = self.side.counters.pruned_to.max(u64::from(number) + 1);
        } else {
            keep.old_apps(number).try_for_each(|app| note_thinned(&self.conn, app, number))?;
        }
        Ok(())
    }

    pub(super) fn thin(
        &mut self,
        keep: &Keep,
        day: u32,
        from: RunId,
        max: usize,
    ) -> Result<Thinned, Trouble> {
        if !self.side.days.has(day, Table::Runs) {
            return Ok(Thinned::default());
        }
        let found = self.found(day, from)?;
        let kin = self.kin(day, &found)?;
        let chosen = Chosen::from(keep, day, &found, &kin, max);
        for (day, runs) in chosen.by_day() {
            self.remove(day, &runs)?;
        }
        chosen.apps.iter().try_for_each(|app| note_thinned(&self.conn, app, day))?;
        Ok(chosen.thinned())
    }

    /// The next runs of a day.
    fn found(&mut self, day: u32, from: RunId) -> Result<Vec<Found>, Trouble> {
        let Keeper { conn, side, .. } = self;
        let mut select = conn.prepare_cached(&format!(
            "select id, job, origin, of
             from runs_{day}
             where id >= ?1
             order by id
             limit {THIN_LOOK}"
        ))?;
        let mut apps: BTreeMap<i64, String> = BTreeMap::new();
        let mut found = Vec::new();
        let mut rows = select.query([from.0 as i64])?;
        while let Some(row) = rows.next()? {
            let (run, job) = (RunId(row.get::<_, i64>(0)? as u64), row.get(1)?);
            let app = match apps.get(&job) {
                Some(app) => app.clone(),
                None => apps.entry(job).or_insert(app_of(conn, job)?).clone(),
            };
            let is_part = origin_from(row.get(2)?) == Some(Origin::Part);
            let of: Option<i64> = row.get(3)?;
            let whole = of.filter(|_| is_part).map(|of| RunId(of as u64));
            let is_closed = side.known.of(conn, &side.days, run)?.is_closed;
            found.push(Found { run, app, is_closed, whole });
        }
        Ok(found)
    }

    fn kin(&mut self, day: u32, found: &[Found]) -> Result<Kin, Trouble> {
        let Keeper { conn, side, .. } = self;
        let mut kin = Kin::default();
        let wholes: BTreeSet<RunId> = found.iter().filter_map(|one| one.whole).collect();
        for whole in wholes.into_iter().filter(|whole| side.days.has(whole.day(), Table::Runs)) {
            let mut select =
                conn.prepare_cached(&format!("select 1 from runs_{} where id = ?1", whole.day()))?;
            if select.exists([whole.0 as i64])? {
                kin.wholes.insert(whole);
            }
        }
        let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(kin) };
        if !side.days.has(day, Table::Joins) {
            return Ok(kin);
        }
        let mut select = conn.prepare_cached(&format!(
            "select run, first_part, last_part
             from joins_{day}
             where run between ?1 and ?2"
        ))?;
        let mut rows = select.query([first.run.0 as i64, last.run.0 as i64])?;
        while let Some(row) = rows.next()? {
            let run = |column| row.get::<_, i64>(column).map(|id| RunId(id as u64));
            let (whole, days) = (run(0)?, run(1)?.day()..=run(2)?.day());
            let parts = kin.parts.entry(whole).or_default();
            for number in days.filter(|number| side.days.has(*number, Table::Parts)) {
                for (_, part) in parts_on(conn, number, whole)? {
                    parts.insert(part, side.known.of(conn, &side.days, part)?.is_closed);
                }
            }
        }
        Ok(kin)
    }

    /// Removes closed runs of a day with all that became of them. Their entries in the index of closes stay, so that a lookup
    /// that finds one of them in the due index finds it closed; so do the closes that are not in that index yet, from which it
    /// is written.
    fn remove(&mut self, day: u32, runs: &[RunId]) -> Result<(), Trouble> {
        let Keeper { conn, side, .. } = self;
        for (table, column) in BY_RUN.into_iter().filter(|(table, _)| side.days.has(day, *table)) {
            let mut delete =
                conn.prepare_cached(&format!("delete from {} where {column} = ?1", table.of(day)))?;
            for run in runs {
                delete.execute([run.0 as i64])?;
            }
        }
        let mut delete = conn.prepare_cached(&format!("delete from closes_{day} where place = ?1"))?;
        for run in runs {
            side.known.forget(*run);
            if side.closes.place(*run).is_none()
                && let Some(place) = indexed_close(conn, *run)?
            {
                delete.execute([place])?;
            }
        }
        side.days.edit(day).uncount(runs.len() as u64);
        Ok(())
    }

    /// What is forgotten of these jobs.
    pub(super) fn forgotten(&self, jobs: impl IntoIterator<Item = JobId>) -> rusqlite::Result<Forgotten> {
        self.side.forgotten(&self.conn, jobs)
    }
}

/// What lies in tables of a day by its run; closes lie there by their place.
const BY_RUN: [(Table, &str); 7] = [
    (Table::Runs, "id"),
    (Table::Attempts, "run"),
    (Table::Sends, "run"),
    (Table::Parts, "run"),
    (Table::Joins, "run"),
    (Table::Logs, "run"),
    (Table::Kills, "run"),
];

fn app_of(conn: &Connection, job: i64) -> rusqlite::Result<String> {
    let mut select = conn.prepare_cached("select app from jobs where id = ?1")?;
    Ok(select.query_row([job], |row| row.get(0)).optional()?.unwrap_or_default())
}

fn note_thinned(conn: &Connection, app: &str, day: u32) -> rusqlite::Result<()> {
    let mut upsert = conn.prepare_cached(
        "insert into thinned (app, day)
         values (?1, ?2)
         on conflict (app) do update
         set day = max(day, excluded.day)",
    )?;
    upsert.execute(params![app, day + 1])?;
    Ok(())
}

impl Side {
    pub(super) fn forgotten(
        &self,
        conn: &Connection,
        jobs: impl IntoIterator<Item = JobId>,
    ) -> rusqlite::Result<Forgotten> {
        let mut select = conn.prepare_cached(
            "select day
             from thinned
             where app = coalesce((select app from jobs where id = ?1), '')",
        )?;
        let mut forgotten = Forgotten { days: self.counters.pruned_to as u32, jobs: BTreeMap::new() };
        for job in jobs {
            if let Some(day) = select.query_row([job.0], |row| row.get(0)).optional()? {
                forgotten.jobs.insert(job, day);
            }
        }
        Ok(forgotten)
    }

    /// Takes a day that goes out of memory. The readers still see it, until the round is committed.
    fn forget_day(&mut self, day: u32) {
        let stays = |run: u64| RunId(run).day() != day;
        self.known.forget_day(day);
        self.births.retain(stays);
        let done = self.closes.flushing[..self.closes.flushed].iter().filter(|(run, _)| stays(*run)).count();
        self.closes.flushing.retain(|(run, _)| stays(*run));
        self.closes.flushed = done;
        self.closes.pending.retain(|(run, _)| stays(*run));
        self.closes.dropped.push(day);
    }
}
