//! What nodes ask each other, so that each of them can answer for all: figures, and what happens. Between nodes of one
//! cluster only, so it is in no document; a node of another version that does not know a path or a field answers less.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where nodes ask each other for figures.
pub const FIGURES_PATH: &str = "/api/v1/peers/figures";

/// Where nodes listen to each other: lines of JSON, each a [`PeerSaid`].
pub const EVENTS_PATH: &str = "/api/v1/peers/events";

/// Which figures are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerFiguresAsked {
    /// Stretches of time; none if only the rest is wanted.
    pub stretches: Option<PeerStretches>,
    /// The jobs whose last runs are wanted.
    pub jobs: Vec<u32>,
}

/// Consecutive stretches of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PeerStretches {
    /// The number of the first, counted from 1970 in stretches.
    pub first: i64,
    /// How many steps of five minutes each has.
    pub step: i64,
    /// How many there are.
    pub count: i64,
}

/// The figures of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFigures {
    /// When it began to count, in milliseconds since 1970; none if nothing happened yet.
    pub began: Option<i64>,
    /// From when on it knows something.
    pub since: Option<i64>,
    /// What it ended itself, by stretch.
    pub counted: Vec<PeerTally>,
    /// What had ended before it began, on any node, by stretch.
    pub restored: Vec<PeerTally>,
    /// The last runs of jobs that it ended or read.
    pub recent: BTreeMap<u32, Vec<PeerEnded>>,
    /// What it has in hand.
    pub load: PeerLoad,
}

/// What happened in a stretch of time.
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
    /// Which.
    pub run: u64,
    /// How, by the name of the outcome.
    pub outcome: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// How long its last attempt took, as far as is known.
    pub took_ms: Option<u32>,
}

/// What a node has in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerLoad {
    /// Runs that are loaded and not started.
    pub loaded: u64,
    /// Attempts that are on their way.
    pub running: u64,
    /// Shards that it acts for.
    pub shards: u64,
    /// Runs that are due and not started.
    pub due: u64,
    /// For how many milliseconds the oldest of those has been due.
    pub oldest_due_ms: Option<u64>,
}

/// A line of what a node tells another that listens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerSaid {
    /// The first line: from here on.
    Begin {
        /// What to name when the connection is cut before the first event.
        id: String,
        /// Whether events between the one that was named and this place are missing.
        is_reset: bool,
    },
    /// Something happened at the node that speaks.
    Event(PeerEvent),
    /// The listener was too slow, and events are missing.
    Missed {
        /// The place from which it goes on.
        id: String,
    },
    /// Nothing happened for a while.
    Beat,
}

/// Something that happened at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerEvent {
    /// Its number there.
    pub id: String,
    /// Its name, as clients get it.
    pub name: String,
    /// The app that it is about; none if it says none, or a job.
    pub app: Option<String>,
    /// The job that it is about.
    pub job: Option<u32>,
    /// What it says, as clients get it.
    pub data: Map<String, Value>,
}
