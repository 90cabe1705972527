//! Misfires: what becomes of the instants that passed before a node decided about them.
//!
//! The instants of a pause fall into three bands by their lateness. Up to [`GRACE`] they are on time; up to
//! the job's threshold they run at once, marked late; beyond it they are missed, and the policy decides.
//! Old instants are named by a range and never walked over, so a year of missed seconds costs no more than
//! the runs that come of it.

use std::fmt;
use std::iter;
use std::str::FromStr;
use std::time::Duration;

use calendar::{Rule, Timestamp, UnknownName};

/// Up to this lateness an instant counts as on time, whatever the job's threshold.
pub const GRACE: Duration = Duration::from_secs(5);

/// At most this many late instants, and as many missed ones, run by one decision.
pub const RUNS_MAX: usize = 1_000;

/// A job's misfire policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfire {
    /// What becomes of them.
    pub policy: Policy,
    /// The lateness beyond which an instant is missed. Less than [`GRACE`] means [`GRACE`].
    pub threshold: Duration,
}

impl Default for Misfire {
    fn default() -> Misfire {
        Misfire { policy: Policy::FireOnce, threshold: GRACE }
    }
}

/// What becomes of missed instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// None of them runs.
    Skip,
    /// The latest one runs now, in place of all of them.
    FireOnce,
    /// Each of them runs, the latest [`RUNS_MAX`] at most.
    FireAll,
}

impl Policy {
    /// Its name for people and programs outside.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Skip => "skip",
            Policy::FireOnce => "fire_once",
            Policy::FireAll => "fire_all",
        }
    }

    /// How many of the missed instants run.
    fn runs_max(self) -> usize {
        match self {
            Policy::Skip => 0,
            Policy::FireOnce => 1,
            // The latest, not the earliest: what is freshest is worth most, as with the one that `FireOnce`
            // keeps, and what is left out is then one range and never a hole between two runs.
            Policy::FireAll => RUNS_MAX,
        }
    }

    /// Why the others do not.
    fn reason(self) -> SkipReason {
        match self {
            Policy::Skip => SkipReason::Misfire,
            Policy::FireOnce => SkipReason::Coalesced,
            Policy::FireAll => SkipReason::TooMany,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Policy, UnknownName> {
        let all = [Policy::Skip, Policy::FireOnce, Policy::FireAll];
        let unknown = || UnknownName::new("policy", name, &["skip", "fire_once", "fire_all"]);
        all.into_iter().find(|policy| policy.name() == name).ok_or_else(unknown)
    }
}

/// How late an instant is for its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// Late by [`GRACE`] at most: runs as if nothing had happened.
    OnTime,
    /// Within the job's threshold: runs at once and is marked.
    Late,
    /// Beyond it: a misfire.
    Missed,
}

impl Misfire {
    /// The band of an instant that is decided `lateness` after it was due.
    pub fn judge(&self, lateness: Duration) -> Lateness {
        // The grace comes first, so a threshold below it changes nothing. A takeover costs seconds and is
        // no fault of the job; a threshold of zero would else turn every run into a misfire.
        if lateness <= GRACE {
            Lateness::OnTime
        } else if lateness <= self.threshold {
            Lateness::Late
        } else {
            Lateness::Missed
        }
    }
}

/// What becomes of every instant of a stretch of time: first the skipped ones, then those that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catchup {
    /// The instants that do not run. They are earlier than all of `runs`.
    pub skipped: Option<Skipped>,
    /// The instants that run, rising.
    pub runs: Vec<Due>,
}

/// An instant that runs now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The instant as the rule names it.
    pub at: Timestamp,
    /// The mark its run carries.
    pub mark: Mark,
}

/// How a run came to start when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Late by [`GRACE`] at most.
    OnTime,
    /// Late, but within the job's threshold.
    Late,
    /// Missed, and run because the policy asks for it.
    CaughtUp,
}

/// Neighbouring instants of a rule that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The first of them.
    pub from: Timestamp,
    /// The last of them; the same as `from` if there is one.
    pub until: Timestamp,
    /// How many there are.
    pub count: u64,
    /// Why they do not run.
    pub reason: SkipReason,
}

/// Why a missed instant does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The job skips what it missed.
    Misfire,
    /// A later missed instant runs in its place.
    Coalesced,
    /// More were missed than may be caught up with.
    TooMany,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::Misfire => "misfire",
            SkipReason::Coalesced => "coalesced",
            SkipReason::TooMany => "too many missed",
        })
    }
}

