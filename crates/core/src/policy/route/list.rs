//! A cache of address lists, so that what is costly to compute from one is computed once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::ring::Ring;

/// How many addresses the lists of one generation hold together. Two generations are kept, and an address on a
/// ring takes 800 bytes: 13 MB at most, unless a single list is longer.
const GENERATION_MAX: usize = 8_192;

/// The addresses of an app at one time.
#[derive(Debug, Default)]
pub(super) struct List {
    addresses: Box<[Box<str>]>,
    /// The first position of each address; a list that people typed may name one twice.
    firsts: Box<[u32]>,
}

impl List {
    fn new<A: AsRef<str>>(addresses: &[A]) -> List {
        let mut seen = FxHashSet::default();
        let is_first = |place: &u32| seen.insert(addresses[*place as usize].as_ref());
        let firsts = (0..addresses.len() as u32).filter(is_first).collect();
        List { addresses: addresses.iter().map(|address| address.as_ref().into()).collect(), firsts }
    }

    /// Number of different addresses.
    pub(super) fn len(&self) -> usize {
        self.firsts.len()
    }

    /// The position of the `nth` of the different addresses.
    pub(super) fn place(&self, nth: usize) -> usize {
        self.firsts[nth] as usize
    }

    /// The different addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.firsts.iter().map(|place| &*self.addresses[*place as usize])
    }

    fn is<A: AsRef<str>>(&self, addresses: &[A]) -> bool {
        self.addresses.iter().map(|address| &**address).eq(addresses.iter().map(AsRef::as_ref))
    }
}

/// A list, and its ring once that was needed.
#[derive(Debug)]
pub(super) struct RoutedList {
    list: Arc<List>,
    ring: Option<Ring>,
}

impl RoutedList {
    pub(super) fn list(&self) -> &Arc<List> {
        &self.list
    }

    pub(super) fn ring(&mut self) -> &Ring {
        self.ring.get_or_insert_with(|| Ring::new(&self.list.addresses))
    }
}

/// The lists used lately, by hash, in two generations. A list that is used moves to the young generation; when that is
/// full, it becomes the old generation, and the old one is dropped.
#[derive(Debug, Default)]
pub(super) struct Lists {
    young: FxHashMap<u64, RoutedList>,
    old: FxHashMap<u64, RoutedList>,
    young_addresses: usize,
}

impl Lists {
    pub(super) fn find<A: AsRef<str>>(&mut self, addresses: &[A]) -> &mut RoutedList {
        let key = hash(addresses);
        if !self.young.get(&key).is_some_and(|known| known.list.is(addresses)) {
            let known = self.old.remove(&key).filter(|known| known.list.is(addresses));
            let known =
                known.unwrap_or_else(|| RoutedList { list: Arc::new(List::new(addresses)), ring: None });
            self.keep(key, known);
        }
        self.young.get_mut(&key).expect("it was found or put there")
    }

    fn keep(&mut self, key: u64, known: RoutedList) {
        let addresses = known.list.addresses.len();
        if self.young_addresses + addresses > GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
            self.young_addresses = 0;
        }
        self.young_addresses += addresses;
        // Another list with the same hash is replaced.
        let replaced = self.young.insert(key, known);
        self.young_addresses -= replaced.map_or(0, |known| known.list.addresses.len());
    }
}

fn hash<A: AsRef<str>>(addresses: &[A]) -> u64 {
    let mut hasher = FxHasher::default();
    addresses.iter().for_each(|address| address.as_ref().hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(app: usize, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("http://10.0.{app}.{n}:9999/")).collect()
    }

    #[test]
    fn a_list_that_is_asked_for_again_is_the_same_with_its_ring() {
        let mut lists = Lists::default();
        let first = lists.find(&["a", "b"]).list().clone();
        lists.find(&["a", "b"]).ring();
        assert!(Arc::ptr_eq(&first, lists.find(&["a", "b"]).list()));
        assert!(lists.find(&["a", "b"]).ring.is_some());
        for other in [["b", "a"], ["ab", ""], ["a", "c"]] {
            assert!(!Arc::ptr_eq(&first, lists.find(&other).list()), "{other:?}");
        }
    }

    #[test]
    fn an_address_that_is_typed_twice_stands_where_it_stands_first() {
        let list = List::new(&["b", "a", "b", "c", "a"]);
        assert_eq!(list.iter().collect::<Vec<_>>(), ["b", "a", "c"]);
        assert_eq!((0..list.len()).map(|nth| list.place(nth)).collect::<Vec<_>>(), [0, 1, 3]);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let mut lists = Lists::default();
        let used = numbered(1_000, 10);
        let first = lists.find(&used).list().clone();
        for app in 0..500 {
            lists.find(&numbered(app, 100));
            assert!(Arc::ptr_eq(&first, lists.find(&used).list()), "{app}");
            let held = lists.young.values().chain(lists.old.values());
            assert!(held.map(|known| known.list.addresses.len()).sum::<usize>() <= 2 * GENERATION_MAX);
            let young: usize = lists.young.values().map(|known| known.list.addresses.len()).sum();
            assert_eq!(young, lists.young_addresses);
        }
    }

    #[test]
    fn two_lists_longer_than_a_generation_are_both_kept() {
        let (one, two) = (numbered(1, GENERATION_MAX + 1), numbered(2, GENERATION_MAX + 1));
        let mut lists = Lists::default();
        let known = [&one, &two].map(|list| lists.find(list).list().clone());
        for _ in 0..3 {
            assert!(Arc::ptr_eq(&known[0], lists.find(&one).list()));
            assert!(Arc::ptr_eq(&known[1], lists.find(&two).list()));
        }
    }
}
