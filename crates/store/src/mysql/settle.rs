//! Settling: the end of an attempt or of a run, with all that follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    AttemptRecord, Close, Fence, JobId, JobState, Join, NewRun, Outcome, RunId, Schedule, Settlement,
    ShardId, StoppedReason, Then,
};
use punctual_node::ports::{ArrivalKind, Settled};

use super::accept::leave;
use super::ask::{Moment, Verb};
use super::close::{Ends, Tally, close_row};
use super::day::{Days, Need, Table};
use super::facts::{Facts, Wait, lock_facts, write_facts};
use super::gate::joins_from;
use super::link::Line;
use super::newborn::Cradle;
use super::plan::{push_changes, write_stops};
use super::read::Said;
use super::text::{Quoted, Script, list, ms};
use super::trouble::Trouble;
use crate::code::attempt_outcome_code;
use crate::row::definition_from_text;

/// Ends to be written.
pub(super) struct SettleAll<'a> {
    pub(super) settlements: &'a [Settlement],
    pub(super) key_ttl: Duration,
}

impl SettleAll<'_> {
    fn children(&self) -> impl Iterator<Item = &NewRun> + Clone {
        self.settlements.iter().flat_map(|settlement| &settlement.children)
    }

    fn wholes(&self) -> BTreeSet<RunId> {
        self.settlements.iter().filter_map(|settlement| settlement.part_of).collect()
    }

    /// Jobs whose clock may wait for one of these ends.
    fn named(&self) -> impl Iterator<Item = JobId> {
        let closes = self.settlements.iter().filter(|settlement| matches!(settlement.then, Then::Close(_)));
        closes.filter(|settlement| settlement.named.is_some()).map(|settlement| settlement.job)
    }

    fn parks(&self) -> impl Iterator<Item = JobId> {
        let parks = self.settlements.iter().filter(|settlement| matches!(settlement.then, Then::Park { .. }));
        parks.map(|settlement| settlement.job)
    }

    /// The questions that go along with locking the runs.
    fn more(&self, at: &Moment) -> Vec<String> {
        let mut more = vec![
            // Held until the end: who starts a job calls back what was parked by then.
            format!(
                "select job, version from clocks where job in ({}) order by job lock in share mode",
                list(self.parks().collect::<BTreeSet<JobId>>())
            ),
            format!(
                "select job, reserved_to
                 from clocks
                 where job in ({}) and enabled = 1 and next_fire is null",
                list(self.named().collect::<BTreeSet<JobId>>())
            ),
        ];
        for (day, runs) in at.days.by_day(Table::Joins, self.wholes()) {
            more.push(format!(
                "select run, total, open, succeeded from {} where run in ({}) order by run for update",
                Table::Joins.of(day),
                list(&runs)
            ));
        }
        more
    }
}

impl Verb for SettleAll<'_> {
    type Answer = Vec<Settled>;

    fn needs(&self, days: &Days) -> Vec<Need> {
        let mut needs: Vec<Need> = self.children().map(|run| (run.id.day(), Table::Runs)).collect();
        for settlement in self.settlements {
            let day = settlement.run.day();
            let goes_on = !matches!(settlement.then, Then::Close(_));
            if goes_on && settlement.attempt.is_some() && days.has(days.home(day), Table::Runs) {
                needs.push((day, Table::Attempts));
            }
        }
        needs
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<Settled>, Trouble> {
        let runs: BTreeSet<RunId> = self.settlements.iter().map(|settlement| settlement.run).collect();
        let (facts, said) = lock_facts(line, at, &runs, self.more(at)).await?;
        let delays = self.delays(line, &said[1]).await?;
        let mut joins = BTreeMap::new();
        for said in &said[2..] {
            joins.extend(joins_from(said)?);
        }
        let cradle = Cradle::prepare(line, at, self.children()).await?;
        let mut book = Book {
            at,
            facts,
            versions: versions(&said[0])?,
            delays,
            joins,
            cradle,
            ends: Ends::new(self.key_ttl, line.slot()),
            attempts: BTreeMap::new(),
            left: Vec::new(),
            clocks: Vec::new(),
            stopped: Vec::new(),
            touched: BTreeSet::new(),
        };
        let done: Vec<Option<Done>> =
            self.settlements.iter().map(|settlement| book.settle(settlement)).collect();
        let mut script = Script::new();
        book.write(&mut script);
        let jobs: BTreeSet<JobId> = done.iter().flatten().map(|done| done.job).collect();
        let counts = script.push(format!(
            "select job, prior, consecutive_failures from counts where job in ({})",
            list(&jobs)
        ));
        push_changes(&mut script, book.stopped.iter().map(|(job, _)| *job));
        script.push("commit");
        let ends = book.ends;
        let said = line.ask(script).await?;
        let mut before: BTreeMap<JobId, u32> = BTreeMap::new();
        for row in &said[counts].rows {
            let job = row.job(0)?;
            before.insert(job, row.number(if ends.counts(job) { 1 } else { 2 })?);
        }
        Ok(done.into_iter().map(|done| answer(done, &before)).collect())
    }
}

