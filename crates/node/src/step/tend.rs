//! Tending: what others left for us, what we should know and do not, and what is old.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{Epoch, Overrides, RunId, ShardId, Text};
use punctual_core::wheel::Mark;

use crate::Node;
use crate::desk::Submission;
use crate::ports::{Arrival, ArrivalKind, Boot, DOOR_KEEPER, Enqueued, Gate, Gated, Keep, Lease, StoreError};
use crate::retention::{Stretch, Thinning, Took, before, retentions};

/// How many arrivals are seen to in one step.
const ARRIVALS_MAX: usize = 1_000;

/// How many runs are noted as running in one step.
const NOTES_MAX: usize = 1_000;

/// How often old days are looked for.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// The pause between two stretches of a day: what is removed in one of them is a small part of what a second can write.
const THIN_EVERY: Duration = Duration::from_secs(1);

/// What an application asks for, as the desk takes it; or why it cannot be.
fn submission(enqueued: &Enqueued) -> Result<Submission, Text> {
    let Some(job) = enqueued.job else { return Err(Text::Borrowed("there is no job of that name")) };
    let priority = enqueued.priority.map(u8::try_from).transpose();
    let Ok(priority) = priority else { return Err(Text::Borrowed("priority: expected 0 to 9")) };
    let key = enqueued.key.clone().unwrap_or_else(|| format!("arrival {}", enqueued.id).into());
    let (at, payload, overrides) = (enqueued.at, enqueued.payload.clone(), Overrides::default());
    Ok(Submission { job, at, payload, key: Some(key), priority, overrides })
}

impl Node {
    /// Sees to what was left for us, notes what has been on its way for long, calls back what is parked, and now and
    /// then sweeps for what was missed and drops what is old.
    pub async fn tend(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().agenda.paused_until {
            return self.memory().agenda.paused_until;
        }
        if let Err(error) = self.tend_once(boot).await {
            return self.lost_or_paused("tend", &error);
        }
        let mut memory = self.memory();
        let is_waiting = !memory.loaded.held_back.is_empty();
        let has_unnoted = memory.in_flight.flights.values().any(|flight| !flight.is_gated);
        memory.agenda.tends_soon = has_unnoted;
        if memory.agenda.thinning.is_busy() {
            return boot.plus(THIN_EVERY);
        }
        let every =
            if is_waiting || has_unnoted { self.settings.note_after } else { self.settings.sweep_every };
        boot.plus(every)
    }

    async fn tend_once(&self, boot: Boot) -> Result<(), StoreError> {
        let (now, leases) = {
            let memory = self.memory();
            let Some(now) = memory.trusted_now(boot) else { return Ok(()) };
            (now, memory.leases())
        };
        self.look_up_heard_of().await?;
        if !leases.is_empty() {
            self.see_to_arrivals(&leases).await?;
            self.note_running(&leases, now).await?;
            self.call_back(now).await?;
        }
        let is_time = |last: Option<Boot>, every| last.is_none_or(|last| boot.since(last) >= every);
        if is_time(self.memory().agenda.swept_at, self.settings.sweep_every) && !leases.is_empty() {
            self.sweep(&leases, now).await?;
            self.memory().agenda.swept_at = Some(boot);
        }
        if is_time(self.memory().agenda.pruned_at, PRUNE_EVERY) {
            self.prune(now).await?;
            self.memory().agenda.pruned_at = Some(boot);
        }
        self.thin(now).await
    }

    /// Drops days that no app keeps, and takes note of those that some apps keep longer than others.
    async fn prune(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut keep = self.what_to_keep(now).await?;
        keep.needless = self.memory().agenda.thinning.needless(&keep);
        let pruned = self.ports.store.prune(&keep).await?;
        self.memory().agenda.thinning.note(&keep, &pruned.old);
        Ok(())
    }

    /// Removes some of the old runs of a day that stays. Only the holder of the first shard does it.
    async fn thin(&self, now: Timestamp) -> Result<(), StoreError> {
        {
            let mut memory = self.memory();
            if memory.lease(ShardId(0)).is_none() {
                memory.agenda.thinning = Thinning::default();
            }
            if !memory.agenda.thinning.is_busy() {
                return Ok(());
            }
        }
        let keep = self.what_to_keep(now).await?;
        let Some(Stretch { day, from, max }) = self.memory().agenda.thinning.next(&keep) else {
            return Ok(());
        };
        let thinned = self.ports.store.thin(&keep, day, from, max).await?;
        let mut memory = self.memory();
        if memory.agenda.thinning.took(day, &thinned) == Took::Needless {
            // It can be dropped as a whole.
            memory.agenda.pruned_at = None;
        }
        Ok(())
    }

