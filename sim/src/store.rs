//! The store as nodes see it: every verb becomes a request that travels, is applied at some moment, and is answered or
//! not. The world decides; here are only the requests and how each is applied to the memory store.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{
    AttemptRecord, ChangeId, JobId, LogId, NewRun, NodeId, RunId, Settlement, ShardId, Text,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, AppRow, Apps, Arrival, ArrivalKind, Beat, Change, Changed, ClockRow, Gate,
    Gated, JobRow, Keep, Lease, Loaded, OpenRuns, Paused, Plan, Planned, Pruned, Records, Registered,
    Renewal, Renewed, RunRow, SentRow, Settled, Split, Store, StoreError, Thinned, Unpark,
};
use punctual_store::memory::Memory;

use crate::link::{Reply, WorldLink};

/// A job's row, or why it cannot be read.
pub type ReadJob = (JobId, Result<JobRow, StoreError>);

/// A request to the store with all its data: it outlives the node that sent it.
#[derive(Clone, Debug)]
pub enum Request {
    /// [`Store::renew`].
    Renew(Renewal),
    /// [`Store::acquire`].
    Acquire(NodeId, Vec<ShardId>),
    /// [`Store::release`].
    Release(NodeId, Vec<Lease>, Timestamp),
    /// [`Store::due`].
    Due(Vec<Lease>, Timestamp, usize),
    /// [`Store::jobs`].
    Jobs(Vec<JobId>),
    /// [`Store::plan`].
    Plan(Vec<Plan>),
    /// [`Store::load`].
    Load(Vec<Lease>, Mark, Timestamp, usize),
    /// [`Store::adopt`].
    Adopt(Vec<Lease>),
    /// [`Store::unpark`].
    Unpark(Unpark),
    /// [`Store::fetch`].
    Fetch(Vec<RunId>),
    /// [`Store::gate`].
    Gate(Vec<Gate>),
    /// [`Store::split`].
    Split(Vec<Split>),
    /// [`Store::sent`].
    Sent(Vec<LogId>),
    /// [`Store::open_parts`].
    OpenParts(RunId),
    /// [`Store::open_runs`].
    OpenRuns(JobId, RunId, usize),
    /// [`Store::settle`].
    Settle(Vec<Settlement>),
    /// [`Store::allot`].
    Allot(u32, u64),
    /// [`Store::accept`].
    Accept(Vec<NewRun>, Vec<(ShardId, ArrivalKind)>),
    /// [`Store::arrivals`].
    Arrivals(Vec<Lease>, usize),
    /// [`Store::consume`].
    Consume(Vec<u64>),
    /// [`Store::change`].
    Change(Box<Change>),
    /// [`Store::is_in_force`].
    IsInForce(ChangeId),
    /// [`Store::prune`].
    Prune(Box<Keep>),
    /// [`Store::thin`].
    Thin(Box<Keep>, u32, RunId, usize),
    /// [`Records::ended`].
    Ended(RunId),
    /// [`Apps::registered`].
    Registered,
    /// [`Apps::beat`].
    Beat(Vec<Beat>),
    /// [`Apps::leave`].
    Leave(Text, Text),
    /// [`Apps::bury`].
    Bury(Duration),
}

