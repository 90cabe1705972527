//! Several clients at once on one store: whatever they were answered must have an order, one after the other, in which the
//! model gives the same answers. A verb whose connection is killed under it may have happened or not.
//!
//! The histories are drawn from numbers, and a failure says which. `PROPTEST_CASES` asks for more of them.

mod history;
mod judge;
mod verb;

use std::sync::Arc;
use std::time::Duration;

use calendar::Timestamp;
use mysql_async::prelude::Queryable;
use proptest::prelude::ProptestConfig;
use punctual_store::mysql::MySql;
use punctual_store::sqlite::{self, Limits, Sqlite};
use punctual_store::{Memory, Options, Postgres, StoreClock};

use self::history::{Draw, History, Scene};
use self::judge::explain;
use crate::sqlite_support::Folder;
use crate::suite::Whole;
use crate::{mysql_support, postgres_support};

const SHARDS: u16 = 4;
const KEY_TTL: Duration = Duration::from_secs(60);
const BEGIN_MS: i64 = 1_794_736_800_000;

/// So many seconds after the time at which every history plays. It does not pass: what happens in time is for the sequences.
fn second(after: i64) -> Timestamp {
    Timestamp::from_millis(BEGIN_MS + after * 1_000)
}

fn clock() -> StoreClock {
    Arc::new(|| second(0))
}

fn model() -> Memory {
    Memory::new(SHARDS, KEY_TTL, clock())
}

fn options() -> Options {
    Options {
        shards: SHARDS,
        key_ttl: KEY_TTL,
        clock: Some(clock()),
        connections: 2,
        readers: 1,
        ..Options::default()
    }
}

/// How many histories are tried, where that many would be tried of the cheapest.
fn seeds(less: u32) -> std::ops::Range<u64> {
    0..u64::from((ProptestConfig::default().cases / less).max(1))
}

/// What was recorded must have an order that explains it.
async fn judge(seed: u64, scene: &Scene, history: &History) {
    let explained = explain(scene, history).await;
    assert!(explained.is_some(), "no serial order explains history {seed}:\n{history}");
}

#[test]
fn what_sqlite_answers_to_many_at_once_has_a_serial_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        for seed in seeds(4) {
            let folder = Folder::new();
            let limits = Limits { tail: 2, ..Limits::default() };
            let options = sqlite::Options {
                shards: SHARDS,
                key_ttl: KEY_TTL,
                clock: clock(),
                ends_leases: false,
                limits,
            };
            let store = Sqlite::open(&folder.database(), options).unwrap();
            let mut draw = Draw::new(seed);
            let scene = Scene::set(&store).await;
            let clients: Vec<&dyn Whole> = vec![&store; 3];
            let history = History::record(&scene, &mut draw, &clients, std::future::pending()).await;
            assert!(history.is_all_known(), "nobody was killed:\n{history}");
            judge(seed, &scene, &history).await;
        }
    });
}

#[test]
fn what_postgres_answers_to_many_at_once_has_a_serial_order() {
    postgres_support::block_on(async {
        for seed in seeds(6) {
            let database = postgres_support::Database::migrated(SHARDS, clock()).await;
            let mut stores = Vec::new();
            for _ in 0..3 {
                stores.push(Postgres::open(&database.url(), options()).await.unwrap());
            }
            let mut draw = Draw::new(seed);
            let scene = Scene::set(&stores[0]).await;
            // As nodes have them, or as those who ask one node.
            let of = |place: usize| &stores[if seed % 4 < 2 { place } else { 0 }] as &dyn Whole;
            let clients: Vec<&dyn Whole> = (0..3).map(of).collect();
            let is_killed = seed % 2 == 1;
            let killer = kill_on_postgres(&database.name, draw.below(3), is_killed);
            let history = History::record(&scene, &mut draw, &clients, killer).await;
            assert!(is_killed || history.is_all_known(), "nobody was killed:\n{history}");
            judge(seed, &scene, &history).await;
            drop(stores);
            database.hand_on().await;
        }
    });
}

/// Ends sessions in the middle of what they do, after so many others were let go.
async fn kill_on_postgres(database: &str, spared: u64, is_killed: bool) {
    if !is_killed {
        return std::future::pending().await;
    }
    let admin = postgres_support::client(&postgres_support::admin_url()).await;
    let mut spared = spared;
    loop {
        let busy = "select pid from pg_stat_activity where datname = $1 and state <> 'idle'";
        for row in admin.query(busy, &[&database]).await.unwrap() {
            let pid: i32 = row.get(0);
            if spared == 0 {
                admin.query("select pg_terminate_backend($1)", &[&pid]).await.unwrap();
            }
            spared = spared.saturating_sub(1);
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn what_mysql_answers_to_many_at_once_has_a_serial_order() {
    mysql_support::runtime().block_on(async {
        for seed in seeds(6) {
            let database = mysql_support::Database::reuse().await;
            let mut stores = Vec::new();
            for _ in 0..3 {
                stores.push(MySql::open(&database.url(), options()).await.unwrap());
            }
            let mut draw = Draw::new(seed);
            let scene = Scene::set(&stores[0]).await;
            // As nodes have them, or as those who ask one node.
            let of = |place: usize| &stores[if seed % 4 < 2 { place } else { 0 }] as &dyn Whole;
            let clients: Vec<&dyn Whole> = (0..3).map(of).collect();
            let is_killed = seed % 2 == 1;
            let killer = kill_on_mysql(&database.name, draw.below(3), is_killed);
            let history = History::record(&scene, &mut draw, &clients, killer).await;
            assert!(is_killed || history.is_all_known(), "nobody was killed:\n{history}");
            judge(seed, &scene, &history).await;
        }
    });
}

/// As on PostgreSQL.
async fn kill_on_mysql(database: &str, spared: u64, is_killed: bool) {
    if !is_killed {
        return std::future::pending().await;
    }
    let mut admin = mysql_support::connect().await;
    let mut spared = spared;
    loop {
        let busy = format!(
            "select id from information_schema.processlist
             where db = '{database}' and command = 'Query' and id <> connection_id()"
        );
        for id in admin.query::<u64, _>(busy).await.unwrap() {
            if spared == 0 {
                // It may have ended by itself.
                let _ = admin.query_drop(format!("kill {id}")).await;
            }
            spared = spared.saturating_sub(1);
        }
        tokio::task::yield_now().await;
    }
}