fn answer(done: Option<Done>, before: &BTreeMap<JobId, u32>) -> Settled {
    let Some(Done { job, tally, is_over, joined }) = done else { return Settled::Stale };
    let consecutive_failures = tally.streak(before.get(&job).copied().unwrap_or(0));
    Settled::Done { consecutive_failures, is_over, joined }
}

impl SettleAll<'_> {
    /// The clocks of fixed delays that wait for one of these ends, locked.
    async fn delays(
        &self,
        line: &mut Line,
        waiting: &Said,
    ) -> Result<BTreeMap<JobId, (Timestamp, Schedule)>, Trouble> {
        let mut jobs: BTreeSet<JobId> = BTreeSet::new();
        for row in &waiting.rows {
            let (job, reserved) = (row.job(0)?, Some(row.at(1)?));
            if self.settlements.iter().any(|one| one.job == job && one.named == reserved) {
                jobs.insert(job);
            }
        }
        let mut delays = BTreeMap::new();
        if jobs.is_empty() {
            return Ok(delays);
        }
        let said = line
            .say(format!(
                "select c.job, c.reserved_to, j.definition
                 from clocks c
                 join jobs j on j.id = c.job
                 where c.job in ({}) and c.enabled = 1 and c.next_fire is null
                 order by c.job
                 for update",
                list(&jobs)
            ))
            .await?;
        for row in &said.rows {
            // A definition that cannot be read is no reason to lose an end: its clock is left alone.
            if let Ok(definition) = definition_from_text(&row.string(2)?)
                && definition.schedule.is_delay()
            {
                delays.insert(row.job(0)?, (row.at(1)?, definition.schedule));
            }
        }
        Ok(delays)
    }
}

fn versions(said: &Said) -> Result<BTreeMap<JobId, u64>, Trouble> {
    said.rows.iter().map(|row| Ok((row.job(0)?, row.uint(1)?))).collect()
}

/// What is said of a settlement that is written.
struct Done {
    job: JobId,
    /// What the batch had counted for the job by then.
    tally: Tally,
    is_over: bool,
    joined: Option<(RunId, Join)>,
}

/// What a batch knows and changes.
struct Book<'a> {
    at: &'a Moment,
    facts: BTreeMap<RunId, Facts>,
    versions: BTreeMap<JobId, u64>,
    /// Fixed delays whose clock waits for the end of a run: that run's fire time, and the schedule.
    delays: BTreeMap<JobId, (Timestamp, Schedule)>,
    joins: BTreeMap<RunId, Join>,
    cradle: Cradle<'a>,
    ends: Ends,
    /// Attempts that ended while their run goes on, by day.
    attempts: BTreeMap<u32, Vec<String>>,
    left: Vec<(ShardId, ArrivalKind)>,
    clocks: Vec<(JobId, Timestamp)>,
    stopped: Vec<(JobId, JobState)>,
    touched: BTreeSet<RunId>,
}

impl<'a> Book<'a> {
    fn settle(&mut self, settlement: &'a Settlement) -> Option<Done> {
        let Settlement { run: id, fence, attempt, then, children, named, is_foreign, part_of, .. } =
            settlement;
        let facts = self.facts.get_mut(id).filter(|facts| holds(facts, *fence))?;
        let (job, shard) = (facts.job, facts.shard);
        if let Then::Park { version, .. } = then
            && self.versions.get(&job) != Some(version)
        {
            return None;
        }
        let mut joined = None;
        match then {
            Then::Close(close) => joined = self.close(*id, close, *fence, attempt.as_ref(), *part_of),
            Then::Wait { ready_at, attempt: next } => {
                facts.set_wait(Some(Wait { ready_at: Some(*ready_at), attempt: *next }));
            }
            // Whatever it is called back for, it will ask for its places again.
            Then::Park { attempt: next, .. } => {
                if !std::mem::take(&mut facts.holds).is_empty() {
                    self.ends.free_places(*id);
                }
                facts.set_wait(Some(Wait { ready_at: None, attempt: *next }));
            }
        }
        if let Some(record) = attempt.as_ref().filter(|_| !matches!(then, Then::Close(_))) {
            self.attempts.entry(id.day()).or_default().push(attempt_row(*id, record));
        }
        if *is_foreign {
            self.left.push((shard, ArrivalKind::Run(*id)));
        }
        for child in children {
            if let Ok(id) = self.cradle.take(child) {
                self.left.push((child.shard, ArrivalKind::Run(id)));
            }
        }
        // The clock of a delay waits for the end of the whole.
        let named = named.filter(|_| part_of.is_none());
        let is_over = match (named, then) {
            (Some(named), Then::Close(close)) => self.go_on(job, named, close.closed_at),
            _ => false,
        };
        Some(Done { job, tally: self.ends.tally(job), is_over, joined })
    }

