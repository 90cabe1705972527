//! The embedded store: one SQLite file, one thread that writes, two that read for people.
//!
//! Everything the engine asks goes to the writer (`writer`), reads too, and is done in rounds of one transaction. Runs, gates
//! and closes lie in tables for each day of birth (`day`); the indexes over them are written late and sorted (`flush`), and
//! what is younger is kept in memory (`tail`, `known`) and read again at the next start (`keeper`).

mod accept;
mod alarm;
mod births;
mod browse;
mod change;
mod code;
mod day;
mod file;
mod floor;
mod flush;
mod gate;
mod keeper;
mod known;
mod layer;
mod lease;
mod load;
mod overrides;
mod pen;
mod plan;
mod prune;
mod reader;
mod run_row;
mod session;
mod settle;
mod split;
mod stretch;
mod sweep;
mod tail;
mod trouble;
mod view;
mod writer;

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{ChangeId, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, Arrival, ArrivalKind, Browse, Bucket, Change, Changed, ClockRow, Counts,
    Gate, Gated, JobFilter, JobName, JobRow, JobView, Keep, Lease, Loaded, OpenRuns, Page, Plan, Planned,
    Pruned, Renewal, Renewed, Revision, RunFilter, RunRow, RunView, SentRow, Settled, Soonest, Split, Store,
    StoreError, Thinned, Unpark,
};
use rusqlite::{Connection, OptionalExtension, params};

use self::alarm::{Alarm, Watched};
use self::file::{Lock, open_writer};
use self::keeper::{Keeper, Side};
use self::reader::Readers;
use self::run_row::Brings;
use self::sweep::Sweeper;
use self::tail::SharedCloses;
use self::trouble::{Trouble, told};
use self::writer::{Requests, Size, Writer};
use crate::verbs::RunsCold;
use crate::verbs::jobs::{OneJob, Revisions};
use crate::{StoreClock, totals};

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// How many shards there are. Fixed when the database is made.
    pub shards: u16,
    /// How long a key lives after its run was closed.
    pub key_ttl: Duration,
    /// The store's clock.
    pub clock: StoreClock,
    /// Whether the leases end that were in force when the file was closed. So it is where a node is a process: the file's
    /// lock was free, so the process that held them is dead, and no node has to wait for their terms.
    pub ends_leases: bool,
    /// What tests make small.
    pub limits: Limits,
}

/// Sizes that only tests have a reason to choose.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many pages of 8 KiB the file may have; none for as many as the disk holds.
    pub pages: Option<u32>,
    /// How many runs, and half as many closes, are kept in memory before their indexes are written.
    pub tail: usize,
}

impl Default for Limits {
    /// A tail of a quarter of a million runs takes some 12 MiB. The more there are, the more of them fall on one page of
    /// the index: with due times in random order over 2 million runs, 65,536 cost a third of the inserts a second.
    fn default() -> Limits {
        Limits { pages: None, tail: 262_144 }
    }
}

/// A store in one file.
pub struct Sqlite {
    requests: Option<Requests>,
    writer: Option<JoinHandle<()>>,
    readers: Option<Readers>,
    /// Whether one of the threads has panicked.
    watched: Watched,
    /// Given back last, when nothing of ours touches the file any more.
    _lock: Lock,
}

impl Sqlite {
    /// Opens the file, or makes it. Refused if another process has it open, if a newer program has changed its schema, or
    /// if it was made with another number of shards.
    pub fn open(path: &Path, options: Options) -> Result<Sqlite, StoreError> {
        let lock = Lock::take(path)?;
        let conn = open_writer(path)?;
        fix_shards(&conn, options.shards)?;
        let sql = |error: rusqlite::Error| told(&error);
        if options.ends_leases {
            end_leases(&conn).map_err(sql)?;
        }
        limit_pages(&conn, options.limits.pages).map_err(sql)?;
        let closes = SharedCloses::default();
        let side = Side::read(&conn, SharedCloses::clone(&closes)).map_err(sql)?;
        let Options { shards, key_ttl, clock, limits, .. } = options;
        let sweeper = Sweeper::start(path)?;
        let (alarm, watched) = Alarm::new();
        let readers = Readers::start(path, &closes, &clock, &alarm)?;
        let keeper = Keeper { conn, clock, key_ttl, shards, side };
        let (requests, receiver) = Requests::new();
        let writer = Writer::new(keeper, receiver, sweeper, limits.tail);
        let alarm = alarm.of("writes");
        let writer = std::thread::Builder::new()
            .name("punctual-write".into())
            .spawn(move || {
                let _alarm = alarm;
                writer.run();
            })
            .map_err(|error| StoreError::Unknown(error.to_string().into()))?;
        let (requests, writer, readers) = (Some(requests), Some(writer), Some(readers));
        Ok(Sqlite { requests, writer, readers, watched, _lock: lock })
    }

