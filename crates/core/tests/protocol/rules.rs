//! What each action does, which statement checks what, and the invariants that every step must keep.

use std::cell::Cell;

use super::action::Action;
use super::state::{Effect, Entry, FIRES, Phase, Request, Schedule, Sent, State, TERM, Token};

/// What is searched: how runs are delivered, how much may go wrong, and which bug is planted.
pub(crate) struct Model {
    pub(crate) delivery: Delivery,
    pub(crate) faults: u8,
    pub(crate) changes: u8,
    /// How often the lease may be acquired.
    pub(crate) epochs: u8,
    /// May the store's clock leap, so that a lease ends before its holder's deadline?
    pub(crate) has_leaps: bool,
    /// Does the receiver refuse a token that is not above the last one it accepted for the run?
    pub(crate) checks_tokens: bool,
    pub(crate) mutation: Option<Mutation>,
    /// What happened at least once, as bits of `Sight`.
    pub(crate) sights: Cell<u32>,
}

#[expect(clippy::enum_variant_names, reason = "these are the names that users know")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Sent from the wheel without a gate.
    AtLeastOnce,
    /// A gate before each attempt, and a second attempt after silence.
    AtLeastOnceGated,
    /// A gate, one attempt, and silence ends as lost.
    AtMostOnce,
}

/// A planted bug: one rule of the protocol left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    RenewalMatchesShardOnly,
    FailedRenewalKeepsBelief,
    DeadlineFromAnswer,
    ExpiryByOwnClock,
    WheelKeptOnLoss,
    LoadWithoutEpoch,
    ClockAndRunApart,
    PlanOverwrites,
    EditForgetsMissed,
    SendBeforeGate,
    GateWithoutKey,
    SkipWithoutKey,
    GateDroppedAtClose,
    NoSecondLook,
    RetryAsksNobody,
    UnknownGateNotApplied,
    TimeoutIsFailure,
    AdoptionResends,
    MarkTrails,
    DoubtfulIsSkipped,
    LateReportOverwrites,
    AcknowledgedBeforeStored,
    AnsweredOnRenewalCommit,
    TokenIgnored,
}

/// Rare things that the search must have come across, or it proves little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    RenewalRefused,
    RenewalLearnedLate,
    LoadRefused,
    PlanLostRace,
    PlannedAgain,
    GateRefused,
    OwnGateFound,
    GateTooLate,
    StaleGateCommitted,
    UnwantedAfterGate,
    TakenOverGated,
    SentTwice,
    SecondAccepted,
    RefusedByToken,
    LateReport,
    SkippedUnwanted,
    MissedRecorded,
    LostThoughSent,
}

enum Arrival {
    Once,
    Twice,
    Later,
    Never,
}

/// An invariant that a step broke.
pub(crate) type Broken = &'static str;

