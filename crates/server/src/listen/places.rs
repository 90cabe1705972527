//! Places for connections: which connection has one, and which has to leave when there is none.
//!
//! The client of a new connection is unknown, so it begins as a stranger. There are few places for strangers: when
//! they are taken, the connection that has been a stranger's for longest is evicted, first among those of the address
//! that has the most. So a client with a token gets in, shows the token, and from then on its connection has a place
//! among those of callers, or one of those that are kept for executors and other nodes. A connection for which there
//! is no such place is served all the same, and counts as a stranger's. One token of the API, or the executors of one
//! address, can never take all places, and some of the kept ones are for nodes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_api::{Place, Standing};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock;

/// How long a stranger is safe from strangers of other addresses. While all strangers are younger than that, new
/// connections wait.
const SAFE_FOR: Duration = Duration::from_secs(1);

/// How many connections may be open at once, by what is known about their clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceLimits {
    /// Without an authenticated caller.
    pub(crate) strangers: usize,
    /// The same for one address.
    pub(crate) strangers_per_address: usize,
    /// Of callers with a token of the API.
    pub(crate) callers: usize,
    /// The same for one token; also the limit of the executors of one address, wherever their places are.
    pub(crate) per_token: usize,
    /// Kept for executors and other nodes.
    pub(crate) kept: usize,
    /// Those of the kept ones that executors never get.
    pub(crate) for_peers: usize,
}

impl PlaceLimits {
    /// Shares of all connections: at most a quarter for strangers, and at most a tenth kept for executors and nodes.
    pub(crate) fn of(
        all: usize,
        strangers: usize,
        per_address: usize,
        per_token: usize,
        kept: usize,
    ) -> PlaceLimits {
        let strangers = strangers.min(all / 4).max(1);
        let kept = kept.min(all / 10);
        let callers = all.saturating_sub(strangers + kept).max(1);
        PlaceLimits {
            strangers,
            strangers_per_address: per_address.min(strangers),
            callers,
            per_token: per_token.min(callers.div_ceil(2)),
            kept,
            for_peers: kept.div_ceil(4),
        }
    }
}

/// How many connections there are, and how many were evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) strangers: u64,
    pub(crate) callers: u64,
    pub(crate) kept: u64,
    pub(crate) evicted: u64,
}

/// All places.
pub(crate) struct Places {
    limits: PlaceLimits,
    taken: Mutex<Taken>,
    /// A connection was closed, or is no stranger's any more.
    freed: Notify,
    evicted: AtomicU64,
}

#[derive(Default)]
struct Taken {
    /// The number of the next connection. Older connections have smaller numbers.
    next: u64,
    strangers: BTreeMap<u64, Stranger>,
    by_address: BTreeMap<IpAddr, BTreeSet<u64>>,
    callers: usize,
    by_owner: BTreeMap<Owner, usize>,
    kept: usize,
}

/// An owner of connections with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Token(u32),
    Executors(IpAddr),
}

struct Stranger {
    address: IpAddr,
    since: Instant,
    leave: Arc<Notify>,
}

impl Places {
    pub(crate) fn new(limits: PlaceLimits) -> Arc<Places> {
        let (taken, freed) = (Mutex::default(), Notify::new());
        Arc::new(Places { limits, taken, freed, evicted: AtomicU64::new(0) })
    }

