//! Connections: how one is made, lent for a verb, and thrown away when it can no longer be trusted. A server that takes no
//! writes any more is left with all connections: see [`crate::idle`].
//!
//! A text that the program always sends as it is, is prepared by name when a connection meets it first, all that are new to a
//! flight in one round trip; from then on only its values are sent. Behind a pooler nothing is prepared.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use rustc_hash::FxHashMap;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Connection, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::ask::{Ask, Landed, Pipeline};
use super::trouble::Trouble;
use crate::clock;
use crate::idle::{Era, Idle, Stamp};
use crate::progress::Progress;

/// How long a connection may rest. The driver hears when the server closes it, so this is only for connections that are not needed.
const REST_MAX: Duration = Duration::from_secs(10 * 60);

/// How many statements a connection keeps by name. The program has fewer; should it ever have more, those are sent as texts.
const STATEMENTS_MAX: usize = 256;

/// Connections to one address.
pub(super) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
    is_prepared: bool,
    room: Semaphore,
    idle: Idle<LineSession>,
    deadline: Duration,
}

/// What moves the bytes of a connection.
pub(super) type Bare = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection, and the task that moves its bytes.
struct LineSession {
    client: Client,
    driver: AbortHandle,
    /// What is prepared on it, by its text.
    statements: Mutex<FxHashMap<String, Statement>>,
    /// What the verb of the moment has sent.
    progress: Mutex<Progress>,
}

impl Drop for LineSession {
    fn drop(&mut self) {
        // Not left to the end of what was asked: no caller waits for that any more.
        self.driver.abort();
    }
}

/// A connection that is lent. A borrower that does not give it back has found it broken, or was stopped in the middle.
pub(super) struct Line<'p> {
    session: LineSession,
    stamp: Stamp,
    pool: &'p Pool,
    _place: SemaphorePermit<'p>,
}

impl Pool {
    pub(super) fn new(address: &Address, size: usize, deadline: Duration, era: &Era) -> Arc<Pool> {
        let Address { config, tls, is_prepared } = address;
        Arc::new(Pool {
            config: config.clone(),
            tls: tls.clone(),
            is_prepared: *is_prepared,
            room: Semaphore::new(size.max(1)),
            idle: Idle::new(era.clone(), REST_MAX),
            deadline,
        })
    }

    /// A connection; a new one if none is idle.
    pub(super) async fn line(&self) -> Result<Line<'_>, Trouble> {
        let place = timeout(self.deadline, self.room.acquire()).await.map_err(|_| Trouble::Late)?;
        let place = place.expect("the room is never closed");
        let (session, stamp) = match self.take_idle() {
            Some(idle) => idle,
            None => {
                let stamp = self.stamp();
                (timeout(self.deadline, self.connect()).await.map_err(|_| Trouble::Late)??, stamp)
            }
        };
        *session.progress() = Progress::default();
        Ok(Line { session, stamp, pool: self, _place: place })
    }

    fn take_idle(&self) -> Option<(LineSession, Stamp)> {
        std::iter::from_fn(|| self.idle.take(clock::instant()))
            .find(|(session, _)| !session.client.is_closed())
    }

    /// The mark of a connection that is about to be opened.
    pub(super) fn stamp(&self) -> Stamp {
        self.idle.era().stamp(clock::instant())
    }

    /// Waits until connections with this mark are no longer lent.
    pub(super) async fn given_up(&self, stamp: Stamp) {
        self.idle.era().ended(stamp).await;
    }

    /// A connection of the caller's own, outside the pool, with what moves its bytes.
    pub(super) async fn connect_bare(&self) -> Result<(Client, Bare), Trouble> {
        Ok(self.config.connect(self.tls.clone()).await?)
    }

    async fn connect(&self) -> Result<LineSession, Trouble> {
        let (client, connection) = self.connect_bare().await?;
        let driver = tokio::spawn(async move {
            // The next question on it fails with the same error.
            let _ = connection.await;
        });
        Ok(LineSession {
            client,
            driver: driver.abort_handle(),
            statements: Mutex::default(),
            progress: Mutex::default(),
        })
    }
}

