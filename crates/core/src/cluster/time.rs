//! What time it is for the cluster: the store's clock, counted forward by the machine's.
//!
//! The machine's own idea of the date plays no part. Every answer of the store bounds the offset between the two
//! clocks from both sides, because the store read its clock between the asking and the answering. The estimate
//! leans to the early side, so that nothing fires before its time; it is late by the round trip at most, and by what
//! the clocks may have drifted apart since they were last compared.

use std::time::Duration;

use calendar::Timestamp;

use super::Boot;

/// A step of the store's clock at least this large raises an alarm.
pub const STEP: Duration = Duration::from_secs(5);

/// Assumed greatest drift between two clocks: one part in this many.
const DRIFT: i64 = 2_000;

/// The store's clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Forward by this much: the instants in between count as missed.
    Forward(Duration),
    /// Back by this much: the cluster's time stands still until the store's clock has caught up, because the instants it
    /// shows again were already decided.
    Back(Duration),
}

/// The cluster's time as one node knows it. It never goes back.
#[derive(Clone, Debug, Default)]
pub struct ClusterTime {
    /// Milliseconds to add to the machine's time; none before the store's first answer.
    offset: Option<i64>,
    learned_at: Boot,
    shown: Option<Timestamp>,
}

impl ClusterTime {
    /// Learns from an answer that the store gave between two moments.
    pub fn learn(&mut self, asked: Boot, answered: Boot, store_now: Timestamp) -> Option<Stepped> {
        let least = store_now.as_millis().saturating_sub(millis(answered));
        let most = store_now.as_millis().saturating_sub(millis(asked));
        let drifted = self.drifted(answered);
        self.learned_at = answered;
        let Some(latest) = self.offset else {
            self.offset = Some(least);
            return None;
        };
        let offset = latest - drifted;
        // Eased step by step: one slow answer must not leave the estimate ahead for good.
        let eased = offset - (offset - least) / 8;
        self.offset = Some(eased.clamp(least, most.max(least)));
        let (ahead, behind) = (least.saturating_sub(latest), offset.saturating_sub(most));
        let step = millis(Boot(STEP));
        if ahead > step {
            Some(Stepped::Forward(Duration::from_millis(ahead as u64)))
        } else if behind > step {
            Some(Stepped::Back(Duration::from_millis(behind as u64)))
        } else {
            None
        }
    }

    /// The cluster's time at this moment; none before the store's first answer.
    pub fn now(&mut self, at: Boot) -> Option<Timestamp> {
        let now = Timestamp::from_millis(millis(at).saturating_add(self.offset?) - self.drifted(at));
        let held = self.shown.map_or(now, |shown| shown.max(now));
        self.shown = Some(held);
        Some(held)
    }

    /// How long the cluster's time will still stand still after the store's clock was set back.
    pub fn held(&self, at: Boot) -> Option<Duration> {
        let now = millis(at).saturating_add(self.offset?) - self.drifted(at);
        let ahead = self.shown?.as_millis().saturating_sub(now);
        u64::try_from(ahead).ok().filter(|ahead| *ahead > 0).map(Duration::from_millis)
    }

    /// The last time that [`ClusterTime::now`] returned.
    pub fn shown(&self) -> Option<Timestamp> {
        self.shown
    }

    /// The moment on this machine at which the cluster's time will be `at`, unless a clock is set before.
    pub fn moment_of(&self, at: Timestamp) -> Boot {
        let undrifted = at.as_millis().saturating_sub(self.offset.unwrap_or(0));
        let drifts_by = undrifted.saturating_sub(millis(self.learned_at)).max(0) / (DRIFT - 1);
        Boot(Duration::from_millis(u64::try_from(undrifted.saturating_add(drifts_by)).unwrap_or(0)))
    }

    /// How far the two clocks may have drifted apart since they were last compared.
    fn drifted(&self, at: Boot) -> i64 {
        millis(at).saturating_sub(millis(self.learned_at)).max(0) / DRIFT
    }
}

fn millis(at: Boot) -> i64 {
    i64::try_from(at.0.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn boot(millis: u64) -> Boot {
        Boot(Duration::from_millis(millis))
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    fn heard(asked: u64, answered: u64, now: i64) -> ClusterTime {
        let mut time = ClusterTime::default();
        assert_eq!(time.learn(boot(asked), boot(answered), at(now)), None);
        time
    }

    #[test]
    fn it_is_unknown_until_the_store_was_heard() {
        assert_eq!(ClusterTime::default().now(boot(5)), None);
    }

    #[test]
    fn it_is_never_ahead_of_the_store_and_late_by_the_round_trip_at_most() {
        // The store read its clock somewhere between 0 and 10.
        let mut time = heard(0, 10, 0);
        assert_eq!(time.now(boot(10)), Some(at(0)));
        assert_eq!(time.moment_of(at(5)), boot(15));
        // A quicker answer narrows it: the store was at 1,004 or later when the machine was at 1,010.
        time.learn(boot(1_009), boot(1_010), at(1_009));
        assert_eq!(time.now(boot(1_010)), Some(at(1_009)));
    }

    #[test]
    fn it_never_goes_back_but_waits_until_the_store_has_caught_up() {
        let mut time = heard(0, 0, 0);
        assert_eq!(time.now(boot(1_000)), Some(at(1_000)));
        let stepped = time.learn(boot(1_000), boot(1_000), at(-7_000));
        assert_eq!(stepped, Some(Stepped::Back(Duration::from_secs(8))));
        time.learn(boot(1_000), boot(1_000), at(-7_000));
        assert_eq!(time.held(boot(1_000)), Some(Duration::from_secs(8)));
        time.learn(boot(8_999), boot(8_999), at(999));
        assert_eq!(time.held(boot(9_000)), None, "it goes on");
        assert_eq!(time.now(boot(9_000)), Some(at(1_000)));
        assert_eq!(time.now(boot(9_001)), Some(at(1_001)));
    }

    #[test]
    fn a_long_silence_makes_it_late_and_never_early() {
        let mut time = heard(0, 0, 0);
        assert_eq!(time.now(boot(30_000)), Some(at(29_985)));
        // A slow answer says little, and takes nothing of that back.
        time.learn(boot(30_000), boot(30_100), at(29_990));
        assert_eq!(time.now(boot(30_100)), Some(at(30_074)));
    }

    #[test]
    fn the_moment_of_an_instant_is_the_first_at_which_it_shows() {
        for due in (0..20_000).step_by(7) {
            let mut time = heard(0, 0, 0);
            let moment = time.moment_of(at(due));
            assert_eq!(time.now(moment), Some(at(due)));
        }
    }

    #[test]
    fn a_leap_forward_is_followed_and_told() {
        let mut time = heard(0, 0, 0);
        let stepped = time.learn(boot(1_000), boot(1_000), at(3_601_000));
        assert_eq!(stepped, Some(Stepped::Forward(Duration::from_secs(3_600))));
        assert_eq!(time.now(boot(1_000)), Some(at(3_601_000)));
    }

    #[test]
    fn a_machine_that_runs_fast_is_held_to_the_store() {
        let mut time = heard(0, 0, 0);
        for second in 1..=1_000 {
            // Ten parts in ten thousand too fast, answers within 2 ms.
            let here = second * 1_001;
            time.learn(boot(here), boot(here + 2), at(second as i64 * 1_000 + 1));
            let ahead =
                time.now(boot(here + 2)).unwrap().as_millis() - at(second as i64 * 1_000 + 2).as_millis();
            assert!((-2..=2).contains(&ahead), "{ahead} ms ahead after {second} s");
        }
    }
}
