//! What a node has in memory: a cache of the store, and what is on its way. It may be thrown away at any moment.

mod agenda;
mod boxes;
mod executors;
mod in_flight;
mod loaded;
mod membership;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::chosen;
use punctual_core::due::AppNumber;
use punctual_core::engine::fire::{Candidate, Rank};
use punctual_core::event::Event;
use punctual_core::model::{Attempt, Epoch, JobId, NodeId, Origin, RunId, ShardId, Target, Text};
use punctual_core::policy::Pool;
use punctual_core::registry::Dialect;
use punctual_core::wheel::{Armed, Mark, Timer};

use crate::doubt::LEARN;
use crate::ids::Blocks;
use crate::jobs::{Jobs, Known, UNKNOWN_APP};
use crate::ports::{Address, AppRow, Boot, Gate, Lease, OpenSend, SessionKey, Waiting};
use crate::reads::Read;
pub(crate) use crate::run::{Flags, Flight, Loss, Run, RunLocation};
use crate::settings::{Planted, Settings};
use crate::time::SharedTime;
use agenda::Agenda;
use boxes::{Inbox, Outbox};
use executors::KnownExecutors;
pub(crate) use in_flight::ClassesInFlight;
use in_flight::InFlight;
pub(crate) use loaded::{Active, LoadedRuns};
pub(crate) use membership::{Held, Membership, TELL_DRAINED};

/// No pause after a failure of the store is longer, however often it fails.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Everything that a node has in memory, by subject.
pub(crate) struct Memory {
    pub(crate) cluster: Membership,
    /// The same value as outside the lock.
    pub(crate) time: SharedTime,
    pub(crate) jobs: Jobs,
    pub(crate) loaded: LoadedRuns,
    pub(crate) in_flight: InFlight,
    pub(crate) executors: KnownExecutors,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) agenda: Agenda,
    /// Run ids that were drawn in advance.
    pub(crate) blocks: Blocks,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<Planted>,
}

impl Memory {
    /// The other nodes that live.
    pub(crate) fn other_nodes(&self) -> Vec<NodeId> {
        self.cluster.nodes.iter().map(|row| row.node).filter(|node| *node != self.cluster.id).collect()
    }

    /// The other node that is to hear what concerns a shard: its holder or, while it moves, the one that will take it.
    pub(crate) fn whom_to_tell(&self, shard: ShardId) -> Option<NodeId> {
        match self.cluster.owners.get(usize::from(shard.0)).copied().flatten() {
            Some(owner) => Some(owner).filter(|owner| *owner != self.cluster.id),
            None => chosen(shard, &self.other_nodes()),
        }
    }

    pub(crate) fn new(id: NodeId, settings: &Settings) -> Memory {
        Memory {
            cluster: Membership::of(id),
            time: SharedTime::default(),
            jobs: Jobs::new(settings.known_max, settings.classes.clone()),
            loaded: LoadedRuns::new(settings.wheel_capacity),
            in_flight: InFlight::new(settings.limits),
            executors: KnownExecutors::default(),
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            agenda: Agenda::default(),
            blocks: Blocks::default(),
            #[cfg(feature = "planted")]
            planted: settings.planted,
        }
    }

    /// Whether a bug is planted that the simulator must find.
    #[cfg(feature = "planted")]
    pub(crate) fn has_planted(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    #[cfg(not(feature = "planted"))]
    pub(crate) const fn has_planted(&self, _: Planted) -> bool {
        false
    }

    /// Whether anything may be begun at this moment, and the cluster's time if so.
    pub(crate) fn trusted_now(&self, boot: Boot) -> Option<Timestamp> {
        let is_trusted = self.cluster.tenure.is_some_and(|tenure| tenure.is_trusted(boot));
        if is_trusted { self.time.now(boot) } else { None }
    }

    pub(crate) fn shard_count(&self) -> u16 {
        u16::try_from(self.cluster.owners.len()).unwrap_or(u16::MAX)
    }

    /// Takes note of how long an app keeps its runs.
    pub(crate) fn note_retention(&mut self, app: &AppRow) {
        match app.retention {
            Some(kept) => self.executors.retentions.insert(app.name.clone(), kept),
            None => self.executors.retentions.remove(&app.name),
        };
    }

    pub(crate) fn lease(&self, shard: ShardId) -> Option<Lease> {
        self.cluster.held.get(&shard).map(|held| Lease { shard, epoch: held.epoch })
    }

    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.cluster.held.iter().map(|(shard, held)| Lease { shard: *shard, epoch: held.epoch }).collect()
    }

