//! Messages as text: batches of reports and of log lines, within the limits of the protocol.

use std::fmt::Write;
use std::time::Duration;

use punctual_protocol::native::{FRAME_MAX, LINES_MAX, NUMBER_MAX, Outcome, REPORTS_MAX};
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use crate::coordinator::AttemptReport;

/// The greatest length of a report's message, a log line and a note, in bytes.
pub(crate) const MESSAGE_MAX: usize = 64 << 10;
pub(crate) const LINE_MAX: usize = 16 << 10;
pub(crate) const NOTE_MAX: usize = 1 << 10;

/// An attempt whose report follows its end this soon has ended when the report comes.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Bytes reserved for the end of a message after its last item.
const TAIL: usize = 64;

/// The longest prefix of a text with at most `most` bytes and whole characters.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The same in place.
pub(crate) fn cut_own(text: &mut String, most: usize) {
    let most = text.floor_char_boundary(most);
    text.truncate(most);
}

/// A message as JSON text.
pub(crate) fn text(said: &impl Serialize) -> String {
    serde_json::to_string(said).expect("our messages have text for keys")
}

/// Reports for one node, in as few messages as possible.
#[derive(Default)]
pub(crate) struct Reports {
    full: Vec<String>,
    open: Vec<u8>,
    count: usize,
}

impl Reports {
    /// Adds a report, in a new message if the current one is full.
    pub(crate) fn push(&mut self, ended: &AttemptReport, now: Instant) {
        if self.count == REPORTS_MAX {
            self.close(0);
        }
        let before = self.open.len();
        self.write(ended, now);
        if self.open.len() + TAIL > FRAME_MAX && self.count > 1 {
            self.open.truncate(before);
            self.count -= 1;
            self.close(0);
            self.write(ended, now);
        }
    }

    /// The messages, with new credits in the last one. Without a message the credits are left to the caller.
    pub(crate) fn finish(&mut self, credits: &mut u32) -> Vec<String> {
        if self.count > 0 {
            self.close(std::mem::take(credits));
        }
        std::mem::take(&mut self.full)
    }

    fn write(&mut self, ended: &AttemptReport, now: Instant) {
        let opening: &[u8] = if self.count == 0 { br#"{"type":"reports","reports":["# } else { b"," };
        self.open.extend_from_slice(opening);
        serde_json::to_writer(&mut self.open, &WireReport::of(ended, now)).expect("memory takes every text");
        self.count += 1;
    }

    fn close(&mut self, credits: u32) {
        let open = std::mem::take(&mut self.open);
        let mut message = String::from_utf8(open).expect("JSON is text");
        match credits {
            0 => message.push_str("]}"),
            _ => write!(message, r#"],"credits":{credits}}}"#).expect("memory takes every text"),
        }
        self.full.push(message);
        self.count = 0;
    }
}

/// A report as it is written. Unlike the protocol's own type it borrows the message.
#[derive(Serialize)]
struct WireReport<'a> {
    run: u64,
    attempt: u32,
    token: u64,
    outcome: Outcome,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_ms_ago: Option<u64>,
    #[serde(skip_serializing_if = "is_true")]
    retry: bool,
}

impl<'a> WireReport<'a> {
    fn of(ended: &'a AttemptReport, now: Instant) -> WireReport<'a> {
        // A length of time, because the clocks of the executor and the node need not agree.
        let ago = Some(now.saturating_duration_since(ended.ended)).filter(|ago| *ago >= AT_ONCE);
        WireReport {
            run: ended.held.run,
            attempt: ended.held.attempt,
            token: ended.held.token,
            outcome: ended.outcome,
            message: &ended.message,
            started_at: ended.started_ms.map(Stamp),
            ended_ms_ago: ago.map(|ago| u64::try_from(ago.as_millis()).unwrap_or(NUMBER_MAX)),
            retry: ended.retry,
        }
    }
}

fn is_true(flag: &bool) -> bool {
    *flag
}

/// Milliseconds since 1970, serialised as RFC 3339 in UTC.
struct Stamp(u64);

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = stamp(self.0);
        serializer.serialize_str(std::str::from_utf8(&digits).unwrap_or_default())
    }
}