/// Decides about every instant of `rule` that is later than `after` and not later than `now`.
///
/// For a fixed delay `after` is the end of the last run, and there is one such instant at most.
///
/// No more than [`RUNS_MAX`] late instants run, however far the threshold reaches: those before them are
/// treated as missed, since a job every 10 ms with a threshold of a day would else ask for millions of runs.
pub fn decide(rule: &Rule, misfire: &Misfire, after: Timestamp, now: Timestamp) -> Catchup {
    let mut catchup = Catchup::default();
    let Some(first) = rule.next_after(after).filter(|first| *first <= now) else {
        return catchup;
    };
    let mut room = Allowance { late: RUNS_MAX, missed: misfire.policy.runs_max() };
    for at in newest_first(rule, first, now) {
        let lateness = Duration::from_millis(now.as_millis().abs_diff(at.as_millis()));
        let Some(mark) = room.take(misfire.judge(lateness)) else {
            catchup.skipped = Some(skip(rule, first, at, misfire.policy.reason()));
            break;
        };
        catchup.runs.push(Due { at, mark });
    }
    catchup.runs.reverse();
    catchup
}

/// How many more instants may run.
struct Allowance {
    late: usize,
    missed: usize,
}

impl Allowance {
    /// The mark of the next older instant, if it may run.
    fn take(&mut self, lateness: Lateness) -> Option<Mark> {
        let (left, mark) = match lateness {
            // Without limit: a rule names at most one instant in 10 ms, so the grace holds a few hundred.
            Lateness::OnTime => return Some(Mark::OnTime),
            Lateness::Late if self.late > 0 => (&mut self.late, Mark::Late),
            Lateness::Late | Lateness::Missed => (&mut self.missed, Mark::CaughtUp),
        };
        *left = left.checked_sub(1)?;
        Some(mark)
    }
}

/// The instants from `now` back to `first`.
fn newest_first(rule: &Rule, first: Timestamp, now: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
    // A fixed delay knows its next instant only, which is `first`.
    let before = move |end| rule.last_before(end).unwrap_or(first);
    let newest = before(next_milli(now));
    iter::successors(Some(newest), move |at| (*at > first).then(|| before(*at)))
}

fn skip(rule: &Rule, from: Timestamp, until: Timestamp, reason: SkipReason) -> Skipped {
    // A fixed delay counts none, although `from` is one.
    let count = rule.count(from, next_milli(until)).max(1);
    Skipped { from, until, count, reason }
}

