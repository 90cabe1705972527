//! Gates: the key (run, attempt), and the places that a send needs.

use std::collections::BTreeMap;
use std::convert::Infallible;

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text};
use punctual_node::ports::{Gate, Gated};

use super::run_progress::{GateOwner, HoldSlots, Look, Refusal, free_slot, line_of};
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

    /// The places for a gate that can be written, or the verdict on one that cannot, or exists already. A run that does not
    /// get all places is put into the lines.
    pub(super) fn meet(&mut self, gate: &Gate) -> Result<HoldSlots, GateVerdict> {
        let known = |gated| GateVerdict::Known(gated);
        let run = self.runs.get(&gate.run).ok_or_else(|| known(Gated::Closed))?;
        if let Some(verdict) = run.progress.verdict(gate) {
            return Err(verdict);
        }
        let look = |hold: &Hold| -> Result<Look, Infallible> { Ok(self.look(hold, gate.run)) };
        let Ok(places) = run.progress.places(&gate.holds, look);
        places.map_err(|Refusal { gated, lines }| {
            self.take_places(gate.run, &lines);
            known(gated)
        })
    }

    /// What a run finds at a resource.
    fn look(&self, hold: &Hold, id: RunId) -> Look {
        let mut holders = self.slots(&hold.resource);
        let free = free_slot(hold.slots, self.slots(&hold.resource).map(|(slot, _)| slot));
        if !hold.takes_turns {
            return Look { free, before: None, next_in_line: 0 };
        }
        let line = line_of(&hold.resource);
        let has_place = |run: RunId| self.slots(&hold.resource).any(|(_, holder)| holder == run);
        let ahead = self.slots(&line).map(|(_, run)| run).take_while(|run| *run != id);
        let first = ahead.into_iter().find(|run| !has_place(*run));
        Look {
            free: free.filter(|_| first.is_none()),
            before: first.or_else(|| holders.next().map(|(_, run)| run)),
            next_in_line: self.slots(&line).next_back().map_or(0, |(slot, _)| slot + 1),
        }
    }

    /// The slots of a resource that are taken, in order, and the runs that have them.
    fn slots(&self, resource: &Text) -> impl DoubleEndedIterator<Item = (u32, RunId)> {
        let slots = self.holds.range((resource.clone(), 0)..=(resource.clone(), u32::MAX));
        slots.map(|((_, slot), run)| (*slot, *run))
    }

    fn take_places(&mut self, id: RunId, places: &HoldSlots) {
        if places.is_empty() {
            return;
        }
        for (resource, slot) in places {
            self.holds.insert((resource.clone(), *slot), id);
            self.writes.holds.push((resource.clone(), *slot, id));
        }
        let resources = places.iter().map(|(resource, _)| resource.clone());
        self.edit(id, |progress| progress.holds.extend(resources));
    }

    pub(super) fn write_gate(&mut self, gate: &'v Gate, places: HoldSlots) -> GateVerdict {
        self.take_places(gate.run, &places);
        self.edit(gate.run, |progress| {
            // What the run waited for has come.
            progress.wait = None;
            progress.gates.insert(gate.attempt, GateOwner::Sent(gate.token, None));
        });
        self.writes.sends.push(gate);
        GateVerdict::Written(gate.run, gate.attempt)
    }
}
