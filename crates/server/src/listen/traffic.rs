//! The requests of one connection: whether one is under way, since when there is none, and whether the client reads the
//! answers.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::clock;

/// Counts the requests of a connection.
pub(super) struct Traffic {
    begun: Instant,
    under_way: AtomicUsize,
    /// When the last request ended, in milliseconds since the connection began.
    ended: AtomicU64,
    /// HTTP/2 answers with a piece that the client has given no room for, each with the time since when.
    unread: Mutex<BTreeMap<u64, Instant>>,
    answers: AtomicU64,
}

impl Traffic {
    pub(super) fn new() -> Arc<Traffic> {
        let (under_way, ended) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (unread, answers) = (Mutex::default(), AtomicU64::new(0));
        Arc::new(Traffic { begun: clock::instant(), under_way, ended, unread, answers })
    }

    /// A request, until its answer has gone out.
    pub(super) fn begin(self: &Arc<Traffic>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Returns when there has been no request for this long. It checks at intervals, so that a request costs only a
    /// counter.
    pub(super) async fn idle(&self, span: Duration) {
        loop {
            let since = match self.under_way.load(Ordering::Relaxed) {
                0 => self.begun + Duration::from_millis(self.ended.load(Ordering::Relaxed)),
                _ => clock::instant(),
            };
            if clock::since(since) >= span {
                return;
            }
            clock::sleep_until(since + span).await;
        }
    }

    /// Returns when the client has left an HTTP/2 answer unread for this long, or up to twice as long. Over HTTP/1 writes
    /// to the connection have a deadline. Over HTTP/2 a client can close the window of one answer while the connection
    /// itself is read.
    pub(super) async fn unread(&self, span: Duration) {
        loop {
            let since = self.unread_answers().values().min().copied().unwrap_or_else(clock::instant);
            if clock::since(since) >= span {
                return;
            }
            clock::sleep_until(since + span).await;
        }
    }

    fn unread_answers(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way.
pub(super) struct UnderWay(Arc<Traffic>);

impl UnderWay {
    /// Keeps the request under way until the answer's body has gone out.
    pub(super) fn until<B>(self, body: B, version: Version) -> Answered<B> {
        let number = (version >= Version::HTTP_2).then(|| self.0.answers.fetch_add(1, Ordering::Relaxed));
        let answered = Answered { body, number, under_way: self };
        answered.wait_for_client();
        answered
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let ended = u64::try_from(clock::since(self.0.begun).as_millis()).unwrap_or(u64::MAX);
        self.0.ended.store(ended, Ordering::Relaxed);
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The body of an answer.
pub(super) struct Answered<B> {
    body: B,
    /// Over HTTP/2, the number of the answer.
    number: Option<u64>,
    under_way: UnderWay,
}

impl<B> Answered<B> {
    /// The next piece is asked for once the client has given room for it.
    fn wait_for_client(&self) {
        if let Some(number) = self.number {
            self.under_way.0.unread_answers().insert(number, clock::instant());
        }
    }

    fn note_asked(&self) {
        if let Some(number) = self.number {
            self.under_way.0.unread_answers().remove(&number);
        }
    }
}

impl<B> Drop for Answered<B> {
    fn drop(&mut self) {
        self.note_asked();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.note_asked();
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(Some(_))) {
            self.wait_for_client();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_from_the_end_of_its_last_request_on() {
        let (traffic, begun) = (Traffic::new(), clock::instant());
        traffic.idle(SPAN).await;
        assert_eq!(clock::since(begun), SPAN, "one without any request too");
        let request = traffic.begin();
        let ends = async {
            clock::sleep(Duration::from_secs(500)).await;
            drop(request);
            clock::instant()
        };
        let ((), ended) = tokio::join!(traffic.idle(SPAN), ends);
        assert_eq!(clock::since(ended), SPAN);
    }
}
