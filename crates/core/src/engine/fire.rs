//! Firing: whether a run that is due is still wanted, and in which order runs go out.

use std::time::Duration;

use calendar::{ExclusionVerdict as Verdict, Timestamp};

use crate::model::{Attempt, Decided, Job, JobState, Origin, RunId, Skip, StoppedReason};
use crate::policy::class::{self, ClassOrdinal};
use crate::policy::misfire::{Lateness, Policy};

/// A run that is due, as far as its fate depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where it comes from.
    pub origin: Origin,
    /// The instant that was named for it.
    pub fire_time: Timestamp,
    /// When it became ready: then, or when its wait ended.
    pub ready_at: Timestamp,
    /// The attempt that is to be made.
    pub attempt: Attempt,
    /// What was decided about its lateness.
    pub decided: Decided,
    /// Whether it was parked, and called back to be ready when it is.
    pub is_called_back: bool,
}

/// What the job, as it stands now, wants done with a run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Start it; this is what its lateness is taken for.
    Start(Decided),
    /// Close it.
    Skip(Skip),
    /// Let it wait for this instant.
    Defer(Timestamp),
    /// Let it wait until the job is started again.
    Park,
}

/// Asks the job about a run that is due, before every attempt: it may have been stopped, edited or deleted since the
/// run was written or last tried.
pub fn wanted(job: &Job, run: &Candidate, now: Timestamp) -> Wanted {
    refused(job, run, now).unwrap_or_else(|| unless_refused(job, run, now))
}

/// What the job wants done with a run that it does not refuse.
pub fn unless_refused(job: &Job, run: &Candidate, now: Timestamp) -> Wanted {
    match run.origin {
        _ if run.attempt > Attempt::FIRST || run.decided != Decided::NotYet => Wanted::Start(run.decided),
        Origin::Schedule | Origin::OneShot => by_lateness(job, run, now),
        Origin::Manual | Origin::Backfill | Origin::Retry | Origin::Parent | Origin::Part => {
            Wanted::Start(Decided::OnTime)
        }
    }
}

/// What the job has against the run, its lateness aside. A run that an earlier holder may have sent is asked only this:
/// at-least-once work is repeated however late that is.
pub fn refused(job: &Job, run: &Candidate, now: Timestamp) -> Option<Wanted> {
    let is_begun = run.attempt > Attempt::FIRST;
    by_state(job, run).or_else(|| if is_begun { None } else { by_windows(job, run, now) })
}

fn by_state(job: &Job, run: &Candidate) -> Option<Wanted> {
    // A part was begun with the whole.
    let is_asked_for = matches!(run.origin, Origin::Manual | Origin::Backfill | Origin::Retry | Origin::Part);
    match &job.state {
        JobState::Deleted => Some(Wanted::Skip(Skip::JobDeleted)),
        _ if is_asked_for => None,
        JobState::Stopped(_) if run.origin == Origin::OneShot => Some(Wanted::Park),
        // Its last instants are reserved when it is stopped for having no further ones.
        JobState::Stopped(StoppedReason::Finished) => is_edited_away(job, run),
        JobState::Stopped(_) => Some(Wanted::Skip(Skip::JobStopped)),
        JobState::Enabled => is_edited_away(job, run),
    }
}

fn is_edited_away(job: &Job, run: &Candidate) -> Option<Wanted> {
    let is_named = run.origin != Origin::Schedule || job.names(run.fire_time);
    (!is_named).then_some(Wanted::Skip(Skip::JobEdited))
}

/// A caller that says "now" means now; everything else keeps to the windows.
fn by_windows(job: &Job, run: &Candidate, now: Timestamp) -> Option<Wanted> {
    if matches!(run.origin, Origin::Manual | Origin::Retry | Origin::Part) {
        return None;
    }
    match job.exclusions.judge(asked_for(job, run)) {
        Verdict::OutsideWindows => Some(Wanted::Skip(Skip::OutsideWindows)),
        Verdict::OutsideCalendar => Some(Wanted::Skip(Skip::OutsideCalendar)),
        Verdict::Deferred(until) if now < until => Some(Wanted::Defer(until)),
        Verdict::Allowed | Verdict::Deferred(_) => None,
    }
}

/// The instant that has to be in a window: the fire time, or the time that a person has moved a one-shot to. What a start
/// called back, and what is tried again, is judged by the fire time.
fn asked_for(job: &Job, run: &Candidate) -> Timestamp {
    let is_called_back = run.is_called_back || run.ready_at == job.changed_at;
    let is_moved = run.origin == Origin::OneShot && run.attempt == Attempt::FIRST && !is_called_back;
    if is_moved { run.ready_at } else { run.fire_time }
}

