//! Settling: the end of an attempt or of a run, with all that follows.

use punctual_core::model::{Settlement, Then};
use punctual_node::ports::Settled;

use super::Postgres;
use super::gather::Wanted;
use super::line::Line;
use super::trouble::Trouble;
use crate::rules::SettleVerdict;

impl Postgres {
    pub(super) async fn try_settle(
        &self,
        line: &Line<'_>,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>, Trouble> {
        let mut wanted = Wanted::default();
        for settlement in settlements {
            wanted.runs.insert(settlement.run);
            wanted.counts.insert(settlement.job);
            wanted.fresh.extend(&settlement.children);
            wanted.wholes.extend(settlement.part_of);
            // The run may be one that only comes with this batch.
            wanted.counts.extend(settlement.children.iter().map(|child| child.job));
            if settlement.named.is_some() || matches!(settlement.then, Then::Park { .. }) {
                wanted.clocks_of.insert(settlement.run);
                wanted.clocks.extend(settlement.children.iter().map(|child| child.job));
            }
        }
        let mut gathered = self.gather(line, &wanted).await?;
        if gathered.unit.runs.values().any(|run| !wanted.counts.contains(&run.job)) {
            // The caller named another job than the run has. The run's own job is counted.
            line.run("rollback").await?;
            wanted.counts_of_runs = true;
            gathered = self.gather(line, &wanted).await?;
        }
        let verdicts: Vec<SettleVerdict> =
            settlements.iter().map(|settlement| gathered.unit.settle(settlement)).collect();
        self.flush(line, &gathered).await?;
        // The counts were read with everything else.
        Ok(verdicts.into_iter().map(|verdict| verdict.answer(|_| 0)).collect())
    }
}
