//! Where a run for executors goes: one is chosen, or found by asking, or each gets a part, or the run waits.

use std::sync::Arc;

use punctual_core::model::{Executor, Job, Origin, RunId, Text};
use punctual_core::policy::route::{Choice, retry_part};
use punctual_core::registry::Dialect;

use super::Turn;
use crate::memory::{Run, RunLocation};
use crate::ports::{Address, Asked, Probe};

impl Turn<'_> {
    /// Finds an executor for a run that may start.
    pub(super) fn seek(&mut self, id: RunId, run: &Run, job: &Arc<Job>, executor: &Executor) {
        // After a gate of unknown fate only the same executor may be meant; and what was asked for is taken.
        if self.memory.loaded.chosen.contains_key(&id) {
            return self.go_through(id, run, job);
        }
        let crew = self.memory.executors_of(&job.definition.app);
        let there = self.memory.offering(&crew, &executor.handler);
        if there.is_empty() && !crew.is_empty() {
            let reason = format!("nobody who has a session here offers the handler {}", executor.handler);
            self.memory.loaded.seekers.note_reason(id, reason.into());
        }
        if run.origin == Origin::Part {
            return self.seek_for_part(id, run, job, &there);
        }
        if let Some(only) = self.memory.loaded.overrides_of(id).executor.clone() {
            return self.seek_only(id, run, job, &there, &only);
        }
        let urls: Vec<&str> = there.iter().map(|address| &*address.url).collect();
        // Spread over the 64 bits, so that runs of one turn do not follow each other.
        let bits = self.bits ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.memory.executors.routes.choose(executor.route, job.id, &urls, bits, self.now) {
            Choice::At(index) if executor.route.is_bound() => {
                self.go_to(id, run, job, Arc::clone(&there[index]));
            }
            Choice::At(index) => self.go_near(id, run, job, &there, index),
            Choice::AskBeat => self.ask_others(id, run, job, &there, Asked::Beat),
            Choice::AskIdle => self.ask_others(id, run, job, &there, Asked::Idle),
            Choice::All => self.draft_split(id, run, job, &there),
            Choice::Nobody => self.strand(id, job),
        }
    }

    /// To the executor that was chosen, or to the next that takes more.
    fn go_near(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>], index: usize) {
        let from_there = there[index..].iter().chain(&there[..index]);
        let free = from_there.into_iter().find(|address| self.memory.executors.natives.has_room(address));
        match free {
            Some(address) => self.go_to(id, run, job, Arc::clone(address)),
            None => self.stall(id, job, None),
        }
    }

    /// Of executors with a session it is known whether they are there and free; the others are asked.
    fn ask_others(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>], by: Asked) {
        let is_native = |address: &&Arc<Address>| address.dialect == Dialect::Native;
        let free =
            there.iter().filter(is_native).find(|address| self.memory.executors.natives.has_room(address));
        let others: Vec<Arc<Address>> = there.iter().filter(|at| !is_native(at)).cloned().collect();
        match free {
            Some(address) => self.go_to(id, run, job, Arc::clone(address)),
            None if others.is_empty() => self.stall(id, job, None),
            None => self.ask_executors(id, run, job, &others, by),
        }
    }

    /// An executor is there, but takes nothing more for now.
    fn stall(&mut self, id: RunId, job: &Job, only: Option<Text>) {
        let handler = job.executor().map(|executor| executor.handler.clone()).unwrap_or_default();
        self.memory.stall(id, job.definition.app.clone().into(), handler.into(), only);
    }

    /// The caller named the executor: the run goes there or nowhere.
    fn seek_only(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>], only: &str) {
        let is_meant = |address: &&Arc<Address>| is_same_place(&address.url, only);
        match there.iter().find(is_meant) {
            Some(address) => self.go_to(id, run, job, Arc::clone(address)),
            None => {
                let reason = format!("{only}, which it was started for, is not there");
                self.memory.loaded.seekers.note_reason(id, reason.into());
                self.strand(id, job);
            }
        }
    }

    /// A part goes to the executor it was made for; if that is gone, to another that stands in with the same index.
    fn seek_for_part(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>]) {
        let Some(part) = self.memory.loaded.parts.get(id).map(|known| known.part.clone()) else {
            // It is looked up before the next round.
            return self.memory.move_to(id, RunLocation::Ready);
        };
        if let Some(address) = there.iter().find(|address| address.url == part.address) {
            return self.go_to(id, run, job, Arc::clone(address));
        }
        match retry_part(part.index as usize, there.len()) {
            Choice::At(index) => self.go_to(id, run, job, Arc::clone(&there[index])),
            _ => self.strand(id, job),
        }
    }

    fn go_to(&mut self, id: RunId, run: &Run, job: &Arc<Job>, address: Arc<Address>) {
        if !self.memory.executors.natives.has_room(&address) {
            return self.stall(id, job, Some(address.url.clone()));
        }
        self.memory.choose_for(id, address);
        self.go_through(id, run, job);
    }

    /// On to the gate, or past it: an executor with a session lists the attempts that it has, so nothing needs to be
    /// written before.
    fn go_through(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        let is_native = self.memory.loaded.chosen.get(&id).is_some_and(|at| at.dialect == Dialect::Native);
        let is_alone =
            run.origin != Origin::Part && !run.flags.may_be_gated && !self.memory.must_be_gated(id, job);
        if is_native && is_alone {
            self.send_ungated(id, run, job);
        } else {
            self.draft_gate(id, run, job);
        }
    }

    fn ask_executors(&mut self, id: RunId, run: &Run, job: &Job, there: &[Arc<Address>], by: Asked) {
        let app = job.definition.app.clone().into();
        self.memory.seek(id, app, true, self.now, self.settings.registry.wait);
        let (attempt, addresses) = (run.attempt, listed(there));
        self.decision.probes.push(Probe::Choose { run: id, attempt, job: job.id, by, addresses });
    }

    /// No executor is there: the run waits for one to come.
    fn strand(&mut self, id: RunId, job: &Job) {
        let app = job.definition.app.clone().into();
        self.memory.seek(id, app, false, self.now, self.settings.registry.wait);
    }

    fn draft_split(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>]) {
        if let Some(gate) = self.gate_for(id, run, job) {
            self.decision.splits.push((gate, listed(there)));
        }
    }
}

fn listed(there: &[Arc<Address>]) -> Vec<Address> {
    there.iter().map(|address| (**address).clone()).collect()
}

/// Some executors end their address with a slash, and people leave it out.
fn is_same_place(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
