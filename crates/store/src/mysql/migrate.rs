//! The schema: which migrations there are, which were applied, and whether this program may work with what is there.
//!
//! MySQL ends a transaction with every change of a table, so a migration is a row of statements that can each be repeated, and it
//! is written down once all of them went through.

mod overrides;

use std::collections::BTreeMap;

use punctual_core::model::{RunId, Text};
use punctual_node::ports::StoreError;

use super::ask::DATABASE_NOW;
use super::day::{FAR, NEAR_DAYS, Table, bounds};
use super::link::{Address, Line, refusal};
use super::server::Server;
use super::text::{Quoted, Script, list};
use super::trouble::Trouble;
use crate::migrations::{MYSQL as MIGRATIONS, Migration, newest};
use crate::sql::Migrated;

/// The schema that this program knows best.
pub(super) const NEWEST: u32 = newest(MIGRATIONS);

/// Names that no other application's tables should have where ours are to be.
const OURS: [&str; 6] = ["meta", "nodes", "shards", "jobs", "clocks", "waiting"];

/// A migration that was applied.
struct Applied {
    checksum: u64,
    min_reader: u32,
}

/// Brings the schema up to date.
pub(super) async fn migrate(line: &mut Line, now: Option<i64>) -> Result<Migrated, StoreError> {
    let locked = line.say("select get_lock(concat('punctual schema ', left(sha2(database(), 256), 30)), 60)");
    if locked.await.map_err(refusal)?.number().map_err(refusal)? != Some(1) {
        return Err(StoreError::Unknown(
            "another node is migrating the database, and does not come to an end".into(),
        ));
    }
    let migrated = migrate_locked(line, now).await;
    let unlocked =
        line.say("do release_lock(concat('punctual schema ', left(sha2(database(), 256), 30)))").await;
    unlocked.map_err(refusal)?;
    migrated
}

async fn migrate_locked(line: &mut Line, now: Option<i64>) -> Result<Migrated, StoreError> {
    let applied = applied(line).await?;
    check(&applied)?;
    let from = applied.keys().last().copied().unwrap_or(0);
    let mut migrated = Migrated { from, to: from.max(NEWEST), applied: Vec::new() };
    for migration in MIGRATIONS.iter().filter(|migration| !applied.contains_key(&migration.version)) {
        apply(line, migration, now).await.map_err(refusal)?;
        migrated.applied.push(Text::from(migration.name));
    }
    Ok(migrated)
}

async fn apply(line: &mut Line, migration: &Migration, now: Option<i64>) -> Result<(), Trouble> {
    // Made first: from then on what is there is ours, even if this goes no further.
    line.say(
        "create table if not exists schema_version (
             version int unsigned not null primary key,
             name varchar(100) character set ascii collate ascii_bin not null,
             checksum bigint unsigned not null,
             min_reader int unsigned not null,
             applied_at bigint not null
         ) engine=InnoDB",
    )
    .await?;
    for statement in statements(migration.sql) {
        line.say(statement).await?;
    }
    if migration.version == 1 {
        begin_days(line, now).await?;
    }
    for column in migration.columns_of_runs {
        add_to_runs(line, column).await?;
    }
    match migration.name {
        "0005_jobs_runs" => index_jobs(line).await?,
        "0006_overrides" => overrides::migrate(line).await?,
        _ => {}
    }
    line.say(format!(
        "insert into schema_version (version, name, checksum, min_reader, applied_at)
         values ({}, {}, {}, {}, {DATABASE_NOW})",
        migration.version,
        Quoted(migration.name),
        migration.checksum(),
        if migration.is_breaking() { migration.version } else { 1 },
    ))
    .await?;
    Ok(())
}

