//! What must hold for every rule and every instant, whatever the rule: order, round trips, bounds, no panics.

mod oracle;

use jiff::civil::DateTime;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use punctual_calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zones};

use oracle::dice::Dice;
use oracle::generator::{self, Resolution};

/// 1960 to 2210, so that a tenth of the instants lie outside the years that rules know.
const MILLIS: std::ops::Range<i64> = -315_619_200_000..7_573_737_600_000;
const DAY_MS: i64 = 86_400_000;

const ZONES: [&str; 10] = [
    "Africa/Casablanca",
    "America/New_York",
    "America/Sao_Paulo",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Etc/UTC",
    "Europe/Dublin",
    "Pacific/Apia",
];

/// The same cases on every run; `PROPTEST_CASES` asks for more of them.
fn config() -> ProptestConfig {
    ProptestConfig { rng_seed: RngSeed::Fixed(20_261_115), failure_persistence: None, ..Default::default() }
}

/// A random valid expression, drawn by the oracle's generator from a seed.
fn expressions() -> impl Strategy<Value = (String, Dialect)> {
    any::<u64>().prop_map(|seed| {
        let mut dice = Dice::seeded(seed);
        let dialect = generator::dialect(&mut dice);
        let year = dice.between(1970, 2199) as i16;
        let near =
            DateTime::constant(year, dice.between(1, 12) as i8, dice.between(1, 28) as i8, 2, 30, 0, 0);
        (generator::expression(&mut dice, dialect, near, Resolution::Second), dialect)
    })
}

fn rules() -> impl Strategy<Value = Rule> {
    let gaps = prop::sample::select(vec![Gap::Default, Gap::Skip, Gap::Shift]);
    let overlaps = prop::sample::select(vec![Overlap::Default, Overlap::First, Overlap::Last, Overlap::Both]);
    let zones = prop::sample::select(ZONES.to_vec());
    (expressions(), zones, gaps, overlaps).prop_map(|((text, dialect), zone, gap, overlap)| {
        let cron = Cron::parse(&text, dialect, "no seed").unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let zone = Zones::bundled().get(zone).expect("a bundled zone");
        Rule::cron(cron, zone).with_gap(gap).with_overlap(overlap)
    })
}

fn instants() -> impl Strategy<Value = Timestamp> {
    MILLIS.prop_map(Timestamp::from_millis)
}

/// Any of the numbers that a timestamp can be, its edges among them.
fn all_instants() -> impl Strategy<Value = Timestamp> {
    let edges = [i64::MIN, i64::MIN + 1, i64::MIN + 999, -1, 0, 1, i64::MAX - 999, i64::MAX - 1, i64::MAX];
    prop_oneof![prop::sample::select(edges.to_vec()), any::<i64>(), MILLIS].prop_map(Timestamp::from_millis)
}

/// An instant and another at most three days later.
fn windows() -> impl Strategy<Value = (Timestamp, Timestamp)> {
    (MILLIS, 0..3 * DAY_MS)
        .prop_map(|(from, length)| (Timestamp::from_millis(from), Timestamp::from_millis(from + length)))
}

