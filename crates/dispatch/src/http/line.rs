//! A line: one task, one connection, one attempt at a time.
//!
//! A request is written at most once. The one exception is a connection that was closed while it was idle: then the
//! request comes back from the connection unwritten, and goes out on a new one.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use calendar::Timestamp;
use http::header::{HeaderMap, LOCATION, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use punctual_core::model::{AttemptOutcome, Delivery};
use tokio::time::{Instant, Sleep};

use super::answer::{self, Answer, Excerpt, Rest, Verdict};
use super::house::House;
use super::ledger::Flight;
use super::pool::{Bell, Host, Next, Ticket};
use super::redirect::{self, Hop};
use super::request::Outgoing;
use crate::clock;
use crate::connect::{Driver, Origin, Unconnected};
use crate::guard::HEALTH;
use crate::room::Permit;

/// How long a connection may have been idle before it is used for an attempt that must not be lost: if the server
/// closes it at that moment, we do not know whether the request was read.
const FRESH: Duration = Duration::from_secs(1);

/// Serves a host until there is nothing to do for a while.
pub(crate) async fn serve(house: Arc<House>, host: Arc<Host>, first: Ticket) {
    let mut line = AgentLine { house, host, open: None, room: None, bell: Bell::default(), is_counted: true };
    let mut alarm = pin!(clock::sleep_until(clock::instant()));
    let mut ticket = Some(first);
    while let Some(current) = ticket {
        ticket = line.carry(current, alarm.as_mut()).await;
        if ticket.is_none() {
            ticket = line.next(alarm.as_mut()).await;
        }
    }
}

struct AgentLine {
    house: Arc<House>,
    host: Arc<Host>,
    open: Option<OpenConnection>,
    /// The right to have a connection.
    room: Option<Permit>,
    bell: Bell,
    /// Whether the host still counts on this line.
    is_counted: bool,
}

impl Drop for AgentLine {
    fn drop(&mut self) {
        // Happens only after a bug of ours, or when the runtime ends.
        if self.is_counted {
            self.host.abandon();
        }
    }
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing of it left this machine.
    Unsent,
    /// Some of it may have arrived.
    Sent,
    /// It was answered, but not to the end.
    Answering(StatusCode),
}

/// How an exchange ended.
enum CallEnd {
    Told(Verdict),
    Elsewhere(Hop),
    TooLate,
    Killed,
}

impl AgentLine {
    /// Carries an attempt to its end, or returns the ticket that this line has to carry on with.
    async fn carry(&mut self, ticket: Ticket, mut alarm: Pin<&mut Sleep>) -> Option<Ticket> {
        let flight = ticket.flight.clone();
        if flight.is_killed() {
            return None;
        }
        alarm.as_mut().reset(flight.deadline);
        let started_at = self.house.now();
        let mut stage = Stage::Unsent;
        let end = tokio::select! {
            biased;
            () = flight.killed() => CallEnd::Killed,
            () = alarm => CallEnd::TooLate,
            end = self.exchange(&ticket, started_at, &mut stage) => end,
        };
        let verdict = match end {
            CallEnd::Killed => return None,
            CallEnd::Elsewhere(hop) => return self.forward(ticket, hop, started_at),
            CallEnd::TooLate => too_late(&ticket, stage, &self.host.label),
            CallEnd::Told(verdict) => verdict,
        };
        self.house.end(&flight, &self.host.label, started_at, verdict);
        None
    }

    /// The next attempt to carry; none when the line has to end.
    async fn next(&mut self, mut alarm: Pin<&mut Sleep>) -> Option<Ticket> {
        loop {
            let (house, app, has_connection) = (&self.house, &self.host.app, self.open.is_some());
            match self.host.next(&self.bell, || has_connection && !house.wants_lines_to_leave(app)) {
                Next::Serve(ticket) => {
                    // Lines that wait for room have waited longer: this line gives its connection up and queues
                    // behind them.
                    if self.house.pool().is_crowded_for(&self.host.app) {
                        (self.open, self.room) = (None, None);
                    }
                    return Some(ticket);
                }
                Next::Wait => {}
                Next::Leave => {
                    self.is_counted = false;
                    return None;
                }
            }
            let Some(open) = &mut self.open else { continue };
            alarm.as_mut().reset(open.used_at + open.keep);
            let was_rung = tokio::select! {
                biased;
                () = self.bell.notified() => true,
                () = open.closed() => false,
                () = alarm.as_mut() => false,
            };
            if !was_rung {
                self.open = None;
                if self.host.leave(&self.bell) {
                    self.is_counted = false;
                    return None;
                }
            }
        }
    }

    async fn exchange(&mut self, ticket: &Ticket, now: Timestamp, stage: &mut Stage) -> CallEnd {
        let (run, hop) = (&ticket.flight.run, ticket.hop.as_deref());
        let request = ticket.blueprint.request(run, hop, now, self.house.entropy());
        let mut request = match request {
            Ok(request) => request,
            Err(reason) => return CallEnd::Told(Verdict::hopeless(reason)),
        };
        if run.job.definition.delivery == Delivery::AtMostOnce {
            self.open = self.open.take().filter(|open| clock::since(open.used_at) < FRESH);
        }
        loop {
            let mut open = match self.connection(request.uri().path()).await {
                Ok(open) => open,
                Err(unconnected) => return CallEnd::Told(unsent(ticket, unconnected)),
            };
            *stage = Stage::Sent;
            match open.send(request).await {
                Ok(response) => return self.read(ticket, open, response, now, stage).await,
                // It was closed while it was idle.
                Err(Unanswered { request: Some(unwritten), .. }) if open.was_used => {
                    *stage = Stage::Unsent;
                    request = *unwritten;
                }
                Err(Unanswered { request: Some(_), reason }) => {
                    let label = &self.host.label;
                    let said = format!("{label} closed the connection: {reason}; nothing was sent");
                    return CallEnd::Told(unsent(ticket, Unconnected::Failed(said)));
                }
                Err(Unanswered { request: None, reason }) => {
                    return CallEnd::Told(lost(&self.host.label, &reason));
                }
            }
        }
    }

    /// The open connection, or a new one. A connection that was opened for a health check is used for nothing else:
    /// it may lead to this very node.
    async fn connection(&mut self, path: &str) -> Result<OpenConnection, Unconnected> {
        let is_for_health = path == HEALTH;
        let may_be_used =
            |open: &OpenConnection| !open.sender.is_closed() && open.is_for_health == is_for_health;
        if let Some(open) = self.open.take().filter(may_be_used) {
            return Ok(open);
        }
        if self.room.is_none() {
            self.room = Some(self.house.pool().room(&self.host.app).await);
        }
        let (sender, driver) = self.house.connector().connect(&self.host.origin, path).await?;
        let (used_at, keep) = (clock::instant(), self.house.options().idle_timeout);
        Ok(OpenConnection { sender, driver: Some(driver), used_at, keep, was_used: false, is_for_health })
    }

    async fn read(
        &mut self,
        ticket: &Ticket,
        mut open: OpenConnection,
        response: Response<Incoming>,
        now: Timestamp,
        stage: &mut Stage,
    ) -> CallEnd {
        *stage = Stage::Answering(response.status());
        let (head, body) = response.into_parts();
        let options = self.house.options();
        let excerpt = open.read(body, options.kept_bytes, options.drained_bytes).await;
        let is_whole = excerpt.rest == Rest::Read && head.status != StatusCode::SWITCHING_PROTOCOLS;
        if is_whole && open.is_ready_again().await {
            open.rest(&head.headers, options.idle_timeout);
            self.open = Some(open);
        }
        let blueprint = &ticket.blueprint;
        let counts_as_success = blueprint.success_codes.contains(&head.status.as_u16());
        if blueprint.follows_redirects && redirect::is_redirect(head.status) && !counts_as_success {
            return self.follow(ticket, head.status, &head.headers);
        }
        let retry_after = text_of(&head.headers, &RETRY_AFTER);
        let answer = Answer { status: head.status, retry_after, body: excerpt };
        let kept = self.house.options().kept_bytes;
        CallEnd::Told(answer::judge(&answer, &blueprint.success_codes, kept, now))
    }

    fn follow(&self, ticket: &Ticket, status: StatusCode, headers: &HeaderMap) -> CallEnd {
        let before = ticket.hop.as_deref();
        let here = match before {
            Some(hop) => hop.url.clone(),
            None => ticket.blueprint.whole_url(&ticket.flight.run),
        };
        let location = text_of(headers, &LOCATION);
        let guard = self.house.connector().guard();
        match redirect::follow(guard, &here, before, status, location.as_deref()) {
            Ok(hop) => CallEnd::Elsewhere(hop),
            Err(reason) => CallEnd::Told(Verdict::hopeless(answer::explained(status, &reason))),
        }
    }

    /// Hands an attempt on to the host that it was redirected to, unless that is this one.
    fn forward(&self, ticket: Ticket, hop: Hop, started_at: Timestamp) -> Option<Ticket> {
        let Some(origin) = Origin::of(&hop.url) else {
            let verdict = Verdict::hopeless("the redirect leads to a url without a host");
            self.house.end(&ticket.flight, &self.host.label, started_at, verdict);
            return None;
        };
        let ticket = Ticket { hop: Some(Box::new(hop)), ..ticket };
        if origin == self.host.origin {
            return Some(ticket);
        }
        self.house.queue(&self.house.pool().host(&self.host.app, origin), ticket);
        None
    }
}

/// An open connection.
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    is_for_health: bool,
    /// Nothing once the connection has ended.
    driver: Option<Driver>,
    used_at: Instant,
    /// How long it is kept without work.
    keep: Duration,
    was_used: bool,
}

