//! Places wall times on the time line: the search that every rule and window shares.
//!
//! The search walks the stretches of a zone. In each it asks for the next wall time, and takes it if the
//! stretch fires it; otherwise it goes on in the next stretch. So answers rise strictly by construction,
//! gaps and overlaps cost nothing extra, and the walk ends where the table ends.

use std::ops::Range;

use crate::zone::{Passes, Stretch, Zone};

/// A set of wall seconds, such as a cron expression names.
pub(crate) trait Walls {
    /// The first wall second of the set at or after `wall`.
    fn first_from(&self, wall: i64) -> Option<i64>;
}

/// A set of wall seconds that can be searched backwards and counted too.
pub(crate) trait CountedWalls: Walls {
    /// The last wall second of the set at or before `wall`.
    fn last_upto(&self, wall: i64) -> Option<i64>;
    /// How many wall seconds of the set lie in the range.
    fn count(&self, walls: Range<i64>) -> u64;
}

/// How wall times become instants: the zone, and what becomes of its two odd hours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement<'a> {
    pub(crate) zone: &'a Zone,
    /// Whether wall times lost in a gap fire at its end.
    pub(crate) fires_lost: bool,
    pub(crate) passes: Passes,
}

impl Placement<'_> {
    /// The first second at or after `second` at which the set fires.
    pub(crate) fn first_from(&self, set: &impl Walls, second: i64) -> Option<i64> {
        let mut memory = Remembered::first(set);
        let index = self.zone.index_at(second);
        self.zone.stretches()[index..].iter().find_map(|stretch| {
            if second <= stretch.start && self.fires_for_lost(stretch, |wall| memory.first_from(wall)) {
                return Some(stretch.start);
            }
            let fires = stretch.fires(self.passes);
            let wall = memory.first_from(fires.start.max(second.saturating_add(stretch.offset)));
            (wall < fires.end).then(|| wall - stretch.offset)
        })
    }

    /// The last second at or before `second` at which the set fires.
    pub(crate) fn last_upto(&self, set: &impl CountedWalls, second: i64) -> Option<i64> {
        let mut memory = Remembered::last(set);
        let index = self.zone.index_at(second);
        self.zone.stretches()[..=index].iter().rev().find_map(|stretch| {
            let fires = stretch.fires(self.passes);
            let wall = memory.last_upto((fires.end - 1).min(second.saturating_add(stretch.offset)));
            if wall >= fires.start {
                return Some(wall - stretch.offset);
            }
            let lost = self.lost(stretch)?;
            (memory.last_upto(lost.end - 1) >= lost.start).then_some(stretch.start)
        })
    }

    /// How many seconds of the range the set fires at.
    pub(crate) fn count(&self, set: &impl CountedWalls, seconds: Range<i64>) -> u64 {
        if seconds.is_empty() {
            return 0;
        }
        let indexes = self.zone.index_at(seconds.start)..=self.zone.index_at(seconds.end - 1);
        let in_stretch = |stretch: &Stretch| {
            let fires = stretch.fires(self.passes);
            let start = fires.start.max(seconds.start.saturating_add(stretch.offset));
            let end = fires.end.min(seconds.end.saturating_add(stretch.offset));
            set.count(start..end) + u64::from(self.fires_only_for_lost(set, stretch, &seconds))
        };
        self.zone.stretches()[indexes].iter().map(in_stretch).sum()
    }

    /// The lost wall times that fire where the stretch starts.
    pub(crate) fn lost(&self, stretch: &Stretch) -> Option<Range<i64>> {
        stretch.lost_in_short_gap().filter(|_| self.fires_lost)
    }

    fn fires_for_lost(&self, stretch: &Stretch, mut first_from: impl FnMut(i64) -> i64) -> bool {
        self.lost(stretch).is_some_and(|lost| first_from(lost.start) < lost.end)
    }

    /// A fire for lost wall times merges with an ordinary one at the same instant.
    fn fires_only_for_lost(&self, set: &impl Walls, stretch: &Stretch, seconds: &Range<i64>) -> bool {
        let first_from = |wall| set.first_from(wall).unwrap_or(i64::MAX);
        let start_wall = stretch.fires(self.passes).start;
        seconds.contains(&stretch.start)
            && self.fires_for_lost(stretch, first_from)
            && first_from(start_wall) != start_wall
    }
}

/// The last answer of a set. Stretch after stretch asks for much the same wall time; a rule that fires
/// every eight years would otherwise be searched anew in each of sixteen stretches.
struct Remembered<'a, W> {
    set: &'a W,
    asked: i64,
    answer: i64,
}

impl<'a, W: Walls> Remembered<'a, W> {
    fn first(set: &'a W) -> Self {
        Remembered { set, asked: i64::MAX, answer: i64::MIN }
    }

    fn last(set: &'a W) -> Self {
        Remembered { set, asked: i64::MIN, answer: i64::MAX }
    }

    /// `i64::MAX` for none.
    fn first_from(&mut self, wall: i64) -> i64 {
        if !(self.asked..=self.answer).contains(&wall) {
            self.asked = wall;
            self.answer = self.set.first_from(wall).unwrap_or(i64::MAX);
        }
        self.answer
    }

    /// `i64::MIN` for none.
    fn last_upto(&mut self, wall: i64) -> i64
    where
        W: CountedWalls,
    {
        if !(self.answer..=self.asked).contains(&wall) {
            self.asked = wall;
            self.answer = self.set.last_upto(wall).unwrap_or(i64::MIN);
        }
        self.answer
    }
}
