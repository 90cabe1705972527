//! The ports, each verb as a try that is repeated when others were faster, or asked of the copy when the primary is away.

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{ChangeId, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId, Text};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, Arrival, ArrivalKind, Browse, Bucket, Change, Changed, ClockRow, Counts,
    Enqueued, Gate, Gated, JobFilter, JobName, JobRow, JobView, Keep, Lease, Loaded, OpenRuns, Page, Plan,
    Planned, Pruned, Renewal, Renewed, Revision, RunFilter, RunRow, RunView, SentRow, Settled, Soonest,
    Split, Store, StoreError, Thinned, Unpark,
};

use super::Postgres;
use super::run_row::{OUTLINE, WHOLE};
use crate::together::{AcceptAnswer, Writer};
use crate::totals;
use crate::verbs::RunsCold;
use crate::verbs::jobs::{OneJob, Revisions};

#[async_trait]
impl Writer for Postgres {
    async fn write(&self, runs: &[NewRun], left: &[(ShardId, ArrivalKind)]) -> AcceptAnswer {
        self.engine(|line| Box::pin(self.try_accept(line, runs, left))).await
    }
}

#[async_trait]
impl Store for Postgres {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        self.engine(|line| Box::pin(self.try_renew(line, &renewal))).await
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        self.engine(|line| Box::pin(self.try_acquire(line, node, &shards))).await
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        self.engine(|line| Box::pin(self.try_release(line, node, &leases, mark))).await
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        self.engine(|line| Box::pin(self.try_due(line, leases, until, max))).await
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        self.engine(|line| Box::pin(self.try_jobs(line, ids))).await
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        self.engine(|line| Box::pin(self.try_plan(line, &plans))).await
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        self.engine(|line| Box::pin(self.try_load(line, leases, from, until, max))).await
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        self.engine(|line| Box::pin(self.try_adopt(line, leases))).await
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        self.engine(|line| Box::pin(self.try_unpark(line, unpark))).await
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.engine(|line| Box::pin(self.try_fetch(line, runs, WHOLE))).await
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.engine(|line| Box::pin(self.try_fetch(line, runs, OUTLINE))).await
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        self.engine(|line| Box::pin(self.try_gate(line, &gates))).await
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        self.engine(|line| Box::pin(self.try_split(line, &splits))).await
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        self.engine(|line| Box::pin(self.try_sent(line, logs))).await
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        self.engine(|line| Box::pin(self.try_open_parts(line, run))).await
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        self.engine(|line| Box::pin(self.try_open_runs(line, job, after, max))).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.engine(|line| Box::pin(self.try_settle(line, &settlements))).await
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        self.engine(|line| Box::pin(self.try_allot(line, day, count))).await
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.together.accept(self, runs, left).await
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        self.engine(|line| Box::pin(self.try_arrivals(line, leases, max))).await
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        self.engine(|line| Box::pin(self.try_consume(line, arrivals))).await
    }

    async fn enqueued(&self, max: usize) -> Result<Vec<Enqueued>, StoreError> {
        self.engine(|line| Box::pin(self.try_enqueued(line, max))).await
    }

    async fn refuse(&self, refused: Vec<(u64, Text)>) -> Result<(), StoreError> {
        self.engine(|line| Box::pin(self.try_refuse(line, &refused))).await
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        self.engine(|line| Box::pin(self.try_change(line, &change))).await
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        self.engine(|line| Box::pin(self.try_is_in_force(line, change))).await
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        self.engine(|line| Box::pin(self.try_prune(line, keep))).await
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        self.engine(|line| Box::pin(self.try_thin(line, keep, day, from, max))).await
    }
}

#[async_trait]
impl Browse for Postgres {
    fn has_copy(&self) -> bool {
        self.replica.is_some()
    }

    fn is_copy(&self) -> bool {
        self.detour.is_on()
    }

    async fn job(&self, id: JobId) -> Result<Option<JobView>, StoreError> {
        self.cold(OneJob::Id(id)).await
    }

    async fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, StoreError> {
        self.cold(OneJob::Named { app: app.to_owned(), name: name.to_owned() }).await
    }

    async fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, StoreError> {
        self.people(|line| Box::pin(self.read_job_list(line, filter, after, limit))).await
    }

    async fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, StoreError> {
        self.people(|line| Box::pin(self.read_job_soonest(line, filter, after, limit))).await
    }

    async fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, StoreError> {
        self.people(|line| Box::pin(self.read_job_names(line, ids))).await
    }

    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        self.cold(Revisions { job, after, max }).await
    }

    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        self.people(|line| Box::pin(self.read_parts(line, run))).await
    }

    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        self.people(|line| Box::pin(self.read_sends(line, run))).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        self.people(|line| Box::pin(self.read_run(line, id))).await
    }

    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError> {
        self.people(|line| Box::pin(self.read_run_keyed(line, job, key))).await
    }

    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        self.people(|line| Box::pin(self.read_run_list(line, filter, before, limit))).await
    }

    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError> {
        self.people(|line| Box::pin(self.read_counts(line, job))).await
    }

    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        self.people(|line| Box::pin(self.read_storage(line))).await
    }

    async fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
        if filter.is_plain() {
            return self.people(|line| Box::pin(self.read_job_totals(line, filter))).await;
        }
        totals::by_page(self, filter).await
    }
}
