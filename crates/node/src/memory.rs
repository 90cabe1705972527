//! What a node has in memory: a cache of the store, and what is on its way. It may be thrown away at any moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::Tenure;
use punctual_core::due::{AppNumber, DueQueue};
use punctual_core::engine::fire::{Candidate, Rank};
use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, ChangeId, Epoch, JobId, NodeId, Origin, Own, RunId, ShardId, Target, Text,
};
use punctual_core::policy::route::Routes;
use punctual_core::policy::{Pace, Places, Pool};
use punctual_core::registry::{Dialect, Registry};
use punctual_core::wheel::{Armed, Mark, Timer, Wheel};
use rustc_hash::FxHashMap;

use crate::ahead::Ahead;
use crate::desk::AccessTokens;
use crate::doubt::{Doubts, LEARN};
use crate::flow::Flow;
use crate::ids::Blocks;
use crate::inbox::Received;
use crate::jobs::{Jobs, Known, UNKNOWN_APP};
use crate::natives::Natives;
use crate::parked::ParkedJobs;
use crate::places::FastCall;
use crate::ports::{Address, AppRow, Boot, Gate, Lease, NodeRow, OpenSend, Paused, Waiting};
use crate::reads::{Read, Reads};
use crate::retention::Thinning;
pub(crate) use crate::run::{Flags, Flight, Place, Run};
use crate::seek::{Crew, Parts, Seekers};
use crate::settings::{Planted, Settings};
use crate::step::Slowness;
use crate::table::Table;
use crate::time::SharedTime;
use crate::wakes::Wakes;

/// No pause after a failure of the store is longer, however often it fails.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A shard that this node acts for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) epoch: Epoch,
    /// What is ready before this and has no gate may have been sent by the last holder.
    pub(crate) inherited: Timestamp,
    /// Every open run below this place is in memory, or parked.
    pub(crate) loaded: Mark,
    /// How far loading has asked the store to read. What we write below this comes into memory at once: a load that
    /// was on its way at that moment may have missed it.
    pub(crate) reach: Mark,
    /// Whether something may have been written below `loaded` that the load on its way cannot know.
    pub(crate) is_in_question: bool,
    /// Whether what the last holder left behind its gates is known.
    pub(crate) is_adopted: bool,
    /// What the store was last told.
    pub(crate) checkpoint: Mark,
    /// Up to where a sweep has looked that began after the store was last told.
    pub(crate) swept: Timestamp,
    /// Whether the sweep on its way began after the store was last told.
    pub(crate) is_sweeping: bool,
    /// Whether the store has answered what it was last told.
    pub(crate) is_answered: bool,
}

impl Held {
    /// The store is being told: what is written before it hears it is for a sweep to find that begins when it has
    /// answered.
    pub(crate) fn tell(&mut self) {
        self.swept = Timestamp::MIN;
        self.is_sweeping = false;
        self.is_answered = false;
    }
}

/// What is going on with a job.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// Runs that were admitted and are not closed: on their way, or between two attempts of a limited job.
    pub(crate) running: BTreeSet<RunId>,
    /// Runs that wait for one of those to end.
    pub(crate) queue: BTreeSet<Rank>,
}

