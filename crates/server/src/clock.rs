//! The one real clock, with waiting for it, and the one source of randomness. All other code is given them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use calendar::Timestamp;
use punctual_node::ports::{Boot, Clock, Entropy};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::{Instant, Sleep};

/// What the machine's clock says.
#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn now() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(0).saturating_add(since_1970)
}

/// A moment to measure lengths of time from.
#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// How long ago that was.
#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn since(at: Instant) -> Duration {
    at.elapsed()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

/// Waits until then.
#[expect(clippy::disallowed_methods, reason = "the one real clock")]
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(at)
}

/// The host name of the machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The machine.
pub(crate) struct Machine;

impl Clock for Machine {
    fn boot(&self) -> Boot {
        let since = clock_gettime(ClockId::Boottime);
        let (seconds, nanos) = (since.tv_sec.unsigned_abs(), since.tv_nsec.unsigned_abs() as u32);
        Boot(Duration::new(seconds, nanos))
    }
}

impl Entropy for Machine {
    fn bits(&self) -> u64 {
        let mut bytes = [0; 8];
        SystemRandom::new().fill(&mut bytes).expect("the system always has randomness");
        u64::from_le_bytes(bytes)
    }
}
