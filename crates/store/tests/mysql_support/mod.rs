//! Databases for tests: one for each, on the server that the environment names, gone with the test.

#![allow(dead_code, reason = "every test file is a program of its own, and none needs everything")]
#![expect(clippy::disallowed_methods, reason = "the test runner says by the environment where its server is")]

use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A runtime as tests need it.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// The server's administrator.
pub(crate) fn admin_url() -> String {
    std::env::var("PUNCTUAL_TEST_MARIADB")
        .expect("PUNCTUAL_TEST_MARIADB names no server: `cargo xtask test` starts one and sets it")
}

/// The first day that lies far ahead when the cases begin, on 2026-11-15.
const FAR_FROM: u32 = 2_510 + 61;

/// What is made by these is what a database that is used again has.
const SCHEMA: [&str; 2] =
    [include_str!("../../migrations/mysql/0001_first.sql"), include_str!("../../src/mysql/day.rs")];

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
        let sum = SCHEMA.concat().bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut number = 0;
        loop {
            let name = format!("punctual_test_{:08x}_{number}", sum as u32);
            let locked: Option<i64> = conn.query_first(format!("select get_lock('{name}', 0)")).await.unwrap();
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
    let mut script: Vec<String> =
        tables.iter().filter(|table| !kept.contains(&table.as_str())).map(|table| format!("delete from `{table}`")).collect();
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
