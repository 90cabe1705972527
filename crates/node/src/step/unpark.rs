//! Calling back: parked runs become ready again, of many jobs in one statement, by due time, as many as there is room for.
//!
//! A statement is about one shard. Runs of a job are spread over shards, and some shards have more of them than others: so the
//! room goes to the half of the shards that are furthest behind, in equal shares. The other half is furthest behind next time,
//! and the order over all shards is never further off than the room.

use std::collections::{BTreeMap, BTreeSet};

use calendar::Timestamp;
use punctual_core::model::{JobId, JobState, RunId, ShardId, Target};
use punctual_core::wheel::Mark;

use crate::Node;
use crate::jobs::Known;
use crate::memory::Memory;
use crate::parked::{Parked, WaitsFor};
use crate::ports::{Lease, StoreError, Unpark};
use crate::settings::Settings;

/// How many jobs are asked about in one step.
const JOBS_MAX: usize = 1_000;

/// How many runs are called back in one statement.
const CALLED_MAX: usize = 10_000;

/// The least number that a statement asks of each job, however many jobs share it.
const SHARE_MIN: usize = 16;

/// Parked runs that one statement can call back: those of a shard that become ready at the same moment.
#[derive(Debug)]
struct Calling {
    lease: Lease,
    at: Timestamp,
    /// The jobs, and how many runs of each there is room for.
    jobs: Vec<(JobId, usize)>,
    /// Jobs whose runs wait in the due queue, which has a limit.
    queued: BTreeSet<JobId>,
}

impl Node {
    /// Lets runs ask again that wait for a place elsewhere, and calls back parked runs of jobs that have room for them.
    pub(super) async fn call_back(&self, now: Timestamp) -> Result<(), StoreError> {
        self.promote_held_back();
        let due = self.memory().loaded.parked.due(JOBS_MAX);
        if due.is_empty() {
            return Ok(());
        }
        self.know_jobs(due.iter().map(|parked| parked.job)).await?;
        let callings = self.memory().callings_of(&due, &self.settings, now);
        // Those that need no room in the due queue do not share it.
        let (sharing, free): (Vec<Calling>, Vec<Calling>) =
            callings.into_iter().partition(|calling| !calling.queued.is_empty());
        for calling in free {
            self.call(calling, 1, now).await?;
        }
        let furthest_behind = sharing.len().div_ceil(2);
        self.memory().outbox.wakes.tend |= furthest_behind < sharing.len();
        for (done, calling) in sharing.into_iter().take(furthest_behind).enumerate() {
            self.call(calling, furthest_behind - done, now).await?;
        }
        Ok(())
    }

    fn promote_held_back(&self) {
        let boot = self.boot();
        let mut memory = self.memory();
        let due: Vec<JobId> =
            memory.loaded.held_back.iter().filter(|(_, at)| **at <= boot).map(|(job, _)| *job).collect();
        for job in due {
            memory.loaded.held_back.remove(&job);
            memory.promote(job);
        }
    }

    /// Calls back runs of a shard. The room is shared by `sharers` callings, this one included.
    async fn call(&self, calling: Calling, sharers: usize, now: Timestamp) -> Result<(), StoreError> {
        let Some(unpark) = self.memory().begin_calling(&calling, sharers, &self.settings) else {
            return Ok(());
        };
        let called = self.ports.store.unpark(&unpark).await;
        self.memory().loaded.callings += 1;
        let runs = match called {
            Ok(called) => {
                let runs: BTreeSet<RunId> = called.iter().map(|(_, run)| *run).collect();
                let from = Mark { due: unpark.at, id: 0 };
                self.reload(&[unpark.lease], from, now, &runs).await.map(|()| called)
            }
            Err(error) => Err(error),
        };
        let mut memory = self.memory();
        match runs {
            Ok(called) => {
                memory.end_calling(&calling, &unpark, &called);
                Ok(())
            }
            Err(error) => {
                // Runs that were called back all the same are found by loading; the others are called again.
                let shard = unpark.lease.shard;
                memory.read_again(shard, unpark.at);
                let again =
                    |(job, _): &(JobId, usize)| memory.loaded.parked.wait_for(*job, shard, WaitsFor::Call);
                unpark.jobs.iter().for_each(again);
                Err(error)
            }
        }
    }
}

