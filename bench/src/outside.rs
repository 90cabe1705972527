//! The surroundings of a measured node: executors that succeed at once, randomness from a counter, no other nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use calendar::{Timestamp, Zones};
use punctual_core::model::{AttemptOutcome, AttemptRecord, NodeId, RunId, Text};
use punctual_core::policy::Limits;
use punctual_node::ports::{
    AppRow, Apps, Beat, Clock, Dispatch, Dispatched, Entropy, Further, Hint, Kill, Paused, Peers, Probe,
    Receipt, Records, Registered, Report, Store, StoreError, Unmarked,
};
use punctual_node::{Node, Ports, Settings};
use tokio::sync::Notify;

use crate::clock::{Watch, lag};
use crate::rows::scatter;

/// A node over a store, with nothing else around it.
pub(crate) fn node(
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    dispatch: Arc<dyn Dispatch>,
    settings: Settings,
) -> Arc<Node> {
    let entropy = Arc::new(Counter(AtomicU64::new(1)));
    let (apps, records, peers, fired) =
        (Arc::new(NoApps), Arc::new(NoRecords), Arc::new(Nobody), Arc::new(Unmarked));
    let ports = Ports { clock, entropy, store, apps, records, dispatch, peers, fired };
    // Sends need no connection here, so none has to wait for a place.
    let limits = Limits { fast_open: 1 << 20, slow_open: 1 << 20, ..settings.limits };
    let settings = Settings { limits, ..settings };
    Arc::new(Node::new(ports, settings, Arc::new(Zones::bundled())))
}

struct Counter(AtomicU64);

impl Entropy for Counter {
    fn bits(&self) -> u64 {
        scatter(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

struct Nobody;

impl Peers for Nobody {
    fn tell(&self, _: NodeId, _: Hint) {}
}

/// A registry without executors.
struct NoApps;

#[async_trait]
impl Apps for NoApps {
    async fn registered(&self) -> Result<Registered, StoreError> {
        Ok(Registered::default())
    }

    async fn beat(&self, _: Vec<Beat>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn leave(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn bury(&self, _: Duration) -> Result<Vec<(Text, Text)>, StoreError> {
        Ok(Vec::new())
    }

    async fn put_app(&self, _: AppRow, _: Option<u64>) -> Result<u64, StoreError> {
        Ok(1)
    }

    async fn pause_app(&self, _: &str, _: Option<Paused>) -> Result<Option<AppRow>, StoreError> {
        Ok(None)
    }

    async fn remove_app(&self, _: &str) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// Records of attempts that are never read.
struct NoRecords;

#[async_trait]
impl Records for NoRecords {
    async fn ended(&self, _: RunId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(Vec::new())
    }
}

/// A dispatch that nothing may be sent to.
pub(crate) struct Closed;

impl Dispatch for Closed {
    fn send(&self, _: Vec<Dispatched>) {}

    fn kill(&self, _: Vec<Kill>) {}

    fn probe(&self, _: Vec<Probe>) {}

    fn acknowledge(&self, _: Vec<Receipt>) {}
}

/// An attempt that was sent. Kept small, because there are hundreds of thousands of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handed {
    pub(crate) job: u32,
    /// The run's number within its day.
    pub(crate) sequence: u32,
    /// The fire time in milliseconds after the executors were opened.
    pub(crate) fire_time: u32,
    pub(crate) lag: Lag,
}

/// The lateness in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lag(u32);

impl Lag {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_micros(u64::from(self.0))
    }
}

/// Executors that succeed at once, and record what was sent and how late.
///
/// Reports come back by a loop of their own ([`InstantExecutors::answered`]), as over a network: a send does not wait for
/// its report.
pub(crate) struct InstantExecutors {
    watch: Arc<Watch>,
    opened: Timestamp,
    handed: Mutex<Vec<Handed>>,
    answers: Mutex<Vec<Report>>,
    bell: Notify,
    acknowledged: AtomicU64,
}

impl InstantExecutors {
    pub(crate) fn open(watch: &Arc<Watch>, capacity: usize) -> Arc<InstantExecutors> {
        Arc::new(InstantExecutors {
            watch: Arc::clone(watch),
            opened: watch.now(),
            handed: Mutex::new(Vec::with_capacity(capacity)),
            answers: Mutex::default(),
            bell: Notify::new(),
            acknowledged: AtomicU64::new(0),
        })
    }

    /// Waits for reports, and returns them.
    pub(crate) async fn answered(&self) -> Vec<Report> {
        self.bell.notified().await;
        std::mem::take(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// An instant as [`Handed::fire_time`] has it.
    pub(crate) fn millis(&self, at: Timestamp) -> u32 {
        u32::try_from(at.as_millis() - self.opened.as_millis()).unwrap_or(0)
    }

    /// Number of sends, and number of ends that are stored.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.handed().len() as u64, self.acknowledged.load(Ordering::Relaxed))
    }

    /// All sends in order.
    pub(crate) fn take(&self) -> Vec<Handed> {
        std::mem::take(&mut self.handed())
    }

    fn handed(&self) -> MutexGuard<'_, Vec<Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dispatch for InstantExecutors {
    fn send(&self, sends: Vec<Dispatched>) {
        // All of them are sent at this moment.
        let date = self.watch.date();
        let now = Timestamp::from_millis(0).saturating_add(date);
        let mut handed = self.handed();
        for send in &sends {
            let lag = lag(date, send.fire_time).as_micros();
            handed.push(Handed {
                job: send.job.id.0,
                sequence: send.run.sequence() as u32,
                fire_time: self.millis(send.fire_time),
                lag: Lag(u32::try_from(lag).unwrap_or(u32::MAX)),
            });
        }
        drop(handed);
        let answer = |send: Dispatched| Report {
            receipt: Receipt(1),
            run: send.run,
            attempt: send.attempt,
            token: send.token,
            outcome: AttemptOutcome::Succeeded,
            message: Text::Borrowed(""),
            executor: Text::Borrowed("bench"),
            app: None,
            started_at: now,
            ended_at: None,
            retry_after: None,
            further: Further::Welcome,
        };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.extend(sends.into_iter().map(answer));
        self.bell.notify_one();
    }

    fn kill(&self, _: Vec<Kill>) {}

    fn probe(&self, _: Vec<Probe>) {}

    fn acknowledge(&self, reports: Vec<Receipt>) {
        self.acknowledged.fetch_add(reports.len() as u64, Ordering::Relaxed);
    }
}
