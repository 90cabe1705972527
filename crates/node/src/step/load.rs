//! Loading: open runs that enter the window come into the wheel, and what they bring a moment before they are due.

use std::collections::BTreeSet;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::engine::reap::deadline;
use punctual_core::model::{Origin, Overrides, RunId, ShardId};
use punctual_core::wheel::Mark;

use crate::Node;
use crate::jobs::Known;
use crate::loss::RETURNING;
use crate::memory::{Held, Memory};
use crate::ports::{Adopted, Boot, Lease, Loaded, OpenSend, StoreError};
use crate::reads::Read;
use crate::settings::Planted;

/// How many attempts of earlier holders are taken over at a time.
const ADOPT_CHUNK: usize = 5_000;

/// A step that begins again at once lets the others go first.
const AT_ONCE: Duration = Duration::from_millis(1);

impl Node {
    /// Takes over what earlier holders left, and loads what is ready within the window.
    pub async fn load(&self) -> Boot {
        let boot = self.boot();
        match self.load_round().await {
            Ok(is_all) => {
                self.memory().agenda.failing.worked("load");
                if is_all { boot.plus(self.settings.load_ahead / 4) } else { self.boot() }
            }
            Err(error) => self.lost_or_paused("load", &error),
        }
    }

    /// Payloads of runs that are due in a moment are read before runs that are due in half a minute.
    async fn load_round(&self) -> Result<bool, StoreError> {
        self.fetch_ahead().await?;
        self.load_once().await
    }

