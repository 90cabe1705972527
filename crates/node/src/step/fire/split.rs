//! Splitting: a broadcast run falls into parts, one for each executor. They are written with the gate of the whole before
//! any of them is sent, and each is then a run of its own.

use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{Attempt, Decided, NewRun, Origin, Overrides, Part, RunId};

use super::{Decision, Prepared, Turn};
use crate::Node;
use crate::doubt::passed;
use crate::memory::{Flight, Run};
use crate::ports::{Address, Gate, Gated, Split, StoreError};
use crate::reads::Read;

impl Node {
    /// Writes the gates of broadcast runs with their parts; the parts are due at once.
    pub(super) async fn split(&self, drafts: Vec<(Gate, Vec<Address>)>) -> Result<(), StoreError> {
        let gates: Vec<Gate> = drafts.iter().map(|(gate, _)| gate.clone()).collect();
        let read = self.memory().loaded.reads.begin();
        let written = self.write_splits(drafts).await;
        let noted = match &written {
            Ok((splits, answers)) => Ok(self.note_splits(read, splits, answers)),
            Err(error) => {
                self.not_through(&gates, error);
                Err(error.clone())
            }
        };
        self.memory().loaded.reads.end(read);
        self.write_ends(noted?).await.map(|_| ())
    }

    async fn write_splits(
        &self,
        drafts: Vec<(Gate, Vec<Address>)>,
    ) -> Result<(Vec<Split>, Vec<Gated>), StoreError> {
        let day = |gate: &Gate| RunId::day_of(gate.sent_at);
        let days: Vec<u32> =
            drafts.iter().flat_map(|(gate, addresses)| vec![day(gate); addresses.len()]).collect();
        let mut ids = self.draw_ids(&days).await?.into_iter();
        let mut splits = Vec::with_capacity(drafts.len());
        for (gate, addresses) in drafts {
            let total = addresses.len() as u32;
            let ids: Vec<RunId> = ids.by_ref().take(addresses.len()).collect();
            // It may have left memory while ids were drawn.
            let (whole, overrides) = {
                let memory = self.memory();
                let Some(whole) = memory.loaded.runs.get(&gate.run).copied() else { continue };
                (whole, memory.loaded.overrides.get(&gate.run).cloned())
            };
            let part = |(index, (id, address)): (usize, (RunId, Address))| {
                let part = Part { index: index as u32, total, address: address.url };
                (part_run(id, &gate, &whole, overrides.clone()), part)
            };
            let parts = ids.into_iter().zip(addresses).enumerate().map(part).collect();
            splits.push(Split { gate, parts });
        }
        let answers = self.ports.store.split(splits.clone()).await?;
        Ok((splits, answers))
    }

    fn note_splits(&self, read: Read, splits: &[Split], answers: &[Gated]) -> Vec<crate::step::Ended> {
        let boot = self.boot();
        let mut memory = self.memory();
        let now = memory.time.now(boot).unwrap_or(Timestamp::MIN);
        let (settings, decision, prepared) = (&self.settings, Decision::default(), &Prepared::default());
        let mut turn = Turn { memory: &mut memory, settings, prepared, boot, now, bits: 0, decision };
        for (split, answer) in splits.iter().zip(answers) {
            let Some(run) = turn.memory.in_hand(split.gate.run) else { continue };
            let is_ours = turn.memory.lease(run.shard) == Some(split.gate.lease);
            match answer {
                Gated::Through(_) if is_ours => turn.fall_apart(read, split, &run),
                Gated::Through(_) | Gated::Taken(_) | Gated::Closed => {
                    turn.leave_behind(split.gate.run, &run)
                }
                Gated::Held(_) => turn.wait_for_hold(&split.gate, &run),
                Gated::Behind(_, first) => turn.wait_for_keys(&split.gate, *first, &run),
            }
        }
        turn.decision.ends
    }
}

impl Turn<'_> {
    /// The whole is on its way for as long as its parts are; they are due.
    fn fall_apart(&mut self, read: Read, split: &Split, run: &Run) {
        let Split { gate, parts } = split;
        self.memory.fly(
            gate.run,
            Flight {
                attempt: gate.attempt,
                token: gate.token,
                sent_at: gate.sent_at,
                executor: gate.executor.clone(),
                address: None,
                is_gated: true,
                adopted_at: None,
                was_claimed: false,
                possible_duplicate: run.flags.may_repeat,
                http: None,
                is_answered: false,
                // Its parts have theirs.
                deadline: Timestamp::MAX,
                unclear: None,
                loss: None,
            },
        );
        let supposed = self.memory.loaded.supposed.remove(&gate.run);
        let lag = passed(supposed.unwrap_or(run.ready_at), self.now);
        let is_first = gate.attempt == Attempt::FIRST || supposed.is_some();
        self.memory.outbox.events.push(Event::Sent {
            run: gate.run,
            job: run.job,
            attempt: gate.attempt,
            lag,
            is_first,
        });
        if run.flags.may_be_gated {
            // An earlier asking may have written other parts: those count.
            self.memory.read_again(run.shard, gate.sent_at.min(run.ready_at));
            return;
        }
        for (new, part) in parts {
            self.memory.loaded.parts.note(new.id, gate.run, part.clone());
            self.memory.take_in_new(read, &new.into(), Some(gate.lease.epoch));
        }
    }
}

fn part_run(id: RunId, gate: &Gate, whole: &Run, overrides: Option<Arc<Overrides>>) -> NewRun {
    NewRun {
        id,
        job: gate.job,
        shard: gate.lease.shard,
        fire_time: whole.fire_time,
        due: gate.sent_at,
        origin: Origin::Part,
        decided: Decided::OnTime,
        priority: whole.priority,
        payload: None,
        key: None,
        of: Some(gate.run),
        overrides,
    }
}
