//! Settling: the reports of executors are written down with everything that follows, and only then acknowledged.

mod ended;
mod strangers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::{home, spread};
use punctual_core::engine::settle::{End, kept_message, settle};
use punctual_core::event::Event;
use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Decided, Fence, JobId, Join, NewRun, NodeId, Origin, Outcome,
    Overrides, RunId, Settlement, ShardId, StoppedReason, Then, When, handed_on,
};
use punctual_core::policy::pool::SLOW_SEND;
use rustc_hash::FxHashSet;

use crate::Node;
use crate::doubt::passed;
use crate::entitled::Moment;
use crate::inbox::Received;
use crate::jobs::Known;
use crate::memory::{Memory, Run, RunLocation};
use crate::pasts::counts_attempts;
use crate::ports::{Boot, Further, Hint, Receipt, Report, RunRow, Settled, StoreError};
use crate::reads::Read;
use crate::settings::Planted;
pub(crate) use ended::Ended;
use strangers::Strangers;

/// While runs are due that were not sent, reports wait at most this long: it is the sends that are late.
const SENDS_FIRST: Duration = Duration::from_millis(20);

impl Memory {
    /// Notes whether the last round of firing left something that is due.
    pub(crate) fn note_more_due(&mut self, has_more: bool) {
        self.agenda.has_more_due = has_more;
        self.outbox.wakes.settle |= !has_more && self.agenda.settles_by.is_some();
    }

    /// Until when reports wait for due runs to be sent; none if there are many reports.
    fn lets_sends_go_first(&mut self, boot: Boot, many: usize) -> Option<Boot> {
        let waits = self.agenda.has_more_due && (1..many).contains(&self.inbox.reports.len());
        let by = *self.agenda.settles_by.get_or_insert(boot.plus(SENDS_FIRST));
        if waits && boot < by {
            return Some(by);
        }
        self.agenda.settles_by = None;
        None
    }
}

impl Node {
    /// Settles what was reported: writes it, then acknowledges it.
    pub async fn settle(&self) -> Boot {
        let boot = self.boot();
        if boot < self.memory().agenda.paused_until {
            return self.memory().agenda.paused_until;
        }
        if self.memory().cluster.owners.is_empty() {
            // Not joined yet: neither the time nor the shards are known.
            return boot.plus(self.settings.pause);
        }
        if let Some(later) = self.memory().lets_sends_go_first(boot, self.settings.settle_max) {
            return later;
        }
        let reports = self.take_reports();
        if reports.is_empty() {
            return boot.plus(self.settings.load_ahead);
        }
        if self.memory().has_planted(Planted::AcknowledgedEarly) {
            self.acknowledge(reports.iter().map(|received| &received.origin));
        }
        let settled = self.settle_reports(&reports).await;
        self.memory().inbox.settling.clear();
        if let Err(error) = settled {
            let again = self.lost_or_paused("settle", &error);
            let mut memory = self.memory();
            if !memory.has_planted(Planted::AcknowledgedEarly) {
                reports.into_iter().rev().for_each(|received| memory.put_report_back(received));
            }
            return again;
        }
        self.memory().agenda.failing.worked("settle");
        if self.memory().inbox.reports.is_empty() { boot.plus(self.settings.load_ahead) } else { self.boot() }
    }

    fn take_reports(&self) -> Vec<Received> {
        let boot = self.boot();
        let mut memory = self.memory();
        let next = std::iter::from_fn(|| memory.inbox.reports.pop());
        let taken: Vec<Received> = next.take(self.settings.settle_max).collect();
        let moment = Moment::of(&memory, boot);
        let reports = taken.iter().map(|received| &received.report);
        let settling =
            reports.filter(|report| memory.may_be_settled(report, moment)).map(|report| report.run);
        memory.inbox.settling = settling.collect();
        taken
    }

