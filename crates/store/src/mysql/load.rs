//! Loading: what a holder has to fire, what it has to adopt, and whole runs for sends.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{Attempt, JobId, LogId, Part, Payload, RunId, Token};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Adopted, Lease, Loaded, OpenSend, RunRow, Unpark, Waiting};

use super::ask::{Moment, Verb};
use super::day::Table;
use super::leases::{check_leases, current_leases, shards_of};
use super::link::Line;
use super::read::{Record, Said};
use super::run_row::{BORN, BORN_WAITING};
use super::text::{Script, list, ms};
use super::trouble::Trouble;
use crate::rows::{self, born, join, part};

/// Open runs that no gate has.
pub(super) struct Load<'a> {
    pub(super) leases: &'a [Lease],
    pub(super) from: Mark,
    pub(super) until: Timestamp,
    pub(super) max: usize,
}

impl Load<'_> {
    /// The open runs of one table, in the order of its index.
    pub(super) fn births(&self, home: u32) -> String {
        let (runs, closes) = (Table::Runs.of(home), Table::Closes.of(home));
        let (due, id, until) = (ms(self.from.due), self.from.id, ms(self.until));
        format!(
            "select {BORN}, 1, 0
             from {runs} r force index (by_due)
             left join {closes} c on c.run = r.id
             left join flights f on f.run = r.id
             left join waiting w on w.run = r.id
             where r.due >= {due} and r.due < {until} and (r.due > {due} or r.id >= {id})
               and r.shard in ({})
               and c.run is null and f.run is null and w.run is null
             order by r.due, r.id
             limit {}",
            self.shards(),
            self.limit()
        )
    }

    fn waits(&self) -> String {
        let (due, id, until) = (ms(self.from.due), self.from.id, ms(self.until));
        format!(
            "select {BORN_WAITING}, w.attempt, w.is_called_back
             from waiting w force index (waiting_by_ready_at)
             left join flights f on f.run = w.run
             where w.ready_at >= {due} and w.ready_at < {until} and (w.ready_at > {due} or w.run >= {id})
               and w.shard in ({}) and f.run is null
             order by w.ready_at, w.run
             limit {}",
            self.shards(),
            self.limit()
        )
    }

    fn shards(&self) -> String {
        list(shards_of(self.leases))
    }

    /// One more than asked for, to know where the rest begins.
    fn limit(&self) -> usize {
        self.max.saturating_add(1)
    }
}

impl Verb for Load<'_> {
    type Answer = Loaded;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Loaded, Trouble> {
        let is_empty = self.until <= self.from.due;
        let mut script = Script::snapshot();
        let days = at.days.watch(&mut script);
        let held = script.push(current_leases(at, self.leases));
        // Which days may hold something is not asked with the number of the version, because it changes more often.
        let (due, until) = (ms(self.from.due), ms(self.until));
        let spans =
            script.push(format!("select day, low, high from days where low < {until} and high >= {due}"));
        let waits = script.push(self.waits());
        let homes = at.days.due_between(due, until);
        for home in homes.iter().filter(|_| !is_empty) {
            script.push(self.births(*home));
        }
        script.push("commit");
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        check_leases(&said[held], self.leases)?;
        if is_empty {
            return Ok(Loaded { runs: Vec::new(), rest: None });
        }
        for row in &said[spans].rows {
            if !homes.contains(&row.number(0)?) && at.days.has(row.number(0)?, Table::Runs) {
                return Err(Trouble::OldDays);
            }
        }
        let mut runs: Vec<Waiting> = Vec::new();
        for row in said[waits..].iter().flat_map(|said| &said.rows) {
            runs.push(waiting(row)?);
        }
        runs.sort_unstable_by_key(|run| (run.ready_at, run.run));
        let rest = runs.get(self.max).map(|run| Mark { due: run.ready_at, id: run.run.0 });
        runs.truncate(self.max);
        Ok(Loaded { runs, rest })
    }
}

/// A run as the wheel needs it. From the cells of [`born`], then `attempt, is_called_back`.
fn waiting(row: &Record) -> Result<Waiting, Trouble> {
    Ok(Waiting { attempt: row.attempt(rows::BORN)?, is_called_back: row.flag(rows::BORN + 1)?, ..born(row)? })
}

/// What the last holders of shards left behind.
pub(super) struct Adopt<'a>(pub(super) &'a [Lease]);

