//! Keeping house: tables for the days to come, runs of far days that come near, days that are over, keys that have expired.

use std::time::Duration;

use calendar::Timestamp;
use punctual_core::model::RunId;
use punctual_node::ports::{Keep, NODES_KEPT, OldDay, Pruned, StoreError};

use super::ask::{Desk, Moment, Verb};
use super::day::{Days, FAR, NEAR_DAYS, Need, Table, bounds, lock_days, span, unlock_days};
use super::link::{Line, refusal};
use super::read::{Record, Said};
use super::text::{Quoted, Script, list};
use super::thin::note_thinned;
use super::trouble::Trouble;

/// How many days have their tables before they begin.
const READY_DAYS: u32 = 2;

/// How many keys are forgotten in one statement, so that no other statement waits long for it.
const FORGET_MAX: u64 = 1_000;

/// How often dropping a day is tried that another connection reads.
const DROP_TRIES: u32 = 5;

/// How long one day may take to be dropped or moved.
const HOUSE_FOR: Duration = Duration::from_secs(120);

/// The time, as the store has it.
pub(super) struct Now;

impl Verb for Now {
    type Answer = Timestamp;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Timestamp, Trouble> {
        let said = line.say(format!("select {}", at.now())).await?;
        Ok(Timestamp::from_millis(said.number()?.unwrap_or_default()))
    }
}

/// Makes tables that will be needed, so that no verb has to wait for them.
struct Ready(u32);

impl Verb for Ready {
    type Answer = ();

    fn needs(&self, _days: &Days) -> Vec<Need> {
        let days = self.0..=self.0 + READY_DAYS;
        days.flat_map(|day| [(day, Table::Runs), (day, Table::Sends), (day, Table::Attempts)]).collect()
    }

    async fn ask(&self, _line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        Ok(())
    }
}

/// The days that have runs: how many, and how many are closed.
struct Tallies;

impl Verb for Tallies {
    type Answer = Vec<OldDay>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Self::Answer, Trouble> {
        let said = line.say("select day, sum(runs), sum(closed) from tallies group by day order by day");
        let row = |row: &Record| Ok(OldDay { day: row.number(0)?, runs: row.uint(1)?, closed: row.uint(2)? });
        said.await?.rows.iter().map(row).collect()
    }
}

/// Forgets some expired keys; whether there may be more.
struct ForgetKeys;

impl Verb for ForgetKeys {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<bool, Trouble> {
        let now = at.now();
        let said = line
            .say(format!(
                "delete from `keys` where expires_at <= {now} order by expires_at limit {FORGET_MAX}"
            ))
            .await?;
        Ok(said.affected == FORGET_MAX)
    }
}

/// Forgets nodes that are long gone, and some changes that every living node has seen; whether there may be more.
struct ForgetChanges {
    kept: u64,
}

impl Verb for ForgetChanges {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<bool, Trouble> {
        let (now, kept, nodes_kept) = (at.now(), self.kept, NODES_KEPT.as_millis());
        line.say(format!(
            "delete from nodes
             where expires_at <= {now} - {nodes_kept} and not exists (select 1 from shards where owner = nodes.node)"
        ))
        .await?;
        let mut script = Script::of("select value from counters where name = 'change'");
        let seen = script.push(format!("select min(seen) from nodes where expires_at > {now}"));
        let said = line.ask(script).await?;
        let latest = said[0].number()?.unwrap_or_default().unsigned_abs();
        // No node lives: then no change is left to be seen.
        let seen = said[seen].first().map(|row| row.maybe(0, Record::uint)).transpose()?.flatten();
        let seen = seen.unwrap_or(u64::MAX);
        let old = latest.saturating_sub(kept).min(seen);
        let said = line.say(format!("delete from changes where id <= {old} order by id limit {FORGET_MAX}"));
        Ok(said.await?.affected == FORGET_MAX)
    }
}

/// Gives up what takes too long. The connection is dropped with it, and all its locks.
async fn within<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || Err(StoreError::Unknown("keeping house took too long".into()));
    tokio::time::timeout(HOUSE_FOR, work).await.unwrap_or_else(|_| late())
}

/// Makes ready what will be needed.
pub(super) async fn prepare(desk: &Desk) -> Result<(), StoreError> {
    let today = RunId::day_of(desk.ask(&Now).await?);
    desk.ask(&Ready(today)).await?;
    bring_near(desk, today.saturating_add(NEAR_DAYS + 1)).await
}

/// Drops whole days that no app keeps and in which nothing is open, and keys that have expired.
pub(super) async fn prune(desk: &Desk, keep: &Keep) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    for old in desk.ask(&Tallies).await?.into_iter().filter(|old| keep.is_old_for_some(old.day)) {
        if !keep.is_dropped(old.day, old.runs) {
            pruned.old.push(old);
        } else if old.closed >= old.runs && drop_day(desk, keep, old.day).await? {
            pruned.buckets += 1;
        } else {
            pruned.kept_open += 1;
        }
    }
    while desk.ask(&ForgetKeys).await? {}
    while desk.ask(&ForgetChanges { kept: keep.changes.max(1) }).await? {}
    Ok(pruned)
}

