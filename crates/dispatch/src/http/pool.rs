//! The pool: a queue per host and app, served by a limited number of lines. A line is a task with one connection.
//!
//! Apps share neither queues nor connections: an app whose calls to a host hang delays no other app that calls the same
//! host.
//!
//! A connection is kept for a host of one pool, and a pool has one guard, so a connection that one policy allowed is
//! never used under another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::blueprint::Blueprint;
use super::ledger::{Flight, locked};
use super::redirect::Hop;
use crate::connect::Origin;
use crate::room::{AppName, Permit, Room, Share};

/// What waits in a queue.
pub(crate) trait Wanted {
    /// Whether its attempt is still open and not late.
    fn is_wanted(&self, now: Instant) -> bool;
}

/// An attempt and what is sent for it.
pub(crate) struct Ticket {
    pub(crate) flight: Arc<Flight>,
    pub(crate) blueprint: Arc<Blueprint>,
    /// Where it was redirected to.
    pub(crate) hop: Option<Box<Hop>>,
}

impl Wanted for Ticket {
    fn is_wanted(&self, now: Instant) -> bool {
        !self.flight.is_killed() && now < self.flight.deadline
    }
}

/// What an app calls at one scheme, name and port.
pub(crate) struct Host<T = Ticket> {
    pub(crate) app: AppName,
    pub(crate) origin: Origin,
    /// The origin in the form that people are shown.
    pub(crate) label: String,
    work: Mutex<Work<T>>,
}

struct Work<T> {
    queue: VecDeque<T>,
    /// The bells of idle lines. The line that became idle last is rung first, so that the others can age and leave.
    idle: Vec<Bell>,
    lines: usize,
}

/// Tickets that are no longer wanted, each with its host.
type Swept<T> = Vec<(Arc<Host<T>>, T)>;

/// What a waiting line hears.
pub(crate) type Bell = Arc<Notify>;

/// What a ticket needs next.
pub(crate) enum Queued<T = Ticket> {
    /// An idle line was rung and takes it.
    Taken,
    /// It waits until a line is free.
    Waits,
    /// A new line has to be started, with this as its first ticket.
    Line(T),
}

/// What a line does next.
pub(crate) enum Next<T = Ticket> {
    Serve(T),
    /// Wait for the bell.
    Wait,
    /// End; the line is not counted any more.
    Leave,
}

impl<T: Wanted> Host<T> {
    fn new(app: AppName, origin: Origin) -> Arc<Host<T>> {
        let work = Work { queue: VecDeque::new(), idle: Vec::new(), lines: 0 };
        Arc::new(Host { app, label: origin.to_string(), origin, work: Mutex::new(work) })
    }

    pub(crate) fn queue(&self, ticket: T, lines_max: usize) -> Queued<T> {
        let mut work = locked(&self.work);
        if let Some(bell) = work.idle.pop() {
            work.queue.push_back(ticket);
            bell.notify_one();
            return Queued::Taken;
        }
        if work.lines < lines_max {
            work.lines += 1;
            return Queued::Line(ticket);
        }
        work.queue.push_back(ticket);
        Queued::Waits
    }

    /// What an idle line does next. `may_wait` is called under the lock: the code that makes lines leave first sets
    /// its condition and then looks through the idle lines, so either the line sees the condition or that code sees
    /// the line.
    pub(crate) fn next(&self, bell: &Bell, may_wait: impl FnOnce() -> bool) -> Next<T> {
        let mut work = locked(&self.work);
        if let Some(ticket) = work.queue.pop_front() {
            return Next::Serve(ticket);
        }
        if may_wait() {
            work.idle.push(bell.clone());
            return Next::Wait;
        }
        work.lines -= 1;
        Next::Leave
    }

    /// Takes an idle line off the list; false if its bell was rung in the meantime, because then a ticket waits for
    /// it.
    pub(crate) fn leave(&self, bell: &Bell) -> bool {
        let mut work = locked(&self.work);
        let Some(place) = work.idle.iter().position(|idle| Arc::ptr_eq(idle, bell)) else { return false };
        work.idle.remove(place);
        work.lines -= 1;
        true
    }

    /// A line ended without taking its leave.
    pub(crate) fn abandon(&self) {
        locked(&self.work).lines -= 1;
    }

    /// Rings one idle line, so that it checks whether it should leave.
    fn stir(&self) -> bool {
        let bell = locked(&self.work).idle.pop();
        bell.inspect(|bell| bell.notify_one()).is_some()
    }

    /// Removes tickets that are no longer wanted, and returns whether any are left.
    fn sweep(self: &Arc<Host<T>>, now: Instant, unwanted: &mut Swept<T>) -> bool {
        let mut work = locked(&self.work);
        for _ in 0..work.queue.len() {
            let Some(ticket) = work.queue.pop_front() else { break };
            match ticket.is_wanted(now) {
                true => work.queue.push_back(ticket),
                false => unwanted.push((self.clone(), ticket)),
            }
        }
        !work.queue.is_empty()
    }
}

/// Those that are in use, by app and origin.
type Hosts<T> = BTreeMap<(AppName, Origin), Weak<Host<T>>>;

/// All hosts, and the room that their connections share.
pub(crate) struct Pool<T = Ticket> {
    /// A host lives as long as a blueprint, a line or a ticket refers to it.
    hosts: Mutex<Hosts<T>>,
    room: Arc<Room>,
}

/// From this many hosts, unused ones are removed.
const HOSTS_SWEPT: usize = 1024;

impl<T: Wanted> Pool<T> {
    pub(crate) fn new(connections: usize, share: Share) -> Pool<T> {
        Pool { hosts: Mutex::default(), room: Room::new(connections, share) }
    }

    pub(crate) fn host(&self, app: &str, origin: Origin) -> Arc<Host<T>> {
        let key = (AppName::from(app), origin);
        let mut hosts = locked(&self.hosts);
        if let Some(host) = hosts.get(&key).and_then(Weak::upgrade) {
            return host;
        }
        // Only at powers of two, so that the search costs little however many hosts there are.
        if hosts.len() >= HOSTS_SWEPT && hosts.len().is_power_of_two() {
            hosts.retain(|_, host| host.strong_count() > 0);
        }
        let host = Host::new(Arc::clone(&key.0), key.1.clone());
        hosts.insert(key, Arc::downgrade(&host));
        host
    }

    /// Room for one connection of an app. If there is none, an idle connection is closed to make some.
    pub(crate) async fn room(&self, app: &AppName) -> Permit {
        let waiting = match self.room.take(app) {
            Ok(permit) => return permit,
            Err(waiting) => waiting,
        };
        self.hosts().iter().find(|host| self.is_crowded_for(&host.app) && host.stir());
        waiting.permit().await
    }

    /// Whether a connection of the app is needed by a line that waits for room.
    pub(crate) fn is_crowded_for(&self, app: &str) -> bool {
        self.room.is_crowded_for(app)
    }

    /// Removes tickets that are no longer wanted from all queues, and returns whether a queue still holds any.
    pub(crate) fn sweep(&self, now: Instant) -> (Swept<T>, bool) {
        let mut unwanted = Vec::new();
        let hosts = self.hosts();
        let left = hosts.iter().filter(|host| host.sweep(now, &mut unwanted)).count();
        (unwanted, left > 0)
    }

    /// Rings for every waiting line.
    pub(crate) fn stir_all(&self) {
        self.hosts().iter().for_each(|host| while host.stir() {});
    }

    fn hosts(&self) -> Vec<Arc<Host<T>>> {
        locked(&self.hosts).values().filter_map(Weak::upgrade).collect()
    }
}
