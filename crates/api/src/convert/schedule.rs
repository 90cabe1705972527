//! Schedules: from JSON to the model, and back.

use std::time::Duration;

use calendar::{Cron, Dialect, Gap, Overlap, Rule, Timestamp, Zones};
use punctual_core::model::{Schedule, ScheduleKind};
use punctual_protocol as wire;
use punctual_protocol::Span;

use super::fields::{Object, Spot};

/// What reading a schedule depends on.
pub(crate) struct Context<'a> {
    pub(crate) zones: &'a Zones,
    pub(crate) now: Timestamp,
    /// The schedule that is replaced, if any.
    pub(crate) before: Option<&'a Schedule>,
}

/// Reads a schedule.
pub(crate) fn read(spot: Spot<'_>, context: &Context<'_>) -> Option<Schedule> {
    let object = spot.object()?;
    let kind_spot = object.must("kind")?;
    let kind = match kind_spot.text()? {
        "cron" => cron(&object, context),
        "every" => every(&object, context),
        "delay" | "after" => delay(&object),
        "once" => object.must("at").and_then(|at| once(&at, context)),
        "manual" => Some(ScheduleKind::Manual),
        other => {
            kind_spot.refuse(format!("unknown kind {other:?}: expected cron, every, delay, once or manual"))
        }
    };
    let from = bound(&object, "from");
    let until = bound(&object, "until");
    if kind.is_some() {
        object.end();
    }
    if let (Some(from), Some(until)) = (from, until)
        && until < from
    {
        object.spot.fault("until is before from, so it names no instant");
    }
    Some(Schedule { kind: kind?, from, until })
}

fn bound(object: &Object<'_>, name: &'static str) -> Option<Timestamp> {
    object.may_null(name)?.time()
}

fn cron(object: &Object<'_>, context: &Context<'_>) -> Option<ScheduleKind> {
    let dialect = object.may("dialect").map_or(Some(Dialect::Unix), |spot| spot.word());
    let zone = object.may("zone").map_or(Some("UTC".into()), |spot| zone(&spot, context.zones));
    let gap = object.may("gap").map_or(Some(Gap::Default), |spot| spot.word());
    let overlap = object.may("overlap").map_or(Some(Overlap::Default), |spot| spot.word());
    let expression = object.must("expression").and_then(|spot| {
        let text = spot.prose(1_024)?;
        // The seed decides only where `H` falls, not whether the expression is valid, so any seed will do.
        match Cron::parse(&text, dialect?, "") {
            Ok(_) => Some(text),
            Err(error) => spot.refuse(error.to_string()),
        }
    });
    let (expression, dialect, zone) = (expression?, dialect?, zone?);
    Some(ScheduleKind::Cron { expression, dialect, zone, gap: gap?, overlap: overlap? })
}

/// A zone's name, in its proper case.
pub(crate) fn zone(spot: &Spot<'_>, zones: &Zones) -> Option<String> {
    match zones.get(spot.text()?) {
        Ok(zone) => Some(zone.name().into()),
        Err(error) => spot.refuse(error.to_string()),
    }
}

fn every(object: &Object<'_>, context: &Context<'_>) -> Option<ScheduleKind> {
    let interval = object.must("interval").and_then(|spot| interval(&spot));
    let anchor =
        object.may_null("anchor").map(|spot| checked(&spot, |at| Rule::every(Duration::from_secs(1), at)));
    let interval = interval?;
    // An interval that stays the same keeps its anchor.
    let kept = match context.before.map(|before| &before.kind) {
        Some(ScheduleKind::Every { interval: old, anchor }) if *old == interval => *anchor,
        _ => context.now,
    };
    Some(ScheduleKind::Every { interval, anchor: anchor.unwrap_or(Some(kept))? })
}

fn delay(object: &Object<'_>) -> Option<ScheduleKind> {
    let delay = match object.may("after") {
        Some(spot) => {
            object.ignore(&["delay"]);
            interval(&spot)
        }
        None => object.must("delay").and_then(|spot| interval(&spot)),
    };
    Some(ScheduleKind::Delay { delay: delay? })
}

fn interval(spot: &Spot<'_>) -> Option<Duration> {
    let interval = spot.span()?;
    match Rule::delay(interval) {
        Ok(_) => Some(interval),
        Err(error) => spot.refuse(error.to_string()),
    }
}

fn once(spot: &Spot<'_>, context: &Context<'_>) -> Option<ScheduleKind> {
    // An instant in the past means now, also if it is too early for rules.
    let at = spot.time()?.max(Timestamp::from_millis(0));
    // An instant that was past when it was written was moved to the time of writing: writing it again changes
    // nothing.
    if let Some(ScheduleKind::Once { at: old }) = context.before.map(|before| &before.kind)
        && at <= *old
        && at <= context.now
        && *old <= context.now
    {
        return Some(ScheduleKind::Once { at: *old });
    }
    match Rule::once(at) {
        Ok(_) => Some(ScheduleKind::Once { at }),
        Err(error) => spot.refuse(error.to_string()),
    }
}

fn checked<T>(
    spot: &Spot<'_>,
    check: impl Fn(Timestamp) -> Result<T, calendar::RuleError>,
) -> Option<Timestamp> {
    let at = spot.time()?;
    match check(at) {
        Ok(_) => Some(at),
        Err(error) => spot.refuse(error.to_string()),
    }
}

