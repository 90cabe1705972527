//! What the tests of the embedded store share: a folder each, options, and short words for runs and their ends.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, ChangeId, Close, Decided, Definition, Delivery, Epoch, Executor,
    Fence, FlowControl, JobId, JobState, NewRun, NodeId, Origin, Outcome, RunId, ScheduleKind, Settlement,
    ShardId, Target, Then, Token,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Change, Changed, ClockEdit, Lease, PlannedTo, Renewal, Store};
use punctual_store::sqlite::{Limits, Options, Sqlite};

/// How many shards the tests have.
pub(crate) const SHARDS: u16 = 4;

/// Where loading begins.
pub(crate) const START: Mark = Mark { due: Timestamp::MIN, id: 0 };

/// A folder that is removed when the value goes.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sqlite-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("the target folder can be written");
        Folder { path }
    }

    /// Where the database lies.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("punctual.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is swept away with the target folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A moment of the tests' day, by which their clocks stand still.
pub(crate) fn second(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + seconds * 1_000)
}

pub(crate) fn options(limits: Limits) -> Options {
    Options {
        shards: SHARDS,
        key_ttl: Duration::from_secs(60),
        clock: Arc::new(|| second(0)),
        ends_leases: true,
        limits,
    }
}

/// A tail so short that the indexes are written all the time.
pub(crate) fn short_tail(tail: usize) -> Limits {
    Limits { tail, ..Limits::default() }
}

/// Makes a node the holder of every shard.
pub(crate) async fn hold_all(store: &Sqlite, node: u128) -> Vec<Lease> {
    let renewal = Renewal {
        node: NodeId(node),
        term: Duration::from_secs(3_600),
        mark: second(0),
        seen: ChangeId(0),
        name: "".into(),
        address: "".into(),
        checkpoints: Vec::new(),
    };
    store.renew(renewal).await.unwrap();
    let acquired = store.acquire(NodeId(node), (0..SHARDS).map(ShardId).collect()).await.unwrap();
    acquired.iter().map(|acquired| acquired.lease).collect()
}

pub(crate) fn one_shot(sequence: u64, due: Timestamp) -> NewRun {
    NewRun {
        id: RunId::new(RunId::day_of(due), sequence),
        job: JobId(1),
        shard: ShardId((sequence % u64::from(SHARDS)) as u16),
        fire_time: due,
        due,
        origin: Origin::OneShot,
        decided: Decided::NotYet,
        priority: 5,
        payload: Some("{\"n\":1}".into()),
        key: None,
        of: None,
        overrides: None,
    }
}

pub(crate) fn close(outcome: Outcome) -> Close {
    Close { outcome, reason: "".into(), closed_at: second(1), range: None }
}

/// The end of an attempt that was sent.
pub(crate) fn sent(run: RunId, attempt: u32, then: Then) -> Settlement {
    let token = Token::new(Epoch(1), Attempt(attempt));
    let record = AttemptRecord {
        number: Attempt(attempt),
        token,
        executor: "worker".into(),
        started_at: second(0),
        ended_at: second(1),
        outcome: AttemptOutcome::Failed,
        message: "".into(),
        possible_duplicate: false,
    };
    Settlement {
        run,
        job: JobId(1),
        shard: ShardId((run.sequence() % u64::from(SHARDS)) as u16),
        is_foreign: false,
        fence: Fence::Sent(Attempt(attempt), token),
        attempt: Some(record),
        then,
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

pub(crate) fn definition(name: &str, kind: ScheduleKind) -> Definition {
    Definition {
        app: "app".into(),
        name: name.into(),
        description: "".into(),
        tags: Vec::new(),
        schedule: kind.into(),
        target: Target::Executor(Executor::of("handler")),
        misfire: Misfire::default(),
        retry: Retry::default(),
        timeout: Duration::from_secs(60),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: Vec::new(),
        after: Vec::new(),
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

pub(crate) async fn create(store: &Sqlite, definition: Definition, next_fire: Option<Timestamp>) -> Changed {
    let change = Change {
        job: None,
        definition: Some(definition),
        state: JobState::Enabled,
        clock: ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: Vec::new() },
        by: "test".into(),
        at: second(0),
    };
    store.change(change).await.unwrap()
}

/// Runs a test that awaits.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
