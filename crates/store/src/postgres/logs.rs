//! What is kept beside runs, for people: what attempts wrote, and what came of kills. What is said of a run that is not
//! there is not kept, since nothing would ever drop it.

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{KeptLog, KillNote};

use super::Postgres;
use super::ask::{Ask, run_code, text_code};
use super::line::Line;
use super::trouble::Trouble;
use crate::rows::{kept_log, kill_note};

impl Postgres {
    pub(super) async fn try_keep_log(
        &self,
        line: &Line<'_>,
        run: RunId,
        attempt: Attempt,
        log: &KeptLog,
    ) -> Result<(), Trouble> {
        if !self.has_room(line, run).await? {
            return Ok(());
        }
        let ask = Ask::new(
            "insert into logs (run, attempt, next_line, is_complete, text)
             select $1, $2, $3, $4, $5
             where exists (select from all_runs where id = $1)
             on conflict (run, attempt) do update
             set next_line = excluded.next_line, is_complete = excluded.is_complete, text = excluded.text",
        )
        .with(run_code(run))
        .with(i64::from(attempt.0))
        .with(log.next_line as i64)
        .with(log.is_complete)
        .with(text_code(&log.text));
        line.ask(ask).await.map(drop)
    }

    pub(super) async fn try_note_kill(
        &self,
        line: &Line<'_>,
        run: RunId,
        note: &KillNote,
    ) -> Result<(), Trouble> {
        if !self.has_room(line, run).await? {
            return Ok(());
        }
        let ask = Ask::new(
            "insert into kills (run, attempt, at, is_confirmed, said)
             select $1, $2, $3, $4, $5
             where exists (select from all_runs where id = $1)
             on conflict (run, attempt) do update
             set at = excluded.at, is_confirmed = excluded.is_confirmed, said = excluded.said",
        )
        .with(run_code(run))
        .with(i64::from(note.attempt.0))
        .with(note.at.as_millis())
        .with(note.is_confirmed)
        .with(text_code(&note.said));
        line.ask(ask).await.map(drop)
    }

    /// Whether a run is there, so that the day has tables for what is said of it.
    async fn has_room(&self, line: &Line<'_>, run: RunId) -> Result<bool, Trouble> {
        if self.check_beside([run.day()]).is_ok() {
            return Ok(true);
        }
        let rows = line.ask(Ask::new("select 1 from all_runs where id = $1").with(run_code(run))).await?;
        if !rows.is_empty() {
            self.check_beside([run.day()])?;
        }
        Ok(!rows.is_empty())
    }

    pub(super) async fn try_log(
        &self,
        line: &Line<'_>,
        run: RunId,
        attempt: Attempt,
    ) -> Result<Option<KeptLog>, Trouble> {
        let ask = Ask::new("select text, next_line, is_complete from logs where run = $1 and attempt = $2");
        let rows = line.ask(ask.with(run_code(run)).with(i64::from(attempt.0))).await?;
        rows.first().map(kept_log).transpose()
    }

    pub(super) async fn try_kills(&self, line: &Line<'_>, run: RunId) -> Result<Vec<KillNote>, Trouble> {
        let ask = "select attempt, at, is_confirmed, said from kills where run = $1 order by attempt";
        line.ask(Ask::new(ask).with(run_code(run))).await?.iter().map(kill_note).collect()
    }
}
