//! Executors as nodes see them: they join, beat and leave, answer probes, and end attempts on request.

use punctual_core::model::{Attempt, AttemptOutcome, RunId, Text};
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::{
    Address, AppRow, Apps, Asked, Beat, Dispatched, Heard, Kill, Killed, Probe, Probed, Report,
};
use punctual_node::{Callback, DeskError};

use super::clients::Said;
use super::machines::Deferred;
use super::{Event, Troubles, World};
use crate::check::{Admitted, Violation, Who};
use crate::dice::{is_hit, within};
use crate::executors::{self, Offer};
use crate::link::Micros;
use crate::store::ready;

/// After this time a node takes an executor's silence for an answer.
const PATIENCE: Micros = 3_000_000;

/// The token of every app that has one.
const TOKEN: &str = "the-token-of-the-app";

/// Questions on their way to executors.
#[derive(Debug, Default)]
pub(super) struct Asking {
    by: Who,
    begun: Micros,
    probes: Vec<Probe>,
}

impl World {
    // --- coming and going ---

    /// Sets the apps that people defined before the world began, and tells the checker the executors' addresses.
    pub(super) fn set_apps(&mut self) {
        for app in 0..self.setup.apps {
            let is_of = |index: &usize| self.executors[*index].character.app == app;
            let there: Vec<Text> = (0..self.executors.len()).filter(is_of).map(executors::address).collect();
            let name = Text::Owned(format!("a{app}"));
            there.iter().for_each(|url| self.checker.lives_at(&name, url));
            let (is_manual, has_token) = (self.setup.manual[app], self.setup.has_token(app));
            if is_manual || has_token {
                let row = AppRow {
                    name,
                    title: Text::default(),
                    addresses: is_manual.then_some(there),
                    access_token: has_token.then(|| Secret::new(TOKEN)),
                    retention: None,
                    paused: None,
                    version: 0,
                };
                ready(self.store.put_app(row, Some(0))).expect("nobody made it before");
            }
        }
    }

    /// An executor beats, and schedules its next beat.
    pub(super) fn beat(&mut self, index: usize, life: u32) {
        let executor = &self.executors[index];
        if !executor.is_up || executor.life != life || self.setup.manual[executor.character.app] {
            return;
        }
        let wait = executor.character.beat + within(self.roll(index as u64, 22), 0, 1_000_000);
        self.after(wait, Event::Beat(index as u8, life));
        let (app, address) = self.registered_as(index);
        let beat = Beat { app, address, dialect: Dialect::Classic };
        if let Some((machine, node)) = self.listener(index) {
            let dead = self.setup.settings.registry.dead.as_micros() as Micros;
            self.executors[index].is_heard(self.now, dead);
            let beating = async move {
                drop(node.beat(beat).await);
                Said::Beaten
            };
            self.begin_beat(machine, Box::pin(beating));
        }
    }

    fn registered_as(&self, index: usize) -> (Text, Text) {
        (format!("a{}", self.executors[index].character.app).into(), executors::address(index))
    }

    /// The node that receives a message of an executor now, if it arrives.
    fn listener(&self, index: usize) -> Option<(usize, std::sync::Arc<punctual_node::Node>)> {
        let is_lost = self.troubles.reports_lost > self.now && is_hit(self.roll(index as u64, 23), 700_000);
        let machine = self.reachable(self.roll(index as u64, 24) as usize % 60).filter(|_| !is_lost)?;
        let place = &self.machines[machine];
        let node = place.node.clone().filter(|_| place.paused_until.is_none())?;
        Some((machine, node))
    }

    /// An executor's process ends; a clean end signs off first.
    pub(super) fn executor_crashes(&mut self, index: usize, down_for: Micros, says_goodbye: bool) {
        let executor = &mut self.executors[index];
        if !executor.is_up || executor.is_well {
            return;
        }
        executor.crash();
        let (life, is_manual) = (executor.life, self.setup.manual[executor.character.app]);
        self.say(|| format!("executor {index} dies, goodbye {says_goodbye}"));
        self.after(down_for, Event::ExecutorStarts(index as u8, life));
        let (app, address) = self.registered_as(index);
        if let Some((machine, node)) = self.listener(index).filter(|_| says_goodbye && !is_manual) {
            self.checker.counters.goodbyes += 1;
            let leaving = async move {
                drop(node.executor_left(&app, &address).await);
                Said::Beaten
            };
            self.begin_beat(machine, Box::pin(leaving));
        }
    }

