//! The least frequently and the least recently used address of one job.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::list::List;
use super::{COUNT_MAX, Draws};

/// How often each address was chosen.
#[derive(Debug, Default)]
pub(super) struct ChoiceCounts {
    list: Arc<List>,
    /// One for each address of the list.
    counts: Vec<u32>,
}

impl ChoiceCounts {
    /// The position of the address that was chosen least; of several, the first. The counter of a new address begins with a
    /// random number below the number of addresses, so that not every job rushes to it.
    pub(super) fn take(&mut self, list: &Arc<List>, draws: &mut Draws) -> usize {
        if !Arc::ptr_eq(&self.list, list) {
            self.follow(list, draws);
        }
        for count in self.counts.iter_mut().filter(|count| **count > COUNT_MAX) {
            *count = draws.below(list.len()) as u32;
        }
        let least = (0..list.len()).min_by_key(|nth| self.counts[*nth]).expect("a list has addresses");
        self.counts[least] += 1;
        list.place(least)
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, counts: &[u32]) {
        self.counts = counts.into();
    }

    fn follow(&mut self, list: &Arc<List>, draws: &mut Draws) {
        let known: FxHashMap<&str, u32> = self.list.iter().zip(self.counts.iter().copied()).collect();
        let mut count =
            |address| known.get(address).copied().unwrap_or_else(|| draws.below(list.len()) as u32);
        self.counts = list.iter().map(&mut count).collect();
        self.list = list.clone();
    }
}

/// The order in which the addresses were last chosen.
#[derive(Debug, Default)]
pub(super) struct Order {
    list: Arc<List>,
    /// The addresses of the list, least recently chosen first.
    order: VecDeque<u32>,
}

impl Order {
    /// The position of the address that was chosen least recently. New ones come after all others.
    pub(super) fn take(&mut self, list: &Arc<List>) -> usize {
        if !Arc::ptr_eq(&self.list, list) {
            self.follow(list);
        }
        let eldest = self.order.pop_front().expect("a list has addresses");
        self.order.push_back(eldest);
        list.place(eldest as usize)
    }

    fn follow(&mut self, list: &Arc<List>) {
        let addresses: Vec<&str> = self.list.iter().collect();
        let turns = self.order.iter().zip(0_u32..);
        let turns: FxHashMap<&str, u32> = turns.map(|(nth, turn)| (addresses[*nth as usize], turn)).collect();
        // Stable, so the new ones stay in the order of the list.
        let turn = |address| turns.get(address).copied().unwrap_or(u32::MAX);
        let mut order: Vec<(u32, u32)> = list.iter().map(turn).zip(0..).collect();
        order.sort_by_key(|(turn, _)| *turn);
        self.order = order.into_iter().map(|(_, nth)| nth).collect();
        self.list = list.clone();
    }
}
