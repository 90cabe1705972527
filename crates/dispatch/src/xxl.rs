//! The way to executors: processes that registered themselves and speak XXL-JOB's protocol or Orth's.
//!
//! ```text
//! send ─► ledger ─► pool (a queue per host and app) ─► line (one task, one connection) ─► executor
//!           ▲            ▲                        │                                 │ later
//! sink ◄────┘            └─ probes, kills, logs   └─► refused? told.                ▼
//!                                                                    the API's callback door ─► node
//! ```
//!
//! An executor that takes an attempt says so at once and reports its end later, so an accepted send is told nobody. One
//! that gives no answer may have it or not: that is told nobody either, and whoever sent it asks with a probe.
//!
//! HTTP is spoken by hand (`http.rs`): a well-known executor compares header names letter by letter, and begins its own
//! answers in a way that no library forgives.

mod ask;
mod house;
mod http;
mod judge;
mod kill;
mod ledger;
mod line;
mod options;
mod place;
mod request;

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::LogId;
use punctual_core::registry::Secret;
use punctual_node::ports::{Address, Dispatch, Dispatched, Heard, Kill, Probe, Receipt};
use punctual_protocol::xxl::LogPage;
use tokio::runtime::Handle;

use crate::TIMEOUT_MAX;
use crate::clock;
use crate::guard::Guard;
use crate::http::ledger::Sink;
use house::House;
pub use options::Options;

/// What calling executors needs from outside.
pub struct Setup {
    /// Where the tasks run.
    pub runtime: Handle,
    /// Bounds and habits.
    pub options: Options,
    /// Which addresses are called. A token is never sent where it forbids a connection.
    pub guard: Guard,
    /// The same for addresses that people set: nobody has shown a token from there.
    pub listed: Guard,
    /// What time it is.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Who is told, many things at a time where there are many. It is called from a task and must not block.
    pub sink: Sink,
    /// What executors want to see whose app has no token of its own.
    pub access_token: Option<Secret>,
}

/// The way to executors.
///
/// When it is dropped, everything on its way is dropped with it, untold; [`Executors::drain`] first.
pub struct Executors {
    house: Arc<House>,
}

impl Executors {
    /// Ready to send. Fails only if the extra certificates cannot be read.
    pub fn new(setup: Setup) -> Result<Executors, String> {
        Ok(Executors { house: House::new(setup)? })
    }

    /// How many attempts, kills and probes are on their way or not told yet.
    pub fn in_flight(&self) -> usize {
        self.house.ledger().count()
    }

    /// Waits until nothing is on its way and everything is told, at most for `bound`; answers how many are left.
    /// Whoever calls it sees to it that nothing more is sent.
    pub async fn drain(&self, bound: Duration) -> usize {
        self.house.ledger().quiet(clock::instant() + bound.min(TIMEOUT_MAX)).await;
        self.in_flight()
    }

    /// One page of what an attempt wrote, from a line on. `sent_at` is what it was sent with, to the millisecond. Of a
    /// page that is too long, its beginning.
    pub async fn log(
        &self,
        address: &Address,
        log: LogId,
        sent_at: Timestamp,
        from_line: u64,
    ) -> Result<LogPage, String> {
        self.house.log(address, log, sent_at, from_line).await
    }
}

impl Dispatch for Executors {
    fn send(&self, sends: Vec<Dispatched>) {
        self.house.send(sends);
    }

    fn kill(&self, kills: Vec<Kill>) {
        kill::kill(&self.house, kills);
    }

    fn probe(&self, probes: Vec<Probe>) {
        self.house.ledger().expect(probes.len());
        for probe in probes {
            let house = self.house.clone();
            self.house.spawn(async move {
                let probed = house.probe(probe).await;
                house.ledger().tell([Heard::Probed(probed)]);
            });
        }
    }

    /// What they call back with goes straight to the node, and what is told from here is told through memory.
    fn acknowledge(&self, _reports: Vec<Receipt>) {}
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.house.close();
    }
}
