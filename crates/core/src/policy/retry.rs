//! Retries: how long a failed attempt waits for the next one, and when there is none.
//!
//! The arithmetic is in whole nanoseconds and thousandths, so that every machine waits equally long.

use std::fmt;
use std::time::Duration;

/// A target may ask for a longer wait than the policy's, but for no longer than this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// The most that jitter adds: a fifth of the wait.
const JITTER_SHARE: u128 = 5;

/// How often a run is tried, and how long it waits in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first one included; 0 is the same as 1.
    pub max_attempts: u32,
    /// The wait before the second attempt.
    pub initial_delay: Duration,
    /// How many times longer each further wait is.
    pub multiplier: Multiplier,
    /// No wait is longer, before jitter.
    pub max_delay: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            max_attempts: 3,
            initial_delay: Duration::from_secs(1),
            multiplier: Multiplier { per_mille: 2_000 },
            max_delay: Duration::from_secs(30),
        }
    }
}

impl Retry {
    /// How long to wait after `attempt` (from 1) failed; none to give up.
    ///
    /// `jitter` is any number, the more random the better: 0 adds nothing, `u16::MAX` adds a fifth. It comes
    /// on top of `max_delay`, else all that has reached the cap would come back at the same moment.
    pub fn delay_after(&self, attempt: u32, jitter: u16) -> Option<Duration> {
        self.delay_after_told(attempt, Duration::ZERO, jitter)
    }

    /// The same for a target that sent `Retry-After`: it makes the wait longer, up to [`RETRY_AFTER_MAX`], and never
    /// shorter. Jitter is added to it too, because many callers may have been sent the same value.
    pub fn delay_after_told(&self, attempt: u32, retry_after: Duration, jitter: u16) -> Option<Duration> {
        let has_further = attempt < self.max_attempts;
        has_further.then(|| with_jitter(self.backoff(attempt).max(retry_after.min(RETRY_AFTER_MAX)), jitter))
    }

    /// `initial_delay × multiplier^(attempt − 1)`, at most `max_delay`.
    fn backoff(&self, attempt: u32) -> Duration {
        let limit = self.max_delay.as_nanos();
        let mut delay = self.initial_delay.as_nanos().min(limit);
        for _ in 1..attempt {
            // No overflow: the longest duration times the largest factor is below 2^115.
            let longer = (delay * u128::from(self.multiplier.per_mille) / 1_000).min(limit);
            // At the limit, or not growing: four billion more rounds would change nothing.
            if longer == delay {
                break;
            }
            delay = longer;
        }
        from_nanos(delay)
    }
}

fn with_jitter(delay: Duration, jitter: u16) -> Duration {
    // Divided before it is multiplied, so that the longest duration does not overflow.
    let most = delay.as_nanos() / JITTER_SHARE;
    delay.saturating_add(from_nanos(most * u128::from(jitter) / u128::from(u16::MAX)))
}

fn from_nanos(nanos: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    let whole = u64::try_from(nanos / SECOND).unwrap_or(u64::MAX);
    Duration::new(whole, (nanos % SECOND) as u32)
}

/// A factor from 1 to 1,000, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Multiplier {
    per_mille: u32,
}

impl Multiplier {
    const PER_MILLE_MAX: u32 = 1_000_000;

    /// A factor given in thousandths, if it is between 1 and 1,000.
    pub fn from_per_mille(per_mille: u32) -> Result<Multiplier, MultiplierError> {
        // A factor below 1 would hammer a target the harder the longer it fails.
        let is_factor = (1_000..=Multiplier::PER_MILLE_MAX).contains(&per_mille);
        is_factor.then_some(Multiplier { per_mille }).ok_or(MultiplierError)
    }

    /// The factor in thousandths.
    pub fn per_mille(self) -> u32 {
        self.per_mille
    }

    /// The factor as the API shows it.
    pub fn as_f64(self) -> f64 {
        f64::from(self.per_mille) / 1_000.0
    }
}

impl TryFrom<f64> for Multiplier {
    type Error = MultiplierError;

    /// Rounds to the nearest thousandth.
    fn try_from(factor: f64) -> Result<Multiplier, MultiplierError> {
        // The cast saturates, and makes 0 of what is no number: neither is a factor.
        Multiplier::from_per_mille((factor * 1_000.0).round() as u32)
    }
}

/// A number that is no factor for waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiplierError;

impl fmt::Display for MultiplierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a multiplier: expected a number from 1 to 1000")
    }
}

impl std::error::Error for MultiplierError {}

#[cfg(test)]
mod tests {
    use super::super::same_cases;
    use super::*;
    use proptest::prelude::*;

