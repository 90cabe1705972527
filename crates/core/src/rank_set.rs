//! Runs in the order of their ranks, with the age of the oldest.
//!
//! The first of them need not be the oldest: class and priority come before time. So the set counts its runs by the second
//! in which they became due.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use calendar::Timestamp;

use crate::engine::fire::Rank;

/// Runs in the order of their ranks.
#[derive(Clone, Debug, Default)]
pub struct RankSet {
    ranks: BTreeSet<Rank>,
    seconds: Seconds,
}

impl RankSet {
    /// Adds a run; whether it was not there.
    pub fn insert(&mut self, rank: Rank) -> bool {
        let is_new = self.ranks.insert(rank);
        if is_new {
            self.seconds.add(rank, 1);
        }
        is_new
    }

    /// Takes a run out; whether it was there.
    pub fn remove(&mut self, rank: &Rank) -> bool {
        let was_there = self.ranks.remove(rank);
        if was_there {
            self.seconds.take(*rank, 1);
        }
        was_there
    }

    /// Takes the first run out.
    pub fn pop_first(&mut self) -> Option<Rank> {
        let first = self.ranks.pop_first()?;
        self.seconds.take(first, 1);
        Some(first)
    }

    /// Whether a run is there.
    pub fn contains(&self, rank: &Rank) -> bool {
        self.ranks.contains(rank)
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// The runs, first to last.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Rank> {
        self.ranks.iter()
    }

    /// How many go before a run.
    pub fn count_before(&self, rank: Rank) -> usize {
        self.ranks.range(..rank).count()
    }

    /// The last millisecond of the second in which the oldest became due.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.seconds.oldest()
    }
}

/// How many runs became due in each second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seconds(BTreeMap<i64, usize>);

impl Seconds {
    pub(crate) fn add(&mut self, rank: Rank, runs: usize) {
        *self.0.entry(second_of(rank)).or_default() += runs;
    }

    pub(crate) fn take(&mut self, rank: Rank, runs: usize) {
        if let Some(count) = self.0.get_mut(&second_of(rank)) {
            *count -= runs;
            if *count == 0 {
                self.0.remove(&second_of(rank));
            }
        }
    }

    /// The second in which the oldest became due.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        let (second, _) = self.0.first_key_value()?;
        Some(Timestamp::from_millis(second.saturating_mul(1_000)))
    }

    /// Its last millisecond, which makes an age too small rather than too great.
    fn oldest(&self) -> Option<Timestamp> {
        Some(self.first()?.saturating_add(Duration::from_millis(999)))
    }
}

fn second_of(rank: Rank) -> i64 {
    rank.ready_at.as_millis().div_euclid(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunId;

    #[test]
    fn the_oldest_is_known_behind_what_goes_first() {
        let rank = |is_caught_up, priority, millis, run| {
            Rank::new(is_caught_up, 0, priority, Timestamp::from_millis(millis), RunId(run))
        };
        let mut set = RankSet::default();
        assert_eq!(set.oldest(), None);
        (0..100).for_each(|run| assert!(set.insert(rank(false, 1, 5_000 + run as i64, run))));
        assert!(!set.insert(rank(false, 1, 5_000, 0)), "it is there");
        set.insert(rank(false, 9, 4_000, 200));
        assert_eq!(set.oldest(), Some(Timestamp::from_millis(4_999)));
        set.insert(rank(true, 0, 3_000, 300));
        assert_eq!((set.oldest(), set.len()), (Some(Timestamp::from_millis(3_999)), 102));
        assert!(set.remove(&rank(true, 0, 3_000, 300)) && !set.remove(&rank(true, 0, 3_000, 300)));
        let popped: Vec<Rank> = std::iter::from_fn(|| set.pop_first()).collect();
        assert!(popped.is_sorted() && popped.len() == 101 && set.oldest().is_none());
    }
}
