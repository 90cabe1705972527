//! Runs: one piece of due work each, written once and closed once.

use std::borrow::Cow;
use std::sync::Arc;

use calendar::Timestamp;

use super::names::names;
use super::{Attempt, JobId, Overrides, RunId, ShardId};
use crate::policy::misfire;

/// A short text, mostly one of ours.
pub type Text = Cow<'static, str>;

/// What a run brings to its handler, as compact JSON.
pub type Payload = Arc<str>;

/// Where a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The schedule named its instant.
    Schedule,
    /// A person said "now".
    Manual,
    /// A program handed it over with a time of its own.
    OneShot,
    /// A person asked for the instants of a range.
    Backfill,
    /// A settled run was asked for again.
    Retry,
    /// Another job ended.
    Parent,
    /// A broadcast run was split: this one is for one of the executors.
    Part,
}

names!(
    Origin,
    "origin",
    Schedule = "schedule",
    Manual = "manual",
    OneShot = "one_shot",
    Backfill = "backfill",
    Retry = "retry",
    Parent = "parent",
    Part = "part",
);

impl Origin {
    /// Whether (job, fire time) is its identity: there is at most one such run, ever.
    pub fn is_named_by_schedule(self) -> bool {
        matches!(self, Origin::Schedule | Origin::Backfill)
    }
}

/// What was decided about a run's lateness before it was written. A run that carries a decision is never judged again,
/// however long it waits to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decided {
    /// Nothing yet: it is judged when it leaves the wheel.
    #[default]
    NotYet,
    /// It counts as on time.
    OnTime,
    /// It is late, within the job's threshold.
    Late,
    /// It was missed, and runs because the policy asks for it. It goes behind what is fresh.
    CaughtUp,
    /// It stands for instants that are not run, and is closed from the start.
    PassedOver,
}

names!(
    Decided,
    "decision",
    NotYet = "not_yet",
    OnTime = "on_time",
    Late = "late",
    CaughtUp = "caught_up",
    PassedOver = "passed_over"
);

impl From<misfire::Mark> for Decided {
    fn from(mark: misfire::Mark) -> Decided {
        match mark {
            misfire::Mark::OnTime => Decided::OnTime,
            misfire::Mark::Late => Decided::Late,
            misfire::Mark::CaughtUp => Decided::CaughtUp,
        }
    }
}

/// A run as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its identity; the day in it says in which bucket it lives ([`NewRun::birth_day`]).
    pub id: RunId,
    /// The job it belongs to.
    pub job: JobId,
    /// The shard whose holder acts for it.
    pub shard: ShardId,
    /// The instant that the schedule or the person named.
    pub fire_time: Timestamp,
    /// From when on it may be started. Mostly the fire time; later for a backfill or a retry by hand.
    pub due: Timestamp,
    /// Where it comes from.
    pub origin: Origin,
    /// What was decided about its lateness already.
    pub decided: Decided,
    /// 0 goes first, 9 last.
    pub priority: u8,
    /// What it brings; a planned run brings nothing and takes what the job has.
    pub payload: Option<Payload>,
    /// Unique per job while the run lives and for a while after its end.
    pub key: Option<Text>,
    /// The run that this one repeats or follows.
    pub of: Option<RunId>,
    /// What it has in place of its job's. A part has what its whole has.
    pub overrides: Option<Arc<Overrides>>,
}

impl NewRun {
    /// A one-shot that brings nothing and has nothing of its own. The others name what differs.
    pub fn one_shot(id: RunId, job: JobId, shard: ShardId, at: Timestamp) -> NewRun {
        NewRun {
            id,
            job,
            shard,
            fire_time: at,
            due: at,
            origin: Origin::OneShot,
            decided: Decided::NotYet,
            priority: 5,
            payload: None,
            key: None,
            of: None,
            overrides: None,
        }
    }

    /// Whether (job, fire time) is its identity. A record of instants that were passed over has none: it begins at an
    /// instant that may have a run of its own by other means.
    pub fn is_named(&self) -> bool {
        self.origin.is_named_by_schedule() && self.decided != Decided::PassedOver
    }

    /// The day in whose bucket a run lives. What (job, fire time) identifies must lie where its fire time is,
    /// else the same instant could be written into two buckets. A store may keep one-shots that are far ahead together, and lets
    /// them be born on a later day.
    pub fn birth_day(origin: Origin, fire_time: Timestamp, due: Timestamp) -> u32 {
        RunId::day_of(if origin.is_named_by_schedule() { fire_time } else { due })
    }
}

/// What part of a broadcast run this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Counted from 0.
    pub index: u32,
    /// How many there are.
    pub total: u32,
    /// The executor it was made for.
    pub address: Text,
}

/// What has become of the parts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Join {
    /// How many there are.
    pub total: u32,
    /// How many have not ended.
    pub open: u32,
    /// How many ended well.
    pub succeeded: u32,
}

