//! The tables of days: which there are, how they are made, and in which of them a run lies.
//!
//! A day has tables of its own, so that it can be dropped as a whole. Days from `far_from` on share the tables `runs_far` and
//! `closes_far`, so that a run in fifty years costs no table; `upkeep.rs` moves their runs before they are needed. What is
//! known of the days is kept in memory with the number of its version; every script asks for the number, and a script
//! that was built on an old version is built anew and sent again.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::model::RunId;

use super::link::Line;
use super::read::Said;
use super::run_row;
use super::text::{Script, ms};
use super::trouble::Trouble;

/// The row of `days` that stands for the tables `far`.
pub(super) const FAR: u32 = u32::MAX;

/// How many days ahead have tables of their own.
pub(super) const NEAR_DAYS: u32 = 60;

/// The tables of a day. The numbers are bits in the table `days`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Runs = 1,
    Closes = 2,
    Attempts = 4,
    Sends = 8,
    Parts = 16,
    Joins = 32,
    Logs = 64,
    Kills = 128,
}

impl Table {
    pub(super) const ALL: [Table; 8] = [
        Table::Runs,
        Table::Closes,
        Table::Attempts,
        Table::Sends,
        Table::Parts,
        Table::Joins,
        Table::Logs,
        Table::Kills,
    ];

    fn name(self) -> &'static str {
        match self {
            Table::Runs => "runs",
            Table::Closes => "closes",
            Table::Attempts => "attempts",
            Table::Sends => "sends",
            Table::Parts => "parts",
            Table::Joins => "joins",
            Table::Logs => "logs",
            Table::Kills => "kills",
        }
    }

    /// The table of a day.
    pub(super) fn of(self, day: u32) -> String {
        match day {
            FAR => format!("{}_far", self.name()),
            day => format!("{}_{day}", self.name()),
        }
    }

    /// Runs are there with their closes.
    fn bits(self) -> u32 {
        match self {
            Table::Runs | Table::Closes => Table::Runs as u32 | Table::Closes as u32,
            other => other as u32,
        }
    }

    fn columns(self) -> &'static str {
        match self {
            Table::Runs => run_row::TABLE,
            Table::Closes => {
                "run bigint unsigned not null primary key,
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
                 reason longtext character set utf8mb4 collate utf8mb4_bin not null,
                 executor longtext character set utf8mb4 collate utf8mb4_bin,
                 message longtext character set utf8mb4 collate utf8mb4_bin"
            }
            Table::Attempts => {
                "run bigint unsigned not null,
                 attempt int unsigned not null,
                 token bigint unsigned not null,
                 started_at bigint not null,
                 ended_at bigint not null,
                 attempt_outcome tinyint unsigned not null,
                 possible_duplicate tinyint unsigned not null,
                 executor longtext character set utf8mb4 collate utf8mb4_bin not null,
                 message longtext character set utf8mb4 collate utf8mb4_bin not null,
                 primary key (run, attempt)"
            }
            Table::Sends => {
                "run bigint unsigned not null,
                 attempt int unsigned not null,
                 job int unsigned not null,
                 token bigint unsigned not null,
                 log bigint unsigned not null,
                 sent_at bigint not null,
                 executor longtext character set utf8mb4 collate utf8mb4_bin not null,
                 primary key (run, attempt),
                 key by_log (log)"
            }
            Table::Parts => {
                "run bigint unsigned not null primary key,
                 whole bigint unsigned not null,
                 place int unsigned not null,
                 total int unsigned not null,
                 address longtext character set utf8mb4 collate utf8mb4_bin not null,
                 key by_whole (whole, place, run)"
            }
            Table::Joins => {
                "run bigint unsigned not null primary key,
                 total int unsigned not null,
                 open int unsigned not null,
                 succeeded int unsigned not null,
                 first_day int unsigned not null,
                 last_day int unsigned not null"
            }
            Table::Logs => {
                "run bigint unsigned not null,
                 attempt int unsigned not null,
                 next_line bigint unsigned not null,
                 is_complete tinyint unsigned not null,
                 text longtext character set utf8mb4 collate utf8mb4_bin not null,
                 primary key (run, attempt)"
            }
            Table::Kills => {
                "run bigint unsigned not null,
                 attempt int unsigned not null,
                 at bigint not null,
                 is_confirmed tinyint unsigned,
                 said longtext character set utf8mb4 collate utf8mb4_bin not null,
                 primary key (run, attempt)"
            }
        }
    }

    pub(super) fn create(self, day: u32) -> String {
        format!("create table if not exists {} ({}) engine=InnoDB", self.of(day), self.columns())
    }
}

