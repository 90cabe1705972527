//! The rows that a verb has read under its locks, and the differences that it writes.
//!
//! Rows that exist are locked meanwhile. A row that does not exist yet cannot be locked, so a faster transaction shows as a
//! violated unique key, and the verb begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Close, Definition, JobId, Join, NewRun, Part, RunId, ShardId, StoppedReason, Text,
};
use punctual_node::ports::{ArrivalKind, Counts, Gate, Lease};

use super::counts::count;
use super::forgotten::Forgotten;
use super::run_progress::{GateOwner, RunProgress};
use crate::code::arrival_code;

/// A run that is locked, as far as verbs need it.
#[derive(Clone, Debug)]
pub(crate) struct LockedRun {
    pub(crate) job: JobId,
    pub(crate) shard: ShardId,
    pub(crate) due: Timestamp,
    pub(crate) key: Option<Text>,
    pub(crate) progress: RunProgress,
    /// Whether it had a row in `waiting` when it was read.
    pub(crate) was_waiting: bool,
    /// Whether it had a row in `flights` when it was read.
    pub(crate) was_flying: bool,
}

impl LockedRun {
    /// A run that is open, without gates, and waits for its due time.
    pub(crate) fn open(job: JobId, shard: ShardId, due: Timestamp, key: Option<Text>) -> LockedRun {
        LockedRun {
            job,
            shard,
            due,
            key,
            progress: RunProgress::default(),
            was_waiting: false,
            was_flying: false,
        }
    }
}

/// A clock that is locked, with what else is needed of its job.
#[derive(Clone, Debug)]
pub(crate) struct LockedClock {
    pub(crate) shard: ShardId,
    pub(crate) version: u64,
    pub(crate) next_fire: Option<Timestamp>,
    pub(crate) is_enabled: bool,
    pub(crate) decided: Timestamp,
    pub(crate) reserved: Timestamp,
    /// Read only where the end of a run may set the clock.
    pub(crate) definition: Option<Definition>,
}

/// The close of a run that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloseRow<'v> {
    pub(crate) run: RunId,
    pub(crate) close: &'v Close,
    /// The attempt that it keeps from being sent.
    pub(crate) unsent: Option<Attempt>,
    /// The attempt that it ended.
    pub(crate) attempt: Option<&'v AttemptRecord>,
}

/// How many parts of a split run are open, and between which ids its parts lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinRow {
    pub(crate) join: Join,
    pub(crate) first_part: RunId,
    pub(crate) last_part: RunId,
}

/// The run that owns the key that came with it, and until when if that run is closed.
pub(crate) type KeyOwner = (RunId, Option<Timestamp>);

/// What the counters of a day are raised by, and which instants its runs cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DayDelta {
    pub(crate) runs: i64,
    pub(crate) closed: i64,
    pub(crate) due: (i64, i64),
    pub(crate) fire: (i64, i64),
}

impl Default for DayDelta {
    fn default() -> DayDelta {
        DayDelta { runs: 0, closed: 0, due: (i64::MAX, i64::MIN), fire: (i64::MAX, i64::MIN) }
    }
}

/// The rows that a verb touches.
#[derive(Default)]
pub(crate) struct UnitOfWork<'v> {
    pub(crate) now: Timestamp,
    pub(crate) key_ttl: Duration,
    pub(crate) shards: u16,
    pub(crate) forgotten: Forgotten,
    /// Leases that are current.
    pub(crate) current: BTreeSet<Lease>,
    pub(crate) runs: BTreeMap<RunId, LockedRun>,
    /// Ids that are taken by runs of which nothing else is known.
    pub(crate) taken_ids: BTreeSet<RunId>,
    pub(crate) named: BTreeMap<(Timestamp, JobId), RunId>,
    pub(crate) keys: BTreeMap<(JobId, Text), KeyOwner>,
    pub(crate) holds: BTreeMap<(Text, u32), RunId>,
    pub(crate) clocks: BTreeMap<JobId, LockedClock>,
    /// Counts as they were read; where a database adds up, none were, and these are what is to be added.
    pub(crate) counts: BTreeMap<JobId, Counts>,
    pub(crate) joins: BTreeMap<RunId, JoinRow>,
    pub(crate) writes: WriteSet<'v>,
}

/// The differences that a verb writes.
#[derive(Default)]
pub(crate) struct WriteSet<'v> {
    pub(crate) runs: Vec<&'v NewRun>,
    /// The least due time of new runs in each shard.
    pub(crate) births: BTreeMap<ShardId, Timestamp>,
    pub(crate) days: BTreeMap<u32, DayDelta>,
    /// Keys with their owners before, if they had one.
    pub(crate) keys: BTreeMap<(JobId, Text), Option<KeyOwner>>,
    pub(crate) closes: Vec<CloseRow<'v>>,
    pub(crate) attempts: BTreeMap<(RunId, Attempt), &'v AttemptRecord>,
    pub(crate) sends: Vec<&'v Gate>,
    /// Runs of which waiting or being in flight may have changed.
    pub(crate) touched: BTreeSet<RunId>,
    pub(crate) holds: Vec<(Text, u32, RunId)>,
    pub(crate) freed: BTreeSet<RunId>,
    pub(crate) clocks: BTreeSet<JobId>,
    pub(crate) stops: BTreeMap<JobId, StoppedReason>,
    /// Jobs whose counts changed, and whether they had been read.
    pub(crate) counts: BTreeMap<JobId, bool>,
    pub(crate) parts: Vec<(RunId, RunId, &'v Part)>,
    pub(crate) joins: BTreeSet<RunId>,
    pub(crate) arrivals: Vec<(ShardId, ArrivalKind)>,
    arrival_codes: BTreeSet<(ShardId, (i64, RunId, i64))>,
    pub(crate) changes: Vec<JobId>,
}