    pub(super) fn executor_starts(&mut self, index: usize, life: u32) {
        let executor = &mut self.executors[index];
        if executor.life == life && !self.is_peace {
            executor.is_up = true;
            self.say(|| format!("executor {index} starts"));
            self.at(self.now, Event::Beat(index as u8, life));
        }
    }

    // --- questions ---

    /// A node probes executors. Probes for liveness go to many at once, so they travel together.
    pub(super) fn probe(&mut self, by: Who, probes: Vec<Probe>) {
        let is_common = |probe: &Probe| matches!(probe, Probe::Alive { .. });
        let (common, single): (Vec<Probe>, Vec<Probe>) = probes.into_iter().partition(is_common);
        let batches = single.into_iter().map(|probe| vec![probe]).chain([common]);
        for probes in batches.filter(|probes| !probes.is_empty()) {
            let number = self.probes.len() as u64;
            let is_late = self.troubles.sends_late > self.now && is_hit(self.roll(number, 25), 600_000);
            let delay =
                if is_late { within(self.roll(number, 26), 1_000, PATIENCE) } else { self.hop(number) };
            self.probes.push(Asking { by, begun: self.now, probes });
            self.after(delay, Event::Probe(number as u32));
        }
    }

    /// Probes reach executors.
    pub(super) fn asked(&mut self, index: usize) {
        let Asking { by, begun, probes } = std::mem::take(&mut self.probes[index]);
        let (mut soon, mut late) = (Vec::new(), Vec::new());
        for probe in probes {
            match self.answer_to(&probe) {
                Some(answer) => soon.push(Heard::Probed(answer)),
                None => late.push(Heard::Probed(silence_to(probe))),
            }
        }
        let back = self.hop(index as u64);
        self.bring(by, soon, back);
        self.bring(by, late, (begun + PATIENCE).saturating_sub(self.now));
    }

    /// The answer to a probe; none if the probe or the answer is lost.
    fn answer_to(&self, probe: &Probe) -> Option<Probed> {
        match probe {
            Probe::Alive { address } => {
                let is_there = self.reached(address)?.is_up;
                let (app, url) = (address.app.clone(), address.url.clone());
                Some(Probed::Alive { app, url, is_there })
            }
            Probe::Has { job, address } => {
                let executor = self.reached(address)?;
                let has = executor.is_up.then(|| executor.says_it_has(*job));
                let (app, url) = (address.app.clone(), address.url.clone());
                Some(Probed::Has { job: *job, app, url, has })
            }
            Probe::Choose { run, attempt, job, by, addresses } => {
                let says_yes = |address: &&Address| {
                    let executor = self.reached(address).filter(|executor| executor.is_up);
                    executor.is_some_and(|executor| *by == Asked::Beat || !executor.says_it_has(*job))
                };
                let url = addresses.iter().find(says_yes).map(|address| address.url.clone());
                let said = Text::Borrowed("asked");
                Some(Probed::Chosen { run: *run, attempt: *attempt, url, said })
            }
        }
    }

    /// The executor at an address, if it can be reached in both directions now.
    fn reached(&self, address: &Address) -> Option<&executors::SimExecutor> {
        let index = executors::at(&address.url)?;
        let roll = |what: u64| self.roll(index as u64 | what << 32, 27);
        let is_trouble = self.troubles.sends_lost.max(self.troubles.reports_lost) > self.now;
        let is_lost = is_trouble && is_hit(roll(1), 500_000);
        (!is_lost && self.is_shown_token(index, address)).then(|| &self.executors[index])
    }

