//! Keeping house in days that stay: runs that are old are removed from them, some at a time.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{JobId, RunId};
use punctual_node::ports::{Keep, THIN_LOOK, Thinned};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, run_code, text_code};
use super::day::{TABLES, bounds};
use super::line::Line;
use super::trouble::Trouble;
use crate::rules::thin::{Chosen, Found, Kin};

impl Postgres {
    pub(super) async fn try_thin(
        &self,
        line: &Line<'_>,
        keep: &Keep,
        day: u32,
        from: RunId,
        max: usize,
    ) -> Result<Thinned, Trouble> {
        let found = found(line, day, from).await?;
        let kin = kin(line, &found).await?;
        let chosen = Chosen::from(keep, day, &found, &kin, max);
        if !chosen.runs.is_empty() {
            line.fly(removal(&chosen, day)).await?;
        }
        Ok(chosen.thinned())
    }
}

/// What else is asked of a run is looked up row by row: as a join, the server might read all that was ever closed on a day.
pub(super) const NEXT: &str = "
    select r.id,
           coalesce((select app from jobs j where j.id = r.job), ''),
           (select true from all_closes c where c.run = r.id and c.run >= $1 and c.run < $2) is not null,
           case when r.origin = 6 then r.of end
    from (select id, job, origin, of from all_runs where id >= $1 and id < $2 order by id limit $3) as r
    order by r.id";

/// The next runs of a day, by the primary key.
async fn found(line: &Line<'_>, day: u32, from: RunId) -> Result<Vec<Found>, Trouble> {
    let (low, high) = bounds(day);
    let rows =
        line.ask(Ask::new(NEXT).with(run_code(from).max(low)).with(high).with(THIN_LOOK as i64)).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        let whole = row.maybe(3)?.map(|of| RunId(of as u64));
        found.push(Found { run: row.run(0)?, app: row.string(1)?, is_closed: row.flag(2)?, whole });
    }
    Ok(found)
}

async fn kin(line: &Line<'_>, found: &[Found]) -> Result<Kin, Trouble> {
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(Kin::default()) };
    let wholes: BTreeSet<RunId> = found.iter().filter_map(|one| one.whole).collect();
    let mut flight = Pipeline::new();
    let there = flight.add(
        Ask::new("select id from all_runs where id = any($1) and id between $2 and $3").with_runs(&wholes),
    );
    let joins = flight.add(
        Ask::new("select run, first_part, last_part from joins where run between $1 and $2")
            .with(run_code(first.run))
            .with(run_code(last.run)),
    );
    let mut landed = line.fly(flight).await?;
    let mut kin = Kin::default();
    for row in landed.take(there) {
        kin.wholes.insert(row.run(0)?);
    }
    let (mut split, mut low, mut high) = (Vec::new(), i64::MAX, i64::MIN);
    for row in landed.take(joins) {
        split.push(row.number(0)?);
        (low, high) = (low.min(row.number(1)?), high.max(row.number(2)?));
    }
    if split.is_empty() {
        return Ok(kin);
    }
    let parts = Ask::new(
        "select p.whole, p.run, c.run is not null
         from parts p
         left join all_closes c on c.run = p.run and c.run between $2 and $3
         where p.whole = any($1) and p.run between $2 and $3",
    );
    for row in &line.ask(parts.with(split).with(low).with(high)).await? {
        kin.parts.entry(row.run(0)?).or_default().insert(row.run(1)?, row.flag(2)?);
    }
    Ok(kin)
}

/// Removes runs with all that became of them, and counts what was there: another node may have been faster.
fn removal(chosen: &Chosen, day: u32) -> Pipeline {
    let mut flight = Pipeline::begin();
    for (day, runs) in chosen.by_day() {
        let gone = "with near as (delete from runs where id = any($1) and id between $2 and $3 returning id),
                  far as (delete from runs_far where id = any($1) and id between $2 and $3 returning id),
                  gone as (select count(*) as count from (select id from near union all select id from far) as ids)
             update buckets
             set runs = runs - gone.count, closed = closed - gone.count
             from gone
             where day = $4 and slot = (select min(slot) from buckets where day = $4)";
        flight.add(Ask::new(gone).with_runs(&runs).with(i64::from(day)));
        let beside = TABLES.iter().filter(|(table, _)| *table != "runs").map(|(table, _)| *table);
        for table in beside.chain(["closes_far"]) {
            let delete = format!("delete from {table} where run = any($1) and run between $2 and $3");
            flight.add(Ask::new(delete).with_runs(&runs));
        }
    }
    flight.add(note_thinned(chosen.apps.iter(), day));
    flight.commit();
    flight
}

/// Says that runs of these apps are gone from a day.
pub(super) fn note_thinned(apps: impl Iterator<Item = impl AsRef<str>>, day: u32) -> Ask {
    let apps: Vec<String> = apps.map(|app| text_code(app.as_ref())).collect();
    Ask::new(
        "insert into thinned (app, day)
         select app, $2 from unnest($1) as app
         on conflict (md5(app)) do update
         set day = greatest(thinned.day, excluded.day)",
    )
    .with(apps)
    .with(i64::from(day) + 1)
}

/// Up to which days runs of these jobs' apps were removed.
pub(super) fn thinned_of(jobs: &BTreeSet<JobId>) -> Ask {
    let jobs: Vec<i64> = jobs.iter().map(|job| i64::from(job.0)).collect();
    Ask::new(
        "select n.job, t.day
         from unnest($1) as n (job)
         left join jobs j on j.id = n.job
         join thinned t on md5(t.app) = md5(coalesce(j.app, ''))",
    )
    .with(jobs)
}

pub(super) fn read_thinned(rows: &[tokio_postgres::Row]) -> Result<BTreeMap<JobId, u32>, Trouble> {
    rows.iter().map(|row| Ok((row.job(0)?, row.number(1)? as u32))).collect()
}
