//! Firing: what is due leaves the wheel, is asked for, admitted, written down where it must be, and sent.
//!
//! The order of effects: what is skipped or put off is written; what needs a gate is gated, then looked at once more;
//! only then memory says "on its way", and dispatch gets it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::fire::{Wanted, wanted};
use punctual_core::engine::{reap, settle};
use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Fence, Hold, Job, Outcome, Payload, RunId, Skip, Target,
    Text, Then, Token,
};
use punctual_core::policy::block::{self, Admission, Block};
use punctual_core::policy::{Placement, Pool, pool};

use crate::Node;
use crate::jobs::Known;
use crate::memory::{Flight, Memory, Place, Run};
use crate::ports::{Boot, Dispatched, Gate, Gated, Kill, StoreError};
use crate::settings::Planted;
use crate::step::Ended;

/// How long what finds no room even to wait stays in the store.
const PUT_OFF: Duration = Duration::from_secs(5);

/// How many of those go back at once.
const PUT_OFF_MAX: usize = 500;

/// When caught-up runs had their share of a step, the rest of them waits this long.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(100);

impl Node {
    /// Starts what is due: asks its job, admits it, writes its gate, sends it.
    pub async fn fire(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().paused_until {
            return self.memory().paused_until;
        }
        let picked = self.pick();
        if picked.is_empty() {
            return self.next_moment();
        }
        if let Err(error) = self.fire_picked(&picked).await {
            self.lost_or_paused("fire", &error);
            self.put_back(&picked);
        }
        self.next_moment()
    }

    async fn fire_picked(&self, picked: &[RunId]) -> Result<(), StoreError> {
        let payloads = self.prepare(picked).await?;
        let Decision { sends, ends, gates, kills } = self.decide(picked, &payloads);
        if !sends.is_empty() {
            self.ports.dispatch.send(sends);
        }
        if !ends.is_empty() {
            self.write_ends(ends).await?;
            self.ports.dispatch.kill(kills);
        }
        if !gates.is_empty() {
            self.go_through(gates, &payloads).await?;
        }
        Ok(())
    }

    // --- choosing ---

    /// Moves what is due from the wheel to the queue, and takes from the queue what may go now.
    fn pick(&self) -> Vec<RunId> {
        let boot = self.boot();
        let mut memory = self.memory();
        let Some(now) = memory.trusted_now(boot) else { return Vec::new() };
        let limits = &self.settings.limits;
        let room = (limits.fast_queue as usize + limits.slow_queue as usize).max(self.settings.fire_max);
        let mut due = Vec::new();
        let room = room.saturating_sub(memory.ready.len());
        memory.wheel.advance(now, room, &mut due);
        for timer in due {
            if memory.has_planted(Planted::LooksBackOneSlot) && is_behind(timer.due, now) {
                self.leave_for_next_turn(&mut memory, RunId(timer.id));
            } else {
                memory.make_ready(RunId(timer.id));
            }
        }
        let picked = self.choose(&memory, now);
        for id in &picked {
            memory.make_busy(*id);
        }
        picked
    }

    /// The runs that may go now, in their order: as many as the pools have places for.
    fn choose(&self, memory: &Memory, now: Timestamp) -> Vec<RunId> {
        let (mut picked, mut taken, mut caught_up) = (Vec::new(), [0_u32; 2], 0);
        let order: Box<dyn Iterator<Item = _>> = if memory.has_planted(Planted::CatchUpFirst) {
            Box::new(memory.ready.iter().rev())
        } else {
            Box::new(memory.ready.iter())
        };
        for rank in order {
            if picked.len() >= self.settings.fire_max {
                break;
            }
            if rank.is_caught_up && caught_up >= self.settings.catch_up_max {
                continue;
            }
            let Some(run) = memory.runs.get(&rank.run) else { continue };
            if let Some(pool) = memory.pool_of(run, now) {
                let open = memory.open[pool as usize] + taken[pool as usize];
                if pool::place(&self.settings.limits, pool, open, 0) != Placement::Send {
                    continue;
                }
                taken[pool as usize] += 1;
            }
            caught_up += usize::from(rank.is_caught_up);
            picked.push(rank.run);
        }
        picked
    }

