//! The only place that reads the environment: the clocks, with waiting for them, randomness, the host's name and variables.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, Sleep};

/// Milliseconds since 1970 by the machine's clock. For people only: nothing is decided by it.
#[expect(clippy::disallowed_methods, reason = "when a handler began is told to people")]
pub(crate) fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

/// A moment to measure lengths of time from.
#[expect(clippy::disallowed_methods, reason = "timeouts, graces and pauses are lengths of real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// How long ago that was.
#[expect(clippy::disallowed_methods, reason = "timeouts, graces and pauses are lengths of real time")]
pub(crate) fn since(at: Instant) -> Duration {
    at.elapsed()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "timeouts, graces and pauses are lengths of real time")]
pub(crate) fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

/// Waits until then.
#[expect(clippy::disallowed_methods, reason = "timeouts, graces and pauses are lengths of real time")]
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(at)
}

/// Random bits for the name of an instance and for the jitter of pauses. Not for secrets.
#[expect(clippy::disallowed_methods, reason = "two processes must not draw the same name")]
pub(crate) fn bits() -> u64 {
    // The hasher's keys are random once a process; the clock and the process id tell clones of it apart.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    RandomState::new().hash_one((std::process::id(), nanos))
}

/// A variable of the environment that is set and not empty.
#[expect(
    clippy::disallowed_methods,
    reason = "only where a program asks for it, with `Executor::environment`"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|said| !said.is_empty())
}

/// The host's name without the characters that an executor's name may not have.
pub(crate) fn host() -> String {
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let said = files.iter().find_map(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let is_fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = said.trim().chars().filter(is_fit).take(200).collect();
    if name.is_empty() { "executor".into() } else { name }
}
