//! Attempts in flight: sent and not ended, and the places of HTTP calls among them.

use std::collections::{BTreeSet, VecDeque};

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId};
use punctual_core::policy::{ClassOrdinal, Limits, Pace, Places};
use rustc_hash::FxHashMap;

use crate::places::FastCall;
use crate::run::Flight;

/// The attempts in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) flights: FxHashMap<RunId, Flight>,
    pub(crate) deadlines: BTreeSet<(Timestamp, RunId)>,
    /// HTTP calls without a gate that were in flight when their shard was lost, and are still in flight.
    pub(crate) outlived: FxHashMap<RunId, Flight>,
    /// The places of HTTP calls.
    pub(crate) places: Places,
    /// The runs of classes with a limit that are under way.
    pub(crate) classes: ClassesInFlight,
    /// Calls from the fast pool, by when they count as slow.
    pub(crate) fast_calls: VecDeque<FastCall>,
    /// How quick the calls of slow jobs were.
    pub(crate) paces: FxHashMap<JobId, Pace>,
    /// When the jobs in line for the slow pool were last asked whether they belong there.
    pub(crate) paced_at: Option<Timestamp>,
}

impl InFlight {
    pub(crate) fn new(limits: Limits) -> InFlight {
        InFlight {
            flights: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            outlived: FxHashMap::default(),
            places: Places::new(limits),
            classes: ClassesInFlight::default(),
            fast_calls: VecDeque::new(),
            paces: FxHashMap::default(),
            paced_at: None,
        }
    }
}

/// How many runs of each class are under way, of the classes that have a limit.
#[derive(Debug, Default)]
pub(crate) struct ClassesInFlight {
    of: FxHashMap<RunId, ClassOrdinal>,
    counts: FxHashMap<ClassOrdinal, u32>,
}

impl ClassesInFlight {
    pub(crate) fn take(&mut self, id: RunId, class: ClassOrdinal) {
        if self.of.insert(id, class).is_none() {
            *self.counts.entry(class).or_default() += 1;
        }
    }

    /// Whether the run was counted.
    pub(crate) fn give_back(&mut self, id: RunId) -> bool {
        let Some(class) = self.of.remove(&id) else { return false };
        if let Some(count) = self.counts.get_mut(&class) {
            *count -= 1;
        }
        true
    }

    pub(crate) fn count(&self, class: ClassOrdinal) -> u32 {
        self.counts.get(&class).copied().unwrap_or(0)
    }
}
