//! Streamed answers: a body that is written piece by piece, as fast as it is read.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// A body, and the sender of its pieces. A send waits while `pieces` of them are unread, and fails once the reader is
/// gone.
pub(crate) fn open(pieces: usize) -> (Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(pieces);
    (sender, Body::new(Pieces(receiver)))
}

struct Pieces(Receiver<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// One server-sent event.
pub(crate) fn sent_event(id: Option<&str>, name: &str, data: &str) -> String {
    // JSON as we write it has no line breaks, neither inside of strings nor outside.
    match id {
        Some(id) => format!("id: {id}\nevent: {name}\ndata: {data}\n\n"),
        None => format!("event: {name}\ndata: {data}\n\n"),
    }
}
