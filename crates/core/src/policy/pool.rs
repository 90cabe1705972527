//! Pools: how many HTTP calls a node has in flight, and how many of them each job and app may hold.
//!
//! Jobs whose targets answer slowly have a pool of their own, so that they do not hold up the others. A call that turns
//! out to be slow leaves the fast pool while it is in flight. No job and no app takes all of a pool: each may hold a
//! multiple of what is still free (dynamic thresholds), so that something is always free for the next one.

use std::collections::VecDeque;
use std::time::Duration;

use calendar::Timestamp;
use rustc_hash::FxHashMap;

use crate::due::AppNumber;
use crate::model::JobId;

/// A call that takes longer than this is slow.
pub const SLOW_SEND: Duration = Duration::from_millis(500);

/// A job stays in the fast pool with up to this many slow calls within a minute.
const TOLERATED: usize = 10;

/// A slow call counts while it is younger than this.
const MINUTE_MS: i64 = 60_000;

/// The pool that a job's calls start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// The pool in which every job begins.
    Fast,
    /// The pool of jobs that were slow too often.
    Slow,
    /// The pool of calls that turned out to be slow and found no place in the slow pool. No call starts here.
    Overflow,
}

const POOLS: usize = 3;

/// A job's share as a multiple of the free places of a pool: alone, three quarters of it.
const JOB_SHARE: u32 = 3;

/// An app's share as a multiple of the free places of a pool: alone, seven eighths of it.
const APP_SHARE: u32 = 7;

/// Whether a holder of `held` places may take one more, while `free` are free.
fn is_within_share(held: usize, free: usize, share: u32) -> bool {
    held < free.saturating_mul(share as usize)
}

/// Whether a job that holds `held` places may take one more, while `free` are free.
pub fn is_within_job_share(held: usize, free: usize) -> bool {
    is_within_share(held, free, JOB_SHARE)
}

/// Whether an app that holds `held` places may take one more, while `free` are free.
pub fn is_within_app_share(held: usize, free: usize) -> bool {
    is_within_share(held, free, APP_SHARE)
}

/// The latest slow calls of one job.
///
/// A job is slow from its eleventh slow call within a minute until a minute passes without a slow call; a minute without
/// any call counts too. The latest eleven slow calls are remembered.
///
/// When `now` jumps forwards, time has passed. When it goes back, the slow calls are moved back with it: the last one
/// counts as of this moment and the distances stay. Otherwise a job would stay in the slow pool until the clock has
/// caught up.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// In ascending order, [`TOLERATED`] + 1 at most.
    slow_sends: VecDeque<Timestamp>,
    /// Whether there were too many of them within a minute; stays true while the last is younger than a minute.
    was_too_slow: bool,
}

impl Pace {
    /// Records a call of the job that ended at `now` and took `took`.
    pub fn record(&mut self, now: Timestamp, took: Duration) {
        self.go_back_to(now);
        if took > SLOW_SEND {
            self.note_slow(now);
        } else if self.is_clean(now) {
            *self = Pace::default();
        }
    }

    /// Whether there is nothing to remember.
    pub fn is_blank(&self) -> bool {
        self.slow_sends.is_empty()
    }

    /// The pool that a call of the job starts from at `now`.
    pub fn pool(&self, now: Timestamp) -> Pool {
        if self.was_too_slow && !self.is_clean(now) { Pool::Slow } else { Pool::Fast }
    }

    fn note_slow(&mut self, now: Timestamp) {
        self.was_too_slow &= !self.is_clean(now);
        self.slow_sends.retain(|sent| is_recent(*sent, now));
        if self.slow_sends.len() > TOLERATED {
            self.slow_sends.pop_front();
        }
        self.slow_sends.push_back(now);
        self.was_too_slow |= self.slow_sends.len() > TOLERATED;
    }

    fn is_clean(&self, now: Timestamp) -> bool {
        self.slow_sends.back().is_none_or(|last| !is_recent(*last, now))
    }

    fn go_back_to(&mut self, now: Timestamp) {
        let last = self.slow_sends.back().copied().unwrap_or(now);
        let back = last.as_millis().saturating_sub(now.as_millis()).max(0);
        if back > 0 {
            let earlier = |sent: &Timestamp| Timestamp::from_millis(sent.as_millis().saturating_sub(back));
            self.slow_sends.iter_mut().for_each(|sent| *sent = earlier(sent));
        }
    }
}

