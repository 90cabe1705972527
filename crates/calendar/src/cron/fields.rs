//! The fields of an expression: their names, bounds and value names.

use super::Dialect;
use crate::civil::{FIRST_YEAR, LAST_YEAR};

/// One field's bounds and names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) min: u32,
    pub(super) max: u32,
    /// How many different values there are; a step is at most this, and a range wraps around after it.
    pub(super) size: u32,
    /// Value names; the first stands for `names_from`.
    names: &'static [&'static str],
    names_from: u32,
    /// Where `H` falls, unless told otherwise: a day that every month has.
    pub(super) spread_max: u32,
    /// Sets different fields' `H` apart. Part of what a stored seed means: never change one.
    pub(super) spread_salt: u64,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn field(name: &'static str, min: u32, max: u32, size: u32, spread_salt: u64) -> Field {
    Field { name, min, max, size, names: &[], names_from: 0, spread_max: max, spread_salt }
}

pub(super) const SECOND: Field = field("second", 0, 59, 60, 1);
pub(super) const MINUTE: Field = field("minute", 0, 59, 60, 2);
pub(super) const HOUR: Field = field("hour", 0, 23, 24, 3);
pub(super) const DAY: Field = Field { spread_max: 28, ..field("day of month", 1, 31, 31, 4) };
pub(super) const MONTH: Field = Field { names: MONTHS, names_from: 1, ..field("month", 1, 12, 12, 5) };
pub(super) const YEAR: Field =
    field("year", FIRST_YEAR as u32, LAST_YEAR as u32, (LAST_YEAR - FIRST_YEAR + 1) as u32, 7);

const UNIX_WEEKDAY: Field =
    Field { names: WEEKDAYS, names_from: 0, spread_max: 6, ..field("day of week", 0, 7, 7, 6) };
const QUARTZ_WEEKDAY: Field = Field { names: WEEKDAYS, names_from: 1, ..field("day of week", 1, 7, 7, 6) };

pub(super) const fn weekday(dialect: Dialect) -> &'static Field {
    match dialect {
        Dialect::Unix => &UNIX_WEEKDAY,
        Dialect::Quartz => &QUARTZ_WEEKDAY,
    }
}

impl Field {
    /// Every value, as bits. Not for years, which do not fit.
    pub(super) const fn all(&self) -> u64 {
        (u64::MAX >> (63 - self.max)) & (u64::MAX << self.min)
    }

    pub(super) fn is_weekday(&self) -> bool {
        self.size == 7
    }

    pub(super) fn is_day_of_month(&self) -> bool {
        self.size == 31
    }

    pub(super) fn is_year(&self) -> bool {
        self.max > 63
    }

    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// The value of a three-letter name, in any case.
    pub(super) fn named(&self, name: &str) -> Option<u32> {
        let position = self.names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        Some(self.names_from + position as u32)
    }
}
