//! Runs that were reported on and are not in memory: other nodes hold their shards, or the runs left memory since.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;

use crate::Node;
use crate::entitled::Moment;
use crate::inbox::Received;
use crate::jobs::Known;
use crate::memory::Run;
use crate::pasts::counts_attempts;
use crate::ports::{RunRow, StoreError};
use crate::settings::Planted;

/// Runs that were reported on and are not in memory.
#[derive(Default)]
pub(super) struct Strangers {
    pub(super) ids: BTreeSet<RunId>,
    /// Those that exist.
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
    /// what follows. A report that will be refused has nothing read.
    pub(super) async fn read_pasts_of_strangers(
        &self,
        strangers: &mut Strangers,
        reports: &[Received],
    ) -> Result<(), StoreError> {
        let boot = self.boot();
        let (here, elsewhere) = {
            let memory = self.memory();
            let moment = Moment::of(&memory, boot);
            let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
            for Received { report, .. } in reports.iter().filter(|received| counts_attempts(&received.report))
            {
                let known = memory.loaded.runs.get(&report.run).copied();
                let row = strangers.rows.get(&report.run).filter(|_| known.is_none());
                let Some(run) = known.or_else(|| row.map(|row| Run::from(&row.waiting))) else { continue };
                let Some(Known::Job(job)) = memory.jobs.get(run.job) else { continue };
                let is_known = memory.spared_of(report.run, &run).is_some();
                if is_known || !memory.may_report(report, job, (&run, row), moment) {
                    continue;
                }
                if known.is_some() { here.push(report.run) } else { elsewhere.push(report.run) }
            }
            (here, elsewhere)
        };
        self.know_pasts(here).await?;
        let pasts = self.read_pasts(elsewhere).await?;
        strangers.spared.extend(pasts.into_iter().map(|(run, past)| (run, past.spared)));
        Ok(())
    }
}
