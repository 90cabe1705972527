//! The rules and the memory model side by side, without any server: random sequences of verbs from small spaces, so that
//! things collide. Every answer must be the same, and so must everything that is stored in the end.

mod draw;
mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use punctual_core::model::{ChangeId, Epoch, NodeId, ShardId};
use punctual_node::ports::{Browse, Change, Lease, Renewal, Store, StoreError};

use self::draw::{Drawn, Meaning, Verb};
use self::tables::{Counting, Tables};
use crate::Memory;

const SHARDS: u16 = 4;
const KEY_TTL: Duration = Duration::from_secs(5);
const BEGIN_MS: i64 = 1_794_736_800_000;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_rules_and_memory_agree_where_counts_are_read(drawn in sequence()) {
        play(Counting::Read, drawn);
    }

    #[test]
    fn the_rules_and_memory_agree_where_counts_are_added_up(drawn in sequence()) {
        play(Counting::AddedUp, drawn);
    }
}

fn sequence() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec(draw::verb(), 1..120)
}

/// The same cases on every run; `PROPTEST_CASES` asks for more of them.
fn config() -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_118),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn play(counting: Counting, sequence: Vec<Drawn>) {
    let clock = Arc::new(AtomicI64::new(BEGIN_MS));
    let told = Arc::clone(&clock);
    let now = move || Timestamp::from_millis(told.load(Ordering::SeqCst));
    let memory = Memory::new(SHARDS, KEY_TTL, Arc::new(now.clone()));
    let leases = hold_every_shard(&memory);
    let mut tables = Tables::new(counting, leases.clone());
    let mut meaning = Meaning::new(leases);
    for drawn in sequence {
        let verb = meaning.of(drawn, now(), &memory.dump());
        match verb {
            Verb::Pass(time) => drop(clock.fetch_add(time.as_millis() as i64, Ordering::SeqCst)),
            Verb::Accept(runs, left) => {
                let expected = ready(memory.accept(runs.clone(), left.clone()));
                assert_eq!(tables.accept(now(), &runs, &left).map_err(kind), expected);
            }
            Verb::Plan(plans) => {
                assert_eq!(Ok(tables.plan(now(), &plans)), ready(memory.plan(plans.clone())));
            }
            Verb::Gate(gates) => {
                assert_eq!(Ok(tables.gate(now(), &gates)), ready(memory.gate(gates.clone())));
            }
            Verb::Split(splits) => {
                assert_eq!(Ok(tables.split(now(), &splits)), ready(memory.split(splits.clone())));
            }
            Verb::Settle(ends) => {
                assert_eq!(Ok(tables.settle(now(), &ends)), ready(memory.settle(ends.clone())));
            }
            Verb::Change(change) => {
                let expected = ready(memory.change(Change::clone(&change)));
                assert_eq!(tables.change(now(), &change).map_err(kind), expected);
            }
        }
    }
    tables.compare(&memory.dump(), &ready(memory.storage()).unwrap());
}

fn hold_every_shard(memory: &Memory) -> Vec<Lease> {
    let renewal = Renewal {
        node: NodeId(1),
        term: Duration::from_secs(1 << 32),
        mark: Timestamp::from_millis(BEGIN_MS),
        seen: ChangeId(0),
        name: "n1".into(),
        address: "node 1".into(),
        checkpoints: Vec::new(),
    };
    ready(memory.renew(renewal)).unwrap();
    let shards = (0..SHARDS).map(ShardId).collect();
    let acquired = ready(memory.acquire(NodeId(1), shards)).unwrap();
    acquired.iter().map(|acquired| acquired.lease).collect()
}

/// A lease that was never given.
fn stale(lease: Lease) -> Lease {
    Lease { epoch: Epoch(lease.epoch.0 + 100), ..lease }
}

/// What memory answers, which it does at once. What an error says is its own; what it is must be the same.
fn ready<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, &'static str> {
    answer.now_or_never().expect("memory waits for nothing").map_err(kind)
}

fn kind(error: StoreError) -> &'static str {
    match error {
        StoreError::Conflict(_) => "conflict",
        _ => "another error",
    }
}
