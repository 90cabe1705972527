//! Databases of an earlier version, opened by this one: nothing of them is lost or doubled.
//!
//! The dumps in `fixtures/a9ef93f` were made by the program of that commit: jobs for an agent and for three XXL-JOB executors; runs
//! that wait for their time on five days, wait for an executor, are parked, put off, between two attempts, on their way, split
//! into parts, and over; with timeouts and retry policies of their own, pinned to executors, and without; and a program
//! that was stopped in between and killed at the end. The lists beside them say what its API told last: run, state, whole,
//! overrides, attempts, payload.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::{
    ChangeId, Decided, JobId, NewRun, NodeId, Origin, Overrides, RunId, RunState, ShardId,
};
use punctual_node::ports::{Accepted, Lease, Renewal, RunFilter, RunView, Store, Unpark, Waiting};
use punctual_store::mysql::MySql;
use punctual_store::sqlite::{self, Limits, Sqlite};
use punctual_store::{Options, Postgres, StoreClock};
use rusqlite::Connection;
use serde_json::Value;

use crate::sqlite_support::{Folder, START, block_on, hold_all, one_shot, options, second, short_tail};
use crate::suite::Whole;
use crate::{mysql_support, postgres_support};

const SHARDS: u16 = 64;

const EMBEDDED: &str = include_str!("../fixtures/a9ef93f/sqlite.json");
const CLUSTERS: &str = include_str!("../fixtures/a9ef93f/clusters.json");

/// Some hours after the last program was killed.
fn now() -> Timestamp {
    Timestamp::from_millis(1_795_050_000_000)
}

fn clock() -> StoreClock {
    Arc::new(now)
}

fn of_clusters() -> Options {
    Options { shards: SHARDS, clock: Some(clock()), connections: 2, readers: 1, ..Options::default() }
}

/// What the earlier program told of a run.
#[derive(Debug)]
struct Told {
    id: RunId,
    state: RunState,
    whole: Option<RunId>,
    overrides: Option<Arc<Overrides>>,
    attempts: usize,
    payload: Option<Value>,
}

fn told(list: &str) -> Vec<Told> {
    let rows: Vec<Vec<Value>> = serde_json::from_str(list).unwrap();
    let id = |value: &Value| value.as_u64().map(RunId);
    let told = |row: &Vec<Value>| Told {
        id: id(&row[0]).unwrap(),
        state: row[1].as_str().unwrap().parse().unwrap(),
        whole: id(&row[2]),
        overrides: Overrides::read(row[3].as_str().unwrap()).kept(),
        attempts: row[4].as_u64().unwrap() as usize,
        payload: row[5].as_str().map(|text| serde_json::from_str(text).unwrap()),
    };
    rows.iter().map(told).collect()
}

/// Every run that people see, with the parts of broadcasts.
async fn views(store: &dyn Whole) -> Vec<RunView> {
    let list = store.run_list(&RunFilter::default(), None, 1_000).await.unwrap();
    assert_eq!(list.next, None);
    let mut views = Vec::new();
    for view in list.items {
        views.extend(store.parts(view.id).await.unwrap());
        views.push(view);
    }
    views.sort_by_key(|view| view.id);
    views
}

async fn check_views(store: &dyn Whole, told: &[Told]) {
    let views = views(store).await;
    let ids: Vec<RunId> = views.iter().map(|view| view.id).collect();
    assert_eq!(ids, told.iter().map(|told| told.id).collect::<Vec<RunId>>());
    for (view, told) in views.iter().zip(told) {
        assert_eq!(view.state, told.state, "{told:?}");
        assert_eq!(view.overrides, told.overrides, "{told:?}");
        assert_eq!(view.attempts.len(), told.attempts, "{told:?}");
        assert_eq!(view.of.filter(|_| view.origin == Origin::Part), told.whole, "{told:?}");
        let payload: Option<Value> = view.payload.as_deref().map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(payload, told.payload, "{told:?}");
    }
}

/// Takes all shards, as the first node of this version.
async fn hold(store: &dyn Store) -> Vec<Lease> {
    let node = NodeId(7);
    let renewal = Renewal {
        node,
        term: Duration::from_secs(60),
        mark: Timestamp::MIN,
        seen: ChangeId(0),
        name: "new".into(),
        address: "".into(),
        checkpoints: Vec::new(),
    };
    store.renew(renewal).await.unwrap();
    let acquired = store.acquire(node, (0..SHARDS).map(ShardId).collect()).await.unwrap();
    assert_eq!(acquired.len(), usize::from(SHARDS), "whoever had them has expired");
    acquired.iter().map(|acquired| acquired.lease).collect()
}

/// What a node has to act for: each open run once, in one of the three places that it is found in.
async fn check_open(store: &dyn Store, told: &[Told]) {
    let leases = hold(store).await;
    let adopted = store.adopt(&leases).await.unwrap();
    let parked: BTreeSet<JobId> = adopted.parked.iter().map(|(_, job)| *job).collect();
    let mut called = 0;
    for lease in &leases {
        let jobs = parked.iter().map(|job| (*job, 1_000)).collect();
        let unpark = Unpark { lease: *lease, jobs, max: 1_000, at: now() };
        called += store.unpark(&unpark).await.unwrap().len();
    }
    assert_eq!(called, 2, "what is parked of a stopped job");
    let loaded = store.load(&leases, START, Timestamp::MAX, 1_000).await.unwrap();
    assert_eq!(loaded.rest, None);
    let all = loaded.runs.into_iter().chain(adopted.sends.into_iter().map(|open| open.run));
    let mut found: BTreeMap<RunId, Waiting> = BTreeMap::new();
    for run in all {
        assert_eq!(found.insert(run.run, run).map(|run| run.run), None, "found twice");
    }
    let is_open =
        |told: &&Told| matches!(told.state, RunState::Pending | RunState::Running | RunState::Retrying);
    let open: BTreeMap<RunId, &Told> = told.iter().filter(is_open).map(|told| (told.id, told)).collect();
    assert!(found.keys().eq(open.keys()), "{:?}\n{:?}", found.keys(), open.keys());
    let rows = store.fetch(&open.keys().copied().collect::<Vec<RunId>>()).await.unwrap();
    assert_eq!(rows.len(), open.len());
    for row in rows {
        let told = open[&row.waiting.run];
        assert_eq!(found[&told.id].overrides, told.overrides, "{told:?}");
        assert_eq!(row.waiting.overrides, told.overrides, "{told:?}");
        let payload: Option<Value> = row.payload.as_deref().map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(payload, told.payload, "{told:?}");
    }
}

