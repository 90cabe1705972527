//! Watching: who is there. Executors that are silent are asked, those that stay silent are gone; and runs that wait for
//! one are not kept waiting for ever.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::event::Event;
use punctual_core::model::{Close, Outcome, RunId, Text, Then};
use punctual_core::registry::{Change, ChangeKind, Dialect};

use crate::Node;
use crate::desk::snapshot;
use crate::doubt::{LEARN, Patience, passed};
use crate::jobs::Known;
use crate::memory::Memory;
use crate::ports::{
    Address, AppRow, Beat, Boot, Heard, Hint, Killed, Probe, Probed, Progress, SessionKey, StoreError,
    Unclear,
};
use crate::retention::retentions;
use crate::step::Ended;

/// How many executors are asked in one round.
const PROBES_MAX: usize = 200;

/// More executors than this are told of: most likely they register under ever new addresses.
const CROWD: usize = 10_000;

/// How many runs give up waiting in one round.
const GIVE_UP_MAX: usize = 1_000;

/// How long what executors said is remembered.
const REMEMBERED: Duration = Duration::from_secs(86_400);

impl Node {
    /// Finds out who is there, asks about what is doubtful, and lets those go on, or give up, that wait for an executor.
    pub async fn watch(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().paused_until {
            return self.memory().paused_until;
        }
        if let Err(error) = self.watch_once(boot).await {
            return self.lost_or_paused("watch", &error);
        }
        let boot = self.boot();
        let memory = self.memory();
        let next = boot.plus(self.settings.registry.probe);
        let impatient = memory.seekers.next().map(|until| memory.time.moment_of(until));
        let lost = memory.natives.next_loss(&self.settings.registry).map(|at| memory.time.moment_of(at));
        let lesson = memory.doubts.next_lesson().map(|at| memory.time.moment_of(at));
        let soonest = [impatient, lost, lesson].into_iter().flatten().min();
        soonest.map_or(next, |until| until.clamp(boot.plus(self.settings.pause), next))
    }

    async fn watch_once(&self, boot: Boot) -> Result<(), StoreError> {
        let Some(now) = self.memory().time.now(boot) else { return Ok(()) };
        let settings = self.settings.registry;
        let is_time = |last: Option<Boot>, every| last.is_none_or(|last| boot.since(last) >= every);
        let (reads, buries, beats) = {
            let memory = self.memory();
            let is_due = is_time(memory.beaten_at, settings.beat);
            let beats = if is_due { memory.natives.beats() } else { Vec::new() };
            (is_time(memory.looked_at, settings.probe), is_time(memory.buried_at, settings.sweep), beats)
        };
        if !beats.is_empty() {
            self.beat_for(beats).await?;
            self.memory().beaten_at = Some(boot);
        }
        if buries {
            self.ports.apps.bury(settings.dead).await?;
            self.memory().buried_at = Some(boot);
        }
        if reads {
            self.read_registry(now).await?;
            self.memory().looked_at = Some(boot);
            self.ask_around();
        }
        if reads || self.memory().doubts.next_lesson().is_some_and(|at| at <= now) {
            self.ask_about_attempts(now);
        }
        self.look_for_missing(boot, now).await?;
        self.ask_to_carry(boot, now);
        self.memory().lose_absent(now, &settings);
        self.ask_again(now);
        self.give_up_seeking(now).await
    }

    /// Asks the other nodes for executors that have no session here. Before anything is taken for lost, what they said is
    /// read.
    async fn look_for_missing(&self, boot: Boot, now: Timestamp) -> Result<(), StoreError> {
        let (others, missing, is_over) = {
            let mut memory = self.memory();
            let others = memory.other_nodes();
            let missing = if others.is_empty() { Vec::new() } else { memory.natives.missing() };
            let is_over = memory.natives.next_loss(&self.settings.registry).is_some_and(|at| at <= now);
            (others, missing, is_over)
        };
        for (node, url) in others.iter().flat_map(|node| missing.iter().map(move |url| (node, url))) {
            self.ports.peers.tell(*node, Hint::Missing(url.clone()));
        }
        if is_over && !others.is_empty() {
            self.read_registry(now).await?;
            self.memory().looked_at = Some(boot);
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
            (others, memory.id, uncarried)
        };
        for (node, url) in others.iter().flat_map(|node| uncarried.iter().map(move |url| (node, url))) {
            self.ports.peers.tell(*node, Hint::Carry { url: url.clone(), to: me });
        }
    }

    /// Who has a session is there, and need not say so.
    async fn beat_for(&self, beats: Vec<Beat>) -> Result<(), StoreError> {
        self.ports.apps.beat(beats.clone()).await?;
        beats.iter().for_each(|beat| self.hear_beat(beat));
        Ok(())
    }

