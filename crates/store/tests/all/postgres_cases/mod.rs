//! Short words for what the cases have in common.

mod away;
mod far;
mod heard;
mod load;
mod open;
mod plans;
mod pooled;
mod prepared;
mod together;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, Close, Decided, Epoch, Fence, JobId, JobState, NewRun, NodeId, Origin, Outcome, RunId,
    Settlement, ShardId, Then, Token,
};
use punctual_node::ports::{Change, Changed, ClockEdit, Gate, Lease, PlannedTo, Renewal, Store};
use punctual_store::{Options, Postgres, StoreClock};

use crate::postgres_support::{Database, options};
use crate::suite::definition;

pub(crate) const SHARDS: u16 = 4;

/// 2026-11-15T10:00:00Z.
const BEGIN_MS: i64 = 1_794_736_800_000;

/// A database with a clock that the case steers.
pub(crate) struct House {
    pub(crate) database: Database,
    clock: Arc<AtomicI64>,
}

impl House {
    pub(crate) async fn new() -> House {
        let clock = Arc::new(AtomicI64::new(BEGIN_MS));
        let database = Database::migrated(SHARDS, told(&clock)).await;
        House { database, clock }
    }

    pub(crate) fn options(&self) -> Options {
        options(SHARDS, told(&self.clock))
    }

    pub(crate) async fn open(&self) -> Postgres {
        Postgres::open(&self.database.url(), self.options()).await.unwrap()
    }

    /// So many stores over the same database, as nodes would have them.
    pub(crate) async fn open_many(&self, count: usize) -> Vec<Postgres> {
        let mut stores = Vec::new();
        for _ in 0..count {
            stores.push(self.open().await);
        }
        stores
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }
}

fn told(clock: &Arc<AtomicI64>) -> StoreClock {
    let clock = Arc::clone(clock);
    Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)))
}

/// So many seconds after the time at which every case begins.
pub(crate) fn second(after: i64) -> Timestamp {
    Timestamp::from_millis(BEGIN_MS + after * 1_000)
}

/// A one-shot with an id of its own.
pub(crate) async fn one_shot(store: &Postgres, due: Timestamp) -> NewRun {
    let day = RunId::day_of(due);
    let sequence = store.allot(day, 1).await.unwrap();
    NewRun {
        id: RunId::new(day, sequence),
        job: JobId(1),
        shard: ShardId(0),
        fire_time: due,
        due,
        origin: Origin::OneShot,
        decided: Decided::NotYet,
        priority: 5,
        payload: None,
        key: None,
        of: None,
        overrides: None,
    }
}

/// The same, handed over.
pub(crate) async fn accepted(store: &Postgres, due: Timestamp) -> RunId {
    let run = one_shot(store, due).await;
    let id = run.id;
    store.accept(vec![run], vec![]).await.unwrap();
    id
}

pub(crate) fn gate(run: RunId, epoch: u64) -> Gate {
    Gate {
        lease: Lease { shard: ShardId(0), epoch: Epoch(epoch) },
        run,
        job: JobId(1),
        attempt: Attempt::FIRST,
        token: Token::new(Epoch(epoch), Attempt::FIRST),
        executor: "executor".into(),
        sent_at: second(1),
        holds: Vec::new(),
    }
}

/// The end of a first attempt.
pub(crate) fn end(run: RunId, is_sent: bool, outcome: Outcome) -> Settlement {
    let token = Token::new(Epoch(1), Attempt::FIRST);
    Settlement {
        run,
        job: JobId(1),
        shard: ShardId(0),
        is_foreign: false,
        fence: if is_sent { Fence::Sent(Attempt::FIRST, token) } else { Fence::Unsent(Attempt::FIRST) },
        attempt: None,
        then: Then::Close(Close { outcome, reason: "so".into(), closed_at: second(2), range: None }),
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

pub(crate) fn renewal(node: u128, mark: Timestamp) -> Renewal {
    Renewal {
        node: NodeId(node),
        term: Duration::from_secs(3_600),
        mark,
        seen: punctual_core::model::ChangeId(0),
        name: "node".into(),
        address: "node:7070".into(),
        checkpoints: Vec::new(),
    }
}

/// Makes a node the holder of every shard.
pub(crate) async fn hold_all(store: &Postgres, node: u128) -> Vec<Lease> {
    store.renew(renewal(node, second(0))).await.unwrap();
    let taken = store.acquire(NodeId(node), (0..SHARDS).map(ShardId).collect()).await.unwrap();
    taken.iter().map(|taken| taken.lease).collect()
}

/// Creates an enabled job.
pub(crate) async fn create(store: &Postgres, name: &str, next_fire: Option<Timestamp>) -> Changed {
    let clock = ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: vec![] };
    let definition = Some(definition(name));
    let (state, by) = (JobState::Enabled, "anna".into());
    store.change(Change { job: None, definition, state, clock, by, at: second(0) }).await.unwrap()
}
