//! MariaDB without Punctual: multi-row statements.

use std::fmt::Write;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

use crate::BenchError;
use crate::clock::Watch;
use crate::database::ServerCounts;
use crate::rows::OneShots;

/// A database with tables like ours, but one for all days.
pub(crate) struct BareMariaDb {
    conn: Conn,
}

async fn connect(url: &str) -> Result<Conn, BenchError> {
    // The driver knows this scheme only.
    let url = url.replacen("mariadb://", "mysql://", 1);
    Ok(Conn::new(Opts::from_url(&url)?).await?)
}

/// Executes one statement.
pub(crate) async fn say(url: &str, statement: &str) -> Result<(), BenchError> {
    let mut conn = connect(url).await?;
    conn.query_drop(statement).await?;
    conn.disconnect().await?;
    Ok(())
}

/// The server's counters, for all its databases.
pub(crate) async fn counts(url: &str) -> Result<ServerCounts, BenchError> {
    let mut conn = connect(url).await?;
    let status: Vec<(String, String)> = conn.query("show global status").await?;
    conn.disconnect().await?;
    let sum = |is_meant: &dyn Fn(&str) -> bool| {
        let counted = status.iter().filter(|(name, _)| is_meant(name));
        Some(counted.filter_map(|(_, value)| value.parse::<f64>().ok()).sum())
    };
    Ok(ServerCounts {
        statements: sum(&|name| name == "Questions"),
        rows_read: sum(&|name| name.starts_with("Handler_read_")),
        commits: sum(&|name| name == "Handler_commit"),
        log_bytes: sum(&|name| name == "Innodb_os_log_written"),
    })
}

impl BareMariaDb {
    pub(crate) async fn open(url: &str) -> Result<BareMariaDb, BenchError> {
        let mut conn = connect(url).await?;
        for statement in TABLES {
            conn.query_drop(*statement).await?;
        }
        Ok(BareMariaDb { conn })
    }

    pub(crate) async fn insert(
        &mut self,
        shots: &OneShots,
        batch: u64,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let payload = shots.payload.as_deref().map_or("null".to_owned(), |text| format!("'{text}'"));
        let started = watch.elapsed();
        let mut from = 0;
        while from < shots.count {
            let until = shots.count.min(from + batch);
            let mut statement = String::from(INSERT_RUN);
            for index in from..until {
                let (due, shard, comma) = (shots.due(index).as_millis(), index % 64, comma(index, from));
                write!(
                    statement,
                    "{comma}({index},{},{shard},{due},{due},2,0,5,null,null,null,{payload})",
                    shots.job.0
                )?;
            }
            self.conn.query_drop(statement).await?;
            from = until;
        }
        Ok(watch.elapsed() - started)
    }

    pub(crate) async fn load_and_close(
        &mut self,
        ids: &[i64],
        batch: usize,
        watch: &Watch,
    ) -> Result<Duration, BenchError> {
        let started = watch.elapsed();
        for ids in ids.chunks(batch) {
            let list = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            let select = format!(
                "select id, job, shard, fire_time, due, origin, decided, priority, payload is not null
                 from runs
                 where id in ({list})"
            );
            let rows: Vec<mysql_async::Row> = self.conn.query(select).await?;
            let mut insert = String::from(
                "insert into closes (run, outcome, closed_at, attempt, token, started_at, ended_at, attempt_outcome,
                                     possible_duplicate, reason, executor, message) values ",
            );
            for (number, row) in rows.iter().enumerate() {
                let (id, due): (i64, i64) =
                    row.get(0).zip(row.get(4)).ok_or("a row without its number or due time")?;
                let comma = comma(number as u64, 0);
                write!(insert, "{comma}({id},0,{due},1,1048576,{due},{due},0,0,'','bench','')")?;
            }
            self.conn.query_drop(insert).await?;
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
        let slots = stored / due;
        self.conn
            .query_drop(format!(
                "insert into clocks (job, shard, next_fire, version, enabled)
                 select seq, seq % 64, seq % {slots} * 1000, 1, 1 from seq_0_to_{}",
                stored - 1
            ))
            .await?;
        let (mut took, mut id) = (Vec::new(), 0_u64);
        for tick in 0..ticks {
            let started = watch.elapsed();
            let at = tick * 1_000;
            let (mut jobs, mut insert) = (String::new(), String::from(INSERT_RUN));
            for (number, job) in (tick % slots..stored).step_by(usize::try_from(slots)?).enumerate() {
                let comma = comma(number as u64, 0);
                write!(jobs, "{comma}{job}")?;
                write!(insert, "{comma}({id},{job},{},{at},{at},0,0,5,null,{at},null,null)", job % 64)?;
                id += 1;
            }
            let next = at + slots * 1_000;
            self.conn.query_drop("begin").await?;
            self.conn
                .query_drop(format!(
                    "update clocks
                     set next_fire = {next}
                     where job in ({jobs}) and next_fire = {at} and version = 1 and enabled = 1"
                ))
                .await?;
            self.conn.query_drop(insert).await?;
            self.conn.query_drop("commit").await?;
            took.push(watch.elapsed() - started);
        }
        Ok(took)
    }
}

fn comma(index: u64, first: u64) -> &'static str {
    if index == first { "" } else { "," }
}

const INSERT_RUN: &str = "insert into runs (id, job, shard, fire_time, due, origin, decided, priority, `of`, named_at, \
    key_text, payload) values ";

const TABLES: &[&str] = &[
    "create table runs (
         id bigint unsigned not null primary key,
         job int unsigned not null,
         shard smallint unsigned not null,
         fire_time bigint not null,
         due bigint not null,
         origin tinyint unsigned not null,
         decided tinyint unsigned not null,
         priority tinyint unsigned not null,
         `of` bigint unsigned,
         named_at bigint,
         key_text longtext,
         payload longtext,
         unique key named (named_at, job),
         key by_due (due, id, shard)
     ) engine=InnoDB",
    "create table closes (
         run bigint unsigned not null primary key,
         outcome tinyint unsigned not null,
         closed_at bigint not null,
         range_until bigint,
         range_count bigint unsigned,
         unsent int unsigned,
         attempt int unsigned,
         token bigint unsigned,
         started_at bigint,
         ended_at bigint,
         attempt_outcome tinyint unsigned,
         possible_duplicate tinyint unsigned,
         reason longtext not null,
         executor longtext,
         message longtext
     ) engine=InnoDB",
    "create table clocks (
         job int unsigned not null primary key,
         shard smallint unsigned not null,
         next_fire bigint,
         version bigint unsigned not null,
         enabled tinyint unsigned not null
     ) engine=InnoDB",
];
