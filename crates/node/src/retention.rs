//! How long finished runs are kept, and which days are looked through for those that are old.
//!
//! A day that no app keeps is dropped whole, which costs nothing for each run. Where apps keep their runs for different
//! times, a day may be old for some apps and not for others. Such a day is first only looked at: if nothing in it is
//! still kept, it is dropped too. Otherwise its old runs are removed, a stretch at a time, and the day is not looked at
//! again until it is old for another app, or something in it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{RunId, Text};

use crate::ports::{Keep, OldDay, Registered, Thinned};

/// How many runs are removed at once.
const REMOVED_MAX: usize = 1_000;

/// The instant before which things are old that are kept for this long.
pub(crate) fn before(now: Timestamp, kept: Duration) -> Timestamp {
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(kept))
}

/// The apps that say how long they keep their runs.
pub(crate) fn retentions(registered: &Registered) -> BTreeMap<Text, Duration> {
    registered.apps.iter().filter_map(|app| Some((app.name.clone(), app.retention?))).collect()
}

/// Days that are old for some apps, each with how far it was looked through.
#[derive(Debug, Default)]
pub(crate) struct Thinning {
    walks: BTreeMap<u32, Walk>,
}

/// A part of a day that is looked at in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) day: u32,
    pub(crate) from: RunId,
    /// How much may be removed from it.
    pub(crate) max: usize,
}

/// What a stretch has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// Nothing that is not done already.
    Noted,
    /// No app keeps anything in the day.
    Needless,
}

#[derive(Debug)]
struct Walk {
    /// The apps for which the day is old.
    who: Who,
    /// What the day holds, as far as this walk knows.
    runs: u64,
    closed: u64,
    stage: Stage,
    /// How many runs were found that stay.
    stays: u64,
}

/// The apps for which a day is old.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Who {
    apps: BTreeSet<Text>,
    others: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Look(RunId),
    Thin(RunId),
    Thinned,
    Needless,
}

impl Who {
    fn of(keep: &Keep, day: u32) -> Who {
        Who { apps: keep.old_apps(day).cloned().collect(), others: keep.is_old_for_others(day) }
    }
}

impl Walk {
    fn new(keep: &Keep, old: OldDay) -> Walk {
        let OldDay { day, runs, closed } = old;
        Walk { who: Who::of(keep, day), runs, closed, stage: Stage::Look(RunId::new(day, 0)), stays: 0 }
    }

    fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Thinned | Stage::Needless)
    }
}

impl Thinning {
    /// Takes note of the days that are old for some apps, and forgets all others.
    pub(crate) fn note(&mut self, keep: &Keep, old: &[OldDay]) {
        let mut before = std::mem::take(&mut self.walks);
        for day in old {
            let new = Walk::new(keep, *day);
            let is_same =
                |walk: &Walk| (walk.runs, walk.closed) == (new.runs, new.closed) && walk.who == new.who;
            // One that is under way goes on: else a day in which much happens would never be looked through.
            let there = before.remove(&day.day).filter(|walk| !walk.is_done() || is_same(walk));
            self.walks.insert(day.day, there.unwrap_or(new));
        }
    }

    /// Whether there is a stretch to be looked at.
    pub(crate) fn is_busy(&self) -> bool {
        self.walks.values().any(|walk| !walk.is_done())
    }

    /// The days in which no app keeps anything, each with the number of runs for which that is true.
    pub(crate) fn needless(&self, keep: &Keep) -> BTreeMap<u32, u64> {
        let is_needless =
            |(day, walk): &(&u32, &Walk)| walk.stage == Stage::Needless && walk.who == Who::of(keep, **day);
        self.walks.iter().filter(is_needless).map(|(day, walk)| (*day, walk.runs)).collect()
    }

    /// The next stretch, of the oldest day that has one.
    pub(crate) fn next(&mut self, keep: &Keep) -> Option<Stretch> {
        let (day, walk) = self.walks.iter_mut().find(|(_, walk)| !walk.is_done())?;
        let who = Who::of(keep, *day);
        if walk.who != who {
            // What was found so far was found under other settings.
            *walk = Walk::new(keep, OldDay { day: *day, runs: walk.runs, closed: walk.closed });
        }
        let (from, max) = match walk.stage {
            Stage::Look(from) => (from, 0),
            Stage::Thin(from) => (from, REMOVED_MAX),
            Stage::Thinned | Stage::Needless => return None,
        };
        Some(Stretch { day: *day, from, max })
    }

