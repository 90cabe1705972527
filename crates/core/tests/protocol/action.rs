//! What may happen next.
//!
//! What a node begins it carries through without anything between, unless a fault interrupts it: then everything
//! else may happen before it goes on. Between two such pieces of work a pause needs no action at all: a node that
//! takes no step while time passes is paused.

use super::rules::{Delivery, Model, Mutation};
use super::state::{Effect, Entry, FIRES, NODES, Node, Phase, Request, SENDS_MAX, Schedule, State, TERM};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// The store's clock and every node's own clock move on by one.
    Tick,
    /// A fault: the store's clock leaps ahead of the nodes' deadlines.
    ClockLeaps,
    Acquire(usize),
    AskRenewal(usize),
    ApplyRenewal(usize),
    /// A fault: the lease request or its answer takes its time.
    Delay(usize),
    /// A fault: the node stops between two effects, or its statement takes its time.
    Pause(usize),
    /// The node learns what became of its lease request.
    LearnLease(usize),
    /// A fault: the request or its answer is lost.
    LoseRenewal(usize),
    AskPlan(usize),
    CommitPlan(usize),
    /// A fault: the plan is committed, the answer lost.
    LosePlanAnswer(usize),
    /// Planted bug only: the second half of a plan.
    InsertPlanned(usize),
    Load(usize),
    /// A run leaves the wheel.
    Fire(usize, usize),
    CommitGate(usize),
    /// A fault: no answer to the gate statement, which was applied or was not.
    LoseGateAnswer(usize, bool),
    /// The node reads back by the gate's key what became of it.
    Resolve(usize),
    /// The second look after the gate: deadline and job.
    LookAgain(usize),
    /// The bytes leave, and arrive.
    WriteBytes(usize),
    /// A fault: the bytes leave, and are under way.
    WriteSlowly(usize),
    /// The holder gives up waiting for a result that will not come.
    Reap(usize, usize),
    /// A fault: executor or network are so slow that the holder gives up too soon.
    ReapEarly(usize, usize),
    /// Planted bugs only: a send without a new gate.
    SendAgain(usize, usize),
    Deliver(usize, usize),
    /// A fault: the bytes arrive, and arrive once more later.
    WriteTwice(usize),
    /// A fault: the bytes leave, and never arrive.
    WriteInVain(usize),
    /// The executor hands a result to any node, which settles and then acknowledges it.
    Report(usize, usize),
    /// Planted bug only.
    AcknowledgeUnstored(usize, usize),
    /// A fault: the process ends, and another incarnation starts with empty memory.
    Crash(usize),
    Change(Schedule),
    /// The holder hears of the change, and says so.
    Hint(usize),
}

impl Action {
    pub(crate) fn is_fault(self) -> bool {
        matches!(
            self,
            Action::ClockLeaps
                | Action::LoseRenewal(_)
                | Action::LosePlanAnswer(_)
                | Action::LoseGateAnswer(..)
                | Action::Delay(_)
                | Action::Pause(_)
                | Action::WriteSlowly(_)
                | Action::WriteTwice(_)
                | Action::WriteInVain(_)
                | Action::Crash(_)
                | Action::ReapEarly(..)
                | Action::Change(_)
        )
    }
}

impl Model {
    /// Every action that is possible, faults and changes only while the budget lasts.
    pub(crate) fn possible(&self, state: &State, possible: &mut Vec<Action>) {
        possible.clear();
        if let Some(busy) = (0..NODES).find(|node| state.nodes[*node].is_busy()) {
            self.of_request(state, busy, possible);
            self.of_effect(state, busy, possible);
        } else {
            possible.push(Action::Tick);
            for node in 0..NODES {
                self.of_lease(state, node, possible);
                self.of_request(state, node, possible);
                self.of_effect(state, node, possible);
                if state.nodes[node].is_believing() {
                    self.of_holder(state, node, possible);
                }
            }
            self.of_network(state, possible);
            self.of_people(state, possible);
            if self.has_leaps && state.lease.left > 0 {
                possible.push(Action::ClockLeaps);
            }
        }
        if state.faults_left == 0 {
            possible.retain(|action| !action.is_fault());
        }
    }