    // --- loading ---

    /// Takes in an open run that a read has found in the store. What lies beyond our reach stays there: loading will
    /// find it.
    pub(crate) fn take_in(&mut self, read: Read, waiting: &Waiting) {
        let Some(held) = self.cluster.held.get(&waiting.shard).copied() else { return };
        let is_doubtful = waiting.ready_at < held.inherited;
        self.take(read, waiting, held, is_doubtful);
    }

    /// Takes in a run that certainly has not been sent, if the shard is held as it was then: this node has written the
    /// run, or called it back, under this epoch.
    pub(crate) fn take_in_new(&mut self, read: Read, waiting: &Waiting, epoch: Option<Epoch>) {
        let Some(held) = self.cluster.held.get(&waiting.shard).copied() else { return };
        if epoch == Some(held.epoch) {
            self.take(read, waiting, held, false);
        } else {
            self.take_in(read, waiting);
        }
    }

    fn take(&mut self, read: Read, waiting: &Waiting, held: Held, is_doubtful: bool) {
        let mark = Mark { due: waiting.ready_at, id: waiting.run.0 };
        let is_known =
            self.loaded.runs.contains_key(&waiting.run) || self.loaded.reads.is_stale(read, waiting.run);
        if mark >= held.reach || is_known {
            return;
        }
        let mut run = Run::from(waiting);
        run.flags.is_doubtful = is_doubtful;
        run.flags.may_be_gated = self.loaded.unsure.remove(&waiting.run);
        self.loaded.insert(waiting, run);
        if !self.fly_on(waiting.run) {
            self.arm(waiting.run);
        }
    }

    /// Puts a run of ours into the wheel for the time it is ready at.
    pub(crate) fn arm(&mut self, id: RunId) {
        let Some(run) = self.loaded.runs.get(&id).copied() else { return };
        if run.location != RunLocation::Wheel {
            self.move_to(id, RunLocation::Wheel);
        }
        // Where more is due than fits in the due queue, jobs take turns.
        let timer = Timer { due: run.ready_at, priority: run.priority, group: run.job.0, id: id.0 };
        self.judge_armed(id);
        if self.loaded.wheel.arm(timer) == Armed::Beyond {
            self.let_lie(id);
        }
        self.drop_pushed_out();
        self.outbox.wakes.fire = true;
    }

    /// Runs that the wheel pushed out are in the store only, and so is every run behind its mark.
    fn drop_pushed_out(&mut self) {
        let dropped = self.loaded.wheel.take_dropped();
        for id in dropped {
            self.let_lie(RunId(id));
        }
        self.keep_below_mark();
    }

    /// Forgets an open run that is only in the store from now on.
    fn let_lie(&mut self, id: RunId) {
        if self.loaded.runs.get(&id).is_some_and(|run| run.flags.may_be_gated) {
            self.loaded.unsure.insert(id);
        }
        self.forget(id);
    }

    /// Nothing behind the wheel's mark counts as loaded.
    pub(crate) fn keep_below_mark(&mut self) {
        let Some(mark) = self.loaded.wheel.mark() else { return };
        for held in self.cluster.held.values_mut() {
            held.loaded = held.loaded.min(mark);
            held.reach = held.reach.min(mark);
        }
    }

