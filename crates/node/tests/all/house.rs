//! A small cluster whose steps are called by hand: one clock, one store in memory, dispatch that only remembers.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use calendar::{Timestamp, Zones};
use punctual_core::event::Event;
use punctual_core::model::{
    AttemptOutcome, AttemptRecord, Definition, Delivery, FlowControl, Http, JobId, NodeId, Outcome, RunId,
    Schedule, ScheduleKind, Target,
};
use punctual_core::policy::{Block, Misfire, Retry};
use punctual_node::ports::{
    Boot, Browse, Clock, Dispatch, Dispatched, Entropy, FiredMark, Further, Hint, Kill, Peers, Probe,
    Receipt, Records, Report, RunFilter, RunView, StoreError, Unmarked,
};
use punctual_node::{Node, Ports, Settings};
use punctual_store::memory::Memory;

/// Answers a future that never waits.
pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the store in memory answers at once"),
    }
}

struct Hands(AtomicI64);

impl Clock for Hands {
    fn boot(&self) -> Boot {
        let since = self.0.load(Ordering::Relaxed) - at("00:00:00").as_millis();
        Boot(Duration::from_millis(u64::try_from(since).unwrap()))
    }
}

struct Counter {
    next: AtomicU64,
    /// Called before each number is drawn.
    watch: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Entropy for Counter {
    fn bits(&self) -> u64 {
        if let Some(watch) = self.watch.get() {
            watch();
        }
        self.next.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) sends: Mutex<Vec<Dispatched>>,
    pub(crate) kills: Mutex<Vec<Kill>>,
    pub(crate) receipts: Mutex<Vec<Receipt>>,
    pub(crate) probes: Mutex<Vec<Probe>>,
    pub(crate) hints: Mutex<Vec<(NodeId, Hint)>>,
}

impl Dispatch for Outside {
    fn send(&self, sends: Vec<Dispatched>) {
        self.sends.lock().unwrap().extend(sends);
    }

    fn kill(&self, kills: Vec<Kill>) {
        self.kills.lock().unwrap().extend(kills);
    }

    fn probe(&self, probes: Vec<Probe>) {
        self.probes.lock().unwrap().extend(probes);
    }

    fn acknowledge(&self, reports: Vec<Receipt>) {
        self.receipts.lock().unwrap().extend(reports);
    }
}

/// Hints that nobody carries: what they would say must be found without them.
impl Peers for Outside {
    fn tell(&self, node: NodeId, hint: Hint) {
        self.hints.lock().unwrap().push((node, hint));
    }
}

pub(crate) fn at(text: &str) -> Timestamp {
    format!("2026-01-01T{text}Z").parse().unwrap()
}

pub(crate) fn every(seconds: u64) -> ScheduleKind {
    ScheduleKind::Every { interval: Duration::from_secs(seconds), anchor: at("00:00:00") }
}

pub(crate) fn definition(name: &str, schedule: impl Into<Schedule>) -> Definition {
    let http = Http::post("http://agent");
    Definition {
        app: "app".into(),
        name: name.into(),
        description: String::new(),
        tags: vec![],
        schedule: schedule.into(),
        target: Target::Http(http),
        misfire: Misfire::default(),
        retry: Retry { initial_delay: Duration::from_secs(1), ..Retry::default() },
        timeout: Duration::from_secs(30),
        delivery: Delivery::AtLeastOnce,
        priority: 5,
        block: Block::default(),
        windows: vec![],
        after: vec![],
        failure_limit: 0,
        flow: FlowControl::default(),
    }
}

/// The time, the store, and what was sent by whom.
pub(crate) struct House {
    hands: Arc<Hands>,
    pub(crate) store: Arc<Memory>,
    pub(crate) outside: Arc<Outside>,
    entropy: Arc<Counter>,
    settings: Settings,
    receipts: AtomicU64,
    records: Arc<CountedRecords>,
    fired: Arc<dyn FiredMark>,
}

/// The records of the store, and how often they were read.
pub(crate) struct CountedRecords {
    store: Arc<Memory>,
    reads: AtomicU64,
    is_away: AtomicBool,
}

#[async_trait]
impl Records for CountedRecords {
    async fn ended(&self, run: RunId) -> Result<Vec<AttemptRecord>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreError::Unknown("the test says so".into()));
        }
        self.store.ended(run).await
    }
}

