//! Reads on their way: an answer of the store is as old as its snapshot. What happened here since it was asked for is
//! newer, and the answer is not believed about it.

use std::collections::BTreeSet;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The number of a read; a later one has a greater number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Read(u64);

/// The reads on their way, and what was touched here since they were asked.
#[derive(Debug)]
pub(crate) struct Reads<K> {
    last: u64,
    open: BTreeSet<Read>,
    touched: FxHashMap<K, Read>,
    /// Everything up to this read was touched.
    all: Read,
}

impl<K> Default for Reads<K> {
    fn default() -> Reads<K> {
        Reads { last: 0, open: BTreeSet::new(), touched: FxHashMap::default(), all: Read(0) }
    }
}

impl<K: Copy + Eq + Hash> Reads<K> {
    /// A read is asked for.
    pub(crate) fn begin(&mut self) -> Read {
        self.last += 1;
        self.open.insert(Read(self.last));
        Read(self.last)
    }

    /// Its answer was dealt with, or will not come.
    pub(crate) fn end(&mut self, read: Read) {
        self.open.remove(&read);
        match self.open.first().copied() {
            None => self.touched.clear(),
            Some(oldest) => self.touched.retain(|_, at| *at >= oldest),
        }
    }

    /// Something happened here that no read on its way can know.
    pub(crate) fn touch(&mut self, key: K) {
        if !self.open.is_empty() {
            self.touched.insert(key, Read(self.last));
        }
    }

    /// The same for everything.
    pub(crate) fn touch_all(&mut self) {
        self.all = Read(self.last);
    }

    /// Whether an answer is too old to say anything about this.
    pub(crate) fn is_stale(&self, read: Read, key: K) -> bool {
        read <= self.all || self.touched.get(&key).is_some_and(|at| read <= *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_knows_nothing_of_what_was_touched_after_it_was_asked_for() {
        let mut reads = Reads::default();
        let early = reads.begin();
        reads.touch(7);
        let late = reads.begin();
        assert!(reads.is_stale(early, 7));
        assert!(!reads.is_stale(early, 8));
        assert!(!reads.is_stale(late, 7));
        reads.touch_all();
        assert!(reads.is_stale(late, 8));
        let last = reads.begin();
        assert!(!reads.is_stale(last, 8));
    }

    #[test]
    fn nothing_is_kept_when_no_read_is_on_its_way() {
        let mut reads = Reads::default();
        let read = reads.begin();
        (0..100).for_each(|key| reads.touch(key));
        reads.end(read);
        reads.touch(1);
        assert!(reads.touched.is_empty());
    }
}
