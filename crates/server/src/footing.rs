//! Whether this node can take shards, as its events tell. A node that renews its row and is refused every shard looks alive
//! and runs nothing, so a load balancer must not send it work.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::event::Event;
use punctual_core::model::Text;
use tokio::time::Instant;

/// Since when taking shards fails.
pub(crate) struct Footing {
    term: Duration,
    failing: Mutex<Option<Failing>>,
}

struct Failing {
    since: Instant,
    last: Instant,
    reason: Text,
}

impl Footing {
    pub(crate) fn new(term: Duration) -> Footing {
        Footing { term, failing: Mutex::default() }
    }

    pub(crate) fn take(&self, event: &Event, now: Instant) {
        match event {
            Event::ShardTaken { .. } => *self.failing() = None,
            Event::StoreFailed { step: "acquire", reason } => {
                let mut failing = self.failing();
                let since = failing.take().filter(|failing| self.is_fresh(failing, now));
                let since = since.map_or(now, |failing| failing.since);
                *failing = Some(Failing { since, last: now, reason: reason.clone() });
            }
            _ => {}
        }
    }

    /// Why shards cannot be taken, once that has failed for two lease terms.
    pub(crate) fn complaint(&self, now: Instant) -> Option<String> {
        let failing = self.failing();
        let failing = failing.as_ref().filter(|failing| self.is_fresh(failing, now))?;
        (now.duration_since(failing.since) >= 2 * self.term)
            .then(|| format!("this node can take no shard, so it runs nothing: {}", failing.reason))
    }

    /// Whether it still fails: a node that wants no more shards does not ask again.
    fn is_fresh(&self, failing: &Failing, now: Instant) -> bool {
        now.duration_since(failing.last) <= 2 * self.term
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::model::{Epoch, ShardId};

    use super::*;

    fn refused() -> Event {
        Event::StoreFailed { step: "acquire", reason: "no such function".into() }
    }

    #[test]
    fn a_node_that_takes_no_shard_for_two_terms_says_why() {
        let (footing, start) = (Footing::new(Duration::from_secs(4)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 0..8 {
            footing.take(&refused(), at(second));
            assert_eq!(footing.complaint(at(second)), None);
        }
        footing.take(&refused(), at(8));
        let said = footing.complaint(at(8)).unwrap();
        assert_eq!(said, "this node can take no shard, so it runs nothing: no such function");
        footing.take(&Event::ShardTaken { shard: ShardId(1), epoch: Epoch(2) }, at(9));
        assert_eq!(footing.complaint(at(9)), None);
    }

    #[test]
    fn failures_that_lie_far_apart_or_are_of_other_steps_do_not_add_up() {
        let (footing, start) = (Footing::new(Duration::from_secs(4)), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        footing.take(&refused(), at(0));
        footing.take(&refused(), at(20));
        assert_eq!(footing.complaint(at(21)), None);
        for second in 40..60 {
            footing.take(&Event::StoreFailed { step: "plan", reason: "away".into() }, at(second));
        }
        assert_eq!(footing.complaint(at(60)), None);
        footing.take(&refused(), at(21));
        footing.take(&refused(), at(29));
        assert_eq!(footing.complaint(at(38)), None, "it has not asked since");
    }
}
