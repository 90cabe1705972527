//! The hub: which executors have a session, and whose acknowledgement goes where.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Attempt, AttemptOutcome, RunId, Text, Token};
use punctual_node::ports::{Dispatched, Further, Heard, Kill, Killed, Receipt, Report};
use punctual_protocol::native::{Cancel, Code, Held, Outcome, Refusal, Report as Said};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::outbox::{End, Outbox};
use super::scroll::Scrolls;
use super::{Options, Setup};

/// Receipts of native executors have this bit, those of others do not.
pub(crate) const NATIVE: u64 = 1 << 63;

/// The longest message of a report, in bytes.
const MESSAGE_MAX: usize = 64 << 10;

/// An executor that is there.
pub(super) struct Session {
    pub(super) url: Text,
    pub(super) outbox: Outbox,
}

/// Everybody who is there, and what is between them and the node.
pub(super) struct Hub {
    setup: Setup,
    sessions: Mutex<BTreeMap<Text, Arc<Session>>>,
    /// Reports that are not kept yet.
    waiting: Mutex<BTreeMap<u64, (Arc<Session>, Held)>>,
    /// Attempts that were asked to end.
    killed: Mutex<BTreeMap<(RunId, Attempt), Text>>,
    receipts: AtomicU64,
    scrolls: Scrolls,
    /// A session is over.
    left: Notify,
}

impl Hub {
    pub(super) fn new(setup: Setup) -> Hub {
        Hub {
            setup,
            sessions: Mutex::default(),
            waiting: Mutex::default(),
            killed: Mutex::default(),
            receipts: AtomicU64::new(NATIVE),
            scrolls: Scrolls::default(),
            left: Notify::new(),
        }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.setup.runtime
    }

    pub(super) fn options(&self) -> &Options {
        &self.setup.options
    }

    pub(super) fn node(&self) -> &str {
        &self.setup.node
    }

    pub(super) fn scrolls(&self) -> &Scrolls {
        &self.scrolls
    }

    pub(super) fn has_room(&self) -> bool {
        locked(&self.sessions).len() < self.setup.options.sessions_max
    }

    pub(super) fn tell(&self, heard: Vec<Heard>) {
        if !heard.is_empty() {
            (self.setup.sink)(heard);
        }
    }

    // --- sessions ---

    /// A session is open from now on. An earlier one of the same instance ends.
    pub(super) fn open(&self, url: Text) -> Arc<Session> {
        let session = Arc::new(Session { url: url.clone(), outbox: Outbox::default() });
        let before = locked(&self.sessions).insert(url, Arc::clone(&session));
        if let Some(before) = before {
            let reason = "the same instance opened another session".into();
            before.outbox.end(End::Refused(Refusal { code: Code::Replaced, reason }));
        }
        session
    }

    /// A session is over; whether it was the one of its instance.
    pub(super) fn close_session(&self, session: &Arc<Session>) -> bool {
        let mut sessions = locked(&self.sessions);
        let is_its = sessions.get(&session.url).is_some_and(|known| Arc::ptr_eq(known, session));
        if is_its {
            sessions.remove(&session.url);
        }
        drop(sessions);
        self.left.notify_waiters();
        is_its
    }

    pub(super) async fn close(&self, bound: Duration) {
        let deadline = Instant::now() + bound;
        let all: Vec<Arc<Session>> = locked(&self.sessions).values().cloned().collect();
        all.iter().for_each(|session| session.outbox.end(End::Goodbye("the node stops".into())));
        loop {
            let left = self.left.notified();
            if locked(&self.sessions).is_empty() || timeout_at(deadline, left).await.is_err() {
                return;
            }
        }
    }

    // --- to executors ---

    pub(super) fn send(&self, sends: Vec<Dispatched>) {
        let mut unsent = Vec::new();
        let sessions = locked(&self.sessions);
        for run in sends {
            let session = run.address.as_ref().and_then(|address| sessions.get(&address.url));
            match session {
                Some(session) => session.outbox.send(run),
                None => unsent.push(Heard::Report(self.unsent(&run))),
            }
        }
        drop(sessions);
        self.tell(unsent);
    }

    fn unsent(&self, run: &Dispatched) -> Report {
        Report {
            receipt: self.receipt(),
            run: run.run,
            attempt: run.attempt,
            token: run.token,
            outcome: AttemptOutcome::Refused,
            message: Text::Borrowed("the executor's session is over; nothing was sent"),
            executor: run.address.as_ref().map(|address| address.url.clone()).unwrap_or_default(),
            started_at: self.now(),
            retry_after: None,
            further: Further::Welcome,
        }
    }

