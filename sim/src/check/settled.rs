//! What is known of the end of attempts and runs.

use std::collections::BTreeSet;

use punctual_core::model::{
    Attempt, AttemptOutcome, AttemptRecord, Close, Fence, JobId, Origin, Outcome, RunId, ScheduleKind,
    Settlement, Skip, StoppedReason, Target, Then,
};
use punctual_core::policy::misfire::Policy;
use punctual_node::ports::Unpark;

use super::jobs::{Version, is_reason, millis};
use super::runs::CloseFact;
use super::{Begun, Checked, Checker, INTRUDER, Moment, RunFacts, Who, hold, misfire, show};
use crate::link::Micros;

/// How far in the store's future a moment may be written, in milliseconds.
const AHEAD_MS: i64 = 1_000;

/// A node that renews so long after it has heard of an end has had the time to write it down. After an outage nodes wait 7 s
/// for each other, and a renewal and a settlement that are slow on their way take the rest.
const WRITTEN: Micros = 10_000_000;

impl Checker {
    /// An end was written.
    pub(super) fn settled(&mut self, moment: Moment, begun: Begun, settlement: &Settlement) -> Checked {
        let index = self.index("I8", settlement.run, "settled")?;
        let run = &self.runs[index];
        let id = run.id;
        hold!("I8", run.is_open(), "run {id} is closed as {:?} and settled again: {settlement:?}", run.close);
        hold!(
            "I3",
            run.job == settlement.job,
            "run {id} of job {} is settled for {}",
            run.job,
            settlement.job
        );
        if let Fence::Unsent(attempt) = settlement.fence {
            let gate = run.gates.iter().find(|(gated, _)| *gated == attempt);
            hold!(
                "L4",
                gate.is_none(),
                "attempt {attempt} of run {id} is settled as unsent and was gated: {gate:?}"
            );
        }
        self.check_bonds(run, settlement)?;
        if let Some(record) = &settlement.attempt {
            self.check_record(run, record)?;
            self.check_known(begun, run, record)?;
            self.check_given_up(begun, index, record)?;
        }
        let run = &self.runs[index];
        let next = if settlement.attempt.is_some() { run.attempt.next() } else { run.attempt };
        match &settlement.then {
            Then::Close(close) => {
                self.check_close(run, settlement, close)?;
                self.check_want(moment, run, close)?;
            }
            Then::Wait { ready_at, attempt } => {
                hold!("I7", *attempt == next, "run {id} waits for attempt {attempt}, not for {next}");
                if let Some(record) =
                    settlement.attempt.as_ref().filter(|record| !is_turned_back(run, record))
                {
                    self.check_backoff(run, record, millis(*ready_at))?;
                }
            }
            Then::Park { attempt, .. } => {
                hold!("I7", *attempt == next, "run {id} is parked before attempt {attempt}, not {next}");
            }
        }
        self.note(moment, begun, index, settlement)?;
        for child in &settlement.children {
            hold!("I3", child.origin == Origin::Parent, "run {id} brings about {child:?}");
            self.counters.children += 1;
            self.wrote(moment, child)?;
        }
        self.check_delay(moment, settlement)
    }

    /// Parked runs are called back by due time: of each job the earliest, and of all jobs that were asked about the
    /// earliest, as far as each might have more.
    pub(super) fn check_called_back(&self, unpark: &Unpark, called: &[(JobId, RunId)]) -> Checked {
        let place = |id: &RunId| self.run(*id).map(|run| (run.due, run.id));
        let last = called.iter().filter_map(|(_, run)| place(run)).max();
        let is_full = called.len() >= unpark.max;
        let shard = unpark.lease.shard;
        for (job, most) in &unpark.jobs {
            let of_job = called.iter().filter(|(of, _)| of == job);
            let of_job: BTreeSet<(i64, RunId)> = of_job.filter_map(|(_, run)| place(run)).collect();
            let all = (*job, shard, i64::MIN, RunId(0))..=(*job, shard, i64::MAX, RunId(u64::MAX));
            let mut parked = self.parked.range(all).map(|(_, _, due, run)| (*due, *run));
            let Some(first) = parked.find(|left| !of_job.contains(left)) else { continue };
            hold!(
                "I31",
                of_job.iter().all(|called| *called < first),
                "of job {job} {of_job:?} were called back before {first:?}"
            );
            hold!(
                "I31",
                of_job.len() >= *most || is_full && last.is_none_or(|last| last < first),
                "{first:?} of job {job} stays parked, and {last:?} was called back"
            );
        }
        Ok(())
    }

