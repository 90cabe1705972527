//! The open runs of one job, day by day.

use punctual_core::model::{JobId, RunId};
use punctual_node::ports::OpenRuns;

use super::ask::{Moment, Verb};
use super::day::{FAR, Table};
use super::link::Line;
use super::text::Script;
use super::trouble::Trouble;

/// How many days are looked at in one round trip.
const DAYS_AT_ONCE: usize = 16;

/// A stretch of a job's runs.
pub(super) struct OpenOf {
    pub(super) job: JobId,
    pub(super) after: RunId,
    pub(super) max: usize,
}

impl Verb for OpenOf {
    type Answer = OpenRuns;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<OpenRuns, Trouble> {
        let first = at.days.home(self.after.day());
        // The far ones come last, as their ids do.
        let homes = at.days.rows.keys().copied().filter(|home| *home == FAR || first <= *home);
        let homes: Vec<u32> = homes.filter(|home| at.days.has(*home, Table::Runs)).collect();
        let (mut open, mut looked_at) = (OpenRuns::default(), 0);
        for homes in homes.chunks(DAYS_AT_ONCE) {
            let mut script = Script::snapshot();
            let watch = at.days.watch(&mut script);
            for home in homes {
                script.push(self.statement(*home));
            }
            script.push("commit");
            let said = line.ask(script).await?;
            at.days.check(&said[watch])?;
            for row in said[watch + 1..].iter().flat_map(|said| &said.rows) {
                looked_at += 1;
                if row.flag(1)? {
                    open.runs.push(row.run(0)?);
                }
                if looked_at == self.max {
                    open.rest = Some(row.run(0)?);
                    return Ok(open);
                }
            }
        }
        Ok(open)
    }
}

impl OpenOf {
    fn statement(&self, home: u32) -> String {
        let OpenOf { job, after, max } = self;
        format!(
            "select r.id, c.run is null
             from (select id
                   from {}
                   where job = {job} and id > {after}
                   order by id
                   limit {max}) r
             left join {} c on c.run = r.id
             order by r.id",
            Table::Runs.of(home),
            Table::Closes.of(home)
        )
    }
}