    /// Waits until a thread has panicked, and says which: without it nothing can be kept any more.
    pub fn broken(&self) -> impl Future<Output = &'static str> + Send + use<> {
        let mut watched = self.watched.clone();
        async move {
            match watched.wait_for(Option::is_some).await.map(|broken| *broken) {
                Ok(Some(name)) => name,
                // The store was closed, so nothing can break it any more.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        }
    }

    /// Moves the limit of [`Limits::pages`], as if the disk had become fuller or emptier.
    pub async fn limit_pages(&self, max_pages: Option<u32>) -> Result<(), StoreError> {
        self.ask(0, move |keeper| Ok(limit_pages(&keeper.conn, max_pages)?)).await
    }

    /// Asks the writer for something that writes about so many rows.
    async fn ask<F, T>(&self, rows: usize, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Keeper) -> Result<T, Trouble> + Send + 'static,
        T: Send + 'static,
    {
        self.requests().ask(Size::Write(rows), work).await
    }

    /// Asks the writer for something that only looks.
    async fn look<F, T>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Keeper) -> Result<T, Trouble> + Send + 'static,
        T: Send + 'static,
    {
        self.requests().ask(Size::Look, work).await
    }

    fn requests(&self) -> &Requests {
        self.requests.as_ref().expect("taken only by drop")
    }

    fn readers(&self) -> &Readers {
        self.readers.as_ref().expect("taken only by drop")
    }
}

