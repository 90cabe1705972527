//! Whether this node can take shards, as its events tell, and why its last renewals failed. A node that renews its
//! row and is refused every shard looks alive but runs nothing, so a load balancer must not send it work.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::event::Event;
use punctual_core::model::Text;
use tokio::time::Instant;

/// Since when taking shards has been failing.
pub(crate) struct Footing {
    term: Duration,
    failing: Mutex<Option<Failing>>,
    /// Why the last renewal failed, and when.
    renewal: Mutex<Option<(Instant, Text)>>,
}

struct Failing {
    since: Instant,
    last: Instant,
    reason: Text,
}

impl Footing {
    pub(crate) fn new(term: Duration) -> Footing {
        Footing { term, failing: Mutex::default(), renewal: Mutex::default() }
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
            Event::StoreFailed { step: "renew", reason } => *self.renewal() = Some((now, reason.clone())),
            _ => {}
        }
    }

    /// Why a node may not act: it was drained, or its renewals fail, with the reason if it is known.
    pub(crate) fn absence(&self, is_drained: bool, now: Instant) -> String {
        if is_drained {
            return "the node is drained; POST /api/v1/nodes/self/resume lets it take shards again".into();
        }
        let said = "the node has not joined, or the store does not answer it";
        let renewal = self.renewal();
        // An older failure says nothing about the present.
        let fresh = renewal.as_ref().filter(|(at, _)| now.duration_since(*at) <= 4 * self.term);
        fresh.map_or_else(|| said.into(), |(_, reason)| format!("{said}: {reason}"))
    }

    /// Why shards cannot be taken, once that has been failing for two lease terms.
    pub(crate) fn complaint(&self, now: Instant) -> Option<String> {
        let failing = self.failing();
        let failing = failing.as_ref().filter(|failing| self.is_fresh(failing, now))?;
        (now.duration_since(failing.since) >= self.patience())
            .then(|| format!("this node can take no shard, so it runs nothing: {}", failing.reason))
    }

    /// For how long work has to fail before the node says so.
    pub(crate) fn patience(&self) -> Duration {
        2 * self.term
    }

    /// Whether it still fails: a node that needs no more shards does not try again.
    fn is_fresh(&self, failing: &Failing, now: Instant) -> bool {
        now.duration_since(failing.last) <= self.patience()
    }

    fn renewal(&self) -> MutexGuard<'_, Option<(Instant, Text)>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::model::{Epoch, ShardId};

    use super::*;
    use crate::clock;

    fn refused() -> Event {
        Event::StoreFailed { step: "acquire", reason: "no such function".into() }
    }

    #[test]
    fn a_node_that_takes_no_shard_for_two_terms_says_why() {
        let (footing, start) = (Footing::new(Duration::from_secs(4)), clock::instant());
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
    fn a_node_that_may_not_act_says_that_it_is_drained_or_why_its_renewal_failed() {
        let (footing, start) = (Footing::new(Duration::from_secs(4)), clock::instant());
        let unknown = "the node has not joined, or the store does not answer it";
        assert_eq!(footing.absence(false, start), unknown);
        let reason = "the server is read-only".into();
        footing.take(&Event::StoreFailed { step: "renew", reason }, start);
        assert_eq!(footing.absence(false, start), format!("{unknown}: the server is read-only"));
        assert!(footing.absence(true, start).starts_with("the node is drained"));
        assert_eq!(footing.absence(false, start + Duration::from_secs(17)), unknown, "that was long ago");
    }

    #[test]
    fn failures_that_lie_far_apart_or_are_of_other_steps_do_not_add_up() {
        let (footing, start) = (Footing::new(Duration::from_secs(4)), clock::instant());
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
