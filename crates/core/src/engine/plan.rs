//! Planning: which fire times of a job become runs now, and where its clock goes.
//!
//! A clock names the first instant that is not decided yet. Everything from there to the horizon is decided here at
//! once: what has passed by the misfire policy, what is to come as reservations. So the clock is written once for all
//! of them, and no instant lies between two decisions.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{Decided, Job, StoppedReason};
use crate::policy::misfire::{self, Lateness, Policy, SkipReason, Skipped};

/// What becomes of a job's fire times up to the horizon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planning {
    /// Passed, and not run.
    pub skipped: Option<Skipped>,
    /// To be run, rising: each with what was decided about its lateness.
    pub runs: Vec<(Timestamp, Decided)>,
    /// The first instant that is left undecided.
    pub next: Option<Timestamp>,
    /// Set if there is none and never will be.
    pub stop: Option<StoppedReason>,
}

/// Plans a job whose clock stands at `next_fire`. Of what planning has done before, `decided` is history whatever the
/// clock says, and up to `reserved` instants may have runs, from before an edit.
pub fn plan(
    job: &Job,
    next_fire: Timestamp,
    (decided, reserved): (Timestamp, Timestamp),
    now: Timestamp,
    horizon: Duration,
) -> Planning {
    if job.definition.schedule.is_delay() {
        // An instant that has a run names no other: the end of that one may have come and gone.
        let beyond = reserved.saturating_add(Duration::from_millis(1));
        return plan_delay(job, next_fire.max(beyond), now);
    }
    let before_first = Timestamp::from_millis(next_fire.as_millis().saturating_sub(1)).max(decided.min(now));
    let until = now.saturating_add(horizon);
    let mut runs: Vec<_> = one_by_one(job, before_first, reserved.min(now)).collect();
    let before_first = runs.last().map_or(before_first, |(last, _)| *last);
    let caught_up = misfire::decide(&job.rule, &job.definition.misfire, before_first, now);
    runs.extend(caught_up.runs.iter().map(|due| (due.at, Decided::from(due.mark))));
    let mut decided_to = now.max(before_first);
    while let Some(at) = job.rule.next_after(decided_to).filter(|at| *at <= until) {
        runs.push((at, Decided::NotYet));
        decided_to = at;
    }
    let next = job.rule.next_after(decided_to);
    let stop = next.is_none().then_some(StoppedReason::Finished);
    Planning { skipped: caught_up.skipped, runs, next, stop }
}

/// Instants that may have runs already are written one by one, and judged like every reservation when they leave the
/// wheel: a range that begins with one of them would be taken for written. There are no more than fit into a horizon.
fn one_by_one(
    job: &Job,
    after: Timestamp,
    until: Timestamp,
) -> impl Iterator<Item = (Timestamp, Decided)> + '_ {
    let next = move |at: &Timestamp| job.rule.next_after(*at).filter(|next| *next <= until);
    std::iter::successors(next(&after), next).take(misfire::RUNS_MAX).map(|at| (at, Decided::NotYet))
}

/// A fixed delay has one instant at a time; the end of its run names the next.
fn plan_delay(job: &Job, at: Timestamp, now: Timestamp) -> Planning {
    let misfire = &job.definition.misfire;
    let lateness = now.as_millis().saturating_sub(at.as_millis());
    let decided = match u64::try_from(lateness).map(|late| misfire.judge(Duration::from_millis(late))) {
        Err(_) => Decided::NotYet,
        Ok(Lateness::OnTime) => Decided::OnTime,
        Ok(Lateness::Late) => Decided::Late,
        Ok(Lateness::Missed) if misfire.policy == Policy::Skip => return skip_delay(job, at, now),
        Ok(Lateness::Missed) => Decided::CaughtUp,
    };
    Planning { runs: vec![(at, decided)], ..Planning::default() }
}