impl Memory {
    /// What of these can be called back now, statement by statement, in the order of what they begin with.
    fn callings_of(&mut self, due: &[Parked], settings: &Settings, now: Timestamp) -> Vec<Calling> {
        let mut places: BTreeMap<(ShardId, Timestamp), usize> = BTreeMap::new();
        let mut callings: Vec<Calling> = Vec::new();
        for parked in due {
            let Parked { job, shard, since_change } = *parked;
            let (is_stopped, changed_at, is_queued) = match self.jobs.get(job) {
                Some(Known::Job(job)) => {
                    let is_http = matches!(job.definition.target, Target::Http(_));
                    (matches!(job.state, JobState::Stopped(_)), job.changed_at, is_http)
                }
                // Its runs are called back to be closed.
                Some(Known::Poisoned(_) | Known::Missing) => (false, now, false),
                None => continue,
            };
            let queued = self.loaded.active.get(&job).map_or(0, |active| active.queue.len());
            let room = settings.queue_max.saturating_sub(queued);
            let Some(lease) = self.lease(shard).filter(|_| !is_stopped && room * 2 >= settings.queue_max)
            else {
                // When the job is started, or has room, its runs are due again.
                let waits_for = if is_stopped { WaitsFor::Start } else { WaitsFor::Job };
                self.loaded.parked.wait_for(job, shard, waits_for);
                continue;
            };
            let at = if since_change { changed_at } else { now };
            let place = *places.entry((shard, at)).or_insert(callings.len());
            if place == callings.len() {
                callings.push(Calling { lease, at, jobs: Vec::new(), queued: BTreeSet::new() });
            }
            let calling = &mut callings[place];
            calling.jobs.push((job, room.max(1)));
            if is_queued || self.loaded.seekers.stalled_count() > 0 {
                calling.queued.insert(job);
            }
        }
        callings
    }

    /// Notes that these are being called back; what the store is asked, if there is room for any.
    fn begin_calling(&mut self, calling: &Calling, sharers: usize, settings: &Settings) -> Option<Unpark> {
        let room = (settings.ready_max() / 2).saturating_sub(self.waiting_count());
        let has_room = |job: &JobId| room > 0 || !calling.queued.contains(job);
        let max = if calling.queued.is_empty() { CALLED_MAX } else { (room / sharers).clamp(1, CALLED_MAX) };
        // Of many jobs each is asked for a part: else the store would read as many runs of each as fit in all.
        let share = (max * 4 / calling.jobs.len().max(1)).max(SHARE_MIN);
        let (asked, roomless): (Vec<_>, Vec<_>) = calling.jobs.iter().partition(|(job, _)| has_room(job));
        let shard = calling.lease.shard;
        for (job, _) in roomless {
            self.loaded.parked.wait_for(job, shard, WaitsFor::Room);
        }
        if asked.is_empty() {
            return None;
        }
        self.loaded.callings += 1;
        for (job, _) in &asked {
            // A run of it that is parked from here on is noted, and seen when this is done.
            self.loaded.parked.wait_for(*job, shard, WaitsFor::Job);
        }
        let jobs = asked.into_iter().map(|(job, most)| (job, most.min(share))).collect();
        Some(Unpark { lease: calling.lease, jobs, max, at: calling.at })
    }

    fn end_calling(&mut self, calling: &Calling, unpark: &Unpark, called: &[(JobId, RunId)]) {
        let shard = unpark.lease.shard;
        let is_missing = |run: &RunId| !self.loaded.runs.contains_key(run);
        let missing: Vec<RunId> = called.iter().map(|(_, run)| *run).filter(is_missing).collect();
        missing.into_iter().for_each(|run| self.look_up_later(run));
        if let Some(held) = self.cluster.held.get_mut(&shard) {
            // Those that have gates are adopted.
            held.is_adopted = false;
            self.outbox.wakes.load = true;
        }
        let mut counts: BTreeMap<JobId, usize> = BTreeMap::new();
        for (job, id) in called {
            *counts.entry(*job).or_default() += 1;
            if let Some(run) = self.loaded.runs.get(id) {
                // The earliest were called, so what is left of the job was due later.
                self.loaded.parked.advance(*job, shard, run.fire_time);
            }
        }
        for (job, count) in &counts {
            self.loaded.parked.note_called(*job, shard, *count as u64);
        }
        for (job, most) in &unpark.jobs {
            let is_all = called.len() < unpark.max && counts.get(job).copied().unwrap_or(0) < *most;
            if !is_all {
                // Runs that wait for room are called when firing has found some.
                let is_queued = calling.queued.contains(job);
                self.loaded.parked.wait_for(
                    *job,
                    shard,
                    if is_queued { WaitsFor::Room } else { WaitsFor::Call },
                );
                self.outbox.wakes.tend |= !is_queued;
            } else if !self.loaded.parked.is_due(*job, shard) {
                self.loaded.parked.forget(*job, shard);
            }
        }
    }
}
