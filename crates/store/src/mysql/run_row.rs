//! The row of a run: everything that names its columns.

use calendar::Timestamp;
use punctual_core::model::{NewRun, Overrides};
use punctual_node::ports::Waiting;

use super::day::Table;
use super::text::{Maybe, Quoted, Script, maybe_ms, ms};
use crate::code::{decided_code, origin_code};
use crate::rules::WaitRow;

/// The columns of a table of runs, with its keys.
pub(super) const TABLE: &str = "id bigint unsigned not null primary key,
    job int unsigned not null,
    shard smallint unsigned not null,
    fire_time bigint not null,
    due bigint not null,
    origin tinyint unsigned not null,
    decided tinyint unsigned not null,
    priority tinyint unsigned not null,
    `of` bigint unsigned,
    named_at bigint,
    key_text longtext character set utf8mb4 collate utf8mb4_bin,
    payload longtext character set utf8mb4 collate utf8mb4_bin,
    overrides longtext character set utf8mb4 collate utf8mb4_bin,
    unique key named (named_at, job),
    key by_due (due, id, shard),
    key by_job (job, id)";

/// What [`crate::rows::born`] reads.
pub(super) const BORN: &str = "r.id, r.job, r.shard, r.fire_time, r.due, r.origin, r.decided, r.priority, \
                               r.payload is not null, r.overrides";

/// The same of a run that waits, in the tables `waiting`: it repeats what the wheel needs.
pub(super) const BORN_WAITING: &str = "w.run, w.job, w.shard, w.fire_time, w.ready_at, w.origin, w.decided, w.priority, \
                                       w.has_payload, w.overrides";

/// What [`crate::rows::run_view`] reads.
pub(super) const VIEW: &str = "r.id, r.job, r.shard, r.fire_time, r.due, r.origin, r.decided, r.priority, r.key_text, \
                               r.`of`, r.payload, r.overrides";

/// How many cells that are.
pub(super) const VIEW_CELLS: usize = 12;

/// Writes runs into the tables of a day. Few have overrides, so these are only named where there are some.
pub(super) fn insert_runs(script: &mut Script, home: u32, runs: &[&NewRun]) {
    let has_overrides = runs.iter().any(|run| run.overrides.is_some());
    script.push_rows(
        &format!(
            "insert into {} (id, job, shard, fire_time, due, origin, decided, priority, `of`, named_at,
                             key_text, payload{}) values ",
            Table::Runs.of(home),
            if has_overrides { ", overrides" } else { "" },
        ),
        runs.iter().map(|run| run_row(run, has_overrides)),
        "",
    );
}

fn run_row(run: &NewRun, has_overrides: bool) -> String {
    format!(
        "({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{})",
        run.id,
        run.job,
        run.shard,
        ms(run.fire_time),
        ms(run.due),
        origin_code(run.origin),
        decided_code(run.decided),
        run.priority,
        Maybe(run.of),
        Maybe(run.is_named().then(|| ms(run.fire_time))),
        Maybe(run.key.as_deref().map(Quoted)),
        Maybe(run.payload.as_deref().map(Quoted)),
        overrides_cell(run.overrides.as_deref(), has_overrides),
    )
}

fn overrides_cell(overrides: Option<&Overrides>, is_named: bool) -> String {
    match (is_named, overrides) {
        (false, _) => String::new(),
        (true, None) => ", null".into(),
        (true, Some(overrides)) => format!(", {}", Quoted(&overrides.to_string())),
    }
}

/// Writes what runs wait for that are due then, with what the wheel needs of them.
pub(super) fn insert_waits(script: &mut Script, waits: &[(Waiting, Timestamp, WaitRow)]) {
    let has_overrides = waits.iter().any(|(born, _, _)| born.overrides.is_some());
    let row = |(born, due, wait): &(Waiting, Timestamp, WaitRow)| {
        format!(
            "({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0{})",
            born.run,
            born.job,
            born.shard,
            ms(born.fire_time),
            ms(*due),
            origin_code(born.origin),
            decided_code(born.decided),
            born.priority,
            u8::from(born.has_payload),
            maybe_ms(wait.ready_at),
            wait.attempt,
            overrides_cell(born.overrides.as_deref(), has_overrides),
        )
    };
    script.push_rows(
        &format!(
            "insert into waiting (run, job, shard, fire_time, due, origin, decided, priority, has_payload, ready_at,
                                  attempt, is_called_back{}) values ",
            if has_overrides { ", overrides" } else { "" },
        ),
        waits.iter().map(row),
        " on duplicate key update
             ready_at = values(ready_at),
             attempt = values(attempt),
             is_called_back = 0",
    );
}
