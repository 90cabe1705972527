//! Databases for tests: one for each, on the server that the environment names, gone with the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use calendar::Timestamp;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use punctual_core::model::{
    Attempt, ChangeId, Close, Decided, Epoch, Fence, JobId, JobState, NewRun, NodeId, Origin, Outcome, RunId,
    Settlement, ShardId, Then, Token,
};
use punctual_node::ports::{Accepted, Change, ClockEdit, Gate, Lease, PlannedTo, Renewal, Store};
use punctual_store::Options;
use punctual_store::mysql::MySql;

use crate::suite::definition;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A runtime as tests need it.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The server's administrator.
pub(crate) fn admin_url() -> String {
    #[expect(clippy::disallowed_methods, reason = "where the server is, only the environment knows")]
    let url = std::env::var("PUNCTUAL_TEST_MARIADB");
    url.expect("PUNCTUAL_TEST_MARIADB names no server: `cargo xtask test` starts one and sets it")
}

/// The first day that lies far ahead when the cases begin, on 2026-11-15.
const FAR_FROM: u32 = 2_510 + 61;

/// What is made by these is what a database that is used again has.
const SCHEMA: [&str; 6] = [
    include_str!("../../migrations/mysql/0001_first.sql"),
    include_str!("../../migrations/mysql/0002_retention.sql"),
    include_str!("../../migrations/mysql/0004_paused.sql"),
    include_str!("../../migrations/mysql/0006_overrides.sql"),
    include_str!("../../src/mysql/day.rs"),
    include_str!("../../src/mysql/run_row.rs"),
];

/// A database for one test.
pub(crate) struct Database {
    pub(crate) name: String,
    /// Holds the name for as long as the database is used; none for one that is dropped.
    lock: Option<Conn>,
}

impl Database {
    pub(crate) async fn create() -> Database {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual_{}_{number}", std::process::id());
        let database = Database { name, lock: None };
        database.run(&format!("create database {}", database.name)).await;
        database
    }

    /// A database that an earlier test has left, made empty: to make tables takes most of the time of a short test.
    pub(crate) async fn reuse() -> Database {
        let mut conn = connect().await;
        let sum =
            SCHEMA.concat().bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut number = 0;
        loop {
            let name = format!("punctual_test_{:08x}_{number}", sum as u32);
            let locked: Option<i64> =
                conn.query_first(format!("select get_lock('{name}', 0)")).await.unwrap();
            if locked == Some(1) {
                conn.query_drop(format!("create database if not exists {name}; use {name}")).await.unwrap();
                empty(&mut conn).await;
                return Database { name, lock: Some(conn) };
            }
            number += 1;
        }
    }

    pub(crate) fn url(&self) -> String {
        let admin = admin_url();
        let (server, _) = admin.rsplit_once('/').expect("a URL that ends with a database");
        format!("{server}/{}", self.name)
    }

    /// Says something as the administrator.
    pub(crate) async fn run(&self, sql: &str) {
        let mut conn = connect().await;
        conn.query_drop(sql).await.unwrap();
        conn.disconnect().await.unwrap();
    }

    /// Asks something within the database.
    pub(crate) async fn ask(&self, sql: &str) -> Vec<Row> {
        let mut conn = connect().await;
        conn.query_drop(format!("use {}", self.name)).await.unwrap();
        let rows = conn.query(sql).await.unwrap();
        conn.disconnect().await.unwrap();
        rows
    }
}

/// Makes a database as it was when it was new, except that some days have their tables already.
async fn empty(conn: &mut Conn) {
    let tables: Vec<String> = conn
        .query("select table_name from information_schema.tables where table_schema = database()")
        .await
        .unwrap();
    if !tables.iter().any(|table| table == "schema_version") {
        return;
    }
    let kept = ["schema_version", "meta", "counters", "days"];
    let mut script: Vec<String> = tables
        .iter()
        .filter(|table| !kept.contains(&table.as_str()))
        .map(|table| format!("delete from `{table}`"))
        .collect();
    script.push("update counters set value = 0".into());
    script.push("delete from meta where name = 'shards'".into());
    script.push("update meta set value = 0 where name = 'pruned_to'".into());
    script.push(format!("update meta set value = {FAR_FROM} where name = 'far_from'"));
    let start = "(day + 18262) * 86400000";
    script.push(format!("update days set low = {start}, high = {start} + 86399999 where day < 4294967295"));
    conn.query_drop(script.join(";")).await.unwrap();
}

