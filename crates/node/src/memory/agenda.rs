//! The agenda: when each kind of work was last done, and until when some of it rests.

use std::collections::BTreeMap;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::Text;

use crate::ports::Boot;
use crate::retention::Thinning;
use crate::step::Slowness;

/// The work of a node that fails whenever it is tried, by step. A step that succeeds once, or is not tried again, is no longer
/// listed.
#[derive(Debug, Default)]
pub(crate) struct FailingWork(BTreeMap<&'static str, Failing>);

#[derive(Debug)]
struct Failing {
    since: Boot,
    last: Boot,
    reason: Text,
}

impl FailingWork {
    pub(crate) fn failed(&mut self, step: &'static str, boot: Boot, reason: Text) {
        let since = self.0.get(step).map_or(boot, |failing| failing.since);
        self.0.insert(step, Failing { since, last: boot, reason });
    }

    pub(crate) fn worked(&mut self, step: &'static str) {
        self.0.remove(step);
    }

    /// The step among these that has failed for at least `span` and was tried within the last one, and why.
    pub(crate) fn longest(
        &self,
        steps: &[&'static str],
        boot: Boot,
        span: Duration,
    ) -> Option<(&'static str, Text)> {
        let is_stuck =
            |failing: &Failing| failing.last.since(failing.since) >= span && boot.since(failing.last) <= span;
        let stuck = self.0.iter().filter(|(step, failing)| steps.contains(step) && is_stuck(failing));
        stuck.min_by_key(|(_, failing)| failing.since).map(|(step, failing)| (*step, failing.reason.clone()))
    }
}

/// Moments that steps go by.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Until then the store is left alone.
    pub(crate) paused_until: Boot,
    /// How often in a row the store did not do what it was asked.
    pub(crate) failures: u32,
    pub(crate) failing: FailingWork,
    pub(crate) slowness: Slowness,
    /// Until then nothing is fired.
    pub(crate) held_until: Boot,
    /// Every fire time up to here was planned: all jobs of all shards we hold were looked at.
    pub(crate) planned_through: Timestamp,
    /// Whether the last round of firing left something that is due.
    pub(crate) has_more_due: bool,
    /// Until when reports wait, for sends to go first.
    pub(crate) settles_by: Option<Boot>,
    /// Whether tending comes again soon, to write down what is on its way without a gate.
    pub(crate) tends_soon: bool,
    pub(crate) swept_at: Option<Boot>,
    pub(crate) pruned_at: Option<Boot>,
    /// Days that are looked through for runs that are old.
    pub(crate) thinning: Thinning,
    /// When the registry was last read from the store.
    pub(crate) looked_at: Option<Boot>,
    /// When the store was last told of the executors that have a session here.
    pub(crate) beaten_at: Option<Boot>,
    /// When the store was last cleared of executors that are gone.
    pub(crate) buried_at: Option<Boot>,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            paused_until: Boot::default(),
            failures: 0,
            failing: FailingWork::default(),
            slowness: Slowness::default(),
            held_until: Boot::default(),
            planned_through: Timestamp::MIN,
            has_more_due: false,
            settles_by: None,
            tends_soon: false,
            swept_at: None,
            pruned_at: None,
            thinning: Thinning::default(),
            looked_at: None,
            beaten_at: None,
            buried_at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(8);

    fn at(seconds: u64) -> Boot {
        Boot(Duration::from_secs(seconds))
    }

    #[test]
    fn work_that_fails_whenever_it_is_tried_is_named_after_a_while_and_until_it_works() {
        let mut failing = FailingWork::default();
        let stuck = |failing: &FailingWork, second| failing.longest(&["plan", "accept"], at(second), SPAN);
        for second in 0..8 {
            failing.failed("plan", at(second), "permission denied".into());
            failing.failed("watch", at(second), "permission denied".into());
            assert_eq!(stuck(&failing, second), None);
        }
        failing.failed("plan", at(8), "disk full".into());
        failing.failed("watch", at(8), "permission denied".into());
        assert_eq!(stuck(&failing, 8), Some(("plan", "disk full".into())));
        failing.worked("plan");
        assert_eq!(stuck(&failing, 8), None, "what is left keeps nobody from running");
        failing.failed("plan", at(9), "disk full".into());
        assert_eq!(stuck(&failing, 9), None, "it counts anew");
    }

    #[test]
    fn work_that_nobody_asks_for_any_more_is_not_held_against_the_node() {
        let mut failing = FailingWork::default();
        failing.failed("accept", at(0), "disk full".into());
        failing.failed("accept", at(10), "disk full".into());
        assert!(failing.longest(&["accept"], at(11), SPAN).is_some());
        assert!(failing.longest(&["accept"], at(30), SPAN).is_none());
    }
}
