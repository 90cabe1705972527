//! Why a request to the server failed, in words for people and an exit code for scripts.

use http::StatusCode;
use punctual_protocol::Problem;

/// How much of an answer is shown that cannot be parsed.
const SHOWN: usize = 200;

/// One variant for each thing that the caller may do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// Correct the command.
    Usage(String),
    /// Read the server's reason.
    Refused { status: u16, said: String },
    /// Try again later, or elsewhere.
    Unreachable(String),
    /// Nothing that the caller could mend.
    Broken(String),
    /// Nothing at all: the reader of the output has read enough.
    ReaderGone,
}

impl Failure {
    pub(crate) fn usage(said: impl Into<String>) -> Failure {
        Failure::Usage(said.into())
    }

    pub(crate) fn not_found(said: impl Into<String>) -> Failure {
        Failure::Refused { status: 404, said: said.into() }
    }

    pub(crate) fn conflict(said: impl Into<String>) -> Failure {
        Failure::Refused { status: 409, said: said.into() }
    }

    /// A refusal of the server. Proxies in between refuse in formats of their own.
    pub(crate) fn refused(status: StatusCode, body: &[u8]) -> Failure {
        let status_number = status.as_u16();
        let said = match serde_json::from_slice::<Problem>(body) {
            Ok(problem) => in_words(&problem),
            Err(_) => format!("the server answered {status}{}", excerpt(body)),
        };
        Failure::Refused { status: status_number, said }
    }

    /// 0 ok, 1 failure, 2 usage, 3 not found, 4 conflict, 5 not allowed.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::ReaderGone => 0,
            Failure::Unreachable(_) | Failure::Broken(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Refused { status, .. } => match status {
                400 | 413 | 415 | 422 => 2,
                404 => 3,
                409 | 412 => 4,
                401 | 403 => 5,
                _ => 1,
            },
        }
    }

    /// Whether the same request may succeed soon.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Failure::Unreachable(_) | Failure::Refused { status: 429 | 502..=504, .. })
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Failure::ReaderGone => String::new(),
            Failure::Usage(said) | Failure::Unreachable(said) | Failure::Broken(said) => {
                format!("error: {said}\n")
            }
            Failure::Refused { said, .. } => format!("error: {said}\n"),
        }
    }

    /// The same failure, with one more line of advice.
    pub(crate) fn advising(self, advice: &str) -> Failure {
        match self {
            Failure::Refused { status, said } => {
                Failure::Refused { status, said: format!("{said}\n{advice}") }
            }
            other => other,
        }
    }
}

/// The detail, then a line for each field that is wrong; a line that equals the detail is not repeated.
pub(crate) fn in_words(problem: &Problem) -> String {
    let mut said = if problem.detail.is_empty() { problem.title.clone() } else { problem.detail.clone() };
    let lines = problem.errors.iter().map(|error| match error.pointer.as_str() {
        "" => error.detail.clone(),
        pointer => format!("{pointer}: {}", error.detail),
    });
    for line in lines.filter(|line| *line != problem.detail) {
        said.push_str(&format!("\n  {line}"));
    }
    if let Some(id) = problem.request_id.as_ref().filter(|_| problem.status >= 500) {
        said.push_str(&format!("\n  (request {id} in the server's log)"));
    }
    said
}

fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
    if shown.is_empty() { shown } else { format!(": {shown}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, body: &str) -> Failure {
        Failure::refused(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn every_status_has_its_exit_code() {
        for (status, code) in [
            (400, 2),
            (422, 2),
            (413, 2),
            (404, 3),
            (409, 4),
            (412, 4),
            (401, 5),
            (403, 5),
            (500, 1),
            (503, 1),
        ] {
            assert_eq!(refused(status, "").code(), code, "{status}");
        }
    }

    #[test]
    fn the_only_thing_that_is_wrong_is_said_once() {
        let problem = r#"{"type": "invalid", "title": "Invalid", "status": 422, "detail": "/target/url: relative URL without a base",
            "errors": [{"pointer": "/target/url", "detail": "relative URL without a base"}]}"#;
        assert_eq!(refused(422, problem).message(), "error: /target/url: relative URL without a base\n");
    }

    #[test]
    fn a_problem_is_its_detail_and_a_line_for_each_field() {
        let problem = r#"{"type": "invalid", "title": "Invalid", "status": 422, "detail": "the job is not valid",
            "errors": [{"pointer": "/schedule/expression", "detail": "25 is no hour"}]}"#;
        let said = "error: the job is not valid\n  /schedule/expression: 25 is no hour\n";
        assert_eq!(refused(422, problem).message(), said);
    }

    #[test]
    fn what_is_no_problem_is_shown_in_part() {
        assert_eq!(refused(502, "").message(), "error: the server answered 502 Bad Gateway\n");
        let page = format!("<html>\n  {}", "x".repeat(5_000));
        let message = refused(502, &page).message();
        assert!(message.contains("502 Bad Gateway: <html> xxx") && message.len() < 300, "{message}");
    }
}
