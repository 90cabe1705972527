//! Does this wall time match this text? The grammar decisions, read item by item and never compiled.
//!
//! Expects a valid expression: what is refused, and how, is not the oracle's business. `H` is left out.

use jiff::civil::{Date, Weekday};
use punctual_calendar::Dialect;

use super::DAY_S;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(crate) struct Expression {
    dialect: Dialect,
    /// Whether each second of a day matches.
    times: Vec<bool>,
    day: String,
    month: String,
    weekday: String,
    year: String,
    /// Second, minute or hour holds `*` or `/` as written; the other kind is fixed.
    pub(crate) is_interval: bool,
}

impl Expression {
    pub(crate) fn read(text: &str, dialect: Dialect) -> Expression {
        let text = text.to_ascii_uppercase();
        let text = spelled_out(text.trim_matches([' ', '\t']));
        let mut fields: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        if fields.len() == 6 {
            fields.push("*");
        }
        let [second, minute, hour, day, month, weekday, year] = fields[..] else {
            panic!("five to seven fields expected: {text:?}");
        };
        Expression {
            dialect,
            times: matching_times(second, minute, hour),
            day: day.to_owned(),
            month: month.to_owned(),
            weekday: weekday.to_owned(),
            year: year.to_owned(),
            is_interval: [second, minute, hour].iter().any(|field| field.contains(['*', '/'])),
        }
    }

    pub(crate) fn matches_time(&self, second_of_day: i64) -> bool {
        self.times[second_of_day as usize]
    }

    pub(crate) fn matches_date(&self, date: Date) -> bool {
        (1970..=2199).contains(&date.year())
            && holds(&self.year, i64::from(date.year()), &Field::plain(1970, 2199))
            && holds(&self.month, i64::from(date.month()), &Field::month())
            && self.matches_day_fields(date)
    }

    fn matches_day_fields(&self, date: Date) -> bool {
        let day = self.day.split(',').any(|item| is_day(item, date));
        let weekday = self.weekday.split(',').any(|item| self.is_weekday(item, date));
        // In Quartz one of the two is `?`, so the rule for unix covers it.
        if self.day.starts_with(['*', '?']) || self.weekday.starts_with(['*', '?']) {
            day && weekday
        } else {
            day || weekday
        }
    }

    /// Whether one item of the weekday field names this date.
    fn is_weekday(&self, item: &str, date: Date) -> bool {
        let field = Field::weekday(self.dialect);
        let today = field.low + i64::from(date.weekday().to_sunday_zero_offset());
        if item == "?" {
            return true;
        }
        if item == "L" {
            return date.weekday() == Weekday::Saturday;
        }
        if let Some((weekday, nth)) = item.split_once('#') {
            return holds(weekday, today, &field) && nth_of_its_weekday(date) == number(nth);
        }
        if let Some(weekday) = item.strip_suffix('L') {
            let same_day_next_week = i64::from(date.day()) + 7;
            return holds(weekday, today, &field) && same_day_next_week > i64::from(date.days_in_month());
        }
        holds(item, today, &field)
    }
}

/// A nickname as the fields that it stands for.
fn spelled_out(text: &str) -> String {
    match text {
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        fields => fields,
    }
    .to_owned()
}

fn matching_times(second: &str, minute: &str, hour: &str) -> Vec<bool> {
    let sixty = Field::plain(0, 59);
    let seconds: Vec<bool> = (0..60).map(|value| holds(second, value, &sixty)).collect();
    let minutes: Vec<bool> = (0..60).map(|value| holds(minute, value, &sixty)).collect();
    let hours: Vec<bool> = (0..24).map(|value| holds(hour, value, &Field::plain(0, 23))).collect();
    (0..DAY_S as usize).map(|s| hours[s / 3600] && minutes[s / 60 % 60] && seconds[s % 60]).collect()
}

