//! Bodies: read up to a limit, refused by their length before a byte of them is kept.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::Value;

use crate::problem::Problem;

/// The media type of a stream of lines, asked and answered.
pub(crate) const LINES: &str = "application/x-ndjson";

/// Reads a body of at most `max` bytes.
pub(crate) async fn read(headers: &HeaderMap, mut body: Body, max: usize) -> Result<Bytes, Problem> {
    let told =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > max as u64) {
        return Err(too_large(max));
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::malformed("the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > max {
            return Err(too_large(max));
        }
        if read.is_empty() && body.is_end_stream() {
            // Most bodies are one piece, which is then not copied.
            return Ok(data);
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

fn too_large(max: usize) -> Problem {
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

    #[tokio::test]
    async fn a_long_body_is_refused_by_its_announced_and_by_its_real_length() {
        let empty = Body::empty();
        assert_eq!(read(&length(11), empty, 10).await.unwrap_err().status.as_u16(), 413);
        let long = Body::from("01234567890");
        assert_eq!(read(&HeaderMap::new(), long, 10).await.unwrap_err().status.as_u16(), 413);
        assert_eq!(&read(&length(3), Body::from("abc"), 10).await.unwrap()[..], b"abc");
    }
}
