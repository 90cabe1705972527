//! Executors that were refused a session: all are counted, and few are logged. An executor that tries again in a loop
//! would otherwise fill the log.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How often a line is written at most.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How many there were, and how many since the last line.
#[derive(Default)]
pub(super) struct Refusals(Mutex<Tally>);

#[derive(Default)]
struct Tally {
    all: u64,
    unwritten: u64,
    written_at: Option<Instant>,
}

impl Refusals {
    /// Counts a refusal. If a log line is due, returns how many refusals it stands for.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.all += 1;
        tally.unwritten += 1;
        if tally.written_at.is_some_and(|at| now.duration_since(at) < LINE_EVERY) {
            return None;
        }
        tally.written_at = Some(now);
        Some(std::mem::take(&mut tally.unwritten))
    }

    /// How many there were since the start.
    pub(super) fn all(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_line_stands_for_all_since_the_last_one() {
        let (refusals, start) = (Refusals::default(), clock::instant());
        let at = |seconds| start + Duration::from_secs(seconds);
        let lines = [0, 1, 2, 9, 10, 11, 30].map(|second| refusals.note(at(second)));
        assert_eq!(lines, [Some(1), None, None, None, Some(4), None, Some(2)]);
        assert_eq!(refusals.all(), 7);
    }
}
