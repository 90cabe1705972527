//! Hours of some days of the week, in a zone.

use std::fmt;
use std::ops::Range;

use super::{Outside, joined, quote};
use crate::Timestamp;
use crate::civil::{DAY, WALL_END, WALL_START, weekday};
use crate::place::{Placement, Walls};
use crate::zone::{Passes, Zone};

/// Hours of some days of the week, in a zone. The start is inside, the end is not; hours that run past
/// midnight belong to the day on which they begin.
#[derive(Clone, Debug)]
pub struct Window {
    /// Bit 0 is Sunday.
    days: u8,
    /// Seconds of the day on which they begin, apart and rising; past `DAY` into the next.
    hours: Vec<Range<i64>>,
    zone: Zone,
    pub(super) outside: Outside,
    text: String,
}

impl Window {
    /// Reads days such as `mon-fri`, `sat,sun` or `*`, and hours such as `09:00-17:00`, `22:00-02:00` or
    /// `08:00-12:00,13:00-17:00`.
    pub fn parse(days: &str, hours: &str, zone: Zone, outside: Outside) -> Result<Window, WindowError> {
        let text = format!("{days} {hours}");
        Ok(Window { days: parse_days(days)?, hours: parse_hours(hours)?, zone, outside, text })
    }

    /// Whole hours: `days_of_week` with 1 for Monday to 7 for Sunday, `hours_of_day` from 0 to 23.
    pub fn of_hours(
        days_of_week: &[u8],
        hours_of_day: &[u8],
        zone: Zone,
        outside: Outside,
    ) -> Result<Window, WindowError> {
        let bad_day = days_of_week.iter().find(|day| !(1..=7).contains(*day));
        let bad_hour = hours_of_day.iter().find(|hour| **hour > 23);
        if let Some(day) = bad_day {
            return Err(WindowError::new(
                "days_of_week",
                format!("{day}: expected 1 (Monday) to 7 (Sunday)"),
            ));
        }
        if let Some(hour) = bad_hour {
            return Err(WindowError::new("hours_of_day", format!("{hour}: expected 0 to 23")));
        }
        if days_of_week.is_empty() || hours_of_day.is_empty() {
            return Err(WindowError::new("days_of_week and hours_of_day", "neither may be empty".into()));
        }
        let days = days_of_week.iter().fold(0, |set, day| set | 1 << (day % 7));
        let hours =
            hours_of_day.iter().map(|hour| i64::from(*hour) * 3_600).map(|start| start..start + 3_600);
        let text = format!("days {days_of_week:?} hours {hours_of_day:?}");
        Ok(Window { days, hours: joined(hours.collect()), zone, outside, text })
    }

    /// Whether the instant lies inside.
    pub fn contains(&self, at: Timestamp) -> bool {
        let wall = at.second_floor().saturating_add(i64::from(self.zone.offset_at(at)));
        self.first_from(wall) == Some(wall)
    }

    /// The first instant inside, at or after `at`.
    pub fn first_from_instant(&self, at: Timestamp) -> Option<Timestamp> {
        if self.contains(at) {
            return Some(at);
        }
        self.placement().first_from(self, at.second_ceil()).map(Timestamp::from_seconds)
    }

    fn placement(&self) -> Placement<'_> {
        Placement { zone: &self.zone, fires_lost: false, passes: Passes::Both }
    }

    fn begins_on(&self, day_number: i64) -> bool {
        self.days >> weekday(day_number) & 1 == 1
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} time", self.text, self.zone.name())
    }
}

/// The wall seconds inside a window.
impl Walls for Window {
    fn first_from(&self, wall: i64) -> Option<i64> {
        let wall = wall.max(WALL_START);
        if wall >= WALL_END {
            return None;
        }
        let today = wall.div_euclid(DAY);
        // Yesterday's hours may run past midnight; within a week every weekday comes round.
        let days = (today - 1..=today + 7).filter(|day| self.begins_on(*day));
        let spans = days
            .flat_map(|day| self.hours.iter().map(move |span| day * DAY + span.start..day * DAY + span.end));
        spans.filter(|span| wall < span.end).map(|span| span.start.max(wall)).min()
    }
}

fn parse_days(text: &str) -> Result<u8, WindowError> {
    if text.trim() == "*" {
        return Ok(0x7f);
    }
    text.split(',').try_fold(0, |set, item| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last) = (parse_day(first)?, parse_day(last)?);
        // A range may run over the end of the week: fri-mon.
        let length = (last + 7 - first) % 7;
        Ok((0..=length).fold(set, |set, step| set | 1 << ((first + step) % 7)))
    })
}

fn parse_day(name: &str) -> Result<u32, WindowError> {
    let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let position = names.iter().position(|known| known.eq_ignore_ascii_case(name.trim()));
    let refuse =
        || WindowError::new("days", format!("{}: expected mon, tue, wed, thu, fri, sat or sun", quote(name)));
    position.map(|day| day as u32).ok_or_else(refuse)
}

fn parse_hours(text: &str) -> Result<Vec<Range<i64>>, WindowError> {
    text.split(',').map(parse_span).collect::<Result<Vec<_>, _>>().map(joined)
}

