//! Clients: they send requests to some node, repeat them after an unknown outcome, and remember the answers.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Child, ExclusiveKeys, JobId, Overrides, Payload, RunId, Text};
use punctual_core::policy::Retry;
use punctual_node::ports::{Accepted, Boot, Changed, Report};
use punctual_node::{Backfill, ByHand, Cancelled, DeskError, Submission};

use super::{Event, World};
use crate::dice::{Stream, named};
use crate::link::Micros;
use crate::workload::{ClientRequest, variant};

/// How often a client repeats a request.
const TRIES_MAX: u32 = 6;

/// How long it waits before that.
const PATIENCE: Micros = 1_000_000;

/// How often it asks whether a change is in force.
const ASK_EVERY: Micros = 150_000;

/// What a task of a node ends with.
#[derive(Debug)]
pub(super) enum Said {
    Again(Boot),
    Left(bool),
    Changed(Result<Changed, DeskError>),
    Run(Result<RunId, DeskError>),
    Submitted(Result<Vec<Accepted>, DeskError>),
    Cancelled(Result<Cancelled, DeskError>),
    Backfilled(Result<Backfill, DeskError>),
    InForce(Result<bool, DeskError>),
    /// To an executor, which ignores the answer.
    Beaten,
    Reports(Result<Vec<Report>, DeskError>),
    /// To an intruder: how many of its claims were believed.
    Intruded(usize),
}

/// A client with its one command.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    tries: u32,
    is_waiting: bool,
    /// The change that it waits for.
    change: Option<(JobId, u64, ChangeId)>,
    is_asking: bool,
    is_done: bool,
    /// The machine that was asked.
    asked: Option<usize>,
}

