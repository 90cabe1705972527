//! What the author of a rule may not have meant.

use std::fmt;
use std::time::Duration;

use crate::Timestamp;
use crate::cron::{Cron, Dialect};
use crate::place::Walls;
use crate::rule::{Rule, RuleKind, Zoned};
use crate::zone::wall_text;

/// How far ahead clock changes are looked at: each zone changes within a year, if at all.
const LOOK_AHEAD: Duration = Duration::from_secs(400 * 86_400);

/// Something that a rule does and its author may not expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// It names no instant, neither before nor after now.
    NeverFires,
    /// It names no instant from now on.
    NeverFiresAgain,
    /// It names a wall time that the next clock change jumps over.
    FiresInGap {
        /// The wall time that will not be shown, such as `2026-03-29 02:30:00`.
        wall: String,
        /// The zone whose clocks jump.
        zone: &'static str,
        /// When it fires instead, or nothing if it is skipped.
        instead: Option<Timestamp>,
    },
    /// It fires more than once a second.
    FasterThanASecond,
    /// The same text names other instants in the other dialect.
    DiffersBetweenDialects {
        /// What the text says in the dialect it was not read in.
        other: Dialect,
        /// That, in plain English.
        meaning: String,
    },
    /// Other implementations read a part of the text otherwise.
    ReadOtherwiseElsewhere(&'static str),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::NeverFires => write!(f, "never fires"),
            Warning::NeverFiresAgain => write!(f, "never fires again"),
            Warning::FiresInGap { wall, zone, instead: Some(at) } => {
                write!(f, "{wall} does not exist in {zone} (the clocks jump over it): fires at {at} instead")
            }
            Warning::FiresInGap { wall, zone, instead: None } => {
                write!(f, "{wall} does not exist in {zone} (the clocks jump over it): does not fire then")
            }
            Warning::FasterThanASecond => write!(f, "fires more than once a second"),
            Warning::DiffersBetweenDialects { other, meaning } => {
                write!(f, "in the {other} dialect this text means: {meaning}")
            }
            Warning::ReadOtherwiseElsewhere(what) => f.write_str(what),
        }
    }
}

pub(crate) fn of(rule: &Rule, now: Timestamp) -> Vec<Warning> {
    let mut warnings = Vec::new();
    match rule.when() {
        RuleKind::Cron(zoned) => {
            warnings.extend(never(rule, now));
            warnings.extend(in_gap(rule, zoned, now));
            warnings.extend(other_dialect(&zoned.cron));
            warnings.extend(elsewhere(&zoned.cron).map(Warning::ReadOtherwiseElsewhere));
        }
        RuleKind::Every { interval, .. } => {
            warnings.extend(never(rule, now));
            warnings.extend((*interval < 1_000).then_some(Warning::FasterThanASecond));
        }
        RuleKind::Once { .. } => warnings.extend(never(rule, now)),
        RuleKind::Delay { .. } | RuleKind::Manual => {}
    }
    warnings
}

fn never(rule: &Rule, now: Timestamp) -> Option<Warning> {
    let has_fired = rule.last_before(now.saturating_add(Duration::from_millis(1))).is_some();
    let warning = if has_fired { Warning::NeverFiresAgain } else { Warning::NeverFires };
    rule.is_over_after(now).then_some(warning)
}

/// The first wall time that will be lost. A rhythm through every hour loses nothing that anyone misses.
fn in_gap(rule: &Rule, zoned: &Zoned, now: Timestamp) -> Option<Warning> {
    let Zoned { cron, zone, .. } = zoned;
    let placement = zoned.placement();
    if !placement.fires_lost && cron.is_every_hour() {
        return None;
    }
    let (first, last) = rule.bounds();
    let seconds = first.max(now).second_ceil()..=last.min(now.saturating_add(LOOK_AHEAD)).second_floor();
    let changes = zone.stretches().iter().filter(|stretch| seconds.contains(&stretch.start));
    let (change, wall) = changes
        .filter_map(|change| Some((change, cron.first_from(change.lost().start)?)))
        .find(|(change, wall)| change.lost().contains(wall))?;
    let instead = placement.lost(change).map(|_| Timestamp::from_seconds(change.start));
    Some(Warning::FiresInGap { wall: wall_text(wall), zone: zone.name(), instead })
}

fn other_dialect(cron: &Cron) -> Option<Warning> {
    let there = cron.in_other_dialect().filter(|there| !there.names_the_same_as(cron))?;
    Some(Warning::DiffersBetweenDialects { other: there.dialect(), meaning: there.describe() })
}

fn elsewhere(cron: &Cron) -> impl Iterator<Item = &'static str> {
    let quirks = cron.quirks();
    [
        (
            quirks.open_step,
            "a step on a single value (5/10) runs to the end of the field here; crontab refuses it",
        ),
        (
            quirks.ends_in_sunday,
            "a range that ends in SUN ends the week here; some implementations refuse it",
        ),
        (
            quirks.stepped_day,
            "*/n in a day field: both day fields must match here, where some implementations take either",
        ),
        (
            quirks.nearest_beyond_28,
            "nW does not fire in a month without day n, where some implementations take its last weekday",
        ),
    ]
    .into_iter()
    .filter_map(|(applies, what)| applies.then_some(what))
}
