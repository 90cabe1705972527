//! What is kept beside runs, for people: what attempts wrote, and what came of kills. What is said of a run that is not
//! there is not kept, since nothing would ever drop it.

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{KeptLog, KillNote};

use super::session::{BesideTable, SqlSession};
use super::statement::{replace, sql};
use super::{Access, ColdVerb};
use crate::rows::{kept_log, kill_note};

/// How many bytes of text count as a row.
const ROW_TEXT: usize = 256;

/// Keeps what an attempt wrote.
pub(crate) struct KeepLog {
    pub(crate) run: RunId,
    pub(crate) attempt: Attempt,
    pub(crate) log: KeptLog,
}

impl ColdVerb for KeepLog {
    type Answer = ();

    fn access(&self) -> Access {
        Access::Write(1 + self.log.text.len() / ROW_TEXT)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<(), S::Trouble> {
        let KeptLog { text, next_line, is_complete } = &self.log;
        let row = replace("{beside}")
            .key("run", self.run.0)
            .key("attempt", self.attempt.0)
            .set("next_line", *next_line)
            .set("is_complete", *is_complete)
            .set("text", &**text);
        session.keep_beside(self.run, BesideTable::Logs, row).await
    }
}

/// Notes a wish to end an attempt.
pub(crate) struct NoteKill {
    pub(crate) run: RunId,
    pub(crate) note: KillNote,
}

impl ColdVerb for NoteKill {
    type Answer = ();

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<(), S::Trouble> {
        let KillNote { attempt, at, is_confirmed, said } = &self.note;
        let row = replace("{beside}")
            .key("run", self.run.0)
            .key("attempt", attempt.0)
            .set("at", *at)
            .set("is_confirmed", *is_confirmed)
            .set("said", &**said);
        session.keep_beside(self.run, BesideTable::Kills, row).await
    }
}

/// What was kept of an attempt.
pub(crate) struct LogOf {
    pub(crate) run: RunId,
    pub(crate) attempt: Attempt,
}

impl ColdVerb for LogOf {
    type Answer = Option<KeptLog>;

    fn access(&self) -> Access {
        Access::Read
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Option<KeptLog>, S::Trouble> {
        let select = sql("select text, next_line, is_complete from {beside} where run = ?1 and attempt = ?2");
        let select = select.with(self.run.0).with(self.attempt.0);
        let rows = session.read_beside(self.run, BesideTable::Logs, select).await?;
        Ok(rows.first().map(kept_log).transpose()?)
    }
}

/// The notes about a run, by attempt.
pub(crate) struct KillsOf(pub(crate) RunId);

impl ColdVerb for KillsOf {
    type Answer = Vec<KillNote>;

    fn access(&self) -> Access {
        Access::Read
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Vec<KillNote>, S::Trouble> {
        let select =
            sql("select attempt, at, is_confirmed, said from {beside} where run = ?1 order by attempt");
        let rows = session.read_beside(self.0, BesideTable::Kills, select.with(self.0.0)).await?;
        Ok(rows.iter().map(kill_note).collect::<Result<_, _>>()?)
    }
}
