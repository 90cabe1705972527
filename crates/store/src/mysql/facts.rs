//! What is known of some runs while a transaction has them locked: gates and ends are judged by it, and what they change is
//! written as the difference.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{Attempt, Decided, JobId, LogId, Origin, RunId, ShardId, Text, Token};

use super::ask::Moment;
use super::day::Table;
use super::link::Line;
use super::read::{Record, Said};
use super::text::{Script, list, maybe_ms, ms};
use super::trouble::Trouble;
use crate::code::{decided_code, origin_code};

/// A run that is locked.
pub(super) struct Facts {
    pub(super) job: JobId,
    pub(super) shard: ShardId,
    fire_time: Timestamp,
    due: Timestamp,
    origin: Origin,
    decided: Decided,
    priority: u8,
    has_payload: bool,
    pub(super) has_key: bool,
    pub(super) is_closed: bool,
    /// The attempt that its close keeps from being sent.
    pub(super) unsent: Option<Attempt>,
    pub(super) sends: BTreeMap<Attempt, (Token, LogId)>,
    pub(super) wait: Option<Wait>,
    /// The resources that it has a place of.
    pub(super) holds: BTreeSet<Text>,
    was_waiting: bool,
    was_gated: bool,
    is_wait_new: bool,
}

/// What a run waits for instead of its due time.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) ready_at: Option<Timestamp>,
    pub(super) attempt: Attempt,
}

impl Facts {
    fn read(row: &Record) -> Result<(RunId, Facts), Trouble> {
        let facts = Facts {
            job: row.job(1)?,
            shard: row.shard(2)?,
            fire_time: row.at(3)?,
            due: row.at(4)?,
            origin: row.origin(5)?,
            decided: row.decided(6)?,
            priority: row.number(7)?,
            has_payload: row.flag(8)?,
            has_key: row.flag(9)?,
            is_closed: false,
            unsent: None,
            sends: BTreeMap::new(),
            wait: None,
            holds: BTreeSet::new(),
            was_waiting: false,
            was_gated: false,
            is_wait_new: false,
        };
        Ok((row.run(0)?, facts))
    }

    /// Whether an attempt after this one was gated or is waited for.
    pub(super) fn is_beyond(&self, attempt: Attempt) -> bool {
        let gated = self.sends.keys().last().copied().max(self.unsent);
        gated.max(self.wait.map(|wait| wait.attempt)) > Some(attempt)
    }

    /// Whether the run has come as far as this attempt, which no gate has: nothing sends an attempt that it does not
    /// wait for.
    pub(super) fn reaches(&self, attempt: Attempt) -> bool {
        attempt <= self.wait.map_or(Attempt::FIRST, |wait| wait.attempt)
    }

    /// Whether somebody has the key of a gate.
    pub(super) fn is_taken(&self, attempt: Attempt) -> bool {
        self.unsent == Some(attempt) || self.sends.contains_key(&attempt)
    }

    pub(super) fn set_wait(&mut self, wait: Option<Wait>) {
        self.is_wait_new = wait.is_some();
        self.wait = wait;
    }

    fn wait_row(&self, run: RunId, wait: Wait) -> String {
        format!(
            "({run}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0)",
            self.job,
            self.shard,
            ms(self.fire_time),
            ms(self.due),
            origin_code(self.origin),
            decided_code(self.decided),
            self.priority,
            u8::from(self.has_payload),
            maybe_ms(wait.ready_at),
            wait.attempt,
        )
    }
}

/// Adds the statements that lock runs and read what is known of them; [`read_facts`] reads the answers.
pub(super) fn push_facts(script: &mut Script, at: &Moment, runs: &BTreeSet<RunId>) -> usize {
    let first = script.push("select 1 from meta where 1 = 0");
    for (home, runs) in at.days.by_home(runs.iter().copied()) {
        let (table, closes, ids) = (Table::Runs.of(home), Table::Closes.of(home), list(&runs));
        script.push(format!(
            "select id, job, shard, fire_time, due, origin, decided, priority, payload is not null,
                    key_text is not null
             from {table}
             where id in ({ids})
             order by id
             for update"
        ));
        script.push(format!("select run, unsent from {closes} where run in ({ids})"));
    }
    for (day, runs) in at.days.by_day(Table::Sends, runs.iter().copied()) {
        script.push(format!(
            "select run, attempt, token, log from {} where run in ({})",
            Table::Sends.of(day),
            list(&runs)
        ));
    }
    let ids = list(runs);
    script.push(format!("select run, ready_at, attempt from waiting where run in ({ids})"));
    script.push(format!("select run, resource from holds where run in ({ids})"));
    first
}

