//! Gates: the key (run, attempt), and the places that a send needs.

use punctual_core::model::{Hold, LogId, Text, Token};
use punctual_node::ports::{Gate, Gated};

use super::state::{GateKey, Run, Send, State};

impl State {
    pub(super) fn gate(&mut self, gate: Gate) -> Gated {
        let Some(run) = self.runs.get(&gate.run) else { return Gated::Closed };
        // The key is asked before anything else, so whoever comes late learns who was first.
        let key = run.gates.get(&gate.attempt).map(|key| meet(key, gate.token));
        if let Some(taken @ Gated::Taken(_)) = key {
            return taken;
        }
        if run.close.is_some() || run.is_beyond(gate.attempt) {
            return Gated::Closed;
        }
        if let Some(through) = key {
            return through;
        }
        let places = match self.places(run, &gate.holds) {
            Ok(places) => places,
            Err(resource) => return Gated::Held(resource),
        };
        self.holds.extend(places.iter().map(|place| (place.clone(), gate.run)));
        self.last_log += 1;
        let log = LogId(self.last_log);
        let send = Send { token: gate.token, log, sent_at: gate.sent_at, executor: gate.executor };
        self.edit_run(gate.run, |run| {
            run.holds.extend(places);
            // What it waited for has come.
            run.wait = None;
            run.gates.insert(gate.attempt, GateKey::Sent(send));
        });
        Gated::Through(log)
    }

    /// One free place of each resource that the run has no place of yet, or the first resource that has none.
    fn places(&self, run: &Run, holds: &[Hold]) -> Result<Vec<(Text, u32)>, Text> {
        let mut places: Vec<(Text, u32)> = Vec::new();
        for hold in holds {
            let is_same = |(resource, _): &(Text, u32)| *resource == hold.resource;
            if run.holds.iter().any(is_same) || places.iter().any(is_same) {
                continue;
            }
            let mut slots = (0..hold.slots).map(|slot| (hold.resource.clone(), slot));
            let free = slots.find(|place| !self.holds.contains_key(place));
            places.push(free.ok_or_else(|| hold.resource.clone())?);
        }
        Ok(places)
    }
}

/// What a send with this token meets at a key that somebody has.
fn meet(key: &GateKey, token: Token) -> Gated {
    match key {
        GateKey::Unsent => Gated::Taken(None),
        GateKey::Sent(send) if send.token == token => Gated::Through(send.log),
        GateKey::Sent(send) => Gated::Taken(Some(send.token)),
    }
}
