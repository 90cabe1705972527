//! Payloads of runs, fetched a moment before the runs are due, so that nothing has to be read between due time and
//! send.
//!
//! It is a bounded cache. A payload that is not in it when its run is due is fetched then. Payloads never change, so no
//! entry goes stale.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Payload, RunId};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::memory::{Memory, RunLocation};
use crate::ports::{Boot, StoreError};

/// How long before it is due a run's payload is fetched.
const AHEAD: Duration = Duration::from_millis(500);

/// The limits of the cache: payloads, and about as many bytes.
const RUNS_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;

/// How many runs are looked at to find those: not every run has a payload.
const LOOKED_AT_MAX: usize = 2 * RUNS_MAX;

/// How many payloads are read at once: they may be long.
const CHUNK: usize = 500;

/// Payloads of runs that are due in a moment.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    payloads: FxHashMap<RunId, Payload>,
    bytes: usize,
    /// When to look again for runs that are due in a moment.
    look_at: Boot,
    /// Whether more was found than fits: then the next look comes as soon as half of the cache is used up.
    has_more: bool,
}

impl Ahead {
    fn has_room(&self) -> bool {
        self.payloads.len() < RUNS_MAX && self.bytes < BYTES_MAX
    }

    fn is_half_empty(&self) -> bool {
        self.payloads.len() < RUNS_MAX / 2 && self.bytes < BYTES_MAX / 2
    }

    fn put(&mut self, id: RunId, payload: Payload) {
        self.bytes += payload.len();
        if let Some(before) = self.payloads.insert(id, payload) {
            self.bytes -= before.len();
        }
    }

    pub(crate) fn has(&self, id: RunId) -> bool {
        self.payloads.contains_key(&id)
    }

    pub(crate) fn take(&mut self, id: RunId) -> Option<Payload> {
        if self.payloads.is_empty() {
            return None;
        }
        let payload = self.payloads.remove(&id)?;
        self.bytes -= payload.len();
        Some(payload)
    }
}

impl Memory {
    /// When payloads are to be fetched, if the wheel holds any run.
    pub(crate) fn fetches_at(&self, boot: Boot) -> Option<Boot> {
        let due = self.loaded.wheel.next_due()?;
        if self.loaded.ahead.has_more && self.loaded.ahead.is_half_empty() {
            return Some(boot);
        }
        let begins = due.as_millis().saturating_sub(AHEAD.as_millis() as i64);
        Some(self.time.moment_of(Timestamp::from_millis(begins)).max(self.loaded.ahead.look_at))
    }

    /// The runs whose payloads are to be fetched now.
    fn due_in_a_moment(&mut self, now: Timestamp, boot: Boot) -> Vec<RunId> {
        if self.fetches_at(boot).is_none_or(|at| at > boot) {
            return Vec::new();
        }
        self.loaded.ahead.look_at = boot.plus(AHEAD / 2);
        let room = RUNS_MAX.saturating_sub(self.loaded.ahead.payloads.len());
        let brings = |id: &RunId| self.loaded.runs.get(id).is_some_and(|run| run.flags.has_payload);
        let is_missing = |id: &RunId| !self.loaded.ahead.has(*id);
        let soon = self.loaded.wheel.due_by(now.saturating_add(AHEAD)).map(RunId).take(LOOKED_AT_MAX);
        let soon: Vec<RunId> = soon.filter(brings).filter(is_missing).take(room).collect();
        self.loaded.ahead.has_more = soon.len() == room;
        soon
    }

    /// Moves cached payloads into `payloads`; returns the runs that have none in the cache.
    pub(crate) fn take_ahead(
        &mut self,
        runs: Vec<RunId>,
        payloads: &mut FxHashMap<RunId, Payload>,
    ) -> Vec<RunId> {
        let mut missing = runs;
        missing.retain(|id| match self.loaded.ahead.take(*id) {
            Some(payload) => payloads.insert(*id, payload).is_some(),
            None => true,
        });
        missing
    }

    /// Keeps the payload of a run that is due in a moment, unless a step has taken the run meanwhile.
    pub(crate) fn bring_ahead(&mut self, id: RunId, payload: &Payload, now: Timestamp) {
        let soon = now.saturating_add(AHEAD);
        let is_waiting =
            |location| matches!(location, RunLocation::Wheel | RunLocation::Between | RunLocation::Ready);
        let run = self.loaded.runs.get(&id).filter(|run| run.ready_at <= soon && is_waiting(run.location));
        if run.is_some() && self.loaded.ahead.has_room() {
            self.loaded.ahead.put(id, Payload::clone(payload));
        }
    }
}

impl Node {
    /// Fetches the payloads of the runs that are due in a moment.
    pub(crate) async fn fetch_ahead(&self) -> Result<(), StoreError> {
        let boot = self.boot();
        let (now, soon) = {
            let mut memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Ok(()) };
            (now, memory.due_in_a_moment(now, boot))
        };
        for chunk in soon.chunks(CHUNK) {
            {
                let mut memory = self.memory();
                memory.loaded.ahead.has_more |= !memory.loaded.ahead.has_room();
                if !memory.loaded.ahead.has_room() {
                    break;
                }
            }
            let rows = self.ports.store.fetch(chunk).await?;
            let mut memory = self.memory();
            for row in rows {
                if let Some(payload) = &row.payload {
                    memory.bring_ahead(row.waiting.run, payload, now);
                }
            }
        }
        Ok(())
    }
}
