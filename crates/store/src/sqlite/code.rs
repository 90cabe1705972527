//! Columns as SQLite gives them; the numbers that stand for words are as in every database.

use calendar::Timestamp;
use rusqlite::Row;

use super::trouble::Trouble;
pub(super) use crate::code::*;
use crate::rows::Cells;

impl Cells for Row<'_> {
    type Error = Trouble;

    fn number(&self, cell: usize) -> Result<i64, Trouble> {
        Ok(self.get(cell)?)
    }

    fn maybe(&self, cell: usize) -> Result<Option<i64>, Trouble> {
        Ok(self.get(cell)?)
    }

    fn string(&self, cell: usize) -> Result<String, Trouble> {
        Ok(self.get(cell)?)
    }

    fn maybe_string(&self, cell: usize) -> Result<Option<String>, Trouble> {
        Ok(self.get(cell)?)
    }

    fn flag(&self, cell: usize) -> Result<bool, Trouble> {
        Ok(self.get(cell)?)
    }

    fn maybe_flag(&self, cell: usize) -> Result<Option<bool>, Trouble> {
        Ok(self.get(cell)?)
    }

    fn blob(&self, cell: usize) -> Result<&[u8], Trouble> {
        Ok(self.get_ref(cell)?.as_blob().map_err(rusqlite::Error::from)?)
    }
}

/// A column that holds an instant.
pub(super) fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_millis)
}

/// A column that holds an instant or nothing.
pub(super) fn instant_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_millis))
}

/// A column that holds a number which is kept bit by bit, as SQLite has no unsigned ones.
pub(super) fn bits(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|value| value as u64)
}