    /// The step of a busy node, when no fault is left to interrupt it.
    pub(crate) fn only_step(&self, state: &State) -> Option<Action> {
        let busy = (0..NODES).find(|node| state.nodes[*node].is_busy())?;
        let node = &state.nodes[busy];
        match node.request {
            Request::Acquired { .. } | Request::RenewalApplied { .. } if !node.is_late => {
                return Some(Action::LearnLease(busy));
            }
            Request::RenewalAsked { .. } if !node.is_late => return Some(Action::ApplyRenewal(busy)),
            _ => {}
        }
        match node.effect {
            Effect::Idle => None,
            Effect::Plan { .. } => Some(Action::CommitPlan(busy)),
            Effect::Insert { .. } => Some(Action::InsertPlanned(busy)),
            Effect::Gate { .. } => Some(Action::CommitGate(busy)),
            Effect::Gated { .. } => Some(Action::LookAgain(busy)),
            Effect::Unsure { .. } => Some(Action::Resolve(busy)),
            Effect::Send { .. } => Some(Action::WriteBytes(busy)),
        }
    }

    fn of_lease(&self, state: &State, at: usize, possible: &mut Vec<Action>) {
        let node = &state.nodes[at];
        let is_free = !node.is_believing() && node.request == Request::None && node.effect == Effect::Idle;
        // The planted bug: the asking node's clock is a tick ahead of the store's.
        let early = u8::from(self.mutation == Some(Mutation::ExpiryByOwnClock));
        if is_free && state.lease.left <= early && state.lease.epoch < self.epochs {
            possible.push(Action::Acquire(at));
        }
        let has_news = node.left < TERM || node.mark < self.mark_ahead(state);
        if node.request == Request::None && node.is_believing() && has_news {
            possible.push(Action::AskRenewal(at));
        }
        if node.is_believing() {
            possible.push(Action::Crash(at));
        }
    }

    fn of_request(&self, state: &State, at: usize, possible: &mut Vec<Action>) {
        let node = &state.nodes[at];
        match node.request {
            Request::None => return,
            Request::Acquired { .. } => possible.push(Action::LearnLease(at)),
            Request::RenewalAsked { .. } => {
                possible.extend([Action::ApplyRenewal(at), Action::LoseRenewal(at)]);
            }
            Request::RenewalApplied { .. } => {
                possible.extend([Action::LearnLease(at), Action::LoseRenewal(at)]);
            }
        }
        if !node.is_late {
            possible.extend([Action::Delay(at), Action::Crash(at)]);
        }
    }

    fn of_effect(&self, state: &State, at: usize, possible: &mut Vec<Action>) {
        let node = &state.nodes[at];
        match node.effect {
            Effect::Idle => return,
            Effect::Plan { .. } => possible.extend([Action::CommitPlan(at), Action::LosePlanAnswer(at)]),
            Effect::Insert { .. } => possible.push(Action::InsertPlanned(at)),
            Effect::Gate { .. } => {
                possible.push(Action::CommitGate(at));
                possible.extend([false, true].map(|is_applied| Action::LoseGateAnswer(at, is_applied)));
            }
            Effect::Gated { .. } => possible.push(Action::LookAgain(at)),
            Effect::Unsure { .. } => possible.push(Action::Resolve(at)),
            Effect::Send { fire, .. } => {
                let wire = &state.wire[fire as usize];
                if wire.reports.contains(&None) {
                    possible.push(Action::WriteBytes(at));
                }
                if wire.in_flight.contains(&None) {
                    possible.extend([
                        Action::WriteSlowly(at),
                        Action::WriteTwice(at),
                        Action::WriteInVain(at),
                    ]);
                }
            }
        }
        if !node.is_paused {
            possible.extend([Action::Pause(at), Action::Crash(at)]);
        }
    }

    fn of_holder(&self, state: &State, at: usize, possible: &mut Vec<Action>) {
        let node = &state.nodes[at];
        if node.view != state.clock.version {
            possible.push(Action::Hint(at));
        }
        if node.effect != Effect::Idle {
            return;
        }
        if (state.clock.next as usize) < FIRES && state.clock.next <= state.now {
            possible.push(Action::AskPlan(at));
        }
        if (0..FIRES).any(|fire| self.loadable(state, at, fire).is_some()) {
            possible.push(Action::Load(at));
        }
        let first = (0..FIRES).find(|fire| matches!(node.wheel[*fire], Entry::Fresh | Entry::Doubtful));
        for fire in 0..FIRES {
            let run = &state.runs[fire];
            let has_room = state.wire[fire].begun < SENDS_MAX;
            let is_due = fire < state.now as usize;
            let is_ahead = fire >= node.mark as usize && self.is_bound_by_mark();
            if first == Some(fire) && is_due && !is_ahead && has_room {
                possible.push(Action::Fire(at, fire));
            }
            let is_silent = match self.delivery {
                Delivery::AtLeastOnce => node.wheel[fire] == Entry::Sent && has_room,
                _ => run.phase == Phase::Open && run.attempt > 0 && !run.is_reaped,
            };
            if is_silent {
                let is_over = self.is_quiet(state, fire);
                possible.push(if is_over { Action::Reap(at, fire) } else { Action::ReapEarly(at, fire) });
            }
            let is_gated_open = run.phase == Phase::Open && run.attempt > 0;
            let sends_again = match self.mutation {
                Some(Mutation::TimeoutIsFailure) => node.wheel[fire] == Entry::Sent,
                Some(Mutation::AdoptionResends) => node.wheel[fire] == Entry::Out,
                _ => false,
            };
            if is_gated_open && sends_again && has_room {
                possible.push(Action::SendAgain(at, fire));
            }
        }
    }

