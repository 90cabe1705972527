//! The unread rest of a request. A client that is refused on a kept connection is still writing: a short body is read
//! and dropped, so that the connection can be used again; otherwise the answer says `Connection: close`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, Version, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::timeout;

/// How many bytes are read and dropped, and for how long.
const PASSED_MAX: u64 = 2 << 20;
const PASSED_WITHIN: Duration = Duration::from_secs(2);

/// A request's body while the request is carried out.
pub(crate) struct Remainder {
    /// None where nothing is left to read.
    body: Option<Arc<Mutex<Body>>>,
    /// Whether the client waits for a 100 (Continue), and has sent nothing of the body.
    is_held_back: bool,
}

impl Remainder {
    /// Lends the body of a request to its handler.
    pub(crate) fn lend(request: Request) -> (Request, Remainder) {
        // HTTP/2 can end one request without the others.
        let is_done = request.body().is_end_stream() || request.version() >= Version::HTTP_2;
        if is_done {
            return (request, Remainder { body: None, is_held_back: false });
        }
        let is_held_back = request.headers().contains_key(header::EXPECT);
        let (parts, body) = request.into_parts();
        let body = Arc::new(Mutex::new(body));
        let lent = Request::from_parts(parts, Body::new(Lent(Arc::clone(&body))));
        (lent, Remainder { body: Some(body), is_held_back })
    }

    /// Reads and drops what is left, or marks the answer with `Connection: close`.
    pub(crate) async fn settle(self, mut response: Response) -> Response {
        // If the handler still has it, it is a stream that is being read.
        let Some(body) = self.body.and_then(Arc::into_inner) else { return response };
        let mut body = body.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_done = body.is_end_stream();
        if !is_done && (self.is_held_back || !pass(&mut body).await) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Reads a body to its end and drops it; false if it is too long or too slow.
pub(crate) async fn pass(body: &mut Body) -> bool {
    if body.size_hint().lower() > PASSED_MAX {
        return false;
    }
    let reading = async {
        let mut passed = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            passed += frame.data_ref().map_or(0, |data| data.len() as u64);
            if passed > PASSED_MAX {
                return false;
            }
        }
        true
    };
    timeout(PASSED_WITHIN, reading).await.unwrap_or(false)
}

/// A body that is lent to a handler. The lock is never contended: the lender takes it only after this is dropped.
struct Lent(Arc<Mutex<Body>>);

impl Lent {
    fn body(&self) -> std::sync::MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.body()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posted(body: Body) -> Request {
        http::Request::builder().method("POST").uri("/").body(body).unwrap()
    }

    async fn settled(request: Request) -> bool {
        let (request, remainder) = Remainder::lend(request);
        drop(request);
        let response = remainder.settle(Response::new(Body::empty())).await;
        response.headers().contains_key(header::CONNECTION)
    }

    #[tokio::test(start_paused = true)]
    async fn short_bodies_are_read_past_and_the_others_end_the_connection() {
        assert!(!settled(posted(Body::from("short"))).await);
        assert!(settled(posted(Body::from(vec![0; PASSED_MAX as usize + 1]))).await, "it is too long");
        let mut held_back = posted(Body::from("short"));
        held_back.headers_mut().insert(header::EXPECT, "100-continue".parse().unwrap());
        assert!(settled(held_back).await, "to ask for it would be to wait for it");
        let (_silent, pieces) = crate::stream::open(1);
        assert!(settled(posted(pieces)).await, "it never comes");
    }

    #[tokio::test]
    async fn a_body_that_is_still_read_is_left_alone() {
        let (request, remainder) = Remainder::lend(posted(Body::from("lines")));
        let response = remainder.settle(Response::new(Body::empty())).await;
        assert!(!response.headers().contains_key(header::CONNECTION));
        let read = request.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&read[..], b"lines");
    }
}
