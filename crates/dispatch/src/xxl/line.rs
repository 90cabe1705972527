//! A line: one task, one connection, one call at a time.
//!
//! A request is written at most once. The one exception is a connection that was closed while it was idle: then
//! nothing of the request was written, and it goes out on a new one.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::model::Delivery;
use punctual_core::registry::Dialect;
use punctual_node::ports::Address;
use punctual_protocol::xxl::Question;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, timeout_at};

use super::house::House;
use super::http::{Answer, Link, LinkTrouble};
use super::judge::{Said, judge};
use super::ledger::{Begin, Flight};
use super::place::{Place, RunPath};
use super::request::{Letter, write_trigger};
use crate::clock;
use crate::connect::Unconnected;
use crate::http::pool::{Bell, Host, Next, Pool, Wanted};
use crate::room::Permit;

/// How long a connection may have been idle before it is used for an attempt that must not be lost.
const FRESH: Duration = Duration::from_secs(1);
/// Buffers that grew beyond this are not kept.
const KEPT_BYTES: usize = 64 << 10;

/// What is sent to executors.
pub(super) enum Call {
    /// An attempt.
    Run(Arc<Flight>),
    /// A question.
    Ask(Box<Ask>),
}

/// A question, and where its answer goes.
pub(super) struct Ask {
    pub(super) place: Arc<Place>,
    pub(super) address: Address,
    pub(super) question: Question,
    /// Until when it has to be answered.
    pub(super) deadline: Instant,
    /// How much of the answer is wanted.
    pub(super) limit: usize,
    pub(super) answer: oneshot::Sender<Result<Answer, Failure>>,
}

impl Wanted for Call {
    fn is_wanted(&self, now: Instant) -> bool {
        match self {
            Call::Run(flight) => now < flight.deadline,
            Call::Ask(ask) => now < ask.deadline && !ask.answer.is_closed(),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// No whole request was sent: all connections were in use, or the executor took no new one or did not read from it.
    Crowded(String),
    /// Nothing arrived that the executor could have understood.
    Unsent(String),
    /// The request may have arrived.
    Unknown(String),
}

impl Failure {
    pub(super) fn reason(self) -> String {
        match self {
            Failure::Crowded(reason) | Failure::Unsent(reason) | Failure::Unknown(reason) => reason,
        }
    }
}

/// Which of a host's two queues a line serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Runs,
    Questions,
}

/// Serves a queue until there is nothing to do for a while.
pub(super) async fn serve(house: Arc<House>, kind: Kind, host: Arc<Host<Call>>, first: Call) {
    let bell = Bell::default();
    let mut line =
        Line { house, kind, host, bell, open: None, room: None, is_counted: true, letter: Paper::default() };
    let mut alarm = pin!(clock::sleep_until(clock::instant()));
    let mut call = Some(first);
    while let Some(current) = call {
        line.carry(current).await;
        call = line.next(alarm.as_mut()).await;
    }
}

struct Line {
    house: Arc<House>,
    kind: Kind,
    host: Arc<Host<Call>>,
    bell: Bell,
    open: Option<Link>,
    /// The right to have a connection.
    room: Option<Permit>,
    /// Whether the host still counts on this line.
    is_counted: bool,
    letter: Paper,
}

/// The buffers that requests are written into, used again for every call.
#[derive(Default)]
struct Paper {
    body: Vec<u8>,
    request: Vec<u8>,
}

/// How long a call waits.
#[derive(Clone, Copy)]
struct Patience {
    /// Until when for a connection.
    connect_by: Instant,
    /// How long for the answer, once there is a connection.
    wait: Duration,
    /// How much of the answer is wanted.
    limit: usize,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Happens only after a bug of ours, or when the runtime ends.
        if self.is_counted {
            self.host.abandon();
        }
    }
}

impl Line {
    async fn carry(&mut self, call: Call) {
        match call {
            Call::Run(flight) => {
                if self.house.ledger().begin(&flight) == Begin::Go {
                    self.run(&flight).await;
                }
            }
            Call::Ask(ask) => self.ask(*ask).await,
        }
        if self.letter.request.capacity() > KEPT_BYTES {
            self.letter = Paper::default();
        }
    }

    /// The next call to carry; none when the line has to end.
    async fn next(&mut self, mut alarm: Pin<&mut Sleep>) -> Option<Call> {
        loop {
            let (house, kind, has_connection) = (&self.house, self.kind, self.open.is_some());
            let app = &self.host.app;
            match self.host.next(&self.bell, || has_connection && !house.wants_lines_to_leave(kind, app)) {
                Next::Serve(call) => {
                    // Lines that wait for room have waited longer: this line gives its connection up and queues
                    // behind them.
                    if self.pool().is_crowded_for(&self.host.app) {
                        (self.open, self.room) = (None, None);
                    }
                    return Some(call);
                }
                Next::Wait => {}
                Next::Leave => {
                    self.is_counted = false;
                    return None;
                }
            }
            if !self.is_rung(alarm.as_mut()).await {
                self.open = None;
                if self.host.leave(&self.bell) {
                    self.is_counted = false;
                    return None;
                }
            }
        }
    }

    /// Waits for the bell; false when the connection has been idle long enough, or is closed.
    async fn is_rung(&mut self, mut alarm: Pin<&mut Sleep>) -> bool {
        let idle_timeout = self.house.options().idle_timeout;
        let Some(open) = &mut self.open else { return false };
        alarm.as_mut().reset(open.rests_until(idle_timeout).unwrap_or_else(clock::instant));
        tokio::select! {
            biased;
            () = self.bell.notified() => true,
            () = open.disturbed() => false,
            () = alarm => false,
        }
    }

