//! Watching: which executors are there. Silent executors are asked, those that stay silent are gone; and runs that wait
//! for an executor are not kept waiting for ever.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{Close, Outcome, RunId, Text, Then};
use punctual_core::registry::{Change, ChangeKind, Dialect};

use crate::Node;
use crate::desk::snapshot;
use crate::doubt::{LEARN, Patience, passed};
use crate::jobs::Known;
use crate::memory::{Loss, Memory, RunLocation};
use crate::ports::{Address, AppRow, Beat, Boot, Hint, Probe, SessionKey, StoreError};
use crate::retention::retentions;
use crate::step::Ended;

/// How many executors are asked in one round.
const PROBES_MAX: usize = 200;

/// A greater number of executors is told in an event: most likely they register under ever new addresses.
const CROWD: usize = 10_000;

/// How many runs give up waiting in one round.
const GIVE_UP_MAX: usize = 1_000;

/// How long the answers of executors are remembered.
const REMEMBERED: Duration = Duration::from_secs(86_400);

impl Node {
    /// Finds out which executors are there, asks about attempts in doubt, and lets runs that wait for an executor go on
    /// or give up.
    pub async fn watch(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().agenda.paused_until {
            return self.memory().agenda.paused_until;
        }
        if let Err(error) = self.watch_once(boot).await {
            return self.lost_or_paused("watch", &error);
        }
        let boot = self.boot();
        let memory = self.memory();
        let next = boot.plus(self.settings.registry.probe);
        let impatient = memory.loaded.seekers.next().map(|until| memory.time.moment_of(until));
        let lost =
            memory.executors.natives.next_loss(&self.settings.registry).map(|at| memory.time.moment_of(at));
        let lesson = memory.executors.doubts.next_lesson().map(|at| memory.time.moment_of(at));
        let soonest = [impatient, lost, lesson].into_iter().flatten().min();
        soonest.map_or(next, |until| until.clamp(boot.plus(self.settings.pause), next))
    }

    async fn watch_once(&self, boot: Boot) -> Result<(), StoreError> {
        let Some(now) = self.memory().time.now(boot) else { return Ok(()) };
        let settings = self.settings.registry;
        let is_time = |last: Option<Boot>, every| last.is_none_or(|last| boot.since(last) >= every);
        let (reads, buries, beats) = {
            let memory = self.memory();
            let is_due = is_time(memory.agenda.beaten_at, settings.beat);
            let beats = if is_due { memory.executors.natives.beats() } else { Vec::new() };
            (
                is_time(memory.agenda.looked_at, settings.probe),
                is_time(memory.agenda.buried_at, settings.sweep),
                beats,
            )
        };
        if !beats.is_empty() {
            self.beat_for(beats).await?;
            self.memory().agenda.beaten_at = Some(boot);
        }
        if buries {
            self.ports.apps.bury(settings.dead).await?;
            self.memory().agenda.buried_at = Some(boot);
        }
        if reads {
            self.read_registry(now).await?;
            self.memory().agenda.looked_at = Some(boot);
            self.ask_around();
        }
        if reads || self.memory().executors.doubts.next_lesson().is_some_and(|at| at <= now) {
            self.ask_about_attempts(now);
        }
        self.look_for_missing(boot, now).await?;
        self.ask_to_carry(boot, now);
        self.memory().lose_absent(now, &settings);
        self.ask_again(now);
        self.give_up_seeking(now).await
    }

    /// Asks the other nodes for executors that have no session here. Their answers are read before any attempt is taken
    /// for lost.
    async fn look_for_missing(&self, boot: Boot, now: Timestamp) -> Result<(), StoreError> {
        let (others, missing, is_over) = {
            let mut memory = self.memory();
            let others = memory.other_nodes();
            let missing = if others.is_empty() { Vec::new() } else { memory.executors.natives.missing() };
            let is_over =
                memory.executors.natives.next_loss(&self.settings.registry).is_some_and(|at| at <= now);
            (others, missing, is_over)
        };
        for (node, url) in others.iter().flat_map(|node| missing.iter().map(move |url| (node, url))) {
            self.ports.peers.tell(*node, Hint::Missing(url.clone()));
        }
        if is_over && !others.is_empty() {
            self.read_registry(now).await?;
            self.memory().agenda.looked_at = Some(boot);
        }
        Ok(())
    }

    /// Asks the other nodes to carry for executors that are there, and do not come here.
    fn ask_to_carry(&self, boot: Boot, now: Timestamp) {
        let (others, me, uncarried) = {
            let mut memory = self.memory();
            let others = memory.other_nodes();
            let uncarried = match others.is_empty() {
                true => Vec::new(),
                false => memory.uncarried(boot, now, self.settings.registry.resume),
            };
            (others, memory.cluster.id, uncarried)
        };
        for (node, url) in others.iter().flat_map(|node| uncarried.iter().map(move |url| (node, url))) {
            self.ports.peers.tell(*node, Hint::Carry { url: url.clone(), to: me });
        }
    }

