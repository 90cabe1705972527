//! Reading, for people: jobs with their counts, runs with their attempts, page by page.

use std::collections::BTreeSet;

use punctual_core::model::{JobId, RunId};
use punctual_node::ports::{
    Bucket, Counts, JobFilter, JobName, JobView, Page, RunView, SentRow, Soonest, StoreError,
};

use super::ask::{Moment, Verb};
use super::day::Table;
use super::gate::SENT_COLUMNS;
use super::link::Line;
use super::read::{Record, readable};
use super::text::{Script, Sum, list};
use super::trouble::Trouble;
use super::view::views;
use crate::code::DELETED;
use crate::rows::{counts, job_view, sent_row};

/// How many rows one page looks at before it is handed out as it is, with the place to go on from.
pub(super) const LOOK_MAX: usize = 50_000;

/// How many rows are looked at in one statement.
pub(super) const CHUNK: usize = 2_000;

const JOB: &str =
    "j.id, j.version, j.state, j.reason, j.definition, c.shard, c.next_fire, t.succeeded, t.failed,
                   t.not_run, t.consecutive_failures, t.last_outcome, t.last_success";

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
        if self.filter.is_failing {
            condition += " and id in (select job from counts where consecutive_failures > 0)";
        }
        if let Some(enabled) = self.filter.enabled {
            condition += if enabled { " and state = 0" } else { " and state <> 0" };
        }
        condition
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
                let Some(view) = readable(job_view(row))?.filter(|view| self.filter.takes(view)) else {
                    continue;
                };
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

/// A page of enabled jobs by their next instant.
pub(super) struct SoonestJobs<'a> {
    pub(super) filter: &'a JobFilter,
    pub(super) after: Option<Soonest>,
    pub(super) limit: usize,
}

impl Verb for SoonestJobs<'_> {
    type Answer = Page<JobView, Soonest>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut place = self.after.map_or((i64::MIN, -1), |(at, job)| (at.as_millis(), i64::from(job.0)));
        let next = |(at, job): (i64, i64)| {
            u32::try_from(job).ok().map(|job| (calendar::Timestamp::from_millis(at), JobId(job)))
        };
        let chunk = CHUNK.min(self.limit.saturating_add(1)).max(100);
        let mut looked_at = 0;
        loop {
            let (at, job) = place;
            let said = line
                .say(format!(
                    "select {JOB}
                     from (select job, shard, next_fire, due_at
                           from clocks
                           where due_at >= {at} and (due_at > {at} or job > {job})
                           order by due_at, job
                           limit {chunk}) c
                     join jobs j on j.id = c.job
                     left join counts t on t.job = j.id
                     order by c.due_at, c.job"
                ))
                .await?;
            for row in &said.rows {
                let here = (row.at(6)?.as_millis(), i64::from(row.job(0)?.0));
                let wanted = readable(job_view(row))?.filter(|view| self.filter.takes(view));
                if let Some(view) = wanted.filter(|view| view.state.is_enabled()) {
                    if page.items.len() == self.limit {
                        page.next = next(place);
                        return Ok(page);
                    }
                    page.items.push(view);
                }
                place = here;
            }
            looked_at += said.rows.len();
            if said.rows.len() < chunk {
                return Ok(page);
            }
            if looked_at >= LOOK_MAX {
                page.next = next(place);
                return Ok(page);
            }
        }
    }
}

/// What some jobs are called.
pub(super) struct JobNames<'a>(pub(super) &'a [JobId]);

impl Verb for JobNames<'_> {
    type Answer = Vec<JobName>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let said =
            line.say(format!("select id, app, name from jobs where id in ({})", list(self.0.iter()))).await?;
        let name = |row: &Record| Ok(JobName { id: row.job(0)?, app: row.string(1)?, name: row.string(2)? });
        said.rows.iter().map(name).collect()
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
        let mut script =
            Script::of("select day, sum(runs), sum(closed) from tallies group by day order by day");
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
            script
                .push(format!("select {SENT_COLUMNS} from {sends} where run = {} order by attempt", self.0));
        }
        script.push("commit");
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        said[days + 1..].iter().flat_map(|said| &said.rows).map(sent_row).collect()
    }
}

/// The run that a key of a job belongs to.
pub(super) struct RunKeyed<'a> {
    pub(super) job: JobId,
    pub(super) key: &'a str,
}

impl Verb for RunKeyed<'_> {
    type Answer = Option<RunId>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Option<RunId>, Trouble> {
        let RunKeyed { job, key } = self;
        let said =
            line.say(format!("select run from `keys` where job = {job} and name_key = {}", Sum(key))).await?;
        said.rows.first().map(|row| Ok(RunId(row.uint(0)?))).transpose()
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
