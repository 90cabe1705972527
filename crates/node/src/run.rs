//! A run as a node has it in memory, and an attempt of it that is on its way.

use std::sync::Arc;

use crate::places::HttpPlace;
use crate::ports::{Address, Waiting};
use calendar::Timestamp;
use punctual_core::engine::fire::{Candidate, Rank};
use punctual_core::model::{Attempt, Decided, Job, JobId, Origin, RunId, ShardId, Text, Token};
use punctual_core::policy::ClassOrdinal;
use punctual_core::registry::Dialect;

/// Where a loaded run is. Each location but the last has a set in `LoadedRuns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// In the wheel, until it is due.
    Wheel,
    /// Between two attempts, the earlier of which has a gate.
    Between,
    /// Due, and next when there is room.
    Ready,
    /// Due, and waiting for a run of its job to end.
    Queued,
    /// Due, and waiting for an exclusive key.
    Keyed,
    /// Due, and waiting for an executor.
    Seeking,
    /// In the hands of a step.
    Busy,
    /// On its way.
    Flight,
}

impl RunLocation {
    /// Whether runs are kept there by rank.
    pub(crate) fn is_ranked(self) -> bool {
        matches!(self, RunLocation::Ready | RunLocation::Queued | RunLocation::Keyed | RunLocation::Seeking)
    }
}

/// A loaded run. There may be a million of them, so it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) fire_time: Timestamp,
    pub(crate) ready_at: Timestamp,
    pub(crate) job: JobId,
    pub(crate) attempt: Attempt,
    pub(crate) shard: ShardId,
    pub(crate) priority: u8,
    /// The class of its job, as far as the job was known when the run entered its location.
    pub(crate) class: ClassOrdinal,
    pub(crate) origin: Origin,
    pub(crate) decided: Decided,
    pub(crate) location: RunLocation,
    pub(crate) flags: Flags,
}

/// What else is to be known of a loaded run.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "eight independent facts, in a record that exists a million times"
)]
pub(crate) struct Flags {
    pub(crate) has_payload: bool,
    /// It was parked, and called back to be ready when it is.
    pub(crate) is_called_back: bool,
    /// An earlier attempt of it may have a gate, and then loading does not find it.
    pub(crate) has_gate: bool,
    /// An earlier holder may have sent it without a gate.
    pub(crate) is_doubtful: bool,
    /// A write about this attempt was asked for before it was sent, and its outcome is unknown. Only the attempt's key
    /// can say.
    pub(crate) may_be_gated: bool,
    /// An earlier attempt may have arrived.
    pub(crate) may_repeat: bool,
    /// Earlier attempts ended where this node did not see it, and it has not read how.
    pub(crate) has_unread_past: bool,
    /// It was in memory by the time it was due: what it waits for from then on is no lateness.
    pub(crate) is_in_time: bool,
}

impl Run {
    pub(crate) fn candidate(&self) -> Candidate {
        let Run { origin, fire_time, ready_at, attempt, decided, .. } = *self;
        let is_called_back = self.flags.is_called_back;
        Candidate { origin, fire_time, ready_at, attempt, decided, is_called_back }
    }

    /// The moment at which its lateness is judged: when it was due, if this node was there.
    pub(crate) fn judged_at(&self, now: Timestamp) -> Timestamp {
        if self.flags.is_in_time { now.min(self.ready_at) } else { now }
    }

    pub(crate) fn rank(&self, id: RunId) -> Rank {
        let is_caught_up = self.decided == Decided::CaughtUp;
        Rank::new(is_caught_up, self.class, self.priority, self.ready_at, id)
    }
}

impl From<&Waiting> for Run {
    fn from(waiting: &Waiting) -> Run {
        let Waiting {
            job,
            shard,
            fire_time,
            ready_at,
            attempt,
            priority,
            origin,
            decided,
            has_payload,
            is_called_back,
            run: _,
            overrides: _,
        } = *waiting;
        // A row can hold anything, and a token has no room for more.
        let attempt = attempt.min(Attempt::MAX);
        // What an earlier holder knew of the earlier attempts is not written down, so a repetition is possible.
        let may_repeat = attempt > Attempt::FIRST;
        let has_unread_past = may_repeat;
        let flags = Flags { has_payload, is_called_back, may_repeat, has_unread_past, ..Flags::default() };
        let location = RunLocation::Wheel;
        let class = ClassOrdinal::default();
        Run { fire_time, ready_at, job, attempt, shard, priority, class, origin, decided, location, flags }
    }
}

impl Flight {
    /// Whether it is only supposed that it was sent: its gate was written by a node that died, perhaps before the first
    /// byte, and no executor has claimed it since. A gate that is not written before the send is written about an
    /// attempt in flight; of a job that cannot be read it is not known which kind its gates are.
    ///
    /// An executor that is called admits to runs of a job, not to attempts. What it has may be another run of the job, or an
    /// attempt that was given up and still runs, so its word proves nothing here.
    pub(crate) fn is_supposed(&self, job: Option<&Job>, has_own_keys: bool) -> bool {
        let calls_back = self.address.as_ref().is_some_and(|address| address.dialect != Dialect::Native);
        let is_gated_first = calls_back || has_own_keys || job.is_none_or(Job::must_be_gated);
        self.adopted_at.is_some() && !self.is_whole() && !self.was_claimed && is_gated_first
    }

    /// Since when this node could have heard of it. A report that reached no node comes again, and needs time.
    pub(crate) fn heard_since(&self) -> Timestamp {
        self.adopted_at.map_or(self.sent_at, |adopted_at| adopted_at.max(self.sent_at))
    }
}

/// An attempt on its way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) attempt: Attempt,
    pub(crate) token: Token,
    pub(crate) sent_at: Timestamp,
    pub(crate) executor: Text,
    /// The executor that has it; none for an agent, and for a run that fell into parts.
    pub(crate) address: Option<Arc<Address>>,
    pub(crate) is_gated: bool,
    /// When it was taken over, if an earlier holder sent it.
    pub(crate) adopted_at: Option<Timestamp>,
    /// Whether its executor has said that it has this very attempt: then it was sent, whichever node sent it.
    pub(crate) was_claimed: bool,
    pub(crate) possible_duplicate: bool,
    /// The place that it holds, if it is an HTTP call.
    pub(crate) http: Option<HttpPlace>,
    /// Whether it is a call that was answered, and only the store has not heard of it.
    pub(crate) is_answered: bool,
    pub(crate) deadline: Timestamp,
    /// What its executor answered that is neither yes nor no.
    pub(crate) unclear: Option<Text>,
    /// Set where it is taken for lost before its time is up.
    pub(crate) loss: Option<Loss>,
}

/// Why an attempt is taken for lost before its time is up.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) reason: Text,
    /// When its time is up.
    pub(crate) deadline: Timestamp,
}
