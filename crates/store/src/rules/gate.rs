//! Gates: the key (run, attempt), and the places that a send needs.

use std::collections::BTreeMap;
use std::convert::Infallible;

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text};
use punctual_node::ports::{Gate, Gated};

use super::run_progress::{GateOwner, HoldSlots, free_slot};
use super::unit_of_work::UnitOfWork;

/// What was decided about a gate, before its number is known.
#[derive(Debug)]
pub(crate) enum GateVerdict {
    Known(Gated),
    /// Through, with the number that this key is written with.
    Written(RunId, Attempt),
}

impl GateVerdict {
    /// The answer, with the numbers that the gates were written with.
    pub(crate) fn answer(self, logs: &BTreeMap<(RunId, Attempt), LogId>) -> Gated {
        match self {
            GateVerdict::Known(gated) => gated,
            GateVerdict::Written(run, attempt) => {
                logs.get(&(run, attempt)).map_or(Gated::Closed, |log| Gated::Through(*log))
            }
        }
    }
}

impl<'v> UnitOfWork<'v> {
    pub(crate) fn gate(&mut self, gate: &'v Gate) -> GateVerdict {
        match self.meet(gate) {
            Ok(places) => self.write_gate(gate, places),
            Err(verdict) => verdict,
        }
    }

    /// The places for a gate that can be written, or the verdict on one that cannot, or exists already.
    pub(super) fn meet(&self, gate: &Gate) -> Result<HoldSlots, GateVerdict> {
        let known = |gated| GateVerdict::Known(gated);
        let run = self.runs.get(&gate.run).ok_or_else(|| known(Gated::Closed))?;
        if let Some(verdict) = run.progress.verdict(gate) {
            return Err(verdict);
        }
        let free = |hold: &Hold| -> Result<Option<u32>, Infallible> {
            Ok(free_slot(hold.slots, self.taken(&hold.resource)))
        };
        let Ok(places) = run.progress.places(&gate.holds, free);
        places.map_err(|resource| known(Gated::Held(resource)))
    }

    /// The slots of a resource that are taken, in order.
    fn taken(&self, resource: &Text) -> impl Iterator<Item = u32> {
        let slots = self.holds.range((resource.clone(), 0)..=(resource.clone(), u32::MAX));
        slots.map(|((_, slot), _)| *slot)
    }

    pub(super) fn write_gate(&mut self, gate: &'v Gate, places: HoldSlots) -> GateVerdict {
        for (resource, slot) in &places {
            self.holds.insert((resource.clone(), *slot), gate.run);
            self.writes.holds.push((resource.clone(), *slot, gate.run));
        }
        self.edit(gate.run, |progress| {
            progress.holds.extend(places.into_iter().map(|(resource, _)| resource));
            // What the run waited for has come.
            progress.wait = None;
            progress.gates.insert(gate.attempt, GateOwner::Sent(gate.token, None));
        });
        self.writes.sends.push(gate);
        GateVerdict::Written(gate.run, gate.attempt)
    }
}
