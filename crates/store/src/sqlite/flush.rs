//! Writing the late indexes: sorted, a little with every round, so that no commit waits long for it.
//!
//! A flush takes over what is in a tail when it begins. Until it ends, the marks in `buckets` stay where they were; a crash
//! in between only means that the same entries are read into the tail and written once more.

use punctual_core::model::RunId;
use rusqlite::{Connection, params};

use super::births::Birth;
use super::day::{Kind, PerDay, Table};
use super::keeper::Side;

/// How many index rows a round writes at least and at most.
const CHUNK_MIN: usize = 512;
const CHUNK_MAX: usize = 4_096;

/// How many runs a round looks at to find those that are still open.
const LOOK_MAX: usize = 16_384;

/// How a run comes into the due index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexed {
    /// With a flush, into the layer that it writes.
    InOrder,
    /// Alone, because the index is past its id.
    Late,
}

/// When to begin a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// When there are so many runs in the tail, or half as many closes, which have to be sorted in one go.
    Longer(usize),
    /// In any case: the file is being closed.
    All,
}

impl Side {
    /// Begins a flush if it is time for one. Only between rounds: what a round wrote must be committed.
    pub(super) fn begin_flush(&mut self, when: Flush) {
        let (due_max, closes_max) = match when {
            Flush::Longer(max) => (max, max / 2),
            Flush::All => (0, 0),
        };
        if !self.births.is_flushing() && self.births.len() > due_max {
            self.births.begin_flush();
            for number in self.days.numbers() {
                let day = self.days.edit(number);
                day.due_mark_then = day.next_run;
                day.young_from = u64::MAX;
            }
        }
        if !self.closes.is_flushing() && self.closes.read().young.len() > closes_max {
            self.closes.begin_flush();
            for number in self.days.numbers() {
                let day = self.days.edit(number);
                day.close_mark_then = day.next_close - 1;
            }
        }
    }

    /// Whether a flush is under way.
    pub(super) fn is_flushing(&self) -> bool {
        self.births.is_flushing() || self.closes.is_flushing()
    }

    /// Writes the next part of a flush; `written` is how many rows the round wrote already. The flush goes on twice as
    /// fast as the tail grows again.
    pub(super) fn flush_some(&mut self, conn: &Connection, written: usize) -> rusqlite::Result<()> {
        let chunk = (2 * written).clamp(CHUNK_MIN, CHUNK_MAX);
        if self.births.is_flushing() {
            self.flush_due(conn, chunk)?;
        } else if self.closes.is_flushing() {
            self.flush_closes(conn, chunk)?;
        }
        Ok(())
    }

    fn flush_due(&mut self, conn: &Connection, chunk: usize) -> rusqlite::Result<()> {
        let mut insert = PerDay::new(conn, insert_due);
        let mut left = chunk;
        for _ in 0..LOOK_MAX {
            let Some(((due, run), birth)) = self.births.pop_old() else { break };
            let standing = self.known.of(conn, &self.days, RunId(run))?;
            // Whoever waits or is gated is found elsewhere from now on, until it is closed.
            if standing.is_closed || standing.is_engaged {
                continue;
            }
            self.index_birth(conn, &mut insert, Indexed::InOrder, due, RunId(run), &birth)?;
            left -= 1;
            if left == 0 {
                break;
            }
        }
        if !self.births.is_flushing() {
            self.days.finish_layers(conn, Kind::Due)?;
            for number in self.days.numbers() {
                let day = self.days.edit(number);
                day.due_mark = day.due_mark.max(day.due_mark_then.min(day.young_from));
            }
        }
        Ok(())
    }

    /// Puts a run into the due index of its day.
    pub(super) fn index_birth(
        &mut self,
        conn: &Connection,
        insert: &mut PerDay<'_>,
        indexed: Indexed,
        due: i64,
        run: RunId,
        birth: &Birth,
    ) -> rusqlite::Result<()> {
        let number = run.day();
        self.days.ensure(conn, number, Table::Due)?;
        let day = self.days.edit(number);
        let layer = match indexed {
            Indexed::InOrder => day.build(Kind::Due, due),
            Indexed::Late => day.stray(due),
        };
        let fire_time = (birth.fire_time != due).then_some(birth.fire_time);
        insert.of(number)?.execute(params![
            layer,
            due,
            run.0 as i64,
            birth.job,
            birth.shard,
            birth.traits.0,
            fire_time
        ])?;
        Ok(())
    }

    fn flush_closes(&mut self, conn: &Connection, chunk: usize) -> rusqlite::Result<()> {
        let mut insert = PerDay::new(conn, |day| {
            format!(
                "insert into closed_{day} (layer, run, place)
                 values (?1, ?2, ?3)"
            )
        });
        let from = self.closes.flushed;
        let until = self.closes.flushing.len().min(from + chunk);
        for (run, place) in &self.closes.flushing[from..until] {
            // A day that was pruned meanwhile has no index any more.
            let number = RunId(*run).day();
            if self.days.has(number, Table::Closes) {
                let layer = self.days.edit(number).build(Kind::Closed, *run as i64);
                insert.of(number)?.execute(params![layer, *run as i64, place])?;
            }
        }
        self.closes.flushed = until;
        if until == self.closes.flushing.len() {
            self.closes.end_flush();
            self.days.finish_layers(conn, Kind::Closed)?;
            for number in self.days.numbers() {
                let day = self.days.edit(number);
                day.close_mark = day.close_mark.max(day.close_mark_then);
            }
        }
        Ok(())
    }
}

/// The statement that puts a run into the due index.
pub(super) fn insert_due(day: u32) -> String {
    format!(
        "insert or ignore into due_{day} (layer, due, run, job, shard, traits, fire_time)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    )
}
