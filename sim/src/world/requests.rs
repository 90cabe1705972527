//! Requests to the store: in flight, applied once in one serial history, answered or not.

use punctual_core::model::Text;
use punctual_node::ports::StoreError;

use super::machines::Deferred;
use super::{Event, World};
use crate::check::Begun;
use crate::dice::{Stream, is_hit, named, within};
use crate::faults::{Fault, FaultKind};
use crate::link::{Micros, Reply};
use crate::store::{self, Request};

/// A request that is not finished.
#[derive(Debug)]
pub(super) struct Pending {
    task: u32,
    begun: Begun,
    /// Taken when it is applied, or lost.
    request: Option<Request>,
    /// The store's answer, until it arrives.
    reply: Option<Reply>,
    /// Whether the asking task has an answer, or is gone.
    is_answered: bool,
    /// The node dies right after it is applied; until then.
    crash_after: Option<Micros>,
    back: Micros,
    deadline: Micros,
}

fn unknown(said: &'static str) -> Reply {
    Err(StoreError::Unknown(Text::Borrowed(said)))
}

impl World {
    fn travel(&self, number: u64, salt: u64) -> Micros {
        let latency = self.setup.latency;
        let roll =
            |what: u64| named(self.setup.seed, Stream::Latency, self.now ^ salt << 60, number ^ what << 56);
        if self.is_peace {
            return within(roll(1), latency.least, latency.least * 2);
        }
        match is_hit(roll(2), latency.slow) {
            true => within(roll(3), latency.most, latency.slowest.max(latency.most)),
            false => within(roll(1), latency.least, latency.most),
        }
    }

    /// A node sends a request to the store.
    pub(super) fn ask(&mut self, number: u64, request: Request, begun: Begun, task: u32) {
        let machine = begun.by.node;
        let (there, back) = (self.travel(number, 0), self.travel(number, 1));
        let deadline = self.now + self.setup.deadline;
        self.say(|| format!("node {machine} asks {}", brief(&request)));
        let ambush = self.ambush(machine, &request);
        let mut pending = Pending {
            task,
            begun,
            request: Some(request),
            reply: None,
            is_answered: false,
            crash_after: None,
            back,
            deadline,
        };
        let choice = named(self.seed(), Stream::Faults, number, self.now);
        let give_up = within(choice, self.now, deadline);
        let mut apply_at = Some(self.now + there);
        if self.machines[machine].cut_until > self.now {
            apply_at = None;
            self.at(if is_hit(choice, 500_000) { self.now + 1_000 } else { deadline }, Event::Answer(number));
        }
        if let (Some(fault), Some(at)) = (ambush, apply_at) {
            match fault.kind {
                FaultKind::LostRequest => {
                    apply_at = None;
                    self.at(give_up, Event::Answer(number));
                }
                FaultKind::LostAnswer => {
                    self.at(give_up.max(at + 1), Event::Answer(number));
                    pending.back = Micros::MAX;
                }
                FaultKind::LateCommit => {
                    apply_at = Some(self.now + fault.length);
                    self.at(deadline, Event::Answer(number));
                    pending.back = Micros::MAX;
                }
                _ => match fault.choice % 3 {
                    0 => {
                        apply_at = None;
                        self.ambushed(machine, fault, at);
                    }
                    1 => pending.crash_after = Some(fault.length),
                    _ => {
                        apply_at = Some(self.now + within(fault.choice, there, 5_000_000));
                        self.ambushed(machine, fault, self.now + 1);
                    }
                },
            }
        }
        match apply_at {
            Some(at) => self.at(at, Event::Apply(number)),
            None => {
                pending.request = None;
                self.checker.counters.unknown_and_not_applied += 1;
            }
        }
        self.pending.insert(number, pending);
        if self.setup.plant.is_some() {
            self.plant_early_answer(number);
        }
    }

    /// The fault that waits for such a request of this machine.
    fn ambush(&mut self, machine: usize, request: &Request) -> Option<Fault> {
        let ambushes = &mut self.machines[machine].ambushes;
        let index = ambushes.iter().position(|fault| is_aimed_at(fault, request))?;
        Some(ambushes.remove(index))
    }

