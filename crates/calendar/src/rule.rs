//! A rule names instants: cron in a zone, a fixed rate, a fixed delay, once, or never by itself.
//!
//! One type and one question, [`Rule::next_after`], whatever the kind. All answers lie in the years 1970 to
//! 2199, so that every search ends.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::civil::WALL_END;
use crate::cron::{Cron, CronKind};
use crate::place::Placement;
use crate::zone::{Gap, Overlap, Passes, Zone};
use crate::{Timestamp, Warning, warning};

/// The shortest interval of a fixed rate and of a fixed delay.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The instants that non-cron rules may name.
const NAMEABLE: Range<i64> = 0..WALL_END * 1_000;

/// A rule that names instants.
#[derive(Clone, Debug)]
pub struct Rule {
    when: RuleKind,
    /// The first and the last instant that may be named.
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) enum RuleKind {
    Cron(Box<Zoned>),
    Every { interval: i64, anchor: i64 },
    Delay { delay: i64 },
    Once { at: i64 },
    Manual,
}

/// A cron expression in its zone, with what was asked for the two odd hours.
#[derive(Clone, Debug)]
pub(crate) struct Zoned {
    pub(crate) cron: Cron,
    pub(crate) zone: Zone,
    gap: Gap,
    overlap: Overlap,
}

impl Zoned {
    pub(crate) fn placement(&self) -> Placement<'_> {
        let is_fixed = self.cron.kind() == CronKind::Fixed;
        let fires_lost = match self.gap {
            Gap::Default => is_fixed,
            Gap::Shift => true,
            Gap::Skip => false,
        };
        let passes = match self.overlap {
            Overlap::Default if is_fixed => Passes::First,
            Overlap::First => Passes::First,
            Overlap::Last => Passes::Last,
            Overlap::Default | Overlap::Both => Passes::Both,
        };
        Placement { zone: &self.zone, fires_lost, passes }
    }

    /// What becomes of it when the clocks change, in words.
    fn clock_changes(&self) -> String {
        let Placement { fires_lost, passes, .. } = self.placement();
        let gap = if fires_lost { "when the gap ends" } else { "not" };
        let overlap = match passes {
            Passes::First => "the first time",
            Passes::Last => "the last time",
            Passes::Both => "both times",
        };
        format!("a time that is jumped over fires {gap}, one that happens twice {overlap}")
    }
}

impl Rule {
    /// The instants at which the wall in `zone` shows a time that `cron` names.
    pub fn cron(cron: Cron, zone: Zone) -> Rule {
        let zoned = Zoned { cron, zone, gap: Gap::Default, overlap: Overlap::Default };
        Rule::new(RuleKind::Cron(Box::new(zoned)))
    }

    /// A fixed rate: every instant a whole number of intervals away from `anchor`, before or after it.
    pub fn every(interval: Duration, anchor: Timestamp) -> Result<Rule, RuleError> {
        let interval = whole_millis(interval)?;
        let anchor = nameable(anchor)?;
        Ok(Rule::new(RuleKind::Every { interval, anchor }))
    }

    /// A fixed delay: asked with the end of the last run, answers when the next is due.
    pub fn delay(delay: Duration) -> Result<Rule, RuleError> {
        Ok(Rule::new(RuleKind::Delay { delay: whole_millis(delay)? }))
    }

    /// One instant.
    pub fn once(at: Timestamp) -> Result<Rule, RuleError> {
        Ok(Rule::new(RuleKind::Once { at: nameable(at)? }))
    }

    /// No instant at all: runs are started by people and programs.
    pub fn manual() -> Rule {
        Rule::new(RuleKind::Manual)
    }

    fn new(when: RuleKind) -> Rule {
        Rule { when, from: None, until: None }
    }

    /// What becomes of wall times in the hour that does not exist. Only cron rules have wall times.
    #[must_use]
    pub fn with_gap(mut self, gap: Gap) -> Rule {
        if let RuleKind::Cron(zoned) = &mut self.when {
            zoned.gap = gap;
        }
        self
    }

    /// What becomes of wall times in the hour that happens twice. Only cron rules have wall times.
    #[must_use]
    pub fn with_overlap(mut self, overlap: Overlap) -> Rule {
        if let RuleKind::Cron(zoned) = &mut self.when {
            zoned.overlap = overlap;
        }
        self
    }

