//! What the front door keeps: tokens, what nodes show each other, and answers to requests that may be repeated.

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, Remain, RequestKey, StoreError, TokenRow};

use super::ask::{Moment, Verb};
use super::link::Line;
use super::read::Record;
use super::text::{Bytes, PairSum, Quoted, Script, maybe_ms, ms};
use super::trouble::Trouble;
use crate::rows::{corrupt, token};

/// How many requests are forgotten in one statement, so that nobody waits long for it.
const FORGET_MAX: u64 = 1_000;

/// All tokens.
pub(super) struct Tokens;

impl Verb for Tokens {
    type Answer = Vec<TokenRow>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Vec<TokenRow>, Trouble> {
        let said = line
            .say("select id, name, digest, role, apps, created_at, expires_at from tokens order by id")
            .await?;
        let mut tokens = Vec::new();
        for row in &said.rows {
            // A row that cannot be read opens nothing, and does not lock everybody else out.
            tokens.extend(token(row)?);
        }
        Ok(tokens)
    }
}

/// A token to be kept.
pub(super) struct AddToken<'a> {
    pub(super) token: &'a TokenRow,
    /// Only if there is none at all.
    pub(super) is_first: bool,
}

impl Verb for AddToken<'_> {
    /// Its number, if it was kept.
    type Answer = Option<u32>;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Option<u32>, Trouble> {
        let mut script = Script::transaction();
        // Whoever comes together waits here, and then sees the other's token.
        let counter = script.push("select value from counters where name = 'token' for update");
        let there = script.push("select 1 from tokens limit 1");
        let said = line.ask(script).await?;
        if self.is_first && said[there].first().is_some() {
            line.say("commit").await?;
            return Ok(None);
        }
        let id = u32::try_from(said[counter].number()?.unwrap_or_default() + 1).ok();
        let id = id.ok_or_else(|| StoreError::Full("no more token numbers".into()))?;
        let token = self.token;
        let mut script = Script::of(format!(
            "insert into tokens (id, name, digest, role, apps, created_at, expires_at)
             values ({id}, {}, {}, {}, {}, {}, {})",
            Quoted(&token.name),
            Bytes(&token.digest),
            Quoted(&token.role),
            Quoted(&serde_json::to_string(&token.apps).expect("texts always serialize")),
            ms(token.created_at),
            maybe_ms(token.expires_at),
        ));
        script.push(format!("update counters set value = {id} where name = 'token'"));
        script.push("commit");
        line.ask(script).await?;
        Ok(Some(id))
    }
}

/// Forgets a token.
pub(super) struct RevokeToken<'a> {
    pub(super) id: u32,
    pub(super) remain: Option<&'a Remain>,
}

impl Verb for RevokeToken<'_> {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, at: &Moment) -> Result<bool, Trouble> {
        let mut script = Script::transaction();
        // Revocations wait for each other here, and then see what the one before has left.
        script.push("select value from counters where name = 'token' for update");
        line.ask(script).await?;
        if let Some(remain) = self.remain {
            remain.check(&Tokens.ask(line, at).await?, self.id)?;
        }
        let mut script = Script::new();
        let gone = script.push(format!("delete from tokens where id = {}", self.id));
        script.push("commit");
        Ok(line.ask(script).await?[gone].affected == 1)
    }
}

/// What nodes show each other.
pub(super) struct PeerSecret(pub(super) Digest);

impl Verb for PeerSecret {
    type Answer = Digest;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Digest, Trouble> {
        let mut script = Script::of(format!(
            "insert into peer_secret (id, secret) values (1, {}) on duplicate key update secret = secret",
            Bytes(&self.0)
        ));
        let secret = script.push("select secret from peer_secret where id = 1");
        let said = line.ask(script).await?;
        let bad = || Trouble::Refused(corrupt("peer_secret", 1, "no secret"));
        let row = said[secret].first().ok_or_else(bad)?;
        Digest::try_from(row.bytes(0)?).map_err(|_| bad())
    }
}

/// Begins a request.
pub(super) struct Begin<'a> {
    pub(super) key: &'a RequestKey,
    pub(super) digest: Digest,
    pub(super) now: Timestamp,
}

impl Verb for Begin<'_> {
    type Answer = Begun;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<Begun, Trouble> {
        let key = PairSum(&self.key.by, &self.key.key);
        let mut script = Script::of(format!(
            "insert into requests (request_key, digest, begun_at)
             values ({key}, {}, {})
             on duplicate key update begun_at = begun_at",
            Bytes(&self.digest),
            ms(self.now)
        ));
        let there =
            script.push(format!("select digest, status, body from requests where request_key = {key}"));
        let said = line.ask(script).await?;
        if said[0].affected == 1 {
            return Ok(Begun::New);
        }
        let Some(row) = said[there].first() else {
            return Err(Trouble::Crossed("the request was forgotten meanwhile".into()));
        };
        if row.bytes(0)? != self.digest {
            return Ok(Begun::Other);
        }
        let Some(status) = row.maybe(1, Record::number)? else { return Ok(Begun::Open) };
        Ok(Begun::Answered(KeptAnswer { status, body: row.text(2)? }))
    }
}

/// Keeps an answer, or forgets the request. The first answer stands: who comes late changes nothing.
pub(super) struct Answer<'a> {
    pub(super) key: &'a RequestKey,
    pub(super) answer: Option<&'a KeptAnswer>,
}

impl Verb for Answer<'_> {
    type Answer = ();

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<(), Trouble> {
        let key = PairSum(&self.key.by, &self.key.key);
        let is_open = format!("where request_key = {key} and status is null");
        line.say(match self.answer {
            Some(answer) => format!(
                "update requests set status = {}, body = {} {is_open}",
                answer.status,
                Quoted(&answer.body)
            ),
            None => format!("delete from requests {is_open}"),
        })
        .await?;
        Ok(())
    }
}

/// Forgets some of the requests that were begun before an instant; whether there may be more.
pub(super) struct ForgetRequests(pub(super) Timestamp);

impl Verb for ForgetRequests {
    type Answer = bool;

    async fn ask(&self, line: &mut Line, _at: &Moment) -> Result<bool, Trouble> {
        let said = line
            .say(format!(
                "delete from requests where begun_at < {} order by begun_at limit {FORGET_MAX}",
                ms(self.0)
            ))
            .await?;
        Ok(said.affected == FORGET_MAX)
    }
}
