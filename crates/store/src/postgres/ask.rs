//! Questions to the server: a text with typed values, and flights of several that are sent without waiting in between.
//!
//! Values carry their types, so that one round trip is enough also for a statement that has no name: that is what a pooler
//! that gives each transaction another session asks for. A text that is always the same may be prepared by name instead
//! (`line`); one that is put together is used too seldom, or names tables that come and go.

use std::borrow::Cow;

use punctual_core::model::RunId;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql, Type};

use super::text;
use super::trouble::{Trouble, corrupt};
pub(super) use crate::rows::Cells as Columns;

/// A value with a type of its own on the server.
pub(super) trait Value: ToSql + Sync + Send + 'static {
    const TYPE: Type;
}

macro_rules! values {
    ($($rust:ty => $type:ident),+ $(,)?) => {
        $(impl Value for $rust {
            const TYPE: Type = Type::$type;
        })+
    };
}

values!(
    i64 => INT8,
    Option<i64> => INT8,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    String => TEXT,
    Option<String> => TEXT,
    Vec<String> => TEXT_ARRAY,
    Vec<Option<String>> => TEXT_ARRAY,
    Option<Vec<String>> => TEXT_ARRAY,
    bool => BOOL,
    Option<bool> => BOOL,
    Vec<bool> => BOOL_ARRAY,
    Vec<Option<bool>> => BOOL_ARRAY,
    Vec<u8> => BYTEA,
    Vec<Vec<u8>> => BYTEA_ARRAY,
);

/// A question.
pub(super) struct Ask {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
    /// Whether the text will be asked again and again.
    is_lasting: bool,
}

impl Ask {
    pub(super) fn new(sql: impl Into<Cow<'static, str>>) -> Ask {
        let sql = sql.into();
        let is_lasting = matches!(sql, Cow::Borrowed(_));
        Ask { sql, values: Vec::new(), is_lasting }
    }

    /// A question whose text is put together, and always in the same way.
    pub(super) fn lasting(sql: String) -> Ask {
        Ask { sql: sql.into(), values: Vec::new(), is_lasting: true }
    }

    /// The text, if it may be prepared.
    pub(super) fn lasting_text(&self) -> Option<&str> {
        self.is_lasting.then_some(&*self.sql)
    }

    pub(super) fn types(&self) -> Vec<Type> {
        self.values.iter().map(|(_, kind)| kind.clone()).collect()
    }

    /// The next value, as `$1` and so on.
    pub(super) fn with<V: Value>(mut self, value: V) -> Ask {
        self.values.push((Box::new(value), V::TYPE));
        self
    }

    /// Runs by their ids, as three values: the ids, and the least and the greatest of them, by which the server leaves out the
    /// tables of all other days.
    pub(super) fn with_runs<'a>(self, runs: impl IntoIterator<Item = &'a RunId>) -> Ask {
        let ids: Vec<i64> = runs.into_iter().map(|run| run_code(*run)).collect();
        let (least, greatest) = span(&ids);
        self.with(ids).with(least).with(greatest)
    }
}

/// The least and the greatest; of none, a span that holds nothing.
pub(super) fn span(ids: &[i64]) -> (i64, i64) {
    let least = ids.iter().copied().min().unwrap_or(0);
    (least, ids.iter().copied().max().unwrap_or(-1))
}

pub(super) fn run_code(run: RunId) -> i64 {
    i64::try_from(run.0).unwrap_or(i64::MAX)
}

pub(super) fn text_code(text: &str) -> String {
    text::kept(text).into_owned()
}

/// Several questions, sent together.
#[derive(Default)]
pub(super) struct Pipeline {
    pub(super) asks: Vec<Ask>,
}

/// Which question of a flight.
#[derive(Clone, Copy)]
pub(super) struct Seat(usize);

impl Pipeline {
    pub(super) fn new() -> Pipeline {
        Pipeline::default()
    }

    /// A flight that begins a transaction. Should this process stop in the middle of it, the server ends it soon.
    pub(super) fn begin() -> Pipeline {
        let mut flight = Pipeline::new();
        flight.add(Ask::new("begin isolation level read committed"));
        flight.add(Ask::new("set local idle_in_transaction_session_timeout = 2000"));
        flight
    }

    /// A flight that begins to read in one snapshot.
    pub(super) fn snapshot() -> Pipeline {
        let mut flight = Pipeline::new();
        flight.add(Ask::new("begin isolation level repeatable read read only"));
        flight
    }

    pub(super) fn add(&mut self, ask: Ask) -> Seat {
        self.asks.push(ask);
        Seat(self.asks.len() - 1)
    }

    pub(super) fn commit(&mut self) {
        self.add(Ask::new("commit"));
    }
}

/// The answers of a flight.
pub(super) struct Landed(pub(super) Vec<Vec<Row>>);

impl Landed {
    pub(super) fn take(&mut self, seat: Seat) -> Vec<Row> {
        std::mem::take(&mut self.0[seat.0])
    }
}

/// A column as any type that the driver knows.
pub(super) trait ReadSql {
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, Trouble>;
}

impl ReadSql for Row {
    fn read<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, Trouble> {
        self.try_get(column).map_err(|error| {
            let name = self.columns().get(column).map_or("?", |column| column.name());
            corrupt("column", name, error).into()
        })
    }
}

impl Columns for Row {
    type Error = Trouble;

    fn number(&self, column: usize) -> Result<i64, Trouble> {
        self.read(column)
    }

    fn maybe(&self, column: usize) -> Result<Option<i64>, Trouble> {
        self.read(column)
    }

    fn string(&self, column: usize) -> Result<String, Trouble> {
        Ok(text::told(self.read(column)?))
    }

    fn maybe_string(&self, column: usize) -> Result<Option<String>, Trouble> {
        Ok(self.read::<Option<String>>(column)?.map(text::told))
    }

    fn flag(&self, column: usize) -> Result<bool, Trouble> {
        self.read(column)
    }

    fn maybe_flag(&self, column: usize) -> Result<Option<bool>, Trouble> {
        self.read(column)
    }

    fn blob(&self, column: usize) -> Result<&[u8], Trouble> {
        self.read(column)
    }
}
