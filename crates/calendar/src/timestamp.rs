//! Instants as UTC milliseconds, read and written as RFC 3339.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::civil::{DAY, Date};

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
///
/// Any `i64` is an instant; arithmetic saturates, so that no input overflows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant that can be written down.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest instant that can be written down.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// The instant `millis` milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The instant `later` after this one, or [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Timestamp {
        let millis = i64::try_from(later.as_millis()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    pub(crate) const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp(seconds.saturating_mul(1_000))
    }

    /// The whole second at or before this instant.
    pub(crate) const fn second_floor(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The whole second at or after this instant.
    pub(crate) const fn second_ceil(self) -> i64 {
        self.0.div_euclid(1_000) + (self.0.rem_euclid(1_000) != 0) as i64
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.second_floor();
        let date = Date::from_day_number(seconds.div_euclid(DAY));
        let of_day = seconds.rem_euclid(DAY);
        write!(f, "{:04}-{:02}-{:02}", date.year, date.month, date.day)?;
        write!(f, "T{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)?;
        match self.0.rem_euclid(1_000) {
            0 => write!(f, "Z"),
            millis => write!(f, ".{millis:03}Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an RFC 3339 instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampError(String);

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(40).collect();
        write!(f, "{shown:?} is no instant: expected one such as 2026-03-08T07:00:00Z")
    }
}

impl std::error::Error for TimestampError {}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Reads RFC 3339; what is finer than a millisecond is cut off.
    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| TimestampError(text.into()))?;
        // jiff counts towards zero; an instant before 1970 with a fraction belongs to the millisecond below.
        Ok(Timestamp(i64::try_from(parsed.as_nanosecond().div_euclid(1_000_000)).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_print_as_rfc_3339_and_read_back() {
        for text in [
            "1970-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999Z",
            "2026-03-08T07:00:00Z",
            "2199-12-31T23:59:59.007Z",
            "0001-01-01T00:00:00Z",
        ] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_offset_is_applied_and_finer_digits_are_cut() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(at("2026-03-08T03:00:00-04:00"), at("2026-03-08T07:00:00Z"));
        assert_eq!(at("2026-03-08T07:00:00.123999Z"), at("2026-03-08T07:00:00.123Z"));
    }

    #[test]
    fn a_text_without_an_offset_is_refused() {
        let error = "2026-03-08T07:00:00".parse::<Timestamp>().unwrap_err();
        assert!(error.to_string().contains("is no instant"), "{error}");
    }

    #[test]
    fn the_extremes_print_without_overflow() {
        assert!(!Timestamp::MIN.to_string().is_empty());
        assert!(!Timestamp::MAX.to_string().is_empty());
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
    }
}
