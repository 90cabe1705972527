//! A full disk: what does not fit is refused and nothing of it is there, what was there stays and is served, and when there is
//! room again everything goes on.

use std::path::Path;

use calendar::Timestamp;
use punctual_core::model::{NewRun, Outcome, RunId, Then};
use punctual_node::ports::{Accepted, Browse, Lease, Settled, Store, StoreError};
use punctual_store::sqlite::{Limits, Sqlite};
use rusqlite::Connection;

use crate::sqlite_support::{Folder, START, block_on, close, hold_all, one_shot, options, second, sent};

/// The tables of the schema and of one day take some eighty pages.
const PAGES: u32 = 160;

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, options(Limits { pages: Some(PAGES), tail: 300 })).unwrap()
}

fn batch(number: u64) -> Vec<NewRun> {
    let first = 1 + number * 100;
    (first..first + 100).map(|sequence| one_shot(sequence, second(sequence as i64))).collect()
}

/// Writes until nothing more fits; how many batches did.
async fn fill(store: &Sqlite) -> u64 {
    for number in 0.. {
        match store.accept(batch(number), Vec::new()).await {
            Ok(accepted) => {
                assert!(accepted.iter().all(|accepted| matches!(accepted, Accepted::New(_))));
            }
            Err(StoreError::Full(_)) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the file has an end")
}

async fn loaded(store: &Sqlite, leases: &[Lease]) -> Vec<RunId> {
    let loaded = store.load(leases, START, Timestamp::MAX, usize::MAX).await.unwrap();
    loaded.runs.iter().map(|run| run.run).collect()
}

fn ids(batches: u64) -> Vec<RunId> {
    (0..batches).flat_map(batch).map(|run| run.id).collect()
}

fn check_integrity(path: &Path) {
    let conn = Connection::open(path).unwrap();
    let check: String = conn.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole_and_what_was_there_is_served() {
    let folder = Folder::new();
    let store = open(&folder.database());
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let batches = fill(&store).await;
        assert!(batches > 5, "{batches}");
        assert_eq!(loaded(&store, &leases).await, ids(batches));
        let last = batch(batches - 1)[0].id;
        assert!(store.run(last).await.unwrap().is_some(), "people can still look");
        let refused = batch(batches)[0].id;
        assert_eq!(store.run(refused).await.unwrap(), None);
        assert_eq!(store.storage().await.unwrap().iter().map(|day| day.runs).sum::<u64>(), batches * 100);
    });
    drop(store);
    check_integrity(&folder.database());
}

#[test]
fn when_there_is_room_again_everything_goes_on() {
    let folder = Folder::new();
    let store = open(&folder.database());
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let batches = fill(&store).await;
        for _ in 0..3 {
            let refused = store.accept(batch(batches), Vec::new()).await;
            assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        }
        store.limit_pages(None).await.unwrap();
        let accepted = store.accept(batch(batches), Vec::new()).await.unwrap();
        assert_eq!(accepted.len(), 100);
        assert!(
            accepted.iter().all(|accepted| matches!(accepted, Accepted::New(_))),
            "nothing was left behind"
        );
        let runs = ids(batches + 1);
        assert_eq!(loaded(&store, &leases).await, runs);
        let settlements = runs.iter().map(|run| sent(*run, 1, Then::Close(close(Outcome::Succeeded))));
        let settled = store.settle(settlements.collect()).await.unwrap();
        assert!(settled.iter().all(|settled| matches!(settled, Settled::Done { .. })));
        assert_eq!(loaded(&store, &leases).await, []);
    });
    drop(store);
    check_integrity(&folder.database());
}

#[test]
fn ends_that_do_not_fit_leave_their_runs_open_for_another_try() {
    let folder = Folder::new();
    let store = open(&folder.database());
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let batches = fill(&store).await;
        let runs = ids(batches);
        let settlements: Vec<_> =
            runs.iter().map(|run| sent(*run, 1, Then::Close(close(Outcome::Failed)))).collect();
        let refused = store.settle(settlements.clone()).await;
        assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        assert_eq!(loaded(&store, &leases).await, runs);
        assert_eq!(store.counts(None).await.unwrap().failed, 0);
        store.limit_pages(None).await.unwrap();
        let settled = store.settle(settlements).await.unwrap();
        let done = |(settled, failures): (&Settled, u32)| {
            *settled == Settled::Done { consecutive_failures: failures, is_over: false, joined: None }
        };
        assert!(settled.iter().zip(1..).all(done), "counted from the start");
    });
}

#[test]
fn a_refusal_does_not_take_along_what_was_asked_at_the_same_time() {
    let folder = Folder::new();
    let store = open(&folder.database());
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let batches = fill(&store).await;
        // All of these wait in the queue together, and are taken into one round.
        let first = ids(1);
        let (refused, found, first) = tokio::join!(
            store.accept(batch(batches), Vec::new()),
            store.load(&leases, START, Timestamp::MAX, usize::MAX),
            store.fetch(&first),
        );
        assert!(matches!(refused, Err(StoreError::Full(_))), "{refused:?}");
        assert_eq!(found.unwrap().runs.len() as u64, batches * 100);
        assert_eq!(first.unwrap().len(), 100);
    });
}

#[test]
fn a_full_file_opens_again_with_everything_that_was_acknowledged() {
    let folder = Folder::new();
    let store = open(&folder.database());
    let batches = block_on(async {
        hold_all(&store, 1).await;
        fill(&store).await
    });
    drop(store);
    let store = open(&folder.database());
    block_on(async {
        let leases = hold_all(&store, 2).await;
        assert_eq!(loaded(&store, &leases).await, ids(batches));
    });
}
