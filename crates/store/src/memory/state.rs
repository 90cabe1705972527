//! What is kept: the rows, and the indexes that follow from them.
//!
//! An index is never written by a verb. A verb edits a row through [`State::edit_run`] or [`State::edit_job`], and
//! these move the row to the place in the indexes that its new contents ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    Attempt, AttemptRecord, Close, Definition, JobId, JobState, Join, LogId, NewRun, NodeId, Part, RunId,
    ShardId, Text, Token, When,
};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    AppRow, Arrival, Bucket, Counts, Digest, ExecutorRow, KeptAnswer, KeptLog, KillNote, PlannedTo,
    RequestKey, Revision, TokenRow,
};

use super::counts::count;

/// Everything that is stored.
pub(super) struct State {
    /// How long a key outlives its run.
    pub(super) key_ttl: Duration,

    /// Never forgotten: a row that has expired is the tombstone that fences its incarnation for ever.
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) shards: BTreeMap<ShardId, Shard>,
    pub(super) last_epoch: u64,

    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Every change so far; the first has the number 1.
    pub(super) changes: Vec<JobId>,
    /// Of these, so many are forgotten.
    pub(super) forgotten_changes: u64,
    /// Jobs that are not deleted, by app and name.
    pub(super) names: BTreeMap<(String, String), JobId>,
    /// Enabled jobs by when they fire next.
    pub(super) clocks: BTreeSet<(ShardId, Timestamp, JobId)>,
    /// Jobs that are not deleted, by the parents that they name: parent, child, which ends.
    pub(super) children: BTreeSet<(JobId, JobId, When)>,

    pub(super) runs: BTreeMap<RunId, StoredRun>,
    /// Runs that a schedule names, by what identifies them.
    pub(super) planned: BTreeMap<(Timestamp, JobId), RunId>,
    /// Open runs that no gate has and that wait for their due time: what can be loaded.
    pub(super) births: BTreeSet<(ShardId, Timestamp, RunId)>,
    /// Open runs that no gate has and that wait for another instant: what can be loaded too.
    pub(super) waits: BTreeSet<(ShardId, Timestamp, RunId)>,
    /// Open runs that a gate has: what can be adopted.
    pub(super) sent: BTreeSet<(ShardId, RunId)>,
    /// Open runs that wait to be called back, by their due time.
    pub(super) parked: BTreeSet<(ShardId, JobId, Timestamp, RunId)>,
    pub(super) keys: BTreeMap<(JobId, Text), Key>,
    pub(super) holds: BTreeMap<(Text, u32), RunId>,
    /// The runs that wait for resources which take turns, each with its number.
    pub(super) lines: BTreeMap<Text, Vec<(u32, RunId)>>,
    pub(super) last_log: u64,
    /// Whose number is whose.
    pub(super) logs: BTreeMap<LogId, (RunId, Attempt)>,
    pub(super) counts: BTreeMap<JobId, Counts>,

    /// The last number that was given away, per day. It outlives the day's runs.
    pub(super) sequences: BTreeMap<u32, u64>,
    pub(super) buckets: BTreeMap<u32, Bucket>,
    /// Of days before this one, something was dropped.
    pub(super) pruned_to: u32,
    /// Of days before this one, runs of an app were removed.
    pub(super) thinned: BTreeMap<String, u32>,

    pub(super) arrivals: BTreeMap<u64, Arrival>,
    pub(super) arrivals_by_shard: BTreeSet<(ShardId, u64)>,
    pub(super) left: BTreeSet<(ShardId, Wish)>,
    pub(super) last_arrival: u64,

    pub(super) peer_secret: Option<Digest>,
    pub(super) tokens: BTreeMap<u32, TokenRow>,
    pub(super) last_token: u32,
    pub(super) requests: BTreeMap<RequestKey, Request>,

    pub(super) apps: BTreeMap<Text, AppRow>,
    /// By app and address.
    pub(super) executors: BTreeMap<(Text, Text), ExecutorRow>,
}