    async fn run(&mut self, flight: &Arc<Flight>) {
        let started_at = self.house.now();
        if flight.run.job.definition.delivery == Delivery::AtMostOnce {
            self.open = self.open.take().filter(|open| clock::since(open.used_at()) < FRESH);
        }
        let said = self.trigger(flight).await;
        self.house.settle(flight, started_at, said);
    }

    /// Hands an attempt over, by the path that the executor knows.
    async fn trigger(&mut self, flight: &Flight) -> Result<Said, Failure> {
        let path = flight.place.run_path(&flight.address);
        let said = self.trigger_by(flight, path).await?;
        let is_sure_of_path = flight.address.dialect == Dialect::Orth;
        match &said {
            // The executor did not look at the request, so it can be sent again.
            Said::No(reply) if reply.is_unknown_path() && !is_sure_of_path => {
                let other = self.trigger_by(flight, path.other()).await?;
                if !matches!(&other, Said::No(reply) if reply.is_unknown_path()) {
                    flight.place.change_path();
                }
                Ok(other)
            }
            _ => Ok(said),
        }
    }

    async fn trigger_by(&mut self, flight: &Flight, path: RunPath) -> Result<Said, Failure> {
        let (place, address) = (&*flight.place, &flight.address);
        let letter = Letter { place, address, global: self.house.access_token(), path: path.path() };
        let paper = &mut self.letter;
        write_trigger(&mut paper.body, &flight.run, address.dialect)
            .and_then(|()| letter.write(&mut paper.request, &paper.body))
            .map_err(|reason| Failure::Unsent(reason + "; nothing was sent"))?;
        let options = self.house.options();
        let (wait, limit) = (options.answer_timeout, options.answer_bytes);
        let answer = self.exchange(Patience { connect_by: flight.deadline, wait, limit }).await?;
        Ok(judge(&answer))
    }

    async fn ask(&mut self, ask: Ask) {
        let now = clock::instant();
        if ask.answer.is_closed() || ask.deadline <= now {
            return;
        }
        let path = ask.question.path();
        let letter =
            Letter { place: &ask.place, address: &ask.address, global: self.house.access_token(), path };
        let answer = match letter.write(&mut self.letter.request, ask.question.body().as_bytes()) {
            Ok(()) => {
                let (connect_by, wait) = (ask.deadline, ask.deadline - now);
                self.exchange(Patience { connect_by, wait, limit: ask.limit }).await
            }
            Err(reason) => Err(Failure::Unsent(reason)),
        };
        // The send fails if the caller has given up waiting.
        let _ = ask.answer.send(answer);
    }

    /// Sends the request in the buffer, and reads the answer.
    async fn exchange(&mut self, patience: Patience) -> Result<Answer, Failure> {
        loop {
            let mut link = self.link(patience.connect_by).await?;
            let (label, wait) = (&self.host.label, patience.wait);
            let mut is_written = false;
            let exchange = link.exchange(&self.letter.request, patience.limit, &mut is_written);
            let failure = match timeout_at(clock::instant() + wait, exchange).await {
                Ok(Ok(answer)) => {
                    let is_useful = link.rests_until(self.house.options().idle_timeout).is_some();
                    self.open = is_useful.then_some(link);
                    return Ok(answer);
                }
                // A new connection is never stale.
                Ok(Err(LinkTrouble::Stale)) => continue,
                Ok(Err(LinkTrouble::Unwritten(reason))) => {
                    Failure::Unsent(format!("cannot send to {label}: {reason}; it was not sent whole"))
                }
                Ok(Err(LinkTrouble::Unanswered(reason))) => {
                    Failure::Unknown(format!("{label} gave no answer: {reason}"))
                }
                Err(_) if is_written => Failure::Unknown(format!("{label} gave no answer within {wait:?}")),
                // The end of the request never left this machine, and an executor acts on whole requests only, so nothing was
                // executed. One that accepts a connection and does not read from it has more to do than it can, like one
                // that accepts none.
                Err(_) => Failure::Crowded(format!(
                    "{label} did not take the request within {wait:?}; it was not sent whole"
                )),
            };
            return Err(failure);
        }
    }

    /// The open connection, or a new one.
    async fn link(&mut self, connect_by: Instant) -> Result<Link, Failure> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        let label = &self.host.label;
        let late = |_| Failure::Crowded(format!("no connection to {label} in time; nothing was sent"));
        if self.room.is_none() {
            let room = timeout_at(connect_by, self.pool().room(&self.host.app)).await;
            self.room = Some(room.map_err(|_| crowded(label))?);
        }
        match timeout_at(connect_by, self.house.connector().reach(&self.host.origin)).await.map_err(late)? {
            Ok(stream) => Ok(Link::new(stream)),
            Err(Unconnected::Refused(refusal)) => Err(Failure::Unsent(refusal.to_string())),
            Err(Unconnected::Failed(reason)) => Err(Failure::Unsent(reason)),
            Err(Unconnected::Late(reason)) => Err(Failure::Crowded(reason)),
        }
    }

    fn pool(&self) -> &Pool<Call> {
        self.house.pool(self.kind)
    }
}

/// The failure of a call that found every connection in use.
pub(super) fn crowded(label: &str) -> Failure {
    Failure::Crowded(format!("no connection to {label} was free in time; nothing was sent"))
}
