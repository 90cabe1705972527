//! The due tail: open runs that are not in the due index yet, in the order of loading.
//!
//! Runs come in any order and are asked for in order. They are kept as sorted runs of entries, each at least twice as long
//! as the next, which are merged as they grow. Measured with due times in random order: a BTreeMap took a third of the
//! time of accepting, this a twentieth.

use std::mem;

use calendar::Timestamp;
use punctual_core::model::{Attempt, Decided, JobId, Origin, RunId, ShardId};
use punctual_node::ports::Waiting;

use super::code::{decided_code, decided_from, origin_code, origin_from};

/// A place in the order of loading: due time, then run.
pub(super) type Place = (i64, u64);

/// An entry of the tail.
pub(super) type Entry = (Place, Birth);

/// What the wheel needs of a run that was born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birth {
    pub(super) fire_time: i64,
    pub(super) job: u32,
    pub(super) shard: u16,
    pub(super) traits: Traits,
}

/// Origin, decision, priority, whether there is a payload and whether there are overrides, in one small number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traits(pub(super) u16);

impl Traits {
    fn of(born: &Waiting) -> Traits {
        let [origin, decided] =
            [origin_code(born.origin), decided_code(born.decided)].map(|code| code as u16);
        let (has_payload, priority) = (u16::from(born.has_payload), u16::from(born.priority));
        let traits = Traits(origin | decided << 3 | has_payload << 6 | priority << 7);
        if born.overrides.is_some() { traits.with_overrides() } else { traits }
    }

    /// What was packed; none if the number was not packed by us.
    pub(super) fn unpack(self) -> Option<(Origin, Decided, u8, bool)> {
        let origin = origin_from(i64::from(self.0 & 7))?;
        let decided = decided_from(i64::from(self.0 >> 3 & 7))?;
        let packed = self.plain();
        Some((origin, decided, (packed >> 7) as u8, packed >> 6 & 1 == 1))
    }

    /// Whether the run's row has to be read for what the run has in place of its job's.
    pub(super) fn has_overrides(self) -> bool {
        self.0 & HAS_OVERRIDES != 0
    }

    pub(super) fn with_overrides(self) -> Traits {
        Traits(self.0 | HAS_OVERRIDES)
    }

    /// Without what [`Traits::has_overrides`] says.
    pub(super) fn plain(self) -> u16 {
        self.0 & !HAS_OVERRIDES
    }
}

const HAS_OVERRIDES: u16 = 1 << 15;

impl Birth {
    pub(super) fn of(born: &Waiting) -> Birth {
        Birth {
            fire_time: born.fire_time.as_millis(),
            job: born.job.0,
            shard: born.shard.0,
            traits: Traits::of(born),
        }
    }

    /// The run as it was born, but for its overrides; none if its traits were not packed by us.
    pub(super) fn at(&self, (due, run): Place) -> Option<Waiting> {
        let (origin, decided, priority, has_payload) = self.traits.unpack()?;
        Some(Waiting {
            run: RunId(run),
            job: JobId(self.job),
            shard: ShardId(self.shard),
            fire_time: Timestamp::from_millis(self.fire_time),
            ready_at: Timestamp::from_millis(due),
            attempt: Attempt::FIRST,
            priority,
            origin,
            decided,
            has_payload,
            is_called_back: false,
            overrides: None,
        })
    }
}

/// Entries that are sorted when there are so many.
const FRESH_MAX: usize = 4_096;

/// The tail.
#[derive(Default)]
pub(super) struct Births {
    /// As they came.
    fresh: Vec<Entry>,
    /// Sorted, the longest first.
    sorted: Vec<Vec<Entry>>,
    /// What the flush that is under way has still to write, or to leave out because it was closed meanwhile.
    old: Vec<Sorted>,
}

/// Sorted entries, of which the first have been taken.
struct Sorted {
    entries: Vec<Entry>,
    taken: usize,
}

impl Births {
    pub(super) fn push(&mut self, place: Place, birth: Birth) {
        self.fresh.push((place, birth));
        if self.fresh.len() >= FRESH_MAX {
            self.sort();
        }
    }

    /// How many came since the last flush began.
    pub(super) fn len(&self) -> usize {
        self.fresh.len() + self.sorted.iter().map(Vec::len).sum::<usize>()
    }

    /// The entries from `from` on and before `until`, as slices that are sorted each by itself.
    pub(super) fn between(&mut self, from: Place, until: Place) -> impl Iterator<Item = &[Entry]> {
        self.sort();
        let old = self.old.iter().map(|old| &old.entries[old.taken..]);
        let slices = self.sorted.iter().map(Vec::as_slice).chain(old);
        slices.map(move |entries| {
            let first = entries.partition_point(|(place, _)| *place < from);
            let end = entries.partition_point(|(place, _)| *place < until);
            &entries[first..end.max(first)]
        })
    }