    /// Names nothing earlier than this.
    #[must_use]
    pub fn from(mut self, first: Timestamp) -> Rule {
        self.from = Some(first);
        self
    }

    /// Names nothing later than this.
    #[must_use]
    pub fn until(mut self, last: Timestamp) -> Rule {
        self.until = Some(last);
        self
    }

    /// The first instant named strictly later than `after`; none if there is no further one.
    ///
    /// For a fixed delay `after` is the end of the last run.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let next = match (&self.when, self.from) {
            // The delay counts from the end of the run, not from the bound.
            (RuleKind::Delay { .. }, Some(first)) => self.when.first_after(after)?.max(first),
            (when, Some(first)) if after < first => when.first_from(first.as_millis())?,
            (when, _) => when.first_after(after)?,
        };
        self.until.is_none_or(|last| next <= last).then_some(next)
    }

    /// The last instant named strictly earlier than `before`. A fixed delay does not know its past.
    pub fn last_before(&self, before: Timestamp) -> Option<Timestamp> {
        let after_last = self.until.map_or(i64::MAX, |last| last.as_millis().saturating_add(1));
        let before = before.as_millis().min(after_last);
        let last = self.when.last_upto(before.checked_sub(1)?)?;
        self.from.is_none_or(|first| first <= last).then_some(last)
    }

    /// The instants named from `from` on and before `to`, rising. A fixed delay names none by itself.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        let is_delay = matches!(self.when, RuleKind::Delay { .. });
        let mut after = (!is_delay).then(|| Timestamp::from_millis(from.as_millis().saturating_sub(1)));
        std::iter::from_fn(move || {
            after = self.next_after(after?).filter(|next| *next < to);
            after
        })
    }

    /// How many instants [`Rule::between`] would give, without walking over them.
    pub fn count(&self, from: Timestamp, to: Timestamp) -> u64 {
        let start = self.from.map_or(from, |first| first.max(from)).as_millis();
        let end =
            self.until.map_or(to.as_millis(), |last| last.as_millis().saturating_add(1).min(to.as_millis()));
        self.when.count(start..end)
    }

    /// Whether it names no instant later than `after`.
    pub fn is_over_after(&self, after: Timestamp) -> bool {
        self.next_after(after).is_none()
    }

    /// The rule in plain English.
    pub fn describe(&self) -> String {
        let mut words = self.when.describe();
        if let Some(first) = self.from {
            words.push_str(&format!(", from {first}"));
        }
        if let Some(last) = self.until {
            words.push_str(&format!(", until {last}"));
        }
        words
    }

    /// What becomes of a cron rule when the clocks change, in plain English; other rules do not care.
    pub fn describe_clock_changes(&self) -> Option<String> {
        match &self.when {
            RuleKind::Cron(zoned) => Some(zoned.clock_changes()),
            _ => None,
        }
    }

    /// What its author may not have meant, seen from `now`.
    pub fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        warning::of(self, now)
    }

    pub(crate) fn when(&self) -> &RuleKind {
        &self.when
    }

    /// The instants that the bounds leave open.
    pub(crate) fn bounds(&self) -> (Timestamp, Timestamp) {
        (self.from.unwrap_or(Timestamp::MIN), self.until.unwrap_or(Timestamp::MAX))
    }
}

impl RuleKind {
    fn first_after(&self, after: Timestamp) -> Option<Timestamp> {
        self.first_from(after.as_millis().checked_add(1)?)
    }

    /// The first instant at or after `from`; for a delay, the end of the last run is the millisecond before.
    fn first_from(&self, from: i64) -> Option<Timestamp> {
        let found = match self {
            RuleKind::Cron(zoned) => {
                let second = Timestamp::from_millis(from).second_ceil();
                return zoned.placement().first_from(&zoned.cron, second).map(Timestamp::from_seconds);
            }
            RuleKind::Every { interval, anchor } => {
                let from = from.max(NAMEABLE.start);
                from.checked_add((anchor - from.min(NAMEABLE.end)).rem_euclid(*interval))
            }
            RuleKind::Delay { delay } => (from - 1).max(NAMEABLE.start).checked_add(*delay),
            RuleKind::Once { at } => (*at >= from).then_some(*at),
            RuleKind::Manual => None,
        };
        found.filter(|at| NAMEABLE.contains(at)).map(Timestamp::from_millis)
    }

