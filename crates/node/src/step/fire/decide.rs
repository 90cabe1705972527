//! What becomes of each run in hand: its job is asked, and then whether there is a place for the run.

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::fire::{Rank, Wanted};
use punctual_core::engine::{reap, settle};
use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Decided, ExclusiveKeys, Hold, Job, JobId, LogId, Origin,
    Outcome, RunId, Skip, Target, Text, Then, Token,
};
use punctual_core::policy::block::{self, Admission, Block};
use punctual_core::policy::misfire::GRACE;
use punctual_core::registry::Dialect;

use super::{COVERED, Decision, Prepared, Turn, too_long};
use crate::Node;
use crate::doubt::passed;
use crate::jobs::Known;
use crate::memory::{Flight, Memory, Run, RunLocation};
use crate::places::HttpPlace;
use crate::ports::{Address, Dispatched, Gate, Kill};
use crate::settings::Planted;
use crate::step::Ended;

impl Node {
    /// Asks every run's job, and admits what it wants. What needs no gate is on its way when this returns.
    pub(super) fn decide(&self, picked: &[RunId], prepared: &Prepared) -> Decision {
        let boot = self.boot();
        let bits = self.ports.entropy.bits();
        let mut memory = self.memory();
        let Some(now) = memory.trusted_now(boot) else {
            drop(memory);
            self.put_back(picked);
            return Decision::default();
        };
        let (settings, decision) = (&self.settings, Decision::default());
        let mut turn = Turn { memory: &mut memory, settings, prepared, boot, now, bits, decision };
        for id in picked {
            let Some(run) = turn.memory.in_hand(*id) else { continue };
            match turn.memory.jobs.get(run.job).cloned() {
                Some(Known::Job(job)) => turn.decide(*id, &run, &job),
                // Behind a gate that may be ours or not, it is found by adopting, and ends by silence.
                Some(Known::Poisoned(_) | Known::Missing) if run.flags.may_be_gated => {
                    turn.leave_behind(*id, &run)
                }
                Some(Known::Poisoned(reason)) => turn.fail(*id, &run, reason),
                Some(Known::Missing) => turn.fail(*id, &run, Text::Borrowed("its job is missing")),
                // It changed while the step was on its way; the next round asks the changed one.
                None => turn.memory.move_to(*id, RunLocation::Ready),
            }
        }
        turn.decision
    }
}

