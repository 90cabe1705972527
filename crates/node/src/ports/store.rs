//! The store as the steps see it: about twenty verbs, each one statement or one short transaction.
//!
//! Every verb is all or nothing. After [`StoreError::Unknown`] the effect may be there, may still come, or may not, so
//! the caller reads by key or asks again; after every other error nothing was written. Every verb that writes can be
//! asked again with the same values and then changes nothing more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calendar::Timestamp;
use punctual_core::model::{
    Attempt, ChangeId, Child, Close, Decided, Definition, Epoch, Hold, JobId, JobState, Join, LogId, NewRun,
    NodeId, Origin, Overrides, Part, Payload, RunId, Settlement, ShardId, StoppedReason, Text, Token,
};
use punctual_core::wheel::Mark;

/// What a store cannot do, by what the caller does next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Let the shard go: another node holds it, or this incarnation has expired.
    #[error("fenced: {0}")]
    Fenced(Text),
    /// Try again after a pause; whether the effect is there is not known.
    #[error("store unavailable: {0}")]
    Unknown(Text),
    /// Try again after a pause. The store cannot be used at the moment, and this verb certainly did nothing.
    #[error("store away, nothing was done: {0}")]
    Away(Text),
    /// Try again when there is room.
    #[error("store full: {0}")]
    Full(Text),
    /// Tell a person: another caller changed it first, or it is not there.
    #[error("conflict: {0}")]
    Conflict(Text),
    /// Set the row aside and tell a person. No repetition helps.
    #[error("cannot read {what}: {reason}")]
    Corrupt {
        /// The table and the row.
        what: Text,
        /// What is wrong with it.
        reason: Text,
    },
}

/// The right of a node to act for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The shard.
    pub shard: ShardId,
    /// The holder's epoch.
    pub epoch: Epoch,
}

/// What a node says when it renews its one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The node.
    pub node: NodeId,
    /// How long the row is to live from now on, by the store's clock.
    pub term: Duration,
    /// The promise: until the next renewal is answered, no ungated send of a run ready at or after this begins.
    pub mark: Timestamp,
    /// Every change up to this one is in the node's memory.
    pub seen: ChangeId,
    /// What people call it.
    pub name: Text,
    /// Where others reach it.
    pub address: Text,
    /// For each shard whose checkpoint is to move up: every run of it below this place that the node can know of is closed,
    /// waiting, parked or gated, so a later load may begin here. The store moves it no further than to the first birth
    /// since it last moved, and back to every birth that comes below it; and not at all for a renewal that comes late,
    /// after one with a higher mark.
    pub checkpoints: Vec<(Lease, Mark)>,
}

/// What the store answers to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The store's clock.
    pub now: Timestamp,
    /// Every node that has not expired, this one included.
    pub nodes: Vec<NodeRow>,
    /// Every shard.
    pub shards: Vec<ShardRow>,
    /// Jobs that changed after [`Renewal::seen`], oldest first, at most 1,000; the rest comes with the next.
    pub changes: Vec<(ChangeId, JobId)>,
    /// The last change of all; 0 if there was none.
    pub latest: ChangeId,
    /// Shards of this node for which something has arrived.
    pub arrivals: Vec<ShardId>,
}

/// A node that has not expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The node.
    pub node: NodeId,
    /// What people call it.
    pub name: Text,
    /// Where it is reached.
    pub address: Text,
    /// When its term ends, by the store's clock, if it is not renewed.
    pub expires_at: Timestamp,
}

/// The holder of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRow {
    /// The shard.
    pub shard: ShardId,
    /// The holder, if there is one whose row has not expired.
    pub owner: Option<NodeId>,
    /// The last epoch given for it; 0 if none ever was.
    pub epoch: Epoch,
    /// Where loading may begin.
    pub checkpoint: Mark,
}

/// A shard that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The new right.
    pub lease: Lease,
    /// What the last holder promised: nothing ready at or after this was sent without a gate. None if the shard
    /// never had a holder.
    pub mark: Option<Timestamp>,
    /// Where loading may begin: the checkpoint, or the first instant that a run waits for if that is earlier.
    pub checkpoint: Mark,
}

/// When an enabled job fires next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRow {
    /// The job.
    pub job: JobId,
    /// Its shard.
    pub shard: ShardId,
    /// The next instant that is not yet planned.
    pub next_fire: Timestamp,
    /// Grows with every change of the job.
    pub version: u64,
    /// What planning has done so far.
    pub planned: PlannedTo,
}

