//! What the front door keeps: tokens, and answers to requests that may be repeated.

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, Remain, RequestKey, StoreError, TokenRow};

use super::Postgres;
use super::ask::{Ask, Columns, Flight, ReadSql, text_code};
use super::line::Line;
use super::trouble::{Trouble, corrupt};
use crate::rows::token;

/// How many requests are forgotten in one statement, so that nobody waits long for it.
const FORGET_MAX: i64 = 1_000;

impl Postgres {
    pub(super) async fn try_peer_secret(&self, line: &Line<'_>, drawn: &Digest) -> Result<Digest, Trouble> {
        // The second statement sees what has won.
        let insert = "insert into peer_secret (id, secret) values (1, $1) on conflict (id) do nothing";
        line.ask(Ask::new(insert).with(drawn.to_vec())).await?;
        let rows = line.ask(Ask::new("select secret from peer_secret")).await?;
        let row = rows.first().ok_or(Trouble::Moved)?;
        Digest::try_from(row.read::<&[u8]>(0)?).map_err(|_| corrupt("peer_secret", 1, "not 32 bytes").into())
    }

    pub(super) async fn try_tokens(&self, line: &Line<'_>) -> Result<Vec<TokenRow>, Trouble> {
        let ask = "select id, name, digest, role, apps, created_at, expires_at from tokens order by id";
        let mut tokens = Vec::new();
        for row in &line.ask(Ask::new(ask)).await? {
            // A row that cannot be read opens nothing, and does not lock everybody else out.
            tokens.extend(token(row)?);
        }
        Ok(tokens)
    }

    /// Keeps a token; if asked so, only where there is none. Whoever takes a number waits for who is just taking another, and
    /// then sees its token.
    pub(super) async fn try_add_token(
        &self,
        line: &Line<'_>,
        token: &TokenRow,
        is_first: bool,
    ) -> Result<Option<u32>, Trouble> {
        let mut flight = Flight::begin();
        flight.add(Ask::new("select value from counters where name = 'token' for update"));
        let added = flight.add(
            Ask::new(
                "with taken as (
                     update counters
                     set value = value + 1
                     where name = 'token' and value < 4294967295 and (not $1 or not exists (select from tokens))
                     returning value
                 )
                 insert into tokens (id, name, digest, role, apps, created_at, expires_at)
                 select value, $2, $3, $4, $5, $6, $7 from taken
                 returning id",
            )
            .with(is_first)
            .with(text_code(&token.name))
            .with(token.digest.to_vec())
            .with(text_code(&token.role))
            .with(text_code(&serde_json::to_string(&token.apps).expect("texts always serialize")))
            .with(token.created_at.as_millis())
            .with(token.expires_at.map(Timestamp::as_millis)),
        );
        flight.commit();
        let mut landed = line.fly(flight).await?;
        match landed.take(added).first() {
            Some(row) => Ok(Some(row.number(0)? as u32)),
            None if is_first => Ok(None),
            None => Err(StoreError::Full("no more token numbers".into()).into()),
        }
    }

    pub(super) async fn try_revoke_token(
        &self,
        line: &Line<'_>,
        id: u32,
        remain: Option<&Remain>,
    ) -> Result<bool, Trouble> {
        let mut flight = Flight::begin();
        // Revocations wait for each other here, and then see what the one before has left.
        flight.add(Ask::new("select value from counters where name = 'token' for update"));
        line.fly(flight).await?;
        if let Some(remain) = remain {
            remain.check(&self.try_tokens(line).await?, id)?;
        }
        let mut flight = Flight::new();
        let delete = Ask::new("delete from tokens where id = $1 returning 1").with(i64::from(id));
        let gone = flight.add(delete);
        flight.commit();
        Ok(!line.fly(flight).await?.take(gone).is_empty())
    }

    pub(super) async fn try_begin(
        &self,
        line: &Line<'_>,
        key: &RequestKey,
        digest: &Digest,
        now: Timestamp,
    ) -> Result<Begun, Trouble> {
        let insert = Ask::new(
            "insert into requests (by, key, digest, begun_at)
             values ($1, $2, $3, $4)
             on conflict (md5(by), md5(key)) do nothing
             returning 1",
        )
        .with(text_code(&key.by))
        .with(text_code(&key.key))
        .with(digest.to_vec())
        .with(now.as_millis());
        if !line.ask(insert).await?.is_empty() {
            return Ok(Begun::New);
        }
        let select = Ask::new(
            "select digest, status::bigint, body from requests where md5(by) = md5($1) and md5(key) = md5($2)",
        )
        .with(text_code(&key.by))
        .with(text_code(&key.key));
        let rows = line.ask(select).await?;
        // Forgotten between the two: then it is new after all.
        let row = rows.first().ok_or(Trouble::Moved)?;
        if row.read::<&[u8]>(0)? != digest.as_slice() {
            return Ok(Begun::Other);
        }
        let Some(status) = row.maybe(1)? else { return Ok(Begun::Open) };
        let (Ok(status), Some(body)) = (u16::try_from(status), row.maybe_string(2)?) else {
            return Err(corrupt("requests", &key.key, "no such answer").into());
        };
        Ok(Begun::Answered(KeptAnswer { status, body: body.into() }))
    }

    /// The first answer stands: who comes late with another, or with none, changes nothing.
    pub(super) async fn try_answer(
        &self,
        line: &Line<'_>,
        key: &RequestKey,
        answer: Option<&KeptAnswer>,
    ) -> Result<(), Trouble> {
        let of_key = |ask: Ask| ask.with(text_code(&key.by)).with(text_code(&key.key));
        let ask = match answer {
            Some(answer) => of_key(Ask::new(
                "update requests set status = $3, body = $4
                 where md5(by) = md5($1) and md5(key) = md5($2) and status is null",
            ))
            .with(i64::from(answer.status))
            .with(text_code(&answer.body)),
            None => of_key(Ask::new(
                "delete from requests where md5(by) = md5($1) and md5(key) = md5($2) and status is null",
            )),
        };
        line.ask(ask).await.map(drop)
    }

    /// Forgets some of the requests that were begun before `before`; whether there may be more.
    pub(super) async fn try_forget_requests(
        &self,
        line: &Line<'_>,
        before: Timestamp,
    ) -> Result<bool, Trouble> {
        let ask = Ask::new(
            "delete from requests
             where ctid = any(array(select ctid from requests where begun_at < $1 order by begun_at limit $2))
             returning 1",
        );
        let gone = line.ask(ask.with(before.as_millis()).with(FORGET_MAX)).await?;
        Ok(gone.len() as i64 == FORGET_MAX)
    }
}
