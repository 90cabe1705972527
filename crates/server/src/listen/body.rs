//! A body that must keep coming.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// How long the next piece may take.
const PIECE_WITHIN: Duration = Duration::from_secs(20);

/// How long the whole may take, unless it is a stream without an end.
const WHOLE_WITHIN: Duration = Duration::from_secs(120);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A body with deadlines.
pub(super) struct Deadlined<B> {
    body: B,
    /// Until the next piece, never later than the whole; none before it was waited for. Most bodies come with their head.
    piece: Option<Pin<Box<Sleep>>>,
    whole: Option<Instant>,
}

impl<B> Deadlined<B> {
    /// A body that must be there as a whole in time.
    pub(super) fn new(body: B) -> Deadlined<B> {
        Deadlined { body, piece: None, whole: Some(Instant::now() + WHOLE_WITHIN) }
    }

    fn next_within(&self) -> Instant {
        let next = Instant::now() + PIECE_WITHIN;
        self.whole.map_or(next, |whole| next.min(whole))
    }
}

impl Deadlined<axum::body::Body> {
    /// A body that may go on as long as it comes.
    pub(super) fn endless(body: axum::body::Body) -> Deadlined<axum::body::Body> {
        Deadlined { body, piece: None, whole: None }
    }
}

impl<B> Body for Deadlined<B>
where
    B: Body<Data = Bytes, Error: Into<Failure>> + Unpin,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let next = self.next_within();
        let Deadlined { body, piece, .. } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            if let Some(piece) = piece {
                piece.as_mut().reset(next);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let piece = piece.get_or_insert_with(|| Box::pin(sleep_until(next)));
        ready!(piece.as_mut().poll(context));
        Poll::Ready(Some(Err("the body came too slowly".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
