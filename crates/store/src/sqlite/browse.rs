//! Reading, for people: jobs with their counts, runs with their attempts, page by page.

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, JobId, LogId, Outcome, Payload, RunId, RunState, ShardId, Text, Token,
};
use punctual_node::ports::{
    AttemptRow, Bucket, Counts, JobFilter, JobView, Page, Revision, RunFilter, RunView,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::code::{
    attempt_outcome_from, bits, decided_from, instant, instant_or_none, origin_from, outcome_from, state_from,
};
use super::keeper::counts_of;
use super::layer::indexed_close;
use super::reader::Reader;
use super::tail::Shared;
use super::trouble::{Trouble, corrupt};
use crate::row::definition_from_text;

/// How many rows one page looks at before it is handed out as it is, with the place to go on from.
const LOOK_MAX: usize = 50_000;

/// How many runs are looked at under the lock of the closes.
const CHUNK: usize = 256;

const JOB_COLUMNS: &str =
    "jobs.id, jobs.version, jobs.state, jobs.reason, jobs.definition, clocks.shard, clocks.next_fire";

impl Reader {
    pub(super) fn job(&self, id: JobId) -> Result<Option<JobView>, Trouble> {
        let mut select = self.conn.prepare_cached(&format!(
            "select {JOB_COLUMNS}
             from jobs
             left join clocks on clocks.job = jobs.id
             where jobs.id = ?1 and jobs.state <> 2"
        ))?;
        let mut rows = select.query([id.0])?;
        rows.next()?.map(|row| job_view(&self.conn, row)).transpose()
    }

    pub(super) fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, Trouble> {
        let mut select = self.conn.prepare_cached(&format!(
            "select {JOB_COLUMNS}
             from jobs
             left join clocks on clocks.job = jobs.id
             where jobs.app = ?1 and jobs.name = ?2 and jobs.state <> 2"
        ))?;
        let mut rows = select.query([app, name])?;
        rows.next()?.map(|row| job_view(&self.conn, row)).transpose()
    }

    pub(super) fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, Trouble> {
        let mut select = self.conn.prepare_cached(&format!(
            "select {JOB_COLUMNS}
             from jobs
             left join clocks on clocks.job = jobs.id
             where jobs.id > ?1 and jobs.state <> 2 and (?2 is null or jobs.app = ?2)
             order by jobs.id"
        ))?;
        let mut rows = select.query(params![after.map_or(-1, |after| i64::from(after.0)), filter.app])?;
        let mut page = Page { items: Vec::new(), next: None };
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            // A row that cannot be read is told about where it is asked for; it does not take the others with it.
            let Ok(view) = job_view(&self.conn, row) else { continue };
            looked_at += 1;
            if is_wanted_job(&view, filter) {
                if page.items.len() == limit {
                    page.next = page.items.last().map(|last: &JobView| last.id);
                    break;
                }
                page.items.push(view);
            } else if looked_at >= LOOK_MAX {
                page.next = Some(view.id);
                break;
            }
        }
        Ok(page)
    }

    pub(super) fn revisions(&self, job: JobId) -> Result<Vec<Revision>, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select version, at, by, definition
             from revisions
             where job = ?1
             order by version",
        )?;
        let mut rows = select.query([job.0])?;
        let mut revisions = Vec::new();
        while let Some(row) = rows.next()? {
            let definition = definition_from_text(&row.get::<_, String>(3)?);
            revisions.push(Revision {
                version: bits(row, 0)?,
                at: instant(row, 1)?,
                by: row.get::<_, String>(2)?.into(),
                definition: definition.map_err(|reason| corrupt("revisions", i64::from(job.0), reason))?,
            });
        }
        Ok(revisions)
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
        view(&transaction, id, place)
    }

    pub(super) fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, Trouble> {
        let mut page = Page { items: Vec::new(), next: None };
        let mut before = before.map_or(i64::MAX, |before| i64::try_from(before.0).unwrap_or(i64::MAX));
        let mut looked_at = 0;
        loop {
            let (transaction, chunk) =
                self.snapshot(|conn, shared| chunk_below(conn, shared, filter, before))?;
            for (id, place) in &chunk.wanted {
                // As with jobs: one that cannot be read does not take the others with it.
                let view = match wanted_view(&transaction, filter, *id, *place) {
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
            let Some(lowest) = chunk.lowest else { return Ok(page) };
            before = lowest.0 as i64;
            looked_at += chunk.looked_at;
            if looked_at >= LOOK_MAX {
                page.next = Some(lowest);
                return Ok(page);
            }
        }
    }
}

/// Some runs below a place, of one day.
struct Chunk {
    /// Those that the filter lets through as far as their rows say, and where their closes lie if that is not indexed.
    wanted: Vec<(RunId, Option<i64>)>,
    /// The last that was looked at; none if there are no more.
    lowest: Option<RunId>,
    looked_at: usize,
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
         order by day desc",
    )?;
    let mut days = select.query([RunId(before as u64).day()])?;
    while let Some(day) = days.next()? {
        // The key comes after short columns only, so no payload is read for it.
        let mut select = conn.prepare_cached(&format!(
            "select id, job, fire_time, key
             from runs_{}
             where id < ?1
             order by id desc
             limit ?2",
            day.get::<_, u32>(0)?
        ))?;
        let mut rows = select.query([before, CHUNK as i64])?;
        while let Some(row) = rows.next()? {
            let id = RunId(bits(row, 0)?);
            chunk.lowest = Some(id);
            chunk.looked_at += 1;
            if is_wanted_run(row, filter)? {
                chunk.wanted.push((id, shared.place(id)));
            }
        }
        if chunk.lowest.is_some() {
            break;
        }
    }
    Ok(chunk)
}

