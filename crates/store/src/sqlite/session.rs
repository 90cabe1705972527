//! Verbs that are written once, on the threads of the embedded store: every statement is answered at once, so a verb is polled
//! once and is done.

use futures_util::FutureExt;
use punctual_core::model::RunId;
use punctual_node::ports::StoreError;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use super::Sqlite;
use super::day::{Table, has_table};
use super::keeper::Keeper;
use super::pen::ROW_BYTES;
use super::reader::Reader;
use super::trouble::Trouble;
use super::writer::Size;
use crate::dialect::SqlDialect;
use crate::verbs::session::{BesideTable, Cell, Record, Reply, SqlSession};
use crate::verbs::statement::{Statement, Value};
use crate::verbs::{Access, ColdVerb, RunsCold};

impl RunsCold for Sqlite {
    async fn cold<V: ColdVerb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        match verb.access() {
            Access::Write(rows) => {
                self.requests().ask(Size::Write(rows), move |keeper| run(&verb, &mut Writing(keeper))).await
            }
            // Through the writer: checks of tokens, and the steps' questions, do not wait for long reads in the readers.
            Access::Look | Access::Admit => {
                self.requests().ask(Size::Look, move |keeper| run(&verb, &mut Writing(keeper))).await
            }
            Access::Read => self.readers().read(move |reader| run(&verb, &mut Reading(reader))).await,
        }
    }
}

fn run<V: ColdVerb, S: SqlSession<Trouble = Trouble>>(
    verb: &V,
    session: &mut S,
) -> Result<V::Answer, Trouble> {
    verb.run(session).now_or_never().expect("a file answers at once")
}

/// On the writer's thread, in the transaction of its round.
struct Writing<'k>(&'k mut Keeper);

/// On a reader's thread.
struct Reading<'r>(&'r mut Reader);

impl SqlSession for Writing<'_> {
    type Trouble = Trouble;

    async fn send(&mut self, statements: Vec<Statement>, _is_last: bool) -> Result<Vec<Reply>, Trouble> {
        send(&self.0.conn, &statements)
    }

    async fn now(&mut self) -> Result<i64, Trouble> {
        Ok(self.0.now().as_millis())
    }

    async fn keep_beside(&mut self, run: RunId, table: BesideTable, row: Statement) -> Result<(), Trouble> {
        let Keeper { conn, side, .. } = &mut *self.0;
        if !side.is_there(conn, run)? {
            return Ok(());
        }
        let (day, table) = (run.day(), table_of(table));
        side.days.ensure(conn, day, table)?;
        let replaced = if table == Table::Logs { bytes_of_log(conn, day, &row)? } else { 0 };
        let text =
            row.values.iter().map(|value| if let Value::Text(Some(text)) = value { text.len() } else { 0 });
        let written = ROW_BYTES + text.sum::<usize>() as u64;
        ask(conn, &Statement { beside: table.of(day), ..row })?;
        if table == Table::Logs {
            let day = side.days.edit(day);
            day.bytes = (day.bytes + written).saturating_sub(replaced);
        }
        Ok(())
    }

    async fn read_beside(
        &mut self,
        run: RunId,
        table: BesideTable,
        select: Statement,
    ) -> Result<Vec<Record>, Trouble> {
        read_beside(&self.0.conn, run, table, select)
    }
}

impl SqlSession for Reading<'_> {
    type Trouble = Trouble;

    async fn send(&mut self, statements: Vec<Statement>, _is_last: bool) -> Result<Vec<Reply>, Trouble> {
        let transaction = self.0.conn.unchecked_transaction()?;
        send(&transaction, &statements)
    }

    async fn now(&mut self) -> Result<i64, Trouble> {
        Ok((self.0.clock)().as_millis())
    }

    async fn keep_beside(
        &mut self,
        _run: RunId,
        _table: BesideTable,
        _row: Statement,
    ) -> Result<(), Trouble> {
        unreachable!("readers do not write")
    }

    async fn read_beside(
        &mut self,
        run: RunId,
        table: BesideTable,
        select: Statement,
    ) -> Result<Vec<Record>, Trouble> {
        // In one snapshot, or the table could go after it was seen.
        let transaction = self.0.conn.unchecked_transaction()?;
        read_beside(&transaction, run, table, select)
    }
}

fn read_beside(
    conn: &Connection,
    run: RunId,
    table: BesideTable,
    select: Statement,
) -> Result<Vec<Record>, Trouble> {
    let (day, table) = (run.day(), table_of(table));
    if !has_table(conn, table, day)? {
        return Ok(Vec::new());
    }
    Ok(ask(conn, &Statement { beside: table.of(day), ..select })?.rows)
}

fn table_of(beside: BesideTable) -> Table {
    match beside {
        BesideTable::Logs => Table::Logs,
        BesideTable::Kills => Table::Kills,
    }
}

/// How much a log counts that is about to be written over.
fn bytes_of_log(conn: &Connection, day: u32, row: &Statement) -> Result<u64, Trouble> {
    let mut select = conn.prepare_cached(&format!(
        "select octet_length(text)
         from logs_{day}
         where run = ?1 and attempt = ?2"
    ))?;
    let key = params![row.values[0], row.values[1]];
    let length = select.query_row(key, |row| row.get::<_, i64>(0)).optional()?;
    Ok(length.map_or(0, |length| ROW_BYTES + length as u64))
}

fn send(conn: &Connection, statements: &[Statement]) -> Result<Vec<Reply>, Trouble> {
    statements.iter().map(|statement| ask(conn, statement)).collect()
}

pub(super) fn ask(conn: &Connection, statement: &Statement) -> Result<Reply, Trouble> {
    let [text] = &SqlDialect::Sqlite.texts(statement)[..] else { unreachable!("nothing is kept aside here") };
    let mut prepared = conn.prepare_cached(text)?;
    let values = params_from_iter(&statement.values);
    let width = prepared.column_count();
    if width == 0 {
        return Ok(Reply { rows: Vec::new(), affected: prepared.execute(values)? as u64 });
    }
    let mut rows = prepared.query(values)?;
    let mut reply = Reply::default();
    while let Some(row) = rows.next()? {
        let cells = (0..width).map(|column| Ok(cell(row.get_ref(column)?)));
        reply.rows.push(Record(cells.collect::<rusqlite::Result<_>>()?));
    }
    Ok(reply)
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        // No column of ours holds such a number.
        ValueRef::Real(_) | ValueRef::Null => Cell::Null,
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let number = |number: Option<i64>| number.map_or(ValueRef::Null, ValueRef::Integer);
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Number(value) => number(*value),
            Value::Bits(bits) => ValueRef::Integer(*bits as i64),
            Value::Flag(flag) => number(flag.map(i64::from)),
            Value::Text(text) => text.as_ref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
