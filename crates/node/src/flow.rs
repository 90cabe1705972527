//! How fast what is due goes out.

use std::time::Duration;

use crate::ports::Boot;

/// How fast the queue of what is due empties. Only time in which something waits in it counts: a second in which nothing
/// was due says nothing about how many could have gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    /// How many left it in the last full second; none if that is not known.
    a_second: Option<usize>,
    since: Boot,
    count: usize,
}

impl Flow {
    pub(crate) fn starting(since: Boot) -> Flow {
        Flow { a_second: None, since, count: 0 }
    }

    /// So many left now, and whether others are still waiting.
    pub(crate) fn note(&mut self, boot: Boot, count: usize, is_waiting: bool) {
        let second = Duration::from_secs(1);
        let passed = boot.since(self.since);
        self.count += count;
        // When nobody was there to count for long, nothing is known either.
        if !is_waiting || passed >= second * 2 {
            *self = Flow::starting(boot);
        } else if passed >= second {
            *self = Flow { a_second: Some(self.count), since: boot, count: 0 };
        }
    }

    /// Whether so many leave within two seconds, as far as is known.
    pub(crate) fn takes(&self, many: usize) -> bool {
        self.a_second.is_none_or(|a_second| a_second >= many / 2)
    }

    /// When it can be told anew.
    pub(crate) fn next_look(&self) -> Boot {
        self.since.plus(Duration::from_secs(1))
    }
}
