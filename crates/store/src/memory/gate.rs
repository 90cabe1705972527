//! Gates: the key (run, attempt), and the places that a send needs.

use punctual_core::model::{Attempt, Hold, LogId, RunId, Text, Token};
use punctual_node::ports::{Gate, Gated, SentRow};

use super::state::{GateKey, Send, State, StoredRun};

/// Places of resources.
type HoldSlots = Vec<(Text, u32)>;

impl State {
    pub(super) fn gate(&mut self, gate: Gate) -> Gated {
        match self.meet(&gate) {
            Ok(places) => Gated::Through(self.write_gate(gate, places)),
            Err(said) => said,
        }
    }

    /// The places for a gate that can be written, or what is said of one that cannot, or is there already.
    pub(super) fn meet(&self, gate: &Gate) -> Result<HoldSlots, Gated> {
        let Some(run) = self.runs.get(&gate.run) else { return Err(Gated::Closed) };
        // The key is asked before anything else, so a late sender learns which was first.
        let key = run.gates.get(&gate.attempt).map(|key| meet(key, gate.token));
        if let Some(taken @ Gated::Taken(_)) = key {
            return Err(taken);
        }
        if run.close.is_some() || run.is_beyond(gate.attempt) {
            return Err(Gated::Closed);
        }
        if let Some(through) = key {
            return Err(through);
        }
        self.places(run, &gate.holds).map_err(Gated::Held)
    }

    pub(super) fn write_gate(&mut self, gate: Gate, places: HoldSlots) -> LogId {
        self.holds.extend(places.iter().map(|place| (place.clone(), gate.run)));
        self.last_log += 1;
        let log = LogId(self.last_log);
        self.logs.insert(log, (gate.run, gate.attempt));
        let send = Send { token: gate.token, log, sent_at: gate.sent_at, executor: gate.executor };
        self.edit_run(gate.run, |run| {
            run.holds.extend(places);
            // What it waited for has come.
            run.wait = None;
            run.gates.insert(gate.attempt, GateKey::Sent(send));
        });
        log
    }

    pub(super) fn sent_row(&self, log: LogId) -> Option<SentRow> {
        let (run, attempt) = *self.logs.get(&log)?;
        sent_row(self.runs.get(&run)?, attempt)
    }

    pub(super) fn sends(&self, run: RunId) -> Vec<SentRow> {
        let Some(run) = self.runs.get(&run) else { return Vec::new() };
        run.gates.keys().filter_map(|attempt| sent_row(run, *attempt)).collect()
    }

    /// One free place of each resource that the run has no place of yet, or the first resource that has none.
    fn places(&self, run: &StoredRun, holds: &[Hold]) -> Result<HoldSlots, Text> {
        let mut places = HoldSlots::new();
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

fn sent_row(run: &StoredRun, attempt: Attempt) -> Option<SentRow> {
    let GateKey::Sent(send) = run.gates.get(&attempt)? else { return None };
    Some(SentRow {
        log: send.log,
        run: run.new.id,
        job: run.new.job,
        attempt,
        token: send.token,
        sent_at: send.sent_at,
        executor: send.executor.clone(),
    })
}

/// What a send with this token meets at a key that is taken.
fn meet(key: &GateKey, token: Token) -> Gated {
    match key {
        GateKey::Unsent => Gated::Taken(None),
        GateKey::Sent(send) if send.token == token => Gated::Through(send.log),
        GateKey::Sent(send) => Gated::Taken(Some(send.token)),
    }
}
