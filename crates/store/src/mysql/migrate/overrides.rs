//! The migration that gives overrides a column: earlier programs kept them in lines in front of the payload, `!` and the timeout
//! and the retry policy, `@` and the one executor. Every statement can be repeated.

use std::collections::BTreeSet;

use punctual_core::model::RunId;

use super::super::day::{Days, Table};
use super::super::link::Line;
use super::super::read::Record;
use super::super::trouble::Trouble;

/// Splits the rows of the days that are there.
pub(super) async fn migrate(line: &mut Line) -> Result<(), Trouble> {
    let days = Days::read(line).await?;
    let homes: BTreeSet<u32> = days.rows.keys().copied().filter(|day| days.has(*day, Table::Runs)).collect();
    for home in &homes {
        split_rows(line, &Table::Runs.of(*home)).await?;
    }
    for day in days.rows.keys().copied().filter(|day| days.has(*day, Table::Parts)) {
        inherit(line, &days, &homes, day).await?;
    }
    for home in &homes {
        line.say(format!(
            "update waiting w
             join {} r on r.id = w.run
             set w.overrides = r.overrides, w.has_payload = r.payload is not null
             where r.overrides is not null",
            Table::Runs.of(*home)
        ))
        .await?;
    }
    Ok(())
}

async fn split_rows(line: &mut Line, runs: &str) -> Result<(), Trouble> {
    // The columns are set from left to right.
    let end = "locate(char(10 using utf8mb4), payload)";
    let own = format!("substr(payload, 2, {end} - 2)");
    let rest = format!("nullif(substr(payload, {end} + 1), '')");
    for (mark, overrides) in
        [('!', own.clone()), ('@', format!("concat_ws(' ', overrides, concat('executor=', {own}))"))]
    {
        line.say(format!(
            "update {runs}
             set overrides = {overrides}, payload = {rest}
             where left(payload, 1) = '{mark}' and {end} > 0"
        ))
        .await?;
    }
    Ok(())
}

/// A part has what its whole has; it may be born on another day.
async fn inherit(line: &mut Line, days: &Days, homes: &BTreeSet<u32>, day: u32) -> Result<(), Trouble> {
    let parts = Table::Parts.of(day);
    let said = line.say(format!("select distinct whole from {parts}")).await?;
    let wholes = said.rows.iter().map(|row: &Record| row.run(0)).collect::<Result<Vec<RunId>, _>>()?;
    let of_wholes: BTreeSet<u32> = wholes.iter().map(|whole| days.home(whole.day())).collect();
    let home = days.home(day);
    for of_whole in of_wholes.intersection(homes).filter(|_| homes.contains(&home)) {
        line.say(format!(
            "update {} r
             join {parts} p on p.run = r.id
             join {} w on w.id = p.whole
             set r.overrides = w.overrides
             where w.overrides is not null",
            Table::Runs.of(home),
            Table::Runs.of(*of_whole)
        ))
        .await?;
    }
    Ok(())
}
