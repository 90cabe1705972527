//! HTTP/1.1 by hand: one request, one answer, on one connection.
//!
//! Writing is exact. Reading is lenient with what executors do (lines that end with a bare line feed, a space before
//! the first header, no length at all), and every part of it is bounded.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use httparse::{EMPTY_HEADER, ParserConfig, Status};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Instant;

use crate::clock;
use crate::connect::Stream;
use crate::http::answer::Rest;

/// The longest head of an answer that is read.
const HEAD_MAX: usize = 16 << 10;
/// The most headers of an answer.
const HEADERS_MAX: usize = 64;
/// How many heads may come before the answer proper.
const HEADS_BEFORE_MAX: usize = 8;
/// The longest line that says how long a chunk is.
const CHUNK_LINE_MAX: usize = 1 << 10;
/// How often an answer without a length is looked at whether it is whole.
const LOOKS_MAX: usize = 16;
/// How much is read at a time.
const PIECE: usize = 4 << 10;

/// An answer, with as much of its body as was wanted.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    pub(super) rest: Rest,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum LinkTrouble {
    /// The connection was closed while it was idle, and nothing was written to it.
    Stale,
    /// Not all of the request was written, so the executor cannot have understood it.
    Unwritten(String),
    /// All of it was written.
    Unanswered(String),
}

/// An open connection.
pub(super) struct Link {
    stream: Stream,
    /// The bytes that were read; those from `at` on are not used yet.
    buffer: Vec<u8>,
    at: usize,
    used_at: Instant,
    /// How long it may stay idle; none once it cannot be used any more.
    keep: Option<Duration>,
    was_used: bool,
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Io for S {}

impl Link {
    pub(super) fn new(stream: Stream) -> Link {
        Link { stream, buffer: Vec::new(), at: 0, used_at: clock::instant(), keep: None, was_used: false }
    }

    /// When it has been idle for too long; none if it cannot be used again.
    pub(super) fn rests_until(&self, idle_timeout: Duration) -> Option<Instant> {
        self.keep.map(|keep| self.used_at + keep.min(idle_timeout))
    }

    pub(super) fn used_at(&self) -> Instant {
        self.used_at
    }

    /// Sends a request and reads its answer. `is_written` tells a caller that gives up whether the request may have
    /// arrived.
    pub(super) async fn exchange(
        &mut self,
        request: &[u8],
        limit: usize,
        is_written: &mut bool,
    ) -> Result<Answer, LinkTrouble> {
        self.keep = None;
        self.write(request).await?;
        *is_written = true;
        let (status, body, rest) = self.read(limit).await.map_err(LinkTrouble::Unanswered)?;
        (self.was_used, self.used_at) = (true, clock::instant());
        Ok(Answer { status, body, rest })
    }

    /// Waits until the other side closes the connection or sends something unasked.
    pub(super) async fn disturbed(&mut self) {
        poll_fn(|cx| {
            let mut byte = [0];
            Pin::new(self.io()).poll_read(cx, &mut ReadBuf::new(&mut byte)).map(drop)
        })
        .await;
    }

    async fn is_disturbed(&mut self) -> bool {
        let mut disturbed = std::pin::pin!(self.disturbed());
        poll_fn(|cx| Poll::Ready(disturbed.as_mut().poll(cx).is_ready())).await
    }

    async fn write(&mut self, request: &[u8]) -> Result<(), LinkTrouble> {
        if self.was_used && self.is_disturbed().await {
            return Err(LinkTrouble::Stale);
        }
        let mut written = 0;
        while written < request.len() {
            match self.io().write(&request[written..]).await {
                Ok(count) if count > 0 => written += count,
                Ok(_) => return Err(LinkTrouble::Unwritten("the connection takes nothing".into())),
                Err(_) if written == 0 && self.was_used => return Err(LinkTrouble::Stale),
                Err(error) => return Err(LinkTrouble::Unwritten(error.to_string())),
            }
        }
        self.io().flush().await.map_err(|error| LinkTrouble::Unwritten(error.to_string()))
    }

