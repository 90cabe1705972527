//! The first half of a verb that writes: locks the rows it touches and reads them into a unit of work.
//!
//! Most new runs do not exist yet, so the ids, names and keys of new runs are not looked up. A violated unique key rolls the
//! transaction back, and the verb is asked again and looks first ([`Moment::is_careful`]). Duplicates within one batch are
//! found by the rules in both cases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::model::{LogId, NewRun, RunId, Text, Token};
use punctual_node::ports::Waiting;

use super::ask::Moment;
use super::day::{Table, span};
use super::link::Line;
use super::read::{Record, Said};
use super::run_row::BORN;
use super::text::{Script, Sum, list, ms};
use super::trouble::Trouble;
use crate::rows::{BORN as BORN_CELLS, born, join, locked_clock};
use crate::rules::{GateOwner, JoinRow, LockedRun, UnitOfWork, WaitRow};

/// How many new runs are looked up with one statement.
const LOOK_MAX: usize = 1_000;

/// What a verb has to know of the store besides its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) shards: u16,
    pub(super) key_ttl: Duration,
}

impl Settings {
    /// A verb that has read nothing yet.
    pub(super) fn begin<'v>(self) -> Gathered<'v> {
        let Settings { shards, key_ttl } = self;
        let unit = UnitOfWork { shards, key_ttl, ..UnitOfWork::default() };
        Gathered { unit, born: BTreeMap::new() }
    }
}

/// The rows that a verb has read.
pub(super) struct Gathered<'v> {
    pub(super) unit: UnitOfWork<'v>,
    /// The runs among them as they were born: the table `waiting` repeats that.
    born: BTreeMap<RunId, Waiting>,
}

impl Gathered<'_> {
    /// A run that was read, or that is written with this unit of work, as it was born.
    pub(super) fn born(&self, id: RunId) -> Option<Waiting> {
        let fresh = || self.unit.writes.runs.iter().find(|run| run.id == id);
        self.born.get(&id).cloned().or_else(|| fresh().map(|run| Waiting::from(*run)))
    }

    /// Locks runs and reads what is known of them, in one round trip that begins a transaction. The statements `more` go
    /// along; their answers come back.
    pub(super) async fn lock_runs(
        &mut self,
        line: &mut Line,
        at: &Moment,
        runs: &BTreeSet<RunId>,
        more: impl IntoIterator<Item = String>,
    ) -> Result<Vec<Said>, Trouble> {
        let mut script = Script::transaction();
        at.days.keep_far(&mut script, runs.iter().map(|run| run.day()));
        let first = push_locks(&mut script, at, runs);
        let days = at.days.watch(&mut script);
        for statement in more {
            script.push(statement);
        }
        let mut said = line.ask(script).await?;
        at.days.check(&said[days])?;
        self.read_runs(at, runs, &said[first..])?;
        Ok(said.split_off(days + 1))
    }

    fn read_runs(&mut self, at: &Moment, runs: &BTreeSet<RunId>, said: &[Said]) -> Result<(), Trouble> {
        let mut said = said.iter();
        let mut rows = || said.next().map_or(&[][..], |said| &said.rows[..]);
        let locked = &mut self.unit.runs;
        for _ in at.days.by_home(runs.iter().copied()) {
            for row in rows() {
                let key = row.maybe(BORN_CELLS, Record::text)?;
                let run = born(row)?;
                locked.insert(run.run, LockedRun::open(run.job, run.shard, run.ready_at, key));
                self.born.insert(run.run, run);
            }
            for row in rows() {
                if let Some(run) = locked.get_mut(&row.run(0)?) {
                    run.progress.is_closed = true;
                    let unsent = row.maybe(1, Record::attempt)?;
                    run.progress.gates.extend(unsent.map(|attempt| (attempt, GateOwner::Unsent)));
                }
            }
        }
        for _ in at.days.by_day(Table::Sends, runs.iter().copied()) {
            for row in rows() {
                if let Some(run) = locked.get_mut(&row.run(0)?) {
                    let sent = GateOwner::Sent(Token(row.uint(2)?), Some(LogId(row.uint(3)?)));
                    run.progress.gates.insert(row.attempt(1)?, sent);
                    run.was_flying = !run.progress.is_closed;
                }
            }
        }
        for row in rows() {
            if let Some(run) = locked.get_mut(&row.run(0)?) {
                let (ready_at, attempt) = (row.maybe(1, Record::at)?, row.attempt(2)?);
                // Whether it was called back is only read by loading.
                run.progress.wait = Some(WaitRow { ready_at, attempt, is_called_back: false });
                run.was_waiting = true;
            }
        }
        for row in rows() {
            if let Some(run) = locked.get_mut(&row.run(0)?) {
                run.progress.holds.insert(row.text(1)?);
            }
        }
        // A key belongs to its run as long as that is open, so it need not be read.
        for (id, run) in locked.iter().filter(|(_, run)| !run.progress.is_closed) {
            if let Some(key) = &run.key {
                self.unit.keys.insert((run.job, key.clone()), (*id, None));
            }
        }
        Ok(())
    }

    /// Reads whose places these are: the columns resource, slot, run.
    pub(super) fn read_holds(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            self.unit.holds.insert((row.text(0)?, row.number(1)?), row.run(2)?);
        }
        Ok(())
    }

    pub(super) fn read_joins(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            let run = row.run(0)?;
            let join = join(row, 1)?;
            let (first, last): (u32, u32) = (row.number(4)?, row.number(5)?);
            // The days of a split without parts enclose nothing.
            let (first_part, last_part) =
                if first <= last { (span(first).0, span(last).1) } else { (run, run) };
            self.unit.joins.insert(run, JoinRow { join, first_part, last_part });
        }
        Ok(())
    }

    /// Reads clocks from [`CLOCK_COLUMNS`].
    pub(super) fn read_clocks(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            self.unit.clocks.insert(row.job(0)?, locked_clock(row)?);
        }
        Ok(())
    }

    /// Looks which of these runs exist, by id, name or key, if the verb has to know.
    pub(super) async fn look_for<'r>(
        &mut self,
        line: &mut Line,
        at: &Moment,
        runs: impl IntoIterator<Item = &'r NewRun>,
    ) -> Result<(), Trouble> {
        if at.is_careful {
            let runs: Vec<&NewRun> = runs.into_iter().collect();
            for runs in runs.chunks(LOOK_MAX) {
                self.look_for_some(line, at, runs).await?;
            }
        }
        Ok(())
    }

    async fn look_for_some(&mut self, line: &mut Line, at: &Moment, runs: &[&NewRun]) -> Result<(), Trouble> {
        let mut script = Script::new();
        let mut homes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, run) in runs.iter().enumerate() {
            homes.entry(at.days.home(run.id.day())).or_default().push(number);
        }
        for (home, numbers) in &homes {
            let table = Table::Runs.of(*home);
            let ids = list(numbers.iter().map(|number| runs[*number].id));
            script.push(format!("select id from {table} where id in ({ids})"));
            let named = numbers.iter().filter(|number| runs[**number].is_named()).map(|number| {
                let run = runs[*number];
                format!("select {number} as n, {} as named_at, {} as job", ms(run.fire_time), run.job)
            });
            script.push(match union(named) {
                Some(union) => format!(
                    "select v.n, r.id
                     from ({union}) v
                     join {table} r on r.named_at = v.named_at and r.job = v.job"
                ),
                None => "select 0, 0 from meta where 1 = 0".into(),
            });
        }
        let keyed = runs.iter().enumerate().filter_map(|(number, run)| {
            let key = run.key.as_ref()?;
            Some(format!("select {number} as n, {} as job, {} as name_key", run.job, Sum(key)))
        });
        if let Some(union) = union(keyed) {
            script.push(format!(
                "select v.n, k.run, k.expires_at, {}
                 from ({union}) v
                 join `keys` k on k.job = v.job and k.name_key = v.name_key
                 for update",
                at.now()
            ));
        }
        let unit = &mut self.unit;
        let mut said = line.ask(script).await?.into_iter();
        for _ in &homes {
            for row in said.next().unwrap_or_default().rows {
                unit.taken_ids.insert(row.run(0)?);
            }
            for row in said.next().unwrap_or_default().rows {
                let run = runs[row.number::<usize>(0)?];
                unit.named.insert((run.fire_time, run.job), row.run(1)?);
            }
        }
        for row in said.next().unwrap_or_default().rows {
            let run = runs[row.number::<usize>(0)?];
            let key: Text = run.key.clone().unwrap_or_default();
            unit.keys.insert((run.job, key), (row.run(1)?, row.maybe(2, Record::at)?));
            unit.now = row.at(3)?;
        }
        Ok(())
    }
}

