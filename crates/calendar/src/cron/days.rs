//! Which days of a month match: both day fields together, as one bit per day.

use crate::civil::{Date, days_in_month, weekday};

/// The two day fields. Bit n of a day set stands for day n; bit 0 of a weekday set for Sunday.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct DayFields {
    /// Plain days of the month.
    pub(super) plain: u32,
    /// `L-n`: bit n, counted back from the last day.
    pub(super) from_last: u32,
    /// `nW`: the working day nearest to day n.
    pub(super) nearest: u32,
    /// `L-nW`: the working day nearest to the day n before the last.
    pub(super) nearest_from_last: u32,
    /// Plain weekdays.
    pub(super) weekdays: u8,
    /// `d#n`: the nth such weekday of the month, at index n - 1.
    pub(super) nth_weekdays: [u8; 5],
    /// `dL`: the last such weekday of the month.
    pub(super) last_weekdays: u8,
    /// Whether both fields must match, or either.
    pub(super) both: bool,
}

pub(super) const EVERY_DAY: u32 = u32::MAX << 1;
pub(super) const EVERY_WEEKDAY: u8 = 0x7f;

impl DayFields {
    /// The matching days of a month, bit n for day n.
    pub(super) fn of_month(&self, year: i32, month: u32) -> u32 {
        let length = days_in_month(year, month);
        let first_weekday = weekday(Date { year, month, day: 1 }.day_number());
        let by_day = self.by_day_of_month(length, first_weekday);
        let by_weekday = self.by_weekday(length, first_weekday);
        let days = if self.both { by_day & by_weekday } else { by_day | by_weekday };
        days & EVERY_DAY & (u32::MAX >> (31 - length))
    }

    fn by_day_of_month(&self, length: u32, first_weekday: u32) -> u32 {
        let mut days = self.plain;
        days |= bits(self.from_last)
            .filter(|back| *back < length)
            .fold(0, |set, back| set | 1 << (length - back));
        let by_number = bits(self.nearest);
        let by_last = bits(self.nearest_from_last).filter(|back| *back < length).map(|back| length - back);
        for day in by_number.chain(by_last).filter(|day| *day <= length) {
            days |= 1 << nearest_working_day(day, length, first_weekday);
        }
        days
    }

    fn by_weekday(&self, length: u32, first_weekday: u32) -> u32 {
        let mut days = every_week(self.weekdays, first_weekday);
        for (index, weekdays) in self.nth_weekdays.iter().enumerate().filter(|(_, weekdays)| **weekdays != 0)
        {
            days |= every_week(*weekdays, first_weekday) & (0x7f << (1 + 7 * index));
        }
        if self.last_weekdays != 0 {
            days |= every_week(self.last_weekdays, first_weekday) & (0x7f << (length - 6));
        }
        days
    }

    pub(super) fn is_every_day_of_month(&self) -> bool {
        self.plain == EVERY_DAY
    }

    pub(super) fn is_every_weekday(&self) -> bool {
        self.weekdays == EVERY_WEEKDAY
    }
}

/// The days of a month that fall on these weekdays.
fn every_week(weekdays: u8, first_weekday: u32) -> u32 {
    // Turn the week so that the first of the month is its first day, then lay it out five times.
    let weekdays = u64::from(weekdays);
    let turned = ((weekdays | weekdays << 7) >> first_weekday) & 0x7f;
    (turned * 0x2040_8102) as u32
}

/// Monday to Friday nearest to `day`, never outside the month.
fn nearest_working_day(day: u32, length: u32, first_weekday: u32) -> u32 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The positions of the bits that are set, rising.
pub(super) fn bits(mut set: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days_of(days: DayFields, year: i32, month: u32) -> Vec<u32> {
        bits(days.of_month(year, month)).collect()
    }

    fn by_day(days: DayFields) -> DayFields {
        DayFields { weekdays: EVERY_WEEKDAY, both: true, ..days }
    }

    fn by_weekday(days: DayFields) -> DayFields {
        DayFields { plain: EVERY_DAY, both: true, ..days }
    }

    #[test]
    fn the_nearest_working_day_stays_in_its_month() {
        // August 2026 begins on a Saturday, May 2026 ends on a Sunday.
        assert_eq!(days_of(by_day(DayFields { nearest: 1 << 1, ..DayFields::default() }), 2026, 8), [3]);
        assert_eq!(days_of(by_day(DayFields { nearest: 1 << 31, ..DayFields::default() }), 2026, 5), [29]);
        assert_eq!(
            days_of(by_day(DayFields { nearest_from_last: 1, ..DayFields::default() }), 2026, 5),
            [29]
        );
        assert_eq!(days_of(by_day(DayFields { nearest: 1 << 31, ..DayFields::default() }), 2026, 6), []);
    }

    #[test]
    fn the_last_day_follows_the_month() {
        let last = by_day(DayFields { from_last: 1, ..DayFields::default() });
        assert_eq!(days_of(last.clone(), 2024, 2), [29]);
        assert_eq!(days_of(last, 2100, 2), [28]);
        assert_eq!(days_of(by_day(DayFields { from_last: 1 << 30, ..DayFields::default() }), 2026, 2), []);
        assert_eq!(days_of(by_day(DayFields { from_last: 1 << 30, ..DayFields::default() }), 2026, 1), [1]);
    }

    #[test]
    fn weekdays_are_counted_within_the_month() {
        let fridays = 1 << 5;
        // May 2026 has five Fridays, June four.
        let fifth = by_weekday(DayFields { nth_weekdays: [0, 0, 0, 0, fridays], ..DayFields::default() });
        assert_eq!(days_of(fifth.clone(), 2026, 5), [29]);
        assert_eq!(days_of(fifth, 2026, 6), []);
        let last = by_weekday(DayFields { last_weekdays: fridays, ..DayFields::default() });
        assert_eq!(days_of(last.clone(), 2026, 5), [29]);
        assert_eq!(days_of(last, 2026, 6), [26]);
    }
}