    async fn settle_reports(&self, reports: &[Received]) -> Result<(), StoreError> {
        let strangers: BTreeSet<RunId> = {
            let memory = self.memory();
            let ids = reports.iter().map(|received| received.report.run);
            ids.filter(|id| !memory.loaded.runs.contains_key(id)).collect()
        };
        let mut strangers = self.ask_for(strangers).await?;
        let jobs: Vec<JobId> = {
            let memory = self.memory();
            let of = |Received { report, .. }: &Received| {
                let here = memory.loaded.runs.get(&report.run).map(|run| run.job);
                here.or_else(|| strangers.rows.get(&report.run).map(|row| row.waiting.job))
            };
            reports.iter().filter_map(of).collect()
        };
        self.know_jobs(jobs).await?;
        self.read_pasts_of_strangers(&mut strangers, reports).await?;
        let Judged { ends, late, refused, unsent, paces, unsure } = self.judge(reports, &strangers);
        self.write_ends(ends).await?;
        self.acknowledge(late.iter().chain(&refused).map(|received| &received.origin));
        let mut memory = self.memory();
        memory.note_judged(&late, &refused, &paces);
        memory.note_unsent(&unsent);
        memory.outbox.wakes.settle |= !unsure.is_empty();
        unsure.into_iter().for_each(|received| memory.queue_report(received));
        Ok(())
    }

