//! The wheel: which of the loaded runs is due next.
//!
//! A hierarchical timer wheel with millisecond slots. It has no clock: [`Wheel::advance`] takes the time, and hands out
//! everything that is due by then, earliest first, however long ago the last call was. Eleven levels of 64 slots cover
//! all of `i64`, so there is no longest delay.
//!
//! It holds at most `capacity` runs, the earliest. What is later stays in the store, behind the *mark*: every
//! open run below the mark is loaded, none from the mark on is. When the wheel overflows, the latest runs are
//! dropped and the mark moves down to the first of them; the loader goes on from there when there is room.
//!
//! Inside a millisecond, runs go by priority and then by id. Ids come from the store, so the order is the same
//! whenever and in whatever batches the runs were loaded.
//!
//! Every run belongs to a *group*. The order holds inside a group; where more is due than the caller takes, the groups
//! that have something get equal shares. So a million runs of one group that are due at once do not starve the others.

mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use calendar::Timestamp;
use rustc_hash::FxHashMap;

use slots::{LEVELS, Slot, Slots};

/// A run that waits for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it is due.
    pub due: Timestamp,
    /// 0 goes first.
    pub priority: u8,
    /// The group within which it keeps its order.
    pub group: u32,
    /// The run.
    pub id: u64,
}

impl Timer {
    /// The order in which runs are handed out.
    fn rank(&self) -> (Timestamp, u8, u64) {
        (self.due, self.priority, self.id)
    }

    /// The order of the store, in which runs are loaded.
    fn mark(&self) -> Mark {
        Mark { due: self.due, id: self.id }
    }
}

/// A place in the order of the store: runs below it are loaded, it and those behind it are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// When the first run that is not loaded is due.
    pub due: Timestamp,
    /// That run, or the lowest id that is not loaded at that time.
    pub id: u64,
}

/// The numbers of runs that [`Wheel::advance_within`] has handed out so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Runs of all groups.
    pub total: usize,
    /// Runs of the group in question.
    pub of_group: usize,
}

/// What [`Wheel::arm`] did with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// It is in the wheel.
    Kept,
    /// It lies behind the mark and stays in the store.
    Beyond,
    /// It was in the wheel already, for the same time.
    Already,
}

/// The loaded runs, by when they are due.
#[derive(Debug)]
pub struct Wheel {
    capacity: usize,
    mark: Option<Mark>,
    /// Everything due up to here is in the queue or gone; everything later is in a slot.
    position: u64,
    slots: Slots,
    /// Due and not yet handed out: every group that has something, in order.
    ready: BTreeMap<u32, VecDeque<Timer>>,
    /// The group that was served last. The next call begins with the one after it, so that every group is served even if
    /// few runs are taken a time.
    served: u32,
    /// The runs that are armed, and for when. A timer in a slot or in the queue that is not in here is stale: its
    /// run was cancelled or moved. Taking it out at once would mean to search its slot.
    armed: FxHashMap<u64, Timestamp>,
    /// Runs that were dropped since the last [`Wheel::take_dropped`].
    dropped: Vec<u64>,
}

impl Wheel {
    /// An empty wheel at `now` that holds at most `capacity` runs.
    pub fn new(capacity: usize, now: Timestamp) -> Wheel {
        assert!(capacity > 0, "a wheel that holds nothing would never load anything");
        Wheel {
            capacity,
            mark: None,
            position: tick(now),
            slots: Slots::default(),
            ready: BTreeMap::new(),
            served: 0,
            armed: FxHashMap::default(),
            dropped: Vec::new(),
        }
    }

    /// How many runs are loaded and not handed out.
    pub fn len(&self) -> usize {
        self.armed.len()
    }

    /// Whether nothing is loaded.
    pub fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    /// Whether a run is loaded and not handed out.
    pub fn contains(&self, id: u64) -> bool {
        self.armed.contains_key(&id)
    }

    /// How many more runs can be loaded before the latest are dropped.
    pub fn room(&self) -> usize {
        self.capacity - self.len()
    }

    /// The first place in the store that is not loaded; nothing if all of it is.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Notes that the store was read up to `mark`, or to its end; the caller arms what it found after this.
    pub fn open_to(&mut self, mark: Option<Mark>) {
        self.mark = mark;
    }