/// The store's answer to a request.
#[derive(Clone, Debug)]
pub enum StoreAnswer {
    /// To [`Request::Renew`].
    Renew(Renewed),
    /// To [`Request::Acquire`].
    Acquire(Vec<Acquired>),
    /// To [`Request::Release`], [`Request::Consume`] and [`Request::Beat`].
    Done(()),
    /// To [`Request::Due`].
    Due(Vec<ClockRow>),
    /// To [`Request::Jobs`].
    Jobs(Vec<ReadJob>),
    /// To [`Request::Plan`].
    Plan(Vec<Planned>),
    /// To [`Request::Load`].
    Load(Loaded),
    /// To [`Request::Adopt`].
    Adopt(Adopted),
    /// To [`Request::Unpark`].
    Unpark(Vec<(JobId, RunId)>),
    /// To [`Request::Fetch`].
    Fetch(Vec<RunRow>),
    /// To [`Request::Gate`] and [`Request::Split`].
    Gate(Vec<Gated>),
    /// To [`Request::Sent`].
    Sent(Vec<SentRow>),
    /// To [`Request::OpenParts`].
    OpenParts(Vec<RunId>),
    /// To [`Request::OpenRuns`].
    OpenRuns(OpenRuns),
    /// To [`Request::Settle`].
    Settle(Vec<Settled>),
    /// To [`Request::Allot`].
    Allot(u64),
    /// To [`Request::Accept`].
    Accept(Vec<Accepted>),
    /// To [`Request::Arrivals`].
    Arrivals(Vec<Arrival>),
    /// To [`Request::Change`].
    Change(Changed),
    /// To [`Request::IsInForce`].
    IsInForce(bool),
    /// To [`Request::Prune`].
    Prune(Pruned),
    /// To [`Request::Thin`].
    Thin(Thinned),
    /// To [`Request::Ended`].
    Ended(Vec<AttemptRecord>),
    /// To [`Request::Registered`].
    Registered(Registered),
    /// To [`Request::Leave`].
    Leave(bool),
    /// To [`Request::Bury`].
    Bury(Vec<(Text, Text)>),
}

impl Request {
    /// The verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Request::Renew(..) => "renew",
            Request::Acquire(..) => "acquire",
            Request::Release(..) => "release",
            Request::Due(..) => "due",
            Request::Jobs(..) => "jobs",
            Request::Plan(..) => "plan",
            Request::Load(..) => "load",
            Request::Adopt(..) => "adopt",
            Request::Unpark(..) => "unpark",
            Request::Fetch(..) => "fetch",
            Request::Gate(..) => "gate",
            Request::Split(..) => "split",
            Request::Sent(..) => "sent",
            Request::OpenParts(..) => "open parts",
            Request::OpenRuns(..) => "open runs",
            Request::Settle(..) => "settle",
            Request::Allot(..) => "allot",
            Request::Accept(..) => "accept",
            Request::Arrivals(..) => "arrivals",
            Request::Consume(..) => "consume",
            Request::Change(..) => "change",
            Request::IsInForce(..) => "is in force",
            Request::Prune(..) => "prune",
            Request::Thin(..) => "thin",
            Request::Ended(..) => "ended",
            Request::Registered => "registered",
            Request::Beat(..) => "beat",
            Request::Leave(..) => "leave",
            Request::Bury(..) => "bury",
        }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Request::Due(..)
                | Request::Jobs(..)
                | Request::Load(..)
                | Request::Adopt(..)
                | Request::Fetch(..)
                | Request::Arrivals(..)
                | Request::IsInForce(..)
                | Request::Sent(..)
                | Request::OpenParts(..)
                | Request::Ended(..)
                | Request::Registered
        )
    }

    /// Whether the checker looks at it.
    pub fn is_evidence(&self) -> bool {
        matches!(
            self,
            Request::Acquire(..)
                | Request::Plan(..)
                | Request::Gate(..)
                | Request::Split(..)
                | Request::Settle(..)
                | Request::Accept(..)
                | Request::Change(..)
                | Request::Unpark(..)
                | Request::Load(..)
                | Request::Prune(..)
                | Request::Beat(..)
        )
    }
}

