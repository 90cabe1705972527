//! Reading, for people: jobs with their counts, runs with their attempts, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{JobId, Origin, RunId, ShardId};
use punctual_node::ports::{Bucket, Counts, JobFilter, JobName, JobView, Page, RunFilter, RunView, Soonest};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustc_hash::FxHashMap;

use super::code::{bits, instant, instant_or_none, origin_code, state_from};
use super::day::{Table, has_table};
use super::keeper::counts_of;
use super::reader::Reader;
use super::split::{parts_on, span};
use super::tail::Shared;
use super::trouble::{Trouble, corrupt};
use super::view::{Tables, state_of, tables_of, view};
use crate::StoreClock;
use crate::row::definition_from_text;

/// How many rows one page looks at before it is handed out as it is, with the place to go on from.
const LOOK_MAX: usize = 50_000;

/// For how long a page is looked for, by the store's clock: there are two readers, and others wait for them.
const LOOK_FOR: Duration = Duration::from_millis(60);

/// How many rows are looked at in one snapshot; of runs, under the lock of the closes too.
const CHUNK: usize = 256;

/// Apps with more jobs than these together are large.
const APP_JOBS_MAX: usize = 4_096;

const JOB_COLUMNS: &str =
    "jobs.id, jobs.version, jobs.state, jobs.reason, jobs.definition, clocks.shard, clocks.next_fire";

