//! The database of a scenario: the embedded store or a server, and the server's counters.
//!
//! A scratch server is started for the scenario with all settings for durability on. On a given server, the bench creates
//! databases of its own and drops them again.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use punctual_node::ports::{Browse, Store};
use punctual_scratch::{MariaDb, Postgres, Server};
use punctual_store::mysql::MySql;
use punctual_store::{Options, StoreClock};

use crate::BenchError;
use crate::bare::{BareDatabase, mariadb, postgres};
use crate::machine::cpu_seconds_of_all;
use crate::place::{DatabaseFolder, SHARDS, open};

/// The database that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DatabaseChoice {
    /// The embedded store.
    #[default]
    Embedded,
    /// A PostgreSQL started for the scenario.
    ScratchPostgres,
    /// A MariaDB started for the scenario.
    ScratchMariaDb,
    /// A running server at this address.
    Url(String),
}

impl FromStr for DatabaseChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<DatabaseChoice, String> {
        match text {
            "sqlite" | "embedded" => Ok(DatabaseChoice::Embedded),
            "scratch-postgres" => Ok(DatabaseChoice::ScratchPostgres),
            "scratch-mariadb" => Ok(DatabaseChoice::ScratchMariaDb),
            url if scheme(url).is_some() => Ok(DatabaseChoice::Url(url.to_owned())),
            other => Err(format!(
                "--database wants sqlite, scratch-postgres, scratch-mariadb or an address such as \
                 postgres://user@host/database, not {other:?}"
            )),
        }
    }
}

/// The kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
    MariaDb,
}

impl DatabaseKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            DatabaseKind::Sqlite => "SQLite",
            DatabaseKind::Postgres => "PostgreSQL",
            DatabaseKind::MariaDb => "MariaDB",
        }
    }
}

fn scheme(url: &str) -> Option<DatabaseKind> {
    match url.split_once("://")?.0 {
        "postgres" | "postgresql" => Some(DatabaseKind::Postgres),
        "mysql" | "mariadb" => Some(DatabaseKind::MariaDb),
        _ => None,
    }
}

/// A store with its views for people.
pub(crate) trait BrowsableStore: Store + Browse {}

impl<S: Store + Browse> BrowsableStore for S {}

/// A server, or a folder for files.
pub(crate) struct Database {
    pub(crate) kind: DatabaseKind,
    server: Option<Server>,
    url: String,
    place: DatabaseFolder,
}

/// Settings of scratch PostgreSQL servers beyond the defaults. Everything that makes commits durable stays on.
const POSTGRES: &[(&str, &str)] = &[
    ("shared_buffers", "512MB"),
    ("max_wal_size", "8GB"),
    ("wal_compression", "lz4"),
    ("shared_preload_libraries", "pg_stat_statements"),
];

/// The same for MariaDB.
const MARIADB: &[(&str, &str)] = &[("innodb-buffer-pool-size", "1G"), ("innodb-log-file-size", "1G")];

