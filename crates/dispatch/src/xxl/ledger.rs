//! The ledger: attempts on their way to executors, kills under way, and what is not reported yet.
//!
//! One task reports everything, in batches under load, as for agents.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use punctual_core::model::{Attempt, JobId, RunId, Token};
use punctual_node::ports::{Address, Dispatched, Heard, Kill};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::place::Place;
use crate::http::ledger::{BUSY, Sink, TURNS, locked};

type Key = (RunId, Attempt, Token);

/// An attempt on its way.
pub(super) struct Flight {
    pub(super) run: Dispatched,
    /// The executor that gets it.
    pub(super) address: Address,
    pub(super) place: Arc<Place>,
    /// How long it may wait for a connection.
    pub(super) deadline: Instant,
    ended: Notify,
}

impl Flight {
    pub(super) fn new(
        run: Dispatched,
        address: Address,
        place: Arc<Place>,
        deadline: Instant,
    ) -> Arc<Flight> {
        Arc::new(Flight { run, address, place, deadline, ended: Notify::new() })
    }

    fn key(&self) -> Key {
        (self.run.run, self.run.attempt, self.run.token)
    }
}

/// Kills of a job at an executor. While there are any, nothing of the job is sent there.
struct Killing {
    job: JobId,
    address: Address,
    /// Attempts that wait for its end.
    parked: Vec<Arc<Flight>>,
    /// Kills for the next round.
    next: Vec<Kill>,
}

/// Attempts of one job that an executor is told to end, all at once: the protocol kills by job.
pub(super) struct Round {
    pub(super) job: JobId,
    pub(super) address: Address,
    pub(super) kills: Vec<Kill>,
    /// Those of them that are being sent right now. The kill goes out after the executor has answered the sends;
    /// otherwise it could arrive before the run.
    pub(super) begun: Vec<Arc<Flight>>,
}

/// What happens with a kill.
pub(super) enum Ordered {
    /// This round has to be begun.
    Now(Round),
    /// The round under way takes it up next.
    Later,
    /// Nothing: it was never sent.
    Unneeded,
}

/// What a line does with an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    Go,
    /// It waits for a kill, and is queued again afterwards.
    Parked,
    /// It was killed before it was sent.
    Gone,
}

struct Open {
    flight: Arc<Flight>,
    is_begun: bool,
}

#[derive(Default)]
struct Book {
    open: BTreeMap<Key, Open>,
    /// Few at any time, so a list is enough.
    killings: Vec<Killing>,
}

#[derive(Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    heard: Mutex<Vec<Heard>>,
    /// Open flights, and everything that will be or is being reported.
    count: AtomicUsize,
    news: Notify,
    quiet: Notify,
    is_closed: AtomicBool,
}

impl Ledger {
    /// Records flights and returns the new ones. An attempt that is on its way already is not sent a second time.
    pub(super) fn open(&self, flights: Vec<Arc<Flight>>) -> Vec<Arc<Flight>> {
        let mut book = locked(&self.book);
        let asked = flights.len();
        let is_new = |flight: &Arc<Flight>| {
            let is_new = !book.open.contains_key(&flight.key());
            if is_new {
                book.open.insert(flight.key(), Open { flight: flight.clone(), is_begun: false });
            }
            is_new
        };
        let flights: Vec<_> = flights.into_iter().filter(is_new).collect();
        drop(book);
        if flights.len() < asked {
            tracing::warn!(count = asked - flights.len(), "attempts were sent again while on their way");
        }
        self.expect(flights.len());
        flights
    }

    /// Asks whether an attempt may be sent now. From then on a kill waits for its end.
    pub(super) fn begin(&self, flight: &Arc<Flight>) -> Begin {
        let mut book = locked(&self.book);
        let book = &mut *book;
        let Some(open) = book.open.get_mut(&flight.key()) else { return Begin::Gone };
        if !Arc::ptr_eq(&open.flight, flight) {
            return Begin::Gone;
        }
        let same = |killing: &&mut Killing| killing.is_of(flight.run.job.id, &flight.address);
        if let Some(killing) = book.killings.iter_mut().find(same) {
            killing.parked.push(flight.clone());
            return Begin::Parked;
        }
        open.is_begun = true;
        Begin::Go
    }

    /// Forgets a flight, and reports `told` for it. Without it nothing is reported: the executor reports the attempt
    /// itself, or nothing is known about it.
    pub(super) fn end(&self, flight: &Arc<Flight>, told: Option<Heard>) {
        let is_open = |open: &Open| Arc::ptr_eq(&open.flight, flight);
        let mut book = locked(&self.book);
        if !book.open.get(&flight.key()).is_some_and(is_open) {
            return;
        }
        book.open.remove(&flight.key());
        drop(book);
        flight.ended.notify_waiters();
        match told {
            Some(heard) => self.tell([heard]),
            None => self.forget(1),
        }
    }