/// `2026-11-15T09:00:00.004Z`. Written digit by digit, because this is done for every run.
fn stamp(ms: u64) -> [u8; 24] {
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let parts = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, of_day / 3_600_000),
        (14..16, of_day / 60_000 % 60),
        (17..19, of_day / 1_000 % 60),
        (20..23, of_day % 1_000),
    ];
    for (places, mut value) in parts {
        for place in places.rev() {
            text[place] = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    text
}

/// The date of a day counted from 1970. Internally years begin in March, so that a leap day is the last of its year.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// Log lines of one attempt, in as few messages as possible.
#[derive(Default)]
pub(crate) struct LogBatch {
    open: Vec<u8>,
    count: usize,
}

impl LogBatch {
    /// Adds line `number`. Returns the previous message if it had no more room.
    pub(crate) fn push(&mut self, run: u64, attempt: u32, number: u64, line: &str) -> Option<String> {
        let before = self.open.len();
        self.write(run, attempt, number, line);
        let is_over = self.count > LINES_MAX || self.open.len() + TAIL > FRAME_MAX;
        if !is_over || self.count == 1 {
            return None;
        }
        self.open.truncate(before);
        let full = self.finish();
        self.write(run, attempt, number, line);
        full
    }

    /// The message, if there are lines.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let open = std::mem::take(&mut self.open);
        self.count = 0;
        let mut message = String::from_utf8(open).expect("JSON is text");
        message.push_str("]}");
        (message.len() > 2).then_some(message)
    }

    fn write(&mut self, run: u64, attempt: u32, number: u64, line: &str) {
        if self.count == 0 {
            let head = format!(r#"{{"type":"log","run":{run},"attempt":{attempt},"from":{number},"lines":["#);
            self.open.extend_from_slice(head.as_bytes());
        } else {
            self.open.push(b',');
        }
        serde_json::to_writer(&mut self.open, line).expect("memory takes every text");
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use punctual_protocol::native::{FromExecutor, Held, Report};

    use super::*;
    use crate::handler::AttemptEnd;
    use crate::surroundings;

    fn ended(run: u64, outcome: Outcome, message: String, retry: bool) -> AttemptReport {
        AttemptReport::new(
            Held { run, attempt: 1, token: run + 1 },
            AttemptEnd { outcome, message, retry },
            Some(1),
            surroundings::instant(),
        )
    }

    fn read(messages: &[String]) -> (Vec<Report>, u32) {
        let mut credits = 0;
        let mut all = Vec::new();
        for message in messages {
            assert!(message.len() <= FRAME_MAX);
            let FromExecutor::Reports(said) = FromExecutor::read(message).unwrap() else {
                panic!("{message}")
            };
            all.extend(said.reports);
            credits += said.credits;
        }
        (all, credits)
    }

    #[test]
    fn an_instant_is_written_as_the_protocol_wants_it() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_794_733_200_004, "2026-11-15T09:00:00.004Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(std::str::from_utf8(&stamp(ms)).unwrap(), text);
        }
    }

    #[test]
    fn reports_that_are_too_many_or_too_long_come_in_several_messages() {
        let mut reports = Reports::default();
        (0..2_500).for_each(|run| {
            reports.push(&ended(run, Outcome::Succeeded, String::new(), true), surroundings::instant())
        });
        let messages = reports.finish(&mut 2_500);
        assert_eq!((messages.len(), read(&messages).1), (3, 2_500));
        // Every byte of these becomes six.
        let nasty = "\u{1}".repeat(MESSAGE_MAX);
        (0..30).for_each(|run| {
            reports.push(&ended(run, Outcome::Failed, nasty.clone(), false), surroundings::instant())
        });
        let (all, credits) = read(&reports.finish(&mut 7));
        assert!(credits == 7 && all.iter().map(|report| report.run).eq(0..30));
        assert!(reports.finish(&mut 7).is_empty(), "without a report there is no message");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(ended(1, Outcome::Failed, "é".repeat(MESSAGE_MAX), true).message.len(), MESSAGE_MAX);
    }

    proptest! {
        #[test]
        fn reports_are_read_as_they_were_written(
            told in prop::collection::vec((0_u64..1 << 53, any::<bool>(), ".{0,40}"), 1..50),
            credits in 0_u32..40_000,
        ) {
            let mut reports = Reports::default();
            for (run, retry, message) in &told {
                reports.push(&ended(*run, Outcome::Failed, message.clone(), *retry), surroundings::instant());
            }
            let (all, given) = read(&reports.finish(&mut credits.clone()));
            prop_assert_eq!(given, credits);
            let all: Vec<_> = all.into_iter().map(|it| (it.run, it.retry, it.message)).collect();
            prop_assert_eq!(all, told);
        }

        #[test]
        fn lines_are_read_as_they_were_written(told in prop::collection::vec("(?s).{0,40}", 1..100)) {
            let mut lines = LogBatch::default();
            for (number, line) in (5..).zip(&told) {
                prop_assert_eq!(lines.push(7, 2, number, line), None);
            }
            let FromExecutor::Log(log) = FromExecutor::read(&lines.finish().unwrap()).unwrap() else { panic!() };
            prop_assert_eq!((log.run, log.attempt, log.from, log.lines), (7, 2, 5, told));
        }
    }

    #[test]
    fn lines_that_are_too_many_or_too_long_come_in_several_messages() {
        let long = "\u{1}".repeat(LINE_MAX);
        for (line, count) in [("", 25_000_u64), (long.as_str(), 100)] {
            let mut lines = LogBatch::default();
            let mut messages: Vec<String> =
                (1..=count).filter_map(|number| lines.push(7, 1, number, line)).collect();
            messages.extend(lines.finish());
            let mut next = 1;
            for message in messages {
                let FromExecutor::Log(log) = FromExecutor::read(&message).unwrap() else { panic!() };
                assert_eq!(log.from, next);
                next += log.lines.len() as u64;
            }
            assert_eq!(next, count + 1);
        }
    }
}
