//! Leases: who lives, who holds what, and what the last holder promised.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, Epoch, NodeId, Outcome, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Acquired, ArrivalKind, Lease, NodeRow, Renewal, ShardRow, StoreError};

use super::subject::{A, B, C, JOB, SHARDS, START, Subject, TERM, definition, second, unsent, wait};

const MILLISECOND: Duration = Duration::from_millis(1);

pub(super) async fn a_node_that_renews_is_listed_with_its_address_and_the_time_of_the_store(t: &mut Subject) {
    let said = Renewal { name: "naïve 🕰".into(), address: "10.0.0.7:7070".into(), ..t.renewal(B) };
    let first = t.now();
    t.renew(A).await;
    t.pass(Duration::from_millis(1_234));
    let renewed = t.store().renew(said).await.unwrap();
    assert_eq!(renewed.now, t.now());
    let mut nodes = renewed.nodes;
    nodes.sort_by_key(|node| node.node);
    let row = |node, name: &'static str, address: &'static str, since: Timestamp| NodeRow {
        node,
        name: name.into(),
        address: address.into(),
        expires_at: since.saturating_add(TERM),
    };
    assert_eq!(nodes, [row(A, "a", "node:7070", first), row(B, "naïve 🕰", "10.0.0.7:7070", t.now())]);
}

pub(super) async fn nobody_lives_longer_than_a_term_when_the_clock_is_set_back(t: &mut Subject) {
    t.hold(B, &[1]).await;
    t.set_back(Duration::from_secs(3_600));
    assert_eq!(t.renew(A).await.shards[1].owner, Some(B), "it may be alive");
    t.pass(TERM - MILLISECOND);
    assert_eq!(t.renew(A).await.shards[1].owner, Some(B));
    t.pass(MILLISECOND);
    assert_eq!(t.renew(A).await.shards[1].owner, None);
    let refused = t.store().renew(t.renewal(B)).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
}

pub(super) async fn every_shard_is_listed_with_its_living_holder_and_its_last_epoch(t: &mut Subject) {
    let held = t.hold(A, &[1]).await;
    let row = |shard, owner, epoch| {
        let checkpoint = START;
        ShardRow { shard: ShardId(shard), owner, epoch, checkpoint }
    };
    let of = |owner, epoch| {
        (0..SHARDS)
            .map(|shard| match shard {
                1 => row(1, owner, epoch),
                _ => row(shard, None, Epoch(0)),
            })
            .collect::<Vec<ShardRow>>()
    };
    assert_eq!(t.renew(B).await.shards, of(Some(A), held[0].epoch));
    t.pass(TERM - MILLISECOND);
    t.renew(B).await;
    t.pass(MILLISECOND);
    assert_eq!(t.renew(B).await.shards, of(None, held[0].epoch), "the holder has expired");
}

pub(super) async fn a_node_lives_until_its_term_ends_and_no_longer(t: &mut Subject) {
    t.renew(A).await;
    t.pass(TERM - MILLISECOND);
    t.renew(A).await;
    t.pass(TERM);
    let refused = t.store().renew(t.renewal(A)).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
}

pub(super) async fn an_expired_node_is_fenced_for_ever(t: &mut Subject) {
    t.hold(A, &[0]).await;
    t.pass(TERM);
    t.renew(B).await;
    for _ in 0..2 {
        let renewal = t.store().renew(t.renewal(A)).await;
        assert!(matches!(renewal, Err(StoreError::Fenced(_))), "{renewal:?}");
        let acquisition = t.store().acquire(A, vec![ShardId(1)]).await;
        assert!(matches!(acquisition, Err(StoreError::Fenced(_))), "{acquisition:?}");
        t.prune_everything().await;
        t.pass(24 * TERM);
        t.reopen().await;
    }
}

pub(super) async fn a_fenced_renewal_leaves_no_trace(t: &mut Subject) {
    let lease = t.hold(A, &[0]).await[0];
    t.pass(TERM);
    let late = Renewal { mark: second(99_999), checkpoints: vec![(lease, mark(7, 7))], ..t.renewal(A) };
    t.store().renew(late).await.unwrap_err();
    let listed = t.renew(B).await.nodes;
    assert_eq!(listed.iter().map(|node| node.node).collect::<Vec<NodeId>>(), [B]);
    let taken = t.acquire(B, &[0]).await[0];
    assert_eq!((taken.mark, taken.checkpoint), (Some(second(0)), START));
}

