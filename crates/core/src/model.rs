//! The domain as values: jobs, runs and attempts, and the states that each can have.
//!
//! One enum per state, and one function per enum that says which moves are legal; nothing else changes a state.

mod attempt;
mod flow;
mod handed;
mod ids;
mod job;
pub(crate) mod names;
mod overrides;
mod run;
mod schedule;
mod settlement;

pub use attempt::{AttemptOutcome, AttemptRecord};
pub use flow::{ExclusiveKeys, FlowControl, JITTER_MAX, KEYS_MAX};
pub use handed::handed_on;
pub use ids::{Attempt, ChangeId, Epoch, JobId, LogId, NodeId, RunId, ShardId, Token};
pub use job::{
    Child, Definition, Delivery, Executor, Glue, GlueKind, Http, Job, JobMove, JobState, PAYLOAD_MAX, Poison,
    StoppedReason, Target, When, WindowSpec,
};
pub use overrides::Overrides;
pub use run::{Decided, Join, NewRun, Origin, Outcome, Part, Payload, RunState, Skip, Text};
pub use schedule::{Schedule, ScheduleKind};
pub use settlement::{Close, Fence, Hold, Settlement, Then};
