//! Runs as people see them: rows, ends, waits and attempts, gathered from the tables of their days in one snapshot.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{RunId, RunState};
use punctual_node::ports::RunView;

use super::ask::Moment;
use super::day::Table;
use super::link::Line;
use super::read::{Record, Said, readable};
use super::run_row::{VIEW, VIEW_CELLS};
use super::text::{Script, list};
use super::trouble::Trouble;
use crate::rows::{OfRun, attempt_record, close, open_attempt, part, run_view, wait};

const END: &str = "c.outcome, c.reason, c.closed_at, c.range_until, c.range_count";

/// The columns that [`attempt_record`] reads.
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
            "select {VIEW}, {END}, w.run is not null, w.ready_at, w.attempt, w.is_called_back
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
struct Beside(BTreeMap<RunId, OfRun>);

impl Beside {
    fn add_ended(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            if let Some(record) = readable(attempt_record(row, 1))? {
                self.of(row)?.ended.insert(record.number, record);
            }
        }
        Ok(())
    }

    fn add_gates(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            let open = open_attempt(row, 1)?;
            self.of(row)?.sent.extend([open]);
        }
        Ok(())
    }

    fn add_parts(&mut self, said: &Said) -> Result<(), Trouble> {
        for row in &said.rows {
            self.of(row)?.part = Some(part(row, 1)?);
        }
        Ok(())
    }

    fn of(&mut self, row: &Record) -> Result<&mut OfRun, Trouble> {
        Ok(self.0.entry(row.run(0)?).or_default())
    }
}

fn view(row: &Record, beside: &mut Beside) -> Result<RunView, Trouble> {
    let mut of_run = beside.0.remove(&row.run(0)?).unwrap_or_default();
    if !row.is_null(VIEW_CELLS) {
        of_run.close = Some(close(row, VIEW_CELLS)?);
    }
    if row.flag(VIEW_CELLS + 5)? {
        of_run.wait = Some(wait(row, VIEW_CELLS + 6)?);
    }
    run_view(row, of_run)
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
