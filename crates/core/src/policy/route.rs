//! Routes: which of an app's executors a run goes to, chosen exactly as XXL-JOB chooses.
//!
//! The caller passes in the addresses in the order of the app, random bits and the time. What a strategy remembers
//! between two choices is local to this node: it starts anew every day, and losing it only shifts load.

mod list;
mod ring;
mod turns;

use calendar::Timestamp;
use rustc_hash::FxHashMap;

use crate::model::JobId;
use crate::model::names::names;
use list::Lists;
use turns::{ChoiceCounts, Order};

/// A job's counter above this begins anew, as do the counters of its addresses.
const COUNT_MAX: u32 = 1_000_000;

/// A job's first counter is drawn from this range, so that not all jobs begin with the first executor.
const FIRST_TURNS: usize = 100;

/// The counters are forgotten after a day.
const DAY_MS: u64 = 86_400_000;

/// How a job chooses among the executors of its app.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Route {
    /// The first.
    First,
    /// The last.
    Last,
    /// One after the other.
    #[default]
    Round,
    /// A random one.
    Random,
    /// The same one for a job as long as it is registered.
    ConsistentHash,
    /// The one that was sent the fewest runs of the job.
    LeastFrequentlyUsed,
    /// The one whose last run of the job is longest ago.
    LeastRecentlyUsed,
    /// The first that answers a probe.
    Failover,
    /// The first that answers that it is running nothing of the job.
    Busyover,
    /// All of them, each with its part.
    ShardingBroadcast,
}

impl Route {
    /// Whether the choice is fixed: a run waits for the executor that the route names, even if another is free.
    pub const fn is_bound(self) -> bool {
        matches!(self, Route::First | Route::Last | Route::ConsistentHash)
    }
}

names!(
    Route,
    "route",
    First = "first",
    Last = "last",
    Round = "round",
    Random = "random",
    ConsistentHash = "consistent_hash",
    LeastFrequentlyUsed = "least_frequently_used",
    LeastRecentlyUsed = "least_recently_used",
    Failover = "failover",
    Busyover = "busyover",
    ShardingBroadcast = "sharding_broadcast",
);

/// Where a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// To the address at this place of the list.
    At(usize),
    /// Probe them in order; the first that answers is sent the run.
    AskBeat,
    /// Ask them in order whether they are running the job; the first that is not is sent the run.
    AskIdle,
    /// Send a part to each of them.
    All,
    /// The app has no executor.
    Nobody,
}

/// Where the part `index` of a broadcast goes when it is tried again among `count` addresses: to its own place, or
/// to the first when the list became too short for it.
pub fn retry_part(index: usize, count: usize) -> Choice {
    match count {
        0 => Choice::Nobody,
        _ if index < count => Choice::At(index),
        _ => Choice::At(0),
    }
}

/// What a node remembers of its choices.
///
/// It holds a number per job and day for [`Route::Round`], and a number per address of a job for the two that
/// choose by use. Addresses that are gone are forgotten with the next choice of the job.
#[derive(Debug, Default)]
pub struct Routes {
    rounds: Daily<u32>,
    counts: Daily<ChoiceCounts>,
    orders: Daily<Order>,
    lists: Lists,
}

impl Routes {
    /// Chooses for a run of `job` among the `addresses` of its app. `bits` are random, and used where XXL-JOB draws a
    /// number. The cost grows only with the number of addresses, and only for strategies that compare them.
    pub fn choose<A: AsRef<str>>(
        &mut self,
        route: Route,
        job: JobId,
        addresses: &[A],
        bits: u64,
        now: Timestamp,
    ) -> Choice {
        let count = addresses.len();
        if count == 0 {
            return Choice::Nobody;
        }
        let mut draws = Draws(bits);
        match route {
            Route::First => Choice::At(0),
            Route::Last => Choice::At(count - 1),
            Route::Round => Choice::At(self.turn(job, &mut draws, now) as usize % count),
            Route::Random => Choice::At(draws.below(count)),
            Route::ConsistentHash => Choice::At(self.lists.find(addresses).ring().owner(job)),
            Route::LeastFrequentlyUsed => {
                let counts = self.counts.of(job, now);
                Choice::At(counts.take(self.lists.find(addresses).list(), &mut draws))
            }
            Route::LeastRecentlyUsed => {
                Choice::At(self.orders.of(job, now).take(self.lists.find(addresses).list()))
            }
            Route::Failover => Choice::AskBeat,
            Route::Busyover => Choice::AskIdle,
            Route::ShardingBroadcast => Choice::All,
        }
    }

    /// Forgets a job that was deleted.
    pub fn forget(&mut self, job: JobId) {
        self.rounds.jobs.remove(&job);
        self.counts.jobs.remove(&job);
        self.orders.jobs.remove(&job);
    }

