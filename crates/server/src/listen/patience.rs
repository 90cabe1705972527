//! A socket with limited patience: the first bytes must come soon, and what is written must be read.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// So many bytes show whether this is HTTP/1 or HTTP/2. Until then nobody else watches the time.
const FIRST_BYTES: usize = 24;

/// How long they may take.
const FIRST_BYTES_WITHIN: Duration = Duration::from_secs(10);

/// How long a client may leave an answer unread.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// A socket that gives up on those who dawdle.
pub(super) struct Patient {
    stream: TcpStream,
    seen: usize,
    first_bytes: Pin<Box<Sleep>>,
    /// Since a write could not go on.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    pub(super) fn new(stream: TcpStream) -> Patient {
        Patient { stream, seen: 0, first_bytes: Box::pin(sleep(FIRST_BYTES_WITHIN)), stuck: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(READ_WITHIN)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(late("the answer is not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn late(said: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, said)
}

impl AsyncRead for Patient {
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

impl AsyncWrite for Patient {
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
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