/// How far planning has come with a job, under whatever version. Neither ever falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTo {
    /// Every instant up to here is decided for good: by plans, and by changes (up to [`Change::at`]). No clock that is
    /// set back and no edit names one of them again, not even when their records are long dropped.
    pub decided: Timestamp,
    /// The latest instant that has a run. Instants between the two may have runs of an earlier version.
    pub reserved: Timestamp,
}

impl Default for PlannedTo {
    fn default() -> PlannedTo {
        PlannedTo { decided: Timestamp::MIN, reserved: Timestamp::MIN }
    }
}

/// A job's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRow {
    /// Its identity.
    pub id: JobId,
    /// Grows with every change of definition or state; planning does not touch it.
    pub version: u64,
    /// Its shard.
    pub shard: ShardId,
    /// The next instant that is not yet planned, if there is one.
    pub next_fire: Option<Timestamp>,
    /// What planning has done so far.
    pub planned: PlannedTo,
    /// [`Change::at`] of its last change.
    pub changed_at: Timestamp,
    /// Whether it fires.
    pub state: JobState,
    /// What people wrote.
    pub definition: Definition,
    /// Jobs, not deleted, whose [`Definition::after`] names this one.
    pub children: Vec<Child>,
}

/// A job's clock moved forward, with a record for every instant it passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// For whom. A stale epoch overtakes the plan, as a courtesy; the compare-and-set is the fence.
    pub lease: Lease,
    /// The row as it was read: written only if next fire, version and being enabled are still so.
    pub clock: ClockRow,
    /// Where the clock goes; none if nothing further is named (yet).
    pub next: Option<Timestamp>,
    /// Runs to be written; one whose (job, fire time) is there already stays as it is.
    pub runs: Vec<NewRun>,
    /// A run that stands for instants that are not run, closed at once.
    pub skipped: Option<(NewRun, Close)>,
    /// Every instant up to here is decided with this plan: the clock's row keeps the greatest, and the greatest fire
    /// time among `runs`.
    pub decided_to: Timestamp,
    /// Set if the job stops here. That is no change by a person: the version stays.
    pub stop: Option<StoppedReason>,
}

/// What became of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The clock was moved. Ids of the runs that were newly written; those not among them were there before.
    Moved(Vec<RunId>),
    /// Another writer moved or changed the clock first; nothing was written.
    Overtaken,
}

/// An open run as the wheel needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its shard.
    pub shard: ShardId,
    /// The instant that was named for it.
    pub fire_time: Timestamp,
    /// When it is to be started: its due time, or when its wait ends.
    pub ready_at: Timestamp,
    /// The attempt that is to be made.
    pub attempt: Attempt,
    /// 0 goes first.
    pub priority: u8,
    /// Where it comes from.
    pub origin: Origin,
    /// What was decided about its lateness.
    pub decided: Decided,
    /// Whether it brings a payload that has to be fetched.
    pub has_payload: bool,
    /// Whether it was parked, and called back to be ready at that instant.
    pub is_called_back: bool,
    /// Its overrides.
    pub overrides: Option<Arc<Overrides>>,
}

impl From<&NewRun> for Waiting {
    /// A run as it is born, at its first attempt.
    fn from(run: &NewRun) -> Waiting {
        Waiting {
            run: run.id,
            job: run.job,
            shard: run.shard,
            fire_time: run.fire_time,
            ready_at: run.due,
            attempt: Attempt::FIRST,
            priority: run.priority,
            origin: run.origin,
            decided: run.decided,
            has_payload: run.payload.is_some(),
            is_called_back: false,
            overrides: run.overrides.clone(),
        }
    }
}

/// Open runs in the order (ready at, id).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Open runs that have no gate.
    pub runs: Vec<Waiting>,
    /// The first place that was not read; none if everything before `until` was.
    pub rest: Option<Mark>,
}

/// A run that went through a gate and is open: in flight, or between two attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenSend {
    /// The run; `attempt` is the last one that was gated.
    pub run: Waiting,
    /// The token of that attempt.
    pub token: Token,
    /// Its number.
    pub log: LogId,
    /// When it was gated.
    pub sent_at: Timestamp,
    /// Where it went.
    pub executor: Text,
    /// When the next attempt is due, if the last one has ended.
    pub retry: Option<(Timestamp, Attempt)>,
    /// What has become of its parts, if it was split.
    pub join: Option<Join>,
}

