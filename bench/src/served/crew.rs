//! Executors of either kind, as a scenario asks them.

use super::agent::Arrived;
use super::{Executor, Native};

/// An executor.
pub(crate) enum Crew {
    Xxl(Executor),
    Native(Native),
}

impl Crew {
    /// How many runs have arrived, and of how many the result is kept.
    pub(crate) fn counts(&self) -> (u64, u64) {
        match self {
            Crew::Xxl(executor) => executor.counts(),
            Crew::Native(native) => native.counts(),
        }
    }

    /// What has arrived since this was last asked.
    pub(crate) fn take(&self) -> Vec<Arrived> {
        match self {
            Crew::Xxl(executor) => executor.take(),
            Crew::Native(native) => native.take(),
        }
    }
}