/// Shows a schedule with every default.
pub(crate) fn show(schedule: &Schedule) -> wire::Schedule {
    let text = |at: &Timestamp| at.to_string();
    let (from, until) = (schedule.from.as_ref().map(text), schedule.until.as_ref().map(text));
    match &schedule.kind {
        ScheduleKind::Cron { expression, dialect, zone, gap, overlap } => wire::Schedule::Cron {
            expression: expression.clone(),
            dialect: show_dialect(*dialect),
            zone: zone.clone(),
            gap: show_gap(*gap),
            overlap: show_overlap(*overlap),
            from,
            until,
        },
        ScheduleKind::Every { interval, anchor } => {
            wire::Schedule::Every { interval: Span(*interval), anchor: Some(text(anchor)), from, until }
        }
        ScheduleKind::Delay { delay } => wire::Schedule::Delay { delay: Span(*delay), from, until },
        ScheduleKind::Once { at } => wire::Schedule::Once { at: text(at), from, until },
        ScheduleKind::Manual => wire::Schedule::Manual { from, until },
    }
}

fn show_dialect(dialect: Dialect) -> wire::Dialect {
    match dialect {
        Dialect::Unix => wire::Dialect::Unix,
        Dialect::Quartz => wire::Dialect::Quartz,
    }
}

fn show_gap(gap: Gap) -> wire::Gap {
    match gap {
        Gap::Default => wire::Gap::Default,
        Gap::Skip => wire::Gap::Skip,
        Gap::Shift => wire::Gap::Shift,
    }
}

fn show_overlap(overlap: Overlap) -> wire::Overlap {
    match overlap {
        Overlap::Default => wire::Overlap::Default,
        Overlap::First => wire::Overlap::First,
        Overlap::Last => wire::Overlap::Last,
        Overlap::Both => wire::Overlap::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Faults;
    use super::*;
    use serde_json::{Value, json};

    fn try_read(value: &Value, before: Option<&Schedule>) -> Result<Schedule, Vec<String>> {
        let (faults, zones) = (Faults::default(), Zones::bundled());
        let now = "2026-03-08T07:00:00Z".parse().unwrap();
        let read = read(Spot::whole(value, &faults), &Context { zones: &zones, now, before });
        let said = |problem: crate::problem::Problem| {
            problem.errors.iter().map(|error| format!("{} {}", error.pointer, error.detail)).collect()
        };
        faults.unless(read).map_err(said)
    }

    #[test]
    fn what_is_shown_is_what_was_read_with_every_default() {
        for (written, shown) in [
            (
                json!({"kind": "cron", "expression": "0 9 * * *", "zone": "america/toronto"}),
                json!({"kind": "cron", "expression": "0 9 * * *", "zone": "America/Toronto", "dialect": "unix",
                       "gap": "default", "overlap": "default"}),
            ),
            (
                json!({"kind": "every", "interval": "90s"}),
                json!({"kind": "every", "interval": "90s", "anchor": "2026-03-08T07:00:00Z"}),
            ),
            (json!({"kind": "after", "after": "30s"}), json!({"kind": "delay", "delay": "30s"})),
            (
                json!({"kind": "once", "at": "2026-03-08T03:00:00-04:00", "until": "2027-01-01T00:00:00Z"}),
                json!({"kind": "once", "at": "2026-03-08T07:00:00Z", "until": "2027-01-01T00:00:00Z"}),
            ),
            (json!({"kind": "manual", "from": null}), json!({"kind": "manual"})),
        ] {
            let schedule = try_read(&written, None).unwrap();
            assert_eq!(serde_json::to_value(show(&schedule)).unwrap(), shown);
            assert_eq!(try_read(&shown, None).unwrap(), schedule);
        }
    }

    #[test]
    fn a_rhythm_keeps_its_beat_while_the_interval_stays() {
        let anchor: Timestamp = "2026-01-01T00:00:07Z".parse().unwrap();
        let before = ScheduleKind::Every { interval: Duration::from_secs(30), anchor }.into();
        let anchor_of = |text| match try_read(&json!({"kind": "every", "interval": text}), Some(&before)) {
            Ok(Schedule { kind: ScheduleKind::Every { anchor, .. }, .. }) => anchor.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(anchor_of("30s"), "2026-01-01T00:00:07Z");
        assert_eq!(anchor_of("31s"), "2026-03-08T07:00:00Z");
    }

    #[test]
    fn what_means_nothing_is_refused_at_its_place_all_at_once() {
        for (written, places) in [
            (
                json!({"kind": "cron", "expression": "61 * * * *", "zone": "Mars/Base"}),
                vec!["/zone", "/expression"],
            ),
            (json!({"kind": "cron"}), vec!["/expression"]),
            (json!({"kind": "every", "interval": "1ms"}), vec!["/interval"]),
            (json!({"kind": "every", "interval": 30}), vec!["/interval"]),
            (json!({"kind": "once"}), vec!["/at"]),
            (json!({"kind": "once", "at": "2200-01-01T00:00:00Z"}), vec!["/at"]),
            (json!({"kind": "often"}), vec!["/kind"]),
            (json!({}), vec!["/kind"]),
            (json!({"kind": "manual", "interval": "3s"}), vec!["/interval"]),
            (
                json!({"kind": "manual", "from": "2027-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}),
                vec![""],
            ),
            (json!("daily"), vec![""]),
        ] {
            let said = try_read(&written, None).unwrap_err();
            let found: Vec<&str> = said.iter().map(|one| one.split(' ').next().unwrap()).collect();
            assert_eq!(found, places, "{written} {said:?}");
        }
    }
}