impl Turn<'_> {
    fn decide(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        if let Some((claim, address)) = self.memory.claim_of(id, run, job) {
            return self.resume(id, run, job, claim.token, address);
        }
        if run.flags.is_doubtful && self.memory.may_have_been_sent(id, job, run, self.settings.term_max()) {
            return self.doubt(id, run, job);
        }
        if run.flags.may_be_gated {
            // Only the key can say; the second look asks the job.
            return self.go_on(id, run, job);
        }
        if let Some(reason) = self.prepared.payloads.get(&id).and_then(too_long) {
            self.decision.poisoned.push((run.job, reason.clone()));
            return self.fail(id, run, reason);
        }
        match self.ask(id, run, job) {
            Wanted::Start(decided) => {
                if let Some(kept) = self.memory.loaded.runs.get_mut(&id) {
                    kept.decided = decided;
                }
                self.admit(id, &Run { decided, ..*run }, job);
            }
            Wanted::Skip(reason) => self.skip(id, run, job, reason),
            Wanted::Defer(until) => self.wait(id, run, until),
            Wanted::Park => {
                let then = Then::Park { attempt: run.attempt, version: job.version };
                self.decision.ends.push(Ended::unsent(id, run, then));
            }
        }
    }

    /// An earlier holder may have sent the run. Executors are given time to say so, and so are nodes that come back
    /// with this one from an outage of the store. Then the job is asked whether it still wants the run.
    fn doubt(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        let is_returning = self.memory.is_returning(self.boot);
        if (job.executor().is_some() || is_returning) && self.memory.executors.natives.is_listening(self.boot)
        {
            let (app, patience) = (job.definition.app.clone().into(), self.settings.registry.wait);
            return self.memory.wait_for_claims(id, app, self.now, patience);
        }
        let refused = self.prepared.answers.refused(self.memory, (id, run), job, self.now);
        let was_refused = self.memory.is_known_everywhere(job, run, self.settings.term_max());
        match refused {
            // The job has not wanted this run for so long that no holder has sent it.
            Some(Wanted::Skip(reason)) if was_refused => self.skip(id, run, job, reason),
            Some(Wanted::Defer(until)) if was_refused => self.wait(id, run, until),
            Some(Wanted::Park) if was_refused => {
                let then = Then::Park { attempt: run.attempt, version: job.version };
                self.decision.ends.push(Ended::unsent(id, run, then));
            }
            refused => self.suppose(id, run, job, refused),
        }
    }

    /// Records that an earlier holder may have sent the run, and goes on with the next attempt if the job still wants
    /// it.
    fn suppose(&mut self, id: RunId, run: &Run, job: &Arc<Job>, refused: Option<Wanted>) {
        let mut attempt = supposed(run, job, self.now);
        if self.memory.has_planted(Planted::SupposedAsSent) {
            attempt.token = Token(1 << 20 | u64::from(run.attempt.0));
        }
        let end = settle::End {
            attempt: &attempt,
            retry_after: None,
            is_final: false,
            by_loss_of_node: true,
            spared: 0,
        };
        let then = match settle::settle(job, self.memory.loaded.overrides_of(id), &end, self.now, 0) {
            Then::Wait { ready_at, attempt } => match refused {
                Some(Wanted::Skip(reason)) => Then::Close(not_repeated(reason, self.now)),
                Some(Wanted::Defer(until)) => Then::Wait { ready_at: until, attempt },
                Some(Wanted::Park) => Then::Park { attempt, version: job.version },
                Some(Wanted::Start(_)) | None => Then::Wait { ready_at, attempt },
            },
            then => then,
        };
        self.decision.ends.push(Ended::sent(id, run, attempt, then).following(job, run));
    }

    /// An executor has the run already, from an earlier holder: it is on its way as before.
    fn resume(&mut self, id: RunId, run: &Run, job: &Arc<Job>, token: Token, address: Arc<Address>) {
        self.memory.loaded.active.entry(run.job).or_default().running.insert(id);
        self.memory.loaded.seekers.remove(id);
        let deadline =
            reap::deadline(job, self.memory.loaded.overrides_of(id), self.now, self.settings.grace);
        let flight = Flight {
            attempt: run.attempt,
            token,
            sent_at: self.now,
            executor: address.url.clone(),
            address: Some(address),
            is_gated: run.flags.has_gate,
            adopted_at: Some(self.now),
            was_claimed: true,
            possible_duplicate: run.flags.may_repeat,
            http: None,
            is_answered: false,
            deadline,
            unclear: None,
            loss: None,
        };
        self.memory.fly(id, flight);
    }

    /// What the job wants done with the run. A part is asked about as its whole.
    pub(super) fn ask(&self, id: RunId, run: &Run, job: &Job) -> Wanted {
        if run.attempt > Attempt::FIRST && self.memory.has_planted(Planted::RetryUnasked) {
            return Wanted::Start(run.decided);
        }
        let fate = self.prepared.answers.wanted(self.memory, (id, run), job, self.now);
        let is_off = self.memory.has_planted(Planted::MisfireOffByOne) && is_at_threshold(job, run, self.now);
        if is_off && matches!(fate, Wanted::Start(_)) { Wanted::Skip(Skip::Misfire) } else { fate }
    }

    fn admit(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        let rank = run.rank(id);
        if run.origin == Origin::Part {
            // The whole has a place.
            return self.go_on(id, run, job);
        }
        let block = self.memory.block_kept_here(job);
        let active = self.memory.loaded.active.entry(run.job).or_default();
        // Between two attempts it has kept its place, and its keys.
        if job.is_limited() && active.running.contains(&id) {
            return self.go_on(id, run, job);
        }
        let others = (active.running.len() - usize::from(active.running.contains(&id))) as u32;
        let ahead = active.queue.count_before(rank) as u32;
        match block::admit(block, others, ahead) {
            Admission::Start => self.start(id, run, job),
            Admission::Wait => self.queue(id, run, job),
            Admission::Skip => self.skip(id, run, job, Skip::Blocked),
            Admission::Replace => {
                let running = active.running.iter().copied();
                let covered: Vec<RunId> = running.filter(|other| *other != id).collect();
                covered.into_iter().for_each(|other| self.cover(other, job));
                // It asks again when their places are free.
                self.memory.move_to(id, RunLocation::Ready);
            }
        }
    }

    /// A run has its place; its exclusive keys, if it needs some, come with the gate.
    fn start(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        if self.memory.waits_for_keys(id, job) {
            return;
        }
        match self.memory.is_gated(id, job) {
            true => self.go_on(id, run, job),
            false => self.send_ungated(id, run, job),
        }
    }

    /// On to the gate, by way of an executor if it is for one.
    fn go_on(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        match job.executor() {
            Some(executor) => self.seek(id, run, job, executor),
            None => self.draft_gate(id, run, job),
        }
    }

    pub(super) fn send_ungated(&mut self, id: RunId, run: &Run, job: &Arc<Job>) {
        let is_unbound = self.memory.has_planted(Planted::MarkBehind);
        let may_send = self.memory.cluster.tenure.is_some_and(|tenure| tenure.may_send_ungated(run.ready_at));
        let may_send = may_send || is_unbound;
        let (Some(lease), true) = (self.memory.lease(run.shard), may_send) else {
            // The next renewal promises further ahead.
            self.memory.outbox.wakes.renew = true;
            self.memory.agenda.held_until = self.boot.plus(self.settings.pause);
            return self.memory.move_to(id, RunLocation::Ready);
        };
        self.decision.ungated_through = self.decision.ungated_through.max(Some(run.ready_at));
        self.launch(id, run, job, Token::new(lease.epoch, run.attempt), None, self.now);
    }

    /// Memory says "on its way", and dispatch will get it.
    pub(super) fn launch(
        &mut self,
        id: RunId,
        run: &Run,
        job: &Arc<Job>,
        token: Token,
        log: Option<LogId>,
        sent_at: Timestamp,
    ) {
        let Turn { memory, now, .. } = self;
        if run.origin != Origin::Part {
            memory.loaded.active.entry(run.job).or_default().running.insert(id);
        }
        let overrides = memory.loaded.overrides_of(id);
        let timeout = overrides.timeout(&job.definition);
        let deadline = reap::deadline(job, overrides, *now, self.settings.grace);
        let address = memory.loaded.chosen.remove(&id);
        memory.loaded.seekers.remove(id);
        let pool = memory.pool_of(run, *now);
        let app = memory.app_number(run.job);
        let http = pool.map(|pool| HttpPlace { pool, app, job: run.job, is_noted: false });
        memory.fly(
            id,
            Flight {
                attempt: run.attempt,
                token,
                sent_at: *now,
                executor: address.as_ref().map_or_else(|| executor_of(job), |address| address.url.clone()),
                address: address.clone(),
                is_gated: log.is_some(),
                adopted_at: None,
                was_claimed: false,
                possible_duplicate: run.flags.may_repeat,
                http,
                is_answered: false,
                deadline,
                unclear: None,
                loss: None,
            },
        );
        let supposed = memory.loaded.supposed.remove(&id);
        let lag = passed(supposed.unwrap_or(run.ready_at), *now);
        let is_first = run.attempt == Attempt::FIRST || supposed.is_some();
        memory.outbox.events.push(Event::Sent { run: id, job: run.job, attempt: run.attempt, lag, is_first });
        self.decision.sends.push(Dispatched {
            run: id,
            job: Arc::clone(job),
            fire_time: run.fire_time,
            attempt: run.attempt,
            token,
            log,
            possible_duplicate: run.flags.may_repeat,
            payload: self.prepared.payloads.get(&id).cloned(),
            timeout,
            origin: run.origin,
            sent_at,
            address,
            part: self.memory.loaded.parts.get(id).map(|known| known.part.clone()),
        });
    }

    /// Lets a run wait for its turn: in memory while few runs of its job wait, in the store from then on.
    pub(super) fn queue(&mut self, id: RunId, run: &Run, job: &Job) {
        self.memory.move_to(id, RunLocation::Queued);
        // Another executor may be chosen by then.
        self.memory.unchoose(id);
        self.memory.loaded.seekers.remove(id);
        let active = self.memory.loaded.active.entry(run.job).or_default();
        if active.queue.len() <= self.settings.queue_max {
            return;
        }
        // A scheduled fire time is not parked behind one-shots.
        let is_other = |rank: &&Rank| {
            self.memory.loaded.runs.get(&rank.run).is_none_or(|run| run.origin != Origin::Schedule)
        };
        let last =
            active.queue.iter().rev().find(is_other).or_else(|| active.queue.iter().next_back()).copied();
        let Some(last) = last else { return };
        let Some(run) = self.memory.loaded.runs.get(&last.run).copied() else { return };
        self.memory.move_to(last.run, RunLocation::Busy);
        let then = Then::Park { attempt: run.attempt, version: job.version };
        self.decision.ends.push(Ended::unsent(last.run, &run, then));
    }

    pub(super) fn draft_gate(&mut self, id: RunId, run: &Run, job: &Job) {
        let gate = self.gate_for(id, run, job);
        self.decision.gates.extend(gate);
    }

    /// The gate of a run's next attempt; from now on it has a place among what is running.
    pub(super) fn gate_for(&mut self, id: RunId, run: &Run, job: &Job) -> Option<Gate> {
        let Some(lease) = self.memory.lease(run.shard) else {
            self.memory.forget(id);
            return None;
        };
        if let Some(kept) = self.memory.loaded.runs.get_mut(&id) {
            // That no earlier holder has sent the run was concluded from the job as it was. From here on only the gate
            // can say what became of the run, however its job is changed.
            kept.flags.is_doubtful = false;
        }
        let is_part = run.origin == Origin::Part;
        if !is_part {
            self.memory.loaded.active.entry(run.job).or_default().running.insert(id);
        }
        let places = match self.memory.block_kept_here(job) {
            _ if is_part => None,
            Block::Concurrent(None) => None,
            Block::Concurrent(Some(places)) => Some(places.get()),
            Block::Serial | Block::Discard | Block::Cover => Some(1),
        };
        let hold = |slots| Hold { resource: format!("job:{}", job.id).into(), slots, takes_turns: false };
        let keys = if is_part { None } else { self.memory.keys_of(id, job) };
        if keys.is_some() {
            self.memory.ask_for_keys(id, job);
        }
        // In sorted order: every key comes after every job.
        let key = |key: &Text| Hold { resource: format!("key:{key}").into(), slots: 1, takes_turns: true };
        let keys: Vec<Hold> = keys.iter().flat_map(ExclusiveKeys::iter).map(key).collect();
        let chosen = self.memory.loaded.chosen.get(&id).map(|address| address.url.clone());
        Some(Gate {
            lease,
            run: id,
            job: run.job,
            attempt: run.attempt,
            token: Token::new(lease.epoch, run.attempt),
            executor: chosen.unwrap_or_else(|| executor_of(job)),
            sent_at: self.now,
            holds: places.map(hold).into_iter().chain(keys).collect(),
        })
    }

    // --- ends ---

    fn wait(&mut self, id: RunId, run: &Run, ready_at: Timestamp) {
        self.decision.ends.push(Ended::unsent(id, run, Then::Wait { ready_at, attempt: run.attempt }));
    }

    pub(super) fn skip(&mut self, id: RunId, run: &Run, job: &Job, reason: Skip) {
        let then = Then::Close(not_run(run, reason, self.now));
        self.decision.ends.push(Ended::unsent(id, run, then).following(job, run));
    }

    fn fail(&mut self, id: RunId, run: &Run, reason: Text) {
        let close = Close { outcome: Outcome::Failed, reason, closed_at: self.now, range: None };
        self.decision.ends.push(Ended::unsent(id, run, Then::Close(close)));
    }

    /// Ends a run whose place a newer run takes.
    fn cover(&mut self, id: RunId, job: &Job) {
        if self.memory.in_flight.flights.get(&id).is_some_and(Flight::is_whole) {
            // Its parts go before it, and only the store knows all of them.
            return self.decision.covered.push(id);
        }
        let Some(run) = self.memory.loaded.runs.get(&id).copied() else { return };
        if run.flags.may_be_gated && run.location == RunLocation::Busy {
            // Its gate is asked in this very round: it may be on its way, and may even have parts. The newer run asks
            // again after that.
            return;
        }
        let reason = Text::Borrowed(COVERED);
        let close = Close { outcome: Outcome::Cancelled, reason, closed_at: self.now, range: None };
        let ended = match self.memory.in_flight.flights.get(&id) {
            // Between two attempts.
            None => Ended::unsent(id, &run, Then::Close(close)),
            Some(flight) => {
                self.decision.kills.push(Kill {
                    run: id,
                    job: run.job,
                    attempt: flight.attempt,
                    token: flight.token,
                    address: flight.address.as_deref().cloned(),
                });
                let said = close.reason.clone();
                let attempt =
                    self.memory.ended_by_us((id, run.job), flight, AttemptOutcome::Cancelled, said, self.now);
                Ended::by_us(id, &run, flight, attempt, Then::Close(close))
            }
        };
        self.decision.ends.push(ended.following(job, &run));
    }
}

