//! Firing: what is due leaves the wheel, is asked for, admitted, written down where it must be, and sent.
//!
//! The order of effects: what is skipped or put off is written; what needs a gate is gated, then looked at once more;
//! only then memory says "on its way", and dispatch gets it.

mod decide;
mod gate;
mod pick;

pub(crate) use decide::may_have_been_sent;

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::model::{JobId, PAYLOAD_MAX, Payload, RunId, StoppedReason, Text};

use crate::Node;
use crate::memory::Memory;
use crate::ports::{Boot, Dispatched, Gate, Kill, StoreError};
use crate::settings::Settings;
use crate::step::Ended;

/// What was decided about the runs in hand.
#[derive(Default)]
struct Decision {
    sends: Vec<Dispatched>,
    ends: Vec<Ended>,
    gates: Vec<Gate>,
    kills: Vec<Kill>,
    /// Jobs whose rows hold what cannot be sent, and why.
    poisoned: Vec<(JobId, Text)>,
}

/// One look at memory: everything in it is decided at the same moment, under the lock.
struct Turn<'a> {
    memory: &'a mut Memory,
    settings: &'a Settings,
    payloads: &'a Payloads,
    boot: Boot,
    now: Timestamp,
    decision: Decision,
}

/// What the runs in hand bring.
type Payloads = BTreeMap<RunId, Payload>;

impl Node {
    /// Starts what is due: asks its job, admits it, writes its gate, sends it.
    pub async fn fire(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().paused_until {
            return self.memory().paused_until;
        }
        loop {
            let picked = self.pick();
            if let Err(error) = self.fire_picked(&picked).await {
                self.lost_or_paused("fire", &error);
                self.put_back(&picked);
                break;
            }
            if picked.len() < self.settings.fire_max {
                break;
            }
        }
        self.next_moment()
    }

    async fn fire_picked(&self, picked: &[RunId]) -> Result<(), StoreError> {
        if picked.is_empty() && !self.memory().is_ready_full(&self.settings) {
            return Ok(());
        }
        let payloads = self.prepare(picked).await?;
        let Decision { sends, ends, gates, kills, poisoned } = self.decide(picked, &payloads);
        if !sends.is_empty() {
            self.ports.dispatch.send(sends);
        }
        if !ends.is_empty() {
            self.write_ends(ends).await?;
        }
        if !kills.is_empty() {
            self.ports.dispatch.kill(kills);
        }
        if !gates.is_empty() {
            self.go_through(gates, &payloads).await?;
        }
        for (job, reason) in poisoned {
            self.stop_because(job, StoppedReason::Quarantined(reason)).await?;
        }
        Ok(())
    }

    /// Makes sure that the jobs are known, and fetches payloads.
    async fn prepare(&self, picked: &[RunId]) -> Result<Payloads, StoreError> {
        let (jobs, with_payload) = {
            let memory = self.memory();
            let of = |id: &RunId| memory.runs.get(id);
            let jobs: Vec<_> = picked.iter().filter_map(|id| of(id).map(|run| run.job)).collect();
            let brings = |id: &&RunId| of(id).is_some_and(|run| run.flags.has_payload);
            (jobs, picked.iter().filter(brings).copied().collect::<Vec<_>>())
        };
        self.know_jobs(jobs).await?;
        if with_payload.is_empty() {
            return Ok(Payloads::new());
        }
        let rows = self.ports.store.fetch(&with_payload).await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.waiting.run, row.payload?))).collect())
    }

    /// What was in hand and not dealt with is due as before.
    fn put_back(&self, picked: &[RunId]) {
        let mut memory = self.memory();
        for id in picked {
            if memory.in_hand(*id).is_some() {
                memory.make_ready(*id);
            }
        }
    }
}

/// Why a payload cannot be sent. The desk takes none like that, but a row can hold anything.
fn too_long(payload: &Payload) -> Option<Text> {
    let said = || format!("a payload of {} bytes: at most {PAYLOAD_MAX} are sent", payload.len()).into();
    (payload.len() > PAYLOAD_MAX).then(said)
}