impl World {
    /// A client sends its request, or repeats it.
    pub(super) fn command(&mut self, index: usize) {
        let setup = self.setup.clone();
        let command = &setup.commands[index];
        if self.clients[index].is_done || self.clients[index].is_waiting {
            return;
        }
        if let ClientRequest::Poison(choice) = command.ask {
            return self.poison(command.job, choice);
        }
        self.clients[index].tries += 1;
        if self.clients[index].tries > TRIES_MAX {
            self.clients[index].is_done = true;
            return;
        }
        let via = command.via + self.clients[index].tries as usize - 1;
        let Some(machine) = self.reachable(via) else {
            return self.after(PATIENCE, Event::Command(index as u32));
        };
        let node = self.machines[machine].node.clone().expect("it is up");
        let by = Text::Borrowed("client");
        let job = self.jobs[command.job];
        let plan = &setup.jobs[command.job];
        if command.ask == ClientRequest::Create {
            let mut definition = plan.definition.clone();
            if let Some((parent, when)) = plan.after {
                let Some(parent) = self.jobs[parent] else {
                    return self.after(PATIENCE, Event::Command(index as u32));
                };
                definition.after.push(Child { job: parent, when });
            }
            self.clients[index].is_waiting = true;
            self.clients[index].asked = Some(machine);
            let asking = async move { Said::Changed(node.create(definition, true, by).await) };
            return self.begin_command(machine, index, Box::pin(asking));
        }
        let Some(job) = job else {
            self.clients[index].is_done = true;
            return;
        };
        self.say(|| format!("a client asks node {machine} for {:?} of job {job}", command.ask));
        let now = self.store_ms();
        let shift = |by: i64| Timestamp::from_millis(now.saturating_add(by));
        self.clients[index].is_waiting = true;
        self.clients[index].asked = Some(machine);
        match command.ask {
            ClientRequest::Edit(number) => {
                let mut definition = variant(&plan.definition, number, setup.start);
                let current = self.checker.job(job).map(|facts| facts.current().definition.after.clone());
                definition.after = current.unwrap_or_default();
                let asking = async move { Said::Changed(node.change(job, None, definition, by).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Stop => {
                let asking = async move { Said::Changed(node.stop(job, by).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Start => {
                let asking = async move { Said::Changed(node.start(job, by).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Delete => {
                let asking = async move { Said::Changed(node.delete(job, by).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::RunNow => {
                let asking = async move { Said::Run(node.run_now(job, ByHand::default()).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Submit { count, key, in_ms } => {
                let at = Some(shift(in_ms));
                let one = |number: u32| Submission {
                    job,
                    at,
                    payload: Some(payload(index, self.clients[index].tries, key, number)),
                    key: key.map(|key| format!("k{}", key + number).into()),
                    priority: None,
                    overrides: overrides(self.setup.seed, index, number, self.setup.hung.is_none()),
                };
                let submissions: Vec<Submission> = (0..count).map(one).collect();
                let asking = async move { Said::Submitted(node.submit(submissions).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Cancel(choice) => match self.some_run(job, choice, true) {
                Some(run) => {
                    let asking = async move { Said::Cancelled(node.cancel(run).await) };
                    self.begin_command(machine, index, Box::pin(asking));
                }
                None => self.clients[index].is_waiting = false,
            },
            ClientRequest::Reschedule(choice, in_ms) => match self.some_run(job, choice, true) {
                Some(run) => {
                    let at = shift(in_ms);
                    self.checker.asked_to_wait(run, at.as_millis());
                    let asking = async move { Said::Cancelled(node.reschedule(run, at).await) };
                    self.begin_command(machine, index, Box::pin(asking));
                }
                None => self.clients[index].is_waiting = false,
            },
            ClientRequest::Backfill(ago, long) => {
                let (from, to) = (shift(-ago - long), shift(-ago));
                let asking = async move { Said::Backfilled(node.backfill(job, from, to, false).await) };
                self.begin_command(machine, index, Box::pin(asking));
            }
            ClientRequest::Retry(choice) => match self.some_run(job, choice, false) {
                Some(run) => {
                    let asking = async move { Said::Run(node.retry(run).await) };
                    self.begin_command(machine, index, Box::pin(asking));
                }
                None => self.clients[index].is_waiting = false,
            },
            ClientRequest::Create | ClientRequest::Poison(_) => unreachable!("seen to above"),
        }
    }

    /// A node that takes commands, counted from one of them.
    pub(super) fn reachable(&self, via: usize) -> Option<usize> {
        let count = self.machines.len();
        let is_there = |machine: &usize| {
            let place = &self.machines[*machine];
            let is_useless = place.paused_until.is_some() || place.cut_until == Micros::MAX;
            place.is_up() && !place.is_leaving && !(place.is_forsaken && is_useless)
        };
        (0..count).map(|step| (via + step) % count).find(is_there)
    }

    /// One of the latest runs of a job, open or settled.
    fn some_run(&self, job: JobId, choice: u64, is_open: bool) -> Option<RunId> {
        let is_it = |run: &&crate::check::RunFacts| run.job == job && run.is_open() == is_open;
        let recent: Vec<RunId> =
            self.checker.runs().iter().rev().take(2_000).filter(is_it).take(8).map(|run| run.id).collect();
        (!recent.is_empty()).then(|| recent[choice as usize % recent.len()])
    }

    /// The job with that index exists from now on.
    pub(super) fn created(&mut self, name: &str, id: JobId) {
        let place = name.strip_prefix('j').and_then(|number| number.parse::<usize>().ok());
        if let Some(place) = place.filter(|place| *place < self.jobs.len()) {
            self.jobs[place] = Some(id);
        }
    }

    /// The connection to the node broke: the outcome is unknown.
    pub(super) fn broken_off(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.is_waiting = false;
        if client.change.is_some() {
            client.is_asking = false;
            self.after(ASK_EVERY, Event::InForce(index as u32));
        } else {
            self.again(index);
        }
    }

    fn again(&mut self, index: usize) {
        let is_safe = match self.setup.commands[index].ask {
            ClientRequest::Submit { key, .. } => key.is_some(),
            ClientRequest::Create
            | ClientRequest::Backfill(..)
            | ClientRequest::Stop
            | ClientRequest::Delete => true,
            _ => false,
        };
        if is_safe {
            self.after(PATIENCE, Event::Command(index as u32));
        } else {
            self.clients[index].is_done = true;
        }
    }

    /// A node answers a client.
    pub(super) fn answered(&mut self, machine: usize, index: usize, said: Said) {
        self.clients[index].is_waiting = false;
        self.say(|| format!("node {machine} answers a client: {said:?}"));
        let is_unknown = match &said {
            Said::Changed(Ok(changed)) => {
                self.clients[index].change = Some((changed.job, changed.version, changed.change));
                return self.ask_in_force(index);
            }
            Said::InForce(answer) => return self.told_in_force(index, answer.clone()),
            Said::Run(Ok(run)) => {
                let checked = self.checker.told_kept(*run);
                self.judge(checked);
                false
            }
            Said::Submitted(Ok(accepted)) => {
                for one in accepted {
                    let (Accepted::New(id) | Accepted::Duplicate(id)) = one;
                    let checked = self.checker.told_kept(*id);
                    self.judge(checked);
                }
                false
            }
            Said::Submitted(Err(error)) if !matches!(error, DeskError::Unknown(_)) => {
                self.refused(index);
                false
            }
            Said::Backfilled(Ok(backfill)) => {
                self.checker.counters.backfill_repeated += u64::from(backfill.created < backfill.count);
                false
            }
            Said::Changed(Err(error))
            | Said::Run(Err(error))
            | Said::Submitted(Err(error))
            | Said::Cancelled(Err(error))
            | Said::Backfilled(Err(error)) => {
                matches!(error, DeskError::Unknown(_) | DeskError::Away(_) | DeskError::Full(_))
            }
            Said::Cancelled(Ok(_))
            | Said::Again(_)
            | Said::Left(_)
            | Said::Beaten
            | Said::Reports(_)
            | Said::Intruded(_) => false,
        };
        if is_unknown {
            self.again(index);
        } else {
            self.clients[index].is_done = true;
        }
    }

    /// The client was told that nothing was written.
    fn refused(&mut self, index: usize) {
        let ClientRequest::Submit { count, key, .. } = self.setup.commands[index].ask else { return };
        // With a key the submission is repeated with the same payload, so an earlier try may have written it.
        if key.is_none() {
            let tries = self.clients[index].tries;
            (0..count)
                .for_each(|number| self.checker.told_refused(payload(index, tries, key, number).to_string()));
        }
    }

    pub(super) fn ask_in_force(&mut self, index: usize) {
        let Some((_, _, change)) = self.clients[index].change else { return };
        if self.clients[index].is_asking || self.clients[index].is_done {
            return;
        }
        let Some(machine) = self.reachable(self.setup.commands[index].via) else {
            return self.after(PATIENCE, Event::InForce(index as u32));
        };
        let node = self.machines[machine].node.clone().expect("it is up");
        self.clients[index].is_asking = true;
        self.clients[index].asked = Some(machine);
        let asking = async move { Said::InForce(node.is_in_force(change).await) };
        self.begin_command(machine, index, Box::pin(asking));
    }

    fn told_in_force(&mut self, index: usize, answer: Result<bool, DeskError>) {
        self.clients[index].is_asking = false;
        match (answer, self.clients[index].change) {
            (Ok(true), Some((job, version, _))) => {
                self.checker.in_force(job, version);
                self.checker.counters.change_answered += 1;
                self.clients[index].is_done = true;
            }
            _ => self.after(ASK_EVERY, Event::InForce(index as u32)),
        }
    }

    /// Number of clients that still wait for an answer.
    pub(super) fn unanswered(&self) -> usize {
        self.clients
            .iter()
            .filter(|client| client.is_waiting || (client.change.is_some() && !client.is_done))
            .count()
    }

    /// Whether a client waits for a node that will never go on.
    pub(super) fn is_waiting_in_vain(&self, index: usize) -> bool {
        let client = &self.clients[index];
        // Frozen for good, or cut off from the store.
        let is_useless = |machine: usize| {
            let machine = &self.machines[machine];
            machine.paused_until == Some(Micros::MAX) || machine.cut_until == Micros::MAX
        };
        (client.is_waiting || client.is_asking) && client.asked.is_some_and(is_useless)
    }

    /// Corrupts a row directly in the store.
    fn poison(&mut self, place: usize, choice: u64) {
        let Some(job) = self.jobs[place] else { return };
        self.say(|| format!("job {job} is poisoned"));
        match choice % 4 {
            0 => self.store.poison_job(job, |definition| definition.timeout = std::time::Duration::ZERO),
            1 => self.store.poison_job(job, |definition| definition.priority = 200),
            2 => self.store.poison_job(job, |definition| {
                let zone = "Europe/Nowhere".to_owned();
                if let punctual_core::model::ScheduleKind::Cron { zone: there, .. } =
                    &mut definition.schedule.kind
                {
                    *there = zone;
                } else {
                    definition.timeout = std::time::Duration::ZERO;
                }
            }),
            _ => self.store.deface_job(job, "a page is torn"),
        }
        self.checker.poisoned(job);
    }
}

/// The overrides of a one-shot: every fourth has some, and the same ones when it is submitted again.
fn overrides(seed: u64, client: usize, number: u32, shares_keys: bool) -> Overrides {
    let bits = named(seed, Stream::Workload, client as u64 | 1 << 40, u64::from(number));
    let seconds = |shift: u32, most: u64| Duration::from_secs(1 + (bits >> shift) % most);
    let retry = Retry {
        max_attempts: 1 + (bits >> 8) as u32 % 4,
        initial_delay: seconds(16, 10),
        max_delay: seconds(24, 60),
        ..Retry::default()
    };
    Overrides {
        timeout: (bits & 0b111 <= 0b001).then(|| seconds(32, 20)),
        retry: (bits & 0b111 == 0b001 || bits & 0b111 == 0b010).then_some(retry),
        // Some share what the jobs share, and some nothing at all.
        exclusive: match bits >> 40 & 0xff {
            0 if shares_keys => ExclusiveKeys::new([Text::Borrowed("a")]).ok(),
            1..=16 => Some(ExclusiveKeys::default()),
            _ => None,
        },
        executor: None,
    }
}

/// The payload of a one-shot, unique for every intended run.
fn payload(client: usize, tries: u32, key: Option<u32>, number: u32) -> Payload {
    match key {
        Some(key) => format!("k{} of {client}", key + number).into(),
        None => format!("{number} of {client}, try {tries}").into(),
    }
}