pub(crate) struct Memory {
    pub(crate) id: NodeId,
    pub(crate) time: SharedTime,
    pub(crate) tenure: Option<Tenure>,
    pub(crate) seen: ChangeId,
    /// Who holds each shard, by its number.
    pub(crate) owners: Vec<Option<NodeId>>,
    /// The last epoch of each shard, as the store said.
    pub(crate) epochs: Vec<Epoch>,
    /// The living nodes.
    pub(crate) nodes: Vec<NodeRow>,
    /// Whether it has left the cluster, and does not come back by itself.
    pub(crate) has_left: bool,
    /// Whether somebody wishes it to.
    pub(crate) wants_to_leave: bool,
    /// How often in a row the store did not do what it was asked.
    pub(crate) failures: u32,
    pub(crate) held: BTreeMap<ShardId, Held>,
    pub(crate) jobs: Jobs,
    pub(crate) runs: Table,
    /// What some of them have in place of their job's.
    pub(crate) owns: FxHashMap<RunId, Own>,
    /// What some of them bring.
    pub(crate) ahead: Ahead,
    pub(crate) reads: Reads<RunId>,
    /// Runs that are not in memory, and about which something may have been written that we were not told.
    pub(crate) unsure: BTreeSet<RunId>,
    pub(crate) wheel: Wheel,
    /// Runs with gates that wait for their next attempt. Loading never finds those, so they have a place whatever the
    /// wheel holds.
    pub(crate) between: BTreeSet<(Timestamp, RunId)>,
    pub(crate) ready: DueQueue,
    pub(crate) flow: Flow,
    /// Runs in the hands of a step.
    pub(crate) busy: BTreeSet<RunId>,
    pub(crate) flights: FxHashMap<RunId, Flight>,
    pub(crate) deadlines: BTreeSet<(Timestamp, RunId)>,
    /// HTTP calls without a gate that were in flight when their shard was lost, and are still in flight.
    pub(crate) outlived: FxHashMap<RunId, Flight>,
    /// When runs were due whose attempts so far are only supposed: the first certain one is as late as that.
    pub(crate) supposed: FxHashMap<RunId, Timestamp>,
    /// Until when other nodes that come back from an outage of the store may settle what they know.
    pub(crate) returning_until: Option<Boot>,
    pub(crate) active: FxHashMap<JobId, Active>,
    pub(crate) parked: ParkedJobs,
    /// Who is there.
    pub(crate) registry: Registry,
    /// The tokens of those apps that have one of their own; none before they were first read.
    pub(crate) tokens: Option<Arc<AccessTokens>>,
    /// The executors of apps as they were when last chosen from, each list with the registry's version.
    pub(crate) crews: FxHashMap<Text, (u64, Crew)>,
    /// The versions of apps, as far as they are known.
    pub(crate) versions: BTreeMap<Text, u64>,
    /// How long apps keep their runs, where they say so.
    pub(crate) retentions: BTreeMap<Text, Duration>,
    /// Which apps are paused.
    pub(crate) paused: BTreeMap<Text, Paused>,
    /// Who had a turn.
    pub(crate) routes: Routes,
    pub(crate) seekers: Seekers,
    /// Executors that have a session here.
    pub(crate) natives: Natives,
    /// How many attempts of a run never reached an executor, and do not count.
    pub(crate) spared: FxHashMap<RunId, u32>,
    /// Executors that were chosen for runs which are not on their way yet.
    pub(crate) chosen: FxHashMap<RunId, Arc<Address>>,
    pub(crate) parts: Parts,
    pub(crate) doubts: Doubts,
    /// Grows when calling back is asked for, and again when it is answered: odd while it is on its way.
    pub(crate) callings: u64,
    pub(crate) paces: FxHashMap<JobId, Pace>,
    /// The HTTP calls in flight.
    pub(crate) places: Places,
    /// Calls from the fast pool, by when they count as slow.
    pub(crate) fast_calls: VecDeque<FastCall>,
    /// When the jobs in line for the slow pool were last asked whether they belong there.
    pub(crate) paced_at: Option<Timestamp>,
    pub(crate) inbox: VecDeque<Received>,
    /// Runs whose reports the settling step has in hand.
    pub(crate) settling: Vec<RunId>,
    /// Until when they wait, for sends to go first.
    pub(crate) settles_by: Option<Boot>,
    /// Whether the last round of firing left something that is due.
    pub(crate) has_more_due: bool,
    /// Runs that others have settled or written for us.
    pub(crate) heard_of: Vec<RunId>,
    /// How many runs are being asked for that may be nowhere in memory meanwhile.
    pub(crate) asking: u32,
    pub(crate) has_arrivals: bool,
    /// Deleted jobs that are being emptied, each with the last run that was looked at.
    pub(crate) retiring: BTreeMap<JobId, RunId>,
    /// Whether tending comes again soon, to write down what is on its way without a gate.
    pub(crate) tends_soon: bool,
    /// Jobs that have runs waiting for a place which somebody else has, and when they ask again.
    pub(crate) held_back: BTreeMap<JobId, Boot>,
    pub(crate) blocks: Blocks,
    pub(crate) events: Vec<Event>,
    pub(crate) wakes: Wakes,
    /// Until then the store is left alone.
    pub(crate) paused_until: Boot,
    pub(crate) slowness: Slowness,
    /// When it last gave shards back.
    pub(crate) gave_back_at: Option<Boot>,
    /// When the last renewal was answered.
    pub(crate) renewed_at: Option<Boot>,
    /// Until then nothing is fired.
    pub(crate) held_until: Boot,
    /// Every fire time up to here was planned: all jobs of all shards we hold were looked at.
    pub(crate) planned_through: Timestamp,
    pub(crate) swept_at: Option<Boot>,
    pub(crate) pruned_at: Option<Boot>,
    /// Days that are looked through for runs that are old.
    pub(crate) thinning: Thinning,
    /// When the store was last asked who is there.
    pub(crate) looked_at: Option<Boot>,
    /// When those who have a session were last said to be there.
    pub(crate) beaten_at: Option<Boot>,
    /// When it was last cleared of executors that are gone.
    pub(crate) buried_at: Option<Boot>,
    /// Whether it was told that there are too many executors.
    pub(crate) is_crowded: bool,
    /// How many executors were asked so far whether they are there.
    pub(crate) probed_up_to: usize,
    /// When runs that wait for executors which are there last asked again.
    pub(crate) recalled_at: Option<Timestamp>,
    pub(crate) planted: Option<Planted>,
    pub(crate) wheel_capacity: usize,
}