    /// How long runs are kept, as the store has it now: what a person has just set counts.
    async fn what_to_keep(&self, now: Timestamp) -> Result<Keep, StoreError> {
        let retentions = retentions(&self.ports.apps.registered().await?);
        let apps = retentions.into_iter().map(|(app, kept)| (app, before(now, kept))).collect();
        Ok(Keep { apps, ..Keep::since(before(now, self.settings.retention)) })
    }

    async fn look_up_heard_of(&self) -> Result<(), StoreError> {
        let heard_of = std::mem::take(&mut self.memory().inbox.heard_of);
        if heard_of.is_empty() {
            return Ok(());
        }
        let asking = self.asking();
        let looked_up = self.look_up(&heard_of).await;
        if looked_up.is_err() {
            self.memory().inbox.heard_of.extend(heard_of);
        }
        drop(asking);
        looked_up
    }

    /// Carries out requests about runs of our shards, and looks at runs that other nodes wrote for them.
    async fn see_to_arrivals(&self, leases: &[Lease]) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.memory().inbox.has_arrivals) {
            return Ok(());
        }
        let seen_to = match self.let_applications_in(leases).await {
            Ok(()) => self.see_to_wishes(leases).await,
            Err(error) => Err(error),
        };
        if seen_to.is_err() {
            self.memory().inbox.has_arrivals = true;
        }
        seen_to
    }

    async fn see_to_wishes(&self, leases: &[Lease]) -> Result<(), StoreError> {
        let arrivals = self.ports.store.arrivals(leases, ARRIVALS_MAX).await?;
        if arrivals.is_empty() {
            return Ok(());
        }
        // Until all are seen to, they are not forgotten, and come again with the next renewal.
        let run_of = |kind: &ArrivalKind| match kind {
            ArrivalKind::Run(run) => Some(*run),
            ArrivalKind::Cancel(_) | ArrivalKind::Reschedule(..) | ArrivalKind::Deleted(_) => None,
        };
        let runs: Vec<RunId> = arrivals.iter().filter_map(|arrival| run_of(&arrival.kind)).collect();
        if !runs.is_empty() {
            self.look_up(&runs).await?;
        }
        self.carry_out(&arrivals).await?;
        let unfinished = self.retire_deleted(&arrivals).await?;
        let is_done = |arrival: &&Arrival| !unfinished.contains(&arrival.id);
        let ids: Vec<u64> = arrivals.iter().filter(is_done).map(|arrival| arrival.id).collect();
        self.ports.store.consume(&ids).await?;
        if arrivals.len() == ARRIVALS_MAX || !unfinished.is_empty() {
            self.look_again_for_arrivals();
        }
        Ok(())
    }

    fn look_again_for_arrivals(&self) {
        let mut memory = self.memory();
        memory.inbox.has_arrivals = true;
        memory.outbox.wakes.tend = true;
    }

    /// Takes the one-shots that applications left in their own transactions. Each is written under its key or, without
    /// one, under the number of its arrival: if the arrival is forgotten only the next time, there is still one run.
    async fn let_applications_in(&self, leases: &[Lease]) -> Result<(), StoreError> {
        if !leases.iter().any(|lease| lease.shard == DOOR_KEEPER) {
            return Ok(());
        }
        let enqueued = self.ports.store.enqueued(ARRIVALS_MAX).await?;
        if enqueued.is_empty() {
            return Ok(());
        }
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        let mut batch = Vec::with_capacity(enqueued.len());
        for one in &enqueued {
            match submission(one) {
                Ok(submission) => batch.push((one.id, submission)),
                Err(reason) => refused.push((one.id, reason)),
            }
        }
        match self.submit(batch.iter().map(|(_, submission)| submission.clone()).collect()).await {
            Ok(_) => taken.extend(batch.iter().map(|(id, _)| *id)),
            Err(error) if error.is_passing() => return Err(StoreError::Unknown(error.to_string().into())),
            // That one of them cannot be taken is no reason to refuse the others.
            Err(_) => {
                for (id, submission) in batch {
                    match self.submit(vec![submission]).await {
                        Ok(_) => taken.push(id),
                        Err(error) if error.is_passing() => {
                            return Err(StoreError::Unknown(error.to_string().into()));
                        }
                        Err(error) => refused.push((id, error.to_string().into())),
                    }
                }
            }
        }
        self.ports.store.consume(&taken).await?;
        if !refused.is_empty() {
            let event = Event::ArrivalsRefused { count: refused.len(), reason: refused[0].1.clone() };
            self.ports.store.refuse(refused).await?;
            self.memory().outbox.events.push(event);
        }
        if enqueued.len() == ARRIVALS_MAX {
            self.look_again_for_arrivals();
        }
        Ok(())
    }

    /// Carries out requests in the order in which they were left; requests of one kind that follow each other are
    /// carried out together.
    async fn carry_out(&self, arrivals: &[Arrival]) -> Result<(), StoreError> {
        let is_alike = |one: &Arrival, next: &Arrival| {
            std::mem::discriminant(&one.kind) == std::mem::discriminant(&next.kind)
        };
        for alike in arrivals.chunk_by(is_alike) {
            let (mut cancels, mut moves) = (Vec::new(), Vec::new());
            for arrival in alike {
                match arrival.kind {
                    ArrivalKind::Run(_) | ArrivalKind::Deleted(_) => {}
                    ArrivalKind::Cancel(run) => cancels.push(run),
                    ArrivalKind::Reschedule(run, at) => moves.push((run, at)),
                }
            }
            if !cancels.is_empty() {
                self.cancel_arrived(&cancels).await?;
            }
            if !moves.is_empty() {
                self.reschedule_arrived(&moves).await?;
            }
        }
        Ok(())
    }

    /// Writes down what has been on its way for long without a gate: a next holder then waits for it.
    async fn note_running(&self, leases: &[Lease], now: Timestamp) -> Result<(), StoreError> {
        let after = i64::try_from(self.settings.note_after.as_millis()).unwrap_or(i64::MAX);
        let sent_by = Timestamp::from_millis(now.as_millis().saturating_sub(after));
        let notes: Vec<Gate> = {
            let memory = self.memory();
            if memory.in_flight.flights.values().all(|flight| flight.is_gated || flight.sent_at > sent_by) {
                return Ok(());
            }
            memory.notes(leases, sent_by).into_iter().take(NOTES_MAX).collect()
        };
        if notes.is_empty() {
            return Ok(());
        }
        let answers = self.ports.store.gate(notes.clone()).await?;
        let mut unsure = Vec::new();
        {
            let mut memory = self.memory();
            for (note, answer) in notes.iter().zip(&answers) {
                match (answer, memory.in_flight.flights.get_mut(&note.run)) {
                    (Gated::Through(_), Some(flight)) if flight.token == note.token => flight.is_gated = true,
                    (Gated::Through(_) | Gated::Held(_) | Gated::Behind(..), _) => {}
                    (Gated::Taken(_) | Gated::Closed, _) => unsure.push(note.run),
                }
            }
        }
        if unsure.is_empty() { Ok(()) } else { self.look_up(&unsure).await }
    }

    /// Looks for open runs that should be in memory and are not, and for those in memory that are closed: it finds what
    /// a lost hint would have told.
    async fn sweep(&self, leases: &[Lease], now: Timestamp) -> Result<(), StoreError> {
        let from = {
            let mut memory = self.memory();
            for lease in leases {
                if let Some(held) = memory.cluster.held.get_mut(&lease.shard) {
                    held.is_sweeping = held.is_answered && held.epoch == lease.epoch;
                }
            }
            let first = memory.cluster.held.values().map(|held| held.checkpoint).min();
            first.unwrap_or(Mark { due: Timestamp::MIN, id: 0 })
        };
        self.reload(leases, from, now, &BTreeSet::new()).await?;
        for held in self.memory().cluster.held.values_mut().filter(|held| held.is_sweeping) {
            held.swept = now;
        }
        let open = self.take_over(leases).await?;
        let strangers: Vec<RunId> = {
            let memory = self.memory();
            let is_stranger = |(id, flight): (&RunId, &crate::memory::Flight)| {
                (flight.is_gated && !open.contains(id)).then_some(*id)
            };
            let mut ids: Vec<RunId> = memory.in_flight.flights.iter().filter_map(is_stranger).collect();
            ids.sort_unstable();
            ids
        };
        if strangers.is_empty() { Ok(()) } else { self.look_up(&strangers).await }
    }

    /// Reads again what is ready by now and open. What is ready later is either in memory or will be loaded, or is found
    /// here when its time has come.
    ///
    /// Runs that this node has just called back were certainly not sent.
    pub(super) async fn reload(
        &self,
        leases: &[Lease],
        mut from: Mark,
        now: Timestamp,
        called: &BTreeSet<RunId>,
    ) -> Result<(), StoreError> {
        let until = now.saturating_add(Duration::from_millis(1));
        let epochs: BTreeMap<ShardId, Epoch> =
            leases.iter().map(|lease| (lease.shard, lease.epoch)).collect();
        while from.due < until {
            let read = self.memory().loaded.reads.begin();
            let loaded = self.ports.store.load(leases, from, until, self.settings.load_max).await;
            let mut memory = self.memory();
            for run in loaded.iter().flat_map(|loaded| &loaded.runs) {
                if called.contains(&run.run) {
                    memory.take_in_new(read, run, epochs.get(&run.shard).copied());
                } else {
                    memory.take_in(read, run);
                }
            }
            memory.loaded.reads.end(read);
            drop(memory);
            match loaded?.rest {
                Some(rest) => from = rest,
                None => break,
            }
        }
        Ok(())
    }
}