    /// Asks for the end of an attempt; whether its executor is there.
    pub(super) fn kill(&self, kill: &Kill) -> bool {
        let url = kill.address.as_ref().map(|address| &address.url);
        let Some(session) = url.and_then(|url| locked(&self.sessions).get(url).cloned()) else {
            return false;
        };
        locked(&self.killed).insert((kill.run, kill.attempt), session.url.clone());
        session.outbox.cancel(Cancel {
            run: kill.run.0,
            attempt: kill.attempt.0,
            token: kill.token.0,
            reason: String::new(),
        });
        true
    }

    /// Reports that are kept are told to whoever brought them.
    pub(super) fn acknowledge(&self, receipts: &[Receipt]) {
        let mut of: Vec<(Arc<Session>, Vec<Held>)> = Vec::new();
        let mut waiting = locked(&self.waiting);
        for receipt in receipts {
            let Some((session, held)) = waiting.remove(&receipt.0) else { continue };
            match of.last_mut().filter(|(last, _)| Arc::ptr_eq(last, &session)) {
                Some((_, kept)) => kept.push(held),
                None => of.push((session, vec![held])),
            }
        }
        drop(waiting);
        of.into_iter().for_each(|(session, kept)| session.outbox.keep(kept.into_iter()));
    }

    // --- from executors ---

    /// What an executor said about attempts, and how many more it takes.
    pub(super) fn hear_reports(&self, session: &Arc<Session>, said: Vec<Said>, credits: u32) {
        let now = self.now();
        let mut heard = Vec::with_capacity(said.len() + 1);
        {
            let first = self.receipts.fetch_add(said.len() as u64, Ordering::Relaxed);
            let mut waiting = locked(&self.waiting);
            for (said, receipt) in said.iter().zip(first..) {
                waiting.insert(receipt, (Arc::clone(session), said.held()));
            }
            drop(waiting);
            for (said, receipt) in said.into_iter().zip(first..) {
                self.end_of(&said, &mut heard);
                heard.push(Heard::Report(report(said, Receipt(receipt), &session.url, now)));
            }
        }
        if credits > 0 {
            heard.push(Heard::Credit { url: session.url.clone(), more: credits });
        }
        self.tell(heard);
    }

    /// What goes with the end of an attempt: its log is whole, and a wish to end it is answered.
    fn end_of(&self, said: &Said, heard: &mut Vec<Heard>) {
        let (run, attempt) = (RunId(said.run), Attempt(said.attempt));
        if let Some(log) = self.scrolls.whole(run, attempt) {
            (self.setup.keep)(run, attempt, log);
        }
        let mut killed = locked(&self.killed);
        if !killed.is_empty() && killed.remove(&(run, attempt)).is_some() {
            let is_confirmed = said.outcome == Outcome::Cancelled;
            let said = Text::Owned(said.message.clone());
            heard.push(Heard::Killed(Killed { run, attempt, is_confirmed, said }));
        }
    }

    fn receipt(&self) -> Receipt {
        Receipt(self.receipts.fetch_add(1, Ordering::Relaxed))
    }

    fn now(&self) -> Timestamp {
        (self.setup.now)()
    }
}

fn report(said: Said, receipt: Receipt, url: &Text, now: Timestamp) -> Report {
    let outcome = match said.outcome {
        Outcome::Succeeded => AttemptOutcome::Succeeded,
        Outcome::Failed => AttemptOutcome::Failed,
        Outcome::TimedOut => AttemptOutcome::TimedOut,
        Outcome::Cancelled => AttemptOutcome::Cancelled,
        Outcome::Refused => AttemptOutcome::Refused,
    };
    let mut message = said.message;
    message.truncate(message.floor_char_boundary(MESSAGE_MAX));
    let started_at = said.started_at.and_then(|text| text.parse().ok());
    Report {
        receipt,
        run: RunId(said.run),
        attempt: Attempt(said.attempt),
        token: Token(said.token),
        outcome,
        message: Text::Owned(message),
        executor: url.clone(),
        // An executor's clock may be wrong; nothing begins after it has ended.
        started_at: started_at.map_or(now, |at: Timestamp| at.min(now)),
        retry_after: None,
        further: if said.retry { Further::Welcome } else { Further::Useless },
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
