//! This node in the cluster: its incarnation, its lease, and the shards that it acts for.

use std::collections::BTreeMap;
use std::time::Duration;

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

/// How often a drained node tells the others that it lives.
pub(crate) const TELL_DRAINED: Duration = Duration::from_secs(2);

/// How long the row of a node is remembered that is no longer in the store. A node that is drained says so again and again.
const REMEMBER_LEFT: Duration = Duration::from_secs(10);

/// Another node that is no longer in the store.
#[derive(Clone, Debug)]
pub(crate) struct LeftNode {
    pub(crate) row: NodeRow,
    pub(crate) is_drained: bool,
    until: Boot,
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
    /// Rows of other nodes that left or died lately, and of those that are drained, with when they are forgotten.
    pub(crate) left: BTreeMap<NodeId, LeftNode>,
    /// The shards that this node acts for.
    pub(crate) held: BTreeMap<ShardId, Held>,
    /// Whether it has left the cluster, and does not come back by itself.
    pub(crate) has_left: bool,
    /// Whether it left because it was drained, and lives on.
    pub(crate) is_drained: bool,
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
            left: BTreeMap::new(),
            held: BTreeMap::new(),
            has_left: false,
            is_drained: false,
            wants_to_leave: false,
            gave_back_at: None,
            renewed_at: None,
            returning_until: None,
        }
    }
}

impl Membership {
    /// Takes the living nodes from the store, and remembers those that are gone from it for a while.
    pub(crate) fn meet(&mut self, nodes: &[NodeRow], boot: Boot) {
        let before = std::mem::replace(&mut self.nodes, nodes.to_vec());
        let until = boot.plus(REMEMBER_LEFT);
        for row in before.into_iter().filter(|row| row.node != self.id) {
            self.left.entry(row.node).or_insert(LeftNode { row, is_drained: false, until });
        }
        let me = self.id;
        // A node that comes back is another life at the same address.
        let is_back = |left: &NodeRow| {
            let is_it = |row: &NodeRow| {
                row.node == left.node || (&row.name, &row.address) == (&left.name, &left.address)
            };
            nodes.iter().filter(|row| row.node != me).any(is_it)
        };
        self.left.retain(|_, left| left.until > boot && !is_back(&left.row));
    }

    /// A node says that it is drained. Only one that the store knew is believed: what is told it goes to the address that the
    /// store knew.
    pub(crate) fn note_drained(&mut self, node: NodeId, boot: Boot) {
        let until = boot.plus(REMEMBER_LEFT);
        let row = self.nodes.iter().find(|row| row.node == node && row.node != self.id).cloned();
        if let Some(left) = self.left.get_mut(&node) {
            (left.is_drained, left.until) = (true, until);
        } else if let Some(row) = row {
            self.left.insert(node, LeftNode { row, is_drained: true, until });
        }
    }

    /// The other nodes that are drained and live.
    pub(crate) fn drained(&self, boot: Boot) -> impl Iterator<Item = &NodeRow> {
        let is_drained = move |left: &&LeftNode| left.is_drained && left.until > boot;
        self.left.values().filter(is_drained).map(|left| &left.row)
    }
}
