//! Broadcast runs: a whole that falls into parts, and the count of the parts that have not ended.

use punctual_core::model::{AttemptRecord, Close, JobId, Join, Outcome, RunId};
use punctual_node::ports::{Gated, OpenRuns, Split};

use super::Postgres;
use super::ask::{Ask, Columns, Flight, run_code};
use super::gate::{Said, wanted};
use super::gather::Wanted;
use super::line::Line;
use super::sheet::{JoinNow, Sheet};
use super::trouble::Trouble;

impl Postgres {
    pub(super) async fn try_split(&self, line: &Line<'_>, splits: &[Split]) -> Result<Vec<Gated>, Trouble> {
        let wanted = Wanted {
            fresh: splits.iter().flat_map(|split| split.parts.iter().map(|(run, _)| run)).collect(),
            wholes: splits.iter().map(|split| split.gate.run).collect(),
            ..wanted(splits.iter().map(|split| &split.gate))
        };
        let mut sheet = self.gather(line, &wanted).await?;
        let said: Vec<Said> = splits.iter().map(|split| sheet.split(split)).collect();
        let flushed = self.flush(line, &sheet).await?;
        Ok(said.into_iter().map(|said| said.tell(&flushed)).collect())
    }

    pub(super) async fn try_open_parts(&self, line: &Line<'_>, whole: RunId) -> Result<Vec<RunId>, Trouble> {
        let mut flight = Flight::snapshot();
        let parts = flight.add(parts_of(whole));
        let mut landed = line.fly(flight).await?;
        let ids = landed.take(parts).iter().map(|row| row.run(0)).collect::<Result<Vec<RunId>, Trouble>>()?;
        let mut flight = Flight::new();
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

impl Sheet {
    fn split(&mut self, split: &Split) -> Said {
        let places = match self.meet(&split.gate) {
            Ok(places) => places,
            Err(said) => return said,
        };
        let whole = split.gate.run;
        let said = self.write_gate(&split.gate, places);
        let mut ids = Vec::new();
        for (new, part) in &split.parts {
            if let Ok(id) = self.insert(new.clone()) {
                self.writes.parts.push((id, whole, part.clone()));
                ids.push(id);
            }
        }
        let before = self.joins.get(&whole).copied();
        // Parts of an earlier split that have not ended are waited for too.
        let open = before.map_or(0, |before| before.join.open) + ids.len() as u32;
        let earlier = before.map(|before| [before.first_part, before.last_part]);
        ids.extend(earlier.into_iter().flatten());
        let row = JoinNow {
            join: Join { total: open, open, succeeded: 0 },
            first_part: ids.iter().min().copied().unwrap_or(whole),
            last_part: ids.iter().max().copied().unwrap_or(whole),
        };
        self.joins.insert(whole, row);
        self.writes.joins.insert(whole, before.is_some());
        said
    }

    /// Closes a part, which counts with its whole and not with its job; the whole, if nothing of it is open any more.
    pub(super) fn close_part(
        &mut self,
        id: RunId,
        close: Close,
        unsent: Option<punctual_core::model::Attempt>,
        attempt: Option<AttemptRecord>,
        whole: RunId,
    ) -> Option<(RunId, Join)> {
        let has_succeeded = close.outcome == Outcome::Succeeded;
        self.shut(id, close, unsent, attempt);
        let row = self.joins.get_mut(&whole).filter(|row| row.join.open > 0)?;
        row.join.open -= 1;
        row.join.succeeded += u32::from(has_succeeded);
        self.writes.joins.insert(whole, true);
        (row.join.open == 0).then_some((whole, row.join))
    }
}