    /// An executor with a session is there, and need not say so.
    async fn beat_for(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
        self.ports.apps.beat(beats.clone()).await?;
        beats.iter().for_each(|beat| self.hear_beat(beat));
        Ok(())
    }

    /// Brings in what other nodes have heard, and lets go of executors that were silent for too long.
    async fn read_registry(&self, begun: Timestamp) -> Result<(), StoreError> {
        let registered = self.ports.apps.registered().await?;
        let settings = self.settings.registry;
        let mut memory = self.memory();
        for row in registered.executors.iter().filter(|row| row.dialect != Dialect::Native) {
            let of = SessionKey { app: row.app.clone(), url: row.address.clone() };
            memory.executors.doubts.note_beat(of, row.joined_at, row.beat_at);
        }
        memory.executors.versions =
            registered.apps.iter().map(|app| (app.name.clone(), app.version)).collect();
        memory.executors.retentions = retentions(&registered);
        let paused = |app: &AppRow| Some((app.name.clone(), app.paused.clone()?));
        memory.executors.paused = registered.apps.iter().filter_map(paused).collect();
        let now = memory.time.now(self.boot()).unwrap_or(begun);
        let mut changes = memory.executors.registry.replace(now, snapshot(begun, registered), settings.dead);
        // An executor with a session is there, even if another node wrote otherwise when its own session ended.
        for beat in memory.executors.natives.beats() {
            changes.extend(memory.executors.registry.beat(&beat.app, &beat.address, beat.dialect, now));
        }
        changes.extend(memory.executors.registry.sweep(now, settings.dead));
        changes.extend(memory.executors.registry.missed(now, settings.beat));
        memory.note_tokens();
        memory.note_changes(changes, now);
        memory.note_crowd();
        memory.executors.doubts.forget_before(Timestamp::from_millis(
            begun.as_millis().saturating_sub(REMEMBERED.as_millis() as i64),
        ));
        Ok(())
    }

    /// Asks executors whether they are there.
    fn ask_around(&self) {
        let probes: Vec<Probe> = {
            let mut memory = self.memory();
            let alive = memory.to_be_probed(PROBES_MAX);
            memory.executors.probed_up_to = memory.executors.probed_up_to.wrapping_add(alive.len());
            alive.into_iter().map(|address| Probe::Alive { address }).collect()
        };
        if !probes.is_empty() {
            self.ports.dispatch.probe(probes);
        }
    }

    /// Asks executors whether they still have what they were given.
    fn ask_about_attempts(&self, now: Timestamp) {
        let questions = self.memory().questions(now, self.patience(), PROBES_MAX);
        let probes: Vec<Probe> =
            questions.into_iter().map(|(job, address)| Probe::Has { job, address }).collect();
        if !probes.is_empty() {
            self.ports.dispatch.probe(probes);
        }
    }

    /// Runs that wait for an executor of an app that has some ask again: those executors were busy, or did not answer.
    fn ask_again(&self, now: Timestamp) {
        let mut memory = self.memory();
        let is_there = |app: &Text| memory.executors.registry.routable(app).next().is_some();
        let apps: Vec<Text> = memory.loaded.seekers.apps().into_iter().filter(is_there).collect();
        let due =
            memory.executors.recalled_at.is_none_or(|last| passed(last, now) >= self.settings.registry.probe);
        if due && !apps.is_empty() {
            memory.executors.recalled_at = Some(now);
            apps.iter().for_each(|app| memory.recall(app));
        }
    }

    /// Closes runs that have waited for an executor for as long as they may.
    async fn give_up_seeking(&self, now: Timestamp) -> Result<(), StoreError> {
        let ends: Vec<Ended> = {
            let mut memory = self.memory();
            if memory.trusted_now(self.boot()).is_none() {
                return Ok(());
            }
            let ids = memory.loaded.seekers.impatient(now, GIVE_UP_MAX);
            ids.into_iter().filter_map(|id| memory.give_up_on(id, now)).collect()
        };
        self.write_ends(ends).await.map(|_| ())
    }

    pub(crate) fn patience(&self) -> Patience {
        let settings = &self.settings.registry;
        Patience { doubt: settings.doubt, learn: LEARN.min(settings.doubt), away: settings.away }
    }

