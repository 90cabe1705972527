//! The store in memory: the model that every other store is judged by, and what the simulator runs on.
//!
//! Nothing is kept beyond the process and nothing is hidden: each verb is a short function over plain maps, and what such a
//! function does is what a database has to do. Every decision is made here a second time, because a mistake in code that the
//! model shared with the databases would be found by no comparison. One lock is taken per verb and never across an await, so
//! every future is ready at its first poll.

mod accept;
mod apps;
mod browse;
mod change;
mod counts;
mod door;
mod dump;
mod gate;
mod leases;
mod load;
mod logs;
mod merge;
mod plan;
mod prune;
mod settle;
mod split;
mod state;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{
    Attempt, ChangeId, Definition, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId, Text,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, AppRow, Apps, Arrival, ArrivalKind, Beat, Begun, Browse, Bucket, Change,
    Changed, ClockRow, Counts, Digest, Door, Gate, Gated, JobFilter, JobRow, JobView, Keep, KeptAnswer,
    KeptLog, KillNote, Lease, Loaded, Logs, OpenRuns, Page, Paused, Plan, Planned, Pruned, Registered,
    Remain, Renewal, Renewed, RequestKey, Revision, RunFilter, RunRow, RunView, SentRow, Settled, Split,
    Store, StoreError, Thinned, TokenRow, Unpark,
};

use self::state::State;
use crate::StoreClock;

pub use self::dump::{Dump, GateDump, JobDump, NodeDump, RequestDump, RunDump, ShardDump, WaitDump};

/// A store that lives as long as the process.
pub struct Memory {
    clock: StoreClock,
    state: Mutex<State>,
    fetched: AtomicUsize,
}

impl Memory {
    /// An empty store with so many shards. A key lives for `key_ttl` after its run was closed.
    pub fn new(shards: u16, key_ttl: Duration, clock: StoreClock) -> Memory {
        let state = Mutex::new(State::new(shards, key_ttl));
        Memory { clock, state, fetched: AtomicUsize::new(0) }
    }

    /// Everything that is stored, for tests.
    pub fn dump(&self) -> Dump {
        self.state().dump()
    }

    /// How many runs were asked for by their ids so far.
    pub fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }

    /// Puts anything into the definition of a job, as a broken row would have it: no version, no change, no
    /// revision. Nothing happens if there is no such job.
    pub fn poison_job(&self, job: JobId, edit: impl FnOnce(&mut Definition)) {
        self.state().poison_job(job, edit);
    }

    /// Puts anything into the clock of a job, in the same way.
    pub fn poison_clock(&self, job: JobId, next_fire: Option<Timestamp>) {
        self.state().edit_job(job, |job| job.next_fire = next_fire);
    }

    /// Makes the row of a job one that cannot be read, for this reason.
    pub fn deface_job(&self, job: JobId, reason: impl Into<Text>) {
        self.state().edit_job(job, |job| job.defaced = Some(reason.into()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no verb panics, so the lock is never poisoned")
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

#[async_trait]
impl Store for Memory {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        let now = self.now();
        self.state().renew(now, renewal)
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        let now = self.now();
        self.state().acquire(now, node, &shards)
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        self.state().release(node, &leases, mark);
        Ok(())
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        Ok(self.state().due(leases, until, max))
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        let state = self.state();
        Ok(ids.iter().filter_map(|id| Some((*id, state.job_row(*id)?))).collect())
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        Ok(plans.into_iter().map(|plan| state.plan(now, plan)).collect())
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        let now = self.now();
        self.state().load(now, leases, from, until, max)
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        let now = self.now();
        self.state().adopt(now, leases)
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        state.check(now, &[unpark.lease])?;
        Ok(state.unpark(unpark))
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.fetched.fetch_add(runs.len(), Ordering::Relaxed);
        let state = self.state();
        Ok(runs.iter().filter_map(|id| state.run_row(*id)).collect())
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let state = self.state();
        let bare = |id: &RunId| Some(RunRow { payload: None, ..state.run_row(*id)? });
        Ok(runs.iter().filter_map(bare).collect())
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        let mut state = self.state();
        Ok(gates.into_iter().map(|gate| state.gate(gate)).collect())
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        Ok(splits.into_iter().map(|split| state.split(now, split)).collect())
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        let state = self.state();
        Ok(logs.iter().filter_map(|log| state.sent_row(*log)).collect())
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        Ok(self.state().open_parts(run))
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        Ok(self.state().open_runs(job, after, max))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        let now = self.now();
        let mut state = self.state();
        Ok(settlements.into_iter().map(|settlement| state.settle(now, settlement)).collect())
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        self.state().allot(day, count)
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        let now = self.now();
        self.state().accept(now, runs, left)
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        Ok(self.state().arrivals(leases, max))
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        self.state().consume(arrivals);
        Ok(())
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        let now = self.now();
        self.state().change(now, change)
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        let now = self.now();
        Ok(self.state().is_in_force(now, change))
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        let now = self.now();
        Ok(self.state().prune(now, keep))
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        Ok(self.state().thin(keep, day, from, max))
    }
}

#[async_trait]
impl Browse for Memory {
    async fn job(&self, id: JobId) -> Result<Option<JobView>, StoreError> {
        Ok(self.state().job_view(id))
    }

    async fn job_named(&self, app: &str, name: &str) -> Result<Option<JobView>, StoreError> {
        Ok(self.state().job_named(app, name))
    }

    async fn job_list(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobView, JobId>, StoreError> {
        Ok(self.state().job_list(filter, after, limit))
    }

    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        Ok(self.state().revisions(job, after, max))
    }

    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        Ok(self.state().part_views(run))
    }

    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        Ok(self.state().sends(run))
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        Ok(self.state().run_view(id))
    }

    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError> {
        Ok(self.state().keys.get(&(job, key.to_owned().into())).map(|key| key.run))
    }

    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        Ok(self.state().run_list(filter, before, limit))
    }

    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError> {
        Ok(self.state().counts(job))
    }

    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        Ok(self.state().storage())
    }
}