/// What is new goes into the tables that are there, and into new ones.
async fn check_new(store: &dyn Whole) {
    let overrides = Overrides { timeout: Some(Duration::from_secs(9)), ..Overrides::default() }.kept();
    for days in [0, 1, 2, 400] {
        let due = now().saturating_add(Duration::from_secs(days * 86_400));
        let day = store.birth_day(RunId::day_of(due), RunId::day_of(now()));
        let sequence = store.allot(day, 1).await.unwrap();
        let run = NewRun {
            id: RunId::new(day, sequence),
            job: JobId(1),
            shard: ShardId(1),
            fire_time: due,
            due,
            origin: Origin::OneShot,
            decided: Decided::NotYet,
            priority: 5,
            payload: Some("{}".into()),
            key: None,
            of: None,
            overrides: overrides.clone(),
        };
        let id = run.id;
        assert_eq!(store.accept(vec![run], Vec::new()).await.unwrap(), [Accepted::New(id)]);
        assert_eq!(store.run(id).await.unwrap().unwrap().overrides, overrides);
    }
}

#[test]
fn an_embedded_database_is_taken_over_whole() {
    let folder = Folder::new();
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute_batch(include_str!("../fixtures/a9ef93f/sqlite.sql")).unwrap();
    drop(conn);
    let open = || {
        let options = sqlite::Options { shards: SHARDS, clock: clock(), ..options(Limits::default()) };
        Sqlite::open(&folder.database(), options).unwrap()
    };
    let told = told(EMBEDDED);
    let store = open();
    block_on(check_views(&store, &told));
    drop(store);
    let store = open();
    block_on(async {
        check_views(&store, &told).await;
        check_open(&store, &told).await;
        check_new(&store).await;
    });
}

#[test]
fn a_database_on_postgresql_is_taken_over_whole() {
    postgres_support::block_on(async {
        let database = postgres_support::Database::empty().await;
        let client = postgres_support::client(&database.url()).await;
        client.batch_execute(include_str!("../fixtures/a9ef93f/postgres.sql")).await.unwrap();
        drop(client);
        let told = told(CLUSTERS);
        for _ in 0..2 {
            let store = Postgres::open(&database.url(), of_clusters()).await.unwrap();
            check_views(&store, &told).await;
        }
        let store = Postgres::open(&database.url(), of_clusters()).await.unwrap();
        check_open(&store, &told).await;
        check_new(&store).await;
        drop(store);
        database.drop().await;
    });
}

#[test]
fn a_database_on_mariadb_is_taken_over_whole() {
    let runtime = mysql_support::runtime();
    runtime.block_on(async {
        let database = mysql_support::Database::create().await;
        let dump = include_str!("../fixtures/a9ef93f/mariadb.sql");
        database.run(&format!("use {}; {dump}", database.name)).await;
        let told = told(CLUSTERS);
        for _ in 0..2 {
            let store = MySql::open(&database.url(), of_clusters()).await.unwrap();
            check_views(&store, &told).await;
            // A migration that was interrupted is repeated.
            database.ask("delete from schema_version where version = 6").await;
        }
        let store = MySql::open(&database.url(), of_clusters()).await.unwrap();
        check_open(&store, &told).await;
        check_new(&store).await;
    });
}

/// Beyond a quarter of a million runs the embedded store writes a due index, whose entries say which runs have overrides.
#[test]
fn overrides_are_found_through_an_index_that_was_written_before_they_had_a_column() {
    let folder = Folder::new();
    let day = RunId::day_of(second(0));
    let open = |tail| Sqlite::open(&folder.database(), options(short_tail(tail))).unwrap();
    let store = open(1);
    block_on(store.accept((1..1_000).map(|id| one_shot(id, second(0))).collect(), Vec::new())).unwrap();
    // Closing writes the index.
    drop(store);
    let conn = Connection::open(folder.database()).unwrap();
    conn.execute_batch(&format!(
        "alter table runs_{day} drop column overrides;
         update runs_{day}
         set payload = '!timeout=' || (id % 100 + 1) || char(10) || '{{}}'
         where id % 10 = 0;
         delete from schema_version where version = 9;"
    ))
    .unwrap();
    drop(conn);
    let store = open(1_000);
    block_on(async {
        let leases = hold_all(&store, 1).await;
        let runs = store.load(&leases, START, Timestamp::MAX, 10_000).await.unwrap().runs;
        assert_eq!(runs.len(), 999);
        for run in runs {
            let timeout = Some(Duration::from_millis(run.run.0 % 100 + 1));
            let overrides = Overrides { timeout, ..Overrides::default() };
            let expected = run.run.0.is_multiple_of(10).then(|| Arc::new(overrides));
            assert_eq!(run.overrides, expected, "{}", run.run);
        }
    });
}
