//! What the server said: rows of cells, which are read as what they should be or found to be corrupt.

use calendar::Timestamp;
use mysql_async::{Row, Value};
use punctual_core::model::{Attempt, JobId, NodeId, RunId, ShardId, Text};
use punctual_node::ports::StoreError;

use super::trouble::Trouble;
use crate::rows::{Cells, corrupt};
use crate::verbs::session::{self, Cell};

/// What the server said to one statement.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) rows: Vec<Record>,
    pub(super) affected: u64,
}

impl Said {
    /// The first row, if there is one.
    pub(super) fn first(&self) -> Option<&Record> {
        self.rows.first()
    }

    /// The number in the first cell of all.
    pub(super) fn number(&self) -> Result<Option<i64>, Trouble> {
        self.first().map(|row| row.int(0)).transpose()
    }
}

/// One row.
#[derive(Debug)]
pub(super) struct Record(Vec<Value>);

impl From<Row> for Record {
    fn from(row: Row) -> Record {
        Record(row.unwrap())
    }
}

impl From<Record> for session::Record {
    fn from(row: Record) -> session::Record {
        let cell = |value| if let Value::Bytes(bytes) = value { Cell::Bytes(bytes) } else { Cell::Null };
        session::Record(row.0.into_iter().map(cell).collect())
    }
}

impl Record {
    /// How many cells it has.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_null(&self, cell: usize) -> bool {
        matches!(self.0.get(cell), None | Some(Value::NULL))
    }

    pub(super) fn int(&self, cell: usize) -> Result<i64, Trouble> {
        self.number(cell)
    }

    pub(super) fn uint(&self, cell: usize) -> Result<u64, Trouble> {
        self.number(cell)
    }

    pub(super) fn flag(&self, cell: usize) -> Result<bool, Trouble> {
        self.int(cell).map(|value| value != 0)
    }

    pub(super) fn at(&self, cell: usize) -> Result<Timestamp, Trouble> {
        self.int(cell).map(Timestamp::from_millis)
    }

    pub(super) fn run(&self, cell: usize) -> Result<RunId, Trouble> {
        self.uint(cell).map(RunId)
    }

    pub(super) fn job(&self, cell: usize) -> Result<JobId, Trouble> {
        self.number(cell).map(JobId)
    }

    pub(super) fn shard(&self, cell: usize) -> Result<ShardId, Trouble> {
        self.number(cell).map(ShardId)
    }

    pub(super) fn attempt(&self, cell: usize) -> Result<Attempt, Trouble> {
        self.number(cell).map(Attempt)
    }

    pub(super) fn node(&self, cell: usize) -> Result<NodeId, Trouble> {
        let bytes: [u8; 16] = self.bytes(cell)?.try_into().map_err(|_| self.bad(cell, "no node"))?;
        Ok(NodeId(u128::from_be_bytes(bytes)))
    }

    pub(super) fn string(&self, cell: usize) -> Result<String, Trouble> {
        String::from_utf8(self.bytes(cell)?.to_vec()).map_err(|_| self.bad(cell, "no UTF-8"))
    }

    pub(super) fn text(&self, cell: usize) -> Result<Text, Trouble> {
        self.string(cell).map(Text::from)
    }

    pub(super) fn bytes(&self, cell: usize) -> Result<&[u8], Trouble> {
        match self.0.get(cell) {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            _ => Err(self.bad(cell, "no text")),
        }
    }

    /// What a cell holds, unless it is null.
    pub(super) fn maybe<'r, T>(
        &'r self,
        cell: usize,
        read: impl FnOnce(&'r Record, usize) -> Result<T, Trouble>,
    ) -> Result<Option<T>, Trouble> {
        if self.is_null(cell) { Ok(None) } else { read(self, cell).map(Some) }
    }

    /// Numbers come as text, since nothing is prepared.
    pub(super) fn number<T: std::str::FromStr>(&self, cell: usize) -> Result<T, Trouble> {
        let text = std::str::from_utf8(self.bytes(cell)?).ok();
        text.and_then(|text| text.parse().ok()).ok_or_else(|| self.bad(cell, "no such number"))
    }

    fn bad(&self, cell: usize, reason: &str) -> Trouble {
        let first = match self.0.first() {
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned(),
            _ => String::new(),
        };
        Trouble::Refused(corrupt("a", format!("of {first} in cell {cell}"), reason))
    }
}

impl Cells for Record {
    type Error = Trouble;

    fn number(&self, cell: usize) -> Result<i64, Trouble> {
        self.int(cell)
    }

    fn maybe(&self, cell: usize) -> Result<Option<i64>, Trouble> {
        self.maybe(cell, Record::int)
    }

    fn string(&self, cell: usize) -> Result<String, Trouble> {
        self.string(cell)
    }

    fn maybe_string(&self, cell: usize) -> Result<Option<String>, Trouble> {
        self.maybe(cell, Record::string)
    }

    fn flag(&self, cell: usize) -> Result<bool, Trouble> {
        self.flag(cell)
    }

    fn maybe_flag(&self, cell: usize) -> Result<Option<bool>, Trouble> {
        self.maybe(cell, Record::flag)
    }

    fn blob(&self, cell: usize) -> Result<&[u8], Trouble> {
        self.bytes(cell)
    }

    fn bits(&self, cell: usize) -> Result<u64, Trouble> {
        self.uint(cell)
    }
}

/// Leaves out what cannot be read, and passes on every other trouble.
pub(super) fn readable<T>(read: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(Trouble::Refused(StoreError::Corrupt { .. })) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}
