//! Broadcast runs: which rows a split touches, and which of its parts and of a job's runs are open.

use punctual_core::model::{JobId, RunId};
use punctual_node::ports::{Gated, OpenRuns, Split};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, run_code};
use super::gate::wanted;
use super::gather::Wanted;
use super::line::Line;
use super::trouble::Trouble;
use crate::rules::GateVerdict;

impl Postgres {
    pub(super) async fn try_split(&self, line: &Line<'_>, splits: &[Split]) -> Result<Vec<Gated>, Trouble> {
        let wanted = Wanted {
            fresh: splits.iter().flat_map(|split| split.parts.iter().map(|(run, _)| run)).collect(),
            wholes: splits.iter().map(|split| split.gate.run).collect(),
            ..wanted(splits.iter().map(|split| &split.gate))
        };
        let mut gathered = self.gather(line, &wanted).await?;
        let verdicts: Vec<GateVerdict> = splits.iter().map(|split| gathered.unit.split(split)).collect();
        let flushed = self.flush(line, &gathered).await?;
        Ok(verdicts.into_iter().map(|verdict| verdict.answer(&flushed.logs)).collect())
    }

    pub(super) async fn try_open_parts(&self, line: &Line<'_>, whole: RunId) -> Result<Vec<RunId>, Trouble> {
        let mut flight = Pipeline::snapshot();
        let parts = flight.add(parts_of(whole));
        let mut landed = line.fly(flight).await?;
        let ids = landed.take(parts).iter().map(|row| row.run(0)).collect::<Result<Vec<RunId>, Trouble>>()?;
        let mut flight = Pipeline::new();
        let ask = "select run from all_closes where run = any($1) and run between $2 and $3";
        let closed = flight.add(Ask::new(ask).with_runs(&ids));
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut open = ids;
        for row in landed.take(closed) {
            let closed = row.run(0)?;
            open.retain(|run| *run != closed);
        }
        Ok(open)
    }

    pub(super) async fn try_open_runs(
        &self,
        line: &Line<'_>,
        job: JobId,
        after: RunId,
        max: usize,
    ) -> Result<OpenRuns, Trouble> {
        let ask = Ask::new(
            "select r.id, not exists (select from all_closes c where c.run = r.id)
             from (
                 select id
                 from all_runs
                 where job = $1 and id > $2
                 order by id
                 limit $3
             ) as r
             order by r.id",
        );
        let ask = ask.with(i64::from(job.0)).with(run_code(after)).with(max as i64);
        let rows = line.ask(ask).await?;
        let mut open = OpenRuns::default();
        for row in &rows {
            if row.flag(1)? {
                open.runs.push(row.run(0)?);
            }
        }
        if rows.len() == max {
            open.rest = rows.last().map(|row| row.run(0)).transpose()?;
        }
        Ok(open)
    }
}

/// The parts of a run that are there, by index. A whole that is gone has none.
pub(super) fn parts_of(whole: RunId) -> Ask {
    Ask::new(
        "select p.run, p.part, p.total, p.address
         from joins j
         join parts p on p.whole = j.run and p.run between j.first_part and j.last_part
         where j.run = $1
         order by p.part, p.run",
    )
    .with(run_code(whole))
}
