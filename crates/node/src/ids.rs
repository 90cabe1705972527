//! Ids for new runs: numbers come from the store in blocks per day, so that writing a run asks for none.

use std::collections::BTreeMap;

use punctual_core::model::RunId;

use crate::Node;
use crate::ports::StoreError;

const BLOCK_MIN: u64 = 16;
const BLOCK_MAX: u64 = 65_536;

/// Days with numbers left are few, and those that are long past are not asked for again.
const DAYS_MAX: usize = 4_096;

/// Numbers that this node may give out, by day.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    days: BTreeMap<u32, Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    next: u64,
    end: u64,
    /// Doubles with every block: a day that takes many runs asks seldom, and one that takes few wastes few.
    size: u64,
}

impl Blocks {
    fn take(&mut self, day: u32) -> Option<RunId> {
        let block = self.days.get_mut(&day).filter(|block| block.next < block.end)?;
        block.next += 1;
        Some(RunId::new(day, block.next - 1))
    }

    /// Gives ids to as many places as there are numbers for, and says how many are wanted of which days for the rest.
    fn fill(&mut self, places: &mut BTreeMap<u32, Vec<usize>>, ids: &mut [RunId]) -> Vec<(u32, u64)> {
        for (day, places) in places.iter_mut() {
            let given = places.iter().map_while(|place| Some((*place, self.take(*day)?)));
            let given: Vec<(usize, RunId)> = given.collect();
            places.drain(..given.len());
            given.into_iter().for_each(|(place, id)| ids[place] = id);
        }
        places.retain(|_, places| !places.is_empty());
        places.iter().map(|(day, places)| (*day, self.size(*day).max(places.len() as u64))).collect()
    }

    fn size(&self, day: u32) -> u64 {
        self.days.get(&day).map_or(BLOCK_MIN, |block| (block.size * 2).min(BLOCK_MAX))
    }

    fn put(&mut self, day: u32, first: u64, count: u64) {
        if self.days.len() >= DAYS_MAX {
            self.days.pop_first();
        }
        // A block that follows its neighbour lengthens it; otherwise what is left of the old one is wasted.
        match self.days.get_mut(&day) {
            Some(block) if block.end == first => {
                block.end = first + count;
                block.size = count;
            }
            _ => {
                self.days.insert(day, Block { next: first, end: first + count, size: count });
            }
        }
    }
}

impl Node {
    /// One id for each of the days, in their order.
    pub(crate) async fn draw_ids(&self, days: &[u32]) -> Result<Vec<RunId>, StoreError> {
        let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, day) in days.iter().enumerate() {
            places.entry(*day).or_default().push(place);
        }
        let mut ids = vec![RunId::default(); days.len()];
        // All days that are short of numbers are asked for at once: one-shots of a year must not cost a commit a day.
        loop {
            let short = self.memory().blocks.fill(&mut places, &mut ids);
            if short.is_empty() {
                return Ok(ids);
            }
            let firsts = self.ports.store.allot_days(&short).await?;
            let mut memory = self.memory();
            for ((day, count), first) in short.into_iter().zip(firsts) {
                memory.blocks.put(day, first, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_through_a_block_and_on_into_the_next() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.take(3), None);
        blocks.put(3, 0, 2);
        blocks.put(3, 2, 2);
        let sequences: Vec<u64> = std::iter::from_fn(|| blocks.take(3)).map(RunId::sequence).collect();
        assert_eq!(sequences, [0, 1, 2, 3]);
    }

    #[test]
    fn a_block_from_elsewhere_replaces_what_was_left() {
        let mut blocks = Blocks::default();
        blocks.put(3, 0, 5);
        blocks.put(3, 40, 1);
        assert_eq!(blocks.take(3), Some(RunId::new(3, 40)));
        assert_eq!(blocks.take(3), None);
    }

    #[test]
    fn what_many_days_are_short_of_is_asked_for_at_once() {
        let mut blocks = Blocks::default();
        blocks.put(2, 0, 1);
        let mut places =
            BTreeMap::from([(1, vec![0, 3]), (2, vec![1]), (3, (4..44).collect()), (4, vec![2])]);
        let mut ids = vec![RunId::default(); 44];
        let short = blocks.fill(&mut places, &mut ids);
        assert_eq!((ids[1], &*short), (RunId::new(2, 0), &[(1, 16), (3, 40), (4, 16)][..]));
        short.iter().for_each(|(day, count)| blocks.put(*day, 100, *count));
        assert_eq!(blocks.fill(&mut places, &mut ids), []);
        assert_eq!([ids[0], ids[3], ids[2]], [RunId::new(1, 100), RunId::new(1, 101), RunId::new(4, 100)]);
        assert_eq!((ids[4], ids[43]), (RunId::new(3, 100), RunId::new(3, 139)));
    }

    #[test]
    fn blocks_grow_with_use() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.size(3), 16);
        blocks.put(3, 0, 16);
        assert_eq!(blocks.size(3), 32);
    }
}
