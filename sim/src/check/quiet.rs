//! The end: after everything that matters has healed, nothing is left over, and the store holds what was seen.

use std::collections::VecDeque;

use punctual_core::model::{JobId, JobState, Origin, RunId, Skip, StoppedReason, Target};
use punctual_core::policy::Block;
use punctual_store::memory::{Dump, JobDump, RunDump};
use rustc_hash::FxHashMap;

use super::{Checked, Checker, JobFacts, Moment, RunFacts, hold, show};
use crate::link::Micros;

/// How long ago something must have been due to count as left over, in milliseconds.
const PATIENCE_MS: i64 = 60_000;

/// How long nothing may be sent while something waits in a queue.
pub(super) const QUEUE_US: Micros = 60_000_000;

/// The number of HTTP sends a minute that two places manage for certain, each free again after half a second. Where
/// fewer went, no run has waited for places that others needed.
const SENDS_A_MINUTE: usize = 60;

/// A job that sent so often within three minutes may be in the slow pool, which has one place.
const SLOW_SENDS: usize = 10;
pub(super) const SLOW_US: Micros = 3 * QUEUE_US;

/// What healed, and when.
#[derive(Clone, Debug)]
pub struct Quiet {
    /// The moment of healing.
    pub since: Moment,
    /// Apps whose executors are well, by their number.
    pub healthy: Vec<bool>,
    /// Whether there are so few places for HTTP sends that what is due may wait for long.
    pub is_narrow: bool,
    /// How many times a shard had been taken when the cluster should have come to rest.
    pub moves_at_rest: u64,
    /// Commands that have not been answered.
    pub unanswered: usize,
}

impl Checker {
    /// Looks at everything once more.
    pub fn finish(&self, moment: Moment, dump: &Dump, quiet: &Quiet) -> Checked {
        self.check_kept(dump)?;
        for job in &dump.jobs {
            self.check_job(moment, job, quiet)?;
        }
        for run in &self.runs {
            self.check_run(moment, run, quiet)?;
        }
        self.check_coalesced()?;
        for id in self.submitted.acknowledged() {
            hold!("I16", self.by_id.contains_key(id), "run {id} was acknowledged and is gone");
        }
        let refused = self.submitted.refused_and_there();
        hold!("I17", refused.is_none(), "a client was told that nothing was written: {refused:?}");
        hold!("L12", quiet.unanswered == 0, "{} commands are not answered", quiet.unanswered);
        let moves = self.leases.moves - quiet.moves_at_rest;
        hold!(
            "I23 leases",
            moves == 0,
            "leases still move: {moves} times after the cluster should have come to rest"
        );
        Ok(())
    }

    /// An instant is coalesced into a later one of its job, and that has a record, whatever became of it.
    fn check_coalesced(&self) -> Checked {
        let planned = || self.runs.iter().filter(|run| run.origin == Origin::Schedule);
        let mut latest: FxHashMap<JobId, i64> = FxHashMap::default();
        for run in planned() {
            let last = latest.entry(run.job).or_insert(i64::MIN);
            *last = run.fire_time.max(*last);
        }
        for run in planned().filter(|run| !self.jobs[&run.job].is_poisoned) {
            let is_coalesced = run.close.as_ref().is_some_and(|close| close.reason == Skip::Coalesced.name());
            hold!(
                "I33",
                !is_coalesced || latest[&run.job] > run.fire_time,
                "run {} of job {} for {} is coalesced, and no later instant of the job has a record",
                run.id,
                run.job,
                show(run.fire_time)
            );
        }
        Ok(())
    }

    /// Every run that was seen is kept as it was seen, and nothing else is.
    fn check_kept(&self, dump: &Dump) -> Checked {
        for kept in &dump.runs {
            self.check_row(kept)?;
        }
        let mut kept = dump.runs.iter().map(|kept| kept.run.id).peekable();
        let mut seen: Vec<&RunFacts> = self.runs.iter().collect();
        seen.sort_unstable_by_key(|run| run.id);
        for run in seen {
            let is_kept = kept.next_if_eq(&run.id).is_some();
            let day_end = punctual_core::model::RunId::day_start(run.id.day() + 1).as_millis();
            let may_be_gone = !run.is_open() && day_end <= self.pruned_before;
            hold!("I22", is_kept || may_be_gone, "run {} was written and is gone: {run:?}", run.id);
        }
        let more = kept.next();
        hold!("I22", more.is_none(), "run {more:?} is kept and was never seen to be written");
        Ok(())
    }