#[async_trait]
impl Door for Memory {
    async fn peer_secret(&self, drawn: Digest) -> Result<Digest, StoreError> {
        Ok(*self.state().peer_secret.get_or_insert(drawn))
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        Ok(self.state().tokens.values().cloned().collect())
    }

    async fn add_token(&self, token: TokenRow) -> Result<u32, StoreError> {
        self.state().add_token(token)
    }

    async fn add_first_token(&self, token: TokenRow) -> Result<bool, StoreError> {
        self.state().add_first_token(token)
    }

    async fn revoke_token(&self, id: u32, remain: Option<&Remain>) -> Result<bool, StoreError> {
        self.state().revoke_token(id, remain)
    }

    async fn begin(&self, key: RequestKey, digest: Digest, now: Timestamp) -> Result<Begun, StoreError> {
        Ok(self.state().begin(key, digest, now))
    }

    async fn answer(&self, key: RequestKey, answer: Option<KeptAnswer>) -> Result<(), StoreError> {
        self.state().answer(key, answer);
        Ok(())
    }

    async fn forget_requests(&self, before: Timestamp) -> Result<(), StoreError> {
        self.state().forget_requests(before);
        Ok(())
    }
}

#[async_trait]
impl Apps for Memory {
    async fn registered(&self) -> Result<Registered, StoreError> {
        Ok(self.state().registered())
    }

    async fn beat(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
        let now = self.now();
        self.state().beat(now, beats);
        Ok(())
    }

    async fn leave(&self, app: &str, address: &str) -> Result<bool, StoreError> {
        Ok(self.state().forget_executor(app, address))
    }

    async fn bury(&self, dead: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
        let now = self.now();
        Ok(self.state().bury(now, dead))
    }

    async fn put_app(&self, app: AppRow, expected: Option<u64>) -> Result<u64, StoreError> {
        self.state().put_app(app, expected)
    }

    async fn app(&self, name: &str) -> Result<Option<AppRow>, StoreError> {
        Ok(self.state().apps.get(name).cloned())
    }

    async fn pause_app(&self, name: &str, paused: Option<Paused>) -> Result<Option<AppRow>, StoreError> {
        Ok(self.state().pause_app(name, paused))
    }

    async fn remove_app(&self, name: &str) -> Result<bool, StoreError> {
        self.state().remove_app(name)
    }
}

#[async_trait]
impl Logs for Memory {
    async fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, StoreError> {
        Ok(self.state().log(run, attempt))
    }

    async fn keep_log(&self, run: RunId, attempt: Attempt, log: KeptLog) -> Result<(), StoreError> {
        self.state().keep_log(run, attempt, log);
        Ok(())
    }

    async fn note_kill(&self, run: RunId, note: KillNote) -> Result<(), StoreError> {
        self.state().note_kill(run, note);
        Ok(())
    }

    async fn kills(&self, run: RunId) -> Result<Vec<KillNote>, StoreError> {
        Ok(self.state().kills(run))
    }
}