impl House {
    /// A house at 10:00.
    pub(crate) fn new() -> House {
        House::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> House {
        let hands = Arc::new(Hands(AtomicI64::new(at("10:00:00").as_millis())));
        let told = Arc::clone(&hands);
        let clock = Arc::new(move || Timestamp::from_millis(told.0.load(Ordering::Relaxed)));
        let store = Arc::new(Memory::new(16, Duration::from_secs(86_400), clock));
        House {
            hands,
            records: Arc::new(CountedRecords {
                store: Arc::clone(&store),
                reads: AtomicU64::new(0),
                is_away: AtomicBool::new(false),
            }),
            store,
            outside: Arc::default(),
            entropy: Arc::new(Counter { next: AtomicU64::new(7), watch: OnceLock::new() }),
            settings,
            receipts: AtomicU64::new(1),
            fired: Arc::new(Unmarked),
        }
    }

    /// With a mark that says how far its nodes have fired.
    pub(crate) fn marked(self, fired: Arc<dyn FiredMark>) -> House {
        House { fired, ..self }
    }

    /// Calls this before each random number that a node draws.
    pub(crate) fn watch_draws(&self, watch: impl Fn() + Send + Sync + 'static) {
        assert!(self.entropy.watch.set(Box::new(watch)).is_ok(), "it is watched already");
    }

    /// A node that has joined and holds what is free.
    pub(crate) fn node(&self) -> Node {
        let node = self.stranger();
        self.step(&node);
        self.step(&node);
        node
    }

    /// A node that has not joined yet.
    pub(crate) fn stranger(&self) -> Node {
        let clock: Arc<Hands> = Arc::clone(&self.hands);
        let entropy: Arc<Counter> = Arc::clone(&self.entropy);
        let store: Arc<Memory> = Arc::clone(&self.store);
        let apps: Arc<Memory> = Arc::clone(&self.store);
        let records: Arc<CountedRecords> = Arc::clone(&self.records);
        let dispatch: Arc<Outside> = Arc::clone(&self.outside);
        let fired = Arc::clone(&self.fired);
        let peers: Arc<Outside> = Arc::clone(&self.outside);
        let ports = Ports { clock, entropy, store, apps, records, dispatch, peers, fired };
        Node::new(ports, self.settings.clone(), Arc::new(Zones::bundled()))
    }

    /// How often the records of a run's attempts were read.
    pub(crate) fn record_reads(&self) -> u64 {
        self.records.reads.load(Ordering::Relaxed)
    }

    /// From now on records cannot be read, or can be read again.
    pub(crate) fn set_records_away(&self, is_away: bool) {
        self.records.is_away.store(is_away, Ordering::Relaxed);
    }

    /// How often randomness was drawn.
    pub(crate) fn draws(&self) -> u64 {
        const UNDONE: u64 = 0xf1de_83e1_9937_733d;
        (self.entropy.next.load(Ordering::Relaxed).wrapping_sub(7)).wrapping_mul(UNDONE)
    }

    pub(crate) fn set(&self, time: &str) {
        self.hands.0.store(at(time).as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.hands.0.load(Ordering::Relaxed))
    }

    /// Every step once, in the order in which they feed each other, until nothing asks for more.
    pub(crate) fn step(&self, node: &Node) {
        for _ in 0..4 {
            now_or_never(node.renew());
            now_or_never(node.load());
            now_or_never(node.plan());
            now_or_never(node.tend());
            now_or_never(node.watch());
            self.fire(node);
            now_or_never(node.settle());
            now_or_never(node.reap());
            self.fire(node);
        }
    }

    /// Fires, round after round, until it does not ask for another.
    pub(crate) fn fire(&self, node: &Node) {
        for _ in 0..100 {
            if now_or_never(node.fire()) > self.hands.boot() {
                return;
            }
        }
    }

    /// Settles once; whether the step wants to be called again at once.
    pub(crate) fn settles_on(&self, node: &Node) -> bool {
        now_or_never(node.settle()) <= self.hands.boot()
    }

    /// Lets time pass in steps of 250 ms.
    pub(crate) fn until(&self, nodes: &[&Node], time: &str) {
        while self.now() < at(time) {
            self.hands.0.fetch_add(250, Ordering::Relaxed);
            nodes.iter().for_each(|node| self.step(node));
        }
    }

    /// Lets much time pass at once, and then all steps be taken for a while.
    pub(crate) fn sleep(&self, node: &Node, time: Duration) {
        self.hands.0.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::Relaxed);
        for _ in 0..10 {
            self.hands.0.fetch_add(1_000, Ordering::Relaxed);
            self.step(node);
        }
    }

