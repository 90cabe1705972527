//! The cluster: its nodes, its shards, what is stored, and what nodes tell each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// The name of its present life; another after every start.
    pub node: String,
    /// What people call it.
    pub name: String,
    /// Where it is reached; empty if it did not say.
    pub address: String,
    /// How many shards it acts for.
    pub shards: u64,
    /// Whether it is the one that answers.
    pub is_self: bool,
    /// `active`, or `drained` if it takes no shards until it is resumed.
    pub state: String,
}

/// The nodes that live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// By name.
    pub items: Vec<NodeInfo>,
}

/// A shard: a slice of the jobs and runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardInfo {
    /// Its number.
    pub shard: u16,
    /// The node that acts for it; null if nobody does.
    pub node: Option<String>,
    /// The number that fences earlier holders.
    pub epoch: u64,
}

/// All shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shards {
    /// By number.
    pub items: Vec<ShardInfo>,
}

/// A day of runs as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BucketInfo {
    /// The day, as a date.
    pub day: String,
    /// Runs that were born on it.
    pub runs: u64,
    /// Those of them that are closed.
    pub closed: u64,
    /// Bytes, as far as the store can say; 0 if it cannot.
    pub bytes: u64,
    /// How many days ago it was; negative for days to come.
    pub age_days: i64,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// By day, the oldest first.
    pub buckets: Vec<BucketInfo>,
    /// All runs in them.
    pub runs: u64,
    /// Those that are closed.
    pub closed: u64,
    /// All bytes.
    pub bytes: u64,
    /// For how long what is kept.
    pub retention: RetentionInfo,
}

/// For how long something is kept, unless an app says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionInfo {
    /// Runs that have ended, by the day they were born on.
    pub runs: Span,
    /// Keys of runs that have ended.
    pub keys: Span,
}

/// Where nodes tell each other something.
pub const HINTS_PATH: &str = "/api/v1/peers/hints";

/// What one node tells another. Each may be lost, doubled or late: it says where to look, never what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerHint {
    /// Something was written for a shard.
    Arrived(u16),
    /// A job was changed.
    Changed {
        /// The place among all changes.
        change: u64,
        /// The job.
        job: u32,
    },
    /// An attempt of this run was settled by somebody who does not hold its shard.
    Settled(u64),
    /// Shards are free to be taken.
    Vacated,
    /// Somebody wishes the node to give its shards back and take none.
    Drain,
    /// A native executor has no session with who tells this.
    Missing(String),
    /// A node has no session with a native executor, and asks whoever has one to carry for it.
    Carry {
        /// The executor.
        url: String,
        /// The node that asks, as the list of nodes names it.
        to: String,
    },
}