/// The instant from which lateness counts. Waiting for a window, for a place, or for another time that a caller asked
/// for is no lateness. Waiting for a stopped job is: a run that its start called back (and that so became ready at that
/// very moment) is as late as if no node had been there.
fn counted_from(job: &Job, run: &Candidate) -> Timestamp {
    let is_called_back = run.origin == Origin::OneShot && run.ready_at == job.changed_at;
    if is_called_back { run.fire_time } else { run.ready_at.max(run.fire_time) }
}

/// Whether a run was parked for want of room, and not for a stop of its job: it was called back as of a change of the job, and
/// that was before it was due. A stop and a start after that would have been later changes.
fn waited_for_room(run: &Candidate) -> bool {
    run.is_called_back && run.ready_at <= run.fire_time
}

fn late_by(job: &Job, run: &Candidate, now: Timestamp) -> Duration {
    if waited_for_room(run) { Duration::ZERO } else { lateness(counted_from(job, run), now) }
}

fn by_lateness(job: &Job, run: &Candidate, now: Timestamp) -> Wanted {
    let misfire = &job.definition.misfire;
    match misfire.judge(late_by(job, run, now)) {
        Lateness::OnTime => Wanted::Start(Decided::OnTime),
        Lateness::Late => Wanted::Start(Decided::Late),
        Lateness::Missed if misfire.policy == Policy::Skip => Wanted::Skip(Skip::Misfire),
        Lateness::Missed if misfire.policy == Policy::FireOnce && is_followed(job, run, now) => {
            Wanted::Skip(Skip::Coalesced)
        }
        Lateness::Missed => Wanted::Start(Decided::CaughtUp),
    }
}

/// What the lateness of a run is taken for at the moment it becomes due, as far as that can be said without asking what
/// became of other instants. A run that waits for a place afterwards is not late for that: its misfire policy is about
/// fire times that no node was there for.
pub fn decided_when_due(job: &Job, run: &Candidate, now: Timestamp) -> Decided {
    let is_judged = matches!(run.origin, Origin::Schedule | Origin::OneShot);
    if run.decided != Decided::NotYet || !is_judged || run.attempt > Attempt::FIRST {
        return run.decided;
    }
    match job.definition.misfire.judge(late_by(job, run, now)) {
        Lateness::OnTime => Decided::OnTime,
        Lateness::Late => Decided::Late,
        Lateness::Missed => Decided::NotYet,
    }
}

/// Whether a later instant of the schedule was missed too; then that one stands for this. Asked of the rule and not
/// of what is loaded, so it does not matter who holds or plans the later one.
fn is_followed(job: &Job, run: &Candidate, now: Timestamp) -> bool {
    let is_missed = |at| job.definition.misfire.judge(lateness(job.due(at), now)) == Lateness::Missed;
    run.origin == Origin::Schedule
        && !job.definition.schedule.is_delay()
        && job.rule.next_after(run.fire_time).is_some_and(|next| next <= now && is_missed(next))
}

fn lateness(due: Timestamp, now: Timestamp) -> Duration {
    let late = now.as_millis().saturating_sub(due.as_millis());
    Duration::from_millis(u64::try_from(late).unwrap_or(0))
}

/// The order in which runs go out that are all due: what is fresh before what is caught up with, then by class,
/// priority and age (see [`class`]), then by due time, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Behind everything fresh.
    pub is_caught_up: bool,
    /// The due time, set back by what the class and the priority of the run are worth.
    aged: i64,
    /// When it became due.
    pub ready_at: Timestamp,
    /// The run.
    pub run: RunId,
}