    /// Nothing of this run is under way, so no result will come by itself.
    fn is_quiet(&self, state: &State, fire: usize) -> bool {
        let wire = &state.wire[fire];
        let is_sending = |node: &Node| node.effect.fire() == Some(fire);
        let has_none = wire.in_flight.iter().all(Option::is_none) && wire.reports.iter().all(Option::is_none);
        has_none && !state.nodes.iter().any(is_sending)
    }

    fn of_network(&self, state: &State, possible: &mut Vec<Action>) {
        for fire in 0..FIRES {
            let wire = &state.wire[fire];
            for slot in 0..wire.in_flight.len() {
                if wire.in_flight[slot].is_some() {
                    possible.push(Action::Deliver(fire, slot));
                }
            }
            for slot in 0..wire.reports.len() {
                if wire.reports[slot].is_some() {
                    possible.push(Action::Report(fire, slot));
                    if self.mutation == Some(Mutation::AcknowledgedBeforeStored) {
                        possible.push(Action::AcknowledgeUnstored(fire, slot));
                    }
                }
            }
        }
    }

    fn of_people(&self, state: &State, possible: &mut Vec<Action>) {
        if state.clock.version < self.changes && state.faults_left > 0 {
            let others = [Schedule::All, Schedule::WithoutSecond, Schedule::Stopped];
            let others = others.into_iter().filter(|schedule| *schedule != state.schedule());
            possible.extend(others.map(Action::Change));
        }
    }

    /// A change is answered once no node can begin a send that does not know it: nobody holds the shard, or
    /// the holder got it after the change, or the holder has the change in its memory.
    pub(crate) fn may_answer(&self, state: &State) -> bool {
        let is_known = |at: &Node| {
            let carried = self.mutation == Some(Mutation::AnsweredOnRenewalCommit)
                && matches!(at.request, Request::RenewalApplied { version, .. } if version == state.clock.version);
            at.epoch == state.lease.epoch && at.is_believing() && (at.view == state.clock.version || carried)
        };
        let has_ended = state.lease.left == 0 || state.lease.epoch > state.clock.changed_under;
        let is_safe = has_ended || state.nodes.iter().any(is_known);
        state.clock.answered != state.clock.version && is_safe
    }

    /// The step that a healthy cluster takes. Followed from any state it must come to the end: that is the
    /// liveness that the search checks.
    pub(crate) fn healthy_step(&self, state: &State, possible: &[Action]) -> Option<Action> {
        let urgency = |action: &&Action| match **action {
            Action::Deliver(..) | Action::Report(..) => 1,
            Action::WriteBytes(_) | Action::CommitPlan(_) | Action::InsertPlanned(_) => 2,
            Action::CommitGate(_) | Action::Resolve(_) | Action::LookAgain(_) => 3,
            Action::ApplyRenewal(_) | Action::LearnLease(_) => 4,
            Action::Hint(_) | Action::Load(_) => 5,
            Action::AskPlan(_) | Action::Fire(..) => 6,
            Action::Reap(..) => 7,
            Action::AskRenewal(at) if is_held_by_mark(state, at) => 8,
            Action::Acquire(_) => 9,
            Action::Tick => 10,
            _ => u8::MAX,
        };
        possible.iter().min_by_key(urgency).copied()
    }
}

/// Something due waits only for the mark of the next renewal.
fn is_held_by_mark(state: &State, at: usize) -> bool {
    let node = &state.nodes[at];
    let waits = |fire: usize| matches!(node.wheel[fire], Entry::Fresh | Entry::Doubtful);
    (node.mark as usize..state.now as usize).any(waits)
}