    /// Runs that waited without an instant have one.
    pub(super) fn called_back(&mut self, called: &[(JobId, RunId)], at: calendar::Timestamp) {
        for (_, run) in called {
            if let Some(index) = self.by_id.get(run) {
                let run = &mut self.runs[*index as usize];
                run.is_parked = false;
                run.moved_to = None;
                run.ready_at = at.as_millis();
                run.not_before = run.ready_at;
                self.parked.remove(&(run.job, run.shard, run.due, run.id));
            }
        }
    }

    /// Writes down what was settled.
    fn note(&mut self, moment: Moment, begun: Begun, index: usize, settlement: &Settlement) -> Checked {
        let run = &mut self.runs[index];
        if let Some(record) = &settlement.attempt {
            run.ended.push((record.number, record.outcome));
            match record.outcome {
                AttemptOutcome::Lost => {
                    run.given_up.push((record.number, moment.now, begun.by));
                    self.counters.attempt_lost += 1;
                }
                AttemptOutcome::TimedOut => self.counters.attempt_timed_out += 1,
                _ => {}
            }
        }
        run.is_parked = false;
        self.parked.remove(&(run.job, run.shard, run.due, run.id));
        match &settlement.then {
            Then::Close(close) => {
                let job = self.jobs.get_mut(&run.job).expect("a run has a job");
                match close.outcome {
                    // A part counts with its whole.
                    _ if run.part.is_some() => {}
                    Outcome::Succeeded => job.counts[0] += 1,
                    Outcome::Failed | Outcome::Lost => job.counts[1] += 1,
                    Outcome::Cancelled | Outcome::Skipped => job.counts[2] += 1,
                }
                self.counters.closed(close);
                run.close = Some(CloseFact::new(moment, close));
                job.in_flight.retain(|other| *other != index as u32);
                self.gives_keys_back(settlement.run);
            }
            Then::Wait { ready_at, attempt } => {
                run.attempt = *attempt;
                run.ready_at = ready_at.as_millis();
                if settlement.attempt.is_none() && run.is_wish(run.ready_at, begun.node_now) {
                    run.moved_to = Some(run.ready_at);
                }
                // A node that is not told that the run was put off goes on as before.
                let was_told = settlement.attempt.is_some();
                run.not_before = if was_told { run.ready_at } else { run.not_before.min(run.ready_at) };
                self.counters.waits += 1;
                self.counters.retried_by_overrides += u64::from(was_told && run.overrides.retry.is_some());
            }
            Then::Park { attempt, .. } => {
                run.attempt = *attempt;
                run.is_parked = true;
                self.parked.insert((run.job, run.shard, run.due, run.id));
                run.admitted_among = 0;
                self.counters.parked += 1;
                self.gives_keys_back(settlement.run);
            }
        }
        let run = &self.runs[index];
        let holder = run.sends.last().map(|send| send.by);
        if settlement.attempt.is_some() && holder.is_some_and(|holder| holder != begun.by) {
            self.counters.settled_by_another += 1;
            self.counters.overrides_settled_by_another += u64::from(!run.overrides.is_empty());
        }
        Ok(())
    }

    fn check_record(&self, run: &RunFacts, record: &AttemptRecord) -> Checked {
        let (id, number) = (run.id, record.number);
        hold!(
            "X5",
            record.executor != INTRUDER,
            "attempt {number} of run {id} ends by the word of an executor of another app: {record:?}"
        );
        hold!("I6", run.end_of(number).is_none(), "attempt {number} of run {id} ends a second time");
        hold!(
            "I7",
            number == run.attempt,
            "attempt {number} of run {id} ends, and {} is under way",
            run.attempt
        );
        hold!(
            "I26",
            record.started_at <= record.ended_at,
            "attempt {number} of run {id} lasts from {} to {}",
            record.started_at,
            record.ended_at
        );
        hold!(
            "I26",
            millis(record.ended_at) <= self.latest + AHEAD_MS || !self.is_steady,
            "attempt {number} of run {id} ends at {}, and the store has not been beyond {}",
            record.ended_at,
            show(self.latest)
        );
        let is_sent = run.sends.iter().any(|send| (send.attempt, send.token) == (number, record.token));
        // A known gap, see docs/simulation.md.
        let was_asked = run.asked_first.contains(&(number, record.token));
        hold!(
            "H1",
            record.is_supposed()
                || is_sent
                || !run.parts.is_empty()
                || is_turned_back(run, record)
                || was_asked,
            "attempt {number} of run {id} is on record as sent, and the world has not seen it: {record:?}"
        );
        // A result is an executor's word; only loss and a wish can be ours.
        let is_word = matches!(
            record.outcome,
            AttemptOutcome::Succeeded | AttemptOutcome::Failed | AttemptOutcome::Refused
        );
        let is_said = !run.parts.is_empty()
            || is_turned_back(run, record)
            || run.said.contains(&(number, record.token, record.outcome));
        hold!(
            "I21",
            !is_word || is_said,
            "attempt {number} of run {id} ends as {}, and executors said {:?}",
            record.outcome,
            run.said
        );
        Ok(())
    }