impl Rank {
    /// The rank of a run. Class 0 and priority 0 go first.
    pub fn new(
        is_caught_up: bool,
        class: ClassOrdinal,
        priority: u8,
        ready_at: Timestamp,
        run: RunId,
    ) -> Rank {
        let steps = i64::from(class) * class::STEPS + i64::from(priority);
        let aged = ready_at.as_millis().saturating_add(steps * class::AGEING.as_millis() as i64);
        Rank { is_caught_up, aged, ready_at, run }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{at, compile, definition, delay, every, job};
    use super::*;
    use crate::model::WindowSpec;
    use crate::policy::Misfire;
    use calendar::Outside;

    fn candidate(origin: Origin, fire_time: &str) -> Candidate {
        let (attempt, decided) = (Attempt::FIRST, Decided::NotYet);
        let (fire_time, is_called_back) = (at(fire_time), false);
        Candidate { origin, fire_time, ready_at: fire_time, attempt, decided, is_called_back }
    }

    fn stopped(reason: StoppedReason) -> Job {
        Job { state: JobState::Stopped(reason), ..job(every(60)) }
    }

    fn check(job: &Job, origin: Origin, fire_time: &str, now: &str, expected: Wanted) {
        assert_eq!(
            wanted(job, &candidate(origin, fire_time), at(now)),
            expected,
            "{origin} {fire_time} {now}"
        );
    }

    #[test]
    fn a_stopped_job_skips_its_schedule_parks_one_shots_and_does_what_people_ask() {
        let job = stopped(StoppedReason::Asked);
        check(&job, Origin::Schedule, "10:00:00", "10:00:00", Wanted::Skip(Skip::JobStopped));
        check(&job, Origin::Parent, "10:00:00", "10:00:00", Wanted::Skip(Skip::JobStopped));
        check(&job, Origin::OneShot, "10:00:00", "10:00:00", Wanted::Park);
        for origin in [Origin::Manual, Origin::Backfill, Origin::Retry] {
            check(&job, origin, "10:00:00", "10:00:00", Wanted::Start(Decided::OnTime));
        }
    }

    #[test]
    fn a_job_that_has_come_to_its_end_still_runs_what_was_reserved() {
        let job = stopped(StoppedReason::Finished);
        check(&job, Origin::Schedule, "10:00:00", "10:00:00", Wanted::Start(Decided::OnTime));
        check(&job, Origin::Schedule, "10:00:01", "10:00:01", Wanted::Skip(Skip::JobEdited));
    }

    #[test]
    fn a_deleted_job_runs_nothing_and_an_edited_one_only_what_it_still_names() {
        let deleted = Job { state: JobState::Deleted, ..job(every(60)) };
        for origin in Origin::ALL {
            check(&deleted, *origin, "10:00:00", "10:00:00", Wanted::Skip(Skip::JobDeleted));
        }
        check(&job(every(7)), Origin::Schedule, "10:00:00", "10:00:00", Wanted::Skip(Skip::JobEdited));
        check(&job(every(7)), Origin::OneShot, "10:00:00", "10:00:00", Wanted::Start(Decided::OnTime));
    }

    #[test]
    fn a_fixed_delay_forgets_what_it_named_before_its_last_change() {
        let delayed = Job { changed_at: at("10:00:00"), ..job(delay(30)) };
        check(&delayed, Origin::Schedule, "10:00:29", "10:00:29", Wanted::Skip(Skip::JobEdited));
        check(&delayed, Origin::Schedule, "10:00:30", "10:00:30", Wanted::Start(Decided::OnTime));
    }

    #[test]
    fn a_reservation_that_is_late_follows_the_misfire_policy() {
        let lenient = |policy| {
            let misfire = Misfire { policy, threshold: Duration::from_secs(10) };
            compile(crate::model::Definition { misfire, ..definition(every(60)) })
        };
        for policy in [Policy::Skip, Policy::FireOnce, Policy::FireAll] {
            check(&lenient(policy), Origin::Schedule, "10:00:00", "10:00:05", Wanted::Start(Decided::OnTime));
            check(&lenient(policy), Origin::Schedule, "10:00:00", "10:00:10", Wanted::Start(Decided::Late));
        }
        let (skip, once) = (Wanted::Skip(Skip::Misfire), Wanted::Start(Decided::CaughtUp));
        check(&lenient(Policy::Skip), Origin::Schedule, "10:00:00", "10:00:11", skip);
        check(&lenient(Policy::FireOnce), Origin::Schedule, "10:00:00", "10:00:11", once);
        check(&lenient(Policy::FireOnce), Origin::Schedule, "10:00:00", "10:01:10", once);
        let coalesced = Wanted::Skip(Skip::Coalesced);
        check(&lenient(Policy::FireOnce), Origin::Schedule, "10:00:00", "10:01:11", coalesced);
        check(&lenient(Policy::FireAll), Origin::Schedule, "10:00:00", "10:09:00", once);
        check(&lenient(Policy::Skip), Origin::OneShot, "10:00:00", "10:00:11", skip);
        check(&lenient(Policy::FireOnce), Origin::OneShot, "10:00:00", "10:09:00", once);
    }

    #[test]
    fn what_was_decided_once_is_not_judged_again_and_neither_is_a_retry() {
        let mut job = job(every(60));
        job.definition.misfire.policy = Policy::Skip;
        let decided = Candidate { decided: Decided::CaughtUp, ..candidate(Origin::Schedule, "10:00:00") };
        assert_eq!(wanted(&job, &decided, at("23:00:00")), Wanted::Start(Decided::CaughtUp));
        let again = Candidate { attempt: Attempt(2), ..candidate(Origin::Schedule, "10:00:00") };
        assert_eq!(wanted(&job, &again, at("23:00:00")), Wanted::Start(Decided::NotYet));
    }

    #[test]
    fn what_was_in_time_when_it_became_due_is_not_late_for_waiting_for_a_place() {
        let job = job(every(60));
        let fresh = candidate(Origin::Schedule, "10:00:00");
        let decided = decided_when_due(&job, &fresh, at("10:00:00"));
        assert_eq!(decided, Decided::OnTime);
        // Eight minutes in the queue: the instants after it have run, and it has no lateness to be skipped for.
        let waited = Candidate { decided, ..fresh };
        assert_eq!(wanted(&job, &waited, at("10:08:00")), Wanted::Start(Decided::OnTime));
        assert_eq!(wanted(&job, &fresh, at("10:08:00")), Wanted::Skip(Skip::Coalesced));
        // An instant that no node was there for is judged by the misfire policy.
        assert_eq!(decided_when_due(&job, &fresh, at("10:08:00")), Decided::NotYet);
        let manual = candidate(Origin::Manual, "10:00:00");
        assert_eq!(decided_when_due(&job, &manual, at("10:08:00")), Decided::NotYet);
    }

    #[test]
    fn windows_skip_or_defer_and_deferring_is_no_lateness() {
        let windowed = |outside| {
            let hours = "12:00-13:00".into();
            let spec = WindowSpec { days: "*".into(), hours, zone: "UTC".into(), outside };
            compile(crate::model::Definition { windows: vec![spec], ..definition(every(60)) })
        };
        let defers = windowed(Outside::Defer);
        check(&defers, Origin::Schedule, "10:00:00", "10:00:00", Wanted::Defer(at("12:00:00")));
        let deferred = Candidate { ready_at: at("12:00:00"), ..candidate(Origin::Schedule, "10:00:00") };
        assert_eq!(wanted(&defers, &deferred, at("12:00:01")), Wanted::Start(Decided::OnTime));
        let skips = windowed(Outside::Skip);
        check(&skips, Origin::Schedule, "10:00:00", "10:00:00", Wanted::Skip(Skip::OutsideWindows));
        check(&skips, Origin::Manual, "10:00:00", "10:00:00", Wanted::Start(Decided::OnTime));
    }

    #[test]
    fn what_was_parked_although_its_job_was_there_for_it_has_waited_for_room_and_is_not_late() {
        let skip = Misfire { policy: Policy::Skip, ..Misfire::default() };
        let changed_at = at("09:00:00");
        let job = Job {
            changed_at,
            ..compile(crate::model::Definition { misfire: skip, ..definition(every(60)) })
        };
        for origin in [Origin::Schedule, Origin::OneShot] {
            let called =
                Candidate { ready_at: changed_at, is_called_back: true, ..candidate(origin, "10:00:00") };
            assert_eq!(wanted(&job, &called, at("10:05:00")), Wanted::Start(Decided::OnTime), "{origin}");
            let changed_later = Job { changed_at: at("10:04:00"), ..job.clone() };
            let called = Candidate { ready_at: changed_later.changed_at, ..called };
            let wanted = wanted(&changed_later, &called, at("10:05:00"));
            assert_eq!(wanted, Wanted::Skip(Skip::Misfire), "{origin}: it may have waited for a start");
        }
    }

    #[test]
    fn a_one_shot_called_back_by_a_start_is_late_and_one_put_off_by_a_person_is_not() {
        let mut job = Job { changed_at: at("12:00:00"), ..job(every(60)) };
        job.definition.misfire.policy = Policy::Skip;
        let ready = |ready_at| Candidate { ready_at: at(ready_at), ..candidate(Origin::OneShot, "10:00:00") };
        assert_eq!(wanted(&job, &ready("12:00:00"), at("12:00:01")), Wanted::Skip(Skip::Misfire));
        assert_eq!(wanted(&job, &ready("13:00:00"), at("13:00:01")), Wanted::Start(Decided::OnTime));
    }

    #[test]
    fn fresh_runs_go_before_caught_up_ones_then_by_class_then_by_priority_then_by_time() {
        let rank = |is_caught_up, class, priority, text, run| {
            Rank::new(is_caught_up, class, priority, at(text), RunId(run))
        };
        let order = [
            rank(false, 0, 9, "10:00:09", 10),
            rank(false, 1, 0, "10:00:09", 9),
            rank(false, 1, 5, "10:00:00", 7),
            rank(false, 1, 5, "10:00:00", 8),
            rank(false, 1, 5, "10:00:01", 1),
            rank(true, 0, 0, "09:00:00", 2),
        ];
        assert!(order.is_sorted());
    }

    #[test]
    fn waiting_makes_up_for_priority_and_class_so_nothing_starves() {
        let last = Rank::new(false, 3, 9, at("10:00:00"), RunId(1));
        let first_at = |text| Rank::new(false, 0, 0, at(text), RunId(2));
        // Three classes of ten steps and nine steps of priority, half a minute each.
        assert!(first_at("10:19:29") < last && last < first_at("10:19:31"));
    }
}