    /// Takes note of what was found in a stretch.
    pub(crate) fn took(&mut self, day: u32, thinned: &Thinned) -> Took {
        let Some(walk) = self.walks.get_mut(&day) else { return Took::Noted };
        walk.runs = walk.runs.saturating_sub(thinned.removed);
        walk.closed = walk.closed.saturating_sub(thinned.removed);
        walk.stays += thinned.stays;
        walk.stage = match (walk.stage, thinned.rest) {
            (Stage::Look(_), _) if walk.stays > 0 => {
                walk.stays = 0;
                Stage::Thin(RunId::new(day, 0))
            }
            (Stage::Look(_), Some(rest)) => Stage::Look(rest),
            (Stage::Thin(_), Some(rest)) => Stage::Thin(rest),
            (Stage::Thin(_), None) if walk.stays > 0 => Stage::Thinned,
            (Stage::Look(_) | Stage::Thin(_), None) => Stage::Needless,
            (done, _) => done,
        };
        if walk.stage == Stage::Needless { Took::Needless } else { Took::Noted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 2_510;

    fn keep(shop: u32, others: u32) -> Keep {
        let before = RunId::day_start;
        Keep { apps: BTreeMap::from([("shop".into(), before(shop))]), ..Keep::since(before(others)) }
    }

    fn old(runs: u64, closed: u64) -> OldDay {
        OldDay { day: DAY, runs, closed }
    }

    fn found(removed: u64, stays: u64, rest: Option<u64>) -> Thinned {
        Thinned { removed, stays, rest: rest.map(|sequence| RunId::new(DAY, sequence)) }
    }

    fn stretch(from: u64, max: usize) -> Option<Stretch> {
        Some(Stretch { day: DAY, from: RunId::new(DAY, from), max })
    }

    #[test]
    fn a_day_in_which_nobody_keeps_anything_is_only_looked_at() {
        let (mut thinning, keep) = (Thinning::default(), keep(DAY + 1, DAY));
        thinning.note(&keep, &[old(9, 9)]);
        assert_eq!(thinning.next(&keep), stretch(0, 0));
        assert_eq!(thinning.took(DAY, &found(0, 0, Some(5))), Took::Noted);
        assert_eq!(thinning.next(&keep), stretch(5, 0));
        assert_eq!(thinning.needless(&keep), BTreeMap::new());
        assert_eq!(thinning.took(DAY, &found(0, 0, None)), Took::Needless);
        assert_eq!(thinning.needless(&keep), BTreeMap::from([(DAY, 9)]));
        assert!(!thinning.is_busy());
    }

    #[test]
    fn what_is_needless_under_one_setting_is_not_so_under_another() {
        let (mut thinning, keep, longer) =
            (Thinning::default(), keep(DAY + 1, DAY), self::keep(DAY, DAY + 1));
        thinning.note(&keep, &[old(9, 9)]);
        thinning.took(DAY, &found(0, 0, None));
        assert_eq!(thinning.needless(&longer), BTreeMap::new());
        thinning.note(&longer, &[old(9, 9)]);
        assert_eq!(thinning.next(&longer), stretch(0, 0));
    }

    #[test]
    fn a_day_that_an_app_keeps_is_thinned_from_its_beginning() {
        let (mut thinning, keep) = (Thinning::default(), keep(DAY + 1, DAY));
        thinning.note(&keep, &[old(5_000, 5_000)]);
        thinning.took(DAY, &found(0, 1, Some(7)));
        assert_eq!(thinning.next(&keep), stretch(0, REMOVED_MAX));
        thinning.took(DAY, &found(1_000, 3, Some(1_003)));
        assert_eq!(thinning.next(&keep), stretch(1_003, REMOVED_MAX));
        thinning.took(DAY, &found(500, 0, None));
        assert_eq!(thinning.next(&keep), None);
        // The same again is nothing new, until something has changed.
        thinning.note(&keep, &[old(3_500, 3_500)]);
        assert_eq!(thinning.next(&keep), None);
        thinning.note(&keep, &[old(3_501, 3_500)]);
        assert_eq!(thinning.next(&keep), stretch(0, 0));
    }

    #[test]
    fn a_walk_that_is_under_way_goes_on_when_the_day_has_changed() {
        let (mut thinning, keep) = (Thinning::default(), keep(DAY + 1, DAY));
        thinning.note(&keep, &[old(9, 8)]);
        thinning.took(DAY, &found(0, 0, Some(5)));
        thinning.note(&keep, &[old(10, 9)]);
        assert_eq!(thinning.next(&keep), stretch(5, 0));
        thinning.took(DAY, &found(0, 0, None));
        // The store does not drop a day that has more runs than were looked at.
        assert_eq!(thinning.needless(&keep), BTreeMap::from([(DAY, 9)]));
        thinning.note(&keep, &[]);
        assert!(!thinning.is_busy());
    }
}
