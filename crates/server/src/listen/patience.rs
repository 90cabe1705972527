//! A connection with limited patience: the first bytes must come soon, and written answers must be read.
//!
//! It wraps the stream that HTTP reads and writes. Under TLS that is the decrypted side: the bytes of a handshake are
//! not part of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::clock;

/// This many bytes show whether the client speaks HTTP/1 or HTTP/2. Until then no other deadline runs.
const FIRST_BYTES: usize = 24;

/// How long they may take.
const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may leave an answer unread.
pub(super) const READ_WITHIN: Duration = Duration::from_secs(30);

/// How long a closed connection is still read from. Closing a socket with unread bytes resets it, and a client that
/// is still sending would lose the answer that refuses its request.
const LINGERS_FOR: Duration = Duration::from_secs(1);

/// How many reads are made before other tasks get their turn.
const READS_AT_ONCE: usize = 32;

/// A connection that gives up on slow clients.
pub(super) struct Patient<S> {
    stream: S,
    seen: usize,
    first_bytes: Pin<Box<Sleep>>,
    /// Runs since a write could not go on.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Runs since our side was closed.
    lingers: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Patient<S> {
        Patient {
            stream,
            seen: 0,
            first_bytes: Box::pin(clock::sleep(FIRST_BYTES_WITHIN)),
            stuck: None,
            lingers: None,
        }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(clock::sleep(READ_WITHIN)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(late("the answer is not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// Reads and drops what still comes, until the client closes its side too or the time is up.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(lingers) = &mut self.lingers
            && lingers.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        let mut bytes = [0; 8 << 10];
        for _ in 0..READS_AT_ONCE {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        // Other tasks get their turn before a client that sends fast.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn late(said: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, said)
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.seen >= FIRST_BYTES {
            return read;
        }
        self.seen += buffer.filled().len() - before;
        if read.is_pending() && self.first_bytes.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(late("no request came")));
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers.is_none() {
            match Pin::new(&mut self.stream).poll_shutdown(context) {
                Poll::Ready(Ok(())) => self.lingers = Some(Box::pin(clock::sleep(LINGERS_FOR))),
                other => return other,
            }
        }
        self.poll_linger(context).map(Ok)
    }
}