/// Applies a request to a store whose futures are ready at their first poll.
pub fn apply(store: &Memory, request: Request) -> Reply {
    match request {
        Request::Renew(renewal) => ready(store.renew(renewal)).map(StoreAnswer::Renew),
        Request::Acquire(node, shards) => ready(store.acquire(node, shards)).map(StoreAnswer::Acquire),
        Request::Release(node, leases, mark) => {
            ready(store.release(node, leases, mark)).map(StoreAnswer::Done)
        }
        Request::Due(leases, until, max) => ready(store.due(&leases, until, max)).map(StoreAnswer::Due),
        Request::Jobs(ids) => ready(store.jobs(&ids)).map(StoreAnswer::Jobs),
        Request::Plan(plans) => ready(store.plan(plans)).map(StoreAnswer::Plan),
        Request::Load(leases, from, until, max) => {
            ready(store.load(&leases, from, until, max)).map(StoreAnswer::Load)
        }
        Request::Adopt(leases) => ready(store.adopt(&leases)).map(StoreAnswer::Adopt),
        Request::Unpark(unpark) => ready(store.unpark(&unpark)).map(StoreAnswer::Unpark),
        Request::Fetch(runs) => ready(store.fetch(&runs)).map(StoreAnswer::Fetch),
        Request::Gate(gates) => ready(store.gate(gates)).map(StoreAnswer::Gate),
        Request::Split(splits) => ready(store.split(splits)).map(StoreAnswer::Gate),
        Request::Sent(logs) => ready(store.sent(&logs)).map(StoreAnswer::Sent),
        Request::OpenParts(run) => ready(store.open_parts(run)).map(StoreAnswer::OpenParts),
        Request::OpenRuns(job, after, max) => {
            ready(store.open_runs(job, after, max)).map(StoreAnswer::OpenRuns)
        }
        Request::Settle(settlements) => ready(store.settle(settlements)).map(StoreAnswer::Settle),
        Request::Allot(day, count) => ready(store.allot(day, count)).map(StoreAnswer::Allot),
        Request::Accept(runs, left) => ready(store.accept(runs, left)).map(StoreAnswer::Accept),
        Request::Arrivals(leases, max) => ready(store.arrivals(&leases, max)).map(StoreAnswer::Arrivals),
        Request::Consume(arrivals) => ready(store.consume(&arrivals)).map(StoreAnswer::Done),
        Request::Change(change) => ready(store.change(*change)).map(StoreAnswer::Change),
        Request::IsInForce(change) => ready(store.is_in_force(change)).map(StoreAnswer::IsInForce),
        Request::Prune(keep) => ready(store.prune(&keep)).map(StoreAnswer::Prune),
        Request::Thin(keep, day, from, max) => {
            ready(store.thin(&keep, day, from, max)).map(StoreAnswer::Thin)
        }
        Request::Registered => ready(store.registered()).map(StoreAnswer::Registered),
        Request::Beat(beats) => ready(Apps::beat(store, beats)).map(StoreAnswer::Done),
        Request::Leave(app, address) => ready(Apps::leave(store, &app, &address)).map(StoreAnswer::Leave),
        Request::Bury(dead) => ready(store.bury(dead)).map(StoreAnswer::Bury),
        Request::Ended(run) => ready(store.ended(run)).map(StoreAnswer::Ended),
    }
}

/// What a future says that is ready at once.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("the memory store never waits"),
    }
}

/// The store behind a link that the world controls.
pub struct Distant {
    link: Arc<WorldLink>,
}

impl Distant {
    /// The store behind this link.
    pub fn new(link: Arc<WorldLink>) -> Distant {
        Distant { link }
    }
}

/// The answer to a verb; the world never answers one verb with another's answer.
macro_rules! expect {
    ($asked:expr, $answer:path) => {
        match $asked.await? {
            $answer(value) => Ok(value),
            other => unreachable!("{other:?} answers another question"),
        }
    };
}