    /// Turns reports into ends. Those that come too late change nothing. Nothing else is changed here: where the store does
    /// not take the ends, the same reports are judged again.
    fn judge<'a>(&self, reports: &'a [Received], strangers: &Strangers) -> Judged<'a> {
        let Strangers { ids: fetched, rows, spared } = strangers;
        let boot = self.boot();
        let memory = self.memory();
        let moment = Moment::of(&memory, boot);
        let now = moment.now;
        let memory = &*memory;
        let mut judged = Judged::default();
        for received in reports {
            let Received { report, at, origin } = received;
            let came_at = at.unwrap_or(now).min(now);
            let known = memory.loaded.runs.get(&report.run).copied();
            let run = known.or_else(|| {
                rows.get(&report.run).filter(|row| !row.is_closed).map(|row| Run::from(&row.waiting))
            });
            let is_current = match (&known, memory.in_flight.flights.get(&report.run)) {
                // A later attempt than the one known here: the fence in the store decides.
                (Some(_), Some(flight)) => flight.attempt <= report.attempt,
                // Known and not in flight: the attempt has ended, or its shard came back to this node without it.
                (Some(run), None) => run.location == RunLocation::Busy || run.attempt <= report.attempt,
                (None, _) => true,
            };
            if known.is_none() && !fetched.contains(&report.run) {
                // The run left memory while the store was asked.
                judged.unsure.push(received.clone());
                continue;
            }
            let (Some(run), true) = (run, is_current) else {
                judged.late.push(received);
                continue;
            };
            let ended_at = memory.ended_at(report, &run, came_at);
            let job = match memory.jobs.get(run.job).cloned() {
                Some(Known::Job(job)) => job,
                Some(Known::Poisoned(_) | Known::Missing) => {
                    match memory.may_report_for_nobody(report) {
                        true => judged.ends.push(self.end_without_job(received, &run, now, ended_at)),
                        false => judged.refused.push(received),
                    }
                    continue;
                }
                // The job changed while the store was asked.
                None => {
                    judged.unsure.push(received.clone());
                    continue;
                }
            };
            let seen = (&run, rows.get(&report.run).filter(|_| known.is_none()));
            if !memory.may_report(report, &job, seen, moment) {
                judged.refused.push(received);
                continue;
            }
            let overrides = match rows.get(&report.run).filter(|_| known.is_none()) {
                Some(row) => row.waiting.overrides.as_deref().unwrap_or(Overrides::none()),
                None => memory.loaded.overrides_of(report.run),
            };
            let spared = spared.get(&report.run).copied().or_else(|| memory.spared_of(report.run, &run));
            if spared.is_none() && counts_attempts(report) {
                // There were more to be read than are read at once.
                judged.unsure.push(received.clone());
                continue;
            }
            let attempt = record(report, memory.may_be_repetition(report), ended_at);
            let end = End {
                attempt: &attempt,
                retry_after: report.retry_after,
                is_final: matches!(report.further, Further::Useless | Further::Gone),
                by_loss_of_node: report.further == Further::Unsent,
                spared: spared.unwrap_or(0),
            };
            if report.further == Further::Unsent {
                judged.unsent.push((run.job, report));
            }
            let then = settle(&job, overrides, &end, now, self.jitter(report.run, report.attempt));
            let http = memory.in_flight.flights.get(&report.run).and_then(|flight| flight.http);
            if job.executor().is_none() && !http.is_some_and(|place| place.is_noted) {
                judged.paces.push((run.job, ended_at, passed(attempt.started_at, ended_at)));
            }
            let is_foreign = !memory.cluster.held.contains_key(&run.shard);
            let mut ended =
                Ended::sent(report.run, &run, attempt, then).following(&job, &run).foreign(is_foreign);
            ended.origin = Some(origin.clone());
            ended.is_gone = report.further == Further::Gone;
            judged.ends.push(ended);
        }
        judged
    }

    /// A job that cannot be asked wants no further attempt.
    fn end_without_job(&self, received: &Received, run: &Run, now: Timestamp, ended_at: Timestamp) -> Ended {
        let report = &received.report;
        let attempt = record(report, false, ended_at);
        let outcome = match report.outcome {
            AttemptOutcome::Succeeded => Outcome::Succeeded,
            AttemptOutcome::Cancelled => Outcome::Cancelled,
            AttemptOutcome::Lost | AttemptOutcome::TimedOut => Outcome::Lost,
            AttemptOutcome::Failed | AttemptOutcome::Refused => Outcome::Failed,
        };
        let close = punctual_core::model::Close {
            outcome,
            reason: report.message.clone(),
            closed_at: now.max(attempt.ended_at),
            range: None,
        };
        let mut ended = Ended::sent(report.run, run, attempt, Then::Close(close));
        ended.origin = Some(received.origin.clone());
        ended
    }

    /// Writes ends with everything that follows; then memory, then acknowledgements and hints. Says which were stale.
    pub(crate) async fn write_ends(&self, mut ends: Vec<Ended>) -> Result<Vec<RunId>, StoreError> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let callings = self.memory().loaded.callings;
        let prepared = match self.name_wholes(&mut ends).await {
            Ok(()) => self.give_birth(&mut ends).await,
            Err(error) => Err(error),
        };
        if prepared.is_ok() {
            ends = self.without_heard(ends);
            if ends.is_empty() {
                return Ok(Vec::new());
            }
        }
        let answers = match prepared {
            Ok(()) => {
                let settlements = ends.iter().map(|ended| ended.settlement.clone()).collect();
                self.ports.store.settle(settlements).await
            }
            Err(error) => Err(error),
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                if matches!(error, StoreError::Unknown(_)) {
                    self.ask_the_key(&ends);
                }
                self.let_go_of(ends.iter().map(|ended| ended.settlement.run));
                return Err(error);
            }
        };
        let Aftermath { stale, stops, hints } = self.note_ended(&ends, &answers);
        self.look_after_parked(&ends, callings);
        for (node, hint) in hints {
            self.ports.peers.tell(node, hint);
        }
        self.acknowledge(ends.iter().filter_map(|ended| ended.origin.as_ref()));
        if !stale.is_empty() {
            // A run that no step has in hand can be corrected.
            self.let_go_of(stale.iter().copied());
            self.look_up(&stale).await?;
            self.leave_misled(&ends, &stale);
        }
        for (job, reason) in stops {
            self.stop_because(job, reason).await?;
        }
        Ok(stale)
    }

    /// Leaves out the attempts that this node is about to give up and has heard of while the write was being prepared:
    /// a report is settled instead, and an attempt that an executor admits to goes on.
    fn without_heard(&self, ends: Vec<Ended>) -> Vec<Ended> {
        if !ends.iter().any(Ended::gives_up) {
            return ends;
        }
        let boot = self.boot();
        let (dropped, kept): (Vec<Ended>, Vec<Ended>) = {
            let memory = self.memory();
            let is_deaf = memory.has_planted(Planted::ResultsForgotten);
            let moment = Moment::of(&memory, boot);
            let reported = if is_deaf { FxHashSet::default() } else { memory.reported(moment) };
            let is_heard = |Ended { settlement, .. }: &Ended| {
                reported.contains(&settlement.run) || memory.has_time_again(settlement)
            };
            ends.into_iter().partition(|ended| ended.gives_up() && is_heard(ended))
        };
        self.memory().inbox.is_awaited |= !dropped.is_empty();
        self.let_go_of(dropped.iter().map(|ended| ended.settlement.run));
        kept
    }

    /// Attempts that the store has under another token than memory: what is behind their gates is found by adopting.
    fn leave_misled(&self, ends: &[Ended], stale: &[RunId]) {
        let stale: BTreeSet<&RunId> = stale.iter().collect();
        let mut memory = self.memory();
        for Ended { settlement, .. } in ends.iter().filter(|ended| stale.contains(&ended.settlement.run)) {
            let Fence::Sent(attempt, _) = settlement.fence else { continue };
            // A park is stale because its job was changed, and says nothing about the attempt.
            let is_park = matches!(settlement.then, Then::Park { .. });
            let run = memory.loaded.runs.get(&settlement.run).copied();
            if let Some(run) =
                run.filter(|run| run.attempt == attempt && run.location != RunLocation::Busy && !is_park)
            {
                memory.leave_behind(settlement.run, &run);
            }
        }
    }

    /// What may have been written about attempts that were never sent, or may still be, is settled by their keys: from
    /// now on they are sent through a gate or not at all.
    fn ask_the_key(&self, ends: &[Ended]) {
        let mut memory = self.memory();
        let unsent = ends.iter().filter(|ended| matches!(ended.settlement.fence, Fence::Unsent(_)));
        for id in unsent.map(|ended| ended.settlement.run) {
            match memory.loaded.runs.get_mut(&id) {
                Some(run) => run.flags.may_be_gated = true,
                None => drop(memory.loaded.unsure.insert(id)),
            }
        }
    }

    /// A run that was parked while others of its job were called back may have been called back at once.
    fn look_after_parked(&self, ends: &[Ended], callings: u64) {
        let mut memory = self.memory();
        if memory.loaded.callings == callings && callings.is_multiple_of(2) {
            return;
        }
        for Ended { settlement, .. } in ends {
            if matches!(settlement.then, Then::Park { .. }) {
                memory.look_up_later(settlement.run);
            }
        }
    }

    /// Lets go of runs that a step still has in hand: each is as it was.
    fn let_go_of(&self, runs: impl Iterator<Item = RunId>) {
        let boot = self.boot();
        let mut memory = self.memory();
        let now = memory.time.now(boot).unwrap_or(Timestamp::MIN);
        runs.for_each(|run| memory.let_go(run, now));
    }

    /// Writes into the ends of parts which runs they are parts of.
    async fn name_wholes(&self, ends: &mut [Ended]) -> Result<(), StoreError> {
        let parts: Vec<RunId> =
            ends.iter().filter(|ended| ended.is_part).map(|ended| ended.settlement.run).collect();
        if parts.is_empty() {
            return Ok(());
        }
        let strangers = self.know_parts(&parts).await?;
        let memory = self.memory();
        for ended in ends.iter_mut().filter(|ended| ended.is_part) {
            let run = ended.settlement.run;
            let known = memory.loaded.parts.get(run).map(|known| known.whole);
            ended.settlement.part_of = known.or_else(|| strangers.get(&run).copied());
        }
        Ok(())
    }

    /// Makes sure that the wholes of those of these runs that are parts are known. For a part that is not in memory the
    /// whole is returned, and not kept.
    pub(crate) async fn know_parts(&self, runs: &[RunId]) -> Result<BTreeMap<RunId, RunId>, StoreError> {
        let unknown: Vec<RunId> = {
            let memory = self.memory();
            let is_unknown = |id: &&RunId| {
                memory.loaded.parts.get(**id).is_none()
                    && memory.loaded.runs.get(id).is_none_or(|run| run.origin == Origin::Part)
            };
            runs.iter().filter(is_unknown).copied().collect()
        };
        if unknown.is_empty() {
            return Ok(BTreeMap::new());
        }
        let rows = self.ports.store.fetch(&unknown).await?;
        let mut memory = self.memory();
        let mut strangers = BTreeMap::new();
        for row in rows {
            let id = row.waiting.run;
            let Some((whole, part)) = row.part else { continue };
            strangers.insert(id, whole);
            if memory.loaded.runs.contains_key(&id) {
                memory.loaded.parts.note(id, whole, part);
            }
        }
        Ok(strangers)
    }

    /// Gives the children ids and shards.
    async fn give_birth(&self, ends: &mut [Ended]) -> Result<(), StoreError> {
        let count: usize = ends.iter().map(|ended| ended.children.len()).sum();
        if count == 0 {
            return Ok(());
        }
        let closed_at = |ended: &Ended| match &ended.settlement.then {
            Then::Close(close) => close.closed_at,
            _ => Timestamp::MIN,
        };
        let days = |ended: &Ended| vec![RunId::day_of(closed_at(ended)); ended.children.len()];
        let days: Vec<u32> = ends.iter().flat_map(days).collect();
        let jobs: Vec<JobId> =
            ends.iter().flat_map(|ended| ended.children.iter().map(|child| child.job)).collect();
        self.know_jobs(jobs).await?;
        let mut ids = self.draw_ids(&days).await?.into_iter();
        let memory = self.memory();
        for ended in ends {
            let fire_time = closed_at(ended);
            let result = ended.settlement.attempt.as_ref().map_or("", |attempt| &attempt.message);
            let payload = match memory.jobs.get(ended.settlement.job) {
                Some(Known::Job(job)) => Some(handed_on(ended.settlement.run, job, result)),
                _ => None,
            };
            ended.settlement.children = ended
                .children
                .iter()
                .map(|child| {
                    let id = ids.next().expect("one id was drawn for each child");
                    let (is_limited, priority) = match memory.jobs.get(child.job) {
                        Some(Known::Job(job)) => (job.is_limited(), job.definition.priority),
                        _ => (true, 5),
                    };
                    let shards = memory.shard_count();
                    NewRun {
                        id,
                        job: child.job,
                        shard: if is_limited { home(child.job, shards) } else { spread(id, shards) },
                        fire_time,
                        due: fire_time,
                        origin: Origin::Parent,
                        decided: Decided::OnTime,
                        priority,
                        payload: payload.clone(),
                        key: None,
                        of: Some(ended.settlement.run),
                        overrides: None,
                    }
                })
                .collect();
        }
        Ok(())
    }

    /// Puts into memory what has just been written.
    fn note_ended(&self, ends: &[Ended], answers: &[Settled]) -> Aftermath {
        let mut memory = self.memory();
        let (mut aftermath, mut late) = (Aftermath::default(), Vec::new());
        for (ended, answer) in ends.iter().zip(answers) {
            let settlement = &ended.settlement;
            let Settled::Done { consecutive_failures, is_over, joined } = answer else {
                aftermath.stale.push(settlement.run);
                if let Some(attempt) = settlement.attempt.as_ref().filter(|_| ended.origin.is_some()) {
                    late.push((&*attempt.executor, settlement.run, attempt.number));
                }
                continue;
            };
            note_one(&mut memory, settlement);
            let is_failed =
                matches!(&settlement.then, Then::Close(close) if When::Failed.holds(close.outcome));
            if is_failed && ended.failure_limit > 0 && *consecutive_failures >= ended.failure_limit {
                aftermath.stops.push((settlement.job, StoppedReason::FailureLimit));
            }
            if ended.is_gone {
                aftermath.stops.push((settlement.job, StoppedReason::Gone));
            }
            if *is_over {
                let reason = StoppedReason::Finished;
                memory.outbox.events.push(Event::JobStopped { job: settlement.job, reason });
                memory.jobs.forget(settlement.job);
            }
            if let Some((whole, join)) = joined {
                memory.join(*whole, *join);
            }
            if settlement.is_foreign {
                aftermath.tell(&memory, settlement.shard, Hint::Settled(settlement.run));
            }
            for child in &settlement.children {
                if memory.cluster.held.contains_key(&child.shard) {
                    memory.inbox.heard_of.push(child.id);
                    memory.outbox.wakes.tend = true;
                } else {
                    aftermath.tell(&memory, child.shard, Hint::Arrived(child.shard));
                }
            }
        }
        memory.tell_late(late);
        aftermath
    }

    /// Looks up runs of which memory may be wrong.
    pub(crate) async fn look_up(&self, runs: &[RunId]) -> Result<(), StoreError> {
        let read = self.memory().loaded.reads.begin();
        let rows = self.ports.store.fetch(runs).await;
        let mut memory = self.memory();
        if let Ok(rows) = &rows {
            let mut gone: BTreeSet<RunId> = runs.iter().copied().collect();
            for row in rows {
                gone.remove(&row.waiting.run);
                memory.correct(read, row);
            }
            gone.retain(|id| !memory.loaded.reads.is_stale(read, *id));
            gone.into_iter().for_each(|id| memory.forget(id));
        }
        memory.loaded.reads.end(read);
        drop(memory);
        rows.map(|_| ())
    }
}

