//! Runs that were reported on and are not in memory: their shards are other nodes', or they left memory since.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{Own, RunId};

use crate::Node;
use crate::inbox::Received;
use crate::jobs::Known;
use crate::ports::{RunRow, StoreError};

/// Runs that were reported on and are not in memory.
#[derive(Default)]
pub(super) struct Strangers {
    pub(super) ids: BTreeSet<RunId>,
    /// Those that there are.
    pub(super) rows: BTreeMap<RunId, RunRow>,
    /// What they have in place of their job's.
    pub(super) owns: BTreeMap<RunId, Own>,
}

impl Node {
    /// What the store says of runs that are not in memory.
    pub(super) async fn ask_for(&self, ids: BTreeSet<RunId>) -> Result<Strangers, StoreError> {
        if ids.is_empty() {
            return Ok(Strangers::default());
        }
        let rows = self.ports.store.outline(&ids.iter().copied().collect::<Vec<_>>()).await?;
        Ok(Strangers {
            ids,
            owns: BTreeMap::new(),
            rows: rows.into_iter().map(|row| (row.waiting.run, row)).collect(),
        })
    }

    /// Reads what runs of strangers have of their own, as far as the reports may count: what runs bring may be long, and
    /// whoever names runs of others has no right to have it read.
    pub(super) async fn read_own_of(
        &self,
        strangers: &mut Strangers,
        reports: &[Received],
    ) -> Result<(), StoreError> {
        let unread: Vec<RunId> = {
            let memory = self.memory();
            let is_of_its_app = |received: &&Received| {
                let job = strangers.rows.get(&received.report.run).map(|row| row.waiting.job);
                match (job.and_then(|job| memory.jobs.get(job)), &received.report.app) {
                    (Some(Known::Job(job)), Some(app)) => job.definition.app == app.as_ref(),
                    _ => true,
                }
            };
            let ids = reports.iter().filter(is_of_its_app).map(|received| received.report.run);
            let ids: BTreeSet<RunId> = ids.filter(|id| strangers.rows.contains_key(id)).collect();
            ids.into_iter().collect()
        };
        let has_own = |id: &RunId| strangers.rows.get(id).is_some_and(|row| row.waiting.may_have_own());
        let (to_read, bare): (Vec<RunId>, Vec<RunId>) = unread.into_iter().partition(has_own);
        strangers.owns = self.read_own(&to_read).await?;
        strangers.owns.extend(bare.into_iter().map(|id| (id, Own::default())));
        Ok(())
    }
}
