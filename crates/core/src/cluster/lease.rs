//! Until when a node may act.
//!
//! The store judges expiry by its own clock. The node must stop before that without asking, so it counts from the
//! moment it *asked* for its last granted renewal: the term runs in the store from a moment that is later.

use std::time::Duration;

use calendar::Timestamp;

/// Time as the machine counts it: never set, and running on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub Duration);

impl Boot {
    /// How long after `earlier` this is; nothing if it is not.
    pub fn since(self, earlier: Boot) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `later` after this one.
    #[must_use]
    pub fn plus(self, later: Duration) -> Boot {
        Boot(self.0.saturating_add(later))
    }
}

/// The right to act that a granted renewal gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    trusted_until: Boot,
    mark: Timestamp,
}

impl Tenure {
    /// The tenure of a renewal that was asked at `asked` with this mark, and granted.
    pub fn granted(asked: Boot, term: Duration, margin: Duration, mark: Timestamp) -> Tenure {
        // Counted from when we asked, not from when the answer came: a renewal that spent a second on the network
        // has used a second of its term. Then we stop early, because no two clocks agree quite, and stopping too
        // soon (a late run) harms less than stopping too late (two nodes acting for one shard).
        Tenure { trusted_until: asked.plus(term.saturating_sub(margin)), mark }
    }

    /// Whether the node may begin anything at this moment.
    pub fn is_trusted(&self, now: Boot) -> bool {
        now < self.trusted_until
    }

    /// The last moment at which it may.
    pub fn trusted_until(&self) -> Boot {
        self.trusted_until
    }

    /// Whether a send without a gate may begin for a run that is ready at this instant: the node promised the store
    /// that none at or beyond its mark would, so that the next holder knows what was surely never sent.
    pub fn may_send_ungated(&self, ready_at: Timestamp) -> bool {
        ready_at < self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn boot(millis: u64) -> Boot {
        Boot(Duration::from_millis(millis))
    }

    #[test]
    fn a_tenure_counts_from_the_asking_and_ends_early_by_the_margin() {
        let (term, margin) = (Duration::from_secs(4), Duration::from_millis(500));
        let tenure = Tenure::granted(boot(1_000), term, margin, Timestamp::from_millis(77));
        assert!(tenure.is_trusted(boot(4_499)));
        assert!(!tenure.is_trusted(boot(4_500)));
        assert!(tenure.may_send_ungated(Timestamp::from_millis(76)));
        assert!(!tenure.may_send_ungated(Timestamp::from_millis(77)));
    }

    #[test]
    fn a_margin_longer_than_the_term_trusts_nothing() {
        let tenure = Tenure::granted(boot(9), Duration::from_secs(1), Duration::from_secs(2), Timestamp::MAX);
        assert!(!tenure.is_trusted(boot(9)));
    }
}
