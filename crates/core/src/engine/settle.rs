//! Settling: what follows from the end of an attempt.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::{
    Attempt, AttemptOutcome, AttemptRecord, Child, Close, Delivery, Job, Outcome, Overrides, Text, Then,
};
use crate::policy::Retry;

/// How an attempt ended, and what else bears on what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<'a> {
    /// The attempt.
    pub attempt: &'a AttemptRecord,
    /// How long the target asks to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the target says that another try is of no use.
    pub is_final: bool,
    /// Whether it ended only because the node that sent it is gone, or never reached its executor for lack of room. Such an
    /// attempt does not count against the job.
    pub by_loss_of_node: bool,
    /// How many attempts before it do not count, as far as is known.
    pub spared: u32,
}

/// How the message of an attempt begins that does not count against its job.
const UNCOUNTED: &str = "not counted: ";

/// The message of an attempt as it is kept. That an attempt does not count is said in it, because whichever node holds the run
/// later has only the record to go by; an executor cannot say so.
pub fn kept_message(said: &Text, is_counted: bool) -> Text {
    match is_counted {
        false => format!("{UNCOUNTED}{said}").into(),
        true if said.starts_with(UNCOUNTED) => format!("it said: {said}").into(),
        true => said.clone(),
    }
}

/// How many of these attempts do not count against their job.
pub fn uncounted(ended: &[AttemptRecord]) -> u32 {
    let is_uncounted = |record: &&AttemptRecord| {
        record.outcome == AttemptOutcome::Refused && record.message.starts_with(UNCOUNTED)
    };
    u32::try_from(ended.iter().filter(is_uncounted).count()).unwrap_or(u32::MAX)
}

/// What becomes of the run, which may have settings of its own. `jitter` is any number, the more
/// random the better.
pub fn settle(job: &Job, overrides: &Overrides, end: &End<'_>, now: Timestamp, jitter: u16) -> Then {
    let close = |outcome, reason: Text| {
        Then::Close(Close { outcome, reason, closed_at: now.max(end.attempt.ended_at), range: None })
    };
    let at_most_once = job.definition.delivery == Delivery::AtMostOnce;
    let message = || end.attempt.message.clone();
    let again = || retry(&overrides.retry(&job.definition), end, now, jitter);
    match end.attempt.outcome {
        AttemptOutcome::Succeeded => close(Outcome::Succeeded, Text::Borrowed("")),
        AttemptOutcome::Cancelled => close(Outcome::Cancelled, message()),
        // It is not known whether it arrived, so it is not sent again.
        AttemptOutcome::Lost | AttemptOutcome::TimedOut if at_most_once => close(Outcome::Lost, message()),
        AttemptOutcome::Failed if at_most_once || end.is_final => close(Outcome::Failed, message()),
        // Certainly not taken: trying again cannot make it arrive twice, whatever the delivery.
        AttemptOutcome::Refused | AttemptOutcome::Failed | AttemptOutcome::TimedOut => {
            again().unwrap_or_else(|| close(Outcome::Failed, message()))
        }
        AttemptOutcome::Lost => again().unwrap_or_else(|| close(Outcome::Lost, message())),
    }
}

fn retry(policy: &Retry, end: &End<'_>, now: Timestamp, jitter: u16) -> Option<Then> {
    let number = end.attempt.number;
    if number >= Attempt::MAX {
        return None;
    }
    let told = end.retry_after.unwrap_or_default();
    let counted = number.0.saturating_sub(end.spared).max(1);
    let delay = if end.by_loss_of_node { told } else { policy.delay_after_told(counted, told, jitter)? };
    Some(Then::Wait { ready_at: now.saturating_add(delay), attempt: number.next() })
}

