//! Pages of runs, for people: highest id first, whatever they are filtered by.

use punctual_core::model::{Origin, RunId};
use punctual_node::ports::{Page, RunFilter, RunView};

use super::ask::{Moment, Verb};
use super::browse::{CHUNK, LOOK_MAX};
use super::day::{FAR, Table};
use super::link::Line;
use super::read::Said;
use super::text::{Quoted, Script, Sum, list, maybe_ms, ms};
use super::trouble::Trouble;
use super::view::{is_in, views};
use crate::code::origin_code;

/// How many days are looked at in one round trip.
const DAYS_AT_ONCE: usize = 4;

/// A page of runs.
pub(super) struct RunList<'a> {
    pub(super) filter: &'a RunFilter,
    pub(super) before: Option<RunId>,
    pub(super) limit: usize,
}

/// Some runs below a place.
struct Chunk {
    /// Those that the filter lets through, highest first.
    wanted: Vec<RunId>,
    /// The last that was looked at; none if there are no more.
    lowest: Option<RunId>,
    looked_at: usize,
}

impl Verb for RunList<'_> {
    type Answer = Page<RunView, RunId>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Self::Answer, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut before = self.before.unwrap_or(RunId(u64::MAX >> 1));
        let mut looked_at = 0;
        loop {
            let chunk = self.chunk(line, at, before).await?;
            let Some(lowest) = chunk.lowest else { return Ok(page) };
            let room = self.limit.saturating_add(1) - page.items.len();
            for ids in chunk.wanted[..chunk.wanted.len().min(room)].chunks(200) {
                let found = views(line, at, &ids.iter().copied().collect()).await?;
                page.items.extend(found.into_values().rev());
            }
            if page.items.len() > self.limit {
                page.items.truncate(self.limit);
                page.next = page.items.last().map(|last| last.id);
                return Ok(page);
            }
            before = lowest;
            looked_at += chunk.looked_at;
            if looked_at >= LOOK_MAX {
                page.next = Some(lowest);
                return Ok(page);
            }
        }
    }
}

impl RunList<'_> {
    /// How many rows one statement looks at: a filter passes over many, a plain page over none.
    fn chunk_len(&self) -> usize {
        let is_plain = RunFilter { job: None, ..self.filter.clone() } == RunFilter::default();
        if is_plain { self.limit.saturating_add(20).min(CHUNK) } else { CHUNK }
    }

    /// The highest runs below a place, of the latest days that have some and of those that lie far ahead.
    async fn chunk(&self, line: &mut Line, at: &Moment, before: RunId) -> Result<Chunk, Trouble> {
        let days = at.days.rows.keys().copied().filter(|day| *day != FAR && *day <= before.day());
        let days: Vec<u32> = days.filter(|day| at.days.has(*day, Table::Runs)).collect();
        let mut found = Vec::new();
        let mut is_first = true;
        for days in days.rchunks(DAYS_AT_ONCE).map(Some).chain(days.is_empty().then_some(None)) {
            // Far ones are asked for with the first few days, and then no more.
            let far = is_first.then_some(FAR);
            is_first = false;
            let homes: Vec<u32> = far.into_iter().chain(days.into_iter().flatten().rev().copied()).collect();
            let mut script = Script::snapshot();
            let watch = at.days.watch(&mut script);
            for home in &homes {
                script.push(self.statement(*home, before));
            }
            script.push("commit");
            let said = line.ask(script).await?;
            at.days.check(&said[watch])?;
            for said in &said[watch + 1..] {
                read_found(said, &mut found)?;
            }
            if !found.is_empty() {
                break;
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(self.chunk_len());
        Ok(Chunk {
            lowest: found.last().map(|(run, _)| *run),
            looked_at: found.len(),
            wanted: found.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(run, _)| run).collect(),
        })
    }

    /// The highest runs of one table, each with whether it is wanted: so the server looks at so many and no more.
    pub(super) fn statement(&self, home: u32, before: RunId) -> String {
        let RunFilter { job, apps, state, from, to, key } = self.filter;
        let mut condition = format!("r.origin <> {}", origin_code(Origin::Part));
        let mut joins = String::new();
        // By the job's index, and not through the runs of all others.
        let of_job = job.map(|job| format!("and job = {job}")).unwrap_or_default();
        if let Some(from) = from {
            condition += &format!(" and r.fire_time >= {}", ms(*from));
        }
        if to.is_some() {
            condition += &format!(" and r.fire_time < {}", maybe_ms(*to));
        }
        let key_column = if key.is_some() { ", key_text" } else { "" };
        if let Some(key) = key {
            // Byte by byte: the collation would pass over spaces at the end.
            condition += &format!(" and cast(r.key_text as binary) = cast({} as binary)", Quoted(key));
        }
        if let Some(apps) = apps {
            // A deleted job is still of its app; a run of a job that never was is of none.
            joins += "left join jobs j on j.id = r.job ";
            condition +=
                &format!(" and coalesce(j.app_key in ({}), 0)", list(apps.iter().map(|app| Sum(app))));
        }
        if let Some(state) = state {
            joins += &format!(
                "left join {} c on c.run = r.id left join waiting w on w.run = r.id left join flights f on f.run = r.id ",
                Table::Closes.of(home)
            );
            condition += &format!(" and {}", is_in(*state));
        }
        format!(
            "select r.id, coalesce({condition}, 0)
             from (select id, job, origin, fire_time{key_column}
                   from {}
                   where id < {before} {of_job}
                   order by id desc
                   limit {}) r
             {joins}
             order by r.id desc",
            Table::Runs.of(home),
            self.chunk_len()
        )
    }
}

fn read_found(said: &Said, found: &mut Vec<(RunId, bool)>) -> Result<(), Trouble> {
    for row in &said.rows {
        found.push((row.run(0)?, row.flag(1)?));
    }
    Ok(())
}