fn parse_span(span: &str) -> Result<Range<i64>, WindowError> {
    let refuse = |what: &str| WindowError::new("hours", format!("{}: {what}", quote(span)));
    let (start, end) =
        span.split_once('-').ok_or_else(|| refuse("expected a start and an end such as 09:00-17:00"))?;
    let read = |time| parse_time(time).ok_or_else(|| refuse("expected times from 00:00 to 24:00"));
    let (start, end) = (read(start)?, read(end)?);
    if start == end {
        return Err(refuse("is empty; the whole day is 00:00-24:00"));
    }
    if start == DAY {
        return Err(refuse("a day starts at 00:00"));
    }
    Ok(if start < end { start..end } else { start..end + DAY })
}

fn parse_time(text: &str) -> Option<i64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let read = |digits: &str| {
        let is_digits =
            !digits.is_empty() && digits.len() <= 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_digits.then(|| digits.parse::<i64>().ok())?
    };
    let (hour, minute) = (read(hour)?, read(minute).filter(|_| minute.len() == 2)?);
    let seconds = hour * 3_600 + minute * 60;
    (minute < 60 && seconds <= DAY).then_some(seconds)
}

/// A window that cannot be read: which part, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowError {
    field: &'static str,
    reason: String,
}

impl WindowError {
    fn new(field: &'static str, reason: String) -> WindowError {
        WindowError { field, reason }
    }

    /// The part in trouble, such as `hours`.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for WindowError {}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Zones;

    pub(in crate::exclude) fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    pub(in crate::exclude) fn zone(name: &str) -> Zone {
        Zones::bundled().get(name).unwrap()
    }

    pub(in crate::exclude) fn office(outside: Outside) -> Window {
        Window::parse("mon-fri", "09:00-17:00", zone("Europe/Berlin"), outside).unwrap()
    }

    fn check(window: &Window, from: &str, expected: &str) {
        let first = window.first_from_instant(at(from)).unwrap();
        assert_eq!(first.to_string(), expected, "{window} from {from}");
        assert!(window.contains(first));
    }

    #[test]
    fn the_start_is_inside_and_the_end_is_not() {
        let office = office(Outside::Skip);
        assert!(office.contains(at("2026-01-05T08:00:00Z")));
        assert!(!office.contains(at("2026-01-05T07:59:59.999Z")));
        assert!(office.contains(at("2026-01-05T15:59:59.999Z")));
        assert!(!office.contains(at("2026-01-05T16:00:00Z")));
    }

    #[test]
    fn outside_moves_to_the_next_opening() {
        let office = office(Outside::Defer);
        check(&office, "2026-01-05T08:00:00.5Z", "2026-01-05T08:00:00.500Z");
        check(&office, "2026-01-05T16:00:00Z", "2026-01-06T08:00:00Z");
        check(&office, "2026-01-09T16:00:00Z", "2026-01-12T08:00:00Z");
    }

    #[test]
    fn hours_past_midnight_belong_to_the_day_they_begin_on() {
        let night = Window::parse("fri", "22:00-02:00", zone("UTC"), Outside::Skip).unwrap();
        assert!(night.contains(at("2026-01-10T01:59:59Z")), "Saturday before two belongs to Friday");
        assert!(!night.contains(at("2026-01-09T01:59:59Z")), "Friday before two belongs to Thursday");
        check(&night, "2026-01-10T02:00:00Z", "2026-01-16T22:00:00Z");
    }

    #[test]
    fn a_window_that_opens_in_a_gap_opens_when_the_gap_ends() {
        let window = Window::parse("*", "02:30-04:00", zone("America/New_York"), Outside::Defer).unwrap();
        check(&window, "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z");
        let lost = Window::parse("*", "02:00-03:00", zone("America/New_York"), Outside::Defer).unwrap();
        check(&lost, "2026-03-08T06:00:00Z", "2026-03-09T06:00:00Z");
    }

    #[test]
    fn whole_hours_are_the_other_way_to_write_a_window() {
        let window = Window::of_hours(&[1, 2, 3, 4, 5], &[9, 10, 11], zone("UTC"), Outside::Skip).unwrap();
        assert!(window.contains(at("2026-01-05T11:59:59Z")));
        assert!(!window.contains(at("2026-01-05T12:00:00Z")));
        assert!(!window.contains(at("2026-01-04T10:00:00Z")), "Sunday");
        assert!(Window::of_hours(&[0], &[9], zone("UTC"), Outside::Skip).is_err());
        assert!(Window::of_hours(&[7], &[24], zone("UTC"), Outside::Skip).is_err());
    }

    #[test]
    fn unreadable_windows_say_what_was_expected() {
        for (days, hours, expected) in [
            ("monday", "09:00-17:00", "days: \"monday\": expected mon"),
            ("", "09:00-17:00", "days: \"\": expected mon"),
            ("mon", "09:00", "hours: \"09:00\": expected a start and an end"),
            ("mon", "09:00-25:00", "hours: \"09:00-25:00\": expected times"),
            ("mon", "09:60-10:00", "hours: \"09:60-10:00\": expected times"),
            ("mon", "+9:00-10:00", "hours: \"+9:00-10:00\": expected times"),
            ("mon", "9:5-17:00", "hours: \"9:5-17:00\": expected times"),
            ("mon", "24:00-02:00", "hours: \"24:00-02:00\": a day starts at 00:00"),
            ("mon", "09:00-09:00", "hours: \"09:00-09:00\": is empty"),
            ("mon", "", "hours: \"\": expected a start and an end"),
        ] {
            let error = Window::parse(days, hours, zone("UTC"), Outside::Skip).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
