//! Executors: what they answered when they were asked, and what may be concluded from it.

use punctual_core::model::{Attempt, AttemptOutcome, AttemptRecord, Close, JobId, Target, Text};
use punctual_core::policy::Route;
use punctual_node::ports::Dispatched;
use rustc_hash::FxHashMap;

use super::jobs::millis;
use super::{Begun, Checked, Checker, Moment, RunFacts, Who, hold, show};
use crate::link::Micros;

/// After this every node has heard of executors that are well: a beat, a look at the store, a probe, and a round of
/// seeking.
const NEWS: Micros = 180_000_000;

/// By then every node has seen that an executor is there, has asked it, and has heard it.
const NOTICED: Micros = 25_000_000;

/// How far the clocks of nodes and of the world may be apart over a minute.
const APART: Micros = 1_000_000;

/// An attempt that an executor runs, and says so to every node that asks it as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Which executor.
    pub executor: usize,
    /// Which try.
    pub attempt: Attempt,
    /// Since when nothing has kept a node from hearing so.
    pub since: Micros,
}

/// What was heard about a job; nothing if there was no answer.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Micros,
    /// The same, by the clock of the node.
    node_now: i64,
    has: Option<bool>,
}

/// What is known of executors.
#[derive(Debug, Default)]
pub struct Executors {
    /// The app of each address.
    apps: FxHashMap<Text, Text>,
    /// What a node heard from an address about a job: whether it has a run of it.
    answers: FxHashMap<(Who, JobId, Text), Vec<Heard>>,
    /// How long after an attempt, and between two questions, nothing is concluded from them.
    pub doubt_ms: i64,
    /// How long an executor that is registered may be silent, where that is shorter.
    pub away_ms: i64,
    /// How long executors may take to say again what they could not say while no node was there.
    pub repeat: Micros,
    /// From when on apps have executors that are well, and which.
    well: Option<(Micros, Vec<bool>)>,
}

impl Checker {
    /// An executor of an app is there, now or later.
    pub fn lives_at(&mut self, app: &Text, url: &Text) {
        self.executors.apps.insert(url.clone(), app.clone());
    }

    /// From now on the executors of these apps are well.
    pub fn executors_are_well(&mut self, moment: Moment, apps: Vec<bool>) {
        self.executors.well = Some((moment.now, apps));
    }

    /// A run fails for want of an executor only while its app has none that is well, or none that is idle.
    pub(super) fn check_want(&self, moment: Moment, run: &RunFacts, close: &Close) -> Checked {
        let definition = &self.jobs[&run.job].current().definition;
        let (Some((since, well)), Target::Executor(executor)) = (&self.executors.well, &definition.target)
        else {
            return Ok(());
        };
        let is_well = super::app_number(&definition.app).is_some_and(|app| well[app]);
        let is_known = moment.now > since + NEWS && is_well && executor.route != Route::Busyover;
        let is_for_want = close.reason.starts_with("no executor");
        hold!(
            "X4",
            !(is_known && is_for_want),
            "run {} of app {} is closed: {close:?}",
            run.id,
            definition.app
        );
        Ok(())
    }

    /// A node hears whether an executor has a run of a job; nothing if it did not answer.
    pub fn answered(
        &mut self,
        at: Micros,
        (by, node_now): (Who, Option<i64>),
        job: JobId,
        url: &Text,
        has: Option<bool>,
    ) {
        let Some(node_now) = node_now else { return };
        let answers = self.executors.answers.entry((by, job, url.clone())).or_default();
        answers.push(Heard { at, node_now, has });
    }

    /// What the node knew when it asked for something to be written: the executor's answers since the last one that
    /// admitted to a run of the job.
    fn heard_by(&self, begun: Begun, job: JobId, executor: &Text) -> &[Heard] {
        let heard = self.executors.answers.get(&(begun.by, job, executor.clone()));
        let heard = heard.map_or(&[][..], Vec::as_slice);
        let known = &heard[..heard.partition_point(|heard| heard.at <= begun.at.now)];
        // An answer of that very moment may have come after the node's decision.
        let is_news = |heard: &Heard| heard.has == Some(true) && heard.at < begun.at.now;
        &known[known.iter().rposition(is_news).map_or(0, |last| last + 1)..]
    }

    /// Runs for executors go to an executor of their app, and no other run does.
    pub(super) fn check_address(&self, send: &Dispatched) -> Checked {
        let url = send.address.as_ref().map(|address| &address.url);
        let app = url.and_then(|url| self.executors.apps.get(url));
        let definition = &send.job.definition;
        let is_right = match &definition.target {
            Target::Executor(_) => app.is_some_and(|app| **app == *definition.app),
            Target::Http(_) => url.is_none(),
        };
        hold!("X2", is_right, "run {} of app {} is sent to {url:?}", send.run, definition.app);
        Ok(())
    }

