//! A world: virtual time and a queue of events, processed one after another on one thread.
//!
//! Events are ordered by time and then by insertion. Nodes are futures that the world polls; calls of their ports go
//! through [`WorldLink`] and come back to the queue. So the same setup always gives the same history, on every machine.

mod clients;
mod executing;
mod faulty;
mod intruding;
mod machines;
mod network;
mod peace;
mod requests;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;

use calendar::{Timestamp, Zones};
use punctual_core::model::{JobId, NodeId};
use punctual_node::ports::{Heard, Hint, Kill};
use punctual_store::memory::Memory;
use rustc_hash::FxHashMap;

use crate::check::{Checked, Checker, Moment, Violation, Who};
use crate::counters::Counters;
use crate::dice::{Stream, named, within};
use crate::executors::SimExecutor;
use crate::link::{Micros, Outgoing, WorldLink};
use crate::setup::{PEACE, WorldSetup};

use clients::Client;
use executing::Asking;
use faulty::Planting;
use machines::{Machine, Task};
use network::{ExecutorMessage, Message};
use requests::Pending;

/// An event. Its numbers are indexes into the world's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A step of a node is due, unless it was rescheduled since.
    Step { machine: u8, step: u8, turn: u32 },
    /// A request reaches the store.
    Apply(u64),
    /// An answer reaches its node.
    Answer(u64),
    /// A fault happens.
    Fault(u32),
    /// A node's process dies around one of its requests.
    Die(u32),
    /// A node's process starts.
    Start(u8),
    /// A paused node resumes.
    Resume(u8, u64),
    /// A client sends a request, or repeats it.
    Command(u32),
    /// A client asks whether its change is in force.
    InForce(u32),
    /// A send reaches its executor.
    Arrive(u32),
    /// An executor is done with an attempt.
    Finish(u32),
    /// An executor reports the end of an attempt.
    Tell(u32),
    /// A report reaches a node.
    Heard { told: u32, machine: u8 },
    /// An acknowledgement reaches the executor.
    Acknowledged(u64),
    /// A request to end an attempt reaches its executor.
    Kill(u32),
    /// A hint of another node arrives.
    Hint(u32),
    /// An executor beats, if it is still alive.
    Beat(u8, u32),
    /// Probes reach executors.
    Probe(u32),
    /// Answers to probes reach a node.
    Word(u32),
    /// An executor's process starts.
    ExecutorStarts(u8, u32),
    /// An executor of another app names runs that are not its own.
    Intrude(u32),
    /// The faults end.
    Peace,
    /// The cluster should have come to rest.
    Rest,
    /// No run may wait for a place by now.
    Look,
    /// The world ends.
    End,
}

/// An event in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ScheduledEvent {
    at: Micros,
    order: u64,
    event: Event,
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &ScheduledEvent) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &ScheduledEvent) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The result of a world.
#[derive(Clone, Debug)]
pub struct WorldOutcome {
    /// The first promise that was broken, and when.
    pub violation: Option<(Micros, Violation)>,
    /// A hash of the history.
    pub hash: u64,
    /// Number of events.
    pub events: u64,
    /// Its virtual time.
    pub lasted: Micros,
    /// The counters.
    pub counters: Counters,
    /// The last events, if they were recorded.
    pub trace: Vec<String>,
}

/// The ends of current faults.
#[derive(Clone, Copy, Debug, Default)]
struct Troubles {
    stalled: Micros,
    full: Micros,
    sends_lost: Micros,
    sends_late: Micros,
    sends_doubled: Micros,
    reports_lost: Micros,
    hints: Micros,
}

/// A world.
pub struct World {
    setup: Arc<WorldSetup>,
    link: Arc<WorldLink>,
    store: Memory,
    zones: Arc<Zones>,
    now: Micros,
    /// The sum of steps of the store's clock, in milliseconds.
    clock_set: i64,
    order: u64,
    queue: BinaryHeap<Reverse<ScheduledEvent>>,
    machines: Vec<Machine>,
    lives: u64,
    known: FxHashMap<NodeId, Who>,
    tasks: Vec<Option<Task>>,
    free_tasks: Vec<u32>,
    pending: FxHashMap<u64, Pending>,
    /// Planned deaths: machine, life, and downtime.
    deaths: Vec<(usize, u64, Micros)>,
    outbox: Vec<Outgoing>,
    executors: Vec<SimExecutor>,
    messages: Vec<Message>,
    told: Vec<ExecutorMessage>,
    hints: Vec<(Who, Hint)>,
    kills: Vec<(Who, Kill)>,
    /// Probes in flight to executors, and their answers in flight back. Taken when they arrive.
    probes: Vec<Asking>,
    words: Vec<(Who, Vec<Heard>)>,
    clients: Vec<Client>,
    /// The jobs that exist, by their place in the list.
    jobs: Vec<Option<JobId>>,
    troubles: Troubles,
    planting: Planting,
    checker: Checker,
    violation: Option<(Micros, Violation)>,
    is_peace: bool,
    peace_at: Moment,
    moves_at_rest: u64,
    /// How often it was given more time to finish.
    respites: u32,
    is_over: bool,
    hash: u64,
    events: u64,
    trace: Option<std::collections::VecDeque<String>>,
    only: Option<String>,
}

