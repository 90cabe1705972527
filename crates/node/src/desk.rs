//! The desk: commands of people and programs. Each command checks, writes, then puts the result into memory or tells
//! the node that holds the shard. A command whose answer means "from now on" says with which change it is in force
//! ([`Node::is_in_force`]); the layer that answers the caller asks that first.

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
    /// The job or run is not in a state for that, or another command changed it first.
    #[error("{0}")]
    Conflict(Text),
    /// The request makes no sense: where, and why.
    #[error("{pointer}: {reason}")]
    Invalid {
        /// A JSON pointer into the request.
        pointer: Text,
        /// What is wrong and what would be right.
        reason: Text,
    },
    /// Too much was handed over at once. Nothing was written, and the same request may succeed later.
    #[error("too much at once: {0}")]
    Busy(Text),
    /// There is no room; try again later.
    #[error("the store is full: {0}")]
    Full(Text),
    /// The store cannot be used at the moment; nothing was done, and asking again is safe.
    #[error("the store cannot be used at the moment, and nothing was done: {0}")]
    Away(Text),
    /// The store did not answer. The command may have been carried out or not; asking again is safe.
    #[error("the store did not answer: {0}")]
    Unknown(Text),
}

impl DeskError {
    /// Whether the same command may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, DeskError::Busy(_) | DeskError::Full(_) | DeskError::Away(_) | DeskError::Unknown(_))
    }

    /// The same error of a command that had already written something: what was done is then not known.
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