impl<'v> UnitOfWork<'v> {
    /// Writes a run, or says which run has its identity already.
    pub(crate) fn insert(&mut self, new: &'v NewRun) -> Result<RunId, RunId> {
        if let Some(there) = self.same_as(new) {
            return Err(there);
        }
        let id = new.id;
        if new.is_named() {
            self.named.insert((new.fire_time, new.job), id);
        }
        if let Some(key) = &new.key {
            self.set_key(new.job, key.clone(), (id, None));
        }
        if new.shard.0 < self.shards {
            let least = self.writes.births.entry(new.shard).or_insert(new.due);
            *least = (*least).min(new.due);
        }
        let (due, fire) = (new.due.as_millis(), new.fire_time.as_millis());
        let day = self.writes.days.entry(id.day()).or_default();
        day.runs += 1;
        day.due = (day.due.0.min(due), day.due.1.max(due));
        day.fire = (day.fire.0.min(fire), day.fire.1.max(fire));
        self.runs.insert(id, LockedRun::open(new.job, new.shard, new.due, new.key.clone()));
        self.writes.runs.push(new);
        Ok(id)
    }

    /// Writes a run that is closed from the start, unless it exists.
    pub(crate) fn insert_closed(&mut self, new: &'v NewRun, close: &'v Close) {
        if let Ok(id) = self.insert(new) {
            self.close(CloseRow { run: id, close, unsent: None, attempt: None });
        }
    }

    /// The run that exists in the place of this one.
    fn same_as(&self, new: &NewRun) -> Option<RunId> {
        if self.taken_ids.contains(&new.id) || self.runs.contains_key(&new.id) {
            return Some(new.id);
        }
        if let Some(key) = &new.key
            && let Some((run, expires_at)) = self.keys.get(&(new.job, key.clone()))
            && expires_at.is_none_or(|at| self.now < at)
        {
            return Some(*run);
        }
        let is_named = new.is_named();
        self.named.get(&(new.fire_time, new.job)).copied().filter(|_| is_named)
    }

    fn set_key(&mut self, job: JobId, key: Text, owner: KeyOwner) {
        let before = self.keys.insert((job, key.clone()), owner);
        self.writes.keys.entry((job, key)).or_insert(before);
    }

    /// Closes an open run with all that follows in the store: counters, free holds, the end of its key.
    pub(super) fn close(&mut self, row: CloseRow<'v>) {
        let job = self.runs[&row.run].job;
        let was_read = self.counts.contains_key(&job);
        count(self.counts.entry(job).or_default(), row.close);
        self.writes.counts.entry(job).or_insert(was_read);
        self.close_uncounted(row);
    }

    /// As [`UnitOfWork::close`], but the job does not count it.
    pub(super) fn close_uncounted(&mut self, row: CloseRow<'v>) {
        let id = row.run;
        let run = self.runs.get_mut(&id).expect("only runs that exist are closed");
        run.progress.wait = None;
        run.progress.is_closed = true;
        if let Some(unsent) = row.unsent {
            run.progress.gates.insert(unsent, GateOwner::Unsent);
        }
        let (job, key) = (run.job, run.key.clone());
        if let Some(key) = key
            && self.keys.get(&(job, key.clone())).is_some_and(|(run, _)| *run == id)
        {
            self.set_key(job, key, (id, Some(row.close.closed_at.saturating_add(self.key_ttl))));
        }
        self.free_holds(id);
        self.writes.touched.insert(id);
        self.writes.days.entry(id.day()).or_default().closed += 1;
        self.writes.closes.push(row);
    }

    /// Gives back the places that a run has.
    pub(super) fn free_holds(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && !std::mem::take(&mut run.progress.holds).is_empty()
        {
            self.holds.retain(|_, holder| *holder != id);
            self.writes.freed.insert(id);
        }
    }

    pub(super) fn edit(&mut self, id: RunId, edit: impl FnOnce(&mut RunProgress)) {
        if let Some(run) = self.runs.get_mut(&id) {
            edit(&mut run.progress);
            self.writes.touched.insert(id);
        }
    }

    /// Stops a job that no person stopped. The version stays, but the nodes that know the job must hear of it.
    pub(super) fn stop(&mut self, id: JobId, reason: StoppedReason) {
        if let Some(clock) = self.clocks.get_mut(&id) {
            clock.is_enabled = false;
        }
        self.writes.clocks.insert(id);
        self.writes.stops.insert(id, reason);
        self.writes.changes.push(id);
    }

    /// Leaves a message for the holder of a shard. One that is in the table already is left out when this one is written.
    pub(crate) fn leave(&mut self, shard: ShardId, kind: ArrivalKind) {
        if self.writes.arrival_codes.insert((shard, arrival_code(kind))) {
            self.writes.arrivals.push((shard, kind));
        }
    }
}
