//! The layers of the late indexes: sorted entries, packed into blocks of one row each.
//!
//! A layer is written once and only read after that, so nothing is gained by a row for each entry. Measured: rows took a
//! sixth of the time of inserting, loading and closing; blocks take a fiftieth.
//!
//! A block's row has the place of its *last* entry as key: the first row at or after a place is the one that may hold it.

use punctual_core::model::RunId;
use punctual_node::ports::StoreError;
use rusqlite::{Connection, params};

use super::births::{Birth, Entry, Place, Traits};
use super::day::PerDay;
use super::trouble::{Trouble, corrupt};

/// A row of a table without row ids spills over into pages of its own when it is longer than about 2,030 bytes.
const BLOCK_BYTES: usize = 1_984;

/// The bit of the traits that says that the fire time follows, because it is not the due time.
const HAS_FIRE_TIME: u16 = 1 << 15;

/// The bit of the run that says that it has overrides: ids are below 2^53, and the traits are full.
const HAS_OVERRIDES: u64 = 1 << 63;

/// Packs entries of one index into blocks, one after the other.
pub(super) struct Blocks<'c> {
    insert: PerDay<'c>,
    open: Option<Open>,
}

struct Open {
    day: u32,
    layer: i64,
    last: Place,
    entries: Vec<u8>,
}

