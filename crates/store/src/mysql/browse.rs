//! Reading, for people: jobs with their counts, runs with their attempts, page by page.

use std::collections::BTreeSet;

use punctual_core::model::{JobId, Origin, RunId};
use punctual_node::ports::{
    Bucket, Counts, JobFilter, JobView, Page, Revision, RunFilter, RunView, SentRow, StoreError,
};

use super::ask::{Moment, Verb};
use super::code::{DELETED, origin_code, outcome_from, state_from};
use super::day::{FAR, Table};
use super::gate::{SENT_COLUMNS, sent_row};
use super::link::Line;
use super::read::{Record, Said, readable};
use super::text::{PairSum, Quoted, Script, Sum, list, maybe_ms, ms};
use super::trouble::{Trouble, corrupt};
use super::view::{is_in, views};
use crate::row::definition_from_text;

/// How many rows one page looks at before it is handed out as it is, with the place to go on from.
const LOOK_MAX: usize = 50_000;

/// How many rows are looked at in one statement.
const CHUNK: usize = 2_000;

const JOB: &str = "j.id, j.version, j.state, j.reason, j.definition, c.shard, c.next_fire, t.succeeded, t.failed,
                   t.not_run, t.consecutive_failures, t.last_outcome, t.last_success";

const OF_JOB: &str = "jobs j left join clocks c on c.job = j.id left join counts t on t.job = j.id";

/// A job by its id or by its name.
pub(super) enum OneJob<'a> {
    Id(JobId),
    Named(&'a str, &'a str),
}

impl Verb for OneJob<'_> {
    type Answer = Option<JobView>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Option<JobView>, Trouble> {
        let which = match self {
            OneJob::Id(id) => format!("j.id = {id}"),
            OneJob::Named(app, name) => format!("j.name_key = {}", PairSum(app, name)),
        };
        let said = line.say(format!("select {JOB} from {OF_JOB} where {which} and j.state <> {DELETED}")).await?;
        said.first().map(job_view).transpose()
    }
}

fn job_view(row: &Record) -> Result<JobView, Trouble> {
    let id = row.job(0)?;
    let bad = |reason: &str| Trouble::Refused(corrupt("jobs", id, reason));
    let state = state_from(row.int(2)?, &row.string(3)?);
    Ok(JobView {
        id,
        version: row.uint(1)?,
        state: state.ok_or_else(|| bad("no such state"))?,
        definition: definition_from_text(&row.string(4)?).map_err(|reason| bad(&reason))?,
        shard: row.shard(5).map_err(|_| bad("its clock has no shard"))?,
        next_fire: row.maybe(6, Record::at)?,
        counts: counts(row, 7)?,
    })
}

/// Six cells of counts; nothing was counted if they are null.
fn counts(row: &Record, first: usize) -> Result<Counts, Trouble> {
    let number = |cell: usize| Ok::<u64, Trouble>(row.maybe(cell, Record::uint)?.unwrap_or(0));
    Ok(Counts {
        succeeded: number(first)?,
        failed: number(first + 1)?,
        not_run: number(first + 2)?,
        consecutive_failures: number(first + 3)? as u32,
        last_outcome: row.maybe(first + 4, Record::int)?.and_then(outcome_from),
        last_success: row.maybe(first + 5, Record::at)?,
    })
}

/// A page of jobs.
pub(super) struct JobList<'a> {
    pub(super) filter: &'a JobFilter,
    pub(super) after: Option<JobId>,
    pub(super) limit: usize,
}

impl JobList<'_> {
    /// The jobs that the filter lets through as far as columns say.
    fn condition(&self) -> String {
        let mut condition = format!("state <> {DELETED}");
        if let Some(apps) = &self.filter.apps {
            condition += &format!(" and app_key in ({})", list(apps.iter().map(|app| Sum(app))));
        }
        if let Some(enabled) = self.filter.enabled {
            condition += if enabled { " and state = 0" } else { " and state <> 0" };
        }
        condition
    }

    fn is_wanted(&self, view: &JobView) -> bool {
        let definition = &view.definition;
        let has_text = |text: &String| {
            let text = text.to_lowercase();
            definition.name.to_lowercase().contains(&text)
                || definition.description.to_lowercase().contains(&text)
        };
        self.filter.tag.as_ref().is_none_or(|tag| definition.tags.contains(tag))
            && self.filter.text.as_ref().is_none_or(has_text)
    }
}

