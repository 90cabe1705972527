//! How rows lie: the indexes that are taken, days far ahead and their coming near, days that are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use calendar::Timestamp;
use punctual_core::model::{JobId, NewRun, Origin, Outcome, RunId};
use punctual_core::wheel::Mark;
use punctual_node::ports::{Accepted, Browse, Gated, Keep, RunFilter, Settled, Store};
use punctual_store::Options;
use punctual_store::mysql::{Look, MySql};

use crate::mysql_support::{
    Database, accepted, creation, end, gate, hold_all, options, run, runtime, second,
};

const DAY_MS: i64 = 86_400_000;

#[test]
fn what_is_due_is_found_by_its_index_alone() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let store = MySql::open(&database.url(), options()).await.unwrap();
        let leases = hold_all(&store, 1).await;
        for number in 0..40 {
            let due = second(if number < 3 { 60 } else { 999_999 });
            store.change(creation(&format!("job {number}"), due)).await.unwrap();
        }
        let mut runs = Vec::new();
        for number in 0..400 {
            runs.push(run(&store, 1, second(number)).await);
        }
        store.accept(runs, Vec::new()).await.unwrap();
        database.ask("analyze table clocks, runs_2510, closes_2510, flights, waiting").await;
        let [due, load, list] = store.explain(&leases, second(60), 2_510).await.unwrap();
        check(&due, "clocks", "clocks_by_due");
        check(&load, "r", "by_due");
        let by_job =
            |look: &Look| look.index.as_deref() == Some("by_job") && !look.extra.contains("filesort");
        assert!(list.iter().any(|look| look.table == "runs_2510" && by_job(look)), "{list:?}");
        for table in ["c", "f", "w"] {
            let look = load.iter().find(|look| look.table == table);
            let by_key = |look: &Look| look.access == "eq_ref" && look.index.as_deref() == Some("PRIMARY");
            assert!(look.is_some_and(by_key), "{table} row by row: {load:?}");
        }
    });
}

/// The table is read by a piece of the index, in its order.
fn check(looks: &[Look], table: &str, index: &str) {
    let look = looks.iter().find(|look| look.table == table).expect("the table is read");
    assert_eq!((look.access.as_str(), look.index.as_deref()), ("range", Some(index)), "{looks:?}");
    assert!(!look.extra.contains("filesort"), "{looks:?}");
}

#[test]
fn a_far_run_lives_as_any_other_and_comes_near_in_time() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let clock = Arc::new(AtomicI64::new(second(0).as_millis()));
        let told = Arc::clone(&clock);
        let told: punctual_store::StoreClock =
            Arc::new(move || Timestamp::from_millis(told.load(Ordering::SeqCst)));
        let open = async || {
            MySql::open(&database.url(), Options { clock: Some(Arc::clone(&told)), ..options() })
                .await
                .unwrap()
        };
        let (store, other) = (open().await, open().await);
        let far = Timestamp::from_millis(second(0).as_millis() + 100 * DAY_MS);
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(accepted(&store, 1, far).await);
        }
        let named = NewRun { origin: Origin::Schedule, ..run(&store, 1, far).await };
        store.accept(vec![named.clone()], Vec::new()).await.unwrap();
        assert!(matches!(other.gate(vec![gate(ids[0], 1)]).await.unwrap()[0], Gated::Through(_)));
        assert!(matches!(
            other.settle(vec![end(ids[1], Outcome::Cancelled)]).await.unwrap()[0],
            Settled::Done { .. }
        ));
        assert_eq!(rows(&database, "runs_far").await, 4);
        let before = look(&store, 1, &ids, far).await;
        // Nothing happens before its time; a day before it enters the range, it is moved.
        store.prune(&Keep::since(second(-999_999))).await.unwrap();
        assert_eq!(rows(&database, "runs_far").await, 4);
        clock.fetch_add(40 * DAY_MS, Ordering::SeqCst);
        store.prune(&Keep::since(second(-999_999))).await.unwrap();
        assert_eq!(rows(&database, "runs_far").await, 0);
        assert_eq!(rows(&database, &format!("runs_{}", ids[0].day())).await, 4);
        // The other node has not heard of it, and finds it nevertheless.
        for store in [&other, &store] {
            assert_eq!(look(store, 2, &ids, far).await, before);
            assert_eq!(
                store.accept(vec![named.clone()], Vec::new()).await.unwrap(),
                [Accepted::Duplicate(named.id)]
            );
            let again = NewRun { id: run(store, 1, far).await.id, ..named.clone() };
            assert_eq!(store.accept(vec![again], Vec::new()).await.unwrap(), [Accepted::Duplicate(named.id)]);
        }
        assert_eq!(accepted(&other, 1, far).await.day(), ids[0].day());
        assert_eq!(rows(&database, "runs_far").await, 0, "it knows by now");
    });
}

