//! What all lines share: the pools, the ledger, the connector, and the tasks that belong to no line.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{AttemptOutcome, Text};
use punctual_core::policy::Block;
use punctual_core::registry::{Dialect, Secret};
use punctual_node::ports::{Address, Dispatched, Further, Heard, Receipt, Report, Unclear};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::Setup;
use super::judge::{Said, printable};
use super::ledger::{Begin, Flight, Ledger};
use super::line::{self, Call, Failure, Kind};
use super::options::Options;
use super::place::Place;
use crate::clock;
use crate::connect::Connector;
use crate::http::ledger::locked;
use crate::http::pool::{Host, Pool, Queued};
use crate::room::Share;

/// How often queues are searched for calls that have waited too long.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// How long an attempt that found no free connection waits before the next try.
const CROWDED_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct House {
    runtime: Handle,
    options: Options,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    access_token: Option<Secret>,
    connector: Connector,
    runs: Pool<Call>,
    questions: Pool<Call>,
    ledger: Arc<Ledger>,
    /// By app, address, and whether people set it: apps share neither queues nor connections.
    places: Mutex<BTreeMap<(Text, Text, bool), Arc<Place>>>,
    /// Something waits in a queue.
    waits: Notify,
    /// Ends every task.
    end: watch::Sender<bool>,
}

impl House {
    pub(super) fn new(setup: Setup) -> Result<Arc<House>, String> {
        let Setup { runtime, options, guard, listed, now, sink, access_token } = setup;
        let (connect, resolve) = (options.connect_timeout, options.resolve_timeout);
        let house = Arc::new(House {
            connector: Connector::new(guard, connect, resolve, options.extra_roots.as_deref())?
                .with_strict(listed),
            runs: Pool::new(options.connections, Share::OfFree),
            questions: Pool::new(options.questions, Share::OfFree),
            ledger: Arc::default(),
            places: Default::default(),
            waits: Notify::new(),
            end: watch::Sender::new(false),
            runtime,
            options,
            now,
            access_token,
        });
        house.spawn(house.ledger.clone().tell_all(sink));
        house.spawn(sweep(house.clone()));
        Ok(house)
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.now)()
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn access_token(&self) -> Option<&Secret> {
        self.access_token.as_ref()
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn pool(&self, kind: Kind) -> &Pool<Call> {
        match kind {
            Kind::Runs => &self.runs,
            Kind::Questions => &self.questions,
        }
    }

    /// Whether a line without work should end at once and free its connection.
    pub(super) fn wants_lines_to_leave(&self, kind: Kind, app: &str) -> bool {
        self.pool(kind).is_crowded_for(app) || self.ledger.is_closed()
    }

    /// Runs a task until its end or the end of the house.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut end = self.end.subscribe();
        drop(self.runtime.spawn(async move {
            tokio::select! {
                biased;
                _ = end.wait_for(|is_over| *is_over) => {}
                () = task => {}
            }
        }));
    }

    /// The parsed form of an address.
    pub(super) fn place(&self, address: &Address) -> Result<Arc<Place>, String> {
        let key = (address.app.clone(), address.url.clone(), address.is_listed);
        let mut places = locked(&self.places);
        if let Some(place) = places.get(&key) {
            return Ok(place.clone());
        }
        let place = Arc::new(Place::new(address, &self.runs, &self.questions)?);
        // Clears the whole cache: which addresses are still in use is not known, and parsing one again is cheap.
        if places.len() >= self.options.remembered_addresses {
            places.clear();
        }
        places.insert(key, place.clone());
        Ok(place)
    }

    pub(super) fn send(self: &Arc<House>, sends: Vec<Dispatched>) {
        let now = clock::instant();
        let mut flights = Vec::with_capacity(sends.len());
        for run in sends {
            match self.flight(run, now) {
                Ok(flight) => flights.push(flight),
                Err((run, reason)) => {
                    self.ledger.expect(1);
                    self.ledger.tell([self.refused(&run, self.now(), &reason)]);
                }
            }
        }
        self.ledger.open(flights).into_iter().for_each(|flight| self.queue_run(flight));
    }

    fn flight(&self, mut run: Dispatched, now: Instant) -> Result<Arc<Flight>, (Box<Dispatched>, String)> {
        let Some(address) = run.address.take().map(Arc::unwrap_or_clone) else {
            return Err((Box::new(run), "no executor was chosen; nothing was sent".into()));
        };
        let place = match address.dialect {
            Dialect::Native => Err("native executors are not called but call; nothing was sent".into()),
            _ => self.place(&address),
        };
        match place {
            Ok(place) => {
                let wait = self.options.queue_timeout.min(run.timeout);
                Ok(Flight::new(run, address, place, now + wait))
            }
            Err(reason) => {
                run.address = Some(Arc::new(address));
                Err((Box::new(run), reason))
            }
        }
    }