fn is_wanted_run(row: &Row<'_>, filter: &RunFilter) -> rusqlite::Result<bool> {
    let (job, fire_time): (i64, _) = (row.get(1)?, instant(row, 2)?);
    let is_keyed = match &filter.key {
        Some(key) => row.get_ref(3)?.as_str_or_null().ok().flatten() == Some(key.as_str()),
        None => true,
    };
    Ok(filter.job.is_none_or(|wanted| i64::from(wanted.0) == job)
        && filter.from.is_none_or(|from| from <= fire_time)
        && filter.to.is_none_or(|to| fire_time < to)
        && is_keyed)
}

fn is_wanted_job(view: &JobView, filter: &JobFilter) -> bool {
    let definition = &view.definition;
    let has_text = |text: &String| {
        let text = text.to_lowercase();
        definition.name.to_lowercase().contains(&text)
            || definition.description.to_lowercase().contains(&text)
    };
    filter.app.as_ref().is_none_or(|app| *app == definition.app)
        && filter.tag.as_ref().is_none_or(|tag| definition.tags.contains(tag))
        && filter.text.as_ref().is_none_or(has_text)
        && filter.enabled.is_none_or(|enabled| enabled == view.state.is_enabled())
}

fn job_view(conn: &Connection, row: &Row<'_>) -> Result<JobView, Trouble> {
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
        counts: counts_of(conn, id)?,
    })
}

/// The end of a run as it is kept.
struct End {
    outcome: Outcome,
    reason: Text,
    closed_at: Timestamp,
    range: Option<(Timestamp, u64)>,
    attempt: Option<AttemptRecord>,
}

/// What a run waits for.
struct Wait {
    ready_at: Option<Timestamp>,
    attempt: Attempt,
}

