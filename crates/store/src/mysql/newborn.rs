//! Writing runs: who is there already, and the rows of those who are not.
//!
//! Mostly nobody is there, so runs are written without looking; where something unique is met, the transaction is rolled
//! back and asked again, and looks first. Twins within one batch are found here in both cases.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{Close, JobId, NewRun, Part, RunId, ShardId, Text};

use super::ask::Moment;
use super::close::{Ends, close_row};
use super::day::{self, Table};
use super::link::Line;
use super::text::{Maybe, Quoted, Script, Sum, list, ms};
use super::trouble::Trouble;
use crate::code::{decided_code, origin_code};

/// How many of what is looked for go into one statement.
const LOOK_MAX: usize = 1_000;

/// Runs that are to be written in one transaction.
pub(super) struct Cradle<'r> {
    there: There,
    /// Expired keys of others, which are given away.
    freed: Vec<(JobId, Text)>,
    newborn: Vec<Newborn<'r>>,
}

/// A run that is written, and what it is born with.
struct Newborn<'r> {
    run: &'r NewRun,
    close: Option<&'r Close>,
    part: Option<&'r Part>,
}

/// Who is there already.
#[derive(Default)]
struct There {
    ids: BTreeSet<RunId>,
    /// Whose a key is, and whether it lives.
    keys: BTreeMap<(JobId, Text), (RunId, bool)>,
    named: BTreeMap<(i64, JobId), RunId>,
}

impl<'r> Cradle<'r> {
    /// Looks who of these is there, if that has to be known.
    pub(super) async fn prepare(
        line: &mut Line,
        at: &Moment,
        runs: impl IntoIterator<Item = &'r NewRun> + Clone,
    ) -> Result<Cradle<'r>, Trouble> {
        let there = if at.is_careful { There::look(line, at, runs).await? } else { There::default() };
        Ok(Cradle { there, freed: Vec::new(), newborn: Vec::new() })
    }

    /// Takes a run, or says which run has its identity already.
    pub(super) fn take(&mut self, run: &'r NewRun) -> Result<RunId, RunId> {
        self.take_with(run, None, None)
    }

    /// Takes a run that is closed from the start.
    pub(super) fn take_closed(&mut self, run: &'r NewRun, close: &'r Close) -> Result<RunId, RunId> {
        self.take_with(run, Some(close), None)
    }

    /// Takes a part of another run.
    pub(super) fn take_part(&mut self, run: &'r NewRun, part: &'r Part) -> Result<RunId, RunId> {
        self.take_with(run, None, Some(part))
    }

    fn take_with(
        &mut self,
        run: &'r NewRun,
        close: Option<&'r Close>,
        part: Option<&'r Part>,
    ) -> Result<RunId, RunId> {
        if self.there.ids.contains(&run.id) {
            return Err(run.id);
        }
        let key = run.key.as_ref().map(|key| (run.job, key.clone()));
        let owner = key.as_ref().and_then(|key| self.there.keys.get(key)).copied();
        if let Some((owner, true)) = owner {
            return Err(owner);
        }
        let named = run.is_named().then(|| (ms(run.fire_time), run.job));
        if let Some(there) = named.and_then(|named| self.there.named.get(&named)) {
            return Err(*there);
        }
        if let Some((_, false)) = owner {
            self.freed.extend(key.clone());
        }
        self.there.ids.insert(run.id);
        self.there.keys.extend(key.map(|key| (key, (run.id, true))));
        self.there.named.extend(named.map(|named| (named, run.id)));
        self.newborn.push(Newborn { run, close, part });
        Ok(run.id)
    }

    /// Adds the statements that write what was taken. Closes are added to `ends`.
    pub(super) fn write(&self, script: &mut Script, at: &Moment, ends: &mut Ends) {
        self.write_keys(script, ends);
        let mut homes: BTreeMap<u32, Vec<&Newborn<'_>>> = BTreeMap::new();
        for newborn in &self.newborn {
            homes.entry(at.days.home(newborn.run.id.day())).or_default().push(newborn);
        }
        for (home, newborn) in &mut homes {
            // In the order of the rows, which is also the order in which others lock them.
            newborn.sort_unstable_by_key(|newborn| newborn.run.id);
            script.push_rows(
                &format!(
                    "insert into {} (id, job, shard, fire_time, due, origin, decided, priority, `of`, named_at,
                                     key_text, payload) values ",
                    Table::Runs.of(*home)
                ),
                newborn.iter().map(|newborn| run_row(newborn.run)),
                "",
            );
            widen(script, *home, newborn);
        }
        self.write_parts(script);
        for newborn in &self.newborn {
            ends.born(newborn.run.id.day());
            if let Some(close) = newborn.close {
                ends.close(
                    at,
                    newborn.run.id,
                    newborn.run.job,
                    close,
                    close_row(newborn.run.id, close, None, None),
                );
            }
        }
        self.write_births(script);
    }

    fn write_keys(&self, script: &mut Script, ends: &Ends) {
        for (job, key) in &self.freed {
            script.push(format!("delete from `keys` where job = {job} and name_key = {}", Sum(key)));
        }
        let keyed = self.newborn.iter().filter_map(|newborn| Some((newborn, newborn.run.key.as_ref()?)));
        let row = |(newborn, key): (&Newborn<'_>, &Text)| {
            let expires_at = newborn.close.map(|close| ends.key_end(close));
            format!("({}, {}, {}, {})", newborn.run.job, Sum(key), newborn.run.id, Maybe(expires_at))
        };
        script.push_rows("insert into `keys` (job, name_key, run, expires_at) values ", keyed.map(row), "");
    }

    fn write_parts(&self, script: &mut Script) {
        let mut days: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for Newborn { run, part, .. } in &self.newborn {
            if let Some((part, whole)) = part.zip(run.of) {
                let (index, total, address) = (part.index, part.total, Quoted(&part.address));
                let row = format!("({}, {whole}, {index}, {total}, {address})", run.id);
                days.entry(run.id.day()).or_default().push(row);
            }
        }
        for (day, rows) in days {
            let head =
                format!("insert into {} (run, whole, place, total, address) values ", Table::Parts.of(day));
            script.push_rows(&head, rows, "");
        }
    }

    /// One row for each shard, so that no row of the shard itself has to be locked.
    fn write_births(&self, script: &mut Script) {
        let mut first: BTreeMap<ShardId, i64> = BTreeMap::new();
        for Newborn { run, .. } in &self.newborn {
            let due = ms(run.due);
            first.entry(run.shard).and_modify(|first| *first = due.min(*first)).or_insert(due);
        }
        let row = |(shard, due)| format!("({shard}, {due})");
        script.push_rows("insert into births (shard, due) values ", first.into_iter().map(row), "");
    }
}