impl Line<'_> {
    /// Lends it to the next.
    pub(super) fn give_back(self) {
        let Line { session, stamp, pool, .. } = self;
        pool.idle.put(session, stamp, clock::instant());
    }

    /// Gives it up, and with it all connections that were opened no later.
    pub(super) fn give_up(self) {
        self.pool.idle.era().end(self.stamp);
    }

    /// Whether something that this verb sent may have been committed.
    pub(super) fn may_be_done(&self) -> bool {
        self.session.progress().may_be_done()
    }

    /// Asks one question.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Vec<Row>, Trouble> {
        let asks = [ask];
        let asked = async {
            self.prepare(&asks).await?;
            self.query(&asks[0]).await
        };
        timeout(self.pool.deadline, asked).await.map_err(|_| Trouble::Late)?
    }

    /// As [`Line::fly`], with more patience than the pool has.
    pub(super) async fn fly_within(&self, patience: Duration, flight: Pipeline) -> Result<Landed, Trouble> {
        let asked = async {
            self.prepare(&flight.asks).await?;
            join_all(flight.asks.iter().map(|ask| self.query(ask))).await.into_iter().collect()
        };
        let answers: Result<_, Trouble> = timeout(patience, asked).await.map_err(|_| Trouble::Late)?;
        Ok(Landed(answers?))
    }

    /// Asks several questions without waiting in between. The first that fails is told of: within a transaction, all after
    /// it have failed too.
    pub(super) async fn fly(&self, flight: Pipeline) -> Result<Landed, Trouble> {
        self.fly_within(self.pool.deadline, flight).await
    }

    /// Several statements in one text, without values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Trouble> {
        self.note_all(sql);
        let run = self.session.client.batch_execute(sql);
        Ok(timeout(self.pool.deadline, run).await.map_err(|_| Trouble::Late)??)
    }

    /// As [`Line::run`], for what may take as long as it takes.
    pub(super) async fn run_long(&self, sql: &str) -> Result<(), Trouble> {
        self.note_all(sql);
        Ok(self.session.client.batch_execute(sql).await?)
    }

    /// Takes note of a text of several statements. A semicolon within a literal only makes it more careful.
    fn note_all(&self, sql: &str) {
        let mut progress = self.session.progress();
        sql.split(';')
            .filter(|statement| !statement.trim().is_empty())
            .for_each(|statement| progress.note(statement));
    }

    /// The server no longer knows what was prepared, or no longer as it was.
    pub(super) fn forget_statements(&self) {
        self.session.statements().clear();
    }

    /// Prepares what is new to this connection.
    async fn prepare(&self, asks: &[Ask]) -> Result<(), Trouble> {
        if !self.pool.is_prepared {
            return Ok(());
        }
        let mut new: FxHashMap<&str, Vec<Type>> = FxHashMap::default();
        {
            let known = self.session.statements();
            for (ask, text) in asks.iter().filter_map(|ask| Some((ask, ask.lasting_text()?))) {
                if known.len() + new.len() < STATEMENTS_MAX && !known.contains_key(text) {
                    new.entry(text).or_insert_with(|| ask.types());
                }
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let client = &self.session.client;
        let prepared = try_join_all(new.into_iter().map(async |(text, types)| {
            Ok::<_, Trouble>((text.to_owned(), client.prepare_typed(text, &types).await?))
        }));
        let prepared = prepared.await?;
        self.session.statements().extend(prepared);
        Ok(())
    }

    async fn query(&self, ask: &Ask) -> Result<Vec<Row>, Trouble> {
        self.session.progress().note(&ask.sql);
        let statement = ask.lasting_text().and_then(|text| self.session.statements().get(text).cloned());
        let values = ask.values.iter().map(|(value, _)| &**value as &(dyn ToSql + Sync));
        let client = &self.session.client;
        Ok(match statement {
            Some(statement) => client.query(&statement, &values.collect::<Vec<_>>()).await?,
            None => {
                let typed: Vec<_> = values.zip(ask.types()).collect();
                client.query_typed(&ask.sql, &typed).await?
            }
        })
    }
}

impl LineSession {
    fn statements(&self) -> MutexGuard<'_, FxHashMap<String, Statement>> {
        self.statements.lock().expect("no code panics while it holds this lock")
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no code panics while it holds this lock")
    }
}