/// Which parked runs of a shard are made ready: the earliest of each job (by due time, then id), up to its number, and
/// of all those the earliest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpark {
    /// The shard, and the right to act for it.
    pub lease: Lease,
    /// The jobs, and how many runs of each at most.
    pub jobs: Vec<(JobId, usize)>,
    /// How many runs in all at most.
    pub max: usize,
    /// When they are ready.
    pub at: Timestamp,
}

impl Unpark {
    /// The earliest of one job.
    pub fn of(lease: Lease, job: JobId, max: usize, at: Timestamp) -> Unpark {
        Unpark { lease, jobs: vec![(job, max)], max, at }
    }
}

/// What the last holders of shards left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Open runs that have a gate.
    pub sends: Vec<OpenSend>,
    /// Jobs that have parked runs, each with the shard of those.
    pub parked: Vec<(ShardId, JobId)>,
}

/// A run with everything that a send needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// As the wheel has it; for a run that waits, with the attempt and the instant it waits for.
    pub waiting: Waiting,
    /// What it brings.
    pub payload: Option<Payload>,
    /// Whether it is closed.
    pub is_closed: bool,
    /// Whether any gate was written for it.
    pub is_gated: bool,
    /// Whether it is parked.
    pub is_parked: bool,
    /// The run that it is a part of, and which.
    pub part: Option<(RunId, Part)>,
}

/// A broadcast run that falls into parts. Its own gate says that it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The gate of the whole.
    pub gate: Gate,
    /// The parts: runs with [`Origin::Part`], of the same job and shard, each `of` the whole.
    pub parts: Vec<(NewRun, Part)>,
}

/// The send that a gate's number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRow {
    /// The number.
    pub log: LogId,
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// When it was gated.
    pub sent_at: Timestamp,
    /// Where it went.
    pub executor: Text,
}

/// A send, written down before its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// For whom; the epoch is not checked, because a check here could be overtaken. The key is the fence.
    pub lease: Lease,
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// The attempt: with the run the key.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// Where it goes.
    pub executor: Text,
    /// When.
    pub sent_at: Timestamp,
    /// Places that it needs, in sorted order, all or none.
    pub holds: Vec<Hold>,
}

/// What became of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gated {
    /// It is written, now or by an earlier call with the same token.
    Through(LogId),
    /// The key is taken: by another token, or by a settlement that took the attempt as unsent.
    Taken(Option<Token>),
    /// The run is closed, or a later attempt of it was gated.
    Closed,
    /// This resource has no free place.
    Held(Text),
    /// This resource takes turns, and it is not the turn of the gate's run: another run has the place, or asked earlier. The
    /// run has its turn from now on.
    Behind(Text, RunId),
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is written. How many runs of the job have failed in a row, in the order of closing, this one included.
    Done {
        /// 0 after a success; cancelled and skipped runs do not count.
        consecutive_failures: u32,
        /// Whether it ended a fixed delay that names no further instant, and the job was stopped with it.
        is_over: bool,
        /// The run that it was the last open part of, and what has become of all of them.
        joined: Option<(RunId, Join)>,
    },
    /// Nothing was written: the run was closed before, or the fence did not hold.
    Stale,
}

/// What became of a run that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is written.
    New(RunId),
    /// Its key, or its (job, fire time), belongs to this run.
    Duplicate(RunId),
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The job and the version it must have; none to create one.
    pub job: Option<(JobId, u64)>,
    /// The new definition, if it changes; always there to create one.
    pub definition: Option<Definition>,
    /// The state from now on.
    pub state: JobState,
    /// What the clock must say, and what it says from now on. To create a job, the first of them is not checked.
    pub clock: ClockEdit,
    /// The person or program that asked, for the revision.
    pub by: Text,
    /// When.
    pub at: Timestamp,
}

/// What a change does to a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockEdit {
    /// The next fire time it must have.
    pub expected: Option<Timestamp>,
    /// How far planning must have come: the clock of a fixed delay is at none again after each of its runs.
    pub planned: PlannedTo,
    /// The first instant after the change.
    pub next_fire: Option<Timestamp>,
    /// Records of the instants that had passed unplanned under the old version, each closed at once; one whose (job, fire
    /// time) is there already stays as it is.
    pub passed: Vec<(NewRun, Close)>,
}

