//! Keeping house: days that are over, and keys that have expired.

use calendar::Timestamp;
use punctual_core::model::RunId;
use punctual_node::ports::{Bucket, Pruned};

use super::state::{GateKey, State};

impl State {
    pub(super) fn prune(&mut self, now: Timestamp, before: Timestamp) -> Pruned {
        let old = |bucket: &&Bucket| RunId::day_start(bucket.day + 1) <= before;
        let (open, closed): (Vec<&Bucket>, Vec<&Bucket>) =
            self.buckets.values().take_while(old).partition(|bucket| bucket.closed < bucket.runs);
        let pruned = Pruned { buckets: closed.len() as u32, kept_open: open.len() as u32 };
        for day in closed.iter().map(|bucket| bucket.day).collect::<Vec<u32>>() {
            self.drop_day(day);
        }
        self.keys.retain(|_, key| key.expires_at.is_none_or(|at| now < at));
        pruned
    }

    /// Gates, attempts, closes and what is kept beside them go with their runs. Clocks stay where they are, so nothing
    /// of the day is planned again.
    fn drop_day(&mut self, day: u32) {
        self.buckets.remove(&day);
        self.pruned_to = self.pruned_to.max(day + 1);
        let of_day = RunId::new(day, 0)..=RunId::new(day, RunId::PER_DAY - 1);
        let ids: Vec<RunId> = self.runs.range(of_day).map(|(id, _)| *id).collect();
        for run in ids.iter().filter_map(|id| self.runs.remove(id)) {
            for key in run.gates.values() {
                if let GateKey::Sent(send) = key {
                    self.logs.remove(&send.log);
                }
            }
            if run.new.is_named() {
                self.planned.remove(&(run.new.fire_time, run.new.job));
            }
        }
    }
}
