//! The slots of the wheel: timers in vectors, by when they are due.
//!
//! A level is 64 vectors and a word of 64 bits that says which are in use. Linked lists through one vector of
//! entries were tried first: arming cost the same, but spreading a coarse slot jumped about in memory, and a
//! million scattered timers took 1.1 s to hand out instead of 0.5 s.

use super::Timer;

/// Levels of 6 bits that cover 64 bits.
pub(super) const LEVELS: usize = 11;

/// An emptied vector up to this size is kept for the next timers of its slot.
const KEPT_CAPACITY: usize = 256;

/// A slot: the timers whose time has this value in its level's 6 bits, and the position's value above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    level: usize,
    index: usize,
}

impl Slot {
    /// Where a time after the position belongs: in the level of the highest bit in which they differ.
    pub(super) fn of(due: u64, position: u64) -> Slot {
        debug_assert!(position < due, "what is due is not in a slot");
        let level = (due ^ position).ilog2() as usize / 6;
        Slot { level, index: (due >> (6 * level)) as usize & 63 }
    }

    /// Its first millisecond.
    pub(super) fn start(self, position: u64) -> u64 {
        let shift = 6 * self.level as u32;
        let above = position.checked_shr(shift + 6).map_or(0, |above| above << (shift + 6));
        above | (self.index as u64) << shift
    }

    fn number(self) -> usize {
        self.level * 64 + self.index
    }
}

/// All slots of all levels.
#[derive(Debug)]
pub(super) struct Slots {
    timers: Vec<Vec<Timer>>,
    /// Which slots of each level hold something.
    occupied: [u64; LEVELS],
    len: usize,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { timers: vec![Vec::new(); LEVELS * 64], occupied: [0; LEVELS], len: 0 }
    }
}

impl Slots {
    /// How many timers there are, stale ones included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, slot: Slot, timer: Timer) {
        self.timers[slot.number()].push(timer);
        self.occupied[slot.level] |= 1 << slot.index;
        self.len += 1;
    }

    /// Takes all timers out of a slot.
    pub(super) fn take(&mut self, slot: Slot) -> Vec<Timer> {
        let timers = std::mem::take(&mut self.timers[slot.number()]);
        self.occupied[slot.level] &= !(1 << slot.index);
        self.len -= timers.len();
        timers
    }

    /// Gives the emptied vector of a slot back to it, to spare the next timers an allocation.
    pub(super) fn give_back(&mut self, slot: Slot, emptied: Vec<Timer>) {
        debug_assert!(emptied.is_empty() && self.timers[slot.number()].is_empty());
        if emptied.capacity() <= KEPT_CAPACITY {
            self.timers[slot.number()] = emptied;
        }
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&Timer) -> bool) {
        self.len = 0;
        for (number, timers) in self.timers.iter_mut().enumerate() {
            timers.retain(&is_kept);
            timers.shrink_to(KEPT_CAPACITY);
            self.len += timers.len();
            if timers.is_empty() {
                self.occupied[number / 64] &= !(1 << (number % 64));
            }
        }
    }

    /// The slot whose time comes first. Finer levels lie inside the position's own slot of the coarser ones, so
    /// they come first; inside a level all slots in use lie behind the position.
    pub(super) fn first_occupied(&self) -> Option<Slot> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        Some(Slot { level, index: self.occupied[level].trailing_zeros() as usize })
    }

    /// The timers up to a time, stale ones included, in no order inside a slot.
    pub(super) fn until(&self, end: u64, position: u64) -> impl Iterator<Item = &Timer> {
        let occupied = self.occupied;
        let of_level = move |level: usize| {
            let is_used = move |index: &usize| occupied[level] & (1 << index) != 0;
            (0..64).filter(is_used).map(move |index| Slot { level, index })
        };
        let slots = (0..LEVELS).flat_map(of_level).take_while(move |slot| slot.start(position) <= end);
        let timers = slots.flat_map(|slot| &self.timers[slot.number()]);
        timers.filter(move |timer| super::tick(timer.due) <= end)
    }

    /// The slot whose time comes last.
    pub(super) fn last_occupied(&self) -> Option<Slot> {
        let level = self.occupied.iter().rposition(|slots| *slots != 0)?;
        Some(Slot { level, index: self.occupied[level].ilog2() as usize })
    }
}