fn view(conn: &Connection, id: RunId, place: Option<i64>) -> Result<Option<RunView>, Trouble> {
    let mut select = conn.prepare_cached(&format!(
        "select job, shard, fire_time, due, origin, decided, priority, key, of, payload
         from runs_{}
         where id = ?1",
        id.day()
    ))?;
    let mut rows = select.query([id.0 as i64])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let end = end_of(conn, id, place)?;
    let wait = wait_of(conn, id)?;
    let attempts = attempts_of(conn, id, end.as_ref())?;
    let is_gated = attempts.iter().any(|(_, is_gated)| *is_gated);
    let state = state(end.as_ref().map(|end| end.outcome), wait.as_ref(), is_gated);
    let bad = |reason: &str| corrupt("runs", id.0 as i64, reason);
    let small = |column: usize| row.get::<_, i64>(column);
    decided_from(small(5)?).ok_or_else(|| bad("no such decision"))?;
    Ok(Some(RunView {
        id,
        job: JobId(u32::try_from(small(0)?).map_err(|_| bad("no such job"))?),
        shard: ShardId(u16::try_from(small(1)?).map_err(|_| bad("no such shard"))?),
        fire_time: instant(row, 2)?,
        due: instant(row, 3)?,
        origin: origin_from(small(4)?).ok_or_else(|| bad("no such origin"))?,
        state,
        closed_at: end.as_ref().map(|end| end.closed_at),
        range: end.as_ref().and_then(|end| end.range),
        reason: end.map(|end| end.reason).unwrap_or_default(),
        priority: u8::try_from(small(6)?).map_err(|_| bad("no such priority"))?,
        payload: row.get::<_, Option<String>>(9)?.map(Payload::from),
        key: row.get::<_, Option<String>>(7)?.map(Text::from),
        of: row.get::<_, Option<i64>>(8)?.map(|of| RunId(of as u64)),
        ready_at: wait.and_then(|wait| wait.ready_at),
        attempts: attempts.into_iter().map(|(row, _)| row).collect(),
    }))
}

/// A run, unless it is in another state than the filter asks for.
fn wanted_view(
    conn: &Connection,
    filter: &RunFilter,
    id: RunId,
    place: Option<i64>,
) -> Result<Option<RunView>, Trouble> {
    match filter.state {
        Some(state) if state != state_of(conn, id, place)? => Ok(None),
        _ => view(conn, id, place),
    }
}

fn state_of(conn: &Connection, id: RunId, place: Option<i64>) -> Result<RunState, Trouble> {
    let end = end_of(conn, id, place)?.map(|end| end.outcome);
    let wait = wait_of(conn, id)?;
    let is_gated = end.is_none() && wait.is_none() && !gates_of(conn, id)?.is_empty();
    Ok(state(end, wait.as_ref(), is_gated))
}

fn state(end: Option<Outcome>, wait: Option<&Wait>, is_gated: bool) -> RunState {
    match (end, wait) {
        (Some(outcome), _) => outcome.into(),
        (None, Some(wait)) if wait.attempt > Attempt::FIRST => RunState::Retrying,
        (None, Some(_)) => RunState::Pending,
        (None, None) if is_gated => RunState::Running,
        (None, None) => RunState::Pending,
    }
}

fn end_of(conn: &Connection, id: RunId, place: Option<i64>) -> Result<Option<End>, Trouble> {
    let number = id.day();
    if !has_table(conn, &format!("closes_{number}"))? {
        return Ok(None);
    }
    let place = match place {
        Some(place) => Some(place),
        None => indexed_close(conn, id)?,
    };
    let Some(place) = place else { return Ok(None) };
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate,
                outcome, reason, closed_at, range_until, range_count
         from closes_{number}
         where place = ?1"
    ))?;
    let mut rows = select.query([place])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let outcome = outcome_from(row.get(8)?);
    let attempt = match row.get::<_, Option<u32>>(0)? {
        Some(_) => Some(record(row, number)?),
        None => None,
    };
    Ok(Some(End {
        outcome: outcome.ok_or_else(|| corrupt("closes", place, "no such outcome"))?,
        reason: row.get::<_, String>(9)?.into(),
        closed_at: instant(row, 10)?,
        range: instant_or_none(row, 11)?.zip(row.get::<_, Option<i64>>(12)?.map(|count| count as u64)),
        attempt,
    }))
}

