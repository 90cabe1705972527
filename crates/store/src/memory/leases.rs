//! Leases: which nodes live, which shards they hold, and what the last holder promised.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, NodeId, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Acquired, Lease, NodeRow, Renewal, Renewed, ShardRow, StoreError};

use super::state::{Node, Shard, State};

/// How many changes one renewal answers with at most.
const CHANGES_MAX: usize = 1_000;

impl State {
    pub(super) fn renew(&mut self, now: Timestamp, renewal: Renewal) -> Result<Renewed, StoreError> {
        let id = renewal.node;
        for node in self.nodes.values_mut() {
            // From before the clock was set back: no node lives longer than its term from now.
            node.expires_at = node.expires_at.min(now.saturating_add(node.term));
        }
        if self.nodes.contains_key(&id) && !self.is_alive(now, id) {
            return Err(expired(id));
        }
        // A mark never falls: what was begun under a higher one is not undone by a lower one.
        let mark = self.nodes.get(&id).map_or(renewal.mark, |node| node.mark.max(renewal.mark));
        let is_latest = mark == renewal.mark;
        let node = Node {
            expires_at: now.saturating_add(renewal.term),
            term: renewal.term,
            mark,
            seen: renewal.seen.0,
            name: renewal.name,
            address: renewal.address,
        };
        self.nodes.insert(id, node);
        for (lease, checkpoint) in renewal.checkpoints {
            if let Some(shard) = self.shards.get_mut(&lease.shard)
                && is_held_by(shard, id, lease)
                && is_latest
            {
                let reached = checkpoint.min(Mark { due: shard.floor, id: 0 });
                shard.checkpoint = shard.checkpoint.max(reached);
                shard.floor = Timestamp::MAX;
            }
        }
        Ok(self.renewed(now, id, renewal.seen))
    }

    fn renewed(&self, now: Timestamp, id: NodeId, seen: ChangeId) -> Renewed {
        let nodes = self.nodes.iter().filter(|(_, node)| now < node.expires_at);
        let nodes = nodes.map(|(id, node)| NodeRow {
            node: *id,
            name: node.name.clone(),
            address: node.address.clone(),
            expires_at: node.expires_at,
        });
        let shards = self.shards.iter().map(|(id, shard)| ShardRow {
            shard: *id,
            owner: shard.owner.filter(|owner| self.is_alive(now, *owner)),
            epoch: Epoch(shard.epoch),
            checkpoint: shard.checkpoint,
        });
        let has_arrivals =
            |id: &ShardId| self.arrivals_by_shard.range((*id, 0)..=(*id, u64::MAX)).next().is_some();
        let held = self.shards.iter().filter(|(_, shard)| shard.owner == Some(id)).map(|(id, _)| *id);
        Renewed {
            now,
            nodes: nodes.collect(),
            shards: shards.collect(),
            changes: (1..)
                .zip(&self.changes)
                .skip(usize::try_from(seen.0.max(self.forgotten_changes)).unwrap_or(usize::MAX))
                .map(|(change, job)| (ChangeId(change), *job))
                .take(CHANGES_MAX)
                .collect(),
            latest: ChangeId(self.changes.len() as u64),
            arrivals: held.filter(has_arrivals).collect(),
        }
    }

    pub(super) fn acquire(
        &mut self,
        now: Timestamp,
        node: NodeId,
        shards: &[ShardId],
    ) -> Result<Vec<Acquired>, StoreError> {
        if !self.is_alive(now, node) {
            return Err(expired(node));
        }
        Ok(shards.iter().filter_map(|shard| self.take(now, node, *shard)).collect())
    }

    fn take(&mut self, now: Timestamp, node: NodeId, id: ShardId) -> Option<Acquired> {
        let owner = self.shards.get(&id)?.owner;
        if owner.is_some_and(|owner| owner != node && self.is_alive(now, owner)) {
            return None;
        }
        let promised = owner.map(|owner| self.nodes[&owner].mark);
        let first_wait = self.first_wait(id);
        let shard = self.shards.get_mut(&id)?;
        // Not the last promise alone: an earlier holder may have sent further ahead, and the last holder
        // may have gone before it got round to what it inherited.
        shard.inherited = shard.inherited.max(promised);
        self.last_epoch += 1;
        shard.epoch = self.last_epoch;
        shard.owner = Some(node);
        let lease = Lease { shard: id, epoch: Epoch(shard.epoch) };
        let checkpoint = shard.checkpoint.min(first_wait.unwrap_or(shard.checkpoint));
        Some(Acquired { lease, mark: shard.inherited, checkpoint })
    }

    /// Where the first run waits for an instant: it may have been made ready for one that is long past.
    fn first_wait(&self, shard: ShardId) -> Option<Mark> {
        let all = (shard, Timestamp::MIN, RunId(0))..=(shard, Timestamp::MAX, RunId(u64::MAX));
        let unsent = self.waits.range(all).map(|(_, ready_at, _)| *ready_at).next();
        let sent = self.sent.range((shard, RunId(0))..=(shard, RunId(u64::MAX)));
        let sent = sent.filter_map(|(_, run)| self.runs[run].wait.and_then(|wait| wait.ready_at));
        sent.chain(unsent).min().map(|due| Mark { due, id: 0 })
    }

    pub(super) fn release(&mut self, node: NodeId, leases: &[Lease], mark: Timestamp) {
        for lease in leases {
            if let Some(shard) = self.shards.get_mut(&lease.shard)
                && is_held_by(shard, node, *lease)
            {
                shard.owner = None;
                shard.inherited = shard.inherited.max(Some(mark));
            }
        }
    }

    pub(super) fn is_in_force(&self, now: Timestamp, change: ChangeId) -> bool {
        let holders = self.shards.values().filter_map(|shard| shard.owner);
        let mut living = holders.filter(|holder| self.is_alive(now, *holder));
        living.all(|holder| self.nodes[&holder].seen >= change.0)
    }

    /// Whether a lease is the last one given for its shard, and its holder lives and has not given it back.
    pub(super) fn is_current(&self, now: Timestamp, lease: Lease) -> bool {
        self.shards.get(&lease.shard).is_some_and(|shard| {
            shard.epoch == lease.epoch.0 && shard.owner.is_some_and(|owner| self.is_alive(now, owner))
        })
    }

    /// Refuses if any of the leases is not current.
    pub(super) fn check(&self, now: Timestamp, leases: &[Lease]) -> Result<(), StoreError> {
        match leases.iter().find(|lease| !self.is_current(now, **lease)) {
            None => Ok(()),
            Some(lease) => {
                let Lease { shard, epoch } = lease;
                Err(StoreError::Fenced(format!("epoch {epoch} of shard {shard} is not current").into()))
            }
        }
    }

    fn is_alive(&self, now: Timestamp, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| now < node.expires_at)
    }
}

/// The shards of leases, each once.
pub(super) fn shards_of(leases: &[Lease]) -> BTreeSet<ShardId> {
    leases.iter().map(|lease| lease.shard).collect()
}

fn is_held_by(shard: &Shard, node: NodeId, lease: Lease) -> bool {
    shard.owner == Some(node) && shard.epoch == lease.epoch.0
}

fn expired(node: NodeId) -> StoreError {
    StoreError::Fenced(format!("node {node} has no row that lives").into())
}