    /// The runs that earlier ones displaced since the last call.
    pub fn take_dropped(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.dropped)
    }

    /// Adds a run, or moves it to another time, unless it lies behind the mark.
    pub fn arm(&mut self, timer: Timer) -> Armed {
        if self.mark.is_some_and(|mark| mark <= timer.mark()) {
            self.cancel(timer.id);
            return Armed::Beyond;
        }
        if self.armed.insert(timer.id, timer.due) == Some(timer.due) {
            return Armed::Already;
        }
        self.put(timer);
        if self.len() > self.capacity {
            self.drop_latest();
        }
        self.sweep();
        if self.is_armed(&timer) { Armed::Kept } else { Armed::Beyond }
    }

    /// Takes a run out; whether it was there.
    pub fn cancel(&mut self, id: u64) -> bool {
        let was_armed = self.armed.remove(&id).is_some();
        self.sweep();
        was_armed
    }

    /// Empties the wheel after a shard was lost: another node may hold its runs now.
    pub fn clear(&mut self) {
        let position = self.position;
        *self = Wheel::new(self.capacity, Timestamp::MIN);
        self.position = position;
    }

    /// When to ask again: nothing becomes due before this. Nothing if the wheel is empty.
    ///
    /// For runs far ahead it may be early; calling again then gives a closer answer.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.is_empty() {
            return None;
        }
        match self.slots.first_occupied() {
            Some(slot) if self.ready.is_empty() => Some(timestamp(slot.start(self.position))),
            _ => Some(timestamp(self.position)),
        }
    }

    /// The same for a caller that takes nothing of some groups: their due runs are left out.
    pub fn next_due_within(&self, may_have: impl Fn(u32) -> bool) -> Option<Timestamp> {
        if self.ready.keys().any(|group| may_have(*group)) {
            return self.next_due();
        }
        self.slots.first_occupied().map(|slot| timestamp(slot.start(self.position)))
    }

    /// A time before which no run in the wheel is due, overdue runs included.
    pub fn earliest(&self) -> Option<Timestamp> {
        if self.is_empty() {
            return None;
        }
        let first =
            |queue: &VecDeque<Timer>| queue.iter().find(|timer| self.is_armed(timer)).map(|one| one.due);
        let late = self.ready.values().filter_map(first).min();
        let ahead = self.slots.first_occupied().map(|slot| timestamp(slot.start(self.position)));
        late.into_iter().chain(ahead).min()
    }

    /// An upper bound of the runs that are due and not handed out, and when the first of them became due. The cost grows
    /// with the number of groups that have such runs.
    pub fn overdue(&self) -> (usize, Option<Timestamp>) {
        let first =
            |queue: &VecDeque<Timer>| queue.iter().find(|timer| self.is_armed(timer)).map(|one| one.due);
        let count: usize = self.ready.values().map(VecDeque::len).sum();
        (count.min(self.len()), self.ready.values().filter_map(first).min())
    }

    /// The runs that are due by `until` or have long been, those of each group in order as far as they are due already.
    ///
    /// It looks through the coarse slot that `until` lies in, so it is for moments ahead, not for hours.
    pub fn due_by(&self, until: Timestamp) -> impl Iterator<Item = u64> {
        let queued = self.ready.values().flatten();
        let ahead = self.slots.until(tick(until), self.position);
        queued.chain(ahead).filter(|timer| self.is_armed(timer)).map(|timer| timer.id)
    }

    /// Hands out what is due at `now`, at most `max` runs, those of each group in order; the rest stays due.
    pub fn advance(&mut self, now: Timestamp, max: usize, out: &mut Vec<Timer>) {
        self.advance_within(now, max, |_, _| true, out);
    }

    /// The same with a limit for each group: `may_have` is called with the number of runs handed out so far, in all and of
    /// the group.
    pub fn advance_within(
        &mut self,
        now: Timestamp,
        max: usize,
        may_have: impl Fn(u32, Handed) -> bool,
        out: &mut Vec<Timer>,
    ) {
        self.collect_until(tick(now));
        let mut handed: FxHashMap<u32, usize> = FxHashMap::default();
        let mut total = 0;
        // Groups in a row that had nothing due or were at their limit.
        let mut passed = 0;
        while total < max && passed < self.ready.len() {
            let Some(group) = self.next_group() else { break };
            self.served = group;
            let share = ((max - total) / self.ready.len()).max(1);
            let of_group = handed.entry(group).or_default();
            let before = *of_group;
            while *of_group - before < share
                && may_have(group, Handed { total, of_group: *of_group })
                && self.serve_one(group, out)
            {
                *of_group += 1;
                total += 1;
            }
            passed = if *of_group > before { 0 } else { passed + 1 };
            if self.ready.get(&group).is_some_and(VecDeque::is_empty) {
                self.ready.remove(&group);
                passed = 0;
            }
        }
    }

    /// The group that is served next: the next one that has something due.
    fn next_group(&self) -> Option<u32> {
        let after = self.ready.range((Bound::Excluded(self.served), Bound::Unbounded));
        after.chain(self.ready.range(..=self.served)).map(|(group, _)| *group).next()
    }

    /// Hands out the first run of a group; whether there was one.
    fn serve_one(&mut self, group: u32, out: &mut Vec<Timer>) -> bool {
        let Some(queue) = self.ready.get_mut(&group) else { return false };
        while let Some(timer) = queue.pop_front() {
            if self.armed.get(&timer.id) == Some(&timer.due) {
                self.armed.remove(&timer.id);
                out.push(timer);
                return true;
            }
        }
        false
    }

    /// Moves everything due up to `now` into the queue, slot after slot.
    ///
    /// A coarse slot is spread over finer ones when its first millisecond comes. So nothing ever lies behind the position,
    /// and no pause, however long, skips a slot.
    fn collect_until(&mut self, now: u64) {
        while let Some(slot) = self.slots.first_occupied()
            && slot.start(self.position) <= now
        {
            self.position = slot.start(self.position);
            let mut timers = self.slots.take(slot);
            timers.retain(|timer| {
                let due = tick(timer.due);
                if due > self.position {
                    self.slots.push(Slot::of(due, self.position), *timer);
                }
                due <= self.position
            });
            // They are all due at this very millisecond, and what was queued before them is due earlier.
            timers.sort_unstable_by_key(Timer::rank);
            for timer in timers.drain(..) {
                self.ready.entry(timer.group).or_default().push_back(timer);
            }
            self.slots.give_back(slot, timers);
        }
        self.position = self.position.max(now);
    }

    /// Puts a timer into its slot, or into the queue if its time has come.
    fn put(&mut self, timer: Timer) {
        let due = tick(timer.due);
        if due > self.position {
            return self.slots.push(Slot::of(due, self.position), timer);
        }
        let queue = self.ready.entry(timer.group).or_default();
        let place = queue.partition_point(|other| other.rank() < timer.rank());
        queue.insert(place, timer);
    }

    fn is_armed(&self, timer: &Timer) -> bool {
        self.armed.get(&timer.id) == Some(&timer.due)
    }

    /// Removes stale timers when they outnumber the others, so that cancelling cannot fill memory.
    fn sweep(&mut self) {
        let queued: usize = self.ready.values().map(VecDeque::len).sum();
        if self.slots.len() + queued < 1_024 + 2 * self.len() {
            return;
        }
        let armed = &self.armed;
        let is_armed = |timer: &Timer| armed.get(&timer.id) == Some(&timer.due);
        self.slots.retain(is_armed);
        self.ready.values_mut().for_each(|queue| queue.retain(is_armed));
        self.ready.retain(|_, queue| !queue.is_empty());
    }

    /// Drops the latest runs until a sixteenth of the wheel is free: dropping them one by one would search the
    /// last slot for each, and read each back from the store on its own.
    fn drop_latest(&mut self) {
        let keep = self.capacity - self.capacity / 16;
        while self.len() > keep {
            match self.slots.last_occupied() {
                Some(slot) => {
                    let timers = self.slots.take(slot);
                    let kept = self.without_latest(timers, self.len() - keep);
                    kept.into_iter().for_each(|timer| self.slots.push(slot, timer));
                }
                // The wheel is full of what is already due.
                None => {
                    let timers = std::mem::take(&mut self.ready).into_values().flatten().collect();
                    let mut kept = self.without_latest(timers, self.len() - keep);
                    kept.sort_unstable_by_key(Timer::rank);
                    for timer in kept {
                        self.ready.entry(timer.group).or_default().push_back(timer);
                    }
                }
            }
        }
    }

    /// Forgets the last `surplus` of the armed timers, in the order of the store, and lowers the mark to them.
    fn without_latest(&mut self, mut timers: Vec<Timer>, surplus: usize) -> Vec<Timer> {
        timers.retain(|timer| self.is_armed(timer));
        timers.sort_unstable_by_key(Timer::mark);
        // One that was cancelled and armed again for the same time is there twice.
        timers.dedup_by_key(|timer| timer.id);
        let dropped = timers.split_off(timers.len().saturating_sub(surplus));
        for timer in &dropped {
            self.armed.remove(&timer.id);
            self.dropped.push(timer.id);
        }
        let lowest = dropped.first().map(Timer::mark);
        self.mark = self.mark.into_iter().chain(lowest).min();
        timers
    }
}