    fn check_close(&self, run: &RunFacts, settlement: &Settlement, close: &Close) -> Checked {
        let id = run.id;
        hold!(
            "I26",
            millis(close.closed_at) <= self.latest + AHEAD_MS || !self.is_steady,
            "run {id} is closed at {}, and the store has not been beyond {}",
            close.closed_at,
            show(self.latest)
        );
        let record = settlement.attempt.as_ref();
        let outcome = record.map(|record| record.outcome);
        match close.outcome {
            Outcome::Succeeded => {
                hold!(
                    "I8",
                    outcome == Some(AttemptOutcome::Succeeded),
                    "run {id} succeeds and its attempt {outcome:?}"
                );
            }
            Outcome::Failed => {
                let is_failure = outcome.is_none_or(|outcome| {
                    use AttemptOutcome::{Failed, Refused, TimedOut};
                    matches!(outcome, Failed | Refused | TimedOut)
                });
                hold!("I8", is_failure, "run {id} fails and its attempt {outcome:?}");
            }
            Outcome::Skipped => self.check_skip(run, close)?,
            Outcome::Lost => hold!("I10", !close.reason.is_empty(), "run {id} is lost without a reason"),
            Outcome::Cancelled => {}
        }
        Ok(())
    }

    /// What is skipped was never sent, and is skipped for a reason that holds.
    fn check_skip(&self, run: &RunFacts, close: &Close) -> Checked {
        let (id, job) = (run.id, &self.jobs[&run.job]);
        let is_gated = !run.gates.is_empty();
        hold!(
            "L8",
            run.sends.is_empty() || !(self.is_honest || is_gated),
            "run {id} is skipped ({}) and was sent: {:?}",
            close.reason,
            run.sends
        );
        hold!("I10", !close.reason.is_empty(), "run {id} is skipped without a reason");
        if is_reason(close, Skip::Coalesced) || is_reason(close, Skip::Misfire) {
            let is_missed = job.versions.iter().rev().any(|version| is_missed(run, version, close));
            hold!("I5", is_missed || job.is_poisoned, "run {id} for {} is {close:?}", show(run.fire_time));
        }
        Ok(())
    }

    fn check_backoff(&self, run: &RunFacts, record: &AttemptRecord, ready_at: i64) -> Checked {
        let (id, number) = (run.id, record.number);
        let job = &self.jobs[&run.job];
        let waited = ready_at - millis(record.ended_at);
        let is_for_executors = matches!(job.current().definition.target, Target::Executor(_));
        let is_unsent = record.is_supposed();
        let is_lost = record.outcome == AttemptOutcome::Lost && (is_unsent || !is_for_executors);
        // The clock was set back to before it was sent: then that is when it ends, in the records.
        let is_set_back = !self.is_steady && waited < 0 && record.started_at == record.ended_at;
        // A run that was lost with its node is repeated at once, which does not count; executors go on without the
        // node. Any version that no node can have known any more will do: the run waited for some of them.
        let is_right = |version: &Version| {
            let retry = run.overrides.retry(&version.definition);
            let least =
                backoff_ms(retry.initial_delay, retry.multiplier.per_mille(), retry.max_delay, number.0);
            let is_allowed = number.0 < retry.max_attempts;
            (is_allowed && (least * 9 / 10 <= waited || is_set_back)) || is_lost
        };
        let is_some = job.versions.iter().rev().any(is_right);
        hold!(
            "I30",
            is_some || job.is_poisoned,
            "attempt {number} of run {id} ended {} at {}, and the next is at {}: {:?}",
            record.outcome,
            record.ended_at,
            show(ready_at),
            run.overrides.retry(&job.current().definition)
        );
        Ok(())
    }