/// The tables of days far ahead, and from which day on they are used.
async fn begin_days(line: &mut Line, now: Option<i64>) -> Result<(), Trouble> {
    let now = match now {
        Some(now) => now,
        None => line.say(format!("select {DATABASE_NOW}")).await?.number()?.unwrap_or_default(),
    };
    let far_from = RunId::day_of(calendar::Timestamp::from_millis(now)) + NEAR_DAYS + 1;
    let (low, high) = bounds(FAR);
    let mut script = Script::of(Table::Runs.create(FAR));
    script.push(Table::Closes.create(FAR));
    script.push(format!(
        "insert into days (day, tables, low, high)
         values ({FAR}, {}, {low}, {high})
         on duplicate key update day = day",
        Table::Runs as u32 | Table::Closes as u32
    ));
    script.push(format!(
        "insert into meta (name, value) values ('far_from', {far_from}) on duplicate key update value = value"
    ));
    line.ask(script).await?;
    Ok(())
}

/// Adds a column to the runs of the days that are there, as far as they lack it; those that are made later have it.
async fn add_to_runs(line: &mut Line, column: &str) -> Result<(), Trouble> {
    let name = column.split(' ').next().unwrap_or(column);
    let said = line
        .say(format!(
            "select t.table_name
             from information_schema.tables t
             left join information_schema.columns c
                 on c.table_schema = t.table_schema and c.table_name = t.table_name and c.column_name = '{name}'
             where t.table_schema = database() and t.table_name regexp '^runs_([0-9]+|far)$' and c.column_name is null"
        ))
        .await?;
    for row in &said.rows {
        line.say(format!("alter table {} add column {column}", row.string(0)?)).await?;
    }
    Ok(())
}

/// Lets the runs of the days that are there be found by their job; those that are made later have that index.
async fn index_jobs(line: &mut Line) -> Result<(), Trouble> {
    let said = line
        .say(
            "select t.table_name
             from information_schema.tables t
             left join information_schema.statistics s
                 on s.table_schema = t.table_schema and s.table_name = t.table_name
                     and s.index_name = 'by_job' and s.seq_in_index = 1
             where t.table_schema = database() and t.table_name regexp '^runs_([0-9]+|far)$' and s.index_name is null",
        )
        .await?;
    for row in &said.rows {
        line.say(format!("alter table {} add key by_job (job, id)", row.string(0)?)).await?;
    }
    Ok(())
}

/// What was applied, by version. Tables with our names that are not ours are refused.
async fn applied(line: &mut Line) -> Result<BTreeMap<u32, Applied>, StoreError> {
    let mut script = Script::of(
        "select 1
         from information_schema.tables
         where table_schema = database() and table_name = 'schema_version'",
    );
    script.push(format!(
        "select table_name
         from information_schema.tables
         where table_schema = database() and table_name in ({})
         order by table_name
         limit 1",
        list(OURS.iter().map(|name| Quoted(name)))
    ));
    let said = line.ask(script).await.map_err(refusal)?;
    if said[0].first().is_none() {
        return match said[1].first() {
            None => Ok(BTreeMap::new()),
            Some(row) => Err(foreign(&row.string(0).map_err(refusal)?)),
        };
    }
    let said = line.say("select version, checksum, min_reader from schema_version order by version").await;
    let said = said.map_err(|_| foreign("schema_version"))?;
    let row = |row: &super::read::Record| {
        let applied = Applied { checksum: row.uint(1)?, min_reader: row.number(2)? };
        Ok::<_, Trouble>((row.number(0)?, applied))
    };
    said.rows.iter().map(row).collect::<Result<_, _>>().map_err(refusal)
}

fn foreign(table: &str) -> StoreError {
    let said = format!(
        "the database has a table {table} that is not ours; give Punctual a database of its own, and name it in the URL"
    );
    StoreError::Conflict(said.into())
}

/// What is said of a schema that this program must not touch.
pub(super) fn too_new(schema: u64) -> StoreError {
    let said = format!(
        "the database was migrated by a newer Punctual (schema {schema}, this one knows {NEWEST}): start the newer version"
    );
    StoreError::Conflict(said.into())
}