#[async_trait]
impl Store for Distant {
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        expect!(self.link.ask(Request::Renew(renewal)), StoreAnswer::Renew)
    }

    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError> {
        expect!(self.link.ask(Request::Acquire(node, shards)), StoreAnswer::Acquire)
    }

    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError> {
        expect!(self.link.ask(Request::Release(node, leases, mark)), StoreAnswer::Done)
    }

    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError> {
        expect!(self.link.ask(Request::Due(leases.to_vec(), until, max)), StoreAnswer::Due)
    }

    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<ReadJob>, StoreError> {
        expect!(self.link.ask(Request::Jobs(ids.to_vec())), StoreAnswer::Jobs)
    }

    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError> {
        expect!(self.link.ask(Request::Plan(plans)), StoreAnswer::Plan)
    }

    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError> {
        expect!(self.link.ask(Request::Load(leases.to_vec(), from, until, max)), StoreAnswer::Load)
    }

    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError> {
        expect!(self.link.ask(Request::Adopt(leases.to_vec())), StoreAnswer::Adopt)
    }

    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError> {
        expect!(self.link.ask(Request::Unpark(unpark.clone())), StoreAnswer::Unpark)
    }

    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        expect!(self.link.ask(Request::Fetch(runs.to_vec())), StoreAnswer::Fetch)
    }

    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let bare = |row: RunRow| RunRow { payload: None, ..row };
        self.fetch(runs).await.map(|rows| rows.into_iter().map(bare).collect())
    }

    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError> {
        expect!(self.link.ask(Request::Gate(gates)), StoreAnswer::Gate)
    }

    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError> {
        expect!(self.link.ask(Request::Split(splits)), StoreAnswer::Gate)
    }

    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError> {
        expect!(self.link.ask(Request::Sent(logs.to_vec())), StoreAnswer::Sent)
    }

    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        expect!(self.link.ask(Request::OpenParts(run)), StoreAnswer::OpenParts)
    }

    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError> {
        expect!(self.link.ask(Request::OpenRuns(job, after, max)), StoreAnswer::OpenRuns)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError> {
        expect!(self.link.ask(Request::Settle(settlements)), StoreAnswer::Settle)
    }

    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError> {
        expect!(self.link.ask(Request::Allot(day, count)), StoreAnswer::Allot)
    }

    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError> {
        expect!(self.link.ask(Request::Accept(runs, left)), StoreAnswer::Accept)
    }

    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError> {
        expect!(self.link.ask(Request::Arrivals(leases.to_vec(), max)), StoreAnswer::Arrivals)
    }

    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError> {
        expect!(self.link.ask(Request::Consume(arrivals.to_vec())), StoreAnswer::Done)
    }

    async fn change(&self, change: Change) -> Result<Changed, StoreError> {
        expect!(self.link.ask(Request::Change(Box::new(change))), StoreAnswer::Change)
    }

    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError> {
        expect!(self.link.ask(Request::IsInForce(change)), StoreAnswer::IsInForce)
    }

    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError> {
        expect!(self.link.ask(Request::Prune(Box::new(keep.clone()))), StoreAnswer::Prune)
    }

    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError> {
        expect!(self.link.ask(Request::Thin(Box::new(keep.clone()), day, from, max)), StoreAnswer::Thin)
    }
}

#[async_trait]
impl Records for Distant {
    async fn ended(&self, run: RunId) -> Result<Vec<AttemptRecord>, StoreError> {
        expect!(self.link.ask(Request::Ended(run)), StoreAnswer::Ended)
    }
}

#[async_trait]
impl Apps for Distant {
    async fn registered(&self) -> Result<Registered, StoreError> {
        expect!(self.link.ask(Request::Registered), StoreAnswer::Registered)
    }

    async fn beat(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
        expect!(self.link.ask(Request::Beat(beats)), StoreAnswer::Done)
    }

    async fn leave(&self, app: &str, address: &str) -> Result<bool, StoreError> {
        let (app, address) = (app.to_owned().into(), address.to_owned().into());
        expect!(self.link.ask(Request::Leave(app, address)), StoreAnswer::Leave)
    }

    async fn bury(&self, dead: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
        expect!(self.link.ask(Request::Bury(dead)), StoreAnswer::Bury)
    }

    async fn put_app(&self, _: AppRow, _: Option<u64>) -> Result<u64, StoreError> {
        unreachable!("what people set, the world sets before it begins")
    }

    async fn pause_app(&self, _: &str, _: Option<Paused>) -> Result<Option<AppRow>, StoreError> {
        unreachable!("no app is paused while a world runs")
    }

    async fn remove_app(&self, _: &str) -> Result<bool, StoreError> {
        unreachable!("no app is removed while a world runs")
    }
}