    /// A node that has heard how an attempt ended does not give it up; nor does another, once the one that has heard it could
    /// write it down. That holds for failures as well as successes, for parts, and where the run is closed with the attempt.
    fn check_known(&self, begun: Begun, run: &RunFacts, record: &AttemptRecord) -> Checked {
        // An executor that reports a timeout, and later a success, ends the attempt by its own word.
        let is_said = run.said.contains(&(record.number, record.token, record.outcome));
        let is_given_up =
            matches!(record.outcome, AttemptOutcome::Lost | AttemptOutcome::TimedOut) && !is_said;
        let was_heard_by = |(by, attempt, at): &(Who, Attempt, Micros)| {
            let renewed = self.renewed.get(by).copied().filter(|renewed| *renewed < begun.at.now);
            let is_known = match *by == begun.by {
                true => *at < begun.at.now,
                false => renewed.is_some_and(|renewed| renewed >= at + WRITTEN),
            };
            is_known && *attempt == record.number
        };
        let heard = run.known.iter().find(|heard| was_heard_by(heard));
        hold!(
            "H2",
            !(is_given_up && heard.is_some()),
            "{} gives up attempt {} of run {}, and it was heard how that ended: {heard:?}",
            begun.by,
            record.number,
            run.id
        );
        Ok(())
    }

    /// The clock of a fixed delay is set by the end of its run, and the last end stops it.
    fn check_delay(&mut self, moment: Moment, settlement: &Settlement) -> Checked {
        let (Some(_), Then::Close(close)) = (settlement.named, &settlement.then) else { return Ok(()) };
        let job = self.jobs.get_mut(&settlement.job).expect("a run has a job");
        let current = job.current();
        let is_awaited = Some(job.reserved) == settlement.named.map(millis);
        if !is_awaited || !current.state.is_enabled() || job.clock.is_some() {
            return Ok(());
        }
        let ScheduleKind::Delay { delay } = current.definition.schedule.kind else { return Ok(()) };
        let from = current.definition.schedule.from.map_or(i64::MIN, millis);
        let next = (millis(close.closed_at) + delay.as_millis() as i64).max(from);
        let until = current.definition.schedule.until.map_or(i64::MAX, millis);
        job.clock = (next <= until).then_some(next);
        if job.clock.is_none() {
            job.stopped(moment, StoppedReason::Finished);
            self.counters.delays_over += 1;
        }
        Ok(())
    }
}

/// Whether an attempt was turned back at its gate: refused by us, and never sent.
fn is_turned_back(run: &RunFacts, record: &AttemptRecord) -> bool {
    record.outcome == AttemptOutcome::Refused
        && run.gates.contains(&(record.number, record.token))
        && !run.sends.iter().any(|send| send.attempt == record.number)
}

/// Whether a version of the job says that a run which leaves the wheel at this close is missed and does not run.
fn is_missed(run: &RunFacts, version: &Version, close: &Close) -> bool {
    let (misfire, now) = (&version.definition.misfire, millis(close.closed_at));
    let is_policy = match misfire.policy {
        Policy::Skip => is_reason(close, Skip::Misfire),
        // That another stands for it is seen at the end, in what was recorded (I33).
        Policy::FireOnce => is_reason(close, Skip::Coalesced) && run.origin == Origin::Schedule,
        Policy::FireAll => false,
    };
    // With windows its lateness may count from a later instant; then it is later than this says, not earlier.
    is_policy && now - run.fire_time > misfire::threshold(misfire)
}

/// The wait after an attempt, without jitter.
fn backoff_ms(initial: std::time::Duration, per_mille: u32, max: std::time::Duration, attempt: u32) -> i64 {
    let limit = max.as_millis() as f64;
    let factor = f64::from(per_mille) / 1_000.0;
    let wait = initial.as_millis() as f64 * factor.powi(attempt as i32 - 1);
    wait.min(limit) as i64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_backoff_grows_to_its_limit() {
        let ms = Duration::from_millis;
        let waits = [1, 2, 3, 9].map(|attempt| backoff_ms(ms(100), 2_000, ms(1_000), attempt));
        assert_eq!(waits, [100, 200, 400, 1_000]);
    }
}
