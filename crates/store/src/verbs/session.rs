//! What a verb that is written once asks of a database.

use punctual_core::model::RunId;
use punctual_node::ports::StoreError;

use super::statement::Statement;
use crate::rows::{Cells, corrupt};

/// Where the statements of one verb go.
///
/// The first [`SqlSession::ask`] begins a transaction: one that writes, or a snapshot for a verb that only reads. A
/// [`SqlSession::commit`] ends it with its statements; without a transaction its statements are one of their own. A verb that
/// ends without a commit leaves nothing behind.
pub(crate) trait SqlSession: Send {
    type Trouble: From<StoreError> + Send;

    /// Sends statements, the last of the transaction or not.
    fn send(
        &mut self,
        statements: Vec<Statement>,
        is_last: bool,
    ) -> impl Future<Output = Result<Vec<Reply>, Self::Trouble>> + Send;

    /// The store's clock, in milliseconds.
    fn now(&mut self) -> impl Future<Output = Result<i64, Self::Trouble>> + Send;

    /// Writes a row beside a run, and commits. Nothing is written for a run that is not there: nothing would ever drop it.
    fn keep_beside(
        &mut self,
        run: RunId,
        table: BesideTable,
        statement: Statement,
    ) -> impl Future<Output = Result<(), Self::Trouble>> + Send;

    /// Reads rows beside a run.
    fn read_beside(
        &mut self,
        run: RunId,
        table: BesideTable,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<Record>, Self::Trouble>> + Send;

    fn ask<const N: usize>(
        &mut self,
        statements: [Statement; N],
    ) -> impl Future<Output = Result<[Reply; N], Self::Trouble>> + Send {
        async move { Ok(each(self.send(statements.into(), false).await?)) }
    }

    fn commit<const N: usize>(
        &mut self,
        statements: [Statement; N],
    ) -> impl Future<Output = Result<[Reply; N], Self::Trouble>> + Send {
        async move { Ok(each(self.send(statements.into(), true).await?)) }
    }
}

fn each<const N: usize>(replies: Vec<Reply>) -> [Reply; N] {
    replies.try_into().expect("every statement has a reply")
}

/// The tables beside runs that people read. They go with the day of their run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BesideTable {
    Logs,
    Kills,
}

/// What a database said to a statement.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) rows: Vec<Record>,
    /// How many rows were written. Not to be relied on where a row was written over.
    pub(crate) affected: u64,
}

impl Reply {
    pub(crate) fn first(&self) -> Option<&Record> {
        self.rows.first()
    }

    /// The number in the first cell of all, unless it is null.
    pub(crate) fn number(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.first().map(|row| row.maybe(0)).transpose()?.flatten())
    }
}

/// A row.
#[derive(Debug)]
pub(crate) struct Record(pub(crate) Vec<Cell>);

/// A cell as drivers give it: MySQL gives numbers as text, and texts are bytes.
#[derive(Debug)]
pub(crate) enum Cell {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

impl Record {
    fn parse<T: std::str::FromStr + TryFrom<i64>>(&self, cell: usize) -> Result<T, StoreError> {
        let number = match self.0.get(cell) {
            Some(Cell::Number(number)) => T::try_from(*number).ok(),
            Some(Cell::Bytes(bytes)) => std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()),
            Some(Cell::Null) | None => None,
        };
        number.ok_or_else(|| self.bad(cell, "no such number"))
    }

    fn unless_null<T>(
        &self,
        cell: usize,
        read: impl FnOnce(usize) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if matches!(self.0.get(cell), Some(Cell::Null)) { Ok(None) } else { read(cell).map(Some) }
    }

    fn bad(&self, cell: usize, reason: &str) -> StoreError {
        let first = match self.0.first() {
            Some(Cell::Number(number)) => number.to_string(),
            Some(Cell::Bytes(bytes)) => String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned(),
            Some(Cell::Null) | None => String::new(),
        };
        corrupt("a", format!("of {first} in cell {cell}"), reason)
    }
}

impl Cells for Record {
    type Error = StoreError;

    fn number(&self, cell: usize) -> Result<i64, StoreError> {
        self.parse(cell)
    }

    fn maybe(&self, cell: usize) -> Result<Option<i64>, StoreError> {
        self.unless_null(cell, |cell| self.number(cell))
    }

    fn string(&self, cell: usize) -> Result<String, StoreError> {
        String::from_utf8(self.blob(cell)?.to_vec()).map_err(|_| self.bad(cell, "no UTF-8"))
    }

    fn maybe_string(&self, cell: usize) -> Result<Option<String>, StoreError> {
        self.unless_null(cell, |cell| self.string(cell))
    }

    fn flag(&self, cell: usize) -> Result<bool, StoreError> {
        Ok(self.number(cell)? != 0)
    }

    fn maybe_flag(&self, cell: usize) -> Result<Option<bool>, StoreError> {
        self.unless_null(cell, |cell| self.flag(cell))
    }

    fn blob(&self, cell: usize) -> Result<&[u8], StoreError> {
        match self.0.get(cell) {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            _ => Err(self.bad(cell, "no text")),
        }
    }

    fn bits(&self, cell: usize) -> Result<u64, StoreError> {
        match self.0.get(cell) {
            Some(Cell::Number(number)) => Ok(*number as u64),
            _ => self.parse(cell),
        }
    }
}
