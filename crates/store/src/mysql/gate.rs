//! Gates: the key (run, attempt), the places that a send needs, and the parts that a broadcast run falls into.

use std::collections::BTreeSet;

use punctual_core::model::{LogId, NewRun, RunId, Text};
use punctual_node::ports::{Gate, Gated, SentRow, Split};

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::gather::{Settings, lock_joins};
use super::link::Line;
use super::text::{Script, Sum, list};
use super::trouble::Trouble;
use crate::rows::sent_row;
use crate::rules::{GateVerdict, line_of};

/// How many of the latest days are looked through first for a number: most gates are of these.
const FRESH_DAYS: usize = 4;

/// Gates to be written, with a number for each.
pub(super) struct GateAll<'a> {
    pub(super) splits: &'a [Split],
    pub(super) gates: &'a [Gate],
    pub(super) logs: &'a [u64],
    pub(super) settings: Settings,
}

impl GateAll<'_> {
    /// Gates alone, or those of splits with their parts.
    fn asked(&self) -> impl Iterator<Item = (&Gate, Option<&Split>)> {
        let alone = self.gates.iter().map(|gate| (gate, None));
        alone.chain(self.splits.iter().map(|split| (&split.gate, Some(split))))
    }

    fn parts(&self) -> impl Iterator<Item = &NewRun> + Clone {
        self.splits.iter().flat_map(|split| &split.parts).map(|(run, _)| run)
    }

    /// The questions that go along with locking the runs: whose the places are, and what has become of earlier parts.
    fn more(&self, at: &Moment) -> Vec<String> {
        let holds = || self.asked().flat_map(|(gate, _)| &gate.holds);
        let lines = holds().filter(|hold| hold.takes_turns).map(|hold| line_of(&hold.resource));
        let resources: BTreeSet<Text> = holds().map(|hold| hold.resource.clone()).chain(lines).collect();
        let mut more = vec![match resources.is_empty() {
            true => "select resource, slot, run from holds where 1 = 0".to_owned(),
            false => format!(
                "select resource, slot, run from holds where resource_key in ({})",
                list(resources.iter().map(|resource| Sum(resource)))
            ),
        }];
        more.extend(lock_joins(at, self.splits.iter().map(|split| split.gate.run)));
        more
    }
}

impl Verb for GateAll<'_> {
    /// What was said, and the numbers that were not needed.
    type Answer = (Vec<Gated>, Vec<u64>);

    fn needs(&self, days: &Days) -> Vec<Need> {
        let is_there = |run: RunId| days.has(days.home(run.day()), Table::Runs);
        let gates = self.asked().map(|(gate, _)| gate.run).filter(|run| is_there(*run));
        let mut needs: Vec<Need> = gates.map(|run| (run.day(), Table::Sends)).collect();
        for split in self.splits {
            if is_there(split.gate.run) {
                needs.push((split.gate.run.day(), Table::Joins));
                for (run, _) in &split.parts {
                    needs.extend([(run.id.day(), Table::Runs), (run.id.day(), Table::Parts)]);
                }
            }
        }
        needs
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Self::Answer, Trouble> {
        let runs: BTreeSet<RunId> = self.asked().map(|(gate, _)| gate.run).collect();
        let mut gathered = self.settings.begin();
        let said = gathered.lock_runs(line, at, &runs, self.more(at)).await?;
        gathered.read_holds(&said[0])?;
        for said in &said[1..] {
            gathered.read_joins(said)?;
        }
        gathered.look_for(line, at, self.parts()).await?;
        let mut verdicts: Vec<GateVerdict> = Vec::new();
        for (gate, split) in self.asked() {
            verdicts.push(match split {
                Some(split) => gathered.unit.split(split),
                None => gathered.unit.gate(gate),
            });
        }
        let mut script = Script::new();
        let mut numbers = self.logs.to_vec();
        let logs = gathered.write_sends(&mut script, &mut numbers);
        gathered.write(&mut script, at, line.slot());
        script.push("commit");
        line.ask(script).await?;
        Ok((verdicts.into_iter().map(|verdict| verdict.answer(&logs)).collect(), numbers))
    }
}

