//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{Child, JobId};
use punctual_node::ports::{ClockRow, JobRow, Lease, Plan, Planned, StoreError};

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline};
use super::code::when_from;
use super::gather::Wanted;
use super::line::Line;
use super::load::shards_of;
use super::trouble::{Trouble, corrupt};
use crate::rows::{clock_row, job_row};
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
        line.ask(ask).await?.iter().map(clock_row).collect()
    }

    pub(super) async fn try_jobs(
        &self,
        line: &Line<'_>,
        ids: &[JobId],
    ) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, Trouble> {
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(id.0)).collect();
        let mut flight = Pipeline::snapshot();
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
            let job = match job_row(&row, children.remove(&id).unwrap_or_default()) {
                Ok(job) => Ok(job),
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
