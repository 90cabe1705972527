//! What is known of jobs: their versions, their clocks, and that a clock passes no instant without a record.

use std::collections::VecDeque;
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::model::{
    Close, Decided, Definition, JobId, JobState, NewRun, Origin, Outcome, RunId, ScheduleKind, Skip,
    StoppedReason,
};
use punctual_node::ports::{Change, Changed, Plan};

use super::instants::Instants;
use super::{Begun, Checked, Checker, Moment, hold, misfire, show};
use crate::link::Micros;

/// One version of a job.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its number.
    pub version: u64,
    /// Whether it fires.
    pub state: JobState,
    /// What people wrote.
    pub definition: Arc<Definition>,
    /// What that names; none if it means nothing.
    pub instants: Option<Arc<Instants>>,
    /// When it was written.
    pub applied: Micros,
}

/// What is known of a job.
#[derive(Clone, Debug)]
pub struct JobFacts {
    /// Oldest first, never empty.
    pub versions: Vec<Version>,
    /// The next instant that is not planned.
    pub clock: Option<i64>,
    /// Nonsense was put into its row; from then on only its own promises are void.
    pub is_poisoned: bool,
    /// The last version whose change was answered as in force.
    pub answered: u64,
    /// Runs that were sent and have not ended, by their place.
    pub in_flight: Vec<u32>,
    /// When a run of it was last sent.
    pub last_sent: crate::link::Micros,
    /// When runs of it were sent, within the last minutes.
    pub sends: VecDeque<crate::link::Micros>,
    /// Every instant up to here was decided, under whatever version.
    pub decided: i64,
    /// The latest instant that planning gave a run.
    pub reserved: i64,
    /// The last instant of the last record of many.
    pub ranged: i64,
    /// Instants that were decided as closed ranges or runs, for the sum: succeeded, failed, not run.
    pub counts: [u64; 3],
}

impl JobFacts {
    /// The version it has now.
    pub fn current(&self) -> &Version {
        self.versions.last().expect("a job is written with its first version")
    }

    /// The version of that number; the latest of them, since one that is over is stopped without a new number.
    pub fn version(&self, number: u64) -> Option<&Version> {
        self.versions.iter().rev().find(|version| version.version == number)
    }

    /// It was stopped, and not by a person: the number stays.
    pub fn stopped(&mut self, moment: Moment, reason: StoppedReason) {
        let state = JobState::Stopped(reason);
        self.versions.push(Version { state, applied: moment.now, ..self.current().clone() });
    }

    /// Whether it counts from the end of its last run.
    pub fn is_delay(&self) -> bool {
        self.current().definition.schedule.is_delay()
    }
}

