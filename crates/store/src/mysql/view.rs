//! Runs as people see them: rows, ends, waits and attempts, gathered from the tables of their days in one snapshot.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, LogId, Origin, Outcome, Part, Payload, RunId, RunState, Token,
};
use punctual_node::ports::{AttemptRow, RunView};

use super::ask::Moment;
use super::day::Table;
use super::link::Line;
use super::read::{Record, Said, readable};
use super::text::{Script, list};
use super::trouble::{Trouble, corrupt};
use crate::code::{attempt_outcome_from, outcome_from};

const RUN: &str =
    "r.id, r.job, r.shard, r.fire_time, r.due, r.origin, r.decided, r.priority, r.`of`, r.key_text,
                   r.payload";

const END: &str = "c.outcome, c.reason, c.closed_at, c.range_until, c.range_count";

/// The columns that [`record`] reads.
const RECORD: &str =
    "attempt, token, executor, started_at, ended_at, attempt_outcome, message, possible_duplicate";

/// The runs that are there, by id. One that cannot be read is left out, unless it is the only one that is asked for.
pub(super) async fn views(
    line: &mut Line,
    at: &Moment,
    ids: &BTreeSet<RunId>,
) -> Result<BTreeMap<RunId, RunView>, Trouble> {
    let mut script = Script::snapshot();
    let days = at.days.watch(&mut script);
    let homes = at.days.by_home(ids.iter().copied());
    for (home, runs) in &homes {
        script.push(format!(
            "select {RUN}, {END}, w.run is not null, w.ready_at, w.attempt
             from {} r
             left join {} c on c.run = r.id
             left join waiting w on w.run = r.id
             where r.id in ({})",
            Table::Runs.of(*home),
            Table::Closes.of(*home),
            list(runs)
        ));
        script.push(format!(
            "select run, {RECORD} from {} where run in ({}) and attempt is not null",
            Table::Closes.of(*home),
            list(runs)
        ));
    }
    let attempts = at.days.by_day(Table::Attempts, ids.iter().copied());
    for (day, runs) in &attempts {
        script.push(format!(
            "select run, {RECORD} from {} where run in ({})",
            Table::Attempts.of(*day),
            list(runs)
        ));
    }
    let sends = at.days.by_day(Table::Sends, ids.iter().copied());
    for (day, runs) in &sends {
        script.push(format!(
            "select run, attempt, token, log, sent_at, executor from {} where run in ({})",
            Table::Sends.of(*day),
            list(runs)
        ));
    }
    for (day, runs) in at.days.by_day(Table::Parts, ids.iter().copied()) {
        script.push(format!(
            "select run, place, total, address from {} where run in ({})",
            Table::Parts.of(day),
            list(&runs)
        ));
    }
    script.push("commit");
    let said = line.ask(script).await?;
    at.days.check(&said[days])?;
    let (rows, rest) = said[days + 1..].split_at(2 * homes.len());
    let (attempts, rest) = rest.split_at(attempts.len());
    let (sends, parts) = rest.split_at(sends.len());
    let mut beside = Beside::default();
    // The last word about an attempt is the one in the close.
    for said in attempts.iter().chain(rows.iter().skip(1).step_by(2)) {
        beside.add_ended(said)?;
    }
    for said in sends {
        beside.add_gates(said)?;
    }
    for said in parts {
        beside.add_parts(said)?;
    }
    let mut views = BTreeMap::new();
    for row in rows.iter().step_by(2).flat_map(|said| &said.rows) {
        let view = view(row, &mut beside);
        if ids.len() == 1 {
            views.extend([view.map(|view| (view.id, view))?]);
        } else {
            views.extend(readable(view)?.map(|view| (view.id, view)));
        }
    }
    Ok(views)
}

/// What lies beside the rows of runs.
#[derive(Default)]
struct Beside {
    ended: BTreeMap<RunId, BTreeMap<Attempt, AttemptRecord>>,
    gates: BTreeMap<RunId, BTreeMap<Attempt, AttemptRow>>,
    parts: BTreeMap<RunId, Part>,
}