    /// Whether everything within the window, or as much as there is room for, is loaded.
    async fn load_once(&self) -> Result<bool, StoreError> {
        let boot = self.boot();
        let (now, unadopted) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Ok(true) };
            let is_new =
                |lease: &Lease| memory.cluster.held.get(&lease.shard).is_some_and(|held| !held.is_adopted);
            (now, memory.leases().into_iter().filter(is_new).collect::<Vec<_>>())
        };
        if !unadopted.is_empty() {
            self.take_over(&unadopted).await?;
        }
        let until = now.saturating_add(self.settings.load_ahead);
        let Some((leases, from)) = self.behind(until) else { return Ok(true) };
        self.reach_out(&leases, until);
        let read = self.memory().loaded.reads.begin();
        let loaded = self.load_with_jobs(&leases, from, until).await;
        if let Ok(loaded) = &loaded {
            self.take_in_all(read, &leases, until, loaded);
        }
        self.memory().loaded.reads.end(read);
        loaded?;
        Ok(self.behind(until).is_none())
    }

    /// Reads runs, and their jobs: the wheel keeps the order of each app, so the apps of the runs have to be known.
    async fn load_with_jobs(
        &self,
        leases: &[Lease],
        from: Mark,
        until: Timestamp,
    ) -> Result<Loaded, StoreError> {
        let loaded = self.ports.store.load(leases, from, until, self.settings.load_max).await?;
        self.know_jobs(loaded.runs.iter().map(|run| run.job)).await?;
        Ok(loaded)
    }

    /// The shards that are furthest behind, and from where they are to be read. Those that were just taken start far
    /// back; they catch up with the others and then go on with them.
    ///
    /// A little behind is not behind: shards whose places differ by moments are read together, from the earliest.
    fn behind(&self, until: Timestamp) -> Option<(Vec<Lease>, Mark)> {
        let mut memory = self.memory();
        if memory.loaded.wheel.room() == 0 {
            return None;
        }
        if memory.loaded.wheel.mark().is_some() {
            if !memory.has_room_again() {
                return None;
            }
            memory.loaded.wheel.open_to(None);
        }
        let little = self.settings.load_ahead / 8;
        let from = memory.cluster.held.values().map(|held| held.loaded).min()?;
        let next = from.due.saturating_add(little);
        if next >= until {
            return None;
        }
        let is_there = |(shard, held): (&ShardId, &Held)| {
            (held.loaded.due <= next).then_some(Lease { shard: *shard, epoch: held.epoch })
        };
        Some((memory.cluster.held.iter().filter_map(is_there).collect(), from))
    }

    /// From now on what we write within the window comes into memory at once.
    fn reach_out(&self, leases: &[Lease], until: Timestamp) {
        let mut memory = self.memory();
        for lease in leases {
            if let Some(held) = memory.cluster.held.get_mut(&lease.shard) {
                held.reach = held.reach.max(Mark { due: until, id: 0 });
                held.is_in_question = false;
            }
        }
    }

    fn take_in_all(&self, read: Read, leases: &[Lease], until: Timestamp, loaded: &Loaded) {
        let end = loaded.rest.unwrap_or(Mark { due: until, id: 0 });
        let mut memory = self.memory();
        for lease in leases {
            if let Some(held) = memory.cluster.held.get_mut(&lease.shard)
                && held.epoch == lease.epoch
                && !held.is_in_question
            {
                held.loaded = held.loaded.max(end);
            }
        }
        for run in &loaded.runs {
            memory.take_in(read, run);
        }
        // Also what another read brought in meanwhile may have filled the wheel.
        memory.keep_below_mark();
    }

    /// Takes over runs that have a gate: the end of their attempt is waited for, and they are never sent again blindly.
    /// Notes what is parked. Returns the runs that have gates.
    pub(crate) async fn take_over(&self, leases: &[Lease]) -> Result<BTreeSet<RunId>, StoreError> {
        let read = self.memory().loaded.reads.begin();
        let adopted = self.adopt(read, leases).await;
        self.memory().loaded.reads.end(read);
        let ids: BTreeSet<RunId> = adopted?.sends.iter().map(|open| open.run.run).collect();
        let parts: Vec<RunId> = ids.iter().copied().filter(|id| self.is_part(*id)).collect();
        self.know_parts(&parts).await?;
        Ok(ids)
    }

    /// Takes what has a gate into memory, and notes what is parked.
    async fn adopt(&self, read: Read, leases: &[Lease]) -> Result<Adopted, StoreError> {
        let mut adopted = self.ports.store.adopt(leases).await?;
        if self.memory().has_planted(Planted::OverridesForgotten) {
            adopted.sends.iter_mut().for_each(|open| open.run.overrides = None);
        }
        let mut is_whole = true;
        for sends in adopted.sends.chunks(ADOPT_CHUNK) {
            self.know_jobs(sends.iter().map(|open| open.run.job)).await?;
            is_whole &= self.note_adopted(read, sends);
        }
        let mut memory = self.memory();
        memory.note_adopted_shards(leases, &adopted, is_whole);
        Ok(adopted)
    }

    /// Whether all of them were taken over. A run whose job changed at this moment is left for the next time: it is not
    /// known how long its attempt may take.
    fn note_adopted(&self, read: Read, sends: &[OpenSend]) -> bool {
        let mut memory = self.memory();
        let Some(now) = memory.time.now(self.boot()) else { return false };
        let mut is_whole = true;
        for open in sends {
            if memory.jobs.get(open.run.job).is_none() {
                is_whole = false;
                continue;
            }
            // The parts of a run have deadlines of their own.
            let deadline = match open.join {
                Some(_) => Timestamp::MAX,
                None => self.deadline_of(&memory, open, now),
            };
            memory.adopt(read, open, deadline, now);
            if let Some(join) = open.join.filter(|join| join.open == 0) {
                memory.join(open.run.run, join);
            }
        }
        is_whole
    }

    fn is_part(&self, id: RunId) -> bool {
        self.memory().loaded.runs.get(&id).is_some_and(|run| run.origin == Origin::Part)
    }

    /// When an attempt of an earlier holder counts as lost. Whatever its clock said, it was sent before now.
    fn deadline_of(&self, memory: &Memory, open: &OpenSend, now: Timestamp) -> Timestamp {
        let overrides = open.run.overrides.as_deref().unwrap_or(Overrides::none());
        let sent_at = open.sent_at.min(now);
        match memory.jobs.get(open.run.job) {
            // An executor says again what it could not report while no node was there.
            Some(Known::Job(job)) if job.executor().is_some() => {
                let regular = deadline(job, overrides, sent_at, self.settings.grace);
                match memory.has_planted(Planted::NoRepeatGrace) {
                    true => regular,
                    false => regular.max(now.saturating_add(self.settings.registry.repeat)),
                }
            }
            // After an outage the node that made the call comes back too, perhaps with the answer in hand.
            Some(Known::Job(job)) => {
                let returning = if memory.is_returning(self.boot()) { RETURNING } else { Duration::ZERO };
                let regular = deadline(job, overrides, sent_at, self.settings.grace);
                regular.max(now.saturating_add(returning))
            }
            // It is not known how long the attempt may take; the grace is all it gets.
            _ => sent_at.saturating_add(self.settings.grace),
        }
    }

    /// After an error of the store: when the step may ask again. Fenced means that the store knows better which node
    /// holds what, so it is asked at once.
    pub(crate) fn lost_or_paused(&self, step: &'static str, error: &StoreError) -> Boot {
        let boot = self.boot();
        let mut memory = self.memory();
        let is_fenced = matches!(error, StoreError::Fenced(_));
        let gave_back =
            memory.cluster.gave_back_at.is_some_and(|at| boot.since(at) < self.settings.renew_every);
        if is_fenced && gave_back {
            // The step began before this node gave shards back. It begins again with those that are left.
            return boot.plus(AT_ONCE);
        }
        if is_fenced {
            // Nothing failed: shards move whenever a node comes or goes.
            memory.agenda.paused_until = boot.plus(self.settings.pause);
            memory.outbox.wakes.renew = true;
        } else {
            memory.pause(boot, step, error, self.settings.pause);
        }
        memory.agenda.paused_until.max(boot.plus(AT_ONCE))
    }
}

impl Memory {
    /// All gates of these shards are known, if all of their runs could be taken over; and so is what is parked there.
    fn note_adopted_shards(&mut self, leases: &[Lease], adopted: &Adopted, is_whole: bool) {
        for (shard, job) in &adopted.parked {
            if self.cluster.held.contains_key(shard) {
                self.loaded.parked.adopt(*job, *shard);
                self.outbox.wakes.tend = true;
            }
        }
        for lease in leases {
            if let Some(held) = self.cluster.held.get_mut(&lease.shard)
                && held.epoch == lease.epoch
            {
                held.is_adopted |= is_whole;
            }
        }
        self.outbox.wakes.load |= !is_whole;
    }
}
