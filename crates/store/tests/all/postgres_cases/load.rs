//! Pages of what is to be loaded: each shard gives a share, and the page is whole however the runs lie on the shards.

use calendar::Timestamp;
use punctual_core::model::{NewRun, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Lease, Store};
use punctual_store::Postgres;

use super::{House, hold_all, one_shot, second};
use crate::postgres_support::block_on;

/// Where the runs of a case lie, by their numbers.
type Lie = fn(u64) -> u16;

const RUNS: u64 = 400;

const CASES: [(&str, Lie); 4] = [
    ("evenly", |number| (number % 4) as u16),
    ("all on one", |_| 2),
    ("the first half on one", |number| if number < RUNS / 2 { 1 } else { (number % 4) as u16 }),
    ("few on three", |number| if number % 40 == 0 { (number / 40 % 3) as u16 } else { 3 }),
];

#[test]
fn a_page_is_whole_however_its_runs_lie_on_the_shards() {
    for (what, lie) in CASES {
        block_on(async {
            let house = House::new().await;
            let store = house.open().await;
            let leases = hold_all(&store, 1).await;
            let runs = runs(&store, lie).await;
            for max in [1, 7, 100, 399, 400, 1_000] {
                assert_eq!(paged(&store, &leases, max).await, runs, "{what}, {max} at a time");
            }
            drop(store);
            house.database.hand_on().await;
        });
    }
}

/// Runs that are accepted, in the order in which they are due. Some of them are due at one instant.
async fn runs(store: &Postgres, lie: Lie) -> Vec<RunId> {
    let first = one_shot(store, second(0)).await;
    store.allot(first.id.day(), RUNS).await.unwrap();
    let run = |number: u64| NewRun {
        id: RunId(first.id.0 + number),
        shard: ShardId(lie(number)),
        due: second(number as i64 / 3),
        ..first.clone()
    };
    store.accept((0..RUNS).map(run).collect(), vec![]).await.unwrap();
    (0..RUNS).map(|number| run(number).id).collect()
}

/// Everything that is to be loaded, page by page.
async fn paged(store: &Postgres, leases: &[Lease], max: usize) -> Vec<RunId> {
    let (mut found, mut from) = (Vec::new(), Mark { due: Timestamp::MIN, id: 0 });
    loop {
        let page = store.load(leases, from, Timestamp::MAX, max).await.unwrap();
        found.extend(page.runs.iter().map(|run| run.run));
        match page.rest {
            Some(rest) => {
                assert_eq!(page.runs.len(), max, "only a full page has a rest");
                from = rest;
            }
            None => return found,
        }
    }
}
