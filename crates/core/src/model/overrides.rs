//! What a run has in place of its job's.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Definition, ExclusiveKeys, Text};
use crate::policy::{Multiplier, Retry};

/// The settings of one run. What is not set here is the job's, as the job stands when it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// How long an attempt may take.
    pub timeout: Option<Duration>,
    /// How often the run is tried.
    pub retry: Option<Retry>,
    /// The keys that the run shares with others.
    pub exclusive: Option<ExclusiveKeys>,
    /// The address of the one executor that the run is meant for: the job's route is not asked.
    pub executor: Option<Text>,
}

/// What nearly every run has.
static NONE: Overrides = Overrides { timeout: None, retry: None, exclusive: None, executor: None };

impl Overrides {
    /// No setting: everything is the job's.
    pub fn none() -> &'static Overrides {
        &NONE
    }

    /// Whether everything is the job's.
    pub fn is_empty(&self) -> bool {
        *self == NONE
    }

    /// As runs keep it: nothing where nothing is set.
    pub fn kept(self) -> Option<Arc<Overrides>> {
        (!self.is_empty()).then(|| Arc::new(self))
    }

    /// How long an attempt may take.
    pub fn timeout(&self, job: &Definition) -> Duration {
        self.timeout.unwrap_or(job.timeout)
    }

    /// How often the run is tried.
    pub fn retry(&self, job: &Definition) -> Retry {
        self.retry.unwrap_or(job.retry)
    }

    /// The keys that the run shares with others.
    pub fn exclusive<'a>(&'a self, job: &'a Definition) -> &'a ExclusiveKeys {
        self.exclusive.as_ref().unwrap_or(&job.flow.exclusive)
    }

    /// Reads what [`fmt::Display`] wrote. A word that means nothing is passed over: the job's setting counts then.
    pub fn read(text: &str) -> Overrides {
        let mut overrides = Overrides::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(executor) = rest.strip_prefix(EXECUTOR) {
                overrides.executor = Some(executor.to_owned().into());
                break;
            }
            let (word, more) = rest.split_once(' ').unwrap_or((rest, ""));
            match word.split_once('=') {
                Some(("timeout", value)) => {
                    overrides.timeout = millis(value).filter(|timeout| !timeout.is_zero());
                }
                Some(("retry", value)) => overrides.retry = retry(value),
                Some(("exclusive", value)) => overrides.exclusive = exclusive(value),
                _ => {}
            }
            rest = more;
        }
        overrides
    }
}

/// Comes last, because an address may hold blanks.
const EXECUTOR: &str = "executor=";

/// In words, so that a person who looks at a row can read them:
/// `timeout=1500 retry=5/1000/2000/30000 executor=http://10.0.0.5:9999/`.
/// Durations are in milliseconds, the multiplier is in thousandths.
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut blank = "";
        if let Some(timeout) = self.timeout {
            write!(f, "timeout={}", timeout.as_millis())?;
            blank = " ";
        }
        if let Some(Retry { max_attempts, initial_delay, multiplier, max_delay }) = self.retry {
            let (first, factor, most) =
                (initial_delay.as_millis(), multiplier.per_mille(), max_delay.as_millis());
            write!(f, "{blank}retry={max_attempts}/{first}/{factor}/{most}")?;
            blank = " ";
        }
        if let Some(keys) = &self.exclusive {
            write!(f, "{blank}exclusive=")?;
            for (index, key) in keys.iter().enumerate() {
                write!(f, "{}{key}", if index == 0 { "" } else { "," })?;
            }
            blank = " ";
        }
        match &self.executor {
            Some(executor) => write!(f, "{blank}{EXECUTOR}{executor}"),
            None => Ok(()),
        }
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

/// No key at all is a setting too: the run shares nothing, whatever its job shares.
fn exclusive(value: &str) -> Option<ExclusiveKeys> {
    let keys = value.split(',').filter(|key| !key.is_empty()).map(|key| Text::Owned(key.to_owned()));
    ExclusiveKeys::new(keys).ok()
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
                for executor in
                    [None, Some("http://10.0.0.5:9999/"), Some(""), Some("native:one two/timeout=7")]
                {
                    for keys in [None, Some(vec![]), Some(vec!["source-a", "定时"])] {
                        let keys = keys.map(|keys| keys.into_iter().map(Text::Borrowed));
                        let exclusive = keys.map(|keys| ExclusiveKeys::new(keys).unwrap());
                        let executor = executor.map(Text::Borrowed);
                        let overrides = Overrides { timeout, retry, exclusive, executor };
                        assert_eq!(Overrides::read(&overrides.to_string()), overrides, "{overrides}");
                    }
                }
            }
        }
        let timeout = Some(Duration::from_millis(1_500));
        let executor = Some("http://e/".into());
        let exclusive = ExclusiveKeys::new(["b".into(), "a".into()]).ok();
        let overrides = Overrides { timeout, retry: Some(Retry::default()), exclusive, executor };
        let said = "timeout=1500 retry=3/1000/2000/30000 exclusive=a,b executor=http://e/";
        assert_eq!(overrides.to_string(), said);
    }

    #[test]
    fn what_means_nothing_is_the_jobs() {
        for text in [
            "",
            "x",
            "timeout=",
            "timeout=0",
            "timeout=-1",
            "retry=1/2/3",
            "retry=3/1/0/1",
            "retry=1/1/1000/1/1",
        ] {
            assert_eq!(Overrides::read(text), Overrides::default(), "{text}");
        }
        let overrides = Overrides::read("lane=7 timeout=20");
        let timeout = Some(Duration::from_millis(20));
        assert_eq!(overrides, Overrides { timeout, ..Overrides::default() });
    }

    #[test]
    fn nothing_is_kept_of_nothing() {
        assert_eq!(Overrides::default().kept(), None);
        let overrides = Overrides { timeout: Some(Duration::from_secs(1)), ..Overrides::default() };
        assert_eq!(overrides.clone().kept().as_deref(), Some(&overrides));
    }
}
