//! Which jobs have runs parked in the store, and which of those may be called back. Only the holder of a shard parks, so it
//! knows all of them.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{JobId, ShardId};

/// Parked runs of a job on a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) job: JobId,
    pub(crate) shard: ShardId,
    /// Whether they waited for a change of the job: then that is the moment they become ready.
    pub(crate) since_change: bool,
}

/// What parked runs wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// To be called back: their job was changed, or has room again, or nobody has looked yet.
    Call,
    /// Room in the due queue.
    Room,
    /// Their job: it is stopped, or has no room.
    Job,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waits_for: WaitsFor,
    since_change: bool,
    /// When the first of them that this node parked was due; the beginning of time for those it found.
    first: Timestamp,
}

/// All of those.
#[derive(Debug, Default)]
pub(crate) struct ParkedJobs {
    entries: BTreeMap<(JobId, ShardId), Entry>,
    /// Those that may be called back, by due time.
    due: BTreeSet<(Timestamp, JobId, ShardId)>,
    /// Those that wait for room.
    roomless: BTreeSet<(JobId, ShardId)>,
}

impl ParkedJobs {
    /// A run of the job was parked that was due then.
    pub(crate) fn note(&mut self, job: JobId, shard: ShardId, due: Timestamp) {
        self.put(job, shard, |entry| {
            let first = entry.first.min(due);
            Entry { waits_for: WaitsFor::Call, first, ..entry }
        });
    }

    /// The last holder of the shard has parked runs of the job.
    pub(crate) fn adopt(&mut self, job: JobId, shard: ShardId) {
        if !self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |_| Entry {
                waits_for: WaitsFor::Call,
                since_change: true,
                first: Timestamp::MIN,
            });
        }
    }

    /// Parked runs of the job may have their turn; whether there are any.
    pub(crate) fn call(&mut self, job: JobId, since_change: bool) -> bool {
        let all = (job, ShardId(0))..=(job, ShardId(u16::MAX));
        let shards: Vec<ShardId> = self.entries.range(all).map(|((_, shard), _)| *shard).collect();
        for shard in &shards {
            self.put(job, *shard, |entry| {
                let since_change = entry.since_change || since_change;
                Entry { waits_for: WaitsFor::Call, since_change, ..entry }
            });
        }
        !shards.is_empty()
    }

    /// From now on they wait for this.
    pub(crate) fn wait_for(&mut self, job: JobId, shard: ShardId, waits_for: WaitsFor) {
        if self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |entry| Entry { waits_for, ..entry });
        }
    }

    /// Those that were due before this were called back, and others are left.
    pub(crate) fn advance(&mut self, job: JobId, shard: ShardId, first: Timestamp) {
        if self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |entry| Entry { first: entry.first.max(first), ..entry });
        }
    }

    pub(crate) fn is_due(&self, job: JobId, shard: ShardId) -> bool {
        self.entries.get(&(job, shard)).is_some_and(|entry| entry.waits_for == WaitsFor::Call)
    }

    /// There is room in the due queue: what waits for it may be called back. Whether anything does.
    pub(crate) fn find_room(&mut self) -> bool {
        let roomless = std::mem::take(&mut self.roomless);
        for (job, shard) in &roomless {
            self.put(*job, *shard, |entry| Entry { waits_for: WaitsFor::Call, ..entry });
        }
        !roomless.is_empty()
    }

    /// Those that may be called back, the first to be due first.
    pub(crate) fn due(&self, max: usize) -> Vec<Parked> {
        let parked = |(_, job, shard): &(Timestamp, JobId, ShardId)| {
            let since_change = self.entries.get(&(*job, *shard)).is_some_and(|entry| entry.since_change);
            Parked { job: *job, shard: *shard, since_change }
        };
        self.due.iter().take(max).map(parked).collect()
    }

    /// No run of the job is parked any more.
    pub(crate) fn forget(&mut self, job: JobId, shard: ShardId) {
        if let Some(entry) = self.entries.remove(&(job, shard)) {
            self.due.remove(&(entry.first, job, shard));
            self.roomless.remove(&(job, shard));
        }
    }

    /// The shard is another node's.
    pub(crate) fn leave(&mut self, shard: ShardId) {
        self.entries.retain(|(_, of), _| *of != shard);
        self.due.retain(|(_, _, of)| *of != shard);
        self.roomless.retain(|(_, of)| *of != shard);
    }

    fn put(&mut self, job: JobId, shard: ShardId, change: impl FnOnce(Entry) -> Entry) {
        let none = Entry { waits_for: WaitsFor::Job, since_change: false, first: Timestamp::MAX };
        let before = self.entries.get(&(job, shard)).copied().unwrap_or(none);
        let after = change(before);
        self.due.remove(&(before.first, job, shard));
        self.roomless.remove(&(job, shard));
        match after.waits_for {
            WaitsFor::Call => drop(self.due.insert((after.first, job, shard))),
            WaitsFor::Room => drop(self.roomless.insert((job, shard))),
            WaitsFor::Job => {}
        }
        self.entries.insert((job, shard), after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn jobs(parked: &ParkedJobs) -> Vec<u32> {
        parked.due(9).iter().map(|parked| parked.job.0).collect()
    }

    #[test]
    fn jobs_are_called_back_by_when_their_first_parked_run_was_due() {
        let (mut parked, shard) = (ParkedJobs::default(), ShardId(0));
        parked.note(JobId(1), shard, at(30));
        parked.note(JobId(2), shard, at(20));
        parked.note(JobId(3), shard, at(25));
        parked.note(JobId(1), shard, at(10));
        assert_eq!(jobs(&parked), [1, 2, 3]);
        parked.wait_for(JobId(1), shard, WaitsFor::Job);
        assert_eq!(jobs(&parked), [2, 3]);
        parked.wait_for(JobId(2), shard, WaitsFor::Room);
        assert_eq!(jobs(&parked), [3]);
        assert!(parked.find_room() && !parked.find_room());
        assert_eq!(jobs(&parked), [2, 3]);
        assert!(parked.call(JobId(1), true) && !parked.call(JobId(9), false));
        assert_eq!(parked.due(1), [Parked { job: JobId(1), shard, since_change: true }]);
        parked.advance(JobId(1), shard, at(28));
        assert_eq!(jobs(&parked), [2, 3, 1], "its first ones were called back");
        parked.forget(JobId(2), shard);
        parked.leave(ShardId(1));
        assert_eq!(jobs(&parked), [3, 1]);
        parked.leave(shard);
        assert!(parked.due.is_empty() && parked.entries.is_empty());
    }
}
