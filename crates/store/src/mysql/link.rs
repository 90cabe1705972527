//! Connections: how they are made, lent and thrown away.
//!
//! A connection whose answer was not waited for to the end is never used again: what it would say next belongs to another
//! question. It is simply dropped, and the next who asks makes a new one; that is also how a store comes back after its
//! server was away.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, SslOpts};
use punctual_node::ports::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::read::{Record, Said};
use super::text::Script;
use super::trouble::Trouble;

/// How many rows the tallies of a day are spread over.
const SLOTS: u32 = 64;

/// How long a connection may take to be made.
const CONNECT_FOR: Duration = Duration::from_secs(5);

/// From when on a silent connection is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What every session begins with. The comment is read by MariaDB alone: there a client that was paused in the middle of a
/// transaction loses its locks.
const SETUP: [&str; 3] = [
    "set names utf8mb4",
    "set session transaction isolation level read committed",
    "set session time_zone = '+00:00',
                 autocommit = 1,
                 sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
                 innodb_lock_wait_timeout = 5,
                 lock_wait_timeout = 5
     /*M!100000 , idle_transaction_timeout = 2 */",
];

/// One connection.
pub(super) struct Line {
    conn: Conn,
}

impl Line {
    /// Connects, and makes the session ours.
    pub(super) async fn connect(opts: Opts) -> Result<Line, Trouble> {
        let made = tokio::time::timeout(CONNECT_FOR, async {
            let mut line = Line { conn: Conn::new(opts).await? };
            let mut script = Script::new();
            for statement in SETUP {
                script.push(statement);
            }
            line.ask(script).await?;
            Ok(line)
        });
        let late = || Trouble::Broken(StoreError::Unknown("the database does not answer".into()));
        made.await.unwrap_or_else(|_| Err(late()))
    }

    /// Which row of a day's tallies this connection writes.
    pub(super) fn slot(&self) -> u32 {
        self.conn.id() % SLOTS
    }

    /// Sends a script; what was said, statement by statement.
    pub(super) async fn ask(&mut self, script: Script) -> Result<Vec<Said>, Trouble> {
        let mut said = Vec::new();
        for (packet, count) in script.packets() {
            let mut result = self.conn.query_iter(packet).await?;
            for _ in 0..count {
                let affected = result.affected_rows();
                let rows: Vec<Row> = result.collect().await?;
                said.push(Said { rows: rows.into_iter().map(Record::from).collect(), affected });
            }
            result.drop_result().await?;
        }
        Ok(said)
    }

    /// Sends one statement.
    pub(super) async fn say(&mut self, statement: impl Into<String>) -> Result<Said, Trouble> {
        Ok(self.ask(Script::of(statement)).await?.pop().unwrap_or_default())
    }

    /// Leaves politely.
    pub(super) async fn hang_up(self) {
        // It is closed either way.
        let _ = self.conn.disconnect().await;
    }
}

/// A few connections to one server.
pub(super) struct Lines {
    opts: Opts,
    idle: Mutex<Vec<Line>>,
    permits: Semaphore,
}

/// A connection that is lent.
pub(super) struct Lent<'l> {
    pub(super) line: Line,
    _permit: SemaphorePermit<'l>,
}

impl Lines {
    pub(super) fn new(opts: Opts, count: usize) -> Lines {
        Lines { opts, idle: Mutex::default(), permits: Semaphore::new(count.max(1)) }
    }

    /// What a further connection is made with.
    pub(super) fn opts(&self) -> Opts {
        self.opts.clone()
    }

    pub(super) async fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::Unknown("the store is closed".into()))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let line = match idle {
            Some(line) => line,
            None => Line::connect(self.opts.clone()).await?,
        };
        Ok(Lent { line, _permit: permit })
    }

    /// Takes a connection back that has nothing left to say.
    pub(super) fn give_back(&self, lent: Lent<'_>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(lent.line);
    }

    /// Throws away what is idle: where one connection broke, the others mostly are broken too.
    pub(super) fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What a URL says, with what we add to it.
pub(super) fn opts_of(url: &str, ca_file: Option<&str>, application: &str) -> Result<Opts, StoreError> {
    let refuse = |said: String| StoreError::Unknown(said.into());
    // The parser's own words may repeat the URL, which may carry a password.
    let opts = Opts::from_url(url).map_err(|_| {
        refuse(
            "the database URL cannot be read; it looks like mysql://user:password@host:3306/database".into(),
        )
    })?;
    if opts.db_name().is_none_or(str::is_empty) {
        return Err(refuse("the database URL names no database; it ends with /database".into()));
    }
    let tls = match (opts.ssl_opts().cloned(), ca_file) {
        (tls, None) => tls,
        (tls, Some(file)) => {
            let roots = vec![std::path::PathBuf::from(file).into()];
            Some(tls.unwrap_or_else(SslOpts::default).with_root_certs(roots))
        }
    };
    let builder = OptsBuilder::from_opts(opts)
        .ssl_opts(tls)
        .prefer_socket(false)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE))
        .stmt_cache_size(0)
        .connect_attribute("program_name", application);
    Ok(builder.into())
}

/// What is said when a connection could not be made, in words that help.
pub(super) fn refusal(trouble: Trouble) -> StoreError {
    match trouble {
        Trouble::Refused(error) | Trouble::Broken(error) => error,
        Trouble::Crossed(said) | Trouble::Twin(said) => StoreError::Unknown(said),
        Trouble::OldDays => StoreError::Unknown("a table is missing".into()),
    }
}
