//! Connections: how they are made, lent and thrown away.
//!
//! A connection whose answer was not waited for to the end is never used again: what it would say next belongs to another
//! question. It is simply dropped, and the next question makes a new one; that is also how a store comes back after its
//! server was away. A server that takes no writes is left in the same way: see [`crate::idle`].

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row, SslOpts};
use punctual_node::ports::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::read::{Record, Said};
use super::text::Script;
use super::trouble::Trouble;
use crate::clock;
use crate::idle::{Era, Idle, Stamp};
use crate::progress::Progress;

/// How many rows the tallies of a day are spread over.
const SLOTS: u32 = 64;

/// How long a connection may take to be made.
const CONNECT_FOR: Duration = Duration::from_secs(5);

/// How long a connection may rest. Servers and firewalls close idle connections, and the driver cannot look whether they did.
const REST_MAX: Duration = Duration::from_secs(60);

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

/// Whether a server takes no writes. Asked of each connection: an address can lead to another server than a minute ago.
pub(super) const READ_ONLY: &str = "select @@global.read_only, @@global.innodb_read_only";

/// What is said of a server that takes no writes.
const TAKES_NO_WRITES: &str = "the database server is read-only, as a replica is";

/// Where a server is found.
#[derive(Clone)]
pub(super) struct Address {
    /// Tried in their order.
    hosts: Vec<Opts>,
    access: Access,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// A server that takes no writes is passed over.
    Write,
    /// Any server will do.
    Read,
}

/// One connection.
pub(super) struct Line {
    conn: Conn,
    /// What the verb of the moment has sent.
    pub(super) progress: Progress,
}

impl Line {
    /// Connects to the first host that can be used, and makes the session ours.
    pub(super) async fn connect(address: &Address) -> Result<Line, Trouble> {
        let mut trouble = None;
        let patience = CONNECT_FOR / u32::try_from(address.hosts.len()).unwrap_or(1).max(1);
        for opts in &address.hosts {
            let opened = tokio::time::timeout(patience, Line::open(opts.clone(), address.access)).await;
            match opened.unwrap_or_else(|_| Err(silent())) {
                Ok(line) => return Ok(line),
                Err(why) => trouble = Some(why),
            }
        }
        Err(trouble.unwrap_or_else(silent))
    }

    async fn open(opts: Opts, access: Access) -> Result<Line, Trouble> {
        let mut line = Line { conn: Conn::new(opts).await?, progress: Progress::default() };
        let mut script = Script::new();
        for statement in SETUP {
            script.push(statement);
        }
        let mode = script.push(READ_ONLY);
        let said = line.ask(script).await?;
        match access {
            Access::Write if is_read_only(&said[mode])? => Err(Trouble::ReadOnly(TAKES_NO_WRITES.into())),
            _ => Ok(line),
        }
    }

    /// Refuses to go on with a server that takes no writes. A user with enough rights may write there all the same, and
    /// after a switch-over no node would ever read it.
    pub(super) fn check_writes(said: &Said) -> Result<(), Trouble> {
        match is_read_only(said)? {
            true => Err(Trouble::ReadOnly(TAKES_NO_WRITES.into())),
            false => Ok(()),
        }
    }

    /// Which row of a day's tallies this connection writes.
    pub(super) fn slot(&self) -> u32 {
        self.conn.id() % SLOTS
    }

    /// Sends a script; what was said, statement by statement.
    pub(super) async fn ask(&mut self, script: Script) -> Result<Vec<Said>, Trouble> {
        let mut said = Vec::new();
        script.statements().for_each(|statement| self.progress.note(statement));
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

fn silent() -> Trouble {
    Trouble::Broken(StoreError::Unknown("the database does not answer".into()))
}

/// What a server answers to [`READ_ONLY`]: numbers or words, by its version.
fn is_read_only(said: &Said) -> Result<bool, Trouble> {
    let Some(row) = said.first() else { return Ok(false) };
    let is_on = |cell| Ok::<_, Trouble>(!matches!(row.string(cell)?.as_str(), "0" | "OFF" | "off"));
    Ok(is_on(0)? || is_on(1)?)
}

/// A few connections to one server.
pub(super) struct Lines {
    address: Address,
    idle: Idle<Line>,
    permits: Semaphore,
}

/// A connection that is lent.
pub(super) struct Lent<'l> {
    pub(super) line: Line,
    stamp: Stamp,
    _permit: SemaphorePermit<'l>,
}

impl Lines {
    pub(super) fn new(address: Address, count: usize, era: Era) -> Lines {
        Lines { address, idle: Idle::new(era, REST_MAX), permits: Semaphore::new(count.max(1)) }
    }

    /// What a further connection is made with.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) async fn lend(&self) -> Result<Lent<'_>, Trouble> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| StoreError::Away("the store is closed".into()))?;
        let (mut line, stamp) = match self.idle.take(clock::instant()) {
            Some(idle) => idle,
            None => {
                let stamp = self.idle.era().stamp(clock::instant());
                (Line::connect(&self.address).await.map_err(Trouble::before_anything)?, stamp)
            }
        };
        line.progress = Progress::default();
        Ok(Lent { line, stamp, _permit: permit })
    }

    /// Takes a connection back that has nothing left to say.
    pub(super) fn give_back(&self, lent: Lent<'_>) {
        self.idle.put(lent.line, lent.stamp, clock::instant());
    }

    /// Gives up a connection, and with it all that were opened no later: where one is of no use, the others mostly are of
    /// none either.
    pub(super) fn give_up(&self, lent: Lent<'_>) {
        self.idle.era().end(lent.stamp);
    }
}

impl Address {
    /// What a URL says, with what we add to it. It may name several hosts: `mysql://user@a:3306,b:3306/database`.
    pub(super) fn of(
        url: &str,
        ca_file: Option<&str>,
        application: &str,
        access: Access,
    ) -> Result<Address, StoreError> {
        let hosts =
            one_each(url).iter().map(|url| opts_of(url, ca_file, application)).collect::<Result<_, _>>()?;
        Ok(Address { hosts, access })
    }
}

/// A URL for each host of a URL.
fn one_each(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let at = if user.is_empty() { "" } else { "@" };
    hosts.split(',').map(|host| format!("{scheme}://{user}{at}{host}{path}")).collect()
}

fn opts_of(url: &str, ca_file: Option<&str>, application: &str) -> Result<Opts, StoreError> {
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
        Trouble::ReadOnly(said) => StoreError::Away(said),
        Trouble::Crossed(said) | Trouble::Twin(said) => StoreError::Unknown(said),
        Trouble::OldDays | Trouble::Lacks(_) => StoreError::Unknown("a table is missing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_may_name_several_hosts() {
        assert_eq!(
            one_each("mysql://user:a,b%40c@one:3307,two/punctual?require_ssl=true"),
            [
                "mysql://user:a,b%40c@one:3307/punctual?require_ssl=true",
                "mysql://user:a,b%40c@two/punctual?require_ssl=true",
            ]
        );
        assert_eq!(one_each("mysql://one/punctual"), ["mysql://one/punctual"]);
        assert_eq!(one_each("nonsense"), ["nonsense"]);
    }
}