/// The jobs that a close brings about.
pub fn children(job: &Job, outcome: Outcome) -> impl Iterator<Item = &Child> {
    job.children.iter().filter(move |child| child.when.holds(outcome))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{at, delay, every, job};
    use super::*;
    use crate::model::{JobId, Schedule, Token, When};

    fn attempt(number: u32, outcome: AttemptOutcome) -> AttemptRecord {
        AttemptRecord {
            number: Attempt(number),
            token: Token(1),
            executor: "agent".into(),
            started_at: at("10:00:00"),
            ended_at: at("10:00:01"),
            outcome,
            message: "said so".into(),
            possible_duplicate: false,
        }
    }

    fn fate(job: &Job, number: u32, outcome: AttemptOutcome) -> String {
        fate_of(
            job,
            &End {
                attempt: &attempt(number, outcome),
                retry_after: None,
                is_final: false,
                by_loss_of_node: false,
                spared: 0,
            },
        )
    }

    fn fate_of(job: &Job, end: &End<'_>) -> String {
        fate_with(job, &Overrides::default(), end)
    }

    fn fate_with(job: &Job, overrides: &Overrides, end: &End<'_>) -> String {
        match settle(job, overrides, end, at("10:00:01"), 0) {
            Then::Close(close) => close.outcome.to_string(),
            Then::Wait { ready_at, attempt } => format!("{attempt} at {}", &ready_at.to_string()[11..19]),
            Then::Park { .. } => "parked".into(),
        }
    }

    #[test]
    fn what_failed_is_tried_again_until_the_attempts_are_used_up() {
        let job = job(every(60));
        for outcome in [AttemptOutcome::Failed, AttemptOutcome::TimedOut, AttemptOutcome::Refused] {
            assert_eq!(fate(&job, 1, outcome), "2 at 10:00:02");
            assert_eq!(fate(&job, 2, outcome), "3 at 10:00:03");
            assert_eq!(fate(&job, 3, outcome), "failed");
        }
        assert_eq!(fate(&job, 2, AttemptOutcome::Lost), "3 at 10:00:03");
        assert_eq!(fate(&job, 3, AttemptOutcome::Lost), "lost");
        assert_eq!(fate(&job, 1, AttemptOutcome::Succeeded), "succeeded");
        assert_eq!(fate(&job, 1, AttemptOutcome::Cancelled), "cancelled");
    }

    #[test]
    fn at_most_once_only_what_was_certainly_not_taken_is_tried_again() {
        let mut job = job(every(60));
        job.definition.delivery = Delivery::AtMostOnce;
        assert_eq!(fate(&job, 1, AttemptOutcome::Refused), "2 at 10:00:02");
        assert_eq!(fate(&job, 1, AttemptOutcome::Failed), "failed");
        assert_eq!(fate(&job, 1, AttemptOutcome::TimedOut), "lost");
        assert_eq!(fate(&job, 1, AttemptOutcome::Lost), "lost");
    }

    #[test]
    fn the_target_can_end_it_or_ask_for_patience() {
        let (job, failed) = (job(every(60)), attempt(1, AttemptOutcome::Failed));
        let end =
            End { attempt: &failed, retry_after: None, is_final: true, by_loss_of_node: false, spared: 0 };
        assert_eq!(fate_of(&job, &end), "failed");
        let patience = Some(Duration::from_secs(20));
        assert_eq!(fate_of(&job, &End { retry_after: patience, is_final: false, ..end }), "2 at 10:00:21");
    }

    #[test]
    fn a_runs_own_policy_counts_in_place_of_its_jobs() {
        let (mut job, failed) = (job(every(60)), attempt(1, AttemptOutcome::Failed));
        let end =
            End { attempt: &failed, retry_after: None, is_final: false, by_loss_of_node: false, spared: 0 };
        let own = |max_attempts, seconds| {
            let initial_delay = Duration::from_secs(seconds);
            let retry = Some(Retry { max_attempts, initial_delay, ..Retry::default() });
            Overrides { retry, ..Overrides::default() }
        };
        assert_eq!(fate_with(&job, &own(1, 1), &end), "failed");
        assert_eq!(fate_with(&job, &own(9, 7), &end), "2 at 10:00:08");
        job.definition.delivery = Delivery::AtMostOnce;
        assert_eq!(fate_with(&job, &own(9, 7), &end), "failed", "the delivery stays the job's");
    }

    #[test]
    fn an_attempt_lost_with_its_node_is_repeated_whatever_the_attempts() {
        let (job, lost) = (job(every(60)), attempt(3, AttemptOutcome::Lost));
        let end =
            End { attempt: &lost, retry_after: None, is_final: false, by_loss_of_node: true, spared: 0 };
        assert_eq!(fate_of(&job, &end), "4 at 10:00:01");
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_its_run_within_its_bounds() {
        let after = |schedule: Schedule| schedule.after_end(at("10:00:01"));
        assert_eq!(after(delay(30).into()), Some(at("10:00:31")));
        assert_eq!(after(every(30).into()), None);
        let bounded = Schedule { until: Some(at("10:00:30")), ..delay(30).into() };
        assert_eq!(after(bounded), None);
    }

    #[test]
    fn an_attempt_that_found_no_room_waits_as_told_and_is_not_counted_afterwards() {
        let job = job(every(60));
        let (unsent, failed) = (attempt(9, AttemptOutcome::Refused), attempt(10, AttemptOutcome::Failed));
        let pause = Some(Duration::from_secs(5));
        let end =
            End { attempt: &unsent, retry_after: pause, is_final: false, by_loss_of_node: true, spared: 8 };
        assert_eq!(fate_of(&job, &end), "10 at 10:00:06");
        let end = End { attempt: &failed, retry_after: None, by_loss_of_node: false, spared: 9, ..end };
        assert_eq!(fate_of(&job, &end), "11 at 10:00:02", "it is the first that counts");
        assert_eq!(fate_of(&job, &End { spared: 0, ..end }), "failed");
    }

    #[test]
    fn only_the_node_can_say_that_an_attempt_does_not_count() {
        let record = |outcome, said: &'static str, is_counted| AttemptRecord {
            message: kept_message(&Text::Borrowed(said), is_counted),
            ..attempt(1, outcome)
        };
        let forged = "not counted: I was busy";
        let ended = [
            record(AttemptOutcome::Refused, "no connection was free", false),
            record(AttemptOutcome::Refused, forged, true),
            record(AttemptOutcome::Refused, "busy", true),
            record(AttemptOutcome::Failed, "busy", true),
        ];
        assert_eq!(ended[0].message, "not counted: no connection was free");
        assert_eq!(uncounted(&ended), 1);
    }

    #[test]
    fn children_follow_the_ends_they_asked_for() {
        let child = |id, when| Child { job: JobId(id), when };
        let mut job = job(every(60));
        job.children = vec![child(1, When::Succeeded), child(2, When::Failed), child(3, When::Ended)];
        let of = |outcome| children(&job, outcome).map(|child| child.job.0).collect::<Vec<_>>();
        assert_eq!(of(Outcome::Succeeded), [1, 3]);
        assert_eq!(of(Outcome::Lost), [2, 3]);
        assert!(of(Outcome::Skipped).is_empty());
    }
}
