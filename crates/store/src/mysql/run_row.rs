//! The row of a run: everything that names its columns.

use calendar::Timestamp;
use punctual_core::model::NewRun;
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
    unique key named (named_at, job),
    key by_due (due, id, shard),
    key by_job (job, id)";

/// What [`crate::rows::born`] reads.
pub(super) const BORN: &str = "r.id, r.job, r.shard, r.fire_time, r.due, r.origin, r.decided, r.priority, \
                               r.payload is not null";

/// The same of a run that waits, in the tables `waiting`: it repeats what the wheel needs.
pub(super) const BORN_WAITING: &str = "w.run, w.job, w.shard, w.fire_time, w.ready_at, w.origin, w.decided, w.priority, \
                                       w.has_payload";

/// What [`crate::rows::run_view`] reads.
pub(super) const VIEW: &str = "r.id, r.job, r.shard, r.fire_time, r.due, r.origin, r.decided, r.priority, r.key_text, \
                               r.`of`, r.payload";

/// How many cells that are.
pub(super) const VIEW_CELLS: usize = 11;

/// Writes runs into the tables of a day.
pub(super) fn insert_runs(script: &mut Script, home: u32, runs: &[&NewRun]) {
    script.push_rows(
        &format!(
            "insert into {} (id, job, shard, fire_time, due, origin, decided, priority, `of`, named_at,
                             key_text, payload) values ",
            Table::Runs.of(home)
        ),
        runs.iter().map(|run| run_row(run)),
        "",
    );
}

fn run_row(run: &NewRun) -> String {
    format!(
        "({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {})",
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
    )
}

/// Writes what runs wait for, with what the wheel needs of them.
pub(super) fn insert_waits(script: &mut Script, rows: Vec<String>) {
    script.push_rows(
        "insert into waiting (run, job, shard, fire_time, due, origin, decided, priority, has_payload, ready_at,
                              attempt, is_called_back) values ",
        rows,
        " on duplicate key update
             ready_at = values(ready_at),
             attempt = values(attempt),
             is_called_back = 0",
    );
}

/// The row in `waiting` of a run that is due.
pub(super) fn wait_row(born: &Waiting, due: Timestamp, wait: &WaitRow) -> String {
    format!(
        "({}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, 0)",
        born.run,
        born.job,
        born.shard,
        ms(born.fire_time),
        ms(due),
        origin_code(born.origin),
        decided_code(born.decided),
        born.priority,
        u8::from(born.has_payload),
        maybe_ms(wait.ready_at),
        wait.attempt,
    )
}