/// What is known of the days.
#[derive(Clone, Debug)]
pub(super) struct Days {
    version: i64,
    pub(super) far_from: u32,
    pub(super) rows: BTreeMap<u32, Day>,
}

/// A day that has tables, or [`FAR`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Day {
    tables: u32,
    /// Its runs are due from here.
    pub(super) low: i64,
    /// Its runs are due up to here.
    pub(super) high: i64,
}

impl Default for Days {
    /// Nothing is known: no database has this version.
    fn default() -> Days {
        Days { version: -1, far_from: 0, rows: BTreeMap::new() }
    }
}

/// A table that is needed.
pub(super) type Need = (u32, Table);

impl Days {
    /// Which day's table a run of this day lies in.
    pub(super) fn home(&self, day: u32) -> u32 {
        if day < self.far_from { day } else { FAR }
    }

    /// The table with runs or closes of a day, if there is one.
    pub(super) fn runs(&self, run: RunId) -> Option<(String, String)> {
        let home = self.home(run.day());
        self.has(home, Table::Runs).then(|| (Table::Runs.of(home), Table::Closes.of(home)))
    }

    /// A table beside the runs, if it is there.
    pub(super) fn beside(&self, table: Table, day: u32) -> Option<String> {
        self.has(day, table).then(|| table.of(day))
    }

    pub(super) fn has(&self, day: u32, table: Table) -> bool {
        self.rows.get(&day).is_some_and(|row| row.tables & table as u32 != 0)
    }

    /// The runs by the tables that they lie in; runs of days that are not there are left out.
    pub(super) fn by_home(&self, runs: impl IntoIterator<Item = RunId>) -> BTreeMap<u32, BTreeSet<RunId>> {
        let mut homes: BTreeMap<u32, BTreeSet<RunId>> = BTreeMap::new();
        for run in runs {
            let home = self.home(run.day());
            if self.has(home, Table::Runs) {
                homes.entry(home).or_default().insert(run);
            }
        }
        homes
    }

    /// The runs by the days that have this table beside their runs.
    pub(super) fn by_day(
        &self,
        table: Table,
        runs: impl IntoIterator<Item = RunId>,
    ) -> BTreeMap<u32, BTreeSet<RunId>> {
        let mut days: BTreeMap<u32, BTreeSet<RunId>> = BTreeMap::new();
        for run in runs.into_iter().filter(|run| self.has(run.day(), table)) {
            days.entry(run.day()).or_default().insert(run);
        }
        days
    }

    /// The homes that may hold runs due between two instants.
    pub(super) fn due_between(&self, from: i64, until: i64) -> Vec<u32> {
        let may_hold = |day: &Day| day.tables & 1 != 0 && day.low < until && day.high >= from;
        self.rows.iter().filter(|(_, day)| may_hold(day)).map(|(day, _)| *day).collect()
    }

    /// Keeps the runs of the tables `far` from being moved while a transaction writes there, or relies on what is not there.
    pub(super) fn keep_far(&self, script: &mut Script, days: impl IntoIterator<Item = u32>) -> bool {
        let touches_far = days.into_iter().any(|day| self.home(day) == FAR);
        if touches_far {
            script.push("select value from meta where name = 'far_from' lock in share mode");
        }
        touches_far
    }

    /// Adds the question whether this is still so, and says its place. In a transaction that locks runs it comes after the
    /// locks: what was made before another transaction had them is then known.
    pub(super) fn watch(&self, script: &mut Script) -> usize {
        script.push("select value from meta where name = 'days_version'")
    }