/// Adds the statements that lock runs and read what is known of them, in the order of `read_runs`.
fn push_locks(script: &mut Script, at: &Moment, runs: &BTreeSet<RunId>) -> usize {
    let ids = list(runs);
    let mut statements = Vec::new();
    for (home, runs) in at.days.by_home(runs.iter().copied()) {
        let (table, closes, ids) = (Table::Runs.of(home), Table::Closes.of(home), list(&runs));
        statements.push(format!(
            "select {BORN}, r.key_text
             from {table} r
             where r.id in ({ids})
             order by r.id
             for update"
        ));
        statements.push(format!("select run, unsent from {closes} where run in ({ids})"));
    }
    for (day, runs) in at.days.by_day(Table::Sends, runs.iter().copied()) {
        let (table, ids) = (Table::Sends.of(day), list(&runs));
        statements.push(format!("select run, attempt, token, log from {table} where run in ({ids})"));
    }
    statements.push(format!("select run, ready_at, attempt from waiting where run in ({ids})"));
    statements.push(format!("select run, resource from holds where run in ({ids})"));
    let places: Vec<usize> = statements.into_iter().map(|statement| script.push(statement)).collect();
    places[0]
}

/// The questions that lock the joins of split runs, for [`Gathered::read_joins`].
pub(super) fn lock_joins(at: &Moment, wholes: impl IntoIterator<Item = RunId>) -> Vec<String> {
    let days = at.days.by_day(Table::Joins, wholes);
    let lock = |(day, runs): (&u32, &BTreeSet<RunId>)| {
        format!(
            "select run, total, open, succeeded, first_day, last_day
             from {}
             where run in ({})
             order by run
             for update",
            Table::Joins.of(*day),
            list(runs)
        )
    };
    days.iter().map(lock).collect()
}

pub(super) const CLOCK_COLUMNS: &str = "job, shard, next_fire, version, enabled, decided_to, reserved_to";

fn union(selects: impl Iterator<Item = String>) -> Option<String> {
    let selects: Vec<String> = selects.collect();
    (!selects.is_empty()).then(|| selects.join(" union all "))
}
