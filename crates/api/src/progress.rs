//! Long work with progress: one line at a time for callers that accept lines, else one answer at the end.
//!
//! If a caller that asked for lines hangs up, the work ends after the page that is under way. Work without such a
//! caller goes on to its end, as every command does.

use std::future::Future;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use crate::body::LINES;
use crate::problem::Problem;
use crate::stream;
use crate::table::{Answer, Call};

/// How many lines wait for a slow reader. Beyond that it misses lines, but never the last one.
const LINES_UNREAD: usize = 16;

/// Where work reports its progress.
pub(crate) struct Teller(Option<Sender<Bytes>>);

impl Teller {
    /// Reports progress; returns whether the caller still listens.
    pub(crate) fn tell(&self, so_far: &impl Serialize) -> bool {
        let Some(lines) = &self.0 else { return true };
        // A line that finds no room is dropped: the next one says more.
        let _ = lines.try_send(line(&plain(so_far)));
        !lines.is_closed()
    }
}

/// Carries work out, and answers in the form that the caller accepts.
pub(crate) async fn told<T, W, F>(call: &Call, work: W) -> Answer
where
    T: Serialize + Send,
    W: FnOnce(Teller) -> F,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    if !wants_lines(&call.headers) {
        return Ok(axum::Json(plain(&work(Teller(None)).await?)).into_response());
    }
    let (lines, body) = stream::open(LINES_UNREAD);
    let work = work(Teller(Some(lines.clone())));
    let request_id = call.request_id.clone();
    tokio::spawn(async move {
        let last = match work.await {
            Ok(done) => {
                let mut done = plain(&done);
                done["done"] = json!(true);
                done
            }
            Err(problem) => json!({"error": problem.shown(Some(&request_id))}),
        };
        // An error means that the caller hung up, so there is no one left to tell.
        let _ = lines.send(line(&last)).await;
    });
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, LINES)], body).into_response())
}

/// Whether the caller accepts lines and nothing else.
fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut media = accepted.flat_map(|text| text.split(',')).map(|one| {
        let name = one.split(';').next().unwrap_or_default();
        name.trim().to_ascii_lowercase()
    });
    let mut has_lines = false;
    let takes_other = media.any(|name| match name.as_str() {
        LINES => {
            has_lines = true;
            false
        }
        "application/json" | "application/*" | "*/*" => true,
        _ => false,
    });
    has_lines && !takes_other
}

fn plain(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("what we answer is plain data")
}

fn line(value: &Value) -> Bytes {
    Bytes::from(format!("{value}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_for_who_takes_nothing_else() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            wants_lines(&headers)
        };
        assert!(wants("application/x-ndjson"));
        assert!(wants("application/problem+json, Application/X-NDJSON;q=0.9"));
        for accept in ["*/*", "application/json", "application/x-ndjson, application/json", "text/html"] {
            assert!(!wants(accept), "{accept}");
        }
        assert!(!wants_lines(&HeaderMap::new()));
    }

    #[test]
    fn a_slow_reader_misses_lines_and_one_who_left_ends_the_work() {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let teller = Teller(Some(sender));
        assert!(teller.tell(&1) && teller.tell(&2));
        drop(receiver);
        assert!(!teller.tell(&3));
        assert!(Teller(None).tell(&4), "who wants one answer waits for it");
    }
}
