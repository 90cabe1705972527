//! The gate: an attempt is written down before its first byte, then looked at once more.

use std::sync::Arc;

use punctual_core::engine::fire::Wanted;
use punctual_core::model::{AttemptOutcome, AttemptRecord, Fence, Job, LogId, RunId, Skip, Text, Then};
use punctual_core::policy::Block;

use super::decide::not_run;
use super::{Decision, Prepared, Turn};
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, Run, RunLocation};
use crate::ports::{Gate, Gated, StoreError};
use crate::settings::Planted;
use crate::step::Ended;

impl Node {
    /// Writes the gates; a run whose gate is written is looked at once more, and sent.
    pub(super) async fn go_through(
        &self,
        gates: Vec<Gate>,
        prepared: &mut Prepared,
    ) -> Result<(), StoreError> {
        if self.memory().has_planted(Planted::SendBeforeGate) {
            return self.send_before_gate(gates, prepared).await;
        }
        match self.ports.store.gate(gates.clone()).await {
            Ok(answers) => {
                prepared.answers = self.ask_calendars(gates.iter().map(|gate| gate.run));
                let Decision { sends, ends, .. } = self.look_again(&gates, &answers, prepared);
                if !sends.is_empty() {
                    self.ports.dispatch.send(sends);
                }
                let written = self.write_ends(ends).await;
                if written.is_err() {
                    // Their gates are ours, and nothing went through them.
                    let mut memory = self.memory();
                    gates.iter().for_each(|gate| keep_gate(&mut memory, gate.run));
                }
                written.map(|_| ())
            }
            Err(error) => {
                self.not_through(&gates, &error);
                Err(error)
            }
        }
    }

    /// After an unknown commit the gate may be there: only the same key with the same token may be asked again.
    pub(super) fn not_through(&self, gates: &[Gate], error: &StoreError) {
        let mut memory = self.memory();
        let may_be_written = matches!(error, StoreError::Unknown(_));
        for gate in gates {
            if memory.in_hand(gate.run).is_none() {
                continue;
            }
            let Some(run) = memory.loaded.runs.get_mut(&gate.run) else { continue };
            run.flags.may_be_gated |= may_be_written;
            let keeps_place = run.flags.may_be_gated;
            if !keeps_place && let Some(active) = memory.loaded.active.get_mut(&gate.job) {
                active.running.remove(&gate.run);
            }
            if !keeps_place {
                memory.return_keys(gate.run);
            }
        }
    }

    /// The second look: our own deadline, then the job. A caller that stopped the job between the gate and here was not
    /// answered yet, or will find that nothing was sent.
    fn look_again(&self, gates: &[Gate], answers: &[Gated], prepared: &Prepared) -> Decision {
        let boot = self.boot();
        let mut memory = self.memory();
        let now = memory.trusted_now(boot);
        let Some(now) = now else {
            gates.iter().for_each(|gate| ask_again(&mut memory, gate.run));
            return Decision::default();
        };
        let (settings, decision) = (&self.settings, Decision::default());
        let mut turn = Turn { memory: &mut memory, settings, prepared, boot, now, bits: 0, decision };
        for (gate, answer) in gates.iter().zip(answers) {
            let Some(run) = turn.memory.in_hand(gate.run) else { continue };
            let is_ours = turn.memory.lease(run.shard) == Some(gate.lease);
            match answer {
                Gated::Through(log) if is_ours => turn.pass(gate, &run, *log),
                // The gate is another holder's, or the run is closed: what is behind that gate is found by adopting.
                Gated::Through(_) | Gated::Taken(_) | Gated::Closed => turn.leave_behind(gate.run, &run),
                Gated::Held(_) => turn.wait_for_hold(gate, &run),
                Gated::Behind(_, first) => turn.wait_for_keys(gate, *first, &run),
            }
        }
        turn.decision
    }

    /// The bug of sending first and writing afterwards.
    async fn send_before_gate(&self, gates: Vec<Gate>, prepared: &Prepared) -> Result<(), StoreError> {
        let answers: Vec<Gated> = gates.iter().map(|_| Gated::Through(LogId(0))).collect();
        let Decision { sends, .. } = self.look_again(&gates, &answers, prepared);
        self.ports.dispatch.send(sends);
        self.ports.store.gate(gates).await.map(|_| ())
    }
}

