//! Faults, and the planted bugs of the store.

use punctual_core::model::{Join, LogId, Settlement, Text, Then};
use punctual_node::ports::{Gated, Settled, StoreError, Unpark};
use rustc_hash::FxHashMap;

use super::{Event, World};
use crate::check::Begun;
use crate::dice::{Stream, named, within};
use crate::faults::{Fault, FaultKind};
use crate::link::{Micros, Reply};
use crate::setup::Plant;
use crate::store::{self, Request, StoreAnswer};

/// The memory of planted bugs.
#[derive(Debug, Default)]
pub(super) struct Planting {
    /// The first numbers that were given out, per day.
    numbers: FxHashMap<u32, u64>,
    /// A failover has happened since.
    has_failed_over: bool,
    /// The last acquisition: when, by which machine.
    acquired: Option<(Micros, usize)>,
    /// Up to where each shard was loaded, in milliseconds.
    loaded: FxHashMap<u16, i64>,
}

impl World {
    /// A fault happens.
    pub(super) fn go_wrong(&mut self, fault: Fault) {
        let machine = fault.whom % self.machines.len();
        let until = self.now + fault.length;
        self.say(|| format!("FAULT {fault}"));
        match fault.kind {
            FaultKind::Crash => self.crash(machine, Some(fault.length)),
            FaultKind::CrashAtWrite
            | FaultKind::LostRequest
            | FaultKind::LostAnswer
            | FaultKind::LateCommit => {
                self.machines[machine].ambushes.push(fault);
            }
            FaultKind::Pause => self.pause(machine, fault.length),
            FaultKind::CleanStop => self.stop_cleanly(machine, fault.length),
            FaultKind::Stall => self.troubles.stalled = self.troubles.stalled.max(until),
            FaultKind::Disconnect => {
                self.planting.has_failed_over = true;
                self.disconnect(fault.choice);
            }
            FaultKind::Full => self.troubles.full = self.troubles.full.max(until),
            FaultKind::Cut => self.machines[machine].cut_until = until,
            FaultKind::ClockStep | FaultKind::ClockLeap => {
                self.checker.counters.clock_forward += 1;
                self.set_clock(fault.length as i64 / 1_000);
            }
            FaultKind::ClockBack => {
                self.checker.counters.clock_back += 1;
                let was_pruned = self.checker.counters.pruned > 0;
                self.checker.counters.clock_back_after_prune += u64::from(was_pruned);
                self.set_clock(-(fault.length as i64) / 1_000);
            }
            FaultKind::LostSends => self.troubles.sends_lost = until,
            FaultKind::LateSends => self.troubles.sends_late = until,
            FaultKind::DoubledSends => self.troubles.sends_doubled = until,
            FaultKind::LostReports => self.troubles.reports_lost = until,
            FaultKind::ExecutorCrash => {
                let says_goodbye = fault.choice.is_multiple_of(3);
                self.executor_crashes(fault.whom % self.executors.len(), fault.length, says_goodbye);
            }
            FaultKind::ExecutorSlow => {
                let index = fault.whom % self.executors.len();
                self.executors[index].slow_until = until;
            }
            FaultKind::Hints => self.troubles.hints = until,
        }
    }

    fn set_clock(&mut self, by_ms: i64) {
        self.clock_set += by_ms;
        self.checker.clock_is_set(by_ms);
        self.show_time();
    }

    /// Counts the interesting properties of an applied request.
    pub(super) fn witness(&mut self, begun: Begun, request: Option<&Request>, reply: &Reply) {
        match (request, reply) {
            (Some(Request::Change(change)), Ok(StoreAnswer::Change(changed))) if change.job.is_none() => {
                let name = change.definition.as_ref().map(|definition| definition.name.clone());
                self.created(&name.unwrap_or_default(), changed.job);
            }
            (Some(Request::Acquire(..)), Ok(StoreAnswer::Acquire(acquired))) if !acquired.is_empty() => {
                let shards: Vec<_> = acquired.iter().map(|one| one.lease.shard).collect();
                self.checker.taken_over(self.now, &shards, self.setup.settings.term.as_micros() as Micros);
                let machine = begun.by.node;
                let others =
                    self.planting.acquired.filter(|(at, by)| *by != machine && self.now - at < 1_000_000);
                self.checker.counters.two_adopt_at_once += u64::from(others.is_some());
                self.planting.acquired = Some((self.now, machine));
            }
            (Some(Request::Load(leases, _, until, _)), Ok(_)) => {
                for lease in leases {
                    self.planting.loaded.insert(lease.shard.0, until.as_millis());
                }
            }
            (Some(Request::Accept(runs, _)), Ok(_)) => {
                let loaded = &self.planting.loaded;
                let is_below = |shard: u16, due: i64| loaded.get(&shard).is_some_and(|mark| due < *mark);
                let below = runs.iter().filter(|run| is_below(run.shard.0, run.due.as_millis())).count();
                self.checker.counters.committed_below_loaded_mark += below as u64;
            }
            _ => {}
        }
    }

    // --- planted bugs ---

