//! Native executors, as the node sees them: their sessions here, how much they take, what they say they hold; and runs
//! that wait until one of them takes more.
//!
//! App and address together identify an executor: executors choose their addresses, and an executor of another app that
//! has chosen the same address is a different one.
//!
//! An executor is there as long as it has a session. It has what it was given until it reports, or says that it never
//! got it, or stays away for longer than a broken connection may last.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::fire::Rank;
use punctual_core::model::{Attempt, AttemptOutcome, Job, RunId, Text, Token};
use punctual_core::registry::Dialect;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::doubt::passed;
use crate::memory::{Flight, Memory, Run, RunLocation};
use crate::ports::{Address, Beat, Boot, Further, Receipt, Report, SessionKey};
use crate::settings::RegistrySettings;

/// How often an executor is told how many runs wait for it.
const WANT_EVERY: Duration = Duration::from_millis(200);

/// How often other nodes are asked to carry.
const CARRY_EVERY: Duration = Duration::from_secs(1);

/// How their addresses begin.
pub(crate) const NATIVE: &str = "native:";

/// An executor that has a session with this node.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    /// Which session of all that were ever opened here.
    session: SessionId,
    /// How many more runs it takes from us now.
    room: u32,
    /// What it offers; none if it takes everything.
    handlers: Option<Arc<FxHashSet<Text>>>,
    /// Whether its session is with another node, which carries for us.
    is_carried: bool,
}

impl Native {
    fn offers(&self, handler: &str) -> bool {
        self.handlers.as_ref().is_none_or(|handlers| handlers.contains(handler))
    }
}

/// The number of a session with a native executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionId(u64);

/// An attempt that an executor says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run: RunId,
    /// Which try.
    pub attempt: Attempt,
    /// The token that it was sent with.
    pub token: Token,
}

/// An executor that had attempts and has no session here.
#[derive(Clone, Debug)]
struct Absence {
    since: Timestamp,
    /// Whether the other nodes were asked for it.
    is_asked: bool,
}

/// A native executor that comes, or comes back.
pub(crate) struct Comer {
    /// Where it is.
    pub(crate) address: Arc<Address>,
    /// What it offers; nothing if it takes everything.
    pub(crate) handlers: Vec<Text>,
    /// Whether another node carries for it.
    pub(crate) is_carried: bool,
}

/// What is known of native executors.
#[derive(Debug, Default)]
pub(crate) struct Natives {
    here: FxHashMap<SessionKey, Native>,
    /// Executors whose session is broken, or that have not been seen since this node took shards over.
    absent: FxHashMap<SessionKey, Absence>,
    /// Attempts that executors claim and that were not known here to be on their way.
    claims: FxHashMap<RunId, (Claim, Arc<Address>)>,
    /// Until when executors may list their claims, after shards were taken over.
    listening_until: Option<Boot>,
    /// Runs that wait for that time to end.
    unclaimed: Vec<RunId>,
    /// Whether unused credit exists, so that runs that wait for credit should be tried again.
    has_spare: bool,
    /// When executors may be told again how many runs wait for them.
    wants_from: Boot,
    /// Executors that are there and have no session here, and since when.
    unreached: FxHashMap<SessionKey, Timestamp>,
    /// When other nodes may be asked again to carry for those.
    carried_from: Boot,
    sessions: u64,
}

impl Natives {
    /// What an executor offers, by name; none if it is not here, or takes everything.
    pub(crate) fn handlers(&self, of: &SessionKey) -> Option<Vec<Text>> {
        let mut handlers: Vec<Text> = self.here.get(of)?.handlers.as_ref()?.iter().cloned().collect();
        handlers.sort_unstable();
        Some(handlers)
    }

    pub(crate) fn is_here(&self, of: &SessionKey) -> bool {
        self.here.contains_key(of)
    }

    /// Whether the executor has a session with this very node.
    pub(crate) fn is_reached(&self, of: &SessionKey) -> bool {
        self.here.get(of).is_some_and(|native| !native.is_carried)
    }

    /// The executors with this address, of whatever app, that have a session with this very node.
    pub(crate) fn reached_at(&self, url: &str) -> Vec<SessionKey> {
        let is_meant = |(of, native): &(&SessionKey, &Native)| of.url == url && !native.is_carried;
        let mut reached: Vec<SessionKey> =
            self.here.iter().filter(is_meant).map(|(of, _)| of.clone()).collect();
        reached.sort_unstable();
        reached
    }

