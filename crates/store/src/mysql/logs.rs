//! What is kept beside runs, for people: what attempts wrote, and what came of kills. What is said of a run that is not
//! there is not kept, since nothing would ever drop it.

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{KeptLog, KillNote};

use super::ask::{Moment, Verb};
use super::day::{Days, Need, Table};
use super::link::Line;
use super::read::Said;
use super::text::{Maybe, Quoted, Script, ms};
use super::trouble::Trouble;
use crate::rows::{kept_log, kill_note};

/// A table beside a run, if the run is there.
fn need(days: &Days, run: RunId, table: Table) -> Vec<Need> {
    let is_there = days.has(days.home(run.day()), Table::Runs);
    if is_there { vec![(run.day(), table)] } else { Vec::new() }
}

/// Writes a row beside a run, if the run is there.
async fn keep(line: &mut Line, at: &Moment, run: RunId, statement: String) -> Result<(), Trouble> {
    let mut script = Script::transaction();
    at.days.keep_far(&mut script, [run.day()]);
    let there = script.push(match at.days.runs(run) {
        Some((runs, _)) => format!("select 1 from {runs} where id = {run} lock in share mode"),
        None => "select 1 from meta where 1 = 0".into(),
    });
    let days = at.days.watch(&mut script);
    let said = line.ask(script).await?;
    at.days.check(&said[days])?;
    let mut script = Script::new();
    if said[there].first().is_some() {
        script.push(statement);
    }
    script.push("commit");
    line.ask(script).await?;
    Ok(())
}

/// Reads rows beside a run.
async fn read(line: &mut Line, at: &Moment, table: Option<String>, select: &str) -> Result<Said, Trouble> {
    let mut script = Script::snapshot();
    let days = at.days.watch(&mut script);
    if let Some(table) = table {
        script.push(select.replace("{table}", &table));
    }
    script.push("commit");
    let mut said = line.ask(script).await?;
    at.days.check(&said[days])?;
    Ok(said.swap_remove(days + 1))
}

/// Keeps what an attempt wrote.
pub(super) struct KeepLog<'a> {
    pub(super) run: RunId,
    pub(super) attempt: Attempt,
    pub(super) log: &'a KeptLog,
}

impl Verb for KeepLog<'_> {
    type Answer = ();

    fn needs(&self, days: &Days) -> Vec<Need> {
        need(days, self.run, Table::Logs)
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<(), Trouble> {
        let KeepLog { run, attempt, log } = self;
        let statement = format!(
            "insert into {} (run, attempt, next_line, is_complete, text)
             values ({run}, {attempt}, {}, {}, {})
             on duplicate key update
                 next_line = values(next_line), is_complete = values(is_complete), text = values(text)",
            Table::Logs.of(run.day()),
            log.next_line,
            u8::from(log.is_complete),
            Quoted(&log.text),
        );
        keep(line, at, *run, statement).await
    }
}

/// Notes a wish to end an attempt.
pub(super) struct NoteKill<'a> {
    pub(super) run: RunId,
    pub(super) note: &'a KillNote,
}

impl Verb for NoteKill<'_> {
    type Answer = ();

    fn needs(&self, days: &Days) -> Vec<Need> {
        need(days, self.run, Table::Kills)
    }

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<(), Trouble> {
        let NoteKill { run, note } = self;
        let statement = format!(
            "insert into {} (run, attempt, at, is_confirmed, said)
             values ({run}, {}, {}, {}, {})
             on duplicate key update at = values(at), is_confirmed = values(is_confirmed), said = values(said)",
            Table::Kills.of(run.day()),
            note.attempt,
            ms(note.at),
            Maybe(note.is_confirmed.map(u8::from)),
            Quoted(&note.said),
        );
        keep(line, at, *run, statement).await
    }
}

/// What was kept of an attempt.
pub(super) struct Log {
    pub(super) run: RunId,
    pub(super) attempt: Attempt,
}

impl Verb for Log {
    type Answer = Option<KeptLog>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Option<KeptLog>, Trouble> {
        let select = format!(
            "select text, next_line, is_complete from {{table}} where run = {} and attempt = {}",
            self.run, self.attempt
        );
        let said = read(line, at, at.days.beside(Table::Logs, self.run.day()), &select).await?;
        said.first().map(kept_log).transpose()
    }
}

/// The notes about a run.
pub(super) struct Kills(pub(super) RunId);

impl Verb for Kills {
    type Answer = Vec<KillNote>;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<Vec<KillNote>, Trouble> {
        let select = format!(
            "select attempt, at, is_confirmed, said from {{table}} where run = {} order by attempt",
            self.0
        );
        let said = read(line, at, at.days.beside(Table::Kills, self.0.day()), &select).await?;
        said.rows.iter().map(kill_note).collect()
    }
}
