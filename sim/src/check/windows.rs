//! Windows, written a second time: whether an instant lies inside, and whether one outside has been deferred long enough.

use calendar::Outside;
use punctual_core::model::{Definition, WindowSpec};

use super::instants::wall_of;

const DAY_S: i64 = 86_400;
const MINUTE_MS: i64 = 60_000;

/// Whether a run for `fire_time` may be sent at `now`: inside some window, or outside and some window has opened since.
pub(super) fn allow(definition: &Definition, fire_time: i64, now: i64) -> bool {
    let windows = &definition.windows;
    let is_inside = |at: i64| windows.iter().any(|window| contains(window, at));
    if windows.is_empty() || is_inside(fire_time) {
        return true;
    }
    let is_deferred = windows.iter().any(|window| window.outside == Outside::Defer);
    let first_minute = fire_time.div_euclid(MINUTE_MS) + 1;
    // Windows open at whole minutes.
    is_deferred && (first_minute..=now.div_euclid(MINUTE_MS)).any(|minute| is_inside(minute * MINUTE_MS))
}

/// The worlds' windows are open on every day, so only the hours count.
fn contains(window: &WindowSpec, at: i64) -> bool {
    let Some(wall) = wall_of(&window.zone, at.div_euclid(1_000)) else { return true };
    let Some((from, to)) = hours(&window.hours) else { return true };
    let second = wall.rem_euclid(DAY_S);
    if from < to { from <= second && second < to } else { from <= second || second < to }
}

fn hours(text: &str) -> Option<(i64, i64)> {
    let time = |text: &str| {
        let (hour, minute) = text.split_once(':')?;
        Some(hour.parse::<i64>().ok()? * 3_600 + minute.parse::<i64>().ok()? * 60)
    };
    let (from, to) = text.split_once('-')?;
    Some((time(from)?, time(to)?))
}

#[cfg(test)]
mod tests {
    use super::super::histories::definition;
    use super::*;

    fn at(text: &str) -> i64 {
        format!("2026-08-20T{text}:00Z").parse::<calendar::Timestamp>().unwrap().as_millis()
    }

    fn windowed(hours: &str, outside: Outside) -> Definition {
        let (days, zone) = ("mon-sun".into(), "Europe/Berlin".into());
        let window = WindowSpec { days, hours: hours.into(), zone, outside };
        Definition { windows: vec![window], ..definition() }
    }

    #[test]
    fn inside_at_once_outside_when_a_window_has_opened_or_never() {
        for (hours, outside, fire_time, now, expected) in [
            ("14:00-16:00", Outside::Skip, "12:00", "12:00", true),
            ("14:00-16:00", Outside::Skip, "13:59", "13:59", true),
            ("14:00-16:00", Outside::Skip, "14:00", "14:00", false),
            ("14:00-16:00", Outside::Skip, "11:59", "12:30", false),
            ("14:00-16:00", Outside::Defer, "11:00", "11:59", false),
            ("14:00-16:00", Outside::Defer, "11:00", "12:00", true),
            ("22:00-02:00", Outside::Skip, "23:30", "23:30", true),
            ("22:00-02:00", Outside::Skip, "00:00", "00:00", false),
        ] {
            let allowed = allow(&windowed(hours, outside), at(fire_time), at(now));
            assert_eq!(allowed, expected, "{hours} {outside} {fire_time} {now}");
        }
        assert!(allow(&definition(), at("12:00"), at("12:00")));
    }
}
