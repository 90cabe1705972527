//! The inbox: reports from executors and hints from other nodes. Nothing is done here; steps look into it.

use crate::Node;
use crate::ports::{Hint, Report};

impl Node {
    /// Takes a report. It is acknowledged through dispatch once it is kept.
    pub fn report(&self, report: Report) {
        let mut memory = self.memory();
        memory.inbox.push_back(report);
        memory.wakes.settle = true;
    }

    /// Takes a hint. What it says is not believed, only looked up.
    pub fn hear(&self, hint: Hint) {
        let mut memory = self.memory();
        match hint {
            Hint::Carry { url, to } => {
                // Only to whoever the store knows as a node: what goes there is not for everybody's eyes.
                let asker = memory.nodes.iter().find(|row| row.node == to && !row.address.is_empty());
                let address = asker.map(|row| row.address.clone());
                if let Some(address) = address.filter(|_| memory.natives.is_reached(&url)) {
                    drop(memory);
                    self.ports.dispatch.carry(url, address);
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
                if memory.natives.is_reached(&url) {
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
