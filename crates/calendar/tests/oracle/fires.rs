//! All fires of a rule in a window, straight from the definition of the daylight-saving policy.

use jiff::civil::Date;
use jiff::tz::Offset;
use punctual_calendar::{Gap, Overlap};

use super::DAY_S;
use super::expression::Expression;
use super::offsets::Stretch;

/// A gap longer than this is a move over the date line; its wall times belong to no day that anyone lived.
const GAP_SHIFTED_S_MAX: i64 = 3 * 3600;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Policies {
    pub(crate) gap: Gap,
    pub(crate) overlap: Overlap,
}

/// The fires at `from..to`, in seconds, rising. `stretches` must have been surveyed for this window.
pub(crate) fn fires(
    expression: &Expression,
    policies: Policies,
    stretches: &[Stretch],
    from: i64,
    to: i64,
) -> Vec<i64> {
    if expression.is_interval && matches!(policies, Policies { gap: Gap::Default, overlap: Overlap::Default })
    {
        return matching_instants(expression, stretches, from, to);
    }
    let mut instants = Vec::new();
    for wall in matching_walls(expression, stretches, from, to) {
        instants.extend(place(wall, expression.is_interval, policies, stretches));
    }
    instants.retain(|instant| (from..to).contains(instant));
    instants.sort_unstable();
    instants.dedup();
    instants
}

/// An interval rule's definition: every second whose wall time matches.
fn matching_instants(expression: &Expression, stretches: &[Stretch], from: i64, to: i64) -> Vec<i64> {
    let mut instants = Vec::new();
    for stretch in stretches {
        let (mut day, mut day_matches) = (i64::MIN, false);
        for instant in stretch.from.max(from)..stretch.to.min(to) {
            let wall = instant + stretch.offset;
            if wall.div_euclid(DAY_S) != day {
                day = wall.div_euclid(DAY_S);
                day_matches = expression.matches_date(date(day));
            }
            if day_matches && expression.matches_time(wall.rem_euclid(DAY_S)) {
                instants.push(instant);
            }
        }
    }
    instants
}

/// Every matching wall second that the window or a gap inside it could hold, lost ones included.
fn matching_walls(expression: &Expression, stretches: &[Stretch], from: i64, to: i64) -> Vec<i64> {
    let low = from + stretches.iter().map(|stretch| stretch.offset).min().expect("never empty");
    let high = to + stretches.iter().map(|stretch| stretch.offset).max().expect("never empty");
    let mut walls = Vec::new();
    for day in low.div_euclid(DAY_S)..=high.div_euclid(DAY_S) {
        if expression.matches_date(date(day)) {
            let seconds = (0..DAY_S).filter(|second| expression.matches_time(*second));
            walls.extend(seconds.map(|second| day * DAY_S + second));
        }
    }
    walls
}

/// The instants at which one matching wall time fires.
fn place(wall: i64, is_interval: bool, policies: Policies, stretches: &[Stretch]) -> Vec<i64> {
    let exists_in = |stretch: &&Stretch| (stretch.from..stretch.to).contains(&(wall - stretch.offset));
    let passes: Vec<i64> = stretches.iter().filter(exists_in).map(|stretch| wall - stretch.offset).collect();
    if passes.is_empty() {
        return place_lost(wall, is_interval, policies.gap, stretches).into_iter().collect();
    }
    match policies.overlap {
        Overlap::First => passes[..1].to_vec(),
        Overlap::Last => passes[passes.len() - 1..].to_vec(),
        Overlap::Both => passes,
        Overlap::Default if is_interval => passes,
        Overlap::Default => passes[..1].to_vec(),
    }
}

/// Where a wall time fires that exists nowhere: at the instant at which its gap ends, or not at all.
fn place_lost(wall: i64, is_interval: bool, gap: Gap, stretches: &[Stretch]) -> Option<i64> {
    let is_shifted = match gap {
        Gap::Default => !is_interval,
        Gap::Shift => true,
        Gap::Skip => false,
    };
    let around = stretches.windows(2).find(|pair| pair[0].wall().1 <= wall && wall < pair[1].wall().0)?;
    let gap_s = around[1].offset - around[0].offset;
    (is_shifted && gap_s <= GAP_SHIFTED_S_MAX).then_some(around[1].from)
}

/// The date of a day counted from 1970-01-01.
pub(crate) fn date(day: i64) -> Date {
    let midnight = jiff::Timestamp::from_second(day * DAY_S).expect("a second within jiff's years");
    Offset::UTC.to_datetime(midnight).date()
}
