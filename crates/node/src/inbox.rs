//! The inbox: everything that executors, agents and other nodes say. Reports and hints are only noted, for the steps; answers
//! about executors change what is known of them at once.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{NodeId, RunId, ShardId};
use rustc_hash::FxHashSet;

use crate::Node;
use crate::entitled::Moment;
use crate::keep::ReportOrigin;
use crate::memory::Memory;
use crate::ports::{Boot, Heard, Hint, Killed, Probed, Progress, Report, SessionKey, Unclear};

/// A report in hand, and when it came: an attempt ended then, however long the store takes to hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) report: Report,
    /// None before the node has heard the cluster's time.
    pub(crate) at: Option<Timestamp>,
    pub(crate) origin: ReportOrigin,
}

impl Node {
    /// Takes a report. It is acknowledged through dispatch once it is kept.
    pub fn report(&self, report: Report) {
        let boot = self.boot();
        let mut memory = self.memory();
        let at = memory.time.now(boot);
        memory.receive(report, at);
    }

    /// Takes what dispatch heard.
    pub fn heard(&self, heard: Vec<Heard>) {
        let boot = self.boot();
        for one in heard {
            match one {
                Heard::Report(report) => self.report(report),
                Heard::Probed(probed) => self.probed(probed, boot),
                Heard::Killed(killed) => self.killed(killed),
                Heard::Unclear(unclear) => self.unclear(unclear),
                Heard::Credit { of, more } => self.memory().credit(&of, more),
                Heard::Borrow { of, runs } => self.lend(of, runs),
                Heard::Draining { of } => self.memory().native_drains(&of),
                Heard::Progress(progress) => self.progress(progress),
            }
        }
    }

    fn lend(&self, of: SessionKey, runs: u64) {
        let places = self.memory().executors.natives.lend(&of, runs);
        if places > 0 {
            self.ports.dispatch.lend(of, places);
        }
    }

    fn probed(&self, probed: Probed, boot: Boot) {
        let mut memory = self.memory();
        let Some(now) = memory.time.now(boot) else { return };
        match probed {
            Probed::Chosen { run, attempt, url, said } => {
                let is_same = memory.loaded.runs.get(&run).is_some_and(|kept| kept.attempt == attempt);
                if is_same && memory.loaded.seekers.is_asking(run) {
                    if url.is_none() {
                        memory.loaded.seekers.note_reason(run, said);
                    }
                    memory.choose(run, url, now, self.settings.registry.wait);
                }
            }
            Probed::Alive { app, url, is_there } => {
                let change = memory.executors.registry.probed(&app, &url, is_there, now);
                memory.note_changes(change.into_iter().collect(), now);
            }
            Probed::Has { job, app, url, has } => {
                let lost = memory.hear_answer(job, &SessionKey { app, url }, has, now, self.patience());
                lost.into_iter().for_each(|(id, reason)| memory.take_for_lost(id, reason, now));
            }
        }
    }

    fn unclear(&self, Unclear { run, attempt, said }: Unclear) {
        let mut memory = self.memory();
        if let Some(flight) =
            memory.in_flight.flights.get_mut(&run).filter(|flight| flight.attempt == attempt)
        {
            flight.unclear = Some(said);
        }
    }

    fn progress(&self, Progress { run, attempt, percent, note }: Progress) {
        let mut memory = self.memory();
        let is_out = memory.in_flight.flights.get(&run).is_some_and(|flight| flight.attempt == attempt);
        let known = memory.loaded.runs.get(&run).filter(|_| is_out).map(|known| known.job);
        if let Some(job) = known {
            memory.outbox.events.push(Event::Progress { run, job, attempt, percent, note });
        }
    }

    fn killed(&self, killed: Killed) {
        let Killed { run, attempt, is_confirmed, said } = killed;
        self.memory().outbox.events.push(Event::KillAnswered { run, attempt, is_confirmed, said });
    }

    /// Takes a hint. What it says is not believed, only looked up.
    pub fn hear(&self, hint: Hint) {
        let boot = self.boot();
        let mut memory = self.memory();
        match hint {
            Hint::Carry { url, to } => {
                // Only to a node that the store knows: what is carried there is confidential.
                let asker = memory.cluster.nodes.iter().find(|row| row.node == to && !row.address.is_empty());
                let address = asker.map(|row| row.address.clone());
                let reached = memory.executors.natives.reached_at(&url);
                drop(memory);
                if let Some(address) = address {
                    reached.into_iter().for_each(|of| self.ports.dispatch.carry(of, address.clone()));
                }
            }
            Hint::Arrived(shard) => {
                memory.inbox.has_arrivals = true;
                memory.outbox.wakes.tend = true;
                let whom = memory.whom_it_went_to(shard, boot, self.settings.renew_every * 2);
                drop(memory);
                if let Some(node) = whom {
                    self.ports.peers.tell(node, Hint::Arrived(shard));
                }
            }
            Hint::Settled(run) => {
                memory.inbox.heard_of.push(run);
                memory.outbox.wakes.tend = true;
            }
            Hint::Changed(_, job) => {
                memory.note_change(job);
                memory.outbox.wakes.renew = true;
            }
            Hint::Vacated => memory.outbox.wakes.renew = true,
            Hint::Missing(url) => {
                if !memory.executors.natives.reached_at(&url).is_empty() {
                    memory.agenda.beaten_at = None;
                    memory.outbox.wakes.watch = true;
                }
            }
            Hint::Drained(node) => memory.cluster.note_drained(node, boot),
            Hint::Resume => {
                drop(memory);
                self.come_back();
            }
            Hint::Drain => {
                memory.cluster.wants_to_leave = true;
                memory.outbox.wakes.renew = true;
            }
        }
    }
}

impl Memory {
    /// The node that takes a shard which this one has just given away: another node goes on telling this one until its next
    /// renewal is answered, which `span` has to cover.
    fn whom_it_went_to(&self, shard: ShardId, boot: Boot, span: Duration) -> Option<NodeId> {
        let gave_back = self.cluster.gave_back_at.is_some_and(|at| boot.since(at) < span);
        if gave_back && self.lease(shard).is_none() { self.whom_to_tell(shard) } else { None }
    }

    pub(crate) fn receive(&mut self, report: Report, at: Option<Timestamp>) {
        self.receive_from(ReportOrigin::Dispatch(report.receipt), report, at);
    }

    pub(crate) fn receive_from(&mut self, origin: ReportOrigin, report: Report, at: Option<Timestamp>) {
        // Only the answer to an HTTP call comes over no session.
        let flight =
            self.in_flight.flights.get_mut(&report.run).filter(|flight| flight.attempt == report.attempt);
        if let Some(flight) = flight.filter(|_| report.app.is_none()) {
            flight.is_answered = true;
        }
        self.queue_report(Received { report, at, origin });
        self.outbox.wakes.settle = true;
    }

    /// Runs about which a report is in hand whose sender may report them. Silence does not count against them.
    pub(crate) fn reported(&self, at: Moment) -> FxHashSet<RunId> {
        let reports = self.inbox.reports.iter().map(|received| &received.report);
        let waiting = reports.filter(|report| self.may_be_settled(report, at)).map(|report| report.run);
        waiting.chain(self.inbox.settling.iter().copied()).collect()
    }
}