    /// Asks executors to end attempts.
    pub(crate) fn kill(&self, kills: Vec<crate::ports::Kill>) {
        let mut kills = kills;
        {
            let mut memory = self.memory();
            for kill in &mut kills {
                let Some(address) = &mut kill.address else { continue };
                *address = memory.address_now(address);
                memory.outbox.events.push(Event::KillAsked {
                    run: kill.run,
                    job: kill.job,
                    attempt: kill.attempt,
                });
            }
        }
        self.ports.dispatch.kill(kills);
    }
}

impl Memory {
    /// Tells which executors came and went, and lets the runs that waited for them go on.
    pub(crate) fn note_changes(&mut self, changes: Vec<Change>, now: Timestamp) {
        for change in changes {
            let Change { app, address, kind } = change;
            let (app, address) = (Text::Owned(app.to_string()), Text::Owned(address.to_string()));
            // Before the first look at the registry it is not known whether the executor was away.
            if kind != ChangeKind::Missed && self.agenda.looked_at.is_some() {
                // It may have lost every attempt that it had before.
                let of = SessionKey { app: app.clone(), url: address.clone() };
                self.executors.doubts.note_away(&of, now);
            }
            if matches!(kind, ChangeKind::Joined | ChangeKind::Recovered) {
                self.recall(&app);
            }
            self.outbox.events.push(Event::Executor { app, address, what: kind });
        }
    }

    /// An address that changes with every start makes the registry grow without end.
    fn note_crowd(&mut self) {
        let count = self.executors.registry.executor_count();
        let is_crowded = count > CROWD;
        if is_crowded && !self.executors.is_crowded {
            self.outbox.events.push(Event::RegistryCrowded { count });
        }
        self.executors.is_crowded = is_crowded;
    }

    fn to_be_probed(&self, max: usize) -> Vec<Address> {
        let apps = self.executors.registry.apps().map(|app| &*app.name);
        let of = |app| self.executors.registry.executors(app).map(move |executor| (app, executor));
        let all = apps.flat_map(of).filter(|(_, executor)| executor.dialect != Dialect::Native);
        let all: Vec<(&str, &str)> = all.map(|(app, executor)| (app, &*executor.address)).collect();
        // Each round begins where the last one ended.
        let (before, after) = all.split_at(self.executors.probed_up_to % all.len().max(1));
        let turned = after.iter().chain(before).take(max);
        turned.map(|(app, url)| self.executor_at(app, &Text::Owned((*url).to_owned()))).collect()
    }

    /// The end of a run that has found no executor. It is in the hands of the step from now on.
    fn give_up_on(&mut self, id: RunId, now: Timestamp) -> Option<Ended> {
        let run = self.loaded.runs.get(&id).copied()?;
        let Some(Known::Job(job)) = self.jobs.get(run.job).cloned() else {
            // It asks its job first.
            self.seek_again(id);
            return None;
        };
        let said = self.loaded.seekers.reason(id).cloned();
        self.loaded.seekers.remove(id);
        self.move_to(id, RunLocation::Busy);
        let app = &job.definition.app;
        let reason = match self.executors.registry.executors(app).count() {
            0 => format!("no executor: none of app {app} is registered"),
            _ if self.executors.registry.routable(app).next().is_none() => {
                format!("no executor: those of app {app} that are registered do not answer")
            }
            _ => match said {
                Some(said) => format!("no executor: none of app {app} was free: {said}"),
                None => format!("no executor: none of app {app} was free"),
            },
        };
        let close = Close { outcome: Outcome::Failed, reason: reason.into(), closed_at: now, range: None };
        Some(Ended::unsent(id, &run, Then::Close(close)).following(&job, &run))
    }

    /// An attempt is lost although its time is not up: the next reaping ends it.
    pub(crate) fn take_for_lost(&mut self, id: RunId, reason: Text, now: Timestamp) {
        let Some(flight) = self.in_flight.flights.get_mut(&id) else { return };
        self.in_flight.deadlines.remove(&(flight.deadline, id));
        let deadline = flight.loss.take().map_or(flight.deadline, |loss| loss.deadline);
        flight.deadline = now;
        flight.loss = Some(Loss { reason, deadline });
        self.in_flight.deadlines.insert((now, id));
        self.outbox.wakes.reap = true;
    }

    /// Takes that back, as long as it is not written: it has the time that it had.
    pub(crate) fn take_for_alive(&mut self, id: RunId) {
        let Some(flight) = self.in_flight.flights.get_mut(&id) else { return };
        let Some(loss) = flight.loss.take() else { return };
        self.in_flight.deadlines.remove(&(flight.deadline, id));
        flight.deadline = flight.deadline.max(loss.deadline);
        self.in_flight.deadlines.insert((flight.deadline, id));
    }
}
