//! The schema: which migrations there are, which of them a database has, and whether this program may work with it.
//!
//! Forward only, each in a transaction of its own, all under one lock, each with a sum of its text. A migration says whether
//! programs from before it may go on with the database (`-- additive`) or not (`-- breaking`), so that nodes can be
//! replaced one by one.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_node::ports::StoreError;

use super::ask::{Ask, Columns, Pipeline, text_code};
use super::line::Line;
use super::trouble::Trouble;
use crate::migrations::{Migration, POSTGRES as MIGRATIONS, newest};
use crate::sql::Migrated;

/// The newest schema that this program knows.
pub(super) const NEWEST: u32 = newest(MIGRATIONS);

/// Some of our tables: a database that has them but no schema version belongs to another application.
const OURS: [&str; 6] = ["meta", "jobs", "clocks", "runs", "shards", "nodes"];

/// How long another node's migration is waited for.
const OTHERS_MIGRATE_FOR: Duration = Duration::from_secs(60);

const LOCK: i64 = 0x7075_6e63_6d69_6701;

/// What a database says about its schema.
pub(super) struct Schema {
    /// 0 if there is none.
    pub(super) version: u32,
    /// The oldest program that may work with it.
    min_reader: u32,
    /// The sums of the migrations it has.
    sums: Vec<(u32, String)>,
}

/// The sum of a migration, as it is kept.
fn sum_of(migration: &Migration) -> String {
    format!("{:016x}", migration.checksum())
}

/// Reads the schema's version, within a transaction or without.
pub(super) async fn schema(line: &Line<'_>) -> Result<Schema, Trouble> {
    let ask = Ask::new(
        "select to_regclass('schema_version') is not null,
                (select string_agg(name, ', ') from unnest($1) as name where to_regclass(name) is not null),
                (select count(*) from pg_attribute where attrelid = to_regclass('schema_version')
                     and attname in ('version', 'checksum', 'min_reader'))",
    );
    let rows = line.ask(ask.with(OURS.map(str::to_owned).to_vec())).await?;
    let (is_there, ours, columns) = (rows[0].flag(0)?, rows[0].maybe_string(1)?, rows[0].number(2)?);
    if !is_there {
        return match ours {
            None => Ok(Schema { version: 0, min_reader: 0, sums: Vec::new() }),
            Some(tables) => Err(refused(format!(
                "the database has tables that are not ours under our names ({tables}): give Punctual a database or schema of its own"
            ))),
        };
    }
    if columns < 3 {
        return Err(refused(
            "the database has a table schema_version that is not ours: give Punctual a database or schema of its own",
        ));
    }
    let rows = line
        .ask(Ask::new(
            "select version::bigint, min_reader::bigint, checksum from schema_version order by version",
        ))
        .await?;
    let mut schema = Schema { version: 0, min_reader: 0, sums: Vec::new() };
    for row in &rows {
        let version = row.number(0)? as u32;
        schema.version = version;
        schema.min_reader = schema.min_reader.max(row.number(1)? as u32);
        schema.sums.push((version, row.string(2)?));
    }
    Ok(schema)
}

impl Schema {
    /// Refuses a schema that this program cannot work with.
    pub(super) fn check(&self) -> Result<(), Trouble> {
        if self.min_reader > NEWEST {
            return Err(refused(format!(
                "the database has schema {}, which needs a newer Punctual (this one knows up to {NEWEST}): upgrade this node",
                self.version
            )));
        }
        for migration in MIGRATIONS {
            let sum = self.sums.iter().find(|(version, _)| *version == migration.version);
            if sum.is_some_and(|(_, sum)| *sum != sum_of(migration)) {
                return Err(refused(format!(
                    "migration {} of the database is not the one that this Punctual has: it comes from another build",
                    migration.name
                )));
            }
        }
        Ok(())
    }

    /// Refuses a schema that has to be migrated first.
    pub(super) fn check_is_enough(&self) -> Result<(), Trouble> {
        self.check()?;
        match self.version {
            0 => Err(refused("the database has no schema yet: run `punctual migrate`")),
            version if version < NEWEST => Err(refused(format!(
                "the database has schema {version}, this Punctual needs {NEWEST}: run `punctual migrate`"
            ))),
            _ => Ok(()),
        }
    }
}

/// Brings the schema up to date; what was done.
pub(super) async fn migrate(line: &Line<'_>) -> Result<Migrated, Trouble> {
    let before = schema(line).await?;
    before.check()?;
    let mut migrated = Migrated { from: before.version, to: before.version, applied: Vec::new() };
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > before.version) {
        if apply(line, migration).await? {
            migrated.applied.push(Text::Borrowed(migration.name));
        }
        migrated.to = migration.version;
    }
    Ok(migrated)
}

/// Applies a migration, unless another node has by now.
async fn apply(line: &Line<'_>, migration: &Migration) -> Result<bool, Trouble> {
    let mut flight = Pipeline::new();
    flight.add(Ask::new("begin"));
    flight.add(Ask::new("select pg_advisory_xact_lock($1)").with(LOCK));
    line.fly_within(OTHERS_MIGRATE_FOR, flight).await.map_err(|trouble| match trouble {
        Trouble::Late => {
            StoreError::Unknown("another node is migrating the database, and does not come to an end".into())
                .into()
        }
        trouble => trouble,
    })?;
    let now = schema(line).await?;
    if now.version >= migration.version {
        line.run("commit").await?;
        return Ok(false);
    }
    if now.version == 0 {
        line.run(
            "create table if not exists schema_version (
                 version integer primary key,
                 name text not null,
                 checksum text not null,
                 min_reader integer not null,
                 applied_at timestamptz not null default clock_timestamp()
             )",
        )
        .await?;
    }
    line.run_long(migration.sql).await?;
    let min_reader = if migration.is_breaking() { migration.version } else { now.min_reader };
    let mut flight = Pipeline::new();
    flight.add(
        Ask::new("insert into schema_version (version, name, checksum, min_reader) values ($1, $2, $3, $4)")
            .with(i64::from(migration.version))
            .with(text_code(migration.name))
            .with(sum_of(migration))
            .with(i64::from(min_reader)),
    );
    flight.commit();
    line.fly(flight).await?;
    Ok(true)
}

pub(super) fn refused(said: impl Into<Text>) -> Trouble {
    StoreError::Conflict(said.into()).into()
}

/// The number of shards that a database was made with, if it was.
pub(super) async fn shards(line: &Line<'_>) -> Result<Option<u16>, Trouble> {
    let rows = line.ask(Ask::new("select value from meta where name = 'shards'")).await?;
    rows.first().map(|row| row.shard(0).map(|shard| shard.0)).transpose()
}

/// Fixes the number of shards when the database is made, and refuses a node that is configured with another number later.
pub(super) async fn fix_shards(line: &Line<'_>, wanted: u16) -> Result<(), Trouble> {
    let mut flight = Pipeline::begin();
    flight.add(
        Ask::new("insert into meta (name, value) values ('shards', $1) on conflict do nothing")
            .with(i64::from(wanted)),
    );
    flight.add(Ask::new(
        "insert into shards (shard, epoch, checkpoint_due, checkpoint_run)
         select shard, 0, -9223372036854775808, 0
         from meta, generate_series(0, value - 1) as shard
         where name = 'shards'
         on conflict do nothing",
    ));
    flight.commit();
    line.fly(flight).await?;
    match shards(line).await? {
        Some(there) if there == wanted => Ok(()),
        there => {
            let there = there.unwrap_or(0);
            Err(refused(format!(
                "the database was made with {there} shards, which cannot be changed; it was opened with {wanted}"
            )))
        }
    }
}