/// Drops a day, unless something in it is open.
async fn drop_day(desk: &Desk, keep: &Keep, day: u32) -> Result<bool, StoreError> {
    within(drop_alone(desk, keep, day)).await
}

/// On a connection of its own, because it holds locks of tables.
async fn drop_alone(desk: &Desk, keep: &Keep, day: u32) -> Result<bool, StoreError> {
    let mut house = Line::connect(desk.lines.address()).await.map_err(refusal)?;
    let mut last = None;
    for _ in 0..DROP_TRIES {
        match drop_on(desk, &mut house, keep, day).await {
            Ok(is_dropped) => {
                desk.look().await?;
                house.hang_up().await;
                return Ok(is_dropped);
            }
            Err(Trouble::Crossed(said)) => {
                house.say("unlock tables").await.map_err(refusal)?;
                last = Some(StoreError::Unknown(said));
            }
            Err(trouble) => return Err(refusal(trouble)),
        }
    }
    Err(last.unwrap_or_else(|| StoreError::Unknown("the day cannot be dropped".into())))
}

async fn drop_on(desk: &Desk, house: &mut Line, keep: &Keep, day: u32) -> Result<bool, Trouble> {
    lock_days(house).await?;
    let days = Days::read(house).await?;
    let dropped = match days.home(day) {
        FAR => drop_far(house, &days, keep, day).await,
        _ => drop_near(desk, house, &days, keep, day).await,
    };
    unlock_days(house).await?;
    dropped
}

/// With its tables locked, no connection can write into the day any more, and what was written before is counted: so what is closed
/// then stays closed. The count is read by another connection, because one that holds locks of tables sees no others.
/// Writers of other days never wait; one of this day waits for a moment, finds the table gone, and makes it anew.
async fn drop_near(
    desk: &Desk,
    house: &mut Line,
    days: &Days,
    keep: &Keep,
    day: u32,
) -> Result<bool, Trouble> {
    let tables: Vec<String> = tables_of(days, day);
    if tables.is_empty() {
        return Ok(false);
    }
    let locks: Vec<String> = tables.iter().map(|table| format!("{table} write")).collect();
    let mut script = Script::of("set session lock_wait_timeout = 1");
    script.push(format!("lock tables {}", locks.join(", ")));
    house.ask(script).await?;
    let is_closed = desk.ask(&Unlist { keep, day }).await.map_err(Trouble::Refused)?;
    if is_closed {
        house.say(format!("drop table {}", tables.join(", "))).await?;
    }
    house.say("unlock tables").await?;
    Ok(is_closed)
}

/// The runs of a far day lie beside others, so they are deleted.
async fn drop_far(house: &mut Line, days: &Days, keep: &Keep, day: u32) -> Result<bool, Trouble> {
    let mut script = Script::transaction();
    script.push("select value from meta where name = 'far_from' for update");
    let tally = script.push(is_closed(day));
    let said = house.ask(script).await?;
    if !is_dropped(keep, day, &said[tally])? {
        house.say("rollback").await?;
        return Ok(false);
    }
    let (first, last) = span(day);
    let mut script = Script::of(format!("delete from runs_far where id between {first} and {last}"));
    script.push(format!("delete from closes_far where run between {first} and {last}"));
    unlist(&mut script, keep, day);
    script.push("commit");
    let tables = tables_of(days, day);
    if !tables.is_empty() {
        script.push(format!("drop table {}", tables.join(", ")));
    }
    house.ask(script).await?;
    Ok(true)
}

/// Takes a day from the list, if everything in it is closed: whether it is.
struct Unlist<'a> {
    keep: &'a Keep,
    day: u32,
}

impl Verb for Unlist<'_> {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<bool, Trouble> {
        let mut script = Script::transaction();
        let tally = script.push(is_closed(self.day));
        let is_dropped = is_dropped(self.keep, self.day, &line.ask(script).await?[tally])?;
        let mut script = Script::new();
        if is_dropped {
            unlist(&mut script, self.keep, self.day);
        }
        script.push("commit");
        line.ask(script).await?;
        Ok(is_dropped)
    }
}

/// How many runs a day has, if all of them are closed.
fn is_closed(day: u32) -> String {
    format!("select sum(runs) from tallies where day = {day} having sum(runs) = sum(closed)")
}

/// Whether a day may go: a run may have been written there since it was looked through.
fn is_dropped(keep: &Keep, day: u32, runs: &Said) -> Result<bool, Trouble> {
    let runs = runs.first().map(|row| row.uint(0)).transpose()?;
    Ok(runs.is_some_and(|runs| keep.is_dropped(day, runs)))
}

