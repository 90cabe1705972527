//! Which node acts for which shard, and which shard a job or run belongs to.
//!
//! Every node computes the same answer from the same list of living nodes, so no node has to ask another. Each shard
//! goes to the node with the greatest weight for it (rendezvous hashing): when a node comes or goes, only the shards
//! that it gains or loses move.

use crate::model::{JobId, NodeId, RunId, ShardId};

/// What a node should do about shards now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Shards without a living owner that fall to this node.
    pub acquire: Vec<ShardId>,
    /// Shards that this node holds and that fall to another living node.
    pub release: Vec<ShardId>,
}

/// Decides about the shards, given the living nodes (`me` among them) and each shard's living owner.
pub fn moves(me: NodeId, nodes: &[NodeId], owners: impl Iterator<Item = (ShardId, Option<NodeId>)>) -> Moves {
    let mut moves = Moves::default();
    for (shard, owner) in owners {
        let is_mine = chosen(shard, nodes) == Some(me);
        match owner {
            None if is_mine => moves.acquire.push(shard),
            Some(owner) if owner == me && !is_mine => moves.release.push(shard),
            _ => {}
        }
    }
    moves
}

/// The shard of a job, of its scheduled runs, and of all its runs if the job limits how many run at once.
pub fn home(job: JobId, shards: u16) -> ShardId {
    slot(mix(u64::from(job.0)), shards)
}

/// The shard of any other run.
pub fn spread(run: RunId, shards: u16) -> ShardId {
    slot(mix(run.0), shards)
}

/// The node that should act for a shard, of those that live.
pub fn chosen(shard: ShardId, nodes: &[NodeId]) -> Option<NodeId> {
    nodes.iter().copied().max_by_key(|node| (weight(shard, *node), *node))
}

fn weight(shard: ShardId, node: NodeId) -> u64 {
    let (high, low) = ((node.0 >> 64) as u64, node.0 as u64);
    mix(mix(high ^ u64::from(shard.0)) ^ low)
}

fn slot(hash: u64, shards: u16) -> ShardId {
    ShardId((hash % u64::from(shards.max(1))) as u16)
}

/// Scatters the bits of a number. Part of what is stored (a job's shard follows from it), so it never changes.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u64) -> Vec<NodeId> {
        (1..=count).map(|n| NodeId(u128::from(mix(n)) << 64 | u128::from(mix(n * 77)))).collect()
    }

    fn share(nodes: &[NodeId], shards: u16) -> Vec<usize> {
        let of = |node: &NodeId| (0..shards).filter(|s| chosen(ShardId(*s), nodes) == Some(*node)).count();
        nodes.iter().map(of).collect()
    }

    #[test]
    fn every_node_gets_a_share() {
        for count in 1..=5 {
            let shares = share(&nodes(count), 64);
            assert_eq!(shares.iter().sum::<usize>(), 64);
            assert!(shares.iter().all(|share| *share >= 64 / count as usize / 3), "{shares:?}");
        }
    }

    #[test]
    fn when_a_node_goes_only_its_shards_move() {
        let all = nodes(4);
        for shard in (0..64).map(ShardId) {
            let before = chosen(shard, &all);
            if before != Some(all[0]) {
                assert_eq!(chosen(shard, &all[1..]), before);
            }
        }
    }

    #[test]
    fn free_shards_are_taken_by_the_chosen_and_foreign_ones_are_given_back() {
        let all = nodes(2);
        let owners = || (0..64).map(|shard| (ShardId(shard), (shard % 2 == 0).then_some(all[0])));
        let (first, second) = (moves(all[0], &all, owners()), moves(all[1], &all, owners()));
        assert!(first.acquire.iter().all(|shard| shard.0 % 2 == 1 && !second.acquire.contains(shard)));
        assert_eq!(first.acquire.len() + second.acquire.len(), 32);
        assert!(first.release.iter().all(|shard| chosen(*shard, &all) == Some(all[1])));
        assert!(second.release.is_empty());
        assert!(!first.release.is_empty());
    }

    #[test]
    fn a_jobs_shard_is_what_it_always_was() {
        assert_eq!([1, 2, 3, 1_000_000].map(|job| home(JobId(job), 64).0), [1, 14, 45, 39]);
    }
}
