//! Attempts in flight: sent and not ended, and the places of HTTP calls among them.

use std::collections::{BTreeSet, VecDeque};

use calendar::Timestamp;
use punctual_core::model::{JobId, RunId};
use punctual_core::policy::{Limits, Pace, Places};
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
            fast_calls: VecDeque::new(),
            paces: FxHashMap::default(),
            paced_at: None,
        }
    }
}