impl Checker {
    /// Nonsense was put into a job's row.
    pub fn poisoned(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.is_poisoned = true;
        }
    }

    /// A change was answered as in force.
    pub fn in_force(&mut self, id: JobId, version: u64) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.answered = job.answered.max(version);
        }
    }

    pub(super) fn changed(&mut self, moment: Moment, change: &Change, done: Changed) -> Checked {
        let id = done.job;
        let before = self.jobs.get(&id).map(|job| (job.current().clone(), job.clock, job.is_poisoned));
        let decided = self.jobs.get(&id).map_or(i64::MIN, |job| job.decided);
        hold!(
            "I15",
            before.is_some() == change.job.is_some(),
            "job {id} is created twice, or changed unseen"
        );
        if let Some((old, clock, _)) = &before {
            let asked = change.job.map(|(_, version)| version);
            hold!(
                "I15",
                asked == Some(old.version),
                "job {id} is changed from {asked:?} and had {}",
                old.version
            );
            hold!("I15", old.state != JobState::Deleted, "job {id} is changed although it is deleted");
            hold!(
                "I15",
                done.version > old.version,
                "job {id} goes from version {} to {}",
                old.version,
                done.version
            );
            let expected = change.clock.expected.map(|at| at.as_millis());
            hold!(
                "L2",
                expected == *clock,
                "job {id} is changed with its clock at {expected:?}, and it was {clock:?}"
            );
        }
        let is_poisoned = before.as_ref().is_some_and(|(_, _, poisoned)| *poisoned);
        if matches!(change.state, JobState::Stopped(StoppedReason::Quarantined(_))) {
            let was_quarantined = before.as_ref().is_some_and(|(old, ..)| old.state == change.state)
                && change.definition.is_none();
            hold!(
                "I18",
                is_poisoned || was_quarantined,
                "job {id} is quarantined, and nothing is wrong with it"
            );
            self.counters.quarantined += 1;
        }
        if let (Some((old, clock, _)), false) = (&before, is_poisoned) {
            self.check_passed(moment, id, old, *clock, change)?;
        }
        for (run, close) in &change.clock.passed {
            self.counters.edit_recorded_passed += 1;
            self.passed_over(moment, run, close)?;
        }
        let version = match (&change.definition, before) {
            (Some(definition), _) => Version {
                version: done.version,
                state: change.state.clone(),
                instants: Instants::of(&definition.schedule).map(Arc::new),
                definition: Arc::new(definition.clone()),
                applied: moment.now,
            },
            (None, Some((old, ..))) => {
                Version { version: done.version, state: change.state.clone(), applied: moment.now, ..old }
            }
            (None, None) => {
                return Err(super::Violation::new("I15", format!("job {id} is created from nothing")));
            }
        };
        let clock = change.clock.next_fire.map(|at| at.as_millis());
        if !is_poisoned || change.definition.is_some() {
            check_next(id, &version, change.at.as_millis().max(decided), clock)?;
        }
        self.counters.edited_back_and_forth += u64::from(self.is_taken_back(id, &version, moment));
        match self.jobs.get_mut(&id) {
            Some(job) => {
                let is_repaired = change.definition.is_some();
                job.is_poisoned &= !is_repaired;
                job.versions.push(version);
                job.clock = clock;
                job.decided = job.decided.max(change.at.as_millis());
            }
            None => {
                let facts = JobFacts {
                    versions: vec![version],
                    clock,
                    is_poisoned: false,
                    answered: 0,
                    in_flight: Vec::new(),
                    last_sent: 0,
                    sends: VecDeque::new(),
                    decided: change.at.as_millis(),
                    reserved: i64::MIN,
                    ranged: i64::MIN,
                    counts: [0; 3],
                };
                self.jobs.insert(id, facts);
            }
        }
        Ok(())
    }

    /// Whether a definition is the one before the last, within seconds.
    fn is_taken_back(&self, id: JobId, version: &Version, moment: Moment) -> bool {
        let versions = self.jobs.get(&id).map_or(&[][..], |job| &job.versions);
        let [.., earlier, last] = versions else { return false };
        let is_soon = moment.now - last.applied < 10_000_000;
        is_soon && earlier.definition == version.definition && last.definition != version.definition
    }

    /// Instants that the old version named up to the change and that were not planned must be in the record of the
    /// change.
    fn check_passed(
        &self,
        moment: Moment,
        id: JobId,
        old: &Version,
        clock: Option<i64>,
        change: &Change,
    ) -> Checked {
        let (Some(clock), Some(instants), at) = (clock, &old.instants, change.at.as_millis()) else {
            return Ok(());
        };
        if !old.state.is_enabled() || clock > at {
            return Ok(());
        }
        let is_delay = old.definition.schedule.is_delay();
        let passed = if is_delay { vec![clock] } else { instants.between(clock, at + 1) };
        let (Some(first), Some(last)) = (passed.first(), passed.last()) else { return Ok(()) };
        let told: Vec<(i64, i64, u64)> =
            change.clock.passed.iter().map(|(run, close)| extent(run, close)).collect();
        let singles = told.iter().take_while(|(from, until, _)| from == until).count();
        let is_right = match told.len() - singles {
            0 => told.iter().map(|one| one.0).eq(passed.iter().copied()),
            1 => {
                let (from, until, count) = told[singles];
                told[..singles].iter().map(|one| one.0).eq(passed[..singles].iter().copied())
                    && passed[singles..].first() == Some(&from)
                    && *last == until
                    && (passed.len() - singles) as u64 == count
            }
            _ => false,
        };
        hold!(
            "L2",
            is_right,
            "the change of job {id} at {} records {told:?}, and {} passed from {} to {} ({moment:?})",
            change.at,
            passed.len(),
            show(*first),
            show(*last)
        );
        Ok(())
    }

    pub(super) fn planned(
        &mut self,
        moment: Moment,
        begun: Begun,
        plan: &Plan,
        written: &[RunId],
    ) -> Checked {
        let id = plan.clock.job;
        let Some(job) = self.jobs.get(&id) else {
            return Err(super::Violation::new("I3", format!("job {id} is planned and was never created")));
        };
        let (is_poisoned, version) = (job.is_poisoned, job.current().clone());
        let clock = plan.clock.next_fire.as_millis();
        hold!(
            "L2",
            job.clock == Some(clock) || job.is_poisoned,
            "job {id} is planned from {}, and its clock says {:?}",
            show(clock),
            job.clock.map(show)
        );
        hold!(
            "I18",
            version.version == plan.clock.version && version.state.is_enabled(),
            "job {id} is planned at version {} while {:?} at version {}",
            plan.clock.version,
            version.state,
            version.version
        );
        let is_quarantined = matches!(plan.stop, Some(StoppedReason::Quarantined(_)));
        hold!(
            "G9",
            !is_quarantined || job.is_poisoned,
            "job {id} is quarantined, and nothing is wrong with it"
        );
        if is_quarantined {
            self.counters.quarantined += 1;
        } else if !is_poisoned {
            // A step looks at the clock once, when it begins; what it asks the store until it plans takes time.
            let (now, latest) = (plan.decided_to.as_millis(), begun.node_now.unwrap_or(i64::MAX));
            hold!("I4", now <= latest, "job {id} is planned as of {}, and it is {}", show(now), show(latest));
            self.check_plan(id, &version, now, plan)?;
        }
        for run in &plan.runs {
            if written.contains(&run.id) {
                self.wrote(moment, run)?;
                continue;
            }
            self.counters.planned_over_reservation += 1;
            let is_there = self.named.contains_key(&(id, run.fire_time.as_millis()));
            hold!("I2", is_there, "job {id} passes {} and no run is written", run.fire_time);
        }
        // After the runs: some of them may be earlier than what is passed over.
        if let Some((run, close)) = &plan.skipped {
            self.passed_over(moment, run, close)?;
        }
        let job = self.jobs.get_mut(&id).expect("it was there above");
        job.clock = plan.next.map(|at| at.as_millis());
        job.decided = job.decided.max(plan.decided_to.as_millis());
        let last = plan.runs.iter().map(|run| run.fire_time.as_millis()).max();
        job.reserved = job.reserved.max(last.unwrap_or(i64::MIN));
        if let Some(reason) = &plan.stop {
            job.stopped(moment, reason.clone());
        }
        Ok(())
    }

    /// Every instant from the clock to where it goes is in the plan, once, as the misfire table says.
    fn check_plan(&mut self, id: JobId, version: &Version, now: i64, plan: &Plan) -> Checked {
        let clock = plan.clock.next_fire.as_millis();
        let told: Vec<(i64, Decided)> =
            plan.runs.iter().map(|run| (run.fire_time.as_millis(), run.decided)).collect();
        let skipped = plan.skipped.as_ref().map(|(run, close)| extent(run, close));
        let reason = plan.skipped.as_ref().map(|(_, close)| close.reason.to_string());
        let misfire = &version.definition.misfire;
        if let ScheduleKind::Delay { delay } = version.definition.schedule.kind {
            // An instant that has a run names no other.
            let clock = clock.max(self.jobs[&id].reserved.saturating_add(1));
            let table = misfire::decide(&[clock], misfire, now.max(clock));
            let decided =
                if now < clock { Decided::NotYet } else { *table.runs.first().unwrap_or(&Decided::NotYet) };
            let is_run = told == [(clock, decided)] && skipped.is_none() && plan.next.is_none();
            let next = bounded(version, now + delay.as_millis() as i64);
            let is_skip = table.skipped == 1
                && told.is_empty()
                && skipped == Some((clock, clock, 1))
                && plan.next.map(|at| at.as_millis()) == next;
            hold!("I5", is_run || is_skip, "fixed delay {id} at {} is planned as {plan:?}", show(now));
            return Ok(());
        }
        let Some(instants) = &version.instants else { return Ok(()) };
        let end = plan.next.map_or(i64::MAX, |at| at.as_millis());
        hold!(
            "I3",
            plan.next.is_none() || instants.names(end),
            "the clock of job {id} goes to {:?}, which is not named",
            plan.next
        );
        let named = instants.between(clock, end);
        // What may have a run from before an edit is a reservation like any other.
        let reserved = self.jobs[&id].reserved.min(now);
        let (singles, rest) = named.split_at(named.partition_point(|at| *at <= reserved));
        let (passed, coming) = rest.split_at(rest.partition_point(|at| *at <= now));
        let table = misfire::decide(passed, misfire, now);
        let mut expected: Vec<(i64, Decided)> = singles.iter().map(|at| (*at, Decided::NotYet)).collect();
        expected.extend(passed[table.skipped..].iter().copied().zip(table.runs));
        expected.extend(coming.iter().map(|at| (*at, Decided::NotYet)));
        hold!(
            "I2",
            told.iter().map(|run| run.0).eq(expected.iter().map(|run| run.0)),
            "job {id} at {} from {} to {:?} plans {told:?}, expected {expected:?}; skipped {skipped:?}",
            show(now),
            show(clock),
            plan.next
        );
        hold!("I5", told == expected, "job {id} at {} plans {told:?}, expected {expected:?}", show(now));
        let left_out = &passed[..table.skipped];
        let range =
            left_out.first().zip(left_out.last()).map(|(from, until)| (*from, *until, left_out.len() as u64));
        hold!("I5", skipped == range, "job {id} at {} skips {skipped:?}, expected {range:?}", show(now));
        hold!(
            "I5",
            range.is_none() || reason.as_deref() == Some(table.reason.name()),
            "job {id} skips because {reason:?}, expected {}",
            table.reason
        );
        if passed.len() > 1 {
            self.counters.missed(misfire.policy);
        }
        for (at, _) in &told {
            let (is_gap, is_overlap) = instants.oddities(*at);
            self.counters.gap_crossed += u64::from(is_gap);
            self.counters.overlap_crossed += u64::from(is_overlap);
        }
        hold!(
            "I2",
            plan.stop.is_some() == plan.next.is_none(),
            "job {id} goes on to {:?} and is stopped: {:?}",
            plan.next,
            plan.stop
        );
        Ok(())
    }

    /// A record of instants that do not run was written; one of a single instant stays as it is if it has a run.
    fn passed_over(&mut self, moment: Moment, run: &NewRun, close: &Close) -> Checked {
        let (from, until, count) = extent(run, close);
        let id = run.job;
        hold!(
            "I5",
            close.outcome == Outcome::Skipped,
            "instants of job {id} are passed over as {}",
            close.outcome
        );
        let is_named = run.is_named();
        if is_named && self.named.contains_key(&(id, from)) {
            self.counters.passed_over_reservation += 1;
            return Ok(());
        }
        let Some(job) = self.jobs.get(&id) else { return Ok(()) };
        let instants = job.current().instants.clone().filter(|_| !job.is_poisoned && !is_named);
        if let Some(instants) = instants {
            let inside = instants.between(from, until + 1);
            let is_planned = |at: &&i64| {
                self.named
                    .get(&(id, **at))
                    .is_some_and(|run| self.runs[*run as usize].origin == Origin::Schedule)
            };
            let twice = inside.iter().find(is_planned).map(|at| show(*at));
            hold!(
                "I1",
                twice.is_none(),
                "job {id} skips from {} to {}, and {twice:?} has a run",
                show(from),
                show(until)
            );
        }
        self.wrote_closed(moment, run, close)?;
        let job = self.jobs.get_mut(&id).expect("it was there above");
        job.ranged = job.ranged.max(until);
        job.counts[2] += count;
        Ok(())
    }
}

