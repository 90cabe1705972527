//! The proleptic Gregorian calendar as integer arithmetic: day numbers, months, weekdays.
//!
//! A *wall second* is a civil date and time read as if it were UTC: seconds since 1970-01-01T00:00:00 on
//! the wall. Everything that searches works on wall seconds; only `place` turns them into instants.

pub(crate) const DAY: i64 = 86_400;

/// Rules name instants in these years only, so that every search ends.
pub(crate) const FIRST_YEAR: i32 = 1970;
pub(crate) const LAST_YEAR: i32 = 2199;

/// The first wall second of `FIRST_YEAR`, and the first one after `LAST_YEAR`.
pub(crate) const WALL_START: i64 = 0;
pub(crate) const WALL_END: i64 = 84_006 * DAY;

/// A day of the civil calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    pub(crate) year: i32,
    /// 1 to 12.
    pub(crate) month: u32,
    /// 1 to 31.
    pub(crate) day: u32,
}

impl Date {
    /// The date of a day number (1970-01-01 is 0).
    ///
    /// Years are counted from 1 March, which puts the leap day at the end and makes month lengths a
    /// linear formula; eras of 400 years repeat exactly.
    pub(crate) fn from_day_number(day_number: i64) -> Date {
        let shifted = day_number + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Date { year: year as i32, month: month as u32, day: day as u32 }
    }

    /// The day number of this date (1970-01-01 is 0).
    pub(crate) fn day_number(self) -> i64 {
        let year = i64::from(self.year) - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = i64::from((self.month + 9) % 12);
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + of_era - 719_468
    }

    /// A date that people wrote, if there is such a day.
    pub(crate) fn checked(year: i32, month: u32, day: u32) -> Option<Date> {
        let exists = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
        exists.then_some(Date { year, month, day })
    }
}

pub(crate) fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The weekday of a day number: 0 is Sunday, 6 is Saturday.
pub(crate) fn weekday(day_number: i64) -> u32 {
    // 1970-01-01 was a Thursday.
    (day_number + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_day_numbers_round_trip_over_five_centuries() {
        let mut date = Date { year: 1800, month: 1, day: 1 };
        let first = date.day_number();
        for offset in 0..(500 * 365) {
            assert_eq!(Date::from_day_number(first + offset), date);
            assert_eq!(date.day_number(), first + offset);
            date = day_after(date);
        }
    }

    #[test]
    fn known_days_have_their_weekday() {
        for (year, month, day, expected) in
            [(1970, 1, 1, 4), (2000, 2, 29, 2), (2026, 3, 8, 0), (2100, 3, 1, 1), (2199, 12, 31, 2)]
        {
            assert_eq!(weekday(Date { year, month, day }.day_number()), expected, "{year}-{month}-{day}");
        }
    }

    #[test]
    fn the_searched_years_have_their_bounds() {
        let start = Date { year: FIRST_YEAR, month: 1, day: 1 }.day_number() * DAY;
        let end = Date { year: LAST_YEAR + 1, month: 1, day: 1 }.day_number() * DAY;
        assert_eq!((start, end), (WALL_START, WALL_END));
    }

    fn day_after(date: Date) -> Date {
        if date.day < days_in_month(date.year, date.month) {
            Date { day: date.day + 1, ..date }
        } else if date.month < 12 {
            Date { month: date.month + 1, day: 1, ..date }
        } else {
            Date { year: date.year + 1, month: 1, day: 1 }
        }
    }
}