/// Whether one item of the day-of-month field names this date.
fn is_day(item: &str, date: Date) -> bool {
    let (today, last) = (i64::from(date.day()), i64::from(date.days_in_month()));
    if item == "?" {
        return true;
    }
    if let Some(anchor) = item.strip_suffix('W') {
        let anchor = if anchor.starts_with('L') { from_the_end(anchor, last) } else { number(anchor) };
        return nearest_working_day(date, anchor) == Some(today);
    }
    if item.starts_with('L') {
        return from_the_end(item, last) == today;
    }
    holds(item, today, &Field::plain(1, 31))
}

/// The day that `L` or `L-n` names; below 1 when the month is too short for it.
fn from_the_end(item: &str, last: i64) -> i64 {
    last - item.strip_prefix("L-").map_or(0, number)
}

/// The Monday to Friday of this month that is nearest to `anchor`, if the month has that day at all.
fn nearest_working_day(date: Date, anchor: i64) -> Option<i64> {
    let last = i64::from(date.days_in_month());
    if !(1..=last).contains(&anchor) {
        return None;
    }
    let is_working = |day: &i64| weekday_in_month(date, *day).to_monday_one_offset() <= 5;
    (1..=last).filter(is_working).min_by_key(|day| (day - anchor).abs())
}

/// Which Monday (or Tuesday …) of its month a date is: counted, from the first of the month on.
fn nth_of_its_weekday(date: Date) -> i64 {
    let days = 1..=i64::from(date.day());
    days.filter(|day| weekday_in_month(date, *day) == date.weekday()).count() as i64
}

fn weekday_in_month(date: Date, day: i64) -> Weekday {
    Date::new(date.year(), date.month(), day as i8).expect("a day of this month").weekday()
}

/// What a field's numbers may be, and what its names mean.
struct Field {
    low: i64,
    high: i64,
    names: &'static [&'static str],
    /// Unix only: `MON-SUN` ends in the Sunday after, which is 7.
    sunday_ends_ranges: bool,
}

impl Field {
    fn plain(low: i64, high: i64) -> Field {
        Field { low, high, names: &[], sunday_ends_ranges: false }
    }

    fn month() -> Field {
        Field { names: &MONTHS, ..Field::plain(1, 12) }
    }

    fn weekday(dialect: Dialect) -> Field {
        match dialect {
            Dialect::Unix => Field { names: &WEEKDAYS, sunday_ends_ranges: true, ..Field::plain(0, 6) },
            Dialect::Quartz => Field { names: &WEEKDAYS, ..Field::plain(1, 7) },
        }
    }

    fn value(&self, text: &str) -> i64 {
        match self.names.iter().position(|name| *name == text) {
            Some(index) => self.low + index as i64,
            None => number(text),
        }
    }

    fn range_end(&self, text: &str) -> i64 {
        if self.sunday_ends_ranges && text == "SUN" { 7 } else { self.value(text) }
    }
}

/// Whether any item of a list of plain items (`*`, `a`, `a-b`, each with `/n` or without) names `value`.
fn holds(list: &str, value: i64, field: &Field) -> bool {
    list.split(',').any(|item| item_holds(item, value, field))
}

fn item_holds(item: &str, value: i64, field: &Field) -> bool {
    let (body, step) = match item.split_once('/') {
        Some((body, step)) => (body, Some(number(step))),
        None => (item, None),
    };
    let (first, last) = match body.split_once('-') {
        Some((first, last)) => (field.value(first), field.range_end(last)),
        None if body == "*" => (field.low, field.high),
        None if step.is_some() => (field.value(body), field.high),
        None => (field.value(body), field.value(body)),
    };
    // A range that ends before it starts goes round, and so does a unix Sunday written 7.
    let size = field.high - field.low + 1;
    let last = if last < first { last + size } else { last };
    let mut at = first;
    while at <= last {
        if (at - field.low) % size + field.low == value {
            return true;
        }
        at += step.unwrap_or(1);
    }
    false
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("not a number of the grammar: {text:?}"))
}