    fn at(&self, address: &Address) -> Option<&Native> {
        self.here.get(&SessionKey::from(address))
    }

    /// Whether no executor has a session.
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// The beats of all executors that have a session with this very node.
    pub(crate) fn beats(&self) -> Vec<Beat> {
        let reached = self.here.iter().filter(|(_, native)| !native.is_carried);
        let mut reached: Vec<&SessionKey> = reached.map(|(of, _)| of).collect();
        reached.sort_unstable();
        let beat = |SessionKey { app, url }: &SessionKey| Beat {
            app: app.clone(),
            address: url.clone(),
            dialect: Dialect::Native,
        };
        reached.into_iter().map(beat).collect()
    }

    /// Whether the executor takes another run; those that are not native are asked elsewhere.
    pub(crate) fn has_room(&self, address: &Address) -> bool {
        address.dialect != Dialect::Native || self.at(address).is_some_and(|native| native.room > 0)
    }

    /// Whether the executor may have a run for this handler from us.
    pub(crate) fn offers(&self, address: &Address, handler: &str) -> bool {
        let of = |native: &Native| native.offers(handler);
        address.dialect != Dialect::Native || self.at(address).is_some_and(of)
    }

    /// Takes a place of an executor, or gives it back.
    fn take(&mut self, address: &Address) {
        if let Some(native) = self.here.get_mut(&SessionKey::from(address)) {
            native.room = native.room.saturating_sub(1);
        }
    }

    fn give_back(&mut self, address: &Address) {
        if let Some(native) = self.here.get_mut(&SessionKey::from(address)) {
            native.room = native.room.saturating_add(1);
            self.has_spare = true;
        }
    }

    /// Takes places of an executor for another node that it is carried to; returns how many there were.
    pub(crate) fn lend(&mut self, of: &SessionKey, runs: u64) -> u32 {
        let Some(native) = self.here.get_mut(of) else { return 0 };
        let lent = native.room.min(u32::try_from(runs).unwrap_or(u32::MAX));
        native.room -= lent;
        lent
    }

    /// The attempt of this run that an executor claims, and the executor.
    pub(crate) fn claim(&self, id: RunId) -> Option<&(Claim, Arc<Address>)> {
        self.claims.get(&id)
    }

    fn drop_claims(&mut self, of: &SessionKey) {
        self.claims.retain(|_, (_, address)| SessionKey::from(&**address) != *of);
    }

    /// Forgets the claim of a run that is over, or held by another node.
    pub(crate) fn forget(&mut self, id: RunId) {
        self.claims.remove(&id);
    }

    /// Forgets the claims of some runs.
    pub(crate) fn forget_claims(&mut self, of: impl Fn(&RunId) -> bool) {
        self.claims.retain(|id, _| !of(id));
    }

    /// Shards were taken over: executors get some time to say what they have of them.
    pub(crate) fn listen_until(&mut self, until: Boot) {
        self.listening_until = self.listening_until.max(Some(until));
    }

    /// Whether executors may still say what they hold.
    pub(crate) fn is_listening(&self, boot: Boot) -> bool {
        self.listening_until.is_some_and(|until| boot < until)
    }

    /// When that time ends, if a run waits for it.
    pub(crate) fn listened(&self) -> Option<Boot> {
        self.listening_until.filter(|_| !self.unclaimed.is_empty())
    }

    /// When the first broken session can no longer be resumed.
    pub(crate) fn next_loss(&self, settings: &RegistrySettings) -> Option<Timestamp> {
        self.absent
            .values()
            .map(|absence| absence.since)
            .min()
            .map(|since| since.saturating_add(settings.resume))
    }

