//! What the front door keeps: tokens, and answers to requests that may be repeated.

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, Remain, RequestKey, StoreError, TokenRow};
use rusqlite::params;

use super::keeper::Keeper;
use super::trouble::{Trouble, corrupt};
use crate::rows::token;

/// How many requests are forgotten in one round, so that nobody waits long for it.
pub(super) const FORGET_MAX: usize = 1_000;

impl Keeper {
    pub(super) fn peer_secret(&mut self, drawn: &Digest) -> Result<Digest, Trouble> {
        self.conn.execute("insert or ignore into peer_secret (id, secret) values (1, ?1)", [drawn])?;
        Ok(self.conn.query_row("select secret from peer_secret", [], |row| row.get(0))?)
    }

    pub(super) fn tokens(&mut self) -> Result<Vec<TokenRow>, Trouble> {
        let mut select = self.conn.prepare_cached(
            "select id, name, digest, role, apps, created_at, expires_at
             from tokens
             order by id",
        )?;
        let mut rows = select.query([])?;
        let mut tokens = Vec::new();
        while let Some(row) = rows.next()? {
            // A row that cannot be read opens nothing, and does not lock everybody else out.
            tokens.extend(token(row)?);
        }
        Ok(tokens)
    }

    pub(super) fn add_token(&mut self, token: &TokenRow) -> Result<u32, Trouble> {
        let id = u32::try_from(self.side.counters.token + 1).ok();
        let id = id.ok_or_else(|| StoreError::Full("no more token numbers".into()))?;
        self.side.counters.token = u64::from(id);
        let mut insert = self.conn.prepare_cached(
            "insert into tokens (id, name, digest, role, apps, created_at, expires_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        insert.execute(params![
            id,
            token.name.as_ref(),
            token.digest,
            token.role.as_ref(),
            serde_json::to_string(&token.apps).expect("texts always serialize"),
            token.created_at.as_millis(),
            token.expires_at.map(Timestamp::as_millis),
        ])?;
        Ok(id)
    }

    pub(super) fn add_first_token(&mut self, token: &TokenRow) -> Result<bool, Trouble> {
        if self.conn.prepare_cached("select 1 from tokens")?.exists([])? {
            return Ok(false);
        }
        self.add_token(token).map(|_| true)
    }

    pub(super) fn revoke_token(&mut self, id: u32, remain: Option<&Remain>) -> Result<bool, Trouble> {
        if let Some(remain) = remain {
            remain.check(&self.tokens()?, id)?;
        }
        let mut delete = self.conn.prepare_cached("delete from tokens where id = ?1")?;
        Ok(delete.execute([id])? == 1)
    }

    pub(super) fn begin(
        &mut self,
        key: &RequestKey,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<Begun, Trouble> {
        let mut insert = self.conn.prepare_cached(
            "insert into requests (by, key, digest, begun_at)
             values (?1, ?2, ?3, ?4)
             on conflict (by, key) do nothing",
        )?;
        if insert.execute(params![key.by.as_ref(), key.key.as_ref(), digest, now.as_millis()])? == 1 {
            return Ok(Begun::New);
        }
        let mut select = self.conn.prepare_cached(
            "select id, digest, status, body
             from requests
             where by = ?1 and key = ?2",
        )?;
        let mut rows = select.query([key.by.as_ref(), key.key.as_ref()])?;
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        if row.get_ref(1)?.as_blob().ok() != Some(digest.as_slice()) {
            return Ok(Begun::Other);
        }
        let Some(status) = row.get::<_, Option<i64>>(2)? else { return Ok(Begun::Open) };
        let bad = |reason: &str| row.get(0).map(|id| corrupt("requests", id, reason));
        let (Ok(status), Some(body)) = (u16::try_from(status), row.get::<_, Option<String>>(3)?) else {
            return Err(bad("no such answer")?.into());
        };
        Ok(Begun::Answered(KeptAnswer { status, body: body.into() }))
    }

    /// The first answer stands: who comes late with another, or with none, changes nothing.
    pub(super) fn answer(&mut self, key: &RequestKey, answer: Option<&KeptAnswer>) -> Result<(), Trouble> {
        let (by, key) = (key.by.as_ref(), key.key.as_ref());
        if let Some(answer) = answer {
            let mut update = self.conn.prepare_cached(
                "update requests
                 set status = ?3, body = ?4
                 where by = ?1 and key = ?2 and status is null",
            )?;
            update.execute(params![by, key, answer.status, answer.body.as_ref()])?;
        } else {
            let mut delete = self.conn.prepare_cached(
                "delete from requests
                 where by = ?1 and key = ?2 and status is null",
            )?;
            delete.execute([by, key])?;
        }
        Ok(())
    }

    /// Forgets some of the requests that were begun before `before`: how many.
    pub(super) fn forget_requests(&mut self, before: Timestamp) -> Result<usize, Trouble> {
        let mut delete = self.conn.prepare_cached(
            "delete from requests
             where id in (
                 select id
                 from requests
                 where begun_at < ?1
                 order by begun_at
                 limit ?2
             )",
        )?;
        Ok(delete.execute(params![before.as_millis(), FORGET_MAX as i64])?)
    }
}
