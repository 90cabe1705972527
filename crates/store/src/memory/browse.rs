//! Reading, for people.

use std::ops::Bound;

use punctual_core::model::{JobId, JobState, Origin, RunId};
use punctual_node::ports::{Bucket, Counts, JobFilter, JobView, Page, Revision, RunFilter, RunView};

use super::state::{State, StoredRun};
use super::view::{run_view, state};

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

    fn is_wanted_run(&self, run: &StoredRun, filter: &RunFilter) -> bool {
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
