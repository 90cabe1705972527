//! The rows that scenarios write: jobs, and one-shots due in the order of the rows or at random.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::spread;
use punctual_core::model::{
    Decided, Definition, Delivery, FlowControl, Http, JobId, JobState, NewRun, NodeId, Origin, Payload,
    RunId, Schedule, ScheduleKind, ShardId, Target, Text,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_node::ports::{Accepted, Change, ClockEdit, Lease, PlannedTo, Renewal, Store};
use tokio::task::JoinSet;

use crate::BenchError;
use crate::clock::Watch;
use crate::place::SHARDS;

/// Makes a row of about a hundred bytes.
const PAYLOAD: &str = r#"{"order":"0123456789abcdef","amount":"17.90","currency":"EUR"}"#;

/// Ids that are taken from the store at once, as a node does when it needs many.
const BLOCK: u64 = 65_536;

/// Changes of jobs in flight at once.
const CHANGES: u64 = 256;

/// The order of due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of the rows.
    Rows,
    /// At random.
    Random,
}

impl Order {
    /// Both.
    pub const ALL: [Order; 2] = [Order::Rows, Order::Random];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::Rows => "row order",
            Order::Random => "random",
        }
    }
}

/// One-shots of one job, due within a span.
#[derive(Clone)]
pub(crate) struct OneShots {
    pub(crate) job: JobId,
    pub(crate) count: u64,
    pub(crate) order: Order,
    pub(crate) from: Timestamp,
    pub(crate) span: Duration,
    pub(crate) payload: Option<Payload>,
}

impl OneShots {
    pub(crate) fn new(count: u64, order: Order, from: Timestamp, span: Duration) -> OneShots {
        OneShots { job: JobId(1), count, order, from, span, payload: Some(Payload::from(PAYLOAD)) }
    }

    /// When the row of this number is due.
    pub(crate) fn due(&self, index: u64) -> Timestamp {
        let span = self.span.as_millis() as u64;
        let after = match self.order {
            Order::Rows => (u128::from(index) * u128::from(span) / u128::from(self.count)) as u64,
            Order::Random => scatter(index) % span,
        };
        self.from.saturating_add(Duration::from_millis(after))
    }

    fn run(&self, id: RunId, due: Timestamp) -> NewRun {
        NewRun {
            id,
            job: self.job,
            shard: spread(id, SHARDS),
            fire_time: due,
            due,
            origin: Origin::OneShot,
            decided: Decided::NotYet,
            priority: 5,
            payload: self.payload.clone(),
            key: None,
            of: None,
            overrides: None,
        }
    }
}

/// The result of a submission.
pub(crate) struct Submitted {
    pub(crate) took: Duration,
    pub(crate) batches: Vec<Duration>,
    pub(crate) accepted: u64,
}

/// Submits all of them in batches, by `submitters` that each wait for their answer.
pub(crate) async fn submit(
    store: &Arc<dyn Store>,
    shots: &OneShots,
    batch: u64,
    submitters: u64,
    watch: &Arc<Watch>,
) -> Result<Submitted, BenchError> {
    let (ids, next) = (Arc::new(Ids::default()), Arc::new(AtomicU64::new(0)));
    let started = watch.elapsed();
    let mut tasks = JoinSet::new();
    for _ in 0..submitters {
        let (store, shots, watch) = (Arc::clone(store), shots.clone(), Arc::clone(watch));
        let (ids, next) = (Arc::clone(&ids), Arc::clone(&next));
        tasks.spawn(async move {
            let (mut batches, mut accepted) = (Vec::new(), 0);
            loop {
                let from = next.fetch_add(batch, Ordering::Relaxed);
                if from >= shots.count {
                    return Ok::<_, BenchError>((batches, accepted));
                }
                let begun = watch.elapsed();
                let dues = (from..shots.count.min(from + batch)).map(|index| shots.due(index));
                let runs = ids.name(&*store, &shots, dues.collect()).await?;
                let answers = store.accept(runs, Vec::new()).await?;
                accepted += answers.iter().filter(|answer| matches!(answer, Accepted::New(_))).count() as u64;
                batches.push(watch.elapsed() - begun);
            }
        });
    }
    let mut submitted = Submitted { took: Duration::ZERO, batches: Vec::new(), accepted: 0 };
    while let Some(done) = tasks.join_next().await {
        let (batches, accepted) = done??;
        submitted.batches.extend(batches);
        submitted.accepted += accepted;
    }
    submitted.took = watch.elapsed() - started;
    Ok(submitted)
}

