//! Retiring: the runs that a deleted job left are cancelled, a portion at a time. The holder of the job's shard does
//! it, and goes on where an earlier holder stopped: the arrival that asks for it stays until nothing is left.

use std::collections::BTreeSet;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::JobId;

use crate::Node;
use crate::ports::{Arrival, ArrivalKind, RunRow, StoreError};

/// How many runs of a job are looked at in one step.
const PORTION: usize = 1_000;

/// How many deleted jobs are dealt with in one step, so that their arrivals do not keep others waiting.
const JOBS_AT_ONCE: usize = 20;

/// Runs that are due this soon are left to firing, which closes them too: the node that fires them may not know of the
/// delete yet, and a run that was begun is to end by itself.
const SOON: Duration = Duration::from_secs(5);

impl Node {
    /// Cancels some of the runs that deleted jobs left. Returns the arrivals of jobs that have more.
    pub(crate) async fn retire_deleted(&self, arrivals: &[Arrival]) -> Result<BTreeSet<u64>, StoreError> {
        let deleted = arrivals.iter().filter_map(|arrival| match arrival.kind {
            ArrivalKind::Deleted(job) => Some((arrival.id, job)),
            ArrivalKind::Run(_) | ArrivalKind::Cancel(_) | ArrivalKind::Reschedule(..) => None,
        });
        let mut unfinished = BTreeSet::new();
        for (number, (id, job)) in deleted.enumerate() {
            if number >= JOBS_AT_ONCE || !self.retire(job).await? {
                unfinished.insert(id);
            }
        }
        Ok(unfinished)
    }

    /// Cancels the next portion of the runs that a job left; whether it was the last.
    async fn retire(&self, job: JobId) -> Result<bool, StoreError> {
        let unknown = || StoreError::Unknown("the time is not known yet".into());
        let soon = self.now().ok_or_else(unknown)?.saturating_add(SOON);
        let from = self.memory().inbox.retiring.get(&job).copied().unwrap_or_default();
        let found = self.ports.store.open_runs(job, from, PORTION).await?;
        let mut rows = self.ports.store.fetch(&found.runs).await?;
        rows.retain(|row| is_left(row, soon));
        self.cancel_rows(rows).await?;
        let mut memory = self.memory();
        match found.rest {
            Some(rest) => memory.inbox.retiring.insert(job, rest),
            None => memory.inbox.retiring.remove(&job),
        };
        Ok(found.rest.is_none())
    }
}

/// Whether a run was not begun, and will not be begun by itself in a moment.
fn is_left(row: &RunRow, soon: Timestamp) -> bool {
    !row.is_closed && !row.is_gated && (row.is_parked || soon < row.waiting.ready_at)
}
