//! What a verb has read under its locks, and what it is about to write: the rules of the model over the rows that the verb
//! touches and no others.
//!
//! A verb gathers the rows (`super::gather`), decides here in the order it was asked in, and writes what has changed in a few statements
//! (`super::flush`). Rows that are there are locked meanwhile; what is not there yet cannot be locked, so somebody who
//! was faster shows as a broken unique key, and the verb begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Close, Definition, JobId, Join, LogId, NewRun, Part, RunId, ShardId,
    StoppedReason, Text, Token,
};
use punctual_node::ports::{ArrivalKind, Counts, Gate, Lease};

use crate::forgotten::Forgotten;
use crate::tally::count;

/// A run as a verb needs it.
#[derive(Clone, Debug)]
pub(super) struct RunNow {
    pub(super) job: JobId,
    pub(super) shard: ShardId,
    pub(super) due: Timestamp,
    pub(super) key: Option<Text>,
    pub(super) is_far: bool,
    pub(super) is_closed: bool,
    pub(super) wait: Option<Wait>,
    pub(super) gates: BTreeMap<Attempt, Key>,
    /// The resources that it has a place of.
    pub(super) holds: BTreeSet<Text>,
    /// What the tables say of it.
    pub(super) was_waiting: bool,
    pub(super) was_flying: bool,
}

/// What a run waits for instead of its due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// None if it is parked.
    pub(super) ready_at: Option<Timestamp>,
    pub(super) attempt: Attempt,
    pub(super) is_called_back: bool,
}

/// Who has the key of a gate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key {
    /// A send; without a number if it is about to be written.
    Sent(Token, Option<LogId>),
    /// A settlement, which took it so that no gate can have it.
    Unsent,
}

impl RunNow {
    /// Whether an attempt after this one was gated or is waited for.
    pub(super) fn is_beyond(&self, attempt: Attempt) -> bool {
        let gated = self.gates.last_key_value().map(|(last, _)| *last);
        gated.max(self.wait.map(|wait| wait.attempt)) > Some(attempt)
    }

    /// Whether the run has come as far as this attempt, which no gate has: nothing sends an attempt that it does not
    /// wait for.
    pub(super) fn reaches(&self, attempt: Attempt) -> bool {
        attempt <= self.wait.map_or(Attempt::FIRST, |wait| wait.attempt)
    }

    pub(super) fn is_flying(&self) -> bool {
        !self.is_closed && !self.gates.is_empty()
    }
}

/// A clock, with what else is needed of its job.
#[derive(Clone, Debug)]
pub(super) struct ClockNow {
    pub(super) version: u64,
    pub(super) next_fire: Option<Timestamp>,
    pub(super) is_enabled: bool,
    pub(super) decided: Timestamp,
    pub(super) reserved: Timestamp,
    /// Read only where the end of a run may set the clock.
    pub(super) definition: Option<Definition>,
}

/// The end of a run that is to be written.
pub(super) struct End {
    pub(super) run: RunId,
    pub(super) is_far: bool,
    pub(super) close: Close,
    pub(super) unsent: Option<Attempt>,
    pub(super) attempt: Option<AttemptRecord>,
}

/// What is kept of a split.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinNow {
    pub(super) join: Join,
    pub(super) first_part: RunId,
    pub(super) last_part: RunId,
}

/// Who has the key that came with a run, and until when if that run is closed.
pub(super) type Keyed = (RunId, Option<Timestamp>);

/// What a day gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct DayMore {
    pub(super) runs: i64,
    pub(super) closed: i64,
    pub(super) due: (i64, i64),
    pub(super) fire: (i64, i64),
}

impl Default for DayMore {
    fn default() -> DayMore {
        DayMore { runs: 0, closed: 0, due: (i64::MAX, i64::MIN), fire: (i64::MAX, i64::MIN) }
    }
}

/// The rows that a verb touches.
#[derive(Default)]
pub(super) struct Sheet {
    pub(super) now: Timestamp,
    pub(super) key_ttl: Duration,
    pub(super) shards: u16,
    pub(super) forgotten: Forgotten,
    pub(super) current: BTreeSet<Lease>,
    pub(super) far_days: BTreeSet<u32>,
    pub(super) runs: BTreeMap<RunId, RunNow>,
    /// Ids that are taken by runs of which nothing else is known.
    pub(super) there: BTreeSet<RunId>,
    pub(super) named: BTreeMap<(Timestamp, JobId), RunId>,
    pub(super) keys: BTreeMap<(JobId, Text), Keyed>,
    pub(super) holds: BTreeMap<(Text, u32), RunId>,
    pub(super) clocks: BTreeMap<JobId, ClockNow>,
    pub(super) counts: BTreeMap<JobId, Counts>,
    pub(super) joins: BTreeMap<RunId, JoinNow>,
    pub(super) writes: Writes,
}

