//! Stretches of days that are far ahead: the one-shots of each are born on its last day, and so share that day's tables.
//!
//! SQLite reads its whole schema anew after every change of it, and has no partitions: a thousand reminders for the next ten
//! years must not cost thousands of tables. Nothing has to be moved when a day comes near, since a run is found by its due
//! time and by its id, and neither says where the other is. What is kept longer is small: the end of such a run stays until
//! the last day of its stretch is old.

use punctual_core::model::RunId;

/// How far ahead a day has tables of its own.
const NEAR: u32 = 60;

/// How many days share tables, by how far ahead they are: up to two years, up to ten, and beyond. Until the last day that there
/// is that makes some 130 stretches.
const STRETCHES: [(u32, u32); 3] = [(730, 16), (3_650, 128), (u32::MAX, 1_024)];

/// The day that a one-shot is born on that is due on `day`.
pub(super) fn last_day(day: u32, today: u32) -> u32 {
    let ahead = day.saturating_sub(today);
    if ahead <= NEAR {
        return day;
    }
    let length = STRETCHES.iter().find(|(until, _)| ahead <= *until).map_or(1, |(_, length)| *length);
    (day / length * length + length - 1).min(RunId::DAY_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TODAY: u32 = 2_513;

    #[test]
    fn days_that_are_near_or_over_are_their_own() {
        for day in (0..=TODAY + NEAR).chain([TODAY]) {
            assert_eq!(last_day(day, TODAY), day);
        }
    }

    #[test]
    fn days_that_are_far_share_a_later_one() {
        for day in TODAY + NEAR + 1..=RunId::DAY_MAX {
            let born = last_day(day, TODAY);
            let longest = if day <= TODAY + 730 { 15 } else { 1_023 };
            assert!((day..=day + longest).contains(&born), "{day} is born on {born}");
        }
        let all: BTreeSet<u32> =
            (TODAY + NEAR + 1..=RunId::DAY_MAX).map(|day| last_day(day, TODAY)).collect();
        assert!(all.len() < 600, "{} stretches until the end of all days", all.len());
        let until_2199 = (2_199 - 2_020) * 366;
        let people = all.iter().filter(|day| **day <= until_2199).count();
        assert!(people < 140, "{people} stretches until 2199");
    }
}
