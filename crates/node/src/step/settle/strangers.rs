//! Runs that were reported on and are not in memory: their shards are other nodes', or they left memory since.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;

use crate::Node;
use crate::ports::{RunRow, StoreError};
use crate::settings::Planted;

/// Runs that were reported on and are not in memory.
#[derive(Default)]
pub(super) struct Strangers {
    pub(super) ids: BTreeSet<RunId>,
    /// Those that there are.
    pub(super) rows: BTreeMap<RunId, RunRow>,
}

impl Node {
    /// What the store says of runs that are not in memory.
    pub(super) async fn ask_for(&self, ids: BTreeSet<RunId>) -> Result<Strangers, StoreError> {
        if ids.is_empty() {
            return Ok(Strangers::default());
        }
        let mut rows = self.ports.store.outline(&ids.iter().copied().collect::<Vec<_>>()).await?;
        if self.memory().has_planted(Planted::OverridesForgotten) {
            rows.iter_mut().for_each(|row| row.waiting.overrides = None);
        }
        Ok(Strangers { ids, rows: rows.into_iter().map(|row| (row.waiting.run, row)).collect() })
    }
}
