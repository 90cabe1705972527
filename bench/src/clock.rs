//! The clocks of the bench: a real one for measurements, with waiting for it, and one that is moved by hand for preparation.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use calendar::Timestamp;
use punctual_node::ports::{Boot, Clock};
use punctual_store::StoreClock;
use tokio::time::Sleep;

/// A real clock. It reads the date once and counts from there, so that setting the machine's clock spoils no figure, and
/// so that store, node and scenario agree to the microsecond.
pub(crate) struct Watch {
    started: Instant,
    date: Duration,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the date")]
    pub(crate) fn start() -> Watch {
        let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Watch { started: instant(), date }
    }

    /// Since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        instant().duration_since(self.started)
    }

    /// Since 1970.
    pub(crate) fn date(&self) -> Duration {
        self.date + self.elapsed()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(0).saturating_add(self.date())
    }

    /// The time until an instant; zero if it has passed.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        since_1970(at).saturating_sub(self.date())
    }
}

/// The lateness at `date` of an instant; zero if it lies ahead.
pub(crate) fn lag(date: Duration, due: Timestamp) -> Duration {
    date.saturating_sub(since_1970(due))
}

fn since_1970(at: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0))
}

impl Clock for Watch {
    fn boot(&self) -> Boot {
        Boot(self.elapsed())
    }
}

/// The same clock for a store.
pub(crate) fn store_clock(watch: &Arc<Watch>) -> StoreClock {
    let watch = Arc::clone(watch);
    Arc::new(move || watch.now())
}

/// A clock that stands still until it is moved.
pub(crate) struct Hands(AtomicI64);

impl Hands {
    pub(crate) fn at(now: Timestamp) -> Arc<Hands> {
        Arc::new(Hands(AtomicI64::new(now.as_millis())))
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.0.store(self.now().saturating_add(time).as_millis(), Ordering::Relaxed);
    }

    pub(crate) fn store_clock(self: &Arc<Hands>) -> StoreClock {
        let hands = Arc::clone(self);
        Arc::new(move || hands.now())
    }
}

impl Clock for Hands {
    fn boot(&self) -> Boot {
        Boot(Duration::from_millis(u64::try_from(self.now().as_millis()).unwrap_or(0)))
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that measures time")]
fn instant() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "the one place that waits for real time")]
pub(crate) fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}
