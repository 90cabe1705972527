//! What is known of runs, from their writing to their receipt: gates, sends and what executors took.

use std::collections::VecDeque;

use punctual_core::model::{
    Attempt, AttemptOutcome, Close, Definition, Delivery, JobId, JobState, NewRun, Origin, Outcome,
    Overrides, RunId, ShardId, StoppedReason, Target, Token,
};
use punctual_core::policy::Block;
use punctual_node::ports::{Dispatched, Gate, Gated};

use super::quiet::{QUEUE_US, SLOW_US};
use super::{Begun, Checked, Checker, Moment, Violation, Who, hold, show, windows};
use crate::link::Micros;

/// How far before its time a send may begin, in milliseconds.
pub(super) const EARLY_MS: i64 = 5;

/// A send that a node has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFact {
    /// The node that began it.
    pub by: Who,
    /// When.
    pub at: Micros,
    /// Which try.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// Whether it said that it may be a second one.
    pub is_marked: bool,
}

/// What an executor took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptFact {
    /// Which executor.
    pub executor: usize,
    /// Which try.
    pub attempt: Attempt,
    /// Its token.
    pub token: Token,
    /// Whether it said that it may be a second one.
    pub is_marked: bool,
    /// Whether the executor refuses old tokens.
    pub checks_tokens: bool,
    /// Whether the network made two of one.
    pub is_copy: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseFact {
    /// The outcome.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
    /// When it was written.
    pub at: Micros,
    /// When it was closed, as it says.
    pub closed_at: i64,
}

impl CloseFact {
    pub(super) fn new(moment: Moment, close: &Close) -> CloseFact {
        let (reason, closed_at) = (close.reason.to_string(), close.closed_at.as_millis());
        CloseFact { outcome: close.outcome, reason, at: moment.now, closed_at }
    }
}

/// Which part of which run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartFact {
    /// The place of the whole.
    pub whole: u32,
    /// Counted from 0.
    pub index: u32,
}

/// What is known of a run.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// Its identity.
    pub id: RunId,
    /// Its job.
    pub job: JobId,
    /// The job's version when it was written.
    pub version: u64,
    /// Its shard.
    pub shard: ShardId,
    /// The instant that was named for it.
    pub fire_time: i64,
    /// When it may start: its due time, or the end of its wait.
    pub ready_at: i64,
    /// Before when it surely may not be sent.
    pub not_before: i64,
    /// What it was due at when it was written.
    pub due: i64,
    /// For when people asked it to wait, whether or not that came in time.
    pub wishes: Vec<i64>,
    /// The time that a person has moved it to; none once a start of its job has called it back.
    pub moved_to: Option<i64>,
    /// Where it comes from.
    pub origin: Origin,
    /// What it has in place of its job's.
    pub overrides: Overrides,
    /// What was decided about its lateness when it was written.
    pub decided: punctual_core::model::Decided,
    /// When it was written.
    pub written: Micros,
    /// The attempt that is under way or to be made.
    pub attempt: Attempt,
    /// Whether it waits for its job.
    pub is_parked: bool,
    /// Its gates.
    pub gates: Vec<(Attempt, Token)>,
    /// Gates of attempts that need none, asked before the send because an earlier write about the run had no answer. Records
    /// look like those of attempts that were in flight for long.
    pub asked_first: Vec<(Attempt, Token)>,
    /// Whether it was sent by a version of its job that has a limit.
    pub has_place: bool,
    /// How its attempts ended.
    pub ended: Vec<(Attempt, AttemptOutcome)>,
    /// How many of its job might be under way when it got its place, which it keeps; 0 if it has none.
    pub admitted_among: usize,
    /// What nodes began to send.
    pub sends: Vec<SendFact>,
    /// What executors took.
    pub taken: Vec<ReceiptFact>,
    /// What executors said: attempt, token, outcome.
    pub said: Vec<(Attempt, Token, AttemptOutcome)>,
    /// Attempts that were taken for lost: when, and by which node.
    pub given_up: Vec<(Attempt, Micros, Who)>,
    /// Nodes that have heard how an attempt ended, and when.
    pub known: Vec<(Who, Attempt, Micros)>,
    /// How it ended.
    pub close: Option<CloseFact>,
    /// What it is a part of.
    pub part: Option<PartFact>,
    /// Its parts, by their places.
    pub parts: Vec<u32>,
}

