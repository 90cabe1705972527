//! A budget for log lines: lines that callers can cause as often as they like must not fill a disk.
//!
//! Each place in the code may write a limited number of lines a minute. Debug and trace lines are not counted,
//! because only an operator can turn them on. The number of dropped lines is logged once a minute. Lines about
//! events have budgets of their own, by kind and app (`operators.rs`), and do not count here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_node::ports::{Boot, Clock};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use crate::clock::Machine;

/// The most lines of one place in a window.
const LINES_MAX: u32 = 20;

/// The length of a window.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);

/// The target of operators' events, which have their own budgets.
const BUDGETED_ELSEWHERE: &str = "punctual::operators";

/// A place in the code: its module and line.
type CallSite = (String, u32);

/// The lines that each place has written in its current window.
#[derive(Clone, Default)]
pub(crate) struct LineBudget {
    places: Arc<Mutex<BTreeMap<CallSite, Spent>>>,
}

struct Spent {
    since: Boot,
    lines: u32,
    left_out: u64,
}

impl LineBudget {
    /// Whether a place may write one more line.
    fn admits(&self, place: CallSite, now: Boot) -> bool {
        let mut places = self.places();
        let spent = places.entry(place).or_insert(Spent { since: now, lines: 0, left_out: 0 });
        if now.since(spent.since) >= WINDOW {
            (spent.since, spent.lines) = (now, 0);
        }
        let admits = spent.lines < LINES_MAX;
        if admits {
            spent.lines += 1
        } else {
            spent.left_out += 1
        }
        admits
    }

    /// The lines that were dropped since the last call, by place.
    fn take_left_out(&self) -> Vec<(CallSite, u64)> {
        let mut places = self.places();
        let left_out = places.iter_mut().filter(|(_, spent)| spent.left_out > 0);
        left_out.map(|(place, spent)| (place.clone(), std::mem::take(&mut spent.left_out))).collect()
    }

    /// Logs how many lines were dropped since the last call.
    pub(crate) fn tell(&self) {
        for ((module, line), left_out) in self.take_left_out() {
            tracing::warn!(
                left_out,
                module,
                line,
                "a place in the code wrote too many lines; some were left out"
            );
        }
    }

    fn places(&self) -> MutexGuard<'_, BTreeMap<CallSite, Spent>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Filter<S> for LineBudget {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let module = metadata.module_path().unwrap_or_default();
        // Levels are ordered by verbosity.
        if *metadata.level() > Level::INFO || module == BUDGETED_ELSEWHERE {
            return true;
        }
        self.admits((module.to_owned(), metadata.line().unwrap_or_default()), Machine.boot())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Boot {
        Boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_place_writes_its_lines_and_says_later_how_many_were_left_out() {
        let budget = LineBudget::default();
        let written = |line: u32, times: usize, now: Boot| {
            (0..times).filter(|_| budget.admits(("api".into(), line), now)).count()
        };
        assert_eq!(written(7, 1_000, second(1)), LINES_MAX as usize);
        assert_eq!(written(8, 3, second(1)), 3, "another place has a budget of its own");
        assert_eq!(budget.take_left_out(), [(("api".to_owned(), 7), 1_000 - u64::from(LINES_MAX))]);
        assert_eq!(budget.take_left_out(), []);
        assert_eq!(written(7, 5, second(60)), 0);
        assert_eq!(written(7, 1_000, second(61)), LINES_MAX as usize);
    }
}