    fn ambushed(&mut self, machine: usize, fault: Fault, at: Micros) {
        self.deaths.push((machine, self.machines[machine].life, fault.length));
        self.at(at, Event::Die(self.deaths.len() as u32 - 1));
    }

    pub(super) fn die(&mut self, index: usize) {
        let (machine, life, down_for) = self.deaths[index];
        if self.machines[machine].life == life {
            self.crash(machine, Some(down_for));
        }
    }

    /// No task waits for these answers any more; requests in flight go on.
    pub(super) fn abandon(&mut self, machine: usize, life: u64) -> bool {
        let mut was_in_flight = false;
        self.pending.retain(|_, pending| {
            let is_its = pending.begun.by.node == machine && pending.begun.by.life == life;
            was_in_flight |= is_its && pending.request.is_some();
            pending.is_answered |= is_its;
            !is_its || pending.request.is_some()
        });
        was_in_flight
    }

    /// A request reaches the store.
    pub(super) fn apply(&mut self, number: u64) {
        let now = self.now;
        let Some(pending) = self.pending.get_mut(&number) else { return };
        if self.troubles.stalled > now {
            let (again, deadline) =
                (self.troubles.stalled + within(number.wrapping_mul(77), 1, 2_000), pending.deadline);
            let is_too_late = again + pending.back.min(1 << 40) > deadline && !pending.is_answered;
            if is_too_late {
                pending.back = Micros::MAX;
                self.at(deadline, Event::Answer(number));
            }
            return self.at(again, Event::Apply(number));
        }
        let Some(request) = pending.request.take() else { return };
        let (begun, was_answered) = (pending.begun, pending.is_answered);
        let is_full = self.troubles.full > now && request.writes();
        let reply = if is_full {
            self.checker.counters.store_was_full += 1;
            Err(StoreError::Full(Text::Borrowed("no room")))
        } else {
            self.carry_to_store(begun, request)
        };
        let Some(pending) = self.pending.get_mut(&number) else { return };
        let (back, deadline, crash_after) = (pending.back, pending.deadline, pending.crash_after);
        pending.reply = Some(reply);
        let is_alive =
            self.machines[begun.by.node].life == begun.by.life && self.machines[begun.by.node].is_up();
        if was_answered || !is_alive {
            self.checker.counters.applied_after_timeout += u64::from(is_alive);
            self.checker.counters.applied_after_crash += u64::from(!is_alive);
            self.pending.remove(&number);
        } else if let Some(down_for) = crash_after {
            self.crash(begun.by.node, Some(down_for));
        } else if back == Micros::MAX {
            self.checker.counters.unknown_and_applied += 1;
        } else if now + back > deadline {
            // It would arrive after the asking task has given up.
            self.pending.get_mut(&number).expect("it is there").back = Micros::MAX;
            self.at(deadline, Event::Answer(number));
        } else {
            self.at(now + back, Event::Answer(number));
        }
    }

    /// Applies a request to the store, and passes it to the checker.
    pub(super) fn carry_to_store(&mut self, begun: Begun, request: Request) -> Reply {
        if self.setup.plant.is_some() {
            return self.apply_planted(begun, request);
        }
        self.apply_seen(begun, request)
    }

    pub(super) fn apply_seen(&mut self, begun: Begun, request: Request) -> Reply {
        if !request.is_evidence() {
            let reply = store::apply(&self.store, request);
            self.witness(begun, None, &reply);
            return reply;
        }
        let reply = store::apply(&self.store, request.clone());
        let checked = self.checker.applied(self.moment(), begun, &request, &reply);
        self.judge(checked);
        self.witness(begun, Some(&request), &reply);
        reply
    }

    /// An answer reaches the asking task; the last one that is sent counts as a timeout.
    pub(super) fn answer(&mut self, number: u64) {
        let Some(pending) = self.pending.get(&number) else { return };
        if pending.is_answered {
            return;
        }
        let by = pending.begun.by;
        let is_alive = self.machines[by.node].life == by.life && self.machines[by.node].is_up();
        if is_alive && self.defer(by.node, Deferred::Answer(number)) {
            return;
        }
        let pending = self.pending.get_mut(&number).expect("it is there");
        pending.is_answered = true;
        let reply = if pending.back == Micros::MAX { None } else { pending.reply.take() };
        let task = pending.task;
        if pending.request.is_none() {
            self.pending.remove(&number);
        }
        if !is_alive {
            return;
        }
        let reply = reply.unwrap_or_else(|| unknown("no answer"));
        let reply = self.plant_answer(reply);
        self.say(|| format!("node {} hears {}", by.node, brief_reply(&reply)));
        self.link.answer(number, reply);
        self.poll(task);
    }

