//! Tokens, and what nodes show each other.

use punctual_node::ports::{Digest, Remain, StoreError, TokenRow};

use super::session::SqlSession;
use super::statement::{Statement, keep, sql};
use super::{Access, ColdVerb};
use crate::rows::{self, Cells, corrupt};

fn all_tokens() -> Statement {
    sql("select id, name, digest, role, apps, created_at, expires_at from tokens order by id")
}

/// Callers that write tokens wait for each other here, and then see what the one before has left.
fn counter() -> Statement {
    sql("select value from counters where name = 'token' for update")
}

/// All tokens.
pub(crate) struct Tokens;

impl ColdVerb for Tokens {
    type Answer = Vec<TokenRow>;

    fn access(&self) -> Access {
        Access::Admit
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Vec<TokenRow>, S::Trouble> {
        let [found] = session.commit([all_tokens()]).await?;
        let mut tokens = Vec::new();
        for row in &found.rows {
            // A row that cannot be read opens nothing, and does not lock everybody else out.
            tokens.extend(rows::token(row)?);
        }
        Ok(tokens)
    }
}

/// A token to be kept.
pub(crate) struct AddToken {
    pub(crate) token: TokenRow,
    /// Only if there is none at all.
    pub(crate) is_first: bool,
}

impl ColdVerb for AddToken {
    /// Its number, if it was kept.
    type Answer = Option<u32>;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Option<u32>, S::Trouble> {
        let TokenRow { name, digest, role, apps, created_at, expires_at, .. } = &self.token;
        let [counter, there] = session.ask([counter(), sql("select 1 from tokens limit 1")]).await?;
        if self.is_first && there.first().is_some() {
            return Ok(None);
        }
        let id = u32::try_from(counter.number()?.unwrap_or_default() + 1).ok();
        let id = id.ok_or_else(|| StoreError::Full("no more token numbers".into()))?;
        let token = sql("insert into tokens (id, name, digest, role, apps, created_at, expires_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .with(id)
        .with(&**name)
        .with(&digest[..])
        .with(&**role)
        .with(serde_json::to_string(apps).expect("texts always serialize"))
        .with(*created_at)
        .with(*expires_at);
        let counted = match counter.first() {
            Some(_) => sql("update counters set value = ?1 where name = 'token'"),
            None => sql("insert into counters (name, value) values ('token', ?1)"),
        };
        session.commit([token, counted.with(id)]).await?;
        Ok(Some(id))
    }
}

/// Forgets a token; whether it was there.
pub(crate) struct RevokeToken {
    pub(crate) id: u32,
    pub(crate) remain: Option<Remain>,
}

impl ColdVerb for RevokeToken {
    type Answer = bool;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<bool, S::Trouble> {
        session.ask([counter()]).await?;
        if let Some(remain) = &self.remain {
            let [found] = session.ask([all_tokens()]).await?;
            let mut tokens = Vec::new();
            for row in &found.rows {
                tokens.extend(rows::token(row)?);
            }
            remain.check(&tokens, self.id)?;
        }
        let [gone] = session.commit([sql("delete from tokens where id = ?1").with(self.id)]).await?;
        Ok(gone.affected == 1)
    }
}

/// What nodes show each other: this, if there was nothing yet.
pub(crate) struct PeerSecret(pub(crate) Digest);

impl ColdVerb for PeerSecret {
    type Answer = Digest;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Digest, S::Trouble> {
        let drawn = keep("peer_secret").key("id", 1_i64).set("secret", &self.0[..]);
        // The second statement sees which one has won.
        let [_, secret] = session.commit([drawn, sql("select secret from peer_secret where id = 1")]).await?;
        let bad = || corrupt("peer_secret", 1, "not 32 bytes");
        let row = secret.first().ok_or_else(bad)?;
        Ok(Digest::try_from(row.blob(0)?).map_err(|_| bad())?)
    }
}
