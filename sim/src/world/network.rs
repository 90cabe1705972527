//! The network: sends to executors and agents, reports and acknowledgements back, and hints between nodes.

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, LogId, NodeId, Target, Text};
use punctual_node::Callback;
use punctual_node::ports::{Dispatched, Further, Hint, Receipt, Report};

use super::machines::Deferred;
use super::{Event, World};
use crate::check::{ReceiptFact, Who};
use crate::dice::{Stream, is_hit, named, within};
use crate::executors::{self, Offer, Reception};
use crate::link::Micros;

/// An attempt in flight to an executor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    by: Who,
    offer: Offer,
    is_marked: bool,
    executor: usize,
    begun: Micros,
    /// A copy that the network made.
    is_copy: bool,
}

/// A report of an executor.
#[derive(Clone, Debug)]
pub(super) struct ExecutorMessage {
    /// The sender of the attempt.
    sender: Who,
    executor: usize,
    executor_life: u32,
    /// It goes back over the same connection, once, or not at all.
    is_direct: bool,
    /// The number of the gate, if its executor knows nothing else of the attempt.
    log: Option<LogId>,
    report: Report,
    tries: u32,
    is_acknowledged: bool,
    /// Whether it contradicts an earlier report of the same executor.
    contradicts: bool,
}

impl World {
    pub(super) fn roll(&self, first: u64, second: u64) -> u64 {
        named(self.setup.seed, Stream::Faults, first ^ self.now << 8, second)
    }

    pub(super) fn hop(&self, number: u64) -> Micros {
        within(named(self.setup.seed, Stream::Latency, self.now, number), 100, 3_000)
    }

    // --- sends ---

    /// A node begins a send.
    pub(super) fn send(&mut self, by: Who, node_now: Option<i64>, sends: Vec<Dispatched>) {
        for send in sends {
            self.say(|| {
                let Dispatched { run, attempt, token, possible_duplicate, .. } = &send;
                let to = send.address.as_ref().map(|address| &address.url);
                format!(
                    "{by} sends run {run} attempt {attempt} token {token} duplicate {possible_duplicate} to {to:?}"
                )
            });
            let checked = self.checker.check_alone(&send, &self.admitted(&send));
            self.judge(checked);
            let checked = self.checker.sent(self.moment(), by, node_now, &send);
            self.judge(checked);
            let chosen = send.address.as_ref().and_then(|address| executors::at(&address.url));
            let offer = Offer {
                run: send.run,
                job: send.job.id,
                attempt: send.attempt,
                token: send.token,
                log: send.log,
                is_http: matches!(send.job.definition.target, Target::Http(_)),
            };
            let message = Message {
                by,
                offer,
                is_marked: send.possible_duplicate,
                executor: chosen.unwrap_or_else(|| self.agent(&send)),
                begun: self.now,
                is_copy: false,
            };
            self.carry(message);
        }
    }

    /// The executor behind the address of an HTTP job: any of its app.
    fn agent(&self, send: &Dispatched) -> usize {
        let app = crate::check::app_number(&send.job.definition.app).unwrap_or(0) % self.setup.apps;
        let is_of = |index: &usize| self.executors[*index].character.app == app;
        let of_app: Vec<usize> = (0..self.executors.len()).filter(is_of).collect();
        let choice = named(self.seed(), Stream::Executors, send.run.0, u64::from(send.attempt.0));
        of_app[choice as usize % of_app.len()]
    }

    fn carry(&mut self, message: Message) {
        let Offer { run, token, .. } = message.offer;
        let roll = |world: &World, what: u64| world.roll(run.0 | what << 58, token.0);
        if self.troubles.sends_lost > self.now && is_hit(roll(self, 1), 700_000) {
            if is_hit(roll(self, 2), 300_000) {
                self.refuse(message);
            }
            return;
        }
        let mut delay = self.hop(run.0 ^ token.0);
        if self.troubles.sends_late > self.now && is_hit(roll(self, 3), 600_000) {
            delay = within(roll(self, 4), 1_000, 25_000_000);
        }
        self.messages.push(message);
        self.after(delay, Event::Arrive(self.messages.len() as u32 - 1));
        if self.troubles.sends_doubled > self.now && is_hit(roll(self, 5), 500_000) {
            self.messages.push(Message { is_copy: true, ..message });
            let delay = within(roll(self, 6), 100, 8_000_000);
            self.after(delay, Event::Arrive(self.messages.len() as u32 - 1));
        }
    }