/// What can be left for a holder: which kind, of which run, for when.
pub(super) type Wish = (u8, RunId, Option<Timestamp>);

/// A node, alive or dead.
pub(super) struct Node {
    pub(super) expires_at: Timestamp,
    pub(super) term: Duration,
    /// The highest mark it ever promised.
    pub(super) mark: Timestamp,
    pub(super) seen: u64,
    pub(super) name: Text,
    pub(super) address: Text,
}

/// A shard.
pub(super) struct Shard {
    /// The node that took it last, dead or alive, unless it was given back.
    pub(super) owner: Option<NodeId>,
    pub(super) epoch: u64,
    /// What all holders before the owner promised together.
    pub(super) inherited: Option<Timestamp>,
    pub(super) checkpoint: Mark,
    /// The earliest birth since the checkpoint was last moved up.
    pub(super) floor: Timestamp,
}

/// A job with its clock.
pub(super) struct Job {
    pub(super) id: JobId,
    pub(super) version: u64,
    pub(super) shard: ShardId,
    pub(super) next_fire: Option<Timestamp>,
    pub(super) planned: PlannedTo,
    pub(super) changed_at: Timestamp,
    pub(super) state: JobState,
    pub(super) definition: Definition,
    pub(super) revisions: Vec<Revision>,
    /// Why the row cannot be read, for tests.
    pub(super) defaced: Option<Text>,
}

/// A run with all that became of it.
pub(super) struct StoredRun {
    pub(super) new: NewRun,
    pub(super) close: Option<Close>,
    pub(super) wait: Option<Wait>,
    /// What has the key (run, attempt). It outlives the close.
    pub(super) gates: BTreeMap<Attempt, GateKey>,
    pub(super) attempts: BTreeMap<Attempt, AttemptRecord>,
    pub(super) holds: Vec<(Text, u32)>,
    /// Which part of the run that it follows it is.
    pub(super) part: Option<Part>,
    /// What has become of its parts.
    pub(super) join: Option<Join>,
    /// Its parts. Their days may be dropped before its own.
    pub(super) parts: Vec<RunId>,
    pub(super) logs: BTreeMap<Attempt, KeptLog>,
    pub(super) kills: BTreeMap<Attempt, KillNote>,
}

/// What a run waits for instead of its due time.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// None if it is parked.
    pub(super) ready_at: Option<Timestamp>,
    pub(super) attempt: Attempt,
    pub(super) is_called_back: bool,
}

/// What has the key of a gate.
pub(super) enum GateKey {
    Sent(Send),
    /// A settlement, which took it so that no gate can have it.
    Unsent,
}

/// A gate.
pub(super) struct Send {
    pub(super) token: Token,
    pub(super) log: LogId,
    pub(super) sent_at: Timestamp,
    pub(super) executor: Text,
}

/// The run that has a caller's key.
pub(super) struct Key {
    pub(super) run: RunId,
    /// None while the run is open.
    pub(super) expires_at: Option<Timestamp>,
}

/// A request that was begun.
pub(super) struct Request {
    pub(super) digest: Digest,
    pub(super) begun_at: Timestamp,
    pub(super) answer: Option<KeptAnswer>,
}

/// Where a run is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunPlace {
    Born(Timestamp),
    Waiting(Timestamp),
    Sent,
    Parked,
    Closed,
}

impl StoredRun {
    /// The last attempt that went through a gate.
    pub(super) fn last_send(&self) -> Option<(Attempt, &Send)> {
        self.gates.iter().rev().find_map(|(attempt, key)| match key {
            GateKey::Sent(send) => Some((*attempt, send)),
            GateKey::Unsent => None,
        })
    }