/// What became of reports.
#[derive(Default)]
struct Judged<'a> {
    ends: Vec<Ended>,
    /// They come too late and change nothing.
    late: Vec<&'a Received>,
    /// They come from executors that were not given the attempt, and change nothing.
    refused: Vec<&'a Received>,
    /// They say that nothing was sent, each with its job.
    unsent: Vec<(JobId, &'a Report)>,
    /// How long HTTP calls took, each with its job and when it ended.
    paces: Vec<(JobId, Timestamp, Duration)>,
    /// Nothing can be said of them yet.
    unsure: Vec<Received>,
}

#[derive(Default)]
struct Aftermath {
    stale: Vec<RunId>,
    stops: Vec<(JobId, StoppedReason)>,
    hints: Vec<(NodeId, Hint)>,
}

impl Aftermath {
    fn tell(&mut self, memory: &Memory, shard: ShardId, hint: Hint) {
        self.hints.extend(memory.whom_to_tell(shard).map(|node| (node, hint)));
    }
}

fn note_one(memory: &mut Memory, settlement: &Settlement) {
    let id = settlement.run;
    match &settlement.then {
        Then::Close(close) => {
            // Of a broadcast run the whole is told.
            if settlement.part_of.is_none() {
                let (job, outcome, reason) = (settlement.job, close.outcome, close.reason.clone());
                let took =
                    settlement.attempt.as_ref().map(|attempt| passed(attempt.started_at, attempt.ended_at));
                memory.outbox.events.push(Event::Closed { run: id, job, outcome, reason, took });
            }
            memory.forget(id);
        }
        // It went out in spite of us: what was written for it stands behind that attempt.
        Then::Wait { .. }
            if matches!(settlement.fence, Fence::Unsent(_)) && memory.in_flight.flights.contains_key(&id) => {
        }
        // The answer took so long that memory has learned of it by another way, and gone on.
        Then::Wait { attempt, .. }
            if settlement.attempt.is_some()
                && memory.loaded.runs.get(&id).is_some_and(|run| run.attempt >= *attempt) => {}
        Then::Wait { ready_at, attempt } => {
            let ended = settlement.attempt.as_ref().map(|attempt| attempt.outcome);
            let may_repeat = matches!(ended, Some(AttemptOutcome::Lost | AttemptOutcome::TimedOut));
            if ended.is_some() {
                memory.outbox.events.push(Event::Retrying { run: id, ready_at: *ready_at });
            }
            if let Some(ended) = &settlement.attempt {
                memory.note_whether_supposed(id, ended);
            }
            memory.put_off(id, *ready_at, *attempt, may_repeat);
        }
        Then::Park { .. } => {
            let due = memory.loaded.runs.get(&id).map_or(Timestamp::MIN, |run| run.ready_at);
            if !memory.in_flight.flights.contains_key(&id) {
                memory.forget(id);
            }
            memory.note_parked(settlement.job, settlement.shard, due);
        }
    }
}

