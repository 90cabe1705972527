//! Where a run goes that is for executors: one is chosen, or asked for, or all of them get a part, or it waits.

use std::sync::Arc;

use punctual_core::model::{Executor, Job, Origin, RunId, directed};
use punctual_core::policy::route::{Choice, retry_part};

use super::Turn;
use crate::memory::Run;
use crate::ports::{Address, Asked, Probe};

impl Turn<'_> {
    /// Finds an executor for a run that may start.
    pub(super) fn seek(&mut self, id: RunId, run: &Run, job: &Arc<Job>, executor: &Executor) {
        // After a gate of unknown fate only the same executor may be meant; and what was asked for is taken.
        if self.memory.chosen.contains_key(&id) {
            return self.draft_gate(id, run, job);
        }
        let there = self.memory.executors_of(&job.definition.app);
        if run.origin == Origin::Part {
            return self.seek_for_part(id, run, job, &there);
        }
        if let Some(only) = self.payloads.get(&id).and_then(|kept| directed(kept).0) {
            return self.seek_only(id, run, job, &there, only);
        }
        let urls: Vec<&str> = there.iter().map(|address| &*address.url).collect();
        // Spread over the 64 bits, so that runs of one turn do not follow each other.
        let bits = self.bits ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.memory.routes.choose(executor.route, job.id, &urls, bits, self.now) {
            Choice::At(index) => self.go_to(id, run, job, Arc::clone(&there[index])),
            Choice::AskBeat => self.ask_executors(id, run, job, &there, Asked::Beat),
            Choice::AskIdle => self.ask_executors(id, run, job, &there, Asked::Idle),
            Choice::All => self.draft_split(id, run, job, &there),
            Choice::Nobody => self.strand(id, job),
        }
    }

    /// Somebody named the executor: it goes there or nowhere.
    fn seek_only(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>], only: &str) {
        let is_meant = |address: &&Arc<Address>| is_same_place(&address.url, only);
        match there.iter().find(is_meant) {
            Some(address) => self.go_to(id, run, job, Arc::clone(address)),
            None => {
                let reason = format!("{only}, which it was started for, is not there");
                self.memory.seekers.note_reason(id, reason.into());
                self.strand(id, job);
            }
        }
    }

    /// A part goes to the executor it was made for; if that is gone, to another that stands in with the same index.
    fn seek_for_part(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Arc<Address>]) {
        let Some(part) = self.memory.parts.get(id).map(|known| known.part.clone()) else {
            // It is looked up before the next round.
            return self.memory.make_ready(id);
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
        self.memory.chosen.insert(id, address);
        self.draft_gate(id, run, job);
    }

    fn ask_executors(&mut self, id: RunId, run: &Run, job: &Job, there: &[Arc<Address>], by: Asked) {
        let app = job.definition.app.clone().into();
        self.memory.seek(id, app, true, self.now, self.settings.registry.wait);
        let (attempt, addresses) = (run.attempt, listed(there));
        self.decision.probes.push(Probe::Choose { run: id, attempt, job: job.id, by, addresses });
    }

    /// There is nobody: it waits for somebody to come.
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