fn is_recent(sent: Timestamp, now: Timestamp) -> bool {
    now.as_millis().saturating_sub(sent.as_millis()) < MINUTE_MS
}

/// How many calls a node has in flight, pool by pool, and how many runs wait for executors in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight from the fast pool.
    pub fast_open: u32,
    /// Runs in memory that wait for the fast pool.
    pub fast_queue: u32,
    /// Calls in flight from the slow pool.
    pub slow_open: u32,
    /// Runs in memory that wait for the slow pool.
    pub slow_queue: u32,
    /// Calls in flight that turned out to be slow and found no place in the slow pool.
    pub overflow: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fast_open: 200, fast_queue: 2_000, slow_open: 100, slow_queue: 5_000, overflow: 1_000 }
    }
}

impl Limits {
    fn of(&self, pool: Pool) -> u32 {
        match pool {
            Pool::Fast => self.fast_open,
            Pool::Slow => self.slow_open,
            Pool::Overflow => self.overflow,
        }
    }
}

/// Whether a call may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A place is free for it.
    Free,
    /// Its job holds its share.
    JobShare,
    /// Its app holds its share.
    AppShare,
    /// No place is free.
    Full,
}

/// The places of all pools, and how many each job and app holds.
#[derive(Clone, Debug, Default)]
pub struct Places {
    limits: Limits,
    open: [u32; POOLS],
    apps: FxHashMap<AppNumber, [u32; POOLS]>,
    jobs: FxHashMap<JobId, [u32; POOLS]>,
}

impl Places {
    /// All places free.
    pub fn new(limits: Limits) -> Places {
        Places { limits, ..Places::default() }
    }

    /// How many calls are in flight from a pool.
    pub fn open(&self, pool: Pool) -> u32 {
        self.open[pool as usize]
    }

    /// Whether a call of the job may start from the pool.
    pub fn room(&self, pool: Pool, app: AppNumber, job: JobId) -> Room {
        let free = self.free(pool);
        if free == 0 {
            Room::Full
        } else if !is_within_app_share(held(&self.apps, &app, pool), free) {
            Room::AppShare
        } else if !is_within_job_share(held(&self.jobs, &job, pool), free) {
            Room::JobShare
        } else {
            Room::Free
        }
    }

    /// A call takes a place.
    pub fn take(&mut self, pool: Pool, app: AppNumber, job: JobId) {
        self.open[pool as usize] += 1;
        self.apps.entry(app).or_default()[pool as usize] += 1;
        self.jobs.entry(job).or_default()[pool as usize] += 1;
    }

    /// A call has ended.
    pub fn give_back(&mut self, pool: Pool, app: AppNumber, job: JobId) {
        self.open[pool as usize] -= 1;
        lower(&mut self.apps, app, pool);
        lower(&mut self.jobs, job, pool);
    }

    /// Moves a call that turned out to be slow from the fast pool to the slow pool, or to the overflow if the slow pool is
    /// full or its job or app holds its share there. If neither has room it stays. Returns its pool afterwards.
    pub fn outlive(&mut self, app: AppNumber, job: JobId) -> Pool {
        let is_free = |pool: &Pool| self.room(*pool, app, job) == Room::Free;
        let Some(pool) = [Pool::Slow, Pool::Overflow].into_iter().find(is_free) else { return Pool::Fast };
        self.give_back(Pool::Fast, app, job);
        self.take(pool, app, job);
        pool
    }

    /// Whether enough slow calls of a job are in flight for its next ones to start from the slow pool, however long ago
    /// the last of them began.
    pub fn is_lingering(&self, job: JobId) -> bool {
        let open = self.jobs.get(&job).copied().unwrap_or_default();
        (open[Pool::Slow as usize] + open[Pool::Overflow as usize]) as usize > TOLERATED
    }

    fn free(&self, pool: Pool) -> usize {
        self.limits.of(pool).saturating_sub(self.open[pool as usize]) as usize
    }
}

/// Places that a job or app holds in a pool. Calls in the overflow count as calls in the slow pool.
fn held<K: std::hash::Hash + Eq>(of: &FxHashMap<K, [u32; POOLS]>, key: &K, pool: Pool) -> usize {
    let open = of.get(key).copied().unwrap_or_default();
    let overflow = if pool == Pool::Slow { open[Pool::Overflow as usize] } else { 0 };
    (open[pool as usize] + overflow) as usize
}

