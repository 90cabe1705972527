//! Memory budgets of sessions: how many bytes of half-sent messages and of reports that are not kept yet one session, all
//! sessions of an app, and all sessions together may hold.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use punctual_core::model::Text;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

/// Half-sent messages up to this size are not counted: nearly all are shorter, and cost no lock.
const UNCOUNTED: usize = 16 << 10;

/// How many bytes may be held.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// By one session: reports that are not kept yet.
    pub session: usize,
    /// By all sessions of an app.
    pub app: usize,
    /// By all sessions together.
    pub all: usize,
}

impl Default for SessionLimits {
    fn default() -> SessionLimits {
        SessionLimits { session: 16 << 20, app: 32 << 20, all: 128 << 20 }
    }
}

/// What all sessions hold.
pub(super) struct SessionBudget {
    limits: SessionLimits,
    held: Mutex<SessionBytes>,
}

#[derive(Default)]
struct SessionBytes {
    all: usize,
    by_app: BTreeMap<Text, usize>,
}

impl SessionBudget {
    pub(super) fn new(limits: SessionLimits) -> Arc<SessionBudget> {
        Arc::new(SessionBudget { limits, held: Mutex::default() })
    }

    /// Room for the bytes of one session; none are taken yet. Before its hello, a session belongs to no app.
    pub(super) fn room(self: &Arc<SessionBudget>, app: Text) -> SessionRoom {
        SessionRoom { budget: Arc::clone(self), app, bytes: 0 }
    }

    fn change(&self, app: &Text, before: usize, after: usize) -> Result<(), String> {
        let mut held = locked(&self.held);
        let all = held.all - before + after;
        let own = held.by_app.get(app).copied().unwrap_or(0) - before + after;
        if after > before {
            self.check(app, own, all)?;
        }
        held.all = all;
        match own {
            0 => _ = held.by_app.remove(app),
            own => _ = held.by_app.insert(app.clone(), own),
        }
        Ok(())
    }

    fn check(&self, app: &Text, own: usize, all: usize) -> Result<(), String> {
        let SessionLimits { app: app_max, all: all_max, .. } = self.limits;
        let what = "of unfinished messages and of reports that are not kept yet";
        if own > app_max {
            return Err(format!(
                "the sessions of app `{app}` hold {app_max} bytes {what}, which is all one app may; try again"
            ));
        }
        if all > all_max {
            return Err(format!(
                "all sessions hold {all_max} bytes {what}, which is all this node takes; try again"
            ));
        }
        Ok(())
    }
}

/// The bytes that one session holds; given back when it is dropped.
pub(super) struct SessionRoom {
    budget: Arc<SessionBudget>,
    app: Text,
    bytes: usize,
}

impl SessionRoom {
    /// Sets the number of bytes held; where there is no room, it stays as it was, and the reason is returned.
    fn hold(&mut self, bytes: usize) -> Result<(), String> {
        self.budget.change(&self.app, self.bytes, bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Takes the bytes of reports.
    pub(super) fn add(&mut self, bytes: usize) -> Result<(), String> {
        let max = self.budget.limits.session;
        if self.bytes + bytes > max {
            return Err(format!(
                "this session's reports that are not kept yet are longer than {max} bytes; try again"
            ));
        }
        self.hold(self.bytes + bytes)
    }

    /// Gives bytes back.
    pub(super) fn subtract(&mut self, bytes: usize) {
        let _ = self.hold(self.bytes.saturating_sub(bytes));
    }
}

impl Drop for SessionRoom {
    fn drop(&mut self) {
        let _ = self.hold(0);
    }
}

/// Counts what came of a message that is not complete yet.
pub(super) struct FrameMeter {
    unfinished: AtomicUsize,
    room: Mutex<SessionRoom>,
    refusal: Mutex<Option<String>>,
}

impl FrameMeter {
    pub(super) fn new(budget: &Arc<SessionBudget>) -> Arc<FrameMeter> {
        let room = Mutex::new(budget.room(Text::Borrowed("")));
        Arc::new(FrameMeter { unfinished: AtomicUsize::new(0), room, refusal: Mutex::default() })
    }

    /// The session has said which app it is of.
    pub(super) fn belongs_to(&self, app: &Text) {
        let mut room = locked(&self.room);
        *room = room.budget.room(app.clone());
    }

    /// Why the session may send no more of its message; none if it may.
    pub(super) fn refusal(&self) -> Option<String> {
        locked(&self.refusal).clone()
    }

    /// A message is complete. Control messages may come between the pieces of another message, which goes on.
    pub(super) fn completed(&self, message: &Message) {
        let left = match message {
            // A short length and a mask precede what a control message says.
            Message::Ping(said) | Message::Pong(said) => {
                self.unfinished.load(Ordering::Relaxed).saturating_sub(said.len() + 6)
            }
            _ => 0,
        };
        // Only the reader of the session counts.
        if self.unfinished.swap(left, Ordering::Relaxed) > UNCOUNTED {
            let _ = locked(&self.room).hold(left.saturating_sub(UNCOUNTED));
        }
    }

    fn came(&self, bytes: usize) -> Result<(), String> {
        let unfinished = self.unfinished.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unfinished <= UNCOUNTED {
            return Ok(());
        }
        let held = locked(&self.room).hold(unfinished - UNCOUNTED);
        held.inspect_err(|reason| *locked(&self.refusal) = Some(reason.clone()))
    }
}

/// A connection whose incoming bytes are counted.
pub(super) struct Metered<S> {
    inner: S,
    meter: Arc<FrameMeter>,
}

impl<S> Metered<S> {
    pub(super) fn new(inner: S, meter: Arc<FrameMeter>) -> Metered<S> {
        Metered { inner, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        match self.meter.came(bytes) {
            Ok(()) => read,
            Err(reason) => Poll::Ready(Err(std::io::Error::other(reason))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
