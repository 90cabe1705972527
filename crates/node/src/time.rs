//! The cluster's time, which steps, requests, sends and log lines all ask for: it has a lock of its own, so that none
//! of them waits for the engine to learn what time it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::cluster::{Boot, ClusterTime, Stepped};

/// The cluster's time as this node knows it. It is the last lock that is taken: nothing is asked for under it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTime(Arc<Mutex<ClusterTime>>);

impl SharedTime {
    /// The cluster's time at this moment; none before the store was heard.
    pub(crate) fn now(&self, at: Boot) -> Option<Timestamp> {
        self.lock().now(at)
    }

    /// The moment on this machine at which the cluster's time will be `at`.
    pub(crate) fn moment_of(&self, at: Timestamp) -> Boot {
        self.lock().moment_of(at)
    }

    /// Learns from an answer that the store gave between two moments.
    pub(crate) fn learn(&self, asked: Boot, answered: Boot, store_now: Timestamp) -> Option<Stepped> {
        self.lock().learn(asked, answered, store_now)
    }

    /// The time that was last told, however long ago.
    pub(crate) fn shown(&self) -> Option<Timestamp> {
        self.lock().shown()
    }

    /// For how long time stands still, because the store's clock was set back.
    pub(crate) fn held(&self, at: Boot) -> Option<Duration> {
        self.lock().held(at)
    }

    fn lock(&self) -> MutexGuard<'_, ClusterTime> {
        // Three numbers that are each written in one step: there is nothing half done in them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
