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
    pub(super) fn meet(&mut self, gate: &Gate) -> Result<HoldSlots, Gated> {
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
        let places = self.places(run, &gate.holds);
        if places.is_err() {
            self.queue_up(gate);
        }
        places
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

    /// One free place of each resource that the run has no place of yet, or the first resource that has none for it.
    fn places(&self, run: &StoredRun, holds: &[Hold]) -> Result<HoldSlots, Gated> {
        let mut places = HoldSlots::new();
        for hold in holds {
            let is_same = |(resource, _): &(Text, u32)| *resource == hold.resource;
            if run.holds.iter().any(is_same) || places.iter().any(is_same) {
                continue;
            }
            let mut slots = (0..hold.slots).map(|slot| (hold.resource.clone(), slot));
            let free = slots.find(|place| !self.holds.contains_key(place));
            match (free, self.comes_before(run, hold)) {
                (Some(free), None) => places.push(free),
                (_, Some(other)) => return Err(Gated::Behind(hold.resource.clone(), other)),
                (None, None) => return Err(Gated::Held(hold.resource.clone())),
            }
        }
        Ok(places)
    }

    /// The run that this one is behind at a resource which takes turns: one that asked earlier and still waits, or else
    /// one that has a place where none is free.
    fn comes_before(&self, run: &StoredRun, hold: &Hold) -> Option<RunId> {
        if !hold.takes_turns {
            return None;
        }
        let has = |other: RunId| self.holds.iter().any(|((of, _), by)| *of == hold.resource && *by == other);
        let line = self.lines.get(&hold.resource).into_iter().flatten();
        let earlier = line.map(|(_, other)| *other).take_while(|other| *other != run.new.id);
        let first = earlier.into_iter().find(|other| !has(*other));
        let taken = || self.holds.iter().filter(|((of, slot), _)| *of == hold.resource && *slot < hold.slots);
        let is_full = taken().count() >= hold.slots as usize;
        let any = || self.holds.iter().find(|((of, _), _)| *of == hold.resource).map(|(_, by)| *by);
        first.or_else(|| if is_full { any() } else { None })
    }

    /// A run that did not get its places waits in the line of each resource that takes turns and that it has no place of.
    fn queue_up(&mut self, gate: &Gate) {
        let Some(run) = self.runs.get(&gate.run) else { return };
        let is_new = |hold: &&Hold| {
            hold.takes_turns && !run.holds.iter().any(|(resource, _)| *resource == hold.resource)
        };
        let resources: Vec<Text> =
            gate.holds.iter().filter(is_new).map(|hold| hold.resource.clone()).collect();
        for resource in resources {
            let line = self.lines.entry(resource).or_default();
            if line.iter().all(|(_, waits)| *waits != gate.run) {
                let next = line.last().map_or(0, |(number, _)| number + 1);
                line.push((next, gate.run));
            }
        }
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