impl Reader {
    pub(super) fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut patience = Patience::new(&self.clock);
        let mut after = after.map_or(-1, |after| i64::from(after.0));
        loop {
            let transaction = self.conn.unchecked_transaction()?;
            let chunk = jobs_after(&transaction, filter, after)?;
            for id in chunk.wanted {
                // A row that cannot be read is told about where it is asked for; it does not take the others with it.
                let view = match wanted_job(&transaction, filter, id) {
                    Ok(Some(view)) => view,
                    Ok(None) | Err(Trouble::Refused(_)) => continue,
                    Err(error) => return Err(error),
                };
                if page.items.len() == limit {
                    page.next = page.items.last().map(|last: &JobView| last.id);
                    return Ok(page);
                }
                page.items.push(view);
            }
            let Some(highest) = chunk.highest else { return Ok(page) };
            after = highest;
            if patience.is_over(chunk.looked_at) {
                page.next = u32::try_from(highest).ok().map(JobId);
                return Ok(page);
            }
        }
    }

    /// Counted in the index, where apps and states are all there is.
    pub(super) fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), Trouble> {
        let row = |row: &Row<'_>| Ok((bits(row, 0)?, bits(row, 1)?));
        let count = "select count(*), coalesce(sum(state = 0), 0)
                     from jobs indexed by jobs_by_app
                     where state <> 2 and (?1 is null or (state = 0) = ?1)";
        let Some(apps) = &filter.apps else {
            return Ok(self.conn.prepare_cached(count)?.query_row([filter.enabled], row)?);
        };
        let mut select = self.conn.prepare_cached(&format!("{count} and app = ?2"))?;
        let (mut all, mut enabled) = (0, 0);
        for app in apps.iter().collect::<BTreeSet<_>>() {
            let (more, more_enabled) = select.query_row(params![filter.enabled, app], row)?;
            (all, enabled) = (all + more, enabled + more_enabled);
        }
        Ok((all, enabled))
    }

    pub(super) fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut patience = Patience::new(&self.clock);
        let mut place = after.map_or((i64::MIN, -1), |(at, job)| (at.as_millis(), i64::from(job.0)));
        loop {
            let transaction = self.conn.unchecked_transaction()?;
            let chunk = clocks_after(&transaction, place)?;
            for (at, id) in &chunk {
                let view = match wanted_job(&transaction, filter, *id) {
                    Ok(Some(view)) if view.state.is_enabled() => view,
                    Ok(_) | Err(Trouble::Refused(_)) => continue,
                    Err(error) => return Err(error),
                };
                if page.items.len() == limit {
                    page.next = soonest(place);
                    return Ok(page);
                }
                page.items.push(view);
                place = (*at, *id);
            }
            let Some(last) = chunk.last() else { return Ok(page) };
            place = *last;
            if patience.is_over(chunk.len()) {
                page.next = soonest(place);
                return Ok(page);
            }
        }
    }

    pub(super) fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, Trouble> {
        let mut select = self.conn.prepare_cached("select app, name from jobs where id = ?1")?;
        let mut names = Vec::new();
        for id in ids {
            let name = |row: &Row<'_>| Ok(JobName { id: *id, app: row.get(0)?, name: row.get(1)? });
            names.extend(select.query_row([id.0], name).optional()?);
        }
        Ok(names)
    }

    pub(super) fn counts(&self, job: Option<JobId>) -> Result<Counts, Trouble> {
        if let Some(job) = job {
            return Ok(counts_of(&self.conn, job)?);
        }
        // Of all jobs together: sums, the longest row of failures, the latest success. How the last of all closed runs
        // ended is not kept.
        let mut select = self.conn.prepare_cached(
            "select coalesce(sum(succeeded), 0), coalesce(sum(failed), 0), coalesce(sum(not_run), 0),
                    coalesce(max(consecutive_failures), 0), max(last_success)
             from tallies",
        )?;
        let counts = select.query_row([], |row| {
            Ok(Counts {
                succeeded: bits(row, 0)?,
                failed: bits(row, 1)?,
                not_run: bits(row, 2)?,
                consecutive_failures: row.get(3)?,
                last_outcome: None,
                last_success: instant_or_none(row, 4)?,
            })
        })?;
        Ok(counts)
    }

    pub(super) fn storage(&self) -> Result<Vec<Bucket>, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select day, runs, closed, bytes
             from buckets
             order by day",
        )?;
        let row = |row: &Row<'_>| {
            Ok(Bucket { day: row.get(0)?, runs: bits(row, 1)?, closed: bits(row, 2)?, bytes: bits(row, 3)? })
        };
        Ok(select.query_map([], row)?.collect::<rusqlite::Result<_>>()?)
    }

    pub(super) fn run(&self, id: RunId) -> Result<Option<RunView>, Trouble> {
        let (transaction, place) = self.snapshot(|conn, shared| {
            // Any read fixes the snapshot; this one also says whether there is a table to look into.
            Ok(has_bucket(conn, id.day())?.then(|| shared.place(id)))
        })?;
        let Some(place) = place else { return Ok(None) };
        view(&transaction, tables_of(&transaction, id.day())?, id, place)
    }

    pub(super) fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select run
             from keys
             where job = ?1 and key = ?2",
        )?;
        let run = select.query_row(params![job.0, key], |row| Ok(RunId(row.get::<_, i64>(0)? as u64)));
        Ok(run.optional()?)
    }

    pub(super) fn parts(&self, whole: RunId) -> Result<Vec<RunView>, Trouble> {
        // Which parts there are never changes, so they are read before the snapshot that is to be short.
        let parts = parts_of(&self.conn, whole)?;
        let (transaction, days) = self.snapshot(|conn, shared| {
            let mut days: BTreeMap<u32, Vec<(RunId, Option<i64>)>> = BTreeMap::new();
            for (_, id) in &parts {
                days.entry(id.day()).or_default().push((*id, shared.place(*id)));
            }
            // Meanwhile a day may have been dropped.
            let mut there = Vec::new();
            for (day, parts) in days {
                if has_bucket(conn, day)? {
                    there.push((day, parts));
                }
            }
            Ok(there)
        })?;
        let mut views = Vec::new();
        for (day, parts) in days {
            let tables = tables_of(&transaction, day)?;
            for (id, place) in parts {
                // As in lists: one that cannot be read does not take the others with it.
                match view(&transaction, tables, id, place) {
                    Ok(view) => views.extend(view),
                    Err(Trouble::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        views.sort_by_key(|view| (view.part.as_ref().map(|part| part.index), view.id));
        Ok(views)
    }

    pub(super) fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut apps = filter.apps.as_deref().map(|names| Apps::read(&self.conn, names)).transpose()?;
        if let Some(apps) = &mut apps
            && !apps.can_have(&self.conn, filter.job)?
        {
            return Ok(page);
        }
        let mut patience = Patience::new(&self.clock);
        let mut before = before.map_or(i64::MAX, |before| i64::try_from(before.0).unwrap_or(i64::MAX));
        loop {
            let (transaction, chunk) =
                self.snapshot(|conn, shared| chunk_below(conn, shared, filter, before))?;
            let Some(lowest) = chunk.lowest else { return Ok(page) };
            let tables = tables_of(&transaction, lowest.day())?;
            for Found { id, job, place } in chunk.wanted {
                if let Some(apps) = &mut apps
                    && !apps.have(&transaction, job)?
                {
                    continue;
                }
                // As with jobs: one that cannot be read does not take the others with it.
                let view = match wanted_run(&transaction, filter, tables, id, place) {
                    Ok(Some(view)) => view,
                    Ok(None) | Err(Trouble::Refused(_)) => continue,
                    Err(error) => return Err(error),
                };
                if page.items.len() == limit {
                    page.next = page.items.last().map(|last: &RunView| last.id);
                    return Ok(page);
                }
                page.items.push(view);
            }
            before = lowest.0 as i64;
            if patience.is_over(chunk.looked_at) {
                page.next = Some(lowest);
                return Ok(page);
            }
        }
    }
}

/// How long a page goes on. At least one chunk is looked at, so that every page is a step forward.
struct Patience<'c> {
    clock: &'c StoreClock,
    until: Timestamp,
    rows: usize,
}

impl Patience<'_> {
    fn new(clock: &StoreClock) -> Patience<'_> {
        Patience { clock, until: clock().saturating_add(LOOK_FOR), rows: LOOK_MAX }
    }

    /// Whether it is over, after so many more rows.
    fn is_over(&mut self, rows: usize) -> bool {
        self.rows = self.rows.saturating_sub(rows);
        self.rows == 0 || (self.clock)() >= self.until
    }
}