    /// How many settlements a request holds, if it is one.
    pub(super) fn settlements_of(&self, number: u64) -> Option<usize> {
        match self.pending.get(&number)?.request.as_ref()? {
            Request::Settle(settlements) => Some(settlements.len()),
            _ => None,
        }
    }

    /// Answers a request before it is applied.
    pub(super) fn answer_with(&mut self, number: u64, reply: Reply) {
        if let Some(pending) = self.pending.get_mut(&number) {
            pending.reply = Some(reply);
        }
    }

    /// All connections break: waiting tasks get an unknown outcome, and half of the requests in flight are lost.
    pub(super) fn disconnect(&mut self, choice: u64) {
        let mut numbers: Vec<u64> = self.pending.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let is_lost = is_hit(named(choice, Stream::Faults, number, 0), 500_000);
            let Some(pending) = self.pending.get_mut(&number) else { continue };
            pending.back = Micros::MAX;
            if is_lost && pending.request.take().is_some() {
                self.checker.counters.unknown_and_not_applied += 1;
            }
            self.at(self.now, Event::Answer(number));
        }
    }
}

/// Whether a fault waits for a request of this kind.
fn is_aimed_at(fault: &Fault, request: &Request) -> bool {
    if fault.kind == FaultKind::CrashAtWrite && !request.writes() {
        return false;
    }
    match fault.choice / 3 % 8 {
        0 => matches!(request, Request::Gate(..) | Request::Split(..)),
        1 => matches!(request, Request::Settle(..)),
        2 => matches!(request, Request::Plan(..)),
        3 => matches!(request, Request::Renew(..) | Request::Acquire(..) | Request::Release(..)),
        4 => matches!(request, Request::Change(..) | Request::Accept(..) | Request::Allot(..)),
        _ => true,
    }
}

/// A request in one line.
fn brief(request: &Request) -> String {
    let text = match request {
        Request::Renew(renewal) => format!("renew seen {} mark {}", renewal.seen, renewal.mark),
        Request::Plan(plans) => {
            let plan = |plan: &punctual_node::ports::Plan| {
                let runs: Vec<String> =
                    plan.runs.iter().map(|run| format!("{}@{}", run.id, run.fire_time)).collect();
                let skipped = plan.skipped.as_ref().map(|(run, close)| (run.fire_time, close.range));
                format!(
                    "[job {} -> {:?} runs {} skipped {skipped:?}]",
                    plan.clock.job,
                    plan.next,
                    runs.join(" ")
                )
            };
            format!("plan {}", plans.iter().map(plan).collect::<Vec<_>>().join(" "))
        }
        Request::Settle(settlements) => {
            let one = |settlement: &punctual_core::model::Settlement| {
                let outcome = settlement.attempt.as_ref().map(|attempt| attempt.outcome);
                format!("[run {} {:?} {outcome:?} {:?}]", settlement.run, settlement.fence, settlement.then)
            };
            format!("settle {}", settlements.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        Request::Gate(gates) => {
            let gates: Vec<String> =
                gates.iter().map(|gate| format!("[run {} {}]", gate.run, gate.token)).collect();
            format!("gate {}", gates.join(" "))
        }
        Request::Split(splits) => {
            let one = |split: &punctual_node::ports::Split| {
                let parts: Vec<String> = split.parts.iter().map(|(run, _)| run.id.to_string()).collect();
                format!("[run {} {} into {}]", split.gate.run, split.gate.token, parts.join(" "))
            };
            format!("split {}", splits.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    };
    text.chars().take(600).collect()
}

fn brief_reply(reply: &Reply) -> String {
    format!("{reply:?}").chars().take(400).collect()
}