/// More events a second mean that a node is in an endless loop.
const EVENTS_A_SECOND_MAX: u64 = 200_000;

/// How many lines of a trace are kept.
const TRACE_MAX: usize = 200_000;

impl World {
    /// A world that has not started.
    pub fn new(setup: WorldSetup) -> World {
        let link = Arc::new(WorldLink::default());
        let clock = {
            let link = link.clone();
            Arc::new(move || link.store_now()) as Arc<dyn Fn() -> Timestamp + Send + Sync>
        };
        let store = Memory::new(setup.shards, setup.key_ttl, clock);
        let mut checker = Checker::new();
        checker.submitted.key_ttl_ms = setup.key_ttl.as_millis() as i64;
        checker.executors.doubt_ms = setup.settings.registry.doubt.as_millis() as i64;
        checker.executors.away_ms = setup.settings.registry.away.as_millis() as i64;
        checker.executors.repeat = setup.settings.registry.repeat.as_micros() as Micros;
        let mut world = World {
            link,
            store,
            zones: zones(),
            now: 0,
            clock_set: 0,
            order: 0,
            queue: BinaryHeap::new(),
            machines: (0..setup.nodes).map(|index| Machine::new(setup.clocks[index])).collect(),
            lives: 0,
            known: FxHashMap::default(),
            tasks: Vec::new(),
            free_tasks: Vec::new(),
            pending: FxHashMap::default(),
            deaths: Vec::new(),
            outbox: Vec::new(),
            executors: setup.executors.iter().map(|character| SimExecutor::new(*character)).collect(),
            messages: Vec::new(),
            told: Vec::new(),
            hints: Vec::new(),
            kills: Vec::new(),
            probes: Vec::new(),
            words: Vec::new(),
            clients: setup.commands.iter().map(|_| Client::default()).collect(),
            jobs: vec![None; setup.jobs.len()],
            troubles: Troubles::default(),
            planting: Planting::default(),
            checker,
            violation: None,
            is_peace: false,
            peace_at: Moment::default(),
            moves_at_rest: 0,
            respites: 0,
            is_over: false,
            hash: setup.seed,
            events: 0,
            trace: None,
            only: None,
            setup: Arc::new(setup),
        };
        world.set_apps();
        world.fill_queue();
        world
    }

    /// Records a trace for people: the lines that contain `only`, if it is given.
    #[must_use]
    pub fn traced(mut self, only: Option<String>) -> World {
        self.trace = Some(std::collections::VecDeque::new());
        self.only = only;
        self
    }

    fn fill_queue(&mut self) {
        let setup = self.setup.clone();
        for machine in 0..setup.nodes {
            self.at(1 + machine as u64 * 7_000, Event::Start(machine as u8));
        }
        for (index, fault) in setup.faults.iter().enumerate() {
            self.at(fault.at, Event::Fault(index as u32));
        }
        for (index, command) in setup.commands.iter().enumerate() {
            self.at(command.at, Event::Command(index as u32));
        }
        for index in 0..setup.executors.len() {
            let first = within(named(setup.seed, Stream::Executors, index as u64, 21), 1, 3_000_000);
            self.at(first, Event::Beat(index as u8, 0));
        }
        self.at(within(named(setup.seed, Stream::Faults, 0, 30), 1, 60_000_000), Event::Intrude(0));
        self.at(setup.length, Event::Peace);
        self.at(setup.length + PEACE / 2, Event::Rest);
        self.at(setup.length + PEACE, Event::End);
    }