/// A request without an answer. It comes back if nothing of it was written.
struct Unanswered {
    request: Option<Box<Outgoing>>,
    reason: String,
}

impl OpenConnection {
    async fn send(&mut self, request: Outgoing) -> Result<Response<Incoming>, Unanswered> {
        let answer = self.sender.try_send_request(request);
        beside(&mut self.driver, answer).await.map_err(|mut error| {
            let request = error.take_message().map(Box::new);
            Unanswered { request, reason: reason(error.error()) }
        })
    }

    async fn read(&mut self, mut body: Incoming, kept: usize, drained: usize) -> Excerpt {
        let mut excerpt = Excerpt::default();
        let mut room = kept + drained;
        while !body.is_end_stream() {
            let data = match beside(&mut self.driver, body.frame()).await {
                None => break,
                Some(Err(_)) => {
                    excerpt.rest = Rest::Broken;
                    break;
                }
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            let more = data.len().min(kept - excerpt.bytes.len());
            excerpt.bytes.extend_from_slice(&data[..more]);
            match room.checked_sub(data.len()) {
                Some(left) => room = left,
                None => {
                    excerpt.rest = Rest::Cut;
                    break;
                }
            }
        }
        excerpt
    }

    /// Whether it can take another request right now. A connection that needs time for that is not worth keeping: the
    /// agent answered before it had read everything, or is about to close.
    async fn is_ready_again(&mut self) -> bool {
        let mut ready = pin!(self.sender.ready());
        let driver = &mut self.driver;
        poll_fn(|cx| {
            if advance(driver, cx) {
                return Poll::Ready(false);
            }
            Poll::Ready(matches!(ready.as_mut().poll(cx), Poll::Ready(Ok(()))))
        })
        .await
    }

    /// Notes how long it may stay idle. If the agent announces how long it keeps a connection, ours ends a second
    /// earlier.
    fn rest(&mut self, headers: &HeaderMap, idle_timeout: Duration) {
        let told = text_of(headers, &http::header::HeaderName::from_static("keep-alive"));
        let seconds = told.as_deref().and_then(|told| {
            let mut parts = told.split(',').filter_map(|part| part.trim().strip_prefix("timeout="));
            parts.next()?.parse::<u64>().ok()
        });
        let told = seconds.map(|seconds| Duration::from_secs(seconds.saturating_sub(1)));
        self.keep = told.map_or(idle_timeout, |told| told.min(idle_timeout));
        self.used_at = clock::instant();
        self.was_used = true;
    }

    /// Waits until the other side closes it.
    async fn closed(&mut self) {
        poll_fn(|cx| if advance(&mut self.driver, cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Drives a connection, and returns whether it has ended. An ended connection is dropped, so that a request which
/// waits for its answer fails.
fn advance(driver: &mut Option<Driver>, cx: &mut std::task::Context<'_>) -> bool {
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(cx).is_ready()) {
        *driver = None;
    }
    driver.is_none()
}

/// Does something while it drives the connection, both in one task: a task of its own for the connection would cost
/// two switches a request.
async fn beside<W: Future>(driver: &mut Option<Driver>, work: W) -> W::Output {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(done);
        }
        advance(driver, cx);
        work.as_mut().poll(cx)
    })
    .await
}

fn text_of(headers: &HeaderMap, name: &http::header::HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The reason of an error and of what caused it.
fn reason(error: &hyper::Error) -> String {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    reason
}

/// The verdict on an attempt that ended without a connection. After a redirect, an earlier request had been sent.
fn unsent(ticket: &Ticket, unconnected: Unconnected) -> Verdict {
    match unconnected {
        Unconnected::Refused(refusal) => Verdict::hopeless(refusal.to_string()),
        Unconnected::Failed(reason) | Unconnected::Late(reason) if ticket.hop.is_some() => {
            Verdict::new(AttemptOutcome::Failed, format!("the redirect leads nowhere: {reason}"))
        }
        Unconnected::Failed(reason) | Unconnected::Late(reason) => {
            Verdict::new(AttemptOutcome::Refused, reason)
        }
    }
}

fn lost(label: &str, reason: &str) -> Verdict {
    let said = format!("{label} did not answer: {reason}; whether the work was done is not known");
    Verdict::new(AttemptOutcome::Lost, said)
}

/// The verdict on an attempt that timed out in the queue.
pub(crate) fn waited_too_long(flight: &Flight, label: &str) -> Verdict {
    let timeout = flight.run.timeout;
    let said =
        format!("no connection to {label} was free within the timeout of {timeout:?}; nothing was sent");
    Verdict::new(AttemptOutcome::Refused, said)
}

fn too_late(ticket: &Ticket, stage: Stage, label: &str) -> Verdict {
    let timeout = ticket.flight.run.timeout;
    let said = match stage {
        Stage::Unsent if ticket.hop.is_none() => {
            let said =
                format!("no connection to {label} within the timeout of {timeout:?}; nothing was sent");
            return Verdict::new(AttemptOutcome::Refused, said);
        }
        Stage::Unsent | Stage::Sent => format!("{label} did not answer within the timeout of {timeout:?}"),
        Stage::Answering(status) => {
            let code = status.as_u16();
            format!("{label} answered {code}, but not to the end within the timeout of {timeout:?}")
        }
    };
    Verdict::new(AttemptOutcome::TimedOut, said)
}
