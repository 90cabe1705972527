//! The misfire table, written a second time: what becomes of instants that have passed.

use punctual_core::model::{Decided, Skip};
use punctual_core::policy::Misfire;
use punctual_core::policy::misfire::Policy;

const ON_TIME_MS: i64 = 5_000;

/// How many late instants, and how many missed ones, one decision lets run at most.
const RUNS_MAX: usize = 1_000;

/// What becomes of instants that have passed: the first `skipped` of them are skipped for this reason, the others run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MisfireTable {
    pub(super) skipped: usize,
    pub(super) reason: Skip,
    pub(super) runs: Vec<Decided>,
}

/// The lateness, in milliseconds, beyond which an instant is missed.
pub(super) fn threshold(misfire: &Misfire) -> i64 {
    i64::try_from(misfire.threshold.as_millis()).unwrap_or(i64::MAX).max(ON_TIME_MS)
}

/// Decides about rising instants that are not later than `now`.
pub(super) fn decide(passed: &[i64], misfire: &Misfire, now: i64) -> MisfireTable {
    let is_on_time = |at: &i64| now - at <= ON_TIME_MS;
    let is_late = |at: &i64| now - at <= threshold(misfire);
    let on_time = passed.iter().filter(|at| is_on_time(at)).count();
    let late = passed.iter().filter(|at| is_late(at)).count().saturating_sub(on_time).min(RUNS_MAX);
    let missed = passed.len() - on_time - late;
    let (caught_up, reason) = match misfire.policy {
        Policy::Skip => (0, Skip::Misfire),
        Policy::FireOnce => (missed.min(1), Skip::Coalesced),
        Policy::FireAll => (missed.min(RUNS_MAX), Skip::TooMany),
    };
    let mut runs = vec![Decided::CaughtUp; caught_up];
    runs.extend(vec![Decided::Late; late]);
    runs.extend(vec![Decided::OnTime; on_time]);
    MisfireTable { skipped: missed - caught_up, reason, runs }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(policy: Policy, threshold_s: u64, now: i64, skipped: usize, runs: &str) {
        let misfire = Misfire { policy, threshold: Duration::from_secs(threshold_s) };
        let passed: Vec<i64> = (1..=3).map(|minute| minute * 60_000).filter(|at| *at <= now).collect();
        let table = decide(&passed, &misfire, now);
        let names: Vec<&str> = table.runs.iter().map(|decided| decided.name()).collect();
        assert_eq!((table.skipped, names.join(" ").as_str()), (skipped, runs), "{misfire:?} at {now}");
    }

    #[test]
    fn the_table_says_what_the_issue_says() {
        check(Policy::Skip, 5, 210_000, 3, "");
        check(Policy::Skip, 5, 182_000, 2, "on_time");
        check(Policy::Skip, 5, 65_000, 0, "on_time");
        check(Policy::Skip, 5, 65_001, 1, "");
        check(Policy::Skip, 10, 65_001, 0, "late");
        check(Policy::Skip, 10, 70_000, 0, "late");
        check(Policy::Skip, 10, 70_001, 1, "");
        check(Policy::FireOnce, 5, 210_000, 2, "caught_up");
        check(Policy::FireAll, 5, 182_000, 0, "caught_up caught_up on_time");
        check(Policy::FireOnce, 90, 182_000, 0, "caught_up late on_time");
    }
}