    fn close(
        &mut self,
        id: RunId,
        close: &Close,
        fence: Fence,
        attempt: Option<&AttemptRecord>,
        part_of: Option<RunId>,
    ) -> Option<(RunId, Join)> {
        let facts = self.facts.get_mut(&id)?;
        let unsent = match fence {
            Fence::Unsent(attempt) => Some(attempt),
            Fence::Sent(_, _) => None,
        };
        facts.is_closed = true;
        facts.unsent = unsent;
        facts.set_wait(None);
        if facts.has_key {
            self.ends.end_key(id, close);
        }
        if !std::mem::take(&mut facts.holds).is_empty() {
            self.ends.free_places(id);
        }
        let row = close_row(id, close, attempt, unsent);
        match part_of {
            None => {
                self.ends.close(self.at, id, facts.job, close, row);
                None
            }
            Some(whole) => {
                self.ends.shut(self.at, id, row);
                self.join(whole, close.outcome)
            }
        }
    }

    /// Counts the end of a part with its whole; the whole, if nothing of it is open any more.
    fn join(&mut self, whole: RunId, outcome: Outcome) -> Option<(RunId, Join)> {
        let join = self.joins.get_mut(&whole).filter(|join| join.open > 0)?;
        join.open -= 1;
        join.succeeded += u32::from(outcome == Outcome::Succeeded);
        self.touched.insert(whole);
        (join.open == 0).then_some((whole, *join))
    }

    /// Sets the clock of a fixed delay that waits for the end of just this run, or says that it is over and stops it.
    fn go_on(&mut self, job: JobId, named: Timestamp, closed_at: Timestamp) -> bool {
        if self.delays.get(&job).is_none_or(|(reserved, _)| *reserved != named) {
            return false;
        }
        let Some((_, schedule)) = self.delays.remove(&job) else { return false };
        match schedule.after_end(closed_at) {
            Some(next) => self.clocks.push((job, next)),
            None => self.stopped.push((job, JobState::Stopped(StoppedReason::Finished))),
        }
        self.stopped.last().is_some_and(|(stopped, _)| *stopped == job)
    }

    fn write(&mut self, script: &mut Script) {
        write_facts(script, &self.facts);
        for (day, rows) in &self.attempts {
            write_attempts(script, *day, rows);
        }
        for whole in &self.touched {
            let Some(join) = self.joins.get(whole) else { continue };
            script.push(format!(
                "update {} set open = {}, succeeded = {} where run = {whole}",
                Table::Joins.of(whole.day()),
                join.open,
                join.succeeded
            ));
        }
        leave(script, &self.left);
        self.cradle.write(script, self.at, &mut self.ends);
        for (job, next) in &self.clocks {
            let next = ms(*next);
            script.push(format!("update clocks set next_fire = {next}, due_at = {next} where job = {job}"));
        }
        for (job, _) in &self.stopped {
            script.push(format!("update clocks set enabled = 0, due_at = null where job = {job}"));
        }
        write_stops(script, &self.stopped);
        self.ends.write(script);
    }
}

fn holds(facts: &Facts, fence: Fence) -> bool {
    if facts.is_closed || facts.is_beyond(fence.attempt()) {
        return false;
    }
    match fence {
        Fence::Unsent(attempt) => !facts.is_taken(attempt),
        Fence::Sent(attempt, token) => match facts.sends.get(&attempt) {
            Some((there, _)) => *there == token,
            None => facts.reaches(attempt),
        },
    }
}

fn attempt_row(run: RunId, record: &AttemptRecord) -> String {
    format!(
        "({run}, {}, {}, {}, {}, {}, {}, {}, {})",
        record.number,
        record.token,
        ms(record.started_at),
        ms(record.ended_at),
        attempt_outcome_code(record.outcome),
        u8::from(record.possible_duplicate),
        Quoted(&record.executor),
        Quoted(&record.message),
    )
}

fn write_attempts(script: &mut Script, day: u32, rows: &[String]) {
    script.push_rows(
        &format!(
            "insert into {} (run, attempt, token, started_at, ended_at, attempt_outcome, possible_duplicate,
                             executor, message) values ",
            Table::Attempts.of(day)
        ),
        rows.iter().cloned(),
        " on duplicate key update
             token = values(token),
             started_at = values(started_at),
             ended_at = values(ended_at),
             attempt_outcome = values(attempt_outcome),
             possible_duplicate = values(possible_duplicate),
             executor = values(executor),
             message = values(message)",
    );
}
