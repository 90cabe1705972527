//! The inbox: reports from executors and hints from other nodes. Nothing is done here; steps look into it.

use calendar::Timestamp;
use punctual_core::model::RunId;
use rustc_hash::FxHashSet;

use crate::Node;
use crate::memory::Memory;
use crate::ports::{Hint, Report};

/// A report in hand, and when it came: an attempt ended then, however long the store takes to hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) report: Report,
    /// None before the node has heard the cluster's time.
    pub(crate) at: Option<Timestamp>,
}

impl Node {
    /// Takes a report. It is acknowledged through dispatch once it is kept.
    pub fn report(&self, report: Report) {
        let boot = self.boot();
        let mut memory = self.memory();
        let at = memory.time.now(boot);
        memory.receive(report, at);
    }

    /// Takes a hint. What it says is not believed, only looked up.
    pub fn hear(&self, hint: Hint) {
        let mut memory = self.memory();
        match hint {
            Hint::Carry { url, to } => {
                // Only to whoever the store knows as a node: what goes there is not for everybody's eyes.
                let asker = memory.nodes.iter().find(|row| row.node == to && !row.address.is_empty());
                let address = asker.map(|row| row.address.clone());
                let reached = memory.natives.reached_at(&url);
                drop(memory);
                if let Some(address) = address {
                    reached.into_iter().for_each(|of| self.ports.dispatch.carry(of, address.clone()));
                }
            }
            Hint::Arrived(_) => {
                memory.has_arrivals = true;
                memory.wakes.tend = true;
            }
            Hint::Settled(run) => {
                memory.heard_of.push(run);
                memory.wakes.tend = true;
            }
            Hint::Changed(_, job) => {
                memory.note_change(job);
                memory.wakes.renew = true;
            }
            Hint::Vacated => memory.wakes.renew = true,
            Hint::Missing(url) => {
                if !memory.natives.reached_at(&url).is_empty() {
                    memory.beaten_at = None;
                    memory.wakes.watch = true;
                }
            }
            Hint::Drain => {
                memory.wants_to_leave = true;
                memory.wakes.renew = true;
            }
        }
    }
}

impl Memory {
    pub(crate) fn receive(&mut self, report: Report, at: Option<Timestamp>) {
        // Only the answer to an HTTP call comes over no session.
        let flight = self.flights.get_mut(&report.run).filter(|flight| flight.attempt == report.attempt);
        if let Some(flight) = flight.filter(|_| report.app.is_none()) {
            flight.is_answered = true;
        }
        self.inbox.push_back(Received { report, at });
        self.wakes.settle = true;
    }

    /// Runs about which a report is in hand. Silence does not count against them.
    pub(crate) fn reported(&self) -> FxHashSet<RunId> {
        let waiting = self.inbox.iter().map(|received| received.report.run);
        waiting.chain(self.settling.iter().copied()).collect()
    }
}
