//! Keeping house: days that are over, runs that are old in days that stay, and keys that have expired.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::model::{JobId, NewRun, NodeId, Origin, RunId};
use punctual_node::ports::{Keep, NODES_KEPT, OldDay, Pruned, THIN_LOOK, Thinned};

use super::state::{GateKey, State, StoredRun};

impl State {
    pub(super) fn prune(&mut self, now: Timestamp, keep: &Keep) -> Pruned {
        let mut pruned = Pruned::default();
        let mut dropped = Vec::new();
        for bucket in self.buckets.values().take_while(|bucket| keep.is_old_for_some(bucket.day)) {
            let (day, runs, closed) = (bucket.day, bucket.runs, bucket.closed);
            match keep.is_dropped(day, runs) {
                true if closed < runs => pruned.kept_open += 1,
                true => dropped.push(day),
                false => pruned.old.push(OldDay { day, runs, closed }),
            }
        }
        pruned.buckets = dropped.len() as u32;
        for day in dropped {
            self.drop_day(keep, day);
        }
        self.keys.retain(|_, key| key.expires_at.is_none_or(|at| now < at));
        self.forget_nodes(now);
        self.forget_changes(now, keep.changes.max(1));
        pruned
    }

    fn forget_nodes(&mut self, now: Timestamp) {
        let owners: BTreeSet<NodeId> = self.shards.values().filter_map(|shard| shard.owner).collect();
        self.nodes.retain(|id, node| now < node.expires_at.saturating_add(NODES_KEPT) || owners.contains(id));
    }

    fn forget_changes(&mut self, now: Timestamp, kept: u64) {
        let seen = self.nodes.values().filter(|node| now < node.expires_at).map(|node| node.seen).min();
        let old = (self.changes.len() as u64).saturating_sub(kept).min(seen.unwrap_or(u64::MAX));
        self.forgotten_changes = self.forgotten_changes.max(old);
    }

    /// Gates, attempts, closes and what is kept beside them go with their runs. Clocks stay where they are, so nothing
    /// of the day is planned again.
    fn drop_day(&mut self, keep: &Keep, day: u32) {
        if keep.is_old_for_others(day) {
            self.pruned_to = self.pruned_to.max(day + 1);
        } else {
            keep.old_apps(day).for_each(|app| self.note_thinned(app, day));
        }
        let ids: Vec<RunId> = self.of_day(RunId::new(day, 0), day).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
        self.buckets.remove(&day);
    }

    pub(super) fn thin(&mut self, keep: &Keep, day: u32, from: RunId, max: usize) -> Thinned {
        let looked_at: Vec<&StoredRun> = self.of_day(from, day).take(THIN_LOOK).map(|(_, run)| run).collect();
        let mut removed = BTreeSet::new();
        let mut apps = BTreeSet::new();
        let mut stays = 0;
        // The last number of a day is never given, so there is always a next one.
        let last = looked_at.last().filter(|_| looked_at.len() == THIN_LOOK);
        let mut rest = last.map(|last| RunId(last.new.id.0 + 1));
        for run in looked_at {
            let app = self.app_of(run.new.job);
            let is_old = run.close.is_some() && keep.is_old(&app, day);
            let whole = self.whole_of(run);
            // A part goes with its whole, and never before it.
            if is_old && whole.is_some_and(|whole| whole.day() == day) {
                continue;
            }
            let parts = self.parts(run.new.id);
            let has_open_part = parts.iter().any(|part| part.close.is_none());
            if !is_old || whole.is_some() || has_open_part {
                stays += 1;
                continue;
            }
            if max == 0 {
                continue;
            }
            let mut family: Vec<RunId> = parts.iter().map(|part| part.new.id).collect();
            family.sort_unstable();
            family.push(run.new.id);
            let room = max - removed.len();
            if room > 0 {
                apps.insert(app);
            }
            removed.extend(family.iter().take(room));
            if family.len() > room {
                rest = Some(run.new.id);
                break;
            }
        }
        removed.iter().for_each(|run| self.remove(*run));
        apps.iter().for_each(|app| self.note_thinned(app, day));
        Thinned { removed: removed.len() as u64, stays, rest }
    }

    /// The run that a run is a part of, if that still exists.
    fn whole_of(&self, part: &StoredRun) -> Option<RunId> {
        let whole = part.new.of.filter(|_| part.new.origin == Origin::Part);
        whole.filter(|whole| self.runs.contains_key(whole))
    }

    fn of_day(&self, from: RunId, day: u32) -> impl Iterator<Item = (&RunId, &StoredRun)> {
        let first = from.max(RunId::new(day, 0));
        self.runs.range(first..).take_while(move |(id, _)| id.day() == day)
    }

    fn app_of(&self, job: JobId) -> String {
        self.jobs.get(&job).map(|job| job.definition.app.clone()).unwrap_or_default()
    }

    fn note_thinned(&mut self, app: &str, day: u32) {
        let to = self.thinned.entry(app.to_owned()).or_default();
        *to = (*to).max(day + 1);
    }

    /// Whether the records of a run's day were dropped, for all jobs or for those of its app.
    pub(super) fn is_forgotten(&self, run: &NewRun) -> bool {
        let thinned_to = self.thinned.get(&self.app_of(run.job)).copied().unwrap_or(0);
        run.id.day() < self.pruned_to.max(thinned_to)
    }

    /// Removes a closed run with all that became of it.
    fn remove(&mut self, id: RunId) {
        let Some(run) = self.runs.remove(&id) else { return };
        for key in run.gates.values() {
            if let GateKey::Sent(send) = key {
                self.logs.remove(&send.log);
            }
        }
        if run.new.is_named() {
            self.planned.remove(&(run.new.fire_time, run.new.job));
        }
        if let Some(bucket) = self.buckets.get_mut(&id.day()) {
            (bucket.runs, bucket.closed) = (bucket.runs - 1, bucket.closed - 1);
        }
    }
}
