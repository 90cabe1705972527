//! Verbs that are written once for all databases: those of people, and of executors that register. They are asked seldom, so
//! that no database has to put them in a way of its own.
//!
//! A verb is an async function over a [`SqlSession`], which SQLite answers from the thread that the verb runs on and the servers
//! over a connection. Its [`Statement`]s are in the SQL that all three have in common, and `dialect.rs` puts what differs. The
//! verbs of the steps, which are asked for every run, are in the folders of the databases.

pub(crate) mod apps;
pub(crate) mod jobs;
pub(crate) mod logs;
mod ports;
pub(crate) mod requests;
pub(crate) mod session;
pub(crate) mod statement;
pub(crate) mod tokens;

use punctual_node::ports::StoreError;

use self::session::SqlSession;

/// How a verb goes to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It writes about so many rows.
    Write(usize),
    /// It reads for the steps.
    Look,
    /// It reads to authenticate a caller: ahead of what other people look for.
    Admit,
    /// It reads for people.
    Read,
}

/// A verb that is written once. It may be run again from its beginning, where nothing was written yet.
pub(crate) trait ColdVerb: Send + Sync + 'static {
    type Answer: Send + 'static;

    fn access(&self) -> Access;

    /// The whole verb. It refuses before it writes: SQLite rolls nothing back for a refusal.
    fn run<S: SqlSession>(
        &self,
        session: &mut S,
    ) -> impl Future<Output = Result<Self::Answer, S::Trouble>> + Send;
}

/// A store that runs verbs which are written once.
pub(crate) trait RunsCold {
    fn cold<V: ColdVerb>(&self, verb: V) -> impl Future<Output = Result<V::Answer, StoreError>> + Send;
}
