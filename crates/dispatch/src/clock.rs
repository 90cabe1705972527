//! Real time on the way to executors and agents: deadlines, how old something is, and waiting. What time it is in the cluster,
//! the node says.

#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads a clock and sleeps")]

use std::time::Duration;

use tokio::time::{Instant, Interval, Sleep};

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

/// Waits until then.
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(at)
}

/// Comes round again and again, at first then.
pub(crate) fn interval_at(first: Instant, every: Duration) -> Interval {
    tokio::time::interval_at(first, every)
}
