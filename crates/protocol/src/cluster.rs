//! The cluster: its nodes, its shards, its storage, and the hints between nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeInfo {
    /// The id of the process; a new one after every start.
    pub node: String,
    /// Its name for people.
    pub name: String,
    /// Its advertised address; empty if it has none.
    pub address: String,
    /// Number of shards that it holds.
    pub shards: u64,
    /// Whether it is the answering node.
    pub is_self: bool,
    /// `active`, or `drained` if it takes no shards until it is resumed.
    pub state: String,
}

/// The living nodes, and drained nodes as long as they live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nodes {
    /// The nodes, by name.
    pub items: Vec<NodeInfo>,
}

/// A shard: a slice of the jobs and runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardInfo {
    /// Its number.
    pub shard: u16,
    /// The node that holds it; null if none does.
    pub node: Option<String>,
    /// The epoch, which fences earlier holders.
    pub epoch: u64,
}

/// All shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shards {
    /// The shards, by number.
    pub items: Vec<ShardInfo>,
}

/// The stored runs of one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BucketInfo {
    /// The day, as a date.
    pub day: String,
    /// Runs of that day.
    pub runs: u64,
    /// Runs of that day that are closed.
    pub closed: u64,
    /// Bytes on disk; 0 if the store cannot tell.
    pub bytes: u64,
    /// Age in days; negative for days in the future.
    pub age_days: i64,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// The days, oldest first.
    pub buckets: Vec<BucketInfo>,
    /// Runs of all days.
    pub runs: u64,
    /// Closed runs of all days.
    pub closed: u64,
    /// Bytes of all days.
    pub bytes: u64,
    /// How long finished runs and their keys are kept.
    pub retention: RetentionInfo,
}

/// How long finished runs and their keys are kept, for apps without a retention of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionInfo {
    /// Finished runs, counted from their day.
    pub runs: Span,
    /// Keys of finished runs.
    pub keys: Span,
}

/// The path for hints between nodes.
pub const HINTS_PATH: &str = "/api/v1/peers/hints";

/// A hint from one node to another. Any hint may be lost, doubled or late: it says where to look, never what is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerHint {
    /// A run or an arrival was written for a shard.
    Arrived(u16),
    /// A job was changed.
    Changed {
        /// The number of the change.
        change: u64,
        /// The job.
        job: u32,
    },
    /// An attempt of this run was settled by a node that does not hold its shard.
    Settled(u64),
    /// Shards were released and can be taken.
    Vacated,
    /// The node should release its shards and take none.
    Drain,
    /// The sending node, with this id, is drained and lives on.
    Drained(String),
    /// The node, which is drained, should take shards again.
    Resume,
    /// The sending node has no session with this native executor.
    Missing(String),
    /// A node has no session with a native executor, and asks a node that has one to relay messages.
    Carry {
        /// The executor's address.
        url: String,
        /// The id of the asking node.
        to: String,
    },
}