fn record(report: &Report, possible_duplicate: bool, ended_at: Timestamp) -> AttemptRecord {
    let started_at = report.started_at.min(ended_at);
    AttemptRecord {
        number: report.attempt,
        token: report.token,
        executor: report.executor.clone(),
        started_at,
        ended_at,
        outcome: report.outcome,
        message: kept_message(&report.message, report.further != Further::Unsent),
        possible_duplicate,
    }
}

impl Memory {
    /// When an attempt ended. Its executor may know that it ended before the report came, but an attempt does not end
    /// before it was sent; one of which the send is not known here was not sent before its run was due.
    fn ended_at(&self, report: &Report, run: &Run, came_at: Timestamp) -> Timestamp {
        let flight =
            self.in_flight.flights.get(&report.run).filter(|flight| flight.attempt == report.attempt);
        let least = flight.map_or(run.ready_at, |flight| flight.sent_at).min(came_at);
        report.ended_at.map_or(came_at, |ended_at| ended_at.clamp(least, came_at))
    }

    /// Whether an earlier attempt than the reported one may have arrived as well.
    fn may_be_repetition(&self, report: &Report) -> bool {
        match (self.in_flight.flights.get(&report.run), self.loaded.runs.get(&report.run)) {
            (Some(flight), _) => flight.possible_duplicate,
            (None, Some(run)) if run.attempt == report.attempt => run.flags.may_repeat,
            // Its shard has moved since it was sent. What an earlier holder knew of the attempts before it is not
            // written down.
            _ => report.attempt > Attempt::FIRST,
        }
    }