/// Some jobs above a place.
struct Jobs {
    /// Those that the filter lets through as far as app and state say.
    wanted: Vec<i64>,
    /// The last that was looked at; none if there are no more.
    highest: Option<i64>,
    looked_at: usize,
}

fn jobs_after(conn: &Connection, filter: &JobFilter, after: i64) -> rusqlite::Result<Jobs> {
    let states: &[i64] = match filter.enabled {
        None => &[0, 1],
        Some(true) => &[0],
        Some(false) => &[1],
    };
    match &filter.apps {
        _ if filter.is_failing => failing_jobs(conn, after),
        Some(apps) => jobs_of_apps(conn, apps, states, after),
        None => jobs_of_all(conn, states, after),
    }
}

/// Not by SQL alone: where few have the state, one statement would walk over all the others.
fn jobs_of_all(conn: &Connection, states: &[i64], after: i64) -> rusqlite::Result<Jobs> {
    let mut select = conn.prepare_cached(
        "select id, state
         from jobs
         where id > ?1
         order by id
         limit ?2",
    )?;
    let mut rows = select.query([after, CHUNK as i64])?;
    let mut jobs = Jobs { wanted: Vec::new(), highest: None, looked_at: 0 };
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        jobs.highest = Some(id);
        jobs.looked_at += 1;
        if states.contains(&row.get(1)?) {
            jobs.wanted.push(id);
        }
    }
    Ok(jobs)
}