    pub(super) fn queue_run(self: &Arc<House>, flight: Arc<Flight>) {
        let host = flight.place.runs.clone();
        self.queue(Kind::Runs, &host, Call::Run(flight));
    }

    pub(super) fn queue(self: &Arc<House>, kind: Kind, host: &Arc<Host<Call>>, call: Call) {
        let lines_max = match kind {
            Kind::Runs => self.options.connections_per_host,
            Kind::Questions => self.options.questions_per_host,
        };
        match host.queue(call, lines_max.max(1)) {
            Queued::Taken => {}
            Queued::Waits => self.waits.notify_one(),
            Queued::Line(call) => self.spawn(line::serve(self.clone(), kind, host.clone(), call)),
        }
    }

    /// Ends an attempt's flight with the executor's answer to the hand-over.
    pub(super) fn settle(&self, flight: &Arc<Flight>, started_at: Timestamp, said: Result<Said, Failure>) {
        let (run, url) = (&flight.run, &*flight.address.url);
        let refusal = match said {
            Ok(Said::Yes(_)) => None,
            Ok(Said::Unclear(reason)) | Err(Failure::Unknown(reason)) => {
                let reason = printable(&reason);
                tracing::warn!(run = run.run.0, url, reason, "an executor may have an attempt or not");
                let (run, attempt) = (run.run, run.attempt);
                let unclear = Heard::Unclear(Unclear { run, attempt, said: reason.into() });
                return self.ledger.end(flight, Some(unclear));
            }
            Ok(said) if is_discarded(run, &said) => {
                // The executor has a run of the job and discarded this one, so it is not tried again.
                let report = self.report(run, url, started_at, said.message());
                let (outcome, further) = (AttemptOutcome::Failed, Further::Useless);
                let told = Heard::Report(Report { outcome, further, ..report });
                return self.ledger.end(flight, Some(told));
            }
            Ok(said @ (Said::No(_) | Said::Refused(_))) => Some(said.message()),
            Err(Failure::Unsent(reason)) => Some(printable(&reason)),
            // The executor cannot keep up: that delays its runs, but is no failure of theirs.
            Err(Failure::Crowded(reason)) => {
                let report = self.report(run, url, started_at, printable(&reason));
                let (further, retry_after) = (Further::Unsent, Some(CROWDED_PAUSE));
                let told = Heard::Report(Report { further, retry_after, ..report });
                return self.ledger.end(flight, Some(told));
            }
        };
        let told = refusal.map(|reason| Heard::Report(self.report(run, url, started_at, reason)));
        self.ledger.end(flight, told);
    }

    fn refused(&self, run: &Dispatched, now: Timestamp, reason: &str) -> Heard {
        let url = run.address.as_ref().map_or("", |address| &address.url);
        Heard::Report(self.report(run, url, now, printable(reason)))
    }

    fn report(&self, run: &Dispatched, url: &str, started_at: Timestamp, message: String) -> Report {
        Report {
            receipt: Receipt::default(),
            run: run.run,
            attempt: run.attempt,
            token: run.token,
            outcome: AttemptOutcome::Refused,
            message: message.into(),
            executor: Text::Owned(url.to_owned()),
            app: None,
            started_at,
            ended_at: None,
            retry_after: None,
            further: Further::Welcome,
        }
    }

    /// Ends everything.
    pub(super) fn close(&self) {
        self.ledger.close();
        self.end.send_replace(true);
    }
}

/// Whether an executor discarded a run because of the job's block strategy. Each implementation words that
/// differently.
fn is_discarded(run: &Dispatched, said: &Said) -> bool {
    let Said::No(reply) = said else { return false };
    let message = reply.message.to_ascii_lowercase();
    run.job.definition.block == Block::Discard
        && ["block strategy", "discard", "same job"].iter().any(|word| message.contains(word))
}

/// Ends calls that have waited too long for a connection, until the house is closed.
async fn sweep(house: Arc<House>) {
    loop {
        house.waits.notified().await;
        loop {
            let (unwanted, is_any_left) = house.runs.sweep(clock::instant());
            for (host, call) in unwanted {
                let Call::Run(flight) = call else { continue };
                if house.ledger.begin(&flight) == Begin::Go {
                    house.settle(&flight, house.now(), Err(line::crowded(&host.label)));
                }
            }
            if !is_any_left {
                break;
            }
            clock::sleep(SWEEP_EVERY).await;
        }
    }
}