fn unlist(script: &mut Script, keep: &Keep, day: u32) {
    script.push(format!("delete from days where day = {day}"));
    script.push(format!("delete from tallies where day = {day}"));
    if keep.is_old_for_others(day) {
        script.push(format!("update meta set value = greatest(value, {}) where name = 'pruned_to'", day + 1));
    } else {
        note_thinned(script, keep.old_apps(day).map(|app| &**app), day);
    }
    script.push("update meta set value = value + 1 where name = 'days_version'");
}

fn tables_of(days: &Days, day: u32) -> Vec<String> {
    let tables = Table::ALL.into_iter().filter(|table| days.has(day, *table));
    tables.map(|table| table.of(day)).collect()
}

/// Moves the runs of far days up to `to` into tables of their own, a day in one transaction each.
async fn bring_near(desk: &Desk, to: u32) -> Result<(), StoreError> {
    if desk.days().far_from >= to {
        return Ok(());
    }
    let mut house = Line::connect(desk.lines.address()).await.map_err(refusal)?;
    let moved = within(async { bring_all(&mut house, to).await.map_err(refusal) }).await;
    desk.look().await?;
    house.hang_up().await;
    moved
}

async fn bring_all(house: &mut Line, to: u32) -> Result<(), Trouble> {
    lock_days(house).await?;
    let from = Days::read(house).await?.far_from;
    let said = house
        .say(format!("select distinct day from tallies where day >= {from} and day < {to} order by day"))
        .await?;
    let days: Vec<u32> = said.rows.iter().map(|row| row.number(0)).collect::<Result<_, _>>()?;
    for day in days {
        bring(house, day).await?;
    }
    let mut script = Script::transaction();
    script.push(format!("update meta set value = greatest(value, {to}) where name = 'far_from'"));
    script.push("update meta set value = value + 1 where name = 'days_version'");
    script.push("commit");
    // What lies beyond came in while the others were moved: those days are moved by the next round, so the border stays
    // in front of the first of them.
    let beyond = house.say(format!(
        "select 1 from tallies where day >= {from} and day < {to} and day not in (select day from days)"
    ));
    if beyond.await?.first().is_none() {
        house.ask(script).await?;
    }
    unlock_days(house).await
}

async fn bring(house: &mut Line, day: u32) -> Result<(), Trouble> {
    let (low, high) = bounds(day);
    let (first, last) = span(day);
    let (runs, closes) = (Table::Runs.of(day), Table::Closes.of(day));
    let mut script = Script::of(Table::Runs.create(day));
    script.push(Table::Closes.create(day));
    house.ask(script).await?;
    let mut script = Script::transaction();
    // Transactions that write into the far tables are done now, or wait.
    script.push("select value from meta where name = 'far_from' for update");
    script.push(format!("insert into {runs} select * from runs_far where id between {first} and {last}"));
    script
        .push(format!("insert into {closes} select * from closes_far where run between {first} and {last}"));
    script.push(format!("delete from runs_far where id between {first} and {last}"));
    script.push(format!("delete from closes_far where run between {first} and {last}"));
    script.push(format!(
        "insert into days (day, tables, low, high)
         select {day}, {bits}, least({low}, coalesce(min(due), {low})), greatest({high}, coalesce(max(due), {high}))
         from {runs}
         on duplicate key update
             tables = tables | {bits}, low = least(low, values(low)), high = greatest(high, values(high))",
        bits = Table::Runs as u32 | Table::Closes as u32
    ));
    script.push(format!("update meta set value = {} where name = 'far_from'", day + 1));
    script.push("update meta set value = value + 1 where name = 'days_version'");
    script.push("commit");
    house.ask(script).await?;
    Ok(())
}

/// Drops tables of days that are not listed: what an interrupted drop has left.
pub(super) struct Sweep;

impl Verb for Sweep {
    type Answer = ();

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        lock_days(line).await?;
        let swept = sweep(line).await;
        unlock_days(line).await?;
        swept
    }
}

async fn sweep(line: &mut Line) -> Result<(), Trouble> {
    let days = Days::read(line).await?;
    let kinds = Table::ALL.map(|table| table.of(0).trim_end_matches("_0").to_owned());
    let said = line
        .say(format!(
            "select table_name
             from information_schema.tables
             where table_schema = database() and table_name regexp {}",
            Quoted(&format!("^({})_[0-9]+$", kinds.join("|")))
        ))
        .await?;
    let mut left = Vec::new();
    for row in &said.rows {
        let name = row.string(0)?;
        let day = name.rsplit('_').next().and_then(|day| day.parse::<u32>().ok());
        if day.is_some_and(|day| !days.rows.contains_key(&day)) {
            left.push(name);
        }
    }
    if !left.is_empty() {
        line.say(format!("drop table {}", list(&left))).await?;
    }
    Ok(())
}
