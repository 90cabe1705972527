//! Answers that come line by line: those to a stream, and the progress of long work.

use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use indicatif::{ProgressBar, ProgressStyle};
use punctual_protocol::Problem;
use serde_json::Value;

use super::client::{Client, Route};
use super::failure::{Failure, in_words};
use super::session::ClientSession;

/// An answer line names at most 10,000 runs.
const LINE_MAX: usize = 1 << 20;

/// An answer, line by line.
pub(crate) struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    pub(crate) fn of(response: Response<Incoming>) -> Lines {
        Lines { body: response.into_body(), rest: Vec::new() }
    }

    pub(crate) async fn next(&mut self, client: &Client) -> Result<Option<Vec<u8>>, Failure> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let after = self.rest.split_off(end + 1);
                let line = std::mem::replace(&mut self.rest, after);
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line.trim_ascii().to_vec()));
                }
                continue;
            }
            if self.rest.len() > LINE_MAX {
                return Err(Failure::Broken("the server's answer has no end of line".into()));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.rest.extend(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => {
                    return Err(client.unreachable(&format!("the answer broke off: {error}")));
                }
                None if self.rest.trim_ascii().is_empty() => return Ok(None),
                None => self.rest.push(b'\n'),
            }
        }
    }
}

/// Asks for long work, and shows its progress on a terminal: a sentence for each line that comes. The last line is
/// the answer. If the command is interrupted, the server ends the work after the page that is under way.
pub(crate) async fn follow(
    session: &ClientSession,
    route: Route,
    body: Value,
    sentence: impl Fn(&Value) -> String,
) -> Result<Value, Failure> {
    let response = session.client.follow(route, body).await?;
    // A server of an older version answers once, at the end.
    let is_one = response.headers().get(CONTENT_TYPE).is_none_or(|kind| kind != "application/x-ndjson");
    let mut lines = Lines::of(response);
    let style = ProgressStyle::with_template("{spinner} {msg}  ({elapsed})").expect("the template is right");
    let bar = ProgressBar::no_length().with_style(style);
    let mut last = Value::Null;
    let ended = loop {
        match lines.next(&session.client).await {
            Ok(Some(line)) => match read(&line) {
                Ok(told) => {
                    bar.set_message(sentence(&told));
                    bar.tick();
                    last = told;
                }
                Err(failure) => break Err(failure),
            },
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    bar.finish_and_clear();
    ended?;
    let is_done = last.as_object_mut().and_then(|last| last.remove("done")) == Some(Value::Bool(true));
    if is_done || is_one && !last.is_null() {
        return Ok(last);
    }
    let far = if last.is_null() { "nothing is known to be done".into() } else { sentence(&last) };
    Err(session.client.unreachable(&format!("the answer broke off; so far, {far}")))
}

/// A line has the progress, or the reason why the work ended.
fn read(line: &[u8]) -> Result<Value, Failure> {
    let told: Value = serde_json::from_slice(line)
        .map_err(|error| Failure::Broken(format!("the server's answer makes no sense: {error}")))?;
    match serde_json::from_value::<Problem>(told["error"].clone()) {
        Ok(problem) => Err(Failure::Refused { status: problem.status, said: in_words(&problem) }),
        Err(_) => Ok(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_or_why_it_ended() {
        assert_eq!(read(br#"{"matched": 3}"#).unwrap()["matched"], 3);
        let stop = br#"{"error": {"type": "x", "title": "x", "status": 503, "detail": "the store is away"}}"#;
        let failure = read(stop).unwrap_err();
        assert_eq!((failure.code(), failure.message().as_str()), (1, "error: the store is away\n"));
        assert_eq!(read(b"<html>").unwrap_err().code(), 1);
    }
}