    async fn read(&mut self, limit: usize) -> Result<(u16, Vec<u8>, Rest), String> {
        let head = self.last_head().await?;
        let (body, rest) = match head.length {
            Length::Known(length) => self.known(length, limit).await,
            Length::Chunked => self.chunked(limit).await,
            Length::ToTheEnd => self.endless(limit).await,
        };
        // Bytes that are left now belong to no answer.
        let is_clean = rest == Rest::Read && self.at == self.buffer.len();
        self.keep = head.keep.filter(|_| is_clean && head.length != Length::ToTheEnd);
        Ok((head.status, body, rest))
    }

    /// The head of the final answer. Interim heads (1xx) are skipped, and there may only be a few of them.
    async fn last_head(&mut self) -> Result<Head, String> {
        for _ in 0..=HEADS_BEFORE_MAX {
            let head = self.head().await?;
            if head.status >= 200 {
                return Ok(head);
            }
        }
        Err(format!("more than {HEADS_BEFORE_MAX} heads came before the answer"))
    }

    async fn head(&mut self) -> Result<Head, String> {
        let mut seen = 0;
        loop {
            let ready = self.ready();
            // Only after a line end: an executor that sends single bytes would otherwise make us parse the head again
            // for each.
            if ready[seen..].contains(&b'\n')
                && let Some((head, length)) = Head::parse(ready)?
            {
                self.at += length;
                return Ok(head);
            }
            seen = ready.len();
            if seen > HEAD_MAX {
                return Err("the head of the answer is too long".into());
            }
            if !self.more().await.map_err(|error| error.to_string())? {
                return Err("the connection was closed without an answer".into());
            }
        }
    }

    async fn known(&mut self, length: u64, limit: usize) -> (Vec<u8>, Rest) {
        let wanted = usize::try_from(length).unwrap_or(usize::MAX);
        let mut body = Vec::new();
        match self.take(&mut body, wanted.min(limit)).await {
            true if wanted > limit => (body, Rest::Cut),
            true => (body, Rest::Read),
            false => (body, Rest::Broken),
        }
    }

    async fn chunked(&mut self, limit: usize) -> (Vec<u8>, Rest) {
        let mut body = Vec::new();
        loop {
            let Some(length) = self.chunk_length().await else { return (body, Rest::Broken) };
            let room = limit - body.len();
            match usize::try_from(length) {
                Ok(0) => {
                    let is_whole = self.trailers().await;
                    return (body, if is_whole { Rest::Read } else { Rest::Broken });
                }
                Ok(length) if length <= room => {
                    if !self.take(&mut body, length).await || !self.line_end().await {
                        return (body, Rest::Broken);
                    }
                }
                _ => {
                    self.take(&mut body, room).await;
                    return (body, Rest::Cut);
                }
            }
        }
    }

    /// Reads until the other side closes, or until the body is a complete answer: some executors that send no length
    /// never close.
    async fn endless(&mut self, limit: usize) -> (Vec<u8>, Rest) {
        let mut body = Vec::new();
        let mut looks = 0;
        loop {
            let room = limit - body.len();
            let ready = self.ready();
            let (taken, is_too_long) = (ready.len().min(room), ready.len() > room);
            body.extend_from_slice(&ready[..taken]);
            self.at += taken;
            if is_too_long {
                return (body, Rest::Cut);
            }
            let may_be_whole = looks < LOOKS_MAX && body.trim_ascii_end().ends_with(b"}");
            looks += usize::from(may_be_whole);
            if may_be_whole && is_json(&body) || !matches!(self.more().await, Ok(true)) {
                return (body, Rest::Read);
            }
        }
    }

    /// Takes this many bytes; false if there are fewer.
    async fn take(&mut self, body: &mut Vec<u8>, mut wanted: usize) -> bool {
        while wanted > 0 {
            let ready = self.ready();
            let taken = ready.len().min(wanted);
            body.extend_from_slice(&ready[..taken]);
            self.at += taken;
            wanted -= taken;
            if wanted > 0 && !matches!(self.more().await, Ok(true)) {
                return false;
            }
        }
        true
    }