    fn check_row(&self, kept: &RunDump) -> Checked {
        let id = kept.run.id;
        let Some(seen) = self.run(id) else { return Ok(()) };
        let outcome = |close: &super::runs::CloseFact| close.outcome;
        let (now, then) = (kept.close.as_ref().map(|close| close.outcome), seen.close.as_ref().map(outcome));
        hold!("I8", now == then, "run {id} was closed as {then:?} and is {now:?}");
        let ended: Vec<_> = kept.attempts.iter().map(|record| (record.number, record.outcome)).collect();
        let mut seen_ended = seen.ended.clone();
        seen_ended.sort_unstable();
        let open = seen.parts.iter().filter(|part| self.runs[**part as usize].is_open()).count();
        let (left, seen_left) =
            (kept.join.map(|join| join.open as usize), (!seen.parts.is_empty()).then_some(open));
        hold!("B4", left == seen_left, "run {id} waits for {left:?} parts, and {seen_left:?} are open");
        hold!(
            "I8",
            ended == seen_ended,
            "the attempts of run {id} ended as {seen_ended:?} and are {ended:?}"
        );
        Ok(())
    }

    fn check_job(&self, moment: Moment, kept: &JobDump, quiet: &Quiet) -> Checked {
        let id = kept.id;
        let Some(job) = self.jobs.get(&id) else {
            return Err(super::Violation::new("I15", format!("job {id} is kept and was never seen")));
        };
        let current = job.current();
        hold!(
            "I15",
            kept.version == current.version,
            "job {id} has version {}, not {}",
            kept.version,
            current.version
        );
        hold!("I15", kept.state == current.state, "job {id} is {:?}, not {:?}", kept.state, current.state);
        let is_same = job.is_poisoned || kept.definition == *current.definition;
        hold!("I15", is_same, "the definition of job {id} is not the one that was written");
        let counts = [kept.counts.succeeded, kept.counts.failed, kept.counts.not_run];
        hold!("I22", counts == job.counts, "job {id} counts {counts:?}, and {:?} were seen", job.counts);
        self.check_clock(moment, kept, job, quiet)
    }

    fn check_clock(&self, moment: Moment, kept: &JobDump, job: &JobFacts, quiet: &Quiet) -> Checked {
        let Some(next) = kept.next_fire.filter(|_| kept.state.is_enabled()) else {
            let is_stuck = kept.state.is_enabled() && job.is_delay() && !job.is_poisoned;
            let has_run = || self.runs.iter().any(|run| run.job == kept.id && run.is_open());
            hold!(
                "I23 delay",
                !is_stuck || has_run(),
                "fixed delay {} waits for a run that is not there",
                kept.id
            );
            return Ok(());
        };
        let long_ago = moment.store - PATIENCE_MS;
        let is_due = next.as_millis() < long_ago && quiet.since.store < long_ago;
        hold!("I23 clock", !is_due, "job {} stands at {next}, and it is {}", kept.id, show(moment.store));
        Ok(())
    }

    fn check_run(&self, moment: Moment, run: &RunFacts, quiet: &Quiet) -> Checked {
        let job = &self.jobs[&run.job];
        let outcome = run.close.as_ref().map(|close| close.outcome);
        let is_success = outcome == Some(punctual_core::model::Outcome::Succeeded);
        hold!(
            "I10",
            !is_success || !run.taken.is_empty() || !run.parts.is_empty(),
            "run {} succeeded, and nobody received it",
            run.id
        );
        if !run.is_open() || job.is_poisoned {
            return Ok(());
        }
        if !run.parts.is_empty() {
            return self.check_whole_at_rest(moment, run);
        }
        let state = &job.current().state;
        let may_be_slow = self.is_behind(moment, run) || self.is_in_a_queue(moment, job, quiet);
        if run.is_parked {
            let may_wait = !matches!(state, JobState::Enabled | JobState::Deleted) || may_be_slow;
            hold!(
                "I23 parked",
                may_wait,
                "run {} of job {} is parked, and its job is {state:?}",
                run.id,
                run.job
            );
            return Ok(());
        }
        if matches!(state, JobState::Stopped(StoppedReason::Quarantined(_))) {
            return Ok(());
        }
        self.check_place(moment, run, quiet)?;
        let is_left_over = is_overdue(moment, run, job, quiet) && !may_be_slow;
        hold!(
            "I23",
            !is_left_over,
            "run {} of job {} was due at {} and is open at {}: {run:?}",
            run.id,
            run.job,
            show(run.ready_at),
            show(moment.store)
        );
        Ok(())
    }

    /// No HTTP run of a healthy app waits for a place, whatever hangs elsewhere.
    pub fn check_places(&self, moment: Moment, quiet: &Quiet) -> Checked {
        let waits = |run: &&RunFacts| run.is_open() && !run.is_parked && run.parts.is_empty();
        self.runs.iter().filter(waits).try_for_each(|run| self.check_place(moment, run, quiet))
    }