/// What has changed.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) runs: Vec<NewRun>,
    pub(super) births: BTreeMap<ShardId, Timestamp>,
    pub(super) days: BTreeMap<u32, DayMore>,
    /// Keys as they were before, where they were.
    pub(super) keys: BTreeMap<(JobId, Text), Option<Keyed>>,
    pub(super) ends: Vec<End>,
    pub(super) attempts: BTreeMap<(RunId, Attempt), AttemptRecord>,
    pub(super) sends: Vec<Gate>,
    pub(super) touched: BTreeSet<RunId>,
    pub(super) holds: Vec<(Text, u32, RunId)>,
    pub(super) freed: BTreeSet<RunId>,
    pub(super) clocks: BTreeSet<JobId>,
    pub(super) stops: BTreeMap<JobId, StoppedReason>,
    /// Counts as they are now, and whether there was a row.
    pub(super) counts: BTreeMap<JobId, bool>,
    pub(super) parts: Vec<(RunId, RunId, Part)>,
    pub(super) joins: BTreeMap<RunId, bool>,
    pub(super) arrivals: Vec<(ShardId, ArrivalKind)>,
    pub(super) changes: Vec<JobId>,
}

impl Sheet {
    /// Writes a run, or says which run has its identity already.
    pub(super) fn insert(&mut self, new: NewRun) -> Result<RunId, RunId> {
        if let Some(there) = self.same_as(&new) {
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
        let run = RunNow {
            job: new.job,
            shard: new.shard,
            due: new.due,
            key: new.key.clone(),
            is_far: self.far_days.contains(&id.day()),
            is_closed: false,
            wait: None,
            gates: BTreeMap::new(),
            holds: BTreeSet::new(),
            was_waiting: false,
            was_flying: false,
        };
        self.runs.insert(id, run);
        self.writes.runs.push(new);
        Ok(id)
    }

    /// Writes a run that is closed from the start, unless it is there.
    pub(super) fn insert_closed(&mut self, new: NewRun, close: Close) {
        if let Ok(id) = self.insert(new) {
            self.close(id, close, None, None);
        }
    }

    /// The run that is there in the place of this one.
    fn same_as(&self, new: &NewRun) -> Option<RunId> {
        if self.there.contains(&new.id) || self.runs.contains_key(&new.id) {
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

    fn set_key(&mut self, job: JobId, key: Text, keyed: Keyed) {
        let before = self.keys.insert((job, key.clone()), keyed);
        self.writes.keys.entry((job, key)).or_insert(before);
    }

    /// Closes an open run with all that follows in the store: counters, free holds, the end of its key.
    pub(super) fn close(
        &mut self,
        id: RunId,
        close: Close,
        unsent: Option<Attempt>,
        attempt: Option<AttemptRecord>,
    ) {
        let job = self.runs[&id].job;
        let had_row = self.counts.contains_key(&job);
        let counts = self.counts.entry(job).or_default();
        count(counts, &close);
        self.writes.counts.entry(job).or_insert(had_row);
        self.shut(id, close, unsent, attempt);
    }

    /// As [`Sheet::close`], but its job does not count it.
    pub(super) fn shut(
        &mut self,
        id: RunId,
        close: Close,
        unsent: Option<Attempt>,
        attempt: Option<AttemptRecord>,
    ) {
        let run = self.runs.get_mut(&id).expect("only runs that are there are closed");
        run.wait = None;
        run.is_closed = true;
        if let Some(unsent) = unsent {
            run.gates.insert(unsent, Key::Unsent);
        }
        let (job, key, is_far) = (run.job, run.key.clone(), run.is_far);
        if let Some(key) = key
            && self.keys.get(&(job, key.clone())).is_some_and(|(run, _)| *run == id)
        {
            self.set_key(job, key, (id, Some(close.closed_at.saturating_add(self.key_ttl))));
        }
        self.free_holds(id);
        self.writes.touched.insert(id);
        self.writes.days.entry(id.day()).or_default().closed += 1;
        self.writes.ends.push(End { run: id, is_far, close, unsent, attempt });
    }

    /// Gives back the places that a run has.
    pub(super) fn free_holds(&mut self, id: RunId) {
        if let Some(run) = self.runs.get_mut(&id)
            && !std::mem::take(&mut run.holds).is_empty()
        {
            self.holds.retain(|_, holder| *holder != id);
            self.writes.freed.insert(id);
        }
    }

    pub(super) fn edit(&mut self, id: RunId, edit: impl FnOnce(&mut RunNow)) {
        if let Some(run) = self.runs.get_mut(&id) {
            edit(run);
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

    /// What lies there already is not left twice; what lies in the table is seen to when it is written.
    pub(super) fn leave(&mut self, shard: ShardId, kind: ArrivalKind) {
        if !self.writes.arrivals.contains(&(shard, kind)) {
            self.writes.arrivals.push((shard, kind));
        }
    }
}
