//! The hub: which executors have a session, and which session gets which acknowledgement.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Attempt, AttemptOutcome, RunId, Text, Token};
use punctual_node::ports::{Address, Dispatched, Further, Heard, Kill, Killed, Receipt, Report, SessionKey};
use punctual_protocol::native::{Cancel, Code, HOLDS_MAX, Held, Hello, Outcome, Refusal, Report as Said};
use rustc_hash::FxHashSet;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::budget::{FrameMeter, SessionBudget, SessionRoom};
use super::carry::{Carriages, Yard};
use super::outbox::{End, Outbox};
use super::progress::ProgressThrottle;
use super::refusals::Refusals;
use super::scroll::Scrolls;
use super::{Dialling, Options, Setup};
use crate::clock;

/// The first receipt of native executors. Agents number their reports from 1; executors that are called do not number
/// theirs.
const FIRST: u64 = 1 << 62;

/// Whether a report came from an executor that has a session.
pub(crate) fn is_native(receipt: Receipt) -> bool {
    receipt.0 >= FIRST
}

/// How many reports of one session may wait to be kept.
const UNKEPT_MAX: usize = 2 * HOLDS_MAX;

/// The longest message of a report, in bytes.
const MESSAGE_MAX: usize = 64 << 10;

/// An executor that is there.
pub(super) struct Session {
    /// The app that it was let in for, and its address. Only runs of that app go there.
    pub(super) of: SessionKey,
    pub(super) outbox: Outbox,
    /// The attempts that it was given, or held when it came and may keep. Messages about others are ignored.
    given: Mutex<FxHashSet<(RunId, Attempt)>>,
    /// How many of its reports are not kept yet.
    unkept: AtomicUsize,
    /// The bytes of those.
    room: Mutex<SessionRoom>,
    /// Counts what comes over its connection.
    pub(super) meter: Arc<FrameMeter>,
    pub(super) progress: ProgressThrottle,
    /// The nodes that it is carried to.
    pub(super) carriages: Carriages,
    /// Whether the other end is a node that carries for the executor.
    is_carried: bool,
}

impl Session {
    /// Whether it has this attempt, as far as this node knows.
    pub(super) fn has(&self, run: RunId, attempt: Attempt) -> bool {
        locked(&self.given).contains(&(run, attempt))
    }
}

/// A report that is not kept yet: its session, its attempt, and its size.
type UnkeptReport = (Arc<Session>, Held, usize);

/// All sessions, and what passes between them and the node.
pub(super) struct Hub {
    setup: Setup,
    sessions: Mutex<BTreeMap<SessionKey, Arc<Session>>>,
    /// Reports that are not kept yet.
    waiting: Mutex<BTreeMap<u64, UnkeptReport>>,
    budget: Arc<SessionBudget>,
    /// Attempts that were asked to end.
    killed: Mutex<BTreeMap<(RunId, Attempt), SessionKey>>,
    receipts: AtomicU64,
    scrolls: Scrolls,
    /// Where nodes are.
    nodes: Mutex<Vec<String>>,
    pub(super) yard: Yard,
    pub(super) refusals: Refusals,
    /// A session is over.
    left: Notify,
    /// Whether new sessions are refused.
    is_closing: AtomicBool,
}

impl Hub {
    pub(super) fn new(setup: Setup) -> Hub {
        Hub {
            budget: SessionBudget::new(setup.options.limits),
            setup,
            sessions: Mutex::default(),
            refusals: Refusals::default(),
            waiting: Mutex::default(),
            killed: Mutex::default(),
            receipts: AtomicU64::new(FIRST),
            scrolls: Scrolls::default(),
            nodes: Mutex::default(),
            yard: Yard::default(),
            left: Notify::new(),
            is_closing: AtomicBool::new(false),
        }
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.setup.runtime
    }

    pub(super) fn options(&self) -> &Options {
        &self.setup.options
    }

    /// The way to the door of another node.
    pub(super) fn dial(&self, node: Text) -> Dialling {
        (self.setup.dial)(node)
    }

