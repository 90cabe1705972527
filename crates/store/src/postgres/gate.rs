//! Gates: which rows they touch, and the sends that were written.

use punctual_core::model::LogId;
use punctual_node::ports::{Gate, Gated, SentRow};

use super::Postgres;
use super::ask::{Ask, Columns};
use super::gather::Wanted;
use super::line::Line;
use super::trouble::Trouble;
use crate::rows::sent_row;
use crate::rules::{GateVerdict, line_of};

impl Postgres {
    pub(super) async fn try_gate(&self, line: &Line<'_>, gates: &[Gate]) -> Result<Vec<Gated>, Trouble> {
        let mut gathered = self.gather(line, &wanted(gates.iter())).await?;
        let verdicts: Vec<GateVerdict> = gates.iter().map(|gate| gathered.unit.gate(gate)).collect();
        let flushed = self.flush(line, &gathered).await?;
        Ok(verdicts.into_iter().map(|verdict| verdict.answer(&flushed.logs)).collect())
    }

    pub(super) async fn try_sent(&self, line: &Line<'_>, logs: &[LogId]) -> Result<Vec<SentRow>, Trouble> {
        let logs: Vec<i64> = logs.iter().filter_map(|log| i64::try_from(log.0).ok()).collect();
        // The job is looked up by the run and the run by the gate: neither knows its day before.
        let ask = Ask::new(
            "select s.log, s.run, (select r.job from all_runs r where r.id = s.run), s.attempt, s.token, s.sent_at, s.executor
             from sends s
             where s.log = any($1)",
        );
        let mut rows = Vec::new();
        for row in line.ask(ask.with(logs)).await? {
            if row.maybe(2)?.is_some() {
                rows.push(sent_row(&row)?);
            }
        }
        Ok(rows)
    }
}

/// The rows that gates touch.
pub(super) fn wanted<'g>(gates: impl Iterator<Item = &'g Gate>) -> Wanted<'g> {
    let mut wanted = Wanted::default();
    for gate in gates {
        wanted.runs.insert(gate.run);
        wanted.resources.extend(gate.holds.iter().map(|hold| hold.resource.clone()));
        let lines = gate.holds.iter().filter(|hold| hold.takes_turns);
        wanted.resources.extend(lines.map(|hold| line_of(&hold.resource)));
    }
    wanted
}