    /// Runs the world to its end.
    pub fn run(mut self) -> WorldOutcome {
        let (mut second, mut in_second) = (0, 0);
        while let Some(Reverse(entry)) = self.queue.pop() {
            in_second = if entry.at / 1_000_000 == second { in_second + 1 } else { 0 };
            second = entry.at / 1_000_000;
            if in_second > EVENTS_A_SECOND_MAX {
                let what = format!("{in_second} things happen within a second: {:?}", entry.event);
                self.judge(Err(Violation { rule: "I27", what }));
            }
            self.now = entry.at;
            self.show_time();
            self.events += 1;
            self.note(&entry);
            self.happen(entry.event);
            if self.is_over || self.violation.is_some() {
                break;
            }
        }
        WorldOutcome {
            violation: self.violation,
            hash: self.hash,
            events: self.events,
            lasted: self.now,
            counters: self.checker.counters,
            trace: self.trace.map(Vec::from).unwrap_or_default(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Step { machine, step, turn } => self.step_due(machine.into(), step.into(), turn),
            Event::Apply(request) => self.apply(request),
            Event::Answer(request) => self.answer(request),
            Event::Fault(index) => self.go_wrong(self.setup.faults[index as usize]),
            Event::Die(index) => self.die(index as usize),
            Event::Start(machine) => self.start(machine.into()),
            Event::Resume(machine, life) => self.resume(machine.into(), life),
            Event::Command(index) => self.command(index as usize),
            Event::InForce(index) => self.ask_in_force(index as usize),
            Event::Arrive(index) => self.arrive(index as usize),
            Event::Finish(index) => self.finish_attempt(index as usize),
            Event::Tell(index) => self.tell(index as usize),
            Event::Heard { told, machine } => self.heard(told as usize, machine.into()),
            Event::Acknowledged(receipt) => self.acknowledged(receipt),
            Event::Kill(index) => self.killed(index as usize),
            Event::Hint(index) => self.hinted(index as usize),
            Event::Beat(index, life) => self.beat(index.into(), life),
            Event::Probe(index) => self.asked(index as usize),
            Event::Word(index) => self.word(index as usize),
            Event::ExecutorStarts(index, life) => self.executor_starts(index.into(), life),
            Event::Intrude(number) => self.intrude(number),
            Event::Peace => self.make_peace(),
            Event::Rest => self.rest(),
            Event::Look => self.look(),
            Event::End => self.end(),
        }
    }

    fn at(&mut self, at: Micros, event: Event) {
        self.order += 1;
        self.queue.push(Reverse(ScheduledEvent { at: at.max(self.now), order: self.order, event }));
    }

    fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    /// What the store's clock shows now.
    fn store_ms(&self) -> i64 {
        let shown = self.now as i64 + self.now as i64 * self.setup.store_ppm / 1_000_000;
        self.setup.start + shown / 1_000 + self.clock_set
    }

    fn show_time(&mut self) {
        let store = self.store_ms();
        self.link.set_now(self.now, store);
        self.checker.sees_time(store);
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, store: self.store_ms() }
    }

    fn seed(&self) -> u64 {
        self.setup.seed
    }

    /// Remembers the first broken promise.
    fn judge(&mut self, checked: Checked) {
        if let (Err(violation), None) = (checked, &self.violation) {
            self.say(|| format!("VIOLATION {violation}"));
            self.violation = Some((self.now, violation));
        }
    }

    fn note(&mut self, entry: &ScheduledEvent) {
        let kind = match entry.event {
            Event::Step { machine, step, .. } => 1 | u64::from(machine) << 8 | u64::from(step) << 16,
            Event::Apply(request) => 2 | request << 8,
            Event::Answer(request) => 3 | request << 8,
            Event::Arrive(index) => 4 | u64::from(index) << 8,
            Event::Heard { told, machine } => 5 | u64::from(told) << 16 | u64::from(machine) << 8,
            Event::Fault(index) => 6 | u64::from(index) << 8,
            Event::Command(index) => 7 | u64::from(index) << 8,
            Event::Word(index) => 9 | u64::from(index) << 8,
            _ => 8,
        };
        self.hash = (self.hash.rotate_left(5) ^ kind ^ entry.at << 20).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let (now, store) = (self.now, self.store_ms());
        if let Some(trace) = &mut self.trace {
            let line = line();
            if self.only.as_ref().is_some_and(|only| !line.contains(only)) {
                return;
            }
            let clock = Timestamp::from_millis(store).to_string();
            if trace.len() == TRACE_MAX {
                trace.pop_front();
            }
            trace.push_back(format!("{:>12.6} {} {}", now as f64 / 1e6, &clock[11..], line));
        }
    }
}

/// Preparing the zones takes long and depends on nothing, so all worlds share them.
fn zones() -> Arc<Zones> {
    static ZONES: std::sync::OnceLock<Arc<Zones>> = std::sync::OnceLock::new();
    ZONES.get_or_init(|| Arc::new(Zones::bundled())).clone()
}