    /// Brings in what other nodes have heard, and lets go of those that were silent for too long.
    async fn read_registry(&self, begun: Timestamp) -> Result<(), StoreError> {
        let registered = self.ports.apps.registered().await?;
        let settings = self.settings.registry;
        let mut memory = self.memory();
        for row in registered.executors.iter().filter(|row| row.dialect != Dialect::Native) {
            memory.doubts.note_beat(&row.address, row.joined_at, row.beat_at);
        }
        memory.versions = registered.apps.iter().map(|app| (app.name.clone(), app.version)).collect();
        memory.retentions = retentions(&registered);
        let paused = |app: &AppRow| Some((app.name.clone(), app.paused.clone()?));
        memory.paused = registered.apps.iter().filter_map(paused).collect();
        let now = memory.time.now(self.boot()).unwrap_or(begun);
        let mut changes = memory.registry.replace(now, snapshot(begun, registered), settings.dead);
        // Who has a session is there, whatever another node wrote when its own was over.
        for beat in memory.natives.beats() {
            changes.extend(memory.registry.beat(&beat.app, &beat.address, beat.dialect, now));
        }
        changes.extend(memory.registry.sweep(now, settings.dead));
        changes.extend(memory.registry.missed(now, settings.beat));
        memory.note_tokens();
        memory.note_changes(changes, now);
        memory.note_crowd();
        memory.doubts.forget_before(Timestamp::from_millis(
            begun.as_millis().saturating_sub(REMEMBERED.as_millis() as i64),
        ));
        Ok(())
    }

