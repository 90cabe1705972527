//! Broadcast runs: a whole that falls into parts, and the count of the parts that have not ended.

use punctual_core::model::{Join, Outcome, RunId};
use punctual_node::ports::Split;

use super::gate::GateVerdict;
use super::unit_of_work::{CloseRow, JoinRow, UnitOfWork};

impl<'v> UnitOfWork<'v> {
    pub(crate) fn split(&mut self, split: &'v Split) -> GateVerdict {
        let places = match self.meet(&split.gate) {
            Ok(places) => places,
            Err(verdict) => return verdict,
        };
        let whole = split.gate.run;
        let verdict = self.write_gate(&split.gate, places);
        let mut ids = Vec::new();
        for (new, part) in &split.parts {
            if let Ok(id) = self.insert(new) {
                self.writes.parts.push((id, whole, part));
                ids.push(id);
            }
        }
        let before = self.joins.get(&whole).copied();
        // Parts of an earlier split that have not ended are waited for too.
        let open = before.map_or(0, |before| before.join.open) + ids.len() as u32;
        let earlier = before.map(|before| [before.first_part, before.last_part]);
        ids.extend(earlier.into_iter().flatten());
        let row = JoinRow {
            join: Join { total: open, open, succeeded: 0 },
            first_part: ids.iter().min().copied().unwrap_or(whole),
            last_part: ids.iter().max().copied().unwrap_or(whole),
        };
        self.joins.insert(whole, row);
        self.writes.joins.insert(whole);
        verdict
    }

    /// Closes a part, which counts with its whole and not with its job; the whole, if nothing of it is open any more.
    pub(super) fn close_part(&mut self, row: CloseRow<'v>, whole: RunId) -> Option<(RunId, Join)> {
        self.close_uncounted(row);
        let join = &mut self.joins.get_mut(&whole).filter(|row| row.join.open > 0)?.join;
        join.open -= 1;
        join.succeeded += u32::from(row.close.outcome == Outcome::Succeeded);
        self.writes.joins.insert(whole);
        (join.open == 0).then_some((whole, *join))
    }
}