impl Verb for JobList<'_> {
    type Answer = Page<JobView, JobId>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut after = self.after.map_or(-1, |after| i64::from(after.0));
        let (condition, mut looked_at) = (self.condition(), 0);
        // A filter by text passes over many, a plain page over none.
        let chunk = CHUNK.min(self.limit.saturating_add(1)).max(100);
        loop {
            let said = line
                .say(format!(
                    "select {JOB}
                     from (select * from jobs where id > {after} and {condition} order by id limit {chunk}) j
                     left join clocks c on c.job = j.id
                     left join counts t on t.job = j.id
                     order by j.id"
                ))
                .await?;
            for row in &said.rows {
                after = i64::from(row.job(0)?.0);
                // A row that cannot be read is told about where it is asked for; it does not take the others with it.
                let Some(view) = readable(job_view(row))?.filter(|view| self.is_wanted(view)) else { continue };
                if page.items.len() == self.limit {
                    page.next = page.items.last().map(|last: &JobView| last.id);
                    return Ok(page);
                }
                page.items.push(view);
            }
            looked_at += said.rows.len();
            if said.rows.len() < chunk {
                return Ok(page);
            }
            if looked_at >= LOOK_MAX {
                page.next = u32::try_from(after).ok().map(JobId);
                return Ok(page);
            }
        }
    }
}

/// How many jobs there are and how many of them are enabled, if columns can say it.
pub(super) struct JobTotals<'a>(pub(super) &'a JobFilter);

impl Verb for JobTotals<'_> {
    type Answer = (u64, u64);

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(u64, u64), Trouble> {
        let list = JobList { filter: self.0, after: None, limit: 0 };
        let said = line
            .say(format!("select count(*), coalesce(sum(state = 0), 0) from jobs where {}", list.condition()))
            .await?;
        let row = said.first().ok_or_else(|| StoreError::Unknown("an answer is missing".into()))?;
        Ok((row.uint(0)?, row.uint(1)?))
    }
}

/// The definitions that a job has had.
pub(super) struct Revisions(pub(super) JobId);

impl Verb for Revisions {
    type Answer = Vec<Revision>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<Revision>, Trouble> {
        let job = self.0;
        let said = line
            .say(format!(
                "select version, at, `by`, definition from revisions where job = {job} order by version"
            ))
            .await?;
        let revision = |row: &Record| {
            let definition = definition_from_text(&row.string(3)?);
            Ok(Revision {
                version: row.uint(0)?,
                at: row.at(1)?,
                by: row.text(2)?,
                definition: definition.map_err(|reason| corrupt("revisions", job, reason))?,
            })
        };
        said.rows.iter().map(revision).collect()
    }
}

/// What has become of runs, of one job or of all.
pub(super) struct CountsOf(pub(super) Option<JobId>);

impl Verb for CountsOf {
    type Answer = Counts;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Counts, Trouble> {
        let said = line
            .say(match self.0 {
                Some(job) => format!(
                    "select succeeded, failed, not_run, consecutive_failures, last_outcome, last_success
                     from counts
                     where job = {job}"
                ),
                // Of all jobs together: sums, the longest row of failures, the latest success. How the last of all
                // closed runs ended is not kept.
                None => "select sum(succeeded), sum(failed), sum(not_run), max(consecutive_failures), null,
                                max(last_success)
                         from counts"
                    .to_owned(),
            })
            .await?;
        said.first().map_or(Ok(Counts::default()), |row| counts(row, 0))
    }
}

/// The days that are stored.
pub(super) struct Storage;