impl Drop for Sqlite {
    /// Lets what was asked be finished, writes the indexes out and empties the log.
    fn drop(&mut self) {
        self.readers = None;
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// The number of shards is decided once: clocks and runs carry their shard.
fn fix_shards(conn: &Connection, shards: u16) -> Result<(), StoreError> {
    let fix = || -> rusqlite::Result<u16> {
        let there = conn
            .query_row("select value from meta where name = 'shards'", [], |row| row.get(0))
            .optional()?;
        if let Some(there) = there {
            return Ok(there);
        }
        let transaction = conn.unchecked_transaction()?;
        transaction.execute("insert into meta (name, value) values ('shards', ?1)", [shards])?;
        for shard in 0..shards {
            transaction.execute(
                "insert into shards (shard, owner, epoch, inherited, checkpoint_due, checkpoint_run, floor)
                 values (?1, null, 0, null, ?2, 0, 9223372036854775807)",
                params![shard, Timestamp::MIN.as_millis()],
            )?;
        }
        transaction.commit()?;
        Ok(shards)
    };
    let there = fix().map_err(|error| told(&error))?;
    if there != shards {
        return Err(StoreError::Conflict(
            format!("the database was made with {there} shards and cannot be opened with {shards}").into(),
        ));
    }
    Ok(())
}

/// Lets every node's term be over. What they promised stays.
fn end_leases(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("update nodes set expires_at = ?1", [Timestamp::MIN.as_millis()])?;
    Ok(())
}

fn limit_pages(conn: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    let max_pages = max_pages.unwrap_or(u32::MAX - 1);
    conn.query_row(&format!("pragma max_page_count = {max_pages}"), [], |_| Ok(()))
}

#[async_trait]
impl Store for Sqlite {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        self.ask(1, move |keeper| keeper.renew(&renewal)).await
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        self.ask(shards.len(), move |keeper| keeper.acquire(node, &shards)).await
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        self.ask(leases.len(), move |keeper| keeper.release(node, &leases, mark)).await
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        let leases = leases.to_vec();
        self.look(move |keeper| keeper.due(&leases, until, max)).await
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError> {
        let ids = ids.to_vec();
        self.look(move |keeper| keeper.jobs(&ids)).await
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        self.ask(plans.len(), move |keeper| keeper.plan(&plans)).await
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        let leases = leases.to_vec();
        self.look(move |keeper| keeper.load(&leases, from, until, max)).await
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        let leases = leases.to_vec();
        self.look(move |keeper| keeper.adopt(&leases)).await
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        let (unpark, cost) = (unpark.clone(), unpark.max.min(1_000));
        self.ask(cost, move |keeper| keeper.unpark(&unpark)).await
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let runs = runs.to_vec();
        self.look(move |keeper| keeper.fetch(&runs, Brings::Read)).await
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let runs = runs.to_vec();
        self.look(move |keeper| keeper.fetch(&runs, Brings::Left)).await
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        self.ask(gates.len(), move |keeper| keeper.gate(&gates)).await
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        let rows = splits.iter().map(|split| 1 + split.parts.len()).sum();
        self.ask(rows, move |keeper| keeper.split(&splits)).await
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        let logs = logs.to_vec();
        self.look(move |keeper| keeper.sent(&logs)).await
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        self.look(move |keeper| keeper.open_parts(run)).await
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        self.look(move |keeper| keeper.open_runs(job, after, max)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        self.ask(settlements.len(), move |keeper| keeper.settle(&settlements)).await
    }

    fn birth_day(&self, day: u32, today: u32) -> u32 {
        stretch::last_day(day, today)
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        self.ask(1, move |keeper| keeper.allot(day, count)).await
    }

    async fn allot_days(&self, days: &[(u32, u64)]) -> Result<Vec<u64>, StoreError> {
        let days = days.to_vec();
        let allot =
            move |keeper: &mut Keeper| days.iter().map(|(day, count)| keeper.allot(*day, *count)).collect();
        self.ask(1, allot).await
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        self.ask(runs.len() + left.len(), move |keeper| keeper.accept(&runs, &left)).await
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        let leases = leases.to_vec();
        self.look(move |keeper| keeper.arrivals(&leases, max)).await
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        let arrivals = arrivals.to_vec();
        self.ask(arrivals.len(), move |keeper| keeper.consume(&arrivals)).await
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        self.ask(1, move |keeper| keeper.change(&change)).await
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        self.look(move |keeper| keeper.is_in_force(change)).await
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        let keep = keep.clone();
        self.ask(1, move |keeper| keeper.prune(&keep)).await
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        let keep = keep.clone();
        self.ask(max.max(1), move |keeper| keeper.thin(&keep, day, from, max)).await
    }
}

#[async_trait]
impl Browse for Sqlite {
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
        let filter = filter.clone();
        self.readers().read(move |reader| reader.job_list(&filter, after, limit)).await
    }

    async fn job_totals(&self, filter: &JobFilter) -> Result<(u64, u64), StoreError> {
        if filter.is_plain() {
            let filter = filter.clone();
            return self.readers().read(move |reader| reader.job_totals(&filter)).await;
        }
        totals::by_page(self, filter).await
    }

    async fn job_soonest(
        &self,
        filter: &JobFilter,
        after: Option<Soonest>,
        limit: usize,
    ) -> Result<Page<JobView, Soonest>, StoreError> {
        let filter = filter.clone();
        self.readers().read(move |reader| reader.job_soonest(&filter, after, limit)).await
    }

    async fn job_names(&self, ids: &[JobId]) -> Result<Vec<JobName>, StoreError> {
        let ids = ids.to_vec();
        self.readers().read(move |reader| reader.job_names(&ids)).await
    }

    async fn revisions(&self, job: JobId, after: u64, max: usize) -> Result<Vec<Revision>, StoreError> {
        self.cold(Revisions { job, after, max }).await
    }

    async fn parts(&self, run: RunId) -> Result<Vec<RunView>, StoreError> {
        self.readers().read(move |reader| reader.parts(run)).await
    }

    async fn sends(&self, run: RunId) -> Result<Vec<SentRow>, StoreError> {
        self.readers().read(move |reader| reader.sends(run)).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunView>, StoreError> {
        self.readers().read(move |reader| reader.run(id)).await
    }

    async fn run_keyed(&self, job: JobId, key: &str) -> Result<Option<RunId>, StoreError> {
        let key = key.to_owned();
        self.readers().read(move |reader| reader.run_keyed(job, &key)).await
    }

    async fn run_list(
        &self,
        filter: &RunFilter,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Page<RunView, RunId>, StoreError> {
        let filter = filter.clone();
        self.readers().read(move |reader| reader.run_list(&filter, before, limit)).await
    }

    async fn counts(&self, job: Option<JobId>) -> Result<Counts, StoreError> {
        self.readers().read(move |reader| reader.counts(job)).await
    }

    async fn storage(&self) -> Result<Vec<Bucket>, StoreError> {
        self.readers().read(|reader| reader.storage()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> Sqlite {
        let options = Options {
            shards: 4,
            key_ttl: Duration::from_secs(60),
            clock: std::sync::Arc::new(|| Timestamp::from_millis(0)),
            ends_leases: true,
            limits: Limits::default(),
        };
        Sqlite::open(&folder.join("punctual.db"), options).unwrap()
    }

    #[tokio::test]
    async fn a_thread_that_panics_is_told() {
        let folder = std::env::temp_dir().join(format!("punctual-alarm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = open(&folder);
        let broken = store.broken();
        assert!(store.ask(0, |_| -> Result<(), Trouble> { panic!("a bug of the writer") }).await.is_err());
        assert_eq!(broken.await, "writes");
        drop(store);
        let store = open(&folder);
        let broken = store.broken();
        let read = store.readers().read(|_| -> Result<(), Trouble> { panic!("a bug of a reader") }).await;
        assert!(read.is_err());
        assert_eq!(broken.await, "reads");
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
