//! Where a run goes that is for executors: one is chosen, or asked for, or all of them get a part, or it waits.

use std::sync::Arc;

use punctual_core::model::{Executor, Job, Origin, RunId};
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
        let urls: Vec<&str> = there.iter().map(|address| &*address.url).collect();
        // Spread over the 64 bits, so that runs of one turn do not follow each other.
        let bits = self.bits ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self.memory.routes.choose(executor.route, job.id, &urls, bits, self.now) {
            Choice::At(index) => self.go_to(id, run, job, there[index].clone()),
            Choice::AskBeat => self.ask_executors(id, run, job, there, Asked::Beat),
            Choice::AskIdle => self.ask_executors(id, run, job, there, Asked::Idle),
            Choice::All => self.draft_split(id, run, job, there),
            Choice::Nobody => self.strand(id, job),
        }
    }

    /// A part goes to the executor it was made for; if that is gone, to another that stands in with the same index.
    fn seek_for_part(&mut self, id: RunId, run: &Run, job: &Arc<Job>, there: &[Address]) {
        let Some(part) = self.memory.parts.get(id).map(|known| known.part.clone()) else {
            // It is looked up before the next round.
            return self.memory.make_ready(id);
        };
        if let Some(address) = there.iter().find(|address| address.url == part.address) {
            return self.go_to(id, run, job, address.clone());
        }
        match retry_part(part.index as usize, there.len()) {
            Choice::At(index) => self.go_to(id, run, job, there[index].clone()),
            _ => self.strand(id, job),
        }
    }

    fn go_to(&mut self, id: RunId, run: &Run, job: &Arc<Job>, address: Address) {
        self.memory.chosen.insert(id, Arc::new(address));
        self.draft_gate(id, run, job);
    }

    fn ask_executors(&mut self, id: RunId, run: &Run, job: &Job, addresses: Vec<Address>, by: Asked) {
        let app = job.definition.app.clone().into();
        self.memory.seek(id, app, true, self.now, self.settings.registry.wait);
        let attempt = run.attempt;
        self.decision.probes.push(Probe::Choose { run: id, attempt, job: job.id, by, addresses });
    }

    /// There is nobody: it waits for somebody to come.
    fn strand(&mut self, id: RunId, job: &Job) {
        let app = job.definition.app.clone().into();
        self.memory.seek(id, app, false, self.now, self.settings.registry.wait);
    }

    fn draft_split(&mut self, id: RunId, run: &Run, job: &Arc<Job>, addresses: Vec<Address>) {
        if let Some(gate) = self.gate_for(id, run, job) {
            self.decision.splits.push((gate, addresses));
        }
    }
}
