//! What a one-shot has of its own, in place of its job's.

use std::fmt;
use std::time::Duration;

use super::Definition;
use crate::policy::{Multiplier, Retry};

/// What a run has in place of its job's. What it has not, it takes from the job as that stands when it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// How long an attempt may take.
    pub timeout: Option<Duration>,
    /// How often it is tried.
    pub retry: Option<Retry>,
}

impl Own {
    /// Whether everything is as the job has it.
    pub fn is_nothing(&self) -> bool {
        *self == Own::default()
    }

    /// How long an attempt may take.
    pub fn timeout(&self, job: &Definition) -> Duration {
        self.timeout.unwrap_or(job.timeout)
    }

    /// How often it is tried.
    pub fn retry(&self, job: &Definition) -> Retry {
        self.retry.unwrap_or(job.retry)
    }

    /// Reads what [`fmt::Display`] wrote. A word that means nothing is passed over: the job's counts then.
    pub fn read(line: &str) -> Own {
        let mut own = Own::default();
        for (name, value) in line.split(' ').filter_map(|word| word.split_once('=')) {
            match name {
                "timeout" => own.timeout = millis(value).filter(|timeout| !timeout.is_zero()),
                "retry" => own.retry = retry(value),
                _ => {}
            }
        }
        own
    }
}

/// In words that a person can read too who looks at a row: `timeout=1500 retry=5/1000/2000/30000`. Durations are in
/// milliseconds, the multiplier is in thousandths.
impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(timeout) = self.timeout {
            write!(f, "timeout={}", timeout.as_millis())?;
        }
        let Some(Retry { max_attempts, initial_delay, multiplier, max_delay }) = self.retry else {
            return Ok(());
        };
        let (first, factor, most) =
            (initial_delay.as_millis(), multiplier.per_mille(), max_delay.as_millis());
        let blank = if self.timeout.is_some() { " " } else { "" };
        write!(f, "{blank}retry={max_attempts}/{first}/{factor}/{most}")
    }
}

fn retry(value: &str) -> Option<Retry> {
    let mut parts = value.split('/');
    let mut part = || parts.next();
    let read = Retry {
        max_attempts: part()?.parse().ok()?,
        initial_delay: millis(part()?)?,
        multiplier: Multiplier::from_per_mille(part()?.parse().ok()?).ok()?,
        max_delay: millis(part()?)?,
    };
    part().is_none().then_some(read)
}

fn millis(value: &str) -> Option<Duration> {
    value.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let retry = Retry {
            max_attempts: 10_000,
            initial_delay: Duration::ZERO,
            multiplier: Multiplier::from_per_mille(1_001).unwrap(),
            max_delay: Duration::from_secs(36_525 * 86_400),
        };
        for timeout in [None, Some(Duration::from_millis(1)), Some(Duration::from_secs(36_525 * 86_400))] {
            for retry in [None, Some(Retry::default()), Some(retry)] {
                let own = Own { timeout, retry };
                assert_eq!(Own::read(&own.to_string()), own, "{own}");
            }
        }
        let own = Own { timeout: Some(Duration::from_millis(1_500)), retry: Some(Retry::default()) };
        assert_eq!(own.to_string(), "timeout=1500 retry=3/1000/2000/30000");
    }

    #[test]
    fn what_means_nothing_is_the_jobs() {
        for line in [
            "",
            "x",
            "timeout=",
            "timeout=0",
            "timeout=-1",
            "retry=1/2/3",
            "retry=3/1/0/1",
            "retry=1/1/1000/1/1",
        ] {
            assert_eq!(Own::read(line), Own::default(), "{line}");
        }
        let own = Own::read("lane=7 timeout=20");
        assert_eq!(own, Own { timeout: Some(Duration::from_millis(20)), retry: None });
    }
}