impl There {
    async fn look(
        line: &mut Line,
        at: &Moment,
        runs: impl IntoIterator<Item = &NewRun> + Clone,
    ) -> Result<There, Trouble> {
        let mut there = There::default();
        let runs: Vec<&NewRun> = runs.into_iter().collect();
        for runs in runs.chunks(LOOK_MAX) {
            there.look_for(line, at, runs).await?;
        }
        Ok(there)
    }

    async fn look_for(&mut self, line: &mut Line, at: &Moment, runs: &[&NewRun]) -> Result<(), Trouble> {
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
                "select v.n, k.run, k.expires_at is null or k.expires_at > {}
                 from ({union}) v
                 join `keys` k on k.job = v.job and k.name_key = v.name_key
                 for update",
                at.now()
            ));
        }
        let mut said = line.ask(script).await?.into_iter();
        for _ in &homes {
            for row in said.next().unwrap_or_default().rows {
                self.ids.insert(row.run(0)?);
            }
            for row in said.next().unwrap_or_default().rows {
                let run = runs[row.number::<usize>(0)?];
                self.named.insert((ms(run.fire_time), run.job), row.run(1)?);
            }
        }
        for row in said.next().unwrap_or_default().rows {
            let run = runs[row.number::<usize>(0)?];
            let key = run.key.clone().unwrap_or_default();
            self.keys.insert((run.job, key), (row.run(1)?, row.flag(2)?));
        }
        Ok(())
    }
}

fn union(selects: impl Iterator<Item = String>) -> Option<String> {
    let selects: Vec<String> = selects.collect();
    (!selects.is_empty()).then(|| selects.join(" union all "))
}

fn run_row(run: &NewRun) -> String {
    format!(
        "({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
        run.id,
        run.job,
        run.shard,
        ms(run.fire_time),
        ms(run.due),
        origin_code(run.origin),
        decided_code(run.decided),
        run.priority,
        Maybe(run.of),
        Maybe(run.is_named().then(|| ms(run.fire_time))),
        Maybe(run.key.as_deref().map(Quoted)),
        Maybe(run.payload.as_deref().map(Quoted)),
    )
}

/// A run that is due at another day than it was born for must still be found by who loads.
fn widen(script: &mut Script, home: u32, newborn: &[&Newborn<'_>]) {
    let (low, high) = day::bounds(home);
    let dues = || newborn.iter().map(|newborn| ms(newborn.run.due));
    let (first, last) = (dues().min().unwrap_or(low), dues().max().unwrap_or(high));
    if first < low || high < last {
        script.push(format!(
            "update days
             set low = least(low, {first}), high = greatest(high, {last})
             where day = {home} and (low > {first} or high < {last})"
        ));
    }
}