/// A connection of the administrator.
pub(crate) async fn connect() -> Conn {
    let opts = Opts::from_url(&admin_url()).unwrap();
    Conn::new(OptsBuilder::from_opts(opts).prefer_socket(false)).await.unwrap()
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.lock.is_some() {
            return;
        }
        let sql = format!("drop database if exists {}", self.name);
        // On a thread of its own: the test's runtime may be in the middle of a panic.
        let drop = std::thread::spawn(move || {
            runtime().block_on(async {
                let mut conn = connect().await;
                let _ = conn.query_drop(sql).await;
            });
        });
        let _ = drop.join();
    }
}

// --- what most tests do ---

pub(crate) const SHARDS: u16 = 4;

/// So many seconds after 2026-11-15T10:00:00Z.
pub(crate) fn second(after: i64) -> Timestamp {
    Timestamp::from_millis(1_794_736_800_000 + after * 1_000)
}

/// Options with a clock that stands at the beginning.
pub(crate) fn options() -> Options {
    Options {
        shards: SHARDS,
        key_ttl: Duration::from_secs(60),
        clock: Some(Arc::new(|| second(0))),
        connections: 2,
        readers: 1,
        ..Options::default()
    }
}

/// So many stores on one database, as nodes have them.
pub(crate) async fn open_all(database: &Database, count: usize) -> Vec<MySql> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(MySql::open(&database.url(), options()).await.unwrap());
    }
    stores
}

/// A one-shot with an id of its own.
pub(crate) async fn run(store: &MySql, job: u32, due: Timestamp) -> NewRun {
    let day = RunId::day_of(due);
    let sequence = store.allot(day, 1).await.unwrap();
    NewRun {
        id: RunId::new(day, sequence),
        job: JobId(job),
        shard: ShardId(0),
        fire_time: due,
        due,
        origin: Origin::OneShot,
        decided: Decided::NotYet,
        priority: 5,
        payload: None,
        key: None,
        of: None,
        overrides: None,
    }
}

/// Hands over a one-shot.
pub(crate) async fn accepted(store: &MySql, job: u32, due: Timestamp) -> RunId {
    let run = run(store, job, due).await;
    let id = run.id;
    assert_eq!(store.accept(vec![run], Vec::new()).await.unwrap(), [Accepted::New(id)]);
    id
}

pub(crate) fn gate(run: RunId, epoch: u64) -> Gate {
    let lease = Lease { shard: ShardId(0), epoch: Epoch(epoch) };
    Gate {
        lease,
        run,
        job: JobId(1),
        attempt: Attempt::FIRST,
        token: Token::new(lease.epoch, Attempt::FIRST),
        executor: "executor".into(),
        sent_at: second(0),
        holds: Vec::new(),
    }
}

/// The end of a run that was sent once.
pub(crate) fn end(run: RunId, outcome: Outcome) -> Settlement {
    let close = Close { outcome, reason: "".into(), closed_at: second(1), range: None };
    Settlement {
        run,
        job: JobId(1),
        shard: ShardId(0),
        is_foreign: false,
        fence: Fence::Sent(Attempt::FIRST, Token::new(Epoch(1), Attempt::FIRST)),
        attempt: None,
        then: Then::Close(close),
        children: Vec::new(),
        named: None,
        part_of: None,
    }
}

pub(crate) fn renewal(node: u128) -> Renewal {
    Renewal {
        node: NodeId(node),
        term: Duration::from_secs(3_600),
        mark: second(0),
        seen: ChangeId(0),
        name: "node".into(),
        address: "node:7070".into(),
        checkpoints: Vec::new(),
    }
}

/// Makes a node the holder of every shard.
pub(crate) async fn hold_all(store: &MySql, node: u128) -> Vec<Lease> {
    store.renew(renewal(node)).await.unwrap();
    let shards = (0..SHARDS).map(ShardId).collect();
    store.acquire(NodeId(node), shards).await.unwrap().iter().map(|taken| taken.lease).collect()
}

/// A change that creates an enabled job.
pub(crate) fn creation(name: &str, next_fire: Timestamp) -> Change {
    let next_fire = Some(next_fire);
    Change {
        job: None,
        definition: Some(definition(name)),
        state: JobState::Enabled,
        clock: ClockEdit { expected: None, planned: PlannedTo::default(), next_fire, passed: Vec::new() },
        by: "anna".into(),
        at: second(0),
    }
}