/// A change that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The job.
    pub job: JobId,
    /// Its version from now on.
    pub version: u64,
    /// Its place among all changes.
    pub change: ChangeId,
}

/// Something that was left for the holder of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub id: u64,
    /// For whom.
    pub shard: ShardId,
    /// What.
    pub kind: ArrivalKind,
}

/// What can be left for a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalKind {
    /// A run was written that is due soon.
    Run(RunId),
    /// The run is asked to end.
    Cancel(RunId),
    /// The run is asked to wait for another instant.
    Reschedule(RunId, Timestamp),
    /// The job was deleted, and what it left to be run is to be cancelled. Left for the job's shard.
    Deleted(JobId),
}

/// The shard whose holder takes in what applications leave in transactions of their own.
pub const DOOR_KEEPER: ShardId = ShardId(0);

/// A one-shot that an application left in a transaction of its own. No node has checked it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The number of its arrival.
    pub id: u64,
    /// The job that it names, if there is one.
    pub job: Option<JobId>,
    /// When; at once if not said.
    pub at: Option<Timestamp>,
    /// What it brings.
    pub payload: Option<Payload>,
    /// Its key: a later one-shot of the job with the same key is a duplicate.
    pub key: Option<Text>,
    /// Instead of the job's.
    pub priority: Option<i64>,
}

/// How many changes are kept that every living node has seen.
const CHANGES_KEPT: u64 = 10_000;

/// How long a node's row is kept after it has expired, if it owns no shard.
pub const NODES_KEPT: Duration = Duration::from_secs(86_400);

/// How many revisions of a job are kept.
pub const REVISIONS_MAX: usize = 1_000;

/// How long finished runs are kept: as instants, each after the end of the last day that is old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keep {
    /// For every app that is not among `apps`.
    pub before: Timestamp,
    /// Apps whose runs are kept for another time.
    pub apps: BTreeMap<Text, Timestamp>,
    /// Days in which [`Store::thin`] found none that is still kept, each with the number of runs that it had then.
    pub needless: BTreeMap<u32, u64>,
    /// How many of the last changes are kept even if every node has seen them; the very last always is.
    pub changes: u64,
}

impl Default for Keep {
    fn default() -> Keep {
        let (apps, needless) = (BTreeMap::new(), BTreeMap::new());
        Keep { before: Timestamp::default(), apps, needless, changes: CHANGES_KEPT }
    }
}

impl Keep {
    /// The same for every app.
    pub fn since(before: Timestamp) -> Keep {
        Keep { before, ..Keep::default() }
    }

    /// Whether runs of an app that were born on a day are old.
    pub fn is_old(&self, app: &str, day: u32) -> bool {
        is_over(day, self.apps.get(app).copied().unwrap_or(self.before))
    }

    /// Whether a day with this many runs is kept by no app.
    pub fn is_dropped(&self, day: u32, runs: u64) -> bool {
        self.is_old_for_all(day) || self.needless.get(&day) == Some(&runs)
    }

    /// Whether a day is old for every app.
    pub fn is_old_for_all(&self, day: u32) -> bool {
        self.limits().all(|before| is_over(day, before))
    }

    /// Whether a day is old for at least one app that may have runs in it.
    pub fn is_old_for_some(&self, day: u32) -> bool {
        self.limits().any(|before| is_over(day, before))
    }

    /// Whether a day is old for apps that have no time of their own.
    pub fn is_old_for_others(&self, day: u32) -> bool {
        is_over(day, self.before)
    }

    /// The apps with a time of their own for which a day is old.
    pub fn old_apps(&self, day: u32) -> impl Iterator<Item = &Text> {
        self.apps.iter().filter(move |(_, before)| is_over(day, **before)).map(|(app, _)| app)
    }

    fn limits(&self) -> impl Iterator<Item = Timestamp> {
        self.apps.values().copied().chain([self.before])
    }
}

fn is_over(day: u32, before: Timestamp) -> bool {
    RunId::day_start(day.saturating_add(1)) <= before
}

/// What was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Days that are gone.
    pub buckets: u32,
    /// Old days that stay because something in them is open.
    pub kept_open: u32,
    /// Days that are old for some apps and not for all, oldest first.
    pub old: Vec<OldDay>,
}

/// A day that stays, and may hold runs that are old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldDay {
    /// Days since 2020.
    pub day: u32,
    /// How many runs it has.
    pub runs: u64,
    /// How many of them are closed.
    pub closed: u64,
}