/// The numbers of runs by day, taken from the store in blocks.
#[derive(Default)]
struct Ids {
    days: Mutex<BTreeMap<u32, (u64, u64)>>,
}

impl Ids {
    async fn name(
        &self,
        store: &dyn Store,
        shots: &OneShots,
        dues: Vec<Timestamp>,
    ) -> Result<Vec<NewRun>, BenchError> {
        let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
        for due in &dues {
            *wanted.entry(RunId::day_of(*due)).or_default() += 1;
        }
        let mut given = BTreeMap::new();
        for (day, count) in wanted {
            let first = loop {
                if let Some(first) = self.take(day, count) {
                    break first;
                }
                let first = store.allot(day, BLOCK.max(count)).await?;
                self.lock().insert(day, (first, first + BLOCK.max(count)));
            };
            given.insert(day, first);
        }
        let named = dues.into_iter().map(|due| {
            let day = RunId::day_of(due);
            let next = given.get_mut(&day).expect("every day was counted");
            *next += 1;
            shots.run(RunId::new(day, *next - 1), due)
        });
        Ok(named.collect())
    }

    /// Takes `count` ids of a day, if that many are left, and returns the first.
    fn take(&self, day: u32, count: u64) -> Option<u64> {
        let mut days = self.lock();
        let (next, end) = days.get_mut(&day)?;
        if *next + count > *end {
            return None;
        }
        *next += count;
        Some(*next - count)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, (u64, u64)>> {
        self.days.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job for an HTTP agent.
pub(crate) fn definition(name: String, schedule: impl Into<Schedule>) -> Definition {
    Definition {
        app: "bench".into(),
        name,
        description: "One of many, described as people do it.".into(),
        tags: vec!["bench".into()],
        schedule: schedule.into(),
        target: Target::Http(Http::post("http://agent/work")),
        misfire: Misfire { threshold: Duration::from_secs(60), ..Misfire::default() },
        retry: Retry::default(),
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: Vec::new(),
        after: Vec::new(),
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

/// Creates the job that one-shots belong to.
pub(crate) async fn create_manual(store: &dyn Store, now: Timestamp) -> Result<JobId, BenchError> {
    let definition = definition("one-shots".into(), ScheduleKind::Manual);
    Ok(store.change(creation(definition, None, now)).await?.job)
}

/// Creates jobs, each with a fixed rate and its first fire time.
pub(crate) async fn create_jobs(
    store: &Arc<dyn Store>,
    count: u64,
    now: Timestamp,
    rate: impl Fn(u64) -> (Duration, Timestamp) + Copy + Send + 'static,
) -> Result<(), BenchError> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CHANGES.min(count) {
        let (store, next) = (Arc::clone(store), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok::<_, BenchError>(());
                }
                let (interval, first) = rate(index);
                let schedule = ScheduleKind::Every { interval, anchor: first };
                let definition = definition(format!("job-{index:07}"), schedule);
                store.change(creation(definition, Some(first), now)).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn creation(definition: Definition, next_fire: Option<Timestamp>, at: Timestamp) -> Change {
    Change {
        job: None,
        definition: Some(definition),
        state: JobState::Enabled,
        clock: ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: Vec::new() },
        by: Text::Borrowed("bench"),
        at,
    }
}

/// The lease term of the node that holds all shards; long enough to need no renewal.
pub(crate) const TERM: Duration = Duration::from_secs(60);

/// Makes a node with this id the holder of every shard.
pub(crate) async fn hold_all(
    store: &dyn Store,
    node: NodeId,
    now: Timestamp,
) -> Result<Vec<Lease>, BenchError> {
    let renewal = Renewal {
        node,
        term: TERM,
        mark: now,
        seen: Default::default(),
        name: "".into(),
        address: Text::Borrowed(""),
        checkpoints: Vec::new(),
    };
    store.renew(renewal).await?;
    let acquired = store.acquire(node, (0..SHARDS).map(ShardId).collect()).await?;
    Ok(acquired.into_iter().map(|acquired| acquired.lease).collect())
}

/// A hash of a number, the same in every run.
pub(crate) fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
