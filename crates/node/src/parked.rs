//! Which jobs have runs parked in the store, and which of those runs may be called back. Only the holder of a shard
//! parks, so it knows all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

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
    /// A call: their job was changed, or has room again, or nothing of that was checked yet.
    Call,
    /// Room in the due queue.
    Room,
    /// Room at their job; or the store, which is calling them back.
    Job,
    /// The start of their job, which is stopped. They are no backlog.
    Start,
}

#[derive(Clone, Copy, Debug)]
struct ParkedJob {
    waits_for: WaitsFor,
    since_change: bool,
    /// When the first of them that this node parked was due; the beginning of time for those it found.
    first: Timestamp,
    /// How many this node parked and has not called back; one for those it found. Those that are cancelled meanwhile are
    /// counted until the others are called back.
    count: u64,
}

impl ParkedJob {
    /// How many of them would run if there were room.
    fn waiting(&self) -> u64 {
        if self.waits_for == WaitsFor::Start { 0 } else { self.count }
    }
}

/// All of those.
#[derive(Debug, Default)]
pub(crate) struct ParkedJobs {
    entries: BTreeMap<(JobId, ShardId), ParkedJob>,
    /// Those that may be called back, by due time.
    due: BTreeSet<(Timestamp, JobId, ShardId)>,
    /// Those that wait for room, by due time.
    roomless: BTreeSet<(Timestamp, JobId, ShardId)>,
    /// How many runs would run if there were room.
    waiting: u64,
}

impl ParkedJobs {
    /// A run of the job was parked that was due then.
    pub(crate) fn note(&mut self, job: JobId, shard: ShardId, due: Timestamp) {
        self.put(job, shard, |entry| {
            let first = entry.first.min(due);
            ParkedJob { waits_for: WaitsFor::Call, first, count: entry.count + 1, ..entry }
        });
    }

    /// The last holder of the shard has parked runs of the job.
    pub(crate) fn adopt(&mut self, job: JobId, shard: ShardId) {
        if !self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |_| ParkedJob {
                waits_for: WaitsFor::Call,
                since_change: true,
                first: Timestamp::MIN,
                count: 1,
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
                ParkedJob { waits_for: WaitsFor::Call, since_change, ..entry }
            });
        }
        !shards.is_empty()
    }

    /// Notes that this many of them were called back.
    pub(crate) fn note_called(&mut self, job: JobId, shard: ShardId, called: u64) {
        if self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |entry| ParkedJob { count: entry.count.saturating_sub(called), ..entry });
        }
    }

    /// How many runs would run if there were room for them.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// When the first was due of those that may be called back or wait for room, as far as this node parked them.
    pub(crate) fn earliest(&self) -> Option<Timestamp> {
        let known = (Bound::Excluded((Timestamp::MIN, JobId(u32::MAX), ShardId(u16::MAX))), Bound::Unbounded);
        let first = |set: &BTreeSet<(Timestamp, JobId, ShardId)>| set.range(known).next().map(|(at, ..)| *at);
        [first(&self.due), first(&self.roomless)].into_iter().flatten().min()
    }

    /// Notes what they wait for from now on.
    pub(crate) fn wait_for(&mut self, job: JobId, shard: ShardId, waits_for: WaitsFor) {
        if self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |entry| ParkedJob { waits_for, ..entry });
        }
    }

    /// Notes that those that were due before this were called back, and that others are left.
    pub(crate) fn advance(&mut self, job: JobId, shard: ShardId, first: Timestamp) {
        if self.entries.contains_key(&(job, shard)) {
            self.put(job, shard, |entry| ParkedJob { first: entry.first.max(first), ..entry });
        }
    }

    pub(crate) fn is_due(&self, job: JobId, shard: ShardId) -> bool {
        self.entries.get(&(job, shard)).is_some_and(|entry| entry.waits_for == WaitsFor::Call)
    }

    /// There is room in the due queue: the runs that wait for it may be called back. Whether there are any.
    pub(crate) fn find_room(&mut self) -> bool {
        let roomless = std::mem::take(&mut self.roomless);
        for (_, job, shard) in &roomless {
            self.put(*job, *shard, |entry| ParkedJob { waits_for: WaitsFor::Call, ..entry });
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
            self.waiting -= entry.waiting();
            self.due.remove(&(entry.first, job, shard));
            self.roomless.remove(&(entry.first, job, shard));
        }
    }

    /// The shard is another node's.
    pub(crate) fn leave(&mut self, shard: ShardId) {
        self.entries.retain(|(_, of), _| *of != shard);
        self.due.retain(|(_, _, of)| *of != shard);
        self.roomless.retain(|(_, _, of)| *of != shard);
        self.waiting = self.entries.values().map(ParkedJob::waiting).sum();
    }

    fn put(&mut self, job: JobId, shard: ShardId, change: impl FnOnce(ParkedJob) -> ParkedJob) {
        let none =
            ParkedJob { waits_for: WaitsFor::Job, since_change: false, first: Timestamp::MAX, count: 0 };
        let before = self.entries.get(&(job, shard)).copied().unwrap_or(none);
        let after = change(before);
        self.waiting = self.waiting - before.waiting() + after.waiting();
        self.due.remove(&(before.first, job, shard));
        self.roomless.remove(&(before.first, job, shard));
        match after.waits_for {
            WaitsFor::Call => drop(self.due.insert((after.first, job, shard))),
            WaitsFor::Room => drop(self.roomless.insert((after.first, job, shard))),
            WaitsFor::Job | WaitsFor::Start => {}
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
        assert_eq!((parked.waiting(), parked.earliest()), (0, None));
    }

    #[test]
    fn what_waits_is_counted_unless_its_job_is_stopped() {
        let (mut parked, shard) = (ParkedJobs::default(), ShardId(0));
        for job in [1, 1, 1, 2] {
            parked.note(JobId(job), shard, at(i64::from(job) * 10));
        }
        parked.adopt(JobId(3), shard);
        assert_eq!(
            (parked.waiting(), parked.earliest()),
            (5, Some(at(10))),
            "nobody knows since when the third"
        );
        parked.wait_for(JobId(1), shard, WaitsFor::Start);
        assert_eq!((parked.waiting(), parked.earliest()), (2, Some(at(20))));
        parked.wait_for(JobId(2), shard, WaitsFor::Room);
        assert_eq!((parked.waiting(), parked.earliest()), (2, Some(at(20))));
        assert!(parked.call(JobId(1), true));
        parked.note_called(JobId(1), shard, 2);
        assert_eq!((parked.waiting(), parked.earliest()), (3, Some(at(10))));
        parked.forget(JobId(1), shard);
        parked.note_called(JobId(3), shard, 9);
        assert_eq!(parked.waiting(), 1);
    }
}