impl<'c> Blocks<'c> {
    /// Blocks of the due index.
    pub(super) fn of_births(conn: &'c Connection) -> Blocks<'c> {
        let insert = |day| {
            format!(
                "insert or replace into due_{day} (layer, due, run, entries)
                 values (?1, ?2, ?3, ?4)"
            )
        };
        Blocks { insert: PerDay::new(conn, insert), open: None }
    }

    /// Blocks of the index of closes.
    pub(super) fn of_closes(conn: &'c Connection) -> Blocks<'c> {
        let insert = |day| {
            format!(
                "insert into closed_{day} (layer, run, entries)
                 values (?1, ?3, ?4)"
            )
        };
        Blocks { insert: PerDay::new(conn, insert), open: None }
    }

    pub(super) fn push_birth(&mut self, layer: i64, entry: &Entry) -> rusqlite::Result<()> {
        let (place, _) = entry;
        pack_birth(self.block(RunId(place.1).day(), layer, *place)?, entry);
        Ok(())
    }

    pub(super) fn push_close(&mut self, layer: i64, run: RunId, place: i64) -> rusqlite::Result<()> {
        let entries = self.block(run.day(), layer, (0, run.0))?;
        entries.extend(run.0.to_le_bytes());
        entries.extend(place.to_le_bytes());
        Ok(())
    }

    /// Writes what is not written yet.
    pub(super) fn finish(&mut self) -> rusqlite::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let (due, run) = open.last;
        self.insert.of(open.day)?.execute(params![open.layer, due, run as i64, open.entries])?;
        Ok(())
    }

    /// The block that the next entry belongs to.
    fn block(&mut self, day: u32, layer: i64, place: Place) -> rusqlite::Result<&mut Vec<u8>> {
        let has_room =
            |open: &Open| open.day == day && open.layer == layer && open.entries.len() + 32 <= BLOCK_BYTES;
        if !self.open.as_ref().is_some_and(has_room) {
            self.finish()?;
        }
        let new = || Open { day, layer, last: place, entries: Vec::with_capacity(BLOCK_BYTES) };
        let open = self.open.get_or_insert_with(new);
        open.last = place;
        Ok(&mut open.entries)
    }
}

/// Adds an entry to a block of the due index.
pub(super) fn pack_birth(entries: &mut Vec<u8>, ((due, run), birth): &Entry) {
    let has_fire_time = birth.fire_time != *due;
    let traits = birth.traits.plain() | if has_fire_time { HAS_FIRE_TIME } else { 0 };
    let run = run | if birth.traits.has_overrides() { HAS_OVERRIDES } else { 0 };
    entries.extend(due.to_le_bytes());
    entries.extend(run.to_le_bytes());
    entries.extend(birth.job.to_le_bytes());
    entries.extend(birth.shard.to_le_bytes());
    entries.extend(traits.to_le_bytes());
    if has_fire_time {
        entries.extend(birth.fire_time.to_le_bytes());
    }
}

/// The entries of a block of the due index; none if no version of this program wrote it.
pub(super) fn unpack_births(mut bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::with_capacity(bytes.len() / 24);
    while !bytes.is_empty() {
        let due = i64::from_le_bytes(take(&mut bytes)?);
        let run = u64::from_le_bytes(take(&mut bytes)?);
        let job = u32::from_le_bytes(take(&mut bytes)?);
        let shard = u16::from_le_bytes(take(&mut bytes)?);
        let traits = u16::from_le_bytes(take(&mut bytes)?);
        let fire_time = if traits & HAS_FIRE_TIME == 0 { due } else { i64::from_le_bytes(take(&mut bytes)?) };
        let plain = Traits(traits & !HAS_FIRE_TIME);
        let traits = if run & HAS_OVERRIDES == 0 { plain } else { plain.with_overrides() };
        let run = run & !HAS_OVERRIDES;
        entries.push(((due, run), Birth { fire_time, job, shard, traits }));
    }
    Some(entries)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// The entries of a block of the index of closes: run and place.
fn unpack_closes(bytes: &[u8]) -> impl Iterator<Item = (u64, i64)> {
    bytes.as_chunks::<16>().0.iter().map(|entry| {
        let (run, place) = entry.split_at(8);
        let whole = |half: &[u8]| half.try_into().expect("half of 16 bytes");
        (u64::from_le_bytes(whole(run)), i64::from_le_bytes(whole(place)))
    })
}

/// An index that cannot be read is nothing to be passed over in silence: what it holds would never be fired.
pub(super) fn unreadable(day: u32) -> Trouble {
    let error: StoreError = corrupt("due index of day", i64::from(day), "a block is cut off");
    error.into()
}

/// The place of a run's close that is in the index of closes.
pub(super) fn indexed_close(conn: &Connection, run: RunId) -> rusqlite::Result<Option<i64>> {
    let number = run.day();
    let mut select = conn.prepare_cached(&format!(
        "select (
             select entries
             from closed_{number}
             where layer = layers.layer and run >= ?1
             order by run
             limit 1
         )
         from layers
         where day = ?2 and kind = 1 and low <= ?1 and high >= ?1"
    ))?;
    let mut rows = select.query(params![run.0 as i64, number])?;
    while let Some(row) = rows.next()? {
        let block = row.get_ref(0)?.as_blob_or_null()?;
        let mut entries = unpack_closes(block.unwrap_or_default());
        if let Some((_, place)) = entries.find(|(closed, _)| *closed == run.0) {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// The runs from `first` to `last`, of one day, whose closes are in the index of closes.
pub(super) fn indexed_closes(
    conn: &Connection,
    first: RunId,
    last: RunId,
    mut found: impl FnMut(RunId),
) -> rusqlite::Result<()> {
    let number = first.day();
    let mut layers = conn.prepare_cached(
        "select layer
         from layers
         where day = ?3 and kind = 1 and low <= ?2 and high >= ?1",
    )?;
    let mut blocks = conn.prepare_cached(&format!(
        "select entries
         from closed_{number}
         where layer = ?1 and run >= ?2
         order by run"
    ))?;
    let mut layers = layers.query(params![first.0 as i64, last.0 as i64, number])?;
    while let Some(layer) = layers.next()? {
        let mut rows = blocks.query(params![layer.get::<_, i64>(0)?, first.0 as i64])?;
        let mut is_past = false;
        while let Some(row) = rows.next()?.filter(|_| !is_past) {
            for (run, _) in unpack_closes(row.get_ref(0)?.as_blob()?) {
                is_past |= run > last.0;
                if (first.0..=last.0).contains(&run) {
                    found(RunId(run));
                }
            }
        }
    }
    Ok(())
}
