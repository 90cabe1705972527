//! A store on trial: the store, a clock that the case steers, and short words for what most cases do.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, ChangeId, Close, Decided, Definition, Delivery, Epoch,
    ExclusiveKeys, Executor, Fence, FlowControl, JobId, JobState, NewRun, NodeId, Origin, Outcome, Overrides,
    RunId, Schedule, ScheduleKind, Settlement, ShardId, Target, Text, Then, Token,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, Acquired, Adopted, Apps, Browse, Change, Changed, ClockEdit, ClockRow, Door, Gate, Gated,
    JobRow, Keep, Lease, Loaded, Logs, Plan, Planned, PlannedTo, Pruned, Renewal, Renewed, RunRow, RunView,
    Settled, Store,
};

use punctual_store::StoreClock;

/// What is judged: everything that a store does for somebody.
pub(crate) trait Whole: Store + Browse + Door + Apps + Logs {}

impl<T: Store + Browse + Door + Apps + Logs> Whole for T {}

/// Opens a store. Asked again, after the first one is gone, it opens what that one left behind.
pub(crate) type Open = Box<dyn Fn(StoreClock) -> Opening>;

/// A store that is being opened.
pub(crate) type Opening = Pin<Box<dyn Future<Output = Arc<dyn Whole>>>>;

/// How many shards a store on trial has.
pub(crate) const SHARDS: u16 = 4;

/// How long a key outlives its run in a store on trial.
pub(crate) const KEY_TTL: Duration = Duration::from_secs(60);

/// How long a node lives after a renewal that says nothing else.
pub(super) const TERM: Duration = Duration::from_secs(3_600);

pub(super) const A: NodeId = NodeId(0xa);
pub(super) const B: NodeId = NodeId(u128::MAX);
pub(super) const C: NodeId = NodeId(0xc << 100);
pub(super) const D: NodeId = NodeId(0xd);
pub(super) const E: NodeId = NodeId(0xe);
pub(super) const F: NodeId = NodeId(0xf);

/// The first job that a case creates.
pub(super) const JOB: JobId = JobId(1);

/// Where most runs of the cases live.
pub(super) const SHARD: ShardId = ShardId(0);

/// Where loading begins if nothing else is known.
pub(super) const START: Mark = Mark { due: Timestamp::MIN, id: 0 };

/// A store on trial.
pub(crate) struct Subject {
    clock: Arc<AtomicI64>,
    open: Open,
    store: Option<Arc<dyn Whole>>,
}

impl Subject {
    /// Opens a store for one case.
    pub(crate) async fn new(open: Open) -> Subject {
        let clock = Arc::new(AtomicI64::new(second(0).as_millis()));
        let mut subject = Subject { clock, open, store: None };
        subject.reopen().await;
        subject
    }

    /// Closes the store and opens what it left behind.
    pub(crate) async fn reopen(&mut self) {
        self.store = None;
        let clock = Arc::clone(&self.clock);
        let told = Arc::new(move || Timestamp::from_millis(clock.load(Ordering::SeqCst)));
        self.store = Some((self.open)(told).await);
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Whole {
        self.store.as_deref().expect("a store on trial is open")
    }

    /// What the store's clock says.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.load(Ordering::SeqCst))
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        let later = self.now().saturating_add(time);
        self.clock.store(later.as_millis(), Ordering::SeqCst);
    }

    /// Sets the clock back.
    pub(super) fn set_back(&self, time: Duration) {
        let by = i64::try_from(time.as_millis()).expect("a step that fits");
        self.clock.fetch_sub(by, Ordering::SeqCst);
    }

    // --- leases ---

    /// A renewal of a node that promises nothing and has seen nothing.
    pub(super) fn renewal(&self, node: NodeId) -> Renewal {
        Renewal {
            node,
            term: TERM,
            mark: self.now(),
            seen: ChangeId(0),
            name: "a".into(),
            address: "node:7070".into(),
            checkpoints: Vec::new(),
        }
    }

    pub(super) async fn renew(&self, node: NodeId) -> Renewed {
        self.store().renew(self.renewal(node)).await.unwrap()
    }

    pub(super) async fn acquire(&self, node: NodeId, shards: &[u16]) -> Vec<Acquired> {
        let shards = shards.iter().map(|shard| ShardId(*shard)).collect();
        self.store().acquire(node, shards).await.unwrap()
    }

    /// Makes a node the holder of shards.
    pub(super) async fn hold(&self, node: NodeId, shards: &[u16]) -> Vec<Lease> {
        self.renew(node).await;
        let acquired = self.acquire(node, shards).await;
        assert_eq!(acquired.len(), shards.len(), "every shard is free");
        acquired.iter().map(|acquired| acquired.lease).collect()
    }

    /// Makes a node the holder of every shard; the leases are in the order of the shards.
    pub(super) async fn hold_all(&self, node: NodeId) -> Vec<Lease> {
        self.hold(node, &(0..SHARDS).collect::<Vec<u16>>()).await
    }

