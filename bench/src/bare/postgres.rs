//! PostgreSQL without Punctual: COPY, and statements that take whole columns.

use std::pin::pin;
use std::time::Duration;

use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

use crate::BenchError;
use crate::clock::{self, Watch};
use crate::database::ServerCounts;
use crate::rows::OneShots;

/// How long a backend may delay the publication of its counters.
const COUNTED_AFTER: Duration = Duration::from_millis(1_500);

/// A database with tables like ours, but not partitioned.
pub(crate) struct BarePostgres {
    client: Client,
}

/// Connects.
async fn connect(url: &str) -> Result<Client, BenchError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Executes one statement.
pub(crate) async fn say(url: &str, statement: &str) -> Result<(), BenchError> {
    Ok(connect(url).await?.batch_execute(statement).await?)
}

/// The server's counters for this database.
pub(crate) async fn counts(url: &str) -> Result<ServerCounts, BenchError> {
    clock::sleep(COUNTED_AFTER).await;
    let client = connect(url).await?;
    let said = "select sum(calls)::float8
                from pg_stat_statements
                where dbid = (select oid from pg_database where datname = current_database())";
    // The extension may be missing.
    let statements = client.query_one(said, &[]).await.ok().and_then(|row| row.get(0));
    let row = client
        .query_one(
            "select xact_commit::float8, tup_returned::float8,
                    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8
             from pg_stat_database
             where datname = current_database()",
            &[],
        )
        .await?;
    Ok(ServerCounts { statements, commits: row.get(0), rows_read: row.get(1), log_bytes: row.get(2) })
}

const RUN: &str = "id bigint primary key, job bigint not null, shard integer not null, fire_time bigint not null,
    due bigint not null, origin smallint not null, decided smallint not null, priority smallint not null, key text,
    of bigint, payload text";

