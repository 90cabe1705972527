//! Which of the named instants are allowed, and what becomes of the others.
//!
//! A window is a set of weekdays with hours in a zone. A calendar excludes dates, or allows only some. An
//! instant that is not allowed is skipped, or moved to the next instant that is.

mod calendar;
mod window;

use std::ops::Range;
use std::sync::Arc;

pub use calendar::{Calendar, CalendarError};
pub use window::{Window, WindowError};

use crate::Timestamp;
use crate::option::names;

/// What becomes of an instant outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outside {
    /// It is not run.
    #[default]
    Skip,
    /// It is moved to the next instant that is allowed.
    Defer,
}

names!(Outside, "outside", Outside::Skip = "skip", Outside::Defer = "defer");

/// Everything that keeps a named instant from being run: inside any window and on an allowed date it runs.
#[derive(Clone, Debug, Default)]
pub struct Exclusions {
    /// Allowed inside any of these; without windows, always.
    pub windows: Vec<Window>,
    /// Allowed on the dates of this; without a calendar, on every date. Many jobs share one.
    pub calendar: Option<Arc<Calendar>>,
    /// What becomes of an instant on a date that the calendar does not allow.
    pub off_calendar: Outside,
}

/// What becomes of a named instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionVerdict {
    /// It runs.
    Allowed,
    /// It does not run: no window holds it, and it is not deferred or there is nowhere to defer it to.
    OutsideWindows,
    /// It does not run: its date is not allowed, and it is not deferred or there is nowhere to defer it to.
    OutsideCalendar,
    /// It is moved to this instant, the next that is allowed.
    Deferred(Timestamp),
}

impl Exclusions {
    /// What becomes of the instant. Where a window defers and a calendar skips, the calendar is obeyed: a
    /// holiday is not made up for.
    pub fn judge(&self, at: Timestamp) -> ExclusionVerdict {
        let in_windows = self.windows.is_empty() || self.windows.iter().any(|window| window.contains(at));
        let on_calendar = self.calendar.as_ref().is_none_or(|calendar| calendar.contains(at));
        let windows_defer = self.windows.iter().any(|window| window.outside == Outside::Defer);
        if in_windows && on_calendar {
            return ExclusionVerdict::Allowed;
        }
        if !on_calendar && self.off_calendar == Outside::Skip {
            return ExclusionVerdict::OutsideCalendar;
        }
        if !in_windows && !windows_defer {
            return ExclusionVerdict::OutsideWindows;
        }
        let refused =
            if on_calendar { ExclusionVerdict::OutsideWindows } else { ExclusionVerdict::OutsideCalendar };
        self.first_allowed_from(at).map_or(refused, ExclusionVerdict::Deferred)
    }

    /// The first allowed instant at or after `at`.
    ///
    /// Windows and calendar are asked in turn until they agree. Each disagreement leaves a range of the
    /// calendar behind, so it ends.
    pub fn first_allowed_from(&self, mut at: Timestamp) -> Option<Timestamp> {
        loop {
            let in_window = self.first_in_window_from(at)?;
            at = self
                .calendar
                .as_ref()
                .map_or(Some(in_window), |calendar| calendar.first_from_instant(in_window))?;
            if at == in_window {
                return Some(at);
            }
        }
    }

    fn first_in_window_from(&self, at: Timestamp) -> Option<Timestamp> {
        if self.windows.is_empty() {
            return Some(at);
        }
        self.windows.iter().filter_map(|window| window.first_from_instant(at)).min()
    }
}

/// Puts spans in order and joins those that touch.
fn joined(mut spans: Vec<Range<i64>>) -> Vec<Range<i64>> {
    spans.sort_by_key(|span| span.start);
    let mut joined: Vec<Range<i64>> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => joined.push(span),
        }
    }
    joined
}

/// What an error may repeat of a text.
fn quote(text: &str) -> String {
    format!("{:?}", text.chars().take(24).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::window::tests::{at, office, zone};
    use super::*;

    fn calendar(exclude: &[&str], only: &[&str]) -> Option<Arc<Calendar>> {
        Some(Arc::new(Calendar::parse(zone("Europe/Berlin"), exclude, only).unwrap()))
    }

    #[test]
    fn an_excluded_date_is_skipped_in_its_own_zone() {
        let closed = Exclusions { calendar: calendar(&["2026-12-25"], &[]), ..Exclusions::default() };
        assert_eq!(closed.judge(at("2026-12-24T22:59:59Z")), ExclusionVerdict::Allowed);
        assert_eq!(closed.judge(at("2026-12-24T23:00:00Z")), ExclusionVerdict::OutsideCalendar);
        assert_eq!(closed.judge(at("2026-12-25T23:00:00Z")), ExclusionVerdict::Allowed);
    }

    #[test]
    fn windows_and_calendar_agree_on_the_next_allowed_instant() {
        let both = Exclusions {
            windows: vec![office(Outside::Defer)],
            calendar: calendar(&["2026-12-24/2026-12-28", "2026-12-29"], &[]),
            off_calendar: Outside::Defer,
        };
        let expected = ExclusionVerdict::Deferred(at("2026-12-30T08:00:00Z"));
        assert_eq!(both.judge(at("2026-12-23T17:00:00Z")), expected);
        assert_eq!(both.judge(at("2026-12-25T10:00:00Z")), expected);
    }

    #[test]
    fn a_calendar_that_skips_is_obeyed_before_a_window_that_defers() {
        let both = Exclusions {
            windows: vec![office(Outside::Defer)],
            calendar: calendar(&["2026-12-25"], &[]),
            off_calendar: Outside::Skip,
        };
        assert_eq!(both.judge(at("2026-12-25T20:00:00Z")), ExclusionVerdict::OutsideCalendar);
    }

    #[test]
    fn only_listed_dates_are_allowed_and_then_it_is_over() {
        let listed = Exclusions {
            windows: vec![office(Outside::Defer)],
            calendar: calendar(&[], &["2026-03-31", "2026-04-04", "2026-06-30"]),
            off_calendar: Outside::Defer,
        };
        let judge = |text| listed.judge(at(text));
        assert_eq!(judge("2026-03-01T00:00:00Z"), ExclusionVerdict::Deferred(at("2026-03-31T07:00:00Z")));
        assert_eq!(
            judge("2026-04-01T00:00:00Z"),
            ExclusionVerdict::Deferred(at("2026-06-30T07:00:00Z")),
            "not on Saturday"
        );
        assert_eq!(
            judge("2026-06-30T15:00:00Z"),
            ExclusionVerdict::OutsideWindows,
            "no allowed instant is left"
        );
        assert_eq!(
            judge("2026-07-01T10:00:00Z"),
            ExclusionVerdict::OutsideCalendar,
            "no allowed date is left"
        );
    }

    #[test]
    fn no_instant_overflows_a_window_or_a_calendar() {
        let both = Exclusions {
            windows: vec![office(Outside::Defer)],
            calendar: calendar(&["2026-12-25"], &["2026-12-25"]),
            off_calendar: Outside::Defer,
        };
        for millis in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(both.judge(Timestamp::from_millis(millis)), ExclusionVerdict::OutsideCalendar);
        }
    }
}
