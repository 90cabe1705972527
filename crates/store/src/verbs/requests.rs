//! Answers to requests that may be repeated.

use calendar::Timestamp;
use punctual_node::ports::{Begun, Digest, KeptAnswer, RequestKey};

use super::session::SqlSession;
use super::statement::{keep, sql};
use super::{Access, ColdVerb};
use crate::rows::{Cells, corrupt};

/// How many requests are forgotten at once, so that no other statement waits long for it. The statement below has it in its text.
const FORGET_MAX: usize = 1_000;

/// Begins a request.
pub(crate) struct Begin {
    pub(crate) key: RequestKey,
    pub(crate) digest: Digest,
    pub(crate) now: Timestamp,
}

impl ColdVerb for Begin {
    type Answer = Begun;

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<Begun, S::Trouble> {
        let RequestKey { by, key } = &self.key;
        loop {
            let begun = keep("requests").key("by", &**by).key("key", &**key);
            let [begun] =
                session.commit([begun.set("digest", &self.digest[..]).set("begun_at", self.now)]).await?;
            if begun.affected == 1 {
                return Ok(Begun::New);
            }
            let there = sql("select digest, status, body from requests where same(by, key, ?1, ?2)");
            let [there] = session.commit([there.with(&**by).with(&**key)]).await?;
            // Forgotten between the two: then it is new after all.
            let Some(row) = there.first() else { continue };
            if row.blob(0)? != self.digest {
                return Ok(Begun::Other);
            }
            let Some(status) = row.maybe(1)? else { return Ok(Begun::Open) };
            let (Ok(status), Some(body)) = (u16::try_from(status), row.maybe_string(2)?) else {
                return Err(corrupt("requests", key, "no such answer").into());
            };
            return Ok(Begun::Answered(KeptAnswer { status, body: body.into() }));
        }
    }
}

/// Keeps an answer, or forgets the request. The first answer stands: another that comes late changes nothing.
pub(crate) struct Answer {
    pub(crate) key: RequestKey,
    pub(crate) answer: Option<KeptAnswer>,
}

impl ColdVerb for Answer {
    type Answer = ();

    fn access(&self) -> Access {
        Access::Write(1)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<(), S::Trouble> {
        let RequestKey { by, key } = &self.key;
        let statement = match &self.answer {
            Some(_) => sql(
                "update requests set status = ?3, body = ?4 where same(by, key, ?1, ?2) and status is null",
            ),
            None => sql("delete from requests where same(by, key, ?1, ?2) and status is null"),
        };
        let mut statement = statement.with(&**by).with(&**key);
        if let Some(KeptAnswer { status, body }) = &self.answer {
            statement = statement.with(i64::from(*status)).with(&**body);
        }
        session.commit([statement]).await?;
        Ok(())
    }
}

/// Forgets some of the requests that were begun before an instant; whether there may be more.
pub(crate) struct ForgetRequests(pub(crate) Timestamp);

impl ColdVerb for ForgetRequests {
    type Answer = bool;

    fn access(&self) -> Access {
        Access::Write(FORGET_MAX)
    }

    async fn run<S: SqlSession>(&self, session: &mut S) -> Result<bool, S::Trouble> {
        let oldest = sql(
            "select count(*), max(begun_at)
             from (select begun_at from requests where begun_at < ?1 order by begun_at limit 1000) as oldest",
        );
        let [oldest] = session.commit([oldest.with(self.0)]).await?;
        let Some(row) = oldest.first() else { return Ok(false) };
        let Some(last) = row.maybe(1)? else { return Ok(false) };
        session.commit([sql("delete from requests where begun_at <= ?1").with(last)]).await?;
        Ok(row.number(0)? >= FORGET_MAX as i64)
    }
}
