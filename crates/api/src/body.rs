//! Bodies: read up to a limit, refused by their announced length before a byte of them is kept, and given up when
//! they are too slow.
//!
//! The clock runs only while the node waits for the body: the time that the node spends on the last piece, or that a
//! slow store takes for it, is no fault of the client.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;

use crate::budget::{CallRefusal, Room};
use crate::problem::Problem;

/// How long the next piece of a body may take, counted from when the node waits for it.
pub(crate) const PIECE_WITHIN: Duration = Duration::from_secs(20);

/// How long a whole body may take, unless it is a stream.
const WHOLE_WITHIN: Duration = Duration::from_secs(120);

/// The same for an unauthenticated caller, whose few bytes take room from others.
const STRANGER_WITHIN: Duration = Duration::from_secs(5);

/// The media type of a stream of lines, in requests and answers.
pub(crate) const LINES: &str = "application/x-ndjson";

/// The next piece of a body: none at its end, and a refusal if it breaks or does not come in time.
pub(crate) async fn next(body: &mut Body, room: &Room) -> Result<Option<Frame<Bytes>>, Problem> {
    match timeout(PIECE_WITHIN, body.frame()).await {
        Ok(frame) => frame.transpose().map_err(|_| torn()),
        Err(_) => {
            room.note_refusal(CallRefusal::TooSlow);
            let seconds = PIECE_WITHIN.as_secs();
            Err(Problem::malformed(format!("the body came too slowly: nothing of it in {seconds} s")))
        }
    }
}

/// The refusal of a body that breaks off.
pub(crate) fn torn() -> Problem {
    Problem::malformed("the body ended before it was complete")
}

/// Reads a body of at most `max` bytes, if the budget has room for it.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    room: &mut Room,
) -> Result<Bytes, Problem> {
    let told =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > max as u64) {
        return Err(too_large(max, room));
    }
    let within = if room.is_strangers() { STRANGER_WITHIN } else { WHOLE_WITHIN };
    if let Ok(read) = timeout(within, read_whole(body, max, room)).await {
        return read;
    }
    room.note_refusal(CallRefusal::TooSlow);
    let seconds = within.as_secs();
    Err(Problem::malformed(format!("the body came too slowly: it was not complete after {seconds} s")))
}

async fn read_whole(mut body: Body, max: usize, room: &mut Room) -> Result<Bytes, Problem> {
    let mut read = BytesMut::new();
    while let Some(frame) = next(&mut body, room).await? {
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > max {
            return Err(too_large(max, room));
        }
        room.hold(read.len() + data.len())?;
        if read.is_empty() && body.is_end_stream() {
            // Most bodies come in one piece, which is then not copied.
            return Ok(data);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

fn too_large(max: usize, room: &Room) -> Problem {
    room.note_refusal(CallRefusal::TooLarge);
    Problem::too_large(format!("the body is longer than {max} bytes; send less at once"))
}

/// The media type of a body, without its parameters.
pub(crate) fn media(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next()?.trim().to_ascii_lowercase())
}

/// Refuses a media type that is none of these.
pub(crate) fn check_media(headers: &HeaderMap, known: &[&str]) -> Result<(), Problem> {
    let media = media(headers);
    if media.as_deref().is_some_and(|media| known.contains(&media)) {
        return Ok(());
    }
    let sent = media.unwrap_or_else(|| "nothing".into());
    let detail = format!("Content-Type says {sent}; send {}", known.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

/// Reads JSON.
pub(crate) fn json(body: &[u8]) -> Result<Value, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(Problem::malformed("the body is empty; JSON is expected"));
    }
    serde_json::from_slice(body).map_err(|error| broken(&error))
}

/// Says where text stops being JSON.
pub(crate) fn broken(error: &serde_json::Error) -> Problem {
    Problem::malformed(format!("the body is no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budgets, Limits, Owner};
    use crate::clock;

    #[test]
    fn broken_json_is_refused_with_line_and_column() {
        let problem = json(b"{\n \"a\": }").unwrap_err();
        assert_eq!(problem.status.as_u16(), 400);
        assert!(problem.detail.contains("line 2 column 7"), "{}", problem.detail);
        assert!(json(b" \n").unwrap_err().detail.contains("empty"));
    }

    #[test]
    fn other_media_types_are_refused_with_those_that_are_read() {
        let mut headers = HeaderMap::new();
        let known = &["application/json"];
        assert_eq!(check_media(&headers, known).unwrap_err().status.as_u16(), 415);
        headers.insert(header::CONTENT_TYPE, "Application/JSON; charset=utf-8".parse().unwrap());
        assert!(check_media(&headers, known).is_ok());
    }

    fn length(length: usize) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, length.to_string().parse().unwrap());
        headers
    }

    fn room() -> Room {
        Budgets::new(Limits::default()).room(Owner::Token(1))
    }

    async fn read(headers: &HeaderMap, body: Body, max: usize) -> Result<Bytes, Problem> {
        super::read(headers, body, max, &mut room()).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_given_up() {
        let (_silent, body) = crate::stream::open(1);
        let begun = clock::instant();
        let problem = read(&HeaderMap::new(), body, 10).await.unwrap_err();
        assert_eq!((problem.status.as_u16(), clock::since(begun)), (400, PIECE_WITHIN));
        assert!(problem.detail.contains("too slowly"), "{}", problem.detail);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_has_an_end_as_a_whole() {
        let (pieces, body) = crate::stream::open(1);
        tokio::spawn(async move {
            while pieces.send(Bytes::from_static(b"x")).await.is_ok() {
                clock::sleep(PIECE_WITHIN / 2).await;
            }
        });
        let begun = clock::instant();
        assert!(read(&HeaderMap::new(), body, 1_000).await.is_err());
        assert_eq!(clock::since(begun), WHOLE_WITHIN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_stranger_is_waited_for_only_briefly() {
        let (_silent, body) = crate::stream::open(1);
        let begun = clock::instant();
        let mut room = Budgets::new(Limits::default()).room(Owner::Strangers(None));
        let problem = super::read(&HeaderMap::new(), body, 10, &mut room).await.unwrap_err();
        assert_eq!((problem.status.as_u16(), clock::since(begun)), (400, STRANGER_WITHIN));
    }

    #[tokio::test]
    async fn bytes_are_held_as_they_are_read_and_refused_where_there_is_no_room() {
        let limits = Limits { buffered: 8, buffered_per_caller: 8, ..Limits::default() };
        let budgets = Budgets::new(limits);
        let mut first = budgets.room(Owner::Token(1));
        super::read(&HeaderMap::new(), Body::from("12345"), 10, &mut first).await.unwrap();
        assert_eq!(budgets.load().buffered, 5);
        let mut second = budgets.room(Owner::Token(2));
        let refused = super::read(&HeaderMap::new(), Body::from("12345"), 10, &mut second).await.unwrap_err();
        assert_eq!(refused.status.as_u16(), 503);
        drop(first);
        assert_eq!(budgets.load().buffered, 0);
    }

    #[tokio::test]
    async fn a_long_body_is_refused_by_its_announced_and_by_its_real_length() {
        let empty = Body::empty();
        assert_eq!(read(&length(11), empty, 10).await.unwrap_err().status.as_u16(), 413);
        let long = Body::from("01234567890");
        assert_eq!(read(&HeaderMap::new(), long, 10).await.unwrap_err().status.as_u16(), 413);
        assert_eq!(&read(&length(3), Body::from("abc"), 10).await.unwrap()[..], b"abc");
    }
}
