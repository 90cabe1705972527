//! Keeping house: days that are over, keys that have expired, and the tables of days to come.

use std::collections::BTreeSet;

use calendar::Timestamp;
use punctual_core::model::RunId;
use punctual_node::ports::{Keep, NODES_KEPT, OldDay, Pruned};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline};
use super::day::{TABLES, bounds, is_over, remove};
use super::line::Line;
use super::thin::note_thinned;
use super::trouble::{Trouble, corrupt};

impl Postgres {
    pub(super) async fn try_prune(&self, line: &Line<'_>, keep: &Keep) -> Result<Pruned, Trouble> {
        let mut pruned = Pruned::default();
        for old in days_held(line).await? {
            if !keep.is_old_for_some(old.day) {
                continue;
            }
            if !keep.is_dropped(old.day, old.runs) {
                pruned.old.push(old);
                continue;
            }
            match self.drop_day(line, keep, old.day).await {
                Ok(Dropped::Gone) => pruned.buckets += 1,
                Ok(Dropped::Open) => pruned.kept_open += 1,
                Ok(Dropped::Kept) => pruned.old.push(old),
                // A reader looks into it; the next time it goes.
                Err(trouble) if trouble.has_code(&SqlState::LOCK_NOT_AVAILABLE) => {
                    line.run("rollback").await?;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        let keys = "delete from keys
             where expires_at <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)";
        line.ask(Ask::new(keys).with(self.told_now())).await?;
        self.forget_nodes_and_changes(line, keep.changes.max(1)).await?;
        // Of a shard whose checkpoint no node moves, the least is enough.
        line.ask(Ask::new(
            "with gone as (delete from births returning shard, due)
             insert into births (shard, due) select shard, min(due) from gone group by shard",
        ))
        .await?;
        self.tend_days(line).await?;
        self.remove_old(line, keep.before).await?;
        Ok(pruned)
    }

    async fn forget_nodes_and_changes(&self, line: &Line<'_>, kept: u64) -> Result<(), Trouble> {
        let nodes = Ask::new(
            "delete from nodes n
             where n.expires_at <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2
               and not exists (select from shards s where s.owner = n.node)",
        );
        line.ask(nodes.with(self.told_now()).with(NODES_KEPT.as_millis() as i64)).await?;
        let changes = Ask::new(
            "delete from changes
             where id <= least(
                 (select value from counters where name = 'change') - $2,
                 (
                     select min(seen)
                     from nodes
                     where expires_at > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
                 )
             )",
        );
        line.ask(changes.with(self.told_now()).with(i64::try_from(kept).unwrap_or(i64::MAX))).await.map(drop)
    }

    /// Empties a day that no app keeps and in which nothing is open. A writer of that day waits for the moment that it
    /// takes, and finds the day either whole or gone.
    async fn drop_day(&self, line: &Line<'_>, keep: &Keep, day: u32) -> Result<Dropped, Trouble> {
        let names: Vec<String> = TABLES.iter().map(|(table, _)| format!("{table}_{day}")).collect();
        let there = "select name from unnest($1) as name where to_regclass(name) is not null";
        let mut there: Vec<String> = line
            .ask(Ask::new(there).with(names))
            .await?
            .iter()
            .map(|row| row.string(0))
            .collect::<Result<_, _>>()?;
        there.sort_unstable();
        let (low, high) = bounds(day);
        let mut flight = Pipeline::begin();
        flight.add(Ask::new("set local lock_timeout = 1000"));
        for name in &there {
            flight.add(Ask::new(format!("lock table {name} in access exclusive mode")));
        }
        flight.add(Ask::new("lock table runs_far in share row exclusive mode"));
        let open = flight.add(
            Ask::new(
                "select 1
                 from all_runs r
                 where r.id >= $1 and r.id < $2
                   and not exists (select from all_closes c where c.run = r.id and c.run >= $1 and c.run < $2)
                 limit 1",
            )
            .with(low)
            .with(high),
        );
        let runs = Ask::new("select coalesce(sum(runs), 0)::bigint from buckets where day = $1");
        let runs = flight.add(runs.with(i64::from(day)));
        let mut landed = line.fly(flight).await?;
        let runs = landed.take(runs)[0].bits(0)?;
        if !landed.take(open).is_empty() {
            line.run("rollback").await?;
            return Ok(Dropped::Open);
        }
        if !keep.is_dropped(day, runs) {
            // A run was written there since it was looked through.
            line.run("rollback").await?;
            return Ok(Dropped::Kept);
        }
        if !keep.is_old_for_others(day) {
            line.ask(note_thinned(keep.old_apps(day), day)).await?;
        }
        let mut sql = String::new();
        if !there.is_empty() {
            sql += &format!("truncate only {};\n", there.join(", only "));
        }
        sql += &format!(
            "delete from runs_far where id >= {low} and id < {high};
             delete from closes_far where run >= {low} and run < {high};
             delete from buckets where day = {day};
             update meta set value = greatest(value, {}) where name = 'pruned_to';
             commit",
            if keep.is_old_for_others(day) { i64::from(day) + 1 } else { 0 }
        );
        line.run(&sql).await?;
        Ok(Dropped::Gone)
    }

    /// Drops the tables of past days that hold nothing.
    async fn remove_old(&self, line: &Line<'_>, before: Timestamp) -> Result<(), Trouble> {
        let now = "select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)";
        let rows = line.ask(Ask::new(now).with(self.told_now())).await?;
        let today = RunId::day_of(rows[0].instant(0)?);
        let held: BTreeSet<u32> = days_held(line).await?.iter().map(|held| held.day).collect();
        for day in self.learn_days(line).await? {
            if day < today && is_over(day, before) && !held.contains(&day) {
                self.days.forget();
                match remove(line, day, self.is_concurrent).await {
                    Err(trouble) if trouble.has_code(&SqlState::LOCK_NOT_AVAILABLE) => {
                        return line.run("rollback; reset lock_timeout").await;
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

/// What became of a day that was to be dropped.
enum Dropped {
    Gone,
    /// Something in it is open.
    Open,
    /// An app may keep what is in it.
    Kept,
}

/// The days that hold runs, oldest first.
async fn days_held(line: &Line<'_>) -> Result<Vec<OldDay>, Trouble> {
    let ask = "select day::bigint, sum(runs)::bigint, sum(closed)::bigint
         from buckets
         group by day
         order by day";
    let held = |row: &Row| {
        let day = row.number(0)?;
        let day = u32::try_from(day).map_err(|_| corrupt("buckets", day, "no such day"))?;
        Ok(OldDay { day, runs: row.bits(1)?, closed: row.bits(2)? })
    };
    line.ask(Ask::new(ask)).await?.iter().map(held).collect()
}
