//! How far a run has come: what decides whether an attempt may be sent or ended.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{Attempt, Fence, Hold, LogId, RunId, Text, Token};
use punctual_node::ports::{Gate, Gated};

use super::gate::GateVerdict;

/// Places of resources.
pub(crate) type HoldSlots = Vec<(Text, u32)>;

/// The line of runs that wait for a resource which takes turns. It is kept like a resource of its own: the slot of a run is
/// its place in the line, and the run leaves the line when it gives back what it has.
pub(crate) fn line_of(resource: &Text) -> Text {
    format!("{resource} line").into()
}

/// What a run finds at a resource.
pub(crate) struct Look {
    /// The place that it can have now.
    pub(crate) free: Option<u32>,
    /// The run that has a place, or comes first. Only of a resource that takes turns.
    pub(crate) before: Option<RunId>,
    /// The end of the line.
    pub(crate) next_in_line: u32,
}

/// A run that did not get all of its places.
pub(crate) struct Refusal {
    pub(crate) gated: Gated,
    /// The places in lines that it gets in their stead.
    pub(crate) lines: HoldSlots,
}

/// How far a run has come. A run that was only written has the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunProgress {
    pub(crate) is_closed: bool,
    pub(crate) wait: Option<WaitRow>,
    pub(crate) gates: BTreeMap<Attempt, GateOwner>,
    /// The resources that the run has a place of.
    pub(crate) holds: BTreeSet<Text>,
}

/// What a run waits for instead of its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitRow {
    /// None if the run is parked.
    pub(crate) ready_at: Option<Timestamp>,
    pub(crate) attempt: Attempt,
    pub(crate) is_called_back: bool,
}

/// The owner of the key (run, attempt).
#[derive(Clone, Copy, Debug)]
pub(crate) enum GateOwner {
    /// A send; without a number until it is written.
    Sent(Token, Option<LogId>),
    /// A settlement, which took the key so that no gate can have it.
    Unsent,
}

impl RunProgress {
    /// Whether an attempt after this one was gated or is waited for.
    fn is_beyond(&self, attempt: Attempt) -> bool {
        let gated = self.gates.last_key_value().map(|(last, _)| *last);
        gated.max(self.wait.map(|wait| wait.attempt)) > Some(attempt)
    }

    /// Whether the run has come as far as this attempt, which no gate has: nothing sends an attempt that the run does not
    /// wait for.
    fn reaches(&self, attempt: Attempt) -> bool {
        attempt <= self.wait.map_or(Attempt::FIRST, |wait| wait.attempt)
    }

    pub(crate) fn is_flying(&self) -> bool {
        !self.is_closed && !self.gates.is_empty()
    }

    /// Whether the end of an attempt may be written: the fence of a settlement.
    pub(crate) fn admits(&self, fence: Fence) -> bool {
        if self.is_closed || self.is_beyond(fence.attempt()) {
            return false;
        }
        match fence {
            Fence::Unsent(attempt) => !self.gates.contains_key(&attempt),
            Fence::Sent(attempt, token) => match self.gates.get(&attempt) {
                Some(GateOwner::Sent(owner, _)) => *owner == token,
                Some(GateOwner::Unsent) => false,
                None => self.reaches(attempt),
            },
        }
    }

    /// The verdict on a gate that exists already or cannot be written; none if only places can be missing.
    pub(crate) fn verdict(&self, gate: &Gate) -> Option<GateVerdict> {
        let known = |gated| Some(GateVerdict::Known(gated));
        // The key is asked before anything else, so a late sender learns which token was first.
        let owner = self.gates.get(&gate.attempt);
        match owner {
            Some(GateOwner::Unsent) => return known(Gated::Taken(None)),
            Some(GateOwner::Sent(token, _)) if *token != gate.token => {
                return known(Gated::Taken(Some(*token)));
            }
            _ => {}
        }
        if self.is_closed || self.is_beyond(gate.attempt) {
            return known(Gated::Closed);
        }
        match owner {
            Some(GateOwner::Sent(_, Some(log))) => known(Gated::Through(*log)),
            Some(GateOwner::Sent(_, None)) => Some(GateVerdict::Written(gate.run, gate.attempt)),
            _ => None,
        }
    }

    /// One free place of each resource that the run has no place of yet, or the first resource that has none for it.
    pub(crate) fn places<E>(
        &self,
        holds: &[Hold],
        mut look: impl FnMut(&Hold) -> Result<Look, E>,
    ) -> Result<Result<HoldSlots, Refusal>, E> {
        let (mut places, mut lines) = (HoldSlots::new(), HoldSlots::new());
        let mut refused: Option<Gated> = None;
        for hold in holds {
            let is_asked = |list: &HoldSlots, name: &Text| list.iter().any(|(resource, _)| resource == name);
            if is_asked(&places, &hold.resource) || self.holds.contains(&hold.resource) {
                continue;
            }
            let found = look(hold)?;
            let line = line_of(&hold.resource);
            if hold.takes_turns && !self.holds.contains(&line) && !is_asked(&lines, &line) {
                lines.push((line, found.next_in_line));
            }
            match found.free {
                Some(slot) => places.push((hold.resource.clone(), slot)),
                None => {
                    refused.get_or_insert_with(|| match found.before {
                        Some(run) => Gated::Behind(hold.resource.clone(), run),
                        None => Gated::Held(hold.resource.clone()),
                    });
                }
            }
        }
        Ok(match refused {
            Some(gated) => Err(Refusal { gated, lines }),
            None => Ok(places),
        })
    }
}

/// The lowest free one of so many slots. `taken` are the others, in order; they are read up to the first gap.
pub(crate) fn free_slot(slots: u32, taken: impl Iterator<Item = u32>) -> Option<u32> {
    let mut free = 0;
    for slot in taken {
        if slot != free {
            break;
        }
        free += 1;
    }
    (free < slots).then_some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_slot_that_is_not_taken_is_free() {
        for (slots, taken, free) in [
            (2, &[][..], Some(0)),
            (2, &[0], Some(1)),
            (2, &[1], Some(0)),
            (3, &[0, 2], Some(1)),
            (2, &[0, 1], None),
            // The limit was lowered meanwhile.
            (1, &[0, 5], None),
            (2, &[0, 5], Some(1)),
            (0, &[], None),
        ] {
            assert_eq!(free_slot(slots, taken.iter().copied()), free, "{slots} {taken:?}");
        }
    }
}
