//! Runs that were reported on and are not in memory: their shards are other nodes', or they left memory since.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::{JobId, RunId};

use crate::Node;
use crate::inbox::Received;
use crate::jobs::Known;
use crate::memory::{Memory, Run};
use crate::ports::{Report, RunRow, StoreError};
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
    /// what follows. An executor of another app has no right to have anything read.
    pub(super) async fn read_pasts(
        &self,
        strangers: &mut Strangers,
        reports: &[Received],
    ) -> Result<(), StoreError> {
        let (here, elsewhere) = {
            let memory = self.memory();
            let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
            for Received { report, .. } in reports.iter().filter(|received| counts_attempts(&received.report))
            {
                let known = memory.loaded.runs.get(&report.run).copied();
                let stranger = || strangers.rows.get(&report.run).map(|row| Run::from(&row.waiting));
                let Some(run) = known.or_else(stranger) else { continue };
                if memory.spared_of(report.run, &run).is_some() || !memory.is_of_its_app(run.job, report) {
                    continue;
                }
                if known.is_some() { here.push(report.run) } else { elsewhere.push(report.run) }
            }
            (here, elsewhere)
        };
        self.know_spared(here).await?;
        strangers.spared.extend(self.read_spared(elsewhere).await?);
        Ok(())
    }
}

impl Memory {
    /// Whether a report about a run of a job comes from the job's app, as far as the report says where it comes from.
    fn is_of_its_app(&self, job: JobId, report: &Report) -> bool {
        match (self.jobs.get(job), &report.app) {
            (Some(Known::Job(job)), Some(app)) => job.definition.app == app.as_ref(),
            _ => true,
        }
    }
}
