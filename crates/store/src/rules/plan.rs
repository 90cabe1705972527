//! Planning: moving a clock with a record for every instant that it passes.

use calendar::Timestamp;
use punctual_core::model::NewRun;
use punctual_node::ports::{Plan, Planned};

use super::forgotten::Forgotten;
use super::unit_of_work::UnitOfWork;

impl<'v> UnitOfWork<'v> {
    pub(crate) fn plan(&mut self, plan: &'v Plan) -> Planned {
        let id = plan.clock.job;
        let is_current = self.current.contains(&plan.lease);
        let Some(clock) = self.clocks.get_mut(&id).filter(|clock| {
            clock.is_enabled
                && clock.version == plan.clock.version
                && clock.next_fire == Some(plan.clock.next_fire)
                && is_current
        }) else {
            return Planned::Overtaken;
        };
        let (runs, reserved) = remembered(plan, clock.reserved, &self.forgotten);
        clock.next_fire = plan.next;
        clock.decided = clock.decided.max(plan.decided_to);
        clock.reserved = clock.reserved.max(reserved);
        self.writes.clocks.insert(id);
        if let Some(reason) = &plan.stop {
            self.stop(id, reason.clone());
        }
        if let Some((run, close)) = &plan.skipped {
            self.insert_closed(run, close);
        }
        Planned::Moved(runs.into_iter().filter_map(|run| self.insert(run).ok()).collect())
    }
}

/// The runs of a plan that are written, and the last instant that they name. An instant up to `reserved` had its run: where
/// the record of that was dropped with its day, no other is written.
pub(crate) fn remembered<'p>(
    plan: &'p Plan,
    reserved: Timestamp,
    forgotten: &Forgotten,
) -> (Vec<&'p NewRun>, Timestamp) {
    let is_forgotten = |run: &NewRun| run.fire_time <= reserved && forgotten.has(run);
    let runs: Vec<&NewRun> = plan.runs.iter().filter(|run| !is_forgotten(run)).collect();
    let last = runs.iter().map(|run| run.fire_time).max().unwrap_or(Timestamp::MIN);
    (runs, last)
}

/// Whether a plan names instants that had runs before: then it matters whether their records were dropped.
pub(crate) fn names_earlier_instants(plan: &Plan) -> bool {
    plan.runs.iter().any(|run| run.fire_time <= plan.clock.planned.reserved)
}
