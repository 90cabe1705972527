//! What all lines share: the pool, the ledger, the connector, and the tasks that belong to no line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{Http, Job, JobId};
use punctual_node::ports::{Entropy, Heard};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::Setup;
use super::answer::Verdict;
use super::blueprint::Blueprint;
use super::ledger::{Flight, Ledger, Sink, locked};
use super::line;
use super::options::Options;
use super::pool::{Host, Pool, Queued, Ticket};
use crate::clock;
use crate::connect::{Connector, Origin};
use crate::room::Share;

/// How often queues are searched for attempts that have waited too long.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// A job's request in the form that is cached.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) host: Arc<Host>,
    pub(crate) blueprint: Arc<Blueprint>,
}

pub(crate) struct House {
    runtime: Handle,
    options: Options,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    entropy: Arc<dyn Entropy>,
    connector: Connector,
    pool: Pool,
    ledger: Arc<Ledger>,
    /// Parsed requests by job, each with the version of the job that it was parsed from.
    plans: Mutex<BTreeMap<JobId, (u64, Plan)>>,
    /// Something waits in a queue.
    waits: Notify,
    sink: Sink,
}

impl House {
    pub(crate) fn new(setup: Setup) -> Result<Arc<House>, String> {
        let Setup { runtime, options, guard, now, entropy, sink } = setup;
        let ledger = Arc::new(Ledger::default());
        let house = Arc::new(House {
            connector: Connector::new(
                guard,
                options.connect_timeout,
                options.resolve_timeout,
                options.extra_roots.as_deref(),
            )?,
            pool: Pool::new(options.connections, Share::Whole),
            ledger: ledger.clone(),
            plans: Mutex::default(),
            waits: Notify::new(),
            runtime,
            options,
            now,
            entropy,
            sink: sink.clone(),
        });
        house.runtime.spawn(ledger.tell(sink));
        house.runtime.spawn(sweep(house.clone()));
        Ok(house)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &*self.entropy
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether a line without work should end at once and free its connection.
    pub(crate) fn wants_lines_to_leave(&self, app: &str) -> bool {
        self.pool.is_crowded_for(app) || self.ledger.is_closed()
    }

    pub(crate) fn end(&self, flight: &Arc<Flight>, label: &str, started_at: Timestamp, verdict: Verdict) {
        self.ledger.end(flight, label, started_at, verdict);
    }

    /// How a job's requests are made and where they go.
    pub(crate) fn plan(&self, job: &Job, http: &Http) -> Result<Plan, String> {
        if let Some((version, plan)) = locked(&self.plans).get(&job.id)
            && *version == job.version
        {
            return Ok(plan.clone());
        }
        let blueprint = Blueprint::new(job, http)
            .map_err(|fault| format!("the job cannot be sent: {}: {}", fault.pointer, fault.reason))?;
        let origin = Origin::of(&blueprint.url).ok_or("the job's url names no host")?;
        let plan = Plan { host: self.pool.host(&job.definition.app, origin), blueprint: Arc::new(blueprint) };
        let mut plans = locked(&self.plans);
        // Clears the whole cache: which requests are still in use is not known, and parsing one again is cheap.
        if plans.len() >= self.options.remembered_jobs {
            plans.clear();
        }
        plans.insert(job.id, (job.version, plan.clone()));
        Ok(plan)
    }

    pub(crate) fn queue(self: &Arc<House>, host: &Arc<Host>, ticket: Ticket) {
        match host.queue(ticket, self.options.connections_per_host.max(1)) {
            Queued::Taken => {}
            Queued::Waits => self.waits.notify_one(),
            Queued::Line(ticket) => {
                drop(self.runtime.spawn(line::serve(self.clone(), host.clone(), ticket)));
            }
        }
    }

    /// Reports something that is not the end of an attempt, from a task of its own and never within the caller's.
    pub(crate) fn tell(&self, heard: Vec<Heard>) {
        let sink = self.sink.clone();
        drop(self.runtime.spawn(async move { sink(heard) }));
    }

    /// Ends everything.
    pub(crate) fn close(&self) {
        self.ledger.close();
        self.pool.stir_all();
        self.waits.notify_one();
    }
}

/// Ends attempts that have waited too long for a connection, until the house is closed.
async fn sweep(house: Arc<House>) {
    loop {
        house.waits.notified().await;
        loop {
            if house.ledger.is_closed() {
                return;
            }
            let (unwanted, is_any_left) = house.pool.sweep(clock::instant());
            for (host, ticket) in unwanted {
                let verdict = line::waited_too_long(&ticket.flight, &host.label);
                house.end(&ticket.flight, &host.label, ticket.flight.sent_at, verdict);
            }
            if !is_any_left {
                break;
            }
            clock::sleep(SWEEP_EVERY).await;
        }
    }
}