    fn retry(max_attempts: u32, initial_ms: u64, multiplier: f64, max_ms: u64) -> Retry {
        Retry {
            max_attempts,
            initial_delay: Duration::from_millis(initial_ms),
            multiplier: Multiplier::try_from(multiplier).unwrap(),
            max_delay: Duration::from_millis(max_ms),
        }
    }

    /// The waits between all attempts, in milliseconds.
    fn waits(retry: Retry) -> Vec<u128> {
        let wait = |attempt| retry.delay_after(attempt, 0).map(|delay| delay.as_millis());
        (1..).map_while(wait).collect()
    }

    #[test]
    fn waits_grow_by_the_factor_up_to_the_cap_and_end_with_the_last_attempt() {
        assert_eq!(waits(Retry::default()), [1_000, 2_000]);
        assert_eq!(waits(retry(8, 1_000, 2.0, 30_000)), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        assert_eq!(waits(retry(5, 1_000, 1.5, 60_000)), [1_000, 1_500, 2_250, 3_375]);
        assert_eq!(waits(retry(4, 700, 1.0, 60_000)), [700, 700, 700]);
        assert_eq!(waits(retry(3, 60_000, 2.0, 500)), [500, 500]);
        assert_eq!(waits(retry(1, 1_000, 2.0, 30_000)), []);
        assert_eq!(waits(retry(0, 1_000, 2.0, 30_000)), []);
    }

    #[test]
    fn jitter_adds_up_to_a_fifth_and_takes_nothing_away() {
        let jittered = |jitter| retry(9, 1_000, 2.0, 1_000).delay_after(5, jitter).unwrap();
        assert_eq!(jittered(0), Duration::from_millis(1_000));
        assert_eq!(jittered(u16::MAX), Duration::from_millis(1_200));
        assert_eq!(jittered(u16::MAX / 5), Duration::from_millis(1_040));
    }

    #[test]
    fn a_target_can_lengthen_the_wait_within_a_limit_but_not_shorten_it_or_add_attempts() {
        let told = |seconds| Retry::default().delay_after_told(2, Duration::from_secs(seconds), 0).unwrap();
        assert_eq!([0, 1, 2, 120, 3_600, u64::MAX].map(|s| told(s).as_secs()), [2, 2, 2, 120, 3_600, 3_600]);
        assert_eq!(Retry::default().delay_after_told(3, Duration::from_secs(1), 0), None);
        let patient = retry(2, 7_200_000, 1.0, 7_200_000);
        assert_eq!(patient.delay_after_told(1, Duration::MAX, 0), Some(Duration::from_secs(7_200)));
    }

    #[test]
    fn a_multiplier_is_kept_in_thousandths_and_absurd_ones_are_refused() {
        for (factor, kept) in [(1.0, 1.0), (1.5, 1.5), (1.2346, 1.235), (1_000.0, 1_000.0)] {
            assert_eq!(Multiplier::try_from(factor).unwrap().as_f64(), kept);
        }
        for absurd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0, 0.0, 0.9, 1_000.1, f64::MAX] {
            assert!(Multiplier::try_from(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn four_billion_attempts_are_answered_at_once() {
        let smallest_growth =
            Retry { initial_delay: Duration::from_nanos(1), ..retry(u32::MAX, 0, 1.001, 9) };
        assert_eq!(smallest_growth.delay_after(u32::MAX - 1, 0), Some(Duration::from_nanos(1)));
        assert_eq!(retry(u32::MAX, 1, 1.0, 9).delay_after(u32::MAX - 1, 0), Some(Duration::from_millis(1)));
    }

    fn lengths() -> impl Strategy<Value = Duration> {
        let any_length = (any::<u64>(), 0..1_000_000_000_u32);
        prop_oneof![
            Just(Duration::MAX),
            Just(Duration::ZERO),
            any_length.prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
            (0..100_000_u64).prop_map(Duration::from_millis),
        ]
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn whatever_is_asked_waits_never_shrink_and_stay_under_the_cap_and_a_fifth(
            initial_delay in lengths(), max_delay in lengths(), per_mille in 1_000..=1_000_000_u32,
            attempt in any::<u32>(), max_attempts in any::<u32>(), jitter in any::<u16>(),
        ) {
            let multiplier = Multiplier::from_per_mille(per_mille).unwrap();
            let retry = Retry { max_attempts, initial_delay, multiplier, max_delay };
            let delay = retry.delay_after(attempt, jitter);
            prop_assert_eq!(delay.is_some(), attempt < max_attempts);
            if let Some(delay) = delay {
                prop_assert!(delay >= initial_delay.min(max_delay));
                prop_assert!(delay <= max_delay.saturating_add(max_delay / 5));
                let next = retry.delay_after(attempt.saturating_add(1), jitter);
                prop_assert!(next.is_none_or(|next| next >= delay));
            }
        }
    }
}