    pub(super) fn check(&self, said: &Said) -> Result<(), Trouble> {
        match said.number()? == Some(self.version) {
            true => Ok(()),
            false => Err(Trouble::OldDays),
        }
    }

    /// The tables that are needed and not there.
    pub(super) fn missing(&self, needs: impl IntoIterator<Item = Need>) -> BTreeSet<Need> {
        let home = |(day, table): Need| match table {
            Table::Runs | Table::Closes => (self.home(day), Table::Runs),
            _ => (day, table),
        };
        needs.into_iter().map(home).filter(|(day, table)| !self.has(*day, *table)).collect()
    }

    pub(super) async fn read(line: &mut Line) -> Result<Days, Trouble> {
        let mut script = Script::snapshot();
        script.push("select name, value from meta where name in ('days_version', 'far_from')");
        script.push("select day, tables, low, high from days");
        script.push("commit");
        let said = line.ask(script).await?;
        let mut days = Days::default();
        for row in &said[2].rows {
            match row.string(0)?.as_str() {
                "far_from" => days.far_from = row.number(1)?,
                _ => days.version = row.int(1)?,
            }
        }
        for row in &said[3].rows {
            let day = Day { tables: row.number(1)?, low: row.int(2)?, high: row.int(3)? };
            days.rows.insert(row.number(0)?, day);
        }
        Ok(days)
    }
}

/// Makes tables. Making a table ends every transaction, so this is done before one begins; and one at a time, because a day
/// that is begun must not meet what an interrupted drop of the same day has left.
pub(super) async fn make(line: &mut Line, needs: &BTreeSet<Need>) -> Result<Days, Trouble> {
    lock_days(line).await?;
    let made = make_locked(line, needs).await;
    unlock_days(line).await?;
    made
}

async fn make_locked(line: &mut Line, needs: &BTreeSet<Need>) -> Result<Days, Trouble> {
    let days = Days::read(line).await?;
    let missing = days.missing(needs.iter().copied());
    if missing.is_empty() {
        return Ok(days);
    }
    let mut begun: BTreeSet<u32> = days.rows.keys().copied().collect();
    for (day, table) in &missing {
        let mut script = Script::new();
        if begun.insert(*day) {
            let tables = Table::ALL.map(|table| table.of(*day));
            script.push(format!("drop table if exists {}", tables.join(", ")));
        }
        script.push(table.create(*day));
        if *table == Table::Runs {
            script.push(Table::Closes.create(*day));
        }
        let (low, high) = bounds(*day);
        let bits = table.bits();
        script.push(format!(
            "insert into days (day, tables, low, high)
             values ({day}, {bits}, {low}, {high})
             on duplicate key update tables = tables | values(tables)"
        ));
        script.push("update meta set value = value + 1 where name = 'days_version'");
        line.ask(script).await?;
    }
    Days::read(line).await
}

/// The first and the last run of a day.
pub(super) fn span(day: u32) -> (RunId, RunId) {
    (RunId::new(day, 0), RunId::new(day, RunId::PER_DAY - 1))
}

/// Between which instants the runs of a day are due, as long as none was born elsewhere than it is due.
pub(super) fn bounds(day: u32) -> (i64, i64) {
    match day {
        // Writers of the far table would have to wait for the row, so its bounds say nothing.
        FAR => (i64::MIN, i64::MAX),
        day => (ms(RunId::day_start(day)), ms(RunId::day_start(day + 1)) - 1),
    }
}

pub(super) async fn lock_days(line: &mut Line) -> Result<(), Trouble> {
    let lock = "select get_lock(concat('punctual days ', left(sha2(database(), 256), 30)), 4)";
    match line.say(lock).await?.number()? {
        Some(1) => Ok(()),
        _ => Err(Trouble::Crossed("another node is making tables".into())),
    }
}

pub(super) async fn unlock_days(line: &mut Line) -> Result<(), Trouble> {
    line.say("do release_lock(concat('punctual days ', left(sha2(database(), 256), 30)))").await?;
    Ok(())
}