fn next_milli(at: Timestamp) -> Timestamp {
    at.saturating_add(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::super::same_cases;
    use super::*;
    use calendar::{Cron, Dialect, Zones};
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const YEAR_S: u64 = 365 * 86_400;

    fn at(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().unwrap()
    }

    fn every(interval: Duration) -> Rule {
        Rule::every(interval, at("00:00:00")).unwrap()
    }

    fn cron(text: &str, zone: &str) -> Rule {
        let cron = Cron::parse(text, Dialect::Unix, "no seed").unwrap();
        Rule::cron(cron, Zones::bundled().get(zone).unwrap())
    }

    fn misfire(policy: Policy, threshold_s: u64) -> Misfire {
        Misfire { policy, threshold: Duration::from_secs(threshold_s) }
    }

    /// What becomes of the minutes after 10:00, written as `reason xcount from-until`, then the runs.
    fn check(misfire: Misfire, now: &str, expected: &str) {
        let catchup = decide(&every(MINUTE), &misfire, at("10:00:00"), at(now));
        let clock = |at: Timestamp| at.to_string()[14..16].to_owned();
        let mut words = Vec::new();
        if let Some(Skipped { from, until, count, reason }) = catchup.skipped {
            words.push(format!("{reason} x{count} {}-{}", clock(from), clock(until)));
        }
        words.extend(catchup.runs.iter().map(|due| format!("{:?} {}", due.mark, clock(due.at))));
        assert_eq!(words.join(", "), expected, "{misfire:?} at {now}");
    }

    #[test]
    fn lateness_falls_into_three_bands_whose_upper_ends_belong_to_them() {
        use Lateness::{Late, Missed, OnTime};
        for (threshold_ms, lateness_ms, band) in [
            (5_000, 0, OnTime),
            (5_000, 5_000, OnTime),
            (5_000, 5_001, Missed),
            (10_000, 5_000, OnTime),
            (10_000, 5_001, Late),
            (10_000, 10_000, Late),
            (10_000, 10_001, Missed),
            // Below the grace a threshold changes nothing.
            (0, 1, OnTime),
            (1_000, 5_000, OnTime),
            (1_000, 5_001, Missed),
        ] {
            let misfire = Misfire { threshold: Duration::from_millis(threshold_ms), policy: Policy::Skip };
            let judged = misfire.judge(Duration::from_millis(lateness_ms));
            assert_eq!(judged, band, "{threshold_ms} {lateness_ms}");
        }
    }

    #[test]
    fn each_policy_decides_about_the_missed_instants_only() {
        check(misfire(Policy::Skip, 5), "10:03:30", "misfire x3 01-03");
        check(misfire(Policy::Skip, 5), "10:03:02", "misfire x2 01-02, OnTime 03");
        check(misfire(Policy::Skip, 5), "10:01:06", "misfire x1 01-01");
        check(misfire(Policy::FireOnce, 5), "10:03:30", "coalesced x2 01-02, CaughtUp 03");
        check(misfire(Policy::FireOnce, 5), "10:03:02", "coalesced x1 01-01, CaughtUp 02, OnTime 03");
        check(misfire(Policy::FireOnce, 5), "10:01:06", "CaughtUp 01");
        check(misfire(Policy::FireAll, 5), "10:03:02", "CaughtUp 01, CaughtUp 02, OnTime 03");
        check(misfire(Policy::FireOnce, 90), "10:03:02", "CaughtUp 01, Late 02, OnTime 03");
    }

    #[test]
    fn an_instant_is_decided_from_its_own_millisecond_on_and_missed_only_past_the_threshold() {
        check(misfire(Policy::Skip, 5), "09:00:00", "");
        check(misfire(Policy::Skip, 5), "10:00:59.999", "");
        check(misfire(Policy::Skip, 5), "10:01:00", "OnTime 01");
        check(misfire(Policy::Skip, 60), "10:02:00", "Late 01, OnTime 02");
        check(misfire(Policy::Skip, 60), "10:02:00.001", "misfire x1 01-01, OnTime 02");
    }

    #[test]
    fn a_year_of_missed_seconds_is_one_range_and_the_latest_thousand() {
        let now = at("00:00:10");
        let after = Timestamp::from_millis(now.as_millis() - YEAR_S as i64 * 1_000);
        for rule in [every(Duration::from_secs(1)), cron("* * * * * *", "Europe/Berlin")] {
            let catchup = decide(&rule, &misfire(Policy::FireAll, 5), after, now);
            let skipped = catchup.skipped.unwrap();
            assert_eq!((skipped.count, skipped.reason), (YEAR_S - 1_006, SkipReason::TooMany));
            assert_eq!(catchup.runs.len(), RUNS_MAX + 6);
            assert_eq!(catchup.runs[0].at.as_millis(), skipped.until.as_millis() + 1_000);
            let once = decide(&rule, &misfire(Policy::FireOnce, 5), after, now);
            assert_eq!((once.skipped.unwrap().count, once.runs.len()), (YEAR_S - 7, 7));
        }
    }

    #[test]
    fn a_far_threshold_lets_a_thousand_late_ones_run_and_misses_those_before() {
        let rule = every(Duration::from_millis(10));
        let catchup = decide(&rule, &misfire(Policy::FireOnce, 86_400), at("09:00:00"), at("10:00:00"));
        let marked = |mark| catchup.runs.iter().filter(|due| due.mark == mark).count();
        assert_eq!([Mark::OnTime, Mark::Late, Mark::CaughtUp].map(marked), [501, RUNS_MAX, 1]);
        assert_eq!(catchup.skipped.unwrap().count, 360_000 - 1_502);
    }

    #[test]
    fn a_fixed_delay_misses_its_one_instant() {
        let rule = Rule::delay(MINUTE).unwrap();
        let decide = |policy, now| decide(&rule, &misfire(policy, 5), at("10:00:30"), at(now));
        assert_eq!(decide(Policy::Skip, "10:01:29"), Catchup::default());
        assert_eq!(decide(Policy::Skip, "10:01:31").runs, [Due { at: at("10:01:30"), mark: Mark::OnTime }]);
        assert_eq!(decide(Policy::Skip, "12:00:00").skipped.unwrap().count, 1);
        let caught_up = Due { at: at("10:01:30"), mark: Mark::CaughtUp };
        assert_eq!(decide(Policy::FireOnce, "12:00:00"), Catchup { skipped: None, runs: vec![caught_up] });
    }

    #[test]
    fn policies_are_read_by_the_names_they_print() {
        for name in ["skip", "fire_once", "fire_all"] {
            assert_eq!(name.parse::<Policy>().unwrap().to_string(), name);
        }
        let error = "Skip".parse::<Policy>().unwrap_err().to_string();
        assert_eq!(error, "unknown policy \"Skip\": expected skip, fire_once, fire_all");
    }

    /// The same decision by walking over every instant.
    fn walked(rule: &Rule, misfire: &Misfire, after: Timestamp, now: Timestamp) -> Catchup {
        let mut catchup = Catchup::default();
        let named: Vec<_> = rule.between(next_milli(after), next_milli(now)).collect();
        let lateness = |at: Timestamp| (now.as_millis() - at.as_millis()) as u64;
        let threshold = (misfire.threshold.as_millis() as u64).max(5_000);
        let of_grace = named.iter().filter(|at| lateness(**at) <= 5_000).count();
        let in_time = named.iter().filter(|at| lateness(**at) <= threshold).count().min(of_grace + RUNS_MAX);
        let (missed, due) = named.split_at(named.len() - in_time);
        let kept = missed.len().min(misfire.policy.runs_max());
        let (left_out, caught_up) = missed.split_at(missed.len() - kept);
        if let (Some(from), Some(until)) = (left_out.first(), left_out.last()) {
            let (count, reason) = (left_out.len() as u64, misfire.policy.reason());
            catchup.skipped = Some(Skipped { from: *from, until: *until, count, reason });
        }
        let mark = |at| if lateness(at) <= 5_000 { Mark::OnTime } else { Mark::Late };
        catchup.runs.extend(caught_up.iter().map(|at| Due { at: *at, mark: Mark::CaughtUp }));
        catchup.runs.extend(due.iter().map(|at| Due { at: *at, mark: mark(*at) }));
        catchup
    }

    fn rules() -> impl Strategy<Value = Rule> {
        let crons = ["* * * * * *", "*/7 * * * * *", "*/20 1-3 * * *", "30 2 * * *", "0 0 29 2 *"];
        let zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Etc/UTC"];
        let of_cron = (prop::sample::select(crons.to_vec()), prop::sample::select(zones.to_vec()));
        prop_oneof![
            (10..100_000_u64).prop_map(|millis| every(Duration::from_millis(millis))),
            of_cron.prop_map(|(text, zone)| cron(text, zone)),
        ]
    }

    fn misfires() -> impl Strategy<Value = Misfire> {
        let policies = prop::sample::select(vec![Policy::Skip, Policy::FireOnce, Policy::FireAll]);
        let thresholds = prop_oneof![Just(5_000), 0..20_000_u64, 0..90_000_000_u64];
        (policies, thresholds)
            .prop_map(|(policy, millis)| Misfire { policy, threshold: Duration::from_millis(millis) })
    }

    /// 1970 to 2199, and lengths of which most are short enough to walk over.
    fn windows(length_max: i64) -> impl Strategy<Value = (Timestamp, Timestamp)> {
        (0..7_258_118_400_000_i64, prop_oneof![0..60_000_i64, 0..length_max])
            .prop_map(|(from, length)| (Timestamp::from_millis(from), Timestamp::from_millis(from + length)))
    }

    proptest! {
        #![proptest_config(same_cases())]

        #[test]
        fn a_decision_is_the_one_that_walking_over_every_instant_gives(
            rule in rules(), misfire in misfires(), (after, now) in windows(7_200_000),
        ) {
            prop_assert_eq!(decide(&rule, &misfire, after, now), walked(&rule, &misfire, after, now));
        }

        #[test]
        fn every_instant_is_accounted_for_once(
            rule in rules(), misfire in misfires(), (after, now) in windows(320_000_000_000),
        ) {
            let Catchup { skipped, runs } = decide(&rule, &misfire, after, now);
            let count = skipped.map_or(0, |skipped| skipped.count) + runs.len() as u64;
            prop_assert_eq!(count, rule.count(next_milli(after), next_milli(now)));
            let skipped = skipped.into_iter().flat_map(|skipped| [skipped.from, skipped.until]);
            let told: Vec<_> = skipped.chain(runs.iter().map(|due| due.at)).collect();
            prop_assert!(told.is_sorted() && told.iter().all(|at| after < *at && *at <= now));
        }

        #[test]
        fn no_instant_and_no_threshold_overflows_it(rule in rules(), after in any::<i64>(), now in any::<i64>()) {
            let misfire = Misfire { policy: Policy::FireAll, threshold: Duration::MAX };
            decide(&rule, &misfire, Timestamp::from_millis(after), Timestamp::from_millis(now));
            decide(&rule, &misfire, Timestamp::MIN, Timestamp::MAX);
        }
    }
}
