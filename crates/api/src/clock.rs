//! Real time at the front door: how old something is, and waiting. What time it is in the cluster, the node says.

#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads a clock and sleeps")]

use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Now.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// How long ago that was.
pub(crate) fn since(at: Instant) -> Duration {
    at.elapsed()
}

/// Waits.
pub(crate) fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}
