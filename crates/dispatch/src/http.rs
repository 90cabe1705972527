//! The way to HTTP agents: each attempt is a request, sent at most once, and its answer is how it ended.
//!
//! ```text
//! send ─► ledger ─► pool (a queue per host and app) ─► line (one task, one connection) ─► agent
//!           ▲                                    │
//! sink ◄────┴──────────── verdict ◄──────────────┘
//! ```
//!
//! What is not here: retries (the engine decides), redirects by the library, proxies, decompression, HTTP/2.

pub(crate) mod answer;
mod blueprint;
mod house;
pub(crate) mod ledger;
mod line;
mod options;
pub(crate) mod pool;
mod redirect;
pub(crate) mod request;
mod sign;
pub(crate) mod template;

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::Target;
use punctual_node::ports::{Dispatch, Dispatched, Entropy, Heard, Kill, Probe, Receipt};
use tokio::runtime::Handle;

use answer::Verdict;
pub use blueprint::{Fault, check};
use house::House;
use ledger::{Flight, Sink};
pub use options::Options;
use pool::Ticket;

use crate::clock;
use crate::guard::Guard;
use crate::{TIMEOUT_MAX, unheard};

/// What calling agents needs from outside.
pub struct Setup {
    /// Where the tasks run.
    pub runtime: Handle,
    /// Bounds and habits.
    pub options: Options,
    /// Which addresses are called.
    pub guard: Guard,
    /// What time it is.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Where the ids of traces come from.
    pub entropy: Arc<dyn Entropy>,
    /// Called with the ends of attempts, many at a time under load. It is called from a task and must not block.
    pub sink: Sink,
}

/// The way to agents.
///
/// Dropping it drops everything on its way without a report; call [`Agents::drain`] first.
pub struct Agents {
    house: Arc<House>,
}

impl Agents {
    /// Ready to send. Fails only if the extra certificates cannot be read.
    pub fn new(setup: Setup) -> Result<Agents, String> {
        Ok(Agents { house: House::new(setup)? })
    }

    /// How many attempts are on their way or not reported yet.
    pub fn in_flight(&self) -> usize {
        self.house.ledger().count()
    }

    /// Waits until nothing is on its way and every end is reported, at most for `bound`; returns how many attempts
    /// are left. The caller has to make sure that nothing more is sent.
    pub async fn drain(&self, bound: Duration) -> usize {
        self.house.ledger().quiet(clock::instant() + bound.min(TIMEOUT_MAX)).await;
        self.in_flight()
    }

    fn begin(&self, flight: Arc<Flight>) {
        let job = &flight.run.job;
        let plan = match &job.definition.target {
            Target::Http(http) => self.house.plan(job, http),
            Target::Executor { .. } => {
                Err("this job is for executors, and was handed to an agent".to_owned())
            }
        };
        match plan {
            Ok(plan) => {
                let blueprint = plan.blueprint;
                self.house.queue(&plan.host, Ticket { flight, blueprint, hop: None });
            }
            Err(reason) => self.house.end(&flight, "", flight.sent_at, Verdict::hopeless(reason)),
        }
    }
}

impl Dispatch for Agents {
    fn send(&self, sends: Vec<Dispatched>) {
        let (now, instant) = (self.house.now(), clock::instant());
        let flight = |run: Dispatched| {
            let deadline = instant + run.timeout.min(TIMEOUT_MAX);
            Flight::new(run, now, deadline)
        };
        let flights = self.house.ledger().open(sends.into_iter().map(flight).collect());
        flights.into_iter().for_each(|flight| self.begin(flight));
    }

    fn kill(&self, kills: Vec<Kill>) {
        self.house.ledger().kill(&kills);
    }

    /// Agents answer no questions.
    fn probe(&self, probes: Vec<Probe>) {
        let unheard = |probe| Heard::Probed(unheard(probe, "an agent is not asked"));
        self.house.tell(probes.into_iter().map(unheard).collect());
    }

    /// Reports are handed over in memory, so there is nothing to forget.
    fn acknowledge(&self, _reports: Vec<Receipt>) {}
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.house.close();
    }
}