    /// Executors of an app with a token do not answer a node without it.
    fn is_shown_token(&self, index: usize, address: &Address) -> bool {
        let shown = address.access_token.as_ref().is_some_and(|token| token.matches(TOKEN));
        shown || !self.setup.has_token(self.executors[index].character.app)
    }

    /// Earlier attempts of a run that executors hold, and would admit to a node that asks correctly.
    pub(super) fn admitted(&self, send: &Dispatched) -> Vec<Admitted> {
        if send.attempt == Attempt::FIRST {
            return Vec::new();
        }
        let Some(facts) = self.checker.run(send.run) else { return Vec::new() };
        // From here on the node that gave up could reach the executors, and had not forgotten them.
        let Troubles { stalled, full, sends_lost, reports_lost, .. } = self.troubles;
        let calm = stalled.max(full).max(sends_lost).max(reports_lost);
        let calm_of = |attempt: Attempt| {
            let by = facts.given_up.iter().find(|(number, ..)| *number == attempt).map(|(.., by)| by.node);
            by.map_or(calm, |by| calm.max(self.machines[by].cut_until).max(self.machines[by].resumed_at))
        };
        let mut admitted = Vec::new();
        for (index, executor) in self.executors.iter().enumerate() {
            let is_honest = executor.is_up && !executor.character.says_idle;
            let is_manual = self.setup.manual[executor.character.app];
            let known = if is_manual { 0 } else { executor.known_since };
            for ((run, attempt, _), running) in executor.running.iter().filter(|_| is_honest) {
                let is_earlier = *run == send.run && *attempt < send.attempt;
                if is_earlier && !self.is_asked_to_end(*run, *attempt) {
                    let since = running.since.max(calm_of(*attempt)).max(known);
                    admitted.push(Admitted { executor: index, attempt: *attempt, since });
                }
            }
        }
        admitted
    }

    fn is_asked_to_end(&self, run: RunId, attempt: Attempt) -> bool {
        self.kills.iter().any(|(_, kill)| (kill.run, kill.attempt) == (run, attempt))
    }

    /// Delivers answers to a node.
    fn bring(&mut self, to: Who, heard: Vec<Heard>, delay: Micros) {
        if !heard.is_empty() {
            self.words.push((to, heard));
            self.after(delay, Event::Word(self.words.len() as u32 - 1));
        }
    }

    /// Answers to probes reach a node.
    pub(super) fn word(&mut self, index: usize) {
        let whom = self.words[index].0;
        let is_there = self.machines[whom.node].life == whom.life && self.machines[whom.node].is_up();
        if !is_there || self.defer(whom.node, Deferred::Word(index)) {
            return;
        }
        let heard = std::mem::take(&mut self.words[index].1);
        let Some(node) = self.machines[whom.node].node.clone() else { return };
        let node_now = node.now().map(|now| now.as_millis());
        for one in &heard {
            match one {
                Heard::Probed(Probed::Has { job, url, has, .. }) => {
                    self.say(|| format!("node {} hears from {url} of job {job}: {has:?}", whom.node));
                    self.checker.answered(self.now, (whom, node_now), *job, url, *has);
                }
                Heard::Probed(Probed::Chosen { run, url, .. }) => {
                    self.say(|| format!("node {} hears that {url:?} may have run {run}", whom.node));
                    self.checker.counters.nobody_chosen += u64::from(url.is_none());
                }
                Heard::Killed(killed) => {
                    self.checker.counters.kills_confirmed += u64::from(killed.is_confirmed);
                }
                Heard::Probed(Probed::Alive { .. }) | Heard::Report(_) | Heard::Unclear(_) => {}
                Heard::Credit { .. } | Heard::Borrow { .. } => {}
                Heard::Draining { .. } | Heard::Progress(_) => {}
            }
        }
        node.heard(heard);
        self.wake(whom.node);
    }

    // --- kills ---