impl Verb for Adopt<'_> {
    type Answer = Adopted;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Adopted, Trouble> {
        let shards = list(shards_of(self.0));
        let mut script = Script::snapshot();
        let days = at.days.watch(&mut script);
        let held = script.push(current_leases(at, self.0));
        let parked = script.push(format!(
            "select distinct shard, job from waiting where shard in ({shards}) and ready_at is null"
        ));
        let flights = script.push(format!(
            "select f.run, w.ready_at, w.attempt
             from flights f
             left join waiting w on w.run = f.run
             where f.shard in ({shards}) and (w.run is null or w.ready_at is not null)"
        ));
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        check_leases(&said[held], self.0)?;
        let mut adopted = Adopted::default();
        for row in &said[parked].rows {
            adopted.parked.push((row.shard(0)?, row.job(1)?));
        }
        let mut retries: BTreeMap<RunId, Option<(Timestamp, Attempt)>> = BTreeMap::new();
        for row in &said[flights].rows {
            let retry = row.maybe(1, Record::at)?.zip(row.maybe(2, Record::attempt)?);
            retries.insert(row.run(0)?, retry);
        }
        adopted.sends = open_sends(line, at, &retries).await?;
        line.say("commit").await?;
        Ok(adopted)
    }
}

/// The last gates of runs, with the runs, in the snapshot that is open.
async fn open_sends(
    line: &mut Line,
    at: &Moment,
    retries: &BTreeMap<RunId, Option<(Timestamp, Attempt)>>,
) -> Result<Vec<OpenSend>, Trouble> {
    let mut script = Script::new();
    let homes = at.days.by_home(retries.keys().copied());
    for (home, runs) in &homes {
        script.push(format!("select {BORN} from {} r where r.id in ({})", Table::Runs.of(*home), list(runs)));
    }
    let sends = at.days.by_day(Table::Sends, retries.keys().copied());
    for (day, runs) in &sends {
        script.push(format!(
            "select run, attempt, token, log, sent_at, executor
             from {}
             where run in ({})
             order by run, attempt",
            Table::Sends.of(*day),
            list(runs)
        ));
    }
    for (day, runs) in at.days.by_day(Table::Joins, retries.keys().copied()) {
        script.push(format!(
            "select run, total, open, succeeded from {} where run in ({})",
            Table::Joins.of(day),
            list(&runs)
        ));
    }
    let said = line.ask(script).await?;
    let (births, rest) = said.split_at(homes.len());
    let (gates, joins) = rest.split_at(sends.len());
    let mut last: BTreeMap<RunId, &Record> = BTreeMap::new();
    for row in gates.iter().flat_map(|said| &said.rows) {
        last.insert(row.run(0)?, row);
    }
    let mut joined = BTreeMap::new();
    for said in joins {
        for row in &said.rows {
            joined.insert(row.run(0)?, join(row, 1)?);
        }
    }
    let mut open = Vec::new();
    for row in births.iter().flat_map(|said| &said.rows) {
        let run = born(row)?;
        let Some(gate) = last.get(&run.run) else { continue };
        open.push(OpenSend {
            run: Waiting { attempt: gate.attempt(1)?, ..run },
            token: Token(gate.uint(2)?),
            log: LogId(gate.uint(3)?),
            sent_at: gate.at(4)?,
            executor: gate.text(5)?,
            retry: retries.get(&run.run).copied().flatten(),
            join: joined.get(&run.run).copied(),
        });
    }
    Ok(open)
}

/// Makes parked runs ready.
pub(super) struct CallBack<'a>(pub(super) &'a Unpark);

impl CallBack<'_> {
    /// The earliest of each job, and of all those the earliest.
    fn earliest(&self) -> String {
        let of_job = |(job, max): &(JobId, usize)| {
            format!(
                "(select due, run, job
                  from waiting
                  where shard = {} and ready_at is null and job = {job}
                  order by due, run
                  limit {max})",
                self.0.lease.shard
            )
        };
        let each: Vec<String> = self.0.jobs.iter().map(of_job).collect();
        format!(
            "select due, run, job from ({}) parked order by due, run limit {}",
            each.join(" union all "),
            self.0.max
        )
    }
}

