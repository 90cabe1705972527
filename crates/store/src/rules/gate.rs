//! Gates: the key (run, attempt), and the places that a send needs.

use std::collections::BTreeMap;

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text};
use punctual_node::ports::{Gate, Gated};

use super::unit_of_work::{GateOwner, LockedRun, UnitOfWork};

/// Places of resources.
pub(super) type Places = Vec<(Text, u32)>;

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
    pub(super) fn meet(&self, gate: &Gate) -> Result<Places, GateVerdict> {
        let known = |gated| Err(GateVerdict::Known(gated));
        let Some(run) = self.runs.get(&gate.run) else { return known(Gated::Closed) };
        // The key is asked before anything else, so a late sender learns which token was first.
        let owner = run.gates.get(&gate.attempt);
        match owner {
            Some(GateOwner::Unsent) => return known(Gated::Taken(None)),
            Some(GateOwner::Sent(token, _)) if *token != gate.token => {
                return known(Gated::Taken(Some(*token)));
            }
            _ => {}
        }
        if run.is_closed || run.is_beyond(gate.attempt) {
            return known(Gated::Closed);
        }
        match owner {
            Some(GateOwner::Sent(_, Some(log))) => known(Gated::Through(*log)),
            Some(GateOwner::Sent(_, None)) => Err(GateVerdict::Written(gate.run, gate.attempt)),
            _ => self.places(run, &gate.holds).or_else(|resource| known(Gated::Held(resource))),
        }
    }

    pub(super) fn write_gate(&mut self, gate: &'v Gate, places: Places) -> GateVerdict {
        for (resource, slot) in &places {
            self.holds.insert((resource.clone(), *slot), gate.run);
            self.writes.holds.push((resource.clone(), *slot, gate.run));
        }
        self.edit(gate.run, |run| {
            run.holds.extend(places.into_iter().map(|(resource, _)| resource));
            // What it waited for has come.
            run.wait = None;
            run.gates.insert(gate.attempt, GateOwner::Sent(gate.token, None));
        });
        self.writes.sends.push(gate);
        GateVerdict::Written(gate.run, gate.attempt)
    }

    /// One free place of each resource that the run has no place of yet, or the first resource that has none.
    fn places(&self, run: &LockedRun, holds: &[Hold]) -> Result<Places, Text> {
        let mut places = Places::new();
        for hold in holds {
            let is_taken = places.iter().any(|(resource, _)| *resource == hold.resource);
            if is_taken || run.holds.contains(&hold.resource) {
                continue;
            }
            let mut slots = (0..hold.slots).map(|slot| (hold.resource.clone(), slot));
            let free = slots.find(|place| !self.holds.contains_key(place));
            places.push(free.ok_or_else(|| hold.resource.clone())?);
        }
        Ok(places)
    }
}