impl RunFacts {
    fn new(moment: Moment, version: u64, run: &NewRun, overrides: Overrides) -> RunFacts {
        RunFacts {
            id: run.id,
            job: run.job,
            version,
            shard: run.shard,
            fire_time: run.fire_time.as_millis(),
            ready_at: run.due.as_millis(),
            not_before: run.due.as_millis(),
            due: run.due.as_millis(),
            wishes: Vec::new(),
            moved_to: None,
            origin: run.origin,
            overrides,
            decided: run.decided,
            written: moment.now,
            attempt: Attempt::FIRST,
            is_parked: false,
            gates: Vec::new(),
            asked_first: Vec::new(),
            has_place: false,
            ended: Vec::new(),
            admitted_among: 0,
            sends: Vec::new(),
            taken: Vec::new(),
            said: Vec::new(),
            given_up: Vec::new(),
            known: Vec::new(),
            close: None,
            part: None,
            parts: Vec::new(),
        }
    }

    /// How an attempt ended.
    pub fn end_of(&self, attempt: Attempt) -> Option<AttemptOutcome> {
        self.ended.iter().find(|(ended, _)| *ended == attempt).map(|(_, outcome)| *outcome)
    }

    /// Whether it can still move.
    pub fn is_open(&self) -> bool {
        self.close.is_none()
    }

    /// Whether an attempt was sent and has not ended. What fell into parts is on its way for as long as they are.
    fn is_in_flight(&self) -> bool {
        let has_parts = !self.parts.is_empty();
        self.is_open() && (has_parts || self.has_attempt_open())
    }

    /// Whether a wait is what a person asked for, at this time of the node: windows let a run wait for what is to come, and
    /// nothing waits for what is past.
    pub(super) fn is_wish(&self, until: i64, node_now: Option<i64>) -> bool {
        let is_past = node_now.is_some_and(|now| until <= now);
        self.wishes.iter().any(|wish| *wish == until || *wish < until && is_past)
    }

    pub(super) fn has_attempt_open(&self) -> bool {
        self.sends.iter().any(|send| self.end_of(send.attempt).is_none())
    }
}

/// Whether attempts of a run are written down before they are sent.
fn is_gated_first(definition: &Definition, overrides: &Overrides) -> bool {
    definition.delivery == Delivery::AtMostOnce
        || matches!(definition.target, Target::Executor(_))
        || definition.block != Block::Concurrent(None)
        || !overrides.exclusive(definition).is_empty()
}

impl Checker {
    /// A run was written.
    pub(super) fn wrote(&mut self, moment: Moment, run: &NewRun) -> Checked {
        let index = self.runs.len() as u32;
        hold!("I1", !self.by_id.contains_key(&run.id), "run {} is written twice", run.id);
        if run.is_named() {
            let there = self.named.insert((run.job, run.fire_time.as_millis()), index);
            let there = there.map(|index| self.runs[index as usize].id);
            let (job, at) = (run.job, run.fire_time);
            hold!("I1", there.is_none(), "job {job} at {at} is decided by run {} and by {there:?}", run.id);
        }
        if let Some(job) =
            self.jobs.get(&run.job).filter(|_| run.origin == Origin::Schedule && run.is_named())
        {
            let is_new = job.ranged < run.fire_time.as_millis();
            hold!(
                "I1",
                is_new,
                "job {} at {} was passed over and has run {}",
                run.job,
                run.fire_time,
                run.id
            );
        }
        if run.due.as_millis() < self.latest {
            self.counters.written_after_due += 1;
        }
        let version = self.jobs.get(&run.job).map_or(0, |job| job.current().version);
        self.by_id.insert(run.id, index);
        let overrides = self.overrides_of(run);
        self.runs.push(RunFacts::new(moment, version, run, overrides));
        Ok(())
    }

