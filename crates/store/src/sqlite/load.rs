//! Loading: what a holder has to fire, what it has to adopt, and whole runs for sends.
//!
//! Open runs are found in three places: in the due tail, in the due indexes of the days, and among those that wait. Each
//! is in the order of loading, so they are merged as they are read, and no more is read than is asked for.

use std::slice::Iter;

use calendar::Timestamp;
use punctual_core::model::{Attempt, JobId, LogId, Origin, Payload, RunId, ShardId, Text, Token};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Adopted, Lease, Loaded, OpenRuns, OpenSend, RunRow, Unpark, Waiting};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use rustc_hash::FxHashSet;

use super::births::{Birth, Entry, Place};
use super::code::{bits, instant, instant_or_none};
use super::day::{Day, Days, Table};
use super::keeper::{Keeper, Side};
use super::known::Bit;
use super::layer::{unpack_births, unreadable};
use super::run_row::{Brings, read_run, select_run};
use super::split::{join_of, part_of};
use super::trouble::Trouble;

/// Where the next open run may be found.
enum Source<'s> {
    Tail(Iter<'s, Entry>),
    Index(Layer<'s>),
    Waiting(Rows<'s>),
}

/// A layer of the due index of a day, from a place on.
struct Layer<'s> {
    day: u32,
    blocks: Rows<'s>,
    from: Place,
    until: Place,
    entries: std::vec::IntoIter<Entry>,
}

impl Layer<'_> {
    fn next(&mut self) -> Result<Option<Entry>, Trouble> {
        loop {
            match self.entries.find(|(place, _)| *place >= self.from) {
                Some(entry) if entry.0 < self.until => return Ok(Some(entry)),
                Some(_) => return Ok(None),
                None => {}
            }
            let Some(row) = self.blocks.next()? else { return Ok(None) };
            let entries = unpack_births(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?);
            self.entries = entries.ok_or_else(|| unreadable(self.day))?.into_iter();
        }
    }
}

/// What was found there.
enum Found {
    Birth(Birth),
    /// A run that waits, for this attempt.
    Waiting {
        attempt: Attempt,
        is_called_back: bool,
    },
    /// A row that no version of this program wrote.
    Unreadable,
}

/// A source with its next entry.
struct Head<'s> {
    source: Source<'s>,
    next: Option<(Place, Found)>,
}