    /// A send reaches its executor.
    pub(super) fn arrive(&mut self, index: usize) {
        let message = self.messages[index];
        let Message { offer, executor, .. } = message;
        let Offer { run, attempt, token, is_http, .. } = offer;
        let term = self.setup.settings.term.as_micros() as Micros;
        self.checker.counters.sent_long_before_arrival += u64::from(self.now - message.begun > term);
        if !self.executors[executor].is_up {
            // A refused copy says nothing about the original.
            if !message.is_copy && is_hit(self.roll(run.0, 7), 600_000) {
                self.refuse(message);
            }
            return;
        }
        let (seed, now) = (self.seed(), self.now);
        let verdict = self.executors[executor].take(seed, now, offer);
        self.say(|| {
            format!("executor {executor} gets run {run} attempt {attempt} token {token}: {verdict:?}")
        });
        match verdict {
            Reception::RefusesToken => {
                self.checker.counters.token_refused += 1;
                return;
            }
            Reception::Declines => {
                if !message.is_copy {
                    self.refuse(message);
                }
                return;
            }
            Reception::Runs(..) | Reception::Hangs => {}
        }
        let checks_tokens = self.executors[executor].character.checks_tokens && !is_http;
        let (is_marked, is_copy) = (message.is_marked, message.is_copy);
        let receipt = ReceiptFact { executor, attempt, token, is_marked, checks_tokens, is_copy };
        let checked = self.checker.received(run, receipt);
        self.judge(checked);
        if let Reception::Runs(length, outcome) = verdict {
            let told = self.told_by(message, outcome, "done", is_http);
            self.after(length, Event::Finish(told));
        }
    }

    /// The attempt was certainly not taken, and its sender is told so if it is still alive.
    fn refuse(&mut self, message: Message) {
        let told = self.told_by(message, AttemptOutcome::Refused, "refused", true);
        let ExecutorMessage { report, .. } = &self.told[told as usize];
        self.checker.said(report.run, report.attempt, report.token, report.outcome);
        self.after(self.hop(message.offer.run.0), Event::Tell(told));
    }

    fn told_by(
        &mut self,
        message: Message,
        outcome: AttemptOutcome,
        said: &'static str,
        is_direct: bool,
    ) -> u32 {
        let executor = &self.executors[message.executor];
        let started_at = self.store_ms() + executor.character.clock_off_ms;
        let Offer { run, attempt, token, log, .. } = message.offer;
        let receipt = self.next_receipt();
        let report = Report {
            receipt,
            run,
            attempt,
            token,
            outcome,
            message: Text::Borrowed(said),
            executor: executors::address(message.executor),
            app: None,
            started_at: Timestamp::from_millis(started_at),
            ended_at: None,
            retry_after: None,
            further: Further::Welcome,
        };
        self.told.push(ExecutorMessage {
            sender: message.by,
            executor: message.executor,
            executor_life: executor.life,
            is_direct,
            log: log.filter(|_| executor.character.calls_back && !is_direct && !message.offer.is_http),
            report,
            tries: 0,
            is_acknowledged: false,
            contradicts: false,
        });
        self.told.len() as u32 - 1
    }

    /// 0 stands for no executor.
    fn next_receipt(&self) -> Receipt {
        Receipt(self.told.len() as u64 + 1)
    }

    pub(super) fn told_report(&self, index: usize) -> Report {
        self.told[index].report.clone()
    }

    /// An executor has ended an attempt on request, and confirms it to the node that asks.
    pub(super) fn tell_killed(&mut self, executor: usize, offer: Offer) {
        let (by, begun) = (Who::default(), self.now);
        let message = Message { by, offer, is_marked: false, executor, begun, is_copy: false };
        let told = self.told_by(message, AttemptOutcome::Cancelled, "killed", false);
        self.tell(told as usize);
    }

    // --- reports ---

    /// An executor is done with an attempt.
    pub(super) fn finish_attempt(&mut self, index: usize) {
        let ExecutorMessage { executor, executor_life, report, contradicts, .. } = self.told[index].clone();
        let (run, attempt, token) = (report.run, report.attempt, report.token);
        let place = &mut self.executors[executor];
        if place.life != executor_life {
            return;
        }
        if !contradicts && place.running.remove(&(run, attempt, token)).is_none() {
            return;
        }
        self.checker.said(run, attempt, token, report.outcome);
        if !contradicts && self.executors[executor].lies(self.seed(), run, attempt) {
            self.contradict(index);
        }
        self.tell(index);
    }

    fn contradict(&mut self, index: usize) {
        let mut told = self.told[index].clone();
        told.report.receipt = self.next_receipt();
        told.report.outcome = match told.report.outcome {
            AttemptOutcome::Succeeded => AttemptOutcome::Failed,
            _ => AttemptOutcome::Succeeded,
        };
        told.contradicts = true;
        self.told.push(told);
        let later = within(self.roll(index as u64, 9), 1_000, 5_000_000);
        self.after(later, Event::Finish(self.told.len() as u32 - 1));
    }