    /// Takes in a run that an earlier holder sent through a gate.
    pub(crate) fn adopt(&mut self, read: Read, open: &OpenSend, deadline: Timestamp, now: Timestamp) {
        let id = open.run.run;
        let is_known = self.loaded.runs.contains_key(&id) || self.loaded.reads.is_stale(read, id);
        let Some(held) = self.cluster.held.get(&open.run.shard).copied().filter(|_| !is_known) else {
            return;
        };
        let mut run = Run::from(&open.run);
        run.flags.may_be_gated = self.loaded.unsure.remove(&id);
        if run.origin != Origin::Part {
            self.loaded.active.entry(run.job).or_default().running.insert(id);
        }
        if let Some((ready_at, attempt)) = open.retry {
            (run.ready_at, run.attempt) = (ready_at, attempt);
            run.flags.may_repeat = true;
            run.flags.has_unread_past = true;
            run.flags.has_gate = true;
            // The gate is that of an earlier attempt; this one may have been sent without.
            run.flags.is_doubtful = ready_at < held.inherited;
            self.loaded.insert(&open.run, run);
            self.wait_between(id);
            return;
        }
        self.loaded.insert(&open.run, run);
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
                was_claimed: false,
                possible_duplicate: open.run.attempt > Attempt::FIRST,
                http: None,
                is_answered: false,
                deadline,
                unclear: None,
                loss: None,
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
        self.move_to(id, RunLocation::Between);
        self.outbox.wakes.fire = true;
    }

    /// After a write whose outcome is unknown: what it may have written is read again.
    pub(crate) fn read_again(&mut self, shard: ShardId, from: Timestamp) {
        if let Some(held) = self.cluster.held.get_mut(&shard) {
            held.loaded = held.loaded.min(Mark { due: from, id: 0 });
            held.is_in_question = true;
            self.outbox.wakes.load = true;
        }
    }

    /// Forgets a run that may have a gate: it is found again by adopting or by loading, if it is open.
    pub(crate) fn leave_behind(&mut self, id: RunId, run: &Run) {
        self.forget(id);
        self.read_again(run.shard, run.ready_at);
        if let Some(held) = self.cluster.held.get_mut(&run.shard) {
            held.is_adopted = false;
            self.outbox.wakes.load = true;
        }
    }

    /// Has a run looked up in the store soon.
    pub(crate) fn look_up_later(&mut self, id: RunId) {
        self.inbox.heard_of.push(id);
        self.outbox.wakes.tend = true;
    }

    // --- due ---

    /// Moves a run to another location: out of the set that it is in, into that of the new one. The wheel's timer, the keys that a run
    /// waits for, what it seeks, and its attempt in flight are for the caller to add.
    pub(crate) fn move_to(&mut self, id: RunId, to: RunLocation) {
        let Some(run) = self.loaded.runs.get(&id).copied() else { return };
        self.loaded.take_out(id, &run);
        self.enter(id, to);
    }

    /// The same for a run that the set of its location has handed out.
    pub(crate) fn enter(&mut self, id: RunId, to: RunLocation) {
        let Some(run) = self.loaded.runs.get_mut(&id) else { return };
        run.location = to;
        if to.is_ranked() {
            // It is in no set at this moment, so its rank may change.
            run.class = self.jobs.class_of(run.job);
        }
        let run = *run;
        match to {
            RunLocation::Between => drop(self.loaded.between.insert((run.ready_at, id))),
            RunLocation::Ready => self.line_up(run.job, run.rank(id)),
            RunLocation::Queued => {
                self.loaded.active.entry(run.job).or_default().queue.insert(run.rank(id));
            }
            RunLocation::Busy => drop(self.loaded.busy.insert(id)),
            RunLocation::Wheel | RunLocation::Keyed | RunLocation::Seeking | RunLocation::Flight => {}
        }
        debug_assert!(self.loaded.is_nowhere_else(id, &run), "run {id} is not only in {to:?}: {run:?}");
    }