impl Verb for CallBack<'_> {
    type Answer = Vec<(JobId, RunId)>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<(JobId, RunId)>, Trouble> {
        let Unpark { lease, jobs, at: ready_at, .. } = self.0;
        let mut script = Script::transaction();
        let held = script.push(current_leases(at, &[*lease]));
        let found = (!jobs.is_empty()).then(|| script.push(self.earliest()));
        let said = line.ask(script).await?;
        check_leases(&said[held], &[*lease])?;
        let rows = found.map_or(&[][..], |found| &said[found].rows);
        let earliest: Vec<(JobId, RunId)> =
            rows.iter().map(|row| Ok((row.job(2)?, row.run(1)?))).collect::<Result<_, Trouble>>()?;
        let runs: Vec<RunId> = earliest.iter().map(|(_, run)| *run).collect();
        let mut script = Script::new();
        // A union locks nothing, so each may have been closed or called back since.
        let still = (!runs.is_empty()).then(|| {
            let of_runs = format!("where run in ({}) and ready_at is null", list(&runs));
            let still = script.push(format!("select run from waiting {of_runs} for update"));
            script.push(format!(
                "update waiting set ready_at = {}, is_called_back = 1 {of_runs}",
                ms(*ready_at)
            ));
            still
        });
        script.push("commit");
        let said = line.ask(script).await?;
        let rows = still.map_or(&[][..], |still| &said[still].rows);
        let still: BTreeSet<RunId> = rows.iter().map(|row| row.run(0)).collect::<Result<_, _>>()?;
        Ok(earliest.into_iter().filter(|(_, run)| still.contains(run)).collect())
    }
}

/// Whole runs, or all but what they bring.
pub(super) struct Fetch<'a> {
    pub(super) runs: &'a [RunId],
    pub(super) with_payload: bool,
}

impl Verb for Fetch<'_> {
    type Answer = Vec<RunRow>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<RunRow>, Trouble> {
        let asked: BTreeSet<RunId> = self.runs.iter().copied().collect();
        let payload = if self.with_payload { "r.payload" } else { "null" };
        let mut script = Script::snapshot();
        let days = at.days.watch(&mut script);
        let homes = at.days.by_home(asked.iter().copied());
        for (home, runs) in &homes {
            script.push(format!(
                "select {BORN}, c.run is not null, {payload}, r.`of`, w.run is not null, w.ready_at, w.attempt,
                        w.is_called_back
                 from {} r
                 left join {} c on c.run = r.id
                 left join waiting w on w.run = r.id
                 where r.id in ({})",
                Table::Runs.of(*home),
                Table::Closes.of(*home),
                list(runs)
            ));
        }
        for (day, runs) in at.days.by_day(Table::Sends, asked.iter().copied()) {
            script.push(format!(
                "select 0, run, max(attempt) from {} where run in ({}) group by run",
                Table::Sends.of(day),
                list(&runs)
            ));
        }
        for (day, runs) in at.days.by_day(Table::Parts, asked.iter().copied()) {
            script.push(format!(
                "select 1, run, place, total, address from {} where run in ({})",
                Table::Parts.of(day),
                list(&runs)
            ));
        }
        script.push("commit");
        let said = line.ask(script).await?;
        at.days.check(&said[days])?;
        let (rows, beside) = said[days + 1..].split_at(homes.len());
        let beside = Beside::read(beside)?;
        rows.iter().flat_map(|said| &said.rows).map(|row| run_row(row, &beside)).collect()
    }
}

/// What lies beside the rows of runs.
#[derive(Default)]
struct Beside {
    gated: BTreeMap<RunId, Attempt>,
    parts: BTreeMap<RunId, Part>,
}

impl Beside {
    fn read(said: &[Said]) -> Result<Beside, Trouble> {
        let mut beside = Beside::default();
        for row in said.iter().flat_map(|said| &said.rows) {
            let run = row.run(1)?;
            if row.int(0)? == 0 {
                beside.gated.insert(run, row.attempt(2)?);
            } else {
                beside.parts.insert(run, part(row, 2)?);
            }
        }
        Ok(beside)
    }
}

/// From the cells of [`born`], then those that [`Fetch`] asks for beside them. One that waits for nothing is at the last attempt
/// that was gated, or at the first.
fn run_row(row: &Record, beside: &Beside) -> Result<RunRow, Trouble> {
    let born = born(row)?;
    let first = rows::BORN;
    let gated = beside.gated.get(&born.run).copied();
    let (is_waiting, ready_at) = (row.flag(first + 3)?, row.maybe(first + 4, Record::at)?);
    let attempt = row.maybe(first + 5, Record::attempt)?.or(gated).unwrap_or(born.attempt);
    Ok(RunRow {
        payload: row.maybe(first + 1, Record::string)?.map(Payload::from),
        is_closed: row.flag(first)?,
        is_gated: gated.is_some(),
        is_parked: is_waiting && ready_at.is_none(),
        part: row.maybe(first + 2, Record::run)?.zip(beside.parts.get(&born.run).cloned()),
        waiting: Waiting {
            ready_at: ready_at.unwrap_or(born.ready_at),
            attempt,
            is_called_back: row.maybe(first + 6, Record::flag)?.unwrap_or(false),
            ..born
        },
    })
}