    fn last_upto(&self, upto: i64) -> Option<Timestamp> {
        let found = match self {
            RuleKind::Cron(zoned) => {
                let second = Timestamp::from_millis(upto).second_floor();
                return zoned.placement().last_upto(&zoned.cron, second).map(Timestamp::from_seconds);
            }
            RuleKind::Every { interval, anchor } => {
                let upto = upto.clamp(NAMEABLE.start - 1, NAMEABLE.end - 1);
                Some(upto - (upto - anchor).rem_euclid(*interval))
            }
            RuleKind::Once { at } => (*at <= upto).then_some(*at),
            RuleKind::Delay { .. } | RuleKind::Manual => None,
        };
        found.filter(|at| NAMEABLE.contains(at)).map(Timestamp::from_millis)
    }

    fn count(&self, millis: Range<i64>) -> u64 {
        match self {
            RuleKind::Cron(zoned) => {
                let seconds = |at| Timestamp::from_millis(at).second_ceil();
                zoned.placement().count(&zoned.cron, seconds(millis.start)..seconds(millis.end))
            }
            RuleKind::Every { interval, anchor } => {
                let (start, end) = (millis.start.max(NAMEABLE.start), millis.end.min(NAMEABLE.end));
                let steps_before = |at: i64| (at - 1 - anchor).div_euclid(*interval);
                if start < end { (steps_before(end) - steps_before(start)) as u64 } else { 0 }
            }
            RuleKind::Once { at } => u64::from(millis.contains(at)),
            RuleKind::Delay { .. } | RuleKind::Manual => 0,
        }
    }

    fn describe(&self) -> String {
        let length = |millis: &i64| Length(*millis);
        match self {
            RuleKind::Cron(zoned) => format!("{}, {} time", zoned.cron.describe(), zoned.zone.name()),
            RuleKind::Every { interval, anchor } => {
                format!("every {}, counted from {}", length(interval), Timestamp::from_millis(*anchor))
            }
            RuleKind::Delay { delay } => format!("{} after the end of the last run", length(delay)),
            RuleKind::Once { at } => format!("once, at {}", Timestamp::from_millis(*at)),
            RuleKind::Manual => "only when started by hand or by a program".into(),
        }
    }
}

/// A length of time as people write it: `1h30m`.
struct Length(i64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
        let mut rest = self.0;
        for (unit, millis) in units {
            if rest >= millis {
                write!(f, "{}{unit}", rest / millis)?;
                rest %= millis;
            }
        }
        Ok(())
    }
}

/// Why a rule cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The interval is shorter than 10 ms, longer than the years that rules can name, or finer than 1 ms.
    Interval(Duration),
    /// The instant lies outside the years that rules can name.
    Instant(Timestamp),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Interval(interval) => {
                write!(f, "an interval of {interval:?}: expected whole milliseconds, from 10 ms to 230 years")
            }
            RuleError::Instant(at) => write!(f, "{at} is outside the years 1970 to 2199"),
        }
    }
}

impl std::error::Error for RuleError {}

fn whole_millis(interval: Duration) -> Result<i64, RuleError> {
    let is_whole = interval.subsec_nanos().is_multiple_of(1_000_000);
    let millis = i64::try_from(interval.as_millis()).ok().filter(|millis| NAMEABLE.contains(millis));
    millis.filter(|_| is_whole && interval >= SHORTEST_INTERVAL).ok_or(RuleError::Interval(interval))
}

