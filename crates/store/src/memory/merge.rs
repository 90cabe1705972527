//! Several ordered sources as one, at the cost of what is taken and not of what there is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The `max` least of all, in their order. Each source is in order itself.
pub(super) fn least<T: Ord>(mut sources: Vec<impl Iterator<Item = T>>, max: usize) -> Vec<T> {
    let mut heads: BinaryHeap<Reverse<(T, usize)>> = BinaryHeap::new();
    for (number, source) in sources.iter_mut().enumerate() {
        heads.extend(source.next().map(|first| Reverse((first, number))));
    }
    let mut taken = Vec::new();
    while taken.len() < max
        && let Some(Reverse((least, number))) = heads.pop()
    {
        taken.push(least);
        heads.extend(sources[number].next().map(|next| Reverse((next, number))));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_sources_come_in_order() {
        let sources = || vec![vec![1, 4, 4].into_iter(), vec![].into_iter(), vec![0, 2, 9].into_iter()];
        assert_eq!(least(sources(), 4), [0, 1, 2, 4]);
        assert_eq!(least(sources(), 99), [0, 1, 2, 4, 4, 9]);
        assert!(least(sources(), 0).is_empty());
    }
}