    pub(super) fn node(&self) -> &str {
        &self.setup.node
    }

    /// Where nodes are, as far as is known.
    pub(super) fn nodes(&self) -> Vec<String> {
        locked(&self.nodes).clone()
    }

    pub(super) fn know_nodes(&self, nodes: Vec<String>) {
        if std::mem::replace(&mut *locked(&self.nodes), nodes.clone()) != nodes {
            let sessions = locked(&self.sessions);
            sessions.values().for_each(|session| session.outbox.tell_nodes(nodes.clone()));
        }
    }

    pub(super) fn want(&self, wants: &[(SessionKey, u64)]) {
        let sessions = locked(&self.sessions);
        for (of, runs) in wants {
            if let Some(session) = sessions.get(of) {
                session.outbox.want(*runs);
            }
        }
    }

    pub(super) fn scrolls(&self) -> &Scrolls {
        &self.scrolls
    }

    pub(super) fn has_room(&self) -> bool {
        let is_open = !self.is_closing.load(Ordering::Acquire);
        is_open && locked(&self.sessions).len() < self.setup.options.sessions_max
    }

    pub(super) fn tell(&self, heard: Vec<Heard>) {
        if !heard.is_empty() {
            (self.setup.sink)(heard);
        }
    }

    // --- sessions ---

    /// Counts the bytes that come over a new connection.
    pub(super) fn meter(&self) -> Arc<FrameMeter> {
        FrameMeter::new(&self.budget)
    }

    /// Opens a session. An earlier session of the same instance ends. Of the attempts that the executor holds, it may
    /// report those that are not stale.
    pub(super) fn open(
        &self,
        hello: &Hello,
        stale: &[Held],
        is_carried: bool,
        meter: Arc<FrameMeter>,
    ) -> Arc<Session> {
        let stale: FxHashSet<&Held> = stale.iter().collect();
        let live = hello.holds.iter().filter(|held| !stale.contains(held));
        let held = live.map(|held| (RunId(held.run), Attempt(held.attempt))).collect();
        let of = SessionKey::new(&hello.app, &hello.address());
        let (outbox, given, unkept) = (Outbox::default(), Mutex::new(held), AtomicUsize::new(0));
        let (carriages, progress) = (Carriages::default(), ProgressThrottle::default());
        let room = Mutex::new(self.budget.room(of.app.clone()));
        meter.belongs_to(&of.app);
        let session = Arc::new(Session {
            of: of.clone(),
            outbox,
            given,
            unkept,
            room,
            meter,
            progress,
            carriages,
            is_carried,
        });
        let before = locked(&self.sessions).insert(of, Arc::clone(&session));
        if let Some(before) = before {
            before.outbox.drop_runs();
            let reason = "the same instance opened another session".into();
            before.outbox.end(End::Refused(Refusal { code: Code::Replaced, reason }));
        }
        session
    }

    /// Closes a session; returns whether it was still the current one of its instance.
    pub(super) fn close_session(&self, session: &Arc<Session>) -> bool {
        let mut sessions = locked(&self.sessions);
        let is_its = sessions.get(&session.of).is_some_and(|known| Arc::ptr_eq(known, session));
        if is_its {
            sessions.remove(&session.of);
        }
        drop(sessions);
        if is_its {
            locked(&self.killed).retain(|_, of| *of != session.of);
        }
        session.carriages.end();
        self.left.notify_waiters();
        is_its
    }

    /// The session of an executor that is connected to this node directly.
    pub(super) fn session(&self, of: &SessionKey) -> Option<Arc<Session>> {
        locked(&self.sessions).get(of).filter(|session| !session.is_carried).cloned()
    }

    pub(super) async fn close(&self, bound: Duration) {
        let deadline = clock::instant() + bound;
        self.is_closing.store(true, Ordering::Release);
        self.end_all("the node stops");
        loop {
            let left = self.left.notified();
            if locked(&self.sessions).is_empty() || timeout_at(deadline, left).await.is_err() {
                return;
            }
        }
    }

