//! What an answer means: success, another try, or the end.

use std::fmt::Write as _;
use std::time::Duration;

use calendar::Timestamp;
use http::StatusCode;
use punctual_core::model::{AttemptOutcome, Text};
use punctual_node::ports::Further;

/// The longest pause that an agent may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// How an attempt ended, as far as can be told from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) message: Text,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) further: Further,
}

impl Verdict {
    /// Another try may help.
    pub(crate) fn new(outcome: AttemptOutcome, message: impl Into<Text>) -> Verdict {
        Verdict { outcome, message: message.into(), retry_after: None, further: Further::Welcome }
    }

    /// No other try will help.
    pub(crate) fn hopeless(message: impl Into<Text>) -> Verdict {
        Verdict { further: Further::Useless, ..Verdict::new(AttemptOutcome::Failed, message) }
    }
}

/// An answer: its status and the beginning of its body.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Excerpt,
}

/// The beginning of a body.
#[derive(Debug, Default)]
pub(crate) struct Excerpt {
    pub(crate) bytes: Vec<u8>,
    pub(crate) rest: Rest,
}

/// What became of the rest of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There was none.
    #[default]
    Read,
    /// It was longer than the part that is read.
    Cut,
    /// The connection ended before it did.
    Broken,
}

/// Judges an answer.
pub(crate) fn judge(answer: &Answer, success_codes: &[u16], kept: usize, now: Timestamp) -> Verdict {
    let (status, code) = (answer.status, answer.status.as_u16());
    let is_success = match success_codes {
        [] => status.is_success(),
        codes => codes.contains(&code),
    };
    if is_success && answer.body.rest == Rest::Broken {
        // An agent that answers while it works signals the end of the work by the end of the answer.
        let status = shown(status);
        let said = format!("{status}, but the answer broke off: whether the work was done is not known");
        return Verdict::new(AttemptOutcome::Lost, said);
    }
    let message = message(answer, kept);
    if is_success {
        return Verdict::new(AttemptOutcome::Succeeded, message);
    }
    match code {
        408 | 429 | 500..=599 => {
            let retry_after = answer.retry_after.as_deref().and_then(|text| retry_after(text, now));
            Verdict { retry_after, ..Verdict::new(AttemptOutcome::Failed, message) }
        }
        300..=399 => Verdict::hopeless(explained(
            status,
            "the agent answers elsewhere; set follow_redirects, or call the final url",
        )),
        200..=299 => Verdict::hopeless(explained(status, "not among the job's success_codes")),
        410 => Verdict { further: Further::Gone, ..Verdict::hopeless(message) },
        _ => Verdict::hopeless(message),
    }
}

/// A status with what there is to say about it.
pub(crate) fn explained(status: StatusCode, what: &str) -> String {
    format!("{}: {what}", shown(status))
}

/// A status as people read it.
pub(crate) fn shown(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

fn message(answer: &Answer, kept: usize) -> Text {
    let body = String::from_utf8_lossy(&answer.body.bytes);
    let body = body.trim();
    match (answer.status, body.is_empty()) {
        (StatusCode::OK, true) => Text::Borrowed("200 OK"),
        (StatusCode::NO_CONTENT, true) => Text::Borrowed("204 No Content"),
        (status, true) => shown(status).into(),
        (status, false) => {
            let mut message = shown(status) + ": ";
            let is_whole = put_printable(&mut message, body, kept) && answer.body.rest == Rest::Read;
            message.push_str(if is_whole { "" } else { "…" });
            message.into()
        }
    }
}

/// Appends a text in a form that is safe to print; returns whether all of it fitted.
pub(crate) fn put_printable(message: &mut String, text: &str, room: usize) -> bool {
    let end = message.len() + room;
    for letter in text.chars() {
        // Marks of text direction can make a line read as another one.
        let disturbs = letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let before = message.len();
        match disturbs {
            true => write!(message, "{}", letter.escape_default()).expect("a string takes everything"),
            false => message.push(letter),
        }
        if message.len() > end {
            message.truncate(before);
            return false;
        }
    }
    true
}

/// How long an agent asks not to be called: seconds, or an instant.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let asked = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true if text.is_empty() => return None,
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => {
            let millis = http_date(text)?.as_millis().saturating_sub(now.as_millis());
            Duration::from_millis(u64::try_from(millis).unwrap_or(0))
        }
    };
    Some(asked.min(RETRY_AFTER_MAX))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// An instant as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`. The two older forms are gone from the world.
