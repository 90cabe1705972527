//! The store of a cluster on MySQL or MariaDB.
//!
//! A verb is a short transaction of one or two round trips: what it needs is locked and read, judged here, and written with
//! the commit in the same flight. Nothing is prepared and nothing is kept in memory but which tables there are. Runs lie in
//! tables of their days (`day.rs`), written once. A verb that writes locks and reads its rows (`gather.rs`), decides by `rules/`,
//! and writes the differences (`flush.rs`).

mod accept;
mod acquire;
mod ask;
mod browse;
mod change;
mod day;
mod explain;
mod flush;
mod gate;
mod gather;
mod leases;
mod link;
mod load;
mod migrate;
mod open_runs;
mod plan;
mod read;
mod run_list;
mod run_row;
mod server;
mod session;
mod settle;
mod text;
mod thin;
mod trouble;
mod upkeep;
mod view;

use std::sync::{Arc, Mutex, PoisonError};

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

use self::ask::{Desk, Verb};
use self::gather::Settings;
use self::link::{Access, Address, Lines};
use self::trouble::Trouble;
use crate::idle::Era;
use crate::sql::{Detour, Inspection, Migrated, Options};
use crate::together::{AcceptAnswer, Together, Writer};
use crate::totals;
use crate::verbs::RunsCold;
use crate::verbs::jobs::{OneJob, Revisions};

pub use self::explain::Look;

/// How many numbers for gates are fetched at once.
const LOG_BLOCK: u64 = 64;

/// A store in a MySQL or MariaDB database.
pub struct MySql {
    settings: Settings,
    /// For the steps.
    engine: Desk,
    /// For people.
    readers: Desk,
    /// For people, while the primary is away.
    replica: Option<Desk>,
    /// While the primary is away, people's questions go to the replica.
    detour: Detour,
    /// Small calls that come at the same time are written together.
    together: Together,
    /// Numbers for gates that were fetched and not given yet.
    logs: Mutex<Vec<u64>>,
}

impl MySql {
    /// Opens a database, with the schema brought up to date if that is allowed.
    pub async fn open(url: &str, options: Options) -> Result<MySql, StoreError> {
        let address =
            |url, access| Address::of(url, options.ca_file.as_deref(), &options.application, access);
        let primary = address(url, Access::Write)?;
        let (mut line, _) = migrate::connect(&primary).await?;
        let now = options.clock.as_ref().map(|clock| clock().as_millis());
        match options.auto_migrate {
            true => drop(migrate::migrate(&mut line, now).await?),
            false => migrate::check_current(&mut line).await?,
        }
        migrate::fix_shards(&mut line, options.shards).await?;
        line.hang_up().await;
        let patience = options.deadline.saturating_mul(2);
        let replica = options.read_url.as_deref().map(|url| address(url, Access::Read)).transpose()?;
        let (days, era) = (Arc::default(), Era::default());
        let desk = |address, count, deadline, days: &Arc<_>, era: &Era| {
            let lines = Lines::new(address, count, era.clone());
            Desk::new(lines, options.clock.clone(), deadline, Arc::clone(days))
        };
        let store = MySql {
            settings: Settings { shards: options.shards, key_ttl: options.key_ttl },
            engine: desk(primary.clone(), options.connections, options.deadline, &days, &era),
            readers: desk(primary, options.readers, patience, &days, &era),
            // It may be behind, so what it knows of the days is its own.
            replica: replica
                .map(|replica| desk(replica, options.readers, patience, &Arc::default(), &Era::default())),
            detour: Detour::default(),
            together: Together::default(),
            logs: Mutex::default(),
        };
        store.engine.look().await?;
        Ok(store)
    }

    /// Brings the schema up to date, and says what was done.
    pub async fn migrate(url: &str, options: &Options) -> Result<Migrated, StoreError> {
        let address = Address::of(url, options.ca_file.as_deref(), "punctual migrate", Access::Write)?;
        let (mut line, _) = migrate::connect(&address).await?;
        let migrated = migrate::migrate(&mut line, None).await?;
        line.hang_up().await;
        Ok(migrated)
    }

    /// What is worth telling about a database before a node uses it.
    pub async fn inspect(url: &str, options: &Options) -> Result<Inspection, StoreError> {
        let address = |access| Address::of(url, options.ca_file.as_deref(), "punctual doctor", access);
        let mut line = match link::Line::connect(&address(Access::Write)?).await {
            // Looked at all the same, to say everything that is wrong with it.
            Err(Trouble::ReadOnly(_)) => link::Line::connect(&address(Access::Read)?).await,
            line => line,
        }
        .map_err(link::refusal)?;
        let server = server::Server::ask(&mut line).await.map_err(link::refusal)?;
        let schema_version = migrate::version(&mut line).await?;
        let shards = match schema_version {
            Some(_) => migrate::shards(&mut line).await?,
            None => None,
        };
        line.hang_up().await;
        Ok(Inspection {
            server: server.name().into(),
            now: server.now,
            schema_version,
            shards,
            is_read_only: server.is_read_only,
            refusal: server.refusal(),
            settings: server.settings(),
        })
    }

    /// How the server finds clocks that are due, and open runs of a day: for operators who find it slow.
    pub async fn explain(
        &self,
        leases: &[Lease],
        until: Timestamp,
        day: u32,
    ) -> Result<[Vec<Look>; 3], StoreError> {
        let home = self.engine.days().home(day);
        self.engine.ask(&explain::Explain { leases, until, home }).await
    }