/// Instants as unsigned numbers in the same order, so that levels are found by comparing bits.
fn tick(at: Timestamp) -> u64 {
    (at.as_millis() as u64) ^ (1 << 63)
}

fn timestamp(tick: u64) -> Timestamp {
    Timestamp::from_millis((tick ^ (1 << 63)) as i64)
}

const _: () = assert!(LEVELS * 6 >= 64, "the levels cover every instant");

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn timer(due: i64, priority: u8, id: u64) -> Timer {
        Timer { due: at(due), priority, group: 0, id }
    }

    fn wheel(timers: &[Timer]) -> Wheel {
        let mut wheel = Wheel::new(1_000, at(0));
        for timer in timers {
            assert_eq!(wheel.arm(*timer), Armed::Kept);
        }
        wheel
    }

    fn due(wheel: &mut Wheel, now: i64) -> Vec<u64> {
        let mut out = Vec::new();
        wheel.advance(at(now), usize::MAX, &mut out);
        out.iter().map(|timer| timer.id).collect()
    }

    #[test]
    fn what_is_due_of_many_groups_goes_in_equal_shares() {
        let of = |group, id| Timer { group, ..timer(10, 5, id) };
        let flood = (0..100).map(|id| of(7, id));
        let fresh = [Timer { due: at(20), ..of(3, 500) }, Timer { due: at(20), ..of(9, 600) }];
        let mut wheel = wheel(&flood.chain(fresh).collect::<Vec<_>>());
        let mut out = Vec::new();
        wheel.advance(at(20), 6, &mut out);
        let ids: Vec<u64> = out.iter().map(|timer| timer.id).collect();
        assert_eq!(ids, [500, 0, 1, 600, 2, 3], "nobody waits for the flood, and it gets what is left");
    }

    #[test]
    fn the_smallest_share_goes_round() {
        let of = |group: u32| Timer { group, ..timer(10, 5, u64::from(group)) };
        let again = |group: u32| Timer { group, ..timer(10, 5, 100 + u64::from(group)) };
        let mut wheel = wheel(&[of(1), of(2), of(3), again(1), again(2), again(3)]);
        let mut served = Vec::new();
        for _ in 0..6 {
            let mut out = Vec::new();
            wheel.advance(at(10), 1, &mut out);
            served.extend(out.iter().map(|timer| timer.group));
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_handed_out_a_millisecond_early() {
        let mut wheel = wheel(&[timer(70, 5, 1), timer(5_000, 5, 2)]);
        assert_eq!(due(&mut wheel, 69), []);
        assert_eq!(due(&mut wheel, 70), [1]);
        assert_eq!(due(&mut wheel, 4_999), []);
        assert_eq!(due(&mut wheel, 5_000), [2]);
    }

    #[test]
    fn after_a_pause_of_any_length_everything_due_comes_in_order() {
        let hour = 3_600_000;
        let mut wheel =
            wheel(&[timer(3 * hour, 5, 3), timer(1, 5, 1), timer(hour, 5, 2), timer(9 * hour, 5, 4)]);
        assert_eq!(due(&mut wheel, 5 * hour), [1, 2, 3]);
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn inside_a_millisecond_priority_decides_and_then_the_id() {
        let mut wheel = wheel(&[timer(100, 5, 9), timer(100, 0, 8), timer(100, 5, 1), timer(100, 9, 2)]);
        assert_eq!(due(&mut wheel, 100), [8, 1, 9, 2]);
    }

    #[test]
    fn what_is_late_when_it_arrives_takes_its_place_among_what_is_due() {
        let mut wheel = wheel(&[timer(100, 5, 1), timer(300, 5, 3)]);
        let mut out = Vec::new();
        wheel.advance(at(400), 0, &mut out);
        wheel.arm(timer(200, 5, 2));
        wheel.arm(timer(50, 5, 0));
        assert_eq!(due(&mut wheel, 400), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_due_in_a_moment_is_known_before() {
        let mut wheel = wheel(&[
            timer(100, 5, 1),
            timer(600, 5, 2),
            timer(601, 5, 3),
            timer(90_000, 5, 4),
            timer(50, 5, 5),
        ]);
        wheel.cancel(5);
        let soon = |wheel: &Wheel, until| {
            let mut ids: Vec<u64> = wheel.due_by(at(until)).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(soon(&wheel, 99), []);
        assert_eq!(soon(&wheel, 600), [1, 2]);
        wheel.advance(at(300), 0, &mut Vec::new());
        assert_eq!(soon(&wheel, 700), [1, 2, 3], "what is due and was not handed out is among them");
        assert_eq!(soon(&wheel, i64::MAX), [1, 2, 3, 4]);
    }

    #[test]
    fn at_most_so_many_are_handed_out_and_the_rest_stays_due() {
        let mut wheel = wheel(&[timer(100, 5, 1), timer(100, 5, 2), timer(101, 5, 3)]);
        let mut out = Vec::new();
        wheel.advance(at(200), 2, &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(wheel.next_due(), Some(at(200)), "now");
        assert_eq!(due(&mut wheel, 200), [3]);
    }

    #[test]
    fn the_earliest_are_kept_and_the_mark_says_where_to_read_on() {
        let mut wheel = Wheel::new(16, at(0));
        for id in (0..17).rev() {
            wheel.arm(timer(1_000 + id as i64, 5, id));
        }
        assert_eq!(wheel.mark(), Some(Mark { due: at(1_015), id: 15 }));
        assert_eq!(wheel.arm(timer(1_015, 0, 15)), Armed::Beyond);
        assert_eq!(wheel.arm(timer(999, 5, 99)), Armed::Kept);
        assert_eq!(due(&mut wheel, 2_000).len(), 16);
        wheel.open_to(None);
        assert_eq!(wheel.arm(timer(1_015, 5, 15)), Armed::Kept);
    }

    #[test]
    fn a_herd_larger_than_the_wheel_is_cut_by_id_even_when_it_is_due() {
        let mut wheel = Wheel::new(16, at(0));
        wheel.advance(at(500), 0, &mut Vec::new());
        for id in 0..40 {
            wheel.arm(timer(500, (id % 3) as u8, id));
        }
        let mark = wheel.mark().unwrap();
        let out = due(&mut wheel, 500);
        assert!(out.iter().all(|id| *id < mark.id), "{out:?} {mark:?}");
        assert_eq!(out.len() as u64, mark.id, "everything below the mark is loaded");
    }

    #[test]
    fn a_cancelled_run_is_not_handed_out_wherever_it_was() {
        let mut wheel =
            wheel(&[timer(100, 5, 1), timer(100, 5, 2), timer(90_000, 5, 3), timer(90_001, 5, 4)]);
        assert!(wheel.cancel(3));
        wheel.advance(at(100), 0, &mut Vec::new());
        assert!(wheel.cancel(1));
        assert!(!wheel.cancel(1));
        assert_eq!(due(&mut wheel, 100_000), [2, 4]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_run_armed_twice_is_there_once() {
        let mut wheel = wheel(&[timer(100, 5, 1)]);
        assert_eq!(wheel.arm(timer(100, 5, 1)), Armed::Already);
        assert_eq!(due(&mut wheel, 100), [1]);
    }

    #[test]
    fn a_run_armed_for_another_time_moves_there() {
        let mut wheel = wheel(&[timer(100, 5, 1), timer(200, 5, 2)]);
        assert_eq!(wheel.arm(timer(300, 5, 1)), Armed::Kept);
        assert_eq!(wheel.len(), 2);
        assert_eq!(due(&mut wheel, 299), [2]);
        assert_eq!(due(&mut wheel, 300), [1]);
    }

    #[test]
    fn cancelling_over_and_over_does_not_fill_memory() {
        let mut wheel = wheel(&[]);
        for id in 0..100_000 {
            wheel.arm(timer(500 + (id % 7) as i64, 5, id));
            wheel.cancel(id);
        }
        assert!(wheel.slots.len() < 2_000, "{} stale timers", wheel.slots.len());
    }

    #[test]
    fn every_instant_has_its_slot() {
        let ends = [i64::MIN, -1, 0, 1, i64::MAX];
        let mut wheel = Wheel::new(100, Timestamp::MIN);
        for (id, due) in ends.iter().enumerate() {
            wheel.arm(timer(*due, 5, id as u64));
        }
        assert_eq!(due(&mut wheel, i64::MAX), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_cleared_wheel_is_empty_and_goes_on_from_its_time() {
        let mut wheel = wheel(&[timer(100, 5, 1), timer(9_000, 5, 2)]);
        wheel.advance(at(500), 0, &mut Vec::new());
        wheel.clear();
        assert!(wheel.is_empty() && wheel.next_due().is_none());
        wheel.arm(timer(600, 5, 3));
        assert_eq!(due(&mut wheel, 599), []);
        assert_eq!(due(&mut wheel, 600), [3]);
    }
}