    fn turn(&mut self, job: JobId, draws: &mut Draws, now: Timestamp) -> u32 {
        self.rounds.begin_day(now);
        let next = match self.rounds.jobs.get(&job) {
            Some(turn) if *turn <= COUNT_MAX => *turn + 1,
            _ => draws.below(FIRST_TURNS) as u32,
        };
        self.rounds.jobs.insert(job, next);
        next
    }
}

/// What is remembered of jobs for a day. The day begins with the first choice, so that nodes do not all forget at the
/// same time.
#[derive(Debug)]
struct Daily<T> {
    jobs: FxHashMap<JobId, T>,
    since: Option<Timestamp>,
}

impl<T> Default for Daily<T> {
    fn default() -> Daily<T> {
        Daily { jobs: FxHashMap::default(), since: None }
    }
}

impl<T> Daily<T> {
    /// A clock that went back by more than a day begins a new day too; otherwise counters would be kept until the clock has
    /// caught up.
    fn begin_day(&mut self, now: Timestamp) {
        let is_same_day = |since: Timestamp| now.as_millis().abs_diff(since.as_millis()) <= DAY_MS;
        if !self.since.is_some_and(is_same_day) {
            *self = Daily { jobs: FxHashMap::default(), since: Some(now) };
        }
    }
}

impl<T: Default> Daily<T> {
    fn of(&mut self, job: JobId, now: Timestamp) -> &mut T {
        self.begin_day(now);
        self.jobs.entry(job).or_default()
    }
}