    fn check_place(&self, moment: Moment, run: &RunFacts, quiet: &Quiet) -> Checked {
        let job = &self.jobs[&run.job];
        let current = job.current();
        let is_set_aside = matches!(current.state, JobState::Stopped(StoppedReason::Quarantined(_)));
        let is_http = matches!(current.definition.target, Target::Http(_));
        // It waits for another run then, and not for a place.
        let is_keyed = !run.overrides.exclusive(&current.definition).is_empty();
        let is_exempt = job.is_poisoned || is_set_aside || is_keyed;
        if !quiet.is_narrow || !is_http || is_exempt || run.has_attempt_open() {
            return Ok(());
        }
        let waits = is_overdue(moment, run, job, quiet)
            && !self.is_behind(moment, run)
            && !self.is_in_a_queue(moment, job, quiet);
        hold!(
            "I32",
            !waits,
            "run {} of job {} was due at {} and waits for a place at {}: {run:?}",
            run.id,
            run.job,
            show(run.ready_at),
            show(moment.store)
        );
        Ok(())
    }

    /// What fell into parts waits for one of them, which is judged by itself.
    fn check_whole_at_rest(&self, moment: Moment, run: &RunFacts) -> Checked {
        let parts = || run.parts.iter().map(|index| &self.runs[*index as usize]);
        let is_awaited = |part: &RunFacts| {
            let recently = moment.store - PATIENCE_MS;
            part.close.as_ref().is_none_or(|close| close.closed_at >= recently)
        };
        hold!("I23 whole", parts().any(is_awaited), "run {} is open, and its parts are not: {run:?}", run.id);
        Ok(())
    }

    /// Whether a run waits for a place to send from, of which there are few, and so many others go meanwhile that there is
    /// none for it; or its job is slow.
    fn is_in_a_queue(&self, moment: Moment, job: &JobFacts, quiet: &Quiet) -> bool {
        let is_http = matches!(job.current().definition.target, Target::Http(_));
        let within = |sends: &VecDeque<Micros>, span: Micros| {
            sends.iter().rev().take_while(|sent| moment.now - **sent < span).count()
        };
        let may_be_slow = || within(&job.sends, SLOW_US) > SLOW_SENDS;
        quiet.is_narrow && is_http && (within(&self.http_sends, QUEUE_US) >= SENDS_A_MINUTE || may_be_slow())
    }

    /// Whether a run waits for the place of another of its job, whose next attempt is not due yet: so it is for long when
    /// the clock was set back.
    fn is_behind(&self, moment: Moment, run: &RunFacts) -> bool {
        let is_ahead = |other: &&RunFacts| {
            other.job == run.job && other.id != run.id && other.is_open() && !other.gates.is_empty()
        };
        let job = &self.jobs[&run.job];
        let is_limited = job.current().definition.block != Block::Concurrent(None);
        // More may be asked of a job than it can do, one after the other; then there is always a queue.
        let is_moving = moment.now - job.last_sent < QUEUE_US;
        let is_later = |other: &RunFacts| other.ready_at >= moment.store - PATIENCE_MS;
        // A whole waits for its parts, and those may wait for a window.
        let part = |index: &u32| &self.runs[*index as usize];
        let has_later_part =
            |other: &RunFacts| other.parts.iter().map(part).any(|part| part.is_open() && is_later(part));
        let is_held_up =
            || self.runs.iter().filter(is_ahead).any(|other| is_later(other) || has_later_part(other));
        is_limited && (is_moving || is_held_up()) || self.is_behind_a_key(moment, run)
    }

    /// Whether a run waits for an exclusive key that another has, which may hang until its time is up, or that others had just
    /// now, one after the other.
    fn is_behind_a_key(&self, moment: Moment, run: &RunFacts) -> bool {
        let definition = &self.jobs[&run.job].current().definition;
        let is_open = |holder: &RunId| *holder != run.id && self.run(*holder).is_some_and(RunFacts::is_open);
        let is_held = |key| self.keys.get(key).is_some_and(is_open);
        let is_moving = |key| self.keys_sent.get(key).is_some_and(|sent| moment.now - sent < QUEUE_US);
        run.overrides.exclusive(definition).iter().any(|key| is_held(key) || is_moving(key))
    }
}

/// Whether a run of an app that is well should have been sent a minute ago.
fn is_overdue(moment: Moment, run: &RunFacts, job: &JobFacts, quiet: &Quiet) -> bool {
    let is_healthy = app(&job.current().definition.app).is_some_and(|app| quiet.healthy[app]);
    is_healthy && run.ready_at < moment.store - PATIENCE_MS
}

/// The number in an app's name.
pub(crate) fn app(name: &str) -> Option<usize> {
    name.strip_prefix('a')?.parse().ok()
}