pub(super) async fn a_node_without_a_row_takes_nothing(t: &mut Subject) {
    let refused = t.store().acquire(A, vec![ShardId(0)]).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
}

pub(super) async fn the_first_holder_of_a_shard_inherits_nothing(t: &mut Subject) {
    t.renew(A).await;
    let taken = t.acquire(A, &[2]).await;
    let lease = Lease { shard: ShardId(2), epoch: taken[0].lease.epoch };
    assert_eq!(taken, [Acquired { lease, mark: None, checkpoint: START }]);
    assert!(lease.epoch > Epoch(0));
}

pub(super) async fn epochs_of_all_shards_come_from_one_counter_that_only_grows(t: &mut Subject) {
    let mut epochs: Vec<Epoch> = Vec::new();
    epochs.extend(t.hold(A, &[0, 1]).await.iter().map(|lease| lease.epoch));
    epochs.extend(t.hold(B, &[2]).await.iter().map(|lease| lease.epoch));
    t.reopen().await;
    epochs.extend(t.hold(A, &[1, 0]).await.iter().map(|lease| lease.epoch));
    t.pass(TERM);
    epochs.extend(t.hold(C, &[2, 3]).await.iter().map(|lease| lease.epoch));
    assert!(epochs.windows(2).all(|pair| pair[0] < pair[1]), "{epochs:?}");
}

pub(super) async fn a_shard_of_a_living_node_is_left_out(t: &mut Subject) {
    t.hold(A, &[0, 1]).await;
    t.renew(B).await;
    t.pass(TERM - MILLISECOND);
    let taken = t.acquire(B, &[0, 3, 1]).await;
    assert_eq!(taken.iter().map(|taken| taken.lease.shard).collect::<Vec<_>>(), [ShardId(3)]);
}

pub(super) async fn a_shard_that_does_not_exist_is_left_out(t: &mut Subject) {
    t.renew(A).await;
    assert_eq!(t.acquire(A, &[SHARDS, u16::MAX]).await, []);
}

pub(super) async fn a_shard_of_an_expired_node_comes_with_the_mark_of_its_last_renewal(t: &mut Subject) {
    let before = t.hold(A, &[0]).await[0];
    t.store().renew(Renewal { mark: second(77), ..t.renewal(A) }).await.unwrap();
    t.pass(TERM);
    t.renew(B).await;
    let taken = t.acquire(B, &[0]).await;
    assert_eq!(taken[0].mark, Some(second(77)));
    assert!(taken[0].lease.epoch > before.epoch);
    assert_eq!(t.renew(C).await.shards[0].owner, Some(B));
}

pub(super) async fn a_node_may_take_its_own_shard_again_and_the_old_epoch_is_stale(t: &mut Subject) {
    let old = t.hold(A, &[0]).await;
    let new = t.acquire(A, &[0]).await;
    assert_eq!(new[0].mark, Some(second(0)), "its own promise");
    let refused = t.store().load(&old, START, second(0), 1).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    assert_eq!(t.loaded(&[new[0].lease]).await, []);
}

pub(super) async fn a_released_shard_is_free_at_once_with_the_exact_mark(t: &mut Subject) {
    let leases = t.hold(A, &[0, 1]).await;
    t.store().renew(Renewal { mark: second(50), ..t.renewal(A) }).await.unwrap();
    t.store().release(A, vec![leases[0]], second(20)).await.unwrap();
    assert_eq!(t.renew(B).await.shards[0].owner, None);
    let taken = t.acquire(B, &[0, 1]).await;
    assert_eq!(taken.len(), 1, "the other one is still held");
    assert_eq!(taken[0].mark, Some(second(20)));
}

pub(super) async fn releasing_again_or_with_a_stale_lease_changes_nothing(t: &mut Subject) {
    let lease = t.hold(A, &[0]).await[0];
    t.store().release(A, vec![lease], second(1)).await.unwrap();
    let taken = t.hold(B, &[0]).await[0];
    t.store().release(A, vec![lease], second(2)).await.unwrap();
    t.store().release(A, vec![taken], second(3)).await.unwrap();
    t.store().release(B, vec![lease], second(4)).await.unwrap();
    assert_eq!(t.renew(C).await.shards[0].owner, Some(B));
    t.store().release(B, vec![taken], second(1)).await.unwrap();
    t.store().release(B, vec![taken], second(9)).await.unwrap();
    assert_eq!(t.acquire(C, &[0]).await[0].mark, Some(second(1)));
}

