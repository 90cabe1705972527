//! Runs that were reported on and are not in memory: their shards are other nodes', or they left memory since.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;

use crate::Node;
use crate::inbox::Received;
use crate::memory::Run;
use crate::ports::{RunRow, StoreError};
use crate::settings::Planted;
use crate::spared::counts_attempts;

/// Runs that were reported on and are not in memory.
#[derive(Default)]
pub(super) struct Strangers {
    pub(super) ids: BTreeSet<RunId>,
    /// Those that there are.
    pub(super) rows: BTreeMap<RunId, RunRow>,
    /// How many of their attempts do not count.
    pub(super) spared: BTreeMap<RunId, u32>,
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
        let rows = rows.into_iter().map(|row| (row.waiting.run, row)).collect();
        Ok(Strangers { ids, rows, spared: BTreeMap::new() })
    }

    /// Reads how many earlier attempts do not count, of runs that this node did not have when those ended, as far as it decides
    /// what follows.
    pub(super) async fn read_pasts(
        &self,
        strangers: &mut Strangers,
        reports: &[Received],
    ) -> Result<(), StoreError> {
        let (here, elsewhere) = {
            let memory = self.memory();
            let reports =
                reports.iter().map(|received| &received.report).filter(|report| counts_attempts(report));
            let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
            for id in reports.map(|report| report.run) {
                let stranger = || strangers.rows.get(&id).map(|row| Run::from(&row.waiting));
                match memory.loaded.runs.get(&id) {
                    Some(run) if memory.spared_of(id, run).is_none() => here.push(id),
                    None if stranger().is_some_and(|run| memory.spared_of(id, &run).is_none()) => {
                        elsewhere.push(id);
                    }
                    _ => {}
                }
            }
            (here, elsewhere)
        };
        self.know_spared(here).await?;
        strangers.spared.extend(self.read_spared(elsewhere).await?);
        Ok(())
    }
}
