//! Searches an expression's wall times: the next, the last, how many.
//!
//! Every step is the next set bit of a small set: no second, minute or day is ever walked over. A search
//! looks at each month of the 230 years at most once, so it is bounded whatever the expression.

use std::ops::Range;

use super::{Cron, Years};
use crate::civil::{DAY, Date, FIRST_YEAR, LAST_YEAR, WALL_END, WALL_START};
use crate::place::{CountedWalls, Walls};

impl Walls for Cron {
    fn first_from(&self, wall: i64) -> Option<i64> {
        let wall = wall.max(WALL_START);
        if wall >= WALL_END {
            return None;
        }
        let today = wall.div_euclid(DAY);
        let date = Date::from_day_number(today);
        if self.matches_date(date)
            && let Some(time) = self.first_time_from(wall.rem_euclid(DAY))
        {
            return Some(today * DAY + time);
        }
        let date = self.first_day_from(Date { day: date.day + 1, ..date })?;
        Some(date.day_number() * DAY + self.first_time())
    }
}

impl CountedWalls for Cron {
    fn last_upto(&self, wall: i64) -> Option<i64> {
        let wall = wall.min(WALL_END - 1);
        if wall < WALL_START {
            return None;
        }
        let today = wall.div_euclid(DAY);
        let date = Date::from_day_number(today);
        if self.matches_date(date)
            && let Some(time) = self.last_time_upto(wall.rem_euclid(DAY))
        {
            return Some(today * DAY + time);
        }
        let date = self.last_day_upto(Date { day: date.day - 1, ..date })?;
        Some(date.day_number() * DAY + self.last_time())
    }

    fn count(&self, walls: Range<i64>) -> u64 {
        let (start, end) = (walls.start.max(WALL_START), walls.end.min(WALL_END));
        if start >= end {
            return 0;
        }
        let (first, last) = (start.div_euclid(DAY), end.div_euclid(DAY));
        let (first, last) = (Date::from_day_number(first), Date::from_day_number(last));
        let before = if self.matches_date(first) { self.times_before(start.rem_euclid(DAY)) } else { 0 };
        let after = if self.matches_date(last) { self.times_before(end.rem_euclid(DAY)) } else { 0 };
        self.count_days(first, last) * self.times_before(DAY) + after - before
    }
}

/// Times of day.
impl Cron {
    fn first_time_from(&self, second_of_day: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second_of_day);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first_bit_from(self.seconds, second)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = first_bit_from(self.minutes, minute + 1) {
                return Some(time(hour, minute, first_bit(self.seconds)));
            }
        }
        let hour = first_bit_from(self.hours, hour + 1)?;
        Some(time(hour, first_bit(self.minutes), first_bit(self.seconds)))
    }

    fn last_time_upto(&self, second_of_day: i64) -> Option<i64> {
        let (hour, minute, second) = clock(second_of_day);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = last_bit_below(self.seconds, second + 1)
            {
                return Some(time(hour, minute, second));
            }
            if let Some(minute) = last_bit_below(self.minutes, minute) {
                return Some(time(hour, minute, last_bit(self.seconds)));
            }
        }
        let hour = last_bit_below(self.hours, hour)?;
        Some(time(hour, last_bit(self.minutes), last_bit(self.seconds)))
    }

    fn first_time(&self) -> i64 {
        time(first_bit(self.hours), first_bit(self.minutes), first_bit(self.seconds))
    }

    fn last_time(&self) -> i64 {
        time(last_bit(self.hours), last_bit(self.minutes), last_bit(self.seconds))
    }

    /// How many times of day lie before `second_of_day`.
    fn times_before(&self, second_of_day: i64) -> u64 {
        let (hour, minute, second) = clock(second_of_day);
        let (minutes, seconds) = (bits_below(self.minutes, 60), bits_below(self.seconds, 60));
        let in_full_hours = bits_below(self.hours, hour) * minutes * seconds;
        if !has(self.hours, hour) {
            return in_full_hours;
        }
        let in_full_minutes = bits_below(self.minutes, minute) * seconds;
        let in_seconds = if has(self.minutes, minute) { bits_below(self.seconds, second) } else { 0 };
        in_full_hours + in_full_minutes + in_seconds
    }
}

/// Days.
impl Cron {
    /// `from` may be the day after the last of its month.
    fn first_day_from(&self, from: Date) -> Option<Date> {
        let Date { mut year, mut month, mut day } = from;
        loop {
            let matching_year = self.years.first_from(year)?;
            if matching_year != year {
                (year, month, day) = (matching_year, 1, 1);
            }
            while let Some(matching_month) = first_bit_from(self.months, month) {
                if matching_month != month {
                    (month, day) = (matching_month, 1);
                }
                let days = self.days.of_month(year, month);
                if let Some(day) = first_bit_from(u64::from(days), day) {
                    return Some(Date { year, month, day });
                }
                (month, day) = (month + 1, 1);
            }
            (year, month, day) = (year + 1, 1, 1);
        }
    }

