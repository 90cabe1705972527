//! The loaded runs, and where each of them is. A run is in one location at a time (`RunLocation`), and in the set of that
//! location alone; [`super::Memory::move_to`] is the one function that moves it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calendar::Timestamp;
use punctual_core::due::DueQueue;
use punctual_core::model::{JobId, Overrides, RunId};
use punctual_core::rank_set::RankSet;
use punctual_core::wheel::Wheel;
use rustc_hash::FxHashMap;

use crate::ahead::Ahead;
use crate::flow::Flow;
use crate::keys::KeyWaits;
use crate::parked::ParkedJobs;
use crate::ports::{Address, Boot, Waiting};
use crate::reads::Reads;
use crate::run::{Run, RunLocation};
use crate::seek::{Parts, Seekers};
use crate::table::Table;

/// What is going on with a job.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// Runs that were admitted and are not closed: on their way, or between two attempts of a limited job.
    pub(crate) running: BTreeSet<RunId>,
    /// Runs that wait for one of those to end.
    pub(crate) queue: RankSet,
}

/// The loaded runs.
#[derive(Debug)]
pub(crate) struct LoadedRuns {
    pub(crate) runs: Table,
    /// Reads of runs that are on their way to the store and back.
    pub(crate) reads: Reads<RunId>,
    /// Runs that are not in memory, and about which something may have been written without this node being told.
    pub(crate) unsure: BTreeSet<RunId>,

    // The sets of the locations.
    /// Runs that wait for their time.
    pub(crate) wheel: Wheel,
    pub(crate) wheel_capacity: usize,
    /// Runs with gates that wait for their next attempt. Loading never finds those, so they have a place whatever the
    /// wheel holds.
    pub(crate) between: BTreeSet<(Timestamp, RunId)>,
    /// Runs that are due.
    pub(crate) ready: DueQueue,
    /// Runs that wait for exclusive keys.
    pub(crate) keys: KeyWaits,
    /// Runs in the hands of a step.
    pub(crate) busy: BTreeSet<RunId>,
    /// Runs that wait for an executor.
    pub(crate) seekers: Seekers,
    /// The running and the waiting runs of each job.
    pub(crate) active: FxHashMap<JobId, Active>,

    // What else is known of some of them.
    /// The overrides of the few runs that have any.
    pub(crate) overrides: FxHashMap<RunId, Arc<Overrides>>,
    /// Their payloads.
    pub(crate) ahead: Ahead,
    /// Executors that were chosen for runs which are not on their way yet.
    pub(crate) chosen: FxHashMap<RunId, Arc<Address>>,
    pub(crate) parts: Parts,
    /// When runs were due whose attempts so far are only supposed: the first certain one is as late as that.
    pub(crate) supposed: FxHashMap<RunId, Timestamp>,
    /// How many attempts of a run never reached an executor, and do not count.
    pub(crate) spared: FxHashMap<RunId, u32>,

    // Runs that wait in the store.
    pub(crate) parked: ParkedJobs,
    /// Grows when calling back is asked for, and again when it is answered: odd while it is on its way.
    pub(crate) callings: u64,
    /// Jobs that have runs waiting for a place which another node has, and when they ask again.
    pub(crate) held_back: BTreeMap<JobId, Boot>,
    /// How fast the due queue empties.
    pub(crate) flow: Flow,
}

impl LoadedRuns {
    pub(crate) fn new(wheel_capacity: usize) -> LoadedRuns {
        LoadedRuns {
            runs: Table::default(),
            reads: Reads::default(),
            unsure: BTreeSet::new(),
            wheel: Wheel::new(wheel_capacity, Timestamp::MIN),
            wheel_capacity,
            between: BTreeSet::new(),
            ready: DueQueue::default(),
            keys: KeyWaits::default(),
            busy: BTreeSet::new(),
            seekers: Seekers::default(),
            active: FxHashMap::default(),
            overrides: FxHashMap::default(),
            ahead: Ahead::default(),
            chosen: FxHashMap::default(),
            parts: Parts::default(),
            supposed: FxHashMap::default(),
            spared: FxHashMap::default(),
            parked: ParkedJobs::default(),
            callings: 0,
            held_back: BTreeMap::new(),
            flow: Flow::starting(Boot::default()),
        }
    }
}

impl LoadedRuns {
    /// Takes a run in that is not there yet.
    pub(crate) fn insert(&mut self, waiting: &Waiting, run: Run) {
        self.runs.insert(waiting.run, run);
        if let Some(overrides) = &waiting.overrides {
            self.overrides.insert(waiting.run, Arc::clone(overrides));
        }
    }

    /// What a loaded run has in place of its job's.
    pub(crate) fn overrides_of(&self, id: RunId) -> &Overrides {
        match self.overrides.is_empty() {
            true => Overrides::none(),
            false => self.overrides.get(&id).map_or(Overrides::none(), |overrides| overrides),
        }
    }

    /// Takes a run out of the set of its location.
    pub(super) fn take_out(&mut self, id: RunId, run: &Run) {
        match run.location {
            RunLocation::Wheel => drop(self.wheel.cancel(id.0)),
            RunLocation::Between => drop(self.between.remove(&(run.ready_at, id))),
            RunLocation::Ready => drop(self.ready.remove(run.job, run.rank(id))),
            RunLocation::Queued => {
                if let Some(active) = self.active.get_mut(&run.job) {
                    active.queue.remove(&run.rank(id));
                }
            }
            RunLocation::Keyed => drop(self.keys.take(id)),
            // It keeps its patience: it may wait again.
            RunLocation::Seeking => drop(self.seekers.take(id)),
            RunLocation::Busy => drop(self.busy.remove(&id)),
            RunLocation::Flight => {}
        }
    }

    /// Whether a run is in no set but that of its location. For assertions.
    pub(super) fn is_nowhere_else(&self, id: RunId, run: &Run) -> bool {
        let in_sets = [
            (RunLocation::Wheel, self.wheel.contains(id.0)),
            (RunLocation::Between, self.between.contains(&(run.ready_at, id))),
            (RunLocation::Ready, self.ready.contains(run.job, run.rank(id))),
            (
                RunLocation::Queued,
                self.active.get(&run.job).is_some_and(|active| active.queue.contains(&run.rank(id))),
            ),
            (RunLocation::Keyed, self.keys.contains(id)),
            (RunLocation::Busy, self.busy.contains(&id)),
        ];
        in_sets.into_iter().all(|(location, is_in)| !is_in || location == run.location)
    }
}