impl Flight {
    /// Whether it is an HTTP call that is not written down.
    pub(crate) fn is_ungated_call(&self) -> bool {
        self.http.is_some() && !self.is_gated
    }

    /// Whether it fell into parts, which are on their way instead.
    pub(crate) fn is_whole(&self) -> bool {
        self.deadline == Timestamp::MAX
    }

    /// Why it is given up, with what was said when it was sent.
    pub(crate) fn with_unclear(&self, reason: &Text) -> Text {
        match &self.unclear {
            Some(said) => format!("{reason}; when it was sent, the answer was unclear: {said}").into(),
            None => reason.clone(),
        }
    }
}

/// The end of a run that is not wanted (any more). A skip says that the run never ran, so a run that was tried before
/// is closed as failed. The runs of a deleted job are cancelled with it.
pub(super) fn not_run(run: &Run, reason: Skip, now: Timestamp) -> Close {
    let outcome = match reason {
        _ if run.attempt > Attempt::FIRST => Outcome::Failed,
        Skip::JobDeleted => Outcome::Cancelled,
        _ => Outcome::Skipped,
    };
    Close { outcome, reason: Text::Borrowed(reason.name()), closed_at: now, range: None }
}

impl Memory {
    /// The record of an attempt that this node ends by itself. It says that the attempt was sent only where that is certain.
    pub(crate) fn ended_by_us(
        &self,
        (id, job): (RunId, JobId),
        flight: &Flight,
        outcome: AttemptOutcome,
        message: Text,
        now: Timestamp,
    ) -> AttemptRecord {
        let job = match self.jobs.get(job) {
            Some(Known::Job(job)) => Some(&**job),
            _ => None,
        };
        let is_supposed =
            flight.is_supposed(job, self.has_own_keys(id)) && !self.has_planted(Planted::GateAsSent);
        AttemptRecord {
            number: flight.attempt,
            token: if is_supposed { Token::SUPPOSED } else { flight.token },
            executor: flight.executor.clone(),
            started_at: flight.sent_at,
            ended_at: now.max(flight.sent_at),
            outcome,
            message,
            possible_duplicate: flight.possible_duplicate,
        }
    }