/// How many runs [`Store::thin`] looks at.
pub const THIN_LOOK: usize = 2_000;

/// What was found, and removed, in a stretch of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thinned {
    /// How many runs are gone, parts included.
    pub removed: u64,
    /// How many of those that were looked at are open, or still kept.
    pub stays: u64,
    /// The first run that was not looked at; none at the end of the day.
    pub rest: Option<RunId>,
}

/// Runs of a job that are open, from a stretch of all its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRuns {
    /// In the order of their ids.
    pub runs: Vec<RunId>,
    /// The last run that was looked at; none at the end.
    pub rest: Option<RunId>,
}

/// Keeping, in the words of the steps.
#[async_trait]
pub trait Store: Send + Sync {
    // --- leases ---

    /// Renews the row of a node, or makes it. An incarnation whose row has expired is fenced for ever: expiry is
    /// judged here, by the store's clock. Every renewal clamps the rows of all nodes to their terms from now, so that a clock
    /// that was set back cannot keep a dead node alive. Checkpoints of leases that are not current are left out.
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError>;

    /// Takes those of the shards that have no living holder, or this node as holder, each with a new epoch from one
    /// counter. Shards that another living node holds are left out of the answer. Fenced if the node's own row has
    /// expired.
    async fn acquire(&self, node: NodeId, shards: Vec<ShardId>) -> Result<Vec<Acquired>, StoreError>;

    /// Gives shards back at once; `mark` is exact, because the node has ceased to act for them. Leases that are no
    /// longer the node's are left alone.
    async fn release(&self, node: NodeId, leases: Vec<Lease>, mark: Timestamp) -> Result<(), StoreError>;

    // --- planning ---

    /// Enabled clocks of these shards whose next fire time is at or before `until`, earliest first, at most `max`.
    /// Costs what is due, whatever is stored. The leases are not checked.
    async fn due(&self, leases: &[Lease], until: Timestamp, max: usize) -> Result<Vec<ClockRow>, StoreError>;

    /// The rows of these jobs, deleted ones included, in no order; unknown ids are left out. A row that cannot be read
    /// is an error of its own.
    async fn jobs(&self, ids: &[JobId]) -> Result<Vec<(JobId, Result<JobRow, StoreError>)>, StoreError>;

    /// Moves clocks, each with its records or not at all; the answers are in the order of the plans.
    async fn plan(&self, plans: Vec<Plan>) -> Result<Vec<Planned>, StoreError>;

    // --- loading ---

    /// The open runs of these shards that no gate has, from `from` on and ready before `until`, at most `max`. Read in
    /// one snapshot with the leases: fenced if any of them is not current. Parked runs are not among them. A run that
    /// waits is found by the instant it waits for, not by its due time.
    async fn load(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
        max: usize,
    ) -> Result<Loaded, StoreError>;

    /// The open runs of these shards that have a gate, and the jobs that have parked runs there, in no order. In one
    /// snapshot with the leases, as [`Store::load`].
    async fn adopt(&self, leases: &[Lease]) -> Result<Adopted, StoreError>;

    /// Makes parked runs ready, of many jobs at once; which, by due time, then id.
    async fn unpark(&self, unpark: &Unpark) -> Result<Vec<(JobId, RunId)>, StoreError>;