    async fn chunk_length(&mut self) -> Option<u64> {
        loop {
            match httparse::parse_chunk_size(self.ready()) {
                Ok(Status::Complete((length, chunk))) => {
                    self.at += length;
                    return Some(chunk);
                }
                Ok(Status::Partial) if self.ready().len() < CHUNK_LINE_MAX => {}
                _ => return None,
            }
            if !matches!(self.more().await, Ok(true)) {
                return None;
            }
        }
    }

    /// Reads past the end of a line; false if there is more on the line.
    async fn line_end(&mut self) -> bool {
        let mut end = Vec::new();
        self.take(&mut end, 1).await && (end == b"\n" || self.take(&mut end, 1).await && end == b"\r\n")
    }

    /// Reads past the headers that may follow the last chunk; false if they are longer than a head.
    async fn trailers(&mut self) -> bool {
        let mut passed = 0;
        while passed <= HEAD_MAX {
            let ready = self.ready();
            match ready.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let is_empty = ready[..end].trim_ascii().is_empty();
                    self.at += end + 1;
                    passed += end + 1;
                    if is_empty {
                        return true;
                    }
                }
                None if ready.len() > CHUNK_LINE_MAX => return false,
                None if !matches!(self.more().await, Ok(true)) => return false,
                None => {}
            }
        }
        false
    }

    fn ready(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Reads some more; false if there is none.
    async fn more(&mut self) -> io::Result<bool> {
        // Used bytes are dropped first, so that the buffer never grows beyond the part that is being read.
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.reserve(PIECE);
        let mut buffer = std::mem::take(&mut self.buffer);
        let count = self.io().read_buf(&mut buffer).await;
        self.buffer = buffer;
        Ok(count? > 0)
    }

    fn io(&mut self) -> &mut dyn Io {
        match &mut self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream,
        }
    }
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Known(u64),
    Chunked,
    ToTheEnd,
}

/// What counts in the head of an answer.
#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    length: Length,
    /// How long the connection may be kept; nothing if it may not.
    keep: Option<Duration>,
}

