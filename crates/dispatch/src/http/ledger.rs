//! The ledger: attempts that are on their way, and ends that are not reported yet.
//!
//! One task reports ends in batches. Under load it yields to the other tasks before it reports, so that the store
//! gets many ends at a time; an end that comes alone is reported at once. A pause by the clock was tried instead:
//! with 200 attempts in flight it took a third of the rate away, because the timer's millisecond is longer than an
//! answer on loopback.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calendar::Timestamp;
use punctual_core::model::{Attempt, RunId, Token};
use punctual_node::ports::{Dispatched, Heard, Kill, Receipt, Report};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::answer::Verdict;

/// From this many attempts in flight it pays to wait for more ends.
pub(crate) const BUSY: usize = 32;
/// How many times the task then yields.
pub(crate) const TURNS: usize = 8;

/// Called with what was heard.
pub type Sink = Arc<dyn Fn(Vec<Heard>) + Send + Sync>;

type Key = (RunId, Attempt, Token);

/// An attempt on its way.
pub(crate) struct Flight {
    pub(crate) run: Dispatched,
    /// When it was handed over.
    pub(crate) sent_at: Timestamp,
    /// When it is given up.
    pub(crate) deadline: Instant,
    is_killed: AtomicBool,
    kill: Notify,
}

impl Flight {
    pub(crate) fn new(run: Dispatched, sent_at: Timestamp, deadline: Instant) -> Arc<Flight> {
        let (is_killed, kill) = (AtomicBool::new(false), Notify::new());
        Arc::new(Flight { run, sent_at, deadline, is_killed, kill })
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Acquire)
    }

    /// Waits until the attempt is killed. A kill that came before the call is not missed.
    pub(crate) async fn killed(&self) {
        self.kill.notified().await;
    }

    fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        self.kill.notify_one();
    }

    fn key(&self) -> Key {
        (self.run.run, self.run.attempt, self.run.token)
    }
}

/// An end that is not reported yet.
struct Ended {
    flight: Arc<Flight>,
    executor: String,
    started_at: Timestamp,
    verdict: Verdict,
}

#[derive(Default)]
pub(crate) struct Ledger {
    open: Mutex<BTreeMap<Key, Arc<Flight>>>,
    ended: Mutex<Vec<Ended>>,
    /// Open flights, and ends that are being reported.
    count: AtomicUsize,
    receipts: AtomicU64,
    /// Something ended.
    news: Notify,
    /// Nothing is open.
    quiet: Notify,
    is_closed: AtomicBool,
}

impl Ledger {
    /// Records flights and returns the new ones. An attempt that is on its way already is not sent a second time.
    pub(crate) fn open(&self, flights: Vec<Arc<Flight>>) -> Vec<Arc<Flight>> {
        let mut open = locked(&self.open);
        let before = open.len();
        let is_new = |flight: &Arc<Flight>| {
            let is_new = !open.contains_key(&flight.key());
            if is_new {
                open.insert(flight.key(), flight.clone());
            }
            is_new
        };
        let asked = flights.len();
        let flights: Vec<_> = flights.into_iter().filter(is_new).collect();
        debug_assert_eq!(open.len(), before + flights.len());
        if flights.len() < asked {
            tracing::warn!(count = asked - flights.len(), "attempts were sent again while on their way");
        }
        self.count.fetch_add(flights.len(), Ordering::AcqRel);
        flights
    }

    /// Records an end.
    pub(crate) fn end(&self, flight: &Arc<Flight>, executor: &str, started_at: Timestamp, verdict: Verdict) {
        let ended = Ended { flight: flight.clone(), executor: executor.to_owned(), started_at, verdict };
        let mut all = locked(&self.ended);
        all.push(ended);
        let is_first = all.len() == 1;
        drop(all);
        if is_first {
            self.news.notify_one();
        }
    }

    /// Ends flights without a report: the caller of `kill` knows that they end.
    pub(crate) fn kill(&self, kills: &[Kill]) {
        let mut open = locked(&self.open);
        let killed: Vec<_> =
            kills.iter().filter_map(|kill| open.remove(&(kill.run, kill.attempt, kill.token))).collect();
        drop(open);
        killed.iter().for_each(|flight| flight.kill());
        self.forget(killed.len());
    }

    /// Ends everything, the reporting too.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let open = mem::take(&mut *locked(&self.open));
        open.values().for_each(|flight| flight.kill());
        self.forget(open.len());
        self.news.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// How many attempts are on their way or not reported yet.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until nothing is on its way and every end is reported, or until `deadline`.
    pub(crate) async fn quiet(&self, deadline: Instant) {
        loop {
            let quiet = self.quiet.notified();
            if self.count() == 0 || timeout_at(deadline, quiet).await.is_err() {
                return;
            }
        }
    }

    /// Reports ends until the ledger is closed.
    pub(crate) async fn tell(self: Arc<Ledger>, sink: Sink) {
        loop {
            self.news.notified().await;
            if self.is_closed() {
                return;
            }
            let turns = if self.count() > BUSY { TURNS } else { 0 };
            for _ in 0..turns {
                yield_now().await;
            }
            let ended = mem::take(&mut *locked(&self.ended));
            let reports = self.reports(ended);
            let count = reports.len();
            if count > 0 {
                sink(reports);
                self.forget(count);
            }
        }
    }

    /// The reports of ends whose attempts are still open: a killed attempt is not reported.
    fn reports(&self, ended: Vec<Ended>) -> Vec<Heard> {
        let mut open = locked(&self.open);
        let wanted = ended.into_iter().filter(|ended| {
            let key = ended.flight.key();
            let is_wanted = open.get(&key).is_some_and(|flight| Arc::ptr_eq(flight, &ended.flight));
            if is_wanted {
                open.remove(&key);
            }
            is_wanted
        });
        wanted.map(|ended| Heard::Report(self.report(ended))).collect()
    }

    fn report(&self, ended: Ended) -> Report {
        let Ended { flight, executor, started_at, verdict } = ended;
        Report {
            receipt: Receipt(self.receipts.fetch_add(1, Ordering::Relaxed) + 1),
            run: flight.run.run,
            attempt: flight.run.attempt,
            token: flight.run.token,
            outcome: verdict.outcome,
            message: verdict.message,
            executor: executor.into(),
            app: None,
            started_at,
            ended_at: None,
            retry_after: verdict.retry_after,
            further: verdict.further,
        }
    }

    fn forget(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::AcqRel) == count {
            self.quiet.notify_waiters();
        }
    }
}

/// A lock is never held across anything that can panic halfway through a change.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
