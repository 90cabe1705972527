//! What a rule's author is told before it is too late.

use std::time::Duration;

use punctual_calendar::{Cron, Dialect, Gap, Rule, Timestamp, Zones};

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

fn rule(expression: &str, dialect: Dialect, zone: &str) -> Rule {
    Rule::cron(
        Cron::parse(expression, dialect, "").expect(expression),
        Zones::bundled().get(zone).expect(zone),
    )
}

fn check(rule: &Rule, expected: &[&str]) {
    let warnings: Vec<String> =
        rule.warnings(at("2026-01-01T00:00:00Z")).iter().map(ToString::to_string).collect();
    assert_eq!(warnings, expected, "{}", rule.describe());
}

#[test]
fn a_plain_rule_has_none() {
    check(&rule("0 9 * * 1-5", Dialect::Unix, "Europe/Berlin"), &[]);
    check(&rule("*/15 * * * *", Dialect::Unix, "Europe/Berlin"), &[]);
    check(&rule("0 0 12 15 * ?", Dialect::Quartz, "Europe/Berlin"), &[]);
    check(&Rule::every(Duration::from_secs(1), at("2026-01-01T00:00:00Z")).unwrap(), &[]);
    check(&Rule::delay(Duration::from_millis(10)).unwrap(), &[]);
    check(&Rule::manual(), &[]);
}

#[test]
fn a_rule_that_never_fires_says_so() {
    check(&rule("0 0 30 2 *", Dialect::Unix, "UTC"), &["never fires"]);
    check(&rule("0 0 9 1 1 * 2025", Dialect::Unix, "UTC"), &["never fires again"]);
    check(&Rule::once(at("2025-12-31T23:59:59Z")).unwrap(), &["never fires again"]);
    let past = rule("0 9 * * *", Dialect::Unix, "UTC").until(at("2025-06-01T00:00:00Z"));
    check(&past, &["never fires again"]);
}

#[test]
fn a_wall_time_in_the_next_gap_is_named_with_what_happens() {
    let nightly = rule("30 2 * * *", Dialect::Unix, "Europe/Berlin");
    let lost = "2026-03-29 02:30:00 does not exist in Europe/Berlin (the clocks jump over it)";
    check(&nightly, &[&format!("{lost}: fires at 2026-03-29T01:00:00Z instead")]);
    check(&nightly.with_gap(Gap::Skip), &[&format!("{lost}: does not fire then")]);
    let rhythm = rule("30-59/15 2 * * *", Dialect::Unix, "Europe/Berlin");
    check(&rhythm, &[&format!("{lost}: does not fire then")]);
}

#[test]
fn a_gap_outside_the_bounds_of_the_rule_is_no_concern() {
    let nightly = || rule("30 2 * * *", Dialect::Unix, "Europe/Berlin");
    check(&nightly().until(at("2026-03-28T12:00:00Z")), &[]);
    check(&nightly().from(at("2028-01-01T00:00:00Z")), &[]);
}

#[test]
fn a_rate_above_once_a_second_is_named() {
    let fast = Rule::every(Duration::from_millis(999), at("2026-01-01T00:00:00Z")).unwrap();
    check(&fast, &["fires more than once a second"]);
}

#[test]
fn a_text_that_means_something_else_in_the_other_dialect_is_named() {
    let sunday = "in the quartz dialect this text means: at 09:00 on Sunday";
    check(&rule("0 0 9 ? * 1", Dialect::Unix, "UTC"), &[sunday]);
    let monday = "in the unix dialect this text means: at 09:00 on Monday";
    check(&rule("0 0 9 ? * 1", Dialect::Quartz, "UTC"), &[monday]);
    check(&rule("0 0 9 ? * MON", Dialect::Quartz, "UTC"), &[]);
    let spread = Cron::parse("0 H H ? * 2", Dialect::Unix, "reports/nightly").unwrap();
    let spread = Rule::cron(spread, Zones::bundled().get("UTC").unwrap());
    check(&spread, &["in the quartz dialect this text means: at 14:09 on Monday"]);
}

#[test]
fn what_others_read_otherwise_is_named() {
    for (expression, words) in [
        ("5/10 * * * *", "crontab refuses it"),
        ("0 9 * * FRI-SUN", "ends in SUN"),
        ("0 9 */2 * 1", "both day fields must match"),
        ("0 9 31W * *", "does not fire in a month without day n"),
    ] {
        let warnings = rule(expression, Dialect::Unix, "UTC").warnings(at("2026-01-01T00:00:00Z"));
        assert_eq!(warnings.len(), 1, "{expression}: {warnings:?}");
        assert!(warnings[0].to_string().contains(words), "{expression}: {}", warnings[0]);
    }
}