    pub(super) fn apply_planted(&mut self, begun: Begun, request: Request) -> Reply {
        match (self.setup.plant, request) {
            (Some(Plant::PlanInTwo), Request::Plan(plans)) => {
                let mut first = plans.clone();
                first.iter_mut().for_each(|plan| plan.runs.clear());
                let reply = self.apply_seen(begun, Request::Plan(first));
                let runs = plans.into_iter().flat_map(|plan| plan.runs).collect();
                let _ = store::apply(&self.store, Request::Accept(runs, Vec::new()));
                reply
            }
            (Some(Plant::GateWithoutKey), Request::Gate(gates)) => {
                let reply = store::apply(&self.store, Request::Gate(gates.clone()));
                let Ok(StoreAnswer::Gate(mut answers)) = reply else { return reply };
                for answer in &mut answers {
                    if matches!(answer, Gated::Taken(_) | Gated::Closed) {
                        *answer = Gated::Through(LogId(1));
                    }
                }
                let reply = Ok(StoreAnswer::Gate(answers));
                let checked = self.checker.applied(self.moment(), begun, &Request::Gate(gates), &reply);
                self.judge(checked);
                reply
            }
            (Some(Plant::KeysUnheld), Request::Gate(mut gates)) => {
                gates.iter_mut().for_each(|gate| gate.holds.retain(|hold| !hold.takes_turns));
                self.apply_seen(begun, Request::Gate(gates))
            }
            (Some(Plant::ExpiryByAskersClock), Request::Acquire(node, shards)) => {
                let off = within(named(self.seed(), Stream::Setup, 97, begun.by.node as u64), 0, 40_000)
                    as i64
                    - 20_000;
                self.link.set_now(self.now, self.store_ms() + off);
                let reply = self.apply_seen(begun, Request::Acquire(node, shards));
                self.show_time();
                reply
            }
            (Some(Plant::LateResultWins), Request::Settle(settlements)) => {
                let reply = store::apply(&self.store, Request::Settle(settlements.clone()));
                let Ok(StoreAnswer::Settle(mut answers)) = reply else { return reply };
                for (settlement, answer) in settlements.iter().zip(&mut answers) {
                    if settlement.attempt.is_some() {
                        let is_stale = *answer == Settled::Stale;
                        *answer = if is_stale {
                            Settled::Done { consecutive_failures: 0, is_over: false, joined: None }
                        } else {
                            *answer
                        };
                    }
                }
                let reply = Ok(StoreAnswer::Settle(answers));
                let checked =
                    self.checker.applied(self.moment(), begun, &Request::Settle(settlements), &reply);
                self.judge(checked);
                reply
            }
            (Some(Plant::JoinedEarly), Request::Settle(settlements)) => {
                let wholes: Vec<_> = settlements.iter().map(|settlement| settlement.part_of).collect();
                let is_close = |settlement: &Settlement| matches!(settlement.then, Then::Close(_));
                let closes: Vec<bool> = settlements.iter().map(is_close).collect();
                let mut reply = self.apply_seen(begun, Request::Settle(settlements));
                let Ok(StoreAnswer::Settle(answers)) = &mut reply else { return reply };
                for ((answer, whole), is_close) in answers.iter_mut().zip(wholes).zip(closes) {
                    if let (Settled::Done { joined, .. }, Some(whole), true) = (answer, whole, is_close) {
                        joined.get_or_insert((whole, Join { total: 1, open: 0, succeeded: 1 }));
                    }
                }
                reply
            }
            (Some(Plant::CalledJobByJob), Request::Unpark(unpark)) => {
                let mut called = Vec::new();
                for (job, most) in &unpark.jobs {
                    let left = unpark.max - called.len();
                    let one = Unpark::of(unpark.lease, *job, (*most).min(left), unpark.at);
                    match store::apply(&self.store, Request::Unpark(one)) {
                        Ok(StoreAnswer::Unpark(more)) => called.extend(more),
                        reply => return reply,
                    }
                }
                let (request, reply) = (Request::Unpark(unpark), Ok(StoreAnswer::Unpark(called)));
                let checked = self.checker.applied(self.moment(), begun, &request, &reply);
                self.judge(checked);
                reply
            }
            (Some(Plant::ClocksOverlooked), Request::Due(leases, until, max)) => {
                let mut reply = store::apply(&self.store, Request::Due(leases, until, max));
                if let Ok(StoreAnswer::Due(clocks)) = &mut reply
                    && self.is_peace
                {
                    clocks.retain(|clock| clock.job.0.is_multiple_of(2));
                }
                reply
            }
            (Some(Plant::NumbersReused), Request::Allot(day, count)) => {
                if let Some(first) = self.planting.numbers.get(&day).filter(|_| self.planting.has_failed_over)
                {
                    return Ok(StoreAnswer::Allot(*first));
                }
                let reply = self.apply_seen(begun, Request::Allot(day, count));
                if let Ok(StoreAnswer::Allot(first)) = reply {
                    self.planting.numbers.entry(day).or_insert(first);
                }
                reply
            }
            (_, request) => self.apply_seen(begun, request),
        }
    }

    /// A store that answers before it has written.
    pub(super) fn plant_early_answer(&mut self, number: u64) {
        if self.setup.plant != Some(Plant::SettledEarly) {
            return;
        }
        let Some(count) = self.settlements_of(number) else { return };
        let done = vec![Settled::Done { consecutive_failures: 0, is_over: false, joined: None }; count];
        self.answer_with(number, Ok(StoreAnswer::Settle(done)));
        self.after(1, Event::Answer(number));
    }

    /// Falsifies an answer on its way.
    pub(super) fn plant_answer(&self, reply: Reply) -> Reply {
        match (self.setup.plant, reply) {
            (Some(Plant::UnknownToldAsFailure), Err(StoreError::Unknown(_))) => {
                Err(StoreError::Full(Text::Borrowed("it surely did not happen")))
            }
            (_, reply) => reply,
        }
    }
}
