//! Pools: jobs whose targets answer slowly send apart, so that they do not hold up the others.

use std::collections::VecDeque;
use std::time::Duration;

use calendar::Timestamp;

/// A send that takes longer is slow.
pub const SLOW_SEND: Duration = Duration::from_millis(500);

/// How many slow sends within a minute a job may have and stay in the fast pool.
const TOLERATED: usize = 10;

/// A slow send counts while it is younger than this.
const MINUTE_MS: i64 = 60_000;

/// Where a job's sends go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Where every job begins.
    Fast,
    /// Where jobs are that were slow too often.
    Slow,
}

/// How quick the sends of one job have been.
///
/// It is slow from the send that is one too many within a minute until no send was slow for a minute; a minute
/// without any send is clean as well. It remembers the latest eleven slow sends, and of a job that has none,
/// nothing.
///
/// When `now` jumps forwards, time has passed. When it goes back, the slow sends go back with it: the last one
/// counts as of this moment and the distances stay, so a job is not held in the slow pool until the clock has
/// reached its old future again.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Rising, [`TOLERATED`] + 1 at most.
    slow_sends: VecDeque<Timestamp>,
    /// Whether they were too many within a minute; holds while the last is younger than a minute.
    was_too_slow: bool,
}

impl Pace {
    /// Notes that a send of the job ended at `now` and took so long.
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

    /// The pool that a send of the job goes to at `now`.
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

/// How many sends a node keeps in flight and in waiting, pool by pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sends in flight from the fast pool.
    pub fast_open: u32,
    /// Sends that wait for the fast pool.
    pub fast_queue: u32,
    /// Sends in flight from the slow pool.
    pub slow_open: u32,
    /// Sends that wait for the slow pool.
    pub slow_queue: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fast_open: 200, fast_queue: 2_000, slow_open: 100, slow_queue: 5_000 }
    }
}

/// What becomes of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It goes out now.
    Send,
    /// It waits for a place.
    Queue,
    /// There is no room to wait either; the run says so in its record.
    Refuse,
}

/// Decides about a send to a pool with `open` sends in flight and `queued` waiting ahead of it.
pub fn place(limits: &Limits, pool: Pool, open: u32, queued: u32) -> Placement {
    let (open_max, queue_max) = match pool {
        Pool::Fast => (limits.fast_open, limits.fast_queue),
        Pool::Slow => (limits.slow_open, limits.slow_queue),
    };
    // Those ahead take the free places first, so that a newcomer does not overtake them.
    if open.saturating_add(queued) < open_max {
        Placement::Send
    } else if queued < queue_max {
        Placement::Queue
    } else {
        Placement::Refuse
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

    #[test]
    fn a_send_goes_out_while_there_is_room_then_waits_then_is_refused() {
        use Placement::{Queue, Refuse, Send};
        for (pool, open, queued, placement) in [
            (Pool::Fast, 0, 0, Send),
            (Pool::Fast, 199, 0, Send),
            (Pool::Fast, 200, 0, Queue),
            (Pool::Fast, 199, 1, Queue),
            (Pool::Fast, 200, 1_999, Queue),
            (Pool::Fast, 200, 2_000, Refuse),
            (Pool::Slow, 99, 0, Send),
            (Pool::Slow, 100, 4_999, Queue),
            (Pool::Slow, 100, 5_000, Refuse),
            (Pool::Slow, u32::MAX, u32::MAX, Refuse),
        ] {
            assert_eq!(place(&Limits::default(), pool, open, queued), placement, "{pool:?} {open} {queued}");
        }
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
