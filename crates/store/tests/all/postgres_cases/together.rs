//! Eight at once, each with a connection of its own: exactly one wins, and nothing is counted twice.

use futures_util::future::join_all;
use punctual_core::model::{Hold, NewRun, NodeId, Origin, Outcome, RunId, ShardId};
use punctual_node::ports::{Accepted, Browse, Gate, Gated, Plan, Planned, RunFilter, Settled, Store};

use super::{House, accepted, create, end, gate, hold_all, one_shot, renewal, second};
use crate::postgres_support::block_on;

const MANY: usize = 8;

fn count<T>(all: &[T], is_it: impl Fn(&T) -> bool) -> usize {
    all.iter().filter(|one| is_it(one)).count()
}

#[test]
fn one_of_many_runs_with_the_same_key_is_new() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        for round in 0..5 {
            let mut runs = Vec::new();
            for store in &stores {
                let run = one_shot(store, second(1)).await;
                runs.push(NewRun { key: Some(format!("key {round}").into()), ..run });
            }
            let asked = stores.iter().zip(&runs).map(|(store, run)| store.accept(vec![run.clone()], vec![]));
            let said: Vec<Accepted> =
                join_all(asked).await.into_iter().map(|said| said.unwrap()[0]).collect();
            let new: Vec<RunId> = said
                .iter()
                .filter_map(|said| if let Accepted::New(id) = said { Some(*id) } else { None })
                .collect();
            assert_eq!(new.len(), 1, "{said:?}");
            assert_eq!(count(&said, |said| *said == Accepted::Duplicate(new[0])), MANY - 1, "{said:?}");
        }
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn one_of_many_runs_of_the_same_instant_is_new() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let mut batches = Vec::new();
        for number in 0..MANY {
            let mut batch = Vec::new();
            for fire in 0..20 {
                let run = one_shot(&stores[0], second(fire)).await;
                batch.push(NewRun { origin: Origin::Schedule, ..run });
            }
            // In another order each time.
            batch.rotate_left(number * 2);
            batches.push(batch);
        }
        let asked = stores.iter().zip(batches).map(|(store, batch)| store.accept(batch, vec![]));
        let said: Vec<Accepted> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(count(&said, |said| matches!(said, Accepted::New(_))), 20);
        let listed = stores[0].run_list(&RunFilter::default(), None, 100).await.unwrap();
        assert_eq!(listed.items.len(), 20);
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn a_batch_that_many_hand_over_is_written_once() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        // On a day that nobody has made yet.
        let first = one_shot(&stores[0], second(5 * 86_400)).await;
        let run = |number| NewRun { id: RunId(first.id.0 + number), ..first.clone() };
        let asked = stores.iter().map(|store| store.accept((0..100).map(run).collect(), vec![]));
        let said: Vec<Accepted> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(count(&said, |said| matches!(said, Accepted::New(_))), 100);
        let stored = stores[0].storage().await.unwrap();
        assert_eq!((stored.len(), stored[0].runs, stored[0].closed), (1, 100, 0));
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn one_of_many_plans_moves_the_clock() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let leases = hold_all(&stores[0], 1).await;
        let job = create(&stores[0], "job", Some(second(60))).await.job;
        for minute in 1..4 {
            let clock = stores[0].due(&leases, second(60 * minute), 9).await.unwrap()[0];
            let mut plans = Vec::new();
            for store in &stores {
                let run = one_shot(store, clock.next_fire).await;
                let run = NewRun { origin: Origin::Schedule, job, shard: clock.shard, ..run };
                plans.push(Plan {
                    lease: leases[usize::from(clock.shard.0)],
                    clock,
                    next: Some(second(60 * (minute + 1))),
                    runs: vec![run],
                    skipped: None,
                    decided_to: clock.next_fire,
                    stop: None,
                });
            }
            let asked = stores.iter().zip(plans).map(|(store, plan)| store.plan(vec![plan]));
            let said: Vec<Planned> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
            assert_eq!(count(&said, |said| matches!(said, Planned::Moved(_))), 1, "{said:?}");
        }
        assert_eq!(stores[0].run_list(&RunFilter::default(), None, 9).await.unwrap().items.len(), 3);
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn one_of_many_gates_goes_through() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let run = accepted(&stores[0], second(1)).await;
        let asked = (1..).zip(&stores).map(|(epoch, store)| store.gate(vec![gate(run, epoch)]));
        let said: Vec<Gated> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(count(&said, |said| matches!(said, Gated::Through(_))), 1, "{said:?}");
        assert_eq!(count(&said, |said| matches!(said, Gated::Taken(Some(_)))), MANY - 1, "{said:?}");
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn a_gate_and_a_skip_exclude_each_other() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(2).await;
        for _ in 0..25 {
            let run = accepted(&stores[0], second(1)).await;
            let (gated, settled) = tokio::join!(
                stores[0].gate(vec![gate(run, 1)]),
                stores[1].settle(vec![end(run, false, Outcome::Skipped)]),
            );
            match (&gated.unwrap()[0], &settled.unwrap()[0]) {
                (Gated::Through(_), Settled::Stale) | (Gated::Taken(None), Settled::Done { .. }) => {}
                both => panic!("{both:?}"),
            }
        }
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn a_resource_has_no_more_places_than_it_has() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let mut asked = Vec::new();
        for store in &stores {
            let run = accepted(store, second(1)).await;
            let holds = vec![Hold { resource: "lane".into(), slots: 3, takes_turns: false }];
            asked.push(store.gate(vec![Gate { holds, ..gate(run, 1) }]));
        }
        let said: Vec<Gated> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(count(&said, |said| matches!(said, Gated::Through(_))), 3, "{said:?}");
        assert_eq!(count(&said, |said| matches!(said, Gated::Held(_))), MANY - 3, "{said:?}");
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn one_of_many_ends_stands_and_counts_once() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let mut runs = Vec::new();
        for _ in 0..MANY {
            runs.push(accepted(&stores[0], second(1)).await);
        }
        // Everybody ends all of them, in another order each time.
        let batches = (0..MANY).map(|number| {
            let mut runs = runs.clone();
            runs.rotate_left(number);
            runs.into_iter().map(|run| end(run, true, Outcome::Failed)).collect()
        });
        let asked = stores.iter().zip(batches).map(|(store, batch)| store.settle(batch));
        let said: Vec<Settled> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        let mut in_a_row: Vec<u32> = said
            .iter()
            .filter_map(|said| match said {
                Settled::Done { consecutive_failures, .. } => Some(*consecutive_failures),
                Settled::Stale => None,
            })
            .collect();
        in_a_row.sort_unstable();
        assert_eq!(in_a_row, (1..=MANY as u32).collect::<Vec<u32>>());
        let counts = stores[0].counts(None).await.unwrap();
        assert_eq!((counts.failed, counts.consecutive_failures), (MANY as u64, MANY as u32));
        assert_eq!(stores[0].storage().await.unwrap()[0].closed, MANY as u64);
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn one_of_many_nodes_takes_a_shard() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        for (node, store) in (1..).zip(&stores) {
            store.renew(renewal(node, second(0))).await.unwrap();
        }
        let all: Vec<ShardId> = (0..super::SHARDS).map(ShardId).collect();
        let asked = (1..).zip(&stores).map(|(node, store)| store.acquire(NodeId(node), all.clone()));
        let taken: Vec<_> = join_all(asked).await.into_iter().flat_map(Result::unwrap).collect();
        let mut shards: Vec<ShardId> = taken.iter().map(|taken| taken.lease.shard).collect();
        shards.sort_unstable();
        assert_eq!(shards, all);
        let mut epochs: Vec<u64> = taken.iter().map(|taken| taken.lease.epoch.0).collect();
        epochs.sort_unstable();
        epochs.dedup();
        assert_eq!(epochs.len(), all.len());
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn jobs_that_are_created_together_have_numbers_of_their_own_and_changes_in_order() {
    block_on(async {
        let house = House::new().await;
        let stores = house.open_many(MANY).await;
        let names: Vec<String> = (0..MANY).map(|number| format!("job {number}")).collect();
        let asked = stores.iter().zip(&names).map(|(store, name)| create(store, name, None));
        let made = join_all(asked).await;
        let mut jobs: Vec<u32> = made.iter().map(|made| made.job.0).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, (1..=MANY as u32).collect::<Vec<u32>>());
        let told = stores[0].renew(renewal(1, second(0))).await.unwrap();
        assert_eq!((told.changes.len(), told.latest.0), (MANY, MANY as u64));
        drop(stores);
        house.database.drop().await;
    });
}

#[test]
fn many_that_open_an_empty_database_migrate_it_once() {
    block_on(async {
        let house = House::new().await;
        let empty = crate::postgres_support::Database::empty().await;
        let url = empty.url();
        let opened = join_all((0..4).map(|_| punctual_store::Postgres::open(&url, house.options()))).await;
        for opened in opened {
            opened.unwrap().storage().await.unwrap();
        }
        empty.drop().await;
        house.database.drop().await;
    });
}