    /// The absent executors that the other nodes have not been asked for yet.
    pub(crate) fn missing(&mut self) -> Vec<Text> {
        let unasked = self.absent.iter_mut().filter(|(_, absence)| !absence.is_asked);
        let mut missing: Vec<Text> = unasked
            .map(|(of, absence)| {
                absence.is_asked = true;
                of.url.clone()
            })
            .collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

impl Flight {
    /// Whether this executor has the attempt.
    fn is_at(&self, of: &SessionKey) -> bool {
        self.address.as_ref().is_some_and(|at| at.app == of.app && at.url == of.url)
    }
}

impl Memory {
    /// Those of a crew that may have a run for this handler from this node.
    pub(crate) fn offering(&self, crew: &[Arc<Address>], handler: &str) -> Vec<Arc<Address>> {
        crew.iter().filter(|address| self.executors.natives.offers(address, handler)).cloned().collect()
    }

    /// Whether a run of the job may have been sent to a native executor without a gate. Where the executors of its app
    /// are not known, it may have been.
    pub(crate) fn may_have_gone_ungated(&self, id: RunId, job: &Job) -> bool {
        let may = job.executor().is_some() && !self.must_be_gated(id, job);
        let mut known = self.executors.registry.executors(&job.definition.app).peekable();
        may && (known.peek().is_none() || known.any(|executor| executor.dialect == Dialect::Native))
    }

    /// Chooses an executor for a run; a native executor has one place less from now on.
    pub(crate) fn choose_for(&mut self, id: RunId, address: Arc<Address>) {
        if address.dialect == Dialect::Native {
            self.executors.natives.take(&address);
        }
        self.loaded.chosen.insert(id, address);
    }

    /// Takes the choice back.
    pub(crate) fn unchoose(&mut self, id: RunId) {
        if let Some(address) =
            self.loaded.chosen.remove(&id).filter(|address| address.dialect == Dialect::Native)
        {
            self.executors.natives.give_back(&address);
        }
    }

    /// An executor came, or came back. An attempt that it was given and does not hold never arrived.
    pub(crate) fn native_came(&mut self, comer: Comer, holds: &[Claim], now: Timestamp) -> SessionId {
        let Comer { address, handlers, is_carried } = comer;
        let of = SessionKey::from(&*address);
        let handlers = (!handlers.is_empty()).then(|| Arc::new(handlers.into_iter().collect()));
        self.executors.natives.sessions += 1;
        let session = SessionId(self.executors.natives.sessions);
        let native = Native { session, room: 0, handlers, is_carried };
        let before = self.executors.natives.here.insert(of.clone(), native);
        self.executors.natives.absent.remove(&of);
        self.executors.natives.unreached.remove(&of);
        self.executors.natives.drop_claims(&of);
        let held: FxHashMap<RunId, Attempt> = holds.iter().map(|claim| (claim.run, claim.attempt)).collect();
        let missing = self.flights_at(&of).into_iter().filter(|(id, attempt)| held.get(id) != Some(attempt));
        for (id, _) in missing.collect::<Vec<_>>() {
            match before {
                None if !is_carried => self.report_unsent(id, now),
                // The old session may still deliver it, and a relaying node's list of claims may be stale.
                _ => self.take_for_lost(id, Text::Borrowed("the executor does not have it"), now),
            }
        }
        for claim in holds {
            let flight = self.in_flight.flights.get_mut(&claim.run);
            match flight.filter(|flight| flight.attempt == claim.attempt) {
                Some(flight) => flight.was_claimed |= flight.token == claim.token && flight.is_at(&of),
                None => {
                    self.executors.natives.claims.insert(claim.run, (claim.clone(), Arc::clone(&address)));
                }
            }
        }
        let unclaimed = std::mem::take(&mut self.executors.natives.unclaimed);
        let (found, left) = unclaimed.into_iter().partition(|id| held.contains_key(id));
        self.executors.natives.unclaimed = left;
        Vec::into_iter(found).for_each(|id| self.seek_again(id));
        // Runs that wait because no executor had a session may go to this one.
        self.recall(&of.app);
        session
    }

    /// An executor's session is over. One that said goodbye has nothing any more; any other may come back.
    pub(crate) fn native_went(
        &mut self,
        of: &SessionKey,
        session: SessionId,
        is_final: bool,
        now: Timestamp,
    ) -> bool {
        if self.executors.natives.here.get(of).is_none_or(|native| native.session != session) {
            return false;
        }
        let Some(native) = self.executors.natives.here.remove(of) else { return false };
        if native.is_carried {
            // The node that carried it may do so again at once.
            self.executors.natives.unreached.insert(of.clone(), Timestamp::MIN);
            self.executors.natives.carried_from = Boot::default();
        }
        self.recall_stalled(&of.app);
        self.executors.natives.absent.insert(of.clone(), Absence { since: now, is_asked: false });
        if is_final {
            self.lose_native(of, now);
        }
        self.outbox.wakes.watch = true;
        true
    }

    /// An executor takes nothing more, and ends what it has.
    pub(crate) fn native_drains(&mut self, of: &SessionKey) {
        if let Some(native) = self.executors.natives.here.get_mut(of) {
            native.room = 0;
            // It offers nothing, so no run waits for it either.
            native.handlers = Some(Arc::default());
            self.recall_stalled(&of.app);
        }
    }

    /// Executors that other nodes are asked to carry for us: they are there and have had no session here, for a while
    /// or while a run waits for an executor of their app.
    pub(crate) fn uncarried(&mut self, boot: Boot, now: Timestamp, patience: Duration) -> Vec<Text> {
        if boot < self.executors.natives.carried_from || self.cluster.held.is_empty() {
            return Vec::new();
        }
        let awaited = self.loaded.seekers.apps();
        let mut before = std::mem::take(&mut self.executors.natives.unreached);
        let mut asked = Vec::new();
        for app in self.executors.registry.apps() {
            let natives = self
                .executors
                .registry
                .routable(&app.name)
                .filter(|(_, dialect)| *dialect == Dialect::Native);
            for of in natives.map(|(url, _)| SessionKey::new(&app.name, url)) {
                if self.executors.natives.here.contains_key(&of) {
                    continue;
                }
                let since = before.remove(&of).unwrap_or(now);
                if passed(since, now) >= patience || awaited.iter().any(|name| **name == *app.name) {
                    asked.push(of.url.clone());
                }
                self.executors.natives.unreached.insert(of, since);
            }
        }
        if !asked.is_empty() {
            self.executors.natives.carried_from = boot.plus(CARRY_EVERY);
        }
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// An executor takes more: runs that wait for it ask again, the first of them first.
    pub(crate) fn credit(&mut self, of: &SessionKey, more: u32) {
        let Some(native) = self.executors.natives.here.get_mut(of) else { return };
        native.room = native.room.saturating_add(more);
        self.executors.natives.has_spare = true;
        self.outbox.wakes.fire |= self.loaded.seekers.stalled_count() > 0;
    }

    /// Lets runs ask again that wait for an executor with free places, the first of them first. Not every run takes its
    /// place, so the search is repeated as long as it finds runs.
    pub(crate) fn call_stalled(&mut self) {
        if !std::mem::take(&mut self.executors.natives.has_spare) || self.loaded.seekers.stalled_count() == 0
        {
            return;
        }
        let with_room =
            |(of, native): (&SessionKey, &Native)| (native.room > 0).then(|| (of.clone(), native.clone()));
        let mut free: Vec<(SessionKey, Native)> =
            self.executors.natives.here.iter().filter_map(with_room).collect();
        free.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (of, native) in free {
            let found =
                self.loaded.seekers.first_stalled(&of.app, &of.url, native.room, |name| native.offers(name));
            self.executors.natives.has_spare |= !found.is_empty();
            found.into_iter().for_each(|id| self.seek_again(id));
        }
    }

    /// How many runs wait for each executor that has used up its credit. It is not said at every call, because the runs
    /// are counted anew each time.
    pub(crate) fn wants(&mut self, boot: Boot) -> Vec<(SessionKey, u64)> {
        if self.loaded.seekers.stalled_count() == 0 || boot < self.executors.natives.wants_from {
            return Vec::new();
        }
        self.executors.natives.wants_from = boot.plus(WANT_EVERY);
        let full = self.executors.natives.here.iter().filter(|(_, native)| native.room == 0);
        let waiting = |(of, native): (&SessionKey, &Native)| {
            let count = self.loaded.seekers.count_stalled(&of.app, &of.url, |name| native.offers(name));
            (count > 0).then(|| (of.clone(), count))
        };
        let mut wants: Vec<(SessionKey, u64)> = full.filter_map(waiting).collect();
        wants.sort_unstable();
        wants
    }

    /// When the executors are told again. A message may have been lost, or have come when the executor had no credit to
    /// give, so it is repeated as long as runs wait.
    pub(crate) fn next_want(&self) -> Option<Boot> {
        let is_wanting = self.loaded.seekers.stalled_count() > 0
            && self.executors.natives.here.values().any(|native| native.room == 0);
        is_wanting.then_some(self.executors.natives.wants_from)
    }

    /// Lets a run wait until an executor takes more: any of its app that offers the handler, or this one only.
    pub(crate) fn stall(&mut self, id: RunId, app: Text, handler: Text, only: Option<Text>) {
        self.move_to(id, RunLocation::Seeking);
        let Some(run) = self.loaded.runs.get(&id) else { return };
        let (job, rank): (_, Rank) = (run.job, run.rank(id));
        self.loaded.seekers.stall(job, app, handler, only, rank);
    }

    /// Lets a run wait until executors had time to claim it.
    pub(crate) fn wait_for_claims(
        &mut self,
        id: RunId,
        app: Text,
        now: Timestamp,
        patience: std::time::Duration,
    ) {
        self.executors.natives.unclaimed.push(id);
        self.seek(id, app, true, now, patience);
    }

    /// Ends the time for claims, once it is up: the runs that no executor has claimed ask again.
    pub(crate) fn end_listening(&mut self, boot: Boot) {
        if self.executors.natives.listening_until.is_some_and(|until| boot >= until) {
            self.executors.natives.listening_until = None;
            let unclaimed = std::mem::take(&mut self.executors.natives.unclaimed);
            unclaimed.into_iter().for_each(|id| self.seek_again(id));
        }
    }

    /// The executor that claims this very attempt.
    pub(crate) fn claim_of(&mut self, id: RunId, run: &Run, job: &Job) -> Option<(Claim, Arc<Address>)> {
        if self.executors.natives.claims.is_empty() {
            return None;
        }
        let (claim, address) = self.executors.natives.claims.remove(&id)?;
        let flags = run.flags;
        // Only an attempt that an earlier holder may have sent, and only an executor of the job's own app.
        let may_be = flags.is_doubtful || flags.may_be_gated || flags.has_gate;
        let is_its = job.executor().is_some() && address.app == job.definition.app;
        let is_so =
            claim.attempt == run.attempt && self.executors.natives.is_here(&SessionKey::from(&*address));
        (may_be && is_its && is_so).then_some((claim, address))
    }

    /// An attempt of an earlier holder is at an executor that may not come back.
    pub(crate) fn watch_for(&mut self, address: &Address, now: Timestamp) {
        let of = SessionKey::from(address);
        if address.dialect == Dialect::Native && !self.executors.natives.is_here(&of) {
            let absence = Absence { since: now, is_asked: false };
            self.executors.natives.absent.entry(of).or_insert(absence);
        }
    }

    /// Gives up the attempts of executors that stayed away for too long; unless another node has a session with such an
    /// executor: then it still has them, and reports their ends there.
    pub(crate) fn lose_absent(&mut self, now: Timestamp, settings: &RegistrySettings) {
        let is_over = |absence: &Absence| passed(absence.since, now) >= settings.resume;
        let over = self.executors.natives.absent.iter().filter(|(_, absence)| is_over(absence));
        let mut over: Vec<(SessionKey, Absence)> =
            over.map(|(of, absence)| (of.clone(), absence.clone())).collect();
        over.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (of, absence) in over {
            let heard_of =
                self.executors.registry.executor(&of.app, &of.url).and_then(|executor| executor.last_beat);
            if heard_of.is_some_and(|at| at > absence.since) {
                self.executors.natives.absent.insert(of, Absence { since: now, is_asked: false });
            } else {
                self.lose_native(&of, now);
            }
        }
    }

    fn lose_native(&mut self, of: &SessionKey, now: Timestamp) {
        self.executors.natives.absent.remove(of);
        self.executors.natives.drop_claims(of);
        for (id, _) in self.flights_at(of) {
            self.take_for_lost(id, Text::Borrowed("the executor is gone"), now);
        }
    }

    /// The attempts that this node knows an executor to have.
    fn flights_at(&self, of: &SessionKey) -> Vec<(RunId, Attempt)> {
        let flights = self.in_flight.flights.iter().filter(|(_, flight)| flight.is_at(of));
        let mut flights: Vec<_> = flights.map(|(id, flight)| (*id, flight.attempt)).collect();
        flights.sort_unstable();
        flights
    }

    fn report_unsent(&mut self, id: RunId, now: Timestamp) {
        let Some(flight) = self.in_flight.flights.get(&id) else { return };
        let report = Report {
            receipt: Receipt::default(),
            run: id,
            attempt: flight.attempt,
            token: flight.token,
            outcome: AttemptOutcome::Refused,
            message: Text::Borrowed("the connection broke before it arrived"),
            executor: flight.executor.clone(),
            app: None,
            started_at: now,
            ended_at: None,
            retry_after: None,
            further: Further::Unsent,
        };
        self.receive(report, Some(now));
    }

    /// Lets every run ask again that waits for an executor of this app to take more.
    fn recall_stalled(&mut self, app: &Text) {
        self.loaded.seekers.all_stalled(app).into_iter().for_each(|id| self.seek_again(id));
    }
}