/// Nothing will end, so nothing would name the next instant: the decision does.
fn skip_delay(job: &Job, at: Timestamp, now: Timestamp) -> Planning {
    let skipped = Some(Skipped { from: at, until: at, count: 1, reason: SkipReason::Misfire });
    let next = job.rule.next_after(now);
    let stop = next.is_none().then_some(StoppedReason::Finished);
    Planning { skipped, runs: vec![], next, stop }
}

/// Instants that passed before a change of the job and that were not planned. They need records, because the change
/// moves the clock beyond them: each its own as far as it may have one already, and one for all the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Up to what is reserved.
    pub singles: Vec<Timestamp>,
    /// Beyond that: the first, the last, how many.
    pub range: Option<(Timestamp, Timestamp, u64)>,
}

/// What passed unplanned of a job whose clock stands at `next_fire`.
pub fn passed(job: &Job, next_fire: Timestamp, reserved: Timestamp, now: Timestamp) -> Passed {
    if next_fire > now {
        return Passed::default();
    }
    if job.definition.schedule.is_delay() {
        return Passed { singles: vec![next_fire], range: None };
    }
    let before_first = Timestamp::from_millis(next_fire.as_millis().saturating_sub(1));
    let singles: Vec<_> = one_by_one(job, before_first, reserved.min(now)).map(|(at, _)| at).collect();
    let after = singles.last().copied().unwrap_or(before_first);
    let after_now = now.saturating_add(Duration::from_millis(1));
    let first = job.rule.next_after(after).filter(|first| *first <= now);
    let range = first.map(|first| {
        let last = job.rule.last_before(after_now).unwrap_or(first);
        (first, last, job.rule.count(first, after_now).max(1))
    });
    Passed { singles, range }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{at, compile, definition, delay, every, job};
    use super::*;
    use crate::model::{Schedule, ScheduleKind};
    use crate::policy::Misfire;

    const HORIZON: Duration = Duration::from_secs(5);
    const NOTHING: (Timestamp, Timestamp) = (Timestamp::MIN, Timestamp::MIN);

    fn starts(planning: &Planning) -> Vec<String> {
        let show = |(at, decided): &(Timestamp, Decided)| format!("{} {decided}", &at.to_string()[11..19]);
        planning.runs.iter().map(show).collect()
    }

    #[test]
    fn what_enters_the_horizon_is_reserved_and_the_clock_goes_past_it() {
        let planning = plan(&job(every(2)), at("10:00:00"), NOTHING, at("09:59:57"), HORIZON);
        assert_eq!(starts(&planning), ["10:00:00 not_yet", "10:00:02 not_yet"]);
        assert_eq!(planning.next, Some(at("10:00:04")));
        assert_eq!((planning.skipped, planning.stop), (None, None));
    }

    #[test]
    fn what_passed_follows_the_misfire_policy_and_what_comes_is_reserved_in_the_same_plan() {
        let planning =
            plan(&job(every(60)), at("09:00:00"), NOTHING, at("10:00:03"), Duration::from_secs(60));
        assert_eq!(starts(&planning), ["09:59:00 caught_up", "10:00:00 on_time", "10:01:00 not_yet"]);
        let skipped = planning.skipped.unwrap();
        assert_eq!((skipped.from, skipped.until, skipped.count), (at("09:00:00"), at("09:58:00"), 59));
        assert_eq!(planning.next, Some(at("10:02:00")));
    }

    #[test]
    fn a_job_without_a_further_instant_is_stopped_with_its_last_plan() {
        let once = plan(
            &job(ScheduleKind::Once { at: at("10:00:00") }),
            at("10:00:00"),
            NOTHING,
            at("09:59:58"),
            HORIZON,
        );
        assert_eq!(starts(&once), ["10:00:00 not_yet"]);
        assert_eq!((once.next, once.stop), (None, Some(StoppedReason::Finished)));
        let bounded = Schedule { kind: every(1), from: None, until: Some(at("10:00:00")) };
        let planning = plan(&job(bounded), at("09:59:59"), NOTHING, at("09:59:58"), HORIZON);
        assert_eq!((planning.runs.len(), planning.stop), (2, Some(StoppedReason::Finished)));
    }

    #[test]
    fn a_fixed_delay_is_reserved_once_and_then_waits_for_its_end() {
        let planning = plan(&job(delay(30)), at("10:00:00"), NOTHING, at("09:59:58"), HORIZON);
        assert_eq!(starts(&planning), ["10:00:00 not_yet"]);
        assert_eq!((planning.next, planning.stop), (None, None));
        let late = plan(&job(delay(30)), at("10:00:00"), NOTHING, at("11:00:00"), HORIZON);
        assert_eq!(starts(&late), ["10:00:00 caught_up"]);
    }

    #[test]
    fn a_fixed_delay_that_skips_what_it_missed_starts_anew_and_never_stands_still() {
        let mut skipping = definition(delay(30));
        skipping.misfire = Misfire { policy: Policy::Skip, ..Misfire::default() };
        let planning = plan(&compile(skipping), at("10:00:00"), NOTHING, at("11:00:00"), HORIZON);
        assert_eq!((planning.runs.len(), planning.next), (0, Some(at("11:00:30"))));
        assert_eq!(planning.skipped.unwrap().count, 1);
    }

    #[test]
    fn what_is_decided_is_not_planned_again_whatever_the_clock_says() {
        let decided = (at("09:59:00"), at("10:00:00"));
        let planning = plan(&job(every(60)), Timestamp::MIN, decided, at("10:00:30"), HORIZON);
        assert_eq!(starts(&planning), ["10:00:00 not_yet"]);
        let planning = plan(&job(delay(30)), at("10:00:00"), decided, at("09:59:58"), HORIZON);
        assert_eq!(planning.runs[0].0.as_millis(), at("10:00:00").as_millis() + 1);
    }

    #[test]
    fn an_absurd_clock_is_planned_like_any_other() {
        let planning = plan(&job(every(3_600)), Timestamp::MIN, NOTHING, at("10:00:00"), HORIZON);
        assert!(planning.skipped.is_some_and(|skipped| skipped.count > 400_000));
        assert_eq!(planning.next, Some(at("11:00:00")));
        let far = plan(&job(every(3_600)), Timestamp::MAX, NOTHING, at("10:00:00"), HORIZON);
        assert_eq!((far.runs.len(), far.stop), (0, Some(StoppedReason::Finished)));
    }

    #[test]
    fn instants_that_may_have_runs_are_written_one_by_one_and_never_begin_a_range() {
        let planning =
            plan(&job(every(2)), at("10:00:02"), (Timestamp::MIN, at("10:00:05")), at("11:00:01"), HORIZON);
        assert_eq!(starts(&planning)[..3], ["10:00:02 not_yet", "10:00:04 not_yet", "10:59:54 caught_up"]);
        assert_eq!(planning.skipped.unwrap().from, at("10:00:06"));
        let passed = passed(&job(every(2)), at("10:00:02"), at("10:00:05"), at("10:00:11"));
        assert_eq!(passed.singles, [at("10:00:02"), at("10:00:04")]);
        assert_eq!(passed.range, Some((at("10:00:06"), at("10:00:10"), 3)));
    }

    #[test]
    fn what_passed_before_a_change_is_one_record() {
        let job = job(every(60));
        let passed = |next_fire, now| passed(&job, next_fire, Timestamp::MIN, now).range;
        assert_eq!(passed(at("10:00:00"), at("09:59:59")), None);
        assert_eq!(passed(at("10:00:00"), at("10:00:00")), Some((at("10:00:00"), at("10:00:00"), 1)));
        assert_eq!(passed(at("10:00:00"), at("10:05:30")), Some((at("10:00:00"), at("10:05:00"), 6)));
    }
}
