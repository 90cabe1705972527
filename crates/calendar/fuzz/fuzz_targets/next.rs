//! Whatever the rule, zone, policy and instant: next is later, last is earlier, each finds the other, and
//! counting agrees with walking.
//!
//! `cargo +nightly fuzz run next -- -max_len=256 -dict=cron.dict`

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use punctual_calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zone, Zones};

const NAMES: [&str; 16] = [
    "UTC",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Cairo",
    "Europe/Dublin",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Asia/Tehran",
    "Asia/Gaza",
    "Antarctica/Troll",
    "Africa/Monrovia",
    "America/Havana",
    "Pacific/Chatham",
    "Asia/Pyongyang",
    "Atlantic/Azores",
];

static ZONES: LazyLock<Vec<Zone>> = LazyLock::new(|| {
    let zones = Zones::bundled();
    NAMES.iter().map(|name| zones.get(name).expect("a known zone")).collect()
});

fuzz_target!(|input: &[u8]| -> Corpus { check(input).map_or(Corpus::Reject, |()| Corpus::Keep) });

fn check(input: &[u8]) -> Option<()> {
    let (&[how, instant @ ..], text) = input.split_first_chunk::<9>()?;
    let rule = rule(how, std::str::from_utf8(text).ok()?)?;
    let at = Timestamp::from_millis(i64::from_le_bytes(instant.try_into().ok()?));
    // Most of i64 lies outside the years of rules: look at an instant inside, too.
    let inside = Timestamp::from_millis(at.as_millis().rem_euclid(7_300_000_000_000));
    for at in [at, inside] {
        check_instant(&rule, at);
    }
    Some(())
}

fn rule(how: u8, text: &str) -> Option<Rule> {
    let dialect = if how & 1 == 0 { Dialect::Unix } else { Dialect::Quartz };
    let gap = [Gap::Default, Gap::Skip, Gap::Shift][usize::from(how >> 1 & 3) % 3];
    let overlap = [Overlap::Default, Overlap::First, Overlap::Last, Overlap::Both][usize::from(how >> 3 & 3)];
    let zone = ZONES[usize::from(how >> 4)].clone();
    let cron = Cron::parse(text, dialect, "fuzz/job").ok()?;
    Some(Rule::cron(cron, zone).with_gap(gap).with_overlap(overlap))
}

fn check_instant(rule: &Rule, at: Timestamp) {
    let Some(next) = rule.next_after(at) else {
        assert_eq!(rule.count(Timestamp::from_millis(at.as_millis().saturating_add(1)), Timestamp::MAX), 0);
        return;
    };
    assert!(next > at);
    let after_next = Timestamp::from_millis(next.as_millis() + 1);
    assert_eq!(rule.last_before(after_next), Some(next), "last finds what next found");
    let last = rule.last_before(next);
    assert!(last.is_none_or(|last| last <= at), "nothing lies between");
    assert_eq!(last.map(|last| rule.next_after(last)), last.map(|_| Some(next)), "next finds what last left");
    let to = Timestamp::from_millis(at.as_millis().saturating_add(100_000_000));
    let walked = rule.between(at, to).take(2_000).count() as u64;
    if walked < 2_000 {
        assert_eq!(rule.count(at, to), walked);
    }
    rule.warnings(at);
}