    /// Puts a run into the due queue. Which line it belongs to may have changed when it is picked.
    fn line_up(&mut self, job: JobId, rank: Rank) {
        let app = self.app_number(job);
        let pool = if self.is_http(job) { Some(Pool::Fast) } else { None };
        self.loaded.ready.insert(pool, app, job, rank);
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

    /// Lets go of a run that a step had in hand: it is due as before, or waits for its time as before.
    pub(crate) fn let_go(&mut self, id: RunId, now: Timestamp) {
        let Some(run) = self.in_hand(id) else { return };
        if run.ready_at <= now {
            self.move_to(id, RunLocation::Ready);
        } else {
            self.arm(id);
        }
    }

    /// The run, if the step that took it still has it.
    pub(crate) fn in_hand(&self, id: RunId) -> Option<Run> {
        self.loaded.runs.get(&id).copied().filter(|run| run.location == RunLocation::Busy)
    }

    /// Lets a run wait for another time, or for another attempt, as the store now says.
    pub(crate) fn put_off(&mut self, id: RunId, ready_at: Timestamp, attempt: Attempt, may_repeat: bool) {
        self.loaded.reads.touch(id);
        let was_gated = self.land(id).is_some_and(|flight| flight.is_gated);
        self.loaded.seekers.remove(id);
        self.unchoose(id);
        let Some(run) = self.loaded.runs.get(&id).copied() else { return };
        self.loaded.take_out(id, &run);
        let has_gate = was_gated || run.flags.may_be_gated || run.flags.has_gate;
        if !has_gate {
            self.forget_keys(id);
        }
        let flags = Flags {
            has_gate,
            is_called_back: false,
            is_doubtful: run.flags.is_doubtful && run.attempt == attempt,
            may_be_gated: run.flags.may_be_gated && run.attempt == attempt,
            may_repeat: run.flags.may_repeat || may_repeat,
            ..run.flags
        };
        self.loaded.runs.insert(id, Run { ready_at, attempt, flags, ..run });
        let reach = self.cluster.held.get(&run.shard).map(|held| held.reach);
        if has_gate {
            self.wait_between(id);
        } else if reach.is_some_and(|reach| Mark { due: ready_at, id: id.0 } < reach) {
            self.arm(id);
        } else {
            self.let_lie(id);
        }
        if matches!(run.location, RunLocation::Ready | RunLocation::Busy) {
            // It had its turn and did not take it.
            self.promote(run.job);
        }
    }

    // --- on the way ---

    pub(crate) fn fly(&mut self, id: RunId, flight: Flight) {
        self.loaded.reads.touch(id);
        self.move_to(id, RunLocation::Flight);
        if let Some(run) = self.loaded.runs.get_mut(&id) {
            run.attempt = flight.attempt;
        }
        self.take_place(id, &flight);
        self.count_in_class(id);
        self.in_flight.deadlines.insert((flight.deadline, id));
        if !flight.is_gated && !self.agenda.tends_soon {
            self.agenda.tends_soon = true;
            self.outbox.wakes.tend = true;
        }
        self.plan_lesson(&flight);
        self.in_flight.flights.insert(id, flight);
        self.outbox.wakes.reap = true;
    }

    /// Counts a run that is under way, if its class has a limit. A part counts with its whole.
    fn count_in_class(&mut self, id: RunId) {
        let Some(run) = self.loaded.runs.get(&id).filter(|run| run.origin != Origin::Part) else { return };
        let class = self.jobs.class_of(run.job);
        if self.jobs.limit_of(class).is_some() {
            self.in_flight.classes.take(id, class);
        }
    }

    /// Plans a question about a young attempt to an executor that calls back. The executor may be restarted soon after,
    /// and then it is believed to have nothing only if it once said that it has a run.
    fn plan_lesson(&mut self, flight: &Flight) {
        let callers_back = flight.address.as_ref().filter(|address| address.dialect != Dialect::Native);
        let Some(of) = callers_back.map(|address| SessionKey::from(&**address)) else { return };
        let at = flight.heard_since().saturating_add(LEARN);
        self.outbox.wakes.watch |= self.executors.doubts.plan_lesson(of, at);
    }

    /// Gates for what went out from these shards without one, not later than `sent_by`: from then on it is known to be
    /// running. They are in the order of their shards.
    pub(crate) fn notes(&self, leases: &[Lease], sent_by: Timestamp) -> Vec<Gate> {
        let leases: BTreeMap<ShardId, Lease> = leases.iter().map(|lease| (lease.shard, *lease)).collect();
        let is_due = |flight: &Flight| !flight.is_gated && flight.sent_at <= sent_by;
        let flights = self.in_flight.flights.iter().filter(|(_, flight)| is_due(flight));
        let note = |(id, flight): (&RunId, &Flight)| {
            let run = self.loaded.runs.get(id)?;
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
        let flight = self.in_flight.flights.remove(&id)?;
        self.in_flight.deadlines.remove(&(flight.deadline, id));
        self.executors.doubts.forget(id);
        self.outbox.wakes.fire |= self.in_flight.classes.give_back(id);
        if let Some(place) = flight.http {
            self.in_flight.places.give_back(place.pool, place.app, place.job);
            self.outbox.wakes.fire = true;
        }
        Some(flight)
    }

    /// A run as its job is asked about it. A part is judged by the origin of its whole.
    pub(crate) fn candidate(&self, id: RunId, run: &Run) -> Candidate {
        let whole = self.loaded.parts.get(id).and_then(|known| self.loaded.runs.get(&known.whole));
        Candidate { origin: whole.map_or(run.origin, |whole| whole.origin), ..run.candidate() }
    }

    // --- forgetting ---

    /// Forgets a run: it is closed, or held by another node, or only in the store.
    pub(crate) fn forget(&mut self, id: RunId) {
        self.loaded.reads.touch(id);
        self.land(id);
        self.loaded.seekers.remove(id);
        self.unchoose(id);
        self.loaded.parts.forget(id);
        self.executors.natives.forget(id);
        self.in_flight.outlived.remove(&id);
        self.loaded.supposed.remove(&id);
        self.loaded.spared.remove(&id);
        let Some(run) = self.loaded.runs.remove(&id) else { return };
        self.loaded.overrides.remove(&id);
        self.loaded.ahead.take(id);
        self.loaded.take_out(id, &run);
        self.forget_keys(id);
        self.outbox.wakes.load |= self.has_room_again();
        let Some(active) = self.loaded.active.get_mut(&run.job) else { return };
        let was_running = active.running.remove(&id);
        // It has left its place, or had its turn and did not take it.
        if was_running || matches!(run.location, RunLocation::Ready | RunLocation::Busy) {
            self.promote(run.job);
        }
        let is_idle = |active: &Active| active.running.is_empty() && active.queue.is_empty();
        if self.loaded.active.get(&run.job).is_some_and(is_idle) {
            self.loaded.active.remove(&run.job);
        }
    }

    /// After the wheel was full: whether loading is to go on, now that there is room for more than a few.
    pub(crate) fn has_room_again(&self) -> bool {
        self.loaded.wheel.mark().is_some() && self.loaded.wheel.room() * 4 >= self.loaded.wheel_capacity
    }

    /// A place of a job became free: the first run that waits for it asks again.
    pub(crate) fn promote(&mut self, job: JobId) {
        self.call_parked(job, false);
        let Some(active) = self.loaded.active.get_mut(&job) else { return };
        if let Some(rank) = active.queue.pop_first() {
            self.enter(rank.run, RunLocation::Ready);
            self.outbox.wakes.fire = true;
        }
    }

    /// Notes that parked runs of a job may have their turn.
    pub(crate) fn call_parked(&mut self, job: JobId, since_change: bool) {
        self.outbox.wakes.tend |= self.loaded.parked.call(job, since_change);
    }

    /// A job was changed: it is read again before anything is done for it, and what waits for it may go on.
    pub(crate) fn note_change(&mut self, job: JobId) {
        self.jobs.forget(job);
        // Its target or its app may be another.
        self.loaded.ready.rehome(job, None, UNKNOWN_APP);
        self.call_parked(job, true);
        // Its limit may be another: whatever waits for a place asks again.
        let queue = self.loaded.active.get_mut(&job).map(|active| std::mem::take(&mut active.queue));
        for rank in queue.unwrap_or_default().iter() {
            self.enter(rank.run, RunLocation::Ready);
            self.outbox.wakes.fire = true;
        }
        let of_job = |id: &RunId| self.loaded.runs.get(id).is_some_and(|run| run.job == job);
        let seeking: Vec<RunId> = self.loaded.seekers.ids().filter(of_job).collect();
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
            let doubled = pause.saturating_mul(1 << self.agenda.failures.min(10)).min(PAUSE_MAX);
            self.agenda.failures += 1;
            self.agenda.paused_until = boot.plus(doubled);
        }
        let reason = Text::Owned(reason.to_string());
        self.agenda.failing.failed(step, boot, reason.clone());
        self.outbox.events.push(Event::StoreFailed { step, reason });
    }
}
