//! Which runs of a day that stays are removed from it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;
use punctual_node::ports::{Keep, THIN_LOOK, Thinned};

/// A run of the day, as far as thinning needs it.
pub(crate) struct Found {
    pub(crate) run: RunId,
    /// The app of its job; empty if there is no such job.
    pub(crate) app: String,
    pub(crate) is_closed: bool,
    /// The run that it is a part of.
    pub(crate) whole: Option<RunId>,
}

/// What else has to be known about the runs of a stretch.
#[derive(Default)]
pub(crate) struct Kin {
    /// Those that were split: their parts that are there, each with whether it is closed.
    pub(crate) parts: BTreeMap<RunId, BTreeMap<RunId, bool>>,
    /// Which of the runs that have parts in the stretch are there.
    pub(crate) wholes: BTreeSet<RunId>,
}

/// What is to be removed.
#[derive(Default)]
pub(crate) struct Chosen {
    pub(crate) runs: BTreeSet<RunId>,
    /// The apps of their jobs.
    pub(crate) apps: BTreeSet<String>,
    stays: u64,
    rest: Option<RunId>,
}

impl Chosen {
    /// Chooses from the next runs of a day, in the order of their ids.
    pub(crate) fn from(keep: &Keep, day: u32, found: &[Found], kin: &Kin, max: usize) -> Chosen {
        let mut chosen = Chosen::default();
        for one in found {
            match judge(keep, day, one, kin) {
                Verdict::Stays => chosen.stays += 1,
                Verdict::GoesWithWhole => {}
                Verdict::Goes if max == 0 => {}
                Verdict::Goes if !chosen.takes(one, kin, max) => {
                    chosen.rest = Some(one.run);
                    return chosen;
                }
                Verdict::Goes => {}
            }
        }
        // The last number of a day is never given.
        let last = found.last().filter(|_| found.len() >= THIN_LOOK);
        chosen.rest = last.map(|last| RunId(last.run.0 + 1));
        chosen
    }

    /// Takes a run with its parts, or as many of its parts as there is room for; whether it went too.
    fn takes(&mut self, one: &Found, kin: &Kin, max: usize) -> bool {
        if self.runs.contains(&one.run) {
            return true;
        }
        let room = max.saturating_sub(self.runs.len());
        if room > 0 {
            self.apps.insert(one.app.clone());
        }
        let parts = kin.parts.get(&one.run);
        self.runs.extend(parts.into_iter().flat_map(|parts| parts.keys()).take(room));
        let is_taken = parts.map_or(0, BTreeMap::len) < room;
        if is_taken {
            self.runs.insert(one.run);
        }
        is_taken
    }

    pub(crate) fn thinned(&self) -> Thinned {
        Thinned { removed: self.runs.len() as u64, stays: self.stays, rest: self.rest }
    }

    /// What is removed, by day.
    pub(crate) fn by_day(&self) -> BTreeMap<u32, Vec<RunId>> {
        let mut days: BTreeMap<u32, Vec<RunId>> = BTreeMap::new();
        for run in &self.runs {
            days.entry(run.day()).or_default().push(*run);
        }
        days
    }
}

enum Verdict {
    Stays,
    Goes,
    /// Its whole lies in the same day and is judged itself.
    GoesWithWhole,
}

fn judge(keep: &Keep, day: u32, one: &Found, kin: &Kin) -> Verdict {
    if !one.is_closed || !keep.is_old(&one.app, day) {
        return Verdict::Stays;
    }
    match one.whole {
        Some(whole) if kin.wholes.contains(&whole) && whole.day() == day => return Verdict::GoesWithWhole,
        Some(whole) if kin.wholes.contains(&whole) => return Verdict::Stays,
        Some(_) | None => {}
    }
    let has_open = kin.parts.get(&one.run).is_some_and(|parts| parts.values().any(|is_closed| !is_closed));
    if has_open { Verdict::Stays } else { Verdict::Goes }
}