/// Numbers for gates that no other caller gets.
pub(super) struct AllotLogs(pub(super) u64);

impl Verb for AllotLogs {
    type Answer = Vec<u64>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<u64>, Trouble> {
        let mut script = Script::of(format!(
            "update counters set value = last_insert_id(value + {}) where name = 'log'",
            self.0
        ));
        let given = script.push("select last_insert_id()");
        let last = line.ask(script).await?[given].number()?.unwrap_or_default() as u64;
        Ok((last + 1 - self.0..=last).collect())
    }
}

/// Whose numbers these are.
pub(super) struct Sent<'a>(pub(super) &'a [LogId]);

impl Verb for Sent<'_> {
    type Answer = Vec<SentRow>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<SentRow>, Trouble> {
        let mut days: Vec<u32> =
            at.days.rows.keys().copied().filter(|day| at.days.has(*day, Table::Sends)).collect();
        days.reverse();
        let mut asked: BTreeSet<LogId> = self.0.iter().copied().collect();
        let mut found = Vec::new();
        for (number, days) in
            [&days[..days.len().min(FRESH_DAYS)], &days[days.len().min(FRESH_DAYS)..]].into_iter().enumerate()
        {
            if asked.is_empty() || (number > 0 && days.is_empty()) {
                break;
            }
            let mut script = Script::snapshot();
            let watch = at.days.watch(&mut script);
            for day in days {
                script.push(format!(
                    "select {SENT_COLUMNS} from {} where log in ({})",
                    Table::Sends.of(*day),
                    list(&asked)
                ));
            }
            script.push("commit");
            let said = line.ask(script).await?;
            at.days.check(&said[watch])?;
            for row in said[watch + 1..].iter().flat_map(|said| &said.rows) {
                let row = sent_row(row)?;
                asked.remove(&row.log);
                found.push(row);
            }
        }
        Ok(found)
    }
}

pub(super) const SENT_COLUMNS: &str = "log, run, job, attempt, token, sent_at, executor";

/// The parts of a run: all, or those that are open.
pub(super) struct PartsOf {
    pub(super) whole: RunId,
    pub(super) is_open: bool,
}

impl Verb for PartsOf {
    type Answer = Vec<RunId>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<RunId>, Trouble> {
        let whole = self.whole;
        let Some(joins) = at.days.beside(Table::Joins, whole.day()) else {
            let said = line.say("select value from meta where name = 'days_version'").await?;
            at.days.check(&said)?;
            return Ok(Vec::new());
        };
        let mut script = Script::of("set transaction isolation level repeatable read");
        script.push("start transaction with consistent snapshot, read only");
        let watch = at.days.watch(&mut script);
        let span = script.push(format!("select first_day, last_day from {joins} where run = {whole}"));
        let said = line.ask(script).await?;
        at.days.check(&said[watch])?;
        let mut script = Script::new();
        if let Some(row) = said[span].first() {
            let (first, last): (u32, u32) = (row.number(0)?, row.number(1)?);
            let days = at.days.rows.keys().copied().filter(|day| (first..=last).contains(day));
            for day in days.filter(|day| at.days.has(*day, Table::Parts)) {
                script.push(self.statement(at, day));
            }
        }
        script.push("commit");
        let said = line.ask(script).await?;
        let mut parts: Vec<(u32, RunId)> = Vec::new();
        for row in said.iter().flat_map(|said| &said.rows) {
            parts.push((row.number(0)?, row.run(1)?));
        }
        parts.sort_unstable();
        Ok(parts.into_iter().map(|(_, run)| run).collect())
    }
}

impl PartsOf {
    fn statement(&self, at: &Moment, day: u32) -> String {
        let (parts, whole) = (Table::Parts.of(day), self.whole);
        let closes = Table::Closes.of(at.days.home(day));
        match self.is_open {
            false => format!("select place, run from {parts} where whole = {whole}"),
            true => format!(
                "select p.place, p.run
                 from {parts} p
                 left join {closes} c on c.run = p.run
                 where p.whole = {whole} and c.run is null"
            ),
        }
    }
}
