//! Connections: how one is made, lent for a verb, and thrown away when it can no longer be trusted.
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
use super::ask::{Ask, Flight, Landed};
use super::trouble::Trouble;

/// How many statements a connection keeps by name. The program has fewer; should it ever have more, those are sent as texts.
const STATEMENTS_MAX: usize = 256;

/// Connections to one address.
pub(super) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
    is_prepared: bool,
    room: Semaphore,
    idle: Mutex<Vec<Session>>,
    deadline: Duration,
}

/// What moves the bytes of a connection.
pub(super) type Bare = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection, and the task that moves its bytes.
struct Session {
    client: Client,
    driver: AbortHandle,
    /// What is prepared on it, by its text.
    statements: Mutex<FxHashMap<&'static str, Statement>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Not left to the end of what was asked: nobody waits for that any more.
        self.driver.abort();
    }
}

/// A connection that is lent. Whoever does not give it back has found it broken, or was stopped in the middle.
pub(super) struct Line<'p> {
    session: Session,
    pool: &'p Pool,
    _place: SemaphorePermit<'p>,
}

impl Pool {
    pub(super) fn new(address: &Address, size: usize, deadline: Duration) -> Arc<Pool> {
        let Address { config, tls, is_prepared } = address;
        Arc::new(Pool {
            config: config.clone(),
            tls: tls.clone(),
            is_prepared: *is_prepared,
            room: Semaphore::new(size.max(1)),
            idle: Mutex::default(),
            deadline,
        })
    }

    /// A connection; a new one if none is idle.
    pub(super) async fn line(&self) -> Result<Line<'_>, Trouble> {
        let place = timeout(self.deadline, self.room.acquire()).await.map_err(|_| Trouble::Late)?;
        let place = place.expect("the room is never closed");
        let session = match self.idle() {
            Some(session) => session,
            None => timeout(self.deadline, self.connect()).await.map_err(|_| Trouble::Late)??,
        };
        Ok(Line { session, pool: self, _place: place })
    }

    fn idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().expect("nobody panics with it");
        std::iter::from_fn(|| idle.pop()).find(|session| !session.client.is_closed())
    }

    /// A connection that belongs to nobody but who asks, with what moves its bytes.
    pub(super) async fn connect_bare(&self) -> Result<(Client, Bare), Trouble> {
        Ok(self.config.connect(self.tls.clone()).await?)
    }

    async fn connect(&self) -> Result<Session, Trouble> {
        let (client, connection) = self.connect_bare().await?;
        let driver = tokio::spawn(async move {
            // Whoever asks learns of it.
            let _ = connection.await;
        });
        Ok(Session { client, driver: driver.abort_handle(), statements: Mutex::default() })
    }
}

impl Line<'_> {
    /// Lends it to the next.
    pub(super) fn give_back(self) {
        let Line { session, pool, .. } = self;
        pool.idle.lock().expect("nobody panics with it").push(session);
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

    /// Asks several questions without waiting in between. The first that fails is told of: within a transaction, all after
    /// it have failed too.
    pub(super) async fn fly(&self, flight: Flight) -> Result<Landed, Trouble> {
        let asked = async {
            self.prepare(&flight.asks).await?;
            join_all(flight.asks.iter().map(|ask| self.query(ask))).await.into_iter().collect()
        };
        let answers: Result<_, Trouble> =
            timeout(self.pool.deadline, asked).await.map_err(|_| Trouble::Late)?;
        Ok(Landed(answers?))
    }

    /// Several statements in one text, without values.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Trouble> {
        let run = self.session.client.batch_execute(sql);
        Ok(timeout(self.pool.deadline, run).await.map_err(|_| Trouble::Late)??)
    }

    /// As [`Line::run`], for what may take as long as it takes.
    pub(super) async fn run_long(&self, sql: &str) -> Result<(), Trouble> {
        Ok(self.session.client.batch_execute(sql).await?)
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
        let mut new: FxHashMap<&'static str, Vec<Type>> = FxHashMap::default();
        {
            let known = self.session.statements();
            for (ask, text) in asks.iter().filter_map(|ask| Some((ask, ask.fixed_text()?))) {
                if known.len() + new.len() < STATEMENTS_MAX && !known.contains_key(text) {
                    new.entry(text).or_insert_with(|| ask.types());
                }
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let client = &self.session.client;
        let prepared =
            try_join_all(new.into_iter().map(async |(text, types)| {
                Ok::<_, Trouble>((text, client.prepare_typed(text, &types).await?))
            }));
        let prepared = prepared.await?;
        self.session.statements().extend(prepared);
        Ok(())
    }

    async fn query(&self, ask: &Ask) -> Result<Vec<Row>, Trouble> {
        let statement = ask.fixed_text().and_then(|text| self.session.statements().get(text).cloned());
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

impl Session {
    fn statements(&self) -> MutexGuard<'_, FxHashMap<&'static str, Statement>> {
        self.statements.lock().expect("nobody panics with it")
    }
}
