//! A run as people see it: its row, its end, what it waits for and its attempts, gathered in one snapshot.

use std::collections::BTreeMap;

use punctual_core::model::{RunId, RunState};
use punctual_node::ports::RunView;
use tokio_postgres::Row;

use super::ask::{Ask, Columns, Pipeline};
use super::line::Line;
use super::load::by_run;
use super::run_row::VIEW;
use super::trouble::Trouble;
use crate::rows::{OfRun, attempt_record, close, open_attempt, part, run_view, wait};

/// A state as a number; those of closed runs are the numbers of their outcomes.
pub(super) fn state_number(state: RunState) -> i64 {
    match state {
        RunState::Succeeded => 0,
        RunState::Failed => 1,
        RunState::Lost => 2,
        RunState::Cancelled => 3,
        RunState::Skipped => 4,
        RunState::Pending => 5,
        RunState::Running => 6,
        RunState::Retrying => 7,
    }
}

/// Runs as people see them, those that are there and can be read, in no order.
pub(super) async fn views(line: &Line<'_>, ids: &[RunId]) -> Result<Vec<RunView>, Trouble> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut flight = Pipeline::snapshot();
    let of_runs = |sql: &'static str| Ask::new(sql).with_runs(ids);
    let runs = flight.add(of_runs(VIEW));
    let closes = flight.add(of_runs(
        "select run, attempt, token, executor, started_at, ended_at, attempt_outcome::bigint, message, possible_duplicate,
                outcome::bigint, reason, closed_at, range_until, range_count
         from all_closes
         where run = any($1) and run between $2 and $3",
    ));
    let waits = flight.add(of_runs(
        "select run, ready_at, attempt, is_called_back from waiting where run = any($1) and run between $2 and $3",
    ));
    let attempts = flight.add(of_runs(
        "select run, attempt, token, executor, started_at, ended_at, attempt_outcome::bigint, message, possible_duplicate
         from attempts
         where run = any($1) and run between $2 and $3",
    ));
    let sends = flight.add(of_runs(
        "select run, attempt, token, log, sent_at, executor
         from sends
         where run = any($1) and run between $2 and $3",
    ));
    let parts = flight.add(of_runs(
        "select run, part, total, address from parts where run = any($1) and run between $2 and $3",
    ));
    flight.commit();
    let mut landed = line.fly(flight).await?;
    let closes = by_run(landed.take(closes))?;
    let waits = by_run(landed.take(waits))?;
    let attempts = all_by_run(landed.take(attempts))?;
    let sends = all_by_run(landed.take(sends))?;
    let parts = by_run(landed.take(parts))?;
    let mut found = Vec::new();
    for row in landed.take(runs) {
        let id = row.run(0)?;
        let none = Vec::new();
        let beside = Beside {
            close: closes.get(&id),
            wait: waits.get(&id),
            attempts: attempts.get(&id).unwrap_or(&none),
            sends: sends.get(&id).unwrap_or(&none),
            part: parts.get(&id),
        };
        match beside.read().and_then(|of_run| run_view(&row, of_run)) {
            Ok(view) => found.push(view),
            // One that cannot be read does not take the others with it; asked for alone, it is told about.
            Err(Trouble::Refused(_)) if ids.len() > 1 => {}
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(found)
}

/// The rows that lie beside that of a run.
struct Beside<'r> {
    close: Option<&'r Row>,
    wait: Option<&'r Row>,
    attempts: &'r [Row],
    sends: &'r [Row],
    part: Option<&'r Row>,
}

impl Beside<'_> {
    fn read(&self) -> Result<OfRun, Trouble> {
        let mut of_run = OfRun {
            close: self.close.map(|row| close(row, 9)).transpose()?,
            wait: self.wait.map(|row| wait(row, 1)).transpose()?,
            part: self.part.map(|row| part(row, 1)).transpose()?,
            ..OfRun::default()
        };
        for row in self.sends {
            of_run.sent.extend([open_attempt(row, 1)?]);
        }
        // The last word about an attempt is that of the close.
        let closing = self.close.iter().copied().filter(|row| !matches!(row.maybe(1), Ok(None)));
        for row in self.attempts.iter().chain(closing) {
            let record = attempt_record(row, 1)?;
            of_run.ended.insert(record.number, record);
        }
        Ok(of_run)
    }
}

fn all_by_run(rows: Vec<Row>) -> Result<BTreeMap<RunId, Vec<Row>>, Trouble> {
    let mut all: BTreeMap<RunId, Vec<Row>> = BTreeMap::new();
    for row in rows {
        all.entry(row.run(0)?).or_default().push(row);
    }
    Ok(all)
}