    /// When this step wants to be called again.
    fn next_moment(&self) -> Boot {
        let boot = self.boot();
        let mut memory = self.memory();
        let idle = boot.plus(self.settings.load_ahead);
        let Some(now) = memory.trusted_now(boot) else { return idle };
        if memory.paused_until > boot {
            return memory.paused_until;
        }
        let in_queue = if memory.ready.is_empty() {
            None
        } else if self.choose(&memory, now).is_empty() {
            // Places become free by ends, and those wake this step.
            None
        } else if memory.ready.iter().next().is_some_and(|rank| rank.is_caught_up) {
            Some(boot.plus(CATCH_UP_PAUSE))
        } else {
            Some(boot.plus(Duration::from_millis(1)))
        };
        let in_wheel = memory.wheel.next_due().map(|due| memory.time.moment_of(due).max(boot));
        [Some(idle), in_queue, in_wheel].into_iter().flatten().min().unwrap_or(idle)
    }

    /// What was in hand and not dealt with is due as before.
    fn put_back(&self, picked: &[RunId]) {
        let mut memory = self.memory();
        for id in picked {
            if memory.in_hand(*id).is_some() {
                memory.make_ready(*id);
            }
        }
    }

    /// The bug of a ring that looks back one slot: the rest waits for the ring to come round.
    fn leave_for_next_turn(&self, memory: &mut Memory, id: RunId) {
        if let Some(run) = memory.runs.get_mut(&id) {
            run.ready_at = run.ready_at.saturating_add(Duration::from_secs(60));
        }
        memory.arm(id);
    }

    // --- deciding ---

