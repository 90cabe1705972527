//! What clients were told about runs they handed over: nothing acknowledged is missing, and nothing is there twice.

use punctual_core::model::{JobId, NewRun, Origin, RunId};
use rustc_hash::FxHashMap;

use super::{Checked, Checker, Moment, hold};

/// What is known of runs that were handed over.
#[derive(Debug, Default)]
pub struct Submitted {
    /// Which run has a key.
    keys: FxHashMap<(JobId, String), RunId>,
    /// How often a payload was written. Every payload is handed over for one run.
    payloads: FxHashMap<String, RunId>,
    /// Payloads whose client was told that nothing was written.
    refused: Vec<String>,
    /// Runs whose client was told that they are kept.
    acknowledged: Vec<RunId>,
    /// How long a key outlives its run, in milliseconds.
    pub key_ttl_ms: i64,
}

impl Submitted {
    /// Runs that were acknowledged.
    pub fn acknowledged(&self) -> &[RunId] {
        &self.acknowledged
    }

    /// What was refused and is there all the same.
    pub fn refused_and_there(&self) -> Option<(&str, RunId)> {
        self.refused.iter().find_map(|payload| Some((payload.as_str(), *self.payloads.get(payload)?)))
    }
}

impl Checker {
    /// A run that was handed over was written.
    pub(super) fn accepted(&mut self, moment: Moment, run: &NewRun, id: RunId) -> Checked {
        hold!("I16", run.id == id, "run {} is accepted as {id}", run.id);
        if let Some(key) = &run.key {
            let there = self.submitted.keys.insert((run.job, key.to_string()), id);
            let still = there.filter(|there| self.has_key(*there));
            hold!("I16", still.is_none(), "key {key} of job {} belongs to {still:?} and to {id}", run.job);
        }
        // A retry by hand brings what the first run brought, and what has a key may come again when that has expired.
        let is_unique = run.origin == Origin::OneShot && run.key.is_none();
        if let Some(payload) = run.payload.as_deref().filter(|_| is_unique) {
            let there = self.submitted.payloads.insert(payload.to_string(), id);
            hold!("I17", there.is_none(), "{payload} is handed over once, and is run {there:?} and run {id}");
        }
        if run.origin == Origin::Backfill
            && let Some(job) = self.jobs.get(&run.job)
        {
            let at = run.fire_time.as_millis();
            let is_named = |instants: &super::instants::Instants| instants.names(at);
            let is_known =
                job.versions.iter().any(|version| version.instants.as_deref().is_some_and(is_named));
            hold!(
                "I3",
                is_known || job.is_poisoned,
                "job {} is backfilled at {}, which it never named",
                run.job,
                run.fire_time
            );
        }
        self.wrote(moment, run)
    }

    /// A run that was handed over was there already.
    pub(super) fn was_there(&mut self, moment: Moment, run: &NewRun, id: RunId) -> Checked {
        let Some(there) = self.run(id) else {
            let is_pruned = id.day() < run.id.day();
            hold!("I16", is_pruned, "run {} is taken for {id}, which was never written", run.id);
            return Ok(());
        };
        let is_named = run.origin.is_named_by_schedule() && there.fire_time == run.fire_time.as_millis();
        let key = run.key.as_ref().map(|key| (run.job, key.to_string()));
        let has_key = key.is_some_and(|key| self.submitted.keys.get(&key) == Some(&id));
        let is_same =
            run.id == id && there.fire_time == run.fire_time.as_millis() && there.origin == run.origin;
        let is_right = there.job == run.job && (is_same || is_named || has_key);
        hold!("I16", is_right, "run {run:?} is taken for {id} at {moment:?}, which is another");
        if has_key {
            self.counters.key_repeated += 1;
        }
        Ok(())
    }

    /// Whether a key surely still belongs to a run: what expired before the clock was set back stays expired.
    fn has_key(&self, id: RunId) -> bool {
        let ttl = self.submitted.key_ttl_ms;
        let close = self.run(id).and_then(|run| run.close.as_ref());
        close.is_none_or(|close| self.latest < close.closed_at + ttl)
    }

    /// A client was told that a run is kept.
    pub fn told_kept(&mut self, id: RunId) -> Checked {
        let is_there = self.by_id.contains_key(&id);
        hold!("I16", is_there, "a client was told that run {id} is kept, and it was never written");
        self.submitted.acknowledged.push(id);
        Ok(())
    }

    /// A client was told that nothing was written.
    pub fn told_refused(&mut self, payload: String) {
        self.submitted.refused.push(payload);
    }
}
