//! The database file: which process may open it, how it is opened, and how its schema grows.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use punctual_node::ports::StoreError;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::day::{Table, has_table, index_of_jobs, index_of_logs};
use super::overrides;
use super::trouble::told;
use crate::migrations::{Migration, SQLITE, newest};

/// Versions below can lose committed pages when a writer meets a checkpoint (the WAL-reset race).
const VERSION_MIN: i32 = 3_051_003;

/// What a migration does to the tables of days beside adding columns ([`Migration::columns_of_runs`]).
struct OfDays {
    migration: u32,
    table: Table,
    /// For a day that has the table.
    sql: fn(u32) -> String,
}

/// All of them. They come after the file of their migration.
const MIGRATIONS_OF_DAYS: &[OfDays] = &[
    OfDays { migration: 4, table: Table::Sends, sql: index_of_logs },
    OfDays { migration: 8, table: Table::Runs, sql: index_of_jobs },
];

/// The migration that splits payloads.
const OVERRIDES: u32 = 9;

/// Prepared statements that a connection keeps. Days have statements of their own, and a batch of one-shots may
/// touch hundreds of days.
const STATEMENTS: usize = 1_024;

/// The right to be the only process that has the file open.
pub(super) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Not left to the closing of the file: a process that is just being started has it too, for a moment. Should this
        // fail, the closing does it.
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Taken for as long as the value lives; the operating system gives it back however the process ends.
    pub(super) fn take(database: &Path) -> Result<Lock, StoreError> {
        let path = beside(database, ".lock");
        let unknown =
            |error: std::io::Error| StoreError::Unknown(format!("{}: {error}", path.display()).into());
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(unknown)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Conflict(
                format!("{} is in use by another process: stop that one first", database.display()).into(),
            )),
            Err(TryLockError::Error(error)) => Err(unknown(error)),
        }
    }
}

/// The connection of the writer, with the schema brought up to this program's version.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    if rusqlite::version_number() < VERSION_MIN {
        let version = rusqlite::version();
        return Err(StoreError::Conflict(
            format!("SQLite {version} can lose committed pages: at least 3.51.3 is needed").into(),
        ));
    }
    let mut conn = Connection::open(path).map_err(|error| told(&error))?;
    prepare(&conn).map_err(|error| told(&error))?;
    migrate(&mut conn)?;
    Ok(conn)
}

/// A connection that can only read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        keep_plans(&conn)?;
        conn.execute_batch(
            "pragma query_only = true;
             pragma busy_timeout = 5000;
             pragma temp_store = memory;
             pragma cache_size = -8192;",
        )?;
        Ok(conn)
    };
    open().map_err(|error: rusqlite::Error| told(&error))
}

/// A connection that only moves pages from the log into the file.
pub(super) fn open_sweeper(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let conn = Connection::open(path)?;
        conn.execute_batch(
            "pragma busy_timeout = 0;
             pragma synchronous = full;
             pragma wal_autocheckpoint = 0;
             pragma cache_size = -256;",
        )?;
        Ok(conn)
    };
    open().map_err(|error: rusqlite::Error| told(&error))
}

/// A prepared statement keeps its plan whatever is bound to it. Without this the bundled SQLite (built with STAT4) plans
/// some statements anew for every value: 18.6 µs instead of 1.3 µs to read a job, 11.3 µs instead of 1.1 µs its children.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

fn prepare(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    keep_plans(conn)?;
    // The page size first: it is fixed by whatever is written next. Checkpoints are ours alone, so that no commit
    // has to wait for one. No auto_vacuum: the pages of dropped days are what the next days are written into.
    conn.execute_batch(
        "pragma page_size = 8192;
         pragma journal_mode = wal;
         pragma synchronous = full;
         pragma wal_autocheckpoint = 0;
         pragma journal_size_limit = 67108864;
         pragma temp_store = memory;
         pragma cache_size = -65536;
         pragma busy_timeout = 5000;
         pragma foreign_keys = false;",
    )
}

fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    let newest = newest(SQLITE);
    let mut apply = || -> rusqlite::Result<u32> {
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(
            "create table if not exists schema_version (version integer primary key) strict",
        )?;
        let at: u32 = transaction.query_row(
            "select coalesce(max(version), 0)
             from schema_version",
            [],
            |row| row.get(0),
        )?;
        for migration in SQLITE.iter().filter(|migration| migration.version > at) {
            transaction.execute_batch(migration.sql)?;
            migrate_days(&transaction, migration)?;
            transaction.execute("insert into schema_version (version) values (?1)", [migration.version])?;
        }
        transaction.commit()?;
        Ok(at)
    };
    let at = apply().map_err(|error| told(&error))?;
    if at > newest {
        return Err(StoreError::Conflict(
            format!(
                "the database has schema {at}, and this program knows schemas up to {newest}: use the program that \
                 last opened it, or a newer one"
            )
            .into(),
        ));
    }
    Ok(())
}

fn migrate_days(conn: &Connection, migration: &Migration) -> rusqlite::Result<()> {
    let mut days = conn.prepare("select day from buckets")?;
    let days = days.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<u32>>>()?;
    let in_each = |table: Table, sql: &dyn Fn(u32) -> String| -> rusqlite::Result<()> {
        for day in &days {
            if has_table(conn, table, *day)? {
                conn.execute_batch(&sql(*day))?;
            }
        }
        Ok(())
    };
    for column in migration.columns_of_runs {
        in_each(Table::Runs, &|day| format!("alter table runs_{day} add column {column}"))?;
    }
    for OfDays { table, sql, .. } in MIGRATIONS_OF_DAYS.iter().filter(|of| of.migration == migration.version)
    {
        in_each(*table, sql)?;
    }
    if migration.version == OVERRIDES {
        overrides::migrate(conn, &days)?;
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
