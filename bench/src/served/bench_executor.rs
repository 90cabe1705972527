//! An executor of either kind, as scenarios use it.

use super::agent::Arrived;
use super::{Native, XxlExecutor};

/// An executor.
pub(crate) enum BenchExecutor {
    Xxl(XxlExecutor),
    Native(Native),
}

impl BenchExecutor {
    /// Number of runs that have arrived, and number of stored results.
    pub(crate) fn counts(&self) -> (u64, u64) {
        match self {
            BenchExecutor::Xxl(executor) => executor.counts(),
            BenchExecutor::Native(native) => native.counts(),
        }
    }

    /// The arrivals since the last call.
    pub(crate) fn take(&self) -> Vec<Arrived> {
        match self {
            BenchExecutor::Xxl(executor) => executor.take(),
            BenchExecutor::Native(native) => native.take(),
        }
    }
}
