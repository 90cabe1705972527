//! Planning: which clocks are due, and moving them with a record for every instant they pass.

use calendar::Timestamp;
use punctual_core::model::{Child, JobId, JobState, NewRun, ShardId, StoppedReason, When};
use punctual_node::ports::{ClockRow, JobRow, Lease, Plan, Planned, StoreError};

use super::leases::shards_of;
use super::merge::least;
use super::state::{Job, State};

impl State {
    pub(super) fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Vec<ClockRow> {
        let of_shard = |shard: ShardId| {
            let range = (shard, Timestamp::MIN, JobId(0))..=(shard, until, JobId(u32::MAX));
            self.clocks.range(range).map(|(shard, next_fire, job)| (*next_fire, *job, *shard))
        };
        let sources = shards_of(leases).into_iter().map(of_shard).collect();
        let row = |(next_fire, job, shard)| {
            let Job { version, planned, .. } = self.jobs[&job];
            ClockRow { job, shard, next_fire, version, planned }
        };
        least(sources, max).into_iter().map(row).collect()
    }

    pub(super) fn job_row(&self, id: JobId) -> Option<Result<JobRow, StoreError>> {
        let job = self.jobs.get(&id)?;
        if let Some(reason) = &job.defaced {
            let what = format!("jobs row {id}").into();
            return Some(Err(StoreError::Corrupt { what, reason: reason.clone() }));
        }
        Some(Ok(JobRow {
            id,
            version: job.version,
            shard: job.shard,
            next_fire: job.next_fire,
            planned: job.planned,
            changed_at: job.changed_at,
            state: job.state.clone(),
            definition: job.definition.clone(),
            children: self.children_of(id),
        }))
    }

    fn children_of(&self, parent: JobId) -> Vec<Child> {
        let first = (parent, JobId(0), When::Succeeded);
        let rows = self.children.range(first..).take_while(|(of, _, _)| *of == parent);
        rows.map(|(_, job, when)| Child { job: *job, when: *when }).collect()
    }

    pub(super) fn plan(&mut self, now: Timestamp, plan: Plan) -> Planned {
        let id = plan.clock.job;
        let is_as_read = self.jobs.get(&id).is_some_and(|job| is_as_read(job, &plan.clock));
        if !is_as_read || !self.is_current(now, plan.lease) {
            return Planned::Overtaken;
        }
        let before = self.jobs[&id].planned.reserved;
        // An instant that was planned before had its run, even if the records of its day were dropped since.
        let had_its_run = |run: &NewRun| run.fire_time <= before && self.is_forgotten(run);
        let runs: Vec<NewRun> = plan.runs.into_iter().filter(|run| !had_its_run(run)).collect();
        let reserved = runs.iter().map(|run| run.fire_time).max().unwrap_or(Timestamp::MIN);
        self.edit_job(id, |job| {
            job.next_fire = plan.next;
            job.planned.decided = job.planned.decided.max(plan.decided_to);
            job.planned.reserved = job.planned.reserved.max(reserved);
        });
        if let Some(reason) = plan.stop {
            self.stop(id, reason);
        }
        if let Some((run, close)) = plan.skipped {
            self.insert_closed(now, run, close);
        }
        Planned::Moved(runs.into_iter().filter_map(|run| self.insert(now, run).ok()).collect())
    }

    /// Stops a job that no person stopped. The version stays, but the nodes that know the job must hear of it.
    pub(super) fn stop(&mut self, id: JobId, reason: StoppedReason) {
        self.edit_job(id, |job| job.state = JobState::Stopped(reason));
        self.log_change(id);
    }
}

fn is_as_read(job: &Job, clock: &ClockRow) -> bool {
    job.state.is_enabled() && job.version == clock.version && job.next_fire == Some(clock.next_fire)
}