    /// Makes everything what the next flush writes.
    pub(super) fn begin_flush(&mut self) {
        self.sort();
        let sorted = mem::take(&mut self.sorted).into_iter();
        self.old = sorted.map(|entries| Sorted { entries, taken: 0 }).collect();
    }

    pub(super) fn is_flushing(&self) -> bool {
        !self.old.is_empty()
    }

    /// The first entry that the flush has not written, taken out.
    pub(super) fn pop_old(&mut self) -> Option<Entry> {
        let first = self.old.iter_mut().min_by_key(|old| old.entries[old.taken].0)?;
        let entry = first.entries[first.taken];
        first.taken += 1;
        if first.taken == first.entries.len() {
            self.old.retain(|old| old.taken < old.entries.len());
        }
        Some(entry)
    }

    /// Keeps only the runs of which this is so.
    pub(super) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        self.sort();
        for old in &mut self.old {
            old.entries.drain(..old.taken);
            old.taken = 0;
        }
        for entries in self.sorted.iter_mut().chain(self.old.iter_mut().map(|old| &mut old.entries)) {
            entries.retain(|((_, run), _)| stays(*run));
        }
        self.sorted.retain(|entries| !entries.is_empty());
        self.old.retain(|old| !old.entries.is_empty());
    }

    fn sort(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        let mut last = mem::take(&mut self.fresh);
        last.sort_unstable_by_key(|(place, _)| *place);
        while let Some(before) = self.sorted.pop_if(|before| before.len() < 2 * last.len()) {
            last = merge(before, last);
        }
        self.sorted.push(last);
    }
}

fn merge(mut left: Vec<Entry>, right: Vec<Entry>) -> Vec<Entry> {
    // Runs that come in the order of their due times are never compared one by one.
    if left.last().map(|(place, _)| *place) <= right.first().map(|(place, _)| *place) {
        left.extend(right);
        return left;
    }
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let first = if a.0 <= b.0 { left.next() } else { right.next() };
        merged.extend(first);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use punctual_core::model::Overrides;

    use super::*;

    #[test]
    fn traits_read_back_as_they_were_packed() {
        for origin in Origin::ALL {
            for decided in Decided::ALL {
                for (priority, has_payload) in [(0, false), (9, true), (255, false)] {
                    for overrides in [None, Some(Arc::new(Overrides::default()))] {
                        let mut born = birth(7).at((0, 0)).unwrap();
                        (born.origin, born.decided) = (*origin, *decided);
                        (born.priority, born.has_payload) = (priority, has_payload);
                        let traits = Traits::of(&Waiting { overrides: overrides.clone(), ..born });
                        assert_eq!(traits.unpack(), Some((*origin, *decided, priority, has_payload)));
                        assert_eq!(traits.has_overrides(), overrides.is_some());
                    }
                }
            }
        }
    }

    fn birth(job: u32) -> Birth {
        Birth { fire_time: 0, job, shard: 0, traits: Traits(0) }
    }

    /// All entries between two places, in order.
    fn found(births: &mut Births, from: Place, until: Place) -> Vec<Place> {
        let mut places: Vec<Place> =
            births.between(from, until).flat_map(|entries| entries.iter().map(|(place, _)| *place)).collect();
        places.sort_unstable();
        places
    }

    #[test]
    fn the_tail_finds_and_flushes_what_a_map_would() {
        let mut births = Births::default();
        let mut model: BTreeMap<Place, u32> = BTreeMap::new();
        let mut dice: u64 = 7;
        let mut roll = |end: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % end
        };
        for run in 0..30_000 {
            let place = (roll(5_000) as i64, run);
            births.push(place, birth(run as u32));
            model.insert(place, run as u32);
            if roll(1_000) == 0 {
                let (from, until) = ((roll(5_000) as i64, roll(30_000)), (roll(5_000) as i64, 0));
                let expected = model.keys().copied().filter(|place| (from..until).contains(place));
                assert_eq!(found(&mut births, from, until), expected.collect::<Vec<Place>>());
            }
            if roll(9_000) == 0 {
                births.begin_flush();
                // Half of it before the rest of the runs, half after.
                for _ in 0..births.old.iter().map(|old| old.entries.len()).sum::<usize>() / 2 {
                    assert_eq!(
                        births.pop_old().map(|(place, _)| place),
                        model.pop_first().map(|(place, _)| place)
                    );
                }
                while let Some((place, birth)) = births.pop_old() {
                    assert_eq!(model.remove(&place), Some(birth.job));
                }
            }
        }
        births.retain(|run| run % 2 == 0);
        model.retain(|(_, run), _| run % 2 == 0);
        let all = ((i64::MIN, 0), (i64::MAX, 0));
        assert_eq!(found(&mut births, all.0, all.1), model.keys().copied().collect::<Vec<Place>>());
        assert_eq!(births.len(), model.len());
    }
}
