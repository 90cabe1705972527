//! Questions between the nodes of one cluster, so that each node can answer for all: figures and events. No document lists
//! them. A node of another version that does not know a path or a field leaves it out of its answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The path at which a node returns its figures.
pub const FIGURES_PATH: &str = "/api/v1/peers/figures";

/// The path at which a node streams its events: lines of JSON, each a [`PeerSaid`].
pub const EVENTS_PATH: &str = "/api/v1/peers/events";

/// The question for figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerFiguresAsked {
    /// The intervals to count; none if only the other figures are wanted.
    pub stretches: Option<PeerStretches>,
    /// The jobs whose last runs are wanted.
    pub jobs: Vec<u32>,
}

/// Consecutive intervals of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerStretches {
    /// The number of the first, counted from 1970 in such intervals.
    pub first: i64,
    /// How many steps of five minutes each has.
    pub step: i64,
    /// How many there are.
    pub count: i64,
}

/// The figures of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFigures {
    /// When the node began to count, in milliseconds since 1970; none if nothing has happened yet.
    pub began: Option<i64>,
    /// The earliest moment that the node has figures for.
    pub since: Option<i64>,
    /// What this node ended since it began to count, by interval.
    pub counted: Vec<PeerTally>,
    /// What any node had ended before that, read from the store, by interval.
    pub restored: Vec<PeerTally>,
    /// The last runs of each job that this node ended, or read from the store.
    pub recent: BTreeMap<u32, Vec<PeerEnded>>,
    /// Its present load.
    pub load: PeerLoad,
}

/// Counts of one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerTally {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed or were lost.
    pub failed: u64,
    /// Runs that were cancelled or skipped, and fire times that were passed over.
    pub not_run: u64,
    /// Attempts that were sent.
    pub sent: u64,
    /// First attempts that were late.
    pub late: u64,
    /// The largest lag.
    pub lag_max_ms: u64,
    /// Lags by bin, where there are any.
    pub lags: Vec<(u16, u32)>,
}

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerEnded {
    /// Its id.
    pub run: u64,
    /// The name of its outcome.
    pub outcome: String,
    /// When it ended, in milliseconds since 1970.
    pub at: i64,
    /// The duration of its last attempt, if it is known.
    pub took_ms: Option<u32>,
}

/// The present load of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// Runs that are loaded and not started.
    pub loaded: u64,
    /// Attempts in flight.
    pub running: u64,
    /// Shards that it holds.
    pub shards: u64,
    /// Runs that are due and not started.
    pub due: u64,
    /// For how many milliseconds the oldest of those has been due.
    pub oldest_due_ms: Option<u64>,
}

/// A line of the stream of a node's events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerSaid {
    /// The first line: where the stream begins.
    Begin {
        /// The id to resume from if the connection is cut before the first event.
        id: String,
        /// Whether events between the requested place and this one are missing.
        is_reset: bool,
    },
    /// An event of the sending node.
    Event(PeerEvent),
    /// The listener was too slow, and events are missing.
    Missed {
        /// The place at which the stream goes on.
        id: String,
    },
    /// Nothing happened for a while.
    Beat,
}

/// An event of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerEvent {
    /// Its number there.
    pub id: String,
    /// Its name, as clients get it.
    pub name: String,
    /// The app that it is about; none if it is about a job or about neither.
    pub app: Option<String>,
    /// The job that it is about.
    pub job: Option<u32>,
    /// Its data, as clients get it.
    pub data: Map<String, Value>,
}
