//! Windows: from either of their two forms to the model, and back in the first.

use calendar::{Outside, Window, Zones};
use punctual_core::model::WindowSpec;
use punctual_protocol as wire;

use super::fields::{Object, Spot};
use super::schedule::zone;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// Reads a window; `usual_zone` is the schedule's.
pub(crate) fn read(spot: Spot<'_>, usual_zone: &str, zones: &Zones) -> Option<WindowSpec> {
    let object = spot.object()?;
    let days = either(&object, "days", "days_of_week", "*", days_of_week);
    let hours = either(&object, "hours", "hours_of_day", "00:00-24:00", hours_of_day);
    let zone = object.may_null("zone").map_or(Some(usual_zone.to_owned()), |spot| zone(&spot, zones));
    let outside = object.may_null("outside").map_or(Some(Outside::Skip), |spot| spot.word());
    object.end();
    let (days, hours, zone, outside) = (days?, hours?, zone?, outside?);
    let known = zones.get(&zone).ok()?;
    if let Err(error) = Window::parse(&days, &hours, known, outside) {
        return object.spot.refuse(error.to_string());
    }
    Some(WindowSpec { days, hours, zone, outside })
}

fn either(
    object: &Object<'_>,
    text: &'static str,
    numbers: &'static str,
    usual: &str,
    from_numbers: fn(&Spot<'_>) -> Option<String>,
) -> Option<String> {
    match (object.may_null(text), object.may_null(numbers)) {
        (Some(_), Some(numbers)) => numbers.refuse("says the same as the other form; write one of them"),
        (Some(text), None) => text.prose(200),
        (None, Some(numbers)) => from_numbers(&numbers),
        (None, None) => Some(usual.into()),
    }
}

fn days_of_week(spot: &Spot<'_>) -> Option<String> {
    let numbers = numbers(spot, 1..=7)?;
    let names: Vec<&str> = numbers.iter().map(|day| DAYS[*day as usize - 1]).collect();
    Some(names.join(","))
}

/// Consecutive hours become one span.
fn hours_of_day(spot: &Spot<'_>) -> Option<String> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for hour in numbers(spot, 0..=23)? {
        match spans.last_mut() {
            Some((_, end)) if *end == hour => *end = hour + 1,
            _ => spans.push((hour, hour + 1)),
        }
    }
    let texts: Vec<String> = spans.iter().map(|(start, end)| format!("{start:02}:00-{end:02}:00")).collect();
    Some(texts.join(","))
}

fn numbers(spot: &Spot<'_>, range: std::ops::RangeInclusive<u64>) -> Option<Vec<u64>> {
    let items = spot.list(24)?;
    if items.is_empty() {
        return spot.refuse("is empty; leave it out to mean all of them");
    }
    let mut numbers = items.iter().map(|item| item.number(range.clone())).collect::<Option<Vec<u64>>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Some(numbers)
}

/// Shows a window.
pub(crate) fn show(spec: &WindowSpec) -> wire::Window {
    wire::Window {
        days: Some(spec.days.clone()),
        hours: Some(spec.hours.clone()),
        days_of_week: None,
        hours_of_day: None,
        zone: Some(spec.zone.clone()),
        outside: Some(spec.outside.name().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::Faults;
    use super::*;
    use serde_json::{Value, json};

    fn try_read(value: &Value) -> Result<WindowSpec, crate::problem::Problem> {
        let (faults, zones) = (Faults::default(), Zones::bundled());
        let read = read(Spot::whole(value, &faults), "Europe/Berlin", &zones);
        faults.unless(read)
    }

    #[test]
    fn both_forms_are_read_and_the_first_is_shown() {
        for (written, days, hours) in [
            (json!({"days": "mon-fri", "hours": "09:00-17:00"}), "mon-fri", "09:00-17:00"),
            (json!({}), "*", "00:00-24:00"),
            (
                json!({"days_of_week": [7, 1, 1], "hours_of_day": [9, 11, 10, 23]}),
                "mon,sun",
                "09:00-12:00,23:00-24:00",
            ),
        ] {
            let spec = try_read(&written).unwrap();
            assert_eq!((spec.days.as_str(), spec.hours.as_str()), (days, hours));
            assert_eq!((spec.zone.as_str(), spec.outside), ("Europe/Berlin", Outside::Skip));
            let shown = serde_json::to_value(show(&spec)).unwrap();
            assert_eq!(try_read(&shown).unwrap(), spec);
        }
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for written in [
            json!({"days": "monday"}),
            json!({"hours": "9 to 5"}),
            json!({"days": "mon", "days_of_week": [1]}),
            json!({"days_of_week": [8]}),
            json!({"days_of_week": []}),
            json!({"hours_of_day": [24]}),
            json!({"zone": "Mars/Base"}),
            json!({"outside": "wait"}),
            json!({"hour": "09:00-17:00"}),
        ] {
            assert!(try_read(&written).is_err(), "{written}");
        }
    }
}