    /// Asks for people: the primary, or while it is away the replica.
    async fn read<V: Verb>(&self, verb: &V) -> Result<V::Answer, StoreError> {
        if let Some(replica) = self.replica.as_ref().filter(|_| self.detour.is_next()) {
            return replica.ask(verb).await;
        }
        let asked = self.readers.ask(verb).await;
        let is_away = matches!(asked, Err(StoreError::Unknown(_) | StoreError::Away(_)));
        match &self.replica {
            Some(replica) if is_away => {
                self.detour.begin();
                replica.ask(verb).await
            }
            _ => {
                self.detour.end();
                asked
            }
        }
    }

    /// Numbers for so many gates.
    async fn take_logs(&self, count: usize) -> Result<Vec<u64>, StoreError> {
        loop {
            {
                let mut logs = self.logs();
                if logs.len() >= count {
                    let rest = logs.len() - count;
                    return Ok(logs.split_off(rest));
                }
            }
            let mut fresh = self.engine.ask(&gate::AllotLogs(LOG_BLOCK.max(count as u64))).await?;
            // The lowest is taken first, from the end.
            fresh.reverse();
            let mut logs = self.logs();
            fresh.append(&mut logs);
            *logs = fresh;
        }
    }

    fn logs(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn gate_all(&self, gates: &[Gate], splits: &[Split]) -> Result<Vec<Gated>, StoreError> {
        let logs = self.take_logs(gates.len() + splits.len()).await?;
        let verb = gate::GateAll { splits, gates, logs: &logs, settings: self.settings };
        let (said, unused) = self.engine.ask(&verb).await?;
        self.logs().extend(unused);
        Ok(said)
    }
}

#[async_trait]
impl Writer for MySql {
    async fn write(&self, runs: &[NewRun], left: &[(ShardId, ArrivalKind)]) -> AcceptAnswer {
        self.engine.ask(&accept::Accept { runs, left, settings: self.settings }).await
    }
}

#[async_trait]
impl Store for MySql {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        self.engine.ask(&leases::Renew(&renewal)).await
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        self.engine.ask(&acquire::Acquire { node, shards: &shards }).await
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        self.engine.ask(&leases::Release { node, leases: &leases, mark }).await
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        self.engine.ask(&plan::Due { leases, until, max }).await
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        self.engine.ask(&plan::Jobs(ids)).await
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        self.engine.ask(&plan::PlanAll { plans: &plans, settings: self.settings }).await
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        self.engine.ask(&load::Load { leases, from, until, max }).await
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        self.engine.ask(&load::Adopt(leases)).await
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        self.engine.ask(&load::CallBack(unpark)).await
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.engine.ask(&load::Fetch { runs, with_payload: true }).await
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.engine.ask(&load::Fetch { runs, with_payload: false }).await
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        self.gate_all(&gates, &[]).await
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        self.gate_all(&[], &splits).await
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        self.engine.ask(&gate::Sent(logs)).await
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        self.engine.ask(&gate::PartsOf { whole: run, is_open: true }).await
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        self.engine.ask(&open_runs::OpenOf { job, after, max }).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.engine.ask(&settle::SettleAll { settlements: &settlements, settings: self.settings }).await
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        self.engine.ask(&accept::Allot { day, count }).await
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.together.accept(self, runs, left).await
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        self.engine.ask(&accept::Arrivals { leases, max }).await
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        self.engine.ask(&accept::Consume(arrivals)).await
    }

    async fn enqueued(&self, max: usize) -> Result<Vec<Enqueued>, StoreError> {
        self.engine.ask(&accept::LeftByApplications { max }).await
    }

    async fn refuse(&self, refused: Vec<(u64, Text)>) -> Result<(), StoreError> {
        self.engine.ask(&accept::Refuse(&refused)).await
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        let verb = change::ChangeJob { change: &change, settings: self.settings };
        self.engine.ask(&verb).await
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        self.engine.ask(&leases::IsInForce(change)).await
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        self.engine.ask(&upkeep::Sweep).await?;
        let pruned = upkeep::prune(&self.engine, keep).await?;
        upkeep::prepare(&self.engine).await?;
        Ok(pruned)
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        self.engine.ask(&thin::Thin { keep, day, from, max }).await
    }
}

#[async_trait]
impl Browse for MySql {
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
        self.read(&browse::JobList { filter, after, limit }).await
    }

    async fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
        if filter.is_plain() {
            return self.read(&browse::JobTotals(filter)).await;
        }
        totals::by_page(self, filter).await
    }

    async fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, StoreError> {
        self.read(&browse::SoonestJobs { filter, after, limit }).await
    }

    async fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, StoreError> {
        self.read(&browse::JobNames(ids)).await
    }

    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        self.cold(Revisions { job, after, max }).await
    }

    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        let parts = self.read(&gate::PartsOf { whole: run, is_open: false }).await?;
        let mut views = self.read(&browse::RunsById(&parts)).await?;
        views.sort_by_key(|view| (view.part.as_ref().map(|part| part.index), view.id));
        Ok(views)
    }

    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        self.read(&browse::SendsOf(run)).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        Ok(self.read(&browse::RunsById(&[id])).await?.pop())
    }

    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError> {
        self.read(&browse::RunKeyed { job, key }).await
    }

    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        self.read(&run_list::RunList { filter, before, limit }).await
    }

    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError> {
        self.read(&browse::CountsOf(job)).await
    }

    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        self.read(&browse::Storage).await
    }
}
