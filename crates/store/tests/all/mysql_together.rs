//! Eight nodes that do the same at once: exactly one of them wins, and nothing is lost.

use std::collections::BTreeSet;

use calendar::Timestamp;
use futures_util::future::join_all;
use punctual_core::model::{Hold, JobId, NewRun, NodeId, Origin, Outcome, Part, RunId, ShardId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{
    Accepted, ArrivalKind, Browse, ClockRow, Gated, JobRow, Keep, Plan, Planned, Renewal, Settled, Split,
    Store, StoreError,
};
use punctual_store::mysql::MySql;

use crate::mysql_support::{
    Database, accepted, creation, end, gate, hold_all, open_all, renewal, run, runtime, second,
};

const NODES: usize = 8;

/// Opens as many stores as there are nodes on one database, and lets a case play with them.
fn together(case: impl AsyncFnOnce(&[MySql])) {
    runtime().block_on(async {
        let database = Database::reuse().await;
        case(&open_all(&database, NODES).await).await;
    });
}

/// Asks every node the same, at once.
async fn all<T>(stores: &[MySql], ask: impl AsyncFn(usize, &MySql) -> T) -> Vec<T> {
    join_all(stores.iter().enumerate().map(|(number, store)| ask(number, store))).await
}

#[test]
fn a_run_is_accepted_once() {
    together(async |stores| {
        let run = run(&stores[0], 1, second(9)).await;
        let said =
            all(stores, async |_, store| store.accept(vec![run.clone()], Vec::new()).await.unwrap()).await;
        let new = said.iter().filter(|said| said[..] == [Accepted::New(run.id)]).count();
        let there = said.iter().filter(|said| said[..] == [Accepted::Duplicate(run.id)]).count();
        assert_eq!((new, there), (1, NODES - 1));
    });
}

#[test]
fn a_key_has_one_run() {
    together(async |stores| {
        for round in 0..5 {
            let said = all(stores, async |_, store| {
                let mut runs = Vec::new();
                for key in 0..4 {
                    let run = run(store, 1, second(9)).await;
                    runs.push(NewRun { key: Some(format!("key {round} {key}").into()), ..run });
                }
                store.accept(runs, Vec::new()).await.unwrap()
            })
            .await;
            for key in 0..4 {
                let of_key: Vec<Accepted> = said.iter().map(|said| said[key]).collect();
                let new: Vec<RunId> = of_key.iter().filter_map(new_of).collect();
                assert_eq!(new.len(), 1, "{of_key:?}");
                assert!(
                    of_key
                        .iter()
                        .all(|said| *said == Accepted::New(new[0]) || *said == Accepted::Duplicate(new[0]))
                );
            }
        }
    });
}

#[test]
fn an_expired_key_is_given_to_one() {
    together(async |stores| {
        let first = NewRun { key: Some("key".into()), ..run(&stores[0], 1, second(-999)).await };
        stores[0].accept(vec![first.clone()], Vec::new()).await.unwrap();
        let mut closed = end(first.id, Outcome::Succeeded);
        let punctual_core::model::Then::Close(close) = &mut closed.then else { panic!("it closes") };
        close.closed_at = second(-600);
        stores[0].settle(vec![closed]).await.unwrap();
        let said = all(stores, async |_, store| {
            let run = NewRun { key: Some("key".into()), ..run(store, 1, second(9)).await };
            store.accept(vec![run], Vec::new()).await.unwrap()[0]
        })
        .await;
        assert_eq!(said.iter().filter_map(new_of).count(), 1, "{said:?}");
    });
}

#[test]
fn an_instant_has_one_run() {
    together(async |stores| {
        let said = all(stores, async |_, store| {
            let run = NewRun { origin: Origin::Backfill, ..run(store, 1, second(60)).await };
            store.accept(vec![run], Vec::new()).await.unwrap()[0]
        })
        .await;
        assert_eq!(said.iter().filter_map(new_of).count(), 1, "{said:?}");
    });
}

#[test]
fn a_clock_is_moved_by_one() {
    together(async |stores| {
        let leases = hold_all(&stores[0], 1).await;
        let job = stores[0].change(creation("job", second(60))).await.unwrap().job;
        for _ in 0..5 {
            let row = row(&stores[0], job).await;
            let said = all(stores, async |_, store| {
                let next_fire = row.next_fire.unwrap();
                let run = NewRun { origin: Origin::Schedule, ..run(store, job.0, next_fire).await };
                let clock =
                    ClockRow { job, shard: row.shard, next_fire, version: row.version, planned: row.planned };
                let plan = Plan {
                    lease: leases[usize::from(row.shard.0)],
                    clock,
                    next: Some(Timestamp::from_millis(next_fire.as_millis() + 60_000)),
                    runs: vec![run],
                    skipped: None,
                    decided_to: second(0),
                    stop: None,
                };
                store.plan(vec![plan]).await.unwrap().remove(0)
            })
            .await;
            let moved =
                said.iter().filter(|said| matches!(said, Planned::Moved(runs) if runs.len() == 1)).count();
            assert_eq!(
                (moved, said.iter().filter(|said| **said == Planned::Overtaken).count()),
                (1, NODES - 1)
            );
        }
    });
}

#[test]
fn a_gate_has_one_token() {
    together(async |stores| {
        for _ in 0..5 {
            let run = accepted(&stores[0], 1, second(9)).await;
            let said = all(stores, async |number, store| {
                store.gate(vec![gate(run, number as u64 + 1)]).await.unwrap().remove(0)
            })
            .await;
            assert_eq!(said.iter().filter(|said| matches!(said, Gated::Through(_))).count(), 1, "{said:?}");
            let tokens: BTreeSet<_> = said
                .iter()
                .filter_map(|said| if let Gated::Taken(token) = said { *token } else { None })
                .collect();
            assert_eq!(tokens.len(), 1, "all others hear of the same: {said:?}");
        }
    });
}

#[test]
fn a_resource_has_so_many_places_and_no_more() {
    together(async |stores| {
        for round in 0..3 {
            let said = all(stores, async |_, store| {
                let run = accepted(store, 1, second(9)).await;
                let place = |name: &str, slots| Hold {
                    resource: format!("{name} {round}").into(),
                    slots,
                    takes_turns: false,
                };
                let holds = vec![place("a", 3), place("b", 5)];
                let gate = punctual_node::ports::Gate { holds, ..gate(run, 1) };
                store.gate(vec![gate]).await.unwrap().remove(0)
            })
            .await;
            assert_eq!(said.iter().filter(|said| matches!(said, Gated::Through(_))).count(), 3, "{said:?}");
            assert_eq!(
                said.iter().filter(|said| matches!(said, Gated::Held(_))).count(),
                NODES - 3,
                "{said:?}"
            );
        }
    });
}

#[test]
fn a_skip_and_a_gate_exclude_each_other() {
    together(async |stores| {
        for _ in 0..10 {
            let run = accepted(&stores[0], 1, second(9)).await;
            let mut skip = end(run, Outcome::Skipped);
            skip.fence = punctual_core::model::Fence::Unsent(punctual_core::model::Attempt::FIRST);
            let (gated, settled) =
                futures_util::join!(stores[1].gate(vec![gate(run, 1)]), stores[2].settle(vec![skip]));
            let is_gated = matches!(gated.unwrap()[0], Gated::Through(_));
            let is_skipped = matches!(settled.unwrap()[0], Settled::Done { .. });
            assert!(is_gated != is_skipped, "exactly one: gated {is_gated}, skipped {is_skipped}");
        }
    });
}

#[test]
fn a_run_ends_once_and_counts_once() {
    together(async |stores| {
        let run = accepted(&stores[0], 1, second(9)).await;
        let said = all(stores, async |_, store| {
            store.settle(vec![end(run, Outcome::Failed)]).await.unwrap().remove(0)
        })
        .await;
        assert_eq!(said.iter().filter(|said| matches!(said, Settled::Done { .. })).count(), 1, "{said:?}");
        assert_eq!(stores[0].counts(Some(JobId(1))).await.unwrap().failed, 1);
        let bucket = stores[0].storage().await.unwrap().remove(0);
        assert_eq!((bucket.runs, bucket.closed), (1, 1));
    });
}

#[test]
fn failures_in_a_row_are_counted_in_one_order() {
    together(async |stores| {
        let said = all(stores, async |_, store| {
            let mut ends = Vec::new();
            for _ in 0..3 {
                ends.push(end(accepted(store, 1, second(9)).await, Outcome::Failed));
            }
            store.settle(ends).await.unwrap()
        })
        .await;
        let mut counted: Vec<u32> = said
            .iter()
            .flatten()
            .map(|said| match said {
                Settled::Done { consecutive_failures, .. } => *consecutive_failures,
                Settled::Stale => panic!("it was open"),
            })
            .collect();
        counted.sort_unstable();
        assert_eq!(counted, (1..=3 * NODES as u32).collect::<Vec<u32>>());
    });
}

#[test]
fn one_part_is_the_last() {
    together(async |stores| {
        for _ in 0..3 {
            let whole = accepted(&stores[0], 1, second(9)).await;
            let mut parts = Vec::new();
            for index in 0..NODES as u32 {
                let run =
                    NewRun { origin: Origin::Part, of: Some(whole), ..run(&stores[0], 1, second(9)).await };
                parts.push((run, Part { index, total: NODES as u32, address: "address".into() }));
            }
            let ids: Vec<RunId> = parts.iter().map(|(run, _)| run.id).collect();
            stores[0].split(vec![Split { gate: gate(whole, 1), parts }]).await.unwrap();
            let said = all(stores, async |number, store| {
                let mut end = end(ids[number], Outcome::Succeeded);
                end.part_of = Some(whole);
                store.settle(vec![end]).await.unwrap().remove(0)
            })
            .await;
            let last = said.iter().filter(
                |said| matches!(said, Settled::Done { joined: Some((_, join)), .. } if join.succeeded == 8),
            );
            assert_eq!(last.count(), 1, "{said:?}");
        }
    });
}

#[test]
fn a_shard_has_one_holder_and_every_epoch_is_given_once() {
    together(async |stores| {
        all(stores, async |number, store| store.renew(renewal(number as u128 + 1)).await.unwrap()).await;
        let said = all(stores, async |number, store| {
            let shards = (0..4).map(ShardId).collect();
            store.acquire(NodeId(number as u128 + 1), shards).await.unwrap()
        })
        .await;
        let taken: Vec<_> = said.iter().flatten().map(|taken| taken.lease).collect();
        assert_eq!(taken.len(), 4, "{taken:?}");
        assert_eq!(taken.iter().map(|lease| lease.shard).collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(taken.iter().map(|lease| lease.epoch).collect::<BTreeSet<_>>().len(), 4);
    });
}

#[test]
fn a_change_is_made_by_one_and_changes_have_numbers_of_their_own() {
    together(async |stores| {
        let made = all(stores, async |_, store| store.change(creation("job", second(60))).await).await;
        let jobs: Vec<_> = made.iter().flatten().collect();
        assert_eq!(jobs.len(), 1, "a name belongs to one");
        assert!(made.iter().all(|made| matches!(made, Ok(_) | Err(StoreError::Conflict(_)))), "{made:?}");
        let made = all(stores, async |number, store| {
            store.change(creation(&format!("job {number}"), second(60))).await.unwrap()
        })
        .await;
        assert_eq!(made.iter().map(|made| made.job).collect::<BTreeSet<_>>().len(), NODES);
        let mut changes: Vec<u64> = made.iter().map(|made| made.change.0).collect();
        changes.sort_unstable();
        assert_eq!(changes, (2..=NODES as u64 + 1).collect::<Vec<u64>>());
    });
}

#[test]
fn numbers_are_given_once() {
    together(async |stores| {
        let said = all(stores, async |_, store| {
            let mut given = Vec::new();
            for _ in 0..20 {
                given.push(store.allot(2_600, 10).await.unwrap());
            }
            given
        })
        .await;
        let given: BTreeSet<u64> = said.into_iter().flatten().collect();
        assert_eq!(given.len(), 20 * NODES);
        assert!(given.iter().all(|first| first % 10 == 1));
    });
}

#[test]
fn the_tables_of_a_day_are_made_by_one() {
    together(async |stores| {
        for day in [1, 2, 3] {
            let due = Timestamp::from_millis(second(0).as_millis() + day * 86_400_000);
            all(stores, async |_, store| accepted(store, 1, due).await).await;
        }
        let days: Vec<u64> = stores[0].storage().await.unwrap().iter().map(|bucket| bucket.runs).collect();
        assert_eq!(days, [NODES as u64; 3]);
    });
}

#[test]
fn a_checkpoint_never_passes_a_birth_that_was_on_its_way() {
    together(async |stores| {
        let leases = hold_all(&stores[0], 1).await;
        for round in 1..10 {
            let place = Mark { due: second(1_000 * round), id: 0 };
            let checkpoints = vec![(leases[0], place)];
            let renew = stores[0].renew(Renewal { checkpoints, ..renewal(1) });
            let births = all(&stores[1..], async |number, store| {
                accepted(store, 1, second(1_000 * round - 1 - number as i64)).await
            });
            let (renewed, births) = futures_util::join!(renew, births);
            renewed.unwrap();
            let first = second(1_000 * round - NODES as i64 + 1);
            let now = stores[0].renew(renewal(1)).await.unwrap();
            assert!(now.shards[0].checkpoint <= Mark { due: first, id: u64::MAX }, "{:?}", now.shards[0]);
            for run in births {
                stores[0].settle(vec![end(run, Outcome::Succeeded)]).await.unwrap();
            }
        }
    });
}

#[test]
fn what_is_accepted_while_its_day_is_dropped_is_there() {
    together(async |stores| {
        for round in 0..6 {
            let due = Timestamp::from_millis(second(0).as_millis() - 86_400_000 * (10 + round));
            let old = accepted(&stores[0], 1, due).await;
            stores[0].settle(vec![end(old, Outcome::Succeeded)]).await.unwrap();
            let keep = Keep::since(second(-86_400 * 2));
            let prune = stores[0].prune(&keep);
            let births = all(&stores[1..], async |_, store| {
                let mut runs = Vec::new();
                for _ in 0..5 {
                    runs.push(accepted(store, 1, due).await);
                }
                runs
            });
            let (pruned, births) = futures_util::join!(prune, births);
            pruned.unwrap();
            let ids: Vec<RunId> = births.into_iter().flatten().collect();
            let found = stores[2].fetch(&ids).await.unwrap();
            assert_eq!(found.len(), ids.len(), "nothing that was acknowledged is lost");
            let bucket = stores[2]
                .storage()
                .await
                .unwrap()
                .into_iter()
                .find(|bucket| bucket.day == ids[0].day())
                .unwrap();
            assert!(bucket.runs - bucket.closed == ids.len() as u64, "{bucket:?}");
            let ends: Vec<_> = ids.iter().map(|run| end(*run, Outcome::Succeeded)).collect();
            stores[0].settle(ends).await.unwrap();
        }
    });
}

#[test]
fn what_is_left_together_is_left_once() {
    together(async |stores| {
        let left: Vec<_> =
            (1..20).map(|run| (ShardId(run as u16 % 4), ArrivalKind::Run(RunId(run)))).collect();
        all(stores, async |_, store| store.accept(Vec::new(), left.clone()).await.unwrap()).await;
        let leases = hold_all(&stores[0], 1).await;
        assert_eq!(stores[0].arrivals(&leases, 1_000).await.unwrap().len(), left.len());
    });
}

fn new_of(said: &Accepted) -> Option<RunId> {
    match said {
        Accepted::New(run) => Some(*run),
        Accepted::Duplicate(_) => None,
    }
}

async fn row(store: &MySql, job: JobId) -> JobRow {
    store.jobs(&[job]).await.unwrap().remove(0).1.unwrap()
}
