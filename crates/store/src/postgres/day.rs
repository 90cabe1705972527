//! The tables of days: made when a day is first needed or a little ahead, and dropped whole.
//!
//! A day further ahead than [`AHEAD`] has no tables for runs and closes. Its runs lie together with those of all other such days
//! until it comes near: else a thousand reminders for the next ten years would cost tens of thousands of tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use calendar::Timestamp;
use punctual_core::model::RunId;
use tokio_postgres::error::SqlState;

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, run_code};
use super::line::Line;
use super::run_row::BRING_NEAR;
use super::trouble::Trouble;

/// How many days ahead a day has tables of its own.
pub(super) const AHEAD: u32 = 60;

/// How many days that are not needed yet are made in one go, so that no upkeep takes long.
const AT_ONCE: usize = 2;

/// The lock of transactions that make, move or drop days.
const DAYS_LOCK: i64 = 0x7075_6e63_6461_7901;

/// The lock of transactions that write a run into the far table (shared) or move runs out of it (exclusive).
const FAR_LOCK: i64 = 0x7075_6e63_6461_7902;

/// The tables that each day has, with the column that carries the day.
pub(super) const TABLES: [(&str, &str); 8] = [
    ("runs", "id"),
    ("closes", "run"),
    ("attempts", "run"),
    ("sends", "run"),
    ("parts", "run"),
    ("joins", "run"),
    ("logs", "run"),
    ("kills", "run"),
];

/// Those that a far day has none of.
const NEAR_ONLY: usize = 2;

/// Which days are known to have tables. A day that was dropped meanwhile is found out by the first transaction that writes there.
#[derive(Default)]
pub(super) struct Days {
    near: Mutex<BTreeSet<u32>>,
    /// Far days that have tables for all but runs and closes.
    beside: Mutex<BTreeSet<u32>>,
}

/// Where the runs of days go.
pub(super) type Places = BTreeMap<u32, bool>;

impl Days {
    fn near(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.near.lock().expect("no code panics while it holds this lock")
    }

    fn beside(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.beside.lock().expect("no code panics while it holds this lock")
    }

    pub(super) fn forget(&self) {
        self.near().clear();
        self.beside().clear();
    }
}

impl Postgres {
    /// Makes room for runs of these days; for each, whether its runs lie in the far table. Not within a transaction.
    pub(super) async fn ensure(
        &self,
        line: &Line<'_>,
        days: impl IntoIterator<Item = u32>,
    ) -> Result<Places, Trouble> {
        let days: BTreeSet<u32> = days.into_iter().collect();
        let missing: Vec<u32> = {
            let near = self.days.near();
            days.iter().copied().filter(|day| !near.contains(day)).collect()
        };
        let mut places: Places = days.iter().map(|day| (*day, false)).collect();
        if missing.is_empty() {
            return Ok(places);
        }
        let today = self.today(line).await?;
        for day in missing {
            if day > today.saturating_add(AHEAD) {
                places.insert(day, true);
            } else {
                make(line, day, 0).await?;
                self.days.near().insert(day);
            }
        }
        Ok(places)
    }

    /// Refuses if one of these days may lack the tables beside those of runs and closes.
    pub(super) fn check_beside(&self, days: impl IntoIterator<Item = u32>) -> Result<(), Trouble> {
        let (near, beside) = (self.days.near(), self.days.beside());
        let missing: BTreeSet<u32> =
            days.into_iter().filter(|day| !near.contains(day) && !beside.contains(day)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Trouble::Lacks(missing)) }
    }

    /// Makes everything but the tables of runs and closes of these days.
    pub(super) async fn ensure_beside(&self, line: &Line<'_>, days: &BTreeSet<u32>) -> Result<(), Trouble> {
        for day in days {
            make(line, *day, NEAR_ONLY).await?;
            self.days.beside().insert(*day);
        }
        Ok(())
    }

    async fn today(&self, line: &Line<'_>) -> Result<u32, Trouble> {
        if let Some(clock) = &self.clock {
            return Ok(RunId::day_of(clock()));
        }
        let now = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        let rows = line.ask(Ask::new(now)).await?;
        Ok(RunId::day_of(rows[0].instant(0)?))
    }

    /// Remembers which days have tables.
    pub(super) async fn learn_days(&self, line: &Line<'_>) -> Result<BTreeSet<u32>, Trouble> {
        let ask = "select inhrelid::regclass::text from pg_inherits where inhparent = 'runs'::regclass";
        let mut there = BTreeSet::new();
        for row in &line.ask(Ask::new(ask)).await? {
            let name = row.string(0)?;
            there.extend(name.rsplit('_').next().and_then(|day| day.parse::<u32>().ok()));
        }
        self.days.near().clone_from(&there);
        Ok(there)
    }

    /// Makes some of the days ahead, and moves what lies far to where it belongs.
    pub(super) async fn tend_days(&self, line: &Line<'_>) -> Result<(), Trouble> {
        let today = self.today(line).await?;
        let there = self.learn_days(line).await?;
        let last = today.saturating_add(AHEAD).min(RunId::DAY_MAX);
        let ahead = (today..=last).filter(|day| !there.contains(day)).take(AT_ONCE);
        for day in ahead.collect::<Vec<u32>>() {
            make(line, day, 0).await?;
        }
        // A day further, so that it is there before its runs may be written near.
        let end = run_code(RunId::new(last, 0)).saturating_add(RunId::PER_DAY as i64);
        let far =
            line.ask(Ask::new("select distinct id >> 34 from runs_far where id < $1").with(end)).await?;
        for row in &far {
            let day = row.number(0)? as u32;
            make(line, day, 0).await?;
        }
        if !far.is_empty() {
            bring_near(line, end).await?;
        }
        Ok(())
    }
}

