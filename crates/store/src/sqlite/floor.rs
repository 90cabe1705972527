//! Floors: how far the checkpoint of each shard may move up. Known in memory, so that a birth costs a comparison, and
//! kept in the rows of the shards.

use calendar::Timestamp;
use punctual_core::model::ShardId;
use punctual_core::wheel::Mark;
use rusqlite::{Connection, params};

use super::code::{bits, instant};

/// The checkpoint of a shard, and the earliest birth since it last moved up.
#[derive(Clone, Copy)]
pub(super) struct Floor {
    pub(super) checkpoint: Mark,
    pub(super) earliest: Timestamp,
}

/// The floors of all shards, by their numbers.
#[derive(Default)]
pub(super) struct Floors(Vec<Floor>);

impl Floors {
    pub(super) fn read(conn: &Connection) -> rusqlite::Result<Floors> {
        let mut select = conn.prepare_cached(
            "select checkpoint_due, checkpoint_run, floor
             from shards
             order by shard",
        )?;
        let floor = |row: &rusqlite::Row<'_>| {
            let checkpoint = Mark { due: instant(row, 0)?, id: bits(row, 1)? };
            Ok(Floor { checkpoint, earliest: instant(row, 2)? })
        };
        Ok(Floors(select.query_map([], floor)?.collect::<rusqlite::Result<_>>()?))
    }

    pub(super) fn of(&mut self, shard: ShardId) -> Option<&mut Floor> {
        self.0.get_mut(usize::from(shard.0))
    }

    /// Notes a birth. Due times mostly rise, so it is seldom the earliest.
    pub(super) fn note(&mut self, conn: &Connection, shard: ShardId, due: Timestamp) -> rusqlite::Result<()> {
        let Some(floor) = self.of(shard).filter(|floor| due < floor.earliest) else { return Ok(()) };
        floor.earliest = due;
        floor.checkpoint = floor.checkpoint.min(Mark { due, id: 0 });
        let mut update = conn.prepare_cached(
            "update shards
             set checkpoint_due = ?2, checkpoint_run = ?3, floor = ?4
             where shard = ?1",
        )?;
        let Floor { checkpoint, earliest } = *floor;
        update.execute(params![
            shard.0,
            checkpoint.due.as_millis(),
            checkpoint.id as i64,
            earliest.as_millis(),
        ])?;
        Ok(())
    }
}