    /// Ends all sessions; executors may open new ones.
    pub(super) fn end_all(&self, reason: &str) {
        let all: Vec<Arc<Session>> = locked(&self.sessions).values().cloned().collect();
        all.iter().for_each(|session| session.outbox.end(End::Goodbye(reason.to_owned())));
    }

    /// Offers credits that this node does not need to the other nodes. It gets back those that no node asks for.
    pub(super) fn lend(&self, of: &SessionKey, places: u32) {
        let left = self.session(of).map_or(places, |session| session.carriages.lend(places));
        if left > 0 {
            self.tell(vec![Heard::Credit { of: of.clone(), more: left }]);
        }
    }

    // --- to executors ---

    pub(super) fn send(&self, sends: Vec<Dispatched>) {
        let mut unsent = Vec::new();
        let sessions = locked(&self.sessions);
        for (address, runs) in by_address(sends) {
            match address.as_deref().and_then(|address| sessions.get(&SessionKey::from(address))) {
                Some(session) => {
                    locked(&session.given).extend(runs.iter().map(|run| (run.run, run.attempt)));
                    session.outbox.send(runs);
                }
                None => unsent.extend(runs.iter().map(|run| Heard::Report(self.unsent(run)))),
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
            app: run.address.as_ref().map(|address| address.app.clone()),
            started_at: self.now(),
            ended_at: None,
            retry_after: None,
            further: Further::Unsent,
        }
    }

    /// Asks for the end of an attempt. Returns the answers that can be given at once.
    pub(super) fn kill(&self, kill: &Kill) -> Vec<Heard> {
        let (run, attempt) = (kill.run, kill.attempt);
        let killed = |is_confirmed, said| Heard::Killed(Killed { run, attempt, is_confirmed, said });
        let of = kill.address.as_ref().map(SessionKey::from);
        let Some(session) = of.and_then(|of| locked(&self.sessions).get(&of).cloned()) else {
            return vec![killed(false, Text::Borrowed("the executor has no session"))];
        };
        locked(&self.killed).insert((run, attempt), session.of.clone());
        let (token, reason) = (kill.token.0, String::new());
        if !session.outbox.cancel(Cancel { run: run.0, attempt: attempt.0, token, reason }) {
            return Vec::new();
        }
        locked(&self.killed).remove(&(run, attempt));
        locked(&session.given).remove(&(run, attempt));
        let credit = Heard::Credit { of: session.of.clone(), more: 1 };
        vec![killed(true, Text::Borrowed("it was not sent yet")), credit]
    }

    /// Tells each session which of its reports are kept.
    pub(super) fn acknowledge(&self, receipts: &[Receipt]) {
        let mut of: Vec<(Arc<Session>, Vec<Held>, usize)> = Vec::new();
        let mut waiting = locked(&self.waiting);
        for receipt in receipts {
            let Some((session, held, size)) = waiting.remove(&receipt.0) else { continue };
            match of.last_mut().filter(|(last, ..)| Arc::ptr_eq(last, &session)) {
                Some((_, kept, bytes)) => {
                    kept.push(held);
                    *bytes += size;
                }
                None => of.push((session, vec![held], size)),
            }
        }
        drop(waiting);
        for (session, kept, bytes) in of {
            session.unkept.fetch_sub(kept.len(), Ordering::AcqRel);
            locked(&session.room).subtract(bytes);
            session.outbox.keep(kept.into_iter());
        }
    }

    // --- from executors ---

    /// Takes an executor's reports and credits. Returns the reason if there is no room: an executor that sends more and
    /// more reports while none can be kept is cut off.
    pub(super) fn hear_reports(
        &self,
        session: &Arc<Session>,
        said: Vec<Said>,
        credits: u32,
    ) -> Result<(), String> {
        let mut said = session.carriages.sort_out(said);
        said.iter_mut().for_each(shorten);
        locked(&session.room).add(said.iter().map(size).sum())?;
        if session.unkept.fetch_add(said.len(), Ordering::AcqRel) > UNKEPT_MAX {
            return Err("more reports than can be kept for now; try again".to_owned());
        }
        let now = self.now();
        let mut heard = Vec::with_capacity(said.len() + 1);
        {
            let first = self.receipts.fetch_add(said.len() as u64, Ordering::Relaxed);
            let mut waiting = locked(&self.waiting);
            for (said, receipt) in said.iter().zip(first..) {
                waiting.insert(receipt, (Arc::clone(session), said.held(), size(said)));
            }
            drop(waiting);
            for (said, receipt) in said.into_iter().zip(first..) {
                self.end_of(session, &said, &mut heard);
                heard.push(Heard::Report(report(said, Receipt(receipt), session, now)));
            }
        }
        heard.extend(credit(session, credits));
        self.tell(heard);
        Ok(())
    }

    /// An executor gives more credits.
    pub(super) fn hear_credit(&self, session: &Session, more: u32) {
        self.tell(credit(session, more).into_iter().collect());
    }

    /// What follows from the end of an attempt: its log is complete, and a pending kill is answered.
    fn end_of(&self, session: &Session, said: &Said, heard: &mut Vec<Heard>) {
        let (run, attempt) = (RunId(said.run), Attempt(said.attempt));
        if !locked(&session.given).remove(&(run, attempt)) {
            return;
        }
        session.progress.forget(run, attempt);
        if let Some(log) = self.scrolls.whole(run, attempt)
            && !(self.setup.keep)(run, attempt, log)
        {
            self.scrolls.forget(run, attempt);
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

/// Groups runs by address. A batch goes to few executors, and runs for the same executor share one `Arc` of its
/// address.
fn by_address(sends: Vec<Dispatched>) -> Vec<(Option<Arc<Address>>, Vec<Dispatched>)> {
    let mut groups: Vec<(Option<Arc<Address>>, Vec<Dispatched>)> = Vec::new();
    for run in sends {
        let is_same = |one: &Option<Arc<Address>>| match (one, &run.address) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        match groups.iter_mut().find(|(address, _)| is_same(address)) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((run.address.clone(), vec![run])),
        }
    }
    groups
}

/// The part of an executor's credits that is left for this node.
fn credit(session: &Session, more: u32) -> Option<Heard> {
    let more = session.carriages.share(more);
    (more > 0).then(|| Heard::Credit { of: session.of.clone(), more })
}

/// Cuts a report to what is kept of it.
fn shorten(said: &mut Said) {
    said.message.truncate(said.message.floor_char_boundary(MESSAGE_MAX));
    said.message.shrink_to_fit();
}

/// About how many bytes a report takes while it waits.
fn size(said: &Said) -> usize {
    size_of::<Report>() + said.message.len()
}

fn report(said: Said, receipt: Receipt, session: &Session, now: Timestamp) -> Report {
    let outcome = match said.outcome {
        Outcome::Succeeded => AttemptOutcome::Succeeded,
        Outcome::Failed => AttemptOutcome::Failed,
        Outcome::TimedOut => AttemptOutcome::TimedOut,
        Outcome::Cancelled => AttemptOutcome::Cancelled,
        Outcome::Refused => AttemptOutcome::Refused,
    };
    let started_at = said.started_at.and_then(|text| text.parse().ok());
    let ended_at = said.ended_ms_ago.map(|ago| earlier(now, ago));
    Report {
        receipt,
        run: RunId(said.run),
        attempt: Attempt(said.attempt),
        token: Token(said.token),
        outcome,
        message: Text::Owned(said.message),
        executor: session.of.url.clone(),
        app: Some(session.of.app.clone()),
        // An executor's clock may be wrong; nothing begins after it has ended.
        started_at: started_at.map_or(now, |at: Timestamp| at.min(now)),
        ended_at,
        retry_after: None,
        further: if said.retry { Further::Welcome } else { Further::Useless },
    }
}

/// The instant that many milliseconds before another.
fn earlier(now: Timestamp, by_ms: u64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub_unsigned(by_ms))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