    /// A part has what the whole has.
    fn overrides_of(&self, run: &NewRun) -> Overrides {
        let whole = run.of.filter(|_| run.origin == Origin::Part).and_then(|whole| self.run(whole));
        let brought = whole.map(|whole| &whole.overrides).or(run.overrides.as_deref());
        brought.cloned().unwrap_or_default()
    }

    pub(super) fn wrote_closed(&mut self, moment: Moment, run: &NewRun, close: &Close) -> Checked {
        self.wrote(moment, run)?;
        let written = self.runs.last_mut().expect("it was just written");
        written.close = Some(CloseFact::new(moment, close));
        Ok(())
    }

    pub(super) fn index(&self, rule: &'static str, id: RunId, what: &str) -> Result<usize, Violation> {
        let index = self.by_id.get(&id).map(|index| *index as usize);
        index.ok_or_else(|| Violation::new(rule, format!("run {id} is {what} and was never written")))
    }

    /// The store answered a gate.
    pub(super) fn gated(&mut self, begun: Begun, gate: &Gate, answer: &Gated) -> Checked {
        match answer {
            Gated::Through(_) => {}
            Gated::Taken(_) | Gated::Closed => {
                self.counters.stale_gate_refused += 1;
                return Ok(());
            }
            Gated::Held(_) => return Ok(()),
            Gated::Behind(..) => {
                self.counters.behind_a_key += 1;
                return Ok(());
            }
        }
        let index = self.index("L4", gate.run, "gated")?;
        let current = self.jobs.get(&gate.job).map(|job| job.current().definition.clone());
        let run = &mut self.runs[index];
        let (id, attempt, token) = (run.id, gate.attempt, gate.token);
        hold!("L4", run.is_open(), "{} has a gate for run {id}, which is closed: {:?}", begun.by, run.close);
        if let Some((_, there)) = run.gates.iter().find(|(gated, _)| *gated == attempt) {
            hold!("L4", *there == token, "attempt {attempt} of run {id} is gated as {token} and as {there}");
            return Ok(());
        }
        hold!(
            "I7",
            attempt == run.attempt,
            "attempt {attempt} of run {id} is gated, and {} is next",
            run.attempt
        );
        // A call that outlived the loss of its shard is written down as it was sent.
        let was_sent = run.sends.iter().any(|send| (send.by, send.token) == (begun.by, token));
        hold!(
            "I12",
            token == Token::new(gate.lease.epoch, attempt) || was_sent,
            "run {id} is gated with the token {token}"
        );
        run.gates.push((attempt, token));
        if !was_sent && current.is_some_and(|definition| !is_gated_first(&definition, &run.overrides)) {
            run.asked_first.push((attempt, token));
        }
        // The run was to be parked, and no node was told that it was.
        run.is_parked = false;
        self.parked.remove(&(run.job, run.shard, run.due, run.id));
        if run.admitted_among == 0 {
            // Its place is taken with the gate, and kept until it closes or is parked.
            run.admitted_among = gate.holds.iter().map(|hold| hold.slots as usize).max().unwrap_or(0);
        }
        if !self.leases.is_current(run.shard, gate.lease.epoch) {
            self.counters.gate_after_takeover += 1;
        }
        Ok(())
    }

    /// A person asks that a run waits for another time.
    pub fn asked_to_wait(&mut self, id: RunId, until: i64) {
        if let Some(index) = self.by_id.get(&id) {
            self.runs[*index as usize].wishes.push(until);
        }
    }

