//! This node in the cluster: its incarnation, its lease, and the shards that it acts for.

use std::collections::BTreeMap;

use calendar::Timestamp;
use punctual_core::cluster::Tenure;
use punctual_core::model::{ChangeId, Epoch, NodeId, ShardId};
use punctual_core::wheel::Mark;

use crate::ports::{Boot, NodeRow};

/// A shard that this node acts for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) epoch: Epoch,
    /// A run that is ready before this and has no gate may have been sent by the last holder.
    pub(crate) inherited: Timestamp,
    /// Every open run below this place is in memory, or parked.
    pub(crate) loaded: Mark,
    /// How far loading has asked the store to read. What we write below this comes into memory at once: a load that
    /// was on its way at that moment may have missed it.
    pub(crate) reach: Mark,
    /// Whether something may have been written below `loaded` that the load on its way cannot know.
    pub(crate) is_in_question: bool,
    /// Whether what the last holder left behind its gates is known.
    pub(crate) is_adopted: bool,
    /// What the store was last told.
    pub(crate) checkpoint: Mark,
    /// Up to where a sweep has looked that began after the store was last told.
    pub(crate) swept: Timestamp,
    /// Whether the sweep on its way began after the store was last told.
    pub(crate) is_sweeping: bool,
    /// Whether the store has answered what it was last told.
    pub(crate) is_answered: bool,
}

impl Held {
    /// The store is being told: what is written before it hears it is for a sweep to find that begins when it has
    /// answered.
    pub(crate) fn tell(&mut self) {
        self.swept = Timestamp::MIN;
        self.is_sweeping = false;
        self.is_answered = false;
    }
}

/// What this node is in the cluster.
#[derive(Debug)]
pub(crate) struct Membership {
    /// This incarnation.
    pub(crate) id: NodeId,
    pub(crate) tenure: Option<Tenure>,
    /// The last change of jobs that this node follows.
    pub(crate) seen: ChangeId,
    /// The node that holds each shard, by the shard's number.
    pub(crate) owners: Vec<Option<NodeId>>,
    /// The last epoch of each shard, as the store said.
    pub(crate) epochs: Vec<Epoch>,
    /// The living nodes.
    pub(crate) nodes: Vec<NodeRow>,
    /// The shards that this node acts for.
    pub(crate) held: BTreeMap<ShardId, Held>,
    /// Whether it has left the cluster, and does not come back by itself.
    pub(crate) has_left: bool,
    /// Whether it was asked to leave.
    pub(crate) wants_to_leave: bool,
    /// When it last gave shards back.
    pub(crate) gave_back_at: Option<Boot>,
    /// When the last renewal was answered.
    pub(crate) renewed_at: Option<Boot>,
    /// Until when other nodes that come back from an outage of the store may settle what they know.
    pub(crate) returning_until: Option<Boot>,
}

impl Membership {
    /// An incarnation that has not joined yet.
    pub(crate) fn of(id: NodeId) -> Membership {
        Membership {
            id,
            tenure: None,
            seen: ChangeId(0),
            owners: Vec::new(),
            epochs: Vec::new(),
            nodes: Vec::new(),
            held: BTreeMap::new(),
            has_left: false,
            wants_to_leave: false,
            gave_back_at: None,
            renewed_at: None,
            returning_until: None,
        }
    }
}
