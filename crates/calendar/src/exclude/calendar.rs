//! Dates in a zone: all but the excluded ones, or only the listed ones.

use std::fmt;
use std::ops::Range;

use super::{joined, quote};
use crate::Timestamp;
use crate::civil::{DAY, Date, WALL_END, WALL_START};
use crate::place::{Placement, Walls};
use crate::zone::{Passes, Zone};

/// Dates in a zone: all but the excluded ones, or only the listed ones.
#[derive(Clone, Debug)]
pub struct Calendar {
    zone: Zone,
    /// Day numbers, apart and rising.
    exclude: Vec<Range<i64>>,
    /// Empty: every date.
    only: Vec<Range<i64>>,
}

impl Calendar {
    /// Reads dates such as `2026-12-25`, and ranges of them such as `2026-12-24/2027-01-01` (both included).
    pub fn parse<T: AsRef<str>>(zone: Zone, exclude: &[T], only: &[T]) -> Result<Calendar, CalendarError> {
        let exclude = parse_dates("exclude", exclude)?;
        let only = parse_dates("only", only)?;
        Ok(Calendar { zone, exclude, only })
    }

    /// Whether the date of this instant is allowed.
    pub fn contains(&self, at: Timestamp) -> bool {
        let wall = at.second_floor().saturating_add(i64::from(self.zone.offset_at(at)));
        self.first_day_from(wall.div_euclid(DAY)) == Some(wall.div_euclid(DAY))
    }

    /// The first instant of an allowed date, at or after `at`.
    pub fn first_from_instant(&self, at: Timestamp) -> Option<Timestamp> {
        if self.contains(at) {
            return Some(at);
        }
        let placement = Placement { zone: &self.zone, fires_lost: false, passes: Passes::Both };
        placement.first_from(self, at.second_ceil()).map(Timestamp::from_seconds)
    }

    /// Each turn leaves a listed range behind, so there are no more turns than ranges.
    fn first_day_from(&self, mut day: i64) -> Option<i64> {
        loop {
            if !self.only.is_empty() {
                day = first_inside(&self.only, day)?;
            }
            let index = self.exclude.partition_point(|range| range.end <= day);
            match self.exclude.get(index) {
                Some(excluded) if excluded.contains(&day) => day = excluded.end,
                _ => return Some(day),
            }
        }
    }
}

/// The wall seconds of the allowed dates.
impl Walls for Calendar {
    fn first_from(&self, wall: i64) -> Option<i64> {
        let day = self.first_day_from(wall.max(WALL_START).div_euclid(DAY))?;
        Some(wall.max(day * DAY)).filter(|wall| *wall < WALL_END)
    }
}

fn first_inside(ranges: &[Range<i64>], day: i64) -> Option<i64> {
    let index = ranges.partition_point(|range| range.end <= day);
    ranges.get(index).map(|range| range.start.max(day))
}

fn parse_dates<T: AsRef<str>>(list: &'static str, dates: &[T]) -> Result<Vec<Range<i64>>, CalendarError> {
    let parse = |(index, text): (usize, &T)| {
        let refuse = || CalendarError { list, index, text: quote(text.as_ref()) };
        let (first, last) = text.as_ref().split_once('/').unwrap_or((text.as_ref(), text.as_ref()));
        let (first, last) = (parse_date(first).ok_or_else(refuse)?, parse_date(last).ok_or_else(refuse)?);
        if first <= last { Ok(first..last + 1) } else { Err(refuse()) }
    };
    dates.iter().enumerate().map(parse).collect::<Result<Vec<_>, _>>().map(joined)
}

/// `YYYY-MM-DD` as a day number.
fn parse_date(text: &str) -> Option<i64> {
    let [b'0'..=b'9', _, _, _, b'-', _, _, b'-', _, _] = text.as_bytes() else {
        return None;
    };
    let number = |range: Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    Date::checked(number(0..4)? as i32, number(5..7)?, number(8..10)?).map(Date::day_number)
}

/// A date of a calendar that cannot be read: which list, which place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarError {
    list: &'static str,
    index: usize,
    text: String,
}

impl CalendarError {
    /// The list in trouble: `exclude` or `only`.
    pub fn list(&self) -> &'static str {
        self.list
    }

    /// The place in the list, from 0.
    pub fn index(&self) -> usize {
        self.index
    }
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CalendarError { list, index, text } = self;
        write!(f, "{list}[{index}]: {text} is no date: expected 2026-12-25 or 2026-12-24/2027-01-01")
    }
}

impl std::error::Error for CalendarError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Zones;

    #[test]
    fn unreadable_dates_are_named_by_their_place() {
        for bad in [
            "2026-02-30",
            "2026-1-1",
            "26-01-01",
            "2026-01-02/2026-01-01",
            "",
            "+026-01-01",
            "２０２６-01-01",
        ] {
            let utc = Zones::bundled().get("UTC").unwrap();
            let error = Calendar::parse(utc, &["2026-01-01", bad], &[]).unwrap_err();
            assert_eq!((error.list(), error.index()), ("exclude", 1), "{bad}");
        }
    }
}