    /// A node begins to send.
    pub fn sent(&mut self, moment: Moment, by: Who, node_now: Option<i64>, send: &Dispatched) -> Checked {
        let index = self.index("L1", send.run, "sent")?;
        let run = &self.runs[index];
        let (id, attempt, token) = (send.run, send.attempt, send.token);
        let definition = &send.job.definition;
        let at_most_once = definition.delivery == Delivery::AtMostOnce;
        let is_gated = is_gated_first(definition, &run.overrides);
        let promised = self.is_honest || is_gated;
        hold!("I3", run.job == send.job.id, "run {id} of job {} is sent for job {}", run.job, send.job.id);
        hold!(
            "L3",
            !is_gated || run.gates.contains(&(attempt, token)),
            "attempt {attempt} of run {id} is sent with {token} and its gates are {:?}",
            run.gates
        );
        hold!("I12", token == Token::new(token.epoch(), attempt), "run {id} is sent with the token {token}");
        self.leases.acts(by, run.shard, token.epoch(), self.is_honest)?;
        let is_skipped = run.close.as_ref().is_some_and(|close| close.outcome == Outcome::Skipped);
        hold!("L8", !is_skipped || !promised, "run {id} is sent and was skipped: {:?}", run.close);
        hold!("L11", run.is_open() || !self.is_honest, "run {id} is sent and was closed: {:?}", run.close);
        hold!(
            "I7",
            attempt == run.attempt && run.end_of(attempt).is_none() || !self.is_honest,
            "attempt {attempt} of run {id} is sent, and {} is next after {:?}",
            run.attempt,
            run.ended
        );
        hold!(
            "I4",
            run.not_before <= moment.store + EARLY_MS || !self.is_steady,
            "run {id} is sent at {} ({:?} on the node), before {}",
            show(moment.store),
            node_now.map(show),
            show(run.not_before)
        );
        self.check_wanted(run, send)?;
        self.check_address(send)?;
        hold!(
            "I30",
            send.timeout == run.overrides.timeout(definition),
            "run {id} has {:?} of its own, and is sent with {:?}",
            run.overrides,
            send.timeout
        );
        // A part is judged as what it is a part of.
        let unit = run.part.map_or(index, |part| part.whole as usize);
        let is_told = matches!(self.runs[unit].origin, Origin::Manual | Origin::Retry);
        let now = node_now.unwrap_or(moment.store);
        let asked_for = run.moved_to.unwrap_or(run.fire_time);
        let is_allowed = is_told || attempt > Attempt::FIRST || windows::allow(definition, asked_for, now);
        hold!("W1", is_allowed, "run {id} for {} is sent outside {:?}", show(asked_for), definition.windows);
        self.check_repeats(run, send, at_most_once)?;
        self.check_limit(unit as u32, send)?;
        self.check_keys(moment, unit, send)?;
        self.counters.sends += 1;
        self.counters.sent_with_overrides += u64::from(!self.runs[index].overrides.is_empty());
        self.last_sent = moment.now;
        if matches!(definition.target, Target::Http(_)) {
            self.http_sends.push_back(moment.now);
            forget_older(&mut self.http_sends, moment.now, QUEUE_US);
        }
        self.runs[unit].has_place |= limit(definition) != usize::MAX;
        let run = &mut self.runs[index];
        let is_marked = send.possible_duplicate;
        if run.sends.iter().any(|earlier| earlier.by != by) {
            self.counters.sent_again_after_takeover += 1;
        }
        run.sends.push(SendFact { by, at: moment.now, attempt, token, is_marked });
        let job = self.jobs.get_mut(&send.job.id).expect("a run has a job");
        job.last_sent = moment.now;
        job.sends.push_back(moment.now);
        forget_older(&mut job.sends, moment.now, SLOW_US);
        if !job.in_flight.contains(&(unit as u32)) {
            job.in_flight.push(unit as u32);
        }
        Ok(())
    }