fn pairs(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Database {
    /// Starts the database.
    pub(crate) fn start(wanted: &DatabaseChoice, place: DatabaseFolder) -> Result<Database, BenchError> {
        let (kind, server) = match wanted {
            DatabaseChoice::Embedded => (DatabaseKind::Sqlite, None),
            DatabaseChoice::ScratchPostgres => {
                let wanted = Postgres {
                    fsync: true,
                    connections: 200,
                    settings: pairs(POSTGRES),
                    ..Postgres::default()
                };
                (DatabaseKind::Postgres, Some(wanted.start()?))
            }
            DatabaseChoice::ScratchMariaDb => {
                let wanted = MariaDb { fsync: true, connections: 200, settings: pairs(MARIADB) };
                (DatabaseKind::MariaDb, Some(wanted.start()?))
            }
            DatabaseChoice::Url(url) => (scheme(url).ok_or("the address names no known kind of database; expected postgres://, mysql:// or mariadb://")?, None),
        };
        let url = match (&server, wanted) {
            (Some(server), _) => server.url(),
            (None, DatabaseChoice::Url(url)) => url.clone(),
            _ => String::new(),
        };
        Ok(Database { kind, server, url, place })
    }

    /// The address of the server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder for files.
    pub(crate) fn place(&self) -> &DatabaseFolder {
        &self.place
    }

    /// Creates an empty database of this name, in place of an existing one.
    pub(crate) async fn empty(&self, name: &str) -> Result<Home, BenchError> {
        self.drop(name).await?;
        let base = self.url.rsplit_once('/').map_or("", |(base, _)| base);
        let address = format!("{base}/{}", made(name));
        match self.kind {
            DatabaseKind::Sqlite => {}
            DatabaseKind::Postgres => {
                postgres::say(&self.url, &format!("create database {}", made(name))).await?;
                // Without this extension statements are not counted.
                let _ = postgres::say(&address, "create extension pg_stat_statements").await;
            }
            DatabaseKind::MariaDb => {
                mariadb::say(&self.url, &format!("create database {}", made(name))).await?
            }
        }
        Ok(Home { kind: self.kind, address, file: self.place.file(&format!("{name}.db")) })
    }

    /// Drops a database.
    pub(crate) async fn drop(&self, name: &str) -> Result<(), BenchError> {
        match self.kind {
            DatabaseKind::Sqlite => self.place.delete(&format!("{name}.db")),
            DatabaseKind::Postgres => {
                postgres::say(&self.url, &format!("drop database if exists {} with (force)", made(name)))
                    .await?;
                // So that the next database does not pay for writes that this one left.
                let _ = postgres::say(&self.url, "checkpoint").await;
            }
            DatabaseKind::MariaDb => {
                mariadb::say(&self.url, &format!("drop database if exists {}", made(name))).await?;
            }
        }
        Ok(())
    }

    /// The CPU seconds of a scratch server so far; none for a given server.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.server.as_ref()?.id().map(cpu_seconds_of_all)
    }
}

/// The full name of a database of the bench.
fn made(name: &str) -> String {
    format!("punctual_bench_{}", name.replace('-', "_"))
}

/// One database and its address.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) kind: DatabaseKind,
    pub(crate) address: String,
    pub(crate) file: PathBuf,
}

impl Home {
    /// Opens it as a node does, with the given clock or with those of the machine and the database.
    pub(crate) async fn open(
        &self,
        clock: StoreClock,
        is_told: bool,
    ) -> Result<Arc<dyn BrowsableStore>, BenchError> {
        let options =
            Options { shards: SHARDS, clock: is_told.then(|| Arc::clone(&clock)), ..Options::default() };
        Ok(match self.kind {
            DatabaseKind::Sqlite => open(&self.file, clock)?,
            DatabaseKind::Postgres => Arc::new(punctual_store::Postgres::open(&self.address, options).await?),
            DatabaseKind::MariaDb => Arc::new(MySql::open(&self.address, options).await?),
        })
    }

    /// A connection for the bare limit.
    pub(crate) async fn bare(&self) -> Result<BareDatabase, BenchError> {
        BareDatabase::open(self).await
    }

    /// The server's counters; empty for SQLite.
    pub(crate) async fn counts(&self) -> Result<ServerCounts, BenchError> {
        match self.kind {
            DatabaseKind::Sqlite => Ok(ServerCounts::default()),
            DatabaseKind::Postgres => postgres::counts(&self.address).await,
            DatabaseKind::MariaDb => mariadb::counts(&self.address).await,
        }
    }
}

/// The counters of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerCounts {
    pub(crate) statements: Option<f64>,
    pub(crate) rows_read: Option<f64>,
    pub(crate) commits: Option<f64>,
    pub(crate) log_bytes: Option<f64>,
}

impl ServerCounts {
    /// The increase since `before`, divided by `each`.
    pub(crate) fn since(self, before: ServerCounts, each: f64) -> ServerCounts {
        let less = |now: Option<f64>, then: Option<f64>| Some((now? - then?) / each.max(1.0));
        ServerCounts {
            statements: less(self.statements, before.statements),
            rows_read: less(self.rows_read, before.rows_read),
            commits: less(self.commits, before.commits),
            log_bytes: less(self.log_bytes, before.log_bytes),
        }
    }
}
