//! How long Redis is believed when it says that a shard is another node's. A node asks for a shard that has no holder in the
//! database, so a key that outlives a lease term is stale: left by an operator, or by another cluster with the same id.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::model::ShardId;
use tokio::time::Instant;

/// Since when Redis refuses which shards.
#[derive(Default)]
pub(super) struct Refusals {
    refused: BTreeMap<ShardId, Refused>,
    is_overruling: bool,
}

struct Refused {
    first: Instant,
    last: Instant,
}

/// What follows from one answer of Redis.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Weighed {
    pub(super) won: Vec<ShardId>,
    /// Refused for so long that the database decides.
    pub(super) overruled: Vec<ShardId>,
    /// Whether Redis was believed until now.
    pub(super) is_news: bool,
}

impl Refusals {
    /// Takes note of which shards were won, and says which of the others the database is asked for all the same.
    pub(super) fn weigh(&mut self, answers: Vec<(ShardId, bool)>, term: Duration, now: Instant) -> Weighed {
        // A shard that was not asked for in two terms begins anew.
        self.refused.retain(|_, refused| now.duration_since(refused.last) <= 2 * term);
        let mut weighed = Weighed::default();
        for (shard, is_won) in answers {
            if is_won {
                self.refused.remove(&shard);
                weighed.won.push(shard);
                continue;
            }
            let refused = self.refused.entry(shard).or_insert(Refused { first: now, last: now });
            refused.last = now;
            if now.duration_since(refused.first) >= term {
                weighed.overruled.push(shard);
            }
        }
        let was_overruling = std::mem::replace(&mut self.is_overruling, !weighed.overruled.is_empty());
        weighed.is_news = self.is_overruling && !was_overruling;
        weighed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const TERM: Duration = Duration::from_secs(4);

    fn refused(shard: u16) -> Vec<(ShardId, bool)> {
        vec![(ShardId(shard), false)]
    }

    #[test]
    fn a_refusal_is_believed_for_one_term_and_told_once() {
        let (start, mut refusals) = (clock::instant(), Refusals::default());
        let mut after = |seconds| refusals.weigh(refused(3), TERM, start + Duration::from_secs(seconds));
        for second in 0..4 {
            assert_eq!(after(second), Weighed::default());
        }
        let overruled = Weighed { overruled: vec![ShardId(3)], is_news: true, ..Weighed::default() };
        assert_eq!(after(4), overruled);
        assert_eq!(after(5), Weighed { is_news: false, ..overruled });
    }

    #[test]
    fn whatever_is_won_or_not_asked_for_in_between_begins_anew() {
        let (start, mut refusals) = (clock::instant(), Refusals::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        refusals.weigh(refused(3), TERM, at(0));
        assert_eq!(refusals.weigh(vec![(ShardId(3), true)], TERM, at(2)).won, [ShardId(3)]);
        assert_eq!(refusals.weigh(refused(3), TERM, at(4)).overruled, []);
        assert_eq!(refusals.weigh(refused(3), TERM, at(13)).overruled, []);
        assert_eq!(refusals.weigh(refused(3), TERM, at(17)).overruled, [ShardId(3)]);
    }
}