impl Beside {
    fn add_ended(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            if let Some(record) = readable(record(row))? {
                self.ended.entry(row.run(0)?).or_default().insert(record.number, record);
            }
        }
        Ok(())
    }

    fn add_gates(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            let number = row.attempt(1)?;
            let open = AttemptRow::Open {
                number,
                token: Token(row.uint(2)?),
                log: LogId(row.uint(3)?),
                started_at: row.at(4)?,
                executor: row.text(5)?,
            };
            self.gates.entry(row.run(0)?).or_default().insert(number, open);
        }
        Ok(())
    }

    fn add_parts(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            let part = Part { index: row.number(1)?, total: row.number(2)?, address: row.text(3)? };
            self.parts.insert(row.run(0)?, part);
        }
        Ok(())
    }
}

fn record(row: &Record) -> Result<AttemptRecord, Trouble> {
    let outcome = attempt_outcome_from(row.int(6)?);
    Ok(AttemptRecord {
        number: row.attempt(1)?,
        token: Token(row.uint(2)?),
        executor: row.text(3)?,
        started_at: row.at(4)?,
        ended_at: row.at(5)?,
        outcome: outcome.ok_or_else(|| corrupt("attempts", row.uint(0).unwrap_or(0), "no such outcome"))?,
        message: row.text(7)?,
        possible_duplicate: row.flag(8)?,
    })
}

/// What a run waits for.
struct Wait {
    ready_at: Option<Timestamp>,
    attempt: Attempt,
}

fn view(row: &Record, beside: &mut Beside) -> Result<RunView, Trouble> {
    let id = row.run(0)?;
    let outcome = match row.maybe(11, Record::int)? {
        Some(code) => Some(outcome_from(code).ok_or_else(|| corrupt("closes", id, "no such outcome"))?),
        None => None,
    };
    let wait = match row.flag(16)? {
        true => Some(Wait { ready_at: row.maybe(17, Record::at)?, attempt: row.attempt(18)? }),
        false => None,
    };
    row.decided(6)?;
    let origin = row.origin(5)?;
    let gates = beside.gates.remove(&id).unwrap_or_default();
    let state = state(outcome, wait.as_ref(), !gates.is_empty());
    let ended = beside.ended.remove(&id).unwrap_or_default();
    let mut attempts = gates;
    attempts.extend(ended.into_iter().map(|(number, record)| (number, AttemptRow::Ended(record))));
    Ok(RunView {
        id,
        job: row.job(1)?,
        shard: row.shard(2)?,
        fire_time: row.at(3)?,
        due: row.at(4)?,
        origin,
        state,
        reason: row.maybe(12, Record::text)?.unwrap_or_default(),
        closed_at: row.maybe(13, Record::at)?,
        range: row.maybe(14, Record::at)?.zip(row.maybe(15, Record::uint)?),
        priority: row.number(7)?,
        payload: row.maybe(10, Record::string)?.map(Payload::from),
        key: row.maybe(9, Record::text)?,
        of: row.maybe(8, Record::run)?,
        ready_at: wait.and_then(|wait| wait.ready_at),
        attempts: attempts.into_values().collect(),
        part: beside.parts.remove(&id).filter(|_| origin == Origin::Part),
    })
}

fn state(outcome: Option<Outcome>, wait: Option<&Wait>, is_gated: bool) -> RunState {
    match (outcome, wait) {
        (Some(outcome), _) => outcome.into(),
        (None, Some(wait)) if wait.attempt > Attempt::FIRST => RunState::Retrying,
        (None, Some(_)) => RunState::Pending,
        (None, None) if is_gated => RunState::Running,
        (None, None) => RunState::Pending,
    }
}

/// The condition that a run, with its end, its wait and its flight, is in a state.
pub(super) fn is_in(state: RunState) -> String {
    let open = "c.run is null and";
    match state {
        RunState::Pending => {
            format!("{open} (w.attempt <= 1 or (w.run is null and f.run is null))")
        }
        RunState::Running => format!("{open} w.run is null and f.run is not null"),
        RunState::Retrying => format!("{open} w.attempt > 1"),
        RunState::Succeeded => "c.outcome = 0".into(),
        RunState::Failed => "c.outcome = 1".into(),
        RunState::Lost => "c.outcome = 2".into(),
        RunState::Cancelled => "c.outcome = 3".into(),
        RunState::Skipped => "c.outcome = 4".into(),
    }
}