fn http_date(text: &str) -> Option<Timestamp> {
    let (_, date) = text.split_once(", ")?;
    let parts: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    format!("{year}-{month:02}-{day}T{time}Z").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn verdict(status: u16, body: &str, success_codes: &[u16]) -> Verdict {
        let body = Excerpt { bytes: body.into(), rest: Rest::Read };
        let answer = Answer { status: StatusCode::from_u16(status).unwrap(), retry_after: None, body };
        judge(&answer, success_codes, 4096, at("2026-01-01T00:00:00Z"))
    }

    /// `ok`, `again` or `end`.
    fn fate(status: u16, success_codes: &[u16]) -> &'static str {
        match verdict(status, "", success_codes) {
            Verdict { outcome: AttemptOutcome::Succeeded, .. } => "ok",
            Verdict { outcome: AttemptOutcome::Failed, further: Further::Useless, .. } => "end",
            Verdict { outcome: AttemptOutcome::Failed, further: Further::Gone, .. } => "gone",
            Verdict { outcome: AttemptOutcome::Failed, further: Further::Welcome, .. } => "again",
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_status_decides_between_success_another_try_and_the_end() {
        for (statuses, expected) in [
            (&[200, 201, 202, 204, 299][..], "ok"),
            (&[500, 502, 503, 504, 599, 408, 429], "again"),
            (&[410], "gone"),
            (&[400, 401, 403, 404, 409, 422, 499, 301, 302, 303, 304, 307, 308, 101, 600], "end"),
        ] {
            for status in statuses {
                assert_eq!(fate(*status, &[]), expected, "{status}");
            }
        }
        assert_eq!(fate(404, &[404]), "ok");
        assert_eq!(fate(302, &[302]), "ok");
        assert_eq!(fate(503, &[503]), "ok");
        assert_eq!(fate(200, &[202]), "end");
        assert_eq!(fate(500, &[202]), "again");
    }

    #[test]
    fn a_message_says_the_status_and_what_the_agent_said() {
        let message = |status, body| verdict(status, body, &[]).message;
        assert_eq!(message(200, ""), "200 OK");
        assert_eq!(message(200, "done\n"), "200 OK: done");
        assert_eq!(message(410, "no more"), "410 Gone: no more");
        assert_eq!(
            message(500, "a\nb\u{1b}[31m\u{202e}ü"),
            "500 Internal Server Error: a\\nb\\u{1b}[31m\\u{202e}ü"
        );
        assert_eq!(message(599, ""), "599");
        assert!(message(302, "x").contains("follow_redirects"));
        assert!(verdict(204, "", &[200]).message.contains("success_codes"));
    }

    #[test]
    fn a_message_has_room_for_what_is_kept_and_no_more() {
        let body = Excerpt { bytes: vec![1; 64], rest: Rest::Cut };
        let answer = Answer { status: StatusCode::OK, retry_after: None, body };
        let message = judge(&answer, &[], 16, at("2026-01-01T00:00:00Z")).message;
        assert_eq!(message, format!("200 OK: {}…", r"\u{1}".repeat(3)));
        let body = Excerpt { bytes: vec![0xff, b'x'], rest: Rest::Read };
        let answer = Answer { status: StatusCode::OK, retry_after: None, body };
        assert_eq!(judge(&answer, &[], 16, at("2026-01-01T00:00:00Z")).message, "200 OK: \u{fffd}x");
    }

    #[test]
    fn a_success_that_breaks_off_is_no_success() {
        let broken = |status| {
            let body = Excerpt { bytes: b"half".into(), rest: Rest::Broken };
            let answer = Answer { status, retry_after: None, body };
            judge(&answer, &[], 4096, at("2026-01-01T00:00:00Z"))
        };
        assert_eq!(broken(StatusCode::OK).outcome, AttemptOutcome::Lost);
        assert_eq!(broken(StatusCode::BAD_GATEWAY).outcome, AttemptOutcome::Failed);
    }

    #[test]
    fn retry_after_is_seconds_or_an_instant_and_at_most_a_day() {
        let now = at("2026-01-01T00:00:00Z");
        for (text, expected) in [
            ("0", Some(0)),
            ("7", Some(7)),
            (" 120 ", Some(120)),
            ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Thu, 01 Jan 2026 00:01:30 GMT", Some(90)),
            ("Wed, 31 Dec 2025 00:00:00 GMT", Some(0)),
            ("Thu, 01 Jan 2037 00:00:00 GMT", Some(86_400)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("Thu, 01 Foo 2026 00:01:30 GMT", None),
            ("Thu, 99 Jan 2026 00:01:30 GMT", None),
            ("Thu, 01 Jan 2026 00:01:30 CET", None),
        ] {
            assert_eq!(retry_after(text, now), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