    /// Whether an attempt after this one was gated or is waited for.
    pub(super) fn is_beyond(&self, attempt: Attempt) -> bool {
        let gated = self.gates.last_key_value().map(|(last, _)| *last);
        let waiting = self.wait.map(|wait| wait.attempt);
        gated.max(waiting) > Some(attempt)
    }

    /// Whether the run has come as far as this attempt, which no gate has: nothing sends an attempt that it does not
    /// wait for.
    pub(super) fn reaches(&self, attempt: Attempt) -> bool {
        attempt <= self.wait.map_or(Attempt::FIRST, |wait| wait.attempt)
    }

    fn place(&self) -> RunPlace {
        match (&self.close, self.wait) {
            (Some(_), _) => RunPlace::Closed,
            (None, Some(Wait { ready_at: None, .. })) => RunPlace::Parked,
            (None, _) if !self.gates.is_empty() => RunPlace::Sent,
            (None, Some(Wait { ready_at: Some(ready_at), .. })) => RunPlace::Waiting(ready_at),
            (None, None) => RunPlace::Born(self.new.due),
        }
    }
}

impl Job {
    fn clock(&self) -> Option<(ShardId, Timestamp, JobId)> {
        self.next_fire.filter(|_| self.state.is_enabled()).map(|next_fire| (self.shard, next_fire, self.id))
    }
}

impl State {
    pub(super) fn new(shards: u16, key_ttl: Duration) -> State {
        let start = Mark { due: Timestamp::MIN, id: 0 };
        let shard = |id| {
            let shard =
                Shard { owner: None, epoch: 0, inherited: None, checkpoint: start, floor: Timestamp::MAX };
            (ShardId(id), shard)
        };
        State {
            key_ttl,
            nodes: BTreeMap::new(),
            shards: (0..shards).map(shard).collect(),
            last_epoch: 0,
            jobs: BTreeMap::new(),
            changes: Vec::new(),
            forgotten_changes: 0,
            names: BTreeMap::new(),
            clocks: BTreeSet::new(),
            children: BTreeSet::new(),
            runs: BTreeMap::new(),
            planned: BTreeMap::new(),
            births: BTreeSet::new(),
            waits: BTreeSet::new(),
            sent: BTreeSet::new(),
            parked: BTreeSet::new(),
            keys: BTreeMap::new(),
            holds: BTreeMap::new(),
            lines: BTreeMap::new(),
            last_log: 0,
            logs: BTreeMap::new(),
            counts: BTreeMap::new(),
            sequences: BTreeMap::new(),
            buckets: BTreeMap::new(),
            pruned_to: 0,
            thinned: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            arrivals_by_shard: BTreeSet::new(),
            left: BTreeSet::new(),
            last_arrival: 0,
            peer_secret: None,
            tokens: BTreeMap::new(),
            last_token: 0,
            requests: BTreeMap::new(),
            apps: BTreeMap::new(),
            executors: BTreeMap::new(),
        }
    }

    /// Writes a run, or says which run has its identity already.
    pub(super) fn insert(&mut self, now: Timestamp, new: NewRun) -> Result<RunId, RunId> {
        if let Some(there) = self.same_as(now, &new) {
            return Err(there);
        }
        let id = new.id;
        if new.is_named() {
            self.planned.insert((new.fire_time, new.job), id);
        }
        if let Some(key) = &new.key {
            self.keys.insert((new.job, key.clone()), Key { run: id, expires_at: None });
        }
        if let Some(shard) = self.shards.get_mut(&new.shard) {
            shard.floor = shard.floor.min(new.due);
            shard.checkpoint = shard.checkpoint.min(Mark { due: new.due, id: 0 });
        }
        let day = id.day();
        self.buckets.entry(day).or_insert(Bucket { day, runs: 0, closed: 0, bytes: 0 }).runs += 1;
        self.births.insert((new.shard, new.due, id));
        let run = StoredRun {
            new,
            close: None,
            wait: None,
            gates: BTreeMap::new(),
            attempts: BTreeMap::new(),
            holds: Vec::new(),
            part: None,
            join: None,
            parts: Vec::new(),
            logs: BTreeMap::new(),
            kills: BTreeMap::new(),
        };
        self.runs.insert(id, run);
        Ok(id)
    }

