//! Jobs that are stored and never due: rows that the database copies itself, to measure the cost of stored jobs.
//!
//! They are copies of one job that the store wrote, with fire times that lie a month and more ahead.

use calendar::Timestamp;
use rusqlite::{Connection, params};

use crate::BenchError;
use crate::bare::{mariadb, postgres};
use crate::database::{DatabaseKind, Home};

/// The first number of a filler; jobs before it were created through the store.
pub(crate) const FIRST: u64 = 1_000_000;

/// Milliseconds between the fire times of two fillers.
const APART: u64 = 1_000;

/// Adds `count` copies of the first job, none of them due before `from`.
pub(crate) async fn fill(home: &Home, count: u64, from: Timestamp) -> Result<(), BenchError> {
    if count == 0 {
        return Ok(());
    }
    let (last, from) = (FIRST + count - 1, from.as_millis());
    match home.kind {
        DatabaseKind::Sqlite => fill_sqlite(home, last, from),
        DatabaseKind::Postgres => {
            postgres::say(
                &home.address,
                &format!(
                    "insert into jobs (id, version, changed_at, state, reason, app, name, definition)
                     select n, version, changed_at, state, reason, app, 'filler-' || n, definition
                     from jobs, generate_series({FIRST}, {last}) as n
                     where id = (select min(id) from jobs);
                     insert into clocks (job, shard, next_fire, version, enabled, decided, reserved)
                     select n, n % 64, {from} + (n - {FIRST}) * {APART}, version, true, decided, reserved
                     from clocks, generate_series({FIRST}, {last}) as n
                     where job = (select min(id) from jobs)"
                ),
            )
            .await?;
            postgres::say(&home.address, "vacuum analyze jobs, clocks").await
        }
        DatabaseKind::MariaDb => {
            mariadb::say(
                &home.address,
                &format!(
                    "insert into jobs (id, version, changed_at, state, reason, app, name, definition, app_key, name_key)
                     select seq, version, changed_at, state, reason, app, concat('filler-', seq), definition, app_key,
                            unhex(sha2(concat('filler-', seq), 256))
                     from jobs, seq_{FIRST}_to_{last}
                     where id = (select min(id) from jobs)"
                ),
            )
            .await?;
            mariadb::say(
                &home.address,
                &format!(
                    "insert into clocks (job, shard, next_fire, version, enabled, decided_to, reserved_to, due_at)
                     select seq, seq % 64, {from} + (seq - {FIRST}) * {APART}, version, 1, decided_to, reserved_to,
                            {from} + (seq - {FIRST}) * {APART}
                     from clocks, seq_{FIRST}_to_{last}
                     where job = (select min(id) from jobs)"
                ),
            )
            .await
        }
    }
}

fn fill_sqlite(home: &Home, last: u64, from: i64) -> Result<(), BenchError> {
    let conn = Connection::open(&home.file)?;
    conn.execute_batch("begin immediate")?;
    conn.execute(
        "with recursive numbers (n) as (values (?1) union all select n + 1 from numbers where n < ?2)
         insert into jobs (id, version, changed_at, state, reason, app, name, definition)
         select n, version, changed_at, state, reason, app, 'filler-' || n, definition
         from numbers, jobs
         where id = (select min(id) from jobs)",
        params![FIRST as i64, last as i64],
    )?;
    conn.execute(
        "with recursive numbers (n) as (values (?1) union all select n + 1 from numbers where n < ?2)
         insert into clocks (job, shard, next_fire, version, enabled, decided_to, reserved_to)
         select n, n % 64, ?3 + (n - ?1) * ?4, version, 1, decided_to, reserved_to
         from numbers, clocks
         where job = (select min(id) from jobs)",
        params![FIRST as i64, last as i64, from, APART as i64],
    )?;
    conn.execute_batch("commit")?;
    Ok(())
}