/// How a run ended, for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// An attempt succeeded.
    Succeeded,
    /// The last attempt failed.
    Failed,
    /// It may or may not have run, and will not be tried again.
    Lost,
    /// It was ended on request, with its deleted job, or because a newer run took its place.
    Cancelled,
    /// It was decided not to run it.
    Skipped,
}

names!(
    Outcome,
    "outcome",
    Succeeded = "succeeded",
    Failed = "failed",
    Lost = "lost",
    Cancelled = "cancelled",
    Skipped = "skipped",
);

/// Why a run was not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// Missed, and the job skips what it missed.
    Misfire,
    /// Missed, and a later missed instant runs in its place.
    Coalesced,
    /// More were missed than may be caught up with.
    TooMany,
    /// Outside the job's windows.
    OutsideWindows,
    /// On a date that the job's calendar does not allow.
    OutsideCalendar,
    /// The job was stopped before it was due.
    JobStopped,
    /// The job was edited and no longer names this instant.
    JobEdited,
    /// The job was deleted.
    JobDeleted,
    /// Another run of the job was still running, and the job discards newcomers.
    Blocked,
    /// There was no room to wait for a send.
    QueueFull,
}

names!(
    Skip,
    "skip reason",
    Misfire = "misfire",
    Coalesced = "coalesced",
    TooMany = "too many missed",
    OutsideWindows = "outside windows",
    OutsideCalendar = "outside calendar",
    JobStopped = "job stopped",
    JobEdited = "job edited",
    JobDeleted = "job deleted",
    Blocked = "blocked",
    QueueFull = "queue full",
);

impl From<misfire::SkipReason> for Skip {
    fn from(reason: misfire::SkipReason) -> Skip {
        match reason {
            misfire::SkipReason::Misfire => Skip::Misfire,
            misfire::SkipReason::Coalesced => Skip::Coalesced,
            misfire::SkipReason::TooMany => Skip::TooMany,
        }
    }
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// Written down, not begun.
    Pending,
    /// An attempt is on its way.
    Running,
    /// An attempt failed, and another will follow.
    Retrying,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended in the dark.
    Lost,
    /// Ended by wish.
    Cancelled,
    /// Decided not to run.
    Skipped,
}

names!(
    RunState,
    "state",
    Pending = "pending",
    Running = "running",
    Retrying = "retrying",
    Succeeded = "succeeded",
    Failed = "failed",
    Lost = "lost",
    Cancelled = "cancelled",
    Skipped = "skipped",
);

impl RunState {
    /// The state that the records of a run amount to: its end, the attempt it waits for, and whether an attempt of it is
    /// behind a gate.
    pub fn of(end: Option<Outcome>, waits_for: Option<Attempt>, is_gated: bool) -> RunState {
        match (end, waits_for) {
            (Some(outcome), _) => outcome.into(),
            (None, Some(attempt)) if attempt > Attempt::FIRST => RunState::Retrying,
            (None, Some(_)) => RunState::Pending,
            (None, None) if is_gated => RunState::Running,
            (None, None) => RunState::Pending,
        }
    }

    /// Whether it can still move.
    pub fn is_open(self) -> bool {
        matches!(self, RunState::Pending | RunState::Running | RunState::Retrying)
    }
}

impl From<Outcome> for RunState {
    fn from(outcome: Outcome) -> RunState {
        match outcome {
            Outcome::Succeeded => RunState::Succeeded,
            Outcome::Failed => RunState::Failed,
            Outcome::Lost => RunState::Lost,
            Outcome::Cancelled => RunState::Cancelled,
            Outcome::Skipped => RunState::Skipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_outweighs_a_wait_and_a_wait_outweighs_a_gate() {
        let second = Attempt::FIRST.next();
        for outcome in Outcome::ALL {
            assert_eq!(RunState::of(Some(*outcome), Some(second), true), (*outcome).into());
            assert!(!RunState::of(Some(*outcome), None, false).is_open());
        }
        let open = [
            (None, false, RunState::Pending),
            (None, true, RunState::Running),
            (Some(Attempt::FIRST), false, RunState::Pending),
            (Some(second), false, RunState::Retrying),
            // The gate is that of the attempt before.
            (Some(second), true, RunState::Retrying),
        ];
        for (waits_for, is_gated, state) in open {
            assert_eq!(RunState::of(None, waits_for, is_gated), state);
        }
    }

    #[test]
    fn a_backfilled_instant_lives_where_the_planned_one_would() {
        let (fire_time, due): (Timestamp, Timestamp) =
            ("2026-01-01T00:00:00Z".parse().unwrap(), "2026-11-15T00:00:00Z".parse().unwrap());
        let day = |origin| NewRun::birth_day(origin, fire_time, due);
        assert_eq!(day(Origin::Backfill), day(Origin::Schedule));
        assert_eq!(day(Origin::Retry), RunId::day_of(due));
    }
}