    /// `upto` may be day 0, the day before the first of its month.
    fn last_day_upto(&self, upto: Date) -> Option<Date> {
        let Date { mut year, mut month, mut day } = upto;
        loop {
            let matching_year = self.years.last_upto(year)?;
            if matching_year != year {
                (year, month, day) = (matching_year, 12, 31);
            }
            while let Some(matching_month) = last_bit_below(self.months, month + 1) {
                if matching_month != month {
                    (month, day) = (matching_month, 31);
                }
                let days = self.days.of_month(year, month);
                if let Some(day) = last_bit_below(u64::from(days), day + 1) {
                    return Some(Date { year, month, day });
                }
                (month, day) = (month - 1, 31);
            }
            (year, month, day) = (year - 1, 12, 31);
        }
    }

    fn matches_date(&self, date: Date) -> bool {
        has(u64::from(self.days_of(date.year, date.month)), date.day)
    }

    /// How many days match in `first..last`.
    fn count_days(&self, first: Date, last: Date) -> u64 {
        let mut days = 0;
        for year in first.year..=last.year {
            let start = if year == first.year { first.month } else { 1 };
            let end = if year == last.year { last.month } else { 12 };
            days += (start..=end).map(|month| u64::from(self.days_of(year, month).count_ones())).sum::<u64>();
        }
        let before = bits_below(u64::from(self.days_of(first.year, first.month)), first.day);
        let after = u64::from((self.days_of(last.year, last.month) >> last.day).count_ones());
        days - before - after
    }

    fn days_of(&self, year: i32, month: u32) -> u32 {
        let is_open = self.years.contains(year) && has(self.months, month);
        if is_open { self.days.of_month(year, month) } else { 0 }
    }
}

impl Years {
    pub(super) const NONE: Years = Years([0; 4]);
    pub(super) const ALL: Years = {
        let beyond = 256 - (LAST_YEAR - FIRST_YEAR + 1);
        Years([u64::MAX, u64::MAX, u64::MAX, u64::MAX >> beyond])
    };

    pub(super) fn insert(&mut self, year: i32) {
        let bit = (year - FIRST_YEAR) as usize;
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub(super) fn contains(self, year: i32) -> bool {
        let bit = (year - FIRST_YEAR) as usize;
        (FIRST_YEAR..=LAST_YEAR).contains(&year) && self.0[bit / 64] >> (bit % 64) & 1 == 1
    }

    pub(super) fn first_from(self, year: i32) -> Option<i32> {
        let from = (year.max(FIRST_YEAR) - FIRST_YEAR) as u32;
        (from / 64..4).find_map(|index| {
            let low = if index == from / 64 { from % 64 } else { 0 };
            let bit = first_bit_from(self.0[index as usize], low)?;
            Some(FIRST_YEAR + (index * 64 + bit) as i32)
        })
    }

    pub(super) fn last_upto(self, year: i32) -> Option<i32> {
        if year < FIRST_YEAR {
            return None;
        }
        let upto = (year.min(LAST_YEAR) - FIRST_YEAR) as u32;
        (0..=upto / 64).rev().find_map(|index| {
            let high = if index == upto / 64 { upto % 64 + 1 } else { 64 };
            let bit = last_bit_below(self.0[index as usize], high)?;
            Some(FIRST_YEAR + (index * 64 + bit) as i32)
        })
    }
}

fn clock(second_of_day: i64) -> (u32, u32, u32) {
    let second_of_day = second_of_day as u32;
    (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60)
}

fn time(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}

fn has(set: u64, bit: u32) -> bool {
    set >> bit & 1 == 1
}

/// Sets of times of day are never empty: parsing puts at least one value into each.
fn first_bit(set: u64) -> u32 {
    set.trailing_zeros()
}

fn last_bit(set: u64) -> u32 {
    63 - set.leading_zeros()
}

fn first_bit_from(set: u64, from: u32) -> Option<u32> {
    let rest = set & u64::MAX.checked_shl(from)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

fn last_bit_below(set: u64, below: u32) -> Option<u32> {
    let rest = set & low_bits(below);
    (rest != 0).then(|| last_bit(rest))
}

fn bits_below(set: u64, below: u32) -> u64 {
    u64::from((set & low_bits(below)).count_ones())
}

fn low_bits(number: u32) -> u64 {
    1_u64.checked_shl(number).map_or(u64::MAX, |bit| bit - 1)
}