impl Head {
    /// The head and its length, once all of it is there.
    fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, String> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        match forgiving().parse_response(&mut response, bytes) {
            Ok(Status::Complete(length)) => {
                let mut head = Head {
                    status: response.code.unwrap_or(0),
                    length: Length::ToTheEnd,
                    keep: Some(Duration::MAX),
                };
                if response.version != Some(1) {
                    head.keep = None;
                }
                if head.status < 200 || matches!(head.status, 204 | 304) {
                    head.length = Length::Known(0);
                }
                response.headers.iter().try_for_each(|header| head.note(header))?;
                Ok(Some((head, length)))
            }
            Ok(Status::Partial) => Ok(None),
            Err(error) => Err(format!("the answer is no HTTP: {error}")),
        }
    }

    fn note(&mut self, header: &httparse::Header) -> Result<(), String> {
        let value = String::from_utf8_lossy(header.value);
        let says = |word: &str| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
        match header.name {
            name if name.eq_ignore_ascii_case("content-length") => self.note_length(value.trim())?,
            name if name.eq_ignore_ascii_case("transfer-encoding") && says("chunked") => {
                self.length = Length::Chunked;
            }
            name if name.eq_ignore_ascii_case("connection") && says("close") => self.keep = None,
            name if name.eq_ignore_ascii_case("keep-alive") => {
                // We close a second before the executor would.
                let told =
                    value.split(',').find_map(|part| part.trim().strip_prefix("timeout=")?.parse().ok());
                let told = told.map(|seconds: u64| Duration::from_secs(seconds.saturating_sub(1)));
                self.keep = self.keep.map(|keep| told.map_or(keep, |told| told.min(keep)));
            }
            _ => {}
        }
        Ok(())
    }

    fn note_length(&mut self, value: &str) -> Result<(), String> {
        let length = value.parse().map_err(|_| "the answer does not say how long it is".to_owned())?;
        match self.length {
            Length::Known(other)
                if other != length && self.status >= 200 && !matches!(self.status, 204 | 304) =>
            {
                Err("the answer has two lengths".into())
            }
            Length::ToTheEnd => {
                self.length = Length::Known(length);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok()
}

fn forgiving() -> ParserConfig {
    let mut config = ParserConfig::default();
    config
        .allow_space_before_first_header_name(true)
        .allow_spaces_after_header_name_in_responses(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<(Head, usize)>, String> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn heads_are_read_as_executors_write_them() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, Length::Known(5)),
            ("HTTP/1.1 200 OK\n content-length: 5\nconnection: keep-alive\n\n", 200, Length::Known(5)),
            ("HTTP/1.1 200 OK\n connection: keep-alive\ncontent-length: 5\n\n", 200, Length::Known(5)),
            ("HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n", 200, Length::Chunked),
            ("HTTP/1.1 200\r\n\r\n", 200, Length::ToTheEnd),
            ("HTTP/1.1 204 No Content\r\ncontent-length: 7\r\n\r\n", 204, Length::Known(0)),
            ("HTTP/1.1 401 Nope\r\nb@d header\r\ncontent-length: 2\r\n\r\n", 401, Length::Known(2)),
        ];
        for (text, status, length) in cases {
            let (head, read) = head(text).unwrap().unwrap();
            assert_eq!((head.status, head.length, read), (status, length, text.len()), "{text:?}");
            assert_eq!(head.keep, Some(Duration::MAX), "{text:?}");
            assert!(
                (0..text.len() - 1).all(|cut| Head::parse(&text.as_bytes()[..cut]) == Ok(None)),
                "{text:?}"
            );
        }
    }

    /// The result of talking to an executor that writes `first`, and then `again` until the connection is closed.
    async fn answered(
        first: &'static str,
        again: &'static str,
        limit: usize,
    ) -> (Result<Answer, LinkTrouble>, Link) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut executor, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            executor.write_all(first.as_bytes()).await.unwrap();
            while executor.write_all(again.repeat(100).as_bytes()).await.is_ok() {}
        });
        let mut link = Link::new(Stream::Plain(stream));
        let mut is_written = false;
        let answer = link.exchange(b"GET / HTTP/1.1\r\n\r\n", limit, &mut is_written);
        let answer = tokio::time::timeout(Duration::from_secs(10), answer).await.expect("it has an end");
        (answer, link)
    }

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

    #[tokio::test]
    async fn what_comes_before_and_after_an_answer_has_an_end() {
        let (answer, link) = answered("", "HTTP/1.1 100 Continue\r\n\r\n", 100).await;
        assert!(matches!(answer, Err(LinkTrouble::Unanswered(said)) if said.contains("before the answer")));
        assert!(link.buffer.capacity() <= 4 * HEAD_MAX, "{}", link.buffer.capacity());
        let trailed = format!("{CHUNKED}0\r\n").leak();
        let (answer, link) = answered(trailed, "x: y\r\n", 100).await;
        assert_eq!(answer.unwrap().rest, Rest::Broken);
        assert!(link.buffer.capacity() <= 4 * HEAD_MAX, "{}", link.buffer.capacity());
    }

    #[tokio::test]
    async fn what_was_used_of_an_answer_is_not_kept_beside_it() {
        let limit = 1 << 20;
        let (answer, link) = answered(CHUNKED, "5\r\n12345\r\n", limit).await;
        assert_eq!((answer.as_ref().unwrap().rest, answer.unwrap().body.len()), (Rest::Cut, limit));
        assert!(link.buffer.capacity() <= 4 * HEAD_MAX, "{}", link.buffer.capacity());
    }

    #[test]
    fn a_connection_is_kept_for_as_long_as_the_other_side_does() {
        let keep =
            |headers: &str| head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).unwrap().unwrap().0.keep;
        assert_eq!(keep("Connection: close\r\n"), None);
        assert_eq!(keep("Keep-Alive: timeout=5\r\n"), Some(Duration::from_secs(4)));
        assert_eq!(keep("Keep-Alive: timeout=x, max=7\r\n"), Some(Duration::MAX));
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").unwrap().unwrap().0.keep, None);
    }

    #[test]
    fn what_is_no_head_is_said() {
        for text in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
            "\0\0\0\0",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
    }
}