    pub(super) fn kill(&mut self, by: Who, kills: Vec<Kill>) {
        for kill in kills {
            let is_lost = self.troubles.sends_lost > self.now && is_hit(self.roll(kill.run.0, 13), 700_000);
            if is_lost {
                self.answer_kill(by, &kill, false, PATIENCE);
                continue;
            }
            let delay = self.hop(kill.token.0);
            self.kills.push((by, kill));
            self.after(delay, Event::Kill(self.kills.len() as u32 - 1));
        }
    }

    /// Agents behind HTTP do not answer a request to end an attempt.
    fn answer_kill(&mut self, by: Who, kill: &Kill, is_confirmed: bool, delay: Micros) {
        if kill.address.is_some() {
            let said = Text::Borrowed(if is_confirmed { "killed" } else { "not killed" });
            let killed = Killed { run: kill.run, attempt: kill.attempt, is_confirmed, said };
            self.bring(by, vec![Heard::Killed(killed)], delay);
        }
    }

    pub(super) fn killed(&mut self, index: usize) {
        let (by, kill) = self.kills[index].clone();
        let key = (kill.run, kill.attempt, kill.token);
        let runs_it = |index: &usize| self.executors[*index].running.contains_key(&key);
        let found = match &kill.address {
            Some(address) => {
                let is_heard = |index: &usize| self.is_shown_token(*index, address);
                executors::at(&address.url).filter(runs_it).filter(is_heard)
            }
            None => (0..self.executors.len()).find(runs_it),
        };
        let obeys = |index: &usize| self.executors[*index].character.obeys_kills;
        let Some(executor) = found.filter(obeys) else {
            return self.answer_kill(by, &kill, false, self.hop(kill.token.0));
        };
        let Some(running) = self.executors[executor].running.remove(&key) else { return };
        self.answer_kill(by, &kill, true, self.hop(kill.token.0));
        let offer = Offer {
            run: kill.run,
            job: running.job,
            attempt: kill.attempt,
            token: kill.token,
            log: running.log,
            is_http: kill.address.is_none(),
        };
        self.tell_killed(executor, offer);
        self.checker.said(kill.run, kill.attempt, kill.token, AttemptOutcome::Cancelled);
    }

    // --- callbacks ---

    /// An executor that knows only numbers of gates reports the end of an attempt.
    pub(super) fn call_back(&mut self, machine: usize, told: usize, callback: Callback) {
        let Some(node) = self.machines[machine].node.clone() else { return };
        let asking = async move { Said::Reports(node.reports_of(&[callback], &|_| true).await) };
        self.begin_callback(machine, told, Box::pin(asking));
    }

    /// The node resolves the number, or cannot.
    pub(super) fn called_back(
        &mut self,
        machine: usize,
        told: usize,
        reports: Result<Vec<Report>, DeskError>,
    ) {
        let Ok(reports) = reports else { return };
        let expected = self.told_report(told);
        if reports.is_empty() {
            // The number is of a dropped day, so repeating the report is useless.
            return self.acknowledged(expected.receipt.0);
        }
        self.checker.counters.known_by_number += 1;
        for report in &reports {
            let is_right = (report.run, report.attempt, report.token, report.outcome)
                == (expected.run, expected.attempt, expected.token, expected.outcome);
            if !is_right {
                let what = format!("a number means {report:?}, and was sent with {expected:?}");
                self.judge(Err(Violation { rule: "X2", what }));
            }
            let who = self.who(machine);
            self.checker.heard(who, report.run, report.attempt, self.now);
        }
        let place = &mut self.machines[machine];
        if let Some(node) = &place.node {
            place.keeping.push((expected.receipt, Box::pin(node.keep(reports))));
        }
        self.wake(machine);
    }
}

/// What the asking node concludes from a missing answer.
fn silence_to(probe: Probe) -> Probed {
    match probe {
        Probe::Alive { address } => Probed::Alive { app: address.app, url: address.url, is_there: false },
        Probe::Has { job, address } => Probed::Has { job, app: address.app, url: address.url, has: None },
        Probe::Choose { run, attempt, .. } => {
            Probed::Chosen { run, attempt, url: None, said: Text::Borrowed("no answer") }
        }
    }
}
