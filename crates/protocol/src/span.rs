//! Durations as people write them: `90s`, `1h30m`, `250ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in whole milliseconds, written with units from large to small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Units and their milliseconds, largest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// No duration is longer: a hundred years.
const MAX_MS: u64 = 36_525 * 86_400_000;

/// Text that is no duration, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanError {
    text: String,
    reason: &'static str,
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SpanError { text, reason } = self;
        write!(f, "`{text}` is no duration: {reason}; write it like 250ms, 90s, 5m, 1h30m or 2d")
    }
}

impl std::error::Error for SpanError {}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        let error = |reason| SpanError { text: text.chars().take(40).collect(), reason };
        if text.is_empty() {
            return Err(error("it is empty"));
        }
        let (mut rest, mut total, mut last) = (text, 0_u64, u64::MAX);
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let number: u64 = match rest[..digits].parse() {
                Ok(number) => number,
                Err(_) if digits == 0 => return Err(error("a number is missing")),
                Err(_) => return Err(error("it is too long")),
            };
            rest = &rest[digits..];
            let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let unit = UNITS.iter().find(|(name, _)| *name == &rest[..letters]);
            let Some((_, millis)) = unit else {
                return Err(error(if letters == 0 { "a unit is missing" } else { "a unit is unknown" }));
            };
            if *millis >= last {
                return Err(error("units go from large to small, each once"));
            }
            last = *millis;
            let sum = number.checked_mul(*millis).and_then(|more| total.checked_add(more));
            total = sum.filter(|sum| *sum <= MAX_MS).ok_or_else(|| error("it is too long"))?;
            rest = &rest[letters..];
        }
        Ok(Span(Duration::from_millis(total)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        // 90s stays 90s: minutes and more are used where they come out even, or from an hour on.
        if rest < 3_600_000 && !rest.is_multiple_of(60_000) {
            let (seconds, millis) = (rest / 1_000, rest % 1_000);
            if seconds > 0 {
                write!(f, "{seconds}s")?;
            }
            return if millis > 0 { write!(f, "{millis}ms") } else { Ok(()) };
        }
        for (name, millis) in UNITS {
            if rest >= millis {
                write!(f, "{}{name}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Whole numbers with units from large to small: d, h, m, s, ms.",
            "pattern": "^([0-9]{1,5}d)?([0-9]{1,7}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$",
            "minLength": 2,
            "examples": ["250ms", "90s", "1h30m"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, millis) in
            [("0s", 0), ("250ms", 250), ("90s", 90_000), ("1h30m", 5_400_000), ("2d", 172_800_000)]
        {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.0.as_millis(), span.to_string().as_str()), (millis, text));
        }
        for (text, shown) in [("60s", "1m"), ("5400s", "1h30m"), ("1m30s", "90s"), ("1500ms", "1s500ms")] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("5", "a unit is missing"),
            ("s", "a number is missing"),
            ("5 s", "a unit is missing"),
            ("5y", "a unit is unknown"),
            ("1s2m", "from large to small"),
            ("99999999999999999999s", "too long"),
            ("40000d", "too long"),
            ("-5s", "a number is missing"),
        ] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
