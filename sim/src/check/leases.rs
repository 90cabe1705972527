//! Which node holds which shard: epochs belong to one life of a node, and grow.

use punctual_core::model::{Epoch, NodeId, ShardId};
use punctual_node::ports::Acquired;
use rustc_hash::FxHashMap;

use super::{Checked, Who, hold};
use crate::link::Micros;

/// What is known of leases.
#[derive(Debug, Default)]
pub struct Leases {
    /// The node that was given an epoch, and for which shard.
    given: FxHashMap<Epoch, (Who, ShardId)>,
    /// The last epoch of each shard.
    current: FxHashMap<ShardId, Epoch>,
    /// When the holder of each shard was given it.
    since: FxHashMap<ShardId, Micros>,
    last: Epoch,
    /// Which life of which node an identity belongs to.
    known: FxHashMap<NodeId, Who>,
    /// How many times a shard was taken.
    pub moves: u64,
}

impl Leases {
    /// A node was given shards.
    pub fn acquired(&mut self, now: Micros, who: Who, node: NodeId, acquired: &[Acquired]) -> Checked {
        let known = *self.known.entry(node).or_insert(who);
        hold!("I13", known == who, "{who} acquires under the identity of {known}");
        for Acquired { lease, .. } in acquired {
            let (shard, epoch) = (lease.shard, lease.epoch);
            hold!(
                "I13",
                epoch > self.last,
                "{who} was given epoch {epoch} for shard {shard}, after {}",
                self.last
            );
            self.last = epoch;
            // One that has it already, and is given it again, has not been without.
            if self.holder(shard) != Some(who) {
                self.since.insert(shard, now);
            }
            self.given.insert(epoch, (who, shard));
            self.current.insert(shard, epoch);
            self.moves += 1;
        }
        Ok(())
    }

    /// A node acts for a shard under an epoch.
    pub fn acts(&self, who: Who, shard: ShardId, epoch: Epoch, is_honest: bool) -> Checked {
        let given = self.given.get(&epoch);
        hold!(
            "I13",
            given == Some(&(who, shard)),
            "{who} acts for shard {shard} under epoch {epoch}, which was given to {given:?}"
        );
        let current = self.current.get(&shard);
        // It may have been given to the same node again, by a request of its own that was applied late.
        let is_its_own = current.and_then(|current| self.given.get(current)) == Some(&(who, shard));
        hold!(
            "L9",
            !is_honest || current == Some(&epoch) || is_its_own,
            "{who} acts for shard {shard} under epoch {epoch}, and {current:?} was given since"
        );
        Ok(())
    }

    fn holder(&self, shard: ShardId) -> Option<Who> {
        let epoch = self.current.get(&shard)?;
        self.given.get(epoch).map(|(who, _)| *who)
    }

    /// Since when a node has had a shard; nothing if another has it.
    pub fn held_since(&self, who: Who, shard: ShardId) -> Option<Micros> {
        self.since.get(&shard).copied().filter(|_| self.holder(shard) == Some(who))
    }

    /// Whether an epoch is the last one of its shard.
    pub fn is_current(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.current.get(&shard) == Some(&epoch)
    }
}
