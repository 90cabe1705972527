//! The loaded runs, by their ids.
//!
//! There may be a million of them, and a hash map of whole runs keeps up to half of its places free, each as large as a
//! run. So the runs lie side by side, and only their places are hashed: 67 bytes a run instead of 119 where it was measured
//! (a million, `punctual bench timers`).

use std::hash::BuildHasher;

use hashbrown::HashTable;
use punctual_core::model::RunId;
use rustc_hash::FxBuildHasher;

use crate::run::Run;

/// The loaded runs.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(RunId, Run)>,
    /// Where in `rows` each is.
    places: HashTable<u32>,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn contains_key(&self, id: &RunId) -> bool {
        self.place(id).is_some()
    }

    pub(crate) fn get(&self, id: &RunId) -> Option<&Run> {
        self.place(id).map(|place| &self.rows[place].1)
    }

    pub(crate) fn get_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.place(id).map(|place| &mut self.rows[place].1)
    }

    /// Puts a run there, in place of what is known of it.
    pub(crate) fn insert(&mut self, id: RunId, run: Run) {
        if let Some(known) = self.get_mut(&id) {
            *known = run;
            return;
        }
        let place = u32::try_from(self.rows.len()).expect("a wheel holds fewer runs than that");
        self.rows.push((id, run));
        let Table { rows, places } = self;
        places.insert_unique(hash(&id), place, |place| hash(&rows[*place as usize].0));
    }

    pub(crate) fn remove(&mut self, id: &RunId) -> Option<Run> {
        let is_it = |place: &u32| self.rows[*place as usize].0 == *id;
        let (place, _) = self.places.find_entry(hash(id), is_it).ok()?.remove();
        let (_, run) = self.rows.swap_remove(place as usize);
        // The last one has taken its place.
        if let Some((moved, _)) = self.rows.get(place as usize) {
            let last = self.rows.len() as u32;
            if let Some(known) = self.places.find_mut(hash(moved), |place| *place == last) {
                *known = place;
            }
        }
        self.shrink();
        Some(run)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RunId, &Run)> {
        self.rows.iter().map(|(id, run)| (id, run))
    }

    fn place(&self, id: &RunId) -> Option<usize> {
        let is_it = |place: &u32| self.rows[*place as usize].0 == *id;
        self.places.find(hash(id), is_it).map(|place| *place as usize)
    }

    /// After a herd its room is given back.
    fn shrink(&mut self) {
        const KEPT: usize = 16_384;
        if self.rows.capacity() > KEPT && self.rows.len() < self.rows.capacity() / 8 {
            let Table { rows, places } = self;
            rows.shrink_to(KEPT.max(rows.len() * 2));
            places.shrink_to(KEPT.max(rows.len() * 2), |place| hash(&rows[*place as usize].0));
        }
    }
}

fn hash(id: &RunId) -> u64 {
    FxBuildHasher.hash_one(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use calendar::Timestamp;
    use punctual_core::model::{Attempt, Decided, JobId, Origin, ShardId};

    use super::*;
    use crate::ports::Waiting;

    fn run(mark: u32) -> Run {
        let at = Timestamp::from_millis(0);
        Run::from(&Waiting {
            run: RunId(0),
            job: JobId(mark),
            shard: ShardId(0),
            fire_time: at,
            ready_at: at,
            attempt: Attempt::FIRST,
            priority: 5,
            origin: Origin::Manual,
            decided: Decided::OnTime,
            has_payload: false,
            is_called_back: false,
            overrides: None,
        })
    }

    /// A table and a map of the same, through the same changes.
    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut table, mut map) = (Table::default(), BTreeMap::new());
        let mut bits = 1_u64;
        for step in 0..200_000_u32 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let id = RunId((bits >> 33) % 40_000);
            // It grows first, then it is emptied: rows move and room is given back.
            let is_growing = step < 120_000;
            if (bits >> 20) % 10 < if is_growing { 8 } else { 2 } {
                table.insert(id, run(step));
                map.insert(id, step);
            } else {
                assert_eq!(table.remove(&id).map(|run| run.job.0), map.remove(&id));
            }
            assert_eq!(table.get(&id).map(|run| run.job.0), map.get(&id).copied());
        }
        for id in (0..40_000).map(RunId) {
            if let Some(run) = table.get_mut(&id) {
                run.job.0 += 1;
            }
            assert_eq!(table.get(&id).map(|run| run.job.0), map.get(&id).map(|mark| mark + 1));
            assert_eq!(table.contains_key(&id), map.contains_key(&id));
        }
        let mut listed: Vec<(RunId, u32)> = table.iter().map(|(id, run)| (*id, run.job.0 - 1)).collect();
        listed.sort_unstable();
        assert_eq!(listed, map.into_iter().collect::<Vec<_>>());
        let first = |table: &Table| table.iter().next().map(|(id, _)| *id);
        while let Some(id) = first(&table) {
            table.remove(&id);
        }
        assert_eq!((table.len(), table.contains_key(&RunId(7))), (0, false));
    }
}