impl BarePostgres {
    pub(crate) async fn open(url: &str) -> Result<BarePostgres, BenchError> {
        let client = connect(url).await?;
        let runs = |name: &str| {
            format!("create table {name} ({RUN}); create index {name}_due on {name} (shard, due, id);")
        };
        let rest = "create table closes (
                run bigint primary key, outcome smallint not null, reason text not null, closed_at bigint not null,
                range_until bigint, range_count bigint, unsent bigint, attempt bigint, token bigint, executor text,
                started_at bigint, ended_at bigint, attempt_outcome smallint, message text, possible_duplicate boolean);
            create table clocks (
                job bigint primary key, shard integer not null, next_fire bigint, version bigint not null,
                enabled boolean not null);";
        client.batch_execute(&format!("{}{}{rest}", runs("runs"), runs("rows"))).await?;
        Ok(BarePostgres { client })
    }

    /// Inserts by one binary COPY a batch.
    pub(crate) async fn copy(
        &self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let types = [
            Type::INT8,
            Type::INT8,
            Type::INT4,
            Type::INT8,
            Type::INT8,
            Type::INT2,
            Type::INT2,
            Type::INT2,
            Type::TEXT,
            Type::INT8,
            Type::TEXT,
        ];
        let started = watch.elapsed();
        let mut from = 0;
        while from < shots.count {
            let until = shots.count.min(from + batch);
            let sink = self.client.copy_in("copy runs from stdin (format binary)").await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for index in from..until {
                let row = Row::of(shots, index);
                let values: [&(dyn ToSql + Sync); 11] = [
                    &row.id,
                    &row.job,
                    &row.shard,
                    &row.due,
                    &row.due,
                    &2_i16,
                    &0_i16,
                    &5_i16,
                    &None::<&str>,
                    &None::<i64>,
                    &shots.payload.as_deref(),
                ];
                writer.as_mut().write(&values).await?;
            }
            writer.finish().await?;
            from = until;
        }
        Ok(watch.elapsed() - started)
    }

    /// Inserts by one prepared statement a batch, which takes whole columns.
    pub(crate) async fn insert(
        &self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let insert = self.client.prepare(&insert_into("rows")).await?;
        let started = watch.elapsed();
        let mut from = 0;
        while from < shots.count {
            let until = shots.count.min(from + batch);
            let rows: Vec<Row> = (from..until).map(|index| Row::of(shots, index)).collect();
            let payloads = vec![shots.payload.as_deref(); rows.len()];
            self.insert_rows(&insert, &rows, 2, &payloads).await?;
            from = until;
        }
        Ok(watch.elapsed() - started)
    }

    async fn insert_rows(
        &self,
        insert: &tokio_postgres::Statement,
        rows: &[Row],
        origin: i16,
        payloads: &[Option<&str>],
    ) -> Result<(), BenchError> {
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let jobs: Vec<i64> = rows.iter().map(|row| row.job).collect();
        let shards: Vec<i32> = rows.iter().map(|row| row.shard).collect();
        let dues: Vec<i64> = rows.iter().map(|row| row.due).collect();
        self.client.execute(insert, &[&ids, &jobs, &shards, &dues, &origin, &payloads]).await?;
        Ok(())
    }

    pub(crate) async fn load_and_close(
        &self,
        ids: &[i64],
        batch: usize,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let started = watch.elapsed();
        let select = self
            .client
            .prepare(
                "select id, job, shard, fire_time, due, origin, decided, priority, payload is not null
                 from runs
                 where id = any($1)",
            )
            .await?;
        let insert = self
            .client
            .prepare(
                "insert into closes (run, outcome, reason, closed_at, attempt, token, executor, started_at, ended_at,
                                     attempt_outcome, message, possible_duplicate)
                 select run, 0, '', due, 1, 1048576, 'bench', due, due, 0, '', false
                 from unnest($1::bigint[], $2::bigint[]) as n (run, due)",
            )
            .await?;
        for ids in ids.chunks(batch) {
            let rows = self.client.query(&select, &[&ids]).await?;
            let runs: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
            let dues: Vec<i64> = rows.iter().map(|row| row.get(4)).collect();
            self.client.execute(&insert, &[&runs, &dues]).await?;
        }
        Ok(watch.elapsed() - started)
    }

    pub(crate) async fn plan(
        &mut self,
        stored: u64,
        due: u64,
        ticks: u64,
        watch: &Watch,
    ) -> Result<Vec<Duration>, BenchError> {
        let slots = (stored / due) as i64;
        let fill = "insert into clocks
                    select job, job % 64, job % $2::bigint * 1000, 1, true
                    from generate_series(0::bigint, $1::bigint - 1) as n (job)";
        self.client.execute(fill, &[&(stored as i64), &slots]).await?;
        let insert = self.client.prepare(&insert_into("rows")).await?;
        let update = self
            .client
            .prepare(
                "update clocks
                 set next_fire = $3
                 where job = any($1) and next_fire = $2 and version = 1 and enabled",
            )
            .await?;
        let (mut took, mut id) = (Vec::new(), 0_i64);
        for tick in 0..ticks as i64 {
            let started = watch.elapsed();
            let at = tick * 1_000;
            let jobs: Vec<i64> = (tick % slots..stored as i64).step_by(usize::try_from(slots)?).collect();
            let rows: Vec<Row> = jobs
                .iter()
                .zip(id..)
                .map(|(job, id)| Row { id, job: *job, shard: (job % 64) as i32, due: at })
                .collect();
            id += rows.len() as i64;
            self.client.batch_execute("begin").await?;
            self.client.execute(&update, &[&jobs, &at, &(at + slots * 1_000)]).await?;
            self.insert_rows(&insert, &rows, 0, &vec![None; rows.len()]).await?;
            self.client.batch_execute("commit").await?;
            took.push(watch.elapsed() - started);
        }
        Ok(took)
    }
}

fn insert_into(table: &str) -> String {
    format!(
        "insert into {table} (id, job, shard, fire_time, due, origin, decided, priority, payload)
         select id, job, shard, due, due, $5::smallint, 0, 5, payload
         from unnest($1::bigint[], $2::bigint[], $3::integer[], $4::bigint[], $6::text[])
             as n (id, job, shard, due, payload)"
    )
}

/// The values that differ from row to row.
struct Row {
    id: i64,
    job: i64,
    shard: i32,
    due: i64,
}

impl Row {
    fn of(shots: &OneShots, index: u64) -> Row {
        let due = shots.due(index).as_millis();
        Row { id: index as i64, job: i64::from(shots.job.0), shard: (index % 64) as i32, due }
    }
}
