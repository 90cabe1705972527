//! The desk: what people and programs ask for. Each command checks, writes, then puts it into memory or tells whoever
//! holds the shard. A command whose answer means "from now on" says with which change it is in force
//! ([`Node::is_in_force`]); whoever answers the person asks that first.

mod apps;
mod bulk;
mod cancels;
mod cluster;
mod crowd;
mod few;
mod first;
mod jobs;
mod pause;
mod runs;
mod wishes;

use punctual_core::model::Text;

use crate::ports::StoreError;

pub(crate) use apps::snapshot;
pub use apps::{AccessTokens, AppView, Callback, ExecutorView};
pub use bulk::{BulkChange, BulkMove, BulkProgress};
pub(crate) use cancels::Cancels;
pub use cluster::{NodeView, ShardView};
pub(crate) use crowd::Crowd;
pub use pause::Following;
pub(crate) use pause::PauseWatch;
pub use runs::{Backfill, ByHand, Submission};
pub use wishes::Cancelled;

/// Why a command was not carried out. Nothing was written, except after [`DeskError::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// There is no such job or run.
    #[error("{0} is not there")]
    NotFound(Text),
    /// It is not in a state for that, or somebody else changed it first.
    #[error("{0}")]
    Conflict(Text),
    /// What was asked makes no sense: where, and why.
    #[error("{pointer}: {reason}")]
    Invalid {
        /// A JSON pointer into what was asked.
        pointer: Text,
        /// What is wrong and what would be right.
        reason: Text,
    },
    /// More was brought than is written at once; nothing was, and later it may be.
    #[error("too much at once: {0}")]
    Busy(Text),
    /// There is no room; try again later.
    #[error("the store is full: {0}")]
    Full(Text),
    /// The store cannot be used at the moment; nothing was done, and asking again is safe.
    #[error("the store cannot be used at the moment, and nothing was done: {0}")]
    Away(Text),
    /// The store did not answer; whether it was done is not known, and asking again is safe.
    #[error("the store did not answer: {0}")]
    Unknown(Text),
}

impl DeskError {
    /// Whether the same may be taken later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, DeskError::Busy(_) | DeskError::Full(_) | DeskError::Away(_) | DeskError::Unknown(_))
    }

    /// The same error of a command that had written something before: what was done is not known any more.
    pub(crate) fn after_others(self) -> DeskError {
        match self {
            DeskError::Away(reason) => DeskError::Unknown(reason),
            error => error,
        }
    }
}

impl From<StoreError> for DeskError {
    fn from(error: StoreError) -> DeskError {
        match error {
            StoreError::Conflict(reason) => DeskError::Conflict(reason),
            StoreError::Full(reason) => DeskError::Full(reason),
            // The last verb did nothing; what the command wrote before it is there. Commands of one verb say `Away`.
            StoreError::Away(reason) | StoreError::Unknown(reason) | StoreError::Fenced(reason) => {
                DeskError::Unknown(reason)
            }
            StoreError::Corrupt { what, reason } => {
                DeskError::Conflict(format!("cannot read {what}: {reason}").into())
            }
        }
    }
}

impl From<punctual_core::model::Poison> for DeskError {
    fn from(poison: punctual_core::model::Poison) -> DeskError {
        DeskError::Invalid { pointer: poison.pointer.into(), reason: poison.reason.into() }
    }
}
