//! Making room: when memory is full of runs that cannot go, some of them are parked in the store, so that runs that can
//! go do not stay behind them. They are called back when there is room again.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::due::AppNumber;
use punctual_core::engine::fire::{Rank, Wanted};
use punctual_core::model::{Origin, RunId, Then};

use super::calendars::answer;
use super::decide::not_run;
use super::{Decision, Payloads, Prepared, Turn};
use crate::Node;
use crate::jobs::Known;
use crate::memory::{Memory, RunLocation};
use crate::settings::Settings;
use crate::step::Ended;

/// How many runs are parked in one step for lack of room.
const PARKED_AT_ONCE: usize = 5_000;

impl Node {
    /// Takes runs out of a memory that is full; what has to be written about them.
    pub(super) fn take_surplus(&self) -> Vec<Ended> {
        let boot = self.boot();
        let (surplus, questions, asked_at) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Vec::new() };
            let surplus = memory.surplus(&self.settings, now);
            if surplus.is_empty() {
                return Vec::new();
            }
            let questions = memory.calendar_questions(surplus.iter().copied(), now);
            (surplus, questions, now)
        };
        let prepared = Prepared { payloads: Payloads::default(), answers: answer(questions, asked_at) };
        let boot = self.boot();
        let mut memory = self.memory();
        let Some(now) = memory.trusted_now(boot) else { return Vec::new() };
        let (settings, decision) = (&self.settings, Decision::default());
        let mut turn =
            Turn { memory: &mut memory, settings, prepared: &prepared, boot, now, bits: 0, decision };
        surplus.into_iter().for_each(|id| turn.park_waiting(id));
        turn.decision.ends
    }
}

impl Turn<'_> {
    /// Parks a run that waits for a place or for an executor. Its lateness is judged now, since waiting for a place is
    /// none.
    fn park_waiting(&mut self, id: RunId) {
        let Some(run) = self.memory.loaded.runs.get(&id).copied() else { return };
        let Some(Known::Job(job)) = self.memory.jobs.get(run.job).cloned() else { return };
        let has_to_wait = matches!(run.location, RunLocation::Seeking | RunLocation::Ready);
        let is_free = !(run.flags.may_be_gated || run.flags.is_doubtful || run.flags.has_gate);
        if !has_to_wait || !is_free {
            return;
        }
        let then = match self.ask(id, &run, &job) {
            Wanted::Skip(reason) => Then::Close(not_run(&run, reason, self.now)),
            Wanted::Defer(ready_at) => Then::Wait { ready_at, attempt: run.attempt },
            Wanted::Start(_) | Wanted::Park => Then::Park { attempt: run.attempt, version: job.version },
        };
        self.memory.loaded.seekers.remove(id);
        self.memory.move_to(id, RunLocation::Busy);
        self.decision.ends.push(Ended::unsent(id, &run, then).following(&job, &run));
    }
}

impl Memory {
    /// The waiting runs that make room if they are parked. A queue that empties soon holds no run up for long, and to
    /// park from it would double what is written for each run.
    fn surplus(&self, settings: &Settings, now: Timestamp) -> Vec<RunId> {
        let waiting = self.waiting_count();
        if !self.is_clogged(settings, now) || self.loaded.flow.takes(waiting) {
            return Vec::new();
        }
        self.last_in_line((waiting - settings.ready_max() / 2 + 1).min(PARKED_AT_ONCE))
    }

    /// The last `many` of the runs that wait for a place or for an executor to take more. They are taken from the apps
    /// that have the most of them, down to the same number for each; and of an app, scheduled runs only after
    /// everything else.
    fn last_in_line(&self, many: usize) -> Vec<RunId> {
        let mut apps: BTreeMap<AppNumber, Vec<(bool, Rank)>> = BTreeMap::new();
        for rank in self.loaded.ready.iter().chain(self.loaded.seekers.stalled()) {
            let Some(run) = self.loaded.runs.get(&rank.run) else { continue };
            let is_other = run.origin != Origin::Schedule;
            let app = self.app_number(run.job);
            apps.entry(app).or_default().push((is_other, rank));
        }
        let mut apps: Vec<Vec<(bool, Rank)>> = apps.into_values().collect();
        apps.iter_mut().for_each(|ranks| ranks.sort_unstable());
        let mut last = Vec::new();
        while last.len() < many
            && let Some(most) = apps.iter_mut().max_by_key(|ranks| ranks.len())
            && let Some((_, rank)) = most.pop()
        {
            last.push(rank.run);
        }
        last
    }
}