impl Model {
    pub(crate) fn is_gated(&self) -> bool {
        self.delivery != Delivery::AtLeastOnce
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn see(&self, sight: Sight) {
        self.sights.set(self.sights.get() | 1 << sight as u32);
    }

    pub(crate) fn has_seen(&self, sight: Sight) -> bool {
        self.sights.get() & 1 << sight as u32 != 0
    }

    /// The mark that a lease request carries: a promise about the time until the next one.
    pub(crate) fn mark_ahead(&self, state: &State) -> u8 {
        if self.is_gated() {
            return 0;
        }
        let ahead = if self.has(Mutation::MarkTrails) { state.now } else { state.now + 1 };
        ahead.min(FIRES as u8)
    }

    pub(crate) fn is_bound_by_mark(&self) -> bool {
        !self.is_gated() && !self.has(Mutation::MarkTrails)
    }

    /// How the node would take an open run into its wheel, if it is not there.
    pub(crate) fn loadable(&self, state: &State, at: usize, fire: usize) -> Option<Entry> {
        let (node, run) = (&state.nodes[at], &state.runs[fire]);
        if run.phase != Phase::Open || node.wheel[fire] != Entry::Out {
            return None;
        }
        match self.delivery {
            Delivery::AtLeastOnce if fire < node.inherited as usize => Some(Entry::Doubtful),
            Delivery::AtLeastOnce => Some(Entry::Fresh),
            _ if run.attempt == 0 => Some(Entry::Fresh),
            // Gated and open is adopted: it waits for a report or the reaper, never for the wheel.
            _ => run.is_reaped.then_some(Entry::Doubtful),
        }
    }

    /// The state after the action, or the invariant that the action breaks.
    pub(crate) fn step(&self, before: &State, action: Action) -> Result<State, Broken> {
        let mut state = *before;
        if action.is_fault() {
            state.faults_left -= 1;
        }
        match action {
            Action::Tick => self.tick(&mut state),
            Action::ClockLeaps => state.lease.left = 0,
            Action::Acquire(at) => self.acquire(&mut state, at),
            Action::AskRenewal(at) => state.nodes[at].request = Request::RenewalAsked { age: 0 },
            Action::ApplyRenewal(at) => self.apply_renewal(&mut state, at),
            Action::LearnLease(at) => self.learn_lease(&mut state, at),
            Action::LoseRenewal(at) => self.fail_renewal(&mut state, at),
            Action::AskPlan(at) => {
                let (next, version) = (state.clock.next, state.clock.version);
                state.nodes[at].effect = Effect::Plan { next, version };
            }
            Action::CommitPlan(at) => self.commit_plan(&mut state, at, true),
            Action::LosePlanAnswer(at) => self.commit_plan(&mut state, at, false),
            Action::InsertPlanned(at) => self.insert_planned(&mut state, at),
            Action::Load(at) => self.load(&mut state, at),
            Action::Fire(at, fire) => self.fire(&mut state, at, fire)?,
            Action::CommitGate(at) => self.commit_gate(&mut state, at)?,
            Action::LoseGateAnswer(at, is_applied) => self.lose_gate_answer(&mut state, at, is_applied)?,
            Action::Resolve(at) => self.resolve(&mut state, at),
            Action::LookAgain(at) => self.look_again(&mut state, at)?,
            Action::WriteBytes(at) => self.write(&mut state, at, Arrival::Once)?,
            Action::WriteSlowly(at) => self.write(&mut state, at, Arrival::Later)?,
            Action::WriteTwice(at) => self.write(&mut state, at, Arrival::Twice)?,
            Action::WriteInVain(at) => self.write(&mut state, at, Arrival::Never)?,
            Action::Delay(at) => state.nodes[at].is_late = true,
            Action::Pause(at) => state.nodes[at].is_paused = true,
            Action::Reap(at, fire) | Action::ReapEarly(at, fire) => self.reap(&mut state, at, fire)?,
            Action::SendAgain(at, fire) => {
                let attempt = state.runs[fire].attempt;
                self.begin_send(&mut state, at, fire, attempt, true)?;
            }
            Action::Deliver(fire, slot) => {
                let sent = state.wire[fire].in_flight[slot].take();
                self.receive(&mut state, fire, sent.expect("only what is in flight is delivered"))?;
            }
            Action::Report(fire, slot) => self.settle(&mut state, fire, slot),
            Action::AcknowledgeUnstored(fire, slot) => {
                state.wire[fire].reports[slot] = None;
                if state.runs[fire].phase == Phase::Open {
                    return Err("a report is acknowledged only once stored");
                }
            }
            Action::Crash(at) => state.nodes[at] = Default::default(),
            Action::Change(schedule) => self.change(&mut state, schedule),
            Action::Hint(at) => state.nodes[at].view = state.clock.version,
        }
        self.check(before, &state)?;
        // The soonest answer is the most dangerous one, so it is the one to look at.
        if self.may_answer(&state) {
            state.clock.answered = state.clock.version;
        }
        Ok(state.forgetful())
    }

    // ---- lease

    fn tick(&self, state: &mut State) {
        state.now = (state.now + 1).min(FIRES as u8);
        state.lease.left = state.lease.left.saturating_sub(1);
        for at in 0..state.nodes.len() {
            let node = &mut state.nodes[at];
            node.left = node.left.saturating_sub(1);
            let age = match &mut node.request {
                Request::None => {
                    if node.left == 0 {
                        self.concede(state, at);
                    }
                    continue;
                }
                Request::Acquired { age, .. }
                | Request::RenewalAsked { age }
                | Request::RenewalApplied { age, .. } => age,
            };
            *age += 1;
            // While a renewal may still be answered a node past its deadline holds: memory stays, nothing begins.
            if *age == TERM {
                match node.request {
                    Request::Acquired { .. } => self.concede(state, at),
                    _ => self.fail_renewal(state, at),
                }
            }
        }
    }

    fn acquire(&self, state: &mut State, at: usize) {
        if state.runs.iter().any(|run| run.phase == Phase::Open && run.attempt > 0) {
            self.see(Sight::TakenOverGated);
        }
        let mark = self.mark_ahead(state);
        let node = &mut state.nodes[at];
        node.inherited = state.lease.mark;
        state.lease.epoch += 1;
        state.lease.left = TERM;
        state.lease.mark = state.lease.mark.max(mark);
        node.epoch = state.lease.epoch;
        node.request = Request::Acquired { age: 0, mark };
    }

    fn apply_renewal(&self, state: &mut State, at: usize) {
        let Request::RenewalAsked { age } = state.nodes[at].request else { return };
        let is_mine = state.lease.epoch == state.nodes[at].epoch && state.lease.left > 0;
        if !is_mine && !self.has(Mutation::RenewalMatchesShardOnly) {
            self.see(Sight::RenewalRefused);
            return self.fail_renewal(state, at);
        }
        let mark = self.mark_ahead(state);
        state.lease.left = TERM;
        state.lease.mark = state.lease.mark.max(mark);
        state.nodes[at].request = Request::RenewalApplied { age, mark, version: state.clock.version };
    }

    fn learn_lease(&self, state: &mut State, at: usize) {
        let node = &mut state.nodes[at];
        let (age, mark) = match node.request {
            Request::Acquired { age, mark } => {
                node.view = state.clock.version;
                (age, mark)
            }
            Request::RenewalApplied { age, mark, version } => {
                node.view = node.view.max(version);
                if node.left == 0 {
                    self.see(Sight::RenewalLearnedLate);
                }
                (age, mark)
            }
            _ => return,
        };
        node.left = if self.has(Mutation::DeadlineFromAnswer) { TERM } else { TERM - age };
        node.mark = mark;
        let is_new = matches!(node.request, Request::Acquired { .. });
        node.request = Request::None;
        if is_new {
            self.load(state, at);
        }
    }

    fn fail_renewal(&self, state: &mut State, at: usize) {
        if self.has(Mutation::FailedRenewalKeepsBelief) {
            state.nodes[at].request = Request::None;
            state.nodes[at].left = TERM;
        } else {
            self.concede(state, at);
        }
    }

    fn concede(&self, state: &mut State, at: usize) {
        state.nodes[at].concede(self.has(Mutation::WheelKeptOnLoss));
    }

    // ---- plan

    /// One statement: compare-and-set on the clock row, and the run under its unique key. No epoch is checked
    /// here, because that check can be overtaken and so must not be needed.
    fn commit_plan(&self, state: &mut State, at: usize, is_answered: bool) {
        let Effect::Plan { next, version } = state.nodes[at].effect else { return };
        state.nodes[at].effect = Effect::Idle;
        if (state.clock.next, state.clock.version) != (next, version) {
            return self.see(Sight::PlanLostRace);
        }
        let schedule = state.schedule();
        let later = (next as usize + 1..FIRES).find(|fire| schedule.names(*fire));
        state.clock.next = later.unwrap_or(FIRES) as u8;
        if self.has(Mutation::ClockAndRunApart) {
            state.nodes[at].effect = Effect::Insert { fire: next };
            return;
        }
        let run = &mut state.runs[next as usize];
        if run.phase == Phase::Absent || self.has(Mutation::PlanOverwrites) {
            *run = Default::default();
            run.phase = Phase::Open;
            if is_answered && state.nodes[at].is_believing() {
                state.nodes[at].wheel[next as usize] = Entry::Fresh;
            }
        } else {
            self.see(Sight::PlannedAgain);
        }
    }

    fn insert_planned(&self, state: &mut State, at: usize) {
        let Effect::Insert { fire } = state.nodes[at].effect else { return };
        state.nodes[at].effect = Effect::Idle;
        state.runs[fire as usize].phase = Phase::Open;
    }

    /// One read of lease and runs in the same snapshot: if the epoch is still ours, then no later holder had
    /// planned or sent anything of what is seen. This check cannot be overtaken, and it is needed.
    fn load(&self, state: &mut State, at: usize) {
        if state.lease.epoch != state.nodes[at].epoch && !self.has(Mutation::LoadWithoutEpoch) {
            self.see(Sight::LoadRefused);
            return self.concede(state, at);
        }
        for fire in 0..FIRES {
            if let Some(entry) = self.loadable(state, at, fire) {
                state.nodes[at].wheel[fire] = entry;
            }
        }
    }

    // ---- fire, gate, send

    fn fire(&self, state: &mut State, at: usize, fire: usize) -> Result<(), Broken> {
        let node = state.nodes[at];
        let is_doubtful = node.wheel[fire] == Entry::Doubtful;
        let attempt = if self.is_gated() && is_doubtful { 2 } else { 1 };
        if !state.schedule_of(node.view).names(fire) {
            state.nodes[at].wheel[fire] = Entry::Out;
            return self.skip(state, fire, attempt, is_doubtful);
        }
        state.nodes[at].wheel[fire] = Entry::Sent;
        if self.is_gated() && !self.has(Mutation::SendBeforeGate) {
            state.nodes[at].effect = Effect::Gate { fire: fire as u8, attempt };
            return Ok(());
        }
        let attempt = if self.is_gated() { attempt } else { state.wire[fire].begun + 1 };
        self.begin_send(state, at, fire, attempt, is_doubtful)
    }

    /// Closes a reservation that the job no longer wants. It takes the gate's key, so that it and a gate that
    /// is on its way exclude each other. What may have been sent is not called skipped.
    fn skip(&self, state: &mut State, fire: usize, attempt: u8, is_doubtful: bool) -> Result<(), Broken> {
        let run = &mut state.runs[fire];
        let is_taken = self.is_gated() && run.attempt >= attempt;
        if run.phase != Phase::Open || is_taken {
            return Ok(());
        }
        if self.is_gated() && !self.has(Mutation::SkipWithoutKey) {
            run.attempt = attempt;
        }
        let is_unknown = is_doubtful && !self.has(Mutation::DoubtfulIsSkipped);
        run.phase = if is_unknown { Phase::Lost } else { Phase::Skipped };
        self.see(Sight::SkippedUnwanted);
        Ok(())
    }

    /// One statement: the gate row under its unique key (run, attempt). Again without help from the epoch.
    fn commit_gate(&self, state: &mut State, at: usize) -> Result<(), Broken> {
        let Effect::Gate { fire, attempt } = state.nodes[at].effect else { return Ok(()) };
        let epoch = state.nodes[at].epoch;
        let run = &mut state.runs[fire as usize];
        let is_free = run.attempt < attempt;
        let is_own = run.attempt == attempt && run.gated_by == epoch;
        if !is_free && !is_own && !self.has(Mutation::GateWithoutKey) {
            self.see(Sight::GateRefused);
            state.nodes[at].effect = Effect::Idle;
            return Ok(());
        }
        if !is_own {
            if run.phase.is_closed() {
                return Err("no gate is committed for a closed run");
            }
            if !is_free {
                return Err("no gate is committed after another node adopted the run");
            }
            if run.attempt > 0 && self.delivery == Delivery::AtMostOnce {
                return Err("an at-most-once run is gated at most once");
            }
            if epoch < state.lease.epoch {
                self.see(Sight::StaleGateCommitted);
            }
            run.attempt = attempt;
            run.gated_by = epoch;
            run.is_reaped = false;
        }
        state.nodes[at].effect = match self.mutation {
            Some(Mutation::SendBeforeGate) => Effect::Idle,
            _ => Effect::Gated { fire, attempt },
        };
        Ok(())
    }

    fn lose_gate_answer(&self, state: &mut State, at: usize, is_applied: bool) -> Result<(), Broken> {
        let Effect::Gate { fire, attempt } = state.nodes[at].effect else { return Ok(()) };
        if is_applied {
            self.commit_gate(state, at)?;
        }
        state.nodes[at].effect = match self.mutation {
            Some(Mutation::UnknownGateNotApplied) => Effect::Gate { fire, attempt: attempt + 1 },
            _ => Effect::Unsure { fire, attempt },
        };
        Ok(())
    }

    fn resolve(&self, state: &mut State, at: usize) {
        let Effect::Unsure { fire, attempt } = state.nodes[at].effect else { return };
        let run = &state.runs[fire as usize];
        let is_own = run.attempt == attempt && run.gated_by == state.nodes[at].epoch;
        // Not there proves nothing: the statement may still arrive. Asking again with the same key is safe.
        state.nodes[at].effect = match run.attempt < attempt {
            true if state.nodes[at].is_believing() => Effect::Gate { fire, attempt },
            false if is_own => {
                self.see(Sight::OwnGateFound);
                Effect::Gated { fire, attempt }
            }
            _ => Effect::Idle,
        };
    }

    fn look_again(&self, state: &mut State, at: usize) -> Result<(), Broken> {
        let Effect::Gated { fire, attempt } = state.nodes[at].effect else { return Ok(()) };
        let (node, fire) = (state.nodes[at], fire as usize);
        state.nodes[at].effect = Effect::Idle;
        if !node.is_believing() {
            self.see(Sight::GateTooLate);
            return Ok(());
        }
        if !state.schedule_of(node.view).names(fire) && !self.has(Mutation::NoSecondLook) {
            self.see(Sight::UnwantedAfterGate);
            let run = &mut state.runs[fire];
            if run.phase == Phase::Open && run.attempt == attempt && !run.is_reaped {
                run.phase = if attempt == 1 { Phase::Skipped } else { Phase::Lost };
            }
            return Ok(());
        }
        self.begin_send(state, at, fire, attempt, attempt > 1)
    }

    fn begin_send(
        &self,
        state: &mut State,
        at: usize,
        fire: usize,
        attempt: u8,
        is_possible_duplicate: bool,
    ) -> Result<(), Broken> {
        let token = Token { epoch: state.nodes[at].epoch, attempt };
        let sent = Sent { token, is_possible_duplicate };
        state.nodes[at].effect = Effect::Send { fire: fire as u8, sent };
        state.wire[fire].begun += 1;
        if state.wire[fire].begun > 1 {
            self.see(Sight::SentTwice);
            if self.delivery == Delivery::AtMostOnce {
                return Err("an at-most-once run is sent at most once");
            }
        }
        if self.has_leaps {
            return Ok(());
        }
        let is_answered = state.clock.answered == state.clock.version;
        if is_answered && !state.schedule().names(fire) {
            return Err("after a change is answered no send begins that it forbids");
        }
        if self.is_gated() && state.runs[fire].phase.is_closed() {
            return Err("no send of a gated run begins after it was closed");
        }
        Ok(())
    }

    fn write(&self, state: &mut State, at: usize, arrival: Arrival) -> Result<(), Broken> {
        let Effect::Send { fire, sent } = state.nodes[at].effect else { return Ok(()) };
        state.nodes[at].effect = match self.mutation {
            Some(Mutation::SendBeforeGate) => Effect::Gate { fire, attempt: sent.token.attempt },
            _ => Effect::Idle,
        };
        if matches!(arrival, Arrival::Later | Arrival::Twice) {
            let slots = &mut state.wire[fire as usize].in_flight;
            let slot = slots.iter_mut().find(|slot| slot.is_none());
            *slot.expect("written slowly only when there is room") = Some(sent);
        }
        if matches!(arrival, Arrival::Once | Arrival::Twice) {
            self.receive(state, fire as usize, sent)?;
        }
        Ok(())
    }

    /// Silence. A gated attempt is given up by a statement that is fenced by the row; an ungated run that is
    /// still open is sent again, and says so.
    fn reap(&self, state: &mut State, at: usize, fire: usize) -> Result<(), Broken> {
        let is_wanted = state.schedule_of(state.nodes[at].view).names(fire);
        let run = &mut state.runs[fire];
        if !self.is_gated() {
            if run.phase.is_closed() {
                state.nodes[at].wheel[fire] = Entry::Out;
                return Ok(());
            }
            if !is_wanted && !self.has(Mutation::RetryAsksNobody) {
                run.phase = Phase::Lost;
                state.nodes[at].wheel[fire] = Entry::Out;
                return Ok(());
            }
            let attempt = state.wire[fire].begun + 1;
            return self.begin_send(state, at, fire, attempt, true);
        }
        if self.delivery == Delivery::AtLeastOnceGated && run.attempt == 1 {
            run.is_reaped = true;
            state.nodes[at].wheel[fire] = Entry::Out;
        } else {
            run.phase = Phase::Lost;
        }
        Ok(())
    }

    // ---- executor

    fn receive(&self, state: &mut State, fire: usize, sent: Sent) -> Result<(), Broken> {
        let wire = &mut state.wire[fire];
        let is_newer = sent.token > wire.accepted;
        if !is_newer && self.checks_tokens && !self.has(Mutation::TokenIgnored) {
            self.see(Sight::RefusedByToken);
            return Ok(());
        }
        if wire.accepted != Token::default() {
            self.see(Sight::SecondAccepted);
            // A receiver that looks at no token cannot be kept from taking an old send late; what it can rely on
            // is that of two sends the newer one is marked.
            let owes_mark = is_newer || self.has(Mutation::TokenIgnored);
            if owes_mark && !sent.is_possible_duplicate {
                return Err("a second receipt is marked possible_duplicate");
            }
        }
        wire.accepted = wire.accepted.max(sent.token);
        if !self.is_gated() {
            // The first result closes an ungated run, whichever attempt it is of, and a second changes nothing.
            wire.reports[0] = Some(1);
            return Ok(());
        }
        let report = wire.reports.iter_mut().find(|report| report.is_none());
        *report.expect("delivered only when there is room for the report") = Some(sent.token.attempt);
        Ok(())
    }

    /// Any node settles: first result wins, fenced by the run being open and, if gated, by the attempt. The
    /// acknowledgement follows the commit; a crash between the two only repeats this step, which then changes nothing.
    fn settle(&self, state: &mut State, fire: usize, slot: usize) {
        let Some(attempt) = state.wire[fire].reports[slot].take() else { return };
        let run = &mut state.runs[fire];
        let is_current = !self.is_gated() || (run.attempt == attempt && !run.is_reaped);
        if run.phase == Phase::Open && is_current {
            run.phase = Phase::Succeeded;
            if self.has(Mutation::GateDroppedAtClose) {
                run.attempt = 0;
            }
            return;
        }
        self.see(Sight::LateReport);
        if run.phase == Phase::Lost {
            self.see(Sight::LostThoughSent);
        }
        if self.has(Mutation::LateReportOverwrites) {
            run.phase = Phase::Succeeded;
        }
    }

    // ---- people

    /// One transaction: the new definition, version + 1, the next fire time after now, and a record for what
    /// had passed unplanned under the old definition.
    fn change(&self, state: &mut State, schedule: Schedule) {
        let now = state.now as usize;
        let old = state.schedule();
        for fire in state.clock.next as usize..now {
            if old.names(fire)
                && state.runs[fire].phase == Phase::Absent
                && !self.has(Mutation::EditForgetsMissed)
            {
                state.runs[fire].phase = Phase::Skipped;
                state.runs[fire].attempt = 1;
                self.see(Sight::MissedRecorded);
            }
        }
        for fire in now..FIRES {
            state.clock.unnamed[fire] = !schedule.names(fire);
        }
        state.clock.version += 1;
        state.clock.schedules[state.clock.version as usize] = schedule;
        state.clock.changed_under = state.lease.epoch;
        let next = (now..FIRES).find(|fire| schedule.names(*fire));
        state.clock.next = next.unwrap_or(FIRES) as u8;
    }

    // ---- invariants of a state, and of a state and the next

    fn check(&self, before: &State, after: &State) -> Result<(), Broken> {
        for fire in 0..FIRES {
            let (old, new) = (&before.runs[fire], &after.runs[fire]);
            let is_passed = fire < after.clock.next as usize;
            if is_passed && new.phase == Phase::Absent && !after.clock.unnamed[fire] {
                return Err("the clock passes no fire time without a record");
            }
            if old.phase.is_closed() && new.phase != old.phase {
                return Err("a settled run never changes");
            }
            let is_reset = new.phase == Phase::Open && new.attempt < old.attempt;
            let is_rewritten = new.phase == Phase::Absent || is_reset;
            if old.phase != Phase::Absent && is_rewritten {
                return Err("a fire time is decided once");
            }
            let is_sent = after.wire[fire].begun > 0;
            if new.phase == Phase::Skipped && is_sent && (self.is_gated() || !self.has_leaps) {
                return Err("what is recorded as skipped was never sent");
            }
        }
        let believing = || after.nodes.iter().filter(|node| node.is_believing());
        for node in believing() {
            if node.epoch > after.lease.epoch
                || believing().filter(|other| other.epoch == node.epoch).count() > 1
            {
                return Err("an epoch belongs to one node");
            }
        }
        if !self.has_leaps && believing().count() > 1 {
            return Err("no two nodes believe at the same time that they may act");
        }
        if after.lease.epoch < before.lease.epoch {
            return Err("epochs grow");
        }
        Ok(())
    }
}