    /// Whole runs, in no order; unknown ids are left out.
    async fn fetch(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError>;

    /// The same without payloads, which are not read either: for callers that ask about very many runs.
    async fn outline(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError>;

    // --- firing ---

    /// Writes gates; the answers are in the order of the gates. Through only for a run that is open and a key that is
    /// free or has this very token.
    async fn gate(&self, gates: Vec<Gate>) -> Result<Vec<Gated>, StoreError>;

    /// Writes the gates of broadcast runs, each together with its parts or not at all; the answers are in the order of the
    /// splits. Asked again with the same token, the parts that are there stay, and none is added.
    async fn split(&self, splits: Vec<Split>) -> Result<Vec<Gated>, StoreError>;

    /// Whose these numbers are, in no order; unknown ones are left out. Gates of dropped days are unknown.
    async fn sent(&self, logs: &[LogId]) -> Result<Vec<SentRow>, StoreError>;

    /// The parts of a run that are not closed, by index.
    async fn open_parts(&self, run: RunId) -> Result<Vec<RunId>, StoreError>;

    /// Looks at the next `max` runs of a job after `after`, in the order of their ids and without looking at those of
    /// other jobs, and says which are open.
    async fn open_runs(&self, job: JobId, after: RunId, max: usize) -> Result<OpenRuns, StoreError>;

    // --- settling ---

    /// Writes ends with all that follows, each alone or not at all; the answers are in the order of the settlements.
    /// The rows of gates outlive the close of their run. The close of a part changes no counts of the job. For every
    /// child an [`ArrivalKind::Run`] is left for the holder of its shard.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settled>, StoreError>;

    // --- accepting ---

    /// The day that a one-shot is born on that is due on `day`, seen from `today`: that day, unless the store keeps
    /// days that are far ahead together. Never an earlier one, so that nothing is old before its time.
    fn birth_day(&self, day: u32, _today: u32) -> u32 {
        day
    }

    /// Sequence numbers for runs born on `day`: the first of `count` that no other caller gets, ever. An answer that
    /// was lost wastes its numbers.
    async fn allot(&self, day: u32, count: u64) -> Result<u64, StoreError>;

    /// The same for several days, each with its count; the answers are in their order. A store that can does it in one
    /// transaction.
    async fn allot_days(&self, days: &[(u32, u64)]) -> Result<Vec<u64>, StoreError> {
        let mut firsts = Vec::with_capacity(days.len());
        for (day, count) in days {
            firsts.push(self.allot(*day, *count).await?);
        }
        Ok(firsts)
    }

    /// Writes runs and what is left for holders, all or none. A key that lives, or a (job, fire time) that the schedule
    /// names and that is there, makes a duplicate; so does a run that is there with the same id. A key lives until its
    /// run is closed, and for a time after that which the store was opened with.
    async fn accept(
        &self,
        runs: Vec<NewRun>,
        left: Vec<(ShardId, ArrivalKind)>,
    ) -> Result<Vec<Accepted>, StoreError>;

    /// What was left for these shards, oldest first, at most `max`.
    async fn arrivals(&self, leases: &[Lease], max: usize) -> Result<Vec<Arrival>, StoreError>;

    /// Forgets arrivals that were seen to.
    async fn consume(&self, arrivals: &[u64]) -> Result<(), StoreError>;

    /// The one-shots that applications left, oldest first, at most `max`. Only in a database that applications share
    /// with us.
    async fn enqueued(&self, _max: usize) -> Result<Vec<Enqueued>, StoreError> {
        Ok(Vec::new())
    }

    /// Puts aside what applications left and no node can run, each with the reason: it stays where they can read it.
    async fn refuse(&self, _refused: Vec<(u64, Text)>) -> Result<(), StoreError> {
        Ok(())
    }

    // --- people ---

    /// Changes a job, or creates it: definition, state, clock and revision together. A new job's shard is
    /// [`punctual_core::cluster::home`] of its id, for good. Conflict if the version or the clock is not as expected, or
    /// the name is taken. The jobs that it comes after, or came after, count as changed just before it, in the order of
    /// their ids: their children are others now. A job that is deleted leaves [`ArrivalKind::Deleted`] for its shard. Conflict
    /// too if the job would come after itself, in however many steps. Of a job's revisions the last [`REVISIONS_MAX`] are kept.
    async fn change(&self, change: Change) -> Result<Changed, StoreError>;

    /// Whether a change is in force: every living node that holds a shard has said that the change is in its memory.
    async fn is_in_force(&self, change: ChangeId) -> Result<bool, StoreError>;

    // --- keeping house ---

    /// Drops whole days that no app keeps and in which nothing is open; keys that have expired by the store's clock;
    /// rows of nodes that expired [`NODES_KEPT`] ago and own no shard; and changes that every living node has seen. No
    /// instant of such a day gets a second run, however far the clock is set back: a plan leaves out what was reserved
    /// before, and a backfill is refused as a conflict.
    async fn prune(&self, keep: &Keep) -> Result<Pruned, StoreError>;

    /// Looks at the next [`THIN_LOOK`] runs of a day, in the order of their ids, and removes those that are closed and
    /// old with all that became of them, at most `max`; with 0 it only looks. The parts of a broadcast go with their
    /// whole, on whatever day they are, and not before it. What is removed is gone for every verb as if its day had
    /// been dropped; keys and counts stay.
    async fn thin(&self, keep: &Keep, day: u32, from: RunId, max: usize) -> Result<Thinned, StoreError>;
}