impl<'s> Head<'s> {
    fn new(source: Source<'s>) -> Result<Head<'s>, Trouble> {
        let mut head = Head { source, next: None };
        head.advance()?;
        Ok(head)
    }

    fn advance(&mut self) -> Result<(), Trouble> {
        self.next = match &mut self.source {
            Source::Tail(entries) => entries.next().map(|(place, birth)| (*place, Found::Birth(*birth))),
            Source::Index(layer) => layer.next()?.map(|(place, birth)| (place, Found::Birth(birth))),
            Source::Waiting(rows) => rows.next()?.map(waited).transpose()?,
        };
        Ok(())
    }
}

/// The layer is part of the text, so that the statements of all layers can be kept side by side.
fn select_blocks(day: u32, layer: i64) -> String {
    format!(
        "select entries
         from due_{day}
         where layer = {layer} and (due, run) >= (?1, ?2)
         order by due, run"
    )
}

/// The source that has the lowest place, moved on.
fn lowest(heads: &mut [Head<'_>]) -> Result<Option<(Place, Found)>, Trouble> {
    let of = |head: &Head<'_>| head.next.as_ref().map_or((i64::MAX, u64::MAX), |(place, _)| *place);
    let Some(head) = heads.iter_mut().filter(|head| head.next.is_some()).min_by_key(|head| of(head)) else {
        return Ok(None);
    };
    let found = head.next.take();
    head.advance()?;
    Ok(found)
}

fn waited(row: &Row<'_>) -> rusqlite::Result<(Place, Found)> {
    let attempt = u32::try_from(row.get::<_, i64>(2)?);
    let is_called_back = row.get(3)?;
    let wait = |attempt| Found::Waiting { attempt: Attempt(attempt), is_called_back };
    let found = attempt.map_or(Found::Unreadable, wait);
    Ok(((row.get(0)?, bits(row, 1)?), found))
}

impl Keeper {
    pub(super) fn load(
        &mut self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, Trouble> {
        self.check(leases)?;
        let mut loaded = Loaded { runs: Vec::new(), rest: None };
        if until <= from.due {
            return Ok(loaded);
        }
        let shards: FxHashSet<u16> = leases.iter().map(|lease| lease.shard.0).collect();
        let (from, until) = ((from.due.as_millis(), from.id), until.as_millis());
        let Keeper { conn, side: Side { days, known, births, .. }, .. } = self;

        let mut indexes = Vec::new();
        for (number, day) in days.iter().filter(|(_, day)| day.has_open()) {
            for layer in day.layers_between(from.0, until) {
                indexes.push((number, conn.prepare_cached(&select_blocks(number, layer))?));
            }
        }
        let mut waiting = conn.prepare_cached(
            "select ready_at, run, attempt, is_called_back
             from waiting
             where ready_at is not null and (ready_at, run) >= (?1, ?2) and ready_at < ?3
             order by ready_at, run",
        )?;
        let bounds = [from.0, i64::try_from(from.1).unwrap_or(i64::MAX), until];
        let mut heads = vec![Head::new(Source::Waiting(waiting.query(bounds)?))?];
        for entries in births.between(from, (until, 0)) {
            heads.push(Head::new(Source::Tail(entries.iter()))?);
        }
        for (day, index) in &mut indexes {
            let blocks = index.query([bounds[0], bounds[1]])?;
            let layer = Layer { day: *day, blocks, from, until: (until, 0), entries: Vec::new().into_iter() };
            heads.push(Head::new(Source::Index(layer))?);
        }

        let mut last = None;
        while let Some((place, found)) = lowest(&mut heads)? {
            let run = RunId(place.1);
            let standing = known.of(conn, days, run)?;
            // After a crash in the middle of a flush a run can be in the tail and in the index.
            if standing.is_closed || last == Some(place) {
                continue;
            }
            let open = match found {
                Found::Birth(birth) if !standing.is_engaged && shards.contains(&birth.shard) => {
                    match birth.traits.has_overrides() {
                        true => run_of(conn, days, run)?.map(|(born, _)| born),
                        false => birth.at(place),
                    }
                }
                Found::Waiting { attempt, is_called_back } => {
                    put_off(conn, days, place)?.map(|born| Waiting { attempt, is_called_back, ..born })
                }
                Found::Birth(_) | Found::Unreadable => None,
            };
            let Some(open) = open.filter(|open| shards.contains(&open.shard.0)) else { continue };
            if loaded.runs.len() == max {
                loaded.rest = Some(Mark { due: open.ready_at, id: run.0 });
                break;
            }
            known.note(conn, days, run, Bit::There)?;
            loaded.runs.push(open);
            last = Some(place);
        }
        Ok(loaded)
    }

    pub(super) fn adopt(&mut self, leases: &[Lease]) -> Result<Adopted, Trouble> {
        self.check(leases)?;
        let shards: FxHashSet<ShardId> = leases.iter().map(|lease| lease.shard).collect();
        let mut adopted = Adopted::default();
        for (number, _) in self.side.days.iter().filter(|(_, day)| day.has_open() && day.has(Table::Sends)) {
            // The aggregate picks the row with the greatest attempt for the bare columns too.
            let mut select = self.conn.prepare_cached(&format!(
                "select run, max(attempt), token, log, sent_at, executor
                 from sends_{number}
                 where is_open = 1
                 group by run"
            ))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                adopted.sends.extend(self.open_send(&shards, row)?);
            }
        }
        for shard in shards {
            adopted.parked.extend(self.parked_jobs(shard)?.into_iter().map(|job| (shard, job)));
        }
        Ok(adopted)
    }

    /// The jobs that have parked runs on a shard, at the cost of those jobs, not of the runs.
    fn parked_jobs(&self, shard: ShardId) -> rusqlite::Result<Vec<JobId>> {
        let mut select = self.conn.prepare_cached(
            "select min(job)
             from waiting
             where shard = ?1 and ready_at is null and job > ?2",
        )?;
        let mut jobs = Vec::new();
        let mut last = -1;
        while let Some(job) =
            select.query_row([i64::from(shard.0), last], |row| row.get::<_, Option<u32>>(0))?
        {
            jobs.push(JobId(job));
            last = i64::from(job);
        }
        Ok(jobs)
    }

    /// An open run that has a gate, unless it is parked or belongs to another shard.
    fn open_send(&self, shards: &FxHashSet<ShardId>, row: &Row<'_>) -> rusqlite::Result<Option<OpenSend>> {
        let run = RunId(bits(row, 0)?);
        let Some((born, _)) = run_of(&self.conn, &self.side.days, run)? else { return Ok(None) };
        if !shards.contains(&born.shard) {
            return Ok(None);
        }
        let wait = wait_of(&self.conn, run)?;
        if wait.is_some_and(|wait| wait.ready_at.is_none()) {
            return Ok(None);
        }
        let join = match self.side.days.has(run.day(), Table::Joins) {
            true => join_of(&self.conn, run)?,
            false => None,
        };
        let retry = wait.and_then(|wait| Some((wait.ready_at?, wait.attempt)));
        let is_called_back = wait.is_some_and(|wait| wait.is_called_back);
        Ok(Some(OpenSend {
            run: Waiting { attempt: Attempt(row.get(1)?), is_called_back, ..born },
            token: Token(bits(row, 2)?),
            log: LogId(bits(row, 3)?),
            sent_at: instant(row, 4)?,
            executor: Text::from(row.get::<_, String>(5)?),
            retry,
            join,
        }))
    }

    pub(super) fn unpark(&mut self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, Trouble> {
        self.check(&[unpark.lease])?;
        let earliest = earliest_parked(&self.conn, unpark)?;
        let mut update = self.conn.prepare_cached(
            "update waiting
             set ready_at = ?2, is_called_back = 1
             where run = ?1",
        )?;
        for (_, run) in &earliest {
            update.execute(params![run.0 as i64, unpark.at.as_millis()])?;
        }
        Ok(earliest)
    }

    pub(super) fn fetch(&mut self, runs: &[RunId], brings: Brings) -> Result<Vec<RunRow>, Trouble> {
        let Keeper { conn, side: Side { days, known, .. }, .. } = self;
        // By id, so that neighbours are read from the same page.
        let mut ids = runs.to_vec();
        ids.sort_unstable();
        let mut rows = Vec::with_capacity(ids.len());
        // The statement of their day, which most of them share: to look it up took as long as to read a run.
        let mut of_day = None;
        for run in ids {
            if of_day.as_ref().is_none_or(|(day, _)| *day != run.day()) {
                of_day = Some((run.day(), select_run(conn, days, run.day(), brings)?));
            }
            let Some((_, Some(select))) = &mut of_day else { continue };
            let Some((mut waiting, payload)) = read_run(select, run)? else { continue };
            let standing = known.of(conn, days, run)?;
            known.note(conn, days, run, Bit::There)?;
            let (mut is_gated, mut is_parked) = (false, false);
            if standing.is_engaged {
                let (wait, gated) = (wait_of(conn, run)?, last_gate(conn, days, run)?);
                is_gated = gated.is_some();
                is_parked = wait.is_some_and(|wait| wait.ready_at.is_none());
                waiting.attempt = wait.map(|wait| wait.attempt).or(gated).unwrap_or(Attempt::FIRST);
                waiting.ready_at = wait.and_then(|wait| wait.ready_at).unwrap_or(waiting.ready_at);
                waiting.is_called_back = wait.is_some_and(|wait| wait.is_called_back);
            }
            let part = match waiting.origin == Origin::Part && days.has(run.day(), Table::Parts) {
                true => part_of(conn, run)?,
                false => None,
            };
            // As good as none, like a run that cannot be read.
            let Ok(part) = part.transpose() else { continue };
            let is_closed = standing.is_closed;
            rows.push(RunRow { waiting, payload, is_gated, is_parked, is_closed, part });
        }
        Ok(rows)
    }

    pub(super) fn open_runs(&mut self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, Trouble> {
        let Keeper { conn, side: Side { days, known, .. }, .. } = self;
        let may_have = |(number, day): &(u32, &Day)| after.day() <= *number && day.has_open();
        let numbers: Vec<u32> = days.iter().filter(may_have).map(|(number, _)| number).collect();
        let (mut open, mut room) = (OpenRuns::default(), max);
        for number in numbers {
            let mut select = conn.prepare_cached(&format!(
                "select id
                 from runs_{number} indexed by runs_{number}_job
                 where job = ?1 and id > ?2
                 order by id
                 limit ?3"
            ))?;
            let run = |row: &Row<'_>| Ok(RunId(row.get::<_, i64>(0)? as u64));
            let rows = select.query_map(params![job.0, after.0 as i64, room as i64], run)?;
            let runs: Vec<RunId> = rows.collect::<rusqlite::Result<_>>()?;
            for run in &runs {
                if !known.of(conn, days, *run)?.is_closed {
                    open.runs.push(*run);
                }
            }
            room -= runs.len();
            if room == 0 {
                open.rest = runs.last().copied();
                break;
            }
        }
        Ok(open)
    }
}

/// The parked runs that are to be made ready, earliest first.
fn earliest_parked(conn: &Connection, unpark: &Unpark) -> rusqlite::Result<Vec<(JobId, RunId)>> {
    let mut select = conn.prepare_cached(
        "select due, run
         from waiting
         where shard = ?1 and job = ?2 and ready_at is null
         order by due, run
         limit ?3",
    )?;
    let mut found: Vec<(i64, i64, JobId)> = Vec::new();
    for (job, max) in &unpark.jobs {
        let max = i64::try_from((*max).min(unpark.max)).unwrap_or(i64::MAX);
        let rows = select.query_map(params![unpark.lease.shard.0, job.0, max], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, *job))
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    found.sort_unstable();
    found.truncate(unpark.max);
    Ok(found.into_iter().map(|(_, run, job)| (job, RunId(run as u64))).collect())
}

/// A run that waits for an instant and has no gate.
fn put_off(conn: &Connection, days: &Days, place: Place) -> rusqlite::Result<Option<Waiting>> {
    let run = RunId(place.1);
    let Some((born, _)) = run_of(conn, days, run)? else { return Ok(None) };
    let is_gated = last_gate(conn, days, run)?.is_some();
    let ready_at = Timestamp::from_millis(place.0);
    Ok((!is_gated).then_some(Waiting { ready_at, ..born }))
}

/// A run as it was born, with what it brings. One that cannot be read is as good as none.
fn run_of(
    conn: &Connection,
    days: &Days,
    run: RunId,
) -> rusqlite::Result<Option<(Waiting, Option<Payload>)>> {
    let Some(mut select) = select_run(conn, days, run.day(), Brings::Left)? else { return Ok(None) };
    read_run(&mut select, run)
}

/// The last attempt of a run that went through a gate.
fn last_gate(conn: &Connection, days: &Days, run: RunId) -> rusqlite::Result<Option<Attempt>> {
    let number = run.day();
    if !days.has(number, Table::Sends) {
        return Ok(None);
    }
    let mut select = conn.prepare_cached(&format!(
        "select max(attempt)
         from sends_{number}
         where run = ?1"
    ))?;
    let last: Option<u32> = select.query_row([run.0 as i64], |row| row.get(0))?;
    Ok(last.map(Attempt))
}

/// What a run waits for instead of its due time.
#[derive(Clone, Copy)]
struct Wait {
    /// None if it is parked.
    ready_at: Option<Timestamp>,
    attempt: Attempt,
    is_called_back: bool,
}

fn wait_of(conn: &Connection, run: RunId) -> rusqlite::Result<Option<Wait>> {
    let mut select = conn.prepare_cached(
        "select ready_at, attempt, is_called_back
         from waiting
         where run = ?1",
    )?;
    let read = |row: &Row<'_>| {
        let (ready_at, attempt) = (instant_or_none(row, 0)?, Attempt(row.get(1)?));
        Ok(Wait { ready_at, attempt, is_called_back: row.get(2)? })
    };
    select.query_row([run.0 as i64], read).optional()
}