// The next holder must take for doubtful whatever any of its forerunners may have sent, not only the last of them:
// that one may have gone before it got round to what it inherited.
pub(super) async fn what_an_earlier_holder_promised_outlives_a_later_one_who_promised_less(t: &mut Subject) {
    t.renew(B).await;
    t.hold(A, &[0, 1]).await;
    t.store().renew(Renewal { mark: second(500), ..t.renewal(A) }).await.unwrap();
    t.pass(TERM - MILLISECOND);
    t.store().renew(Renewal { mark: second(7), term: 2 * MILLISECOND, ..t.renewal(B) }).await.unwrap();
    t.pass(MILLISECOND);
    let leases: Vec<Lease> = t.acquire(B, &[0, 1]).await.iter().map(|taken| taken.lease).collect();
    t.store().release(B, vec![leases[0]], second(9)).await.unwrap();
    t.pass(MILLISECOND);
    t.renew(C).await;
    let marks: Vec<_> = t.acquire(C, &[0, 1]).await.iter().map(|taken| taken.mark).collect();
    assert_eq!(marks, [Some(second(500)), Some(second(500))]);
}

pub(super) async fn a_promise_is_not_taken_back_by_a_lower_mark(t: &mut Subject) {
    t.hold(A, &[0]).await;
    for mark in [second(500), second(400)] {
        t.store().renew(Renewal { mark, ..t.renewal(A) }).await.unwrap();
    }
    t.pass(TERM);
    t.renew(B).await;
    assert_eq!(t.acquire(B, &[0]).await[0].mark, Some(second(500)));
}

pub(super) async fn a_checkpoint_comes_back_to_the_next_holder(t: &mut Subject) {
    let leases = t.hold(A, &[0, 1]).await;
    let far = Mark { due: "2199-12-31T23:59:59.999Z".parse().unwrap(), id: u64::MAX >> 11 };
    let first = vec![(leases[0], mark(10, 3)), (leases[1], far)];
    t.store().renew(Renewal { checkpoints: first, ..t.renewal(A) }).await.unwrap();
    let further = vec![(leases[0], mark(20, 4))];
    t.store().renew(Renewal { checkpoints: further, ..t.renewal(A) }).await.unwrap();
    t.reopen().await;
    t.pass(TERM);
    t.renew(B).await;
    let found: Vec<Mark> = t.acquire(B, &[0, 1, 2]).await.iter().map(|taken| taken.checkpoint).collect();
    assert_eq!(found, [mark(20, 4), far, START]);
}

pub(super) async fn a_checkpoint_in_a_renewal_that_comes_late_is_left_out(t: &mut Subject) {
    let lease = t.hold(A, &[0]).await[0];
    let late = Renewal { checkpoints: vec![(lease, mark(10, 3))], ..t.renewal(A) };
    t.store().renew(Renewal { mark: second(500), ..t.renewal(A) }).await.unwrap();
    assert_eq!(t.store().renew(late).await.unwrap().shards[0].checkpoint, START);
}

pub(super) async fn a_checkpoint_of_a_lease_that_is_not_current_is_left_out(t: &mut Subject) {
    let stale = t.hold(A, &[0, 1]).await;
    let current = t.acquire(A, &[0]).await[0].lease;
    t.hold(B, &[2]).await;
    let of_b = Lease { shard: ShardId(2), epoch: Epoch(current.epoch.0 + 1) };
    t.store().release(A, vec![stale[1]], second(0)).await.unwrap();
    let wrong = [stale[0], stale[1], of_b].map(|lease| (lease, mark(9, 9))).to_vec();
    t.store().renew(Renewal { checkpoints: wrong, ..t.renewal(A) }).await.unwrap();
    t.pass(TERM);
    t.renew(C).await;
    let found = t.acquire(C, &[0, 1, 2]).await;
    assert!(found.iter().all(|taken| taken.checkpoint == START), "{found:?}");
}

// A checkpoint speaks of births, so what waits may lie below it.
pub(super) async fn loading_from_the_checkpoint_finds_what_waits_for_an_earlier_instant(t: &mut Subject) {
    t.renew(A).await;
    let run = t.accepted(JOB, second(1)).await;
    t.settle(unsent(run, 1, wait(5, 1))).await;
    moved_up(t, mark(20, 4)).await;
    let (lease, checkpoint) = moved_up(t, mark(20, 4)).await;
    let loaded = t.store().load(&[lease], checkpoint, second(99), 9).await.unwrap();
    assert_eq!(loaded.runs.iter().map(|run| run.run).collect::<Vec<_>>(), [run]);
    t.closed(run, Outcome::Succeeded).await;
    assert_eq!(t.acquire(A, &[0]).await[0].checkpoint, mark(20, 4));
}

