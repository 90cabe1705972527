//! Verbs that are written once, on a connection to MySQL: a script for what is asked together.

use punctual_core::model::RunId;
use punctual_node::ports::StoreError;

use super::MySql;
use super::ask::{Moment, Verb};
use super::day::Table;
use super::link::Line;
use super::read::Said;
use super::text::{Bytes, Maybe, Quoted, Script};
use super::trouble::Trouble;
use crate::dialect::SqlDialect;
use crate::verbs::session::{BesideTable, Record, Reply, SqlSession};
use crate::verbs::statement::{Statement, Value};
use crate::verbs::{Access, ColdVerb, RunsCold};

impl RunsCold for MySql {
    async fn cold<V: ColdVerb>(&self, verb: V) -> Result<V::Answer, StoreError> {
        match verb.access() {
            Access::Write(_) | Access::Look => self.engine.ask(&Cold(verb)).await,
            Access::Admit | Access::Read => self.read(&Cold(verb)).await,
        }
    }
}

/// A verb that is written once, as one of ours.
struct Cold<V>(V);

impl<V: ColdVerb> Verb for Cold<V> {
    type Answer = V::Answer;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<V::Answer, Trouble> {
        let is_writer = matches!(self.0.access(), Access::Write(_));
        let mut session = ColdSession { line, at, is_writer, is_open: false };
        let answer = self.0.run(&mut session).await?;
        if session.is_open {
            line.say("rollback").await?;
        }
        Ok(answer)
    }
}

struct ColdSession<'l> {
    line: &'l mut Line,
    at: &'l Moment,
    is_writer: bool,
    /// Whether a transaction has begun.
    is_open: bool,
}

impl SqlSession for ColdSession<'_> {
    type Trouble = Trouble;

    async fn send(&mut self, statements: Vec<Statement>, is_last: bool) -> Result<Vec<Reply>, Trouble> {
        let texts: Vec<Vec<String>> = statements.iter().map(texts).collect();
        let is_alone = is_last && !self.is_open && texts.iter().map(Vec::len).sum::<usize>() <= 1;
        let mut script = match (self.is_open || is_alone, self.is_writer) {
            (true, _) => Script::new(),
            (false, true) => Script::transaction(),
            (false, false) => Script::snapshot(),
        };
        let mut places = Vec::new();
        for texts in texts {
            let pushed: Vec<usize> = texts.into_iter().map(|text| script.push(text)).collect();
            places.push(pushed[0]);
        }
        if is_last && !is_alone {
            script.push("commit");
        }
        self.is_open = !is_last;
        let mut said = self.line.ask(script).await?;
        Ok(places.into_iter().map(|place| reply(std::mem::take(&mut said[place]))).collect())
    }

    async fn now(&mut self) -> Result<i64, Trouble> {
        Ok(self.line.say(format!("select {}", self.at.now())).await?.number()?.unwrap_or_default())
    }

    async fn keep_beside(&mut self, run: RunId, table: BesideTable, row: Statement) -> Result<(), Trouble> {
        let (days, table) = (&self.at.days, table_of(table));
        let Some((runs, _)) = days.runs(run) else { return self.check_days().await };
        if !days.has(run.day(), table) {
            return Err(Trouble::Lacks((run.day(), table)));
        }
        let mut script = Script::transaction();
        days.keep_far(&mut script, [run.day()]);
        let there = script.push(format!("select 1 from {runs} where id = {run} lock in share mode"));
        let watched = days.watch(&mut script);
        let said = self.line.ask(script).await?;
        days.check(&said[watched])?;
        let mut script = Script::new();
        if said[there].first().is_some() {
            for text in texts(&Statement { beside: table.of(run.day()), ..row }) {
                script.push(text);
            }
        }
        script.push("commit");
        self.line.ask(script).await?;
        Ok(())
    }

    async fn read_beside(
        &mut self,
        run: RunId,
        table: BesideTable,
        select: Statement,
    ) -> Result<Vec<Record>, Trouble> {
        let days = &self.at.days;
        let Some(table) = days.beside(table_of(table), run.day()) else {
            self.check_days().await?;
            return Ok(Vec::new());
        };
        let mut script = Script::snapshot();
        let watched = days.watch(&mut script);
        let found = script.push(texts(&Statement { beside: table, ..select }).swap_remove(0));
        script.push("commit");
        let mut said = self.line.ask(script).await?;
        days.check(&said[watched])?;
        Ok(reply(std::mem::take(&mut said[found])).rows)
    }
}

impl ColdSession<'_> {
    /// Refuses if what is known of the days is not so any more.
    async fn check_days(&mut self) -> Result<(), Trouble> {
        let mut script = Script::new();
        let watched = self.at.days.watch(&mut script);
        self.at.days.check(&self.line.ask(script).await?[watched])
    }
}

fn table_of(beside: BesideTable) -> Table {
    match beside {
        BesideTable::Logs => Table::Logs,
        BesideTable::Kills => Table::Kills,
    }
}

fn reply(said: Said) -> Reply {
    Reply { rows: said.rows.into_iter().map(Record::from).collect(), affected: said.affected }
}

/// The texts of a statement, with its values as literals.
pub(super) fn texts(statement: &Statement) -> Vec<String> {
    SqlDialect::MySql.texts(statement).iter().map(|text| filled(text, &statement.values)).collect()
}

fn filled(text: &str, values: &[Value]) -> String {
    let mut parts = text.split('?');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|next: char| !next.is_ascii_digit()).unwrap_or(part.len());
        let place: usize = part[..digits].parse().expect("values are numbered");
        filled += &literal(&values[place - 1]);
        filled += &part[digits..];
    }
    filled
}

fn literal(value: &Value) -> String {
    match value {
        Value::Number(number) => Maybe(*number).to_string(),
        Value::Bits(bits) => bits.to_string(),
        Value::Flag(flag) => Maybe(flag.map(u8::from)).to_string(),
        Value::Text(text) => Maybe(text.as_deref().map(Quoted)).to_string(),
        Value::Bytes(bytes) => Bytes(bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::statement::sql;

    #[test]
    fn values_stand_in_the_text_as_literals() {
        let statement = sql("update t set a = ?2, b = ?11 where c = ?1").with("it's ?2").with(None::<i64>);
        let statement = (3..=11).fold(statement, |statement, number: i64| statement.with(number));
        assert_eq!(texts(&statement), ["update t set a = null, b = 11 where c = 'it''s ?2'"]);
    }
}