    /// The part of a job's block policy that this node keeps. XXL-JOB's executors are told to queue, to discard or to
    /// cover, and each executor keeps to that by itself, as under XXL-JOB; for executors with a session, and for
    /// agents, this node keeps it. A number of runs side by side is kept here for all of them: XXL-JOB knows no such
    /// thing.
    fn block_kept_here(&self, job: &Job) -> Block {
        let is_here = match (job.executor(), job.definition.block) {
            (None, _) | (_, Block::Concurrent(_)) => true,
            (Some(_), Block::Serial | Block::Discard | Block::Cover) => {
                let mut there = self.executors.registry.routable(&job.definition.app);
                there.any(|(_, dialect)| dialect == Dialect::Native)
            }
        };
        if is_here { job.definition.block } else { Block::Concurrent(None) }
    }

    /// Whether an earlier holder may have sent the run although there is no gate: not if the job was gated since long
    /// before the run was ready, or ever since the job was made. A holder may act on what it knew of the job for as
    /// long as its term; but the holder that called a run back because of a change knew of that change, and so does
    /// every later holder.
    pub(crate) fn may_have_been_sent(&self, id: RunId, job: &Job, run: &Run, term: Duration) -> bool {
        let was_gated = self.is_gated(id, job) && self.is_known_everywhere(job, run, term);
        !was_gated || run.origin != Origin::Part && self.may_have_gone_ungated(id, job)
    }