impl Memory {
    /// The other nodes that live.
    pub(crate) fn other_nodes(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|row| row.node).filter(|node| *node != self.id).collect()
    }

    pub(crate) fn new(id: NodeId, settings: &Settings) -> Memory {
        Memory {
            id,
            time: SharedTime::default(),
            tenure: None,
            seen: ChangeId(0),
            owners: Vec::new(),
            epochs: Vec::new(),
            nodes: Vec::new(),
            has_left: false,
            wants_to_leave: false,
            failures: 0,
            held: BTreeMap::new(),
            jobs: Jobs::new(settings.known_max),
            runs: Table::default(),
            owns: FxHashMap::default(),
            ahead: Ahead::default(),
            reads: Reads::default(),
            unsure: BTreeSet::new(),
            wheel: Wheel::new(settings.wheel_capacity, Timestamp::MIN),
            between: BTreeSet::new(),
            ready: DueQueue::default(),
            flow: Flow::starting(Boot::default()),
            busy: BTreeSet::new(),
            flights: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            outlived: FxHashMap::default(),
            supposed: FxHashMap::default(),
            returning_until: None,
            active: FxHashMap::default(),
            parked: ParkedJobs::default(),
            registry: Registry::default(),
            tokens: None,
            crews: FxHashMap::default(),
            versions: BTreeMap::new(),
            retentions: BTreeMap::new(),
            paused: BTreeMap::new(),
            routes: Routes::default(),
            seekers: Seekers::default(),
            natives: Natives::default(),
            spared: FxHashMap::default(),
            chosen: FxHashMap::default(),
            parts: Parts::default(),
            doubts: Doubts::default(),
            callings: 0,
            paces: FxHashMap::default(),
            places: Places::new(settings.limits),
            fast_calls: VecDeque::new(),
            paced_at: None,
            inbox: VecDeque::new(),
            settling: Vec::new(),
            settles_by: None,
            has_more_due: false,
            heard_of: Vec::new(),
            asking: 0,
            has_arrivals: false,
            retiring: BTreeMap::new(),
            tends_soon: false,
            held_back: BTreeMap::new(),
            blocks: Blocks::default(),
            events: Vec::new(),
            wakes: Wakes::default(),
            paused_until: Boot::default(),
            slowness: Slowness::default(),
            gave_back_at: None,
            renewed_at: None,
            held_until: Boot::default(),
            planned_through: Timestamp::MIN,
            swept_at: None,
            pruned_at: None,
            thinning: Thinning::default(),
            looked_at: None,
            beaten_at: None,
            buried_at: None,
            is_crowded: false,
            probed_up_to: 0,
            recalled_at: None,
            planted: settings.planted,
            wheel_capacity: settings.wheel_capacity,
        }
    }

    pub(crate) fn has_planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    /// Whether anything may be begun at this moment, and the cluster's time if so.
    pub(crate) fn trusted_now(&self, boot: Boot) -> Option<Timestamp> {
        let is_trusted = self.tenure.is_some_and(|tenure| tenure.is_trusted(boot));
        if is_trusted { self.time.now(boot) } else { None }
    }

    pub(crate) fn shard_count(&self) -> u16 {
        u16::try_from(self.owners.len()).unwrap_or(u16::MAX)
    }

    /// Takes note of how long an app keeps its runs.
    pub(crate) fn note_retention(&mut self, app: &AppRow) {
        match app.retention {
            Some(kept) => self.retentions.insert(app.name.clone(), kept),
            None => self.retentions.remove(&app.name),
        };
    }

    pub(crate) fn lease(&self, shard: ShardId) -> Option<Lease> {
        self.held.get(&shard).map(|held| Lease { shard, epoch: held.epoch })
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.held.iter().map(|(shard, held)| Lease { shard: *shard, epoch: held.epoch }).collect()
    }

    // --- loading ---

    /// Takes in an open run that a read has found in the store. What lies beyond our reach stays there: loading will
    /// find it.
    pub(crate) fn take_in(&mut self, read: Read, waiting: &Waiting) {
        let Some(held) = self.held.get(&waiting.shard).copied() else { return };
        let is_doubtful = waiting.ready_at < held.inherited;
        self.take(read, waiting, held, is_doubtful);
    }

    /// Takes in a run that surely nobody has sent, if the shard is held as it was then: we have written it, or called it
    /// back, under this epoch.
    pub(crate) fn take_in_new(&mut self, read: Read, waiting: &Waiting, epoch: Option<Epoch>) {
        let Some(held) = self.held.get(&waiting.shard).copied() else { return };
        if epoch == Some(held.epoch) {
            self.take(read, waiting, held, false);
        } else {
            self.take_in(read, waiting);
        }
    }

    fn take(&mut self, read: Read, waiting: &Waiting, held: Held, is_doubtful: bool) {
        let mark = Mark { due: waiting.ready_at, id: waiting.run.0 };
        let is_known = self.runs.contains_key(&waiting.run) || self.reads.is_stale(read, waiting.run);
        if mark >= held.reach || is_known {
            return;
        }
        let mut run = Run::from(waiting);
        run.flags.is_doubtful = is_doubtful;
        run.flags.may_be_gated = self.unsure.remove(&waiting.run);
        self.runs.insert(waiting.run, run);
        if !self.fly_on(waiting.run) {
            self.arm(waiting.run);
        }
    }

    /// Puts a run of ours into the wheel for the time it is ready at.
    pub(crate) fn arm(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.place = Place::Wheel;
        // Where more is due than fits in the due queue, jobs take turns.
        let timer = Timer { due: run.ready_at, priority: run.priority, group: run.job.0, id: id.0 };
        self.judge_armed(id);
        if self.wheel.arm(timer) == Armed::Beyond {
            self.let_lie(id);
        }
        self.drop_pushed_out();
        self.wakes.fire = true;
    }

    /// What the wheel pushed out is in the store only, and so is everything behind its mark.
    fn drop_pushed_out(&mut self) {
        let dropped = self.wheel.take_dropped();
        for id in dropped {
            self.let_lie(RunId(id));
        }
        self.keep_below_mark();
    }

    /// Forgets an open run that is in the store only from now on.
    fn let_lie(&mut self, id: RunId) {
        if self.runs.get(&id).is_some_and(|run| run.flags.may_be_gated) {
            self.unsure.insert(id);
        }
        self.forget(id);
    }

    /// Nothing behind the wheel's mark counts as loaded.
    pub(crate) fn keep_below_mark(&mut self) {
        let Some(mark) = self.wheel.mark() else { return };
        for held in self.held.values_mut() {
            held.loaded = held.loaded.min(mark);
            held.reach = held.reach.min(mark);
        }
    }

    /// Takes in a run that an earlier holder sent through a gate.
    pub(crate) fn adopt(&mut self, read: Read, open: &OpenSend, deadline: Timestamp, now: Timestamp) {
        let id = open.run.run;
        let is_known = self.runs.contains_key(&id) || self.reads.is_stale(read, id);
        let Some(held) = self.held.get(&open.run.shard).copied().filter(|_| !is_known) else { return };
        let mut run = Run::from(&open.run);
        run.flags.may_be_gated = self.unsure.remove(&id);
        if run.origin != Origin::Part {
            self.active.entry(run.job).or_default().running.insert(id);
        }
        if let Some((ready_at, attempt)) = open.retry {
            (run.ready_at, run.attempt) = (ready_at, attempt);
            run.flags.may_repeat = true;
            run.flags.has_gate = true;
            // The gate is that of an earlier attempt; this one may have gone out without.
            run.flags.is_doubtful = ready_at < held.inherited;
            self.runs.insert(id, run);
            self.wait_between(id);
            return;
        }
        run.place = Place::Flight;
        self.runs.insert(id, run);
        let address = self.address_of(&open.run, &open.executor, open.join.is_some());
        if let Some(address) = &address {
            self.watch_for(address, now);
        }
        self.fly(
            id,
            Flight {
                attempt: open.run.attempt,
                token: open.token,
                sent_at: open.sent_at,
                executor: open.executor.clone(),
                address,
                is_gated: true,
                adopted_at: Some(now),
                was_seen: false,
                possible_duplicate: open.run.attempt > Attempt::FIRST,
                http: None,
                is_answered: false,
                deadline,
                unclear: None,
                lost_because: None,
            },
        );
    }

    /// The executor that has an attempt of an earlier holder.
    fn address_of(&self, run: &Waiting, executor: &Text, is_whole: bool) -> Option<Arc<Address>> {
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if job.executor().is_some() && !is_whole => {
                Some(Arc::new(self.executor_at(&job.definition.app, executor)))
            }
            _ => None,
        }
    }

    /// Lets a run that has a gate wait for its next attempt.
    fn wait_between(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.place = Place::Wheel;
        self.between.insert((run.ready_at, id));
        self.wakes.fire = true;
    }

    /// After a write whose fate is unknown: what it may have written is read again.
    pub(crate) fn read_again(&mut self, shard: ShardId, from: Timestamp) {
        if let Some(held) = self.held.get_mut(&shard) {
            held.loaded = held.loaded.min(Mark { due: from, id: 0 });
            held.is_in_question = true;
            self.wakes.load = true;
        }
    }

    /// Forgets a run that may have a gate: it is found again by adopting or by loading, if it is open.
    pub(crate) fn leave_behind(&mut self, id: RunId, run: &Run) {
        self.forget(id);
        self.read_again(run.shard, run.ready_at);
        if let Some(held) = self.held.get_mut(&run.shard) {
            held.is_adopted = false;
            self.wakes.load = true;
        }
    }

    /// Has a run looked up in the store soon.
    pub(crate) fn look_up_later(&mut self, id: RunId) {
        self.heard_of.push(id);
        self.wakes.tend = true;
    }

    // --- due ---

    /// Lays a run among those that are due.
    pub(crate) fn make_ready(&mut self, id: RunId) {
        self.busy.remove(&id);
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.place = Place::Ready;
        let (job, rank) = (run.job, run.rank(id));
        self.line_up(job, rank);
    }

    /// Puts a run into the due queue. Which line it belongs to may have changed when it is picked.
    fn line_up(&mut self, job: JobId, rank: Rank) {
        let app = self.app_number(job);
        let pool = if self.is_http(job) { Some(Pool::Fast) } else { None };
        self.ready.insert(pool, app, job, rank);
    }

    /// The number of a job's app. Jobs are known before their runs come, but for those that cannot be read and those that
    /// change at this moment: they are in line as an app of their own.
    pub(crate) fn app_number(&self, job: JobId) -> AppNumber {
        self.jobs.app_number(job).unwrap_or(UNKNOWN_APP)
    }

    pub(crate) fn is_http(&self, job: JobId) -> bool {
        let Some(Known::Job(job)) = self.jobs.get(job) else { return false };
        matches!(job.definition.target, Target::Http(_))
    }

    /// Takes a run into the hands of a step.
    pub(crate) fn make_busy(&mut self, id: RunId) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.place = Place::Busy;
        let (job, rank) = (run.job, run.rank(id));
        self.ready.remove(job, rank);
        if let Some(active) = self.active.get_mut(&job) {
            active.queue.remove(&rank);
        }
        self.busy.insert(id);
    }

    /// Lets go of a run that a step had in its hands: it is due as before, or waits for its time as before.
    pub(crate) fn let_go(&mut self, id: RunId, now: Timestamp) {
        let Some(run) = self.in_hand(id) else { return };
        if run.ready_at <= now {
            self.make_ready(id);
        } else {
            self.busy.remove(&id);
            self.arm(id);
        }
    }

    /// The run, if the step that took it still has it.
    pub(crate) fn in_hand(&self, id: RunId) -> Option<Run> {
        self.runs.get(&id).copied().filter(|run| run.place == Place::Busy)
    }

    /// Lets a run wait for another time, or for another attempt, as the store now says.
    pub(crate) fn put_off(&mut self, id: RunId, ready_at: Timestamp, attempt: Attempt, may_repeat: bool) {
        self.reads.touch(id);
        let was_gated = self.land(id).is_some_and(|flight| flight.is_gated);
        self.busy.remove(&id);
        self.seekers.remove(id);
        self.unchoose(id);
        let Some(run) = self.runs.get(&id).copied() else { return };
        self.wheel.cancel(id.0);
        self.between.remove(&(run.ready_at, id));
        self.ready.remove(run.job, run.rank(id));
        if let Some(active) = self.active.get_mut(&run.job) {
            active.queue.remove(&run.rank(id));
        }
        let has_gate = was_gated || run.flags.may_be_gated || run.flags.has_gate;
        let flags = Flags {
            has_gate,
            is_called_back: false,
            is_doubtful: run.flags.is_doubtful && run.attempt == attempt,
            may_be_gated: run.flags.may_be_gated && run.attempt == attempt,
            may_repeat: run.flags.may_repeat || may_repeat,
            ..run.flags
        };
        self.runs.insert(id, Run { ready_at, attempt, flags, ..run });
        let reach = self.held.get(&run.shard).map(|held| held.reach);
        if has_gate {
            self.wait_between(id);
        } else if reach.is_some_and(|reach| Mark { due: ready_at, id: id.0 } < reach) {
            self.arm(id);
        } else {
            self.let_lie(id);
        }
        if matches!(run.place, Place::Ready | Place::Busy) {
            // It had its turn and did not take it.
            self.promote(run.job);
        }
    }

    // --- on the way ---

    pub(crate) fn fly(&mut self, id: RunId, flight: Flight) {
        self.reads.touch(id);
        self.busy.remove(&id);
        if let Some(run) = self.runs.get_mut(&id) {
            run.place = Place::Flight;
            run.attempt = flight.attempt;
        }
        self.take_place(id, &flight);
        self.deadlines.insert((flight.deadline, id));
        if !flight.is_gated && !self.tends_soon {
            self.tends_soon = true;
            self.wakes.tend = true;
        }
        self.plan_lesson(&flight);
        self.flights.insert(id, flight);
        self.wakes.reap = true;
    }

    /// An executor that calls back is asked about a young attempt. It may be killed and started anew soon after, and then
    /// it is believed that it has none only if it once said that it has one.
    fn plan_lesson(&mut self, flight: &Flight) {
        let callers_back = flight.address.as_ref().filter(|address| address.dialect != Dialect::Native);
        let Some(url) = callers_back.map(|address| address.url.clone()) else { return };
        let at = flight.heard_since().saturating_add(LEARN);
        self.wakes.watch |= self.doubts.plan_lesson(&url, at);
    }

    /// Gates for what went out from these shards without one, not later than `sent_by`: from then on it is known to be
    /// running. They are in the order of their shards.
    pub(crate) fn notes(&self, leases: &[Lease], sent_by: Timestamp) -> Vec<Gate> {
        let leases: BTreeMap<ShardId, Lease> = leases.iter().map(|lease| (lease.shard, *lease)).collect();
        let is_due = |flight: &Flight| !flight.is_gated && flight.sent_at <= sent_by;
        let flights = self.flights.iter().filter(|(_, flight)| is_due(flight));
        let note = |(id, flight): (&RunId, &Flight)| {
            let run = self.runs.get(id)?;
            Some(Gate {
                lease: *leases.get(&run.shard)?,
                run: *id,
                job: run.job,
                attempt: flight.attempt,
                token: flight.token,
                executor: flight.executor.clone(),
                sent_at: flight.sent_at,
                holds: Vec::new(),
            })
        };
        let mut notes: Vec<Gate> = flights.filter_map(note).collect();
        notes.sort_unstable_by_key(|gate| (gate.lease.shard, gate.run));
        notes
    }

    /// Takes a run's attempt off the list of those on their way.
    pub(crate) fn land(&mut self, id: RunId) -> Option<Flight> {
        let flight = self.flights.remove(&id)?;
        self.deadlines.remove(&(flight.deadline, id));
        self.doubts.forget(id);
        if let Some(place) = flight.http {
            self.places.give_back(place.pool, place.app, place.job);
            self.wakes.fire = true;
        }
        Some(flight)
    }

    /// A run as its job is asked about it. A part is wanted as far as what it is a part of.
    pub(crate) fn candidate(&self, id: RunId, run: &Run) -> Candidate {
        let whole = self.parts.get(id).and_then(|known| self.runs.get(&known.whole));
        Candidate { origin: whole.map_or(run.origin, |whole| whole.origin), ..run.candidate() }
    }

    // --- forgetting ---

    /// Forgets a run: it is closed, or somebody else's, or only in the store.
    pub(crate) fn forget(&mut self, id: RunId) {
        self.reads.touch(id);
        self.land(id);
        self.seekers.remove(id);
        self.unchoose(id);
        self.parts.forget(id);
        self.natives.forget(id);
        self.outlived.remove(&id);
        self.supposed.remove(&id);
        self.spared.remove(&id);
        let Some(run) = self.runs.remove(&id) else { return };
        self.owns.remove(&id);
        self.ahead.take(id);
        self.wheel.cancel(id.0);
        self.wakes.load |= self.has_room_again();
        self.between.remove(&(run.ready_at, id));
        self.busy.remove(&id);
        self.ready.remove(run.job, run.rank(id));
        let Some(active) = self.active.get_mut(&run.job) else { return };
        active.queue.remove(&run.rank(id));
        let was_running = active.running.remove(&id);
        // It has left its place, or had its turn and did not take it.
        if was_running || matches!(run.place, Place::Ready | Place::Busy) {
            self.promote(run.job);
        }
        let is_idle = |active: &Active| active.running.is_empty() && active.queue.is_empty();
        if self.active.get(&run.job).is_some_and(is_idle) {
            self.active.remove(&run.job);
        }
    }

    /// After the wheel was full: whether loading is to go on, now that there is room for more than a few.
    pub(crate) fn has_room_again(&self) -> bool {
        self.wheel.mark().is_some() && self.wheel.room() * 4 >= self.wheel_capacity
    }

    /// A place of a job became free: the first that waits asks again.
    pub(crate) fn promote(&mut self, job: JobId) {
        self.call_parked(job, false);
        let Some(active) = self.active.get_mut(&job) else { return };
        if let Some(rank) = active.queue.pop_first() {
            if let Some(run) = self.runs.get_mut(&rank.run) {
                run.place = Place::Ready;
                self.line_up(job, rank);
            }
            self.wakes.fire = true;
        }
    }

    /// Notes that parked runs of a job may have their turn.
    pub(crate) fn call_parked(&mut self, job: JobId, since_change: bool) {
        self.wakes.tend |= self.parked.call(job, since_change);
    }

    /// A job was changed: it is read again before anything is done for it, and what waits for it may go on.
    pub(crate) fn note_change(&mut self, job: JobId) {
        self.jobs.forget(job);
        // Its target or its app may be another.
        self.ready.rehome(job, None, UNKNOWN_APP);
        self.call_parked(job, true);
        // Its limit may be another: whatever waits for a place asks again.
        let queue = self.active.get_mut(&job).map(|active| std::mem::take(&mut active.queue));
        for rank in queue.into_iter().flatten() {
            self.make_ready(rank.run);
            self.wakes.fire = true;
        }
        let of_job = |id: &RunId| self.runs.get(id).is_some_and(|run| run.job == job);
        let seeking: Vec<RunId> = self.seekers.ids().filter(of_job).collect();
        seeking.into_iter().for_each(|id| self.seek_again(id));
    }

    /// When the store may be asked again after it failed.
    pub(crate) fn pause(
        &mut self,
        boot: Boot,
        step: &'static str,
        reason: &dyn std::fmt::Display,
        pause: Duration,
    ) {
        if !pause.is_zero() {
            let doubled = pause.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
            self.failures += 1;
            self.paused_until = boot.plus(doubled);
        }
        self.events.push(Event::StoreFailed { step, reason: reason.to_string().into() });
    }
}
