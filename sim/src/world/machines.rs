//! Machines: each runs one process of a node after the other, and can be paused or killed at any await.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use calendar::Timestamp;
use punctual_node::ports::{Boot, FiredMark, Receipt, Unmarked};
use punctual_node::{DeskError, Node, Ports};

use super::clients::Said;
use super::{Event, World};
use crate::check::{Begun, Who};
use crate::link::{Drift, Micros, NodePorts, Outgoing};
use crate::store::Distant;

/// The steps of a node, in the order of their numbers.
pub(super) const STEPS: usize = 8;
const NAMES: [&str; STEPS] = ["renew", "plan", "load", "fire", "settle", "reap", "tend", "watch"];

type Doing = Pin<Box<dyn Future<Output = Said> + Send>>;

/// A node's answer to a callback.
type Keeping = Pin<Box<dyn Future<Output = Result<(), DeskError>> + Send>>;

/// What a paused machine has to do when it resumes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Deferred {
    Step(usize),
    Answer(u64),
    Heard(usize),
    Hint(usize),
    Word(usize),
}

/// A step of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    task: Option<u32>,
    /// The number of the valid event in the queue.
    turn: u32,
    /// It became due while it was running.
    is_due_again: bool,
}

/// How far the processes of a machine have fired, as a file beside an embedded database keeps it.
#[derive(Debug)]
struct KeptMark(AtomicI64);

impl KeptMark {
    fn new() -> KeptMark {
        KeptMark(AtomicI64::new(i64::MIN))
    }
}

impl FiredMark for KeptMark {
    fn through(&self) -> Option<Timestamp> {
        let through = self.0.load(Ordering::Relaxed);
        (through > i64::MIN).then(|| Timestamp::from_millis(through))
    }

    fn reach(&self, due: Timestamp) {
        self.0.fetch_max(due.as_millis(), Ordering::Relaxed);
    }
}

/// A machine for a node.
pub(super) struct Machine {
    pub(super) node: Option<Arc<Node>>,
    pub(super) life: u64,
    drift: Drift,
    mark: Arc<KeptMark>,
    steps: [Step; STEPS],
    /// Set while it gets no CPU.
    pub(super) paused_until: Option<Micros>,
    /// When it last resumed after a pause.
    pub(super) resumed_at: Micros,
    deferred: Vec<Deferred>,
    /// Callbacks that it has not answered yet, each with the receipt that its sender knows.
    pub(super) keeping: Vec<(Receipt, Keeping)>,
    /// The store cannot be reached until then.
    pub(super) cut_until: Micros,
    /// Faults of its next requests.
    pub(super) ambushes: Vec<crate::faults::Fault>,
    /// It has been asked to stop.
    pub(super) is_leaving: bool,
    /// It stays broken when everything else is repaired.
    pub(super) is_forsaken: bool,
}

/// A task of a machine.
pub(super) struct Task {
    machine: usize,
    life: u64,
    what: What,
    doing: Doing,
}

/// Why it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Step(usize),
    Command(usize),
    Leave,
    /// An executor joins or leaves.
    Beat,
    /// An executor reports the end of an attempt by the number of its gate.
    Callback(usize),
}

impl Machine {
    pub(super) fn new(drift: Drift) -> Machine {
        Machine {
            node: None,
            life: 0,
            drift,
            mark: Arc::new(KeptMark::new()),
            steps: [Step::default(); STEPS],
            paused_until: None,
            resumed_at: 0,
            deferred: Vec::new(),
            keeping: Vec::new(),
            cut_until: 0,
            ambushes: Vec::new(),
            is_leaving: false,
            is_forsaken: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.node.is_some()
    }
}

impl World {
    pub(super) fn who(&self, machine: usize) -> Who {
        Who { node: machine, life: self.machines[machine].life }
    }