pub(super) fn read_facts(
    at: &Moment,
    runs: &BTreeSet<RunId>,
    said: &[Said],
) -> Result<BTreeMap<RunId, Facts>, Trouble> {
    let mut said = said.iter().skip(1);
    let mut rows = || said.next().map_or(&[][..], |said| &said.rows[..]);
    let mut facts: BTreeMap<RunId, Facts> = BTreeMap::new();
    for _ in at.days.by_home(runs.iter().copied()) {
        for row in rows() {
            let (run, found) = Facts::read(row)?;
            facts.insert(run, found);
        }
        for row in rows() {
            if let Some(facts) = facts.get_mut(&row.run(0)?) {
                facts.is_closed = true;
                facts.unsent = row.maybe(1, Record::attempt)?;
            }
        }
    }
    for _ in at.days.by_day(Table::Sends, runs.iter().copied()) {
        for row in rows() {
            if let Some(facts) = facts.get_mut(&row.run(0)?) {
                facts.sends.insert(row.attempt(1)?, (Token(row.uint(2)?), LogId(row.uint(3)?)));
                facts.was_gated = true;
            }
        }
    }
    for row in rows() {
        if let Some(facts) = facts.get_mut(&row.run(0)?) {
            facts.wait = Some(Wait { ready_at: row.maybe(1, Record::at)?, attempt: row.attempt(2)? });
            facts.was_waiting = true;
        }
    }
    for row in rows() {
        if let Some(facts) = facts.get_mut(&row.run(0)?) {
            facts.holds.insert(row.text(1)?);
        }
    }
    Ok(facts)
}

/// Adds what has changed about waiting and being on the way.
pub(super) fn write_facts(script: &mut Script, facts: &BTreeMap<RunId, Facts>) {
    let over: Vec<RunId> = facts
        .iter()
        .filter(|(_, facts)| facts.was_waiting && facts.wait.is_none())
        .map(|(run, _)| *run)
        .collect();
    if !over.is_empty() {
        script.push(format!("delete from waiting where run in ({})", list(&over)));
    }
    let waits = facts.iter().filter(|(_, facts)| facts.is_wait_new);
    let waits = waits.filter_map(|(run, facts)| Some(facts.wait_row(*run, facts.wait?)));
    script.push_rows(
        "insert into waiting (run, job, shard, fire_time, due, origin, decided, priority, has_payload, ready_at,
                              attempt, is_called_back) values ",
        waits,
        " on duplicate key update
             ready_at = values(ready_at),
             attempt = values(attempt),
             is_called_back = 0",
    );
    let begun =
        facts.iter().filter(|(_, facts)| !facts.was_gated && !facts.sends.is_empty() && !facts.is_closed);
    let row = |(run, facts): (&RunId, &Facts)| format!("({run}, {})", facts.shard);
    script.push_rows("insert into flights (run, shard) values ", begun.map(row), "");
    let ended: Vec<RunId> =
        facts.iter().filter(|(_, facts)| facts.was_gated && facts.is_closed).map(|(run, _)| *run).collect();
    if !ended.is_empty() {
        script.push(format!("delete from flights where run in ({})", list(&ended)));
    }
}

/// Adds rows of gates, by the days of their runs.
pub(super) fn write_sends(script: &mut Script, sends: Vec<(RunId, String)>) {
    let mut days: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (run, row) in sends {
        days.entry(run.day()).or_default().push(row);
    }
    for (day, rows) in days {
        let table = Table::Sends.of(day);
        let head = format!("insert into {table} (run, attempt, job, token, log, sent_at, executor) values ");
        script.push_rows(&head, rows, "");
    }
}

/// Locks runs and reads what is known of them, in one round trip that begins a transaction. What else is asked in it comes
/// after.
pub(super) async fn lock_facts(
    line: &mut Line,
    at: &Moment,
    runs: &BTreeSet<RunId>,
    more: impl IntoIterator<Item = String>,
) -> Result<(BTreeMap<RunId, Facts>, Vec<Said>), Trouble> {
    let mut script = Script::transaction();
    at.days.keep_far(&mut script, runs.iter().map(|run| run.day()));
    let first = push_facts(&mut script, at, runs);
    let days = at.days.watch(&mut script);
    for statement in more {
        script.push(statement);
    }
    let mut said = line.ask(script).await?;
    at.days.check(&said[days])?;
    let facts = read_facts(at, runs, &said[first..])?;
    Ok((facts, said.split_off(days + 1)))
}