    /// Sends a report to a node, and repeats it until it is acknowledged or forgotten.
    pub(super) fn tell(&mut self, index: usize) {
        let ExecutorMessage { sender, executor, executor_life, is_direct, tries, is_acknowledged, .. } =
            self.told[index];
        if is_acknowledged || (!is_direct && self.executors[executor].life != executor_life) {
            return;
        }
        self.told[index].tries += 1;
        let is_anywhere =
            self.executors[executor].character.reports_anywhere && !self.executors[executor].is_well;
        let machine = match () {
            () if is_direct => sender.node,
            () if is_anywhere => self.roll(index as u64, 11) as usize % self.machines.len(),
            () if tries < 3 => sender.node,
            () => (sender.node + tries as usize) % self.machines.len(),
        };
        let is_lost = self.troubles.reports_lost > self.now && is_hit(self.roll(index as u64, 10), 700_000);
        if !is_lost {
            let delay = self.hop(index as u64);
            self.after(delay, Event::Heard { told: index as u32, machine: machine as u8 });
        }
        if !is_direct {
            let wait = (2_000_000_u64 << tries.min(5)).min(30_000_000);
            self.after(wait, Event::Tell(index as u32));
        }
    }

    /// A report reaches a node.
    pub(super) fn heard(&mut self, index: usize, machine: usize) {
        let told = &self.told[index];
        let is_gone = told.is_direct && self.machines[machine].life != told.sender.life;
        if is_gone || !self.machines[machine].is_up() || self.defer(machine, Deferred::Heard(index)) {
            return;
        }
        let report = self.told[index].report.clone();
        self.say(|| {
            format!(
                "node {machine} hears {} of run {} attempt {}",
                report.outcome, report.run, report.attempt
            )
        });
        if let Some(log) = self.told[index].log {
            let (outcome, message) = (report.outcome, report.message);
            return self.call_back(machine, index, Callback { log, outcome, message });
        }
        let who = self.who(machine);
        self.checker.heard(who, report.run, report.attempt, self.now);
        if let Some(node) = &self.machines[machine].node {
            node.report(report);
        }
        self.wake(machine);
    }

    /// A node acknowledges reports.
    pub(super) fn acknowledge(&mut self, by: Who, receipts: Vec<Receipt>) {
        for receipt in receipts {
            let Some(told) = receipt.0.checked_sub(1).and_then(|index| self.told.get(index as usize)) else {
                continue;
            };
            let (run, attempt, outcome) = (told.report.run, told.report.attempt, told.report.outcome);
            let checked = self.checker.acknowledged(by, run, attempt, outcome);
            self.judge(checked);
            let is_lost = self.troubles.reports_lost > self.now && is_hit(self.roll(receipt.0, 12), 700_000);
            if !is_lost {
                let delay = self.hop(receipt.0);
                self.after(delay, Event::Acknowledged(receipt.0));
            }
        }
    }

    pub(super) fn acknowledged(&mut self, receipt: u64) {
        self.told[receipt as usize - 1].is_acknowledged = true;
    }

    // --- words between nodes ---

    pub(super) fn tell_node(&mut self, by: Who, to: NodeId, hint: Hint) {
        let Some(whom) = self.known.get(&to).copied() else { return };
        let number = self.hints.len() as u64;
        let is_trouble = self.troubles.hints > self.now;
        if is_trouble && is_hit(self.roll(number, 14), 600_000) {
            self.checker.counters.hint_lost += 1;
            let is_settled = matches!(hint, Hint::Settled(_)) && whom != by;
            self.checker.counters.settled_by_another_and_hint_lost += u64::from(is_settled);
            return;
        }
        let mut delay = self.hop(number);
        if is_trouble {
            delay = within(self.roll(number, 15), 100, 20_000_000);
        }
        self.hints.push((whom, hint));
        self.after(delay, Event::Hint(number as u32));
        if is_trouble && is_hit(self.roll(number, 16), 300_000) {
            self.after(delay * 2, Event::Hint(number as u32));
        }
    }

    pub(super) fn hinted(&mut self, index: usize) {
        let (whom, hint) = self.hints[index].clone();
        if self.machines[whom.node].life != whom.life || self.defer(whom.node, Deferred::Hint(index)) {
            return;
        }
        if let Some(node) = &self.machines[whom.node].node {
            node.hear(hint);
        }
        self.wake(whom.node);
    }
}
