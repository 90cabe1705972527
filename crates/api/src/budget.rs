//! Memory budgets: how many bytes of bodies and how many streams all callers hold together, and each of them alone.
//!
//! Bytes count when they are read, not when a request announces them: an announcement costs the caller nothing, so it
//! must not take room from others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The longest body that is read from an unauthenticated caller.
pub(crate) const STRANGER_BODY_MAX: usize = 4 << 10;

/// How many bytes the unauthenticated requests of one network may hold together, so that one network cannot take the
/// room of all.
const STRANGERS_OF_NETWORK_MAX: usize = 256 << 10;

/// How many bytes all unauthenticated requests may hold together.
const STRANGERS_MAX: usize = 16 << 20;

/// How much may be held at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of bodies, of all requests together.
    pub buffered: usize,
    /// Bytes of bodies of one token. The executors at one address have a quarter of it.
    pub buffered_per_caller: usize,
    /// Streams of events, logs and lines that are open at once.
    pub streams: usize,
    /// Streams that are open with one token.
    pub streams_per_token: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { buffered: 256 << 20, buffered_per_caller: 64 << 20, streams: 1_000, streams_per_token: 100 }
    }
}

/// How much is held now, and how many requests were refused since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of bodies that are held.
    pub buffered: u64,
    /// Streams that are open.
    pub streams: u64,
    /// Bodies that were refused for lack of room.
    pub bodies_refused: u64,
    /// Streams that were refused for lack of room.
    pub streams_refused: u64,
    /// Streams that were ended because their token was revoked or expired.
    pub streams_ended: u64,
    /// Callbacks of executors that named too many attempts.
    pub callbacks_refused: u64,
    /// Calls that were refused before they reached a handler, by reason.
    pub calls_refused: CallsRefused,
}

/// Calls that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsRefused {
    /// They showed no valid token.
    pub unauthenticated: u64,
    /// They showed no valid token, and neither did too many others from their address.
    pub too_often: u64,
    /// Their body was too long.
    pub too_large: u64,
    /// Their body came too slowly.
    pub too_slow: u64,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallRefusal {
    Unauthenticated,
    TooOften,
    TooLarge,
    TooSlow,
}

/// The owner of held bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Unauthenticated requests from one network, if that is known.
    Strangers(Option<IpAddr>),
    /// A token of the API.
    Token(u32),
    /// Executors at one address.
    Executors(Option<IpAddr>),
    /// Other nodes.
    Peers,
}

/// What is held, and what was refused.
#[derive(Default)]
pub(crate) struct Budgets {
    limits: Limits,
    held: Mutex<BudgetHold>,
    bodies_refused: AtomicU64,
    streams_refused: AtomicU64,
    streams_ended: AtomicU64,
    callbacks_refused: AtomicU64,
    calls_refused: Mutex<CallsRefused>,
}

#[derive(Default)]
struct BudgetHold {
    bytes: usize,
    strangers: usize,
    by_owner: BTreeMap<Owner, usize>,
    streams: usize,
    by_token: BTreeMap<u32, usize>,
}

impl Budgets {
    pub(crate) fn new(limits: Limits) -> Arc<Budgets> {
        Arc::new(Budgets { limits, ..Budgets::default() })
    }

    /// A budget for the bytes of one request; none are taken yet.
    pub(crate) fn room(self: &Arc<Budgets>, owner: Owner) -> Room {
        Room { budgets: Arc::clone(self), owner, bytes: 0 }
    }

