//! Apps and their executors: who registered, and what people set.

use std::time::Duration;

use punctual_core::model::Text;
use punctual_core::registry::Secret;
use punctual_node::ports::{AppRow, Beat, Paused, Registered, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::code::bits;
use super::keeper::Keeper;
use super::trouble::Trouble;
use crate::code::{paused_code, retention_code};
use crate::rows;

impl Keeper {
    /// Rows that cannot be read are left out: the others are still sent to.
    pub(super) fn registered(&mut self) -> Result<Registered, Trouble> {
        let mut registered = Registered::default();
        let mut select = self.conn.prepare_cached(
            "select name, title, addresses, access_token, version, retention, paused
             from apps
             order by name",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            registered.apps.extend(rows::app(row)?);
        }
        let mut select = self.conn.prepare_cached(
            "select app, address, dialect, beat_at, joined_at
             from executors
             order by app, address",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            registered.executors.extend(rows::executor(row)?);
        }
        Ok(registered)
    }

    pub(super) fn beat(&mut self, beats: &[Beat]) -> Result<(), Trouble> {
        let now = self.now().as_millis();
        let mut upsert = self.conn.prepare_cached(
            "insert into executors (app, address, dialect, beat_at, joined_at)
             values (?1, ?2, ?3, ?4, ?4)
             on conflict (app, address) do update
             set dialect = excluded.dialect, beat_at = excluded.beat_at",
        )?;
        for Beat { app, address, dialect } in beats {
            ensure_app(&self.conn, app)?;
            upsert.execute(params![app.as_ref(), address.as_ref(), dialect.name(), now])?;
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, app: &str, address: &str) -> Result<bool, Trouble> {
        let mut delete = self.conn.prepare_cached(
            "delete from executors
             where app = ?1 and address = ?2",
        )?;
        Ok(delete.execute([app, address])? == 1)
    }

    pub(super) fn bury(&mut self, dead: Duration) -> Result<Vec<(Text, Text)>, Trouble> {
        let now = self.now().as_millis();
        // A beat from before the clock was set back is not waited for until the clock has caught up.
        let mut update = self.conn.prepare_cached(
            "update executors
             set beat_at = ?1
             where beat_at > ?1",
        )?;
        update.execute([now])?;
        let mut delete = self.conn.prepare_cached(
            "delete from executors
             where beat_at < ?1
             returning app, address",
        )?;
        let last = now.saturating_sub(i64::try_from(dead.as_millis()).unwrap_or(i64::MAX));
        let texts = |row: &Row<'_>| Ok((row.get::<_, String>(0)?.into(), row.get::<_, String>(1)?.into()));
        let mut buried: Vec<(Text, Text)> =
            delete.query_map([last], texts)?.collect::<rusqlite::Result<_>>()?;
        buried.sort_unstable();
        Ok(buried)
    }

    pub(super) fn put_app(&mut self, app: &AppRow, expected: Option<u64>) -> Result<u64, Trouble> {
        let mut select = self.conn.prepare_cached("select version from apps where name = ?1")?;
        let there = select.query_row([app.name.as_ref()], |row| bits(row, 0)).optional()?.unwrap_or(0);
        if let Some(expected) = expected.filter(|expected| *expected != there) {
            let said = format!("app {} has version {there}, not {expected}", app.name);
            return Err(StoreError::Conflict(said.into()).into());
        }
        let addresses = app.addresses.as_ref();
        let mut upsert = self.conn.prepare_cached(
            "insert into apps (name, title, addresses, access_token, version, retention)
             values (?1, ?2, ?3, ?4, ?5, ?6)
             on conflict (name) do update
             set title = excluded.title, addresses = excluded.addresses, access_token = excluded.access_token,
                 version = excluded.version, retention = excluded.retention",
        )?;
        upsert.execute(params![
            app.name.as_ref(),
            app.title.as_ref(),
            addresses.map(|list| serde_json::to_string(list).expect("texts always serialize")),
            app.access_token.as_ref().map(Secret::expose),
            there as i64 + 1,
            app.retention.map(retention_code),
        ])?;
        Ok(there + 1)
    }

    pub(super) fn app(&mut self, name: &str) -> Result<Option<AppRow>, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select name, title, addresses, access_token, version, retention, paused
             from apps
             where name = ?1",
        )?;
        let mut found = select.query([name])?;
        found.next()?.map(rows::app).transpose().map(Option::flatten)
    }

    pub(super) fn pause_app(
        &mut self,
        name: &str,
        paused: Option<&Paused>,
    ) -> Result<Option<AppRow>, Trouble> {
        let mut update = self.conn.prepare_cached(
            "update apps
             set paused = ?2, version = version + 1
             where name = ?1 and (paused is null) <> (?2 is null)",
        )?;
        update.execute(params![name, paused.map(paused_code)])?;
        drop(update);
        self.app(name)
    }

    pub(super) fn remove_app(&mut self, name: &str) -> Result<bool, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select id
             from jobs
             where app = ?1 and state <> 2
             limit 1",
        )?;
        let job: Option<i64> = select.query_row([name], |row| row.get(0)).optional()?;
        if let Some(job) = job {
            return Err(StoreError::Conflict(format!("app {name} has jobs, such as job {job}").into()).into());
        }
        self.conn.prepare_cached("delete from executors where app = ?1")?.execute([name])?;
        Ok(self.conn.prepare_cached("delete from apps where name = ?1")?.execute([name])? == 1)
    }
}

/// An app that nobody has made gets a row, so that people find it.
pub(super) fn ensure_app(conn: &Connection, name: &str) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached(
        "insert into apps (name, title, version)
         values (?1, '', 1)
         on conflict (name) do nothing",
    )?;
    insert.execute([name])?;
    Ok(())
}
