//! Writing the late indexes: sorted, a little with every round, so that no commit waits long for it.
//!
//! A flush takes over what is in a tail when it begins. Until it ends, the marks in `buckets` stay where they were; a crash
//! in between only means that the same entries are read into the tail and written once more.

use punctual_core::model::RunId;
use rusqlite::Connection;

use super::births::Entry;
use super::day::{Kind, Table};
use super::keeper::Side;
use super::layer::Blocks;

/// How many entries a round looks at, at least and at most: one costs some 50 ns.
const CHUNK_MIN: usize = 1_024;
const CHUNK_MAX: usize = 16_384;

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
    /// fast as the tail grows again, and takes some rounds however short the tail may be.
    pub(super) fn flush_some(
        &mut self,
        conn: &Connection,
        written: usize,
        tail_max: usize,
    ) -> rusqlite::Result<()> {
        let chunk = (2 * written).clamp(CHUNK_MIN.min(1 + tail_max / 8), CHUNK_MAX);
        if self.births.is_flushing() {
            self.flush_due(conn, chunk)?;
        } else if self.closes.is_flushing() {
            self.flush_closes(conn, chunk)?;
        }
        Ok(())
    }

    fn flush_due(&mut self, conn: &Connection, chunk: usize) -> rusqlite::Result<()> {
        let mut blocks = Blocks::of_births(conn);
        for _ in 0..chunk {
            let Some(entry) = self.births.pop_old() else { break };
            let run = RunId(entry.0.1);
            let standing = self.known.of(conn, &self.days, run)?;
            // A run that waits or is gated is found elsewhere from now on, until it is closed.
            if !standing.is_closed && !standing.is_engaged {
                self.days.ensure(conn, run.day(), Table::Due)?;
                let layer = self.days.edit(run.day()).build(Kind::Due, entry.0.0);
                blocks.push_birth(layer, &entry)?;
            }
        }
        blocks.finish()?;
        if !self.births.is_flushing() {
            self.days.finish_layers(conn, Kind::Due)?;
            for number in self.days.numbers() {
                let day = self.days.edit(number);
                day.due_mark = day.due_mark.max(day.due_mark_then.min(day.young_from));
            }
        }
        Ok(())
    }

    fn flush_closes(&mut self, conn: &Connection, chunk: usize) -> rusqlite::Result<()> {
        let mut blocks = Blocks::of_closes(conn);
        let from = self.closes.flushed;
        let until = self.closes.flushing.len().min(from + chunk);
        for (run, place) in &self.closes.flushing[from..until] {
            // A day that was pruned meanwhile has no index any more.
            let run = RunId(*run);
            if self.days.has(run.day(), Table::Closes) {
                let layer = self.days.edit(run.day()).build(Kind::Closed, run.0 as i64);
                blocks.push_close(layer, run, *place)?;
            }
        }
        blocks.finish()?;
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

    /// Puts a run into the due index at once, because the index is past its id already.
    pub(super) fn index_stray(&mut self, conn: &Connection, entry: &Entry) -> rusqlite::Result<()> {
        let number = RunId(entry.0.1).day();
        self.days.ensure(conn, number, Table::Due)?;
        let layer = self.days.edit(number).stray(entry.0.0);
        let mut blocks = Blocks::of_births(conn);
        blocks.push_birth(layer, entry)?;
        blocks.finish()
    }
}