    /// Waits until a flight has ended.
    pub(super) async fn ended(&self, flight: &Arc<Flight>) {
        loop {
            let ended = flight.ended.notified();
            if !locked(&self.book)
                .open
                .get(&flight.key())
                .is_some_and(|open| Arc::ptr_eq(&open.flight, flight))
            {
                return;
            }
            ended.await;
        }
    }

    /// Takes kills of attempts of one job at one executor. Attempts that were not sent yet never will be; they are
    /// the second half of the result.
    pub(super) fn kill(&self, job: JobId, address: &Address, kills: Vec<Kill>) -> (Ordered, Vec<Kill>) {
        let mut book = locked(&self.book);
        let (kills, unsent) = book.without_unsent(kills);
        let ordered = if kills.is_empty() {
            Ordered::Unneeded
        } else if let Some(killing) = book.killings.iter_mut().find(|killing| killing.is_of(job, address)) {
            killing.next.extend(kills);
            Ordered::Later
        } else {
            let (address, begun) = (address.clone(), book.begun(&kills));
            book.killings.push(Killing { job, address: address.clone(), parked: vec![], next: vec![] });
            Ordered::Now(Round { job, address, kills, begun })
        };
        drop(book);
        self.forget(unsent.len());
        (ordered, unsent)
    }

    /// Ends a round: returns the next round, or the attempts that may be sent now.
    pub(super) fn next_round(&self, job: JobId, address: &Address) -> Result<Round, Vec<Arc<Flight>>> {
        let mut book = locked(&self.book);
        let Some(place) = book.killings.iter().position(|killing| killing.is_of(job, address)) else {
            return Err(vec![]);
        };
        let kills = mem::take(&mut book.killings[place].next);
        if kills.is_empty() {
            return Err(book.killings.swap_remove(place).parked);
        }
        let begun = book.begun(&kills);
        Ok(Round { job, address: address.clone(), kills, begun })
    }

    /// Announces this many reports.
    pub(super) fn expect(&self, count: usize) {
        self.count.fetch_add(count, Ordering::AcqRel);
    }

    /// Queues reports that were announced.
    pub(super) fn tell(&self, heard: impl IntoIterator<Item = Heard>) {
        let mut all = locked(&self.heard);
        let was_empty = all.is_empty();
        all.extend(heard);
        let has_news = was_empty && !all.is_empty();
        drop(all);
        if has_news {
            self.news.notify_one();
        }
    }

    /// How many attempts, kills and probes are on their way or not reported yet.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Waits until nothing is on its way and everything is reported, or until `deadline`.
    pub(super) async fn quiet(&self, deadline: Instant) {
        loop {
            let quiet = self.quiet.notified();
            if self.count() == 0 || timeout_at(deadline, quiet).await.is_err() {
                return;
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        locked(&self.book).open.clear();
    }

    /// Reports everything, until its task is ended.
    pub(super) async fn tell_all(self: Arc<Ledger>, sink: Sink) {
        loop {
            self.news.notified().await;
            let turns = if self.count() > BUSY { TURNS } else { 0 };
            for _ in 0..turns {
                yield_now().await;
            }
            let heard = mem::take(&mut *locked(&self.heard));
            let count = heard.len();
            if count > 0 {
                sink(heard);
                self.forget(count);
            }
        }
    }

    fn forget(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::AcqRel) == count {
            self.quiet.notify_waiters();
        }
    }
}

impl Killing {
    fn is_of(&self, job: JobId, address: &Address) -> bool {
        self.job == job && self.address.url == address.url
    }
}

impl Book {
    /// Splits off the kills of attempts that were not sent yet, and removes those attempts from the book.
    fn without_unsent(&mut self, kills: Vec<Kill>) -> (Vec<Kill>, Vec<Kill>) {
        kills.into_iter().partition(|kill| {
            let key = (kill.run, kill.attempt, kill.token);
            let is_unsent = self.open.get(&key).is_some_and(|open| !open.is_begun);
            if is_unsent {
                self.open.remove(&key);
            }
            !is_unsent
        })
    }

    fn begun(&self, kills: &[Kill]) -> Vec<Arc<Flight>> {
        let open = kills.iter().filter_map(|kill| self.open.get(&(kill.run, kill.attempt, kill.token)));
        open.map(|open| open.flight.clone()).collect()
    }
}