    /// Asks executors whether they are there.
    fn ask_around(&self) {
        let probes: Vec<Probe> = {
            let mut memory = self.memory();
            let alive = memory.to_be_probed(PROBES_MAX);
            memory.probed_up_to = memory.probed_up_to.wrapping_add(alive.len());
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

    /// Who waits for an executor of an app that has some asks again: those were busy, or did not answer.
    fn ask_again(&self, now: Timestamp) {
        let mut memory = self.memory();
        let is_there = |app: &Text| memory.registry.routable(app).next().is_some();
        let apps: Vec<Text> = memory.seekers.apps().into_iter().filter(is_there).collect();
        let due = memory.recalled_at.is_none_or(|last| passed(last, now) >= self.settings.registry.probe);
        if due && !apps.is_empty() {
            memory.recalled_at = Some(now);
            apps.iter().for_each(|app| memory.recall(app));
        }
    }

    /// Closes runs that have waited for an executor for as long as they are to.
    async fn give_up_seeking(&self, now: Timestamp) -> Result<(), StoreError> {
        let ends: Vec<Ended> = {
            let mut memory = self.memory();
            if memory.trusted_now(self.boot()).is_none() {
                return Ok(());
            }
            let ids = memory.seekers.impatient(now, GIVE_UP_MAX);
            ids.into_iter().filter_map(|id| memory.give_up_on(id, now)).collect()
        };
        self.write_ends(ends).await.map(|_| ())
    }

    fn patience(&self) -> Patience {
        let settings = &self.settings.registry;
        Patience { doubt: settings.doubt, learn: LEARN.min(settings.doubt), away: settings.away }
    }

    /// Takes what dispatch heard.
    pub fn heard(&self, heard: Vec<Heard>) {
        let boot = self.boot();
        for one in heard {
            match one {
                Heard::Report(report) => self.report(report),
                Heard::Probed(probed) => self.probed(probed, boot),
                Heard::Killed(killed) => self.killed(killed),
                Heard::Unclear(unclear) => self.unclear(unclear),
                Heard::Credit { of, more } => self.memory().credit(&of, more),
                Heard::Borrow { of, runs } => self.lend(of, runs),
                Heard::Draining { of } => self.memory().native_drains(&of),
                Heard::Progress(progress) => self.progress(progress),
            }
        }
    }

    fn lend(&self, of: SessionKey, runs: u64) {
        let places = self.memory().natives.lend(&of, runs);
        if places > 0 {
            self.ports.dispatch.lend(of, places);
        }
    }

    fn probed(&self, probed: Probed, boot: Boot) {
        let mut memory = self.memory();
        let Some(now) = memory.time.now(boot) else { return };
        match probed {
            Probed::Chosen { run, attempt, url, said } => {
                let is_same = memory.runs.get(&run).is_some_and(|kept| kept.attempt == attempt);
                if is_same && memory.seekers.is_asking(run) {
                    if url.is_none() {
                        memory.seekers.note_reason(run, said);
                    }
                    memory.choose(run, url, now, self.settings.registry.wait);
                }
            }
            Probed::Alive { app, url, is_there } => {
                let change = memory.registry.probed(&app, &url, is_there, now);
                memory.note_changes(change.into_iter().collect(), now);
            }
            Probed::Has { job, app: _, url, has } => {
                let lost = memory.hear_answer(job, &url, has, now, self.patience());
                lost.into_iter().for_each(|(id, reason)| memory.take_for_lost(id, reason, now));
            }
        }
    }

    fn unclear(&self, Unclear { run, attempt, said }: Unclear) {
        let mut memory = self.memory();
        if let Some(flight) = memory.flights.get_mut(&run).filter(|flight| flight.attempt == attempt) {
            flight.unclear = Some(said);
        }
    }

    fn progress(&self, Progress { run, attempt, percent, note }: Progress) {
        let mut memory = self.memory();
        let is_out = memory.flights.get(&run).is_some_and(|flight| flight.attempt == attempt);
        let known = memory.runs.get(&run).filter(|_| is_out).map(|known| known.job);
        if let Some(job) = known {
            memory.events.push(Event::Progress { run, job, attempt, percent, note });
        }
    }

    fn killed(&self, killed: Killed) {
        let Killed { run, attempt, is_confirmed, said } = killed;
        self.memory().events.push(Event::KillAnswered { run, attempt, is_confirmed, said });
    }

    /// Wishes attempts to end.
    pub(crate) fn kill(&self, kills: Vec<crate::ports::Kill>) {
        let mut kills = kills;
        {
            let mut memory = self.memory();
            for kill in &mut kills {
                let Some(address) = &mut kill.address else { continue };
                *address = memory.address_now(address);
                memory.events.push(Event::KillAsked { run: kill.run, job: kill.job, attempt: kill.attempt });
            }
        }
        self.ports.dispatch.kill(kills);
    }
}

impl Memory {
    /// Tells who came and went, and lets those go on who waited for them.
    pub(crate) fn note_changes(&mut self, changes: Vec<Change>, now: Timestamp) {
        for change in changes {
            let Change { app, address, kind } = change;
            let (app, address) = (Text::Owned(app.to_string()), Text::Owned(address.to_string()));
            // Before the first look at the registry nobody knows whether it was away.
            if kind != ChangeKind::Missed && self.looked_at.is_some() {
                // Whatever it had before this, it may have no longer.
                self.doubts.note_away(&address, now);
            }
            if matches!(kind, ChangeKind::Joined | ChangeKind::Recovered) {
                self.recall(&app);
            }
            self.events.push(Event::Executor { app, address, what: kind });
        }
    }

    /// An address that changes with every start makes the registry grow without end.
    fn note_crowd(&mut self) {
        let count = self.registry.executor_count();
        let is_crowded = count > CROWD;
        if is_crowded && !self.is_crowded {
            self.events.push(Event::RegistryCrowded { count });
        }
        self.is_crowded = is_crowded;
    }

    fn to_be_probed(&self, max: usize) -> Vec<Address> {
        let apps = self.registry.apps().map(|app| &*app.name);
        let of = |app| self.registry.executors(app).map(move |executor| (app, executor));
        let all = apps.flat_map(of).filter(|(_, executor)| executor.dialect != Dialect::Native);
        let all: Vec<(&str, &str)> = all.map(|(app, executor)| (app, &*executor.address)).collect();
        // Each round begins where the last one ended.
        let (before, after) = all.split_at(self.probed_up_to % all.len().max(1));
        let turned = after.iter().chain(before).take(max);
        turned.map(|(app, url)| self.executor_at(app, &Text::Owned((*url).to_owned()))).collect()
    }

    /// The end of a run that has found no executor. It is in the hands of the step from now on.
    fn give_up_on(&mut self, id: RunId, now: Timestamp) -> Option<Ended> {
        let run = self.runs.get(&id).copied()?;
        let Some(Known::Job(job)) = self.jobs.get(run.job).cloned() else {
            // It asks its job first.
            self.seek_again(id);
            return None;
        };
        let said = self.seekers.reason(id).cloned();
        self.seekers.remove(id);
        self.make_busy(id);
        let app = &job.definition.app;
        let reason = match self.registry.executors(app).count() {
            0 => format!("no executor: none of app {app} is registered"),
            _ if self.registry.routable(app).next().is_none() => {
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
        let Some(flight) = self.flights.get_mut(&id) else { return };
        self.deadlines.remove(&(flight.deadline, id));
        flight.deadline = now;
        flight.lost_because = Some(reason);
        self.deadlines.insert((now, id));
        self.wakes.reap = true;
    }
}
