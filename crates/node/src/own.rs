//! What runs have of their own, in place of their job's: it lies with what they bring, so it is read before an attempt is
//! sent or judged, and remembered for as long as the run is in memory. Parts have what the whole has.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{Brought, Origin, Own, Payload, RunId};
use rustc_hash::FxHashMap;

use crate::Node;
use crate::memory::Memory;
use crate::ports::{RunRow, StoreError, Waiting};
use crate::settings::Planted;

/// How many runs are read at once: what they bring may be long.
const CHUNK: usize = 500;

impl Node {
    /// Reads what runs in memory have of their own.
    pub(crate) async fn know_own(&self, runs: &[RunId]) -> Result<(), StoreError> {
        let owns = self.read_own(runs).await?;
        let mut memory = self.memory();
        for id in runs {
            memory.note_own(*id, owns.get(id).copied().unwrap_or_default());
        }
        Ok(())
    }

    /// What runs have of their own, wherever they are.
    pub(crate) async fn read_own(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, Own>, StoreError> {
        let mut owns = BTreeMap::new();
        for chunk in runs.chunks(CHUNK) {
            let rows = self.ports.store.fetch(chunk).await?;
            owns.extend(self.own_of_rows(&rows).await?);
        }
        Ok(owns)
    }

    /// The same of rows that were read already; every one of them is in the answer.
    pub(crate) async fn own_of_rows(&self, rows: &[RunRow]) -> Result<BTreeMap<RunId, Own>, StoreError> {
        let whole = |row: &RunRow| row.part.as_ref().map(|(whole, _)| *whole);
        let wholes: Vec<RunId> = rows.iter().filter_map(whole).collect::<BTreeSet<_>>().into_iter().collect();
        let wholes = if wholes.is_empty() { Vec::new() } else { self.ports.store.fetch(&wholes).await? };
        let of_wholes: BTreeMap<RunId, Own> = wholes.iter().map(|row| (row.waiting.run, own(row))).collect();
        let is_forgotten = self.memory().has_planted(Planted::OwnForgotten);
        let of = |row: &RunRow| match whole(row) {
            _ if is_forgotten => Own::default(),
            Some(whole) => of_wholes.get(&whole).copied().unwrap_or_default(),
            None => own(row),
        };
        Ok(rows.iter().map(|row| (row.waiting.run, of(row))).collect())
    }
}

impl Waiting {
    /// Whether what it brings, or what the whole brings that it is a part of, has to be looked at.
    pub(crate) fn may_have_own(&self) -> bool {
        self.has_payload || self.origin == Origin::Part
    }
}

fn own(row: &RunRow) -> Own {
    brought(row.payload.as_ref())
}

fn brought(kept: Option<&Payload>) -> Own {
    kept.map(|kept| Brought::read(kept).own).unwrap_or_default()
}

impl Memory {
    /// What a run has in place of its job's, as far as it was read. What is on its way was.
    pub(crate) fn own_of(&self, id: RunId) -> Own {
        self.loaded.owns.get(&id).copied().unwrap_or_default()
    }

    /// The same, of a run that is here and was read.
    pub(crate) fn own_if_read(&self, id: RunId) -> Option<Own> {
        let run = self.loaded.runs.get(&id)?;
        (!run.flags.is_unread).then(|| self.own_of(id))
    }

    /// Notes what was read of a run.
    pub(crate) fn note_own(&mut self, id: RunId, own: Own) {
        let Some(run) = self.loaded.runs.get_mut(&id) else { return };
        run.flags.is_unread = false;
        if !own.is_nothing() {
            self.loaded.owns.insert(id, own);
        }
    }

    /// Notes what runs have of their own whose payloads were read. Of a part that is only so once its whole is known.
    pub(crate) fn note_brought(&mut self, read: &[RunId], payloads: &FxHashMap<RunId, Payload>) {
        for id in read {
            let Some(run) = self.loaded.runs.get(id).filter(|run| run.flags.is_unread) else { continue };
            if run.origin != Origin::Part || self.loaded.parts.get(*id).is_some() {
                self.note_own(*id, brought(payloads.get(id)));
            }
        }
    }
}