    /// A process starts, with a new identity and an empty memory.
    pub(super) fn start(&mut self, machine: usize) {
        if self.machines[machine].is_up() || self.machines[machine].is_forsaken {
            return;
        }
        self.lives += 1;
        let life = self.lives;
        let ports =
            Arc::new(NodePorts::new(self.link.clone(), self.machines[machine].drift, self.seed(), life));
        let distant = Arc::new(Distant::new(self.link.clone()));
        // How far another machine has fired cannot be read here, so only a node that is alone has a mark.
        let fired: Arc<dyn FiredMark> = match self.machines.len() {
            1 => self.machines[machine].mark.clone(),
            _ => Arc::new(Unmarked),
        };
        let node = Node::new(
            Ports {
                clock: ports.clone(),
                entropy: ports.clone(),
                store: distant.clone(),
                apps: distant.clone(),
                records: distant,
                dispatch: ports.clone(),
                peers: ports,
                fired,
            },
            self.setup.settings.clone(),
            self.zones.clone(),
        );
        self.say(|| format!("node {machine} starts as life {life}"));
        let place = &mut self.machines[machine];
        place.life = life;
        place.node = Some(Arc::new(node));
        place.is_leaving = false;
        place.deferred.clear();
        for step in 0..STEPS {
            self.step_at(machine, step, self.now);
        }
    }

    /// A process is killed. Its requests to the store may still be applied.
    pub(super) fn crash(&mut self, machine: usize, down_for: Option<Micros>) {
        if !self.machines[machine].is_up() {
            return;
        }
        self.say(|| format!("node {machine} dies"));
        let life = self.machines[machine].life;
        let was_in_flight = self.abandon(machine, life);
        self.checker.counters.crashed_in_flight += u64::from(was_in_flight);
        for index in 0..self.tasks.len() {
            let is_its = |task: &Task| task.machine == machine;
            if self.tasks[index].as_ref().is_some_and(is_its)
                && let Some(task) = self.tasks[index].take()
            {
                self.free_tasks.push(index as u32);
                if let What::Command(client) = task.what {
                    self.broken_off(client);
                }
            }
        }
        let place = &mut self.machines[machine];
        place.node = None;
        place.paused_until = None;
        place.deferred.clear();
        place.keeping.clear();
        place.ambushes.clear();
        for step in &mut place.steps {
            step.task = None;
            step.turn += 1;
            step.is_due_again = false;
        }
        if let Some(down_for) = down_for {
            self.after(down_for, Event::Start(machine as u8));
        }
    }

    /// A process gets no CPU for a while.
    pub(super) fn pause(&mut self, machine: usize, length: Micros) {
        let until = self.now + length;
        let term = self.setup.settings.term.as_micros() as Micros;
        let place = &mut self.machines[machine];
        if !place.is_up() || place.paused_until.is_some_and(|other| other >= until) {
            return;
        }
        place.paused_until = Some(until);
        let life = place.life;
        if length > term {
            self.checker.counters.paused_beyond_lease += 1;
        }
        self.say(|| format!("node {machine} is paused for {:.3} s", length as f64 / 1e6));
        self.at(until, Event::Resume(machine as u8, life));
    }

    pub(super) fn resume(&mut self, machine: usize, life: u64) {
        let now = self.now;
        let place = &mut self.machines[machine];
        if place.life != life || place.paused_until.is_none_or(|until| until > now) {
            return;
        }
        (place.paused_until, place.resumed_at) = (None, now);
        let deferred = std::mem::take(&mut place.deferred);
        self.say(|| format!("node {machine} goes on with {} things to do", deferred.len()));
        for what in deferred {
            if self.machines[machine].life != life {
                return;
            }
            match what {
                Deferred::Step(step) => self.run_step(machine, step),
                Deferred::Answer(request) => self.answer(request),
                Deferred::Heard(told) => self.heard(told, machine),
                Deferred::Hint(hint) => self.hinted(hint),
                Deferred::Word(word) => self.word(word),
            }
        }
    }

    /// Puts something off while a machine is paused; whether it is.
    pub(super) fn defer(&mut self, machine: usize, what: Deferred) -> bool {
        let place = &mut self.machines[machine];
        if place.paused_until.is_some() {
            place.deferred.push(what);
        }
        place.paused_until.is_some()
    }