    /// A place for one stream of a token.
    pub(crate) fn stream(self: &Arc<Budgets>, token: u32) -> Result<StreamPlace, Problem> {
        let Limits { streams, streams_per_token, .. } = self.limits;
        let mut held = self.held();
        let own = held.by_token.get(&token).copied().unwrap_or(0);
        let problem = if own >= streams_per_token {
            let said = format!(
                "this token has {own} streams open, which is all it may (limits.streams_per_token); close one"
            );
            Some(too_much(StatusCode::TOO_MANY_REQUESTS, said))
        } else if held.streams >= streams {
            let said = format!("{streams} streams are open, which is all this node serves (limits.streams)");
            Some(too_much(StatusCode::SERVICE_UNAVAILABLE, said))
        } else {
            None
        };
        if let Some(problem) = problem {
            self.streams_refused.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
        held.streams += 1;
        *held.by_token.entry(token).or_default() += 1;
        Ok(StreamPlace { budgets: Arc::clone(self), token })
    }

    /// Counts a stream that ended because its token did.
    pub(crate) fn note_ended_stream(&self) {
        self.streams_ended.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a callback with too many results.
    pub(crate) fn note_refused_callback(&self) {
        self.callbacks_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refused call.
    pub(crate) fn note_refused_call(&self, why: CallRefusal) {
        let mut refused = self.calls_refused.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match why {
            CallRefusal::Unauthenticated => &mut refused.unauthenticated,
            CallRefusal::TooOften => &mut refused.too_often,
            CallRefusal::TooLarge => &mut refused.too_large,
            CallRefusal::TooSlow => &mut refused.too_slow,
        };
        *count += 1;
    }

    pub(crate) fn load(&self) -> Load {
        let (buffered, streams) = {
            let held = self.held();
            (held.bytes as u64, held.streams as u64)
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Load {
            buffered,
            streams,
            bodies_refused: count(&self.bodies_refused),
            streams_refused: count(&self.streams_refused),
            streams_ended: count(&self.streams_ended),
            callbacks_refused: count(&self.callbacks_refused),
            calls_refused: *self.calls_refused.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, BudgetHold> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an owner hold `after` bytes where it held `before`.
    fn change(&self, owner: Owner, before: usize, after: usize) -> Result<(), Problem> {
        let mut held = self.held();
        let own = held.by_owner.get(&owner).copied().unwrap_or(0) - before + after;
        let all = held.bytes - before + after;
        let is_stranger = matches!(owner, Owner::Strangers(_));
        let strangers = if is_stranger { held.strangers - before + after } else { held.strangers };
        if after > before
            && let Some(problem) = self.refusal(owner, own, strangers, all)
        {
            self.bodies_refused.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
        held.bytes = all;
        held.strangers = strangers;
        match own {
            0 => _ = held.by_owner.remove(&owner),
            own => _ = held.by_owner.insert(owner, own),
        }
        Ok(())
    }

    fn refusal(&self, owner: Owner, own: usize, strangers: usize, all: usize) -> Option<Problem> {
        let max = match owner {
            Owner::Strangers(_) => STRANGERS_OF_NETWORK_MAX.min(self.limits.buffered_per_caller),
            // Executors send short bodies, so they get a part of what a batch may take.
            Owner::Executors(_) => self.limits.buffered_per_caller / 4,
            _ => self.limits.buffered_per_caller,
        };
        if own > max {
            let said = format!(
                "the requests of this caller hold {max} bytes, which is all they may \
                 (limits.buffered_per_caller); send less at once, or wait for an answer"
            );
            return Some(too_much(StatusCode::TOO_MANY_REQUESTS, said));
        }
        if matches!(owner, Owner::Strangers(_)) && strangers > STRANGERS_MAX {
            let said = format!(
                "all requests without a token hold {STRANGERS_MAX} bytes, which is all this node keeps of them"
            );
            return Some(too_much(StatusCode::SERVICE_UNAVAILABLE, said));
        }
        if all > self.limits.buffered {
            let said = format!(
                "all requests together hold {} bytes, which is all this node keeps (limits.buffered)",
                self.limits.buffered
            );
            return Some(too_much(StatusCode::SERVICE_UNAVAILABLE, said));
        }
        None
    }
}

fn too_much(status: StatusCode, said: String) -> Problem {
    Problem::new(status, said).with(header::RETRY_AFTER, HeaderValue::from(1))
}

/// The bytes that one request holds; given back when it is dropped.
pub(crate) struct Room {
    budgets: Arc<Budgets>,
    owner: Owner,
    bytes: usize,
}

impl Room {
    /// Whether they belong to an unauthenticated caller.
    pub(crate) fn is_strangers(&self) -> bool {
        matches!(self.owner, Owner::Strangers(_))
    }

    /// Counts the refusal of the request.
    pub(crate) fn note_refusal(&self, why: CallRefusal) {
        self.budgets.note_refused_call(why);
    }

    /// Sets the number of bytes held; where there is no room, it stays as it was.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        self.budgets.change(self.owner, self.bytes, bytes)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = self.budgets.change(self.owner, self.bytes, 0);
    }
}

/// The place of one stream; given back when it is dropped.
pub(crate) struct StreamPlace {
    budgets: Arc<Budgets>,
    token: u32,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut held = self.budgets.held();
        held.streams -= 1;
        if let Some(own) = held.by_token.get_mut(&self.token) {
            *own -= 1;
            if *own == 0 {
                held.by_token.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Arc<Budgets> {
        Budgets::new(Limits { buffered: 100, buffered_per_caller: 60, streams: 3, streams_per_token: 2 })
    }

    #[test]
    fn a_caller_and_all_together_hold_what_they_may_and_give_it_back() {
        let budgets = small();
        let mut first = budgets.room(Owner::Token(1));
        first.hold(60).unwrap();
        assert_eq!(first.hold(61).unwrap_err().status.as_u16(), 429);
        let mut second = budgets.room(Owner::Token(2));
        second.hold(40).unwrap();
        assert_eq!(second.hold(41).unwrap_err().status.as_u16(), 503, "the others hold the rest");
        first.hold(10).unwrap();
        second.hold(60).unwrap();
        assert_eq!((budgets.load().buffered, budgets.load().bodies_refused), (70, 2));
        drop((first, second));
        assert_eq!(budgets.load().buffered, 0);
        assert!(budgets.held().by_owner.is_empty(), "nothing is remembered about who has left");
    }

    #[test]
    fn strangers_of_a_network_share_a_few_bytes_and_executors_at_one_address_have_a_quarter() {
        let budgets = Budgets::new(Limits::default());
        let network = |last: u8| Owner::Strangers(Some(IpAddr::from([192, 0, 2, last])));
        let mut rooms: Vec<Room> = (0..64).map(|last| budgets.room(network(last))).collect();
        rooms[0].hold(STRANGERS_OF_NETWORK_MAX).unwrap();
        assert_eq!(budgets.room(network(0)).hold(1).unwrap_err().status.as_u16(), 429);
        for room in &mut rooms[1..] {
            room.hold(STRANGERS_OF_NETWORK_MAX).expect("others have room of their own");
        }
        assert_eq!(
            budgets.room(network(64)).hold(1).unwrap_err().status.as_u16(),
            503,
            "but not without end"
        );
        drop(rooms);
        assert!(budgets.room(network(64)).hold(1).is_ok());
        let own = Owner::Executors(Some(IpAddr::from([192, 0, 2, 7])));
        assert!(budgets.room(own).hold(16 << 20).is_ok());
        assert_eq!(budgets.room(own).hold((16 << 20) + 1).unwrap_err().status.as_u16(), 429);
    }

    #[test]
    fn streams_are_bounded_by_token_and_in_all() {
        let budgets = small();
        let own = [budgets.stream(1).unwrap(), budgets.stream(1).unwrap()];
        let refused = budgets.stream(1).map(drop).unwrap_err();
        assert_eq!(refused.status.as_u16(), 429);
        assert!(refused.header.is_some_and(|header| header.0 == header::RETRY_AFTER));
        let _other = budgets.stream(2).unwrap();
        assert_eq!(budgets.stream(3).map(drop).unwrap_err().status.as_u16(), 503);
        drop(own);
        assert!(budgets.stream(3).is_ok());
        assert_eq!(budgets.load().streams_refused, 2);
    }
}