    /// No other run is under way that shares a key, and this one is from now on. The parts of a run go with the whole.
    fn check_keys(&mut self, moment: Moment, unit: usize, send: &Dispatched) -> Checked {
        let run = &self.runs[unit];
        let id = run.id;
        if !run.is_open() {
            return Ok(());
        }
        for key in run.overrides.exclusive(&send.job.definition).iter() {
            let holder = self.keys.insert(key.clone(), id).filter(|holder| *holder != id);
            let is_open = holder.is_some_and(|holder| self.run(holder).is_some_and(RunFacts::is_open));
            hold!(
                "E1",
                !is_open,
                "run {id} is sent with the key {key}, and so was run {holder:?}, which is open"
            );
            self.keys_sent.insert(key.clone(), moment.now);
            self.counters.sent_with_key += 1;
        }
        Ok(())
    }

    /// A run has ended, or waits without its keys.
    pub(super) fn gives_keys_back(&mut self, id: RunId) {
        self.keys.retain(|_, holder| *holder != id);
    }

    /// The job, as the sender knows it, wants this run, and the sender knows all that was answered.
    fn check_wanted(&self, run: &RunFacts, send: &Dispatched) -> Checked {
        let (id, job) = (run.id, &self.jobs[&run.job]);
        hold!(
            "L10",
            job.answered <= send.job.version || !self.is_honest,
            "run {id} is sent by version {} of job {}, and {} was answered",
            send.job.version,
            run.job,
            job.answered
        );
        if job.is_poisoned {
            return Ok(());
        }
        let known = job.versions.iter().filter(|version| version.version == send.job.version);
        let is_known = { known }.any(|version| version.state == send.job.state);
        hold!(
            "I18",
            is_known,
            "run {id} is sent by version {} of job {} as {:?}, and there is no such version",
            send.job.version,
            run.job,
            send.job.state
        );
        let is_asked_for =
            matches!(run.origin, Origin::Manual | Origin::Backfill | Origin::Retry | Origin::Part);
        let is_wanted = match &send.job.state {
            JobState::Deleted => false,
            _ if is_asked_for => true,
            JobState::Enabled => true,
            JobState::Stopped(StoppedReason::Finished) => run.origin != Origin::OneShot,
            JobState::Stopped(_) => false,
        };
        hold!("I18", is_wanted, "run {id} ({}) is sent by a job that is {:?}", run.origin, send.job.state);
        let version = job.version(send.job.version).expect("it is known");
        let names_it = version.instants.as_ref().is_none_or(|instants| instants.names(run.fire_time));
        hold!(
            "I3",
            run.origin != Origin::Schedule || version.definition.schedule.is_delay() || names_it,
            "run {id} is sent for {}, which version {} of job {} does not name",
            show(run.fire_time),
            send.job.version,
            run.job
        );
        Ok(())
    }

    /// What may arrive a second time says so, and what must not is not sent.
    fn check_repeats(&self, run: &RunFacts, send: &Dispatched, at_most_once: bool) -> Checked {
        for earlier in &run.sends {
            let end = run.end_of(earlier.attempt);
            let is_new_try = earlier.attempt < send.attempt;
            if at_most_once {
                hold!(
                    "I9",
                    is_new_try && end == Some(AttemptOutcome::Refused),
                    "at most once, and run {} is sent again: {earlier:?}, which ended {end:?}",
                    run.id
                );
            }
            let was_said = |outcome| run.said.contains(&(earlier.attempt, earlier.token, outcome));
            let is_given_up = end == Some(AttemptOutcome::TimedOut) && !was_said(AttemptOutcome::TimedOut);
            let is_in_doubt = !is_new_try || end == Some(AttemptOutcome::Lost) || is_given_up;
            hold!(
                "I11",
                !is_in_doubt || earlier.token > send.token || send.possible_duplicate,
                "run {} is sent with {} unmarked after {earlier:?}",
                run.id,
                send.token
            );
            hold!(
                "I6",
                earlier.token != send.token,
                "attempt {} of run {} is sent twice with one token",
                send.attempt,
                run.id
            );
        }
        Ok(())
    }