/// Few fail, and their tallies are short rows: one walk over them costs less than looking at every job.
fn failing_jobs(conn: &Connection, after: i64) -> rusqlite::Result<Jobs> {
    let mut select = conn.prepare_cached(
        "select job
         from tallies
         where job > ?1 and consecutive_failures > 0
         order by job
         limit ?2",
    )?;
    let wanted: Vec<i64> =
        select.query_map([after, CHUNK as i64], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok(Jobs { highest: wanted.last().copied(), looked_at: wanted.len(), wanted })
}

/// The lowest of each app and state, of which the lowest of all are among them.
fn jobs_of_apps(conn: &Connection, apps: &[String], states: &[i64], after: i64) -> rusqlite::Result<Jobs> {
    let mut select = conn.prepare_cached(
        "select id
         from jobs indexed by jobs_by_app
         where app = ?1 and state = ?2 and id > ?3
         order by id
         limit ?4",
    )?;
    let mut wanted = Vec::new();
    for app in apps {
        for state in states {
            for id in select.query_map(params![app, state, after, CHUNK as i64], |row| row.get(0))? {
                wanted.push(id?);
            }
        }
    }
    let looked_at = wanted.len();
    wanted.sort_unstable();
    // An app may be named twice.
    wanted.dedup();
    wanted.truncate(CHUNK);
    Ok(Jobs { highest: wanted.last().copied(), wanted, looked_at })
}

/// Some clocks after a place, by their next instant. The index has them in this order, those of one instant by job.
fn clocks_after(conn: &Connection, (at, job): (i64, i64)) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut select = conn.prepare_cached(
        "select next_fire, job
         from clocks indexed by clocks_by_next_fire
         where enabled = 1 and next_fire is not null and next_fire >= ?1 and (next_fire > ?1 or job > ?2)
         order by next_fire, job
         limit ?3",
    )?;
    select.query_map([at, job, CHUNK as i64], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn soonest((at, job): (i64, i64)) -> Option<Soonest> {
    u32::try_from(job).ok().map(|job| (Timestamp::from_millis(at), JobId(job)))
}

/// A job, unless the filter asks for others.
fn wanted_job(conn: &Connection, filter: &JobFilter, id: i64) -> Result<Option<JobView>, Trouble> {
    let Some(view) = job_with(conn, id, filter.text.as_deref())? else { return Ok(None) };
    let view = JobView { counts: counts_of(conn, view.id)?, ..view };
    Ok(filter.takes(&view).then_some(view))
}

/// A job that is not deleted, without its counts, unless its definition cannot hold a text. Reading definitions is what a search
/// costs, and most hold it not.
fn job_with(conn: &Connection, id: i64, text: Option<&str>) -> Result<Option<JobView>, Trouble> {
    let mut select = conn.prepare_cached(&format!(
        "select {JOB_COLUMNS}
         from jobs
         left join clocks on clocks.job = jobs.id
         where jobs.id = ?1 and jobs.state <> 2"
    ))?;
    let mut rows = select.query([id])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if let Some(text) = text
        && !may_hold(row.get_ref(4)?.as_str().unwrap_or_default(), text)
    {
        return Ok(None);
    }
    job_view(row).map(Some)
}

/// Whether a definition may hold a text somewhere, seen as it is written. What JSON writes otherwise may be anywhere.
fn may_hold(definition: &str, text: &str) -> bool {
    let is_escaped = |letter: char| letter == '"' || letter == '\\' || letter.is_control();
    text.contains(is_escaped) || definition.to_lowercase().contains(&text.to_lowercase())
}

/// The apps whose runs are wanted, and which jobs are known to be of them. The jobs of small apps are read at once, as their
/// runs may be far apart and many others lie between. Of large apps a page is soon full, so there a job is looked up when
/// a run of it is met: what a page costs does not grow with the apps.
struct Apps<'f> {
    names: &'f [String],
    known: FxHashMap<i64, bool>,
    /// All their jobs are known.
    is_whole: bool,
}

impl Apps<'_> {
    fn read<'f>(conn: &Connection, names: &'f [String]) -> rusqlite::Result<Apps<'f>> {
        let mut apps = Apps { names, known: FxHashMap::default(), is_whole: true };
        // Deleted ones too.
        let mut select = conn.prepare_cached(
            "select id
             from jobs indexed by jobs_by_app
             where app = ?1
             limit ?2",
        )?;
        for name in names {
            let room = (APP_JOBS_MAX + 1).saturating_sub(apps.known.len());
            let mut rows = select.query(params![name, room as i64])?;
            while let Some(row) = rows.next()? {
                apps.known.insert(row.get(0)?, true);
            }
        }
        apps.is_whole = apps.known.len() <= APP_JOBS_MAX;
        Ok(apps)
    }

    /// Whether there can be any run at all, of this job or of any.
    fn can_have(&mut self, conn: &Connection, job: Option<JobId>) -> rusqlite::Result<bool> {
        match job {
            Some(job) => self.have(conn, i64::from(job.0)),
            None => Ok(!self.known.is_empty()),
        }
    }

    fn have(&mut self, conn: &Connection, job: i64) -> rusqlite::Result<bool> {
        if let Some(is_of) = self.known.get(&job) {
            return Ok(*is_of);
        }
        if self.is_whole {
            return Ok(false);
        }
        let mut select = conn.prepare_cached("select app from jobs where id = ?1")?;
        let app: Option<String> = select.query_row([job], |row| row.get(0)).optional()?;
        let is_of = app.is_some_and(|app| self.names.contains(&app));
        self.known.insert(job, is_of);
        Ok(is_of)
    }
}

/// Some runs below a place, of one day.
struct Chunk {
    /// Those that the filter lets through as far as their rows say.
    wanted: Vec<Found>,
    /// The last that was looked at; none if there are no more.
    lowest: Option<RunId>,
    looked_at: usize,
}

/// A run, and where its close lies if that is not indexed.
struct Found {
    id: RunId,
    job: i64,
    place: Option<i64>,
}

/// The parts of a run, with their indexes.
fn parts_of(conn: &Connection, whole: RunId) -> rusqlite::Result<Vec<(i64, RunId)>> {
    // In one snapshot, or tables could go after they were seen.
    let transaction = conn.unchecked_transaction()?;
    if !has_table(&transaction, Table::Joins, whole.day())? {
        return Ok(Vec::new());
    }
    let Some((first, last)) = span(&transaction, whole)? else { return Ok(Vec::new()) };
    let mut select = transaction.prepare_cached(
        "select day
         from buckets
         where day between ?1 and ?2",
    )?;
    let mut days = select.query([first.day(), last.day()])?;
    let mut parts = Vec::new();
    while let Some(row) = days.next()? {
        let day = row.get(0)?;
        if has_table(&transaction, Table::Parts, day)? {
            parts.extend(parts_on(&transaction, day, whole)?);
        }
    }
    Ok(parts)
}

