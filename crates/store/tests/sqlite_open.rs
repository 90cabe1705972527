//! Opening a file: who may, and what is found in it afterwards.

mod sqlite_support;

use calendar::Timestamp;
use punctual_core::model::{ChangeId, NodeId, Outcome, RunId, RunState, ShardId, Then};
use punctual_node::ports::{Browse, Renewal, Store, StoreError};
use punctual_store::sqlite::{Limits, Options, Sqlite};
use rusqlite::Connection;
use sqlite_support::{
    Folder, SHARDS, START, block_on, close, hold_all, one_shot, options, second, sent, short_tail,
};

fn refused(opened: Result<Sqlite, StoreError>) -> String {
    match opened {
        Err(StoreError::Conflict(said)) => said.into_owned(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_file_that_is_open_is_refused_and_free_again_when_it_is_closed() {
    let folder = Folder::new();
    let first = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let said = refused(Sqlite::open(&folder.database(), options(Limits::default())));
    assert!(said.contains("in use by another process"), "{said}");
    drop(first);
    Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
}

#[test]
fn a_schema_of_a_newer_program_is_refused() {
    let folder = Folder::new();
    drop(Sqlite::open(&folder.database(), options(Limits::default())).unwrap());
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute("insert into schema_version (version) values (9999)", []).unwrap();
    drop(conn);
    let said = refused(Sqlite::open(&folder.database(), options(Limits::default())));
    assert!(said.contains("schema 9999") && said.contains("newer"), "{said}");
}

#[test]
fn another_number_of_shards_is_refused() {
    let folder = Folder::new();
    drop(Sqlite::open(&folder.database(), options(Limits::default())).unwrap());
    let other = Options { shards: SHARDS + 1, ..options(Limits::default()) };
    let said = refused(Sqlite::open(&folder.database(), other));
    assert!(said.contains("4 shards") && said.contains('5'), "{said}");
}

#[test]
fn a_file_that_is_no_database_is_told_so() {
    let folder = Folder::new();
    std::fs::write(folder.database(), "not a database, but long enough to be looked at".repeat(100)).unwrap();
    let error = Sqlite::open(&folder.database(), options(Limits::default())).err().unwrap();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn the_leases_of_an_earlier_process_have_ended_and_its_promise_stays() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    let old = block_on(hold_all(&store, 1));
    drop(store);
    let store = Sqlite::open(&folder.database(), options(Limits::default())).unwrap();
    block_on(async {
        let renewal = |node| Renewal {
            node: NodeId(node),
            term: std::time::Duration::from_secs(4),
            mark: second(9),
            seen: ChangeId(0),
            address: "".into(),
            checkpoints: Vec::new(),
        };
        let fenced = store.renew(renewal(1)).await;
        assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
        let fenced = store.load(&old, START, Timestamp::MAX, 1).await;
        assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
        store.renew(renewal(2)).await.unwrap();
        let acquired = store.acquire(NodeId(2), vec![ShardId(0)]).await.unwrap();
        assert_eq!(acquired[0].mark, Some(second(0)), "what the first one promised");
    });
}

#[test]
fn a_run_whose_id_lies_below_what_is_indexed_is_found_after_a_restart() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(short_tail(1))).unwrap();
    block_on(store.accept((100..110).map(|id| one_shot(id, second(0))).collect(), Vec::new())).unwrap();
    // Closing writes the index up to 109; 50 comes from a block of ids that somebody took earlier.
    drop(store);
    let store = Sqlite::open(&folder.database(), options(short_tail(1_000))).unwrap();
    block_on(store.accept(vec![one_shot(50, second(0))], Vec::new())).unwrap();
    drop(store);
    let store = Sqlite::open(&folder.database(), options(short_tail(1_000))).unwrap();
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let loaded = store.load(&leases, START, Timestamp::MAX, 100).await.unwrap();
        let sequences: Vec<u64> = loaded.runs.iter().map(|run| run.run.sequence()).collect();
        assert_eq!(sequences, [50, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109]);
    });
}

#[test]
fn people_see_an_end_as_soon_as_it_is_acknowledged_in_the_tail_and_in_the_index() {
    let folder = Folder::new();
    let store = Sqlite::open(&folder.database(), options(short_tail(64))).unwrap();
    block_on(async {
        for sequence in 1..400 {
            let run = one_shot(sequence, second(sequence as i64));
            let id: RunId = run.id;
            store.accept(vec![run], Vec::new()).await.unwrap();
            assert_eq!(store.run(id).await.unwrap().unwrap().state, RunState::Pending);
            store.settle(vec![sent(id, 1, Then::Close(close(Outcome::Failed)))]).await.unwrap();
            assert_eq!(store.run(id).await.unwrap().unwrap().state, RunState::Failed);
        }
    });
}
