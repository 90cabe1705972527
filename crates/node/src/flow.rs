//! How fast due runs go out.

use std::time::Duration;

use crate::ports::Boot;

/// How fast the due queue empties. Only time in which a run waits in it counts: a second in which nothing was due says
/// nothing about how many runs could have gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// How many runs left it in the last full second; none if that is not known.
    a_second: Option<usize>,
    since: Boot,
    count: usize,
}

impl Flow {
    pub(crate) fn starting(since: Boot) -> Flow {
        Flow { a_second: None, since, count: 0 }
    }

    /// Notes how many runs left now, and whether others are still waiting.
    pub(crate) fn note(&mut self, boot: Boot, count: usize, is_waiting: bool) {
        let second = Duration::from_secs(1);
        let passed = boot.since(self.since);
        self.count += count;
        // After a long time without a count the rate is not known either.
        if !is_waiting || passed >= second * 2 {
            *self = Flow::starting(boot);
        } else if passed >= second {
            *self = Flow { a_second: Some(self.count), since: boot, count: 0 };
        }
    }

    /// Whether this many runs leave within two seconds, as far as is known.
    pub(crate) fn takes(&self, many: usize) -> bool {
        self.a_second.is_none_or(|a_second| a_second >= many / 2)
    }

    /// When the rate can be told anew.
    pub(crate) fn next_look(&self) -> Boot {
        self.since.plus(Duration::from_secs(1))
    }
}