fn nameable(at: Timestamp) -> Result<i64, RuleError> {
    NAMEABLE.contains(&at.as_millis()).then_some(at.as_millis()).ok_or(RuleError::Instant(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(rule: &Rule, after: &str) -> Option<String> {
        rule.next_after(at(after)).map(|next| next.to_string())
    }

    #[test]
    fn a_fixed_rate_keeps_its_anchor_whenever_it_is_asked() {
        let rule = Rule::every(Duration::from_secs(90), at("2026-01-01T00:00:10Z")).unwrap();
        assert_eq!(next(&rule, "2026-01-01T00:00:10Z").unwrap(), "2026-01-01T00:01:40Z");
        assert_eq!(next(&rule, "2026-01-01T00:00:09.999Z").unwrap(), "2026-01-01T00:00:10Z");
        // Before the anchor the same grid goes on.
        assert_eq!(next(&rule, "2025-12-31T23:58:00Z").unwrap(), "2025-12-31T23:58:40Z");
        assert_eq!(rule.last_before(at("2026-01-01T00:01:40Z")), Some(at("2026-01-01T00:00:10Z")));
        assert_eq!(rule.count(at("2026-01-01T00:00:10Z"), at("2026-01-01T00:03:10Z")), 2);
    }

    #[test]
    fn a_fixed_delay_counts_from_the_end_of_the_last_run() {
        let rule = Rule::delay(Duration::from_secs(30)).unwrap();
        assert_eq!(next(&rule, "2026-01-01T00:00:00.250Z").unwrap(), "2026-01-01T00:00:30.250Z");
        assert_eq!(rule.last_before(at("2026-01-01T00:00:00Z")), None);
        assert_eq!(rule.between(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")).count(), 0);
        let bounded = rule.from(at("2026-01-01T12:00:00Z")).until(at("2026-01-01T13:00:00Z"));
        assert_eq!(next(&bounded, "2026-01-01T11:00:00Z").unwrap(), "2026-01-01T12:00:00Z");
        assert_eq!(next(&bounded, "2026-01-01T11:59:50Z").unwrap(), "2026-01-01T12:00:20Z");
        assert_eq!(next(&bounded, "2026-01-01T12:59:31Z"), None);
    }

    #[test]
    fn once_is_named_once_and_manual_never() {
        let rule = Rule::once(at("2026-01-01T00:00:00.5Z")).unwrap();
        assert_eq!(next(&rule, "1970-01-01T00:00:00Z").unwrap(), "2026-01-01T00:00:00.500Z");
        assert_eq!(next(&rule, "2026-01-01T00:00:00.5Z"), None);
        assert_eq!(rule.last_before(at("2026-01-01T00:00:00.501Z")), Some(at("2026-01-01T00:00:00.5Z")));
        assert!(Rule::manual().is_over_after(Timestamp::MIN));
    }

    #[test]
    fn both_bounds_are_included() {
        let rule = Rule::every(Duration::from_secs(60), at("2026-01-01T00:00:00Z"))
            .unwrap()
            .from(at("2026-01-01T00:01:00Z"))
            .until(at("2026-01-01T00:03:00Z"));
        let named: Vec<_> = rule.between(Timestamp::MIN, Timestamp::MAX).map(|at| at.to_string()).collect();
        assert_eq!(named, ["2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"]);
        assert_eq!(rule.count(Timestamp::MIN, Timestamp::MAX), 3);
        assert_eq!(rule.last_before(Timestamp::MAX), Some(at("2026-01-01T00:03:00Z")));
        assert_eq!(rule.last_before(at("2026-01-01T00:01:00Z")), None);
    }

    #[test]
    fn absurd_intervals_and_instants_are_refused() {
        let anchor = at("2026-01-01T00:00:00Z");
        for interval in
            [Duration::ZERO, Duration::from_millis(9), Duration::from_micros(10_500), Duration::MAX]
        {
            assert_eq!(Rule::every(interval, anchor).unwrap_err(), RuleError::Interval(interval));
            assert_eq!(Rule::delay(interval).unwrap_err(), RuleError::Interval(interval));
        }
        assert!(Rule::once(at("2200-01-01T00:00:00Z")).is_err());
        assert!(Rule::every(Duration::from_secs(1), Timestamp::MAX).is_err());
    }

    #[test]
    fn no_instant_overflows_any_rule() {
        let anchor = at("2199-12-31T23:59:59Z");
        let extremes = [Timestamp::MIN, Timestamp::from_millis(-1), Timestamp::MAX];
        let rules = [
            Rule::every(Duration::from_millis(10), anchor).unwrap(),
            Rule::every(Duration::from_secs(200 * 31_557_600), anchor).unwrap(),
            Rule::delay(Duration::from_secs(1)).unwrap(),
            Rule::once(anchor).unwrap(),
            Rule::manual(),
        ];
        for rule in rules {
            for from in extremes {
                assert!(rule.next_after(from).is_none_or(|next| next > from));
                assert!(rule.last_before(from).is_none_or(|last| last < from));
                for to in extremes {
                    rule.count(from, to);
                }
            }
        }
    }
}
