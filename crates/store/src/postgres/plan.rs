//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Child, JobId};
use punctual_node::ports::{ClockRow, JobRow, Lease, Plan, Planned, PlannedTo, StoreError};
use tokio_postgres::Row;

use super::Postgres;
use super::ask::{Ask, Columns, Flight};
use super::code::{state_from, when_from};
use super::gather::Wanted;
use super::line::Line;
use super::load::shards_of;
use super::trouble::{Trouble, corrupt};
use crate::row::definition_from_text;
use crate::rules::names_earlier_instants;

/// Shard by shard, so that each walks over the index of enabled clocks in its order and stops after what is asked for.
pub(super) const DUE: &str = "
    select c.job, c.shard::bigint, c.next_fire, c.version, c.decided, c.reserved
    from unnest($1) as s (shard)
    cross join lateral (
        select job, shard, next_fire, version, decided, reserved
        from clocks
        where shard = s.shard and enabled and next_fire is not null and next_fire <= $2
        order by next_fire, job
        limit $3
    ) as c
    order by c.next_fire, c.job
    limit $3";

impl Postgres {
    pub(super) async fn try_due(
        &self,
        line: &Line<'_>,
        leases: &[Lease],
        until: Timestamp,
        max: usize,
    ) -> Result<Vec<ClockRow>, Trouble> {
        let ask = Ask::new(DUE)
            .with(shards_of(leases))
            .with(until.as_millis())
            .with(i64::try_from(max).unwrap_or(i64::MAX));
        let row = |row: &Row| {
            Ok(ClockRow {
                job: row.job(0)?,
                shard: row.shard(1)?,
                next_fire: row.instant(2)?,
                version: row.bits(3)?,
                planned: PlannedTo { decided: row.instant(4)?, reserved: row.instant(5)? },
            })
        };
        line.ask(ask).await?.iter().map(row).collect()
    }

    pub(super) async fn try_jobs(
        &self,
        line: &Line<'_>,
        ids: &[JobId],
    ) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, Trouble> {
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(id.0)).collect();
        let mut flight = Flight::snapshot();
        let jobs = flight.add(
            Ask::new(
                "select j.id, j.version, j.changed_at, j.state::bigint, j.reason, j.definition,
                        c.shard::bigint, c.next_fire, c.decided, c.reserved
                 from jobs j
                 join clocks c on c.job = j.id
                 where j.id = any($1)",
            )
            .with(ids.clone()),
        );
        let bonds = flight.add(
            Ask::new("select parent, child, ends::bigint from bonds where parent = any($1) order by parent, child, ends")
                .with(ids),
        );
        flight.commit();
        let mut landed = line.fly(flight).await?;
        let mut children: BTreeMap<JobId, Vec<Child>> = BTreeMap::new();
        for row in landed.take(bonds) {
            let when =
                when_from(row.number(2)?).ok_or_else(|| corrupt("bonds", "of a job", "no such end"))?;
            children.entry(row.job(0)?).or_default().push(Child { job: row.job(1)?, when });
        }
        let mut rows = Vec::new();
        for row in landed.take(jobs) {
            let id = row.job(0)?;
            let job = match job_row(&row, id) {
                Ok(job) => Ok(JobRow { children: children.remove(&id).unwrap_or_default(), ..job }),
                Err(Trouble::Refused(error)) => Err(error),
                Err(trouble) => return Err(trouble),
            };
            rows.push((id, job));
        }
        Ok(rows)
    }

    pub(super) async fn try_plan(&self, line: &Line<'_>, plans: &[Plan]) -> Result<Vec<Planned>, Trouble> {
        let fresh =
            plans.iter().flat_map(|plan| plan.runs.iter().chain(plan.skipped.iter().map(|(run, _)| run)));
        let wanted = Wanted {
            fresh: fresh.collect(),
            clocks: plans.iter().map(|plan| plan.clock.job).collect(),
            counts: plans.iter().filter_map(|plan| Some(plan.skipped.as_ref()?.0.job)).collect(),
            leases: plans.iter().map(|plan| plan.lease).collect(),
            thinned: plans
                .iter()
                .filter(|plan| names_earlier_instants(plan))
                .map(|plan| plan.clock.job)
                .collect(),
            ..Wanted::default()
        };
        let mut gathered = self.gather(line, &wanted).await?;
        let answers = plans.iter().map(|plan| gathered.unit.plan(plan)).collect();
        self.flush(line, &gathered).await?;
        Ok(answers)
    }
}

fn job_row(row: &Row, id: JobId) -> Result<JobRow, Trouble> {
    let state = state_from(row.number(3)?, &row.string(4)?);
    let definition = definition_from_text(&row.string(5)?).map_err(|reason| corrupt("jobs", id, reason))?;
    Ok(JobRow {
        id,
        version: row.bits(1)?,
        shard: row.shard(6)?,
        next_fire: row.maybe_instant(7)?,
        planned: PlannedTo { decided: row.instant(8)?, reserved: row.instant(9)? },
        changed_at: row.instant(2)?,
        state: state.ok_or_else(|| corrupt("jobs", id, "no such state"))?,
        definition,
        children: Vec::new(),
    })
}