    /// Prunes as if the world had ended.
    pub(super) async fn prune_everything(&self) -> Pruned {
        self.store().prune(&Keep::since(Timestamp::MAX)).await.unwrap()
    }

    // --- jobs ---

    /// Creates an enabled job.
    pub(super) async fn job(&self, name: &str, next_fire: Option<Timestamp>) -> JobId {
        self.create(definition(name), JobState::Enabled, next_fire).await.job
    }

    pub(super) async fn create(
        &self,
        definition: Definition,
        state: JobState,
        next_fire: Option<Timestamp>,
    ) -> Changed {
        self.store().change(creation(self.now(), definition, state, next_fire)).await.unwrap()
    }

    /// A change that leaves the job as it is.
    pub(super) async fn edit(&self, id: JobId) -> Change {
        let job = self.row(id).await;
        let clock = ClockEdit {
            expected: job.next_fire,
            planned: job.planned,
            next_fire: job.next_fire,
            passed: vec![],
        };
        Change {
            job: Some((id, job.version)),
            definition: None,
            state: job.state,
            clock,
            by: "anna".into(),
            at: self.now(),
        }
    }

    pub(super) async fn stop(&self, job: JobId, state: JobState) -> Changed {
        let change = Change { state, ..self.edit(job).await };
        self.store().change(change).await.unwrap()
    }

    pub(super) async fn row(&self, id: JobId) -> JobRow {
        let mut rows = self.store().jobs(&[id]).await.unwrap();
        let (found, row) = rows.pop().expect("the job is there");
        assert_eq!((found, rows.len()), (id, 0));
        row.unwrap()
    }

    /// The clock of an enabled job as planning reads it.
    pub(super) async fn clock(&self, id: JobId) -> ClockRow {
        let job = self.row(id).await;
        let next_fire = job.next_fire.expect("the clock is set");
        ClockRow { job: id, shard: job.shard, next_fire, version: job.version, planned: job.planned }
    }

    /// A plan that moves the clock of a job by one minute and reserves the instant it passes.
    pub(super) async fn step(&self, leases: &[Lease], job: JobId) -> Plan {
        let clock = self.clock(job).await;
        let run =
            NewRun { origin: Origin::Schedule, shard: clock.shard, ..self.run(job, clock.next_fire).await };
        Plan {
            lease: leases[usize::from(clock.shard.0)],
            clock,
            next: Some(clock.next_fire.saturating_add(Duration::from_secs(60))),
            runs: vec![run],
            skipped: None,
            decided_to: self.now(),
            stop: None,
        }
    }

    pub(super) async fn plan(&self, plan: Plan) -> Planned {
        self.store().plan(vec![plan]).await.unwrap().remove(0)
    }

    // --- runs ---