/// Refuses a schema that this program must not work with.
fn check(applied: &BTreeMap<u32, Applied>) -> Result<(), StoreError> {
    let min_reader = applied.values().map(|applied| applied.min_reader).max().unwrap_or(0);
    if min_reader > NEWEST {
        return Err(too_new(u64::from(applied.keys().last().copied().unwrap_or(0))));
    }
    for migration in MIGRATIONS {
        let there = applied.get(&migration.version);
        if there.is_some_and(|there| there.checksum != migration.checksum()) {
            let said = format!("the migration {} in the database is another than ours", migration.name);
            return Err(StoreError::Conflict(said.into()));
        }
    }
    Ok(())
}

/// Refuses a database whose schema is older than this program needs.
pub(super) async fn check_current(line: &mut Line) -> Result<(), StoreError> {
    let applied = applied(line).await?;
    check(&applied)?;
    match applied.keys().last().copied().unwrap_or(0) {
        there if there >= NEWEST => Ok(()),
        there => {
            let said =
                format!("the database has schema {there}, and {NEWEST} is needed: run `punctual migrate`");
            Err(StoreError::Conflict(said.into()))
        }
    }
}

/// The schema's version, if there is a schema.
pub(super) async fn version(line: &mut Line) -> Result<Option<u32>, StoreError> {
    Ok(applied(line).await?.keys().last().copied())
}

/// The number of shards, if it was decided.
pub(super) async fn shards(line: &mut Line) -> Result<Option<u16>, StoreError> {
    let said = line.say("select value from meta where name = 'shards'").await.map_err(refusal)?;
    Ok(said.number().map_err(refusal)?.and_then(|shards| u16::try_from(shards).ok()))
}

/// Decides the number of shards when the database is new, and holds everybody to it afterwards.
pub(super) async fn fix_shards(line: &mut Line, shards: u16) -> Result<(), StoreError> {
    let there = line.say("select value from meta where name = 'shards'").await.map_err(refusal)?;
    let there = match there.number().map_err(refusal)? {
        Some(there) => there,
        None => {
            let mut script = Script::transaction();
            let row = |shard| format!("({shard}, 0, {}, 0)", i64::MIN);
            script.push(format!(
                "insert into meta (name, value) values ('shards', {shards}) on duplicate key update value = value"
            ));
            script.push_rows(
                "insert into shards (shard, epoch, checkpoint_due, checkpoint_run) values ",
                (0..shards).map(row),
                " on duplicate key update shard = shard",
            );
            // Of two that came together with other numbers, the one that comes second finds the first's.
            script.push("delete from shards where shard >= (select value from meta where name = 'shards')");
            let value = script.push("select value from meta where name = 'shards'");
            script.push("commit");
            line.ask(script).await.map_err(refusal)?[value].number().map_err(refusal)?.unwrap_or_default()
        }
    };
    if there == i64::from(shards) {
        return Ok(());
    }
    let said = format!(
        "the database has {there} shards, not {shards}: the number is decided when it is made, for good"
    );
    Err(StoreError::Conflict(said.into()))
}

/// Connects to a server that can be worked with.
pub(super) async fn connect(address: &Address) -> Result<(Line, Server), StoreError> {
    let mut line = Line::connect(address).await.map_err(|trouble| match trouble {
        Trouble::ReadOnly(said) => {
            StoreError::Conflict(format!("{said}: name the primary in the URL").into())
        }
        trouble => refusal(trouble),
    })?;
    let server = Server::ask(&mut line).await.map_err(refusal)?;
    server.check()?;
    Ok((line, server))
}

/// The statements of a migration, without its comments.
fn statements(sql: &str) -> impl Iterator<Item = String> {
    let lines: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    let text = lines.join("\n");
    let statements: Vec<String> =
        text.split(";\n").map(|one| one.trim().trim_end_matches(';').to_owned()).collect();
    statements.into_iter().filter(|one| !one.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_falls_into_its_statements() {
        let found: Vec<String> =
            statements("-- why\ncreate table a (\n  id int\n);\n\n-- more\ninsert into a\nvalues (1);\n")
                .collect();
        assert_eq!(found, ["create table a (\n  id int\n)", "insert into a\nvalues (1)"]);
    }
}