/// The first and the last instant of a record, and how many there are.
fn extent(run: &NewRun, close: &Close) -> (i64, i64, u64) {
    let from = run.fire_time.as_millis();
    close.range.map_or((from, from, 1), |(until, count)| (from, until.as_millis(), count))
}

/// An instant within the bounds of a schedule that counts from the end of a run.
fn bounded(version: &Version, at: i64) -> Option<i64> {
    let schedule = &version.definition.schedule;
    let at = schedule.from.map_or(at, |from| at.max(from.as_millis()));
    schedule.until.is_none_or(|until| at <= until.as_millis()).then_some(at)
}

/// Where the clock of a job stands after a change.
fn check_next(id: JobId, version: &Version, at: i64, clock: Option<i64>) -> Checked {
    if !version.state.is_enabled() {
        return Ok(());
    }
    let expected = match (&version.definition.schedule.kind, &version.instants) {
        (ScheduleKind::Delay { delay }, _) => bounded(version, at + delay.as_millis() as i64),
        // Accepted at the very instant it names.
        (ScheduleKind::Once { .. }, Some(instants)) => instants.first_after(at - 1),
        (_, Some(instants)) => instants.first_after(at),
        (_, None) => return Ok(()),
    };
    hold!(
        "I3",
        clock == expected,
        "after its change at {} the clock of job {id} says {:?}, expected {:?}",
        show(at),
        clock.map(show),
        expected.map(show)
    );
    Ok(())
}

/// The reason that a record gives.
pub(super) fn is_reason(close: &Close, skip: Skip) -> bool {
    close.reason == skip.name()
}

/// The instant of a record.
pub(super) fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}