fn chunk_below(
    conn: &Connection,
    shared: &Shared,
    filter: &RunFilter,
    before: i64,
) -> rusqlite::Result<Chunk> {
    let mut chunk = Chunk { wanted: Vec::new(), lowest: None, looked_at: 0 };
    let mut select = conn.prepare_cached(
        "select day
         from buckets
         where day <= ?1
           and (?2 is null or last_fire is null or last_fire >= ?2)
           and (?3 is null or first_fire is null or first_fire < ?3)
         order by day desc",
    )?;
    let [from, to] = [filter.from, filter.to].map(|at| at.map(Timestamp::as_millis));
    let mut days = select.query(params![RunId(before as u64).day(), from, to])?;
    while let Some(day) = days.next()? {
        let mut select = conn.prepare_cached(&runs_below(day.get(0)?, filter.job.is_some()))?;
        let mut rows = match filter.job {
            Some(job) => select.query([before, CHUNK as i64, i64::from(job.0)])?,
            None => select.query([before, CHUNK as i64])?,
        };
        while let Some(row) = rows.next()? {
            let id = RunId(bits(row, 0)?);
            chunk.lowest = Some(id);
            chunk.looked_at += 1;
            if is_wanted_run(row, filter)? {
                chunk.wanted.push(Found { id, job: row.get(1)?, place: shared.place(id) });
            }
        }
        if chunk.lowest.is_some() {
            break;
        }
    }
    Ok(chunk)
}

/// The highest runs of a day below a place, of one job or of all. What is asked for comes before the payload, so no payload is
/// read for it.
fn runs_below(day: u32, is_of_job: bool) -> String {
    let (index, condition) = match is_of_job {
        true => (format!("indexed by runs_{day}_job"), "and job = ?3"),
        false => (String::new(), ""),
    };
    format!(
        "select id, job, fire_time, key, origin
         from runs_{day} {index}
         where id < ?1 {condition}
         order by id desc
         limit ?2"
    )
}

fn is_wanted_run(row: &Row<'_>, filter: &RunFilter) -> rusqlite::Result<bool> {
    let (job, fire_time): (i64, _) = (row.get(1)?, instant(row, 2)?);
    let is_keyed = match &filter.key {
        Some(key) => row.get_ref(3)?.as_str_or_null().ok().flatten() == Some(key.as_str()),
        None => true,
    };
    Ok(row.get::<_, i64>(4)? != origin_code(Origin::Part)
        && filter.job.is_none_or(|wanted| i64::from(wanted.0) == job)
        && filter.from.is_none_or(|from| from <= fire_time)
        && filter.to.is_none_or(|to| fire_time < to)
        && is_keyed)
}

/// A job from [`JOB_COLUMNS`], without its counts.
fn job_view(row: &Row<'_>) -> Result<JobView, Trouble> {
    let number: i64 = row.get(0)?;
    let bad = |reason: &str| Trouble::from(corrupt("jobs", number, reason));
    let id = JobId(u32::try_from(number).map_err(|_| bad("no such id"))?);
    let shard = row.get::<_, Option<i64>>(5)?.and_then(|shard| u16::try_from(shard).ok());
    let state = state_from(row.get(2)?, &row.get::<_, String>(3)?);
    Ok(JobView {
        id,
        version: bits(row, 1)?,
        state: state.ok_or_else(|| bad("no such state"))?,
        definition: definition_from_text(&row.get::<_, String>(4)?).map_err(|reason| bad(&reason))?,
        next_fire: instant_or_none(row, 6)?,
        shard: ShardId(shard.ok_or_else(|| bad("its clock has no shard"))?),
        counts: Counts::default(),
    })
}

/// A run, unless it is in another state than the filter asks for.
fn wanted_run(
    conn: &Connection,
    filter: &RunFilter,
    tables: Tables,
    id: RunId,
    place: Option<i64>,
) -> Result<Option<RunView>, Trouble> {
    match filter.state {
        Some(state) if state != state_of(conn, tables, id, place)? => Ok(None),
        _ => view(conn, tables, id, place),
    }
}

fn has_bucket(conn: &Connection, day: u32) -> rusqlite::Result<bool> {
    conn.prepare_cached("select 1 from buckets where day = ?1")?.exists([day])
}
