//! The bare limit: what a program does that knows nothing of runs and leases, over the same rows, one transaction a batch:
//! prepared statements in SQLite, COPY and statements of many rows in PostgreSQL, statements of many rows in MariaDB.

pub(crate) mod mariadb;
pub(crate) mod postgres;
mod sqlite;

use std::time::Duration;

use crate::Failure;
use crate::clock::Watch;
use crate::database::{Home, Kind};
use crate::rows::OneShots;

/// A database without anything of ours.
pub(crate) enum Bare {
    Sqlite(sqlite::Bare),
    Postgres(postgres::Bare),
    MariaDb(mariadb::Bare),
}

impl Bare {
    pub(crate) async fn open(home: &Home) -> Result<Bare, Failure> {
        Ok(match home.kind {
            Kind::Sqlite => Bare::Sqlite(sqlite::Bare::open(&home.file)?),
            Kind::Postgres => Bare::Postgres(postgres::Bare::open(&home.address).await?),
            Kind::MariaDb => Bare::MariaDb(mariadb::Bare::open(&home.address).await?),
        })
    }

    /// Inserts one-shots in the way that is fastest.
    pub(crate) async fn insert(
        &mut self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, Failure> {
        match self {
            Bare::Sqlite(bare) => bare.insert(shots, batch, watch),
            Bare::Postgres(bare) => bare.copy(shots, batch, watch).await,
            Bare::MariaDb(bare) => bare.insert(shots, batch, watch).await,
        }
    }

    /// Inserts them once more with statements of many rows, where there is a faster way than that.
    pub(crate) async fn insert_rows(
        &mut self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Option<Duration>, Failure> {
        match self {
            Bare::Postgres(bare) => bare.insert(shots, batch, watch).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Reads the earliest one-shots by their row ids, and writes an end for each.
    pub(crate) async fn load_and_close(
        &mut self,
        shots: &OneShots,
        closed: u64,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, Failure> {
        let ids = earliest(shots, closed)?;
        let batch = usize::try_from(batch)?;
        match self {
            Bare::Sqlite(bare) => bare.load_and_close(&ids, batch, watch),
            Bare::Postgres(bare) => bare.load_and_close(&ids, batch, watch).await,
            Bare::MariaDb(bare) => bare.load_and_close(&ids, batch, watch).await,
        }
    }

    /// Moves the clocks of so many jobs a tick, and writes a run for each: how long each tick took.
    pub(crate) async fn plan(
        &mut self,
        stored: u64,
        due: u64,
        ticks: u64,
        watch: &Watch,
    ) -> Result<Vec<Duration>, Failure> {
        match self {
            Bare::Sqlite(bare) => bare.plan(stored, due, ticks, watch),
            Bare::Postgres(bare) => bare.plan(stored, due, ticks, watch).await,
            Bare::MariaDb(bare) => bare.plan(stored, due, ticks, watch).await,
        }
    }
}

/// The row ids of the one-shots that are due first.
fn earliest(shots: &OneShots, count: u64) -> Result<Vec<i64>, Failure> {
    let mut rows: Vec<_> = (0..shots.count).map(|index| (shots.due(index), index as i64)).collect();
    rows.sort_unstable();
    rows.truncate(usize::try_from(count)?);
    Ok(rows.into_iter().map(|(_, id)| id).collect())
}