    /// The time of day that much later, as text.
    pub(crate) fn later(&self, by: Duration) -> String {
        self.now().saturating_add(by).to_string()[11..].trim_end_matches('Z').to_owned()
    }

    pub(crate) fn probes(&self) -> Vec<Probe> {
        self.outside.probes.lock().unwrap().clone()
    }

    pub(crate) fn take_probes(&self) -> Vec<Probe> {
        std::mem::take(&mut *self.outside.probes.lock().unwrap())
    }

    pub(crate) fn create(&self, node: &Node, definition: Definition) -> JobId {
        now_or_never(node.create(definition, true, "test".into())).unwrap().job
    }

    /// What was sent since this was last asked: the time of day that was named, and the attempt.
    pub(crate) fn sent(&self) -> Vec<String> {
        let sends = std::mem::take(&mut *self.outside.sends.lock().unwrap());
        sends
            .iter()
            .map(|send| format!("{} #{}", &send.fire_time.to_string()[11..19], send.attempt))
            .collect()
    }

    pub(crate) fn take_sends(&self) -> Vec<Dispatched> {
        std::mem::take(&mut *self.outside.sends.lock().unwrap())
    }

    /// An executor says how an attempt ended.
    pub(crate) fn report(&self, node: &Node, send: &Dispatched, outcome: AttemptOutcome) -> Receipt {
        let report = self.said(send, outcome);
        let receipt = report.receipt;
        node.report(report);
        now_or_never(node.settle());
        receipt
    }

    pub(crate) fn next_receipt(&self) -> Receipt {
        Receipt(self.receipts.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn said(&self, send: &Dispatched, outcome: AttemptOutcome) -> Report {
        Report {
            receipt: self.next_receipt(),
            run: send.run,
            attempt: send.attempt,
            token: send.token,
            outcome,
            message: "said so".into(),
            executor: "agent".into(),
            app: None,
            started_at: self.now(),
            ended_at: None,
            retry_after: None,
            further: Further::Welcome,
        }
    }

    pub(crate) fn is_acknowledged(&self, receipt: Receipt) -> bool {
        self.outside.receipts.lock().unwrap().contains(&receipt)
    }

    pub(crate) fn runs(&self) -> Vec<RunView> {
        let mut runs = now_or_never(self.store.run_list(&RunFilter::default(), None, 1_000)).unwrap().items;
        runs.reverse();
        runs.sort_by_key(|run| (run.fire_time, run.id));
        runs
    }

    pub(crate) fn run(&self, id: RunId) -> RunView {
        now_or_never(self.store.run(id)).unwrap().unwrap()
    }

    /// Every run: the time of day that was named, and where it stands.
    pub(crate) fn history(&self) -> Vec<String> {
        let show = |run: &RunView| {
            let reason = if run.reason.is_empty() { String::new() } else { format!(" ({})", run.reason) };
            let count = run.range.map_or(String::new(), |(_, count)| format!(" x{count}"));
            format!("{} {}{reason}{count}", &run.fire_time.to_string()[11..19], run.state)
        };
        self.runs().iter().map(show).collect()
    }
}

pub(crate) fn closed(events: &[Event]) -> Vec<Outcome> {
    let outcome = |event: &Event| match event {
        Event::Closed { outcome, .. } => Some(*outcome),
        _ => None,
    };
    events.iter().filter_map(outcome).collect()
}