/// What is seen of some runs, by every way of looking.
async fn look(store: &MySql, node: u128, ids: &[RunId], due: Timestamp) -> String {
    let leases = hold_all(store, node).await;
    let until = Timestamp::from_millis(due.as_millis() + 1);
    let loaded = store.load(&leases, Mark { due: second(0), id: 0 }, until, 100).await.unwrap();
    let mut adopted = store.adopt(&leases).await.unwrap();
    adopted.sends.sort_by_key(|send| send.run.run);
    let list =
        store.run_list(&RunFilter { job: Some(JobId(1)), ..RunFilter::default() }, None, 100).await.unwrap();
    let mut fetched = store.fetch(ids).await.unwrap();
    fetched.sort_by_key(|row| row.waiting.run);
    format!("{loaded:?} {adopted:?} {list:?} {fetched:?}")
}

#[test]
fn a_far_day_is_dropped_like_any_other() {
    runtime().block_on(async {
        let database = Database::reuse().await;
        let store = MySql::open(&database.url(), options()).await.unwrap();
        let far = Timestamp::from_millis(second(0).as_millis() + 100 * DAY_MS);
        let (closed, open) = (accepted(&store, 1, far).await, accepted(&store, 1, far).await);
        store.gate(vec![gate(closed, 1)]).await.unwrap();
        store.settle(vec![end(closed, Outcome::Succeeded)]).await.unwrap();
        let pruned = store.prune(&Keep::since(Timestamp::MAX)).await.unwrap();
        assert_eq!((pruned.buckets, pruned.kept_open), (0, 1));
        store.settle(vec![end(open, Outcome::Succeeded)]).await.unwrap();
        let pruned = store.prune(&Keep::since(Timestamp::MAX)).await.unwrap();
        assert_eq!((pruned.buckets, pruned.kept_open), (1, 0));
        assert_eq!(store.fetch(&[closed, open]).await.unwrap(), []);
        assert_eq!(store.storage().await.unwrap(), []);
        assert_eq!(rows(&database, "closes_far").await, 0);
    });
}

#[test]
fn what_an_interrupted_drop_left_is_swept_and_never_met_again() {
    runtime().block_on(async {
        let database = Database::create().await;
        let store = MySql::open(&database.url(), options()).await.unwrap();
        let day = second(0).as_millis() - 9 * DAY_MS;
        let old = accepted(&store, 1, Timestamp::from_millis(day)).await;
        let table = format!("runs_{}", old.day());
        // As if the process had died between the list and the table.
        database.ask(&format!("delete from days where day = {}", old.day())).await;
        database.ask(&format!("delete from tallies where day = {}", old.day())).await;
        database.ask("update meta set value = value + 1 where name = 'days_version'").await;
        assert_eq!(store.fetch(&[old]).await.unwrap(), []);
        let fresh = accepted(&store, 1, Timestamp::from_millis(day)).await;
        assert_eq!(rows(&database, &table).await, 1, "the day was begun anew");
        assert_eq!(store.fetch(&[old, fresh]).await.unwrap().len(), 1);
        database.ask("create table runs_1 (id int)").await;
        store.prune(&Keep::since(second(-DAY_MS))).await.unwrap();
        assert_eq!(database.ask("show tables like 'runs_1'").await.len(), 0);
        assert_eq!(rows(&database, &table).await, 1);
    });
}

#[test]
fn tables_of_the_next_days_are_made_before_they_are_needed() {
    runtime().block_on(async {
        let database = Database::create().await;
        let store = MySql::open(&database.url(), options()).await.unwrap();
        store.prune(&Keep::since(second(-DAY_MS))).await.unwrap();
        for table in ["runs_2510", "closes_2511", "sends_2512"] {
            assert_eq!(rows(&database, table).await, 0);
        }
        assert_eq!(store.storage().await.unwrap(), [], "and are no days that are stored");
    });
}

async fn rows(database: &Database, table: &str) -> u64 {
    let rows = database.ask(&format!("select count(*) from {table}")).await;
    mysql_async::from_row(rows.into_iter().next().unwrap())
}