    /// A one-shot with an id of its own, not yet handed over.
    pub(super) async fn run(&self, job: JobId, due: Timestamp) -> NewRun {
        let day = RunId::day_of(due);
        let sequence = self.store().allot(day, 1).await.unwrap();
        NewRun {
            id: RunId::new(day, sequence),
            job,
            shard: SHARD,
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

    pub(super) async fn accept(&self, run: NewRun) -> Accepted {
        self.store().accept(vec![run], Vec::new()).await.unwrap().remove(0)
    }

    /// Hands over a one-shot.
    pub(super) async fn accepted(&self, job: JobId, due: Timestamp) -> RunId {
        let run = self.run(job, due).await;
        let id = run.id;
        assert_eq!(self.accept(run).await, Accepted::New(id));
        id
    }

    pub(super) async fn load(&self, leases: &[Lease]) -> Loaded {
        self.store().load(leases, START, Timestamp::MAX, 1_000).await.unwrap()
    }

    /// The runs that can be loaded, in the order in which they come.
    pub(super) async fn loaded(&self, leases: &[Lease]) -> Vec<RunId> {
        let loaded = self.load(leases).await;
        assert_eq!(loaded.rest, None);
        loaded.runs.iter().map(|run| run.run).collect()
    }

    /// What can be adopted, in the order of ids.
    pub(super) async fn adopted(&self, leases: &[Lease]) -> Adopted {
        let mut adopted = self.store().adopt(leases).await.unwrap();
        adopted.sends.sort_by_key(|send| send.run.run);
        adopted.parked.sort_unstable();
        adopted
    }

    pub(super) async fn fetched(&self, run: RunId) -> RunRow {
        self.store().fetch(&[run]).await.unwrap().remove(0)
    }

    pub(super) async fn view(&self, run: RunId) -> RunView {
        self.store().run(run).await.unwrap().expect("the run is there")
    }

    pub(super) async fn gate(&self, gate: Gate) -> Gated {
        self.store().gate(vec![gate]).await.unwrap().remove(0)
    }

    /// Gates the next send of a run under an epoch.
    pub(super) async fn gated(&self, run: RunId, attempt: u32, epoch: u64) -> Gated {
        self.gate(gate(run, attempt, epoch)).await
    }

    pub(super) async fn settle(&self, settlement: Settlement) -> Settled {
        self.store().settle(vec![settlement]).await.unwrap().remove(0)
    }

    /// Closes a run that was sent once, without a gate.
    pub(super) async fn closed(&self, run: RunId, outcome: Outcome) -> Settled {
        self.settle(sent(run, 1, Then::Close(close(outcome, self.now())))).await
    }
}

/// So many seconds after the time at which every case begins.
pub(super) fn second(after: i64) -> Timestamp {
    let begin: Timestamp = "2026-11-15T10:00:00Z".parse().expect("an instant");
    Timestamp::from_millis(begin.as_millis() + after * 1_000)
}

/// Instants that a store must keep as they are, in their order.
pub(super) fn absurd_instants() -> Vec<Timestamp> {
    let named = ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00Z", "2199-12-31T23:59:59.999Z"];
    let named = named.iter().map(|text| text.parse().expect("an instant"));
    [Timestamp::MIN].into_iter().chain(named).chain([Timestamp::MAX]).collect()
}

/// Texts that a store must keep as they are.
pub(super) fn odd_texts() -> Vec<String> {
    let odd = [
        "",
        " ",
        "it's \"quoted\" \\ %_",
        "naïve Zeitplan 定时任务 🕰\u{fe0f}",
        "line\nline\r\n\ttab",
        "null",
    ];
    let long = "长".repeat(100_000);
    odd.iter().map(|text| (*text).to_owned()).chain([long]).collect()
}

/// A job that runs every minute, called `name`.
/// What runs may have in place of their job's: each alone, all of it, and an odd executor.
pub(super) fn some_overrides() -> Vec<Overrides> {
    let none = Overrides::default;
    let timeout = Some(Duration::from_millis(1_500));
    let retry = Some(Retry { max_attempts: 7, ..Retry::default() });
    let executor = Some("http://10.0.0.5:9999/ 'timeout=1' \\ 定时".into());
    vec![
        none(),
        Overrides { timeout, ..none() },
        Overrides { retry, ..none() },
        Overrides { executor: Some("native:one/1".into()), ..none() },
        Overrides { exclusive: Some(ExclusiveKeys::default()), ..none() },
        Overrides {
            timeout,
            retry,
            exclusive: ExclusiveKeys::new(["b".into(), "定时".into()]).ok(),
            executor,
        },
    ]
}

pub(crate) fn definition(name: &str) -> Definition {
    let every = ScheduleKind::Every { interval: Duration::from_secs(60), anchor: second(0) };
    Definition {
        app: "shop".into(),
        name: name.into(),
        description: String::new(),
        tags: Vec::new(),
        schedule: Schedule::from(every),
        target: Target::Executor(Executor::of("work")),
        misfire: Misfire::default(),
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

/// A change that creates a job.
pub(super) fn creation(
    at: Timestamp,
    definition: Definition,
    state: JobState,
    next_fire: Option<Timestamp>,
) -> Change {
    Change {
        job: None,
        definition: Some(definition),
        state,
        clock: ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: vec![] },
        by: "anna".into(),
        at,
    }
}

/// A gate that needs no places.
pub(super) fn gate(run: RunId, attempt: u32, epoch: u64) -> Gate {
    Gate {
        lease: Lease { shard: SHARD, epoch: Epoch(epoch) },
        run,
        job: JOB,
        attempt: Attempt(attempt),
        token: token(attempt, epoch),
        executor: format!("executor-{epoch}").into(),
        sent_at: second(attempt.into()),
        holds: Vec::new(),
    }
}

pub(super) fn token(attempt: u32, epoch: u64) -> Token {
    Token::new(Epoch(epoch), Attempt(attempt))
}

pub(super) fn close(outcome: Outcome, closed_at: Timestamp) -> Close {
    Close { outcome, reason: Text::Borrowed("so it goes"), closed_at, range: None }
}

/// The end of an attempt that was sent, with its record.
pub(super) fn sent(run: RunId, attempt: u32, then: Then) -> Settlement {
    let record = record(attempt, AttemptOutcome::Failed);
    let fence = Fence::Sent(Attempt(attempt), record.token);
    Settlement { fence, attempt: Some(record), ..unsent(run, attempt, then) }
}

/// What becomes of a run whose attempt was not sent.
pub(super) fn unsent(run: RunId, attempt: u32, then: Then) -> Settlement {
    Settlement {
        run,
        job: JOB,
        shard: SHARD,
        is_foreign: false,
        fence: Fence::Unsent(Attempt(attempt)),
        attempt: None,
        then,
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

pub(super) fn wait(seconds: i64, attempt: u32) -> Then {
    Then::Wait { ready_at: second(seconds), attempt: Attempt(attempt) }
}

pub(super) fn park(attempt: u32, version: u64) -> Then {
    Then::Park { attempt: Attempt(attempt), version }
}

pub(super) fn record(number: u32, outcome: AttemptOutcome) -> AttemptRecord {
    AttemptRecord {
        number: Attempt(number),
        token: token(number, 5),
        executor: "executor-1".into(),
        started_at: second(number.into()),
        ended_at: second(i64::from(number) + 1),
        outcome,
        message: "so it said".into(),
        possible_duplicate: false,
    }
}