/// An attempt from the first eight columns of a row.
fn record(row: &Row<'_>, day: u32) -> Result<AttemptRecord, Trouble> {
    let outcome = attempt_outcome_from(row.get(5)?);
    Ok(AttemptRecord {
        number: Attempt(row.get(0)?),
        token: Token(bits(row, 1)?),
        executor: row.get::<_, String>(2)?.into(),
        started_at: instant(row, 3)?,
        ended_at: instant(row, 4)?,
        outcome: outcome.ok_or_else(|| corrupt("attempts", i64::from(day), "no such outcome"))?,
        message: row.get::<_, String>(6)?.into(),
        possible_duplicate: row.get(7)?,
    })
}

fn wait_of(conn: &Connection, id: RunId) -> rusqlite::Result<Option<Wait>> {
    let mut select = conn.prepare_cached(
        "select ready_at, attempt
         from waiting
         where run = ?1",
    )?;
    let read = |row: &Row<'_>| Ok(Wait { ready_at: instant_or_none(row, 0)?, attempt: Attempt(row.get(1)?) });
    select.query_row([id.0 as i64], read).optional()
}

/// The attempts of a run, oldest first, each with whether it is one of a gate.
fn attempts_of(conn: &Connection, id: RunId, end: Option<&End>) -> Result<Vec<(AttemptRow, bool)>, Trouble> {
    let mut ended = Vec::from_iter(end.and_then(|end| end.attempt.clone()));
    let number = id.day();
    if has_table(conn, &format!("attempts_{number}"))? {
        let mut select = conn.prepare_cached(&format!(
            "select attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate
             from attempts_{number}
             where run = ?1"
        ))?;
        let mut rows = select.query([id.0 as i64])?;
        while let Some(row) = rows.next()? {
            let record = record(row, number)?;
            // The last word about an attempt is the one in the close.
            if ended.iter().all(|last| last.number != record.number) {
                ended.push(record);
            }
        }
    }
    let gates = gates_of(conn, id)?;
    let is_gated = |number: Attempt| gates.iter().any(|(gated, _)| *gated == number);
    let has_ended = |number: Attempt| ended.iter().any(|record| record.number == number);
    let open = gates.iter().filter(|(number, _)| !has_ended(*number));
    let mut rows: Vec<(Attempt, AttemptRow, bool)> =
        open.map(|(number, row)| (*number, row.clone(), true)).collect();
    rows.extend(ended.iter().map(|end| (end.number, AttemptRow::Ended(end.clone()), is_gated(end.number))));
    rows.sort_by_key(|(number, _, _)| *number);
    Ok(rows.into_iter().map(|(_, row, is_gated)| (row, is_gated)).collect())
}

fn gates_of(conn: &Connection, id: RunId) -> rusqlite::Result<Vec<(Attempt, AttemptRow)>> {
    let table = format!("sends_{}", id.day());
    if !has_table(conn, &table)? {
        return Ok(Vec::new());
    }
    let mut select = conn.prepare_cached(&format!(
        "select attempt, token, log, sent_at, executor
         from {table}
         where run = ?1
         order by attempt"
    ))?;
    let read = |row: &Row<'_>| {
        let number = Attempt(row.get(0)?);
        let open = AttemptRow::Open {
            number,
            token: Token(bits(row, 1)?),
            log: LogId(bits(row, 2)?),
            started_at: instant(row, 3)?,
            executor: row.get::<_, String>(4)?.into(),
        };
        Ok((number, open))
    };
    select.query_map([id.0 as i64], read)?.collect()
}

fn has_bucket(conn: &Connection, day: u32) -> rusqlite::Result<bool> {
    conn.prepare_cached("select 1 from buckets where day = ?1")?.exists([day])
}

fn has_table(conn: &Connection, table: &str) -> rusqlite::Result<bool> {
    let mut select = conn.prepare_cached(
        "select 1
         from sqlite_schema
         where type = 'table' and name = ?1",
    )?;
    select.exists([table])
}
