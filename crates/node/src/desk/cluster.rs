//! The cluster as this node sees it, for people: the living nodes, and the holder of each shard.

use punctual_core::model::{Epoch, NodeId, ShardId, Text};

use crate::Node;
use crate::ports::{Hint, NodeRow};

/// A node, as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Its present life.
    pub node: NodeId,
    /// What people call it.
    pub name: Text,
    /// Where it is reached.
    pub address: Text,
    /// How many shards it acts for.
    pub shards: usize,
    /// Whether it is the one that was asked.
    pub is_self: bool,
    /// Whether it has left, and takes no shards.
    pub is_drained: bool,
}

/// A shard, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// The shard.
    pub shard: ShardId,
    /// The node that acts for it.
    pub owner: Option<NodeId>,
    /// The last epoch given for it.
    pub epoch: Epoch,
}

impl Node {
    /// The nodes that lived when this one last heard of them, drained ones with them; this one always.
    pub fn nodes(&self) -> Vec<NodeView> {
        let boot = self.boot();
        let memory = self.memory();
        let me = memory.cluster.id;
        let shards_of =
            |node: NodeId| memory.cluster.owners.iter().filter(|owner| **owner == Some(node)).count();
        let view = |row: &NodeRow, is_drained| NodeView {
            node: row.node,
            name: row.name.clone(),
            address: row.address.clone(),
            shards: shards_of(row.node),
            is_self: false,
            is_drained,
        };
        let drained: Vec<NodeView> = memory.cluster.drained(boot).map(|row| view(row, true)).collect();
        let is_living = |row: &&NodeRow| row.node != me && drained.iter().all(|one| one.node != row.node);
        let living = memory.cluster.nodes.iter().filter(is_living).map(|row| view(row, false));
        let others: Vec<NodeView> = living.collect();
        let own = NodeView {
            node: me,
            name: self.settings.name.clone(),
            address: self.settings.address.clone(),
            shards: memory.cluster.held.len(),
            is_self: true,
            is_drained: memory.cluster.has_left,
        };
        others.into_iter().chain(drained).chain([own]).collect()
    }

    /// Asks a node to give its shards back and take none until it is told to come back; whether the node is known.
    pub fn drain(&self, node: NodeId) -> bool {
        if node == self.id() {
            self.hear(Hint::Drain);
            return true;
        }
        let is_known = self.memory().cluster.nodes.iter().any(|row| row.node == node);
        if is_known {
            self.ports.peers.tell(node, Hint::Drain);
        }
        is_known
    }

    /// Asks a drained node to take shards again; whether it is drained, as far as is known here.
    pub fn resume(&self, node: NodeId) -> bool {
        let boot = self.boot();
        let is_drained = self.memory().cluster.drained(boot).any(|row| row.node == node);
        if is_drained {
            self.ports.peers.tell(node, Hint::Resume);
        }
        is_drained
    }

    /// The shards, as this node last heard.
    pub fn shards(&self) -> Vec<ShardView> {
        let memory = self.memory();
        let rows = memory.cluster.owners.iter().zip(&memory.cluster.epochs);
        (0..)
            .map(ShardId)
            .zip(rows)
            .map(|(shard, (owner, epoch))| {
                let epoch = memory.cluster.held.get(&shard).map_or(*epoch, |held| held.epoch);
                ShardView { shard, owner: *owner, epoch }
            })
            .collect()
    }
}
