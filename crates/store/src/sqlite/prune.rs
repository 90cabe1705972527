//! Keeping house: days that are over, and keys that have expired.

use calendar::Timestamp;
use punctual_core::model::RunId;
use punctual_node::ports::Pruned;

use super::keeper::{Keeper, Side};
use super::trouble::Trouble;

impl Keeper {
    pub(super) fn prune(&mut self, before: Timestamp) -> Result<Pruned, Trouble> {
        let now = self.now();
        let mut pruned = Pruned::default();
        for number in self.side.days.numbers() {
            if RunId::day_start(number + 1) > before {
                break;
            }
            if self.side.days.get(number).is_some_and(|day| day.has_open()) {
                pruned.kept_open += 1;
                continue;
            }
            // Gates, attempts, closes and what is kept beside them go with their runs. Clocks stay where they are, so
            // nothing of the day is planned again.
            self.side.forget_day(number);
            self.side.days.drop(&self.conn, number)?;
            self.side.counters.pruned_to = self.side.counters.pruned_to.max(u64::from(number) + 1);
            pruned.buckets += 1;
        }
        let mut delete = self.conn.prepare_cached(
            "delete from keys
             where expires_at is not null and expires_at <= ?1",
        )?;
        delete.execute([now.as_millis()])?;
        Ok(pruned)
    }
}

impl Side {
    /// Takes a day that goes out of memory. The readers still see it, until the round is committed.
    fn forget_day(&mut self, day: u32) {
        let stays = |run: u64| RunId(run).day() != day;
        self.known.forget_day(day);
        self.births.retain(stays);
        let done = self.closes.flushing[..self.closes.flushed].iter().filter(|(run, _)| stays(*run)).count();
        self.closes.flushing.retain(|(run, _)| stays(*run));
        self.closes.flushed = done;
        self.closes.pending.retain(|(run, _)| stays(*run));
        self.closes.dropped.push(day);
    }
}