impl Verb for Storage {
    type Answer = Vec<Bucket>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<Bucket>, Trouble> {
        let mut script = Script::of(
            "select day, sum(runs), sum(closed) from tallies group by day having sum(runs) > 0 order by day",
        );
        // What the server last knew of its tables, which is near enough.
        let sizes = script.push(
            "select table_name, coalesce(data_length + index_length, 0)
             from information_schema.tables
             where table_schema = database() and table_name regexp '^[a-z]+_[0-9]+$'",
        );
        let said = line.ask(script).await?;
        let mut bytes = std::collections::BTreeMap::new();
        for row in &said[sizes].rows {
            let name = row.string(0)?;
            if let Some(day) = name.rsplit('_').next().and_then(|day| day.parse::<u32>().ok()) {
                *bytes.entry(day).or_default() += row.uint(1)?;
            }
        }
        let bucket = |row: &Record| {
            let day = row.number(0)?;
            let bytes = bytes.get(&day).copied().unwrap_or(0);
            Ok(Bucket { day, runs: row.uint(1)?, closed: row.uint(2)?, bytes })
        };
        said[0].rows.iter().map(bucket).collect()
    }
}

/// The gates of a run.
pub(super) struct SendsOf(pub(super) RunId);

impl Verb for SendsOf {
    type Answer = Vec<SentRow>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<SentRow>, Trouble> {
        let mut script = Script::snapshot();
        let days = at.days.watch(&mut script);
        if let Some(sends) = at.days.beside(Table::Sends, self.0.day()) {
            script.push(format!("select {SENT_COLUMNS} from {sends} where run = {} order by attempt", self.0));
        }
        script.push("commit");
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        said[days + 1..].iter().flat_map(|said| &said.rows).map(sent_row).collect()
    }
}

/// One run, or some.
pub(super) struct RunsById<'a>(pub(super) &'a [RunId]);

impl Verb for RunsById<'_> {
    type Answer = Vec<RunView>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<RunView>, Trouble> {
        let ids: BTreeSet<RunId> = self.0.iter().copied().collect();
        Ok(views(line, at, &ids).await?.into_values().collect())
    }
}

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
    /// The highest runs below a place, of the latest day that has some and of those that lie far ahead.
    async fn chunk(&self, line: &mut Line, at: &Moment, before: RunId) -> Result<Chunk, Trouble> {
        let days = at.days.rows.keys().copied().filter(|day| *day != FAR && *day <= before.day());
        let days: Vec<u32> = days.filter(|day| at.days.has(*day, Table::Runs)).collect();
        let mut found = Vec::new();
        let mut is_first = true;
        for days in days.rchunks(8).map(Some).chain(days.is_empty().then_some(None)) {
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
            if found.len() >= CHUNK || !found.is_empty() {
                break;
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(CHUNK);
        Ok(Chunk {
            lowest: found.last().map(|(run, _)| *run),
            looked_at: found.len(),
            wanted: found.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(run, _)| run).collect(),
        })
    }

    /// The highest runs of one table, each with whether it is wanted: so the server looks at so many and no more.
    fn statement(&self, home: u32, before: RunId) -> String {
        let RunFilter { job, apps, state, from, to, key } = self.filter;
        let mut condition = format!("r.origin <> {}", origin_code(Origin::Part));
        let mut joins = String::new();
        if let Some(job) = job {
            condition += &format!(" and r.job = {job}");
        }
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
            condition += &format!(" and coalesce(j.app_key in ({}), 0)", list(apps.iter().map(|app| Sum(app))));
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
                   where id < {before}
                   order by id desc
                   limit {CHUNK}) r
             {joins}
             order by r.id desc",
            Table::Runs.of(home)
        )
    }
}

fn read_found(said: &Said, found: &mut Vec<(RunId, bool)>) -> Result<(), Trouble> {
    for row in &said.rows {
        found.push((row.run(0)?, row.flag(1)?));
    }
    Ok(())
}
