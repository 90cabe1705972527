//! What is kept beside runs, for people: what attempts wrote, and what came of kills. What is said of a run that is not
//! there is not kept, since nothing would ever drop it.

use punctual_core::model::{Attempt, RunId};
use punctual_node::ports::{KeptLog, KillNote};
use rusqlite::{OptionalExtension, params};

use super::code::bits;
use super::day::{Table, has_table};
use super::keeper::Keeper;
use super::pen::ROW_BYTES;
use super::reader::Reader;
use super::trouble::Trouble;
use crate::rows::{kept_log, kill_note};

impl Keeper {
    pub(super) fn keep_log(&mut self, run: RunId, attempt: Attempt, log: &KeptLog) -> Result<(), Trouble> {
        let number = run.day();
        if !self.side.is_there(&self.conn, run)? {
            return Ok(());
        }
        self.side.days.ensure(&self.conn, number, Table::Logs)?;
        let mut select = self.conn.prepare_cached(&format!(
            "select octet_length(text)
             from logs_{number}
             where run = ?1 and attempt = ?2"
        ))?;
        let key = params![run.0 as i64, attempt.0];
        let kept = select.query_row(key, |row| bits(row, 0)).optional()?.map(|length| ROW_BYTES + length);
        let mut upsert = self.conn.prepare_cached(&format!(
            "insert into logs_{number} (run, attempt, next_line, is_complete, text)
             values (?1, ?2, ?3, ?4, ?5)
             on conflict (run, attempt) do update
             set next_line = excluded.next_line, is_complete = excluded.is_complete, text = excluded.text"
        ))?;
        upsert.execute(params![run.0 as i64, attempt.0, log.next_line as i64, log.is_complete, log.text])?;
        let day = self.side.days.edit(number);
        day.bytes = (day.bytes + ROW_BYTES + log.text.len() as u64).saturating_sub(kept.unwrap_or(0));
        Ok(())
    }

    pub(super) fn note_kill(&mut self, run: RunId, note: &KillNote) -> Result<(), Trouble> {
        let number = run.day();
        if !self.side.is_there(&self.conn, run)? {
            return Ok(());
        }
        self.side.days.ensure(&self.conn, number, Table::Kills)?;
        let mut upsert = self.conn.prepare_cached(&format!(
            "insert or replace into kills_{number} (run, attempt, at, is_confirmed, said)
             values (?1, ?2, ?3, ?4, ?5)"
        ))?;
        upsert.execute(params![
            run.0 as i64,
            note.attempt.0,
            note.at.as_millis(),
            note.is_confirmed,
            note.said.as_ref(),
        ])?;
        Ok(())
    }
}

impl Reader {
    pub(super) fn log(&self, run: RunId, attempt: Attempt) -> Result<Option<KeptLog>, Trouble> {
        // In one snapshot, or the table could go after it was seen.
        let transaction = self.conn.unchecked_transaction()?;
        if !has_table(&transaction, Table::Logs, run.day())? {
            return Ok(None);
        }
        let mut select = transaction.prepare_cached(&format!(
            "select text, next_line, is_complete
             from logs_{}
             where run = ?1 and attempt = ?2",
            run.day()
        ))?;
        let mut rows = select.query(params![run.0 as i64, attempt.0])?;
        rows.next()?.map(kept_log).transpose()
    }

    pub(super) fn kills(&self, run: RunId) -> Result<Vec<KillNote>, Trouble> {
        let transaction = self.conn.unchecked_transaction()?;
        if !has_table(&transaction, Table::Kills, run.day())? {
            return Ok(Vec::new());
        }
        let mut select = transaction.prepare_cached(&format!(
            "select attempt, at, is_confirmed, said
             from kills_{}
             where run = ?1
             order by attempt",
            run.day()
        ))?;
        let mut rows = select.query([run.0 as i64])?;
        let mut notes = Vec::new();
        while let Some(row) = rows.next()? {
            notes.push(kill_note(row)?);
        }
        Ok(notes)
    }
}