    /// Makes sure that the jobs are known, and fetches payloads.
    async fn prepare(&self, picked: &[RunId]) -> Result<BTreeMap<RunId, Payload>, StoreError> {
        let (jobs, with_payload) = {
            let memory = self.memory();
            let of = |id: &RunId| memory.runs.get(id);
            let jobs: Vec<_> = picked.iter().filter_map(|id| of(id).map(|run| run.job)).collect();
            let brings = |id: &&RunId| of(id).is_some_and(|run| run.flags.has_payload);
            (jobs, picked.iter().filter(brings).copied().collect::<Vec<_>>())
        };
        self.know_jobs(jobs).await?;
        if with_payload.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.ports.store.fetch(&with_payload).await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.waiting.run, row.payload?))).collect())
    }

    /// Asks every run's job, and admits what it wants. Everything that needs no gate is on its way when this returns.
    fn decide(&self, picked: &[RunId], payloads: &BTreeMap<RunId, Payload>) -> Decision {
        let boot = self.boot();
        let mut memory = self.memory();
        let mut decision = Decision::default();
        let Some(now) = memory.trusted_now(boot) else {
            drop(memory);
            self.put_back(picked);
            return decision;
        };
        for id in picked {
            let Some(run) = memory.in_hand(*id) else { continue };
            match memory.jobs.get(run.job).cloned() {
                Some(Known::Job(job)) => {
                    self.decide_one(&mut memory, &mut decision, *id, &run, &job, payloads, now)
                }
                Some(Known::Poisoned(reason)) => decision.ends.push(failed(*id, &run, reason, now)),
                Some(Known::Missing) => {
                    decision.ends.push(failed(*id, &run, Text::Borrowed("its job is missing"), now));
                }
                // It changed while the step was on its way; the next round asks the changed one.
                None => memory.make_ready(*id),
            }
        }
        self.put_off_surplus(&mut memory, &mut decision, now);
        decision
    }

    #[expect(clippy::too_many_arguments, reason = "the whole situation of one run")]
    fn decide_one(
        &self,
        memory: &mut Memory,
        decision: &mut Decision,
        id: RunId,
        run: &Run,
        job: &Arc<Job>,
        payloads: &BTreeMap<RunId, Payload>,
        now: Timestamp,
    ) {
        if run.flags.may_be_gated {
            // Only the key can say; the second look asks the job.
            return self.draft_gate(memory, decision, id, run, job, now);
        }
        if run.flags.is_doubtful && may_have_been_sent(job, run) {
            return decision.ends.push(doubt(id, run, job, now));
        }
        let asks = run.attempt == Attempt::FIRST || !memory.has_planted(Planted::RetryUnasked);
        let fate = if asks { wanted(job, &run.candidate(), now) } else { Wanted::Start(run.decided) };
        let fate =
            if memory.has_planted(Planted::MisfireOffByOne) { off_by_one(job, run, now, fate) } else { fate };
        match fate {
            Wanted::Start(decided) => {
                if let Some(kept) = memory.runs.get_mut(&id) {
                    kept.decided = decided;
                }
                let run = Run { decided, ..*run };
                self.admit(memory, decision, id, &run, job, payloads, now);
            }
            Wanted::Skip(reason) => decision.ends.push(skipped(id, run, job, reason, now)),
            Wanted::Defer(until) => {
                decision.ends.push(Ended::unsent(
                    id,
                    run,
                    Then::Wait { ready_at: until, attempt: run.attempt },
                ));
            }
            Wanted::Park => {
                let then = Then::Park { attempt: run.attempt, version: job.version };
                decision.ends.push(Ended::unsent(id, run, then));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the whole situation of one run")]
    fn admit(
        &self,
        memory: &mut Memory,
        decision: &mut Decision,
        id: RunId,
        run: &Run,
        job: &Arc<Job>,
        payloads: &BTreeMap<RunId, Payload>,
        now: Timestamp,
    ) {
        let rank = run.rank(id);
        let active = memory.active.entry(run.job).or_default();
        // Between two attempts it has kept its place.
        if active.running.contains(&id) && job.is_gated() {
            return self.draft_gate(memory, decision, id, run, job, now);
        }
        let others = active.running.iter().filter(|other| **other != id).count() as u32;
        let ahead = active.queue.range(..rank).count() as u32;
        match block::admit(job.definition.block, others, ahead) {
            Admission::Start if job.is_gated() => self.draft_gate(memory, decision, id, run, job, now),
            Admission::Start => self.send_ungated(memory, decision, id, run, job, payloads.get(&id), now),
            Admission::Wait => self.queue(memory, decision, id, run, job),
            Admission::Skip => decision.ends.push(skipped(id, run, job, Skip::Blocked, now)),
            Admission::Replace => {
                let covered: Vec<RunId> =
                    active.running.iter().copied().filter(|other| *other != id).collect();
                for other in covered {
                    decision.cover(memory, other, job, now);
                }
                // It asks again when their places are free.
                memory.make_ready(id);
            }
        }
    }

    /// Sends without a gate.
    #[expect(clippy::too_many_arguments, reason = "the whole situation of one run")]
    fn send_ungated(
        &self,
        memory: &mut Memory,
        decision: &mut Decision,
        id: RunId,
        run: &Run,
        job: &Arc<Job>,
        payload: Option<&Payload>,
        now: Timestamp,
    ) {
        let may_send = memory.tenure.is_some_and(|tenure| tenure.may_send_ungated(run.ready_at));
        let (Some(lease), true) = (memory.lease(run.shard), may_send) else {
            return memory.make_ready(id);
        };
        let token = Token::new(lease.epoch, run.attempt);
        self.launch(memory, decision, Launch { id, run, job, token, log: None, payload }, now);
    }

    /// Memory says "on its way", and dispatch will get it.
    fn launch(&self, memory: &mut Memory, decision: &mut Decision, launch: Launch<'_>, now: Timestamp) {
        let Launch { id, run, job, token, log, payload } = launch;
        memory.active.entry(run.job).or_default().running.insert(id);
        memory.fly(
            id,
            Flight {
                attempt: run.attempt,
                token,
                sent_at: now,
                executor: executor_of(job),
                is_gated: log.is_some(),
                is_adopted: false,
                possible_duplicate: run.flags.may_repeat,
                pool: memory.pool_of(run, now),
                deadline: reap::deadline(job, now, self.settings.grace),
            },
        );
        let late = now.as_millis().saturating_sub(run.ready_at.as_millis());
        let lag = Duration::from_millis(u64::try_from(late).unwrap_or(0));
        memory.events.push(Event::Sent { run: id, job: run.job, attempt: run.attempt, lag });
        decision.sends.push(Dispatched {
            run: id,
            job: Arc::clone(job),
            fire_time: run.fire_time,
            attempt: run.attempt,
            token,
            log,
            possible_duplicate: run.flags.may_repeat,
            payload: payload.cloned(),
        });
    }

    /// Lets a run wait for its turn: in memory while they are few, in the store from then on.
    fn queue(&self, memory: &mut Memory, decision: &mut Decision, id: RunId, run: &Run, job: &Job) {
        let rank = run.rank(id);
        memory.busy.remove(&id);
        if let Some(kept) = memory.runs.get_mut(&id) {
            kept.place = Place::Queued;
        }
        let active = memory.active.entry(run.job).or_default();
        active.queue.insert(rank);
        if active.queue.len() <= self.settings.queue_max {
            return;
        }
        let Some(last) = active.queue.pop_last() else { return };
        let Some(run) = memory.runs.get(&last.run).copied() else { return };
        memory.make_busy(last.run);
        let then = Then::Park { attempt: run.attempt, version: job.version };
        decision.ends.push(Ended::unsent(last.run, &run, then));
    }

    /// When the queues are full and nothing can go, the last in line go back to the store for a while.
    fn put_off_surplus(&self, memory: &mut Memory, decision: &mut Decision, now: Timestamp) {
        let limits = &self.settings.limits;
        let room = (limits.fast_queue as usize + limits.slow_queue as usize).max(self.settings.fire_max);
        if memory.ready.len() < room {
            return;
        }
        let last: Vec<RunId> = memory.ready.iter().rev().take(PUT_OFF_MAX).map(|rank| rank.run).collect();
        for id in last {
            let Some(run) = memory.runs.get(&id).copied() else { continue };
            if run.flags.may_be_gated || run.flags.is_doubtful {
                continue;
            }
            memory.make_busy(id);
            let then = Then::Wait { ready_at: now.saturating_add(PUT_OFF), attempt: run.attempt };
            decision.ends.push(Ended::unsent(id, &run, then));
        }
    }

    // --- the gate ---

    fn draft_gate(
        &self,
        memory: &mut Memory,
        decision: &mut Decision,
        id: RunId,
        run: &Run,
        job: &Arc<Job>,
        now: Timestamp,
    ) {
        let Some(lease) = memory.lease(run.shard) else { return memory.forget(id) };
        memory.active.entry(run.job).or_default().running.insert(id);
        let token = Token::new(lease.epoch, run.attempt);
        let holds = match job.definition.block {
            Block::Concurrent(None) => vec![],
            Block::Concurrent(Some(places)) => vec![hold(job, places.get())],
            Block::Serial | Block::Discard | Block::Cover => vec![hold(job, 1)],
        };
        decision.gates.push(Gate {
            lease,
            run: id,
            job: run.job,
            attempt: run.attempt,
            token,
            executor: executor_of(job),
            sent_at: now,
            holds,
        });
    }

    /// Writes the gates; what came through is looked at once more, and sent.
    async fn go_through(
        &self,
        gates: Vec<Gate>,
        payloads: &BTreeMap<RunId, Payload>,
    ) -> Result<(), StoreError> {
        if self.memory().has_planted(Planted::SendBeforeGate) {
            let all =
                gates.iter().map(|_| Gated::Through(punctual_core::model::LogId(0))).collect::<Vec<_>>();
            let Decision { sends, .. } = self.look_again(&gates, &all, payloads);
            self.ports.dispatch.send(sends);
            let _ = self.ports.store.gate(gates).await;
            return Ok(());
        }
        match self.ports.store.gate(gates.clone()).await {
            Ok(answers) => {
                let Decision { sends, ends, .. } = self.look_again(&gates, &answers, payloads);
                if !sends.is_empty() {
                    self.ports.dispatch.send(sends);
                }
                if ends.is_empty() { Ok(()) } else { self.write_ends(ends).await }
            }
            Err(error) => {
                self.forget_gates(&gates, &error);
                Err(error)
            }
        }
    }

    /// After an unknown commit the gate may be there: only the same key with the same token may be asked again.
    fn forget_gates(&self, gates: &[Gate], error: &StoreError) {
        let mut memory = self.memory();
        let may_be_written =
            matches!(error, StoreError::Unknown(_)) && !memory.has_planted(Planted::UnknownGateForgotten);
        for gate in gates {
            if memory.in_hand(gate.run).is_none() {
                continue;
            }
            if let Some(run) = memory.runs.get_mut(&gate.run) {
                run.flags.may_be_gated |= may_be_written;
                if !run.flags.may_be_gated
                    && let Some(active) = memory.active.get_mut(&gate.job)
                {
                    active.running.remove(&gate.run);
                }
            }
        }
    }

    /// The second look: our own deadline, then the job. Whoever stopped the job between the gate and here was not
    /// answered yet, or will find that nothing was sent.
    fn look_again(&self, gates: &[Gate], answers: &[Gated], payloads: &BTreeMap<RunId, Payload>) -> Decision {
        let boot = self.boot();
        let mut memory = self.memory();
        let now = memory.trusted_now(boot);
        let mut decision = Decision::default();
        for (gate, answer) in gates.iter().zip(answers) {
            let Some(run) = memory.in_hand(gate.run) else { continue };
            let is_ours = memory.lease(run.shard) == Some(gate.lease);
            match answer {
                Gated::Through(log) if is_ours => {
                    let job = match memory.jobs.get(run.job) {
                        Some(Known::Job(job)) => Arc::clone(job),
                        // Not known, or makes no sense any more: asked again, through the same gate.
                        _ => {
                            may_be_gated(&mut memory, gate.run);
                            continue;
                        }
                    };
                    let Some(now) = now else {
                        may_be_gated(&mut memory, gate.run);
                        continue;
                    };
                    let candidate = punctual_core::engine::fire::Candidate {
                        // Its lateness was judged before the gate.
                        decided: if run.flags.may_be_gated {
                            punctual_core::model::Decided::OnTime
                        } else {
                            run.decided
                        },
                        ..run.candidate()
                    };
                    let is_asked = !memory.has_planted(Planted::NoSecondLook);
                    match wanted(&job, &candidate, now) {
                        Wanted::Skip(reason) if is_asked => {
                            decision.ends.push(skipped_at_gate(gate, &run, &job, reason, now));
                        }
                        _ => {
                            let payload = payloads.get(&gate.run);
                            let (id, token, log) = (gate.run, gate.token, Some(*log));
                            let launch = Launch { id, run: &run, job: &job, token, log, payload };
                            self.launch(&mut memory, &mut decision, launch, now);
                        }
                    }
                }
                // Somebody else's: what is behind that gate is found by adopting.
                Gated::Through(_) | Gated::Taken(_) => {
                    memory.forget(gate.run);
                    if let Some(held) = memory.held.get_mut(&run.shard) {
                        held.is_adopted = false;
                        memory.wakes.load = true;
                    }
                }
                Gated::Closed => memory.heard_of.push(gate.run),
                Gated::Held(_) => self.wait_for_hold(&mut memory, &mut decision, gate, &run, now),
            }
        }
        if !memory.heard_of.is_empty() {
            memory.wakes.tend = true;
        }
        decision
    }

    /// The place is taken by a run that is not ours to count.
    fn wait_for_hold(
        &self,
        memory: &mut Memory,
        decision: &mut Decision,
        gate: &Gate,
        run: &Run,
        now: Option<Timestamp>,
    ) {
        if let Some(active) = memory.active.get_mut(&run.job) {
            active.running.remove(&gate.run);
        }
        let job = match memory.jobs.get(run.job) {
            Some(Known::Job(job)) => Arc::clone(job),
            _ => return memory.make_ready(gate.run),
        };
        match (job.definition.block, now) {
            (Block::Discard, Some(now)) => {
                decision.ends.push(skipped(gate.run, run, &job, Skip::Blocked, now));
            }
            _ => {
                self.queue(memory, decision, gate.run, run, &job);
                memory.held_back.insert(run.job);
                memory.wakes.tend = true;
            }
        }
    }
}

/// What was decided about the runs in hand.
#[derive(Default)]
struct Decision {
    sends: Vec<Dispatched>,
    ends: Vec<Ended>,
    gates: Vec<Gate>,
    kills: Vec<Kill>,
}

impl Decision {
    /// Ends a run that a newcomer takes the place of.
    fn cover(&mut self, memory: &Memory, id: RunId, job: &Job, now: Timestamp) {
        let Some(run) = memory.runs.get(&id) else { return };
        let close = Close {
            outcome: Outcome::Cancelled,
            reason: Text::Borrowed("a newer run took its place"),
            closed_at: now,
            range: None,
        };
        let Some(flight) = memory.flights.get(&id) else {
            // Between two attempts.
            let then = Then::Close(close);
            self.ends.push(Ended::unsent(id, run, then).following(job, run));
            return;
        };
        self.kills.push(Kill { run: id, job: run.job, attempt: flight.attempt, token: flight.token });
        let attempt = AttemptRecord {
            number: flight.attempt,
            token: flight.token,
            executor: flight.executor.clone(),
            started_at: flight.sent_at,
            ended_at: now.max(flight.sent_at),
            outcome: AttemptOutcome::Cancelled,
            message: close.reason.clone(),
            possible_duplicate: flight.possible_duplicate,
        };
        self.ends.push(Ended::sent(id, run, attempt, Then::Close(close)).following(job, run));
    }
}

/// Everything that a launch needs.
struct Launch<'a> {
    id: RunId,
    run: &'a Run,
    job: &'a Arc<Job>,
    token: Token,
    log: Option<punctual_core::model::LogId>,
    payload: Option<&'a Payload>,
}

impl Memory {
    /// The pool whose places a send of the run takes; none for what is not sent over HTTP.
    fn pool_of(&self, run: &Run, now: Timestamp) -> Option<Pool> {
        match self.jobs.get(run.job) {
            Some(Known::Job(job)) if matches!(job.definition.target, Target::Http(_)) => {
                Some(self.paces.get(&run.job).map_or(Pool::Fast, |pace| pace.pool(now)))
            }
            _ => None,
        }
    }
}

fn may_be_gated(memory: &mut Memory, id: RunId) {
    if let Some(run) = memory.runs.get_mut(&id) {
        run.flags.may_be_gated = true;
    }
    memory.make_ready(id);
}

/// Whether an earlier holder may have sent it although there is no gate: not if the job was gated since before it was
/// ready.
fn may_have_been_sent(job: &Job, run: &Run) -> bool {
    !(job.is_gated() && job.changed_at <= run.ready_at)
}

/// An attempt that an earlier holder may have sent is taken for lost with its node.
fn doubt(id: RunId, run: &Run, job: &Job, now: Timestamp) -> Ended {
    let attempt = AttemptRecord {
        number: run.attempt,
        token: Token(0),
        executor: executor_of(job),
        started_at: run.ready_at.min(now),
        ended_at: now,
        outcome: AttemptOutcome::Lost,
        message: Text::Borrowed("its node is gone; it may have been sent"),
        possible_duplicate: run.flags.may_repeat,
    };
    let end = settle::End { attempt: &attempt, retry_after: None, is_final: false, by_loss_of_node: true };
    let then = settle::settle(job, &end, now, 0);
    Ended::sent(id, run, attempt, then).following(job, run)
}

fn skipped(id: RunId, run: &Run, job: &Job, reason: Skip, now: Timestamp) -> Ended {
    Ended::unsent(id, run, Then::Close(not_run(run, reason, now))).following(job, run)
}

/// Ours is the gate, and nothing went through it.
fn skipped_at_gate(gate: &Gate, run: &Run, job: &Job, reason: Skip, now: Timestamp) -> Ended {
    let fence = Fence::Sent(gate.attempt, gate.token);
    Ended::new(gate.run, run, fence, None, Then::Close(not_run(run, reason, now))).following(job, run)
}

/// The end of a run that is not wanted (any more). Skipped says that it never ran, so what was tried before is failed.
fn not_run(run: &Run, reason: Skip, now: Timestamp) -> Close {
    let outcome = if run.attempt > Attempt::FIRST { Outcome::Failed } else { Outcome::Skipped };
    Close { outcome, reason: Text::Borrowed(reason.name()), closed_at: now, range: None }
}

fn failed(id: RunId, run: &Run, reason: Text, now: Timestamp) -> Ended {
    let close = Close { outcome: Outcome::Failed, reason, closed_at: now, range: None };
    Ended::unsent(id, run, Then::Close(close))
}

fn hold(job: &Job, slots: u32) -> Hold {
    Hold { resource: format!("job:{}", job.id).into(), slots }
}

fn executor_of(job: &Job) -> Text {
    match &job.definition.target {
        Target::Http(http) => http.url.clone().into(),
        Target::Executor { .. } => job.definition.app.clone().into(),
    }
}

fn is_behind(due: Timestamp, now: Timestamp) -> bool {
    now.as_millis().saturating_sub(due.as_millis()) > 1_000
}

/// The bug of judging lateness with a threshold that is one too small.
fn off_by_one(job: &Job, run: &Run, now: Timestamp, fate: Wanted) -> Wanted {
    let late = now.as_millis().saturating_sub(run.ready_at.as_millis());
    let threshold =
        job.definition.misfire.threshold.max(punctual_core::policy::misfire::GRACE).as_millis() as i64;
    let is_judged = run.decided == punctual_core::model::Decided::NotYet && run.attempt == Attempt::FIRST;
    if is_judged && late > 0 && late >= threshold / 2 && matches!(fate, Wanted::Start(_)) {
        return Wanted::Skip(Skip::Misfire);
    }
    fate
}