    /// No more runs of the job are under way than it allows.
    fn check_limit(&mut self, index: u32, send: &Dispatched) -> Checked {
        let limit = limit(&send.job.definition);
        let run = &mut self.runs[index as usize];
        if run.sends.is_empty() && run.admitted_among == 0 {
            run.admitted_among = limit;
        }
        let limit = limit.max(run.admitted_among);
        let runs = &self.runs;
        let job = self.jobs.get_mut(&send.job.id).expect("a run has a job");
        job.in_flight.retain(|other| runs[*other as usize].is_in_flight());
        // What went out under a version without a limit has no place.
        let has_place = |other: &&u32| **other != index && runs[**other as usize].has_place;
        let others: Vec<&u32> = job.in_flight.iter().filter(has_place).collect();
        let told: Vec<RunId> = others.iter().take(5).map(|other| runs[**other as usize].id).collect();
        hold!(
            "I19",
            others.len() < limit || !self.is_honest,
            "run {} of job {} ({}) is sent beside {} others: {told:?}",
            send.run,
            send.job.id,
            send.job.definition.block,
            others.len()
        );
        Ok(())
    }

    /// An executor took what it was sent.
    pub fn received(&mut self, id: RunId, receipt: ReceiptFact) -> Checked {
        let index = self.index("L1", id, "received")?;
        let run = &mut self.runs[index];
        for earlier in run.taken.iter().filter(|earlier| earlier.checks_tokens && receipt.checks_tokens) {
            let is_same = earlier.executor == receipt.executor;
            hold!(
                "I12",
                !is_same || earlier.token < receipt.token,
                "executor {} took run {id} with {} after {}",
                receipt.executor,
                receipt.token,
                earlier.token
            );
        }
        if !run.taken.is_empty() && !receipt.is_copy {
            self.counters.received_twice += 1;
        }
        run.taken.push(receipt);
        Ok(())
    }

    /// An executor says how an attempt ended, whether or not a node hears it.
    pub fn said(&mut self, id: RunId, attempt: Attempt, token: Token, outcome: AttemptOutcome) {
        if let Ok(index) = self.index("L1", id, "reported") {
            self.runs[index].said.push((attempt, token, outcome));
        }
    }

    /// A node has a report in hand.
    pub fn heard(&mut self, by: Who, id: RunId, attempt: Attempt, now: Micros) {
        if let Some(index) = self.by_id.get(&id) {
            self.runs[*index as usize].known.push((by, attempt, now));
        }
    }

    /// A node tells the sender of a report that it is kept.
    pub fn acknowledged(&mut self, by: Who, id: RunId, attempt: Attempt, outcome: AttemptOutcome) -> Checked {
        let index = self.index("I21", id, "acknowledged")?;
        let run = &self.runs[index];
        let is_kept = !run.is_open() || run.end_of(attempt).is_some() || attempt < run.attempt;
        hold!(
            "I21",
            is_kept,
            "{by} acknowledges {outcome} of attempt {attempt} of run {id}, which is not kept"
        );
        if run.close.as_ref().is_some_and(|close| close.outcome == Outcome::Lost)
            && run.end_of(attempt) == Some(AttemptOutcome::Lost)
        {
            self.counters.result_after_lost += 1;
        }
        Ok(())
    }
}

/// Keeps only what happened within a span.
fn forget_older(times: &mut VecDeque<Micros>, now: Micros, span: Micros) {
    while times.front().is_some_and(|time| now - time >= span) {
        times.pop_front();
    }
}

/// How many runs of a job the nodes let go side by side. The executors here are called, so they keep to a job's word themselves;
/// only a number of runs is for the nodes to keep.
fn limit(definition: &Definition) -> usize {
    let is_for_executors = matches!(definition.target, Target::Executor(_));
    match definition.block {
        Block::Serial | Block::Discard | Block::Cover if is_for_executors => usize::MAX,
        Block::Serial | Block::Discard | Block::Cover => 1,
        Block::Concurrent(Some(limit)) => limit.get() as usize,
        Block::Concurrent(None) => usize::MAX,
    }
}