    /// Applies what follows from reports beside their ends, once the ends are written.
    fn note_judged(
        &mut self,
        late: &[&Received],
        refused: &[&Received],
        paces: &[(JobId, Timestamp, Duration)],
    ) {
        let late = late.iter().map(|received| &received.report);
        self.tell_late(late.clone().map(|report| (&*report.executor, report.run, report.attempt)));
        late.for_each(|report| drop(self.in_flight.outlived.remove(&report.run)));
        self.tell_refused_reports(refused.iter().map(|received| &received.report));
        for (job, ended_at, took) in paces {
            self.note_pace(*job, *ended_at, *took);
        }
    }

    /// Whether an attempt that is to be given up is no longer overdue.
    fn has_time_again(&self, settlement: &Settlement) -> bool {
        let record = settlement.attempt.as_ref();
        let flight = self.in_flight.flights.get(&settlement.run);
        flight.zip(record).is_some_and(|(flight, record)| {
            flight.attempt == record.number && flight.deadline > record.ended_at
        })
    }

    /// Late reports, one event for each executor: one that repeats itself must not push the events of others out.
    fn tell_late<'a>(&mut self, late: impl IntoIterator<Item = (&'a str, RunId, Attempt)>) {
        let mut of_executors: BTreeMap<&str, (RunId, Attempt, u64)> = BTreeMap::new();
        for (executor, run, attempt) in late {
            let told = of_executors.entry(executor);
            told.and_modify(|(_, _, more)| *more += 1).or_insert((run, attempt, 0));
        }
        let event = |(run, attempt, more)| Event::LateReport { run, attempt, more };
        self.outbox.events.extend(of_executors.into_values().map(event));
    }

    /// Attempts that were no tries are not counted; those that found no room at their executor are told in events.
    fn note_unsent(&mut self, unsent: &[(JobId, &Report)]) {
        for (job, report) in unsent {
            if self.loaded.runs.contains_key(&report.run) {
                *self.loaded.spared.entry(report.run).or_default() += 1;
            }
            if report.retry_after.is_some() {
                let (run, attempt, reason) = (report.run, report.attempt, report.message.clone());
                self.outbox.events.push(Event::Delayed { run, job: *job, attempt, reason });
            }
        }
    }

    /// Remembers how long a send took, of jobs that have been slow.
    fn note_pace(&mut self, job: JobId, now: Timestamp, took: Duration) {
        if took > SLOW_SEND || self.in_flight.paces.contains_key(&job) {
            let pace = self.in_flight.paces.entry(job).or_default();
            pace.record(now, took);
            if pace.is_blank() {
                self.in_flight.paces.remove(&job);
            }
        }
    }

    /// All parts of a run have ended: so does the whole, by a report of its own.
    pub(crate) fn join(&mut self, whole: RunId, join: Join) {
        if self.loaded.parts.is_ending(whole) {
            return;
        }
        let Some(flight) = self.in_flight.flights.get(&whole) else {
            // The node that has the whole finds out.
            return self.look_up_later(whole);
        };
        let is_good = join.succeeded == join.total;
        let report = Report {
            receipt: Receipt::default(),
            run: whole,
            attempt: flight.attempt,
            token: flight.token,
            outcome: if is_good { AttemptOutcome::Succeeded } else { AttemptOutcome::Failed },
            message: format!("{} of {} parts succeeded", join.succeeded, join.total).into(),
            executor: flight.executor.clone(),
            app: None,
            started_at: flight.sent_at,
            ended_at: None,
            retry_after: None,
            // Each part had its tries.
            further: Further::Useless,
        };
        self.receive(report, None);
    }

    /// Remembers that a job has runs which are parked.
    fn note_parked(&mut self, job: JobId, shard: ShardId, due: Timestamp) {
        if self.cluster.held.contains_key(&shard) {
            self.loaded.parked.note(job, shard, due);
            self.outbox.wakes.tend = true;
        }
    }

    /// Brings memory in line with what the store says of a run.
    fn correct(&mut self, read: Read, row: &RunRow) {
        let id = row.waiting.run;
        // A closed run stays closed, however old the answer is.
        if row.is_closed {
            self.loaded.unsure.remove(&id);
            return self.forget(id);
        }
        if self.loaded.reads.is_stale(read, id) {
            return;
        }
        let Some(run) = self.loaded.runs.get(&id).copied() else {
            if row.is_parked {
                self.note_parked(row.waiting.job, row.waiting.shard, row.waiting.ready_at);
            } else if !row.is_gated {
                self.take_in(read, &row.waiting);
            } else if let Some(held) = self.cluster.held.get_mut(&row.waiting.shard) {
                held.is_adopted = false;
                self.outbox.wakes.load = true;
            }
            return;
        };
        if row.is_parked {
            // It was to be, and we were not told. Its key will say.
            return;
        }
        let flight: Option<Attempt> = self.in_flight.flights.get(&id).map(|flight| flight.attempt);
        let is_ahead = flight.is_some_and(|attempt| attempt >= row.waiting.attempt);
        let is_same = run.attempt == row.waiting.attempt && run.ready_at == row.waiting.ready_at;
        if row.is_gated
            && flight.is_none()
            && let Some(kept) = self.loaded.runs.get_mut(&id)
        {
            // Only the key can say which node wrote the gate.
            kept.flags.may_be_gated = true;
        }
        if !is_ahead && !is_same && run.location != RunLocation::Busy {
            self.put_off(id, row.waiting.ready_at, row.waiting.attempt, true);
            if let Some(run) = self.loaded.runs.get_mut(&id) {
                // Another node has settled it.
                run.flags.has_unread_past |= row.waiting.attempt > Attempt::FIRST;
            }
        }
    }
}
