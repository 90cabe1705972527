//! The bare limit: the same rows written without runs, leases or a node, one transaction a batch. Prepared statements in
//! SQLite, COPY and multi-row statements in PostgreSQL, multi-row statements in MariaDB.

pub(crate) mod mariadb;
pub(crate) mod postgres;
mod sqlite;

use std::time::Duration;

use crate::BenchError;
use crate::clock::Watch;
use crate::database::{DatabaseKind, Home};
use crate::rows::OneShots;

/// A database with plain tables only.
pub(crate) enum BareDatabase {
    Sqlite(sqlite::BareSqlite),
    Postgres(postgres::BarePostgres),
    MariaDb(mariadb::BareMariaDb),
}

impl BareDatabase {
    pub(crate) async fn open(home: &Home) -> Result<BareDatabase, BenchError> {
        Ok(match home.kind {
            DatabaseKind::Sqlite => BareDatabase::Sqlite(sqlite::BareSqlite::open(&home.file)?),
            DatabaseKind::Postgres => {
                BareDatabase::Postgres(postgres::BarePostgres::open(&home.address).await?)
            }
            DatabaseKind::MariaDb => BareDatabase::MariaDb(mariadb::BareMariaDb::open(&home.address).await?),
        })
    }

    /// Inserts one-shots in the fastest way.
    pub(crate) async fn insert(
        &mut self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        match self {
            BareDatabase::Sqlite(bare) => bare.insert(shots, batch, watch),
            BareDatabase::Postgres(bare) => bare.copy(shots, batch, watch).await,
            BareDatabase::MariaDb(bare) => bare.insert(shots, batch, watch).await,
        }
    }

    /// Inserts them once more with multi-row statements, where the fastest way is another one.
    pub(crate) async fn insert_rows(
        &mut self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Option<Duration>, BenchError> {
        match self {
            BareDatabase::Postgres(bare) => bare.insert(shots, batch, watch).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the earliest one-shots by row id, and writes an end for each.
    pub(crate) async fn load_and_close(
        &mut self,
        shots: &OneShots,
        closed: u64,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let ids = earliest(shots, closed)?;
        let batch = usize::try_from(batch)?;
        match self {
            BareDatabase::Sqlite(bare) => bare.load_and_close(&ids, batch, watch),
            BareDatabase::Postgres(bare) => bare.load_and_close(&ids, batch, watch).await,
            BareDatabase::MariaDb(bare) => bare.load_and_close(&ids, batch, watch).await,
        }
    }

    /// Moves the clocks of `due` jobs a tick and writes a run for each. Returns the duration of each tick.
    pub(crate) async fn plan(
        &mut self,
        stored: u64,
        due: u64,
        ticks: u64,
        watch: &Watch,
    ) -> Result<Vec<Duration>, BenchError> {
        match self {
            BareDatabase::Sqlite(bare) => bare.plan(stored, due, ticks, watch),
            BareDatabase::Postgres(bare) => bare.plan(stored, due, ticks, watch).await,
            BareDatabase::MariaDb(bare) => bare.plan(stored, due, ticks, watch).await,
        }
    }
}

/// The row ids of the one-shots that are due first.
fn earliest(shots: &OneShots, count: u64) -> Result<Vec<i64>, BenchError> {
    let mut rows: Vec<_> = (0..shots.count).map(|index| (shots.due(index), index as i64)).collect();
    rows.sort_unstable();
    rows.truncate(usize::try_from(count)?);
    Ok(rows.into_iter().map(|(_, id)| id).collect())
}
