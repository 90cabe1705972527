//! The progress of attempts on its way to the node: of each attempt at most one message in half a second, and always the
//! latest. Otherwise a single attempt could push all other events out of the ring that callers listen to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::Progress;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;

/// How long after a message about an attempt the next one is passed on.
const EVERY: Duration = Duration::from_millis(500);

/// What the attempts of one session said last.
#[derive(Default)]
pub(super) struct ProgressThrottle {
    attempts: Mutex<BTreeMap<(RunId, Attempt), Throttled>>,
    has_held_back: Notify,
}

struct Throttled {
    told_at: Instant,
    /// What the attempt has said since.
    latest: Option<Progress>,
}

impl ProgressThrottle {
    /// Returns the message if it is to be passed on now; else it is held back.
    pub(super) fn admit(&self, said: Progress) -> Option<Progress> {
        let now = clock::instant();
        let mut attempts = self.locked();
        let fresh = || Throttled { told_at: now, latest: None };
        match attempts.get_mut(&(said.run, said.attempt)) {
            Some(throttled) if now.duration_since(throttled.told_at) < EVERY => {
                throttled.latest = Some(said);
                self.has_held_back.notify_one();
                None
            }
            Some(throttled) => {
                *throttled = fresh();
                Some(said)
            }
            None => {
                attempts.insert((said.run, said.attempt), fresh());
                Some(said)
            }
        }
    }

    /// Waits until held back messages may be passed on.
    pub(super) async fn due(&self) -> Vec<Progress> {
        self.has_held_back.notified().await;
        clock::sleep(EVERY).await;
        let now = clock::instant();
        let mut attempts = self.locked();
        let throttled = attempts.values_mut().filter(|throttled| throttled.latest.is_some());
        let told = throttled.filter_map(|throttled| {
            throttled.told_at = now;
            throttled.latest.take()
        });
        told.collect()
    }

    /// The attempt has ended.
    pub(super) fn forget(&self, run: RunId, attempt: Attempt) {
        self.locked().remove(&(run, attempt));
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<(RunId, Attempt), Throttled>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
