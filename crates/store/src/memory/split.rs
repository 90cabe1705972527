//! Broadcast runs: a whole that falls into parts, and the count of the parts that have not ended.

use std::ops::Bound;

use calendar::Timestamp;
use punctual_core::model::{Close, JobId, Join, Outcome, RunId};
use punctual_node::ports::{Gated, OpenRuns, Split};

use super::state::{State, StoredRun};

impl State {
    pub(super) fn split(&mut self, now: Timestamp, split: Split) -> Gated {
        let places = match self.meet(&split.gate) {
            Ok(places) => places,
            Err(said) => return said,
        };
        let whole = split.gate.run;
        let log = self.write_gate(split.gate, places);
        let mut parts = Vec::new();
        for (new, part) in split.parts {
            if let Ok(id) = self.insert(now, new) {
                self.edit_run(id, |run| run.part = Some(part));
                parts.push(id);
            }
        }
        self.edit_run(whole, |run| {
            // Parts of an earlier split that have not ended are waited for too.
            let open = run.join.map_or(0, |join| join.open) + parts.len() as u32;
            run.join = Some(Join { total: open, open, succeeded: 0 });
            run.parts.extend(parts);
        });
        Gated::Through(log)
    }

    /// Closes a part, which counts with its whole and not with its job; the whole, if nothing of it is open any more.
    pub(super) fn close_part(&mut self, id: RunId, close: Close, whole: RunId) -> Option<(RunId, Join)> {
        let has_succeeded = close.outcome == Outcome::Succeeded;
        self.shut(id, close);
        let join = self.runs.get_mut(&whole)?.join.as_mut().filter(|join| join.open > 0)?;
        join.open -= 1;
        join.succeeded += u32::from(has_succeeded);
        (join.open == 0).then_some((whole, *join))
    }

    /// The parts of a run that are there, by index.
    pub(super) fn parts(&self, whole: RunId) -> Vec<&StoredRun> {
        let ids = self.runs.get(&whole).map_or(&[][..], |run| &run.parts);
        let mut parts: Vec<&StoredRun> = ids.iter().filter_map(|id| self.runs.get(id)).collect();
        parts.sort_by_key(|run| (run.part.as_ref().map(|part| part.index), run.new.id));
        parts
    }

    pub(super) fn open_runs(&self, job: JobId, after: RunId, max: usize) -> OpenRuns {
        let later = self.runs.range((Bound::Excluded(after), Bound::Unbounded)).map(|(_, run)| run);
        let looked_at: Vec<&StoredRun> = later.filter(|run| run.new.job == job).take(max).collect();
        let rest = looked_at.last().filter(|_| looked_at.len() == max).map(|run| run.new.id);
        let open = looked_at.iter().filter(|run| run.close.is_none());
        OpenRuns { runs: open.map(|run| run.new.id).collect(), rest }
    }

    pub(super) fn open_parts(&self, whole: RunId) -> Vec<RunId> {
        let open = self.parts(whole).into_iter().filter(|run| run.close.is_none());
        open.map(|run| run.new.id).collect()
    }
}