pub(super) async fn a_checkpoint_goes_back_to_a_birth_below_it(t: &mut Subject) {
    t.renew(A).await;
    assert_eq!(moved_up(t, mark(100, 0)).await.1, mark(100, 0));
    let run = t.accepted(JOB, second(50)).await;
    t.reopen().await;
    let Acquired { lease, checkpoint, .. } = t.acquire(A, &[0]).await[0];
    let loaded = t.store().load(&[lease], checkpoint, second(99), 9).await.unwrap();
    assert_eq!(loaded.runs.iter().map(|run| run.run).collect::<Vec<_>>(), [run]);
}

// Whoever says how far all is done may not have heard of what was written since it last said so.
pub(super) async fn a_checkpoint_does_not_pass_a_birth_since_it_last_moved(t: &mut Subject) {
    t.renew(A).await;
    moved_up(t, mark(100, 0)).await;
    for due in [300, 200, 250] {
        t.accepted(JOB, second(due)).await;
    }
    t.reopen().await;
    let first = moved_up(t, mark(400, 0)).await.1;
    assert!(mark(100, 0) <= first && first <= mark(200, u64::MAX), "{first:?}");
    assert_eq!(moved_up(t, mark(400, 0)).await.1, mark(400, 0), "by now it has");
    assert_eq!(moved_up(t, mark(300, 0)).await.1, mark(400, 0), "and never falls by a word alone");
}

pub(super) async fn a_renewal_tells_what_changed_after_what_was_seen_a_thousand_at_a_time(t: &mut Subject) {
    assert_eq!(t.renew(A).await.latest, ChangeId(0));
    let job = t.job("first", None).await;
    let mut changes = vec![(ChangeId(1), job)];
    let other = t.create(definition("other"), t.row(job).await.state, None).await;
    changes.push((other.change, other.job));
    for _ in 0..1_001 {
        let changed = t.store().change(t.edit(job).await).await.unwrap();
        changes.push((changed.change, job));
    }
    assert!(changes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let tell = async |seen| t.store().renew(Renewal { seen, ..t.renewal(A) }).await.unwrap();
    let first = tell(ChangeId(0)).await;
    assert_eq!(first.changes, changes[..1_000]);
    assert_eq!(first.latest, changes[1_002].0);
    assert_eq!(tell(changes[999].0).await.changes, changes[1_000..]);
    assert_eq!(tell(changes[1_002].0).await.changes, []);
}

pub(super) async fn arrivals_are_told_to_the_holder_of_their_shard(t: &mut Subject) {
    t.hold(A, &[0, 1]).await;
    t.hold(B, &[2]).await;
    let run = t.accepted(JOB, second(0)).await;
    let left = [1, 1, 2, 3].map(|shard| (ShardId(shard), ArrivalKind::Cancel(run))).to_vec();
    t.store().accept(Vec::new(), left).await.unwrap();
    assert_eq!(t.renew(A).await.arrivals, [ShardId(1)]);
    assert_eq!(t.renew(B).await.arrivals, [ShardId(2)]);
    assert_eq!(t.renew(C).await.arrivals, []);
}

pub(super) async fn a_node_that_comes_back_after_a_reopen_still_holds_its_shards(t: &mut Subject) {
    let leases = t.hold(A, &[0, 3]).await;
    t.reopen().await;
    assert_eq!(t.loaded(&leases).await, []);
    let owners: Vec<_> = t.renew(A).await.shards.iter().map(|shard| shard.owner).collect();
    assert_eq!(owners, [Some(A), None, None, Some(A)]);
}

/// Says that all is done up to a place, and gives the checkpoint of whoever takes the shard then.
async fn moved_up(t: &Subject, place: Mark) -> (Lease, Mark) {
    let lease = t.acquire(A, &[0]).await[0].lease;
    t.store().renew(Renewal { checkpoints: vec![(lease, place)], ..t.renewal(A) }).await.unwrap();
    let taken = t.acquire(A, &[0]).await[0];
    (taken.lease, taken.checkpoint)
}

fn mark(seconds: i64, id: u64) -> Mark {
    Mark { due: second(seconds), id }
}
