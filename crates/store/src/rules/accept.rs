//! Accepting: runs that are handed over, and messages for the holders of shards.

use punctual_core::model::{NewRun, ShardId};
use punctual_node::ports::{Accepted, ArrivalKind, StoreError};

use super::unit_of_work::UnitOfWork;

impl<'v> UnitOfWork<'v> {
    /// Accepts all runs and messages, or refuses them all.
    pub(crate) fn accept(
        &mut self,
        runs: &'v [NewRun],
        left: &[(ShardId, ArrivalKind)],
    ) -> Result<Vec<Accepted>, StoreError> {
        self.forgotten.check(runs)?;
        for (shard, kind) in left {
            self.leave(*shard, *kind);
        }
        let accepted = |run: &'v NewRun| match self.insert(run) {
            Ok(id) => Accepted::New(id),
            Err(there) => Accepted::Duplicate(there),
        };
        Ok(runs.iter().map(accepted).collect())
    }
}