    /// Takes a place for a new connection as soon as there is one.
    pub(crate) async fn enter(self: &Arc<Places>, address: IpAddr) -> Arc<Entered> {
        loop {
            let freed = self.freed.notified();
            match self.try_enter(address, clock::instant()) {
                Ok(entered) => return entered,
                Err(until) => {
                    tokio::select! {
                        () = freed => {}
                        () = clock::sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// Takes a place, or returns until when every stranger is safe.
    fn try_enter(self: &Arc<Places>, address: IpAddr, now: Instant) -> Result<Arc<Entered>, Instant> {
        let mut taken = self.taken();
        let own = taken.by_address.get(&address).map_or(0, BTreeSet::len);
        if own >= self.limits.strangers_per_address {
            let oldest = taken.by_address.get(&address).and_then(BTreeSet::first).copied();
            self.evict(&mut taken, oldest);
        } else if taken.strangers.len() >= self.limits.strangers {
            let crowd = taken.by_address.values().max_by_key(|own| own.len());
            let oldest = crowd.and_then(BTreeSet::first).copied();
            let since = oldest.and_then(|oldest| taken.strangers.get(&oldest)).map(|oldest| oldest.since);
            if let Some(until) = since.map(|since| since + SAFE_FOR).filter(|until| now < *until) {
                return Err(until);
            }
            self.evict(&mut taken, oldest);
        }
        let (number, leave) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        taken.strangers.insert(number, Stranger { address, since: now, leave: Arc::clone(&leave) });
        taken.by_address.entry(address).or_default().insert(number);
        drop(taken);
        let (kind, is_known) = (Mutex::new(HolderKind::Stranger), AtomicBool::new(false));
        Ok(Arc::new(Entered { places: Arc::clone(self), number, address, leave, kind, is_known }))
    }

    fn evict(&self, taken: &mut Taken, number: Option<u64>) {
        if let Some(stranger) = number.and_then(|number| taken.forget(number)) {
            stranger.leave.notify_one();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let taken = self.taken();
        Counts {
            strangers: taken.strangers.len() as u64,
            callers: taken.callers as u64,
            kept: taken.kept as u64,
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn forget(&mut self, number: u64) -> Option<Stranger> {
        let stranger = self.strangers.remove(&number)?;
        if let Some(own) = self.by_address.get_mut(&stranger.address) {
            own.remove(&number);
            if own.is_empty() {
                self.by_address.remove(&stranger.address);
            }
        }
        Some(stranger)
    }

    /// The kind of place that is free for an authenticated client; none if all are taken.
    fn place_for(&mut self, standing: Standing, address: IpAddr, limits: &PlaceLimits) -> Option<HolderKind> {
        let (owner, kept_max) = match standing {
            Standing::Caller(token) => (Some(Owner::Token(token)), 0),
            Standing::Executor => {
                (Some(Owner::Executors(address)), limits.kept.saturating_sub(limits.for_peers))
            }
            Standing::Peer => (None, limits.kept),
        };
        let own = owner.and_then(|owner| self.by_owner.get(&owner)).copied().unwrap_or(0);
        let is_kept = self.kept < kept_max;
        if own >= limits.per_token || !is_kept && self.callers >= limits.callers {
            return None;
        }
        *if is_kept { &mut self.kept } else { &mut self.callers } += 1;
        if let Some(owner) = owner {
            self.by_owner.insert(owner, own + 1);
        }
        Some(HolderKind::Known { owner, is_kept })
    }

    fn give_back(&mut self, kind: HolderKind, number: u64) {
        let HolderKind::Known { owner, is_kept } = kind else {
            self.forget(number);
            return;
        };
        *if is_kept { &mut self.kept } else { &mut self.callers } -= 1;
        if let Some(owner) = owner
            && let Some(own) = self.by_owner.get_mut(&owner)
        {
            *own -= 1;
            if *own == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }
}

/// The kind of place that a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HolderKind {
    Stranger,
    Known { owner: Option<Owner>, is_kept: bool },
}

/// The place of one connection; given back when the last holder is dropped.
pub(crate) struct Entered {
    places: Arc<Places>,
    number: u64,
    address: IpAddr,
    leave: Arc<Notify>,
    kind: Mutex<HolderKind>,
    /// Whether the client is no stranger any more; read with every request.
    is_known: AtomicBool,
}

impl Entered {
    /// Notified when the connection has to make room for another.
    pub(crate) fn leave(&self) -> Arc<Notify> {
        Arc::clone(&self.leave)
    }
}

impl Place for Entered {
    fn introduce(&self, standing: Standing) {
        if self.is_known.load(Ordering::Relaxed) {
            return;
        }
        let mut own = self.kind.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = self.places.taken();
        // A connection that was told to leave has no place to change.
        let is_stranger = *own == HolderKind::Stranger && taken.strangers.contains_key(&self.number);
        if !is_stranger {
            return;
        }
        if let Some(kind) = taken.place_for(standing, self.address, &self.places.limits) {
            taken.forget(self.number);
            *own = kind;
            self.is_known.store(true, Ordering::Relaxed);
            self.places.freed.notify_one();
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let kind = *self.kind.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.places.taken().give_back(kind, self.number);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(strangers: usize, per_address: usize) -> Arc<Places> {
        Places::new(PlaceLimits {
            strangers,
            strangers_per_address: per_address,
            callers: 2,
            per_token: 1,
            kept: 2,
            for_peers: 1,
        })
    }

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    async fn is_told_to_leave(entered: &Entered) -> bool {
        tokio::time::timeout(Duration::ZERO, entered.leave.notified()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_takes_the_place_of_the_oldest_stranger_of_its_address() {
        let places = places(10, 2);
        let first = places.enter(ip(1)).await;
        let other = places.enter(ip(2)).await;
        let _second = places.enter(ip(1)).await;
        let _third = places.enter(ip(1)).await;
        assert!(is_told_to_leave(&first).await);
        assert!(!is_told_to_leave(&other).await);
        drop(first);
        let counts = places.counts();
        assert_eq!((counts.strangers, counts.evicted), (3, 1), "who had to leave gives nothing back");
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_places_are_taken_the_address_with_the_most_gives_one_after_a_moment() {
        let places = places(3, 3);
        let few = places.enter(ip(1)).await;
        let many = [places.enter(ip(2)).await, places.enter(ip(2)).await];
        let begun = clock::instant();
        let _newcomer = places.enter(ip(3)).await;
        assert_eq!(clock::since(begun), SAFE_FOR, "strangers have a moment to say who they are");
        assert!(!is_told_to_leave(&few).await && is_told_to_leave(&many[0]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_known_is_no_stranger_and_is_never_told_to_leave() {
        let places = places(1, 1);
        let caller = places.enter(ip(1)).await;
        caller.introduce(Standing::Caller(7));
        let executor = places.enter(ip(1)).await;
        executor.introduce(Standing::Executor);
        let stranger = places.enter(ip(1)).await;
        assert_eq!(places.counts(), Counts { strangers: 1, callers: 1, kept: 1, evicted: 0 });
        let _newcomer = places.enter(ip(1)).await;
        assert!(is_told_to_leave(&stranger).await);
        assert!(!is_told_to_leave(&caller).await && !is_told_to_leave(&executor).await);
        drop((caller, executor));
        assert_eq!(places.counts(), Counts { strangers: 1, callers: 0, kept: 0, evicted: 1 });
    }

    #[tokio::test(start_paused = true)]
    async fn one_token_or_address_has_not_all_places_and_kept_ones_are_for_executors_and_nodes() {
        let places = places(10, 10);
        let mut all = Vec::new();
        for (standing, address) in [
            (Standing::Caller(7), 1),
            (Standing::Caller(7), 2),
            (Standing::Executor, 3),
            (Standing::Executor, 3),
            (Standing::Executor, 4),
            (Standing::Peer, 5),
            (Standing::Executor, 6),
            (Standing::Caller(8), 1),
        ] {
            let entered = places.enter(ip(address)).await;
            entered.introduce(standing);
            all.push(match *entered.kind.lock().unwrap() {
                HolderKind::Stranger => "stranger",
                HolderKind::Known { is_kept: true, .. } => "kept",
                HolderKind::Known { is_kept: false, .. } => "caller",
            });
            std::mem::forget(entered);
        }
        let expected = ["caller", "stranger", "kept", "stranger", "caller", "kept", "stranger", "stranger"];
        assert_eq!(all, expected, "a token twice, an address twice, and in the end no place is left");
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_gives_back_what_was_counted() {
        let places = places(10, 10);
        for standing in [Standing::Caller(7), Standing::Executor, Standing::Peer] {
            for _ in 0..3 {
                places.enter(ip(1)).await.introduce(standing);
                assert_eq!(places.counts(), Counts::default());
            }
        }
        assert!(places.taken().by_owner.is_empty());
    }

    #[test]
    fn shares_are_of_all_connections() {
        let limits = PlaceLimits::of(10_000, 2_000, 500, 2_000, 1_000);
        assert_eq!((limits.strangers, limits.callers, limits.kept), (2_000, 7_000, 1_000));
        let limits = PlaceLimits::of(400, 2_000, 500, 2_000, 1_000);
        assert_eq!((limits.strangers, limits.callers, limits.kept), (100, 260, 40));
        assert_eq!((limits.strangers_per_address, limits.per_token), (100, 130));
        let least = PlaceLimits::of(1, 2_000, 500, 2_000, 1_000);
        assert_eq!((least.strangers, least.callers, least.kept), (1, 1, 0));
    }
}