    /// A node is stopped cleanly: it releases its shards and ends.
    pub(super) fn stop_cleanly(&mut self, machine: usize, down_for: Micros) {
        let place = &mut self.machines[machine];
        let Some(node) = place.node.clone().filter(|_| !place.is_leaving && place.paused_until.is_none())
        else {
            return;
        };
        place.is_leaving = true;
        self.say(|| format!("node {machine} is asked to stop"));
        // It is killed if it takes too long, as an operator would.
        let limit = down_for.max(10_000_000);
        self.after(limit, Event::Start(machine as u8));
        let leaving = async move { Said::Left(node.leave().await.is_ok()) };
        self.begin(machine, What::Leave, Box::pin(leaving));
    }

    // --- steps ---

    fn step_at(&mut self, machine: usize, step: usize, at: Micros) {
        let state = &mut self.machines[machine].steps[step];
        state.turn += 1;
        let turn = state.turn;
        self.at(at, Event::Step { machine: machine as u8, step: step as u8, turn });
    }

    pub(super) fn step_due(&mut self, machine: usize, step: usize, turn: u32) {
        let state = &self.machines[machine].steps[step];
        if state.turn != turn || state.task.is_some() {
            return;
        }
        if !self.defer(machine, Deferred::Step(step)) {
            self.run_step(machine, step);
        }
    }

    fn run_step(&mut self, machine: usize, step: usize) {
        let place = &mut self.machines[machine];
        let Some(node) = place.node.clone() else { return };
        if place.steps[step].task.is_some() {
            place.steps[step].is_due_again = true;
            return;
        }
        // A stopping node finishes its tasks and starts none.
        if place.is_leaving {
            return;
        }
        place.steps[step].turn += 1;
        let doing: Doing = match step {
            0 => Box::pin(async move { Said::Again(node.renew().await) }),
            1 => Box::pin(async move { Said::Again(node.plan().await) }),
            2 => Box::pin(async move { Said::Again(node.load().await) }),
            3 => Box::pin(async move { Said::Again(node.fire().await) }),
            4 => Box::pin(async move { Said::Again(node.settle().await) }),
            5 => Box::pin(async move { Said::Again(node.reap().await) }),
            6 => Box::pin(async move { Said::Again(node.tend().await) }),
            _ => Box::pin(async move { Said::Again(node.watch().await) }),
        };
        self.begin(machine, What::Step(step), doing);
    }

    /// Makes steps due that were woken by other steps or requests.
    pub(super) fn wake(&mut self, machine: usize) {
        let place = &self.machines[machine];
        let Some(node) = &place.node else { return };
        let punctual_node::Wakes { renew, plan, load, fire, settle, reap, tend, watch } = node.take_wakes();
        let due = [renew, plan, load, fire, settle, reap, tend, watch];
        for (step, is_due) in due.into_iter().enumerate() {
            if !is_due {
                continue;
            }
            let state = &mut self.machines[machine].steps[step];
            if state.task.is_some() {
                state.is_due_again = true;
            } else {
                self.step_at(machine, step, self.now);
            }
        }
    }

    // --- tasks ---

    pub(super) fn begin_command(&mut self, machine: usize, client: usize, doing: Doing) {
        self.begin(machine, What::Command(client), doing);
    }

    /// An executor sends a request to a node.
    pub(super) fn begin_beat(&mut self, machine: usize, doing: Doing) {
        self.begin(machine, What::Beat, doing);
    }

    pub(super) fn begin_callback(&mut self, machine: usize, told: usize, doing: Doing) {
        self.begin(machine, What::Callback(told), doing);
    }

    fn begin(&mut self, machine: usize, what: What, doing: Doing) {
        let task = Task { machine, life: self.machines[machine].life, what, doing };
        let index = match self.free_tasks.pop() {
            Some(index) => {
                self.tasks[index as usize] = Some(task);
                index
            }
            None => {
                self.tasks.push(Some(task));
                self.tasks.len() as u32 - 1
            }
        };
        if let What::Step(step) = what {
            self.machines[machine].steps[step].task = Some(index);
        }
        self.poll(index);
    }