/// Takes the shared lock of writers to the far table: until the transaction ends, no day comes near.
pub(super) fn hold_far(flight: &mut Pipeline) {
    flight.add(Ask::new("select pg_advisory_xact_lock_shared($1)").with(FAR_LOCK));
}

/// Which of these days have tables of their own by now.
pub(super) fn come_near(days: &[u32]) -> Ask {
    let names = days.iter().map(|day| format!("runs_{day}")).collect::<Vec<String>>();
    Ask::new("select 1 from unnest($1) as name where to_regclass(name) is not null").with(names)
}

async fn make(line: &Line<'_>, day: u32, first: usize) -> Result<(), Trouble> {
    let names: Vec<String> = TABLES[first..].iter().map(|(table, _)| format!("{table}_{day}")).collect();
    let mut flight = Pipeline::begin();
    flight.add(Ask::new("select pg_advisory_xact_lock($1)").with(DAYS_LOCK));
    let there = flight.add(
        Ask::new(
            "select c.relname::text
             from pg_class c
             join pg_inherits i on i.inhrelid = c.oid
             where c.relname = any($1) and pg_table_is_visible(c.oid)",
        )
        .with(names),
    );
    let mut landed = line.fly(flight).await?;
    let mut names = BTreeSet::new();
    for row in landed.take(there) {
        names.insert(row.string(0)?);
    }
    let mut sql = String::new();
    let (low, high) = bounds(day);
    for (table, _) in &TABLES[first..] {
        let name = format!("{table}_{day}");
        if names.contains(&name) {
            continue;
        }
        // Made beside its parent and then attached: that does not wait for readers and writers of the parent.
        sql += &format!("create table if not exists {name} (like {table} including all);\n");
        if *table == "runs" {
            // Only what a schedule names is identified by (fire time, job); one-shots stay out of that index.
            sql += &format!(
                "create unique index if not exists {name}_named on {name} (fire_time, job)
                 where origin in (0, 3) and decided <> 4;\n"
            );
        }
        sql += &format!("alter table {table} attach partition {name} for values from ({low}) to ({high});\n");
    }
    line.run(&format!("{sql} commit")).await
}

/// Moves runs below `end` out of the far table, with their ends, ids unchanged.
async fn bring_near(line: &Line<'_>, end: i64) -> Result<(), Trouble> {
    let mut flight = Pipeline::begin();
    flight.add(Ask::new("select pg_advisory_xact_lock($1)").with(FAR_LOCK));
    flight.add(Ask::new(BRING_NEAR).with(end));
    flight.add(
        Ask::new("with moved as (delete from closes_far where run < $1 returning *) insert into closes select * from moved")
            .with(end),
    );
    flight.commit();
    line.fly(flight).await.map(drop)
}

/// The first id of a day, and the first after it.
pub(super) fn bounds(day: u32) -> (i64, i64) {
    let low = run_code(RunId::new(day, 0));
    (low, low.saturating_add(RunId::PER_DAY as i64))
}

/// The start of a day after which nothing of it is left to come.
pub(super) fn is_over(day: u32, before: Timestamp) -> bool {
    RunId::day_start(day.saturating_add(1)) <= before
}

/// Drops the emptied tables of a day. Detached first, so that no reader or writer of other days has to wait; a table
/// that a reader still looks into stays until the next time.
pub(super) async fn remove(line: &Line<'_>, day: u32, is_concurrent: bool) -> Result<(), Trouble> {
    for (table, _) in TABLES {
        let name = format!("{table}_{day}");
        match detach(line, table, &name, is_concurrent).await {
            Err(trouble) if trouble.has_code(&SqlState::LOCK_NOT_AVAILABLE) => return Err(trouble),
            other => other?,
        }
        let mut flight = Pipeline::begin();
        flight.add(Ask::new("select pg_advisory_xact_lock($1)").with(DAYS_LOCK));
        // Not if another connection has begun the day anew meanwhile.
        let is_gone = "select 1 where to_regclass($1) is null or exists (select 1 from pg_inherits where inhrelid = to_regclass($1))";
        let is_gone = flight.add(Ask::new(is_gone).with(name.clone()));
        let mut landed = line.fly(flight).await?;
        if !landed.take(is_gone).is_empty() {
            line.run("commit").await?;
            continue;
        }
        let rows = line.ask(Ask::new(format!("select 1 from {name} limit 1"))).await?;
        let (low, high) = bounds(day);
        let then = match rows.is_empty() {
            true => format!("drop table {name}"),
            false => {
                format!("alter table {table} attach partition {name} for values from ({low}) to ({high})")
            }
        };
        line.run(&format!("{then}; commit")).await?;
    }
    Ok(())
}

async fn detach(line: &Line<'_>, table: &str, name: &str, is_concurrent: bool) -> Result<(), Trouble> {
    // Without a pending detach before version 14, which has no such column.
    let pending = if is_concurrent { "inhdetachpending" } else { "false" };
    let ask = Ask::new(format!("select {pending} from pg_inherits where inhrelid = to_regclass($1)"));
    let rows = line.ask(ask.with(name.to_owned())).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    if !is_concurrent {
        let plain = format!("alter table {table} detach partition {name}");
        return line.run(&format!("begin; set local lock_timeout = 500; {plain}; commit")).await;
    }
    let how = if row.flag(0)? { "finalize" } else { "concurrently" };
    line.run("set lock_timeout = 2000").await?;
    line.run_long(&format!("alter table {table} detach partition {name} {how}")).await?;
    line.run("reset lock_timeout").await
}