impl Turn<'_> {
    fn pass(&mut self, gate: &Gate, run: &Run, log: LogId) {
        let job = match self.memory.jobs.get(run.job) {
            Some(Known::Job(job)) => Arc::clone(job),
            // Not known any more: asked again, through the same gate.
            _ => return ask_again(self.memory, gate.run),
        };
        let fate = match self.memory.has_planted(Planted::NoSecondLook) {
            true => Wanted::Start(run.decided),
            false => self.prepared.answers.wanted(self.memory, (gate.run, run), &job, self.now),
        };
        match fate {
            Wanted::Start(_) => self.launch(gate.run, run, &job, gate.token, Some(log), gate.sent_at),
            Wanted::Skip(reason) => self.skip_at_gate(gate, run, &job, reason),
            Wanted::Defer(ready_at) => {
                self.turn_back(gate, run, Then::Wait { ready_at, attempt: gate.attempt.next() });
            }
            Wanted::Park => {
                let then = Then::Park { attempt: gate.attempt.next(), version: job.version };
                self.turn_back(gate, run, then);
            }
        }
    }

    /// The gate is ours, and nothing went through it.
    fn skip_at_gate(&mut self, gate: &Gate, run: &Run, job: &Job, reason: Skip) {
        let fence = Fence::Sent(gate.attempt, gate.token);
        let then = Then::Close(not_run(run, reason, self.now));
        self.decision.ends.push(Ended::new(gate.run, run, fence, None, then).following(job, run));
    }

    /// The same, for a run that goes on later: the key of this attempt is used up, the next one has its own.
    fn turn_back(&mut self, gate: &Gate, run: &Run, then: Then) {
        let attempt = AttemptRecord {
            number: gate.attempt,
            token: gate.token,
            executor: gate.executor.clone(),
            started_at: gate.sent_at.min(self.now),
            ended_at: self.now,
            outcome: AttemptOutcome::Refused,
            message: Text::Borrowed("not sent: its job was changed"),
            possible_duplicate: run.flags.may_repeat,
        };
        self.decision.ends.push(Ended::sent(gate.run, run, attempt, then));
    }

    /// Forgets a run that may have a gate: it is found again by adopting or by loading, if it is open.
    pub(super) fn leave_behind(&mut self, id: RunId, run: &Run) {
        self.memory.leave_behind(id, run);
    }

    /// An exclusive key of the run is another's, or another's turn.
    pub(super) fn wait_for_keys(&mut self, gate: &Gate, first: RunId, run: &Run) {
        if let Some(active) = self.memory.loaded.active.get_mut(&run.job) {
            active.running.remove(&gate.run);
        }
        self.memory.unchoose(gate.run);
        self.memory.loaded.seekers.remove(gate.run);
        match self.memory.jobs.get(run.job).cloned() {
            Some(Known::Job(job)) => self.memory.keys_refused(gate.run, &job, first),
            _ => {
                self.memory.return_keys(gate.run);
                self.memory.move_to(gate.run, RunLocation::Ready);
            }
        }
    }

    /// The place is taken by a run that is not ours to count.
    pub(super) fn wait_for_hold(&mut self, gate: &Gate, run: &Run) {
        self.memory.return_keys(gate.run);
        if let Some(active) = self.memory.loaded.active.get_mut(&run.job) {
            active.running.remove(&gate.run);
        }
        let Some(Known::Job(job)) = self.memory.jobs.get(run.job).cloned() else {
            return self.memory.move_to(gate.run, RunLocation::Ready);
        };
        if job.definition.block == Block::Discard {
            return self.skip(gate.run, run, &job, Skip::Blocked);
        }
        self.queue(gate.run, run, &job);
        self.memory.loaded.held_back.entry(run.job).or_insert(self.boot.plus(self.settings.note_after));
        self.memory.outbox.wakes.tend = true;
    }
}

/// The gate was written and nothing was sent: the run keeps it.
fn keep_gate(memory: &mut Memory, id: RunId) {
    if !memory.in_flight.flights.contains_key(&id)
        && let Some(run) = memory.loaded.runs.get_mut(&id)
    {
        run.flags.may_be_gated = true;
    }
}

/// The run is due as before, and its gate may be written.
fn ask_again(memory: &mut Memory, id: RunId) {
    if memory.in_hand(id).is_none() {
        return;
    }
    if let Some(run) = memory.loaded.runs.get_mut(&id) {
        run.flags.may_be_gated = true;
    }
    memory.move_to(id, RunLocation::Ready);
}