/// A sequence of numbers from the caller's random bits (SplitMix64).
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    /// A number below `count`, each as likely as the others.
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        ((u128::from(mixed) * count as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::super::same_cases;
    use super::*;
    use proptest::prelude::*;

    const JOB: JobId = JobId(7);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    impl Routes {
        /// The address that a run of the job goes to.
        fn pick<'a>(&mut self, route: Route, addresses: &[&'a str], bits: u64, now: Timestamp) -> &'a str {
            match self.choose(route, JOB, addresses, bits, now) {
                Choice::At(place) => addresses[place],
                other => panic!("{route} chose {other:?}"),
            }
        }

        /// A choice after another, all at once.
        fn picks<'a>(&mut self, route: Route, addresses: &[&'a str], count: usize) -> Vec<&'a str> {
            (0..count).map(|bits| self.pick(route, addresses, bits as u64, at(0))).collect()
        }
    }

    #[test]
    fn what_needs_no_memory_is_chosen_by_the_list_alone() {
        for (route, count, choice) in [
            (Route::First, 1, Choice::At(0)),
            (Route::First, 3, Choice::At(0)),
            (Route::Last, 1, Choice::At(0)),
            (Route::Last, 3, Choice::At(2)),
            (Route::Round, 1, Choice::At(0)),
            (Route::Random, 1, Choice::At(0)),
            (Route::ConsistentHash, 1, Choice::At(0)),
            (Route::LeastFrequentlyUsed, 1, Choice::At(0)),
            (Route::LeastRecentlyUsed, 1, Choice::At(0)),
            (Route::Failover, 3, Choice::AskBeat),
            (Route::Busyover, 3, Choice::AskIdle),
            (Route::ShardingBroadcast, 3, Choice::All),
        ] {
            let addresses = &["a", "b", "c"][..count];
            for bits in [0, 1, u64::MAX] {
                let chosen = Routes::default().choose(route, JOB, addresses, bits, at(0));
                assert_eq!(chosen, choice, "{route} {count}");
            }
        }
    }

    #[test]
    fn nobody_is_chosen_where_nobody_is() {
        for route in Route::ALL {
            let choice = Routes::default().choose::<&str>(*route, JOB, &[], 1, at(0));
            assert_eq!(choice, Choice::Nobody, "{route}");
        }
    }

    #[test]
    fn round_begins_anywhere_below_a_hundred_and_goes_on_by_one() {
        let addresses: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        let mut begun = [false; FIRST_TURNS];
        for bits in 0..2_000 {
            let mut routes = Routes::default();
            let mut turn = |bits| match routes.choose(Route::Round, JOB, &addresses, bits, at(0)) {
                Choice::At(place) => place,
                other => panic!("{other:?}"),
            };
            let first = turn(bits);
            begun[first] = true;
            assert_eq!([turn(1), turn(2), turn(3)], [first + 1, first + 2, first + 3]);
        }
        assert!(begun.iter().all(|is_begun| *is_begun));
    }

    #[test]
    fn round_counts_on_when_the_list_changes_and_begins_anew_after_a_million() {
        let mut routes = Routes::default();
        routes.rounds.of(JOB, at(0));
        for (before, addresses, after) in [
            (0, &["a", "b", "c"][..], "b"),
            (4, &["a", "b", "c"], "c"),
            (4, &["a", "b"], "b"),
            (999_999, &["a", "b", "c"], "b"),
            (1_000_000, &["a", "b", "c"], "c"),
        ] {
            routes.rounds.jobs.insert(JOB, before);
            assert_eq!(routes.pick(Route::Round, addresses, 0, at(0)), after, "{before}");
            assert_eq!(routes.rounds.jobs[&JOB], before + 1);
        }
        routes.pick(Route::Round, &["a"], 0, at(0));
        assert!(routes.rounds.jobs[&JOB] < 100);
    }

    #[test]
    fn jobs_take_turns_of_their_own() {
        let mut routes = Routes::default();
        let addresses = ["a", "b", "c", "d"];
        for job in 0..50 {
            routes.choose(Route::LeastRecentlyUsed, JobId(job), &addresses, 0, at(0));
        }
        assert_eq!(routes.choose(Route::LeastRecentlyUsed, JobId(50), &addresses, 0, at(0)), Choice::At(0));
        assert_eq!(routes.choose(Route::LeastRecentlyUsed, JobId(49), &addresses, 0, at(0)), Choice::At(1));
    }

    #[test]
    fn random_takes_each_about_as_often() {
        let picks = Routes::default().picks(Route::Random, &["a", "b", "c"], 30_000);
        for address in ["a", "b", "c"] {
            let count = picks.iter().filter(|pick| **pick == address).count();
            assert!((9_700..10_300).contains(&count), "{address} {count}");
        }
    }

    #[test]
    fn the_least_frequently_used_is_the_one_with_the_lowest_count() {
        let mut routes = Routes::default();
        routes.pick(Route::LeastFrequentlyUsed, &["a", "b", "c"], 0, at(0));
        routes.counts.of(JOB, at(0)).set(&[2, 0, 1]);
        let picks = routes.picks(Route::LeastFrequentlyUsed, &["a", "b", "c"], 9);
        assert_eq!(picks, ["b", "b", "c", "a", "b", "c", "a", "b", "c"]);
    }

    #[test]
    fn least_frequently_used_keeps_the_counts_of_those_that_stay() {
        let mut routes = Routes::default();
        routes.pick(Route::LeastFrequentlyUsed, &["a", "b", "c"], 0, at(0));
        routes.counts.of(JOB, at(0)).set(&[12, 11, 10]);
        assert_eq!(routes.picks(Route::LeastFrequentlyUsed, &["b", "c"], 3), ["c", "b", "c"]);
        // `a` is new again, and begins below two.
        let picks = routes.picks(Route::LeastFrequentlyUsed, &["a", "b"], 10);
        assert_eq!(picks, ["a"; 10]);
        routes.pick(Route::LeastFrequentlyUsed, &["a", "b"], 0, at(0));
        routes.counts.of(JOB, at(0)).set(&[COUNT_MAX, COUNT_MAX]);
        assert_eq!(routes.picks(Route::LeastFrequentlyUsed, &["a", "b"], 4)[..2], ["a", "a"]);
    }

    #[test]
    fn a_new_job_begins_with_counts_below_the_number_of_addresses() {
        let addresses = ["a", "b", "c"];
        let mut firsts = [0; 3];
        for bits in 0..300 {
            let mut routes = Routes::default();
            let first = routes.pick(Route::LeastFrequentlyUsed, &addresses, bits, at(0));
            firsts[addresses.iter().position(|address| *address == first).unwrap()] += 1;
            // Two each and one to spare, at most: after so many choices every address had its turn.
            let picks = routes.picks(Route::LeastFrequentlyUsed, &addresses, 6);
            assert!(
                addresses.iter().all(|address| *address == first || picks.contains(address)),
                "{picks:?}"
            );
        }
        assert!(firsts.iter().all(|count| *count > 20), "{firsts:?}");
    }

    #[test]
    fn the_least_recently_used_is_the_one_whose_turn_is_longest_ago() {
        let mut routes = Routes::default();
        for (addresses, picks) in [
            (&["a", "b", "c"][..], &["a", "b", "c", "a"][..]),
            // In the order b, c, a; the new one comes last, and those that went are forgotten.
            (&["a", "b", "c", "d"], &["b"]),
            (&["a", "c", "d", "e"], &["c", "a", "d", "e", "c"]),
            (&["b", "e", "f", "a"], &["a", "e", "b", "f", "a"]),
            // Named twice, but one address.
            (&["x", "y", "x"], &["x", "y", "x", "y"]),
        ] {
            assert_eq!(
                routes.picks(Route::LeastRecentlyUsed, addresses, picks.len()),
                picks,
                "{addresses:?}"
            );
        }
    }

    #[test]
    fn a_day_after_its_first_choice_a_strategy_begins_anew() {
        let day = DAY_MS as i64;
        let addresses = ["a", "b", "c"];
        for (passed, third) in [(0, "c"), (day, "c"), (day + 1, "a"), (-day, "c"), (-day - 1, "a")] {
            let mut routes = Routes::default();
            assert_eq!(routes.picks(Route::LeastRecentlyUsed, &addresses, 2), ["a", "b"]);
            let chosen = routes.pick(Route::LeastRecentlyUsed, &addresses, 0, at(passed));
            assert_eq!(chosen, third, "{passed}");
        }
        let mut routes = Routes::default();
        for job in 0..1_000 {
            for route in [Route::Round, Route::LeastFrequentlyUsed, Route::LeastRecentlyUsed] {
                routes.choose(route, JobId(job), &addresses, 0, at(0));
            }
        }
        for route in [Route::Round, Route::LeastFrequentlyUsed, Route::LeastRecentlyUsed] {
            routes.pick(route, &addresses, 0, Timestamp::MAX);
        }
        assert_eq!([routes.rounds.jobs.len(), routes.counts.jobs.len(), routes.orders.jobs.len()], [1, 1, 1]);
    }

    #[test]
    fn of_a_job_that_is_no_more_nothing_is_kept() {
        let mut routes = Routes::default();
        for route in Route::ALL {
            routes.choose(*route, JOB, &["a", "b"], 0, at(0));
            routes.choose(*route, JobId(8), &["a", "b"], 0, at(0));
        }
        routes.forget(JOB);
        assert_eq!(routes.rounds.jobs.keys().collect::<Vec<_>>(), [&JobId(8)]);
        assert_eq!(routes.counts.jobs.keys().collect::<Vec<_>>(), [&JobId(8)]);
        assert_eq!(routes.orders.jobs.keys().collect::<Vec<_>>(), [&JobId(8)]);
    }

    #[test]
    fn a_part_is_tried_again_at_its_place_or_at_the_first() {
        for (index, count, choice) in
            [(0, 1, Choice::At(0)), (2, 3, Choice::At(2)), (3, 3, Choice::At(0)), (2, 0, Choice::Nobody)]
        {
            assert_eq!(retry_part(index, count), choice, "{index} {count}");
        }
    }

    #[test]
    fn routes_are_read_by_the_names_they_print() {
        for (place, route) in Route::ALL.iter().enumerate() {
            assert_eq!((*route as usize, route.name().parse()), (place, Ok(*route)));
        }
        assert_eq!(
            [Route::ConsistentHash.name(), Route::ShardingBroadcast.name()],
            ["consistent_hash", "sharding_broadcast"]
        );
        assert_eq!(Route::default().to_string(), "round");
        let error = "FIRST".parse::<Route>().unwrap_err().to_string();
        assert!(error.starts_with("unknown route \"FIRST\": expected first, last, "), "{error}");
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn an_address_that_goes_moves_only_its_own_jobs(
            addresses in prop::collection::btree_set("[a-z0-9:/.-]{1,24}", 2..12),
            gone in any::<prop::sample::Index>(),
            jobs in prop::collection::vec(0..=i32::MAX as u32, 1..60),
        ) {
            let before: Vec<String> = addresses.into_iter().collect();
            let mut after = before.clone();
            let gone = after.remove(gone.index(before.len()));
            let mut routes = Routes::default();
            let mut owner = |addresses: &[String], job| match routes.choose(Route::ConsistentHash, job, addresses, 0, at(0)) {
                Choice::At(place) => addresses[place].clone(),
                other => panic!("{other:?}"),
            };
            for job in jobs.into_iter().map(JobId) {
                let owners = [owner(&before, job), owner(&after, job)];
                prop_assert!(owners[0] == gone || owners[0] == owners[1]);
            }
        }

        #[test]
        fn every_choice_is_in_the_list_whatever_was_asked_before(
            asked in prop::collection::vec((0..10_usize, 0..4_u32, 1..6_usize, any::<u64>(), any::<i64>()), 1..80),
        ) {
            let mut routes = Routes::default();
            for (route, job, count, bits, now) in asked {
                let addresses: Vec<String> = (0..count).map(|n| ((bits >> n) % 5).to_string()).collect();
                let now = Timestamp::from_millis(now);
                let choice = routes.choose(Route::ALL[route], JobId(job), &addresses, bits, now);
                prop_assert!(!matches!(choice, Choice::At(place) if place >= count), "{choice:?}");
            }
        }
    }
}