fn lower<K: std::hash::Hash + Eq>(of: &mut FxHashMap<K, [u32; POOLS]>, key: K, pool: Pool) {
    if let Some(open) = of.get_mut(&key) {
        open[pool as usize] -= 1;
        if *open == [0; POOLS] {
            of.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::same_cases;
    use super::*;
    use proptest::prelude::*;

    const SLOW: Duration = Duration::from_millis(501);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    /// A pace after slow sends at these milliseconds.
    fn slow_at(millis: impl IntoIterator<Item = i64>) -> Pace {
        let mut pace = Pace::default();
        millis.into_iter().for_each(|millis| pace.record(at(millis), SLOW));
        pace
    }

    #[test]
    fn ten_slow_sends_in_a_minute_are_tolerated_and_eleven_are_not() {
        assert_eq!(slow_at(0..10).pool(at(10)), Pool::Fast);
        assert_eq!(slow_at(0..11).pool(at(10)), Pool::Slow);
        assert_eq!(slow_at((0..10).chain([59_999])).pool(at(59_999)), Pool::Slow);
        assert_eq!(slow_at((0..10).chain([60_000])).pool(at(60_000)), Pool::Fast);
        // One in six seconds: ten in any minute.
        assert_eq!(slow_at((0..100).map(|n| n * 6_000)).pool(at(594_000)), Pool::Fast);
    }

    #[test]
    fn a_send_of_half_a_second_is_not_slow() {
        let mut pace = Pace::default();
        (0..100).for_each(|millis| pace.record(at(millis), SLOW_SEND));
        assert_eq!(pace.pool(at(100)), Pool::Fast);
    }

    #[test]
    fn a_slow_job_returns_when_no_send_was_slow_for_a_minute() {
        let mut pace = slow_at(0..11);
        pace.record(at(30_000), Duration::ZERO);
        assert_eq!(pace.pool(at(60_009)), Pool::Slow);
        assert_eq!(pace.pool(at(60_010)), Pool::Fast);
        // One slow send begins the minute anew, though it alone would not make the job slow.
        pace.record(at(50_000), SLOW);
        assert_eq!(pace.pool(at(109_999)), Pool::Slow);
        assert_eq!(pace.pool(at(110_000)), Pool::Fast);
        pace.record(at(110_000), SLOW);
        assert_eq!(pace.pool(at(110_000)), Pool::Fast);
    }

    #[test]
    fn a_fast_send_after_a_clean_minute_frees_the_memory() {
        let mut pace = slow_at(0..11);
        pace.record(at(60_010), Duration::ZERO);
        assert_eq!(pace.slow_sends.capacity(), 0);
    }

    #[test]
    fn a_jump_forwards_is_a_clean_minute() {
        assert_eq!(slow_at(0..11).pool(Timestamp::MAX), Pool::Fast);
        assert_eq!(slow_at((0..10).chain([1_000_000_000])).pool(at(1_000_000_000)), Pool::Fast);
    }

    #[test]
    fn a_clock_that_went_back_a_year_holds_a_job_for_a_minute_after_its_next_send() {
        let year = 31_536_000_000;
        let mut pace = slow_at(year..year + 11);
        assert_eq!(pace.pool(at(0)), Pool::Slow);
        pace.record(at(0), Duration::ZERO);
        assert_eq!(pace.pool(at(59_999)), Pool::Slow);
        assert_eq!(pace.pool(at(60_000)), Pool::Fast);
    }

    #[test]
    fn slow_sends_keep_their_distances_when_the_clock_goes_back() {
        // Ten, 6.1 seconds apart, then the clock goes back an hour: the first of them is nearly a minute old.
        let spread = || (0..10).map(|n| n * 6_100);
        let at_once = slow_at(spread().chain([-3_600_000]));
        assert_eq!(at_once.pool(at(-3_600_000)), Pool::Slow);
        let mut later = slow_at(spread());
        later.record(at(-3_600_000), Duration::ZERO);
        later.record(at(-3_594_000), SLOW);
        assert_eq!(later.pool(at(-3_594_000)), Pool::Fast);
    }

    /// Starts calls of a job until none may; how many started.
    fn fill(places: &mut Places, pool: Pool, app: AppNumber, job: u32) -> u32 {
        let mut started = 0;
        while places.room(pool, app, JobId(job)) == Room::Free {
            places.take(pool, app, JobId(job));
            started += 1;
        }
        started
    }

    #[test]
    fn a_job_gets_three_quarters_of_a_pool_its_app_seven_eighths_and_others_the_rest() {
        let mut places = Places::new(Limits::default());
        assert_eq!(fill(&mut places, Pool::Fast, 1, 1), 150);
        assert_eq!(places.room(Pool::Fast, 1, JobId(1)), Room::JobShare);
        assert_eq!(fill(&mut places, Pool::Fast, 1, 2), 25);
        assert_eq!(places.room(Pool::Fast, 1, JobId(2)), Room::AppShare);
        // Apps that come after it find places too, each fewer than the last.
        for app in 2..=4 {
            assert!(fill(&mut places, Pool::Fast, app, app + 10) > 0, "{app}");
        }
        assert_eq!(fill(&mut places, Pool::Slow, 1, 1), 75);
    }

    #[test]
    fn calls_that_outlive_the_fast_pool_leave_it_and_do_not_fill_the_slow_one() {
        let mut places = Places::new(Limits::default());
        let fast = fill(&mut places, Pool::Fast, 1, 1);
        for _ in 0..fast {
            assert_ne!(places.outlive(1, JobId(1)), Pool::Fast);
        }
        assert_eq!([Pool::Fast, Pool::Slow, Pool::Overflow].map(|pool| places.open(pool)), [0, 75, 75]);
        assert!(places.is_lingering(JobId(1)));
        // Neither its own further calls nor those of another slow job take what is left.
        assert_eq!(places.room(Pool::Slow, 1, JobId(1)), Room::JobShare);
        assert_eq!(places.room(Pool::Slow, 2, JobId(2)), Room::Free);
        (0..75).for_each(|_| places.give_back(Pool::Overflow, 1, JobId(1)));
        (0..75).for_each(|_| places.give_back(Pool::Slow, 1, JobId(1)));
        assert!(places.apps.is_empty() && places.jobs.is_empty());
    }

    #[test]
    fn a_pool_of_one_place_has_one_place() {
        let mut places = Places::new(Limits { fast_open: 1, slow_open: 1, overflow: 0, ..Limits::default() });
        assert_eq!(fill(&mut places, Pool::Fast, 1, 1), 1);
        assert_eq!(places.outlive(1, JobId(1)), Pool::Slow);
        assert_eq!(fill(&mut places, Pool::Fast, 1, 1), 1);
        assert_eq!(places.outlive(1, JobId(1)), Pool::Fast);
        assert_eq!(places.room(Pool::Fast, 2, JobId(2)), Room::Full);
    }

    /// The definition: some slow send was one too many, and no minute since then was clean.
    fn expected(slow: &[i64], now: i64) -> Pool {
        let is_one_too_many =
            |last: usize| slow[..=last].iter().filter(|sent| slow[last] - **sent < 60_000).count() > 10;
        let is_never_clean =
            |from: usize| slow[from..].iter().chain([&now]).is_sorted_by(|a, b| *b - *a < 60_000);
        let is_slow = (0..slow.len()).any(|index| is_one_too_many(index) && is_never_clean(index));
        if is_slow { Pool::Slow } else { Pool::Fast }
    }

    /// Mostly close together, so that eleven fit into a minute, and now and then about a minute apart.
    fn steps() -> impl Strategy<Value = i64> {
        prop_oneof![20 => 1..9_000_i64, 1 => 55_000..65_000_i64]
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn eleven_remembered_sends_answer_as_the_whole_list_would(
            steps in prop::collection::vec((steps(), prop::bool::weighted(0.7)), 0..120),
        ) {
            let (mut now, mut pace, mut slow) = (0, Pace::default(), Vec::new());
            for (step, is_slow) in steps {
                now += step;
                prop_assert_eq!(pace.pool(at(now)), expected(&slow, now));
                pace.record(at(now), if is_slow { SLOW } else { Duration::ZERO });
                slow.extend(is_slow.then_some(now));
                prop_assert_eq!(pace.pool(at(now)), expected(&slow, now));
                prop_assert!(pace.slow_sends.len() <= TOLERATED + 1);
            }
        }

        #[test]
        fn no_instant_overflows_it(instants in prop::collection::vec(any::<i64>(), 0..40)) {
            let mut pace = Pace::default();
            for now in instants.into_iter().flat_map(|now| [now, i64::MIN, i64::MAX]) {
                pace.record(Timestamp::from_millis(now), SLOW);
                pace.pool(Timestamp::from_millis(now));
            }
        }
    }
}