    /// Writes a run that is closed from the start, unless it is there.
    pub(super) fn insert_closed(&mut self, now: Timestamp, new: NewRun, close: Close) {
        if let Ok(id) = self.insert(now, new) {
            self.close(id, close);
        }
    }

    /// The run that is there in the place of this one.
    fn same_as(&self, now: Timestamp, new: &NewRun) -> Option<RunId> {
        if self.runs.contains_key(&new.id) {
            return Some(new.id);
        }
        if let Some(key) = &new.key
            && let Some(there) = self.keys.get(&(new.job, key.clone()))
            && there.expires_at.is_none_or(|at| now < at)
        {
            return Some(there.run);
        }
        let is_named = new.is_named();
        self.planned.get(&(new.fire_time, new.job)).copied().filter(|_| is_named)
    }

    /// Closes an open run with all that follows in the store: counters, free holds, the end of its key.
    pub(super) fn close(&mut self, id: RunId, close: Close) {
        let job = self.runs[&id].new.job;
        count(self.counts.entry(job).or_default(), &close);
        self.shut(id, close);
    }

    /// As [`State::close`], but its job does not count it.
    pub(super) fn shut(&mut self, id: RunId, close: Close) {
        let run = &self.runs[&id];
        let (job, key) = (run.new.job, run.new.key.clone());
        if let Some(key) = key.and_then(|key| self.keys.get_mut(&(job, key)))
            && key.run == id
        {
            key.expires_at = Some(close.closed_at.saturating_add(self.key_ttl));
        }
        self.free_holds(id);
        self.buckets.get_mut(&id.day()).expect("a run has a bucket").closed += 1;
        self.edit_run(id, |run| {
            run.wait = None;
            run.close = Some(close);
        });
    }

    /// Gives back the places that a run has.
    pub(super) fn free_holds(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        for hold in std::mem::take(&mut run.holds) {
            self.holds.remove(&hold);
        }
        self.lines.retain(|_, line| {
            line.retain(|(_, waits)| *waits != id);
            !line.is_empty()
        });
    }

    /// Edits a run and moves it to where it is found from now on.
    pub(super) fn edit_run(&mut self, id: RunId, edit: impl FnOnce(&mut StoredRun)) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let before = run.place();
        edit(run);
        let after = run.place();
        let NewRun { shard, job, due, .. } = run.new;
        if before == after {
            return;
        }
        match before {
            RunPlace::Born(at) => self.births.remove(&(shard, at, id)),
            RunPlace::Waiting(at) => self.waits.remove(&(shard, at, id)),
            RunPlace::Sent => self.sent.remove(&(shard, id)),
            RunPlace::Parked => self.parked.remove(&(shard, job, due, id)),
            RunPlace::Closed => false,
        };
        match after {
            RunPlace::Born(at) => self.births.insert((shard, at, id)),
            RunPlace::Waiting(at) => self.waits.insert((shard, at, id)),
            RunPlace::Sent => self.sent.insert((shard, id)),
            RunPlace::Parked => self.parked.insert((shard, job, due, id)),
            RunPlace::Closed => false,
        };
    }

    /// Edits the state or the clock of a job and moves it to where it is found from now on.
    pub(super) fn edit_job(&mut self, id: JobId, edit: impl FnOnce(&mut Job)) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let before = job.clock();
        edit(job);
        let after = job.clock();
        if before != after {
            if let Some(place) = before {
                self.clocks.remove(&place);
            }
            self.clocks.extend(after);
        }
    }

    /// Writes down that a job changed, and says the place of that among all changes.
    pub(super) fn log_change(&mut self, job: JobId) -> u64 {
        self.changes.push(job);
        self.changes.len() as u64
    }
}