    /// Polls a task until it waits for the store or is done.
    pub(super) fn poll(&mut self, index: u32) {
        let Some(task) = self.tasks[index as usize].as_mut() else { return };
        let (machine, life, what) = (task.machine, task.life, task.what);
        let mut context = Context::from_waker(Waker::noop());
        let polled = task.doing.as_mut().poll(&mut context);
        if let Poll::Ready(said) = polled {
            self.tasks[index as usize] = None;
            self.free_tasks.push(index);
            self.carry_out(machine, index);
            self.finished(machine, life, what, said);
        } else {
            self.carry_out(machine, index);
        }
        self.wake(machine);
    }

    /// Processes the calls that the task made while it was polled.
    fn carry_out(&mut self, machine: usize, task: u32) {
        let mut outbox = std::mem::take(&mut self.outbox);
        self.link.empty_outbox(&mut outbox);
        let Some(node) = self.machines[machine].node.clone() else { return };
        let by = self.who(machine);
        let at = self.moment();
        for outgoing in outbox.drain(..) {
            match outgoing {
                Outgoing::Request(number, request) => {
                    let node_now = node.now().map(|now| now.as_millis());
                    self.ask(number, request, Begun { by, at, node_now }, task);
                }
                Outgoing::Send(sends) => {
                    let node_now = node.now().map(|now| now.as_millis());
                    self.send(by, node_now, sends);
                }
                Outgoing::Kill(kills) => self.kill(by, kills),
                Outgoing::Probe(probes) => self.probe(by, probes),
                Outgoing::Acknowledge(receipts) => self.acknowledge(by, receipts),
                Outgoing::Tell(to, hint) => self.tell_node(by, to, hint),
            }
        }
        self.outbox = outbox;
        self.answer_callbacks(machine);
        self.observe(machine, &node);
    }

    /// Acknowledges the callbacks whose results the node has kept.
    fn answer_callbacks(&mut self, machine: usize) {
        let mut kept = Vec::new();
        self.machines[machine].keeping.retain_mut(|(receipt, keeping)| {
            let polled = keeping.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            kept.extend(matches!(polled, Poll::Ready(Ok(()))).then_some(*receipt));
            polled.is_pending()
        });
        if !kept.is_empty() {
            self.acknowledge(self.who(machine), kept);
        }
    }

    /// Processes the events of a node.
    fn observe(&mut self, machine: usize, node: &Node) {
        self.known.entry(node.id()).or_insert(Who { node: machine, life: self.machines[machine].life });
        let capacity = self.setup.settings.wheel_capacity;
        let is_full = capacity < 1_000 && node.load_figures().0 >= capacity;
        self.checker.counters.wheel_was_full += u64::from(is_full);
        let events = node.take_events();
        if self.trace.is_some() {
            for event in events {
                self.say(|| format!("node {machine}: {event:?}"));
            }
        }
    }

    fn finished(&mut self, machine: usize, life: u64, what: What, said: Said) {
        if self.machines[machine].life != life || !self.machines[machine].is_up() {
            return;
        }
        match (what, said) {
            (What::Step(step), Said::Again(boot)) => {
                let at = self.moment_of(machine, boot);
                let state = &mut self.machines[machine].steps[step];
                state.task = None;
                let at = if std::mem::take(&mut state.is_due_again) { self.now } else { at };
                self.step_at(machine, step, at);
            }
            (What::Leave, Said::Left(is_clean)) => {
                self.checker.counters.clean_stops += u64::from(is_clean);
                self.say(|| format!("node {machine} has left: {is_clean}"));
                self.crash(machine, None);
            }
            (What::Command(client), said) => self.answered(machine, client, said),
            (What::Beat, Said::Intruded(believed)) => self.intruded(machine, believed),
            (What::Beat, _) => {}
            (What::Callback(told), Said::Reports(reports)) => self.called_back(machine, told, reports),
            (What::Callback(_), said) => unreachable!("a callback said {said:?}"),
            (What::Step(step), said) => unreachable!("{} said {said:?}", NAMES[step]),
            (What::Leave, said) => unreachable!("leaving said {said:?}"),
        }
    }

    fn moment_of(&self, machine: usize, boot: Boot) -> Micros {
        let shown = u64::try_from(boot.0.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX / 2);
        self.machines[machine].drift.moment_of(shown.min(u64::MAX / 4)).max(self.now)
    }
}
