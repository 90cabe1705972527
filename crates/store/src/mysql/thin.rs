//! Keeping house in days that stay: runs that are old are removed from them, some at a time.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{JobId, NewRun, RunId};
use punctual_node::ports::{Keep, THIN_LOOK, Thinned};

use super::ask::{Moment, Verb};
use super::day::{Table, span};
use super::link::Line;
use super::read::Said;
use super::text::{Script, Sum, list};
use super::trouble::Trouble;
use crate::rules::forgotten::Forgotten;
use crate::rules::thin::{Chosen, Found, Kin};

/// Removes what is old from a stretch of a day.
pub(super) struct Thin<'a> {
    pub(super) keep: &'a Keep,
    pub(super) day: u32,
    pub(super) from: RunId,
    pub(super) max: usize,
}

impl Verb for Thin<'_> {
    type Answer = Thinned;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Thinned, Trouble> {
        let found = self.found(line, at).await?;
        let kin = self.kin(line, at, &found).await?;
        let chosen = Chosen::from(self.keep, self.day, &found, &kin, self.max);
        if !chosen.runs.is_empty() {
            self.remove(line, at, &chosen).await?;
        }
        Ok(chosen.thinned())
    }
}

impl Thin<'_> {
    /// The next runs of a day, by the primary key.
    async fn found(&self, line: &mut Line, at: &Moment) -> Result<Vec<Found>, Trouble> {
        let (first, last) = span(self.day);
        let mut script = Script::new();
        let days = at.days.watch(&mut script);
        let rows = at.days.runs(first).map(|(runs, closes)| {
            script.push(format!(
                "select r.id, coalesce(j.app, ''), c.run is not null, if(r.origin = 6, r.`of`, null)
                 from (
                     select id, job, origin, `of`
                     from {runs}
                     where id between {} and {last}
                     order by id
                     limit {THIN_LOOK}
                 ) r
                 left join jobs j on j.id = r.job
                 left join {closes} c on c.run = r.id
                 order by r.id",
                self.from.max(first)
            ))
        });
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        let mut found = Vec::new();
        for row in rows.iter().flat_map(|rows| &said[*rows].rows) {
            let whole = row.maybe(3, |row, cell| row.run(cell))?;
            found.push(Found { run: row.run(0)?, app: row.string(1)?, is_closed: row.flag(2)?, whole });
        }
        Ok(found)
    }

    async fn kin(&self, line: &mut Line, at: &Moment, found: &[Found]) -> Result<Kin, Trouble> {
        let mut kin = Kin::default();
        let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(kin) };
        let mut script = Script::new();
        for (home, wholes) in at.days.by_home(found.iter().filter_map(|one| one.whole)) {
            script.push(format!(
                "select id, null from {} where id in ({})",
                Table::Runs.of(home),
                list(&wholes)
            ));
        }
        if let Some(joins) = at.days.beside(Table::Joins, self.day) {
            let (first, last) = (first.run, last.run);
            script.push(format!(
                "select run, first_day, last_day from {joins} where run between {first} and {last}"
            ));
        }
        let mut parts = Script::new();
        for row in line.ask(script).await?.iter().flat_map(|said| &said.rows) {
            let run = row.run(0)?;
            if row.is_null(1) {
                kin.wholes.insert(run);
                continue;
            }
            let (first, last): (u32, u32) = (row.number(1)?, row.number(2)?);
            let days = at.days.rows.keys().copied().filter(|day| (first..=last).contains(day));
            for day in days.filter(|day| at.days.has(*day, Table::Parts)) {
                let closes = Table::Closes.of(at.days.home(day));
                parts.push(format!(
                    "select p.whole, p.run, c.run is not null
                     from {} p
                     left join {closes} c on c.run = p.run
                     where p.whole = {run}",
                    Table::Parts.of(day)
                ));
            }
        }
        for row in line.ask(parts).await?.iter().flat_map(|said| &said.rows) {
            kin.parts.entry(row.run(0)?).or_default().insert(row.run(1)?, row.flag(2)?);
        }
        Ok(kin)
    }

    /// Removes runs with all that became of them, and counts what was there: another node may have been faster.
    async fn remove(&self, line: &mut Line, at: &Moment, chosen: &Chosen) -> Result<(), Trouble> {
        let mut script = Script::transaction();
        let by_day = chosen.by_day();
        at.days.keep_far(&mut script, by_day.keys().copied());
        for (day, runs) in &by_day {
            let (home, ids) = (at.days.home(*day), list(runs));
            script.push(format!("delete from {} where id in ({ids})", Table::Runs.of(home)));
            script.push("set @gone = row_count()");
            script.push(format!(
                "insert into tallies (day, slot, runs, closed)
                 values ({day}, {}, -@gone, -@gone)
                 on duplicate key update runs = runs + values(runs), closed = closed + values(closed)",
                line.slot()
            ));
            script.push(format!("delete from {} where run in ({ids})", Table::Closes.of(home)));
            let beside = Table::ALL.into_iter().filter(|table| !matches!(table, Table::Runs | Table::Closes));
            for table in beside.filter_map(|table| at.days.beside(table, *day)) {
                script.push(format!("delete from {table} where run in ({ids})"));
            }
        }
        note_thinned(&mut script, chosen.apps.iter().map(String::as_str), self.day);
        let days = at.days.watch(&mut script);
        let said = line.ask(script).await?;
        // Else it is rolled back, and asked again.
        at.days.check(&said[days])?;
        line.say("commit").await?;
        Ok(())
    }
}

/// Says that runs of these apps are gone from a day.
pub(super) fn note_thinned<'a>(script: &mut Script, apps: impl IntoIterator<Item = &'a str>, day: u32) {
    script.push_rows(
        "insert into thinned (app_key, day) values ",
        apps.into_iter().map(|app| format!("({}, {})", Sum(app), day + 1)),
        " on duplicate key update day = greatest(day, values(day))",
    );
}

/// Asks what is forgotten of the jobs of runs; the places of the two answers.
pub(super) fn ask_forgotten<'r>(
    script: &mut Script,
    runs: impl IntoIterator<Item = &'r NewRun>,
) -> (usize, Option<usize>) {
    let days = script.push("select value from meta where name = 'pruned_to'");
    let jobs: BTreeSet<JobId> = runs.into_iter().map(|run| run.job).collect();
    // A job that is not there has the empty name for an app.
    let apps = jobs.iter().map(|job| {
        format!(
            "select {job}, day
             from thinned
             where app_key = coalesce((select app_key from jobs where id = {job}), {})",
            Sum("")
        )
    });
    let apps: Vec<String> = apps.collect();
    (days, (!apps.is_empty()).then(|| script.push(apps.join(" union all "))))
}

pub(super) fn read_forgotten(
    said: &[Said],
    (days, jobs): (usize, Option<usize>),
) -> Result<Forgotten, Trouble> {
    let days = said[days].number()?.unwrap_or_default() as u32;
    let mut forgotten = Forgotten { days, jobs: BTreeMap::new() };
    for row in jobs.iter().flat_map(|jobs| &said[*jobs].rows) {
        forgotten.jobs.insert(row.job(0)?, row.number(1)?);
    }
    Ok(forgotten)
}
