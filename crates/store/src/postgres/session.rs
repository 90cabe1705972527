//! Verbs that are written once, on a connection to PostgreSQL: what is asked together travels together.

use punctual_core::model::RunId;
use punctual_node::ports::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Postgres;
use super::ask::{Ask, Columns, Pipeline, ReadSql, Seat, run_code, text_code};
use super::line::Line;
use super::trouble::Trouble;
use crate::dialect::SqlDialect;
use crate::verbs::session::{BesideTable, Cell, Record, Reply, SqlSession};
use crate::verbs::statement::{Statement, Value};
use crate::verbs::{Access, ColdVerb, RunsCold};

impl RunsCold for Postgres {
    async fn cold<V: ColdVerb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        match verb.access() {
            Access::Write(_) | Access::Look => self.engine(|line| Box::pin(self.run_cold(line, &verb))).await,
            Access::Admit | Access::Read => self.people(|line| Box::pin(self.run_cold(line, &verb))).await,
        }
    }
}

impl Postgres {
    async fn run_cold<V: ColdVerb>(&self, line: &Line<'_>, verb: &V) -> Result<V::Answer, Trouble> {
        let is_writer = matches!(verb.access(), Access::Write(_));
        let mut session = ColdSession { store: self, line, is_writer, is_open: false };
        let answer = verb.run(&mut session).await?;
        if session.is_open {
            line.run("rollback").await?;
        }
        Ok(answer)
    }
}

struct ColdSession<'l> {
    store: &'l Postgres,
    line: &'l Line<'l>,
    is_writer: bool,
    /// Whether a transaction has begun.
    is_open: bool,
}

impl SqlSession for ColdSession<'_> {
    type Trouble = Trouble;

    async fn send(&mut self, statements: Vec<Statement>, is_last: bool) -> Result<Vec<Reply>, Trouble> {
        let is_alone = is_last && !self.is_open && statements.len() <= 1;
        let mut flight = match (self.is_open || is_alone, self.is_writer) {
            (true, _) => Pipeline::new(),
            (false, true) => Pipeline::begin(),
            (false, false) => Pipeline::snapshot(),
        };
        let seats: Vec<Seat> = statements.iter().map(|statement| flight.add(ask(statement))).collect();
        if is_last && !is_alone {
            flight.commit();
        }
        self.is_open = !is_last;
        let mut landed = self.line.fly(flight).await?;
        seats.into_iter().map(|seat| reply(&landed.take(seat))).collect()
    }

    async fn now(&mut self) -> Result<i64, Trouble> {
        if let Some(told) = self.store.told_now() {
            return Ok(told);
        }
        let now = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        self.line.ask(Ask::new(now)).await?.first().ok_or(Trouble::Moved)?.number(0)
    }

    async fn keep_beside(&mut self, run: RunId, table: BesideTable, row: Statement) -> Result<(), Trouble> {
        if self.store.check_beside([run.day()]).is_err() {
            let there = Ask::new("select 1 from all_runs where id = $1").with(run_code(run));
            if self.line.ask(there).await?.is_empty() {
                return Ok(());
            }
            // The tables of the day are made, and the verb begins again.
            self.store.check_beside([run.day()])?;
        }
        let guard = "exists (select from all_runs where id = $1)";
        let row = Statement { beside: parent(table).to_owned(), guard, ..row };
        self.line.ask(ask(&row)).await.map(drop)
    }

    async fn read_beside(
        &mut self,
        _run: RunId,
        table: BesideTable,
        select: Statement,
    ) -> Result<Vec<Record>, Trouble> {
        let select = Statement { beside: parent(table).to_owned(), ..select };
        Ok(reply(&self.line.ask(ask(&select)).await?)?.rows)
    }
}

fn parent(table: BesideTable) -> &'static str {
    match table {
        BesideTable::Logs => "logs",
        BesideTable::Kills => "kills",
    }
}

/// A statement as a question. Its text is one of a few, so it may be prepared.
pub(super) fn ask(statement: &Statement) -> Ask {
    let text = SqlDialect::Postgres.texts(statement).swap_remove(0);
    statement.values.iter().fold(Ask::lasting(text), |ask, value| match value {
        Value::Number(number) => ask.with(*number),
        Value::Bits(bits) => ask.with(*bits as i64),
        Value::Flag(flag) => ask.with(*flag),
        Value::Text(text) => ask.with(text.as_deref().map(text_code)),
        Value::Bytes(bytes) => ask.with(bytes.clone()),
    })
}

fn reply(rows: &[Row]) -> Result<Reply, Trouble> {
    let rows: Vec<Record> = rows.iter().map(record).collect::<Result<_, Trouble>>()?;
    Ok(Reply { affected: rows.len() as u64, rows })
}

fn record(row: &Row) -> Result<Record, Trouble> {
    let bytes = |bytes: Option<Vec<u8>>| bytes.map_or(Cell::Null, Cell::Bytes);
    let number = |number: Option<i64>| number.map_or(Cell::Null, Cell::Number);
    let cells = row.columns().iter().enumerate().map(|(place, column)| {
        Ok(match *column.type_() {
            Type::BOOL => number(row.maybe_flag(place)?.map(i64::from)),
            Type::INT2 => number(row.read::<Option<i16>>(place)?.map(i64::from)),
            Type::INT4 => number(row.read::<Option<i32>>(place)?.map(i64::from)),
            Type::INT8 => number(row.maybe(place)?),
            Type::BYTEA => bytes(row.read::<Option<&[u8]>>(place)?.map(<[u8]>::to_vec)),
            _ => bytes(row.maybe_string(place)?.map(String::into_bytes)),
        })
    });
    Ok(Record(cells.collect::<Result<_, Trouble>>()?))
}
