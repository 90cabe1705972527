//! Connections: how one is made, lent for a verb, and thrown away when it can no longer be trusted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::ask::{Ask, Flight, Landed};
use super::trouble::Trouble;

/// Connections to one address.
pub(super) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
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
    pub(super) fn new(config: Config, tls: MakeRustlsConnect, size: usize, deadline: Duration) -> Arc<Pool> {
        let room = Semaphore::new(size.max(1));
        Arc::new(Pool { config, tls, room, idle: Mutex::default(), deadline })
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
        Ok(Session { client, driver: driver.abort_handle() })
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
        timeout(self.pool.deadline, self.query(&ask)).await.map_err(|_| Trouble::Late)?
    }

    /// Asks several questions without waiting in between. The first that fails is told of: within a transaction, all after
    /// it have failed too.
    pub(super) async fn fly(&self, flight: Flight) -> Result<Landed, Trouble> {
        let all = join_all(flight.asks.iter().map(|ask| self.query(ask)));
        let answers = timeout(self.pool.deadline, all).await.map_err(|_| Trouble::Late)?;
        Ok(Landed(answers.into_iter().collect::<Result<_, _>>()?))
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

    async fn query(&self, ask: &Ask) -> Result<Vec<Row>, Trouble> {
        let values: Vec<_> = ask
            .values
            .iter()
            .map(|(value, kind)| (&**value as &(dyn tokio_postgres::types::ToSql + Sync), kind.clone()))
            .collect();
        Ok(self.session.client.query_typed(&ask.sql, &values).await?)
    }
}
