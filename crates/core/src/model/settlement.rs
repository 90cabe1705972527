//! What is written when an attempt or a run ends.

use calendar::Timestamp;

use super::{Attempt, AttemptRecord, JobId, NewRun, Outcome, RunId, ShardId, Text, Token};

/// Everything that follows from one end, written together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The run.
    pub run: RunId,
    /// Its job.
    pub job: JobId,
    /// Its shard.
    pub shard: ShardId,
    /// Whether the writer does not hold the shard: then an arrival tells the holder to look at the run again.
    pub is_foreign: bool,
    /// What must hold, else nothing is written.
    pub fence: Fence,
    /// The attempt that ended, if one was sent.
    pub attempt: Option<AttemptRecord>,
    /// What becomes of the run.
    pub then: Then,
    /// Runs that this end brings about. Each is left to the holder of its shard as an arrival.
    pub children: Vec<NewRun>,
    /// The fire time, if the schedule named it. Should the job be a fixed delay whose clock waits for the end of just this
    /// run, the close sets the clock, by the schedule as it is stored: the writer may know an older one.
    pub named: Option<Timestamp>,
    /// The run that this one is a part of. Its close counts there, and nowhere else.
    pub part_of: Option<RunId>,
}

/// What a settlement relies on. The run must be open in every case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// This attempt was never sent: the settlement takes the gate's key (run, attempt), and is refused if a gate
    /// has it. So a skip and a gate on its way exclude each other, whichever comes first.
    Unsent(Attempt),
    /// This attempt was sent, with a gate or without. Refused if a later attempt was begun or is waiting, if the run
    /// has not come that far, and if the attempt's gate has another token. Without a gate the store knows no token, so
    /// the caller has compared it.
    Sent(Attempt, Token),
}

impl Fence {
    /// The attempt it speaks of.
    pub fn attempt(self) -> Attempt {
        match self {
            Fence::Unsent(attempt) | Fence::Sent(attempt, _) => attempt,
        }
    }
}

/// What becomes of a run after a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is closed; what it waited for is forgotten and its holds are free.
    Close(Close),
    /// It stays open and waits for an instant, then makes this attempt.
    Wait {
        /// When.
        ready_at: Timestamp,
        /// The attempt to be made.
        attempt: Attempt,
    },
    /// It stays open and waits, without an instant, until it is called back: because its job is stopped, because too
    /// many runs of its job wait already, or because there is no room among those that wait to be sent. Refused as
    /// stale if the job has another version: the start of the job has called back what was parked by then, and nothing
    /// would call this run.
    Park {
        /// The attempt to be made.
        attempt: Attempt,
        /// The job's version that was asked.
        version: u64,
    },
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where the outcome alone does not say.
    pub reason: Text,
    /// When it was closed.
    pub closed_at: Timestamp,
    /// For a range of missed instants: the last of them, and how many they are.
    pub range: Option<(Timestamp, u64)>,
}

/// A place among those that share a limit which is not at home on the run's own shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// What is limited.
    pub resource: Text,
    /// How many places there are.
    pub slots: u32,
    /// Whether runs get places in the order in which they first asked. A run that is refused keeps its turn until it is
    /// closed, parked, or put off before its first send.
    pub takes_turns: bool,
}
