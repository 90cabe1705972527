//! Jitter: a stable delay for each fire time of a job, which spreads what is due at one instant.
//!
//! The delay depends on the job and the fire time alone. So planning an instant again after a crash gives the same due
//! time, and all nodes agree about it.

use std::time::Duration;

use calendar::Timestamp;

use crate::model::JobId;

/// The delay of a fire time: from nothing up to `max`, in whole milliseconds.
pub fn delay(job: JobId, fire_time: Timestamp, max: Duration) -> Duration {
    let span = u64::try_from(max.as_millis()).unwrap_or(u64::MAX);
    match span.checked_add(1) {
        Some(choices) => Duration::from_millis(scattered(job, fire_time) % choices),
        None => Duration::ZERO,
    }
}

/// Due times are stored, so this function never changes.
fn scattered(job: JobId, fire_time: Timestamp) -> u64 {
    let seed =
        (fire_time.as_millis() as u64).wrapping_add(u64::from(job.0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bits = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::same_cases;
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_delay_of_an_instant_is_always_the_same_and_was_fixed_once_and_for_all() {
        let delays =
            [1, 2, 3].map(|job| delay(JobId(job), Timestamp::from_millis(1_800_000_000_000), MINUTE));
        assert_eq!(delays.map(|delay| delay.as_millis()), [17_854, 2_645, 57_644]);
    }

    #[test]
    fn jobs_that_are_due_together_are_spread_evenly() {
        let mut tenths = [0; 10];
        for job in 0..10_000 {
            let delay = delay(JobId(job), Timestamp::from_millis(1_800_000_000_000), MINUTE);
            tenths[(delay.as_millis() as usize * 10 / 60_001).min(9)] += 1;
        }
        assert!(tenths.iter().all(|jobs| (900..1_100).contains(jobs)), "{tenths:?}");
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn no_delay_is_longer_than_the_jitter(job: u32, at: i64, millis in 0_u64..100_000_000) {
            let max = Duration::from_millis(millis);
            prop_assert!(delay(JobId(job), Timestamp::from_millis(at), max) <= max);
        }
    }
}
