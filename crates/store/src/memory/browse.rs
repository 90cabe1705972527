//! Reading, for people.

use std::collections::BTreeMap;
use std::ops::Bound;

use punctual_core::model::{Attempt, JobId, JobState, Origin, RunId, RunState};
use punctual_node::ports::{
    AttemptRow, Bucket, Counts, JobFilter, JobView, Page, Revision, RunFilter, RunView,
};

use super::state::{GateKey, Run, State};

impl State {
    pub(super) fn job_view(&self, id: JobId) -> Option<JobView> {
        let job = self.jobs.get(&id).filter(|job| job.state != JobState::Deleted)?;
        Some(JobView {
            id,
            version: job.version,
            state: job.state.clone(),
            definition: job.definition.clone(),
            next_fire: job.next_fire,
            shard: job.shard,
            counts: self.counts(Some(id)),
        })
    }

    pub(super) fn job_named(&self, app: &str, name: &str) -> Option<JobView> {
        self.job_view(*self.names.get(&(app.to_owned(), name.to_owned()))?)
    }

    pub(super) fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Page<JobView, JobId> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let jobs = self.jobs.range((first, Bound::Unbounded)).map(|(_, job)| job);
        let views = jobs.filter_map(|job| self.job_view(job.id));
        page(views.filter(|view| filter.takes(view)), limit, |view| view.id)
    }

    pub(super) fn revisions(&self, job: JobId, after: u64, max: usize) -> Vec<Revision> {
        let all = self.jobs.get(&job).into_iter().flat_map(|job| &job.revisions);
        all.filter(|revision| revision.version > after).take(max).cloned().collect()
    }

    pub(super) fn run_view(&self, id: RunId) -> Option<RunView> {
        self.runs.get(&id).map(run_view)
    }

    pub(super) fn part_views(&self, whole: RunId) -> Vec<RunView> {
        self.parts(whole).into_iter().map(run_view).collect()
    }

    pub(super) fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Page<RunView, RunId> {
        let last = before.map_or(Bound::Unbounded, Bound::Excluded);
        let runs = self.runs.range((Bound::Unbounded, last)).rev().map(|(_, run)| run);
        page(runs.filter(|run| self.is_wanted_run(run, filter)).map(run_view), limit, |view| view.id)
    }

    fn is_wanted_run(&self, run: &Run, filter: &RunFilter) -> bool {
        // A deleted job is still of its app; a run of a job that never was is of none.
        let is_of = |apps: &Vec<String>| {
            self.jobs.get(&run.new.job).is_some_and(|job| apps.contains(&job.definition.app))
        };
        run.new.origin != Origin::Part
            && filter.job.is_none_or(|job| job == run.new.job)
            && filter.apps.as_ref().is_none_or(is_of)
            && filter.state.is_none_or(|wanted| wanted == state(run))
            && filter.from.is_none_or(|from| from <= run.new.fire_time)
            && filter.to.is_none_or(|to| run.new.fire_time < to)
            && filter.key.as_ref().is_none_or(|key| run.new.key.as_ref().is_some_and(|own| own == key))
    }

    /// Of all jobs together: sums, the longest row of failures, the latest success. How the last of all closed runs
    /// ended is not kept.
    pub(super) fn counts(&self, job: Option<JobId>) -> Counts {
        if let Some(job) = job {
            return self.counts.get(&job).cloned().unwrap_or_default();
        }
        self.counts.values().fold(Counts::default(), |all, counts| Counts {
            succeeded: all.succeeded + counts.succeeded,
            failed: all.failed + counts.failed,
            not_run: all.not_run + counts.not_run,
            consecutive_failures: all.consecutive_failures.max(counts.consecutive_failures),
            last_outcome: None,
            last_success: all.last_success.max(counts.last_success),
        })
    }

    pub(super) fn storage(&self) -> Vec<Bucket> {
        self.buckets.values().cloned().collect()
    }
}

fn page<T, C>(rows: impl Iterator<Item = T>, limit: usize, cursor: impl Fn(&T) -> C) -> Page<T, C> {
    let mut items: Vec<T> = rows.take(limit.saturating_add(1)).collect();
    let has_more = items.len() > limit;
    items.truncate(limit);
    Page { next: items.last().filter(|_| has_more).map(cursor), items }
}

fn state(run: &Run) -> RunState {
    match (&run.close, run.wait) {
        (Some(close), _) => close.outcome.into(),
        (None, Some(wait)) if wait.attempt > Attempt::FIRST => RunState::Retrying,
        (None, Some(_)) => RunState::Pending,
        (None, None) if run.gates.is_empty() => RunState::Pending,
        (None, None) => RunState::Running,
    }
}

fn run_view(run: &Run) -> RunView {
    RunView {
        id: run.new.id,
        job: run.new.job,
        shard: run.new.shard,
        fire_time: run.new.fire_time,
        due: run.new.due,
        origin: run.new.origin,
        state: state(run),
        reason: run.close.as_ref().map(|close| close.reason.clone()).unwrap_or_default(),
        closed_at: run.close.as_ref().map(|close| close.closed_at),
        range: run.close.as_ref().and_then(|close| close.range),
        priority: run.new.priority,
        payload: run.new.payload.clone(),
        key: run.new.key.clone(),
        of: run.new.of,
        ready_at: run.wait.and_then(|wait| wait.ready_at),
        attempts: attempts(run),
        part: run.part.clone(),
    }
}

fn attempts(run: &Run) -> Vec<AttemptRow> {
    let mut rows: BTreeMap<Attempt, AttemptRow> = BTreeMap::new();
    for (number, key) in &run.gates {
        if let GateKey::Sent(send) = key {
            let row = AttemptRow::Open {
                number: *number,
                token: send.token,
                log: send.log,
                started_at: send.sent_at,
                executor: send.executor.clone(),
            };
            rows.insert(*number, row);
        }
    }
    rows.extend(run.attempts.iter().map(|(number, record)| (*number, AttemptRow::Ended(record.clone()))));
    rows.into_values().collect()
}