    /// Whether every holder that may have acted on a run when it was due knew the job as it stands.
    fn is_known_everywhere(&self, job: &Job, run: &Run, term: Duration) -> bool {
        let known_everywhere = job.changed_at.saturating_add(term * 2);
        let is_called_back = run.flags.is_called_back && run.ready_at == job.changed_at;
        job.is_as_made() || is_called_back || known_everywhere <= run.ready_at
    }
}

/// The end of a run that may have been sent, and is not repeated because its job does not want it any more.
fn not_repeated(reason: Skip, now: Timestamp) -> Close {
    let outcome = if reason == Skip::JobDeleted { Outcome::Cancelled } else { Outcome::Lost };
    let said = match reason {
        Skip::JobDeleted => Text::Borrowed(reason.name()),
        _ => {
            format!("its node is gone; it may have been sent, and is not repeated: {}", reason.name()).into()
        }
    };
    Close { outcome, reason: said, closed_at: now, range: None }
}

/// The record of an attempt that an earlier holder may have sent: lost with its node, if it was ever sent.
fn supposed(run: &Run, job: &Job, now: Timestamp) -> AttemptRecord {
    AttemptRecord {
        number: run.attempt,
        token: Token::SUPPOSED,
        executor: executor_of(job),
        started_at: run.ready_at.min(now),
        ended_at: now,
        outcome: AttemptOutcome::Lost,
        message: Text::Borrowed("its node is gone; it may have been sent"),
        possible_duplicate: run.flags.may_repeat,
    }
}

fn executor_of(job: &Job) -> Text {
    match &job.definition.target {
        Target::Http(http) => http.url.clone().into(),
        Target::Executor(_) => job.definition.app.clone().into(),
    }
}

/// The bug of judging lateness with a threshold that is too small.
fn is_at_threshold(job: &Job, run: &Run, now: Timestamp) -> bool {
    let late = now.as_millis().saturating_sub(run.ready_at.as_millis());
    let threshold = job.definition.misfire.threshold.max(GRACE).as_millis() as i64;
    run.decided != Decided::CaughtUp && run.attempt == Attempt::FIRST && late >= threshold - 1
}
