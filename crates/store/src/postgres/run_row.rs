//! The row of a run: every statement that names its columns. Whole texts, so that they can be prepared.

use punctual_core::model::NewRun;

use super::ask::{Ask, run_code, text_code};
use super::code::{decided_code, origin_code};

/// The columns of [`crate::rows::born`].
macro_rules! born_columns {
    () => {
        "id, job, shard::bigint, fire_time, due, origin::bigint, decided::bigint, priority::bigint, payload is not null,
         overrides"
    };
}

pub(super) use born_columns;

/// What the wheel needs of runs, without what they wait for.
pub(super) const BORN_OF: &str =
    concat!("select ", born_columns!(), " from all_runs where id = any($1) and id between $2 and $3");

macro_rules! rows_with {
    ($payload:literal) => {
        concat!(
            "select ",
            born_columns!(),
            ", ",
            $payload,
            ", of from all_runs where id = any($1) and id between $2 and $3"
        )
    };
}

/// Whole runs, and the same without reading what they bring.
pub(super) const WHOLE: &str = rows_with!("payload");
pub(super) const OUTLINE: &str = rows_with!("null::text");

/// Runs as people see them.
pub(super) const VIEW: &str =
    "select id, job, shard::bigint, fire_time, due, origin::bigint, decided::bigint, priority::bigint, key, of, payload,
            overrides
     from all_runs
     where id = any($1) and id between $2 and $3";

/// Moves runs out of the far table, ids unchanged.
pub(super) const BRING_NEAR: &str = "
    with moved as (delete from runs_far where id < $1 returning *)
    insert into runs (id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides)
    select id, job, shard, fire_time, due, origin, decided, priority, key, of, payload, overrides from moved";

/// Few runs have overrides, so a column of them is only sent where there is one.
macro_rules! into_runs {
    ($table:literal, $overrides:literal, $value:literal) => {
        concat!(
            "insert into ",
            $table,
            " (id, job, shard, fire_time, due, origin, decided, priority, of, payload, key",
            $overrides,
            ") select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11",
            $value,
            ")"
        )
    };
}

macro_rules! into_runs_plain {
    ($overrides:literal, $value:literal) => {
        concat!(
            "with written as (
                 insert into runs (id, job, shard, fire_time, due, origin, decided, priority, of, payload",
            $overrides,
            ") select * from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10",
            $value,
            ") on conflict do nothing
                 returning id, shard, due, fire_time
             ),
             born as (
                 insert into births (shard, due)
                 select b.shard, b.due
                 from (select shard, min(due) as due from written group by shard) b
                 join shards s on s.shard = b.shard
             ),
             counted as (
                 insert into buckets (day, slot, runs, closed, first_due, last_due, first_fire, last_fire)
                 select id >> 34, pg_backend_pid() % 64, count(*), 0, min(due), max(due), min(fire_time), max(fire_time)
                 from written
                 group by 1
                 on conflict (day, slot) do update
                 set runs = buckets.runs + excluded.runs,
                     first_due = least(buckets.first_due, excluded.first_due),
                     last_due = greatest(buckets.last_due, excluded.last_due),
                     first_fire = least(buckets.first_fire, excluded.first_fire),
                     last_fire = greatest(buckets.last_fire, excluded.last_fire)
             )
             select id from written"
        )
    };
}

pub(super) fn insert_runs(is_far: bool, runs: &[&NewRun]) -> Ask {
    let overrides = overrides(runs);
    let ask = Ask::new(match (is_far, overrides.is_some()) {
        (false, false) => into_runs!("runs", "", ""),
        (false, true) => into_runs!("runs", ", overrides", ", $12"),
        (true, false) => into_runs!("runs_far", "", ""),
        (true, true) => into_runs!("runs_far", ", overrides", ", $12"),
    });
    let ask = with_runs(ask, runs)
        .with(runs.iter().map(|run| run.key.as_deref().map(text_code)).collect::<Vec<Option<String>>>());
    overrides.into_iter().fold(ask, Ask::with)
}

/// Writes runs without keys that are not there, and says which those were.
pub(super) fn insert_plain(runs: &[NewRun]) -> Ask {
    let runs: Vec<&NewRun> = runs.iter().collect();
    let overrides = overrides(&runs);
    let ask = Ask::new(match overrides {
        None => into_runs_plain!("", ""),
        Some(_) => into_runs_plain!(", overrides", ", $11"),
    });
    overrides.into_iter().fold(with_runs(ask, &runs), Ask::with)
}

/// The column of overrides, if any of these runs has some.
fn overrides(runs: &[&NewRun]) -> Option<Vec<Option<String>>> {
    let text = |run: &&NewRun| run.overrides.as_ref().map(|overrides| text_code(&overrides.to_string()));
    runs.iter().any(|run| run.overrides.is_some()).then(|| runs.iter().map(text).collect())
}

/// The values of every column but the key and the overrides.
fn with_runs(ask: Ask, runs: &[&NewRun]) -> Ask {
    let numbers = |of: &dyn Fn(&NewRun) -> i64| runs.iter().map(|run| of(run)).collect::<Vec<i64>>();
    ask.with(numbers(&|run| run_code(run.id)))
        .with(numbers(&|run| i64::from(run.job.0)))
        .with(numbers(&|run| i64::from(run.shard.0)))
        .with(numbers(&|run| run.fire_time.as_millis()))
        .with(numbers(&|run| run.due.as_millis()))
        .with(numbers(&|run| origin_code(run.origin)))
        .with(numbers(&|run| decided_code(run.decided)))
        .with(numbers(&|run| i64::from(run.priority)))
        .with(runs.iter().map(|run| run.of.map(run_code)).collect::<Vec<Option<i64>>>())
        .with(runs.iter().map(|run| run.payload.as_deref().map(text_code)).collect::<Vec<Option<String>>>())
}