/// Texts that are nearly cron: words of its alphabet, glued without sense.
fn nearly_cron() -> impl Strategy<Value = String> {
    let words = [
        "0", "1", "5", "7", "12", "31", "59", "60", "99", "2026", "99999", "*", "?", "/", "-", ",", "#", "L",
        "W", "LW", "L-3", "H", "H(", ")", "(", "SUN", "mon", "JAN", "dec", "@daily", "@", " ", " ", " ",
        "\t", "*/5", "+5", "1-5", "~", "é",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..40).prop_map(|words| words.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    let any = prop::collection::vec(any::<char>(), 0..=200).prop_map(String::from_iter);
    prop_oneof![any, nearly_cron()]
}

fn dialects() -> impl Strategy<Value = Dialect> {
    prop::sample::select(vec![Dialect::Unix, Dialect::Quartz])
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_next_fire_is_strictly_later_and_the_last_strictly_earlier(rule in rules(), now in all_instants()) {
        prop_assert!(rule.next_after(now).is_none_or(|fire| fire > now));
        prop_assert!(rule.last_before(now).is_none_or(|fire| fire < now));
    }

    #[test]
    fn nothing_lies_between_an_instant_and_its_next_fire(rule in rules(), now in instants()) {
        if let Some(fire) = rule.next_after(now) {
            prop_assert_eq!(rule.last_before(Timestamp::from_millis(fire.as_millis() + 1)), Some(fire));
            if let Some(before) = rule.last_before(fire) {
                prop_assert!(before <= now);
                prop_assert_eq!(rule.next_after(before), Some(fire));
            }
        }
    }

    #[test]
    fn nothing_lies_between_an_instant_and_its_last_fire(rule in rules(), now in instants()) {
        if let Some(fire) = rule.last_before(now) {
            prop_assert_eq!(rule.next_after(Timestamp::from_millis(fire.as_millis() - 1)), Some(fire));
            if let Some(after) = rule.next_after(fire) {
                prop_assert!(after >= now);
                prop_assert_eq!(rule.last_before(after), Some(fire));
            }
        }
    }

    #[test]
    fn asking_later_never_gives_an_earlier_fire(rule in rules(), one in instants(), other in instants()) {
        let (early, late) = (one.min(other), one.max(other));
        // "Never again" counts as later than all, "never before" as earlier than all.
        if let Some(fire) = rule.next_after(late) {
            prop_assert!(rule.next_after(early).is_some_and(|first| first <= fire));
        }
        if let Some(fire) = rule.last_before(early) {
            prop_assert!(rule.last_before(late).is_some_and(|last| last >= fire));
        }
    }

    #[test]
    fn the_count_of_a_window_is_the_number_of_fires_in_it(rule in rules(), (from, to) in windows()) {
        let fires: Vec<Timestamp> = rule.between(from, to).collect();
        prop_assert!(fires.is_sorted_by(|one, next| one < next));
        prop_assert!(fires.iter().all(|fire| from <= *fire && *fire < to));
        prop_assert_eq!(rule.count(from, to), fires.len() as u64);
    }

    #[test]
    fn the_counts_of_two_neighbouring_windows_add_up(rule in rules(), cuts in [instants(), instants(), instants()]) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let [first, middle, last] = cuts;
        prop_assert_eq!(rule.count(first, middle) + rule.count(middle, last), rule.count(first, last));
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_empty(rule in rules(), one in all_instants(), other in all_instants()) {
        let (early, late) = (one.min(other), one.max(other));
        prop_assert_eq!(rule.count(late, early), 0);
        prop_assert_eq!(rule.between(late, early).next(), None);
    }

    #[test]
    fn bounds_cut_a_rule_and_change_nothing_else(rule in rules(), (from, until) in windows(), now in instants()) {
        let bounded = rule.clone().from(from).until(until);
        let end = Timestamp::from_millis(until.as_millis() + 1);
        let within = |fire: &Timestamp| (from..=until).contains(fire);
        let start = now.max(Timestamp::from_millis(from.as_millis() - 1));
        prop_assert_eq!(bounded.next_after(now), rule.next_after(start).filter(within));
        prop_assert_eq!(bounded.last_before(now), rule.last_before(now.min(end)).filter(within));
        let everything = (Timestamp::from_millis(MILLIS.start), Timestamp::from_millis(MILLIS.end));
        prop_assert_eq!(bounded.count(everything.0, everything.1), rule.count(from, end));
        prop_assert!(bounded.between(everything.0, everything.1).eq(rule.between(from, end)));
    }

    #[test]
    fn a_fire_that_is_itself_the_bound_still_fires(rule in rules(), now in instants()) {
        if let Some(fire) = rule.next_after(now) {
            let bounded = rule.from(fire).until(fire);
            prop_assert_eq!(bounded.next_after(now), Some(fire));
            prop_assert_eq!(bounded.next_after(fire), None);
            prop_assert_eq!(bounded.last_before(fire), None);
            prop_assert_eq!(bounded.count(now, Timestamp::from_millis(fire.as_millis() + 1)), 1);
        }
    }

    #[test]
    fn no_instant_makes_a_rule_panic(rule in rules(), instants in [all_instants(), all_instants(), all_instants()]) {
        let [from, to, bound] = instants;
        for rule in [rule.clone(), rule.clone().from(bound), rule.until(bound)] {
            rule.next_after(from);
            rule.last_before(from);
            rule.count(from, to);
            rule.between(from, to).take(3).for_each(drop);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any_text(), dialect in dialects(), seed in "[a-z]{0,8}") {
        match Cron::parse(&text, dialect, &seed) {
            Ok(cron) => {
                let rule = Rule::cron(cron, Zones::bundled().get("Europe/Dublin").expect("a bundled zone"));
                rule.next_after(Timestamp::from_millis(0));
            }
            Err(error) => {
                prop_assert!(error.column() >= 1, "column {}", error.column());
                prop_assert!(error.column() <= text.chars().count() + 1, "column {}", error.column());
                prop_assert!(!error.reason().is_empty());
            }
        }
    }

    #[test]
    fn upper_and_lower_case_say_the_same((text, dialect) in expressions(), now in instants()) {
        let zone = Zones::bundled().get("America/New_York").expect("a bundled zone");
        let next = |text: &str| {
            let cron = Cron::parse(text, dialect, "no seed").map_err(|error| error.to_string())?;
            Ok::<_, String>(Rule::cron(cron, zone.clone()).next_after(now))
        };
        prop_assert_eq!(next(&text.to_ascii_lowercase()), next(&text.to_ascii_uppercase()));
        prop_assert!(next(&text).is_ok());
    }
}