    /// Nothing is sent again beside an attempt that its executor still runs and admits to, unless its time was up.
    pub fn check_alone(&self, send: &Dispatched, admitted: &[Admitted]) -> Checked {
        // Agents behind HTTP are not asked: a call that was lost with its node is repeated.
        let is_for_executors = matches!(send.job.definition.target, Target::Executor(_));
        let is_judged = self.is_steady && is_for_executors;
        let Some(run) = self.run(send.run).filter(|_| is_judged) else { return Ok(()) };
        let job = &self.jobs[&run.job];
        let timeouts = job.versions.iter().map(|version| run.overrides.timeout(&version.definition));
        let timeout = timeouts.min().map_or(0, |timeout| timeout.as_micros() as Micros);
        for Admitted { executor, attempt, since } in admitted {
            let sent = run.sends.iter().find(|sent| sent.attempt == *attempt).map(|sent| sent.at);
            let given_up = run.given_up.iter().find(|(number, ..)| number == attempt).map(|(_, at, _)| *at);
            let (Some(sent), Some(given_up)) = (sent, given_up) else { continue };
            let is_over = sent + timeout <= given_up || run.said.iter().any(|(said, ..)| said == attempt);
            hold!(
                "X6",
                is_over || job.is_poisoned || given_up < since.saturating_add(NOTICED),
                "attempt {} of run {} is sent, and executor {executor} runs attempt {attempt}, as it has said to \
                 the node that asked since {since}; it was given up at {given_up}",
                send.attempt,
                send.run
            );
        }
        Ok(())
    }

    /// An attempt that an executor has is given up when its time is up, or when the executor was asked twice and has
    /// it no longer, or is gone.
    pub(super) fn check_given_up(&mut self, begun: Begun, index: usize, record: &AttemptRecord) -> Checked {
        let run = &self.runs[index];
        let job = &self.jobs[&run.job];
        let is_for_executors = matches!(job.current().definition.target, Target::Executor(_));
        let was_said = run.said.contains(&(record.number, record.token, record.outcome));
        // Without a gate it is one that may never have been sent.
        let is_gated = run.gates.iter().any(|(gated, _)| *gated == record.number);
        if !is_for_executors || job.is_poisoned || was_said || !is_gated || !self.is_steady {
            return Ok(());
        }
        let (from, until) = (millis(record.started_at), millis(record.ended_at));
        let timeouts =
            job.versions.iter().map(|version| run.overrides.timeout(&version.definition).as_millis() as i64);
        let is_over = timeouts.min().is_some_and(|timeout| from + timeout <= until);
        let (id, number) = (run.id, record.number);
        match record.outcome {
            AttemptOutcome::TimedOut => {
                self.counters.timed_out_by_us += 1;
                let is_adopted = !run.sends.iter().any(|send| (send.by, send.attempt) == (begun.by, number));
                let had_it = self.leases.held_since(begun.by, run.shard);
                let had_it = had_it.and_then(|since| begun.at.now.checked_sub(since)).filter(|_| is_adopted);
                self.counters.timed_out_after_adoption += u64::from(had_it.is_some());
                hold!(
                    "X7",
                    had_it.is_none_or(|had_it| had_it + APART >= self.executors.repeat),
                    "attempt {number} of run {id} is timed out {had_it:?} us after {} took it over",
                    begun.by
                );
                hold!(
                    "X3",
                    is_over,
                    "attempt {number} of run {id} is timed out from {} to {}",
                    show(from),
                    show(until)
                );
            }
            AttemptOutcome::Lost if !is_over => {
                self.counters.lost_by_doubt += 1;
                let heard = self.heard_by(begun, run.job, &record.executor);
                let after = from + self.executors.doubt_ms;
                let heard: Vec<_> = heard.iter().filter(|heard| heard.node_now >= after).collect();
                let spread = |has: Option<bool>| {
                    let mut times = heard.iter().filter(|heard| heard.has == has).map(|heard| heard.node_now);
                    times.next().zip(times.next_back()).map_or(-1, |(first, last)| last - first)
                };
                let silence = self.executors.doubt_ms.min(self.executors.away_ms);
                let is_asked_twice =
                    spread(Some(false)) >= self.executors.doubt_ms || spread(None) >= silence;
                hold!(
                    "X1",
                    is_asked_twice,
                    "attempt {number} of run {id} is lost at {}, and since {} {} said {heard:?}",
                    show(until),
                    show(from),
                    record.executor
                );
            }
            _ => {}
        }
        Ok(())
    }
}
