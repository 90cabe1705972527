//! What the writer knows about single runs without asking a table: whether they are there, closed, or entangled.
//!
//! Ids are dense within a day, so four bits a run in blocks of 4,096 answer what else would be four lookups for each
//! settlement. A block is read from the tables when it is first touched, and then kept exact by every write.
//! Measured: the lookups take a third of the time of a load and close in random order.

use punctual_core::model::RunId;
use rusqlite::Connection;
use rustc_hash::{FxHashMap, FxHashSet};

use super::day::{Days, Table};
use super::layer::indexed_closes;

/// Runs in a block.
const BLOCK_BITS: u32 = 12;
const WORDS: usize = (1 << BLOCK_BITS) / 64;

/// More blocks than these (32 MiB, the blocks of 64 million runs) are forgotten and read again when needed.
const BLOCKS_MAX: usize = 16_384;

/// What is known of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// Surely there. Not set means: not known.
    pub(super) is_there: bool,
    pub(super) is_closed: bool,
    /// It waits, is parked, or has gates or holds.
    pub(super) is_engaged: bool,
    /// A key belongs to it.
    pub(super) is_keyed: bool,
}

/// Which of the four.
#[derive(Clone, Copy)]
pub(super) enum Bit {
    There,
    Closed,
    Engaged,
    Keyed,
}

struct Block {
    words: [[u64; WORDS]; 4],
}

/// All blocks that were touched.
#[derive(Default)]
pub(super) struct Known {
    blocks: FxHashMap<u64, Box<Block>>,
}

impl Known {
    /// What is known of a run. For an id beyond all days, nothing.
    pub(super) fn of(&mut self, conn: &Connection, days: &Days, run: RunId) -> rusqlite::Result<Standing> {
        let block = self.block(conn, days, run)?;
        let (word, mask) = place(run);
        let is = |bit: Bit| block.words[bit as usize][word] & mask != 0;
        Ok(Standing {
            is_there: is(Bit::There),
            is_closed: is(Bit::Closed),
            is_engaged: is(Bit::Engaged),
            is_keyed: is(Bit::Keyed),
        })
    }

    /// Notes something that the round writes or read.
    pub(super) fn note(
        &mut self,
        conn: &Connection,
        days: &Days,
        run: RunId,
        bit: Bit,
    ) -> rusqlite::Result<()> {
        let block = self.block(conn, days, run)?;
        let (word, mask) = place(run);
        block.words[bit as usize][word] |= mask;
        Ok(())
    }

    /// Forgets that a run is there, but not that it is closed.
    pub(super) fn forget(&mut self, run: RunId) {
        if let Some(block) = self.blocks.get_mut(&(run.0 >> BLOCK_BITS)) {
            let (word, mask) = place(run);
            block.words[Bit::There as usize][word] &= !mask;
        }
    }

    /// Forgets the runs of a day that was dropped.
    pub(super) fn forget_day(&mut self, day: u32) {
        self.blocks.retain(|block, _| RunId(block << BLOCK_BITS).day() != day);
    }

    /// Makes room, but not for what only memory knows: closes that are not in their index yet.
    pub(super) fn shrink(&mut self, young_closes: impl Iterator<Item = u64>) {
        if self.blocks.len() > BLOCKS_MAX {
            let kept: FxHashSet<u64> = young_closes.map(|run| run >> BLOCK_BITS).collect();
            self.blocks.retain(|block, _| kept.contains(block));
        }
    }

    fn block(&mut self, conn: &Connection, days: &Days, run: RunId) -> rusqlite::Result<&mut Block> {
        use std::collections::hash_map::Entry;
        match self.blocks.entry(run.0 >> BLOCK_BITS) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(gap) => Ok(gap.insert(Box::new(read(conn, days, run)?))),
        }
    }
}

fn place(run: RunId) -> (usize, u64) {
    let within = run.0 & ((1 << BLOCK_BITS) - 1);
    ((within / 64) as usize, 1 << (within % 64))
}

fn read(conn: &Connection, days: &Days, run: RunId) -> rusqlite::Result<Block> {
    let mut block = Block { words: [[0; WORDS]; 4] };
    let first = (run.0 >> BLOCK_BITS) << BLOCK_BITS;
    let range = [first as i64, (first | ((1 << BLOCK_BITS) - 1)) as i64];
    let mut note = |bit: Bit, sql: &str| -> rusqlite::Result<()> {
        let mut select = conn.prepare_cached(sql)?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            let (word, mask) = place(RunId(row.get::<_, i64>(0)? as u64));
            block.words[bit as usize][word] |= mask;
        }
        Ok(())
    };
    let day = run.day();
    if days.has(day, Table::Sends) {
        note(Bit::Engaged, &format!("select run from sends_{day} where run between ?1 and ?2"))?;
    }
    note(Bit::Engaged, "select run from waiting where run between ?1 and ?2")?;
    note(Bit::Keyed, "select run from keys where run between ?1 and ?2")?;
    if days.has(day, Table::Closes) {
        let last = RunId(first | ((1 << BLOCK_BITS) - 1));
        indexed_closes(conn, RunId(first), last, |run| {
            let (word, mask) = place(run);
            block.words[Bit::Closed as usize][word] |= mask;
        })?;
    }
    Ok(block)
}
