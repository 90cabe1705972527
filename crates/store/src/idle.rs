//! Idle connections: how long they are kept, and when all of them are dropped at once.
//!
//! After a switch-over the old primary often lives on, read-only, and an address or a proxy leads new connections to the new
//! one. Connections from before stay on the old server, so the first verb that is refused there ends the *era*: no connection
//! that was opened before is lent again. A greatest age does the same slowly, for what no verb is refused for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The greatest age of a connection.
const AGE_MAX: Duration = Duration::from_secs(30 * 60);

/// Counts the times that all connections to a server were given up. Pools of one address share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Era(Arc<watch::Sender<u64>>);

impl Era {
    /// The mark of a connection that is about to be opened. It is drawn before, so that an era which ends meanwhile ends this
    /// connection too.
    pub(crate) fn stamp(&self, now: Instant) -> Stamp {
        Stamp { era: *self.0.borrow(), opened_at: now }
    }

    /// Gives up every connection of the stamp's era. A stamp of an earlier one changes nothing: its connections are given up
    /// already, and those of today may lead elsewhere.
    pub(crate) fn end(&self, stamp: Stamp) {
        self.0.send_if_modified(|era| {
            let is_current = *era == stamp.era;
            *era += u64::from(is_current);
            is_current
        });
    }

    /// Waits until the era of a stamp has ended.
    pub(crate) async fn ended(&self, stamp: Stamp) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|era| *era != stamp.era).await;
    }
}

/// When a connection was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    era: u64,
    opened_at: Instant,
}

/// Connections that are not in use at the moment.
pub(crate) struct Idle<C> {
    resting: Mutex<Vec<Resting<C>>>,
    era: Era,
    /// How long one may rest before it is dropped.
    rest_max: Duration,
}

struct Resting<C> {
    connection: C,
    stamp: Stamp,
    since: Instant,
}

impl<C> Idle<C> {
    pub(crate) fn new(era: Era, rest_max: Duration) -> Idle<C> {
        Idle { resting: Mutex::default(), era, rest_max }
    }

    /// The connection that was used last and is still good. Those that are not are dropped.
    pub(crate) fn take(&self, now: Instant) -> Option<(C, Stamp)> {
        let era = self.era.stamp(now).era;
        let mut resting = self.resting();
        resting.retain(|one| {
            one.stamp.era == era
                && now.duration_since(one.stamp.opened_at) < AGE_MAX
                && now.duration_since(one.since) < self.rest_max
        });
        resting.pop().map(|one| (one.connection, one.stamp))
    }

    /// Takes a connection back that has nothing left to say.
    pub(crate) fn put(&self, connection: C, stamp: Stamp, now: Instant) {
        self.resting().push(Resting { connection, stamp, since: now });
    }

    pub(crate) fn era(&self) -> &Era {
        &self.era
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Resting<C>>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const REST: Duration = Duration::from_secs(60);

    fn after(now: Instant, seconds: u64) -> Instant {
        now + Duration::from_secs(seconds)
    }

    #[test]
    fn the_connection_that_was_used_last_is_lent_first() {
        let (now, idle) = (clock::instant(), Idle::new(Era::default(), REST));
        let stamp = idle.era().stamp(now);
        idle.put("first", stamp, now);
        idle.put("last", stamp, now);
        assert_eq!(idle.take(now).map(|(name, _)| name), Some("last"));
        assert_eq!(idle.take(now).map(|(name, _)| name), Some("first"));
        assert!(idle.take(now).is_none());
    }

    #[test]
    fn what_rested_for_too_long_is_dropped_also_below_the_others() {
        let (now, idle) = (clock::instant(), Idle::new(Era::default(), REST));
        let stamp = idle.era().stamp(now);
        idle.put("rested", stamp, now);
        idle.put("used", stamp, after(now, 50));
        assert_eq!(idle.take(after(now, 60)).map(|(name, _)| name), Some("used"));
        assert!(idle.take(after(now, 60)).is_none());
    }

    #[test]
    fn a_connection_that_is_always_in_use_is_given_up_after_half_an_hour() {
        let (now, idle) = (clock::instant(), Idle::new(Era::default(), REST));
        let stamp = idle.era().stamp(now);
        idle.put("old", stamp, after(now, 30 * 60 - 1));
        let (old, stamp) = idle.take(after(now, 30 * 60 - 1)).unwrap();
        idle.put(old, stamp, after(now, 30 * 60));
        assert!(idle.take(after(now, 30 * 60)).is_none());
    }

    #[test]
    fn the_end_of_an_era_drops_what_is_idle_lent_or_being_opened_and_nothing_newer() {
        let (now, idle) = (clock::instant(), Idle::new(Era::default(), REST));
        let (before, opening) = (idle.era().stamp(now), idle.era().stamp(now));
        idle.put("idle", before, now);
        idle.era().end(before);
        idle.put("lent", before, now);
        idle.put("opened meanwhile", opening, now);
        assert!(idle.take(now).is_none());
        idle.put("new", idle.era().stamp(now), now);
        // Another verb finds the old server out a moment later.
        idle.era().end(opening);
        assert_eq!(idle.take(now).map(|(name, _)| name), Some("new"));
    }

    #[test]
    fn pools_of_one_address_share_their_era() {
        let (now, era) = (clock::instant(), Era::default());
        let (engine, readers) = (Idle::<()>::new(era.clone(), REST), Idle::new(era, REST));
        readers.put("reader", readers.era().stamp(now), now);
        engine.era().end(engine.era().stamp(now));
        assert!(readers.take(now).is_none());
    }
}
